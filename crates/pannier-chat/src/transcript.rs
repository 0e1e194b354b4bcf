//! A transcript: read, repaired, and made into items.

use std::collections::BTreeSet;
use std::fmt;

use pannier_core::{
    ContextBudget, ContextItem, Deduplication, Error, ErrorKind, Explanation, Pipeline, Previous,
    TokenCounter,
};
use pannier_policy::{Moment, PlacerPolicy, Policy, PolicyRegistry};
use serde_json::value::RawValue;

use crate::items::{self, ChatRendering, Fixed, PRIMING_TOKENS};
use crate::message::{FRAME_TOKENS, Message};
use crate::pairs::{self, Pairs};
use crate::trimmed::Trimmed;
use crate::{ChatError, anthropic, json, openai};

/// Whose messages they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        })
    }
}

/// Something in a message that could not be sent, and is left out or written otherwise.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The message, from 0.
    pub message: usize,
    /// What was done, and by which rule.
    pub problem: String,
}

/// Messages to a provider, as items to select from.
///
/// Each message is an item, and so are the `tools` and the `system` of a request. A call and its results are a group, and
/// so are what the user says and the assistant's last words before the user speaks again. Pinned are the system's words, the
/// tools, the user's last message, and results at the end; if the user says nothing, the last message.
/// Items have times that only tell their order.
///
/// An item's tokens are those of its texts, and
/// - 4 for every message, 8 for every call, and for every result within a message;
/// - OpenAI: 85 for an image of low detail and 1,445 for any other; a file at least 3,000, or one for 16 characters of
///   base64; sound one for 1,024 characters, and 1,000 for an answer that was spoken;
/// - Anthropic: 1,600 for an image; a document that is not text at least 3,000, or one for 16 characters of base64;
///   hidden thoughts one for 4 characters; 346 where there are tools.
///
/// What stands before the model's answer takes 3 more.
#[derive(Debug)]
pub struct Transcript<'t> {
    pub(crate) format: Format,
    /// The fields of a request; none if it is a bare list.
    pub(crate) request: Option<Vec<Field<'t>>>,
    pub(crate) messages: Vec<Message<'t>>,
    repairs: Vec<Repair>,
    /// The messages, then the fields of the request that are sent with every message list.
    pub(crate) items: Vec<ContextItem>,
}

/// A field of a request.
#[derive(Debug)]
pub(crate) enum Field<'t> {
    Messages,
    Other(String, &'t RawValue),
    Changed(String, String),
}

impl<'t> Transcript<'t> {
    /// Reads a list of messages, or a request with one, and counts its tokens.
    ///
    /// What a provider would refuse, because a call lacks its result or the other way round, because it is empty, or
    /// because it cannot be first, is left out: whole messages are never selected, and parts of messages are listed as
    /// [repairs](Self::repairs). Equal texts are counted once.
    ///
    /// # Errors
    ///
    /// [`ChatError::NotJson`] or [`ChatError::Invalid`] with the place; [`ChatError::NothingToSend`] if no message
    /// can be sent.
    pub fn read(
        format: Format,
        text: &'t str,
        counter: &dyn TokenCounter,
    ) -> Result<Self, ChatError> {
        let whole = json::parse(text)?;
        let mut fixed = Vec::new();
        let (request, list) = if json::is_list(whole) {
            (None, json::list("the list", whole)?)
        } else {
            let request = json::object("the request", whole)?;
            let Some(messages) = request.get("messages") else {
                let problem = match request.get("input") {
                    Some(_) => {
                        "it is for OpenAI's responses; give one for chat completions, with `messages`"
                    }
                    None => "it has no `messages`; give a list of messages, or a request with one",
                };
                return Err(ChatError::invalid("the request", problem));
            };
            if format == Format::OpenAi && request.get("system").is_some() {
                let problem =
                    "a field `system` is Anthropic's; choose that format, or make it a message";
                return Err(ChatError::invalid("the request", problem));
            }
            let list = json::list("messages", messages)?;
            let fields = request.0.into_iter();
            let fields: Result<Vec<_>, _> =
                fields.map(|(name, raw)| read_field(format, name, raw, &mut fixed)).collect();
            (Some(fields?.into_iter().flatten().collect()), list)
        };
        let mut messages = Vec::with_capacity(list.len());
        for (at, raw) in list.into_iter().enumerate() {
            let path = format!("messages[{at}]");
            let mut message = match format {
                Format::OpenAi => openai::read(&path, raw)?,
                Format::Anthropic => anthropic::read(&path, raw, at == 0)?,
            };
            message.number = at;
            messages.push(message);
        }
        let repairs = match format {
            Format::OpenAi => Pairs::openai(&mut messages),
            Format::Anthropic => {
                messages = pairs::join(messages);
                Pairs::anthropic(&mut messages)
            }
        };
        check(&messages)?;
        let items = items::items(format, &fixed, &messages, counter)?;
        Ok(Self { format, request, messages, repairs, items })
    }

    /// The items: the messages, each at its place; then the tools and the system's words, if the request has them.
    pub fn items(&self) -> &[ContextItem] {
        &self.items
    }

