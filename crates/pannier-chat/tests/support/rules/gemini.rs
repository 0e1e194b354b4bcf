//! The rules of Gemini's `generateContent`.

use super::{Refusals, Value, list_of, text_of};

/// The fields of a part that say what it is. A part has exactly one.
const DATA: [&str; 7] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
];

pub(super) fn check(request: &Value, refusals: &mut Refusals) {
    let contents = match request {
        Value::Object(fields) => fields.get("contents").unwrap_or(&Value::Null),
        list => list,
    };
    let Some(contents) = contents.as_array() else {
        return refusals.add("contents", "is not a list");
    };
    if contents.is_empty() {
        refusals.add("contents", "has no content");
    }
    for (index, content) in contents.iter().enumerate() {
        check_content(&format!("contents[{index}]"), content, refusals);
    }
    check_turns(contents, refusals);
    if let Some(system) = request.get("systemInstruction") {
        let is_text = |part: &Value| text_of(part, "text").is_some_and(|text| !text.is_empty());
        if list_of(system, "parts").is_empty() || !list_of(system, "parts").iter().all(is_text) {
            refusals.add("systemInstruction", "has a part without text");
        }
    }
}

fn check_content(place: &str, content: &Value, refusals: &mut Refusals) {
    if !matches!(text_of(content, "role"), Some("user" | "model")) {
        refusals.add(place, "has a role other than user and model");
    }
    let known = |field: &String| field == "role" || field == "parts";
    if content.as_object().is_none_or(|fields| !fields.keys().all(known)) {
        refusals.add(place, "has an unknown field");
    }
    let parts = list_of(content, "parts");
    if parts.is_empty() {
        refusals.add(place, "has no parts");
    }
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}.parts[{index}]");
        if DATA.iter().filter(|field| part.get(**field).is_some()).count() != 1 {
            refusals.add(&place, "must have one kind of data");
        }
        let is_signed = text_of(part, "thoughtSignature").is_some_and(|text| !text.is_empty());
        if text_of(part, "text") == Some("") && !is_signed {
            refusals.add(&place, "has an empty text");
        }
        let expected = match () {
            () if part.get("functionCall").is_some() => "model",
            () if part.get("functionResponse").is_some() => "user",
            () => continue,
        };
        if text_of(content, "role") != Some(expected) {
            refusals.add(place, format!("is not for a role other than {expected}"));
        }
    }
}

/// The name and the id of each call or response in a turn.
fn functions<'v>(
    content: Option<&'v Value>,
    field: &str,
) -> Vec<(Option<&'v str>, Option<&'v str>)> {
    let parts = content.map_or(&[][..], |content| list_of(content, "parts"));
    let functions = parts.iter().filter_map(|part| part.get(field));
    functions.map(|function| (text_of(function, "name"), text_of(function, "id"))).collect()
}

fn check_turns(contents: &[Value], refusals: &mut Refusals) {
    if contents.first().and_then(|content| text_of(content, "role")) != Some("user") {
        refusals.add("contents[0]", "is not a user turn");
    }
    for (index, content) in contents.iter().enumerate() {
        let place = format!("contents[{index}]");
        let before = index.checked_sub(1).and_then(|before| contents.get(before));
        let calls = functions(Some(content), "functionCall");
        if !calls.is_empty() {
            if before.and_then(|before| text_of(before, "role")) != Some("user") {
                refusals.add(
                    &place,
                    "has a call that does not directly follow a user turn or a response",
                );
            }
            let responses = functions(contents.get(index + 1), "functionResponse");
            if responses.len() != calls.len() {
                let counts = format!("{} calls and {} responses", calls.len(), responses.len());
                refusals.add(&place, format!("has {counts} directly after it"));
            }
            let sorted = |mut list: Vec<_>| {
                list.sort_unstable();
                list
            };
            if sorted(calls) != sorted(responses) {
                refusals
                    .add(&place, "has calls whose names and ids are not those of the responses");
            }
        }
        let responses = functions(Some(content), "functionResponse");
        if !responses.is_empty() && functions(before, "functionCall").is_empty() {
            refusals.add(place, "has a response that does not directly follow a call");
        }
    }
}
