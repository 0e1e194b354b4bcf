//! Reads the input of host hooks and formats packets as hook output.
//!
//! A host runs a command at certain events, writes JSON to its stdin and reads its stdout. Hosts show plain text to the
//! model at some events and drop it at others. The JSON output used here is shown at every event in [`HookHost::events`].

use std::io::{BufRead, BufReader, Read};
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::MemoryError;

/// The maximum size of a hook's input. It may contain a tool's result, such as a file.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// A program that runs hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookHost {
    /// Claude Code.
    ClaudeCode,
    /// GitHub Copilot, in its own command line and in Visual Studio Code.
    Copilot,
    /// Any other host that accepts plain text.
    Plain,
}

impl HookHost {
    /// All hosts.
    pub const ALL: [Self; 3] = [Self::ClaudeCode, Self::Copilot, Self::Plain];

    /// Returns the name, as in `claude-code`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Copilot => "copilot",
            Self::Plain => "plain",
        }
    }

    /// Returns the maximum number of characters that the host shows the model. It truncates longer packets.
    pub fn max_characters(self) -> Option<usize> {
        match self {
            Self::ClaudeCode | Self::Copilot => Some(10_000),
            Self::Plain => None,
        }
    }

    /// Returns whether the host shows the model a file of the project itself.
    pub fn reads(self, path: &str) -> bool {
        let (files, folder): (&[&str], _) = match self {
            Self::ClaudeCode => (&["CLAUDE.md"], ".claude/skills/"),
            Self::Copilot => (&["AGENTS.md", ".github/copilot-instructions.md"], ".github/skills/"),
            Self::Plain => return false,
        };
        files.contains(&path) || path.starts_with(folder)
    }

    /// Returns the events whose hook output the host shows the model, the default first.
    pub fn events(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => {
                &["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"]
            }
            // At other events, either the command line or Visual Studio Code drops the output.
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
            format!("unknown host '{name}'; use one of {names}")
        })
    }
}

/// The input of a hook. Every field may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookInput {
    /// The event.
    pub event: Option<String>,
    /// The host's id of the session; not necessarily a valid [`SessionId`](crate::SessionId).
    pub session_id: Option<String>,
    /// The working directory of the session.
    pub cwd: Option<String>,
    /// The user's prompt, for prompt events.
    pub prompt: Option<String>,
    /// The path in the tool's input, for tool events.
    pub file: Option<String>,
}

impl HookInput {
    /// Reads the input of a hook. Empty input sets no field.
    ///
    /// # Errors
    ///
    /// [`MemoryError::HookInput`] if it cannot be read, exceeds 64 MiB, or is not a JSON object.
    pub fn read(input: impl Read) -> Result<Self, MemoryError> {
        let failed = |problem: String| MemoryError::HookInput { problem };
        let mut input = BufReader::new(input.take(MAX_INPUT_BYTES));
        let buffer = input.fill_buf().map_err(|error| failed(error.to_string()))?;
        let bom_bytes = if buffer.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        input.consume(bom_bytes);
        // Stop after the first value: a host may keep the pipe open.
        let mut values =
            serde_json::Deserializer::from_reader(input).into_iter::<Map<String, Value>>();
        let fields = values.next().transpose().map_err(|error| failed(error.to_string()))?;
        let fields = fields.unwrap_or_default();
        // The spelling depends on the host and on the event's spelling in its settings.
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
struct HookOutput<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_context: Option<&'a str>,
    hook_specific_output: HookSpecificOutput<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookSpecificOutput<'a> {
    hook_event_name: &'a str,
    additional_context: &'a str,
}

/// Formats a packet as the hook output that a host shows to the model. The default event is the host's first.
///
/// ```
/// use pannier_memory::{HookHost, hook_output};
///
/// let output = hook_output(HookHost::ClaudeCode, None, "# Context\n")?;
/// assert_eq!(
///     output,
///     r##"{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"# Context\n"}}"##
/// );
/// # Ok::<(), pannier_memory::MemoryError>(())
/// ```
///
/// # Errors
///
/// [`MemoryError::HookEvent`] if the host does not show hook output at this event.
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
        // Copilot also writes events in camel case.
        Some(event) => known.iter().find(|known| known.eq_ignore_ascii_case(event)),
    }
    .ok_or_else(|| MemoryError::HookEvent {
        host: host.name(),
        event: event.unwrap_or_default().to_owned(),
        known,
    })?;
    let output = HookOutput {
        // Copilot's command line reads this field, Visual Studio Code the other.
        additional_context: (host == HookHost::Copilot).then_some(packet),
        hook_specific_output: HookSpecificOutput {
            hook_event_name: event,
            additional_context: packet,
        },
    };
    // Serializing strings cannot fail.
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
    fn input_that_is_not_an_object_is_an_error() {
        for text in ["words", "[]", "{", "null"] {
            assert!(HookInput::read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(HookInput::read(b"\xff".as_slice()).is_err());
        let long = format!("{{\"cwd\":\"a\",\"x\":\"{}\"}} and so on", "x".repeat(2 << 20));
        assert_eq!(HookInput::read(long.as_bytes()).unwrap().cwd.as_deref(), Some("a"));
        assert!(HookInput::read("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn output_has_the_format_of_the_host() {
        let packet = "a \"b\"\n</x> é\u{1}";
        assert_eq!(hook_output(HookHost::Plain, Some("Anything"), packet).unwrap(), packet);
        for host in [HookHost::ClaudeCode, HookHost::Copilot] {
            for event in host.events() {
                let output = hook_output(host, Some(event), packet).unwrap();
                assert!(!output.contains('\n'));
                let value: Value = serde_json::from_str(&output).unwrap();
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
    fn events_without_context_are_an_error() {
        let error = hook_output(HookHost::ClaudeCode, Some("Stop"), "x").unwrap_err().to_string();
        assert_eq!(
            error,
            "claude-code takes no context from a hook of 'Stop'; use one of SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, SubagentStart"
        );
        assert!(hook_output(HookHost::Copilot, Some("userPromptSubmitted"), "x").is_err());
    }

    #[test]
    fn host_names_parse() {
        for host in HookHost::ALL {
            assert_eq!(host.name().parse(), Ok(host));
        }
        assert!("emacs".parse::<HookHost>().unwrap_err().contains("claude-code, copilot, plain"));
    }
}
