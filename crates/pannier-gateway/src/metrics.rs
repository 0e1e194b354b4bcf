//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

use crate::fit::Figures;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// It is not a chat, and was forwarded.
    Passed,
    /// It fits, and was forwarded byte for byte.
    Unchanged,
    /// It was sent with shorter blocks.
    Fitted,
    /// The provider has parts of its history; it was forwarded byte for byte.
    NotVisible,
    /// It does not fit. Without `--strict`, it was forwarded byte for byte.
    OverBudget,
    /// It asked for what was cut, and was answered.
    Recall,
    /// It cannot be read. Without `--strict`, it was forwarded byte for byte.
    Failed,
    /// It was not forwarded: it is invalid, or its client was gone before it had arrived.
    Refused,
}

impl Outcome {
    const ALL: [Self; 8] = [
        Self::Passed,
        Self::Unchanged,
        Self::Fitted,
        Self::NotVisible,
        Self::OverBudget,
        Self::Recall,
        Self::Failed,
        Self::Refused,
    ];

    /// Returns the value of the header `pannier-fit`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unchanged => "unchanged",
            Self::Fitted => "fitted",
            Self::NotVisible => "not-visible",
            Self::OverBudget => "over-budget",
            Self::Recall => "recall",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    prices: TokenPrices,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<Outcome, u64>,
    statuses: BTreeMap<u16, u64>,
    tokens_in: i64,
    tokens_sent: i64,
    tokens_prefix: i64,
    /// In the unit of the prices.
    price_in: f64,
    price_sent: f64,
    batches: u64,
    upstream_errors: u64,
    /// Responses with the provider's own count, its tokens, and ours for the same requests.
    checked: u64,
    tokens_reported: u64,
    tokens_counted: u64,
}

/// The prices of tokens, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenPrices {
    /// Of a token that the provider's prompt cache has.
    pub read: f64,
    /// Of any other token.
    pub write: f64,
}

impl TokenPrices {
    /// Creates prices.
    pub fn new(read: f64, write: f64) -> Self {
        Self { read, write }
    }

    /// Returns the price of a request of which the cache has a part.
    fn price(self, tokens: i64, cached: i64) -> f64 {
        self.read * cached as f64 + self.write * (tokens - cached) as f64
    }
}

/// Anthropic's prices, relative to plain input: a tenth for a read, a quarter more for a write.
impl Default for TokenPrices {
    fn default() -> Self {
        Self::new(0.1, 1.25)
    }
}

