//! Why one item is in or out, and what would have to be different.
//!
//! Everything here comes from deciding again. The smallest score that lets an item in is found by giving
//! it other scores and letting the same stages decide; what the item lost to is what goes out when it comes
//! in with that score; the smallest budget and the largest size are ones that were tried. So an answer can be checked
//! by doing what it says.

mod budget;
mod item;

use super::{Counts, Pipeline, Prepared, RunState};
use crate::{
    ContextBudget, ContextItem, Error, ExclusionReason, FormName, InclusionReason, PipelineStage,
    Pool, ScoreExplanation, Search, order,
};
use budget::BudgetCounterfactual;
use item::{ItemCounterfactual, NearDuplicateInputs};

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
    /// The parts of its score. Absent for pinned and invalid items, which are not scored.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub score: Option<ScoreExplanation>,
    /// Its rank among the scored items.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rank: Option<Rank>,
    /// Its score per token, with its group if it has one. Absent if it is not scored or has no tokens.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub density: Option<f64>,
    /// The items it lost to, in order of sending: the duplicate that was kept, the pinned items that take the budget, or
    /// the items that would be dropped if it had the smallest score that selects it. That score may be above what the
    /// scorer can give.
    pub lost_to: Vec<Rival<I>>,
    /// The smallest budget that selects it. For an item that is out: the smallest above the current one, for any of its
    /// forms. For an item that is in: the smallest from its own tokens on, for the whole item. A larger budget may drop it
    /// again. Absent if the search found none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smallest_budget: Option<BudgetThreshold>,
    /// The smallest budget below the current one that selects it, though it is out now. Selections do not only grow with
    /// the budget.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smaller_budget: Option<BudgetThreshold>,
    /// The smallest score from 0 on that selects it, with all other scores unchanged. The next smaller number does not.
    /// Absent if no score that the scorer [can give](crate::Scorer::max_score) selects it, or if it is not scored. With
    /// near-duplicates or a layout that counts the whole, a still smaller score may exist.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub smallest_score: Option<f64>,
    /// For an item that is out: the largest number of tokens with which it is selected, with all else unchanged. One
    /// token more drops it. Absent if fewer tokens do not help, or if a layout counts its text.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub max_item_tokens: Option<i64>,
    /// Whether the search finished. After a search that was stopped, an absent answer is unknown.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_true"))]
    pub is_complete: bool,
}

impl Explanation<&ContextItem> {
    /// Clones the items, so that the explanation outlives the pool.
    pub fn into_owned(self) -> Explanation {
        let Self { index, item, stage, decision, score, rank, density, lost_to, .. } = self;
        let own = |Rival { index, item, score }: Rival<&ContextItem>| {
            let item = item.clone();
            Rival { index, item, score }
        };
        Explanation {
            index,
            item: item.clone(),
            stage,
            decision,
            score,
            rank,
            density,
            lost_to: lost_to.into_iter().map(own).collect(),
            smallest_budget: self.smallest_budget,
            smaller_budget: self.smaller_budget,
            smallest_score: self.smallest_score,
            max_item_tokens: self.max_item_tokens,
            is_complete: self.is_complete,
        }
    }
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
        /// The form that is sent. Absent if it is the whole item.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
        form: Option<SentForm>,
    },
    /// It is out.
    Excluded {
        /// Why.
        reason: ExclusionReason,
    },
}

/// The form of an item that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SentForm {
    /// Its name.
    pub name: FormName,
    /// Its tokens.
    pub tokens: i64,
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

/// A budget that selects an item, with the reserve, the slots and the margin of the current one.
///
/// If the current target is below what the window leaves, the target differs, and the window only where it must.
/// Otherwise the window differs, and the target keeps its distance from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BudgetThreshold {
    /// The window.
    pub max_tokens: i64,
    /// The target.
    pub target_tokens: i64,
    /// Whether every smaller budget was excluded. If that took too long, this is the result of a bisection, and a smaller
    /// one may exist.
    pub is_proven: bool,
}

impl BudgetThreshold {
    /// Creates a budget of these sizes.
    pub fn new(max_tokens: i64, target_tokens: i64, is_proven: bool) -> Self {
        Self { max_tokens, target_tokens, is_proven }
    }
}

impl Pipeline {
    /// Why the item at an index is selected or not, and what would change that.
    ///
    /// ```
    /// use pannier_core::{ContextBudget, ContextItem, Pipeline};
    /// use pannier_core::score::ReflexiveScorer;
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
        let mut search = Search::new(Explanation::<()>::STEPS.saturating_mul(indices.len() as u64));
        self.prepare(items)?.explain(budget, indices, &mut search)
    }
}

