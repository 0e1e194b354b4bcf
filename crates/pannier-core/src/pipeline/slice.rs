//! Stage 5: lets the slicer decide which candidates fit what pinned items and reserves leave.

use crate::slicer::{Candidate, SliceOutcome, Slicer};
use crate::{Error, SliceBudget};

pub(super) fn slice(
    candidates: &[Candidate<'_>],
    budget: SliceBudget,
    slicer: &dyn Slicer,
) -> Result<SliceOutcome, Error> {
    let outcome = slicer.slice(candidates, budget)?;
    let (given, decided) = (candidates.len(), outcome.verdicts().len());
    if given != decided {
        let problem = format!("it got {given} candidates and decided about {decided}");
        return Err(Error::CustomPart { part: "the slicer".to_owned(), problem });
    }
    Ok(outcome)
}
