//! A message, as far as both providers' messages are alike: a role, and parts that are said, shown, called or answered.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::json::{self, Object};

/// Tokens of the special marks around a message, and of its role.
pub(crate) const TOKENS_PER_MESSAGE: i64 = 4;

/// Tokens around a call.
pub(crate) const TOKENS_PER_TOOL_CALL: i64 = 8;

/// What a tool that has nothing to say is made to say, where a message must not be empty.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    /// A tool's result that is a message of its own.
    Tool,
    /// The same, for the call before there were ids.
    Function,
}

#[derive(Debug)]
pub(crate) struct Message<'t> {
    /// Its place in the list that came in.
    pub(crate) number: usize,
    /// How many messages after it were joined to it.
    pub(crate) merged: usize,
    pub(crate) raw: &'t RawValue,
    pub(crate) fields: Object<'t>,
    pub(crate) role: Role,
    /// Who speaks, by name.
    pub(crate) name: String,
    /// The id of the call that the whole message answers.
    pub(crate) answers: Option<String>,
    pub(crate) parts: Vec<Part<'t>>,
    /// Fields that are not known here, as they are sent.
    pub(crate) extras: Vec<String>,
    /// Whether a list in it is empty, which a provider refuses.
    pub(crate) has_empty_arrays: bool,
    /// Whether the results are to stand before everything else, and do not.
    pub(crate) results_first: bool,
    /// The group of a call and its results.
    pub(crate) group: Option<usize>,
    /// Why it cannot be sent.
    pub(crate) rejection_rule: Option<&'static str>,
}

/// Where a part stands in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartLocation {
    /// It is the content.
    Content,
    /// It is one of a list of contents.
    Contents,
    /// It is one of the calls.
    Calls,
    /// It is a field of its own.
    Field(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Said,
    /// An image, a file, a sound.
    Shown,
    Call {
        id: String,
    },
    Answer {
        id: String,
    },
    /// A call that the provider answers itself, in the same message.
    ServerCall {
        id: String,
    },
    ServerAnswer {
        id: String,
    },
    Thought,
    /// Something that is not known here.
    Other,
}

#[derive(Debug)]
pub(crate) struct Part<'t> {
    pub(crate) raw: &'t RawValue,
    pub(crate) place: PartLocation,
    pub(crate) kind: PartKind,
    /// What is counted, and what people read.
    pub(crate) text: String,
    /// What it costs beyond its text.
    pub(crate) tokens: i64,
    pub(crate) is_kept: bool,
}

impl<'t> Part<'t> {
    pub(crate) fn new(raw: &'t RawValue, place: PartLocation, kind: PartKind, text: String) -> Self {
        Self { raw, place, kind, text, tokens: 0, is_kept: true }
    }

    pub(crate) fn costing(mut self, tokens: i64) -> Self {
        self.tokens = tokens;
        self
    }
}

impl<'t> Message<'t> {
    /// A message with fields of which these are known.
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

    /// The ids of the calls that a user's message answers.
    pub(crate) fn answered_call_ids(&self) -> BTreeSet<String> {
        let answers = self.kept().filter(|_| self.role == Role::User);
        let id = |part: &Part<'_>| match &part.kind {
            PartKind::ToolResult { id } => Some(id.clone()),
            _ => None,
        };
        answers.filter_map(id).collect()
    }

    /// Whether it says anything, besides what it thought.
    pub(crate) fn has_content(&self) -> bool {
        self.kept().any(|part| part.kind != PartKind::Thinking)
    }

    /// Whether the user says something, and not only tools do.
    pub(crate) fn is_users_turn(&self) -> bool {
        let is_own = |part: &Part<'_>| !matches!(part.kind, PartKind::ToolResult { .. } | PartKind::Thinking);
        self.role == Role::User && self.kept().any(is_own)
    }

    /// Whether it begins with what the model thought.
    pub(crate) fn starts_with_thinking(&self) -> bool {
        self.kept().next().is_some_and(|part| part.kind == PartKind::Thinking)
    }

    /// Whether only tools speak.
    pub(crate) fn is_tool_results_only(&self) -> bool {
        self.answers.is_some()
            || self.kept().all(|part| matches!(part.kind, PartKind::ToolResult { .. }))
                && self.has_content()
    }

    /// Whether it is a tool's message, and the tool has nothing to say.
    pub(crate) fn is_empty_tool_result(&self) -> bool {
        self.answers.is_some() && !self.has_content()
    }

    /// Whether it is written otherwise than it came.
    pub(crate) fn is_changed(&self) -> bool {
        self.results_first
            || self.merged > 0
            || self.has_empty_arrays
            || self.is_empty_tool_result()
            || self.parts.iter().any(|part| !part.is_kept)
    }

    /// What it says, part after part. Never empty.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if !self.name.is_empty() {
            text.push_str(&self.name);
            text.push_str(": ");
        }
        // Of a message that is not sent, everything is told.
        let is_told = |part: &&Part<'_>| part.is_kept || self.rejection_rule.is_some();
        let silence = self.is_empty_tool_result().then_some(NO_OUTPUT);
        let parts = self.parts.iter().filter(is_told).map(|part| part.text.as_str());
        let extras = self.extras.iter().map(String::as_str);
        for (part, at) in silence.into_iter().chain(parts).chain(extras).zip(0..) {
            if at > 0 {
                text.push('\n');
            }
            text.push_str(part);
        }
        if text.is_empty() {
            text.push_str(NO_OUTPUT);
        }
        text
    }

    /// What it costs beyond its text.
    pub(crate) fn tokens(&self) -> i64 {
        let parts = self.kept().fold(0_i64, |sum, part| sum.saturating_add(part.tokens));
        parts.saturating_add(TOKENS_PER_MESSAGE)
    }
}

/// Tokens of something that is shown as so many characters of base64, by a number of them for each token.
pub(crate) fn base64_tokens(data: &str, characters: usize) -> i64 {
    i64::try_from(data.len().div_ceil(characters)).unwrap_or(i64::MAX)
}
