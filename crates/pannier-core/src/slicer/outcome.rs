//! What a slicer has to say.

use std::sync::Arc;

use crate::{CountRequirementShortfall, ExclusionReason};

/// What became of one candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is selected.
    Taken,
    /// It is selected in its short form.
    Shortened,
    /// It did not fit what was left of its budget when the slicer looked at it.
    Left {
        /// What was left.
        available_tokens: i64,
    },
    /// It would fit what is left, and yet the slicer's choice does without it: another combination
    /// is worth more, its tokens are rounded up to a whole bucket, or it is worth nothing.
    Outcompeted {
        /// What is left.
        available_tokens: i64,
    },
    /// Enough others of its kind were selected.
    Capped {
        /// How many of the kind may be selected.
        cap: usize,
        /// How many were when this one's turn came.
        count: usize,
    },
    /// Another reason, given by a slicer of your own.
    Excluded(Arc<ExclusionReason>),
}

impl Verdict {
    /// Whether it is selected, in whatever form.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Taken | Self::Shortened)
    }
}

/// A slicer's decisions: a verdict for every candidate, the order in which they were taken, and
/// requirements that could not be met.
#[derive(Clone, Debug)]
pub struct SliceOutcome {
    verdicts: Vec<Verdict>,
    taken: Vec<u32>,
    shortfalls: Vec<CountRequirementShortfall>,
}

impl SliceOutcome {
    /// An outcome in which so many candidates are left, with nothing available to them.
    pub fn new(candidates: usize) -> Self {
        Self {
            verdicts: vec![Verdict::Left { available_tokens: 0 }; candidates],
            taken: Vec::with_capacity(candidates),
            shortfalls: Vec::new(),
        }
    }

    /// Takes a candidate, all of it. Taking it twice is the same as taking it once.
    ///
    /// # Panics
    ///
    /// If there is no candidate at this position.
    pub fn take(&mut self, position: usize) {
        if !self.verdicts[position].is_taken() {
            self.taken.push(position as u32);
        }
        self.verdicts[position] = Verdict::Taken;
    }

    /// Takes a candidate in its short form. Has no effect on one that is already taken.
    ///
    /// # Panics
    ///
    /// If there is no candidate at this position.
    pub fn shorten(&mut self, position: usize) {
        if !self.verdicts[position].is_taken() {
            self.taken.push(position as u32);
            self.verdicts[position] = Verdict::Shortened;
        }
    }

    /// Leaves a candidate out, for a reason. Has no effect on one that is already taken, or if the
    /// reason is none.
    ///
    /// # Panics
    ///
    /// If there is no candidate at this position.
    pub fn leave(&mut self, position: usize, verdict: Verdict) {
        if !self.verdicts[position].is_taken() && !verdict.is_taken() {
            self.verdicts[position] = verdict;
        }
    }

    /// Reports a requirement that could not be met.
    pub fn fall_short(&mut self, shortfall: CountRequirementShortfall) {
        self.shortfalls.push(shortfall);
    }

    /// The verdict on each candidate.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The positions of the candidates that were taken, in the slicer's own order.
    pub fn taken(&self) -> &[u32] {
        &self.taken
    }

    /// Requirements that could not be met.
    pub fn shortfalls(&self) -> &[CountRequirementShortfall] {
        &self.shortfalls
    }

    /// Makes the decisions of `inner`, whose candidates stand at these positions here, its own.
    pub(super) fn absorb(&mut self, inner: Self, positions: &[u32]) {
        self.taken.extend(inner.taken.iter().map(|taken| positions[*taken as usize]));
        for (verdict, position) in inner.verdicts.into_iter().zip(positions) {
            self.verdicts[*position as usize] = verdict;
        }
        self.shortfalls.extend(inner.shortfalls);
    }

    /// Puts the candidates that were taken into another order.
    pub(super) fn reorder(&mut self, key: impl Fn(usize) -> u64) {
        self.taken.sort_unstable_by_key(|position| (key(*position as usize), *position));
    }

    /// The verdicts, what was taken, and what fell short.
    pub(crate) fn into_parts(self) -> (Vec<Verdict>, Vec<u32>, Vec<CountRequirementShortfall>) {
        (self.verdicts, self.taken, self.shortfalls)
    }
}
