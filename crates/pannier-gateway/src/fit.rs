//! The decision about the body of a request.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderMap;
use pannier::ops::default_tokenizer;
use pannier::{ContextBudget, Policy, TokenCounter};
use pannier_chat::{ChatError, ChatInput, ChatSession, Fitted, Provider};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::counts::KnownCounts;
use crate::{GatewayError, GatewayOptions};

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is forwarded byte for byte: it fits.
    Unchanged(Figures),
    /// It is sent with shorter blocks.
    Fitted(Bytes, Figures),
    /// It is forwarded byte for byte: the provider has parts of its history.
    NotVisible(&'static str),
    /// It exceeds the budget after all cuts. This budget would do.
    OverBudget { smallest_budget: i64 },
    /// It cannot be read.
    Failed(String),
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// As the client sent it.
    pub(crate) tokens_in: i64,
    /// As the provider gets it.
    pub(crate) tokens_sent: i64,
    /// The number of blocks with a shorter form.
    pub(crate) cuts: usize,
    /// Whether blocks were cut that the previous request of the session contained.
    pub(crate) is_batch: bool,
}

impl Figures {
    fn new(fitted: &Fitted<'_, '_>) -> Self {
        let saved: i64 = fitted.cuts().iter().map(|cut| cut.tokens_before - cut.tokens_after).sum();
        Self {
            tokens_in: fitted.tokens() + saved,
            tokens_sent: fitted.tokens(),
            cuts: fitted.cuts().len(),
            is_batch: fitted.is_batch(),
        }
    }
}

/// The fields of a request whose history the provider keeps.
#[derive(Deserialize)]
struct Stored<'t> {
    #[serde(borrow)]
    previous_response_id: Option<&'t RawValue>,
    #[serde(borrow)]
    conversation: Option<&'t RawValue>,
}

/// Fits requests into a budget.
#[derive(Debug)]
pub(crate) struct Fitter {
    policy: Policy,
    budget: i64,
    margin_percent: f64,
    tokenizer: Option<Arc<dyn TokenCounter>>,
    counts: KnownCounts,
}

impl Fitter {
    pub(crate) fn new(
        options: &GatewayOptions,
        policy: Policy,
        counts: KnownCounts,
    ) -> Result<Self, GatewayError> {
        let tokenizer = options.tokenizer.as_deref().map(pannier::tokens::counter_by_name);
        let fitter = Self {
            policy,
            budget: options.budget,
            margin_percent: options.margin_percent,
            tokenizer: tokenizer.transpose()?.map(Arc::from),
            counts,
        };
        fitter.context_budget(0)?;
        Ok(fitter)
    }

    /// Returns the budget of a request that reserves some tokens for its response.
    fn context_budget(&self, reserve: i64) -> Result<ContextBudget, pannier::Error> {
        // A budget with this margin is checked, but sessions do not subtract it.
        let budget = |target| {
            ContextBudget::builder(self.budget, target)
                .output_reserve(reserve)
                .estimation_safety_margin_percent(self.margin_percent)
                .build()
        };
        let input = budget(0)?.input_tokens();
        let margin = (input as f64 * self.margin_percent / 100.0).ceil() as i64;
        budget((input - margin).max(0))
    }

    /// Decides about a body. The text is that of the body, decoded.
    pub(crate) fn decide(&self, provider: Provider, headers: &HeaderMap, body: &[u8]) -> Decision {
        let Ok(text) = std::str::from_utf8(body) else {
            return Decision::Failed("the body is not UTF-8".to_owned());
        };
        if provider == Provider::Responses
            && let Ok(stored) = serde_json::from_str::<Stored<'_>>(text)
        {
            let is_set = |field: Option<&RawValue>| field.is_some_and(|raw| raw.get() != "null");
            if is_set(stored.previous_response_id) {
                return Decision::NotVisible("previous_response_id");
            }
            if is_set(stored.conversation) {
                return Decision::NotVisible("conversation");
            }
        }
        match self.fit(provider, headers, text) {
            Ok(decision) => decision,
            Err(ChatError::SessionOverBudget { smallest_budget, .. }) => {
                Decision::OverBudget { smallest_budget: self.with_margin(smallest_budget) }
            }
            Err(error) => Decision::Failed(error.to_string()),
        }
    }

    /// Returns a window whose margin leaves this many tokens.
    fn with_margin(&self, tokens: i64) -> i64 {
        (tokens as f64 / (1.0 - self.margin_percent.min(99.0) / 100.0)).ceil() as i64
    }

    fn fit(
        &self,
        provider: Provider,
        headers: &HeaderMap,
        text: &str,
    ) -> Result<Decision, ChatError> {
        let input = ChatInput::open(text, Some(provider), None)?;
        let reserve = input.max_output_tokens().unwrap_or(0);
        if reserve >= self.budget {
            return Ok(Decision::OverBudget { smallest_budget: reserve.saturating_add(1) });
        }
        let budget = self.context_budget(reserve)?;
        let counter = match &self.tokenizer {
            Some(counter) => Cow::Borrowed(counter),
            None => Cow::Owned(counter_of(&input)),
        };
        let client = self.counts.client(headers, counter.name());
        let counter = self.counts.counter(client, &**counter);
        let transcript = input.read(&counter)?;
        let options = self.policy.session().cloned().unwrap_or_default();
        // The gateway adds no tool, so the agent has nothing to recall with.
        let session = ChatSession::new(options, &counter).without_recall();
        let fitted = session.fit(&transcript, &budget)?;
        let figures = Figures::new(&fitted);
        // A request that nothing is cut of is the client's own, also if the provider will refuse it.
        Ok(match fitted.cuts().is_empty() {
            true => Decision::Unchanged(figures),
            false => Decision::Fitted(Bytes::from(fitted.json()), figures),
        })
    }
}