impl Metrics {
    pub(crate) fn new(prices: TokenPrices) -> Self {
        Self { prices, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, outcome: Outcome, figures: Option<Figures>, status: u16) {
        let mut counts = self.counts();
        *counts.requests.entry(outcome).or_default() += 1;
        *counts.statuses.entry(status).or_default() += 1;
        if let Some(figures) = figures {
            counts.tokens_in = counts.tokens_in.saturating_add(figures.tokens_in);
            counts.tokens_sent = counts.tokens_sent.saturating_add(figures.tokens_sent);
            counts.tokens_prefix = counts.tokens_prefix.saturating_add(figures.tokens_prefix);
            counts.price_in += self.prices.price(figures.tokens_in, figures.tokens_in_prefix);
            counts.price_sent += self.prices.price(figures.tokens_sent, figures.tokens_prefix);
            counts.batches += u64::from(figures.is_batch);
        }
    }

    /// Adds the provider's own count of a request, and ours.
    pub(crate) fn add_usage(&self, counted: u64, reported: u64) {
        let mut counts = self.counts();
        counts.checked += 1;
        counts.tokens_counted = counts.tokens_counted.saturating_add(counted);
        counts.tokens_reported = counts.tokens_reported.saturating_add(reported);
    }

    pub(crate) fn add_upstream_error(&self) {
        self.counts().upstream_errors += 1;
    }

    fn text(&self) -> String {
        let counts = self.counts();
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut family = |name: &str, help: &str, samples: &[(String, String)]| {
            let _ = write!(
                text,
                "# HELP pannier_gateway_{name} {help}\n# TYPE pannier_gateway_{name} counter\n"
            );
            for (labels, value) in samples {
                let _ = writeln!(text, "pannier_gateway_{name}{labels} {value}");
            }
        };
        let requests = Outcome::ALL.map(|outcome| {
            let value = counts.requests.get(&outcome).copied().unwrap_or_default();
            (format!("{{fit=\"{}\"}}", outcome.name()), value.to_string())
        });
        family("requests_total", "Requests by what became of them.", &requests);
        let statuses = counts.statuses.iter();
        let statuses: Vec<(String, String)> = statuses
            .map(|(status, value)| (format!("{{status=\"{status}\"}}"), value.to_string()))
            .collect();
        family("responses_total", "Responses by status.", &statuses);
        let saved = counts.tokens_in.saturating_sub(counts.tokens_sent);
        let singles: [(&str, &str, &dyn std::fmt::Display); 11] = [
            (
                "tokens_in_total",
                "Tokens of chats as clients sent them, of those that providers took.",
                &counts.tokens_in,
            ),
            ("tokens_sent_total", "Tokens of chats as providers got them.", &counts.tokens_sent),
            ("tokens_saved_total", "Tokens of chats that were not sent.", &saved),
            (
                "tokens_prefix_total",
                "Tokens of chats that the request before began with, too.",
                &counts.tokens_prefix,
            ),
            ("price_in_total", "Estimated price of chats as clients sent them.", &counts.price_in),
            (
                "price_sent_total",
                "Estimated price of chats as providers got them.",
                &counts.price_sent,
            ),
            (
                "prefix_edits_total",
                "Requests that changed blocks of the request before.",
                &counts.batches,
            ),
            (
                "usage_checked_total",
                "Responses with a token count of the provider.",
                &counts.checked,
            ),
            (
                "usage_reported_total",
                "Tokens of these requests as providers count them.",
                &counts.tokens_reported,
            ),
            (
                "usage_counted_total",
                "Tokens of these requests as the gateway counts them.",
                &counts.tokens_counted,
            ),
            (
                "upstream_errors_total",
                "Requests without a whole response of the provider.",
                &counts.upstream_errors,
            ),
        ];
        for (name, help, value) in singles {
            family(name, help, &[(String::new(), value.to_string())]);
        }
        text
    }
}

/// Returns the routes of the metrics' own address.
pub(crate) fn router(metrics: Arc<Metrics>) -> Router {
    let text = |State(metrics): State<Arc<Metrics>>| async move {
        ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text())
    };
    Router::new().route("/metrics", get(text)).with_state(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_count_outcomes_and_tokens() {
        let metrics = Metrics::default();
        let figures = Figures {
            tokens_in: 100,
            tokens_sent: 40,
            tokens_prefix: 20,
            tokens_in_prefix: 60,
            cuts: 3,
            is_batch: true,
        };
        metrics.add_usage(40, 42);
        metrics.record(Outcome::Fitted, Some(figures), 200);
        metrics.record(Outcome::Passed, None, 404);
        metrics.add_upstream_error();
        let text = metrics.text();
        for line in [
            "pannier_gateway_requests_total{fit=\"fitted\"} 1",
            "pannier_gateway_requests_total{fit=\"failed\"} 0",
            "pannier_gateway_responses_total{status=\"404\"} 1",
            "pannier_gateway_tokens_in_total 100",
            "pannier_gateway_tokens_sent_total 40",
            "pannier_gateway_tokens_saved_total 60",
            "pannier_gateway_tokens_prefix_total 20",
            "pannier_gateway_price_in_total 56",
            "pannier_gateway_price_sent_total 27",
            "pannier_gateway_prefix_edits_total 1",
            "pannier_gateway_usage_checked_total 1",
            "pannier_gateway_usage_reported_total 42",
            "pannier_gateway_usage_counted_total 40",
            "pannier_gateway_upstream_errors_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
