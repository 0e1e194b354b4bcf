//! Cuts blocks: new results on arrival, a batch in a request above the budget, and more if that does not suffice.

use std::cmp::Reverse;

use pannier_policy::SessionOptions;

use super::names::Name;
use super::{Fold, Note, Step, ToolResult, Turn, share};
use crate::Provider;
use crate::json;
use crate::message::{Message, Part, PartLocation, TOKENS_PER_TOOL_CALL};
use crate::openai::with_note;
use crate::session::call::CallKind;
use crate::session::density::Evidence;
use crate::session::query::query_shares;
use crate::session::{CutForm, CutReason, form};

/// The blocks with a name beyond which it is not rare: for evidence of use, and for a list of names.
const MAX_USED_BLOCKS: u32 = 4;
const MAX_LISTED_BLOCKS: u32 = 2;

/// The tokens up to which a batch leaves blocks whole: results, duplicates, acknowledgements, calls, and texts.
const MIN_RESULT_TOKENS: i64 = 30;
const MIN_DUPLICATE_TOKENS: i64 = 60;
const MIN_ACKNOWLEDGEMENT_TOKENS: i64 = 50;
const MIN_CALL_TOKENS: i64 = 120;
const MIN_TEXT_TOKENS: i64 = 200;

/// The sizes of cut blocks: characters of long arguments, and tokens or characters of texts.
const INPUT_CHARS: usize = 120;
const SHORT_INPUT_CHARS: usize = 40;
const TEXT_TOKENS: i64 = 120;
const SHORT_TEXT_CHARS: usize = 160;

/// The percentage of a cut result or text that is its beginning.
const RESULT_HEAD_PERCENT: usize = 80;
const TEXT_HEAD_PERCENT: usize = 60;

/// The maximum tokens of a note about omitted turns.
const NOTE_TOKENS: i64 = 40;

/// The newest turns that are never left out.
const KEEP_TURNS: usize = 2;

