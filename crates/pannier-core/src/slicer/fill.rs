//! Fills the budget in order of score or with sections in turns, and may limit the candidates of one section.
//!
//! A heading costs as much as a short passage, so whether a passage fits depends on those taken before it. The tally
//! knows which headings are paid; this slicer is only the order and the cap.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sweep::{SweepRequest, SweepResult, sweep_fill};
use super::{Candidate, Offers, Slicer, SlicerProperties, Tally, Verdict};
use crate::{Error, ExclusionReason, Level, Passage, Search, order};

/// The order in which candidates are visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FillOrder {
    /// By score.
    #[default]
    Score,
    /// The sections in turns, each with its next best. A candidate of no section is a section of its own.
    Turns,
}

/// Takes candidates in an order, each one if it still fits together with the heading that it needs.
///
/// By score, the best comes first at any cost: in a conversation, the last tool output matters more than ten old
/// greetings, although those have a higher value per token. A candidate that does not fit is skipped.
///
/// ```
/// use pannier_core::{FillOrder, FillSlice};
///
/// let slicer = FillSlice::new(FillOrder::Turns).with_max_per_section(3);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FillSlice {
    order: FillOrder,
    max_per_section: Option<usize>,
}

impl FillSlice {
    /// Takes candidates in this order, with no limit per section.
    pub fn new(order: FillOrder) -> Self {
        Self { order, max_per_section: None }
    }

    /// Sets the maximum number of candidates of one section. If the layout has no sections, the documents of
    /// [passages](Passage) are the sections.
    #[must_use]
    pub fn with_max_per_section(mut self, candidates: usize) -> Self {
        self.max_per_section = Some(candidates);
        self
    }

    /// The section of each candidate, numbered in order of appearance.
    fn sections<'a>(offers: &Offers<'a>) -> Vec<Option<usize>> {
        let candidates = offers.candidates().iter();
        if offers.section_count() > 0 {
            return candidates.map(|candidate| candidate.section.position()).collect();
        }
        let mut documents = BTreeMap::new();
        let number = |candidate: &Candidate<'a>| {
            let (document, next) = (Passage::from_item(candidate.item)?.document, documents.len());
            Some(*documents.entry(document).or_insert(next))
        };
        candidates.map(number).collect()
    }

    /// Positions in the order in which they are visited.
    fn order(self, offers: &Offers<'_>, sections: &[Option<usize>]) -> Vec<u32> {
        let candidates = offers.candidates();
        match self.order {
            FillOrder::Score => {
                let key = |position: usize| order::descending_key(candidates[position].score);
                match (1..candidates.len()).all(|position| key(position - 1) <= key(position)) {
                    true => (0..candidates.len() as u32).collect(),
                    false => order::positions_by_score(
                        candidates.iter().map(|candidate| candidate.score),
                    ),
                }
            }
            FillOrder::Turns => {
                // The number of earlier candidates of each section, and the position of its first.
                let mut seen: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
                let rounds = sections.iter().enumerate().map(|(position, section)| {
                    let Some(section) = section else {
                        return (0, position);
                    };
                    let (count, first) = seen.entry(*section).or_insert((0, position));
                    *count += 1;
                    (*count - 1, *first)
                });
                let rounds: Vec<(usize, usize)> = rounds.collect();
                let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
                order.sort_by_key(|position| rounds[*position as usize]);
                order
            }
        }
    }

    fn needs_sections(self) -> bool {
        self.order == FillOrder::Turns || self.max_per_section.is_some()
    }
}

impl Slicer for FillSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        if tally.budget().target_tokens <= 0 {
            return Ok(());
        }
        let offers = tally.offers();
        let sections = if self.needs_sections() { Self::sections(offers) } else { Vec::new() };
        let order = self.order(offers, &sections);
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let taken = (0..sections.len()).filter(|position| tally.level(*position).is_some());
        for section in taken.filter_map(|position| sections[position]) {
            *counts.entry(section).or_default() += 1;
        }
        for position in order {
            let position = position as usize;
            let (Some(cap), Some(Some(section))) = (self.max_per_section, sections.get(position))
            else {
                tally.take(position, Level::WHOLE);
                continue;
            };
            let count = counts.entry(*section).or_default();
            if tally.level(position).is_some() {
                continue;
            }
            if *count < cap {
                *count += usize::from(tally.take(position, Level::WHOLE));
                continue;
            }
            let passage = Passage::from_item(offers.candidates()[position].item);
            let document = passage.map_or("", |passage| passage.document).to_owned();
            let reason = ExclusionReason::DocumentCapExceeded { document, cap, count: *count };
            tally.exclude(position, Verdict::Excluded(Arc::new(reason)));
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        match self.order {
            FillOrder::Score => SlicerProperties::SCORE_ORDERED,
            FillOrder::Turns => SlicerProperties::UNORDERED,
        }
    }

    fn sweep(&self, asked: &SweepRequest<'_, '_>, search: &mut Search<'_>) -> Option<SweepResult> {
        let offers = asked.offers;
        if !offers.is_plain() || self.max_per_section.is_some() {
            return None;
        }
        let sections = if self.needs_sections() { Self::sections(offers) } else { Vec::new() };
        Some(sweep_fill(asked, self.order(offers, &sections), search))
    }
}
