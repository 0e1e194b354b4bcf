//! The referee: replays recorded sessions request by request and measures what a policy sends.
//!
//! A session is cut before each message of the assistant. A policy gets the history up to there and a budget, and returns
//! the messages to send. The referee compares consecutive requests block by block, as a prompt cache does, and looks for
//! the names that the agent used next.
//!
//! - **Cost**: the tokens of the longest common prefix of blocks with the previous request at the read price, all others at
//!   the write price. It is relative to sending everything. Output tokens are left out.
//! - **Needle**: an identifier or number of the agent's next message that occurs in one or two earlier messages. A needle
//!   is hard if it occurs only in results other than the newest two. A needle is lost if no sent block contains it. It is
//!   sent in its line if a sent line that contains it is also a line of its source.
//! - **Cost with recalls**: the cost if the model recalled the newest source of each lost needle as a whole: one more read
//!   of the request, and the tokens of the sources at the write price.
//!
//! Needles, the task and the last edits are measured on requests whose whole history exceeds the budget. Tokens are those
//! of the texts, 4 for each message, and 8 for each tool call and result. The input of a call is counted as its name, a
//! space, and JSON with a space after each comma and colon.

mod block;
mod policy;
mod recorded;
mod report;
mod terms;
mod trace;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use block::{Block, BlockKind, BlockReader, ReplayMessage, Role, request_json};
pub use policy::{Everything, FitSession, OldestFirst, ReplayPolicy, TrimEachRequest};
pub use recorded::{RecordedSession, ReplayRequest};
pub use report::{CacheReads, Figures, Prices, Summary};
pub use trace::{FormChange, PrefixBreak, SessionTrace, TracedBlock, TracedTurn};

use recorded::Needle;

/// The tools that edit files.
const EDIT_TOOLS: [&str; 7] = [
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "apply_patch",
];

/// The newest edits that should stay whole.
const NEWEST_EDITS: usize = 3;

/// The characters by which a shortened text is recognized.
const TEXT_START_CHARS: usize = 40;

/// Replays a session. `step` is called before each request and may stop the replay.
///
/// # Errors
///
/// The errors of `step`.
pub fn replay<E>(
    session: &RecordedSession,
    budget: i64,
    policy: &mut dyn ReplayPolicy,
    reader: &mut BlockReader<'_>,
    mut step: impl FnMut() -> Result<(), E>,
) -> Result<Figures, E> {
    let mut figures = Figures::default();
    let (mut previous, mut previous_tokens) = (None, 0);
    let (mut tokens, mut counted) = (0, 0);
    for request in &session.requests {
        step()?;
        let history = &session.messages[..request.messages];
        tokens += history[counted..].iter().map(ReplayMessage::tokens).sum::<i64>();
        counted = history.len();
        let is_over = tokens > budget;
        figures.requests += 1;
        figures.requests_over_budget += u64::from(is_over);
        let sent = match policy.fit(history, reader) {
            Ok(sent) => sent,
            Err(reason) => {
                figures.refused += 1;
                figures.refused_over_budget += u64::from(is_over);
                figures.refusal = Some(reason);
                (previous, previous_tokens) = (None, tokens);
                continue;
            }
        };
        figures.cache.add(request, tokens, previous_tokens);
        figures.everything_read += previous_tokens;
        figures.everything_written += tokens - previous_tokens;
        previous_tokens = tokens;
        let sent = Sent::new(sent);
        figures.add_prefix(&sent, previous.as_ref());
        if sent.tokens > budget && policy.has_budget() {
            figures.overruns += 1;
            figures.overrun_tokens += sent.tokens - budget;
        }
        let is_relaxed = tokens as f64 <= budget as f64 * policy.pressure_point();
        figures.changed_without_pressure += u64::from(is_relaxed && sent.messages != history);
        let fault = validate::anthropic_fault(&sent.messages)
            .or_else(|| validate::openai_fault(&sent.messages));
        if let Some(fault) = fault {
            figures.invalid += 1;
            *figures.faults.entry(fault.to_owned()).or_default() += 1;
        }
        if is_over {
            let lost = figures.add_needles(session, &request.needles, &sent);
            figures.recallable += recallable(session, history, &lost, &sent, policy, reader);
            figures.add_kept(session, request, &sent);
        }
        previous = Some(sent);
    }
    Ok(figures)
}

