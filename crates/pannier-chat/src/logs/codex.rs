//! Reads logs of Codex.
//!
//! Most lines are envelopes: `response_item` has an item of the Responses API as its `payload`, and `event_msg` repeats it
//! for the display. The oldest logs have bare items.

use super::{
    History, Link, LogLine, RecordedRequest, RecordedUsage, answered, kind, nested, number, text,
    write_request,
};
use crate::json::{self, Object, RawJson};

/// The items of a history, and the usage of the requests among them.
#[derive(Default)]
struct Items<'t> {
    items: Vec<Item<'t>>,
    /// The usage that was logged, with the number of items before it.
    usage: Vec<(usize, RecordedUsage)>,
}

struct Item<'t> {
    content: Content<'t>,
    link: Link,
    /// Whether the model wrote it.
    is_response: bool,
    is_reasoning: bool,
}

enum Content<'t> {
    Raw(RawJson<'t>),
    /// The text of a summary, a JSON string.
    Summary(RawJson<'t>),
}

/// Returns the histories of a log. A compaction starts a new one.
pub(super) fn histories(lines: &[LogLine<'_>]) -> Vec<History> {
    let meta = lines.iter().map(|line| &line.fields);
    let meta = meta.filter(|line| kind(line).as_deref() == Some("session_meta"));
    let meta = meta.filter_map(|line| nested(line, "payload")).next();
    let instructions =
        meta.as_ref().and_then(|meta| nested(meta, "base_instructions")?.get("text"));
    // Before this line, the log of a subagent repeats that of its parent.
    let start = meta.as_ref().and_then(|meta| number(meta, "subagent_history_start_ordinal"));
    let start = start.unwrap_or_default();
    let is_own = |line: &&LogLine<'_>| number(&line.fields, "ordinal").unwrap_or(start) >= start;
    let (mut model, mut closed, mut current) = (None, Vec::new(), Items::default());
    for LogLine { raw, fields } in lines.iter().filter(is_own) {
        let Some(payload) = nested(fields, "payload") else {
            current.items.extend(Some(*raw).filter(|_| is_bare_item(fields)).and_then(read_item));
            continue;
        };
        match kind(fields).as_deref() {
            Some("response_item") => {
                current.items.extend(fields.get("payload").and_then(read_item));
            }
            Some("event_msg") => {
                let usage = read_usage(&payload);
                current.usage.extend(usage.map(|usage| (current.items.len(), usage)));
            }
            Some("turn_context") => model = payload.get("model").or(model),
            Some("compacted") => closed.push(std::mem::replace(&mut current, compacted(&payload))),
            _ => {}
        }
    }
    closed.push(current);
    closed.into_iter().map(|items| items.history(instructions, model)).collect()
}

/// Returns whether a line without an envelope is an item.
fn is_bare_item(line: &Object<'_>) -> bool {
    kind(line).is_some_and(|kind| {
        ["message", "reasoning"].contains(&kind.as_str())
            || kind.ends_with("_call")
            || kind.ends_with("_output")
    })
}

/// Returns an item, unless it is not sent.
fn read_item(raw: RawJson<'_>) -> Option<Item<'_>> {
    let item = json::object("item", raw).ok()?;
    let kind = kind(&item)?;
    let id = || text(&item, "call_id").or_else(|| text(&item, "id"));
    let link = match kind.as_str() {
        // Bookkeeping of the client.
        "ghost_snapshot" | "other" => return None,
        kind if kind.ends_with("_output") => Link::Result(id()?),
        kind if kind.ends_with("_call") => text(&item, "call_id").map_or(Link::Other, Link::Call),
        _ => Link::Other,
    };
    let role = text(&item, "role");
    let is_response = match &link {
        Link::Result(_) => false,
        _ => role.is_none_or(|role| role == "assistant"),
    };
    let is_reasoning = kind == "reasoning";
    Some(Item { content: Content::Raw(raw), link, is_response, is_reasoning })
}

/// Returns the usage in an event, if it is one about tokens. OpenAI counts cached tokens as input, too.
fn read_usage(event: &Object<'_>) -> Option<RecordedUsage> {
    let usage = nested(&nested(event, "info")?, "last_token_usage")?;
    let tokens = |name| number(&usage, name).unwrap_or_default();
    let cached = tokens("cached_input_tokens");
    Some(RecordedUsage {
        input_tokens: tokens("input_tokens").saturating_sub(cached),
        cache_write_tokens: 0,
        cache_read_tokens: cached,
        output_tokens: tokens("output_tokens"),
    })
}

/// Returns the items after a compaction: those that replace the history, or a message with the summary. None of them is the
/// response to a request of the new history.
fn compacted<'t>(payload: &Object<'t>) -> Items<'t> {
    let replacement = payload.get("replacement_history");
    let replacement = replacement.and_then(|list| json::array("replacement_history", list).ok());
    let items = match replacement {
        Some(list) => {
            let items = list.into_iter().filter_map(read_item);
            items.map(|item| Item { is_response: false, ..item }).collect()
        }
        None => {
            let summary = payload.get("message").filter(|message| json::is_string(*message));
            let summary = summary.map(|message| Item {
                content: Content::Summary(message),
                link: Link::Other,
                is_response: false,
                is_reasoning: false,
            });
            summary.into_iter().collect()
        }
    };
    Items { items, usage: Vec::new() }
}

impl Items<'_> {
    fn history(self, instructions: Option<RawJson<'_>>, model: Option<RawJson<'_>>) -> History {
        let mut answered = answered(self.items.iter().map(|item| &item.link));
        let mut open = answered.clone();
        let mut is_sent: Vec<bool> = Vec::with_capacity(self.items.len());
        // A second call or result with the same id is dropped, too.
        is_sent.extend(self.items.iter().map(|item| match &item.link {
            Link::Call(id) => answered.remove(id.as_str()),
            Link::Result(id) => !answered.contains(id.as_str()) && open.remove(id.as_str()),
            Link::Other => true,
        }));
        // Reasoning is sent with the item that follows it.
        let mut is_followed = false;
        for (item, is_sent) in self.items.iter().zip(&mut is_sent).rev().filter(|(_, sent)| **sent)
        {
            *is_sent &= is_followed || !item.is_reasoning;
            is_followed = item.is_response && *is_sent;
        }
        let mut requests: Vec<RecordedRequest> = Vec::new();
        let (mut position, mut is_in_response) = (0, false);
        let mut usage = self.usage.iter().peekable();
        for (index, item) in self.items.iter().enumerate() {
            // The usage of a response is logged after its items.
            while let Some((_, tokens)) = usage.next_if(|(before, _)| *before <= index) {
                if let Some(request) = requests.last_mut() {
                    request.usage = Some(*tokens);
                }
            }
            if !is_sent[index] {
                continue;
            }
            if item.is_response && !is_in_response {
                requests.push(RecordedRequest { position, usage: None });
            }
            is_in_response = item.is_response;
            position += 1;
        }
        if let (Some(request), Some((_, tokens))) = (requests.last_mut(), usage.last()) {
            request.usage = Some(*tokens);
        }
        let sent = self.items.iter().zip(is_sent).filter(|(_, is_sent)| *is_sent);
        let writers = sent.map(|(item, _)| |into: &mut String| item.content.write(into));
        let fields = [("model", model), ("instructions", instructions)];
        History { json: write_request(&fields, "input", writers), requests }
    }
}

impl Content<'_> {
    fn write(&self, into: &mut String) {
        match self {
            Self::Raw(raw) => json::write(*raw, into),
            Self::Summary(text) => {
                into.push_str("{\"type\":\"message\",\"role\":\"user\",\"content\":");
                json::write(*text, into);
                into.push('}');
            }
        }
    }
}
