//! Reads logs of Claude Code.
//!
//! Each line has a `message` in Anthropic's format, but an assistant message takes one line for each block, and so do the
//! results of parallel calls. Lines form a tree by `parentUuid`: retries and edits leave branches that were not continued.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    History, Link, LogLine, RecordedRequest, RecordedUsage, answered, is_set, kind, nested, number,
    text, write_request,
};
use crate::json::{self, Object, RawJson};

/// A line of the user or the assistant.
struct Line<'t> {
    uuid: Option<String>,
    is_assistant: bool,
    /// The id of the assistant's message, which several lines share.
    message_id: Option<String>,
    model: Option<RawJson<'t>>,
    usage: Option<RecordedUsage>,
    blocks: Vec<Block<'t>>,
}

struct Block<'t> {
    raw: RawJson<'t>,
    link: Link,
    is_thinking: bool,
}

/// A message that lines were merged into.
struct Message<'l, 't> {
    is_assistant: bool,
    usage: Option<RecordedUsage>,
    blocks: Vec<&'l Block<'t>>,
}

/// Returns the histories of a log. A compact boundary starts a new one.
pub(super) fn histories(lines: &[LogLine<'_>]) -> Vec<History> {
    let is_boundary =
        |line: &LogLine<'_>| text(&line.fields, "subtype").as_deref() == Some("compact_boundary");
    let messages = lines.iter().filter(|line| line.fields.get("message").is_some());
    let is_main = |line: &LogLine<'_>| !is_set(&line.fields, "isSidechain");
    // The log of a subagent has nothing else.
    let has_main = messages.into_iter().any(is_main);
    let is_own = |line: &&LogLine<'_>| is_main(line) || !has_main;
    lines.split(is_boundary).map(|lines| history(lines, is_own)).collect()
}

fn history(lines: &[LogLine<'_>], is_own: impl Fn(&&LogLine<'_>) -> bool) -> History {
    let own = lines.iter().filter(is_own);
    let sent: Vec<Line<'_>> = own.filter_map(|line| read_line(&line.fields)).collect();
    let continued = continued(&parents(lines), &sent);
    let sent: Vec<&Line<'_>> =
        sent.iter().zip(continued).filter(|(_, is)| *is).map(|(line, _)| line).collect();
    let messages = merge(&sent);
    let requests = messages.iter().enumerate().filter(|(_, message)| message.is_assistant);
    let requests =
        requests.map(|(position, message)| RecordedRequest { position, usage: message.usage });
    let model = sent.iter().rev().find_map(|line| line.model);
    let writers = messages.iter().map(|message| |into: &mut String| write_message(message, into));
    History {
        requests: requests.collect(),
        json: write_request(&[("model", model)], "messages", writers),
    }
}

/// Returns a line that was sent to the model, or received from it.
fn read_line<'t>(line: &Object<'t>) -> Option<Line<'t>> {
    let is_assistant = match kind(line)?.as_str() {
        "user" => false,
        "assistant" => true,
        _ => return None,
    };
    if ["isMeta", "isApiErrorMessage"].iter().any(|name| is_set(line, name)) {
        return None;
    }
    let message = nested(line, "message")?;
    let content = message.get("content")?;
    let blocks = match json::array("content", content) {
        Ok(blocks) => blocks.into_iter().filter_map(|raw| read_block(raw, is_assistant)).collect(),
        Err(_) => {
            let is_blank = json::string("content", content).ok()?.trim().is_empty();
            let block = Block { raw: content, link: Link::Other, is_thinking: false };
            Vec::from_iter(Some(block).filter(|_| !is_blank))
        }
    };
    Some(Line {
        uuid: text(line, "uuid"),
        is_assistant,
        message_id: text(&message, "id").filter(|_| is_assistant),
        model: message.get("model"),
        usage: nested(&message, "usage").map(|usage| read_usage(&usage)),
        blocks,
    })
}

