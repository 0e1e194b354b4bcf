//! Reads a transcript, repairs it and turns it into items.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use pannier_core::item::PreviousPrompt;
use pannier_core::whatif::Search;
use pannier_core::{
    ContextBudget, ContextItem, Error, ErrorKind, Explanation, Pipeline, Timestamp, TokenCounter,
};
use pannier_policy::{PlacerPolicy, Policy, PolicyInputs, PolicyRegistry};

use crate::items::{self, ChatLayout, FixedField, PRIMING_TOKENS};
use crate::json::{Element, Object, RawJson};
use crate::message::{Message, TOKENS_PER_MESSAGE};
use crate::tool_pairing::{self, ToolPairing};
use crate::trimmed::TrimmedTranscript;
use crate::{ChatError, anthropic, gemini, json, message, openai, responses, scan};

/// The provider whose message format a transcript has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's Chat Completions API.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Provider {
    /// The field of a message that has its parts.
    fn parts_name(self) -> &'static str {
        if self == Self::Gemini { "parts" } else { "content" }
    }

    /// The field of a request that has the messages.
    pub(crate) fn list_name(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "messages",
            Self::Responses => "input",
            Self::Gemini => "contents",
        }
    }

    /// The fields of a request that are sent with every selection.
    fn fixed_fields(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &openai::FIXED_FIELDS,
            Self::Anthropic => &anthropic::FIXED_FIELDS,
            Self::Responses => &responses::FIXED_FIELDS,
            Self::Gemini => &gemini::FIXED_FIELDS,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Gemini => "gemini",
        })
    }
}

/// A change to a message that could not be sent as it was.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The position of the message, counted from 0.
    pub message: usize,
    /// The change and its rule.
    pub problem: String,
}

/// A provider's messages as items to select from.
///
/// Each message is an item, and so are the fields `tools` and `system` of a request. Two kinds of groups are selected or
/// dropped together: a tool call and its results, and a user message and the assistant's last message before the next one.
/// Pinned are the system prompt, the tools, the last user message and tool results at the end. Without a user message, the
/// last message is pinned. The timestamps of items only encode their order.
///
/// The tokens of an item are those of its texts, each counted by itself, plus these constants:
///
/// | part | OpenAI | Anthropic | Gemini |
/// |---|---|---|---|
/// | message or item | 4 | 4 | 4 |
/// | tool call, result within a message | 8 | 8 | 8 |
/// | image | 85 with low detail, or else 1,445 | 1,600 | 1,120 |
/// | file, document other than text | 1 per 16 base64 characters, at least 3,000 | the same | the same |
/// | audio | 1 per 1,024 base64 characters; a response 1,000 | | 1 per 256 |
/// | hidden thinking, signature | 1 per 4 characters | 1 per 4 characters | 1 per 4 characters |
/// | tools | | 346 | |
///
/// The start of the model's response takes 3 more.
#[derive(Debug)]
pub struct Transcript<'t> {
    /// The input.
    pub(crate) text: &'t str,
    pub(crate) provider: Provider,
    /// The fields of a request; `None` for a list of messages.
    pub(crate) request: Option<Vec<Field<'t>>>,
    pub(crate) messages: Vec<Message<'t>>,
    repairs: Vec<Repair>,
    /// The fields that are sent with every selection, with their tokens.
    pub(crate) fixed: Vec<FixedField>,
    /// The messages, followed by the fixed fields. They have copies of all texts, and sessions do not need them.
    items: OnceLock<Vec<ContextItem>>,
    /// The positions of the messages that were pinned by [`Self::pin`], and of those that must be sent with them.
    pub(crate) pins: Vec<usize>,
    first_of_pins: Vec<usize>,
}

/// A field of a request.
#[derive(Debug)]
pub(crate) enum Field<'t> {
    Messages,
    Other(Cow<'t, str>, RawJson<'t>),
    Changed(Cow<'t, str>, String),
}

