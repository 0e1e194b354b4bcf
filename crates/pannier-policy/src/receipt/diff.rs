//! How two selections differ, from their receipts alone.
//!
//! Items are told apart by their contents, because contents are what a model sees: an item whose priority
//! changed is the same item here. Of equal contents, the first is compared with the first, the second with the
//! second; but where one selection has more of them, those are compared that are the same item in every field, so
//! that the one that came or went is named.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::{Digest, Receipt, ReceiptItem};

/// How the selection of one receipt differs from that of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReceiptDiff {
    /// Selected in the second only, in its order.
    pub included: Vec<DiffEntry>,
    /// Selected in the first only, in its order.
    pub excluded: Vec<DiffEntry>,
    /// Selected in both, and elsewhere among the others: the fewest items that have to move for the rest to
    /// stand in the same order. In the order of the second.
    pub moved: Vec<DiffEntry>,
    /// How many items at the beginning are the same.
    pub unchanged_prefix_items: usize,
    /// What they cost: what a cache of the prompt can keep.
    pub unchanged_prefix_tokens: i64,
    /// What the first selection costs.
    pub tokens_before: i64,
    /// What the second selection costs.
    pub tokens_after: i64,
    /// Whether both have the same policy.
    pub same_policy: bool,
    /// Whether both were made at the same reference time, or at none.
    pub same_time: bool,
    /// Whether both have the same budget.
    pub same_budget: bool,
    /// Whether both have the same pool.
    pub same_pool: bool,
}

/// An item in which two selections differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiffEntry {
    /// Its name: its id, or the beginning of its content's hash.
    pub name: String,
    /// What it costs.
    pub tokens: i64,
    /// Its place in the first selection, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position_before: Option<usize>,
    /// Its place in the second selection, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position_after: Option<usize>,
    /// Whether it is in the other pool, too: if not, it is new or gone, and nothing was decided about it.
    pub in_both_pools: bool,
}

impl Receipt {
    /// How the selection of `after` differs from this one.
    pub fn diff(&self, after: &Self) -> ReceiptDiff {
        let (before_items, after_items) = (self.selection(), after.selection());
        let before = keys(&before_items);
        let then = matching_keys(&after_items, &before_items);
        let place_before: BTreeMap<Key, usize> = before.iter().copied().zip(0..).collect();
        let place_after: BTreeMap<Key, usize> = then.iter().copied().zip(0..).collect();
        let (pool_before, pool_after) = (contents(&self.items), contents(&after.items));

        let common: Vec<(usize, usize)> = then
            .iter()
            .zip(0..)
            .filter_map(|(key, place)| Some((*place_before.get(key)?, place)))
            .collect();
        let stays = longest_increasing(&common);
        let entry = |item: &ReceiptItem, key: &Key, other_pool: &[Digest]| DiffEntry {
            name: item.name(),
            tokens: item.tokens,
            position_before: place_before.get(key).copied(),
            position_after: place_after.get(key).copied(),
            in_both_pools: other_pool.binary_search(&item.content).is_ok(),
        };

        let is_new = |key: &Key| !place_before.contains_key(key);
        let is_gone = |key: &Key| !place_after.contains_key(key);
        let included = after_items.iter().zip(&then).filter(|(_, key)| is_new(key));
        let excluded = before_items.iter().zip(&before).filter(|(_, key)| is_gone(key));
        let moved =
            common.iter().zip(&stays).filter(|(_, stays)| !**stays).map(|(places, _)| places);

        let is_same =
            |(before, after): &(&&ReceiptItem, &&ReceiptItem)| before.content == after.content;
        let prefix = before_items.iter().zip(&after_items).take_while(is_same).count();
        let prefix = if self.template == after.template { prefix } else { 0 };
        let tokens =
            |items: &[&ReceiptItem]| pannier_core::sum_tokens(items.iter().map(|item| item.tokens));
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
            same_policy: self.policy == after.policy,
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
        // Indices are checked where a receipt is read, and made by the engine where it is not.
        let sent = |index: &usize| {
            let item = self.items.get(*index)?;
            let is_short = self.shortened.binary_search(index).is_ok();
            item.short_form.as_deref().filter(|_| is_short).or(Some(item))
        };
        self.selected.iter().filter_map(sent).collect()
    }
}

/// A content, and how many of the same came before.
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

/// The keys of these items where they have a counterpart among the others. The rest get numbers that no other has.
fn matching_keys(items: &[&ReceiptItem], others: &[&ReceiptItem]) -> Vec<Key> {
    // The numbers of the others that are still free: by content, and by content and item.
    let mut free: BTreeMap<Digest, BTreeSet<usize>> = BTreeMap::new();
    let mut same: BTreeMap<(Digest, Digest), VecDeque<usize>> = BTreeMap::new();
    for (other, (content, number)) in others.iter().zip(keys(others)) {
        free.entry(content).or_default().insert(number);
        same.entry((content, other.item)).or_default().push_back(number);
    }
    // How many more there are here than there.
    let mut surplus: BTreeMap<Digest, i64> = BTreeMap::new();
    items.iter().for_each(|item| *surplus.entry(item.content).or_default() += 1);
    others.iter().for_each(|other| *surplus.entry(other.content).or_default() -= 1);
    let mut matched: Vec<Option<usize>> = Vec::with_capacity(items.len());
    for item in items {
        // As many here as there: nobody came or went, and their order is the text's.
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
    // Above all numbers that the others have.
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
    let forms = items.iter().flat_map(|item| [Some(item), item.short_form.as_deref()]);
    let mut contents: Vec<Digest> = forms.flatten().map(|item| item.content).collect();
    contents.sort_unstable();
    contents
}

/// Which of these pairs belong to a longest run of ascending first numbers.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<bool> {
    // For each length, the pair that ends such a run with the smallest number; and for each pair, the one
    // before it in its run.
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
