//! Fills the budget with passages of documents, and pays for the headings under which they stand.
//!
//! A heading costs as much as a short passage, so whether a passage fits depends on what was taken before it. How
//! often headings are paid follows from how the selection is laid out: once for each document, if passages of one
//! document are brought together afterwards, or whenever the document changes, if they stand as they were taken.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::sweep::count_targets;
use super::{Candidate, SliceOutcome, Slicer, SlicerProperties, TargetRanges, Verdict};
use crate::{Error, ExclusionReason, Passage, SliceBudget};

/// In which order documents get their turn, and when a heading is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Packing {
    /// The best first, and a heading once for each document. For a layout by document:
    /// [`DocumentPlacer`](crate::DocumentPlacer).
    #[default]
    Greedy,
    /// The documents in turns, each with its next best, and a heading whenever the document changes. For a layout as
    /// taken: [`TakenPlacer`](crate::TakenPlacer).
    Interleaved,
    /// The best first, and a heading whenever the document changes. For a layout as taken.
    ScoreWeighted,
}

/// Takes passages of documents, each one if it still fits together with the heading that it needs.
///
/// A candidate without a [passage](Passage) needs no heading. What does not fit is skipped.
///
/// ```
/// use pannier_core::{DocumentSlice, Packing};
///
/// let slicer = DocumentSlice::new(Packing::Interleaved).with_overhead(12)?.with_max_per_document(3);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DocumentSlice {
    packing: Packing,
    overhead: i64,
    max_per_document: Option<usize>,
}

impl Default for DocumentSlice {
    fn default() -> Self {
        Self::new(Packing::default())
    }
}

impl DocumentSlice {
    /// What a heading costs at least, unless set.
    pub const OVERHEAD: i64 = 10;

    /// Takes passages in this order, with an overhead of [`OVERHEAD`](Self::OVERHEAD) and no largest number.
    pub fn new(packing: Packing) -> Self {
        Self { packing, overhead: Self::OVERHEAD, max_per_document: None }
    }

    /// Sets what a heading costs at least. Where it is known to cost more, it costs more.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if it is below 0.
    pub fn with_overhead(mut self, overhead: i64) -> Result<Self, Error> {
        if overhead < 0 {
            let problem = format!("overhead is {overhead}; it must be 0 or more tokens");
            return Err(Error::InvalidSlicer { slicer: "DocumentSlice", problem });
        }
        self.overhead = overhead;
        Ok(self)
    }

    /// Sets how many passages of one document may be taken.
    pub fn with_max_per_document(mut self, passages: usize) -> Self {
        self.max_per_document = Some(passages);
        self
    }

    /// The candidates in the order in which they are looked at.
    fn turns<'a>(&self, candidates: &[Candidate<'a>]) -> Turns<'a> {
        let (mut numbers, mut names) = (BTreeMap::new(), Vec::new());
        let mut turns: Vec<Turn> = Vec::with_capacity(candidates.len());
        // How many of each document came before.
        let mut counts: Vec<usize> = Vec::new();
        let mut rounds: Vec<(usize, usize)> = Vec::with_capacity(candidates.len());
        let mut first_seen = Vec::new();
        for (position, candidate) in candidates.iter().enumerate() {
            let passage = Passage::from_item(candidate.item);
            let document = passage.map(|passage| {
                *numbers.entry(passage.document).or_insert_with(|| {
                    names.push(passage.document);
                    counts.push(0);
                    first_seen.push(position);
                    names.len() - 1
                })
            });
            rounds.push(match document {
                Some(document) => {
                    counts[document] += 1;
                    (counts[document] - 1, first_seen[document])
                }
                None => (0, position),
            });
            let heading_tokens =
                document.map_or(0, |_| candidate.heading_tokens.max(self.overhead));
            turns.push(Turn { position, document, tokens: candidate.tokens, heading_tokens });
        }
        if self.packing == Packing::Interleaved {
            turns.sort_by_key(|turn| rounds[turn.position]);
        }
        Turns { turns, documents: names }
    }

    fn fill(&self, turns: &Turns<'_>, target: i64) -> SliceOutcome {
        let mut outcome = SliceOutcome::new(turns.turns.len());
        if target <= 0 {
            return outcome;
        }
        let mut counts = vec![0_usize; turns.documents.len()];
        let (mut remaining, mut last) = (target, None);
        for turn in &turns.turns {
            let opens = turn.document.is_some_and(|document| match self.packing {
                Packing::Greedy => counts[document] == 0,
                Packing::Interleaved | Packing::ScoreWeighted => last != turn.document,
            });
            if let (Some(document), Some(cap)) = (turn.document, self.max_per_document)
                && counts[document] >= cap
            {
                let (name, count) = (turns.documents[document].to_owned(), counts[document]);
                let reason = ExclusionReason::DocumentCapExceeded { document: name, cap, count };
                outcome.leave(turn.position, Verdict::Excluded(Arc::new(reason)));
                continue;
            }
            let heading_tokens = if opens { turn.heading_tokens } else { 0 };
            let available_tokens = remaining.saturating_sub(heading_tokens);
            // A passage of no tokens needs its heading, too.
            if available_tokens < 0 || !(0..=available_tokens).contains(&turn.tokens) {
                let available_tokens = available_tokens.max(0);
                outcome.leave(turn.position, Verdict::Left { available_tokens });
                continue;
            }
            outcome.take(turn.position);
            remaining = available_tokens - turn.tokens;
            last = turn.document;
            if let Some(document) = turn.document {
                counts[document] += 1;
            }
        }
        outcome
    }
}

/// Candidates in the order in which they are looked at, whatever the target.
struct Turns<'a> {
    turns: Vec<Turn>,
    /// The documents, in order of their first candidates.
    documents: Vec<&'a str>,
}

struct Turn {
    position: usize,
    document: Option<usize>,
    tokens: i64,
    heading_tokens: i64,
}

impl Slicer for DocumentSlice {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        Ok(self.fill(&self.turns(candidates), budget.target_tokens))
    }

    fn properties(&self) -> SlicerProperties {
        match self.packing {
            Packing::Greedy | Packing::ScoreWeighted => SlicerProperties::BEST_FIRST,
            Packing::Interleaved => SlicerProperties::UNORDERED,
        }
    }

    fn sweep_effort(&self, candidates: usize, targets: &RangeInclusive<i64>) -> u64 {
        // A look at a candidate is one step, once it is known which document it is of.
        let looks = (candidates as u64 + 16).saturating_mul(count_targets(targets));
        looks.saturating_add(self.effort(candidates, *targets.end()))
    }

    fn sweep(
        &self,
        candidates: &[Candidate<'_>],
        targets: RangeInclusive<i64>,
        positions: &[usize],
    ) -> Result<Vec<TargetRanges>, Error> {
        let turns = self.turns(candidates);
        let mut taken = vec![TargetRanges::default(); positions.len()];
        for target in targets {
            let outcome = self.fill(&turns, target);
            for (ranges, position) in taken.iter_mut().zip(positions) {
                if outcome.verdicts()[*position] == Verdict::Taken {
                    ranges.push(target..=target);
                }
            }
        }
        Ok(taken)
    }
}
