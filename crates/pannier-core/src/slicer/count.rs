//! Minimum and maximum numbers of items for each kind.
//!
//! Both slicers work in three steps. They take the best candidates of each kind that has a requirement, at any cost.
//! Another slicer spends the remaining budget on the others. Candidates above a cap are then taken back. The two differ
//! in the slicer of the second step. A knapsack has no useful order, so its choice is sorted by score before caps apply.

use std::collections::{BTreeMap, BTreeSet};

use super::{Candidate, KnapsackSlice, Release, Slicer, SlicerProperties, Tally, Verdict};
use crate::{ContextKind, Error, Level, SliceBudget, order};

/// The minimum and maximum number of items of a kind.
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

    /// Returns the kind.
    pub fn kind(&self) -> &ContextKind {
        &self.kind
    }

    /// Returns the minimum number of items, if the pool has them.
    pub fn require_count(&self) -> usize {
        self.require_count
    }

    /// Returns the maximum number of items.
    pub fn cap_count(&self) -> usize {
        self.cap_count
    }
}

/// The reaction to fewer candidates of a kind than required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ScarcityBehavior {
    /// Take those that exist, and report the shortfall.
    #[default]
    Degrade,
    /// Fail with [`Error::Scarcity`].
    Throw,
}

/// A requirement that the pool could not meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CountRequirementShortfall {
    /// The kind.
    pub kind: ContextKind,
    /// The required number.
    pub required_count: usize,
    /// The number that was found.
    pub satisfied_count: usize,
}

/// Guarantees and limits the number of items of each kind, and lets another slicer do the rest.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_core::slice::{CountQuotaEntry, CountQuotaSlice, GreedySlice, ScarcityBehavior};
///
/// let item = |kind, hint| ContextItem::builder("text", 40).kind(kind).future_relevance_hint(hint);
/// let items = [
///     item(ContextKind::MESSAGE, 0.9).build()?,
///     item(ContextKind::MESSAGE, 0.8).build()?,
///     item(ContextKind::MEMORY, 0.1).build()?,
/// ];
/// // One memory, at any score, and at most one.
/// let memory = CountQuotaEntry::new(ContextKind::MEMORY, 1, 1)?;
/// let slicer = CountQuotaSlice::new([memory], GreedySlice, ScarcityBehavior::Degrade)?;
/// let pipeline = Pipeline::builder(ReflexiveScorer).slicer(slicer).deduplication(false).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(80, 80)?)?;
/// assert_eq!(selection.indices().collect::<Vec<_>>(), [0, 2]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct CountQuotaSlice {
    name: &'static str,
    entries: Vec<CountQuotaEntry>,
    inner: Box<dyn Slicer>,
    scarcity: ScarcityBehavior,
}

impl CountQuotaSlice {
    const NAME: &'static str = "CountQuotaSlice";

    /// Applies these counts around `inner`. Kinds without an entry are not limited.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a kind has two entries, or `inner` does not take the best
    /// candidates first, as a knapsack does not: a cap would then keep the candidate that came first.
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
        Self::named(Self::NAME, entries, inner, scarcity)
    }

    fn named(
        name: &'static str,
        entries: impl IntoIterator<Item = CountQuotaEntry>,
        inner: impl Slicer + 'static,
        scarcity: ScarcityBehavior,
    ) -> Result<Self, Error> {
        let entries: Vec<_> = entries.into_iter().collect();
        let mut kinds = BTreeSet::new();
        if let Some(twice) = entries.iter().find(|entry| !kinds.insert(&entry.kind)) {
            let problem = format!("kind '{}' has two entries; give it one", twice.kind);
            return Err(Error::InvalidSlicer { slicer: name, problem });
        }
        Ok(Self { name, entries, inner: Box::new(inner), scarcity })
    }

    /// Returns the entries, in the order they were given.
    pub fn entries(&self) -> &[CountQuotaEntry] {
        &self.entries
    }

    /// Reports a requirement that is not met, or fails for it.
    fn check_requirement(
        &self,
        entry: &CountQuotaEntry,
        satisfied: usize,
        tally: &mut Tally<'_, '_>,
    ) -> Result<(), Error> {
        let CountQuotaEntry { kind, require_count: required, .. } = entry.clone();
        match self.scarcity {
            _ if satisfied >= required => {}
            ScarcityBehavior::Throw => {
                return Err(Error::Scarcity { slicer: self.name, kind, satisfied, required });
            }
            ScarcityBehavior::Degrade => tally.report_shortfall(CountRequirementShortfall {
                kind,
                required_count: required,
                satisfied_count: satisfied,
            }),
        }
        Ok(())
    }
}

