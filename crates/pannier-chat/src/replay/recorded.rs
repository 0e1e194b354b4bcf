//! Recorded sessions, cut into the requests that the agent sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::block::{
    Block, BlockKind, BlockReader, ReplayMessage, Role, is_error, message_list, result_text,
};
use super::terms::terms;
use crate::json::{self, Object};
use crate::{ChatError, Provider};

/// A name of the agent's next message that occurs in at most this many earlier messages is a needle.
const MAX_NEEDLE_MESSAGES: usize = 2;

/// A needle in one of this many newest results is not hard.
pub(super) const NEWEST_RESULTS: usize = 2;

/// A recorded session: the whole history, and the requests in it.
///
/// The history is normalized: neighbors of one role are merged, results precede texts, and only texts, tool calls and
/// results are kept. Calls without a result and results without a call are dropped. The system prompt and the tools are
/// the same in every request, so they are left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedSession {
    /// The name, such as that of the file.
    pub name: String,
    /// The history.
    pub messages: Vec<ReplayMessage>,
    /// The requests, one for each message of the assistant after the first message.
    pub requests: Vec<RecordedRequest>,
    /// All blocks, with the index of their message.
    pub(super) blocks: Vec<(usize, Arc<Block>)>,
}

/// A request of a recorded session.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The number of messages that were sent.
    pub messages: usize,
    /// The number of blocks that were sent.
    pub(super) blocks: usize,
    /// The rare names that the agent's next message uses.
    pub(super) needles: Vec<Needle>,
    /// The usage that the provider reported.
    pub usage: Option<Usage>,
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

/// The input tokens of a request, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The tokens that were read from the cache.
    pub cache_read_tokens: i64,
    /// All input tokens.
    pub input_tokens: i64,
}

