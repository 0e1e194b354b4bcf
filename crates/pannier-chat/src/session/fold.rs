//! The steps of a session.
//!
//! A step takes the messages since the last request, shortens new results under pressure, and cuts a batch of blocks if the
//! request exceeds the budget. Blocks only get shorter. Each list holds the blocks that can still be cut, so the work of a
//! batch depends on the budget, not on the length of the history.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use pannier_core::TokenCounter;
use pannier_policy::SessionOptions;
use pannier_text::{for_each_term, is_stop_word};
use xxhash_rust::xxh3::xxh3_64;

use super::call::{Call, CallKind};
use super::density::{Evidence, STEPS};
use super::id::{BlockHash, Ids};
use super::terms::for_each_name;
use super::{CutForm, CutReason, form};
use crate::items::PRIMING_TOKENS;
use crate::message::{Message, Part, PartKind, PartLocation, Role, TOKENS_PER_TOOL_CALL};
use crate::openai::with_note;
use crate::trimmed::write_message;
use crate::{Provider, Transcript, json};

/// The blocks with a name beyond which it is not rare: for evidence of use, and for a list of names.
const MAX_USED_BLOCKS: u32 = 4;
const MAX_LISTED_BLOCKS: u32 = 2;

/// The tokens up to which blocks stay whole: results, duplicates, acknowledgements, calls, and texts.
const MIN_RESULT_TOKENS: i64 = 30;
const MIN_DUPLICATE_TOKENS: i64 = 60;
const MIN_ACKNOWLEDGEMENT_TOKENS: i64 = 50;
const MIN_CALL_TOKENS: i64 = 120;
const MIN_TEXT_TOKENS: i64 = 200;
const MIN_HARD_TEXT_TOKENS: i64 = 60;

/// The sizes of cut blocks: characters of long arguments, and tokens or characters of texts.
const INPUT_CHARS: usize = 120;
const SHORT_INPUT_CHARS: usize = 40;
const TEXT_TOKENS: i64 = 120;
const SHORT_TEXT_CHARS: usize = 160;

/// The percentage of a cut result or text that is its beginning.
const RESULT_HEAD_PERCENT: usize = 80;
const TEXT_HEAD_PERCENT: usize = 60;

/// The newest turns that are never left out.
const KEEP_TURNS: usize = 2;

/// A map by hashes of names, which need no second hash. Its order is never used.
type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Identity>>;

/// Returns the last integer as its hash.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

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
    /// Its number among all results.
    number: usize,
    /// The hashes of its names.
    names: Vec<u64>,
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
    last_named: ByHash<usize>,
    blocks_with_name: ByHash<u32>,
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
}

