//! Shares of the budget for each kind.

use std::collections::{BTreeMap, BTreeSet};

use super::{Candidate, Release, Slicer, SlicerProperties, Tally, percentage};
use crate::{ContextKind, Error, SliceBudget, sum_tokens};

const NAME: &str = "QuotaSlice";

/// The minimum and maximum share of the budget for a kind, in percent.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// The kind.
    pub kind: ContextKind,
    /// The minimum share, from 0 to 100. It stays unused if the kind has too few candidates.
    pub require_percent: f64,
    /// The maximum share, from 0 to 100.
    pub cap_percent: f64,
}

/// Splits the budget among kinds and lets another slicer fill each share.
///
/// Every kind gets its required share. The rest is divided among the kinds in proportion to the tokens of their
/// candidates, up to each cap. A kind without a quota requires nothing and has no cap.
///
/// Shares are fixed before anything is selected, and no other kind gets the unused part of a share. So a kind with few
/// tokens next to one with very many gets a small share, a requirement without candidates stays unused, and so does
/// the share above a cap. A group belongs to the kind of its best member.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};
/// use pannier_core::score::RecencyScorer;
/// use pannier_core::slice::{GreedySlice, Quota, QuotaSlice};
///
/// let document = |content: &str| ContextItem::builder(content, 40).kind(ContextKind::DOCUMENT).build();
/// let items = [document("one")?, document("two")?, ContextItem::new("Hello", 20)?];
/// let kind = ContextKind::DOCUMENT;
/// let half = Quota { kind, require_percent: 0.0, cap_percent: 50.0 };
/// let slicer = QuotaSlice::new([half], GreedySlice)?;
/// let pipeline = Pipeline::builder(RecencyScorer).slicer(slicer).build();
/// // The documents may have 50 tokens.
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(selection.indices().collect::<Vec<_>>(), [0, 2]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct QuotaSlice {
    quotas: Vec<Quota>,
    inner: Box<dyn Slicer>,
}

impl QuotaSlice {
    /// Splits by these quotas, and fills each share with `inner`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a percentage is not between 0 and 100, a kind requires more than
    /// its cap or has two quotas, all requirements together exceed 100 %, or `inner` guarantees counts:
    /// it would see one kind at a time, and miss all others.
    pub fn new(
        quotas: impl IntoIterator<Item = Quota>,
        inner: impl Slicer + 'static,
    ) -> Result<Self, Error> {
        let quotas: Vec<Quota> = quotas.into_iter().collect();
        let invalid = |problem| Err(Error::InvalidSlicer { slicer: NAME, problem });
        if inner.properties().guarantees_counts {
            return invalid(
                "the inner slicer guarantees counts, and would see only one kind at a time; put the \
                 quota inside it instead"
                    .to_owned(),
            );
        }
        let (mut total, mut kinds) = (0.0, BTreeSet::new());
        for Quota { kind, require_percent, cap_percent } in &quotas {
            for (name, percent) in [("require", require_percent), ("cap", cap_percent)] {
                if !(0.0..=100.0).contains(percent) {
                    return invalid(format!(
                        "the {name} of kind '{kind}' is {percent}; it must be from 0 to 100 percent"
                    ));
                }
            }
            if require_percent > cap_percent {
                return invalid(format!(
                    "kind '{kind}' requires {require_percent} percent, above its cap of {cap_percent}"
                ));
            }
            if !kinds.insert(kind) {
                return invalid(format!("kind '{kind}' has two quotas; give it one"));
            }
            total += require_percent;
        }
        // Fractions of 100 may add up to slightly more.
        if total > 100.0 + 1e-9 {
            return invalid(format!("all kinds together require {total} percent, above 100"));
        }
        Ok(Self { quotas, inner: Box::new(inner) })
    }

    /// Returns the quotas, in the order they were given.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Splits the target among the kinds that have candidates: for each, its cap and its share.
    fn allocate(&self, kinds: &[Partition<'_>], budget: SliceBudget) -> Vec<SliceBudget> {
        let target = budget.target_tokens;
        let share = |percent: f64| percentage(percent, target);
        let limits: BTreeMap<&ContextKind, (i64, i64)> = self
            .quotas
            .iter()
            .map(|quota| (&quota.kind, (share(quota.require_percent), share(quota.cap_percent))))
            .collect();
        let required = sum_tokens(limits.values().map(|(require, _)| *require));
        let unassigned = target.saturating_sub(required).max(0);
        let limit = |partition: &Partition<'_>| {
            let (require, cap) = limits.get(partition.kind).copied().unwrap_or((0, target));
            // A kind that can use more than it requires gets a part of the rest.
            (require, cap, if cap > require { partition.mass } else { 0 })
        };
        let total_mass = kinds.iter().map(|partition| limit(partition).2).sum::<i128>().max(1);
        let budgets = kinds.iter().map(|partition| {
            let (require, cap, mass) = limit(partition);
            let target_tokens =
                require.saturating_add(proportion(unassigned, mass, total_mass)).min(cap);
            SliceBudget { max_tokens: cap, target_tokens, ..budget }
        });
        budgets.collect()
    }
}

impl QuotaSlice {
    /// How much larger a target must be before it can change a decision.
    ///
    /// Every share is a sum of rounded parts of the target: each quota's requirement is rounded, and so are the share
    /// itself and its cap. So with `n` tokens more, a share grows by at most `n` and one token for each rounding, and
    /// falls by at most one for each. An inner slicer that takes candidates while they fit decides the same as long as
    /// its share holds what it took and stays below its own certificate.
    fn unchanged_tokens(&self, target: i64, spare: i64, margin: i64) -> i64 {
        let roundings = self.quotas.len() as i64 + 2;
        let inner = self.inner.properties();
        let takes_what_fits = inner.is_score_ordered && !inner.splits_budget_by_kind;
        // Whether a kind takes part in the division must not change: its cap stays above its requirement.
        let is_steady = |quota: &Quota| {
            let share = |percent| percentage(percent, target);
            quota.cap_percent == quota.require_percent
                || share(quota.cap_percent) - share(quota.require_percent) > 2
        };
        // Above 2^40 tokens, the error of a float may be a token.
        let is_certain = takes_what_fits && spare >= roundings && target < 1 << 40;
        match is_certain && self.quotas.iter().all(is_steady) {
            true => margin.saturating_sub(roundings).max(1),
            false => 1,
        }
    }
}

/// `tokens * part / whole`, rounded down, for a part that is not larger than the whole.
fn proportion(tokens: i64, part: i128, whole: i128) -> i64 {
    // Sums of huge counts lose their lowest bits here, so that the product does not overflow.
    let excess = (i128::BITS - whole.leading_zeros()).saturating_sub(63);
    (i128::from(tokens) * (part >> excess) / (whole >> excess)) as i64
}

/// The candidates of one kind.
struct Partition<'k> {
    kind: &'k ContextKind,
    positions: Vec<u32>,
    mass: i128,
}

