//! Fills the budget in an order, each candidate if it still fits.

use std::ops::RangeInclusive;

use super::sweep::{TargetRanges, sweep_fill};
use super::{Offers, Slicer, SlicerProperties, Tally};
use crate::{Error, Level, Search, order};

/// Takes candidates by value per token, each one if it still fits.
///
/// Fast, and close to optimal when items are small against the budget. Candidates
/// of zero tokens come first and are always taken; equal densities go by position.
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedySlice;

impl Slicer for GreedySlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        if tally.budget().target_tokens > 0 {
            for position in by_density(tally.offers()) {
                tally.take(position as usize, Level::WHOLE);
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::SCORE_ORDERED
    }

    fn sweep(
        &self,
        offers: &Offers<'_>,
        targets: RangeInclusive<i64>,
        positions: &[usize],
        search: &mut Search<'_>,
    ) -> Option<Result<Vec<TargetRanges>, Error>> {
        let order = || by_density(offers);
        offers.is_plain().then(|| sweep_fill(offers, order(), targets, positions, search))
    }
}

/// Positions by value per token, ties by position. Candidates that cost nothing come first.
fn by_density(offers: &Offers<'_>) -> Vec<u32> {
    order::rank(offers.candidates().iter().map(|candidate| match candidate.tokens {
        0 => f64::MAX,
        tokens => candidate.value / tokens as f64,
    }))
}
