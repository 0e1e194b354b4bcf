//! Reads session logs of agents as histories.
//!
//! A log has one JSON object on each line, and no published schema. So unknown types and fields are skipped, and so are
//! lines that are not JSON: a log may be cut in the middle of a line. A history is a request in the provider's format, which
//! [`Transcript::read`](crate::Transcript::read) takes. Blocks and items stay raw text.

mod claude_code;
mod codex;

use std::collections::BTreeSet;
use std::fmt;

use crate::json::{self, Object, RawJson};
use crate::{ChatError, Provider};

/// The agent that wrote a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// Claude Code, whose requests are Anthropic's.
    ClaudeCode,
    /// Codex, whose requests are those of OpenAI's Responses API.
    Codex,
}

impl LogFormat {
    /// Returns the format of a log, if its lines show one.
    pub fn detect(text: &str) -> Option<Self> {
        let (lines, _) = lines(text);
        let formats = lines.iter().map(|line| {
            let has = |name| line.fields.get(name).is_some();
            match kind(&line.fields).as_deref() {
                Some("user" | "assistant") if has("message") => Some(Self::ClaudeCode),
                Some("session_meta" | "response_item") if has("payload") => Some(Self::Codex),
                _ => None,
            }
        });
        formats.flatten().next()
    }

    /// Returns the provider of the logged requests.
    pub fn provider(self) -> Provider {
        match self {
            Self::ClaudeCode => Provider::Anthropic,
            Self::Codex => Provider::Responses,
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        })
    }
}

/// A session that an agent logged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLog {
    /// The provider of the requests.
    pub provider: Provider,
    /// The histories: one, and one more after each compaction. Never empty.
    pub histories: Vec<History>,
    /// The number of lines that are not JSON objects.
    pub skipped_lines: usize,
}

/// The messages between two compactions, and the requests among them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// The next request of the agent: a JSON object with `messages` or `input`.
    pub json: String,
    /// The requests with a response, in order.
    pub requests: Vec<RecordedRequest>,
}

/// A request of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The number of messages or items that it sent. The response is at this position of the history.
    pub position: usize,
    /// The tokens by the provider's count.
    pub usage: Option<RecordedUsage>,
}

/// The tokens of a request by the provider's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedUsage {
    /// The input that was neither read from the cache nor written to it.
    pub input_tokens: i64,
    /// The input that was written to the cache.
    pub cache_write_tokens: i64,
    /// The input that was read from the cache.
    pub cache_read_tokens: i64,
    /// The output.
    pub output_tokens: i64,
}

impl SessionLog {
    /// Reads a log. Calls without results and results without calls are dropped, as are branches that were abandoned.
    ///
    /// # Errors
    ///
    /// [`ChatError::NothingToSend`] if the log has no message.
    pub fn read(format: LogFormat, text: &str) -> Result<Self, ChatError> {
        let (lines, skipped_lines) = lines(text);
        let mut histories = match format {
            LogFormat::ClaudeCode => claude_code::histories(&lines),
            LogFormat::Codex => codex::histories(&lines),
        };
        // The list of messages is the end of a request.
        histories.retain(|history| !history.json.ends_with("[]}"));
        match histories.is_empty() {
            false => Ok(Self { provider: format.provider(), histories, skipped_lines }),
            true => Err(ChatError::NothingToSend {
                problem: format!("the {format} log has no message"),
            }),
        }
    }
}

/// A line of a log.
struct LogLine<'t> {
    raw: RawJson<'t>,
    fields: Object<'t>,
}

/// Returns the lines that are JSON objects, and the number of others. Blank lines and comments do not count.
fn lines(text: &str) -> (Vec<LogLine<'_>>, usize) {
    let read = |line| {
        let raw = json::parse(line).ok()?;
        Some(LogLine { raw, fields: json::object("the line", raw).ok()? })
    };
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let lines: Vec<Option<LogLine<'_>>> = lines.map(read).collect();
    let count = lines.len();
    let lines: Vec<LogLine<'_>> = lines.into_iter().flatten().collect();
    let skipped = count - lines.len();
    (lines, skipped)
}

/// Returns the string in a field.
fn text(object: &Object<'_>, name: &str) -> Option<String> {
    json::string(name, object.get(name)?).ok()
}

fn kind(object: &Object<'_>) -> Option<String> {
    text(object, "type")
}

fn nested<'t>(object: &Object<'t>, name: &str) -> Option<Object<'t>> {
    json::object(name, object.get(name)?).ok()
}

fn is_set(object: &Object<'_>, name: &str) -> bool {
    object.get(name).is_some_and(|value| value.get() == "true")
}

fn number(object: &Object<'_>, name: &str) -> Option<i64> {
    object.get(name)?.get().parse().ok()
}

/// What a block or item has to do with tool calls.
enum Link {
    Call(String),
    Result(String),
    Other,
}

/// Returns the ids of the calls that have a result after them.
fn answered<'l>(links: impl Iterator<Item = &'l Link>) -> BTreeSet<&'l str> {
    let (mut open, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for link in links {
        match link {
            Link::Call(id) => _ = open.insert(id.as_str()),
            Link::Result(id) if open.contains(id.as_str()) => _ = answered.insert(id.as_str()),
            _ => {}
        }
    }
    answered
}

/// Writes a request: its other fields, and the list of its messages.
fn write_request(
    fields: &[(&str, Option<RawJson<'_>>)],
    list: &str,
    items: impl Iterator<Item = impl FnOnce(&mut String)>,
) -> String {
    let mut text = String::from("{");
    for (name, value) in fields {
        let Some(value) = value else { continue };
        json::write_string(name, &mut text);
        text.push(':');
        json::write(*value, &mut text);
        text.push(',');
    }
    json::write_string(list, &mut text);
    text.push_str(":[");
    for (write, index) in items.zip(0..) {
        if index > 0 {
            text.push(',');
        }
        write(&mut text);
    }
    text.push_str("]}");
    text
}