/// Candidates by kind, kinds in order of first appearance.
fn partition<'a>(candidates: &[Candidate<'a>]) -> Vec<Partition<'a>> {
    let mut partitions: Vec<Partition<'a>> = Vec::new();
    let mut by_kind = BTreeMap::new();
    for (position, candidate) in candidates.iter().enumerate() {
        let kind = candidate.item.kind();
        let index = *by_kind.entry(kind).or_insert(partitions.len());
        if index == partitions.len() {
            partitions.push(Partition { kind, positions: Vec::new(), mass: 0 });
        }
        let partition = &mut partitions[index];
        partition.positions.push(position as u32);
        partition.mass += i128::from(candidate.tokens);
    }
    partitions
}

impl Slicer for QuotaSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let budget = tally.budget();
        if budget.target_tokens <= 0 {
            return Ok(());
        }
        let partitions = partition(tally.candidates());
        let budgets = self.allocate(&partitions, budget);
        // What the shares have left, and what they are short of another decision.
        let (mut spare, mut margin) = (i64::MAX, i64::MAX);
        for (partition, budget) in partitions.iter().zip(budgets) {
            if budget.target_tokens > 0 {
                tally.within(&partition.positions, budget, |inner| {
                    self.inner.slice(inner)?;
                    spare = spare.min(inner.remaining());
                    margin = margin.min(inner.holds_below().saturating_sub(budget.target_tokens));
                    Ok(())
                })?;
            } else {
                margin = 0;
            }
        }
        let target = budget.target_tokens;
        tally.changes_at(target.saturating_add(self.unchanged_tokens(target, spare, margin)));
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        let release = Release::LowestScore;
        SlicerProperties { splits_budget_by_kind: true, release, ..self.inner.properties() }
    }
}

