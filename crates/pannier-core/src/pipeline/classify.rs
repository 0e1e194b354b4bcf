//! Stage 1: splits pinned from scoreable items, and drops invalid ones.

use std::collections::BTreeMap;

use super::units::Units;
use crate::layout::PlannedCosts;
use crate::{ContextItem, sum_tokens};

/// The pool after classification.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classified {
    /// Always selected.
    pub(crate) pinned: Units,
    /// Candidates for the budget.
    pub(crate) scoreable: Units,
    /// Items with a negative token count, items that the format rejects, and members of a group with such an item.
    pub(crate) invalid: Vec<u32>,
    /// The sum of the pinned items' tokens.
    pub(crate) pinned_tokens: i64,
}

pub(super) fn classify(items: &[&ContextItem], costs: &PlannedCosts) -> Classified {
    let mut classified = classify_items(items, costs);
    let pinned = classified.pinned.in_pool_order();
    let tokens = sum_tokens(pinned.iter().map(|index| items[*index as usize].tokens()));
    classified.pinned_tokens = tokens;
    classified
}

fn classify_items(items: &[&ContextItem], costs: &PlannedCosts) -> Classified {
    let mut classified = Classified::default();
    classified.scoreable.reserve(items.len());
    for (item, index) in items.iter().zip(0..) {
        if item.group().is_some() {
            return classify_groups(items, costs);
        }
        // Checked before the pin, because a pin does not make a count valid.
        if item.tokens() < 0 || costs.rejection_rule(index).is_some() {
            classified.invalid.push(index);
        } else if item.is_pinned() {
            classified.pinned.push_item(index, item);
        } else {
            classified.scoreable.push_item(index, item);
        }
    }
    classified
}

/// Classifies a pool with groups. One pinned member pins its group, and one invalid member makes it invalid.
fn classify_groups(items: &[&ContextItem], costs: &PlannedCosts) -> Classified {
    let mut numbers = BTreeMap::new();
    // An item without a group is a unit of its own.
    let mut next = 0_u32;
    let mut fresh = || {
        next += 1;
        next - 1
    };
    let unit_of: Vec<u32> = items
        .iter()
        .map(|item| match item.group() {
            Some(group) => *numbers.entry(group).or_insert_with(&mut fresh),
            None => fresh(),
        })
        .collect();
    let mut by_unit: Vec<u32> = (0..items.len() as u32).collect();
    by_unit.sort_by_key(|index| unit_of[*index as usize]);

    let mut classified = Classified::default();
    for members in by_unit.chunk_by(|a, b| unit_of[*a as usize] == unit_of[*b as usize]) {
        let any = |test: fn(&ContextItem) -> bool| members.iter().any(|i| test(items[*i as usize]));
        let is_rejected = members.iter().any(|index| costs.rejection_rule(*index).is_some());
        if any(|item| item.tokens() < 0) || is_rejected {
            classified.invalid.extend(members);
            continue;
        }
        let units = if any(ContextItem::is_pinned) {
            &mut classified.pinned
        } else {
            &mut classified.scoreable
        };
        if items[members[0] as usize].group().is_some() {
            units.push_group(members, items);
        } else {
            units.push_item(members[0], items[members[0] as usize]);
        }
    }
    classified.invalid.sort_unstable();
    classified
}
