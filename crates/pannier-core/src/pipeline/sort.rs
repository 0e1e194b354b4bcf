//! Stage 4: candidates in order of score.

use super::deduplicate::Duplicate;
use super::units::{Summary, Units};
use crate::slicer::Candidate;
use crate::{ContextItem, order};

/// The units that are left, highest score first, ties by pool order of their best members.
pub(super) struct Sorted<'a> {
    pub(super) units: Vec<u32>,
    pub(super) candidates: Vec<Candidate<'a>>,
}

pub(super) fn sort<'a>(
    items: &'a [ContextItem],
    units: &Units,
    scores: &[f64],
    dropped: &[Duplicate],
) -> Sorted<'a> {
    let mut dropped = dropped.iter().map(|duplicate| duplicate.unit).peekable();
    let kept = (0..units.len() as u32).filter(|unit| dropped.next_if_eq(unit).is_none());
    let mut keys = Vec::with_capacity(units.len());
    let mut summaries = Vec::with_capacity(units.len());
    for unit in kept {
        let summary = units.summary(unit, items, scores);
        // The slot in `summaries` grows with the unit, and the unit is found again through it.
        keys.push(order::key(summary.score, summary.lead, summaries.len() as u32));
        summaries.push((unit, summary));
    }
    keys.sort_unstable();
    let (units, candidates) = keys
        .into_iter()
        .map(|key| {
            let slot = order::second(key) as usize;
            let (unit, Summary { lead, score, value, tokens }) = summaries[slot];
            (unit, Candidate { item: &items[lead as usize], tokens, score, value })
        })
        .unzip();
    Sorted { units, candidates }
}
