//! Stage 5: lets the slicer decide which candidates fit what pinned items and reserves leave.

use crate::slicer::{Candidate, SliceOutcome, Slicer, decide};
use crate::{Error, SliceBudget};

pub(super) fn slice(
    candidates: &[Candidate<'_>],
    budget: SliceBudget,
    slicer: &dyn Slicer,
) -> Result<SliceOutcome, Error> {
    decide(slicer, candidates, budget)
}
