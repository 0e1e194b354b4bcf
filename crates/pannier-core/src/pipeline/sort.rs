//! Stage 4: candidates in order of score.

use super::deduplicate::Duplicate;
use super::floor::FloorCut;
use super::selection::PreparedRun;
use crate::{Candidate, Level, Offers};

/// The units that are left, highest score first, ties by pool order of their best members.
pub(super) struct Sorted<'a> {
    pub(super) units: Vec<u32>,
    pub(super) offers: Offers<'a>,
}

pub(super) fn sort<'a>(
    run: &PreparedRun<'a>,
    scores: &[f64],
    duplicates: &[Duplicate],
    floor: Option<&FloorCut>,
) -> Sorted<'a> {
    let (items, units) = (&run.items, &run.classified.scoreable);
    let mut below = floor.map_or(&[][..], |floor| &floor.below).iter().peekable();
    let above = (0..units.len() as u32).filter(|unit| below.next_if_eq(&unit).is_none());
    let sorted = units.by_score(above, duplicates, scores);
    let candidate = |unit: u32| {
        let best = units.best_member(unit, scores) as usize;
        Candidate {
            item: items[best],
            tokens: run.unit_tokens(unit),
            score: scores[best],
            value: units.value(unit, scores),
            section: run.costs.section(best, Level::WHOLE),
        }
    };
    // One walk in pool order, then one gather: random reads of one row, not of each column.
    let candidates: Vec<Candidate<'_>> = (0..units.len() as u32).map(candidate).collect();
    let mut offers = Offers::new(sorted.iter().map(|unit| candidates[*unit as usize]));
    if units.has_forms() {
        offers = offers.with_forms(sorted.iter().map(|unit| run.forms(*unit, scores)));
    }
    if units.has_kept() {
        let kept = run.kept_units(duplicates);
        let is_kept = |(unit, _): &(&u32, u32)| kept.binary_search(unit).is_ok();
        let positions = sorted.iter().zip(0..).filter(is_kept).map(|(_, position)| position);
        offers = offers.with_kept(positions);
    }
    let plan = &run.costs.plan;
    if !plan.sections.is_empty() {
        offers = offers.with_headings(plan.sections.as_slice(), plan.headings);
    }
    Sorted { offers: offers.with_separator(plan.separator), units: sorted }
}
