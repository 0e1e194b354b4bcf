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
