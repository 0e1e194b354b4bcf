//! The steps of a session.

use pannier_core::TokenCounter;

use super::{BlockPosition, Cut, CutForm, SessionPolicy};
use crate::Transcript;
use crate::items::PRIMING_TOKENS;
use crate::message::{Message, Part, PartKind, Role};

/// A part of a message, as it is sent.
#[derive(Debug)]
struct Block {
    message: usize,
    part: usize,
    tokens: i64,
    replacement: Option<String>,
}

/// The decisions after a number of messages.
#[derive(Debug)]
pub(super) struct Fold {
    available: i64,
    total: i64,
    messages: usize,
    blocks: Vec<Block>,
    /// The positions of tool results in `blocks`.
    results: Vec<usize>,
    cuts: Vec<Cut>,
    /// The number of blocks that were sent before, and the first of them that changed since.
    sent: usize,
    first_changed: Option<usize>,
}

impl Fold {
    pub(super) fn new(transcript: &Transcript<'_>, available: i64) -> Self {
        let fixed = &transcript.items[transcript.messages.len()..];
        let total =
            fixed.iter().fold(PRIMING_TOKENS, |sum, item| sum.saturating_add(item.tokens()));
        let (messages, blocks, results, cuts) = (0, Vec::new(), Vec::new(), Vec::new());
        let (sent, first_changed) = (0, None);
        Self { available, total, messages, blocks, results, cuts, sent, first_changed }
    }

    pub(super) fn total(&self) -> i64 {
        self.total
    }

    pub(super) fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    pub(super) fn first_changed(&self) -> Option<usize> {
        self.first_changed
    }

    pub(super) fn last_unchanged(&self) -> Option<BlockPosition> {
        let block = self.first_changed.unwrap_or(self.sent).checked_sub(1)?;
        let message = self.blocks[..=block].chunk_by(|a, b| a.message == b.message).count() - 1;
        Some(BlockPosition { block, message })
    }

    /// Returns the parts of a message that are replaced.
    pub(super) fn replacements(&self, message: usize) -> impl Iterator<Item = (usize, &str)> {
        let start = self.blocks.partition_point(|block| block.message < message);
        let blocks = self.blocks[start..].iter().take_while(move |block| block.message == message);
        blocks.filter_map(|block| Some((block.part, block.replacement.as_deref()?)))
    }

    /// Takes a step before every assistant message and at the end.
    pub(super) fn run(
        &mut self,
        transcript: &Transcript<'_>,
        policy: &SessionPolicy,
        counter: &dyn TokenCounter,
    ) {
        let messages = &transcript.messages;
        for end in 1..=messages.len() {
            // A response may have several items.
            let is_response = |message: &Message<'_>| {
                message.role == Role::Assistant && messages[end - 1].role != Role::Assistant
            };
            if messages.get(end).is_none_or(is_response) {
                self.step(&messages[..end], policy, counter);
            }
        }
    }

    fn step(
        &mut self,
        messages: &[Message<'_>],
        policy: &SessionPolicy,
        counter: &dyn TokenCounter,
    ) {
        (self.sent, self.first_changed) = (self.blocks.len(), None);
        for (index, message) in messages.iter().enumerate().skip(self.messages) {
            if message.rejection_rule.is_none() {
                self.take(index, message);
            }
        }
        self.messages = messages.len();
        if self.total > self.available {
            let target = (self.available as f64 * policy.low_water) as i64;
            self.cut_results(messages, target, counter);
        }
    }

    fn take(&mut self, index: usize, message: &Message<'_>) {
        self.total = self.total.saturating_add(message.tokens());
        for (part, content) in message.parts.iter().enumerate().filter(|(_, part)| part.is_kept) {
            let is_result = message.answers.is_some() && content.kind == PartKind::Text
                || matches!(content.kind, PartKind::ToolResult { .. });
            if is_result && content.body.is_some() {
                self.results.push(self.blocks.len());
            }
            let tokens = content.text_tokens.saturating_add(content.tokens);
            self.blocks.push(Block { message: index, part, tokens, replacement: None });
        }
    }

    /// Cuts results to stubs, oldest first, until the total is at most `target`.
    fn cut_results(&mut self, messages: &[Message<'_>], target: i64, counter: &dyn TokenCounter) {
        for index in self.results.clone() {
            if self.total <= target {
                return;
            }
            let block = &self.blocks[index];
            let part = &messages[block.message].parts[block.part];
            if block.replacement.is_none() {
                self.cut(index, messages[block.message].number, part, counter);
            }
        }
    }

    fn cut(&mut self, index: usize, message: usize, part: &Part<'_>, counter: &dyn TokenCounter) {
        let block = &mut self.blocks[index];
        let id = format!("r{}.{}", block.message, block.part);
        let text = format!("[{} tokens left out; recall {id}]", part.text_tokens);
        let framing = part.tokens.min(crate::message::TOKENS_PER_TOOL_CALL);
        let tokens =
            i64::try_from(counter.count(&text)).unwrap_or(i64::MAX).saturating_add(framing);
        if tokens >= block.tokens {
            return;
        }
        let (form, tokens_before) = (CutForm::Stub, block.tokens);
        self.total = self.total.saturating_sub(block.tokens - tokens);
        (block.tokens, block.replacement) = (tokens, Some(text));
        self.cuts.push(Cut { id, message, form, tokens_before, tokens_after: tokens });
        if index < self.sent {
            self.first_changed = Some(self.first_changed.map_or(index, |first| first.min(index)));
        }
    }
}
