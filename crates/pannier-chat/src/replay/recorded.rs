//! Recorded sessions, cut into the requests that the agent sent.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Arguments;
use std::sync::Arc;

use super::block::{Block, BlockReader, ReplayMessage, Role, is_error, message_list, parts_text};
use super::terms::terms;
use crate::json::{self, Object};
use crate::{ChatError, LogFormat, Provider, RecordedRequest, RecordedUsage, SessionLog};

/// A name of the agent's next message that occurs in at most this many earlier messages is a needle.
const MAX_NEEDLE_MESSAGES: usize = 2;

/// A needle in one of this many newest results is not hard.
pub(super) const NEWEST_RESULTS: usize = 2;

/// A recorded session: the whole history, and the requests in it.
///
/// The history is normalized: neighbors of one role are merged, results precede texts, and only texts, tool calls and
/// results are kept. Calls without a result in the next message and results without a call are dropped. The system prompt and the tools are
/// the same in every request, so they are left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedSession {
    /// The name, such as that of the file.
    pub name: String,
    /// The history.
    pub messages: Vec<ReplayMessage>,
    /// The requests, one for each message of the assistant after the first message.
    pub requests: Vec<ReplayRequest>,
    /// All blocks, with the index of their message.
    pub(super) blocks: Vec<(usize, Arc<Block>)>,
}

/// A request of a recorded session.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplayRequest {
    /// The number of messages that were sent.
    pub messages: usize,
    /// The number of blocks that were sent.
    pub(super) blocks: usize,
    /// The rare names that the agent's next message uses.
    pub(super) needles: Vec<Needle>,
    /// The usage that the provider reported.
    pub usage: Option<RecordedUsage>,
}

/// An identifier or number that the agent's next message uses and that few earlier messages have.
#[derive(Debug)]
pub(super) struct Needle {
    pub(super) term: String,
    /// The indices of the earlier blocks that contain it, in order. Never empty.
    pub(super) sources: Vec<usize>,
    /// Whether all sources are results, and older than the newest ones.
    pub(super) is_hard: bool,
}

