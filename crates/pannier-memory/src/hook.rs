//! How a packet reaches a model through the hooks of its host.
//!
//! A host runs a command at certain events, writes JSON to it, and reads what it prints. What it then shows the model
//! depends on the host: mere text is shown at some events and dropped at others. Each form in here is shown at each of
//! the events it is allowed for.

use std::io::{BufRead, BufReader, Read};
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::MemoryError;

/// More is not read of what a host writes. It may hold what a tool answered, such as a file.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// A program that runs hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookHost {
    /// Claude Code.
    ClaudeCode,
    /// GitHub Copilot, in its own command line and in Visual Studio Code.
    Copilot,
    /// Any other, which takes the packet as it is.
    Plain,
}

impl HookHost {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ClaudeCode, Self::Copilot, Self::Plain];

    /// What it is called on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Copilot => "copilot",
            Self::Plain => "plain",
        }
    }

    /// How many characters of a packet it shows the model. Of a longer one, it shows a preview or drops the end.
    pub fn max_characters(self) -> Option<usize> {
        match self {
            Self::ClaudeCode | Self::Copilot => Some(10_000),
            Self::Plain => None,
        }
    }

    /// The events at which it shows the model what a hook prints, the usual one first.
    pub fn events(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => {
                &["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"]
            }
            // At others, one of its two programs drops it.
            Self::Copilot => &["SessionStart", "SubagentStart", "PostToolUse"],
            Self::Plain => &[],
        }
    }
}

impl FromStr for HookHost {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let host = Self::ALL.into_iter().find(|host| host.name() == name);
        host.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no host '{name}'; use one of {names}")
        })
    }
}

/// What a host says about the event that a hook is run for. All of it may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookInput {
    /// The event.
    pub event: Option<String>,
    /// The name of the session, which need not be a [`SessionId`](crate::SessionId).
    pub session_id: Option<String>,
    /// The folder in which the session is at work.
    pub cwd: Option<String>,
    /// What the user asks for, where the event is that.
    pub prompt: Option<String>,
    /// The file that a tool is about to work on, or has, where the event is about a tool.
    pub file: Option<String>,
}

