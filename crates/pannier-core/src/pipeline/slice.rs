//! Stage 5: lets the slicer decide which candidates fit what pinned items and reserves leave.

use crate::slicer::{Candidate, Slicer, Verdict, decide};
use crate::{CountRequirementShortfall, Error, SliceBudget};

/// The slicer's decisions about the sorted units.
pub(super) struct Sliced {
    /// The verdict on each of them.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) shortfalls: Vec<CountRequirementShortfall>,
    /// Those that it took, still in order of score, whatever order it took them in.
    pub(super) units: Vec<u32>,
    /// Their positions among all, in the order it took them in.
    pub(super) taken: Vec<u32>,
}

pub(super) fn slice(
    candidates: &[Candidate<'_>],
    sorted: &[u32],
    budget: SliceBudget,
    slicer: &dyn Slicer,
) -> Result<Sliced, Error> {
    let outcome = decide(slicer, candidates, budget)?;
    let mut units = Vec::with_capacity(outcome.taken().len());
    units.extend(taken(sorted, outcome.verdicts()));
    let (verdicts, taken, shortfalls) = outcome.into_parts();
    Ok(Sliced { verdicts, shortfalls, units, taken })
}

/// The units that were taken, in order of score.
pub(super) fn taken(sorted: &[u32], verdicts: &[Verdict]) -> impl Iterator<Item = u32> {
    let decided = sorted.iter().zip(verdicts);
    decided.filter(|(_, verdict)| **verdict == Verdict::Taken).map(|(unit, _)| *unit)
}
