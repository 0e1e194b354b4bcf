//! Fits a chat into a token budget: a request of a session, or a single request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use pannier_chat::{
    BlockPosition, ChatError, ChatInput, ChatSession, Cut, FitConfig, Fitted, LogFormat, Provider,
    Repair, ReusedPrefix, Transcript, TrimmedTranscript, Trimmer,
};
use pannier_core::item::find_item;
use pannier_core::{ContextBudget, ContextItem, Explanation, Timestamp, TokenCounter};
use pannier_policy::{Policy, PolicyInputs, PolicyRegistry, Receipt};
use pannier_tokens::TokenError;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::pool::check_explained;
use super::values::list;
use super::{
    Answer, BudgetOptions, Control, Date, Group, PackTotals, PolicyName, Request, ReserveOptions,
    Tokens,
};
use crate::{Failure, Shelf};

/// The policies if neither the request nor the shelf names one: for sessions, and for single requests.
const SESSION_POLICY: &str = "balanced";
const ONCE_POLICY: &str = "transcript";

request! {
    /// Fit a chat into a token budget.
    pub struct ChatRequest {
        /// Messages, a request that contains them, or a session log: JSON, or a string with its text
        #[arg(skip)]
        #[schema(with = "Value")]
        pub transcript: TranscriptJson,

        /// Provider: openai, anthropic, responses or gemini [default: detected]
        #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, help_heading = "Advanced", hide_short_help = true)]
        pub provider: Option<ProviderName>,

        /// Agent that wrote the log: claude-code or codex [default: detected]
        #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, help_heading = "Advanced", hide_short_help = true)]
        pub from: Option<LogName>,

        /// Previous request; keep its prefix so the prompt cache still hits
        #[arg(skip)]
        #[schema(with = "Option<Value>")]
        pub previous: Option<TranscriptJson>,

        /// The budget.
        #[group(flatten)]
        pub budget: BudgetOptions,

        /// Deductions from the window.
        #[group(flatten)]
        pub reserves: ReserveOptions,

        /// Preset or policy file [default: balanced]
        ///
        /// The presets for sessions are careful, balanced and thrifty. A policy with a table `session` fits the request as one of a session. Any other policy selects messages of a
        /// single request, by default `transcript`. Messages keep their order, and equal messages are both sent: the
        /// policy's placer and deduplication do not apply.
        #[arg(long, short, value_name = "NAME|FILE")]
        #[schema(with = "Option<String>")]
        pub policy: Option<PolicyName>,

        /// Model, encoding or file:PATH [default: its model]
        ///
        /// It counts tokens. The default is the tokenizer of the request's model. Without a known model, it is o200k for
        /// OpenAI, claude for Anthropic, and gemini for Gemini.
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,

        /// Fit the request alone, not as one of a session
        ///
        /// It selects whole messages. So does --previous.
        #[arg(long)]
        #[serde(default)]
        pub once: bool,

        /// Move cache_control to the last unchanged block (Anthropic)
        #[arg(long, help_heading = "Advanced", hide_short_help = true)]
        #[serde(default)]
        pub cache_control: bool,

        /// Reference time, e.g. 2026-03-01T12:00:00Z
        #[arg(long, value_name = "TIME", help_heading = "Advanced", hide_short_help = true)]
        pub now: Option<Date>,

        /// Keep what is relevant to a text longer
        ///
        /// In a session, give the same text with every request: another one changes earlier cuts, and so the prefix.
        #[arg(long, value_name = "TEXT", help_heading = "Advanced", hide_short_help = true)]
        pub query: Option<String>,

        /// Always keep a message, by id or position; repeatable
        #[arg(long, value_name = "ID", help_heading = "Advanced", hide_short_help = true)]
        #[serde(default, deserialize_with = "list")]
        pub pin: Vec<String>,

        /// Explain why a message is in or out; repeatable
        #[arg(long, value_name = "ID", help_heading = "Advanced", hide_short_help = true)]
        #[serde(default, deserialize_with = "list")]
        pub explain: Vec<String>,
    }
}

/// The JSON text of a transcript: a list of messages, or a request that contains one.
///
/// In a request, it is a string with that text, or the list or object itself. Only a string keeps the order of keys and
/// every digit of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscriptJson(pub String);

impl<'de> Deserialize<'de> for TranscriptJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            value => value.to_string(),
        }))
    }
}

