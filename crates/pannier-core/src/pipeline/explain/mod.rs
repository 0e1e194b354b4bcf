//! Why one item is in or out, and what would have to be different.
//!
//! Everything here comes from deciding again. The smallest score that lets an item in is found by giving
//! it other scores and letting the same stages decide; what the item lost to is what goes out when it comes
//! in with that score; the smallest budget is one that was tried. So an answer can be checked by doing what
//! it says.

mod budget;
mod score;

use super::{Pipeline, RunState};
use crate::{
    ContextBudget, ContextItem, Error, ExclusionReason, InclusionReason, PipelineStage, Pool,
    ScoreExplanation, order,
};
use budget::BudgetCounterfactual;
use score::{NearDuplicateInputs, ScoreCounterfactual};

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
    pub smallest_budget: Option<BudgetThreshold>,
    /// A budget below the present one with which it would be selected, though it is out now: the smallest
    /// there is. Selections do not simply grow with the budget.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smaller_budget: Option<BudgetThreshold>,
    /// The smallest score, from 0 on, with which it is selected, all other scores being the same. With the
    /// next smaller number it is not. Absent if no score helps, or the item is not scored. Where near-duplicates are
    /// dropped, or a layout counts the whole, a higher score may let others in that it loses to; then there may be a
    /// smaller one still.
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
pub struct BudgetThreshold {
    /// The window.
    pub max_tokens: i64,
    /// The target.
    pub target_tokens: i64,
    /// Whether all smaller ones were tried. Where that would take too long, this is what a search by halves
    /// came to, and there may be a smaller one that it did not meet.
    pub is_proven: bool,
}

impl BudgetThreshold {
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
        items: impl IntoIterator<Item = &'a ContextItem>,
        budget: &ContextBudget,
        index: usize,
    ) -> Result<Explanation<&'a ContextItem>, Error> {
        let mut explanations = self.explain_all(items, budget, &[index])?;
        explanations.pop().ok_or(Error::NoSuchItem)
    }

    /// As [`explain`](Self::explain), for several items of one run.
    ///
    /// # Errors
    ///
    /// As [`explain`](Self::explain).
    pub fn explain_all<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        budget: &ContextBudget,
        indices: &[usize],
    ) -> Result<Vec<Explanation<&'a ContextItem>>, Error> {
        let prepared = self.prepare(items)?;
        if indices.iter().any(|index| *index >= prepared.data.items.len()) {
            return Err(Error::NoSuchItem);
        }
        let run = prepared.select_unobserved(budget)?.run;
        let near = NearDuplicateInputs::new(self, &run.prepared);
        let explain = |index: &usize| self.explain_in(&run, near.as_ref(), *index);
        indices.iter().map(explain).collect()
    }

    fn explain_in<'a>(
        &self,
        run: &RunState<'a>,
        near: Option<&NearDuplicateInputs<'_>>,
        index: usize,
    ) -> Result<Explanation<&'a ContextItem>, Error> {
        let (items, classified) = (&run.prepared.items, &run.prepared.classified);
        let (stage, decision) = run.decision(index as u32);
        let mut explanation = Explanation::new(index, items[index], stage, decision);

        let scoreable = classified.scoreable.in_pool_order();
        let Ok(position) = scoreable.binary_search(&(index as u32)) else {
            if classified.pinned.in_pool_order().binary_search(&(index as u32)).is_ok() {
                let threshold = BudgetCounterfactual::smallest_for_pinned(self, run);
                explanation.smallest_budget = Some(threshold);
            }
            return Ok(explanation);
        };
        let pool = Pool::new(scoreable.iter().map(|index| items[*index as usize]));
        explanation.score = Some(self.scorer.explain(&pool, position)?);
        explanation.rank = Some(run.rank(index as u32, &scoreable));

        let Some(mut other_scores) = ScoreCounterfactual::new(self, run, near, index as u32) else {
            return Ok(explanation);
        };
        explanation.density = other_scores.density();
        explanation.smallest_score = other_scores.smallest_score();
        let lost_to = match &explanation.decision {
            Decision::Included { reason: InclusionReason::Shortened, .. } => {
                other_scores.displaces(explanation.smallest_score)
            }
            Decision::Included { .. } => Vec::new(),
            Decision::Excluded { reason } => {
                other_scores.lost_to(reason, explanation.smallest_score)
            }
        };
        explanation.lost_to = run.rivals(&lost_to);

        let Some(budgets) = BudgetCounterfactual::new(self, run, index as u32) else {
            return Ok(explanation);
        };
        let current = budgets.current();
        if budgets.is_in(current) {
            explanation.smallest_budget = Some(budgets.search_down(current));
        } else {
            explanation.smallest_budget = budgets.search_up(current);
            explanation.smaller_budget = budgets.search_smaller_budgets(current);
        }
        Ok(explanation)
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

impl<'a> RunState<'a> {
    /// What became of an item, and where.
    fn decision(&self, index: u32) -> (PipelineStage, Decision) {
        let mut decided = None;
        for stage in Self::STAGES {
            self.for_each_excluded(&stage, |other, reason| {
                if other == index {
                    decided = Some((stage.clone(), Decision::Excluded { reason }));
                }
            });
        }
        let mut position = 0;
        self.for_each_included(|other, reason| {
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
        let key = |index: u32| order::key(self.prepared.scores[index as usize], 0, index);
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
}
