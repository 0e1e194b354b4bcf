//! The common model of all providers' messages: a role and a list of parts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use pannier_core::TokenCounter;

use crate::json::{self, Object, RawJson};

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

#[derive(Clone, Debug)]
pub(crate) struct Message<'t> {
    /// Its position in the input.
    pub(crate) number: usize,
    /// The number of following messages that were merged into it.
    pub(crate) merged: usize,
    pub(crate) raw: RawJson<'t>,
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
    /// The tokens of its name, unknown fields and delimiters.
    pub(crate) own_tokens: i64,
    /// A text that is sent after its parts.
    pub(crate) note: Option<String>,
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

/// The value in a part that a shorter one can replace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'t> {
    /// A text, or a value that a text replaces.
    Text(RawJson<'t>),
    /// The response of a function: an object, which one with a text replaces.
    Response(RawJson<'t>),
    /// The arguments of a call: an object.
    Object(RawJson<'t>),
    /// The arguments of a call: a string that contains an object.
    ObjectString(RawJson<'t>),
}

impl<'t> Body<'t> {
    fn value(self) -> RawJson<'t> {
        let (Self::Text(value)
        | Self::Response(value)
        | Self::Object(value)
        | Self::ObjectString(value)) = self;
        value
    }

    /// Writes a text, or the object of a call, in the form of this value.
    fn write(self, replacement: &str, into: &mut String) {
        match self {
            Self::Object(_) => into.push_str(replacement),
            Self::Response(_) => {
                into.push_str("{\"output\":");
                json::write_string(replacement, into);
                into.push('}');
            }
            Self::Text(_) | Self::ObjectString(_) => json::write_string(replacement, into),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Part<'t> {
    pub(crate) raw: RawJson<'t>,
    pub(crate) location: PartLocation,
    pub(crate) kind: PartKind,
    /// The text of its item, which is counted.
    pub(crate) text: String,
    /// Its tokens in addition to the text.
    pub(crate) tokens: i64,
    /// The tokens of its text.
    pub(crate) text_tokens: i64,
    pub(crate) is_kept: bool,
    /// The value that a shorter one can replace; `None` if the part is sent as it is.
    pub(crate) body: Option<Body<'t>>,
    /// The tool that a call names.
    pub(crate) tool: String,
    /// The text, or the object of a call, that replaces the body.
    pub(crate) replacement: Option<String>,
    /// Whether its cache breakpoint is set or removed; `None` leaves it as it is.
    pub(crate) breakpoint: Option<bool>,
}

impl<'t> Part<'t> {
    pub(crate) fn new(
        raw: RawJson<'t>,
        location: PartLocation,
        kind: PartKind,
        text: String,
    ) -> Self {
        let (tokens, text_tokens, is_kept) = (0, 0, true);
        let (body, tool, replacement, breakpoint) = (None, String::new(), None, None);
        Self {
            raw,
            location,
            kind,
            text,
            tokens,
            text_tokens,
            is_kept,
            body,
            tool,
            replacement,
            breakpoint,
        }
    }

    pub(crate) fn with_body(mut self, body: Option<Body<'t>>) -> Self {
        self.body = body;
        self
    }

    /// Returns the content that a shorter form can replace: its text, the arguments of a call, or JSON if a result has
    /// media.
    pub(crate) fn recalled(&self) -> Cow<'_, str> {
        match self.body {
            Some(Body::Text(value)) if self.has_media() => Cow::Owned(json::compact(value)),
            _ if !self.tool.is_empty() => {
                Cow::Borrowed(self.text.get(self.tool.len() + 1..).unwrap_or_default())
            }
            _ => Cow::Borrowed(&self.text),
        }
    }

    /// Returns whether it is a result with images or documents.
    pub(crate) fn has_media(&self) -> bool {
        matches!(self.kind, PartKind::ToolResult { .. }) && self.tokens > TOKENS_PER_TOOL_CALL
    }

    /// Writes it, with the replacement of its body if there is one.
    pub(crate) fn write(&self, into: &mut String) {
        let (Some(body), Some(replacement)) = (self.body, &self.replacement) else {
            return json::write(self.raw, into);
        };
        json::write_replaced(self.raw, body.value(), into, |into| body.write(replacement, into));
    }

    pub(crate) fn with_tokens(mut self, tokens: i64) -> Self {
        self.tokens = tokens;
        self
    }
}

impl<'t> Message<'t> {
    /// Returns a message without parts. Fields that are not `known` become extras.
    pub(crate) fn new(raw: RawJson<'t>, fields: Object<'t>, role: Role, known: &[&str]) -> Self {
        let is_known = |name: &str| known.contains(&name);
        // Clients dump fields without a value, such as `"annotations": []`.
        let is_empty = |value: RawJson<'_>| ["null", "[]", "{}"].contains(&value.get());
        let extras = fields.0.iter().filter(|(name, value)| !is_known(name) && !is_empty(*value));
        Self {
            number: 0,
            merged: 0,
            extras: extras.map(|(_, value)| json::compact(*value)).collect(),
            has_empty_arrays: false,
            raw,
            fields,
            role,
            name: String::new(),
            answers: None,
            parts: Vec::with_capacity(1),
            results_first: false,
            group: None,
            rejection_rule: None,
            own_tokens: 0,
            note: None,
        }
    }

    /// Returns a copy to be written without a note. It needs no texts, because parts are written from their JSON.
    pub(crate) fn without_texts(&self) -> Self {
        let parts = self.parts.iter().map(|part| Part {
            text: String::new(),
            tool: String::new(),
            kind: part.kind.clone(),
            replacement: part.replacement.clone(),
            ..*part
        });
        Self {
            parts: parts.collect(),
            fields: self.fields.clone(),
            name: String::new(),
            answers: self.answers.clone(),
            extras: Vec::new(),
            note: None,
            ..*self
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

    /// Returns whether it is a user message with results.
    pub(crate) fn answers_calls(&self) -> bool {
        let is_result = |part: &Part<'_>| matches!(part.kind, PartKind::ToolResult { .. });
        self.role == Role::User && self.kept().any(is_result)
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

    /// Returns whether a tool of the provider still runs: the turn is paused, and the next response continues it.
    pub(crate) fn is_paused(&self) -> bool {
        let mut open = BTreeSet::new();
        for part in self.kept() {
            match &part.kind {
                PartKind::ServerToolCall { id } => _ = open.insert(id),
                PartKind::ServerToolResult { id } => _ = open.remove(id),
                _ => {}
            }
        }
        !open.is_empty()
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
            || self.note.is_some()
            || self.parts.iter().any(|part| {
                !part.is_kept || part.replacement.is_some() || part.breakpoint.is_some()
            })
    }

    /// Writes it with other bodies of some parts, given by their positions, if that is all that changes: its JSON with other
    /// values in their place. Returns `false` if more changes.
    pub(crate) fn write_with_bodies<'c>(
        &self,
        bodies: impl Iterator<Item = (usize, &'c str)>,
        into: &mut String,
    ) -> bool {
        if self.is_changed() {
            return false;
        }
        let mut ranges = Vec::new();
        for (part, replacement) in bodies {
            let Some(body) = self.parts.get(part).and_then(|part| part.body) else { return false };
            let Some(range) = json::range_in(self.raw, body.value()) else { return false };
            ranges.push((range.start, range.end, body, replacement));
        }
        ranges.sort_unstable_by_key(|(start, ..)| *start);
        let mut position = 0;
        let json = self.raw.get();
        for (start, end, body, replacement) in ranges {
            json::write_unchanged(json.get(position..start).unwrap_or_default(), into);
            body.write(replacement, into);
            position = end;
        }
        json::write_unchanged(&json[position..], into);
        true
    }

    /// Returns the texts of its parts, joined by newlines. Never empty.
    pub(crate) fn text(&self) -> String {
        let bytes = self.parts.iter().map(|part| part.text.len() + 1).sum();
        let mut text = String::with_capacity(bytes);
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

    /// Returns its tokens. Those of a rejected message include all parts.
    pub(crate) fn tokens(&self) -> i64 {
        let is_counted = |part: &&Part<'_>| part.is_kept || self.rejection_rule.is_some();
        self.tokens_of(self.parts.iter().filter(is_counted))
    }

    /// Returns the tokens of all parts, and of the messages that were merged into it.
    pub(crate) fn input_tokens(&self) -> i64 {
        let merged = i64::try_from(self.merged).unwrap_or(i64::MAX);
        let tokens = self.tokens_of(self.parts.iter());
        tokens.saturating_add(merged.saturating_mul(TOKENS_PER_MESSAGE))
    }

    fn tokens_of<'p>(&self, parts: impl Iterator<Item = &'p Part<'t>>) -> i64
    where
        't: 'p,
    {
        parts.fold(self.own_tokens, |sum, part| {
            sum.saturating_add(part.text_tokens).saturating_add(part.tokens)
        })
    }
}

/// Counts the texts of all parts, names and unknown fields. Equal texts are counted once.
pub(crate) fn count(messages: &mut [Message<'_>], counter: &dyn TokenCounter) {
    let names: Vec<String> = messages
        .iter()
        .map(|message| match message.name.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        })
        .collect();
    let mut texts: Vec<&str> = Vec::new();
    for (message, name) in messages.iter().zip(&names) {
        texts.push(name);
        texts.push(if message.is_empty_tool_result() { NO_OUTPUT } else { "" });
        texts.extend(message.extras.iter().map(String::as_str));
        texts.extend(message.parts.iter().map(|part| part.text.as_str()));
    }
    let counts = counter.count_each(&texts);
    let mut counts = counts.into_iter().map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    for message in messages {
        let own = counts.by_ref().take(2 + message.extras.len());
        message.own_tokens = own.fold(TOKENS_PER_MESSAGE, i64::saturating_add);
        for part in &mut message.parts {
            part.text_tokens = counts.next().unwrap_or_default();
        }
    }
}

/// Estimates the tokens of base64 data.
pub(crate) fn base64_tokens(data: &str, chars_per_token: usize) -> i64 {
    i64::try_from(data.len().div_ceil(chars_per_token)).unwrap_or(i64::MAX)
}