/// The provider whose message format a transcript has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProviderName {
    /// OpenAI Chat Completions
    Openai,
    /// Anthropic Messages
    Anthropic,
    /// OpenAI Responses
    Responses,
    /// Gemini generateContent
    Gemini,
}

/// The agent that wrote a session log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LogName {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
}

impl From<LogName> for LogFormat {
    fn from(name: LogName) -> Self {
        match name {
            LogName::ClaudeCode => Self::ClaudeCode,
            LogName::Codex => Self::Codex,
        }
    }
}

impl From<ProviderName> for Provider {
    fn from(name: ProviderName) -> Self {
        match name {
            ProviderName::Openai => Self::OpenAi,
            ProviderName::Anthropic => Self::Anthropic,
            ProviderName::Responses => Self::Responses,
            ProviderName::Gemini => Self::Gemini,
        }
    }
}

/// Returns the tokenizer for requests of unknown models.
pub fn default_tokenizer(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "claude",
        Provider::Gemini => "gemini",
        _ => "o200k",
    }
}

/// A trimmed transcript, or the explanations that were asked for.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ChatAnswer {
    /// The request of a session, with shorter blocks.
    Fitted(Box<FittedChat>),
    /// The transcript with fewer messages.
    Trimmed(Box<TrimmedChat>),
    /// Why messages are in or out.
    Explanations {
        /// One for each message that the request names.
        explanations: Vec<Explanation>,
    },
    /// How messages of a session are sent.
    Messages {
        /// One for each message that the request names.
        messages: Vec<FittedMessage>,
    },
}

/// How a message of a session is sent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FittedMessage {
    /// The id of the message, or the field of the request.
    pub id: String,
    /// Whether it is sent.
    pub included: bool,
    /// The rule by which the provider would reject it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<&'static str>,
    /// The tokens of the whole message.
    pub tokens_before: i64,
    /// The tokens as it is sent.
    pub tokens_after: i64,
    /// Its blocks that are sent in a shorter form.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<super::answers::Cut>"))]
    pub cuts: Vec<Cut>,
}

impl fmt::Display for FittedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, tokens_before, tokens_after, .. } = self;
        match self.rejection {
            Some(rule) => return writeln!(f, "{id}: out. It cannot be sent: {rule}."),
            None if !self.included => {
                writeln!(f, "{id}: out, {tokens_before} tokens, left out with its turn.")?;
            }
            None if self.cuts.is_empty() => {
                return writeln!(f, "{id}: in, whole, {tokens_before} tokens.");
            }
            None => {
                writeln!(f, "{id}: in, shortened from {tokens_before} to {tokens_after} tokens.")?;
            }
        }
        for Cut { id, part, form, reason, tokens_before, tokens_after, .. } in &self.cuts {
            writeln!(
                f,
                "  block {part}: {form}, {tokens_before} -> {tokens_after} tokens: {reason}; recall {id}"
            )?;
        }
        Ok(())
    }
}

/// A request of a session that fits its budget.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FittedChat {
    /// The messages, or the request that contains them.
    pub transcript: Box<RawValue>,
    /// The tokenizer of the texts.
    pub tokenizer: String,
    /// Whether its counts are exact, an estimate or an upper bound, or the tokenizer is assumed.
    pub exactness: &'static str,
    /// The tokens of the request.
    pub tokens: i64,
    /// Whether blocks were cut that the previous request contained.
    pub is_batch: bool,
    /// The last block that the previous request contained, with all before it.
    pub last_unchanged: Option<BlockPosition>,
    /// The blocks that are sent in a shorter form.
    pub cuts: Vec<Cut>,
    /// The changes to messages that could not be sent as they were, and those left out.
    pub repairs: Vec<Repair>,
}

/// A trimmed transcript.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TrimmedChat {
    /// The messages, or the request that contains them.
    pub transcript: Box<RawValue>,
    /// The tokenizer of the texts.
    pub tokenizer: String,
    /// Whether its counts are exact, an estimate or an upper bound, or the tokenizer is assumed.
    pub exactness: &'static str,
    /// The prefix that is the same as in the previous request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<ReusedPrefix>,
    /// The changes to messages that could not be sent as they were.
    pub repairs: Vec<Repair>,
    /// The totals.
    pub totals: PackTotals,
}

impl Answer for ChatAnswer {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Fitted(chat) => format!("{}\n", chat.transcript.get()).into(),
            Self::Trimmed(chat) => format!("{}\n", chat.transcript.get()).into(),
            Self::Messages { messages } => {
                messages.iter().map(ToString::to_string).collect::<String>().into()
            }
            // Explanations always serialize.
            Self::Explanations { explanations } => {
                serde_json::to_string(explanations).unwrap_or_default().into()
            }
        }
    }
}