impl RecordedSession {
    /// Reads the last request of a session: the JSON of its messages, or of a request that contains them. Without a
    /// provider, the roles and fields of the messages show the format.
    ///
    /// # Errors
    ///
    /// [`ChatError::NotJson`] or [`ChatError::Invalid`] with the location.
    pub fn read(
        name: impl Into<String>,
        provider: Option<Provider>,
        text: &str,
        reader: &mut BlockReader<'_>,
    ) -> Result<Self, ChatError> {
        let list = message_list(json::parse(text)?)?;
        let mut messages = Vec::with_capacity(list.len());
        for (index, raw) in list.into_iter().enumerate() {
            messages.push(json::object(&format!("messages[{index}]"), raw)?);
        }
        let provider = provider.unwrap_or_else(|| detect(&messages));
        let mut history = History::default();
        for (index, message) in messages.iter().enumerate() {
            let path = format!("messages[{index}]");
            let read = match provider {
                Provider::Anthropic => read_anthropic(&path, message, reader)?,
                _ => read_openai(&path, message, reader)?,
            };
            if let Some((role, blocks)) = read {
                history.add(role, blocks, usage(&path, message)?);
            }
        }
        Ok(Self::from_history(name.into(), history.paired()))
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
                requests.push(RecordedRequest {
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
    usages: Vec<Option<Usage>>,
}

impl History {
    /// Adds blocks to the last message if it has the same role, or as a new message.
    fn add(&mut self, role: Role, mut blocks: Vec<Arc<Block>>, usage: Option<Usage>) {
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

    /// Returns the history without unpaired calls and results, second results, and messages before the first of the user.
    fn paired(self) -> Self {
        let blocks = || self.messages.iter().flat_map(|message| &message.blocks);
        let ids = |is_wanted: fn(&Block) -> bool| -> BTreeSet<&str> {
            blocks().filter(|block| is_wanted(block)).filter_map(|block| block.id()).collect()
        };
        let calls = ids(|block| matches!(block.kind, BlockKind::ToolUse { .. }));
        let results = ids(Block::is_result);
        let mut answered = BTreeSet::new();
        let mut paired = Self::default();
        for (message, usage) in self.messages.iter().zip(&self.usages) {
            let mut kept = Vec::with_capacity(message.blocks.len());
            for block in &message.blocks {
                let is_paired = |id: &str| calls.contains(id) && results.contains(id);
                let mut is_new = |id| !block.is_result() || answered.insert(id);
                if block.id().is_none_or(|id| is_paired(id) && is_new(id)) {
                    kept.push(Arc::clone(block));
                }
            }
            paired.add(message.role, kept, *usage);
        }
        let is_user = |message: &ReplayMessage| message.role == Role::User;
        let first = paired.messages.iter().position(is_user).unwrap_or(paired.messages.len());
        paired.messages.drain(..first);
        paired.usages.drain(..first);
        paired
    }
}

/// Returns the provider whose format messages have.
fn detect(messages: &[Object<'_>]) -> Provider {
    let is_openai = |message: &Object<'_>| {
        let role = message.get("role").map_or("", RawValue::get);
        message.get("tool_calls").is_some()
            || ["\"system\"", "\"developer\"", "\"tool\"", "\"function\""].contains(&role)
    };
    match messages.iter().any(is_openai) {
        true => Provider::OpenAi,
        false => Provider::Anthropic,
    }
}

type RoleAndBlocks = Option<(Role, Vec<Arc<Block>>)>;

fn read_anthropic(
    path: &str,
    message: &Object<'_>,
    reader: &mut BlockReader<'_>,
) -> Result<RoleAndBlocks, ChatError> {
    let role = match json::required_str(path, message, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Ok(None),
    };
    let Some(content) = message.get("content") else {
        return Ok(None);
    };
    let path = format!("{path}.content");
    if json::is_string(content) {
        return Ok(Some((role, vec![reader.text(&json::string(&path, content)?)])));
    }
    let mut blocks = Vec::new();
    for (index, raw) in json::array(&path, content)?.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        let block = json::object(&path, raw)?;
        let string = |name| json::required_str(&path, &block, name);
        match string("type")?.as_str() {
            "text" => blocks.push(reader.text(&string("text")?)),
            "tool_use" => {
                let Some(input) = block.get("input") else { continue };
                blocks.push(reader.tool_use(&string("id")?, &string("name")?, input));
            }
            "tool_result" => {
                let text = result_text(&path, &block)?;
                blocks.push(reader.tool_result(&string("tool_use_id")?, &text, is_error(&block)));
            }
            _ => {}
        }
    }
    Ok(Some((role, blocks)))
}

fn read_openai(
    path: &str,
    message: &Object<'_>,
    reader: &mut BlockReader<'_>,
) -> Result<RoleAndBlocks, ChatError> {
    let text = result_text(path, message)?;
    let mut blocks = vec![reader.text(&text)];
    let role = match json::required_str(path, message, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => {
            let id = json::required_str(path, message, "tool_call_id")?;
            return Ok(Some((Role::User, vec![reader.tool_result(&id, &text, false)])));
        }
        _ => return Ok(None),
    };
    if let Some(calls) = message.get("tool_calls") {
        let path = format!("{path}.tool_calls");
        for (index, raw) in json::array(&path, calls)?.into_iter().enumerate() {
            let path = format!("{path}[{index}]");
            let call = json::object(&path, raw)?;
            let id = json::required_str(&path, &call, "id")?;
            let Some(function) = call.get("function") else { continue };
            let function = json::object(&path, function)?;
            let name = json::required_str(&path, &function, "name")?;
            let arguments = json::required_str(&path, &function, "arguments")?;
            blocks.push(reader.tool_use(&id, &name, &call_input(&arguments)?));
        }
    }
    Ok(Some((role, blocks)))
}

/// Parses the arguments of a call. Those that are not an object become one.
fn call_input(arguments: &str) -> Result<Box<RawValue>, ChatError> {
    if let Ok(input) = serde_json::from_str::<Box<RawValue>>(arguments)
        && input.get().starts_with('{')
    {
        return Ok(input);
    }
    let mut text = "{\"arguments\":".to_owned();
    json::write_string(arguments, &mut text);
    text.push('}');
    RawValue::from_string(text).map_err(|error| ChatError::invalid("arguments", error.to_string()))
}

/// Reads the provider's `usage` of a message, as logs record it.
fn usage(path: &str, message: &Object<'_>) -> Result<Option<Usage>, ChatError> {
    let Some(raw) = message.get("usage") else {
        return Ok(None);
    };
    let object = json::object(&format!("{path}.usage"), raw)?;
    let tokens = |name| object.get(name).and_then(|value| value.get().parse::<i64>().ok());
    let Some(new) = tokens("input_tokens") else {
        return Ok(None);
    };
    let read = tokens("cache_read_input_tokens").unwrap_or(0);
    let created = tokens("cache_creation_input_tokens").unwrap_or(0);
    let input_tokens = new.saturating_add(created).saturating_add(read);
    Ok(Some(Usage { cache_read_tokens: read, input_tokens }))
}