/// A request that a policy returned.
struct Sent {
    messages: Vec<ReplayMessage>,
    blocks: Vec<SentBlock>,
    tokens: i64,
}

/// A block of a request.
struct SentBlock {
    role: Role,
    block: Arc<Block>,
    /// Its tokens. The first block of a message has those of the message, too.
    tokens: i64,
}

impl SentBlock {
    fn is(&self, role: Role, block: &Block) -> bool {
        self.role == role && *self.block == *block
    }
}

impl Sent {
    fn new(messages: Vec<ReplayMessage>) -> Self {
        let mut blocks = Vec::new();
        for message in &messages {
            for (index, block) in message.blocks.iter().enumerate() {
                let frame = if index == 0 { crate::message::TOKENS_PER_MESSAGE } else { 0 };
                let tokens = block.tokens + frame;
                blocks.push(SentBlock { role: message.role, block: Arc::clone(block), tokens });
            }
        }
        let tokens = blocks.iter().map(|sent| sent.tokens).sum();
        Self { messages, blocks, tokens }
    }

    fn contains(&self, role: Role, block: &Block) -> bool {
        self.blocks.iter().any(|sent| sent.is(role, block))
    }

    fn contains_text(&self, text: &str) -> bool {
        self.blocks.iter().any(|sent| sent.block.text.contains(text))
    }

    /// Returns whether a line with the term is sent as the source has it. A list of names or a shortened line is not.
    fn has_line(&self, term: &str, source: &Block) -> bool {
        let is_line = |line: &str| source.text.lines().any(|other| other == line);
        let has_line = |text: &str| text.lines().any(|line| line.contains(term) && is_line(line));
        let blocks = || self.blocks.iter().map(|sent| &*sent.block);
        blocks().any(|block| block == source) || blocks().any(|block| has_line(&block.text))
    }

    /// Returns the blocks that name a cut one: a call and its result have the same id, a text has its beginning and the word
    /// `recall`.
    fn forms_of(&self, source: &Block) -> impl Iterator<Item = &Block> {
        let end = source.text.char_indices().nth(TEXT_START_CHARS);
        let start = &source.text[..end.map_or(source.text.len(), |(index, _)| index)];
        let is_form = move |block: &&Block| match source.id() {
            Some(id) => block.id() == Some(id),
            None => {
                block.is_text() && block.text.starts_with(start) && block.text.contains("recall")
            }
        };
        self.blocks.iter().map(|sent| &*sent.block).filter(is_form)
    }

    /// Returns the recall ids that may give a cut block back: those of its forms, and those of the first message, which name
    /// turns that were left out.
    fn recall_ids(&self, source: &Block) -> Vec<&str> {
        let first = self.messages.first().map_or(&[][..], |message| &message.blocks);
        let blocks = self.forms_of(source).chain(first.iter().map(|block| &**block));
        blocks.flat_map(|block| recall_ids(&block.text)).collect()
    }
}

/// Returns the ids in a text that follow the word `recall`.
fn recall_ids(text: &str) -> Vec<&str> {
    let ids = text.split("recall ").skip(1).map(|rest| {
        let end = rest.find(|character: char| !character.is_ascii_hexdigit());
        &rest[..end.unwrap_or(rest.len())]
    });
    ids.filter(|id| [8, 32].contains(&id.len())).collect()
}

/// Counts the lost needles whose source a request gives back: by a recall id that returns exactly the source, or its turn. If
/// the policy has no recall, it suffices that the request names the source.
fn recallable(
    session: &RecordedSession,
    history: &[ReplayMessage],
    lost: &[&Needle],
    sent: &Sent,
    policy: &dyn ReplayPolicy,
    reader: &mut BlockReader<'_>,
) -> u64 {
    let sources = || lost.iter().flat_map(|needle| &needle.sources);
    let source = |index: usize| &*session.blocks[index].1;
    let ids: BTreeSet<&str> = sources().flat_map(|index| sent.recall_ids(source(*index))).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let mut given_back = BTreeSet::new();
    match policy.recall(history, &ids) {
        Some(contents) => {
            let contents: BTreeMap<&str, String> =
                ids.iter().zip(contents).filter_map(|(id, text)| Some((*id, text?))).collect();
            for index in sources() {
                let ids = sent.recall_ids(source(*index));
                let mut contents = ids.iter().filter_map(|id| contents.get(id));
                if contents.any(|content| is_content_of(content, source(*index), reader)) {
                    given_back.insert(*index);
                }
            }
        }
        None => given_back
            .extend(sources().filter(|index| sent.forms_of(source(**index)).next().is_some())),
    }
    let is_given_back =
        |needle: &&&Needle| needle.sources.iter().any(|index| given_back.contains(index));
    lost.iter().filter(is_given_back).count() as u64
}

