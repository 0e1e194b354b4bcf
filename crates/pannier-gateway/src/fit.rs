//! The decision about the body of a request.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderMap;
use pannier::ops::default_tokenizer;
use pannier::{ContextBudget, Policy, TokenCounter};
use pannier_chat::{ChatError, ChatInput, ChatSession, Fitted, Provider, SentBlock};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::counts::KnownCounts;
use crate::identity::{Client, Secret, hex};
use crate::ledger::{Entry, Ledger, Session, history_hashes};
use crate::margin::Margins;
use crate::recall::Recall;
use crate::{GatewayError, GatewayOptions};

/// A shorter body is counted before it is forwarded: that takes about a millisecond.
const MIN_EARLY_BYTES: usize = 32 << 10;

/// The priority of a thread that no request waits for, from 0 (that of others) to 19.
#[cfg(target_os = "linux")]
const BACKGROUND_PRIORITY: i32 = 10;

/// The longest name of a model that is remembered.
const MAX_MODEL_CHARS: usize = 128;

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is forwarded byte for byte: it fits.
    Unchanged(Fit),
    /// It is sent with shorter blocks.
    Fitted(Bytes, Fit),
    /// It is forwarded byte for byte: the provider has parts of its history.
    NotVisible(&'static str),
    /// It exceeds the budget after all cuts. This budget would do.
    OverBudget { smallest_budget: i64 },
    /// It cannot be read.
    Failed(String),
}

/// A request that fits, and its session.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) figures: Figures,
    pub(crate) session: Arc<Session>,
    pub(crate) model: String,
    /// The name of the receipt.
    pub(crate) receipt: String,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// As the client sent it.
    pub(crate) tokens_in: i64,
    /// As the provider gets it.
    pub(crate) tokens_sent: i64,
    /// The tokens of the longest beginning that the previous request of the session had, too, as providers get them, and
    /// as the client sent them.
    pub(crate) tokens_prefix: i64,
    pub(crate) tokens_in_prefix: i64,
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
            ..Self::default()
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
    policy_name: String,
    budget: i64,
    tokenizer: Option<Arc<dyn TokenCounter>>,
    secret: Secret,
    counts: KnownCounts,
    ledger: Arc<Ledger>,
    margins: Arc<Margins>,
    recall: Option<Arc<Recall>>,
}

impl Fitter {
    pub(crate) fn new(
        options: &GatewayOptions,
        secret: Secret,
        ledger: Arc<Ledger>,
        margins: Arc<Margins>,
        recall: Option<Arc<Recall>>,
    ) -> Result<Self, GatewayError> {
        let tokenizer = options.tokenizer.as_deref().map(pannier::tokens::counter_by_name);
        let fitter = Self {
            policy: options.policy()?,
            policy_name: options.policy.clone(),
            budget: options.budget,
            tokenizer: tokenizer.transpose()?.map(Arc::from),
            secret,
            counts: KnownCounts::default(),
            ledger,
            margins,
            recall,
        };
        fitter.context_budget(0, options.margin_percent)?;
        Ok(fitter)
    }

    /// Returns the budget of a request that reserves some tokens for its response.
    fn context_budget(
        &self,
        reserve: i64,
        margin_percent: f64,
    ) -> Result<ContextBudget, pannier::Error> {
        // A budget with this margin is checked, but sessions do not subtract it.
        let budget = |target| {
            ContextBudget::builder(self.budget, target)
                .output_reserve(reserve)
                .estimation_safety_margin_percent(margin_percent)
                .build()
        };
        let input = budget(0)?.input_tokens();
        let margin = (input as f64 * margin_percent / 100.0).ceil() as i64;
        budget((input - margin).max(0))
    }

    /// Decides about a body. The text is that of the body, decoded.
    ///
    /// Calls `forward` as soon as it is certain that the decision will be [`Decision::Unchanged`], if that is before the
    /// texts are counted.
    pub(crate) fn decide(
        &self,
        provider: Provider,
        headers: &HeaderMap,
        body: &[u8],
        forward: impl FnOnce(),
    ) -> Decision {
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
        match self.fit(provider, headers, text, forward) {
            Ok(decision) => decision,
            Err(error) => Decision::Failed(error.to_string()),
        }
    }

