//! An independent count of requests: the published framing rules over `serde_json` values, and texts by `tiktoken-rs`.
//!
//! The rules are those of `docs/explanation/valid-transcripts.md`. A request costs 3 for the start of the response, its fixed fields, and its
//! messages. Every text is counted by itself. Arguments that are objects are counted with a space after each comma and
//! colon. Media cost a constant, and the text of a placeholder.

use serde_json::Value;

use super::rules::Provider;

const PRIMING: usize = 3;
const MESSAGE: usize = 4;
const CALL: usize = 8;

/// Returns the tokens of a list of messages or a request.
pub(crate) fn tokens(provider: Provider, request: &Value) -> usize {
    let (fixed, list, message): (_, _, fn(&Value) -> usize) = match provider {
        Provider::OpenAi => (0, "messages", openai),
        Provider::Anthropic => (anthropic_fixed(request), "messages", anthropic),
        Provider::Responses => (prompt(&request["instructions"]), "input", item),
        Provider::Gemini => {
            (prompt(&parts_text(&request["systemInstruction"])), "contents", gemini)
        }
    };
    let fields = ["tools", "functions", "response_format"].iter();
    let fields: usize =
        fields.filter_map(|name| request.get(name)).map(|v| text(&v.to_string())).sum();
    let messages = request.get(list).unwrap_or(request);
    let messages: usize = match messages {
        Value::Array(messages) => messages.iter().map(message).sum(),
        single => MESSAGE + string(single),
    };
    PRIMING + fixed + fields + messages
}

fn text(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len()
}

/// Counts a string; anything else is free.
fn string(value: &Value) -> usize {
    value.as_str().map_or(0, text)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn chars(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}

/// A system prompt.
fn prompt(value: &Value) -> usize {
    if chars(value) == 0 { 0 } else { MESSAGE + string(value) }
}

/// Writes JSON with a space after each comma and colon.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(spaced).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), spaced(value))
            };
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn call(name: &Value, arguments: &str) -> usize {
    CALL + text(&format!("{} {arguments}", name.as_str().unwrap_or_default()))
}

fn openai_image(detail: &Value) -> usize {
    text("[image]") + if detail == "low" { 85 } else { 1_445 }
}

fn openai(message: &Value) -> usize {
    let part = |part: &Value| match part["type"].as_str() {
        Some("image_url") => openai_image(&part["image_url"]["detail"]),
        _ => string(&part["text"]) + string(&part["refusal"]),
    };
    let function = |function: &Value, field: &str| {
        call(&function["name"], function[field].as_str().unwrap_or_default())
    };
    let calls = list(&message["tool_calls"]).iter().map(|call| match call.get("custom") {
        Some(custom) => function(custom, "input"),
        None => function(&call["function"], "arguments"),
    });
    let name = message["name"].as_str().map_or(0, |name| text(&format!("{name}: ")));
    let legacy = message.get("function_call").map_or(0, |call| function(call, "arguments"));
    let content: usize = list(&message["content"]).iter().map(part).sum();
    MESSAGE
        + name
        + string(&message["content"])
        + content
        + string(&message["refusal"])
        + legacy
        + calls.sum::<usize>()
}

fn anthropic_fixed(request: &Value) -> usize {
    let texts: Vec<&str> =
        list(&request["system"]).iter().filter_map(|block| block["text"].as_str()).collect();
    let blocks = if texts.is_empty() { 0 } else { MESSAGE + text(&texts.join("\n")) };
    let tools = if list(&request["tools"]).is_empty() { 0 } else { 346 };
    prompt(&request["system"]) + blocks + tools
}

fn anthropic(message: &Value) -> usize {
    let blocks: usize = list(&message["content"]).iter().map(block).sum();
    MESSAGE + string(&message["content"]) + blocks
}

fn block(block: &Value) -> usize {
    match block["type"].as_str().unwrap_or_default() {
        "text" => string(&block["text"]),
        "image" => text("[image]") + 1_600,
        "document" => text(&document(block)),
        "thinking" => string(&block["thinking"]),
        "redacted_thinking" => text("[thinking]") + chars(&block["data"]).div_ceil(4),
        "tool_use" | "server_tool_use" => call(&block["name"], &spaced(&block["input"])),
        "tool_result" => {
            let inner = list(&block["content"]);
            let texts: Vec<String> = inner
                .iter()
                .map(|part| match part["type"].as_str() {
                    Some("image") => "[image]".to_owned(),
                    Some("document") => document(part),
                    _ => part["text"].as_str().unwrap_or_default().to_owned(),
                })
                .collect();
            let images = inner.iter().filter(|part| part["type"] == "image").count();
            CALL + string(&block["content"]) + text(&texts.join("\n")) + 1_600 * images
        }
        kind if kind.ends_with("_tool_result") => CALL + text(&block["content"].to_string()),
        _ => text(&block.to_string()),
    }
}

fn document(block: &Value) -> String {
    let texts = [&block["title"], &block["source"]["data"]];
    texts.map(|text| text.as_str().unwrap_or_default()).join("\n")
}

fn item(item: &Value) -> usize {
    let part = |part: &Value| match part["type"].as_str() {
        Some("input_image") => openai_image(&part["detail"]),
        Some("input_file") => text("[file]") + chars(&part["file_data"]).div_ceil(16).max(3_000),
        _ => string(&part["text"]) + string(&part["refusal"]),
    };
    let content =
        |field: &str| string(&item[field]) + list(&item[field]).iter().map(part).sum::<usize>();
    let own = match item["type"].as_str().unwrap_or("message") {
        "message" => content("content"),
        "function_call" => call(&item["name"], item["arguments"].as_str().unwrap_or_default()),
        "custom_tool_call" => call(&item["name"], item["input"].as_str().unwrap_or_default()),
        "local_shell_call" => CALL + text(&item["action"].to_string()),
        "reasoning" => {
            let summary: Vec<&str> =
                list(&item["summary"]).iter().filter_map(|part| part["text"].as_str()).collect();
            text(&summary.join("\n")) + chars(&item["encrypted_content"]).div_ceil(4)
        }
        kind if kind.ends_with("_output") => content("output"),
        _ => text(&item.to_string()),
    };
    MESSAGE + own
}

/// The texts of parts, joined.
fn parts_text(content: &Value) -> Value {
    let texts: Vec<&str> =
        list(&content["parts"]).iter().filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n").into()
}

fn gemini(content: &Value) -> usize {
    MESSAGE + list(&content["parts"]).iter().map(gemini_part).sum::<usize>()
}

fn gemini_part(part: &Value) -> usize {
    let signature = chars(&part["thoughtSignature"]).div_ceil(4);
    signature
        + match part.as_object().and_then(|fields| {
            fields.keys().find(|key| *key != "thoughtSignature" && *key != "thought")
        }) {
            Some(key) if key == "text" => string(&part["text"]),
            Some(key) if key == "functionCall" => {
                let function = &part["functionCall"];
                call(&function["name"], &spaced(&function["args"]))
            }
            Some(key) if key == "functionResponse" => {
                let response = &part["functionResponse"]["response"];
                let only = response.as_object().filter(|fields| fields.len() == 1);
                let only = only.and_then(|fields| fields.values().next()?.as_str());
                CALL + only.map_or_else(|| text(&spaced(response)), text)
            }
            Some(key) if key == "inlineData" || key == "fileData" => text("[media]") + 1_120,
            _ => text(&part.to_string()),
        }
}
