//! The decision about the body of a request.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::HeaderMap;
use pannier::ops::default_tokenizer;
use pannier::{ContextBudget, Policy, TokenCounter};
use pannier_chat::{
    ChatError, ChatInput, ChatSession, Fitted, Provider, Repair, SentBlock, Transcript,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::counts::{KnownCounts, OneByOne};
use crate::identity::{Client, Secret, hex};
use crate::ledger::{CutRecord, Entry, Ledger, RepairRecord, Session, history_hashes};
use crate::margin::Margins;
use crate::recall::Recall;
use crate::{GatewayError, GatewayOptions};

/// A shorter body is counted before it is forwarded: that takes about a millisecond.
const MIN_EARLY_BYTES: usize = 32 << 10;

/// The priority of a thread that no request waits for, from 0 (that of others) to 19.
#[cfg(target_os = "linux")]
const BACKGROUND_PRIORITY: i32 = 10;

/// The number of repairs in a receipt.
const MAX_REPAIRS: usize = 100;

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
    /// Decoded, it exceeds the bound on bodies.
    TooLong,
    /// It cannot be read.
    Failed(String),
}

/// A request that fits, and what is recorded about it once its provider has taken it.
#[derive(Debug)]
pub(crate) struct Fit {
    figures: Figures,
    session: Arc<Session>,
    entry: Entry,
}

impl Fit {
    /// Returns what is known about a request that is not recorded.
    pub(crate) fn unrecorded(self) -> Report {
        let Self { figures, session, entry } = self;
        Report {
            figures,
            session,
            model: entry.model,
            repairs: entry.repairs.len(),
            receipt: String::new(),
        }
    }
}