/// Returns a block, unless its text is blank or the role cannot send it: only responses have calls, and only the user has
/// results.
fn read_block(raw: RawJson<'_>, is_assistant: bool) -> Option<Block<'_>> {
    let block = json::object("block", raw).ok()?;
    let kind = kind(&block)?;
    if kind == "text" && text(&block, "text").is_none_or(|text| text.trim().is_empty()) {
        return None;
    }
    let link = match kind.as_str() {
        "tool_use" if is_assistant => Link::Call(text(&block, "id")?),
        "tool_result" if !is_assistant => Link::Result(text(&block, "tool_use_id")?),
        "tool_use" | "tool_result" => return None,
        _ => Link::Other,
    };
    Some(Block { raw, link, is_thinking: kind.ends_with("thinking") })
}

fn read_usage(usage: &Object<'_>) -> RecordedUsage {
    let tokens = |name| number(usage, name).unwrap_or_default();
    RecordedUsage {
        input_tokens: tokens("input_tokens"),
        cache_write_tokens: tokens("cache_creation_input_tokens"),
        cache_read_tokens: tokens("cache_read_input_tokens"),
        output_tokens: tokens("output_tokens"),
    }
}

/// Returns the parent of each line that has one, also of lines that are not sent.
fn parents(lines: &[LogLine<'_>]) -> BTreeMap<String, String> {
    let fields = lines.iter().map(|line| &line.fields);
    fields.filter_map(|line| Some((text(line, "uuid")?, text(line, "parentUuid")?))).collect()
}

/// Returns for each line whether it is on the branch of the last one.
///
/// Results of parallel calls are siblings, so two more kinds of lines belong to the branch: other blocks of its messages,
/// and results of its calls. A log without parents is one branch.
fn continued(parents: &BTreeMap<String, String>, lines: &[Line<'_>]) -> Vec<bool> {
    if parents.is_empty() {
        return vec![true; lines.len()];
    }
    let mut branch = BTreeSet::new();
    let mut next = lines.last().and_then(|line| line.uuid.as_deref());
    while let Some(uuid) = next.filter(|uuid| branch.insert(*uuid)) {
        next = parents.get(uuid).map(String::as_str);
    }
    let is_on_branch =
        |line: &Line<'_>| line.uuid.as_deref().is_none_or(|uuid| branch.contains(uuid));
    let on_branch = lines.iter().filter(|line| is_on_branch(line));
    let messages: BTreeSet<&str> =
        on_branch.filter_map(|line| line.message_id.as_deref()).collect();
    let is_in_message =
        |line: &&Line<'_>| line.message_id.as_deref().is_some_and(|id| messages.contains(id));
    let blocks = lines.iter().filter(is_in_message).flat_map(|line| &line.blocks);
    let calls: BTreeSet<&str> = blocks
        .filter_map(|block| match &block.link {
            Link::Call(id) => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let is_answer = |line: &Line<'_>| {
        line.blocks
            .iter()
            .any(|block| matches!(&block.link, Link::Result(id) if calls.contains(id.as_str())))
    };
    lines.iter().map(|line| is_on_branch(line) || is_in_message(&line) || is_answer(line)).collect()
}

/// Merges lines into messages of alternating roles, the first of the user. Results directly follow their calls.
fn merge<'l, 't>(lines: &[&'l Line<'t>]) -> Vec<Message<'l, 't>> {
    let links = lines.iter().flat_map(|line| line.blocks.iter().map(|block| &block.link));
    let mut answered = answered(links);
    let mut turns: Vec<(Message<'l, 't>, Vec<&'l Block<'t>>)> = Vec::new();
    // The turns by the ids of their messages, and of the calls that have no result yet.
    let (mut by_id, mut open): (BTreeMap<&str, usize>, BTreeMap<&str, usize>) = Default::default();
    for line in lines {
        let id = line.message_id.as_deref();
        let index = id.map_or(turns.len(), |id| *by_id.entry(id).or_insert(turns.len()));
        if index == turns.len() {
            let (is_assistant, blocks) = (line.is_assistant, Vec::new());
            turns.push((Message { is_assistant, usage: None, blocks }, Vec::new()));
        }
        turns[index].0.usage = line.usage.or(turns[index].0.usage);
        for block in &line.blocks {
            match &block.link {
                Link::Call(id) => {
                    if answered.remove(id.as_str()) {
                        open.insert(id, index);
                        turns[index].0.blocks.push(block);
                    }
                }
                // Results belong to the turn of their call.
                Link::Result(id) => {
                    if let Some(call) = open.remove(id.as_str()) {
                        turns[call].1.push(block);
                    }
                }
                Link::Other => turns[index].0.blocks.push(block),
            }
        }
    }
    let mut messages: Vec<Message<'l, 't>> = Vec::new();
    for (mut turn, results) in turns {
        let has_content = turn.blocks.iter().any(|block| !block.is_thinking);
        if !has_content || turn.is_assistant && messages.is_empty() {
            continue;
        }
        match messages.last_mut().filter(|last| last.is_assistant == turn.is_assistant) {
            Some(last) => last.blocks.append(&mut turn.blocks),
            None => messages.push(turn),
        }
        if !results.is_empty() {
            messages.push(Message { is_assistant: false, usage: None, blocks: results });
        }
    }
    messages
}

/// Writes a message. Its content is a string if the log has it as one, or else a list of blocks.
fn write_message(message: &Message<'_, '_>, into: &mut String) {
    let role = if message.is_assistant { "assistant" } else { "user" };
    into.push_str("{\"role\":\"");
    into.push_str(role);
    into.push_str("\",\"content\":");
    match message.blocks.as_slice() {
        [block] if json::is_string(block.raw) => json::write(block.raw, into),
        blocks => {
            for (block, index) in blocks.iter().zip(0..) {
                into.push(if index == 0 { '[' } else { ',' });
                match json::is_string(block.raw) {
                    true => {
                        into.push_str("{\"type\":\"text\",\"text\":");
                        json::write(block.raw, into);
                        into.push('}');
                    }
                    false => json::write(block.raw, into),
                }
            }
            into.push(']');
        }
    }
    into.push('}');
}
