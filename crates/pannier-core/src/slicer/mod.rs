//! Which items fit.
//!
//! A slicer gets candidates in order of score and a [`Tally`], and decides about every one of them. The tally keeps
//! the account: costs, verdicts, the order of moves. So a slicer is only its order and its rule.
//!
//! Slicers do not know about groups. A candidate is a unit: usually one item, sometimes a group
//! whose members go together, with the sum of their tokens and of their scores.

mod best;
mod count;
mod fair;
mod fill;
mod greedy;
mod knapsack;
mod marginal;
mod offers;
mod quota;
mod stream;
mod sweep;
mod tally;
mod tiered;

pub use best::BestSlice;
pub use count::{
    CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, CountRequirementShortfall,
    ScarcityBehavior,
};
pub use fair::FairSlice;
pub use fill::{FillOrder, FillSlice, Share};
pub use greedy::GreedySlice;
pub use knapsack::KnapsackSlice;
pub use offers::{Candidate, Offer, Offers};
pub use quota::{Quota, QuotaSlice};
pub use stream::{StreamOutcome, StreamSlice};
pub use sweep::{SweepRequest, SweepResult, TargetRanges};
pub use tally::{Move, Tally, Verdict};
pub use tiered::{Tier, TieredSlice};

use crate::{Error, Search};

/// Returns a part of some tokens, rounded down.
fn percentage(percent: f64, tokens: i64) -> i64 {
    (percent / 100.0 * tokens as f64).floor() as i64
}

/// What a slicer states about itself, so that nobody has to ask what type it is.
///
/// A slicer that wraps another one passes on what the inner one states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlicerProperties {
    /// Within a kind, candidates are taken in order of score. A cap on the selection then keeps the best.
    pub is_score_ordered: bool,
    /// Kinds get shares of the budget, which shift when the budget changes.
    pub splits_budget_by_kind: bool,
    /// Some candidates are taken for their number, at any budget.
    pub guarantees_counts: bool,
    /// What is dropped first where the rendered selection exceeds the budget.
    pub release: Release,
}

impl SlicerProperties {
    /// Fills one budget, best candidates first.
    pub const SCORE_ORDERED: Self = Self {
        is_score_ordered: true,
        splits_budget_by_kind: false,
        guarantees_counts: false,
        release: Release::LowestScore,
    };

    /// Fills one budget, in no particular order.
    pub const UNORDERED: Self = Self { is_score_ordered: false, ..Self::SCORE_ORDERED };
}

/// What is dropped first where the rendered selection exceeds the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The candidate with the lowest score.
    #[default]
    LowestScore,
    /// The last move: a longer form goes back to the shorter one, a candidate that was taken last goes out.
    LastTaken,
}

/// Selects the candidates that fit a budget.
///
/// ```
/// use pannier_core::{Error, Slicer};
/// use pannier_core::item::Level;
/// use pannier_core::slice::Tally;
///
/// /// Takes candidates in order of score, and stops at the first that does not fit.
/// struct Prefix;
///
/// impl Slicer for Prefix {
///     fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
///         let mut positions = 0..tally.candidates().len();
///         while positions.next().is_some_and(|position| tally.take(position, Level::WHOLE)) {}
///         Ok(())
///     }
/// }
/// ```
pub trait Slicer: Send + Sync {
    /// Decides about every candidate of the tally. One that is neither taken nor excluded is left, with
    /// nothing available to it.
    ///
    /// In a pipeline, candidates come in descending order of score, ties in pool order, and none has
    /// negative tokens.
    /// With no candidates, or a target of 0 or less, nothing is taken.
    ///
    /// Kept candidates are taken already, in their last form. A longer form replaces it.
    ///
    /// Called again with a larger target, a slicer goes on from what is taken.
    ///
    /// # Errors
    ///
    /// Any error that keeps the slicer from deciding; the run fails with it.
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error>;

    /// Returns what may be relied on.
    fn properties(&self) -> SlicerProperties {
        SlicerProperties::default()
    }

    /// Reports at which targets candidates are taken whole, where target and ceiling are the same. `None` if the slicer has no shorter way than to slice again and again.
    ///
    /// # Errors
    ///
    /// [`Error::SearchTooLong`] if the search has not enough steps, [`Error::Stopped`] if it was stopped, and any
    /// error of the slicer, after which the engine slices instead.
    fn sweep(&self, asked: &SweepRequest<'_, '_>, search: &mut Search<'_>) -> Option<SweepResult> {
        let _ = (asked, search);
        None
    }
}

forward! {
    Slicer {
        fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error>;
        fn properties(&self) -> SlicerProperties;
        fn sweep(
            &self,
            asked: &SweepRequest<'_, '_>,
            search: &mut Search<'_>,
        ) -> Option<SweepResult>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextKind;

    /// Takes nothing.
    struct Stated(SlicerProperties);

    impl Slicer for Stated {
        fn slice(&self, _: &mut Tally<'_, '_>) -> Result<(), Error> {
            Ok(())
        }

        fn properties(&self) -> SlicerProperties {
            self.0
        }
    }

    #[test]
    fn slicers_state_their_properties() {
        const BY_SCORE: SlicerProperties = SlicerProperties::SCORE_ORDERED;
        const UNORDERED: SlicerProperties = SlicerProperties::UNORDERED;
        const SPLITTING: SlicerProperties =
            SlicerProperties { splits_budget_by_kind: true, ..UNORDERED };
        let release = Release::LastTaken;
        let kind = ContextKind::MEMORY;
        let share = Share { kind: kind.clone(), floor_percent: 0.0, cap_percent: 50.0 };
        let shares = FillSlice::default().with_shares([share]).unwrap();
        let quota = Quota { kind: kind.clone(), require_percent: 0.0, cap_percent: 50.0 };
        let quotas = |inner| QuotaSlice::new([quota.clone()], Stated(inner)).unwrap();
        let count = CountQuotaEntry::new(kind.clone(), 0, 1).unwrap();
        let last_taken = Stated(SlicerProperties { release, ..BY_SCORE });
        let counts = CountQuotaSlice::new([count], last_taken, ScarcityBehavior::Degrade).unwrap();
        let tiers = TieredSlice::new([Tier::new([kind])]).unwrap();
        let table: [(&dyn Slicer, SlicerProperties); 12] = [
            (&GreedySlice, BY_SCORE),
            (&KnapsackSlice::default(), UNORDERED),
            (&BestSlice, UNORDERED),
            (&FillSlice::new(FillOrder::Score), BY_SCORE),
            (&FillSlice::new(FillOrder::Density), BY_SCORE),
            (&FillSlice::new(FillOrder::Turns), UNORDERED),
            (&FillSlice::new(FillOrder::Marginal), SlicerProperties { release, ..UNORDERED }),
            (&shares, SlicerProperties { splits_budget_by_kind: true, ..BY_SCORE }),
            (&FairSlice::default(), SlicerProperties { release, ..SPLITTING }),
            (&tiers, SlicerProperties { release, ..SPLITTING }),
            (&quotas(SlicerProperties { release, ..UNORDERED }), SPLITTING),
            (&counts, SlicerProperties { guarantees_counts: true, ..BY_SCORE }),
        ];
        for (number, (slicer, properties)) in table.into_iter().enumerate() {
            assert_eq!(slicer.properties(), properties, "{number}");
        }
    }
}