/// What is reported about a request that fits.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) figures: Figures,
    pub(crate) session: Arc<Session>,
    pub(crate) model: String,
    /// The number of messages that are changed because the provider would refuse them.
    pub(crate) repairs: usize,
    /// The name of the receipt; empty if the request is not recorded.
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
    fn new(fitted: &Fitted<'_, '_>, tokens_in: i64) -> Self {
        let is_whole = fitted.cuts().is_empty();
        Self {
            tokens_in,
            tokens_sent: if is_whole { tokens_in } else { fitted.tokens() },
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
    /// Held while a forwarded request is counted: one at a time leaves the processors to the others.
    background: Mutex<()>,
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
            background: Mutex::default(),
        };
        fitter.context_budget(options.budget, 0, options.margin_percent)?;
        Ok(fitter)
    }

    /// Returns the budget of a request that reserves some tokens of a window for its response.
    fn context_budget(
        &self,
        window: i64,
        reserve: i64,
        margin_percent: f64,
    ) -> Result<ContextBudget, pannier::Error> {
        // A budget with this margin is checked, but sessions do not subtract it.
        let budget = |target| {
            ContextBudget::builder(window, target)
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
    /// texts are counted. If it returns `false`, the request is not forwarded before that.
    pub(crate) fn decide(
        &self,
        provider: Provider,
        headers: &HeaderMap,
        body: &[u8],
        forward: impl FnOnce() -> bool,
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
        forward: impl FnOnce() -> bool,
    ) -> Result<Decision, ChatError> {
        let input = ChatInput::open(text, Some(provider), None)?;
        // Lists, logs and lines of messages are chats, too, but no requests.
        if !text.trim_start().starts_with('{') || !std::ptr::eq(input.text(), text) {
            return Ok(Decision::Failed("the body is not a JSON object".to_owned()));
        }
        let reserve = input.max_output_tokens().unwrap_or(0);
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
        // With less, no budget leaves a token for the request.
        let window = self.budget.max(reserve.saturating_add(1));
        let limits = Limits { reserve, margin_percent: session.margin_percent };
        let options = self.policy.session().cloned().unwrap_or_default();
        let mut fold = ChatSession::new(options, &counter);
        // Only an agent with a key can recall.
        let credential = self.recall.as_ref().and_then(|_| self.secret.credential(headers));
        if credential.is_none() {
            fold = fold.without_recall();
        }
        if bound.is_some() {
            if text.len() >= MIN_EARLY_BYTES
                && window == self.budget
                && fold.is_below_pressure(&transcript, &self.budget_of(window, limits)?)
                && forward()
            {
                self.after_others(|| transcript.count_with(&OneByOne(&counter)));
            } else {
                transcript.count_with(&counter);
            }
        }
        let fitted = match self.fit_window(&fold, &transcript, window, limits)? {
            Ok(fitted) if window == self.budget => fitted,
            Ok(_) => return Ok(Decision::OverBudget { smallest_budget: window }),
            Err(larger) => {
                let smallest_budget = self.sufficient(&fold, &transcript, larger, limits)?;
                return Ok(Decision::OverBudget { smallest_budget });
            }
        };
        // A request that nothing is cut of is the client's own, also if the provider will refuse it.
        let body = (!fitted.cuts().is_empty()).then(|| Bytes::from(fitted.json()));
        let figures = Figures::new(&fitted, transcript.input_tokens());
        if let (Some(recall), Some(credential)) = (&self.recall, &credential)
            && (session.has_new_cuts(fitted.cuts()) || !session.is_stored())
        {
            let added = recall.add(credential, &fitted);
            if let Err(error) = &added {
                tracing::warn!(%error, "cannot keep what was cut");
            }
            session.set_stored(added.is_ok());
        }
        let body_in = body_hash(&client, text.as_bytes());
        let entry = Entry {
            hashes,
            protocol,
            tokenizer: counter.name().to_owned(),
            policy: self.policy_name.clone(),
            budget: self.budget,
            body_sent: body.as_ref().map_or_else(|| body_in.clone(), |b| body_hash(&client, b)),
            body_in,
            fit: if body.is_some() { "fitted" } else { "unchanged" },
            tokens_in: figures.tokens_in,
            tokens_sent: figures.tokens_sent,
            is_batch: figures.is_batch,
            cuts: fitted.cuts().iter().map(CutRecord::new).collect(),
            repairs: if body.is_some() { repairs(&transcript) } else { Vec::new() },
            blocks: blocks(&model, &fitted),
            model,
        };
        let fit = Fit { figures, session, entry };
        Ok(match body {
            None => Decision::Unchanged(fit),
            Some(body) => Decision::Fitted(body, fit),
        })
    }

    fn budget_of(&self, window: i64, limits: Limits) -> Result<ContextBudget, pannier::Error> {
        self.context_budget(window, limits.reserve, limits.margin_percent)
    }

    /// Fits a request into a window, or returns a larger window that may be sufficient.
    fn fit_window<'s, 't>(
        &self,
        fold: &ChatSession<'_>,
        transcript: &'s Transcript<'t>,
        window: i64,
        limits: Limits,
    ) -> Result<Result<Fitted<'s, 't>, i64>, ChatError> {
        let budget = self.budget_of(window, limits)?;
        let larger = |tokens: i64| Ok(Err(with_margin(tokens, limits.margin_percent)));
        match fold.fit(transcript, &budget) {
            // Sent byte for byte, it has also what the provider may refuse.
            Ok(fitted)
                if fitted.cuts().is_empty()
                    && transcript.input_tokens() > budget.target_tokens() =>
            {
                larger(transcript.input_tokens().saturating_add(limits.reserve))
            }
            Err(ChatError::SessionOverBudget { smallest_budget, .. }) => larger(smallest_budget),
            fitted => fitted.map(Ok),
        }
    }

    /// Returns a window from this one on into which a request fits. Another window leads to other cuts, so it is tried.
    fn sufficient(
        &self,
        fold: &ChatSession<'_>,
        transcript: &Transcript<'_>,
        mut window: i64,
        limits: Limits,
    ) -> Result<i64, ChatError> {
        while let Err(larger) = self.fit_window(fold, transcript, window, limits)? {
            if larger <= window {
                break;
            }
            window = larger;
        }
        Ok(window)
    }

    /// Records a request that its provider has taken.
    pub(crate) fn record(&self, fit: Fit) -> Report {
        let Fit { mut figures, session, entry } = fit;
        let (model, repairs) = (entry.model.clone(), entry.repairs.len());
        let recorded = self.ledger.record(&session, entry);
        (figures.tokens_prefix, figures.tokens_in_prefix) =
            (recorded.tokens_prefix, recorded.tokens_in_prefix);
        Report { figures, session, model, repairs, receipt: recorded.receipt }
    }

    /// Runs work that no request waits for, on a thread of its own that leaves the processors to the others.
    fn after_others(&self, work: impl FnOnce() + Send) {
        let _one = self.background.lock().unwrap_or_else(PoisonError::into_inner);
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
}

/// What is kept free of a window.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The tokens for the response.
    reserve: i64,
    margin_percent: f64,
}

/// Returns the messages that a fitted request changes or lacks because the provider would refuse them.
fn repairs(transcript: &Transcript<'_>) -> Vec<RepairRecord> {
    // Ids of calls are between backticks, and they are contents.
    let without_names =
        |problem: &str| problem.split('`').step_by(2).collect::<Vec<_>>().join("\u{2026}");
    let changed = transcript.repairs().iter().cloned();
    let all = changed.chain(transcript.rejections()).take(MAX_REPAIRS);
    let record = |Repair { message, problem, .. }: Repair| RepairRecord {
        message,
        problem: without_names(&problem),
    };
    all.map(record).collect()
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
        fitter.decide(provider, &HeaderMap::new(), body.as_bytes(), || true)
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
        // Also if the response alone takes all of it.
        for (tokens, margin) in [(4_000, 0.0), (5_000, 0.0), (5_000, 7.0)] {
            let request = long_request(&format!("\"max_tokens\":{tokens},"));
            let Decision::OverBudget { smallest_budget } =
                decide(&fitter(4_000, margin), Provider::Anthropic, &request)
            else {
                panic!("it cannot fit");
            };
            let decision = decide(&fitter(smallest_budget, margin), Provider::Anthropic, &request);
            assert!(matches!(decision, Decision::Fitted(..)), "{smallest_budget}: {decision:?}");
        }
        let request = long_request(&format!("\"max_tokens\":{},", i64::MAX));
        let decision = decide(&fitter(4_000, 5.0), Provider::Anthropic, &request);
        assert!(matches!(decision, Decision::OverBudget { .. }), "{decision:?}");
    }

    #[test]
    fn what_the_provider_may_refuse_counts() {
        let text = "an orphan ".repeat(2_000);
        for (provider, body) in [
            (
                Provider::Anthropic,
                format!(
                    r#"{{"messages":[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"x","content":"{text}"}},{{"type":"text","text":"Hi"}}]}}]}}"#
                ),
            ),
            (
                Provider::OpenAi,
                format!(
                    r#"{{"messages":[{{"role":"user","content":"Hi"}},{{"role":"tool","tool_call_id":"x","content":"{text}"}}]}}"#
                ),
            ),
            (
                Provider::Responses,
                format!(
                    r#"{{"input":[{{"role":"user","content":"Hi"}},{{"type":"function_call_output","call_id":"x","output":"{text}"}}]}}"#
                ),
            ),
        ] {
            let Decision::OverBudget { smallest_budget } =
                decide(&fitter(1_000, 3.0), provider, &body)
            else {
                panic!("it is forwarded byte for byte");
            };
            assert!(smallest_budget > 5_000);
            let decision = decide(&fitter(smallest_budget, 3.0), provider, &body);
            let Decision::Unchanged(fit) = decision else { panic!("{decision:?}") };
            assert!(fit.figures.tokens_sent > 5_000);
        }
    }

    #[test]
    fn repairs_of_fitted_requests_are_listed() {
        let orphan = r#"{"type":"tool_result","tool_use_id":"secret","content":"x"}"#;
        let request = long_request("").replacen(
            "\"content\":\"Fix it.\"",
            &format!("\"content\":[{{\"type\":\"text\",\"text\":\"Fix it.\"}},{orphan}]"),
            1,
        );
        let Decision::Fitted(body, fit) =
            decide(&fitter(4_000, 0.0), Provider::Anthropic, &request)
        else {
            panic!("it does not fit");
        };
        assert!(!String::from_utf8_lossy(&body).contains("secret"));
        let [repair] = &fit.entry.repairs[..] else { panic!("{:?}", fit.entry.repairs) };
        assert_eq!(repair.message, 0);
        assert!(repair.problem.contains("no preceding") && !repair.problem.contains("secret"));
    }

    #[test]
    fn only_requests_are_fitted() {
        let message = r#"{"role":"user","content":"Hi"}"#;
        for body in [format!("[{message}]"), message.to_owned(), format!("{message}\n{message}")] {
            let decision = decide(&fitter(1_000, 0.0), Provider::OpenAi, &body);
            assert!(matches!(decision, Decision::Failed(_)), "{body}: {decision:?}");
        }
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
            for is_accepted in [false, true] {
                let mut is_forwarded = false;
                let decision = fitter.decide(Provider::Anthropic, &HeaderMap::new(), body.as_bytes(), || { is_forwarded = true; is_accepted });
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
