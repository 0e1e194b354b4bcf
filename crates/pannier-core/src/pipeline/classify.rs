//! Stage 1: splits pinned from scoreable items, and drops invalid ones.

use super::units::{Units, classify_groups};
use crate::{ContextBudget, ContextItem, Error, sum_tokens};

/// The pool by what happens next.
#[derive(Debug, Default)]
pub(crate) struct Classified {
    /// Always included.
    pub(crate) pinned: Units,
    /// What competes for the budget.
    pub(crate) scoreable: Units,
    /// Items with a negative token count, and members of a group with such an item.
    pub(crate) invalid: Vec<u32>,
    /// What the pinned items cost together.
    pub(crate) pinned_tokens: i64,
}

pub(super) fn classify(items: &[ContextItem], budget: &ContextBudget) -> Result<Classified, Error> {
    let mut classified = classify_items(items);
    let pinned = classified.pinned.in_pool_order();
    let pinned_tokens = sum_tokens(pinned.iter().map(|index| items[*index as usize].tokens()));
    let available_tokens = budget.input_tokens();
    if pinned_tokens > available_tokens {
        return Err(Error::PinnedOverBudget { pinned_tokens, available_tokens });
    }
    classified.pinned_tokens = pinned_tokens;
    Ok(classified)
}

fn classify_items(items: &[ContextItem]) -> Classified {
    let mut classified = Classified::default();
    classified.scoreable.reserve(items.len());
    for (item, index) in items.iter().zip(0..) {
        if item.group().is_some() {
            return classify_groups(items);
        }
        // Before the pin: a pin does not make a count valid.
        if item.tokens() < 0 {
            classified.invalid.push(index);
        } else if item.is_pinned() {
            classified.pinned.push_item(index);
        } else {
            classified.scoreable.push_item(index);
        }
    }
    classified
}