impl<'t> Transcript<'t> {
    /// Reads a list of messages, or a request that contains one, and counts its tokens.
    ///
    /// Messages that the provider would reject are never selected: tool results without a call, empty messages, messages
    /// that cannot be first. Invalid parts of other messages are dropped and listed as [repairs](Self::repairs). Equal texts
    /// are counted once.
    ///
    /// # Errors
    ///
    /// [`ChatError::NotJson`] or [`ChatError::Invalid`] with the location; [`ChatError::NothingToSend`] if no message
    /// can be sent.
    pub fn read(
        provider: Provider,
        text: &'t str,
        counter: &dyn TokenCounter,
    ) -> Result<Self, ChatError> {
        let (mut fixed, mut is_continued) = (Vec::new(), false);
        let list_name = provider.list_name();
        let (request, list) = match scan::split(text, list_name, provider.parts_name()) {
            Some(split) => split,
            None => parse_list(provider, text)?,
        };
        let request = match request {
            Some(request) => {
                if provider == Provider::OpenAi && request.get("system").is_some() {
                    let problem = "the field `system` is Anthropic's; name that provider, or make it a message";
                    return Err(ChatError::invalid("the request", problem));
                }
                is_continued =
                    responses::CONTINUED_FIELDS.iter().any(|name| request.get(name).is_some());
                let fields = request.0.into_iter();
                let fields: Result<Vec<_>, _> =
                    fields.map(|(name, raw)| read_field(provider, name, raw, &mut fixed)).collect();
                Some(fields?.into_iter().flatten().collect())
            }
            None => None,
        };
        let mut messages = Vec::with_capacity(list.len());
        for (number, element) in list.into_iter().enumerate() {
            let path = format_args!("{list_name}[{number}]");
            let mut message = match provider {
                Provider::OpenAi => openai::read(path, element)?,
                Provider::Anthropic => anthropic::read(path, element, number == 0)?,
                Provider::Responses => responses::read(path, element)?,
                Provider::Gemini => gemini::read(path, element)?,
            };
            message.number = number;
            messages.push(message);
        }
        if matches!(provider, Provider::Anthropic | Provider::Gemini) {
            messages = tool_pairing::merge_same_role(provider, messages);
        }
        let mut repairs = match provider {
            Provider::OpenAi => ToolPairing::openai(&mut messages),
            Provider::Anthropic => ToolPairing::anthropic(&mut messages),
            Provider::Responses => ToolPairing::responses(&mut messages, is_continued),
            Provider::Gemini => {
                gemini::assign_ids(&mut messages);
                ToolPairing::gemini(&mut messages)
            }
        };
        check_sendable(&messages)?;
        if json::may_have_lone_surrogates(text) {
            repairs.extend(surrogate_repairs(&messages));
        }
        repairs.sort_by_key(|repair| repair.message);
        let (items, pins, first_of_pins) = (OnceLock::new(), Vec::new(), Vec::new());
        let mut transcript =
            Self { text, provider, request, messages, repairs, fixed, items, pins, first_of_pins };
        transcript.count_with(counter);
        Ok(transcript)
    }

    /// Counts the tokens again, by another counter.
    pub fn count_with(&mut self, counter: &dyn TokenCounter) {
        message::count(&mut self.messages, counter);
        for field in &mut self.fixed {
            let count = i64::try_from(counter.count(&field.text)).unwrap_or(i64::MAX);
            field.tokens = field.own_tokens.saturating_add(count);
        }
        self.items = OnceLock::new();
    }

    /// Returns the items: the messages in input order, followed by the fixed fields of the request, such as `tools`.
    pub fn items(&self) -> &[ContextItem] {
        self.items.get_or_init(|| {
            let mut pinned = items::pinned_messages(self.provider, &self.messages);
            pinned.extend(self.pins.iter().chain(&self.first_of_pins));
            // No text is empty, so every item is valid.
            items::items(&self.fixed, &self.messages, &pinned).unwrap_or_default()
        })
    }

