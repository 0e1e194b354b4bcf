//! The common model of all providers' messages: a role and a list of parts.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::json::{self, Object};

/// The tokens of a message's role and delimiters.
pub(crate) const TOKENS_PER_MESSAGE: i64 = 4;

/// The tokens around a tool call or a result.
pub(crate) const TOKENS_PER_TOOL_CALL: i64 = 8;

/// The content of an empty tool result, where the provider requires content.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    /// A tool result that is a message.
    Tool,
    /// The result of a `function_call`, OpenAI's older form without ids.
    Function,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Function => "function",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Message<'t> {
    /// Its position in the input.
    pub(crate) number: usize,
    /// The number of following messages that were merged into it.
    pub(crate) merged: usize,
    pub(crate) raw: &'t RawValue,
    pub(crate) fields: Object<'t>,
    pub(crate) role: Role,
    /// The name of the participant.
    pub(crate) name: String,
    /// The id of the call that the message as a whole answers.
    pub(crate) answers: Option<String>,
    pub(crate) parts: Vec<Part<'t>>,
    /// Unknown fields, as they are sent.
    pub(crate) extras: Vec<String>,
    /// Whether an array in it is empty. Providers reject that.
    pub(crate) has_empty_arrays: bool,
    /// Whether its results must be moved before all other parts.
    pub(crate) results_first: bool,
    /// The group of a call and its results.
    pub(crate) group: Option<usize>,
    /// The rule by which it cannot be sent.
    pub(crate) rejection_rule: Option<&'static str>,
}

/// The location of a part in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartLocation {
    /// The content, a string.
    Content,
    /// An element of the content array.
    ContentArray,
    /// An element of `tool_calls`.
    ToolCalls,
    /// A field of the message.
    Field(&'static str),
    /// The whole message, an item of the Responses API.
    Item,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Text,
    /// An image, file or audio.
    Media,
    ToolCall {
        id: String,
    },
    ToolResult {
        id: String,
    },
    /// A call that the provider executes, with its result in the same message.
    ServerToolCall {
        id: String,
    },
    ServerToolResult {
        id: String,
    },
    Thinking,
    /// An unknown type.
    Other,
}

#[derive(Debug)]
pub(crate) struct Part<'t> {
    pub(crate) raw: &'t RawValue,
    pub(crate) location: PartLocation,
    pub(crate) kind: PartKind,
    /// The text of its item, which is counted.
    pub(crate) text: String,
    /// Its tokens in addition to the text.
    pub(crate) tokens: i64,
    pub(crate) is_kept: bool,
}

impl<'t> Part<'t> {
    pub(crate) fn new(
        raw: &'t RawValue,
        location: PartLocation,
        kind: PartKind,
        text: String,
    ) -> Self {
        Self { raw, location, kind, text, tokens: 0, is_kept: true }
    }

    pub(crate) fn with_tokens(mut self, tokens: i64) -> Self {
        self.tokens = tokens;
        self
    }
}

impl<'t> Message<'t> {
    /// Returns a message without parts. Fields that are not `known` become extras.
    pub(crate) fn new(raw: &'t RawValue, fields: Object<'t>, role: Role, known: &[&str]) -> Self {
        let is_known = |name: &String| known.contains(&name.as_str());
        let extras =
            fields.0.iter().filter(|(name, value)| !is_known(name) && value.get() != "null");
        Self {
            number: 0,
            merged: 0,
            extras: extras.map(|(_, value)| json::compact(value)).collect(),
            has_empty_arrays: false,
            raw,
            fields,
            role,
            name: String::new(),
            answers: None,
            parts: Vec::new(),
            results_first: false,
            group: None,
            rejection_rule: None,
        }
    }

    pub(crate) fn kept(&self) -> impl Iterator<Item = &Part<'t>> {
        self.parts.iter().filter(|part| part.is_kept)
    }

    /// Returns the ids of the calls that a user message answers.
    pub(crate) fn answered_call_ids(&self) -> BTreeSet<String> {
        let parts = self.kept().filter(|_| self.role == Role::User);
        let id = |part: &Part<'_>| match &part.kind {
            PartKind::ToolResult { id } => Some(id.clone()),
            _ => None,
        };
        parts.filter_map(id).collect()
    }

    /// Returns whether it has parts other than thinking, or is an item of its own.
    pub(crate) fn has_content(&self) -> bool {
        let is_content = |part: &Part<'_>| {
            part.kind != PartKind::Thinking || part.location == PartLocation::Item
        };
        self.kept().any(is_content)
    }

    /// Returns whether it is a user message with other parts than tool results.
    pub(crate) fn is_user_turn(&self) -> bool {
        let is_own = |part: &Part<'_>| {
            !matches!(part.kind, PartKind::ToolResult { .. } | PartKind::Thinking)
        };
        self.role == Role::User && self.kept().any(is_own)
    }

    /// Returns whether its first part is thinking.
    pub(crate) fn starts_with_thinking(&self) -> bool {
        self.kept().next().is_some_and(|part| part.kind == PartKind::Thinking)
    }

    /// Returns whether it consists of tool results.
    pub(crate) fn is_tool_results_only(&self) -> bool {
        self.answers.is_some()
            || self.kept().all(|part| matches!(part.kind, PartKind::ToolResult { .. }))
                && self.has_content()
    }

    /// Returns whether it is a tool message without content.
    pub(crate) fn is_empty_tool_result(&self) -> bool {
        self.answers.is_some() && !self.has_content()
    }

    /// Returns whether its output differs from its input.
    pub(crate) fn is_changed(&self) -> bool {
        self.results_first
            || self.merged > 0
            || self.has_empty_arrays
            || self.is_empty_tool_result()
            || self.parts.iter().any(|part| !part.is_kept)
    }

    /// Returns the texts of its parts, joined by newlines. Never empty.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if !self.name.is_empty() {
            text.push_str(&self.name);
            text.push_str(": ");
        }
        // The item of a rejected message shows all parts.
        let is_shown = |part: &&Part<'_>| part.is_kept || self.rejection_rule.is_some();
        let no_output = self.is_empty_tool_result().then_some(NO_OUTPUT);
        let parts = self.parts.iter().filter(is_shown).map(|part| part.text.as_str());
        let extras = self.extras.iter().map(String::as_str);
        for (part, index) in no_output.into_iter().chain(parts).chain(extras).zip(0..) {
            if index > 0 {
                text.push('\n');
            }
            text.push_str(part);
        }
        if text.is_empty() {
            text.push_str(NO_OUTPUT);
        }
        text
    }

    /// Returns its tokens in addition to the text.
    pub(crate) fn tokens(&self) -> i64 {
        let parts = self.kept().fold(0_i64, |sum, part| sum.saturating_add(part.tokens));
        parts.saturating_add(TOKENS_PER_MESSAGE)
    }
}

/// Estimates the tokens of base64 data.
pub(crate) fn base64_tokens(data: &str, chars_per_token: usize) -> i64 {
    i64::try_from(data.len().div_ceil(chars_per_token)).unwrap_or(i64::MAX)
}
