//! Finds the best choice among forms, with headings, and proves that it is.
//!
//! Every candidate is a *class* of options, its forms, of which at most one is taken. Classes belong to sections, whose
//! headings are paid once. This is a multiple-choice knapsack with setup costs, and hard in general. Most of it is
//! decided by a bound:
//!
//! 1. At a price of `λ` per token, every class and every section can be decided by itself. What that leaves, plus the
//!    price of the whole budget, is an upper bound on any choice (Lagrangian relaxation):
//!    `λ·capacity + Σ sections max(0, Σ classes max(0, value - λ·tokens) - λ·heading)`. Bisection finds the `λ` at which it
//!    is smallest.
//! 2. What is decided at that price, with the rest filled up, is a choice, and so a lower bound. An option or a heading is
//!    struck if no choice with it can be better: the bound with it is below. Usually a few dozen options of thousands
//!    remain.
//! 3. For those, a list of states, tokens and value, grows by one class after the other. A state is dropped if another
//!    one has no more tokens and no less value, or if its bound is below. If more than [`MAX_STATES`] remain, the choice to
//!    start from is the answer, or the marginal fill if that is better. The distance to the bound is its gap.
//!
//! Values are integers, and prices fractions with a common denominator, so that bounds are proofs.

mod problem;
mod state_search;

use problem::{Problem, SCALE};

use super::{FillOrder, FillSlice, Slicer, SlicerProperties, Tally};
use crate::{Error, Headings, SectionId};

/// How many states are kept.
const MAX_STATES: usize = 1 << 17;

/// Takes the choice of candidates and forms with the highest sum of values, with headings and separators.
///
/// [`Selection::gap`](crate::Selection::gap) is 0 if the choice is proven to be the best. Otherwise no choice is better
/// by more than the gap. There is no gap if headings are sent at every change of section, or forms of one candidate are in
/// several sections with headings: then the choice is that of [`FillOrder::Marginal`], or one that charges a heading too
/// often.
///
/// Values are scores to four decimal places. Remaining tokens go to candidates without a value.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_core::slice::BestSlice;
///
/// let item = |content: &str, tokens, hint| {
///     ContextItem::builder(content, tokens).future_relevance_hint(hint).build()
/// };
/// // The first has the highest score per token, but the others have more together.
/// let items = [item("one", 60, 0.7)?, item("two", 50, 0.5)?, item("three", 50, 0.5)?];
/// let pipeline = Pipeline::builder(ReflexiveScorer).slicer(BestSlice).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(selection.indices().collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(selection.gap(), Some(0.0));
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BestSlice;

impl BestSlice {
    /// Slices with at most `max_states` states.
    fn slice_with(tally: &mut Tally<'_, '_>, max_states: usize) -> Result<(), Error> {
        let target = tally.budget().target_tokens;
        if target <= 0 {
            return Ok(());
        }
        let marginal = FillSlice::new(FillOrder::Marginal);
        let offers = tally.offers();
        let sections = (0..offers.section_count() as u32).map(SectionId::new);
        if offers.headings() == Headings::AtEveryChange
            && sections.into_iter().any(|section| offers.heading(section) > 0)
        {
            return marginal.slice(tally);
        }
        let is_first = tally.moves().len() == offers.kept().len();
        let problem = Problem::new(tally);
        let price = problem.best_price();
        let mut filled = tally.clone();
        for choice in problem.fitting_choices(&price) {
            filled.take(choice.position as usize, choice.level);
        }
        marginal.slice(&mut filled)?;
        let mut solution = problem.solve(&price, problem.value_of(&filled), max_states);
        if solution.bound > solution.value {
            let mut other = tally.clone();
            marginal.slice(&mut other)?;
            let value = problem.value_of(&other);
            if value > solution.value {
                (filled, solution.value) = (other, value.min(solution.bound));
            }
        }
        if let Some(choices) = &solution.choices {
            for choice in choices {
                tally.take(choice.position as usize, choice.level);
            }
            // The remaining tokens, for what has no value.
            marginal.slice(tally)?;
        } else {
            *tally = filled;
        }
        tally.spend(solution.steps);
        let grows_by = match solution.is_stable {
            true => problem.next_capacity.saturating_sub(problem.capacity),
            // Any larger target may have a better choice.
            false => 1,
        };
        tally.changes_at(target.saturating_add(grows_by));
        let gap = (solution.bound - solution.value) as f64 / SCALE;
        tally.set_gap((is_first && problem.is_exact).then_some(gap));
        Ok(())
    }
}

impl Slicer for BestSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        Self::slice_with(tally, MAX_STATES)
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::UNORDERED
    }
}

#[cfg(test)]
mod tests;
