//! Detects the provider of a request or a list of messages by what only one provider has.

use std::fmt::Arguments;

use crate::json::{self, Object, RawJson};
use crate::{ChatError, Provider};

use Provider::{Anthropic, Gemini, OpenAi, Responses};

/// The fields of requests with `messages`.
const REQUEST_FIELDS: [(&str, Provider); 9] = [
    ("system", Anthropic),
    ("anthropic_version", Anthropic),
    ("stop_sequences", Anthropic),
    ("thinking", Anthropic),
    ("functions", OpenAi),
    ("response_format", OpenAi),
    ("max_completion_tokens", OpenAi),
    ("reasoning_effort", OpenAi),
    ("stop", OpenAi),
];

const TOOL_FIELDS: [(&str, Provider); 2] = [("input_schema", Anthropic), ("function", OpenAi)];

const MESSAGE_FIELDS: [(&str, Provider); 6] = [
    ("parts", Gemini),
    ("tool_calls", OpenAi),
    ("tool_call_id", OpenAi),
    ("function_call", OpenAi),
    ("call_id", Responses),
    ("encrypted_content", Responses),
];

/// The types of items that are not messages, and of parts.
const TYPES: [(&str, Provider); 19] = [
    ("reasoning", Responses),
    ("function_call", Responses),
    ("function_call_output", Responses),
    ("web_search_call", Responses),
    ("item_reference", Responses),
    ("input_text", Responses),
    ("output_text", Responses),
    ("input_image", Responses),
    ("input_file", Responses),
    ("image_url", OpenAi),
    ("input_audio", OpenAi),
    ("refusal", OpenAi),
    ("tool_use", Anthropic),
    ("tool_result", Anthropic),
    ("thinking", Anthropic),
    ("redacted_thinking", Anthropic),
    ("server_tool_use", Anthropic),
    ("image", Anthropic),
    ("document", Anthropic),
];

/// Whether a message has a role that Anthropic rejects at its position. Proxies take OpenAI's messages for other models.
fn has_openai_role(index: usize, raw: RawJson<'_>) -> bool {
    let message = json::object("", raw).ok();
    let role = message.and_then(|message| json::optional_str("", &message, "role").ok());
    match role.as_deref() {
        Some("developer" | "tool" | "function") => true,
        Some("system") => index == 0,
        _ => false,
    }
}

/// The messages that are searched for signs of a second provider.
const MAX_MESSAGES: usize = 200;

/// The first sign of each provider.
#[derive(Default)]
struct Signs(Vec<(Provider, String)>);

impl Signs {
    fn add(&mut self, provider: Provider, sign: impl FnOnce() -> String) {
        if self.0.iter().all(|(other, _)| *other != provider) {
            self.0.push((provider, sign()));
        }
    }

    fn add_fields(&mut self, path: Arguments<'_>, object: &Object<'_>, table: &[(&str, Provider)]) {
        for (name, provider) in table.iter().filter(|(name, _)| object.get(name).is_some()) {
            self.add(*provider, || format!("`{name}` in {path}"));
        }
    }

    fn add_type(&mut self, path: Arguments<'_>, object: &Object<'_>) {
        let Ok(kind) = json::optional_str(path, object, "type") else { return };
        for (name, provider) in TYPES.iter().filter(|(name, _)| *name == kind) {
            self.add(*provider, || format!("`{name}` in {path}"));
        }
    }

    fn add_message(&mut self, path: Arguments<'_>, raw: RawJson<'_>) -> Option<()> {
        let message = json::object(path, raw).ok()?;
        self.add_fields(path, &message, &MESSAGE_FIELDS);
        self.add_type(path, &message);
        let content = message.get("content").filter(|content| json::is_array(*content))?;
        for part in json::array(path, content).ok()? {
            self.add_type(path, &json::object(path, part).ok()?);
        }
        Some(())
    }
}

/// Returns the provider of a request with these fields, or of a list. A chat without signs, only of texts, is OpenAI's, or by
/// the model Anthropic's if that provider takes its roles.
pub(crate) fn detect(root: RawJson<'_>, request: &Object<'_>) -> Result<Provider, ChatError> {
    let mut signs = Signs::default();
    for provider in [OpenAi, Responses, Gemini] {
        let name = provider.list_name();
        if request.get(name).is_some() {
            signs.add(provider, || format!("`{name}` in the request"));
        }
    }
    let list = match signs.0.as_slice() {
        [(OpenAi, _)] => request.get("messages"),
        [(provider, _)] => return Ok(*provider),
        [] if json::is_array(root) => Some(root),
        _ => None,
    };
    if let Some(list) = list {
        signs = Signs::default();
        signs.add_fields(format_args!("the request"), request, &REQUEST_FIELDS);
        let tools = request.get("tools").and_then(|tools| json::array("tools", tools).ok());
        for tool in tools.into_iter().flatten() {
            if let Ok(tool) = json::object("tools", tool) {
                signs.add_fields(format_args!("tools"), &tool, &TOOL_FIELDS);
            }
        }
        for (index, message) in json::array("messages", list)?.into_iter().enumerate() {
            if index >= MAX_MESSAGES && !signs.0.is_empty() {
                break;
            }
            signs.add_message(format_args!("messages[{index}]"), message);
        }
        if !json::is_array(root) {
            // The parts of other providers in `messages` are passed on.
            signs.0.retain(|(provider, _)| matches!(provider, OpenAi | Anthropic));
        }
    }
    match signs.0.as_slice() {
        [(provider, _)] => Ok(*provider),
        [] => {
            let model = json::optional_str("model", request, "model").unwrap_or_default();
            let list = list.and_then(|list| json::array("messages", list).ok()).unwrap_or_default();
            let is_openai = (0..).zip(list).any(|(index, raw)| has_openai_role(index, raw));
            Ok(if model.contains("claude") && !is_openai { Anthropic } else { OpenAi })
        }
        [(one, sign), (other, other_sign), ..] => {
            let problem = format!(
                "it may be for {one} ({sign}) or for {other} ({other_sign}); name the provider"
            );
            Err(ChatError::invalid("the request", problem))
        }
    }
}
