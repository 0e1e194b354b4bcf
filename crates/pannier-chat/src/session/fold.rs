//! The steps of a session.
//!
//! A step takes the messages since the last request, shortens new results under pressure, and cuts a batch of blocks if the
//! request exceeds the budget. Blocks only get shorter. Each list holds the blocks that can still be cut, so the work of a
//! batch depends on the budget, not on the length of the history.

mod cut;
mod names;

use std::collections::HashMap;

use pannier_core::TokenCounter;
use pannier_policy::SessionOptions;
use pannier_tokens::parallel_map;

use self::names::{Name, Names};
use super::call::{Call, CallKind};
use super::id::{BlockHash, Ids};
use super::{CutForm, CutReason, Foresight};
use crate::items::PRIMING_TOKENS;
use crate::message::{Message, Part, PartKind, Role};
use crate::trimmed::write_message;
use crate::{Provider, Transcript, json};

/// The tokens up to which a text is never cut.
const MIN_TEXT_TOKENS: i64 = 60;

/// A part of a message, as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The position of its message in the transcript, and of the part in the message.
    pub(super) message: usize,
    pub(super) part: usize,
    pub(super) hash: BlockHash,
    pub(super) whole_tokens: i64,
    pub(super) tokens: i64,
    pub(super) cut: Option<(CutForm, CutReason, String)>,
    /// Whether it has its shortest form.
    is_minimal: bool,
    /// Whether it is never cut.
    is_pinned: bool,
    /// Whether its turn is left out.
    pub(super) is_gone: bool,
}

/// A tool result.
#[derive(Clone, Debug)]
struct ToolResult {
    block: usize,
    /// The last block that refers to it because it has the same content; otherwise its own.
    last_copy: usize,
    /// Its number among all results.
    number: usize,
    /// Its names, each once.
    names: Vec<Name>,
    call: Option<usize>,
}

/// A response and its results, or the next message of the user, which can be left out together.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The positions of its first message and after its last one.
    pub(super) start: usize,
    pub(super) end: usize,
    has_results: bool,
    has_thinking: bool,
}

/// The note about omitted turns.
#[derive(Clone, Debug)]
struct Note {
    id: String,
    text: String,
    tokens: i64,
}

/// The decisions after a number of messages.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    /// The tokens of all fields but the messages, and of the messages as they are sent.
    fixed: i64,
    sent_tokens: i64,
    /// The tokens that messages may take.
    limit: i64,
    /// The tokens to which shares refer.
    base: i64,
    pub(super) messages: usize,
    pub(super) blocks: Vec<Block>,
    ids: Ids,
    // Blocks that can still be cut, in the order of the history.
    results: Vec<ToolResult>,
    inputs: Vec<usize>,
    texts: Vec<usize>,
    /// The blocks of plans and writes, which later ones replace, with their subject.
    replaceable: Vec<(u64, usize)>,
    edits: Vec<usize>,
    /// The positions of messages that are never cut, ascending.
    pins: Vec<usize>,
    has_response: bool,
    // Knowledge about calls and names.
    calls: Vec<Call>,
    open_calls: HashMap<String, usize>,
    result_count: usize,
    last_call: HashMap<u64, usize>,
    last_whole_read: HashMap<u64, usize>,
    last_edit: HashMap<u64, usize>,
    last_replacement: HashMap<u64, usize>,
    names: Names,
    seen_results: HashMap<BlockHash, usize>,
    // Turns, of which the first are left out.
    turns: Vec<Turn>,
    open_turn: Option<Turn>,
    gone_turns: usize,
    gone_messages: usize,
    omitted: TurnsHasher,
    task: Option<usize>,
    last_user: usize,
    note: Option<Note>,
    // The last step.
    sent_blocks: usize,
    first_changed: Option<usize>,
}

/// The rules of a session.
#[derive(Clone, Copy)]
pub(super) struct Rules<'s> {
    pub(super) options: &'s SessionOptions,
    /// The hashes of the query's terms, ascending.
    pub(super) query: &'s [u64],
    pub(super) counter: &'s dyn TokenCounter,
    pub(super) foresight: Option<&'s Foresight>,
}

/// What a step works with.
#[derive(Clone, Copy)]
struct Step<'s, 't> {
    provider: Provider,
    messages: &'s [Message<'t>],
    options: &'s SessionOptions,
    query: &'s [u64],
    counter: &'s dyn TokenCounter,
    foresight: Option<&'s Foresight>,
    /// Why it cuts.
    reason: CutReason,
}

