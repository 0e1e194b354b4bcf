//! Fills the budget with what is worth most per token.

use super::{Candidate, SliceOutcome, Slicer, SlicerProperties, Verdict};
use crate::{Error, SliceBudget, order};

/// Takes candidates by value per token, each one if it still fits.
///
/// Fast, and close to the best that can be done when items are small against the budget. Candidates
/// of zero tokens come first and are always taken; equal densities go by position.
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedySlice;

impl Slicer for GreedySlice {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        let mut outcome = SliceOutcome::new(candidates.len());
        let mut remaining = budget.target_tokens;
        if remaining <= 0 {
            return Ok(outcome);
        }
        let densities = candidates.iter().map(|candidate| match candidate.tokens {
            0 => f64::MAX,
            tokens => candidate.value / tokens as f64,
        });
        for position in order::rank(densities) {
            let position = position as usize;
            let tokens = candidates[position].tokens;
            if tokens <= remaining {
                outcome.take(position);
                remaining -= tokens;
            } else {
                outcome.leave(position, Verdict::Left { available_tokens: remaining });
            }
        }
        Ok(outcome)
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::BEST_FIRST
    }
}