    /// Returns the rule by which an item cannot be sent, if there is one.
    pub fn rejection(&self, item: usize) -> Option<&'static str> {
        self.messages.get(item)?.rejection_rule
    }

    /// Returns the changes to messages that can be sent.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Returns the messages that cannot be sent, as repairs that leave them out. Single requests report them as items.
    pub fn rejections(&self) -> impl Iterator<Item = Repair> {
        self.messages.iter().filter_map(|message| {
            let problem = format!("left out: {}", message.rejection_rule?);
            Some(Repair { message: message.number, problem })
        })
    }

    /// Pins a message by its position among the items, so that it is always sent, with its group.
    ///
    /// # Errors
    ///
    /// [`ChatError::Invalid`] if it cannot be sent. Items that are pinned already, such as tools, are no error.
    pub fn pin(&mut self, index: usize) -> Result<(), ChatError> {
        let Some(message) = self.messages.get(index) else { return Ok(()) };
        if let Some(rule) = message.rejection_rule {
            let path = format_args!("{}[{}]", self.provider.list_name(), message.number);
            let problem = format!("it cannot be sent: {rule}; do not pin it");
            return Err(ChatError::invalid(path, problem));
        }
        let first = (0..=index).rev().find(|first| {
            let message = &self.messages[*first];
            message.rejection_rule.is_none() && items::can_be_first(self.provider, message)
        });
        // The request starts with a message that can be first.
        self.first_of_pins.extend(first);
        self.pins.push(index);
        self.items.take();
        Ok(())
    }

    /// Returns the contents of the items as the previous prompt, for policies that keep a prompt's prefix.
    pub fn as_previous(&self) -> PreviousPrompt {
        PreviousPrompt::new(self.items().iter().map(ContextItem::content))
    }

    /// Builds a trimmer with the scorers and slicer of a policy. Its placer and deduplication do not apply: messages stay in
    /// order, and equal messages are both sent.
    ///
    /// # Errors
    ///
    /// As [`PolicyRegistry::pipeline`].
    pub fn trimmer(
        &self,
        registry: &PolicyRegistry,
        policy: &Policy,
        inputs: impl Into<PolicyInputs>,
    ) -> Result<Trimmer<'_, 't>, Error> {
        let policy = policy.clone().with_placer(PlacerPolicy::Chronological);
        let policy = policy.with_groups_together(false).with_deduplication(false);
        let layout = ChatLayout::new(self.provider, &self.messages);
        let inputs = inputs.into();
        let now = inputs.now;
        let pipeline = registry.pipeline(&policy, inputs)?.with_layout(layout);
        Ok(Trimmer { transcript: self, pipeline, policy, now })
    }

    /// Returns the tokens of the fixed fields.
    pub(crate) fn fixed_tokens(&self) -> i64 {
        self.fixed.iter().fold(0, |sum, field| sum.saturating_add(field.tokens))
    }

    /// Returns the tokens of the whole input, with the messages and parts that are never selected.
    pub fn input_tokens(&self) -> i64 {
        self.messages
            .iter()
            .fold(self.fixed_tokens().saturating_add(PRIMING_TOKENS), |sum, message| {
                sum.saturating_add(message.input_tokens())
            })
    }

    /// Returns the tokens of the pinned items and their groups, which are always sent.
    pub fn required_tokens(&self) -> i64 {
        let pinned = self.items().iter().filter(|item| item.is_pinned());
        let groups: BTreeSet<&str> = pinned.filter_map(ContextItem::group).collect();
        let is_required = |item: &&ContextItem| {
            item.is_pinned() || item.group().is_some_and(|group| groups.contains(group))
        };
        let required = self.items().iter().filter(is_required);
        required.fold(PRIMING_TOKENS, |sum, item| sum.saturating_add(item.tokens()))
    }
}

/// Selects messages of a transcript by a policy.
#[derive(Debug)]
pub struct Trimmer<'s, 't> {
    transcript: &'s Transcript<'t>,
    pipeline: Pipeline,
    policy: Policy,
    now: Option<Timestamp>,
}

impl<'s, 't> Trimmer<'s, 't> {
    pub(crate) fn transcript(&self) -> &'s Transcript<'t> {
        self.transcript
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns the policy and its reference time.
    pub(crate) fn policy(&self) -> (&Policy, Option<Timestamp>) {
        (&self.policy, self.now)
    }

    /// Selects the messages that fit a budget.
    ///
    /// # Errors
    ///
    /// [`ChatError::OverBudget`] with the smallest sufficient budget if the required items exceed it; otherwise as
    /// [`Pipeline::run`].
    pub fn trim(&self, budget: &ContextBudget) -> Result<TrimmedTranscript<'s, 't>, ChatError> {
        let selection = self.pipeline.run(self.transcript.items(), budget).map_err(|error| {
            let required_tokens = self.transcript.required_tokens();
            let (target, input) = (budget.target_tokens(), budget.input_tokens());
            let is_target = required_tokens <= input;
            let is_too_much = required_tokens > target.min(input);
            match error.kind() == ErrorKind::BudgetNotMet && is_too_much {
                true => ChatError::OverBudget {
                    required_tokens,
                    smallest_budget: required_tokens.saturating_add(budget.output_reserve()),
                    available_tokens: if is_target { target } else { input },
                    is_target,
                },
                false => error.into(),
            }
        })?;
        Ok(TrimmedTranscript::new(self.transcript, selection))
    }

    /// Explains why items are in or out, and which budget, score or size would change that.
    ///
    /// # Errors
    ///
    /// As [`Prepared::explain`](pannier_core::Prepared::explain).
    pub fn explain(
        &self,
        budget: &ContextBudget,
        indices: &[usize],
        search: &mut Search<'_>,
    ) -> Result<Vec<Explanation<&'s ContextItem>>, Error> {
        self.pipeline.prepare(self.transcript.items())?.explain(budget, indices, search)
    }
}