impl<'s, 't> Step<'s, 't> {
    fn because(self, reason: CutReason) -> Self {
        Self { reason, ..self }
    }

    fn part(&self, block: &Block) -> &'s Part<'t> {
        &self.messages[block.message].parts[block.part]
    }

    /// Returns when the agent next uses a block, as far as that is known.
    fn next_use(&self, block: &Block) -> usize {
        self.foresight.map_or(0, |foresight| {
            let next = foresight.next_use(block.message, block.part, self.messages.len());
            next.unwrap_or(usize::MAX)
        })
    }

    fn count(&self, text: &str) -> i64 {
        i64::try_from(self.counter.count(text)).unwrap_or(i64::MAX)
    }
}

fn share(base: i64, share: f64) -> i64 {
    (base as f64 * share) as i64
}

impl Fold {
    pub(super) fn new(transcript: &Transcript<'_>, available: i64) -> Self {
        let fixed = transcript.fixed_tokens();
        let base = available.saturating_sub(fixed).max(0);
        let mut pins = transcript.pins.clone();
        pins.sort_unstable();
        Self {
            fixed,
            sent_tokens: 0,
            limit: base.saturating_sub(PRIMING_TOKENS),
            base,
            messages: 0,
            blocks: Vec::new(),
            ids: Ids::default(),
            results: Vec::new(),
            inputs: Vec::new(),
            texts: Vec::new(),
            replaceable: Vec::new(),
            edits: Vec::new(),
            pins,
            has_response: false,
            calls: Vec::new(),
            open_calls: HashMap::new(),
            result_count: 0,
            last_call: HashMap::new(),
            last_whole_read: HashMap::new(),
            last_edit: HashMap::new(),
            last_replacement: HashMap::new(),
            names: Names::default(),
            seen_results: HashMap::new(),
            turns: Vec::new(),
            open_turn: None,
            gone_turns: 0,
            gone_messages: 0,
            omitted: TurnsHasher::default(),
            task: None,
            last_user: 0,
            note: None,
            sent_blocks: 0,
            first_changed: None,
        }
    }

    /// Returns whether it pins the messages that a transcript pins.
    pub(super) fn has_pins_of(&self, transcript: &Transcript<'_>) -> bool {
        let mut pins = transcript.pins.clone();
        pins.sort_unstable();
        self.pins == pins
    }

    /// Returns the tokens of the whole request.
    pub(super) fn total(&self) -> i64 {
        self.fixed.saturating_add(PRIMING_TOKENS).saturating_add(self.sent_tokens)
    }

    pub(super) fn is_over(&self) -> bool {
        self.sent_tokens > self.limit
    }

    /// Returns whether all messages together, with those that are never sent, are below every limit at which a step cuts.
    pub(super) fn stays_below_pressure(
        &self,
        transcript: &Transcript<'_>,
        options: &SessionOptions,
    ) -> bool {
        let messages = transcript.messages.iter();
        let tokens =
            messages.fold(0_i64, |sum, message| sum.saturating_add(message.input_tokens()));
        tokens <= self.limit.min(share(self.base, options.pressure))
    }

    /// Returns the number of blocks that the previous request contained, and the first of them that changed since.
    pub(super) fn change(&self) -> (usize, Option<usize>) {
        (self.sent_blocks, self.first_changed)
    }

    /// Leaves recall ids out of all forms.
    pub(super) fn hide_ids(&mut self) {
        self.ids.hide();
    }

    pub(super) fn id(&self, hash: BlockHash) -> String {
        self.ids.id(hash)
    }

    /// Returns the note about turns that were left out, and the message that it is added to.
    pub(super) fn note(&self) -> Option<(usize, &str)> {
        Some((self.task?, &self.note.as_ref()?.text))
    }

    pub(super) fn note_tokens(&self) -> i64 {
        self.note.as_ref().map_or(0, |note| note.tokens)
    }

    /// Returns the turns that were left out.
    pub(super) fn omitted_turns(&self) -> &[Turn] {
        &self.turns[..self.gone_turns]
    }

    /// Returns the recall id of the turns that were left out.
    pub(super) fn omitted_id(&self) -> String {
        self.note.as_ref().map(|note| note.id.clone()).unwrap_or_default()
    }

