//! Why one item is in or out, and what would have to be different.
//!
//! Everything here comes from deciding again. The smallest score that lets an item in is found by giving
//! it other scores and letting the same stages decide; what the item lost to is what goes out when it comes
//! in with that score; the smallest budget is one that was tried. So an answer can be checked by doing what
//! it says.

mod budget;
mod score;

use super::place::Merge;
use super::slice::Sliced;
use super::{Fitting, Forms, Pipeline, Prepared, Run, Trace};
use crate::slicer::Candidate;
use crate::{
    ContextBudget, ContextItem, Error, ExclusionReason, InclusionReason, NullTraceCollector,
    PipelineStage, Pool, ScoreExplanation, order,
};
use budget::Budgets;
use score::{Near, Rematch};

/// The answer to "why is this item in, or out?".
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation<I = ContextItem> {
    /// The item's index in the pool.
    pub index: usize,
    /// The item.
    pub item: I,
    /// The stage that decided about it.
    pub stage: PipelineStage,
    /// What was decided, and why.
    pub decision: Decision,
    /// How its score came about. Absent for items that are not scored: pinned and invalid ones.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub score: Option<ScoreExplanation>,
    /// Its place among the scored items.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rank: Option<Rank>,
    /// What it is worth per token, with its group if it has one. Absent if it is not scored or costs
    /// nothing.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub density: Option<f64>,
    /// What it lost to: the copy, or near copy, that was kept, the pinned items that leave it no room, or the items that
    /// would go if it came in with [`smallest_score`](Self::smallest_score). In the order they are placed.
    pub lost_to: Vec<Rival<I>>,
    /// The smallest budget with which it is selected, from its own tokens on. For an item that is out, the
    /// smallest above the present one. It need not be in with every larger one. Absent
    /// if none was found.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smallest_budget: Option<FoundBudget>,
    /// A budget below the present one with which it would be selected, though it is out now: the smallest
    /// there is. Selections do not simply grow with the budget.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smaller_budget: Option<FoundBudget>,
    /// The smallest score, from 0 on, with which it is selected, all other scores being the same. With the
    /// next smaller number it is not. Absent if no score helps, or the item is not scored. Where near duplicates are
    /// dropped, a higher score may let others in that it loses to; then there may be a smaller one still.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smallest_score: Option<f64>,
}

/// What was decided about an item.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", tag = "decision"))]
#[non_exhaustive]
pub enum Decision {
    /// It is in.
    Included {
        /// Why.
        reason: InclusionReason,
        /// Its place in the selection, from 0.
        position: usize,
    },
    /// It is out.
    Excluded {
        /// Why.
        reason: ExclusionReason,
    },
}

/// A place among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Rank {
    /// The place, from 1; equal scores in pool order.
    pub rank: usize,
    /// How many there are.
    pub of: usize,
}

/// An item that another one lost to.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Rival<I = ContextItem> {
    /// Its index in the pool.
    pub index: usize,
    /// The item.
    pub item: I,
    /// Its score.
    pub score: f64,
}

/// A budget that lets an item in, with the reserve, the slots and the margin of the present one.
///
/// Where the present target is below the room that the window leaves, it is the target that was changed, and the
/// window only where it had to be. Otherwise it is the window, and the target keeps its distance from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FoundBudget {
    /// The window.
    pub max_tokens: i64,
    /// The target.
    pub target_tokens: i64,
    /// Whether all smaller ones were tried. Where that would take too long, this is what a search by halves
    /// came to, and there may be a smaller one that it did not meet.
    pub is_proven: bool,
}

impl FoundBudget {
    /// A budget of these sizes that somebody tried.
    pub fn new(max_tokens: i64, target_tokens: i64, is_proven: bool) -> Self {
        Self { max_tokens, target_tokens, is_proven }
    }
}

