//! Compares two selections by their receipts alone.
//!
//! Items are identified by their contents, because a model sees nothing else: an item with a new priority is the same
//! item. Equal contents are matched in order. If one selection has more of them, items that are equal in every field are
//! matched first, so that the added or removed item is named.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::{Digest, Receipt, ReceiptItem};

/// The difference between the selections of two receipts.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem};
/// use pannier_policy::{Policy, Receipt, RunConfig, ScorerPolicy};
///
/// let items = [ContextItem::new("one", 10)?, ContextItem::new("two", 10)?];
/// let policy = Policy::new([(ScorerPolicy::Recency, 1.0)]);
/// let receipt = |tokens| -> Result<Receipt, pannier_core::Error> {
///     let selection = policy.pipeline()?.run(&items, &ContextBudget::new(tokens, tokens)?)?;
///     Ok(Receipt::new(&selection, RunConfig::new(policy.clone())))
/// };
/// let diff = receipt(10)?.diff(&receipt(20)?);
/// assert_eq!((diff.included.len(), diff.excluded.len()), (1, 0));
/// assert_eq!((diff.tokens_before, diff.tokens_after), (10, 20));
/// assert!(!diff.same_budget);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReceiptDiff {
    /// Items that only the second selects, in its order.
    pub included: Vec<DiffEntry>,
    /// Items that only the first selects, in its order.
    pub excluded: Vec<DiffEntry>,
    /// Items that both select in another order: the smallest set whose removal leaves both orders equal. In the order of
    /// the second.
    pub moved: Vec<DiffEntry>,
    /// The number of items in the common prefix.
    pub unchanged_prefix_items: usize,
    /// The tokens of the common prefix, which a prompt cache can reuse.
    pub unchanged_prefix_tokens: i64,
    /// The tokens of the first selection.
    pub tokens_before: i64,
    /// The tokens of the second selection.
    pub tokens_after: i64,
    /// Whether both have the same policy.
    pub same_policy: bool,
    /// Whether both have the same reference time, or none.
    pub same_time: bool,
    /// Whether both have the same budget.
    pub same_budget: bool,
    /// Whether both have the same pool.
    pub same_pool: bool,
}

/// An item in which two selections differ; see [`ReceiptDiff`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiffEntry {
    /// Its id, or the first 12 digits of its content's hash.
    pub name: String,
    /// Its tokens.
    pub tokens: i64,
    /// Its position in the first selection, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position_before: Option<usize>,
    /// Its position in the second selection, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position_after: Option<usize>,
    /// Whether both pools contain it. If not, it was added or removed, and not selected or dropped.
    pub in_both_pools: bool,
}

impl Receipt {
    /// Compares this selection with that of `after`.
    pub fn diff(&self, after: &Self) -> ReceiptDiff {
        let (before_items, after_items) = (self.selection(), after.selection());
        let before = keys(&before_items);
        let then = matching_keys(&after_items, &before_items);
        let position_before_of: BTreeMap<Key, usize> = before.iter().copied().zip(0..).collect();
        let position_after_of: BTreeMap<Key, usize> = then.iter().copied().zip(0..).collect();
        let (pool_before, pool_after) = (contents(&self.items), contents(&after.items));

        let common: Vec<(usize, usize)> = then
            .iter()
            .zip(0..)
            .filter_map(|(key, place)| Some((*position_before_of.get(key)?, place)))
            .collect();
        let is_fixed = longest_increasing(&common);
        let entry = |item: &ReceiptItem, key: &Key, other_pool: &[Digest]| DiffEntry {
            name: item.name(),
            tokens: item.tokens,
            position_before: position_before_of.get(key).copied(),
            position_after: position_after_of.get(key).copied(),
            in_both_pools: other_pool.binary_search(&item.content).is_ok(),
        };

        let is_new = |key: &Key| !position_before_of.contains_key(key);
        let is_gone = |key: &Key| !position_after_of.contains_key(key);
        let included = after_items.iter().zip(&then).filter(|(_, key)| is_new(key));
        let excluded = before_items.iter().zip(&before).filter(|(_, key)| is_gone(key));
        let moved = common
            .iter()
            .zip(&is_fixed)
            .filter(|(_, fixed)| !**fixed)
            .map(|(positions, _)| positions);

        let is_same =
            |(before, after): &(&&ReceiptItem, &&ReceiptItem)| before.content == after.content;
        let prefix = before_items.iter().zip(&after_items).take_while(is_same).count();
        let prefix = if self.template == after.template { prefix } else { 0 };
        let tokens = |items: &[&ReceiptItem]| {
            pannier_core::item::sum_tokens(items.iter().map(|item| item.tokens))
        };
        ReceiptDiff {
            included: included.map(|(item, key)| entry(item, key, &pool_before)).collect(),
            excluded: excluded.map(|(item, key)| entry(item, key, &pool_after)).collect(),
            moved: moved
                .map(|(_, place)| entry(after_items[*place], &then[*place], &pool_before))
                .collect(),
            unchanged_prefix_items: prefix,
            unchanged_prefix_tokens: tokens(&after_items[..prefix]),
            tokens_before: tokens(&before_items),
            tokens_after: tokens(&after_items),
            same_policy: self.policy() == after.policy(),
            same_time: self.reference_time == after.reference_time,
            same_budget: self.budget == after.budget,
            same_pool: self
                .items
                .iter()
                .map(|item| item.item)
                .eq(after.items.iter().map(|item| item.item)),
        }
    }

