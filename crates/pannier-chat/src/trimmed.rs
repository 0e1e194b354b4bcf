//! A transcript that fits, as it is sent.

use pannier_core::Selection;

use crate::message::Message;
use crate::transcript::Field;
use crate::{Provider, Transcript, anthropic, json, openai};

/// How much of what was sent before is sent again at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ReusedPrefix {
    /// How many messages at the beginning are the same.
    pub messages: usize,
    /// How many there were.
    pub of_messages: usize,
    /// What they cost, with the tools and the system's words before them.
    pub tokens: i64,
    /// What all of it cost.
    pub of_tokens: i64,
}

/// A transcript that fits.
#[derive(Debug)]
pub struct TrimmedTranscript<'s, 't> {
    transcript: &'s Transcript<'t>,
    selection: Selection<'s>,
}

impl<'s, 't> TrimmedTranscript<'s, 't> {
    pub(crate) fn new(transcript: &'s Transcript<'t>, selection: Selection<'s>) -> Self {
        Self { transcript, selection }
    }

    /// Which items are in, and why the others are not.
    pub fn selection(&self) -> &Selection<'s> {
        &self.selection
    }

    /// Whether each message is sent.
    fn sent(&self) -> Vec<bool> {
        let mut sent = vec![false; self.transcript.messages.len()];
        for index in self.selection.indices() {
            if let Some(sent) = sent.get_mut(index) {
                *sent = true;
            }
        }
        sent
    }

    /// The messages, or the request with them, as JSON: in the order they came, and each as it came, but for the blanks
    /// between its parts and for what was repaired.
    pub fn json(&self) -> String {
        let mut text = String::new();
        let Some(request) = &self.transcript.request else {
            self.write_messages(&mut text);
            return text;
        };
        let mut begin = "{";
        for field in request {
            text.push_str(begin);
            begin = ",";
            match field {
                Field::Messages => {
                    text.push_str("\"messages\":");
                    self.write_messages(&mut text);
                }
                Field::Other(name, raw) => {
                    json::write_string(name, &mut text);
                    text.push(':');
                    json::write(raw, &mut text);
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

    fn write_messages(&self, into: &mut String) {
        into.push('[');
        let mut begin = "";
        for (message, is_sent) in self.transcript.messages.iter().zip(self.sent()) {
            if is_sent {
                into.push_str(begin);
                begin = ",";
                write_message(self.transcript.provider, message, into);
            }
        }
        into.push(']');
    }

    /// How much of what was sent before stands at the beginning of what is sent now.
    pub fn reused_prefix(&self, previous: &Transcript<'_>) -> ReusedPrefix {
        let before = pieces(previous, |at| previous.messages[at].rejection_rule.is_none());
        let sent = self.sent();
        let now = pieces(self.transcript, |at| sent[at]);
        let pairs = before.iter().zip(&now);
        let same = pairs.take_while(|((before, _), (now, _))| before == now).count();
        let tokens = |pieces: &[(String, i64)]| {
            pieces.iter().fold(0_i64, |sum, (_, tokens)| sum.saturating_add(*tokens))
        };
        let fixed = previous.items.len() - previous.messages.len();
        ReusedPrefix {
            messages: same.saturating_sub(fixed),
            of_messages: before.len() - fixed,
            tokens: tokens(&now[..same]),
            of_tokens: tokens(&before),
        }
    }
}

/// The tools and the system's words, then each message, as they are sent and with what they cost.
fn pieces(transcript: &Transcript<'_>, is_sent: impl Fn(usize) -> bool) -> Vec<(String, i64)> {
    let fixed = transcript.items[transcript.messages.len()..].iter();
    let fixed = fixed.map(|item| (item.content().to_owned(), item.tokens()));
    let messages = transcript.messages.iter().enumerate().filter(|(at, _)| is_sent(*at));
    let messages = messages.map(|(at, message)| {
        let mut text = String::new();
        write_message(transcript.provider, message, &mut text);
        (text, transcript.items[at].tokens())
    });
    fixed.chain(messages).collect()
}

fn write_message(provider: Provider, message: &Message<'_>, into: &mut String) {
    match provider {
        _ if !message.is_changed() => json::write(message.raw, into),
        Provider::OpenAi => openai::write(message, into),
        Provider::Anthropic => anthropic::write(message, into),
    }
}