impl Slicer for CountQuotaSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let (candidates, budget) = (tally.candidates(), tally.budget());
        if candidates.is_empty() || budget.target_tokens <= 0 {
            return Ok(());
        }
        let entry_of: BTreeMap<&ContextKind, usize> =
            self.entries.iter().zip(0..).map(|(entry, number)| (&entry.kind, number)).collect();
        let entry_of = |candidate: &Candidate<'_>| entry_of.get(candidate.item.kind()).copied();
        let entries: Vec<Option<usize>> = candidates.iter().map(entry_of).collect();
        // For each entry, its open candidates and the number of those that are taken.
        let mut open: Vec<Vec<(u64, usize)>> = vec![Vec::new(); self.entries.len()];
        let mut counts = vec![0; self.entries.len()];
        for (position, candidate) in candidates.iter().enumerate() {
            match entries[position].filter(|_| candidate.tokens >= 0) {
                Some(entry) if tally.level(position).is_some() => counts[entry] += 1,
                Some(entry) => open[entry].push((order::descending_key(candidate.score), position)),
                None => {}
            }
        }
        for ((entry, count), mut best) in self.entries.iter().zip(&mut counts).zip(open) {
            let missing = entry.require_count.saturating_sub(*count);
            best.sort_unstable();
            for (_, position) in best.into_iter().take(missing) {
                tally.commit(position, Level::WHOLE);
                *count += 1;
            }
            self.check_requirement(entry, *count, tally)?;
        }

        let is_open = |position: &u32| tally.level(*position as usize).is_none();
        let rest: Vec<u32> = (0..candidates.len() as u32).filter(is_open).collect();
        let target_tokens = tally.remaining().max(0).min(budget.max_tokens);
        tally.within(&rest, SliceBudget { target_tokens, ..budget }, |inner| {
            self.inner.slice(inner)?;
            inner.take_back(|made| {
                let entry = entries[rest[made.position as usize] as usize]?;
                let (cap, count) = (self.entries[entry].cap_count, counts[entry]);
                counts[entry] += usize::from(count < cap);
                (count >= cap).then_some(Verdict::Capped { cap, count })
            });
            Ok(())
        })
    }

    fn properties(&self) -> SlicerProperties {
        let release = Release::LowestScore;
        SlicerProperties { guarantees_counts: true, release, ..self.inner.properties() }
    }
}

/// Guarantees and limits the number of items of each kind, and fills the rest with a knapsack.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_core::slice::{CountConstrainedKnapsackSlice, CountQuotaEntry, KnapsackSlice, ScarcityBehavior};
///
/// let item = |kind, tokens, hint| {
///     ContextItem::builder(format!("{tokens} tokens"), tokens).kind(kind).future_relevance_hint(hint)
/// };
/// let items = [
///     item(ContextKind::MEMORY, 20, 0.1).build()?,
///     item(ContextKind::DOCUMENT, 60, 0.7).build()?,
///     item(ContextKind::DOCUMENT, 41, 0.5).build()?,
///     item(ContextKind::DOCUMENT, 39, 0.5).build()?,
/// ];
/// let memory = CountQuotaEntry::new(ContextKind::MEMORY, 1, 1)?;
/// let (knapsack, degrade) = (KnapsackSlice::default(), ScarcityBehavior::Degrade);
/// let slicer = CountConstrainedKnapsackSlice::new([memory], knapsack, degrade)?;
/// let pipeline = Pipeline::builder(ReflexiveScorer).slicer(slicer).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// let mut selected: Vec<_> = selection.indices().collect();
/// selected.sort_unstable();
/// assert_eq!(selected, [0, 2, 3]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct CountConstrainedKnapsackSlice(CountQuotaSlice);

impl CountConstrainedKnapsackSlice {
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
        let name = "CountConstrainedKnapsackSlice";
        CountQuotaSlice::named(name, entries, ScoreOrdered(knapsack), scarcity).map(Self)
    }

    /// Returns the entries, in the order they were given.
    pub fn entries(&self) -> &[CountQuotaEntry] {
        self.0.entries()
    }
}

impl Slicer for CountConstrainedKnapsackSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        self.0.slice(tally)
    }

    fn properties(&self) -> SlicerProperties {
        self.0.properties()
    }
}

/// A knapsack whose choice is sorted by score, ties by position.
struct ScoreOrdered(KnapsackSlice);

impl Slicer for ScoreOrdered {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        self.0.slice(tally)?;
        let candidates = tally.candidates();
        tally.sort_moves(|position| order::descending_key(candidates[position].score));
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::SCORE_ORDERED
    }
}

opaque_debug!(CountQuotaSlice, CountConstrainedKnapsackSlice);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GreedySlice, Quota, QuotaSlice};

    #[test]
    fn counts_are_guaranteed_around_any_slicer() {
        let degrade = ScarcityBehavior::Degrade;
        let entries = [CountQuotaEntry::new(ContextKind::MEMORY, 1, 2).unwrap()];
        let greedy = CountQuotaSlice::new(entries.clone(), GreedySlice, degrade).unwrap();
        let knapsack = KnapsackSlice::exact();
        let knapsack =
            CountConstrainedKnapsackSlice::new(entries.clone(), knapsack, degrade).unwrap();
        assert_eq!((greedy.entries(), knapsack.entries()), (&entries[..], &entries[..]));
        for properties in [greedy.properties(), knapsack.properties()] {
            assert!(properties.guarantees_counts && properties.is_score_ordered);
            assert_eq!(properties.release, Release::LowestScore);
        }
        let refused = QuotaSlice::new([] as [Quota; 0], knapsack).unwrap_err().to_string();
        assert!(refused.contains("guarantees counts"), "{refused}");
    }
}