impl Pipeline {
    /// Why the item at an index is selected or not, and what would change that.
    ///
    /// ```
    /// use pannier_core::{ContextBudget, ContextItem, Pipeline, ReflexiveScorer};
    ///
    /// let item = |content: &str, tokens, hint| {
    ///     ContextItem::builder(content, tokens).future_relevance_hint(hint).build()
    /// };
    /// let items = [item("contract", 60, 0.9)?, item("letter", 50, 0.6)?];
    /// let pipeline = Pipeline::builder(ReflexiveScorer).build();
    /// let answer = pipeline.explain(&items, &ContextBudget::new(100, 100)?, 1)?;
    ///
    /// assert_eq!(answer.lost_to[0].item.content(), "contract");
    /// assert_eq!(answer.smallest_budget.unwrap().max_tokens, 110);
    /// assert!(answer.smallest_score.unwrap() > 0.75);
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] if there is no item at this index; otherwise as [`run`](Self::run).
    pub fn explain<'a>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
        index: usize,
    ) -> Result<Explanation<&'a ContextItem>, Error> {
        let mut answers = self.explain_all(items, budget, &[index])?;
        answers.pop().ok_or(Error::NoSuchItem)
    }

    /// As [`explain`](Self::explain), for several items of one run.
    ///
    /// # Errors
    ///
    /// As [`explain`](Self::explain).
    pub fn explain_all<'a>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
        indices: &[usize],
    ) -> Result<Vec<Explanation<&'a ContextItem>>, Error> {
        if indices.iter().any(|index| *index >= items.len()) {
            return Err(Error::NoSuchItem);
        }
        let mut nobody = NullTraceCollector;
        let mut trace = Trace::none(&mut nobody);
        let Prepared { run, candidates } = self.prepare(items, budget, &mut trace)?;
        let run = self.finish(run, &candidates, &mut trace)?.run;
        let near = Near::new(self, &run);
        let explain = |index: &usize| self.explain_in(&run, &candidates, near.as_ref(), *index);
        Ok(indices.iter().map(explain).collect())
    }

    fn explain_in<'a>(
        &self,
        run: &Run<'a>,
        candidates: &[Candidate<'a>],
        near: Option<&Near<'a>>,
        index: usize,
    ) -> Explanation<&'a ContextItem> {
        let items = run.items;
        let item = &items[index];
        let (stage, decision) = run.decision(index as u32);

        let scoreable = run.classified.scoreable.in_pool_order();
        let Ok(place) = scoreable.binary_search(&(index as u32)) else {
            let mut explanation = Explanation::new(index, item, stage, decision);
            if run.classified.pinned.in_pool_order().binary_search(&(index as u32)).is_ok() {
                explanation.smallest_budget = Some(self.smallest_for_pinned(run, candidates));
            }
            return explanation;
        };
        let pool = Pool::new(scoreable.iter().map(|index| &items[*index as usize]));
        let mut explanation = Explanation::new(index, item, stage, decision);
        explanation.score = Some(self.scorer.explain(&pool, place));
        explanation.rank = Some(run.rank(index as u32, &scoreable));

        let Some(mut rematch) = Rematch::new(self, run, candidates, near, index as u32) else {
            return explanation;
        };
        explanation.density = rematch.density();
        explanation.smallest_score = rematch.smallest_score();
        let lost_to = match &explanation.decision {
            Decision::Included { reason: InclusionReason::Shortened, .. } => {
                rematch.displaces(explanation.smallest_score)
            }
            Decision::Included { .. } => Vec::new(),
            Decision::Excluded { reason } => rematch.lost_to(reason, explanation.smallest_score),
        };
        explanation.lost_to = run.rivals(&lost_to);

        let Some(budgets) = Budgets::new(self, run, candidates, index as u32) else {
            return explanation;
        };
        let present = budgets.present();
        if budgets.is_in(present) {
            explanation.smallest_budget = Some(budgets.search_down(present));
        } else {
            explanation.smallest_budget = budgets.search_up(present);
            explanation.smaller_budget = budgets.search_below(present);
        }
        explanation
    }
}

impl<I> Explanation<I> {
    fn new(index: usize, item: I, stage: PipelineStage, decision: Decision) -> Self {
        Self {
            index,
            item,
            stage,
            decision,
            score: None,
            rank: None,
            density: None,
            lost_to: Vec::new(),
            smallest_budget: None,
            smaller_budget: None,
            smallest_score: None,
        }
    }
}

impl<'a> Run<'a> {
    /// What became of an item, and where.
    fn decision(&self, index: u32) -> (PipelineStage, Decision) {
        let mut decided = None;
        for stage in Self::STAGES {
            self.each_excluded(&stage, |other, reason| {
                if other == index {
                    decided = Some((stage.clone(), Decision::Excluded { reason }));
                }
            });
        }
        let mut position = 0;
        self.each_included(|other, reason| {
            if other == index {
                let stage = match reason {
                    InclusionReason::Pinned => PipelineStage::Classify,
                    _ => PipelineStage::Slice,
                };
                decided = Some((stage, Decision::Included { reason, position }));
            }
            position += 1;
        });
        // Every item is in one of the lists, so there is always a decision.
        decided.unwrap_or_else(|| {
            let reason = ExclusionReason::Unknown { reason: "Unknown".to_owned() };
            (PipelineStage::Place, Decision::Excluded { reason })
        })
    }

    fn rank(&self, index: u32, scored: &[u32]) -> Rank {
        let key = |index: u32| order::key(self.scores[index as usize], 0, index);
        let better = scored.iter().filter(|other| key(**other) < key(index)).count();
        Rank { rank: better + 1, of: scored.len() }
    }