impl HookInput {
    /// Reads what a host writes to its hook. Nothing at all says nothing.
    ///
    /// # Errors
    ///
    /// [`MemoryError::HookInput`] if it cannot be read, does not end within 64 MiB, or is no JSON object.
    pub fn read(input: impl Read) -> Result<Self, MemoryError> {
        let failed = |problem: String| MemoryError::HookInput { problem };
        let mut input = BufReader::new(input.take(MAX_INPUT_BYTES));
        let beginning = input.fill_buf().map_err(|error| failed(error.to_string()))?;
        let mark = if beginning.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        input.consume(mark);
        // Only as far as the first value goes: a host may leave its end open.
        let mut values =
            serde_json::Deserializer::from_reader(input).into_iter::<Map<String, Value>>();
        let fields = values.next().transpose().map_err(|error| failed(error.to_string()))?;
        let fields = fields.unwrap_or_default();
        // Which spelling a host uses depends on the host, and on how the event is spelled in its settings.
        let field = |names: [&str; 2]| {
            let mut values = names.iter().filter_map(|name| fields.get(*name)?.as_str());
            values.find(|value| !value.is_empty()).map(str::to_owned)
        };
        Ok(Self {
            event: field(["hook_event_name", "hookEventName"]),
            session_id: field(["session_id", "sessionId"]),
            cwd: field(["cwd", "workingDirectory"]),
            prompt: field(["prompt", "userPrompt"]),
            file: ["tool_input", "toolInput"].iter().find_map(|name| {
                let tool = fields.get(*name)?;
                let path = tool.get("file_path").or_else(|| tool.get("filePath"))?;
                path.as_str().map(str::to_owned)
            }),
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_context: Option<&'a str>,
    hook_specific_output: Specific<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Specific<'a> {
    hook_event_name: &'a str,
    additional_context: &'a str,
}

/// Wraps a packet so that a host shows it to the model. Without an event, it is the beginning of a session.
///
/// ```
/// use pannier_memory::{HookHost, hook_output};
///
/// let wrapped = hook_output(HookHost::ClaudeCode, None, "# Context\n")?;
/// assert_eq!(
///     wrapped,
///     r##"{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"# Context\n"}}"##
/// );
/// # Ok::<(), pannier_memory::MemoryError>(())
/// ```
///
/// # Errors
///
/// [`MemoryError::HookEvent`] for an event at which the host does not show the model what a hook prints.
pub fn hook_output(
    host: HookHost,
    event: Option<&str>,
    packet: &str,
) -> Result<String, MemoryError> {
    if host == HookHost::Plain {
        return Ok(packet.to_owned());
    }
    let known = host.events();
    let event = match event {
        None => known.first(),
        // Copilot also writes its events with a small letter at the beginning.
        Some(event) => known.iter().find(|known| known.eq_ignore_ascii_case(event)),
    }
    .ok_or_else(|| MemoryError::HookEvent {
        host: host.name(),
        event: event.unwrap_or_default().to_owned(),
        known,
    })?;
    let output = Output {
        // The command line of Copilot reads this one, Visual Studio Code the other.
        additional_context: (host == HookHost::Copilot).then_some(packet),
        hook_specific_output: Specific { hook_event_name: event, additional_context: packet },
    };
    // Plain texts, which are always written.
    Ok(serde_json::to_string(&output).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HookInput {
        HookInput::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn both_spellings_of_fields_are_read() {
        let snake =
            read(r#"{"hook_event_name":"SessionStart","session_id":"a","cwd":"/x","more":[1]}"#);
        assert_eq!(snake.event.as_deref(), Some("SessionStart"));
        assert_eq!(snake.session_id.as_deref(), Some("a"));
        assert_eq!(snake.cwd.as_deref(), Some("/x"));
        let camel = read(r#"{"sessionId":"b","timestamp":1,"cwd":"/y","source":"new"}"#);
        assert_eq!((camel.event, camel.session_id.as_deref()), (None, Some("b")));
        let both = read(r#"{"session_id":"a","sessionId":"b","hookEventName":"PostToolUse"}"#);
        assert_eq!(both.session_id.as_deref(), Some("a"));
        assert_eq!(both.event.as_deref(), Some("PostToolUse"));
        for nothing in
            ["", " \n", "\u{feff}", "{}", r#"{"session_id":7,"cwd":null,"hook_event_name":""}"#]
        {
            assert_eq!(read(nothing), HookInput::default(), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["words", "[]", "{", "null"] {
            assert!(HookInput::read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(HookInput::read(b"\xff".as_slice()).is_err());
        let long = format!("{{\"cwd\":\"a\",\"x\":\"{}\"}} and so on", "x".repeat(2 << 20));
        assert_eq!(HookInput::read(long.as_bytes()).unwrap().cwd.as_deref(), Some("a"));
        assert!(HookInput::read("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn each_host_gets_what_it_takes() {
        let packet = "a \"b\"\n</x> é\u{1}";
        assert_eq!(hook_output(HookHost::Plain, Some("Anything"), packet).unwrap(), packet);
        for host in [HookHost::ClaudeCode, HookHost::Copilot] {
            for event in host.events() {
                let wrapped = hook_output(host, Some(event), packet).unwrap();
                assert!(!wrapped.contains('\n'));
                let value: Value = serde_json::from_str(&wrapped).unwrap();
                assert_eq!(value["hookSpecificOutput"]["hookEventName"], *event);
                assert_eq!(value["hookSpecificOutput"]["additionalContext"], packet);
                let at_top = value.get("additionalContext").and_then(Value::as_str);
                assert_eq!(at_top, (host == HookHost::Copilot).then_some(packet));
            }
        }
        let copilot = hook_output(HookHost::Copilot, Some("sessionStart"), "x").unwrap();
        assert!(copilot.contains(r#""hookEventName":"SessionStart""#));
        assert_eq!(copilot, hook_output(HookHost::Copilot, None, "x").unwrap());
    }

    #[test]
    fn an_event_that_shows_nothing_is_an_error() {
        let error = hook_output(HookHost::ClaudeCode, Some("Stop"), "x").unwrap_err().to_string();
        assert_eq!(
            error,
            "claude-code takes no context from a hook of 'Stop'; use one of SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, SubagentStart"
        );
        assert!(hook_output(HookHost::Copilot, Some("userPromptSubmitted"), "x").is_err());
    }

    #[test]
    fn hosts_have_names() {
        for host in HookHost::ALL {
            assert_eq!(host.name().parse(), Ok(host));
        }
        assert!("emacs".parse::<HookHost>().unwrap_err().contains("claude-code, copilot, plain"));
    }
}