    fn fit(
        &self,
        provider: Provider,
        headers: &HeaderMap,
        text: &str,
        forward: impl FnOnce(),
    ) -> Result<Decision, ChatError> {
        let input = ChatInput::open(text, Some(provider), None)?;
        let reserve = input.max_output_tokens().unwrap_or(0);
        if reserve >= self.budget {
            return Ok(Decision::OverBudget { smallest_budget: reserve.saturating_add(1) });
        }
        let counter = match &self.tokenizer {
            Some(counter) => Cow::Borrowed(counter),
            None => Cow::Owned(counter_of(&input)),
        };
        let model: String = input.model().unwrap_or("").chars().take(MAX_MODEL_CHARS).collect();
        let client = self.secret.client(headers);
        let counter = self.counts.counter(&client, &**counter);
        let bound = counter.bound();
        let first: &dyn TokenCounter = match &bound {
            Some(bound) => bound,
            None => &counter,
        };
        let mut transcript = input.read(first)?;
        let protocol = protocol_name(provider);
        let hashes = history_hashes(&client, protocol, &transcript.message_digests());
        let session = self.ledger.session(&hashes, || self.margins.percent(&model));
        let budget = self.context_budget(reserve, session.margin_percent)?;
        let options = self.policy.session().cloned().unwrap_or_default();
        let mut fold = ChatSession::new(options, &counter);
        // Only an agent with a key can recall.
        let credential = self.recall.as_ref().and_then(|_| self.secret.credential(headers));
        if credential.is_none() {
            fold = fold.without_recall();
        }
        if bound.is_some() {
            if text.len() >= MIN_EARLY_BYTES && fold.is_below_pressure(&transcript, &budget) {
                forward();
                after_others(|| transcript.count_with(&counter));
            } else {
                transcript.count_with(&counter);
            }
        }
        let fitted = match fold.fit(&transcript, &budget) {
            Ok(fitted) => fitted,
            Err(ChatError::SessionOverBudget { smallest_budget, .. }) => {
                let smallest_budget = with_margin(smallest_budget, session.margin_percent);
                return Ok(Decision::OverBudget { smallest_budget });
            }
            Err(error) => return Err(error),
        };
        // A request that nothing is cut of is the client's own, also if the provider will refuse it.
        let body = (!fitted.cuts().is_empty()).then(|| Bytes::from(fitted.json()));
        let mut figures = Figures::new(&fitted);
        let body_in = body_hash(&client, text.as_bytes());
        let recorded = self.ledger.record(
            &session,
            Entry {
                hashes: &hashes,
                protocol,
                model: &model,
                tokenizer: counter.name(),
                policy: &self.policy_name,
                budget: self.budget,
                body_sent: body.as_ref().map_or_else(|| body_in.clone(), |b| body_hash(&client, b)),
                body_in,
                fit: if body.is_some() { "fitted" } else { "unchanged" },
                tokens_in: figures.tokens_in,
                tokens_sent: figures.tokens_sent,
                is_batch: figures.is_batch,
                cuts: fitted.cuts(),
                blocks: blocks(&model, &fitted),
            },
        );
        if let (Some(recall), Some(credential)) = (&self.recall, &credential)
            && (recorded.has_new_cuts || !session.is_stored())
        {
            let added = recall.add(credential, &fitted);
            if let Err(error) = &added {
                tracing::warn!(%error, "cannot keep what was cut");
            }
            session.set_stored(added.is_ok());
        }
        (figures.tokens_prefix, figures.tokens_in_prefix) =
            (recorded.tokens_prefix, recorded.tokens_in_prefix);
        let fit = Fit { figures, session, model, receipt: recorded.receipt };
        Ok(match body {
            None => Decision::Unchanged(fit),
            Some(body) => Decision::Fitted(body, fit),
        })
    }
}

/// Runs work that no request waits for, on a thread of its own that leaves the processors to the others.
fn after_others(work: impl FnOnce() + Send) {
    let mut work = Some(work);
    std::thread::scope(|scope| {
        let _ = std::thread::Builder::new().spawn_scoped(scope, || {
            lower_priority();
            work.take().into_iter().for_each(|work| work());
        });
    });
    // No thread could be started.
    work.take().into_iter().for_each(|work| work());
}

/// Lets other threads run before this one, where the system has priorities of threads.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        // Here, the priority of this process is that of the calling thread. Without it, counting takes as long.
        let _ = rustix::process::setpriority_process(None, BACKGROUND_PRIORITY);
    }
}

/// Returns the blocks of a request. Each model has a prompt cache of its own.
fn blocks(model: &str, fitted: &Fitted<'_, '_>) -> Vec<SentBlock> {
    let mut hash = [0; 8];
    hash.copy_from_slice(&blake3::hash(model.as_bytes()).as_bytes()[..8]);
    let mut blocks = fitted.blocks();
    blocks.insert(0, SentBlock::new(u64::from_le_bytes(hash), 0));
    blocks
}

