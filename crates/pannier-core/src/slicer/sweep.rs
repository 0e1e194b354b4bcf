//! At which budgets candidates are taken, for a whole range of budgets at once.

use std::ops::RangeInclusive;

use super::{Candidate, Slicer, Verdict, decide};
use crate::{Error, SliceBudget};

/// Targets at which a candidate is taken, as ascending ranges that do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRanges(Vec<RangeInclusive<i64>>);

impl TargetRanges {
    /// The ranges.
    pub fn ranges(&self) -> &[RangeInclusive<i64>] {
        &self.0
    }

    /// Adds targets above all that are already there.
    pub(super) fn push(&mut self, targets: RangeInclusive<i64>) {
        match self.0.last_mut() {
            Some(last) if *last.end() + 1 == *targets.start() => {
                *last = *last.start()..=*targets.end();
            }
            _ => self.0.push(targets),
        }
    }
}

/// How many targets a range has.
pub(super) fn count_targets(targets: &RangeInclusive<i64>) -> u64 {
    targets.end().saturating_sub(*targets.start()).saturating_add(1).max(0) as u64
}

/// Slices once for each target.
pub(super) fn sweep_one_by_one<S: Slicer + ?Sized>(
    slicer: &S,
    candidates: &[Candidate<'_>],
    targets: RangeInclusive<i64>,
    positions: &[usize],
) -> Result<Vec<TargetRanges>, Error> {
    let mut taken = vec![TargetRanges::default(); positions.len()];
    for target in targets {
        let outcome = decide(slicer, candidates, SliceBudget::new(target))?;
        for (ranges, position) in taken.iter_mut().zip(positions) {
            if outcome.verdicts()[*position] == Verdict::Taken {
                ranges.push(target..=target);
            }
        }
    }
    Ok(taken)
}