impl<'a> Prepared<'_, 'a> {
    /// Explains why items are selected within a budget or not, and what would change that.
    ///
    /// The steps of the search are divided among the items. Where they run out, budgets are
    /// [not proven](BudgetThreshold::is_proven) to be the smallest. If the search is stopped, the last explanation has
    /// what is known so far and is not [complete](Explanation::is_complete), and those of further items are missing.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] if there is no item at an index; otherwise as [`Pipeline::run`].
    pub fn explain(
        &self,
        budget: &ContextBudget,
        indices: &[usize],
        search: &mut Search<'_>,
    ) -> Result<Vec<Explanation<&'a ContextItem>>, Error> {
        if indices.iter().any(|index| *index >= self.data.items.len()) {
            return Err(Error::NoSuchItem);
        }
        let run = self.select_unobserved(budget)?.run;
        let near = NearDuplicateInputs::new(self.pipeline, &run.prepared);
        let mut explanations = Vec::with_capacity(indices.len());
        for (index, unanswered) in indices.iter().zip((1..=indices.len()).rev()) {
            let mut explanation = self.pipeline.explain_score(&run, *index)?;
            let mut search = search.part(unanswered);
            let answered =
                self.pipeline.counterfactuals(&run, near.as_ref(), &mut explanation, &mut search);
            explanation.is_complete = answered != Err(Error::Stopped);
            explanations.push(explanation);
            if answered.is_err() {
                break;
            }
        }
        Ok(explanations)
    }
}

impl Pipeline {
    /// What was decided about an item, and its score.
    fn explain_score<'a>(
        &self,
        run: &RunState<'a>,
        index: usize,
    ) -> Result<Explanation<&'a ContextItem>, Error> {
        let items = &run.prepared.items;
        let (stage, decision) = run.decision(index as u32);
        let mut explanation = Explanation::new(index, items[index], stage, decision);
        let scoreable = run.prepared.classified.scoreable.in_pool_order();
        if let Ok(position) = scoreable.binary_search(&(index as u32)) {
            let pool = Pool::new(scoreable.iter().map(|index| items[*index as usize]));
            explanation.score = Some(self.scorer.explain(&pool, position)?);
            explanation.rank = Some(run.rank(index as u32, &scoreable));
        }
        Ok(explanation)
    }

    /// What would have to be different. Fails if the search is stopped.
    fn counterfactuals<'a>(
        &self,
        run: &RunState<'a>,
        near: Option<&NearDuplicateInputs<'_>>,
        explanation: &mut Explanation<&'a ContextItem>,
        search: &mut Search<'_>,
    ) -> Result<(), Error> {
        let index = explanation.index as u32;
        // An item that is out may come in by any form; one that is in by a form may come in whole.
        let counts = match explanation.decision {
            Decision::Excluded { .. } => Counts::AnyForm,
            _ => Counts::whole(explanation.item),
        };
        if let Some(mut changed) = ItemCounterfactual::new(self, run, near, index, counts) {
            explanation.density = changed.density();
            let smallest_score = changed.smallest_score(search)?;
            let max_score = changed.max_score();
            explanation.smallest_score = smallest_score.filter(|score| *score <= max_score);
            let lost_to = match &explanation.decision {
                Decision::Included { form: Some(_), .. } => changed.displaces(smallest_score),
                Decision::Included { .. } => Vec::new(),
                Decision::Excluded { reason } => changed.lost_to(reason, smallest_score),
            };
            explanation.lost_to = run.rivals(&lost_to);
            if matches!(explanation.decision, Decision::Excluded { .. }) {
                explanation.max_item_tokens = changed.max_tokens(search)?;
            }
        }
        if let Some(budgets) = BudgetCounterfactual::new(self, run, index, counts) {
            (explanation.smallest_budget, explanation.smaller_budget) =
                budgets.thresholds(search)?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
fn is_true(value: &bool) -> bool {
    *value
}

impl<I> Explanation<I> {
    /// How many steps an explanation may take unless its caller says otherwise: about half a second.
    pub const STEPS: u64 = 1 << 29;

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
            max_item_tokens: None,
            is_complete: true,
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
                let form = self.levels.sent(&self.prepared.items, index).form();
                let form =
                    form.map(|form| SentForm { name: form.name().clone(), tokens: form.tokens() });
                decided = Some((stage, Decision::Included { reason, position, form }));
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
        let key = |index: u32| order::pack_key(self.prepared.scores[index as usize], 0, index);
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
