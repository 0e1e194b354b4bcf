//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
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
    /// It cannot be read. Without `--strict`, it was forwarded byte for byte.
    Failed,
}

impl Outcome {
    const ALL: [Self; 6] = [
        Self::Passed,
        Self::Unchanged,
        Self::Fitted,
        Self::NotVisible,
        Self::OverBudget,
        Self::Failed,
    ];

    /// Returns the value of the header `pannier-fit`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unchanged => "unchanged",
            Self::Fitted => "fitted",
            Self::NotVisible => "not-visible",
            Self::OverBudget => "over-budget",
            Self::Failed => "failed",
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<Outcome, u64>,
    statuses: BTreeMap<u16, u64>,
    tokens_in: i64,
    tokens_sent: i64,
    batches: u64,
    upstream_errors: u64,
}

impl Metrics {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, outcome: Outcome, figures: Option<Figures>, status: StatusCode) {
        let mut counts = self.counts();
        *counts.requests.entry(outcome).or_default() += 1;
        *counts.statuses.entry(status.as_u16()).or_default() += 1;
        if let Some(figures) = figures {
            counts.tokens_in = counts.tokens_in.saturating_add(figures.tokens_in);
            counts.tokens_sent = counts.tokens_sent.saturating_add(figures.tokens_sent);
            counts.batches += u64::from(figures.is_batch);
        }
    }

    pub(crate) fn add_upstream_error(&self) {
        self.counts().upstream_errors += 1;
    }

    fn text(&self) -> String {
        let counts = self.counts();
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut family = |name: &str, help: &str, samples: &[(String, i128)]| {
            let _ = write!(
                text,
                "# HELP pannier_gateway_{name} {help}\n# TYPE pannier_gateway_{name} counter\n"
            );
            for (labels, value) in samples {
                let _ = writeln!(text, "pannier_gateway_{name}{labels} {value}");
            }
        };
        let count = |count: u64| i128::from(count);
        let requests = Outcome::ALL.map(|outcome| {
            let value = counts.requests.get(&outcome).copied().unwrap_or_default();
            (format!("{{fit=\"{}\"}}", outcome.name()), count(value))
        });
        family("requests_total", "Requests by what became of them.", &requests);
        let statuses = counts.statuses.iter();
        let statuses: Vec<(String, i128)> = statuses
            .map(|(status, value)| (format!("{{status=\"{status}\"}}"), count(*value)))
            .collect();
        family("responses_total", "Responses by status.", &statuses);
        let single = |value: i128| [(String::new(), value)];
        family(
            "tokens_in_total",
            "Tokens of chats as clients sent them.",
            &single(counts.tokens_in.into()),
        );
        family(
            "tokens_sent_total",
            "Tokens of chats as providers got them.",
            &single(counts.tokens_sent.into()),
        );
        family(
            "prefix_edits_total",
            "Requests that changed blocks of the request before.",
            &single(count(counts.batches)),
        );
        family(
            "upstream_errors_total",
            "Requests without a response of the provider.",
            &single(count(counts.upstream_errors)),
        );
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
        let figures = Figures { tokens_in: 100, tokens_sent: 40, cuts: 3, is_batch: true };
        metrics.record(Outcome::Fitted, Some(figures), StatusCode::OK);
        metrics.record(Outcome::Passed, None, StatusCode::NOT_FOUND);
        metrics.add_upstream_error();
        let text = metrics.text();
        for line in [
            "pannier_gateway_requests_total{fit=\"fitted\"} 1",
            "pannier_gateway_requests_total{fit=\"failed\"} 0",
            "pannier_gateway_responses_total{status=\"404\"} 1",
            "pannier_gateway_tokens_in_total 100",
            "pannier_gateway_tokens_sent_total 40",
            "pannier_gateway_prefix_edits_total 1",
            "pannier_gateway_upstream_errors_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
