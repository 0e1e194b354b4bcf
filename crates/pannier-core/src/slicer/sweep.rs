use std::ops::RangeInclusive;

/// Targets at which a candidate is taken, as ascending ranges that do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRanges(Vec<RangeInclusive<i64>>);

impl TargetRanges {
    /// Returns the ranges.
    pub fn ranges(&self) -> &[RangeInclusive<i64>] {
        &self.0
    }

    /// Adds targets above all that are already there.
    pub fn push(&mut self, targets: RangeInclusive<i64>) {
        match self.0.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(*targets.start()) => {
                *last = *last.start()..=*targets.end();
            }
            _ => self.0.push(targets),
        }
    }

    /// Returns the ranges.
    pub fn into_ranges(self) -> Vec<RangeInclusive<i64>> {
        self.0
    }
}
