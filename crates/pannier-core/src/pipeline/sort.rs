//! Stage 4: candidates in order of score.

use super::deduplicate::Duplicate;
use super::selection::Run;
use crate::order;
use crate::slicer::Candidate;

/// The units that are left, highest score first, ties by pool order of their best members.
pub(super) struct Sorted<'a> {
    pub(super) units: Vec<u32>,
    pub(super) candidates: Vec<Candidate<'a>>,
}

pub(super) fn sort<'a>(run: &Run<'a>, scores: &[f64], dropped: &[Duplicate]) -> Sorted<'a> {
    let (items, units) = (run.items, &run.classified.scoreable);
    let mut dropped = dropped.iter().map(|duplicate| duplicate.unit).peekable();
    let mut keys = Vec::with_capacity(units.len());
    // Read in pool order and kept apart: after the sort, looking into the items again would be one
    // cache miss for each.
    let mut tokens = Vec::with_capacity(units.len());
    for unit in 0..units.len() as u32 {
        tokens.push((run.unit_tokens(unit), run.unit_short_tokens(unit)));
        if dropped.next_if_eq(&unit).is_none() {
            let lead = units.lead(unit, scores);
            keys.push(order::key(scores[lead as usize], lead, unit));
        }
    }
    keys.sort_unstable();
    let candidates = keys.iter().map(|key| {
        let (lead, unit) = (order::first(*key) as usize, order::second(*key));
        let (tokens, short_tokens) = tokens[unit as usize];
        Candidate {
            item: &items[lead],
            tokens,
            short_tokens,
            heading_tokens: run.heading_tokens(lead),
            score: scores[lead],
            value: units.value(unit, scores),
        }
    });
    Sorted {
        candidates: candidates.collect(),
        units: keys.iter().map(|key| order::second(*key)).collect(),
    }
}