/// Returns the counter of a request's model, or of its provider.
fn counter_of(input: &ChatInput<'_>) -> Arc<dyn TokenCounter> {
    let named = input.model().and_then(|model| pannier::tokens::builtin_counter(model).ok());
    let counter = named
        .or_else(|| pannier::tokens::builtin_counter(default_tokenizer(input.provider())).ok());
    // The defaults of providers are always built in.
    counter.map_or_else(|| Arc::new(pannier::tokens::BytesOverFour) as _, Arc::from)
}

#[cfg(test)]
mod tests {
    use pannier::PolicyRegistry;
    use pannier_server::Address;

    use super::*;
    use crate::Upstreams;

    fn fitter(budget: i64, margin: f64) -> Fitter {
        let address: Address = "0".parse().unwrap();
        let upstreams = Upstreams::parse(["http://localhost"]).unwrap();
        let mut options = GatewayOptions::new(address, upstreams, budget);
        options.margin_percent = margin;
        options.tokenizer = Some("bytes/4".to_owned());
        let policy = PolicyRegistry::default().policy("balanced").unwrap().clone();
        Fitter::new(&options, policy, KnownCounts::new().unwrap()).unwrap()
    }

    fn decide(fitter: &Fitter, provider: Provider, body: &str) -> Decision {
        fitter.decide(provider, &HeaderMap::new(), body.as_bytes())
    }

    /// A request with long tool results.
    fn long_request(extra: &str) -> String {
        let mut messages = vec![r#"{"role":"user","content":"Fix it."}"#.to_owned()];
        for number in 0..30 {
            let result = format!("line of output {number} ").repeat(40);
            messages.push(format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c{number}","name":"Bash","input":{{"command":"run {number}"}}}}]}}"#
            ));
            messages.push(format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{number}","content":"{result}"}}]}}"#
            ));
        }
        format!("{{{extra}\"messages\":[{}]}}", messages.join(","))
    }

    #[test]
    fn requests_are_unchanged_until_they_must_be_cut() {
        let request = long_request(r#""model":"claude-x","max_tokens":100,"#);
        let Decision::Unchanged(figures) =
            decide(&fitter(1_000_000, 0.0), Provider::Anthropic, &request)
        else {
            panic!("it fits");
        };
        assert_eq!((figures.tokens_in, figures.cuts), (figures.tokens_sent, 0));
        let Decision::Fitted(body, fitted) =
            decide(&fitter(4_000, 0.0), Provider::Anthropic, &request)
        else {
            panic!("it does not fit");
        };
        assert_eq!(fitted.tokens_in, figures.tokens_in);
        assert!(fitted.tokens_sent <= 3_900 && fitted.cuts > 0, "{fitted:?}");
        assert!(body.starts_with(br#"{"model":"claude-x","max_tokens":100,"messages":["#));
        let Decision::Fitted(_, margin) =
            decide(&fitter(4_000, 10.0), Provider::Anthropic, &request)
        else {
            panic!("it does not fit");
        };
        assert!(margin.tokens_sent <= 3_510, "{margin:?}");
        assert_eq!(fitter(4_000, 10.0).with_margin(3_600), 4_000);
    }

    #[test]
    fn a_budget_that_is_too_small_names_one_that_does() {
        let request = long_request("");
        let Decision::OverBudget { smallest_budget } =
            decide(&fitter(60, 5.0), Provider::Anthropic, &request)
        else {
            panic!("it cannot fit");
        };
        let decision = decide(&fitter(smallest_budget, 5.0), Provider::Anthropic, &request);
        assert!(matches!(decision, Decision::Fitted(..)), "{smallest_budget}: {decision:?}");
        let request = long_request("\"max_tokens\":5000,");
        let decision = decide(&fitter(4_000, 0.0), Provider::Anthropic, &request);
        assert!(matches!(decision, Decision::OverBudget { .. }), "{decision:?}");
    }

    #[test]
    fn histories_that_the_provider_keeps_are_not_visible() {
        let fitter = fitter(1_000, 0.0);
        let with = |fields: &str| {
            let body = format!(r#"{{"model":"gpt-5",{fields}"input":"hello"}}"#);
            decide(&fitter, Provider::Responses, &body)
        };
        for fields in [r#""previous_response_id":"r1","#, r#""conversation":{"id":"c"},"#] {
            assert!(matches!(with(fields), Decision::NotVisible(_)), "{fields}");
        }
        let decision = with(r#""previous_response_id":null,"#);
        assert!(matches!(decision, Decision::Unchanged(_)), "{decision:?}");
        let decision = decide(&fitter, Provider::OpenAi, "{");
        assert!(matches!(decision, Decision::Failed(_)), "{decision:?}");
    }
}
