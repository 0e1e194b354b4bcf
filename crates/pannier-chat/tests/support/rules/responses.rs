//! The rules of `OpenAI`'s Responses API.
//!
//! The server knows which reasoning led to an item, by the item's id. Here the id says it: `fc_1_of_rs_3` needs `rs_3`.

use super::{
    Kind, Refusals, Shape, UNLIMITED, Value, check_kind, check_shape, check_tagged, check_unique,
    list_of, text_of,
};

const MOST_IN_ID: usize = 64;
const MOST_IN_NAME: usize = 128;
const TYPE: (&str, Kind) = ("type", Kind::Any);
const ITEM_ID: (&str, Kind) = ("id", Kind::Nullable(&Kind::Token(MOST_IN_ID)));
const STATUS: (&str, Kind) =
    ("status", Kind::Nullable(&Kind::OneOf(&["in_progress", "completed", "incomplete"])));
const CALL_ID: (&str, Kind) = ("call_id", Kind::Filled(MOST_IN_ID));
const NAME: (&str, Kind) = ("name", Kind::Token(MOST_IN_NAME));
const OUTPUT: (&str, Kind) = ("output", Kind::Any);

const MESSAGE: Shape = Shape {
    required: &[("role", Kind::OneOf(&ROLES)), ("content", Kind::Any)],
    optional: &[TYPE, ITEM_ID, STATUS],
};
const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];
const FUNCTION_CALL: Shape = Shape {
    required: &[TYPE, CALL_ID, NAME, ("arguments", Kind::Text)],
    optional: &[ITEM_ID, STATUS],
};
const CUSTOM_CALL: Shape =
    Shape { required: &[TYPE, CALL_ID, NAME, ("input", Kind::Text)], optional: &[ITEM_ID, STATUS] };
const SHELL_CALL: Shape = Shape {
    required: &[TYPE, CALL_ID, ("action", Kind::Dictionary)],
    optional: &[ITEM_ID, STATUS],
};
const CALL_OUTPUT: Shape =
    Shape { required: &[TYPE, CALL_ID, OUTPUT], optional: &[ITEM_ID, STATUS] };
const REASONING: Shape = Shape {
    required: &[TYPE, ("id", Kind::Token(MOST_IN_ID)), ("summary", Kind::Any)],
    optional: &[
        STATUS,
        ("content", Kind::Any),
        ("encrypted_content", Kind::Nullable(&Kind::Filled(UNLIMITED))),
    ],
};
const WEB_SEARCH: Shape = Shape {
    required: &[TYPE, ("id", Kind::Token(MOST_IN_ID)), STATUS, ("action", Kind::Dictionary)],
    optional: &[],
};

const INPUT_TEXT: Shape =
    Shape { required: &[TYPE, ("text", Kind::Filled(UNLIMITED))], optional: &[] };
const OUTPUT_TEXT: Shape = Shape {
    required: &[TYPE, ("text", Kind::Filled(UNLIMITED))],
    optional: &[("annotations", Kind::Any), ("logprobs", Kind::Any)],
};
const REFUSAL: Shape =
    Shape { required: &[TYPE, ("refusal", Kind::Filled(UNLIMITED))], optional: &[] };
const INPUT_IMAGE: Shape = Shape {
    required: &[TYPE, ("image_url", Kind::ImageAddress)],
    optional: &[("detail", Kind::OneOf(&["auto", "low", "high"]))],
};
const INPUT_FILE: Shape = Shape {
    required: &[TYPE, ("file_data", Kind::Filled(UNLIMITED))],
    optional: &[("filename", Kind::Filled(UNLIMITED))],
};

fn item_shape(kind: &str) -> Option<&'static Shape> {
    Some(match kind {
        "" | "message" => &MESSAGE,
        "function_call" => &FUNCTION_CALL,
        "custom_tool_call" => &CUSTOM_CALL,
        "local_shell_call" => &SHELL_CALL,
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            &CALL_OUTPUT
        }
        "reasoning" => &REASONING,
        "web_search_call" => &WEB_SEARCH,
        _ => return None,
    })
}

fn input_part(kind: &str) -> Option<&'static Shape> {
    Some(match kind {
        "input_text" => &INPUT_TEXT,
        "input_image" => &INPUT_IMAGE,
        "input_file" => &INPUT_FILE,
        _ => return None,
    })
}

fn output_part(kind: &str) -> Option<&'static Shape> {
    Some(match kind {
        "output_text" => &OUTPUT_TEXT,
        "refusal" => &REFUSAL,
        _ => return None,
    })
}

