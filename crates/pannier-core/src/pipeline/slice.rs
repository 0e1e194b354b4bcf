//! Stage 5: lets the slicer decide which candidates fit what pinned items and reserves leave.

use super::forms::Forms;
use super::{Pipeline, Run};
use crate::slicer::{Candidate, Slicer, Verdict, decide};
use crate::{ContextBudget, CountRequirementShortfall, Error, Placed, SliceBudget};

/// The slicer's decisions about the sorted units.
pub(super) struct Sliced {
    /// The verdict on each of them.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) shortfalls: Vec<CountRequirementShortfall>,
    /// Those that it took, still in order of score, whatever order it took them in; unless it takes tiers, where that
    /// order is the one that counts.
    pub(super) units: Vec<u32>,
    /// Their positions among all, in the order it took them in.
    pub(super) taken: Vec<u32>,
    /// Which items it took in their short form.
    pub(super) forms: Forms,
    /// Whether this was rendered and fits, whatever its parts cost by themselves.
    pub(super) is_known_to_fit: bool,
}

impl Pipeline {
    /// Slices what a budget leaves, once these scores have put the units into this order.
    pub(super) fn slice(
        &self,
        run: &Run<'_>,
        sorted: &[u32],
        candidates: &[Candidate<'_>],
        scores: &[f64],
        budget: &ContextBudget,
    ) -> Result<Sliced, Error> {
        let effective = budget.effective(run.committed_tokens());
        if self.slicer.properties().takes_tiers
            && let Some(rendering) = self.rendering()
        {
            // What parts cost by themselves is not what they cost together: so the whole is asked for first.
            let mut everything =
                slice(candidates, sorted, SliceBudget::new(i64::MAX), &*self.slicer)?;
            let all_whole = everything.verdicts.iter().all(|verdict| *verdict == Verdict::Taken);
            let taken = (everything.units.clone(), everything.taken.clone());
            let merge = run.merge(scores, sorted, taken, Forms::default());
            let placed = self.place(&merge)?;
            let limit = super::Fitting::limit(budget, self.overflow_strategy);
            if all_whole && rendering.fits(&Placed::new(run.items, &placed, Forms::WHOLE), limit) {
                everything.is_known_to_fit = true;
                return Ok(everything);
            }
        }
        let mut sliced = slice(candidates, sorted, effective, &*self.slicer)?;
        let verdicts = sorted.iter().zip(&sliced.verdicts);
        let shortened = verdicts.filter(|(_, verdict)| **verdict == Verdict::Shortened);
        let members = shortened.flat_map(|(unit, _)| run.classified.scoreable.members(*unit));
        sliced.forms = Forms::new(run.items.len(), members.copied());
        Ok(sliced)
    }
}

fn slice(
    candidates: &[Candidate<'_>],
    sorted: &[u32],
    budget: SliceBudget,
    slicer: &dyn Slicer,
) -> Result<Sliced, Error> {
    let outcome = decide(slicer, candidates, budget)?;
    let mut units = Vec::with_capacity(outcome.taken().len());
    match slicer.properties().takes_tiers {
        true => units.extend(outcome.taken().iter().map(|position| sorted[*position as usize])),
        false => units.extend(taken(sorted, outcome.verdicts())),
    }
    let (verdicts, taken, shortfalls) = outcome.into_parts();
    let forms = Forms::default();
    Ok(Sliced { verdicts, shortfalls, units, taken, forms, is_known_to_fit: false })
}

/// The units that were taken, in order of score.
pub(super) fn taken(sorted: &[u32], verdicts: &[Verdict]) -> impl Iterator<Item = u32> {
    let decided = sorted.iter().zip(verdicts);
    decided.filter(|(_, verdict)| verdict.is_taken()).map(|(unit, _)| *unit)
}