    /// What could not be sent of messages that can.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// What the messages say, as the parts of a policy that keep to what was sent before want it.
    pub fn as_previous(&self) -> Previous {
        Previous::new(self.items.iter().map(ContextItem::content))
    }

    /// What selects from this transcript by a policy. Messages stay in their order, two that say the same are two, and
    /// what is selected can be sent, so the placer and the deduplication of the policy are not used.
    ///
    /// # Errors
    ///
    /// As [`PolicyRegistry::pipeline`].
    pub fn trimmer(
        &self,
        registry: &PolicyRegistry,
        policy: &Policy,
        moment: impl Into<Moment>,
    ) -> Result<Trimmer<'_, 't>, Error> {
        let policy = Policy {
            placer: PlacerPolicy::Chronological,
            keep_groups_together: false,
            deduplication: Deduplication::Off,
            ..policy.clone()
        };
        let rendering = ChatRendering::new(self.format, &self.messages);
        Ok(Trimmer {
            transcript: self,
            pipeline: registry.pipeline(&policy, moment)?.rendered_by(rendering),
        })
    }

    /// What must be sent in any case.
    pub fn needed_tokens(&self) -> i64 {
        let pinned = self.items.iter().filter(|item| item.is_pinned());
        let groups: BTreeSet<&str> = pinned.filter_map(ContextItem::group).collect();
        let is_needed = |item: &&ContextItem| {
            item.is_pinned() || item.group().is_some_and(|group| groups.contains(group))
        };
        let needed = self.items.iter().filter(is_needed);
        needed.fold(PRIMING_TOKENS, |sum, item| sum.saturating_add(item.tokens()))
    }
}

/// A transcript, and how to select from it.
#[derive(Debug)]
pub struct Trimmer<'s, 't> {
    transcript: &'s Transcript<'t>,
    pipeline: Pipeline,
}

impl<'s, 't> Trimmer<'s, 't> {
    /// Selects what fits a budget.
    ///
    /// # Errors
    ///
    /// [`ChatError::OverBudget`] with the smallest budget that would do, if what must be sent does not fit; otherwise
    /// as [`Pipeline::run`].
    pub fn trim(&self, budget: &ContextBudget) -> Result<Trimmed<'s, 't>, ChatError> {
        let selection = self.pipeline.run(&self.transcript.items, budget).map_err(|error| {
            let needed_tokens = self.transcript.needed_tokens();
            let is_too_much = needed_tokens > budget.target_tokens().min(budget.input_tokens());
            match error.kind() == ErrorKind::BudgetNotMet && is_too_much {
                true => ChatError::OverBudget {
                    needed_tokens,
                    smallest_budget: needed_tokens.saturating_add(budget.output_reserve()),
                    is_target: needed_tokens <= budget.input_tokens(),
                },
                false => error.into(),
            }
        })?;
        Ok(Trimmed::new(self.transcript, selection))
    }

    /// Why items are in or out, and what would change that.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::explain_all`].
    pub fn explain_all(
        &self,
        budget: &ContextBudget,
        indices: &[usize],
    ) -> Result<Vec<Explanation<&'s ContextItem>>, Error> {
        self.pipeline.explain_all(&self.transcript.items, budget, indices)
    }
}

/// The model that a request names. What counts its tokens depends on it.
pub fn model(text: &str) -> Option<String> {
    let request = json::object("the request", json::parse(text).ok()?).ok()?;
    json::optional("the request", &request, "model").ok().filter(|model| !model.is_empty())
}

/// Reads a field of a request. Those that are sent with every message list become items.
fn read_field<'t>(
    format: Format,
    name: String,
    raw: &'t RawValue,
    fixed: &mut Vec<Fixed>,
) -> Result<Option<Field<'t>>, ChatError> {
    if name == "messages" {
        return Ok(Some(Field::Messages));
    }
    let is_fixed = match format {
        Format::OpenAi => openai::FIXED.contains(&name.as_str()),
        Format::Anthropic => anthropic::FIXED.contains(&name.as_str()),
    };
    if !is_fixed || raw.get() == "null" {
        return Ok(Some(Field::Other(name, raw)));
    }
    if name == "system" {
        let (text, changed) = anthropic::read_system(raw)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        fixed.push(Fixed { name: name.clone(), text, tokens: FRAME_TOKENS });
        return Ok(Some(match changed {
            Some(value) => Field::Changed(name, value),
            None => Field::Other(name, raw),
        }));
    }
    let text = json::compact(raw);
    let has_prompt = format == Format::Anthropic && text != "[]";
    let tokens = if has_prompt { anthropic::TOOLS_PROMPT } else { 0 };
    fixed.push(Fixed { name: name.clone(), text, tokens });
    Ok(Some(Field::Other(name, raw)))
}

/// Refuses a transcript of which nothing can be sent.
fn check(messages: &[Message<'_>]) -> Result<(), ChatError> {
    if messages.iter().any(|message| message.refused.is_none()) {
        return Ok(());
    }
    let problem = match messages.first().and_then(|message| message.refused) {
        None => "there are no messages; give at least one".to_owned(),
        Some(rule) => format!("no message can be sent; of the first, {rule}"),
    };
    Err(ChatError::NothingToSend { problem })
}
