//! Stage 4: candidates in order of score.

use super::deduplicate::Duplicate;
use super::selection::PreparedRun;
use crate::{Candidate, Level, Offers, order};

/// The units that are left, highest score first, ties by pool order of their best members.
pub(super) struct Sorted<'a> {
    pub(super) units: Vec<u32>,
    pub(super) offers: Offers<'a>,
}

pub(super) fn sort<'a>(run: &PreparedRun<'a>, scores: &[f64], dropped: &[Duplicate]) -> Sorted<'a> {
    let (items, units) = (&run.items, &run.classified.scoreable);
    let mut dropped = dropped.iter().map(|duplicate| duplicate.unit).peekable();
    let mut keys = Vec::with_capacity(units.len());
    // Read in pool order and kept together: after the sort, each candidate is one cache miss.
    let mut candidates = Vec::with_capacity(units.len());
    let mut has_forms = false;
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
        has_forms |= run.has_forms(unit);
        if dropped.next_if_eq(&unit).is_none() {
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
    let plan = &run.costs.plan;
    if !plan.sections.is_empty() {
        offers = offers.with_headings(plan.sections.as_slice(), plan.headings);
    }
    Sorted {
        offers: offers.with_separator(plan.separator),
        units: keys.iter().map(|key| order::secondary(*key)).collect(),
    }
}