/// Returns whether a recalled content is that of a block: its text, the input of a call, or messages with the block.
fn is_content_of(content: &str, source: &Block, reader: &mut BlockReader<'_>) -> bool {
    let text = match &source.kind {
        BlockKind::ToolUse { name, .. } => source.text.get(name.len() + 1..).unwrap_or_default(),
        _ => &source.text,
    };
    let has_block = |messages: Vec<ReplayMessage>| {
        messages.iter().any(|message| message.blocks.iter().any(|block| **block == *source))
    };
    content == text || reader.read_request(content).is_ok_and(has_block)
}

impl Figures {
    /// Compares a request with the previous one, as a prompt cache does.
    fn add_prefix(&mut self, sent: &Sent, previous: Option<&Sent>) {
        let mut read = 0;
        if let Some(previous) = previous {
            let pairs = sent.blocks.iter().zip(&previous.blocks);
            let same = pairs.take_while(|(block, other)| block.is(other.role, &other.block));
            let mut common = 0;
            for (block, _) in same {
                read += block.tokens;
                common += 1;
            }
            if common < previous.blocks.len() {
                self.prefix_edits += 1;
                let end = previous.blocks.len().min(sent.blocks.len()).max(common);
                let rewritten = sent.blocks[common..end].iter().map(|block| block.tokens).sum();
                self.max_rewritten_tokens = self.max_rewritten_tokens.max(rewritten);
            }
        }
        self.read += read;
        self.written += sent.tokens - read;
    }

    /// Counts needles, and returns the lost ones.
    fn add_needles<'n>(
        &mut self,
        session: &RecordedSession,
        needles: &'n [Needle],
        sent: &Sent,
    ) -> Vec<&'n Needle> {
        let (mut lost, mut lost_sources) = (Vec::new(), BTreeSet::<usize>::new());
        for needle in needles {
            self.needles += 1;
            self.hard_needles += u64::from(needle.is_hard);
            if sent.contains_text(&needle.term) {
                let sources = needle.sources.iter().map(|index| &*session.blocks[*index].1);
                let has_line =
                    sources.into_iter().any(|source| sent.has_line(&needle.term, source));
                self.needles_in_line += u64::from(has_line);
                self.hard_needles_in_line += u64::from(has_line && needle.is_hard);
                continue;
            }
            lost.push(needle);
            self.lost_hard_needles += u64::from(needle.is_hard);
            lost_sources.extend(needle.sources.last());
        }
        let count = lost.len() as u64;
        self.lost_needles += count;
        self.lossy_requests += u64::from(count > 0);
        self.max_lost_needles = self.max_lost_needles.max(count);
        if !lost_sources.is_empty() {
            self.recall_read += sent.tokens;
            let sources = lost_sources.into_iter().map(|index| session.blocks[index].1.tokens);
            self.recall_written += sources.sum::<i64>();
        }
        lost
    }

    /// Checks the first block of the task and the last edits.
    fn add_kept(&mut self, session: &RecordedSession, request: &ReplayRequest, sent: &Sent) {
        let task = session.blocks.first().map(|(_, block)| block);
        self.task_kept += u64::from(task.is_some_and(|block| sent.contains(Role::User, block)));
        let blocks = session.blocks[..request.blocks].iter().rev().map(|(_, block)| block);
        let is_edit = |block: &&Arc<Block>| matches!(&block.kind, BlockKind::ToolUse { name, .. } if EDIT_TOOLS.contains(&name.as_str()));
        let mut edits = blocks.filter(is_edit).take(NEWEST_EDITS);
        self.edits_kept += u64::from(edits.all(|block| sent.contains(Role::Assistant, block)));
    }
}

/// The faults of invalid requests, by rule.
type Faults = BTreeMap<String, u64>;