impl Fold {
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
    pub(super) fn shorten_new(&mut self, result: usize, step: Step<'_, '_>) {
        let ToolResult { block: index, call, .. } = self.results[result];
        let block = &self.blocks[index];
        let (tokens, hash, part) = (block.tokens, block.hash, step.part(block));
        let cap = self.cap(call, step.options);
        if tokens > MIN_DUPLICATE_TOKENS && !form::is_stub(&part.text) {
            let step = step.because(CutReason::SameResult);
            let earlier = self.seen_results.insert(hash, index);
            let position = earlier.and_then(|earlier| {
                self.results.binary_search_by_key(&earlier, |result| result.block).ok()
            });
            if let Some(position) = position.filter(|earlier| self.is_as_whole(*earlier, cap, step))
                && self.cut(index, CutForm::Duplicate, form::duplicate(&self.ids.id(hash)), step)
            {
                // The earlier result now stands for both, so that the later call does not supersede it.
                let earlier = &mut self.results[position];
                earlier.last_copy = index;
                self.seen_results.insert(hash, earlier.block);
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
            && let Some(text) = form::first_line(&self.ids.id(hash), &part.text)
            && self.cut(index, CutForm::FirstLine, text, step.because(CutReason::Acknowledgement))
        {
            return;
        }
        if tokens > cap {
            let step = step.because(CutReason::NewResult);
            self.cut_head_and_tail(index, cap, RESULT_HEAD_PERCENT, step);
        }
    }

    /// Returns the tokens above which the new result of a call is cut.
    fn cap(&self, call: Option<usize>, options: &SessionOptions) -> i64 {
        let is_read = call.is_some_and(|call| self.calls[call].kind == CallKind::Read);
        let cap = if is_read { options.read_cap } else { options.result_cap };
        share(self.base, cap).max(options.min_cap_tokens)
    }

    /// Returns whether an earlier result is sent with as much of its text as a new one with the same text and this cap.
    fn is_as_whole(&self, earlier: usize, cap: i64, step: Step<'_, '_>) -> bool {
        let ToolResult { block, call, .. } = self.results[earlier];
        let block = &self.blocks[block];
        let is_as_cut = |(form, reason, _): &(CutForm, CutReason, String)| {
            (*form, *reason) == (CutForm::HeadAndTail, CutReason::NewResult)
                && self.cap(call, step.options) == cap
        };
        !block.is_gone && block.cut.as_ref().is_none_or(is_as_cut)
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
    fn cut_to_names(&mut self, result: usize, step: Step<'_, '_>) {
        let ToolResult { block: index, ref names, .. } = self.results[result];
        let block = &self.blocks[index];
        let part = step.part(block);
        let max = share(part.text_tokens, step.options.names_share);
        let max = max.min(step.options.max_names_tokens);
        let is_rare = |name: &&Name| self.names.occurrences(name).blocks <= MAX_LISTED_BLOCKS;
        let rare = names.iter().filter(is_rare).map(Name::range);
        let names = form::names(&part.text, &rare, max);
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
        let part = step.part(block);
        if form::is_short_input(part, max) {
            return;
        }
        let text = form::short_input(&self.ids.id(block.hash), part, max);
        if let Some(text) = text {
            self.cut(index, CutForm::ShortInput, text, step);
        }
    }

    /// Returns the newest edits.
    fn kept_edits(&self, step: Step<'_, '_>) -> &[usize] {
        &self.edits[self.edits.len().saturating_sub(step.options.keep_edits)..]
    }

    fn is_kept_edit(&self, index: usize, step: Step<'_, '_>) -> bool {
        self.kept_edits(step).contains(&index)
    }

    /// Cuts blocks down to the low-water mark: replaced plans and writes, results by density, long inputs, long texts. If
    /// that does not go three quarters of the way, lists of names are dropped, too.
    pub(super) fn cut_batch(&mut self, step: Step<'_, '_>) {
        let target = share(self.base, step.options.low_water).min(self.limit);
        self.drop_finished(step.options);
        for (subject, index) in self.replaceable.clone() {
            let is_replaced = self.last_replacement.get(&subject).is_some_and(|last| *last > index);
            if is_replaced && self.blocks[index].cut.is_none() && !self.is_kept_edit(index, step) {
                self.cut_input(index, SHORT_INPUT_CHARS, step.because(CutReason::Replaced));
            }
        }
        let old = self.results.len().saturating_sub(step.options.keep_results);
        let high = target + (self.limit - target) / 4;
        if self.least_tokens(old) > high {
            // All results are cut, and all lists of names are dropped. So neither order nor lists matter.
            for result in 0..old {
                let index = self.results[result].block;
                if self.is_cuttable(index) {
                    self.cut_to_stub(index, step.because(CutReason::Oldest));
                }
            }
        } else {
            self.cut_by_density(old, target, step.because(CutReason::LeastValue));
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
        for result in 0..old {
            if self.sent_tokens <= high {
                return;
            }
            let index = self.results[result].block;
            if self.has_form(index, CutForm::Names) {
                self.cut_to_stub(index, step);
            }
        }
    }

    /// Returns the tokens that would remain if a batch cut everything that it may cut to nothing.
    fn least_tokens(&self, old: usize) -> i64 {
        let is_long = |index: &usize, min: i64| {
            let block = &self.blocks[*index];
            block.tokens > min && block.cut.is_none()
        };
        let results = self.results[..old].iter().map(|result| result.block);
        let results = results
            .filter(|index| self.is_cuttable(*index) || self.has_form(*index, CutForm::Names));
        let inputs = self.inputs.iter().copied().filter(|index| is_long(index, MIN_CALL_TOKENS));
        let texts = self.texts.iter().copied().filter(|index| is_long(index, MIN_TEXT_TOKENS));
        let cuttable = results.chain(inputs).chain(texts);
        self.sent_tokens - cuttable.map(|index| self.blocks[index].tokens).sum::<i64>()
    }

    /// Cuts old results to their rare names, those of the least value per token first, down to `target`.
    fn cut_by_density(&mut self, old: usize, target: i64, step: Step<'_, '_>) {
        let block = |result: &usize| &self.blocks[self.results[*result].block];
        let is_cuttable = |result: &usize| self.is_cuttable(self.results[*result].block);
        let candidates: Vec<usize> = (0..old).filter(is_cuttable).collect();
        let texts = candidates.iter().map(|result| step.part(block(result)).text.as_str());
        let queried = query_shares(texts, step.query);
        let mut order: Vec<(Reverse<usize>, i64, usize)> = candidates
            .iter()
            .zip(queried)
            .map(|(result, queried)| {
                let evidence = Evidence { queried, ..self.evidence(&self.results[*result]) };
                let density = evidence.density(&step.options.weights);
                (Reverse(step.next_use(block(result))), density, *result)
            })
            .collect();
        order.sort_unstable();
        for (.., result) in order {
            if self.sent_tokens <= target {
                return;
            }
            self.cut_to_names(result, step);
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
        let ToolResult { block, last_copy, number, names, call } = result;
        let is_later = |last: Option<&usize>| last.is_some_and(|last| last > last_copy);
        let is_used = |name: &&Name| {
            let occurrences = self.names.occurrences(name);
            occurrences.last_use as usize > *block && occurrences.blocks <= MAX_USED_BLOCKS
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
    /// down to the low-water mark, and the newest result. The newest edits come last, and only down to the budget: first
    /// their inputs, then their turns.
    pub(super) fn cut_hard(&mut self, step: Step<'_, '_>) {
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
        self.leave_out_turns(step, false);
        if let Some(newest) = newest.filter(|_| self.is_over()) {
            self.cut_to_stub(newest, step);
        }
        self.cut_inputs_hard(step, self.limit, true);
        self.leave_out_turns(step, true);
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

    /// Leaves out the oldest turns, up to a pinned message, the thinking of the current turn, or a kept edit unless those are
    /// left out, too. So the number of turns determines what was left out.
    fn leave_out_turns(&mut self, step: Step<'_, '_>, kept_edits: bool) {
        let Some(task) = self.task.filter(|_| self.is_over()) else { return };
        let low = share(self.base, step.options.low_water).min(self.limit);
        // Edits are left out down to the budget, with space for the note.
        let target = if kept_edits { low.max(self.limit - NOTE_TOKENS) } else { low };
        let mut gone = self.gone_turns;
        let is_open = self.open_turn.is_some();
        let end = (self.turns.len() + usize::from(is_open)).saturating_sub(KEEP_TURNS);
        while gone < end.min(self.turns.len()) && self.sent_tokens > target {
            let Turn { start, end, has_thinking, .. } = self.turns[gone];
            let has_pin = self.pins.iter().any(|pin| (start..end).contains(pin));
            let mut edits = self.kept_edits(step).iter();
            let has_edit = edits.any(|edit| (start..end).contains(&self.blocks[*edit].message));
            if has_thinking && start > self.last_user
                || has_pin
                || has_edit && !kept_edits
                || start < task
            {
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
            self.omitted.add(step.provider, step.messages, &self.turns[self.gone_turns..gone]);
            self.gone_turns = gone;
            let id = self.ids.id(self.omitted.hash());
            let (messages, recall) = (self.gone_messages, form::recall(&id));
            let text = format!("[{messages} earlier messages left out{recall}]");
            let tokens = note_tokens(&text, &step.messages[task], step);
            let note = Note { id, text, tokens };
            let before = self.note.replace(note).map_or(0, |note| note.tokens);
            self.sent_tokens += tokens - before;
        }
    }
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

/// Returns whether a result says that its call failed.
fn is_error(part: &Part<'_>) -> bool {
    let has_flag = || {
        let flag = json::object("", part.raw).ok().and_then(|object| object.get("is_error"));
        flag.is_some_and(|flag| flag.get() == "true")
    };
    part.text.lines().next().is_some_and(|line| line.contains("rror")) || has_flag()
}
