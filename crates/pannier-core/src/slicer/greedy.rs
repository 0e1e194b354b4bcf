//! Fills the budget in an order, each candidate if it still fits.

use super::sweep::{SweepRequest, SweepResult, sweep_fill};
use super::{Offers, Slicer, SlicerProperties, Tally};
use crate::{Error, Level, Search, order, sum_tokens};

/// Takes candidates by value per token, each one if it still fits.
///
/// Fast, and close to optimal when items are small against the budget. Candidates
/// of zero tokens come first and are always taken; equal densities go by position.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_core::slice::GreedySlice;
///
/// let item = |content: &str, tokens, hint| {
///     ContextItem::builder(content, tokens).future_relevance_hint(hint).build()
/// };
/// // 0.0105, 0.014 and 0.012 a token.
/// let items = [item("long", 80, 0.84)?, item("short", 50, 0.7)?, item("other", 50, 0.6)?];
/// let pipeline = Pipeline::builder(ReflexiveScorer).slicer(GreedySlice).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(selection.indices().collect::<Vec<_>>(), [1, 2]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedySlice;

/// The minimum number of candidates that are sorted at first; then four times as many, and so on.
const MIN_SORTED: usize = 1024;

impl Slicer for GreedySlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        if tally.budget().target_tokens <= 0 {
            return Ok(());
        }
        let mut keys: Vec<u128> = density_keys(tally.offers()).collect();
        // Once the remaining budget is below every cost, the order does not matter: usually only a part must be sorted.
        let costs = tally.candidates().iter().map(|candidate| candidate.tokens);
        let has_kept = !tally.offers().kept().is_empty();
        // A kept candidate costs less than its tokens.
        let min_tokens = costs.clone().min().filter(|_| !has_kept).unwrap_or_default();
        // Twice as many as fit if all cost the same, because small candidates come first.
        let part = 2.0 * tally.remaining() as f64 / sum_tokens(costs) as f64;
        let mut count = MIN_SORTED.max((part * keys.len() as f64) as usize);
        let mut is_decided = vec![false; keys.len()];
        let mut rest = &mut keys[..];
        while !rest.is_empty() && tally.remaining() >= min_tokens {
            count = count.min(rest.len());
            if count < rest.len() {
                rest.select_nth_unstable(count);
            }
            let (next, others) = rest.split_at_mut(count);
            next.sort_unstable();
            for position in next.iter().map(|key| *key as u32 as usize) {
                tally.take(position, Level::WHOLE);
                is_decided[position] = true;
            }
            (rest, count) = (others, count * 4);
        }
        if !rest.is_empty() {
            for (position, _) in is_decided.iter().enumerate().filter(|(_, decided)| !**decided) {
                tally.take(position, Level::WHOLE);
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::SCORE_ORDERED
    }

    fn sweep(&self, asked: &SweepRequest<'_, '_>, search: &mut Search<'_>) -> Option<SweepResult> {
        asked.offers.is_plain().then(|| sweep_fill(asked, by_density(asked.offers), search))
    }
}

/// Returns the positions by value per token, ties by position. Candidates that cost nothing come first.
pub(super) fn by_density(offers: &Offers<'_>) -> Vec<u32> {
    let keys: Vec<u128> = density_keys(offers).collect();
    order::sort_by_key(0..keys.len() as u32, keys.len(), |position| keys[position as usize])
}

fn density_keys(offers: &Offers<'_>) -> impl Iterator<Item = u128> {
    offers.candidates().iter().zip(0..).map(|(candidate, position)| {
        let density = match candidate.tokens {
            0 => f64::MAX,
            tokens => candidate.value / tokens as f64,
        };
        order::pack_key(density, 0, position)
    })
}