    /// Returns the turns of a history that can be left out.
    pub(super) fn turns(transcript: &Transcript<'_>) -> Vec<Turn> {
        let mut fold = Self::new(transcript, 0);
        for (index, message) in transcript.messages.iter().enumerate() {
            if message.rejection_rule.is_none() {
                fold.take_turn(index, message);
            }
        }
        fold.turns
    }

    /// Takes a step before every assistant message that follows the known ones, and at the end.
    pub(super) fn run(&mut self, transcript: &Transcript<'_>, rules: Rules<'_>) {
        let Rules { options, query, counter, foresight } = rules;
        let (provider, messages) = (transcript.provider, &transcript.messages);
        let mut hashes = block_hashes(&messages[self.messages..]).into_iter();
        for end in self.messages + 1..=messages.len() {
            // A response may have several items.
            let is_response = |message: &Message<'_>| {
                message.role == Role::Assistant && messages[end - 1].role != Role::Assistant
            };
            if messages.get(end).is_none_or(is_response) {
                let messages = &messages[..end];
                let reason = CutReason::OverBudget;
                let step = Step { provider, messages, options, query, counter, foresight, reason };
                self.step(step, &mut hashes);
            }
        }
    }

    /// Takes the next messages, with the hashes of their blocks, and cuts.
    fn step(&mut self, step: Step<'_, '_>, hashes: &mut impl Iterator<Item = BlockHash>) {
        (self.sent_blocks, self.first_changed) = (self.blocks.len(), None);
        let first_result = self.results.len();
        for (index, message) in step.messages.iter().enumerate().skip(self.messages) {
            if message.rejection_rule.is_none() {
                self.take(index, message, hashes);
            }
        }
        self.messages = step.messages.len();
        for result in first_result..self.results.len() {
            if self.sent_tokens > share(self.base, step.options.pressure) {
                self.shorten_new(result, step);
            } else {
                let block = self.results[result].block;
                self.seen_results.insert(self.blocks[block].hash, block);
            }
        }
        if self.is_over() {
            self.cut_batch(step);
        }
        if self.is_over() {
            self.cut_hard(step);
        }
    }

    /// Adds the blocks of a message, and learns what they name.
    fn take(
        &mut self,
        index: usize,
        message: &Message<'_>,
        hashes: &mut impl Iterator<Item = BlockHash>,
    ) {
        self.sent_tokens = self.sent_tokens.saturating_add(message.tokens());
        if message.is_user_turn() {
            self.task = self.task.or(Some(index));
            self.last_user = index;
        }
        self.has_response |= message.role == Role::Assistant;
        let is_pinned = self.pins.binary_search(&index).is_ok();
        // Agents send their instructions before the task, as messages of the user.
        let is_task = self.task == Some(index) || !self.has_response;
        let is_kept = is_task || message.role == Role::System || is_pinned;
        self.take_turn(index, message);
        let parts = message.parts.iter().enumerate().filter(|(_, part)| part.is_kept);
        for ((part, content), hash) in parts.zip(hashes) {
            let tokens = content.text_tokens.saturating_add(content.tokens);
            let block = self.blocks.len();
            let is_result = is_result(message, content);
            self.ids.add(hash);
            self.blocks.push(Block {
                message: index,
                part,
                hash,
                whole_tokens: tokens,
                tokens,
                cut: None,
                is_minimal: false,
                is_pinned,
                is_gone: false,
            });
            let names = self.names.add(&content.text, block, is_result);
            let names = if is_result { names.to_vec() } else { Vec::new() };
            match &content.kind {
                PartKind::ToolCall { id } => self.take_call(block, id, content),
                _ if is_result && content.body.is_some() => {
                    self.take_result(block, message, content, names);
                }
                PartKind::Text
                    if !is_kept && tokens > MIN_TEXT_TOKENS && content.body.is_some() =>
                {
                    self.texts.push(block);
                }
                _ => {}
            }
        }
    }

    /// Groups the messages of a response with the results that follow it.
    fn take_turn(&mut self, index: usize, message: &Message<'_>) {
        let is_response = message.role == Role::Assistant;
        let is_results = !is_response && message.is_tool_results_only();
        let has_thinking = message.kept().any(|part| part.kind == PartKind::Thinking);
        if let Some(turn) = self.open_turn.as_mut().filter(|turn| turn.end == index)
            && (is_results || is_response && !turn.has_results)
        {
            turn.end = index + 1;
            turn.has_results |= is_results;
            turn.has_thinking |= has_thinking;
            return;
        }
        // A turn stays if its results are in a message with other content, or if a system message depends on it.
        let is_free = message.role != Role::System && !message.answers_calls();
        let closed = self.open_turn.take().filter(|turn| turn.end == index && is_free);
        if let Some(mut turn) = closed {
            // A response without calls is a turn with the next message of the user.
            turn.end += usize::from(!turn.has_results);
            if turn.has_results || message.role == Role::User {
                self.turns.push(turn);
            }
        }
        if message.role == Role::System && self.gone_turns < self.turns.len() {
            self.turns.pop_if(|turn| turn.end == index);
        }
        if is_response {
            let (start, end) = (index, index + 1);
            self.open_turn = Some(Turn { start, end, has_results: false, has_thinking });
        }
    }

    fn take_call(&mut self, block: usize, id: &str, part: &Part<'_>) {
        let call = Call::read(part);
        if part.body.is_some() {
            self.inputs.push(block);
        }
        let subject = match call.kind {
            CallKind::Plan => Some(0),
            CallKind::Write => call.path,
            _ => None,
        };
        if let Some(subject) = subject {
            self.replaceable.push((subject, block));
            self.last_replacement.insert(subject, block);
        }
        if call.kind.is_edit() {
            self.edits.push(block);
        }
        self.open_calls.insert(id.to_owned(), self.calls.len());
        self.calls.push(call);
    }

    fn take_result(
        &mut self,
        block: usize,
        message: &Message<'_>,
        part: &Part<'_>,
        names: Vec<Name>,
    ) {
        let id = match &part.kind {
            PartKind::ToolResult { id } => Some(id),
            _ => message.answers.as_ref(),
        };
        let call = id.and_then(|id| self.open_calls.get(id)).copied();
        if let Some(Call { kind, key, path, is_whole_read }) = call.map(|call| &self.calls[call]) {
            self.last_call.insert(*key, block);
            if let Some(path) = path {
                if *is_whole_read {
                    self.last_whole_read.insert(*path, block);
                }
                if kind.is_edit() {
                    self.last_edit.insert(*path, block);
                }
            }
        }
        let (last_copy, number) = (block, self.result_count);
        self.results.push(ToolResult { block, last_copy, number, names, call });
        self.result_count += 1;
    }
}

