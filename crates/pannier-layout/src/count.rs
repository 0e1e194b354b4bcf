//! Token counts as the engine's integers.

use pannier_core::TokenCounter;
use pannier_core::layout::RenderCost;

pub(crate) fn count(counter: &dyn TokenCounter, text: &str) -> i64 {
    i64::try_from(counter.count(text)).unwrap_or(i64::MAX)
}

/// Counts a text; `None` if it has more tokens than `up_to`.
pub(crate) fn count_up_to(counter: &dyn TokenCounter, text: &str, up_to: i64) -> Option<i64> {
    if up_to == i64::MAX {
        return Some(count(counter, text));
    }
    let limit = usize::try_from(up_to).unwrap_or_default();
    counter.count_up_to(text, limit).map(|count| i64::try_from(count).unwrap_or(i64::MAX))
}

/// A cost above a limit.
pub(crate) fn above(limit: i64) -> RenderCost {
    RenderCost { items: limit.max(0).saturating_add(1), ..RenderCost::default() }
}
