//! Stage 5: lets the slicer decide which candidates fit what pinned items and reserves leave.

use super::forms::Forms;
use super::{Pipeline, Run};
use crate::slicer::{Candidate, Slicer, Verdict, decide};
use crate::{ContextBudget, CountRequirementShortfall, Error, Placed, Rendering, SliceBudget};

/// The slicer's decisions about the sorted units.
#[derive(Clone)]
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
        let sliced = self.slice_within(run, sorted, candidates, effective)?;
        match self.rendering() {
            Some(rendering) if self.slicer.properties().takes_tiers => {
                let rendered =
                    Rendered { pipeline: self, rendering, run, sorted, candidates, scores };
                let limit = super::Fitting::limit(budget, self.overflow_strategy);
                rendered.fill(sliced, effective, limit)
            }
            _ => Ok(sliced),
        }
    }

    fn slice_within(
        &self,
        run: &Run<'_>,
        sorted: &[u32],
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<Sliced, Error> {
        let mut sliced = slice(candidates, sorted, budget, &*self.slicer)?;
        sliced.forms = self.forms(run, sorted, &sliced.verdicts);
        Ok(sliced)
    }

    /// Which items are sent in their short form.
    fn forms(&self, run: &Run<'_>, sorted: &[u32], verdicts: &[Verdict]) -> Forms {
        let verdicts = sorted.iter().zip(verdicts);
        let mut forms = Forms::default();
        for (unit, _) in verdicts.filter(|(_, verdict)| **verdict == Verdict::Shortened) {
            forms.set(run.items.len(), run.classified.scoreable.members(*unit), true);
        }
        forms
    }
}

/// A slice that is rendered to see what it really costs.
///
/// What parts cost by themselves is mostly more than what they cost together: each is rounded up, and what says how much
/// is missing is there for the case that everything is. So there is room left when parts have used it up, and the slicer
/// is asked again with more of it, as long as the whole fits.
struct Rendered<'r> {
    pipeline: &'r Pipeline,
    rendering: &'r dyn Rendering,
    run: &'r Run<'r>,
    sorted: &'r [u32],
    candidates: &'r [Candidate<'r>],
    scores: &'r [f64],
}

impl Rendered<'_> {
    /// How often the slicer is asked again at most.
    const TRIES: usize = 24;

    /// How often a single candidate is tried at most.
    const SINGLE_TRIES: usize = 24;

    /// What is added to the room that is left, because the next one is rounded up, too.
    const ROUNDING: i64 = 8;

    fn fill(&self, mut best: Sliced, effective: SliceBudget, limit: i64) -> Result<Sliced, Error> {
        let slice = |budget: SliceBudget| {
            self.pipeline.slice_within(self.run, self.sorted, self.candidates, budget)
        };
        let is_whole =
            |sliced: &Sliced| sliced.verdicts.iter().all(|verdict| *verdict == Verdict::Taken);
        if is_whole(&best) {
            return Ok(best);
        }
        let mut everything = slice(SliceBudget::new(i64::MAX))?;
        if is_whole(&everything) && self.fits(&everything, limit)? {
            everything.is_known_to_fit = true;
            return Ok(everything);
        }
        let (mut given, mut tries) = (effective.target_tokens, 0);
        let mut left = limit.saturating_sub(self.cost(&best)?);
        let mut more = left.saturating_add(Self::ROUNDING);
        while left > 0 && more > 0 && tries < Self::TRIES {
            tries += 1;
            let target_tokens = given.saturating_add(more);
            let max_tokens = effective.max_tokens.max(target_tokens);
            let mut next = slice(SliceBudget { max_tokens, target_tokens, ..effective })?;
            if next
                .verdicts
                .iter()
                .map(Verdict::is_taken)
                .eq(best.verdicts.iter().map(Verdict::is_taken))
                && next.forms == best.forms
            {
                break;
            }
            // With more room, a slicer may choose what uses less of it.
            let spare = limit.saturating_sub(self.cost(&next)?);
            if (0..left).contains(&spare) {
                next.is_known_to_fit = true;
                (best, given, left) = (next, target_tokens, spare);
                more = left.saturating_add(Self::ROUNDING);
            } else {
                more = if more > left { left + (more - left) / 2 } else { more / 2 };
            }
        }
        self.complete(best, effective, limit)
    }

    /// Sends whole what was shortened, and by its short form what was left, one by one, as long as it fits and its share
    /// allows it. Asked for more at once, a slicer may not have found that.
    fn complete(
        &self,
        mut best: Sliced,
        effective: SliceBudget,
        limit: i64,
    ) -> Result<Sliced, Error> {
        let shortened = best.taken.iter().map(|position| (*position as usize, Verdict::Taken));
        let shortened = shortened.filter(|(at, _)| best.verdicts[*at] == Verdict::Shortened);
        let left = (0..self.candidates.len()).map(|at| (at, Verdict::Shortened));
        let left = left.filter(|(at, _)| matches!(best.verdicts[*at], Verdict::Left { .. }));
        let proposals: Vec<(usize, Verdict)> = shortened.chain(left).collect();
        let (mut spare, mut tries) = (limit.saturating_sub(self.cost(&best)?), 0);
        for (position, verdict) in proposals {
            let candidate = &self.candidates[position];
            let more = match (&verdict, candidate.short_tokens) {
                (Verdict::Taken, Some(short)) => candidate.tokens.saturating_sub(short),
                (_, Some(short)) => short,
                (_, None) => continue,
            };
            // What a part costs by itself may be a little more than what it adds.
            if spare <= 0
                || more > spare.saturating_add(Self::ROUNDING)
                || tries == Self::SINGLE_TRIES
            {
                continue;
            }
            tries += 1;
            let is_new = !best.verdicts[position].is_taken();
            if is_new {
                best.units.push(self.sorted[position]);
                best.taken.push(position as u32);
            }
            let members = self.run.classified.scoreable.members(self.sorted[position]);
            let forms = best.forms.clone();
            best.forms.set(self.run.items.len(), members, verdict == Verdict::Shortened);
            let before = std::mem::replace(&mut best.verdicts[position], verdict);
            let slicer = &self.pipeline.slicer;
            let rest = match slicer.keeps_shares(self.candidates, &best.verdicts, effective) {
                true => limit.saturating_sub(self.cost(&best)?),
                false => -1,
            };
            if rest >= 0 {
                spare = rest;
                best.is_known_to_fit = true;
                continue;
            }
            best.verdicts[position] = before;
            best.forms = forms;
            if is_new {
                best.units.pop();
                best.taken.pop();
            }
        }
        Ok(best)
    }

    fn fits(&self, sliced: &Sliced, limit: i64) -> Result<bool, Error> {
        self.ask(sliced, |placed| self.rendering.fits(&placed, limit))
    }

    fn cost(&self, sliced: &Sliced) -> Result<i64, Error> {
        self.ask(sliced, |placed| self.rendering.cost(&placed).total())
    }

    fn ask<T>(&self, sliced: &Sliced, ask: impl FnOnce(Placed<'_>) -> T) -> Result<T, Error> {
        let (taken, forms) = ((sliced.units.clone(), sliced.taken.clone()), sliced.forms.clone());
        let merge = self.run.merge(self.scores, self.sorted, taken, forms);
        let placed = self.pipeline.place(&merge)?;
        Ok(ask(Placed::new(self.run.items, &placed, &sliced.forms)))
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