    /// Selected items among these, as they are placed; then the others in the order given.
    fn rivals(&self, indices: &[u32]) -> Vec<Rival<&'a ContextItem>> {
        let mut sorted = indices.to_vec();
        sorted.sort_unstable();
        let placed = self.placed.iter().filter(|index| sorted.binary_search(index).is_ok());
        let rival = |index: &u32| {
            let (index, item, score) = self.entry(*index);
            Rival { index, item, score }
        };
        let mut rivals: Vec<_> = placed.map(rival).collect();
        if rivals.len() < indices.len() {
            let is_placed = |index: &&u32| !self.placed.contains(index);
            rivals.extend(indices.iter().filter(is_placed).map(rival));
        }
        rivals
    }

    /// What is merged if of the units that compete these are selected, and were taken in this order.
    pub(crate) fn merge<'m>(
        &'m self,
        scores: &'m [f64],
        sorted: &'m [u32],
        (sliced, taken): (Vec<u32>, Vec<u32>),
        forms: Forms,
    ) -> Merge<'m> {
        Merge {
            items: self.items,
            scores,
            pinned: &self.classified.pinned,
            pinned_tokens: self.classified.pinned_tokens,
            scoreable: &self.classified.scoreable,
            sliced,
            sorted,
            taken,
            forms,
        }
    }
}

impl Pipeline {
    /// The smallest budget with which pinned items are in: as soon as all of them fit, unless the run fails for what a
    /// slicer guarantees besides.
    fn smallest_for_pinned(&self, run: &Run<'_>, candidates: &[Candidate<'_>]) -> FoundBudget {
        let (first, present) = (self.smallest_window(run), run.budget.max_tokens());
        let target = |window: i64| window.min(run.budget.target_tokens());
        let succeeds = |window: &i64| {
            let budget = run.budget.with_sizes(*window, target(*window));
            budget.is_ok_and(|budget| {
                self.select(run, &run.sorted, candidates, &run.scores, &budget).is_ok()
            })
        };
        let found = |max_tokens: i64, is_proven| FoundBudget {
            max_tokens,
            target_tokens: target(max_tokens),
            is_proven,
        };
        if succeeds(&first) {
            return found(first, true);
        }
        let rendering = self.rendering().map_or(0, |rendering| rendering.effort(present));
        let effort = self.slicer.effort(candidates.len(), present).saturating_add(rendering);
        let windows = present.saturating_sub(first).max(0) as u64;
        if effort.saturating_mul(windows) <= Budgets::TO_TRY_ALL {
            return found((first..=present).find(succeeds).unwrap_or(present), true);
        }
        let (mut out, mut within) = (first, present);
        while within - out > 1 {
            let middle = out + (within - out) / 2;
            if succeeds(&middle) { within = middle } else { out = middle }
        }
        found(within, false)
    }

    /// Below this, a window does not hold the reserve and the pinned items as they are sent.
    fn smallest_window(&self, run: &Run<'_>) -> i64 {
        let merge = run.merge(&run.scores, &[], Default::default(), Forms::default());
        let sent = match self.rendering().zip(self.place(&merge).ok()) {
            Some((rendering, placed)) => Fitting::new(&merge, &placed, rendering).total(0),
            None => 0,
        };
        sent.max(merge.pinned_tokens).saturating_add(run.budget.output_reserve())
    }

    /// The units that are selected from these candidates, all of them and not a short form.
    pub(crate) fn select(
        &self,
        run: &Run<'_>,
        units: &[u32],
        candidates: &[Candidate<'_>],
        scores: &[f64],
        budget: &ContextBudget,
    ) -> Result<Vec<u32>, Error> {
        let Sliced { units: sliced, taken, forms, is_known_to_fit, .. } =
            self.slice(run, units, candidates, scores, budget)?;
        let mut merge = run.merge(scores, units, (sliced, taken), forms);
        if !is_known_to_fit {
            merge.handle_overflow(budget, self.overflow_strategy)?;
        }
        if let Some(rendering) = self.rendering() {
            let placed = self.place(&merge)?;
            let (_, out) =
                Fitting::new(&merge, &placed, rendering).fit(budget, self.overflow_strategy)?;
            let mut refused: Vec<u32> = out.refused.iter().map(|(unit, _)| *unit).collect();
            refused.sort_unstable();
            merge.sliced.truncate(merge.sliced.len() - out.over.len());
            merge.sliced.retain(|unit| refused.binary_search(unit).is_err());
        }
        let Merge { mut sliced, forms, scoreable, .. } = merge;
        if !forms.is_whole() {
            let is_whole = |index: &u32| !forms.is_short(*index);
            sliced.retain(|unit| scoreable.members(*unit).iter().all(is_whole));
        }
        Ok(sliced)
    }
}
