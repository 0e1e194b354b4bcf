//! Drops units below the relevance floor, between deduplication and sort.

use super::deduplicate::Duplicate;
use super::selection::PreparedRun;
use crate::Floor;

/// The units below the floor.
#[derive(Clone, Debug)]
pub(crate) struct FloorCut {
    /// The lowest score that stays.
    pub(crate) score: f64,
    /// The units that were dropped, in ascending order.
    pub(crate) below: Vec<u32>,
}

impl FloorCut {
    /// Finds the units that are not duplicates and score below the floor. Kept units stay.
    pub(super) fn new(
        floor: Floor,
        run: &PreparedRun<'_>,
        scores: &[f64],
        duplicates: &[Duplicate],
    ) -> Self {
        let units = &run.classified.scoreable;
        let is_unique =
            |unit: &u32| duplicates.binary_search_by_key(unit, |duplicate| duplicate.unit).is_err();
        let unique: Vec<u32> = (0..units.len() as u32).filter(is_unique).collect();
        let unit_score = |unit: u32| scores[units.best_member(unit, scores) as usize];
        let score = floor.score(unique.iter().map(|unit| unit_score(*unit)));
        let kept = run.kept_units(duplicates);
        let is_below = |unit: &u32| {
            // A score that is not a number is below every floor.
            let stays = unit_score(*unit) >= score || score == f64::NEG_INFINITY;
            !stays && kept.binary_search(unit).is_err()
        };
        Self { score, below: unique.into_iter().filter(is_below).collect() }
    }
}