/// What a step works with.
#[derive(Clone, Copy)]
struct Step<'s, 't> {
    provider: Provider,
    messages: &'s [Message<'t>],
    options: &'s SessionOptions,
    query: &'s [u64],
    counter: &'s dyn TokenCounter,
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
            last_named: ByHash::default(),
            blocks_with_name: ByHash::default(),
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

    /// Returns the number of blocks that the previous request contained, and the first of them that changed since.
    pub(super) fn change(&self) -> (usize, Option<usize>) {
        (self.sent_blocks, self.first_changed)
    }

    pub(super) fn id(&self, hash: BlockHash) -> String {
        self.ids.id(hash)
    }

    /// Returns the note about turns that were left out, and the message that it is added to.
    pub(super) fn note(&self) -> Option<(usize, &str)> {
        Some((self.task?, &self.note.as_ref()?.text))
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
        let Rules { options, query, counter } = rules;
        let (provider, messages) = (transcript.provider, &transcript.messages);
        for end in self.messages + 1..=messages.len() {
            // A response may have several items.
            let is_response = |message: &Message<'_>| {
                message.role == Role::Assistant && messages[end - 1].role != Role::Assistant
            };
            if messages.get(end).is_none_or(is_response) {
                let messages = &messages[..end];
                let reason = CutReason::OverBudget;
                self.step(Step { provider, messages, options, query, counter, reason });
            }
        }
    }

    fn step(&mut self, step: Step<'_, '_>) {
        (self.sent_blocks, self.first_changed) = (self.blocks.len(), None);
        let first_result = self.results.len();
        for (index, message) in step.messages.iter().enumerate().skip(self.messages) {
            if message.rejection_rule.is_none() {
                self.take(index, message);
            }
        }
        self.messages = step.messages.len();
        for result in first_result..self.results.len() {
            if self.sent_tokens > share(self.base, step.options.pressure) {
                self.shorten_new(result, step);
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
    fn take(&mut self, index: usize, message: &Message<'_>) {
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
        for (part, content) in message.parts.iter().enumerate().filter(|(_, part)| part.is_kept) {
            let tokens = content.text_tokens.saturating_add(content.tokens);
            let block = self.blocks.len();
            let is_result = is_result(message, content);
            let hash = self.ids.add(&content.recalled());
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
            let mut names = Vec::new();
            for_each_name(&content.text, |range| {
                names.push(xxh3_64(&content.text.as_bytes()[range]));
            });
            names.sort_unstable();
            names.dedup();
            for name in &names {
                let count = self.blocks_with_name.entry(*name).or_default();
                *count = count.saturating_add(1);
                if !is_result {
                    self.last_named.insert(*name, block);
                }
            }
            match &content.kind {
                PartKind::ToolCall { id } => self.take_call(block, id, content),
                _ if is_result && content.body.is_some() => {
                    self.take_result(block, message, content, names);
                }
                PartKind::Text
                    if !is_kept && tokens > MIN_HARD_TEXT_TOKENS && content.body.is_some() =>
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
        let is_free = message.role != Role::System && message.answered_call_ids().is_empty();
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
        names: Vec<u64>,
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
        self.results.push(ToolResult { block, number: self.result_count, names, call });
        self.result_count += 1;
    }

    /// Replaces a block by a shorter form. Returns whether the form is shorter.
    fn cut(&mut self, index: usize, form: CutForm, text: String, step: Step<'_, '_>) -> bool {
        let counted = match step.part(&self.blocks[index]).tool.as_str() {
            "" => step.count(&text),
            tool => step.count(&format!("{tool} {text}")),
        };
        self.cut_counted(index, form, text, counted, step)
    }

    fn cut_counted(
        &mut self,
        index: usize,
        form: CutForm,
        text: String,
        counted: i64,
        step: Step<'_, '_>,
    ) -> bool {
        let block = &self.blocks[index];
        let part = step.part(block);
        let tokens = counted.saturating_add(part.tokens.min(TOKENS_PER_TOOL_CALL));
        if tokens >= block.tokens || block.is_gone || block.is_pinned {
            return false;
        }
        self.sent_tokens -= block.tokens - tokens;
        let block = &mut self.blocks[index];
        (block.tokens, block.cut) = (tokens, Some((form, step.reason, text)));
        self.mark_changed(index);
        true
    }

    fn mark_changed(&mut self, index: usize) {
        if index < self.sent_blocks {
            self.first_changed = Some(self.first_changed.map_or(index, |first| first.min(index)));
        }
    }

    fn has_form(&self, index: usize, form: CutForm) -> bool {
        self.blocks[index].cut.as_ref().is_some_and(|(cut, ..)| *cut == form)
    }

    /// Shortens a result that was not sent before. That changes no prefix.
    fn shorten_new(&mut self, result: usize, step: Step<'_, '_>) {
        let ToolResult { block: index, call, .. } = self.results[result];
        let block = &self.blocks[index];
        let (tokens, hash, part) = (block.tokens, block.hash, step.part(block));
        let id = self.ids.id(hash);
        if tokens > MIN_DUPLICATE_TOKENS {
            let step = step.because(CutReason::SameResult);
            let earlier = self.seen_results.insert(hash, index);
            let is_sent = |earlier: &usize| {
                let form = self.blocks[*earlier].cut.as_ref().map(|(form, ..)| *form);
                !self.blocks[*earlier].is_gone && matches!(form, None | Some(CutForm::HeadAndTail))
            };
            if earlier.as_ref().is_some_and(is_sent)
                && self.cut(index, CutForm::Duplicate, form::duplicate(&id), step)
            {
                self.seen_results.extend(earlier.map(|earlier| (hash, earlier)));
                return;
            }
        }
        if part.has_media() {
            return;
        }
        let kind = call.map_or(CallKind::Other, |call| self.calls[call].kind);
        let is_acknowledgement = kind.is_edit() || kind == CallKind::Plan;
        if is_acknowledgement
            && tokens > MIN_ACKNOWLEDGEMENT_TOKENS
            && !is_error(part)
            && let Some(text) = form::first_line(&id, &part.text)
            && self.cut(index, CutForm::FirstLine, text, step.because(CutReason::Acknowledgement))
        {
            return;
        }
        let options = step.options;
        let cap = if kind == CallKind::Read { options.read_cap } else { options.result_cap };
        let cap = share(self.base, cap).max(options.min_cap_tokens);
        if tokens > cap {
            let step = step.because(CutReason::NewResult);
            self.cut_head_and_tail(index, cap, RESULT_HEAD_PERCENT, step);
        }
    }

    /// Cuts a block to its beginning and end, in at most `cap` tokens.
    fn cut_head_and_tail(
        &mut self,
        index: usize,
        cap: i64,
        head_percent: usize,
        step: Step<'_, '_>,
    ) -> bool {
        let block = &self.blocks[index];
        let part = step.part(block);
        let cap = cap - part.tokens.min(TOKENS_PER_TOOL_CALL);
        let id = self.ids.id(block.hash);
        let (text, tokens) = (&part.text, part.text_tokens);
        form::head_and_tail(&id, text, tokens, cap, head_percent, step.counter).is_some_and(
            |(text, tokens)| self.cut_counted(index, CutForm::HeadAndTail, text, tokens, step),
        )
    }

    fn cut_to_stub(&mut self, index: usize, step: Step<'_, '_>) {
        let block = &self.blocks[index];
        let text = form::stub(&self.ids.id(block.hash), block.whole_tokens);
        self.cut(index, CutForm::Stub, text, step);
        self.blocks[index].is_minimal = true;
    }

    /// Cuts a result to a stub with its rare names.
    fn cut_to_names(&mut self, index: usize, step: Step<'_, '_>) {
        let block = &self.blocks[index];
        let part = step.part(block);
        let max = share(part.text_tokens, step.options.names_share);
        let max = max.min(step.options.max_names_tokens);
        let is_rare = |name: &str| {
            let blocks = self.blocks_with_name.get(&xxh3_64(name.as_bytes()));
            blocks.is_some_and(|blocks| *blocks <= MAX_LISTED_BLOCKS)
        };
        let names = form::names(&part.text, max, is_rare);
        if names.is_empty() {
            return self.cut_to_stub(index, step);
        }
        let id = self.ids.id(block.hash);
        let text = form::stub_with_names(&id, block.whole_tokens, &names);
        if !self.cut(index, CutForm::Names, text, step) {
            self.cut_to_stub(index, step);
        }
    }

    fn cut_input(&mut self, index: usize, max: usize, step: Step<'_, '_>) {
        let block = &self.blocks[index];
        let text = form::short_input(&self.ids.id(block.hash), step.part(block), max);
        if let Some(text) = text {
            self.cut(index, CutForm::ShortInput, text, step);
        }
    }

    /// Returns whether a call is one of the newest edits.
    fn is_kept_edit(&self, index: usize, step: Step<'_, '_>) -> bool {
        let start = self.edits.len().saturating_sub(step.options.keep_edits);
        self.edits[start..].contains(&index)
    }

    /// Cuts blocks down to the low-water mark: replaced plans and writes, results by density, long inputs, long texts. If
    /// that does not go three quarters of the way, lists of names are dropped, too.
    fn cut_batch(&mut self, step: Step<'_, '_>) {
        let target = share(self.base, step.options.low_water).min(self.limit);
        self.drop_finished(step.options);
        for (subject, index) in self.replaceable.clone() {
            let is_replaced = self.last_replacement.get(&subject).is_some_and(|last| *last > index);
            if is_replaced && self.blocks[index].cut.is_none() && !self.is_kept_edit(index, step) {
                self.cut_input(index, SHORT_INPUT_CHARS, step.because(CutReason::Replaced));
            }
        }
        let old = self.results.len().saturating_sub(step.options.keep_results);
        let candidates: Vec<&ToolResult> =
            self.results[..old].iter().filter(|result| self.is_cuttable(result.block)).collect();
        let texts =
            candidates.iter().map(|result| step.part(&self.blocks[result.block]).text.as_str());
        let queried = query_shares(texts, step.query);
        let mut by_density: Vec<(i64, usize)> = candidates
            .iter()
            .zip(queried)
            .map(|(result, queried)| {
                let evidence = Evidence { queried, ..self.evidence(result) };
                (evidence.density(&step.options.weights), result.block)
            })
            .collect();
        by_density.sort_unstable();
        for (_, index) in by_density {
            if self.sent_tokens <= target {
                return;
            }
            self.cut_to_names(index, step.because(CutReason::LeastValue));
        }
        let step = step.because(CutReason::Oldest);
        for index in self.inputs.clone() {
            if self.sent_tokens <= target {
                return;
            }
            let block = &self.blocks[index];
            let is_long = block.tokens > MIN_CALL_TOKENS && block.cut.is_none();
            if is_long && !self.is_kept_edit(index, step) {
                self.cut_input(index, INPUT_CHARS, step);
            }
        }
        for index in self.texts.clone() {
            if self.sent_tokens <= target {
                return;
            }
            let block = &self.blocks[index];
            let is_long = block.tokens > MIN_TEXT_TOKENS && block.cut.is_none();
            if is_long && block.message + 2 < step.messages.len() {
                self.cut_head_and_tail(index, TEXT_TOKENS, TEXT_HEAD_PERCENT, step);
            }
        }
        let target = target + (self.limit - target) / 4;
        for result in 0..old {
            if self.sent_tokens <= target {
                return;
            }
            let index = self.results[result].block;
            if self.has_form(index, CutForm::Names) {
                self.cut_to_stub(index, step);
            }
        }
    }

    /// Returns whether a result is not yet a stub and not tiny.
    fn is_cuttable(&self, index: usize) -> bool {
        let block = &self.blocks[index];
        let form = block.cut.as_ref().map(|(form, ..)| *form);
        block.tokens > MIN_RESULT_TOKENS
            && !matches!(form, Some(CutForm::Names | CutForm::Stub | CutForm::Duplicate))
    }

    fn evidence(&self, result: &ToolResult) -> Evidence {
        let ToolResult { block, number, names, call } = result;
        let is_later = |last: Option<&usize>| last.is_some_and(|last| last > block);
        let is_used = |name: &&u64| {
            is_later(self.last_named.get(name))
                && self.blocks_with_name.get(name).is_some_and(|blocks| *blocks <= MAX_USED_BLOCKS)
        };
        let call = call.map(|call| &self.calls[call]);
        let path = call.and_then(|call| call.path);
        let kind = call.map_or(CallKind::Other, |call| call.kind);
        let is_read_again = kind == CallKind::Read
            && path.is_some_and(|path| is_later(self.last_whole_read.get(&path)));
        Evidence {
            kind,
            tokens: self.blocks[*block].whole_tokens,
            current_tokens: self.blocks[*block].tokens,
            age: self.result_count - 1 - number,
            named: names.iter().filter(is_used).count(),
            is_superseded: is_read_again
                || call.is_some_and(|call| is_later(self.last_call.get(&call.key))),
            is_edited: path.is_some_and(|path| is_later(self.last_edit.get(&path))),
            queried: 0,
        }
    }

    /// Drops blocks from the lists that cannot be cut further. Only the newest results and edits are looked up by position.
    fn drop_finished(&mut self, options: &SessionOptions) {
        let blocks = &self.blocks;
        let is_open = |index: &usize| !blocks[*index].is_gone && !blocks[*index].is_minimal;
        let first_new = self.results.len().saturating_sub(options.keep_results.max(1));
        let mut position = 0;
        self.results.retain(|result| {
            position += 1;
            position > first_new || is_open(&result.block)
        });
        self.inputs.retain(is_open);
        self.texts.retain(is_open);
        let last = &self.last_replacement;
        self.replaceable.retain(|(subject, index)| {
            is_open(index) && (blocks[*index].cut.is_none() || last.get(subject) == Some(index))
        });
        self.edits.drain(..self.edits.len().saturating_sub(options.keep_edits));
    }

    /// Cuts further, because a batch did not suffice: old results to stubs, inputs and old texts to their beginnings, half
    /// of the way to the low-water mark; the newest result to the remaining budget. Then it leaves out the oldest turns,
    /// down to the low-water mark. The newest edits come last, and only down to the budget.
    fn cut_hard(&mut self, step: Step<'_, '_>) {
        let low = share(self.base, step.options.low_water).min(self.limit);
        let target = low + (self.limit - low) / 2;
        let newest = self.results.last().map(|result| result.block);
        for result in 0..self.results.len().saturating_sub(1) {
            if self.sent_tokens > target {
                self.cut_to_stub(self.results[result].block, step);
            }
        }
        if let Some(newest) = newest.filter(|_| self.is_over()) {
            let remaining = self.limit - (self.sent_tokens - self.blocks[newest].tokens);
            if !step.part(&self.blocks[newest]).has_media() {
                self.cut_head_and_tail(newest, remaining, RESULT_HEAD_PERCENT, step);
            }
        }
        self.cut_inputs_hard(step, target, false);
        for index in self.texts.clone() {
            let block = &self.blocks[index];
            let is_old = block.message + 1 < step.messages.len();
            if self.sent_tokens > target && !block.is_minimal && is_old {
                let text = &step.part(block).text;
                let text = form::beginning(&self.ids.id(block.hash), text, SHORT_TEXT_CHARS);
                self.cut(index, CutForm::Beginning, text, step);
                self.blocks[index].is_minimal = true;
            }
        }
        self.cut_inputs_hard(step, self.limit, true);
        self.leave_out_turns(step);
        if let Some(newest) = newest.filter(|_| self.is_over()) {
            self.cut_to_stub(newest, step);
        }
    }

    fn cut_inputs_hard(&mut self, step: Step<'_, '_>, target: i64, kept_edits: bool) {
        for (max, is_minimal) in [(INPUT_CHARS, false), (SHORT_INPUT_CHARS, true)] {
            for index in self.inputs.clone() {
                let is_cut = !is_minimal && self.has_form(index, CutForm::ShortInput);
                let is_next = !is_cut && self.is_kept_edit(index, step) == kept_edits;
                if self.sent_tokens > target && is_next {
                    self.cut_input(index, max, step);
                    self.blocks[index].is_minimal |= is_minimal;
                }
            }
        }
    }

    /// Leaves out the oldest turns, up to a pinned message or the thinking of the current turn. So the number of turns
    /// determines what was left out.
    fn leave_out_turns(&mut self, step: Step<'_, '_>) {
        let Some(task) = self.task.filter(|_| self.is_over()) else { return };
        let target = share(self.base, step.options.low_water).min(self.limit);
        let mut gone = self.gone_turns;
        let is_open = self.open_turn.is_some();
        let end = (self.turns.len() + usize::from(is_open)).saturating_sub(KEEP_TURNS);
        while gone < end.min(self.turns.len()) && self.sent_tokens > target {
            let Turn { start, end, has_thinking, .. } = self.turns[gone];
            let has_pin = self.pins.iter().any(|pin| (start..end).contains(pin));
            if has_thinking && start > self.last_user || has_pin || start < task {
                break;
            }
            let own = step.messages[start..end].iter();
            self.sent_tokens -= own.map(|message| message.own_tokens).sum::<i64>();
            let first = self.blocks.partition_point(|block| block.message < start);
            for index in first..self.blocks.len() {
                if self.blocks[index].message >= end {
                    break;
                }
                self.sent_tokens -= self.blocks[index].tokens;
                self.blocks[index].is_gone = true;
            }
            // The note is a block of its own, or the end of a text.
            let is_block = matches!(step.provider, Provider::Anthropic | Provider::Gemini);
            let after = self.blocks.partition_point(|block| block.message <= task);
            self.mark_changed(after.saturating_sub(usize::from(!is_block)));
            self.gone_messages += end - start;
            gone += 1;
        }
        if gone > self.gone_turns {
            for turn in &self.turns[self.gone_turns..gone] {
                self.omitted.add(step.provider, &step.messages[turn.start..turn.end]);
            }
            self.gone_turns = gone;
            let id = self.ids.id(self.omitted.hash());
            let text = format!("[{} earlier messages left out; recall {id}]", self.gone_messages);
            let tokens = note_tokens(&text, &step.messages[task], step);
            let note = Note { id, text, tokens };
            let before = self.note.replace(note).map_or(0, |note| note.tokens);
            self.sent_tokens += tokens - before;
        }
    }
}

/// Returns the hashes of a query's terms, ascending.
pub(super) fn query_terms(query: &str) -> Vec<u64> {
    let mut terms = Vec::new();
    for_each_term(query, 0, |term| {
        if !is_stop_word(term.text) {
            terms.push(xxh3_64(term.text.as_bytes()));
        }
    });
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// Returns, for each text, the share of a query's terms that it contains, in steps. Terms of fewer texts weigh more.
fn query_shares<'t>(texts: impl ExactSizeIterator<Item = &'t str>, query: &[u64]) -> Vec<i64> {
    if query.is_empty() {
        return vec![0; texts.len()];
    }
    let mut frequency = vec![0_i64; query.len()];
    let contained: Vec<Vec<bool>> = texts
        .map(|text| {
            let mut contained = vec![false; query.len()];
            for_each_term(text, 0, |term| {
                if let Ok(index) = query.binary_search(&xxh3_64(term.text.as_bytes())) {
                    contained[index] = true;
                }
            });
            for (frequency, is_contained) in frequency.iter_mut().zip(&contained) {
                *frequency += i64::from(*is_contained);
            }
            contained
        })
        .collect();
    let weights: Vec<i64> = frequency
        .iter()
        .map(|texts| if *texts == 0 { 0 } else { (STEPS * STEPS) / texts })
        .collect();
    let sum: i64 = weights.iter().sum();
    let share = |contained: &Vec<bool>| {
        let own = weights.iter().zip(contained).filter(|(_, is_contained)| **is_contained);
        STEPS * own.map(|(weight, _)| weight).sum::<i64>() / sum.max(1)
    };
    contained.iter().map(share).collect()
}

/// Returns the tokens of a note, which is a text of its own or the end of a string.
fn note_tokens(note: &str, task: &Message<'_>, step: Step<'_, '_>) -> i64 {
    let mut strings = task.kept().filter(|part| part.location == PartLocation::Content);
    match strings.next().filter(|_| matches!(step.provider, Provider::OpenAi | Provider::Responses))
    {
        Some(part) => step.count(&with_note(&part.text, note)).saturating_sub(part.text_tokens),
        None => step.count(note),
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
    /// Adds the messages of a turn. Returns the hash of the list.
    pub(super) fn add(&mut self, provider: Provider, messages: &[Message<'_>]) -> BlockHash {
        for message in messages {
            let mut text = if self.is_started { ",".to_owned() } else { "[".to_owned() };
            self.is_started = true;
            write_message(provider, message, &mut text);
            self.hasher.update(text.as_bytes());
        }
        self.hash()
    }

    fn hash(&self) -> BlockHash {
        let mut hasher = self.hasher.clone();
        hasher.update(b"]");
        BlockHash::finish(&hasher)
    }
}

fn is_result(message: &Message<'_>, part: &Part<'_>) -> bool {
    match part.kind {
        PartKind::ToolResult { .. } => true,
        PartKind::Text => message.answers.is_some(),
        _ => false,
    }
}

/// Returns whether a result says that its call failed.
fn is_error(part: &Part<'_>) -> bool {
    let has_flag = || {
        let object: Option<json::Object<'_>> = serde_json::from_str(part.raw.get()).ok();
        object.and_then(|object| object.get("is_error")).is_some_and(|flag| flag.get() == "true")
    };
    part.text.lines().next().is_some_and(|line| line.contains("rror")) || has_flag()
}
