//! Which items fit.
//!
//! A slicer gets the candidates in order of score and a budget, and decides about every one of
//! them. It answers with an outcome that holds a verdict for each candidate and everything else it
//! has to say, so that nobody has to guess afterwards why an item was left out.
//!
//! Slicers do not know about groups. A candidate is a unit: usually one item, sometimes a group
//! whose members go together, with the sum of their tokens and of their scores.

mod count;
mod document;
mod greedy;
mod knapsack;
mod outcome;
mod quota;
mod stream;
mod sweep;
mod tiered;

use std::ops::RangeInclusive;
use std::sync::Arc;

pub use count::{
    CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice, CountRequirementShortfall,
    ScarcityBehavior,
};
pub use document::{DocumentSlice, Packing};
pub use greedy::{GreedySlice, RankSlice};
pub use knapsack::KnapsackSlice;
pub use outcome::{SliceOutcome, Verdict};
pub use quota::{Quota, QuotaSlice};
pub use stream::{StreamOutcome, StreamSlice};
pub use sweep::TargetRanges;
pub use tiered::{Tier, TieredSlice};

use crate::{ContextItem, Error, ScoredItem, SliceBudget};

/// What a slicer takes or leaves: an item, or a group of items as one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The item; of a group, its best member.
    pub item: &'a ContextItem,
    /// What it costs.
    pub tokens: i64,
    /// What its [short form](ContextItem::short_form) costs, if it has one. A group has none.
    pub short_tokens: Option<i64>,
    /// What a heading for its document costs, where selections are rendered with headings; otherwise 0.
    pub heading_tokens: i64,
    /// Its score, which decides its place in the order.
    pub score: f64,
    /// What it is worth: its score; of a group, the sum of its members' scores.
    pub value: f64,
}

impl<'a> From<ScoredItem<'a>> for Candidate<'a> {
    fn from(ScoredItem { item, score }: ScoredItem<'a>) -> Self {
        let short_tokens = item.short_form().map(ContextItem::tokens).filter(|tokens| *tokens >= 0);
        Self { item, tokens: item.tokens(), short_tokens, heading_tokens: 0, score, value: score }
    }
}

/// What a slicer says about itself, so that nobody has to ask what type it is.
///
/// A slicer that wraps another one passes on what the inner one says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlicerProperties {
    /// Within a kind, candidates are taken best first. A cap on the selection then keeps the best.
    pub takes_best_first: bool,
    /// Kinds get shares of the budget, which shift when the budget changes.
    pub shares_budget: bool,
    /// Some candidates are taken for their number, whatever the budget.
    pub commits_counts: bool,
    /// Candidates are taken in tiers: what is taken first matters most, whatever it scores, and if the selection as it
    /// is rendered is too much, what was taken last goes first. Where everything fits as it is rendered, everything is
    /// taken, and the slicer is not asked. Shares are of the whole budget.
    pub takes_tiers: bool,
}

impl SlicerProperties {
    /// Fills one budget, best candidates first.
    pub const BEST_FIRST: Self = Self {
        takes_best_first: true,
        shares_budget: false,
        commits_counts: false,
        takes_tiers: false,
    };

    /// Fills one budget, in an order that says nothing.
    pub const UNORDERED: Self = Self { takes_best_first: false, ..Self::BEST_FIRST };
}

/// Selects the candidates that fit a budget.
pub trait Slicer: Send + Sync {
    /// Decides about every candidate.
    ///
    /// In a pipeline, candidates come in descending order of score, ties in pool order, and none has
    /// negative tokens.
    /// With no candidates, or a target of 0 or less, nothing is taken.
    ///
    /// # Errors
    ///
    /// Whatever keeps the slicer from deciding; the run fails with it.
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error>;

    /// What may be relied on.
    fn properties(&self) -> SlicerProperties;

    /// Whether these verdicts keep to the shares of the budget that the slicer gives, whatever they cost in all.
    ///
    /// A slicer that [takes tiers](SlicerProperties::takes_tiers) is asked before what it shortened or left is sent
    /// after all, because a selection as it is rendered leaves room for it.
    fn keeps_shares(
        &self,
        candidates: &[Candidate<'_>],
        verdicts: &[Verdict],
        budget: SliceBudget,
    ) -> bool {
        let _ = (candidates, verdicts, budget);
        true
    }

    /// About how many steps a slice takes at worst, where a step is a look at a candidate. Whoever slices many
    /// times for one answer asks this first.
    fn effort(&self, candidates: usize, target: i64) -> u64 {
        let _ = target;
        // Even without candidates, a call is not free.
        16 * (candidates as u64 + 16)
    }

    /// The same for a [`sweep`](Self::sweep).
    fn sweep_effort(&self, candidates: usize, targets: &RangeInclusive<i64>) -> u64 {
        self.effort(candidates, *targets.end()).saturating_mul(sweep::count_targets(targets))
    }

    /// For each of the candidates at these positions, at which targets within a range it is taken, where
    /// target and ceiling are the same.
    ///
    /// This slices once for each target. Slicers that know a shorter way take it.
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice).
    fn sweep(
        &self,
        candidates: &[Candidate<'_>],
        targets: RangeInclusive<i64>,
        positions: &[usize],
    ) -> Result<Vec<TargetRanges>, Error> {
        sweep::sweep_one_by_one(self, candidates, targets, positions)
    }
}

/// Asks a slicer, and makes sure that it decided about every candidate.
pub(crate) fn decide<S: Slicer + ?Sized>(
    slicer: &S,
    candidates: &[Candidate<'_>],
    budget: SliceBudget,
) -> Result<SliceOutcome, Error> {
    let outcome = slicer.slice(candidates, budget)?;
    let (given, decided) = (candidates.len(), outcome.verdicts().len());
    let broken =
        |problem: String| Err(Error::CustomPart { part: "the slicer".to_owned(), problem });
    if given != decided {
        return broken(format!("it got {given} candidates and decided about {decided}"));
    }
    let mut verdicts = candidates.iter().zip(outcome.verdicts());
    let has_no_short_form = |(candidate, verdict): (&Candidate<'_>, &Verdict)| {
        *verdict == Verdict::Shortened && candidate.short_tokens.is_none()
    };
    if let Some(position) = verdicts.position(has_no_short_form) {
        return broken(format!("it shortened candidate {position}, which has no short form"));
    }
    Ok(outcome)
}

macro_rules! forward {
    ($($pointer:ty),+) => {
        $(impl<S: Slicer + ?Sized> Slicer for $pointer {
            fn slice(
                &self,
                candidates: &[Candidate<'_>],
                budget: SliceBudget,
            ) -> Result<SliceOutcome, Error> {
                (**self).slice(candidates, budget)
            }

            fn properties(&self) -> SlicerProperties {
                (**self).properties()
            }

            fn keeps_shares(
                &self,
                candidates: &[Candidate<'_>],
                verdicts: &[Verdict],
                budget: SliceBudget,
            ) -> bool {
                (**self).keeps_shares(candidates, verdicts, budget)
            }

            fn effort(&self, candidates: usize, target: i64) -> u64 {
                (**self).effort(candidates, target)
            }

            fn sweep_effort(&self, candidates: usize, targets: &RangeInclusive<i64>) -> u64 {
                (**self).sweep_effort(candidates, targets)
            }

            fn sweep(
                &self,
                candidates: &[Candidate<'_>],
                targets: RangeInclusive<i64>,
                positions: &[usize],
            ) -> Result<Vec<TargetRanges>, Error> {
                (**self).sweep(candidates, targets, positions)
            }
        })+
    };
}

forward!(Box<S>, Arc<S>);