fn body_hash(client: &Client, body: &[u8]) -> String {
    hex(&blake3::keyed_hash(&client.key("body"), body).as_bytes()[..16])
}

/// Returns a window whose margin leaves this many tokens.
fn with_margin(tokens: i64, margin_percent: f64) -> i64 {
    (tokens as f64 / (1.0 - margin_percent.min(99.0) / 100.0)).ceil() as i64
}

fn protocol_name(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "anthropic",
        Provider::Responses => "responses",
        _ => "openai",
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
    use pannier_server::Address;
    use proptest::prelude::*;

    use super::*;
    use crate::Upstreams;

    fn options(budget: i64, margin: f64) -> GatewayOptions {
        let address: Address = "0".parse().unwrap();
        let upstreams = Upstreams::parse(["http://localhost"]).unwrap();
        let mut options = GatewayOptions::new(address, upstreams, budget);
        options.margin_percent = margin;
        options.tokenizer = Some("bytes/4".to_owned());
        options
    }

    fn fitter_with(options: &GatewayOptions) -> Fitter {
        let ledger = Arc::new(Ledger::open(None));
        let margins = Arc::new(Margins::new(options.margin_percent, None));
        Fitter::new(options, Secret::random().unwrap(), ledger, margins, None).unwrap()
    }

    fn fitter(budget: i64, margin: f64) -> Fitter {
        fitter_with(&options(budget, margin))
    }

    fn decide(fitter: &Fitter, provider: Provider, body: &str) -> Decision {
        fitter.decide(provider, &HeaderMap::new(), body.as_bytes(), || {})
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
        let Decision::Unchanged(Fit { figures, .. }) =
            decide(&fitter(1_000_000, 0.0), Provider::Anthropic, &request)
        else {
            panic!("it fits");
        };
        assert_eq!((figures.tokens_in, figures.cuts), (figures.tokens_sent, 0));
        let Decision::Fitted(body, Fit { figures: fitted, .. }) =
            decide(&fitter(4_000, 0.0), Provider::Anthropic, &request)
        else {
            panic!("it does not fit");
        };
        assert_eq!(fitted.tokens_in, figures.tokens_in);
        assert!(fitted.tokens_sent <= 3_900 && fitted.cuts > 0, "{fitted:?}");
        assert!(body.starts_with(br#"{"model":"claude-x","max_tokens":100,"messages":["#));
        let Decision::Fitted(_, Fit { figures: margin, .. }) =
            decide(&fitter(4_000, 10.0), Provider::Anthropic, &request)
        else {
            panic!("it does not fit");
        };
        assert!(margin.tokens_sent <= 3_510, "{margin:?}");
        assert_eq!(with_margin(3_600, 10.0), 4_000);
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_request_that_is_forwarded_before_it_is_counted_fits(
            words in prop::collection::vec(prop::sample::select(&["a ", "word ", "漢字", "\u{1f600}", "0x7f;", "\\n    ", "Grüße "][..]), 1..20),
            (turns, length) in (1..12_usize, 3_000..9_000_usize),
            budget in 1_000..2_000_000_i64,
            margin in 0.0..40.0_f64,
            tokenizer in prop::sample::select(&["o200k", "cl100k", "claude", "bytes/4", "script"][..]),
            profile in prop::sample::select(&["careful", "balanced", "thrifty"][..]),
        ) {
            let text = words.concat();
            let result = text.repeat(length.div_ceil(text.len()));
            let messages: Vec<String> = (0..turns).map(|turn| format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c{turn}","name":"Bash","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{turn}","content":"{turn} {result}"}}]}}"#
            )).collect();
            let body = format!(r#"{{"max_tokens":50,"system":"{text}","messages":[{{"role":"user","content":"Go."}},{}]}}"#, messages.join(","));
            let mut options = options(budget, margin);
            (options.tokenizer, options.policy) = (Some(tokenizer.to_owned()), profile.to_owned());
            let fitter = fitter_with(&options);
            // The second time, all counts are known.
            for _ in 0..2 {
                let mut is_forwarded = false;
                let decision = fitter.decide(Provider::Anthropic, &HeaderMap::new(), body.as_bytes(), || is_forwarded = true);
                let is_unchanged = matches!(decision, Decision::Unchanged(_));
                prop_assert!(is_unchanged || !is_forwarded, "{decision:?}");
                let is_early = body.len() >= MIN_EARLY_BYTES && tokenizer != "script";
                prop_assert!(is_early || !is_forwarded);
                let tokens = body.len() as i64 * 12;
                prop_assert!(!is_early || is_forwarded || budget < tokens, "it is far below the budget");
            }
        }
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