impl RecordedSession {
    /// Reads a recorded session: the log of an agent, or the JSON of its last request or list of messages. The contents
    /// show the format. A log that was compacted has several sessions.
    ///
    /// # Errors
    ///
    /// [`ChatError::NotJson`] or [`ChatError::Invalid`] with the location; [`ChatError::NothingToSend`] if a log has no
    /// requests.
    pub fn read(
        name: &str,
        text: &str,
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<Self>, ChatError> {
        let Some(format) = LogFormat::detect(text) else {
            return Ok(vec![Self::read_messages(name.to_owned(), text, &[], reader)?]);
        };
        let mut sessions = Vec::new();
        let log = SessionLog::read(format, text)?;
        let answered = log.histories.iter().filter(|history| !history.requests.is_empty());
        for (history, number) in answered.zip(1..) {
            let name = if number == 1 { name.to_owned() } else { format!("{name}#{number}") };
            sessions.push(Self::read_messages(name, &history.json, &history.requests, reader)?);
        }
        if sessions.is_empty() {
            let problem = format!("the {format} log has no request with a response");
            return Err(ChatError::NothingToSend { problem });
        }
        Ok(sessions)
    }

    fn read_messages(
        name: String,
        text: &str,
        requests: &[RecordedRequest],
        reader: &mut BlockReader<'_>,
    ) -> Result<Self, ChatError> {
        let (list_name, list) = message_list(json::parse(text)?)?;
        let mut messages = Vec::with_capacity(list.len());
        for (index, raw) in list.into_iter().enumerate() {
            messages.push(json::object(format_args!("{list_name}[{index}]"), raw)?);
        }
        let provider = detect(list_name, &messages);
        let usage = |index| {
            let request = requests.iter().find(|request| request.position == index);
            request.and_then(|request| request.usage)
        };
        let mut history = History::default();
        for (index, message) in messages.iter().enumerate() {
            let path = format_args!("{list_name}[{index}]");
            let read = match provider {
                Provider::Responses => read_item(path, message, reader)?,
                Provider::OpenAi => read_openai(path, message, reader)?,
                _ => read_anthropic(path, message, reader)?,
            };
            if let Some((role, blocks)) = read {
                history.add(role, blocks, usage(index));
            }
        }
        Ok(Self::from_history(name, history.paired()))
    }

    fn from_history(name: String, history: History) -> Self {
        let messages = history.messages;
        let blocks: Vec<(usize, Arc<Block>)> = messages
            .iter()
            .enumerate()
            .flat_map(|(index, message)| {
                message.blocks.iter().map(move |block| (index, Arc::clone(block)))
            })
            .collect();
        let mut requests = Vec::new();
        let mut sent = 0;
        for (index, message) in messages.iter().enumerate() {
            if index > 0 && message.role == Role::Assistant {
                requests.push(ReplayRequest {
                    messages: index,
                    blocks: sent,
                    needles: needles(message, &blocks[..sent]),
                    usage: history.usages.get(index).copied().flatten(),
                });
            }
            sent += message.blocks.len();
        }
        Self { name, messages, requests, blocks }
    }

    /// Returns the message of a block, and its position in the message.
    pub(super) fn position(&self, block: usize) -> (usize, usize) {
        let message = self.blocks[block].0;
        (message, block - self.blocks.partition_point(|(other, _)| *other < message))
    }

    /// Returns the tokens of the whole history.
    pub fn tokens(&self) -> i64 {
        self.messages.iter().map(ReplayMessage::tokens).sum()
    }
}

/// Returns the needles of a message among the earlier blocks.
fn needles(message: &ReplayMessage, earlier: &[(usize, Arc<Block>)]) -> Vec<Needle> {
    let results = earlier.iter().enumerate().rev().filter(|(_, (_, block))| block.is_result());
    let newest: Vec<usize> = results.take(NEWEST_RESULTS).map(|(index, _)| index).collect();
    let texts: Vec<&str> = message.blocks.iter().map(|block| block.text.as_str()).collect();
    let text = texts.join(" ");
    let mut seen = BTreeSet::new();
    let mut needles = Vec::new();
    for term in terms(&text).filter(|term| seen.insert(*term)) {
        let Some(sources) = sources(term, earlier) else { continue };
        let is_old_result =
            |index: &usize| earlier[*index].1.is_result() && !newest.contains(index);
        let is_hard = sources.iter().all(is_old_result);
        needles.push(Needle { term: term.to_owned(), sources, is_hard });
    }
    needles
}

/// Returns the indices of the blocks that contain a term, if they are of one or two messages.
fn sources(term: &str, blocks: &[(usize, Arc<Block>)]) -> Option<Vec<usize>> {
    let (mut sources, mut messages, mut last_message) = (Vec::new(), 0, None);
    for (index, (message, block)) in blocks.iter().enumerate() {
        if !block.text.contains(term) {
            continue;
        }
        if last_message != Some(*message) {
            messages += 1;
            last_message = Some(*message);
        }
        if messages > MAX_NEEDLE_MESSAGES {
            return None;
        }
        sources.push(index);
    }
    (!sources.is_empty()).then_some(sources)
}

/// A history under construction.
#[derive(Default)]
struct History {
    messages: Vec<ReplayMessage>,
    /// The usage of each message.
    usages: Vec<Option<RecordedUsage>>,
}

impl History {
    /// Adds blocks to the last message if it has the same role, or as a new message.
    fn add(&mut self, role: Role, mut blocks: Vec<Arc<Block>>, usage: Option<RecordedUsage>) {
        blocks.retain(|block| !block.is_blank());
        if blocks.is_empty() {
            return;
        }
        match (self.messages.last_mut(), self.usages.last_mut()) {
            (Some(last), Some(last_usage)) if last.role == role => {
                last.blocks.append(&mut blocks);
                if role == Role::User {
                    last.blocks.sort_by_key(|block| !block.is_result());
                }
                // The blocks of one response repeat its usage.
                *last_usage = last_usage.or(usage);
            }
            _ => {
                self.messages.push(ReplayMessage { role, blocks });
                self.usages.push(usage);
            }
        }
    }

    /// Returns the history without unpaired calls and results, and without messages before the first of the user. A
    /// message that becomes empty makes neighbors of others, so the rules are applied until nothing changes.
    fn paired(mut self) -> Self {
        loop {
            let blocks = self.block_count();
            self = self.pair_neighbors();
            if self.block_count() == blocks {
                return self;
            }
        }
    }

    fn block_count(&self) -> usize {
        self.messages.iter().map(|message| message.blocks.len()).sum()
    }

    /// Drops calls without a result in the next message, and results without a call in the previous one.
    fn pair_neighbors(&self) -> Self {
        let has = |index: Option<usize>, id: &str, is_result: bool| {
            let message = index.and_then(|index| self.messages.get(index));
            message.is_some_and(|message| {
                let mut blocks = message.blocks.iter();
                blocks.any(|block| block.id() == Some(id) && block.is_result() == is_result)
            })
        };
        let is_user = |message: &ReplayMessage| message.role == Role::User;
        let first = self.messages.iter().position(is_user).unwrap_or(self.messages.len());
        let mut paired = Self::default();
        for (index, message) in self.messages.iter().enumerate().skip(first) {
            let mut seen = BTreeSet::new();
            let mut kept = Vec::with_capacity(message.blocks.len());
            for block in &message.blocks {
                let is_paired = |id: &str| match block.is_result() {
                    true => index > first && has(index.checked_sub(1), id, false),
                    false => has(Some(index + 1), id, true),
                };
                if block.id().is_none_or(|id| is_paired(id) && seen.insert(id)) {
                    kept.push(Arc::clone(block));
                }
            }
            paired.add(message.role, kept, self.usages.get(index).copied().flatten());
        }
        paired
    }
}

/// Returns the provider whose format messages have.
fn detect(list_name: &str, messages: &[Object<'_>]) -> Provider {
    let has = |message: &Object<'_>, name, values: &[&str]| {
        message.get(name).is_some_and(|value| values.contains(&value.get()))
    };
    let is_item = |message: &Object<'_>| {
        has(message, "type", &["\"function_call\"", "\"function_call_output\""])
    };
    let is_openai = |message: &Object<'_>| {
        message.get("tool_calls").is_some()
            || has(message, "role", &["\"system\"", "\"developer\"", "\"tool\""])
    };
    let any = |is: &dyn Fn(&Object<'_>) -> bool| messages.iter().any(is);
    match () {
        () if list_name == "input" || any(&is_item) => Provider::Responses,
        () if any(&is_openai) => Provider::OpenAi,
        () => Provider::Anthropic,
    }
}

