//! Writes a trimmed transcript as JSON and measures its reused prefix.

use pannier_core::Selection;

use crate::message::{Message, PartLocation};
use crate::transcript::Field;
use crate::{Provider, Transcript, anthropic, gemini, json, openai, responses};

/// The common prefix of a trimmed transcript and the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ReusedPrefix {
    /// The number of messages in the prefix.
    pub messages: usize,
    /// The number of messages of the previous transcript.
    pub of_messages: usize,
    /// The tokens of the prefix, including tools and system prompt.
    pub tokens: i64,
    /// The tokens of the previous transcript.
    pub of_tokens: i64,
}

/// A transcript trimmed to a budget.
#[derive(Debug)]
pub struct TrimmedTranscript<'s, 't> {
    transcript: &'s Transcript<'t>,
    selection: Selection<'s>,
}

impl<'s, 't> TrimmedTranscript<'s, 't> {
    pub(crate) fn new(transcript: &'s Transcript<'t>, selection: Selection<'s>) -> Self {
        Self { transcript, selection }
    }

    /// Returns the selection, which reports the reasons for all items.
    pub fn selection(&self) -> &Selection<'s> {
        &self.selection
    }

    /// Returns the messages, or the request that contains them, as JSON in input order. Messages without repairs are
    /// unchanged except for whitespace between tokens.
    pub fn json(&self) -> String {
        self.transcript.json(&self.selection)
    }

    /// Compares with the transcript that was sent before and returns the common prefix.
    pub fn reused_prefix(&self, previous: &Transcript<'_>) -> ReusedPrefix {
        let before =
            sent_texts(previous, |index| previous.messages[index].rejection_rule.is_none());
        let sent = self.transcript.sent(&self.selection);
        let now = sent_texts(self.transcript, |index| sent[index]);
        let pairs = before.iter().zip(&now);
        let common = pairs.take_while(|((before, _), (now, _))| before == now).count();
        let tokens = |texts: &[(String, i64)]| {
            texts.iter().fold(0_i64, |sum, (_, tokens)| sum.saturating_add(*tokens))
        };
        let fixed = previous.fixed.len();
        ReusedPrefix {
            messages: common.saturating_sub(fixed),
            of_messages: before.len() - fixed,
            tokens: tokens(&now[..common]),
            of_tokens: tokens(&before),
        }
    }
}

impl Transcript<'_> {
    /// Returns for each message whether it is sent.
    fn sent(&self, selection: &Selection<'_>) -> Vec<bool> {
        let mut sent = vec![false; self.messages.len()];
        for index in selection.indices() {
            if let Some(sent) = sent.get_mut(index) {
                *sent = true;
            }
        }
        sent
    }

    /// Returns the messages of a selection, or the request that contains them, as JSON in input order.
    pub(crate) fn json(&self, selection: &Selection<'_>) -> String {
        let sent = self.sent(selection);
        self.write(|index, text| {
            if sent[index] {
                write_message(self.provider, &self.messages[index], text);
            }
            sent[index]
        })
    }
}

impl Transcript<'_> {
    /// Writes the messages, or the request that contains them. `write_message` writes the message at a position, or returns
    /// `false` if it is not sent.
    pub(crate) fn write(
        &self,
        mut write_message: impl FnMut(usize, &mut String) -> bool,
    ) -> String {
        let mut text = String::new();
        let mut write_messages = |text: &mut String| {
            if let [input] = self.messages.as_slice()
                && json::is_string(input.raw)
            {
                return json::write(input.raw, text);
            }
            text.push('[');
            let mut has_messages = false;
            for index in 0..self.messages.len() {
                let end = text.len();
                if has_messages {
                    text.push(',');
                }
                match write_message(index, text) {
                    true => has_messages = true,
                    false => text.truncate(end),
                }
            }
            text.push(']');
        };
        let Some(request) = &self.request else {
            write_messages(&mut text);
            return text;
        };
        let mut separator = "{";
        for field in request {
            text.push_str(separator);
            separator = ",";
            match field {
                Field::Messages => {
                    json::write_string(self.provider.list_name(), &mut text);
                    text.push(':');
                    write_messages(&mut text);
                }
                Field::Other(name, raw) => {
                    json::write_string(name, &mut text);
                    text.push(':');
                    json::write(*raw, &mut text);
                }
                Field::Changed(name, value) => {
                    json::write_string(name, &mut text);
                    text.push(':');
                    text.push_str(value);
                }
            }
        }
        text.push('}');
        text
    }
}

/// Returns the fixed fields and the sent messages in order, each as it is written and with its tokens.
fn sent_texts(transcript: &Transcript<'_>, is_sent: impl Fn(usize) -> bool) -> Vec<(String, i64)> {
    let fixed = transcript.fixed.iter().map(|field| (field.text.clone(), field.tokens));
    let messages = transcript.messages.iter().enumerate().filter(|(index, _)| is_sent(*index));
    let messages = messages.map(|(index, message)| {
        let mut text = String::new();
        write_message(transcript.provider, message, &mut text);
        (text, transcript.messages[index].tokens())
    });
    fixed.chain(messages).collect()
}

/// Returns whether the writer of a format changes more of a message than the bodies of cut parts.
pub(crate) fn is_rewritten(provider: Provider, message: &Message<'_>) -> bool {
    match provider {
        // A string becomes a list of blocks.
        Provider::Anthropic => {
            message.parts.iter().any(|part| part.location == PartLocation::Content)
        }
        // Lists of calls without a value are dropped.
        Provider::OpenAi => message.fields.0.iter().any(|(name, value)| {
            value.get() == "null" && ["tool_calls", "function_call"].contains(&&**name)
        }),
        Provider::Responses | Provider::Gemini => false,
    }
}

pub(crate) fn write_message(provider: Provider, message: &Message<'_>, into: &mut String) {
    match provider {
        _ if !message.is_changed() => json::write(message.raw, into),
        Provider::OpenAi => openai::write(message, into),
        Provider::Anthropic => anthropic::write(message, into),
        Provider::Responses => responses::write(message, into),
        Provider::Gemini => gemini::write(message, into),
    }
}