/// Returns the messages of turns as a JSON list.
pub(super) fn turns_json(provider: Provider, messages: &[Message<'_>], turns: &[Turn]) -> String {
    let messages = turns.iter().flat_map(|turn| &messages[turn.start..turn.end]);
    let mut text = String::new();
    json::write_array(messages, &mut text, |message, text| write_message(provider, message, text));
    text
}

/// The hash of the JSON list of turns, which grows by turns.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnsHasher {
    hasher: blake3::Hasher,
    is_started: bool,
}

impl TurnsHasher {
    /// Adds the messages of turns. Many at once are faster.
    pub(super) fn add(&mut self, provider: Provider, messages: &[Message<'_>], turns: &[Turn]) {
        let mut text = String::new();
        for message in turns.iter().flat_map(|turn| &messages[turn.start..turn.end]) {
            text.push(if self.is_started { ',' } else { '[' });
            self.is_started = true;
            write_message(provider, message, &mut text);
        }
        self.hasher.update(text.as_bytes());
    }

    /// Returns the hash of the list.
    pub(super) fn hash(&self) -> BlockHash {
        let mut hasher = self.hasher.clone();
        hasher.update(b"]");
        BlockHash::finish(&hasher)
    }
}

/// Returns the hash of each block of messages.
fn block_hashes(messages: &[Message<'_>]) -> Vec<BlockHash> {
    let sent = messages.iter().filter(|message| message.rejection_rule.is_none());
    let parts: Vec<&Part<'_>> = sent.flat_map(Message::kept).collect();
    parallel_map(&parts, |part| part.text.len(), |part| BlockHash::new(&part.recalled()))
}

fn is_result(message: &Message<'_>, part: &Part<'_>) -> bool {
    match part.kind {
        PartKind::ToolResult { .. } => true,
        PartKind::Text => message.answers.is_some(),
        _ => false,
    }
}