type RoleAndBlocks = Option<(Role, Vec<Arc<Block>>)>;

fn read_anthropic(
    path: Arguments<'_>,
    message: &Object<'_>,
    reader: &mut BlockReader<'_>,
) -> Result<RoleAndBlocks, ChatError> {
    let role = match &*json::required_str(path, message, "role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Ok(None),
    };
    let Some(content) = message.get("content") else {
        return Ok(None);
    };
    let path = format_args!("{path}.content");
    if json::is_string(content) {
        return Ok(Some((role, vec![reader.text(&json::string(path, content)?)])));
    }
    let mut blocks = Vec::new();
    for (index, raw) in json::array(path, content)?.into_iter().enumerate() {
        let path = format_args!("{path}[{index}]");
        let block = json::object(path, raw)?;
        let string = |name| json::required_str(path, &block, name);
        match &*string("type")? {
            "text" => blocks.push(reader.text(&string("text")?)),
            "tool_use" => {
                let Some(input) = block.get("input") else { continue };
                blocks.push(reader.tool_use(&string("id")?, &string("name")?, input));
            }
            "tool_result" => {
                let text = parts_text(path, &block, "content")?;
                blocks.push(reader.tool_result(&string("tool_use_id")?, &text, is_error(&block)));
            }
            _ => {}
        }
    }
    Ok(Some((role, blocks)))
}

fn read_openai(
    path: Arguments<'_>,
    message: &Object<'_>,
    reader: &mut BlockReader<'_>,
) -> Result<RoleAndBlocks, ChatError> {
    let text = parts_text(path, message, "content")?;
    let mut blocks = vec![reader.text(&text)];
    let role = match &*json::required_str(path, message, "role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => {
            let id = json::required_str(path, message, "tool_call_id")?;
            return Ok(Some((Role::User, vec![reader.tool_result(&id, &text, false)])));
        }
        _ => return Ok(None),
    };
    if let Some(calls) = message.get("tool_calls") {
        let path = format_args!("{path}.tool_calls");
        for (index, raw) in json::array(path, calls)?.into_iter().enumerate() {
            let path = format_args!("{path}[{index}]");
            let call = json::object(path, raw)?;
            let id = json::required_str(path, &call, "id")?;
            let Some(function) = call.get("function") else { continue };
            let function = json::object(path, function)?;
            let name = json::required_str(path, &function, "name")?;
            let arguments = json::required_str(path, &function, "arguments")?;
            blocks.push(reader.tool_use(&id, &name, json::parse(&call_input(&arguments))?));
        }
    }
    Ok(Some((role, blocks)))
}

/// Reads an item of OpenAI's Responses API.
fn read_item(
    path: Arguments<'_>,
    item: &Object<'_>,
    reader: &mut BlockReader<'_>,
) -> Result<RoleAndBlocks, ChatError> {
    let string = |name| json::optional_str(path, item, name);
    let kind = string("type")?;
    Ok(match kind.as_str() {
        "" | "message" => {
            let role = match string("role")?.as_str() {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                _ => return Ok(None),
            };
            Some((role, vec![reader.text(&parts_text(path, item, "content")?)]))
        }
        "function_call" | "custom_tool_call" => {
            let arguments = string(if kind == "function_call" { "arguments" } else { "input" })?;
            let input = call_input(&arguments);
            let call = reader.tool_use(&string("call_id")?, &string("name")?, json::parse(&input)?);
            Some((Role::Assistant, vec![call]))
        }
        "local_shell_call" => {
            let Some(action) = item.get("action") else { return Ok(None) };
            let call = reader.tool_use(&string("call_id")?, "local_shell", action);
            Some((Role::Assistant, vec![call]))
        }
        _ if kind.ends_with("_call_output") => {
            let text = parts_text(path, item, "output")?;
            Some((Role::User, vec![reader.tool_result(&string("call_id")?, &text, false)]))
        }
        _ => None,
    })
}

/// Returns the arguments of a call as an object.
fn call_input(arguments: &str) -> Cow<'_, str> {
    if json::parse(arguments).is_ok_and(|input| input.get().starts_with('{')) {
        return Cow::Borrowed(arguments);
    }
    let mut text = "{\"arguments\":".to_owned();
    json::write_string(arguments, &mut text);
    text.push('}');
    Cow::Owned(text)
}