pub(super) fn check(request: &Value, refusals: &mut Refusals) {
    let input = match request {
        Value::Object(fields) => fields.get("input").unwrap_or(&Value::Null),
        list => list,
    };
    match input {
        Value::String(_) => check_kind("input", input, Kind::Filled(UNLIMITED), refusals),
        Value::Array(items) if items.is_empty() => refusals.add("input", "has no item"),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_item(&format!("input[{index}]"), item, refusals);
            }
            let is_continued = request.get("previous_response_id").is_some();
            check_outputs(items, is_continued, refusals);
            check_reasoning(items, refusals);
        }
        _ => refusals.add("input", "is neither a string nor a list"),
    }
    for (index, tool) in list_of(request, "tools").iter().enumerate() {
        let place = format!("tools[{index}]");
        match text_of(tool, "type") {
            Some("function" | "custom") => {
                check_kind(&place, tool.get("name").unwrap_or(&Value::Null), NAME.1, refusals);
            }
            Some(_) => {}
            None => refusals.add(place, "has no type"),
        }
    }
}

fn check_item(place: &str, item: &Value, refusals: &mut Refusals) {
    let Some(object) = item.as_object() else {
        return refusals.add(place, "is not an object");
    };
    let kind = text_of(item, "type").unwrap_or_default();
    match item_shape(kind) {
        Some(shape) => check_shape(place, object, shape, refusals),
        None => refusals.add(place, format!("has the unknown type `{kind}`")),
    }
    let is_message = kind.is_empty() || kind == "message";
    let parts = match text_of(item, "role") {
        Some("assistant") => output_part,
        _ => input_part,
    };
    match item.get(if is_message { "content" } else { "output" }) {
        Some(Value::String(text)) if is_message && text.is_empty() => {
            refusals.add(place, "has empty content");
        }
        None | Some(Value::String(_)) => {}
        Some(Value::Array(list)) if list.is_empty() => refusals.add(place, "has empty content"),
        Some(Value::Array(list)) => {
            for (index, part) in list.iter().enumerate() {
                check_tagged(&format!("{place}[{index}]"), part, parts, refusals);
            }
        }
        Some(_) => refusals.add(place, "has content that is neither a string nor a list"),
    }
}

fn is_call(item: &Value) -> bool {
    text_of(item, "type").is_some_and(|kind| kind.ends_with("_call"))
        && item.get("call_id").is_some()
}

fn is_output(item: &Value) -> bool {
    text_of(item, "type").is_some_and(|kind| kind.ends_with("_output"))
}

/// Whether the model wrote it.
fn is_response(item: &Value) -> bool {
    !is_output(item) && text_of(item, "role").is_none_or(|role| role == "assistant")
}

fn check_outputs(items: &[Value], is_continued: bool, refusals: &mut Refusals) {
    let id = |item| text_of(item, "call_id").unwrap_or_default();
    check_unique(
        "input",
        "calls with the id",
        items.iter().filter(|i| is_call(i)).map(id),
        refusals,
    );
    let outputs = items.iter().filter(|item| is_output(item)).map(id);
    check_unique("input", "outputs with the id", outputs, refusals);
    for (index, item) in items.iter().enumerate() {
        let id = id(item);
        let has = |list: &[Value], fits: fn(&Value) -> bool| {
            list.iter().any(|other| fits(other) && text_of(other, "call_id") == Some(id))
        };
        if is_call(item) && !has(&items[index..], is_output) {
            refusals.add(format!("input[{index}]"), format!("calls `{id}` without an output"));
        }
        if is_output(item) && !is_continued && !has(&items[..index], is_call) {
            refusals.add(format!("input[{index}]"), format!("has an output without a call `{id}`"));
        }
    }
}

fn check_reasoning(items: &[Value], refusals: &mut Refusals) {
    let is_reasoning = |item: &Value| text_of(item, "type") == Some("reasoning");
    for (index, item) in items.iter().enumerate() {
        let place = format!("input[{index}]");
        if is_reasoning(item) && !items.get(index + 1).is_some_and(is_response) {
            refusals.add(&place, "is reasoning without its following item");
        }
        let needed = text_of(item, "id").and_then(|id| id.split_once("_of_")).map(|(_, id)| id);
        if let Some(needed) = needed {
            let before = items[..index].iter().rev().take_while(|item| is_response(item));
            if !before.into_iter().any(|item| text_of(item, "id") == Some(needed)) {
                refusals.add(place, format!("is without its reasoning `{needed}`"));
            }
        }
    }
}
