//! Returns the content of cut blocks by their ids.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::slice;

use pannier_core::TokenCounter;

use super::fold::{Fold, TurnsHasher, turns_json};
use super::id::{BlockHash, Ids};
use crate::{ChatError, Transcript};

/// The part of a block to recall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecallRange {
    /// The whole block.
    #[default]
    All,
    /// Lines by their numbers, counted from 1.
    Lines(RangeInclusive<NonZeroUsize>),
    /// The lines that contain a text.
    Grep(String),
}

impl RecallRange {
    /// Returns the lines of a text that are in the range, with their line breaks.
    fn lines<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let lines = text.split_inclusive('\n').zip(1_usize..);
        lines
            .filter(|(line, number)| match self {
                Self::All => true,
                Self::Lines(range) => (range.start().get()..=range.end().get()).contains(number),
                Self::Grep(text) => line.contains(text.as_str()),
            })
            .map(|(line, _)| line)
    }

    /// Returns the lines of a text that are in the range, within a number of tokens.
    ///
    /// # Errors
    ///
    /// [`ChatError::RecallOverBudget`] if they take more tokens.
    pub fn take(
        &self,
        text: &str,
        max_tokens: i64,
        counter: &dyn TokenCounter,
    ) -> Result<String, ChatError> {
        let taken: String = self.lines(text).collect();
        let tokens = i64::try_from(counter.count(&taken)).unwrap_or(i64::MAX);
        if tokens > max_tokens {
            let lines = text.lines().count();
            return Err(ChatError::RecallOverBudget { tokens, max_tokens, lines });
        }
        Ok(taken)
    }
}

impl Transcript<'_> {
    /// Returns the content of the block with a recall id, or `None` if no block has it: the text, the arguments of a call, or
    /// the messages of omitted turns as JSON.
    pub fn recall(&self, id: &str) -> Option<String> {
        let mut ids = Ids::default();
        for message in self.messages.iter().filter(|message| message.rejection_rule.is_none()) {
            for part in message.kept() {
                let content = part.recalled();
                let hash = BlockHash::new(&content);
                ids.add(hash);
                if ids.id(hash) == id {
                    return Some(content.into_owned());
                }
            }
        }
        // Turns are left out from the first on, so only their number is unknown.
        let turns = Fold::turns(self);
        let mut hasher = TurnsHasher::default();
        let count = turns.iter().position(|turn| {
            hasher.add(self.provider, &self.messages, slice::from_ref(turn));
            ids.id(hasher.hash()) == id
        })?;
        Some(turns_json(self.provider, &self.messages, &turns[..=count]))
    }
}