/// Parses a list of messages, or a request that contains one.
fn parse_list<'t>(
    provider: Provider,
    text: &'t str,
) -> Result<(Option<Object<'t>>, Vec<Element<'t>>), ChatError> {
    let list_name = provider.list_name();
    let root = json::parse(text)?;
    if json::is_array(root) {
        return Ok((None, json::elements("the list", root)?));
    }
    let request = json::object("the request", root)?;
    let Some(messages) = request.get(list_name) else {
        let others = [Provider::OpenAi, Provider::Responses, Provider::Gemini];
        let mut others = others.iter().filter(|other| request.get(other.list_name()).is_some());
        let problem = match others.next() {
            Some(other) => format!("it is for the provider {other}; name that one"),
            None => format!(
                "missing field `{list_name}`; give a list of messages, or a request with one"
            ),
        };
        return Err(ChatError::invalid("the request", problem));
    };
    let is_text = provider == Provider::Responses && json::is_string(messages);
    let list = match is_text {
        true => vec![messages.into()],
        false => json::elements(list_name, messages)?,
    };
    Ok((Some(request), list))
}

/// Reads a field of a request. Fields that are sent with every selection are added to `fixed`.
fn read_field<'t>(
    provider: Provider,
    name: Cow<'t, str>,
    raw: RawJson<'t>,
    fixed: &mut Vec<FixedField>,
) -> Result<Option<Field<'t>>, ChatError> {
    if name == provider.list_name() {
        return Ok(Some(Field::Messages));
    }
    let is_fixed = provider.fixed_fields().contains(&&*name);
    if !is_fixed || raw.get() == "null" {
        return Ok(Some(Field::Other(name, raw)));
    }
    let system = match (provider, &*name) {
        (Provider::Gemini, "systemInstruction" | "system_instruction") => {
            Some(gemini::read_system(raw)?)
        }
        (Provider::Responses, "instructions") if json::is_string(raw) => {
            Some(json::string("instructions", raw)?)
        }
        _ => None,
    };
    if let Some(text) = system {
        // An empty system prompt costs nothing.
        if !text.is_empty() {
            fixed.push(FixedField::new(&name, text, TOKENS_PER_MESSAGE));
        }
        return Ok(Some(Field::Other(name, raw)));
    }
    if name == "system" {
        let (text, changed) = anthropic::read_system(raw)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        fixed.push(FixedField::new(&name, text, TOKENS_PER_MESSAGE));
        return Ok(Some(match changed {
            Some(value) => Field::Changed(name, value),
            None => Field::Other(name, raw),
        }));
    }
    let text = json::compact(raw);
    let has_prompt = provider == Provider::Anthropic && text != "[]";
    let tokens = if has_prompt { anthropic::TOOLS_PROMPT_TOKENS } else { 0 };
    fixed.push(FixedField::new(&name, text, tokens));
    Ok(Some(Field::Other(name, raw)))
}

/// Returns the repairs of messages with lone surrogates, which are replaced when they are written.
fn surrogate_repairs(messages: &[Message<'_>]) -> impl Iterator<Item = Repair> {
    let sent = messages.iter().filter(|message| message.rejection_rule.is_none());
    let broken = sent.filter(|message| json::has_lone_surrogates(message.raw));
    broken.map(|message| Repair {
        message: message.number,
        problem: "a lone surrogate is replaced by U+FFFD".to_owned(),
    })
}

/// Returns an error if no message can be sent.
fn check_sendable(messages: &[Message<'_>]) -> Result<(), ChatError> {
    if messages.iter().any(|message| message.rejection_rule.is_none()) {
        return Ok(());
    }
    let problem = match messages.first().and_then(|message| message.rejection_rule) {
        None => "there are no messages; give at least one".to_owned(),
        Some(rule) => format!("no message can be sent; the first breaks the rule: {rule}"),
    };
    Err(ChatError::NothingToSend { problem })
}
