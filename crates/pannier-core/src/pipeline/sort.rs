//! Stage 4: candidates in order of score.

use super::deduplicate::Duplicate;
use super::floor::FloorCut;
use super::selection::PreparedRun;
use crate::{Candidate, Level, Offers, order};

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
    let mut dropped = duplicates.iter().map(|duplicate| duplicate.unit).peekable();
    let mut below = floor.map_or(&[][..], |floor| &floor.below).iter().copied().peekable();
    let mut keys = Vec::with_capacity(units.len());
    // Read in pool order and kept together: after the sort, each candidate is one cache miss.
    let mut candidates = Vec::with_capacity(units.len());
    let (mut has_forms, mut has_kept) = (false, false);
    for unit in 0..units.len() as u32 {
        let best = units.best_member(unit, scores);
        let score = scores[best as usize];
        candidates.push(Candidate {
            item: items[best as usize],
            tokens: run.unit_tokens(unit),
            score,
            value: units.value(unit, scores),
            section: run.costs.section(best as usize, Level::WHOLE),
        });
        let (unit_has_forms, is_kept) = run.has_forms_or_is_kept(unit);
        has_forms |= unit_has_forms;
        has_kept |= is_kept;
        if dropped.next_if_eq(&unit).is_none() && below.next_if_eq(&unit).is_none() {
            keys.push(order::pack_key(score, best, unit));
        }
    }
    order::sort(&mut keys);
    let in_order = keys.iter().map(|key| candidates[order::secondary(*key) as usize]);
    let mut offers = Offers::new(in_order);
    if has_forms {
        let forms = |key: &u128| run.forms(order::secondary(*key), scores);
        offers = offers.with_forms(keys.iter().map(forms));
    }
    if has_kept {
        let kept = run.kept_units(duplicates);
        let is_kept =
            |(key, _): &(&u128, u32)| kept.binary_search(&order::secondary(**key)).is_ok();
        let positions: Vec<u32> =
            keys.iter().zip(0..).filter(is_kept).map(|(_, position)| position).collect();
        offers = offers.with_kept(positions);
    }
    let plan = &run.costs.plan;
    if !plan.sections.is_empty() {
        offers = offers.with_headings(plan.sections.as_slice(), plan.headings);
    }
    Sorted {
        offers: offers.with_separator(plan.separator),
        units: keys.iter().map(|key| order::secondary(*key)).collect(),
    }
}