opaque_debug!(QuotaSlice);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, GreedySlice, KnapsackSlice, Offers, ScoredItem};

    fn slicer(require_percent: f64, cap_percent: f64, inner: impl Slicer + 'static) -> QuotaSlice {
        let quota = Quota { kind: ContextKind::MESSAGE, require_percent, cap_percent };
        QuotaSlice::new([quota], inner).unwrap()
    }

    #[test]
    fn a_certificate_leaves_a_token_for_each_rounding() {
        let slicer = slicer(0.0, 100.0, GreedySlice);
        // Of the only requirement, of the share, and of its cap.
        assert_eq!(slicer.unchanged_tokens(1_000, 3, 10), 7);
        assert_eq!(slicer.unchanged_tokens(1_000, 3, 3), 1);
        assert_eq!(slicer.unchanged_tokens(1_000, 2, 10), 1);
        assert_eq!(slicer.unchanged_tokens((1 << 40) - 1, 3, 10), 7);
        assert_eq!(slicer.unchanged_tokens(1 << 40, 3, 10), 1);
    }

    #[test]
    fn a_certificate_needs_a_cap_well_above_the_requirement() {
        let unchanged = |cap, inner| slicer(1.0, cap, inner).unchanged_tokens(100, 3, 10);
        assert_eq!([1.0, 3.0, 4.0].map(|cap| unchanged(cap, GreedySlice)), [7, 1, 7]);
        assert_eq!(slicer(1.0, 4.0, KnapsackSlice::exact()).unchanged_tokens(100, 3, 10), 1);
    }

    #[test]
    fn a_proportion_of_huge_sums_does_not_overflow() {
        assert_eq!(proportion(1_000, 1, 3), 333);
        assert_eq!(proportion(1_000, 1 << 100, 3 << 100), 333);
        assert_eq!(proportion(i64::MAX, i128::MAX, i128::MAX), i64::MAX);
    }

    /// Records the budget of each kind.
    struct Budgets(std::sync::Mutex<Vec<SliceBudget>>);

    impl Slicer for &'static Budgets {
        fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
            self.0.lock().unwrap().push(tally.budget());
            Ok(())
        }
    }

    #[test]
    fn an_inner_slicer_gets_the_share_and_the_cap_of_a_kind() {
        static BUDGETS: Budgets = Budgets(std::sync::Mutex::new(Vec::new()));
        let kind = ContextKind::MEMORY;
        let quotas = [Quota { kind: kind.clone(), require_percent: 10.0, cap_percent: 50.0 }];
        let slicer = QuotaSlice::new(quotas.clone(), &BUDGETS).unwrap();
        assert_eq!(slicer.quotas(), quotas);
        let items = [kind, ContextKind::MESSAGE]
            .map(|kind| ContextItem::builder("text", 30).kind(kind).build().unwrap());
        let offers = Offers::new(items.iter().map(|item| ScoredItem { item, score: 1.0 }.into()));
        slicer.slice(&mut Tally::new(&offers, SliceBudget::new(100))).unwrap();
        let budgets = BUDGETS.0.lock().unwrap();
        let budgets: Vec<_> = budgets.iter().map(|b| (b.target_tokens, b.max_tokens)).collect();
        assert_eq!(budgets, [(50, 50), (45, 100)]);
    }
}