/// A transcript that was read, and what trims it.
#[derive(Debug)]
pub struct OpenChat<'c> {
    transcript: &'c Transcript<'c>,
    previous: Option<&'c Transcript<'c>>,
    registry: &'c PolicyRegistry,
    now: Option<Timestamp>,
    budget: ContextBudget,
    counter: &'c dyn TokenCounter,
    exactness: &'static str,
    policy: &'c Policy,
    /// Whether the request is fitted as one of a session.
    is_session: bool,
    query: Option<&'c str>,
    cache_control: bool,
}

impl ChatRequest {
    /// Reads the transcript, and passes it to `call`.
    ///
    /// # Errors
    ///
    /// [`Failure::Chat`] if the transcript is invalid, [`Failure::Previous`] if the previous one
    /// is, any error of the policy, the tokenizer or the budget, and the errors of `call`.
    pub fn open<T, E: From<Failure>>(
        self,
        shelf: &Shelf,
        control: &Control<'_>,
        call: impl FnOnce(&OpenChat<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let input = self.input(control)?;
        let budget = self.read_budget(&input, shelf, control)?;
        let is_once = self.is_once();
        let default = if is_once { ONCE_POLICY } else { SESSION_POLICY };
        let policy = shelf.policy(self.policy.as_ref(), default, control)?;
        let is_session = !is_once && policy.session().is_some();
        let policy = match &self.query {
            Some(query) if !is_session => policy.for_query(query),
            _ => policy,
        };
        let (counter, exactness) = self.counter(&input, shelf, control)?;
        control.step("counting tokens")?;
        let mut transcript = input.read(&*counter).map_err(Failure::Chat)?;
        for name in &self.pin {
            let index = find_item(transcript.items(), name).map_err(Failure::from)?;
            transcript.pin(index).map_err(Failure::Chat)?;
        }
        let previous = self.previous.as_ref();
        let previous = previous
            .map(|TranscriptJson(text)| ChatInput::open(text, Some(input.provider()), None))
            .transpose()
            .map_err(Failure::Previous)?;
        let previous = previous.as_ref().map(|input| input.read(&*counter));
        let previous = previous.transpose().map_err(Failure::Previous)?;
        call(&OpenChat {
            transcript: &transcript,
            previous: previous.as_ref(),
            registry: shelf.registry(),
            now: self.now.map(|Date(time)| time),
            budget,
            counter: &*counter,
            exactness,
            policy: &policy,
            is_session,
            query: self.query.as_deref(),
            cache_control: self.cache_control,
        })
    }

    /// Returns whether the request is fitted alone.
    fn is_once(&self) -> bool {
        self.once || self.previous.is_some()
    }

    /// Returns the budget. The reserve is the output limit of the transcript, unless the request sets it.
    fn read_budget(
        &self,
        input: &ChatInput<'_>,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<ContextBudget, Failure> {
        let budget = self.budget.read(&self.reserves, shelf)?;
        let limit = input.max_output_tokens().filter(|_| self.reserves.reserve.is_none());
        let Some(limit) = limit else { return Ok(budget) };
        let window = budget.max_tokens();
        if limit > window {
            let problem = format!(
                "its response may have {limit} tokens, which the budget of {window} cannot reserve; raise the budget, or set \
                 the reserve"
            );
            return Err(ChatError::Invalid { path: "the request".to_owned(), problem }.into());
        }
        control.decide("reserve", limit.to_string());
        let reserves = ReserveOptions { reserve: Some(Tokens(limit)), ..self.reserves.clone() };
        self.budget.read(&reserves, shelf)
    }

    /// Opens the transcript, and records what was detected.
    fn input(&self, control: &Control<'_>) -> Result<ChatInput<'_>, Failure> {
        let (provider, log) = (self.provider.map(Into::into), self.from.map(Into::into));
        let input = ChatInput::open(&self.transcript.0, provider, log)?;
        match input.log() {
            Some(log) if self.from.is_none() => control.decide("log", log.to_string()),
            None if provider.is_none() => control.decide("provider", input.provider().to_string()),
            _ => {}
        }
        if input.skipped_lines() > 0 {
            let lines = input.skipped_lines();
            control.warn(format!("{lines} lines of the log are not JSON objects"));
        }
        Ok(input)
    }

    /// Returns the requested tokenizer, that of the request's model, that of the shelf, or the default of the provider, and
    /// its exactness.
    fn counter(
        &self,
        input: &ChatInput<'_>,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<(Arc<dyn TokenCounter>, &'static str), Failure> {
        // A model comes from the transcript, which must not name files.
        let by_model = match input.model().filter(|_| self.tokenizer.is_none()) {
            Some(model) => match pannier_tokens::builtin_counter(model) {
                // The model is known. Another encoding would count it wrong.
                Err(error @ TokenError::NotLoaded { .. }) => return Err(error.into()),
                counter => counter.ok(),
            },
            None => None,
        };
        if let Some(counter) = by_model {
            control.decide("tokenizer", counter.name());
            let exactness = counter.exactness().name();
            return Ok((Arc::from(counter), exactness));
        }
        let default = default_tokenizer(input.provider());
        let counter = shelf.counter(self.tokenizer.as_deref(), default, control)?;
        let is_known = self.tokenizer.is_some() || shelf.defaults().tokenizer.is_some();
        let exactness = if is_known { counter.exactness().name() } else { "assumed" };
        Ok((counter, exactness))
    }
}

impl<'c> OpenChat<'c> {
    /// Returns the changes to messages that could not be sent as they were.
    pub fn repairs(&self) -> &'c [Repair] {
        self.transcript.repairs()
    }

    /// Returns the changes to the messages of a session, and the messages that cannot be sent.
    pub fn session_repairs(&self) -> Vec<Repair> {
        let mut repairs: Vec<Repair> =
            self.repairs().iter().cloned().chain(self.transcript.rejections()).collect();
        repairs.sort_by_key(|repair| repair.message);
        repairs
    }

    /// Returns the name of the tokenizer, and its exactness.
    pub fn tokenizer(&self) -> (&'c str, &'static str) {
        (self.counter.name(), self.exactness)
    }

    /// Fits the request as one of a session, or returns `None` for a single request.
    ///
    /// # Errors
    ///
    /// [`Failure::Chat`] if the blocks that are never cut exceed the budget.
    pub fn fit(&self) -> Result<Option<Fitted<'c, 'c>>, Failure> {
        let options = self.policy.session().filter(|_| self.is_session);
        let Some(options) = options else { return Ok(None) };
        let session = ChatSession::new(options.clone(), self.counter);
        let session = session.with_query(self.query.unwrap_or_default());
        Ok(Some(session.fit(self.transcript, &self.budget)?))
    }

    /// Returns the record of a fitted request.
    pub fn fitted_receipt(&self, fitted: &Fitted<'_, '_>) -> Receipt {
        let (policy, query, budget) = (self.policy, self.query, &self.budget);
        let config = FitConfig { policy, query, budget, cache_control: self.cache_control };
        fitted.receipt(config, self.counter.name())
    }

    /// Explains how messages of a session are sent, by id or index.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such message, or [`Failure::TooManyExplained`].
    pub fn explain_fitted(
        &self,
        names: &[String],
        fitted: &Fitted<'_, '_>,
    ) -> Result<Vec<FittedMessage>, Failure> {
        check_explained(names)?;
        let items = self.transcript.items();
        let explain = |name: &String| {
            let index = find_item(items, name)?;
            let cuts: Vec<Cut> = fitted.cuts_of(index).cloned().collect();
            let saved: i64 = cuts.iter().map(|cut| cut.tokens_before - cut.tokens_after).sum();
            let item = &items[index];
            let included = fitted.is_sent(index);
            Ok(FittedMessage {
                id: item.id().unwrap_or_default().to_owned(),
                included,
                rejection: self.transcript.rejection(index),
                tokens_before: item.tokens(),
                tokens_after: if included { item.tokens() - saved } else { 0 },
                cuts,
            })
        };
        names.iter().map(explain).collect()
    }

    /// Returns the JSON of a fitted request.
    pub fn fitted_json(&self, fitted: &Fitted<'_, '_>) -> String {
        match self.cache_control {
            true => fitted.json_with_cache_control(),
            false => fitted.json(),
        }
    }

    /// Returns the tokens of the budget.
    pub fn budget_tokens(&self) -> i64 {
        self.budget.target_tokens().min(self.budget.input_tokens())
    }

    /// Summarizes a fitted request.
    ///
    /// # Errors
    ///
    /// [`Failure::Request`] if the request is not JSON, which [`Transcript`] excludes.
    pub fn fitted_answer(&self, fitted: &Fitted<'_, '_>) -> Result<ChatAnswer, Failure> {
        Ok(ChatAnswer::Fitted(Box::new(FittedChat {
            transcript: raw_json(self.fitted_json(fitted))?,
            tokenizer: self.counter.name().to_owned(),
            exactness: self.exactness,
            tokens: fitted.tokens(),
            is_batch: fitted.is_batch(),
            last_unchanged: fitted.last_unchanged(),
            cuts: fitted.cuts().to_vec(),
            repairs: self.session_repairs(),
        })))
    }

    /// Returns what selects the messages of a single request.
    fn trimmer(&self) -> Result<Trimmer<'c, 'c>, Failure> {
        let mut inputs = PolicyInputs::from(self.now);
        inputs.previous = self.previous.map(Transcript::as_previous).unwrap_or_default();
        Ok(self.transcript.trimmer(self.registry, self.policy, inputs)?)
    }

    /// Selects the messages that fit the budget.
    ///
    /// # Errors
    ///
    /// [`Failure::Chat`] if the required messages exceed the budget, or any error of the policy or the engine.
    pub fn trim(&self) -> Result<TrimmedTranscript<'c, 'c>, Failure> {
        Ok(self.trimmer()?.trim(&self.budget)?)
    }

    /// Returns the prefix that a trimmed transcript shares with the previous one, if there is a previous one.
    pub fn prefix(&self, trimmed: &TrimmedTranscript<'_, '_>) -> Option<ReusedPrefix> {
        self.previous.map(|previous| trimmed.reused_prefix(previous))
    }

    /// Summarizes a trimmed transcript.
    ///
    /// # Errors
    ///
    /// [`Failure::Request`] if the transcript is not JSON, which [`Transcript`] excludes.
    pub fn answer(&self, trimmed: &TrimmedTranscript<'_, '_>) -> Result<ChatAnswer, Failure> {
        Ok(ChatAnswer::Trimmed(Box::new(TrimmedChat {
            transcript: raw_json(trimmed.json())?,
            tokenizer: self.counter.name().to_owned(),
            exactness: self.exactness,
            prefix: self.prefix(trimmed),
            repairs: self.repairs().to_vec(),
            totals: PackTotals::new(trimmed.selection()),
        })))
    }

    /// Returns the record of a trimmed transcript.
    ///
    /// # Errors
    ///
    /// Any error of the policy.
    pub fn receipt(&self, trimmed: &TrimmedTranscript<'_, '_>) -> Result<Receipt, Failure> {
        Ok(self.trimmer()?.receipt(trimmed, self.previous, self.counter.name()))
    }

    /// Explains messages by id or index, as far as is known when the run is stopped.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such message, or [`Failure::TooManyExplained`].
    pub fn explain(
        &self,
        names: &[String],
        control: &Control<'_>,
    ) -> Result<Vec<Explanation<&'c ContextItem>>, Failure> {
        check_explained(names)?;
        let indices = names.iter().map(|name| find_item(self.transcript.items(), name));
        let indices: Vec<usize> = indices.collect::<Result<_, _>>()?;
        // A budget below the required messages is an error, as without explanations.
        self.trim()?;
        let steps = Explanation::<()>::STEPS.saturating_mul(indices.len() as u64);
        Ok(self.trimmer()?.explain(&self.budget, &indices, &mut control.search(steps))?)
    }
}

fn raw_json(text: String) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(text).map_err(|error| Failure::Request {
        path: "transcript".to_owned(),
        problem: error.to_string(),
    })
}

impl Request for ChatRequest {
    const GROUPS: &'static [Group] =
        &[Group::new::<BudgetOptions>("budget"), Group::new::<ReserveOptions>("reserves")];
    type Answer = ChatAnswer;

    fn run(mut self, shelf: &Shelf, control: &Control<'_>) -> Result<ChatAnswer, Failure> {
        let names = std::mem::take(&mut self.explain);
        self.open(shelf, control, |chat| {
            control.step("selecting messages")?;
            match chat.fit()? {
                Some(fitted) if names.is_empty() => return chat.fitted_answer(&fitted),
                Some(fitted) => {
                    let messages = chat.explain_fitted(&names, &fitted)?;
                    return Ok(ChatAnswer::Messages { messages });
                }
                None if names.is_empty() => return chat.answer(&chat.trim()?),
                None => {}
            }
            let explanations = chat.explain(&names, control)?;
            let explanations = explanations.into_iter().map(Explanation::into_owned).collect();
            Ok(ChatAnswer::Explanations { explanations })
        })
    }
}
