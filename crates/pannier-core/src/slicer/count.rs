//! Absolute numbers of items for each kind.
//!
//! Both slicers work in three steps: take the best candidates of each kind that has a requirement,
//! whatever they cost; let another slicer spend what is left on the rest; and drop what exceeds a
//! cap. They differ only in the slicer of the second step, and in that the knapsack's answer, which
//! comes in no useful order, is put in order of score before the caps are applied.

use std::collections::{BTreeMap, BTreeSet};

use super::{KnapsackSlice, Release, Slicer, SlicerProperties, Tally, Verdict};
use crate::{ContextKind, Error, Level, SliceBudget, order};

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
    counted: CountQuotaSteps<Box<dyn Slicer>>,
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
        if !inner.properties().is_score_ordered {
            let problem = "the inner slicer does not take the best candidates first, as a knapsack \
                           does not; use GreedySlice inside, or CountConstrainedKnapsackSlice instead";
            return Err(Error::InvalidSlicer { slicer: Self::NAME, problem: problem.to_owned() });
        }
        let inner: Box<dyn Slicer> = Box::new(inner);
        Ok(Self { counted: CountQuotaSteps::new(Self::NAME, entries, inner, scarcity)? })
    }

    /// The entries, in the order they were given.
    pub fn entries(&self) -> &[CountQuotaEntry] {
        &self.counted.entries
    }
}

impl Slicer for CountQuotaSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        self.counted.slice(tally)
    }

    fn properties(&self) -> SlicerProperties {
        self.counted.properties()
    }
}

/// Guarantees and limits the number of items of each kind, and fills the rest with a knapsack.
pub struct CountConstrainedKnapsackSlice {
    counted: CountQuotaSteps<ScoreOrdered<KnapsackSlice>>,
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
        Ok(Self {
            counted: CountQuotaSteps::new(Self::NAME, entries, ScoreOrdered(knapsack), scarcity)?,
        })
    }

    /// The entries, in the order they were given.
    pub fn entries(&self) -> &[CountQuotaEntry] {
        &self.counted.entries
    }
}

impl Slicer for CountConstrainedKnapsackSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        self.counted.slice(tally)
    }

    fn properties(&self) -> SlicerProperties {
        self.counted.properties()
    }
}

/// A slicer whose selection comes in order of score, ties by position.
struct ScoreOrdered<S>(S);

impl<S: Slicer> Slicer for ScoreOrdered<S> {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        self.0.slice(tally)?;
        let candidates = tally.candidates();
        tally.sort_moves(|position| order::descending(candidates[position].score));
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties { is_score_ordered: true, ..self.0.properties() }
    }
}

/// The three steps.
struct CountQuotaSteps<S> {
    name: &'static str,
    entries: Vec<CountQuotaEntry>,
    inner: S,
    scarcity: ScarcityBehavior,
}

impl<S: Slicer> CountQuotaSteps<S> {
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

    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let (candidates, budget) = (tally.candidates(), tally.budget());
        if candidates.is_empty() || budget.target_tokens <= 0 {
            return Ok(());
        }

        let entry_of: BTreeMap<&ContextKind, usize> =
            self.entries.iter().enumerate().map(|(i, entry)| (&entry.kind, i)).collect();
        let entries: Vec<Option<usize>> = candidates
            .iter()
            .map(|candidate| entry_of.get(candidate.item.kind()).copied())
            .collect();
        // The candidates of each kind that has an entry, and how many of them are taken.
        let mut of_entry: Vec<Vec<(u64, usize)>> = vec![Vec::new(); self.entries.len()];
        let mut counts = vec![0; self.entries.len()];
        for (position, candidate) in candidates.iter().enumerate() {
            if let Some(entry) = entries[position]
                && candidate.tokens >= 0
            {
                match tally.level(position) {
                    Some(_) => counts[entry] += 1,
                    None => {
                        of_entry[entry].push((order::descending(candidate.score), position));
                    }
                }
            }
        }

        for ((entry, count), mut best) in self.entries.iter().zip(&mut counts).zip(of_entry) {
            let missing = entry.require_count.saturating_sub(*count);
            if missing > 0 {
                best.sort_unstable();
            }
            for (_, position) in best.into_iter().take(missing) {
                tally.commit(position, Level::WHOLE);
                *count += 1;
            }
            self.check_requirement(entry, *count, tally)?;
        }

        let is_open = |position: &u32| tally.level(*position as usize).is_none();
        let rest: Vec<u32> = (0..candidates.len() as u32).filter(is_open).collect();
        let target_tokens = tally.remaining().max(0).min(budget.max_tokens);
        let rest_budget = SliceBudget { target_tokens, ..budget };
        tally.within(&rest, rest_budget, |inner| {
            self.inner.slice(inner)?;
            inner.take_back(|made| {
                let entry = entries[rest[made.position as usize] as usize]?;
                let (cap, count) = (self.entries[entry].cap_count, counts[entry]);
                if count >= cap {
                    return Some(Verdict::Capped { cap, count });
                }
                counts[entry] += 1;
                None
            });
            Ok(())
        })
    }

    /// Reports a requirement that is not met, or fails for it.
    fn check_requirement(
        &self,
        entry: &CountQuotaEntry,
        satisfied: usize,
        tally: &mut Tally<'_, '_>,
    ) -> Result<(), Error> {
        let CountQuotaEntry { kind, require_count: required, .. } = entry.clone();
        if satisfied < required {
            match self.scarcity {
                ScarcityBehavior::Throw => {
                    return Err(Error::Scarcity { slicer: self.name, kind, satisfied, required });
                }
                ScarcityBehavior::Degrade => tally.report_shortfall(CountRequirementShortfall {
                    kind,
                    required_count: required,
                    satisfied_count: satisfied,
                }),
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        let release = Release::LowestScore;
        SlicerProperties { guarantees_counts: true, release, ..self.inner.properties() }
    }
}

opaque_debug!(CountQuotaSlice, CountConstrainedKnapsackSlice);
