//! Absolute numbers of items for each kind.
//!
//! Both slicers work in three steps: take the best candidates of each kind that has a requirement,
//! whatever they cost; let another slicer spend what is left on the rest; and drop what exceeds a
//! cap. They differ only in the slicer of the second step, and in that the knapsack's answer, which
//! comes in no useful order, is put in order of score before the caps are applied.

use std::collections::{BTreeMap, BTreeSet};

use super::{Candidate, KnapsackSlice, SliceOutcome, Slicer, SlicerProperties, Verdict, decide};
use crate::{ContextKind, Error, SliceBudget, order};

/// How many items of a kind are selected at least and at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountQuotaEntry {
    kind: ContextKind,
    require_count: usize,
    cap_count: usize,
}

impl CountQuotaEntry {
    /// Requires `require_count` items of a kind, and allows `cap_count`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if more are required than allowed.
    pub fn new(kind: ContextKind, require_count: usize, cap_count: usize) -> Result<Self, Error> {
        if require_count > cap_count {
            let problem = format!(
                "kind '{kind}' requires {require_count} items, above its cap of {cap_count}"
            );
            return Err(Error::InvalidSlicer { slicer: "CountQuotaEntry", problem });
        }
        Ok(Self { kind, require_count, cap_count })
    }

    /// The kind.
    pub fn kind(&self) -> &ContextKind {
        &self.kind
    }

    /// How many items are taken at least, if there are so many.
    pub fn require_count(&self) -> usize {
        self.require_count
    }

    /// How many items are taken at most.
    pub fn cap_count(&self) -> usize {
        self.cap_count
    }
}

/// What happens when there are fewer candidates of a kind than required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ScarcityBehavior {
    /// Take what there is, and report the shortfall.
    #[default]
    Degrade,
    /// Fail with [`Error::Scarcity`].
    Throw,
}

/// A requirement that the pool could not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CountRequirementShortfall {
    /// The kind.
    pub kind: ContextKind,
    /// How many were required.
    pub required_count: usize,
    /// How many there were.
    pub satisfied_count: usize,
}

/// Guarantees and limits the number of items of each kind, and lets another slicer do the rest.
pub struct CountQuotaSlice {
    counted: Counted<Box<dyn Slicer>>,
}

impl CountQuotaSlice {
    const NAME: &'static str = "CountQuotaSlice";

    /// Applies these counts around `inner`. Kinds without an entry are not limited.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a kind has two entries, or `inner` does not take the best
    /// candidates first, as a knapsack does not: a cap would then keep whichever came first.
    pub fn new(
        entries: impl IntoIterator<Item = CountQuotaEntry>,
        inner: impl Slicer + 'static,
        scarcity: ScarcityBehavior,
    ) -> Result<Self, Error> {
        if !inner.properties().takes_best_first {
            let problem = "the inner slicer does not take the best candidates first, as a knapsack \
                           does not; use GreedySlice inside, or CountConstrainedKnapsackSlice instead";
            return Err(Error::InvalidSlicer { slicer: Self::NAME, problem: problem.to_owned() });
        }
        let inner: Box<dyn Slicer> = Box::new(inner);
        Ok(Self { counted: Counted::new(Self::NAME, entries, inner, scarcity)? })
    }

    /// The entries, in the order they were given.
    pub fn entries(&self) -> &[CountQuotaEntry] {
        &self.counted.entries
    }
}

impl Slicer for CountQuotaSlice {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        self.counted.slice(candidates, budget)
    }

    fn properties(&self) -> SlicerProperties {
        self.counted.properties()
    }

    fn effort(&self, candidates: usize, target: i64) -> u64 {
        self.counted.inner.effort(candidates, target).saturating_mul(2)
    }
}

/// Guarantees and limits the number of items of each kind, and fills the rest with a knapsack.
pub struct CountConstrainedKnapsackSlice {
    counted: Counted<ByScore<KnapsackSlice>>,
}

impl CountConstrainedKnapsackSlice {
    const NAME: &'static str = "CountConstrainedKnapsackSlice";

    /// Applies these counts around a knapsack. Kinds without an entry are not limited.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a kind has two entries.
    pub fn new(
        entries: impl IntoIterator<Item = CountQuotaEntry>,
        knapsack: KnapsackSlice,
        scarcity: ScarcityBehavior,
    ) -> Result<Self, Error> {
        Ok(Self { counted: Counted::new(Self::NAME, entries, ByScore(knapsack), scarcity)? })
    }

    /// The entries, in the order they were given.
    pub fn entries(&self) -> &[CountQuotaEntry] {
        &self.counted.entries
    }
}

impl Slicer for CountConstrainedKnapsackSlice {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        self.counted.slice(candidates, budget)
    }

    fn properties(&self) -> SlicerProperties {
        self.counted.properties()
    }

    fn effort(&self, candidates: usize, target: i64) -> u64 {
        self.counted.inner.effort(candidates, target).saturating_mul(2)
    }
}