    fn selection(&self) -> Vec<&ReceiptItem> {
        // A receipt that is read has valid indices, and one that is recorded has the engine's.
        let sent = |index: &usize| self.items.get(*index)?.at(self.level(*index));
        self.selected.iter().filter_map(sent).collect()
    }
}

/// A content, and the number of equal ones before it.
type Key = (Digest, usize);

fn keys(items: &[&ReceiptItem]) -> Vec<Key> {
    let mut seen: BTreeMap<Digest, usize> = BTreeMap::new();
    let number = |item: &&ReceiptItem| {
        let count = seen.entry(item.content).or_default();
        *count += 1;
        (item.content, *count - 1)
    };
    items.iter().map(number).collect()
}

/// Returns keys that match those of the others. Items without a counterpart get unused numbers.
fn matching_keys(items: &[&ReceiptItem], others: &[&ReceiptItem]) -> Vec<Key> {
    // Unmatched numbers of the others: by content, and by content and item.
    let mut free: BTreeMap<Digest, BTreeSet<usize>> = BTreeMap::new();
    let mut same: BTreeMap<(Digest, Digest), VecDeque<usize>> = BTreeMap::new();
    for (other, (content, number)) in others.iter().zip(keys(others)) {
        free.entry(content).or_default().insert(number);
        same.entry((content, other.item)).or_default().push_back(number);
    }
    // The number of equal contents here minus those there.
    let mut surplus: BTreeMap<Digest, i64> = BTreeMap::new();
    items.iter().for_each(|item| *surplus.entry(item.content).or_default() += 1);
    others.iter().for_each(|other| *surplus.entry(other.content).or_default() -= 1);
    let mut matched: Vec<Option<usize>> = Vec::with_capacity(items.len());
    for item in items {
        // Nothing was added or removed, so the order of the text decides.
        if surplus.get(&item.content) == Some(&0) {
            matched.push(None);
            continue;
        }
        let number = same.get_mut(&(item.content, item.item)).and_then(VecDeque::pop_front);
        if let (Some(number), Some(free)) = (number, free.get_mut(&item.content)) {
            free.remove(&number);
        }
        matched.push(number);
    }
    // Above all numbers of the others.
    let mut next = others.len();
    let number = |(item, matched): (&&ReceiptItem, Option<usize>)| {
        let number = matched.or_else(|| free.get_mut(&item.content).and_then(BTreeSet::pop_first));
        let number = number.unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        (item.content, number)
    };
    items.iter().zip(matched).map(number).collect()
}

fn contents(items: &[ReceiptItem]) -> Vec<Digest> {
    let forms = items.iter().flat_map(|item| std::iter::once(item).chain(item.forms()));
    let mut contents: Vec<Digest> = forms.map(|item| item.content).collect();
    contents.sort_unstable();
    contents
}

/// Marks the pairs of a longest increasing subsequence of the first numbers; patience sorting, O(n log n).
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<bool> {
    // For each length, the pair with the smallest number that ends such a subsequence; for each pair, its predecessor.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous = vec![None; pairs.len()];
    for (i, (number, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *number);
        previous[i] = length.checked_sub(1).map(|length| ends[length]);
        if length == ends.len() { ends.push(i) } else { ends[length] = i }
    }
    let mut belongs = vec![false; pairs.len()];
    let mut next = ends.last().copied();
    while let Some(i) = next {
        belongs[i] = true;
        next = previous[i];
    }
    belongs
}