/// A slicer whose selection comes in order of score, ties by position.
struct ByScore<S>(S);

impl<S: Slicer> Slicer for ByScore<S> {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        let mut outcome = self.0.slice(candidates, budget)?;
        outcome.reorder(|position| order::descending(candidates[position].score));
        Ok(outcome)
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties { takes_best_first: true, ..self.0.properties() }
    }

    fn effort(&self, candidates: usize, target: i64) -> u64 {
        self.0.effort(candidates, target)
    }
}

/// The three steps.
struct Counted<S> {
    name: &'static str,
    entries: Vec<CountQuotaEntry>,
    inner: S,
    scarcity: ScarcityBehavior,
}

impl<S: Slicer> Counted<S> {
    fn new(
        name: &'static str,
        entries: impl IntoIterator<Item = CountQuotaEntry>,
        inner: S,
        scarcity: ScarcityBehavior,
    ) -> Result<Self, Error> {
        let entries: Vec<_> = entries.into_iter().collect();
        let mut kinds = BTreeSet::new();
        if let Some(twice) = entries.iter().find(|entry| !kinds.insert(&entry.kind)) {
            let problem = format!("kind '{}' has two entries; give it one", twice.kind);
            return Err(Error::InvalidSlicer { slicer: name, problem });
        }
        Ok(Self { name, entries, inner, scarcity })
    }

    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        let mut outcome = SliceOutcome::new(candidates.len());
        if candidates.is_empty() || budget.target_tokens <= 0 {
            return Ok(outcome);
        }

        let entry_of: BTreeMap<&ContextKind, usize> =
            self.entries.iter().enumerate().map(|(i, entry)| (&entry.kind, i)).collect();
        // The candidates of each kind that has an entry.
        let mut of_entry: Vec<Vec<(u64, usize)>> = vec![Vec::new(); self.entries.len()];
        for (position, candidate) in candidates.iter().enumerate() {
            if let Some(&entry) = entry_of.get(candidate.item.kind())
                && candidate.tokens >= 0
            {
                of_entry[entry].push((order::descending(candidate.score), position));
            }
        }

        let mut counts = vec![0; self.entries.len()];
        let mut committed = 0_i64;
        for ((entry, count), mut best) in self.entries.iter().zip(&mut counts).zip(of_entry) {
            if entry.require_count > 0 {
                best.sort_unstable();
            }
            for (_, position) in best.into_iter().take(entry.require_count) {
                outcome.take(position);
                committed = committed.saturating_add(candidates[position].tokens);
                *count += 1;
            }
            self.check(entry, *count, &mut outcome)?;
        }

        let positions: Vec<u32> = (0..candidates.len() as u32)
            .filter(|position| outcome.verdicts()[*position as usize] != Verdict::Taken)
            .collect();
        let rest: Vec<_> =
            positions.iter().map(|position| candidates[*position as usize]).collect();
        let target_tokens = budget.target_tokens.saturating_sub(committed).max(0);
        let target_tokens = target_tokens.min(budget.max_tokens);
        let inner = decide(&self.inner, &rest, SliceBudget { target_tokens, ..budget })?;

        for &taken in inner.taken() {
            let kind = rest[taken as usize].item.kind();
            let entry = entry_of.get(kind).copied();
            let position = positions[taken as usize] as usize;
            if let Some(entry) = entry {
                let (cap, count) = (self.entries[entry].cap_count, counts[entry]);
                if count >= cap {
                    outcome.leave(position, Verdict::Capped { cap, count });
                    continue;
                }
                counts[entry] += 1;
            }
            outcome.take(position);
        }
        let (verdicts, _, shortfalls) = inner.into_parts();
        for (position, verdict) in positions.into_iter().zip(verdicts) {
            if verdict != Verdict::Taken {
                outcome.leave(position as usize, verdict);
            }
        }
        shortfalls.into_iter().for_each(|shortfall| outcome.fall_short(shortfall));
        Ok(outcome)
    }

    /// Reports a requirement that is not met, or fails for it.
    fn check(
        &self,
        entry: &CountQuotaEntry,
        satisfied: usize,
        outcome: &mut SliceOutcome,
    ) -> Result<(), Error> {
        let CountQuotaEntry { kind, require_count: required, .. } = entry.clone();
        if satisfied < required {
            match self.scarcity {
                ScarcityBehavior::Throw => {
                    return Err(Error::Scarcity { slicer: self.name, kind, satisfied, required });
                }
                ScarcityBehavior::Degrade => outcome.fall_short(CountRequirementShortfall {
                    kind,
                    required_count: required,
                    satisfied_count: satisfied,
                }),
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties { commits_counts: true, takes_tiers: false, ..self.inner.properties() }
    }
}

opaque_debug!(CountQuotaSlice, CountConstrainedKnapsackSlice);
