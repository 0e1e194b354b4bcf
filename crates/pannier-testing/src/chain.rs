//! The assertions of the Cupel specification's testing vocabulary.

use std::borrow::Borrow;

use pannier_core::report::{
    ExcludedItem, ExclusionReason, ExclusionVariant, IncludedItem, SelectionReport,
};
use pannier_core::{ContextBudget, ContextItem, ContextKind};

use crate::edges;

/// An extension of reports that starts a chain of assertions.
pub trait Should {
    /// The type of the report's items.
    type Item: Borrow<ContextItem>;

    /// Starts a chain of assertions about this report.
    fn should(&self) -> SelectionReportAssertionChain<'_, Self::Item>;
}

impl<I: Borrow<ContextItem>> Should for SelectionReport<I> {
    type Item = I;

    fn should(&self) -> SelectionReportAssertionChain<'_, I> {
        SelectionReportAssertionChain { report: self }
    }
}

/// A failed assertion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct SelectionReportAssertionError {
    /// The name of the assertion in the specification.
    pub assertion: &'static str,
    /// The name of the assertion, its arguments, the expected and the actual values.
    pub message: String,
}

/// A report under test; see [`Should::should`].
#[derive(Debug)]
pub struct SelectionReportAssertionChain<'r, I = ContextItem> {
    report: &'r SelectionReport<I>,
}

impl<I> Clone for SelectionReportAssertionChain<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for SelectionReportAssertionChain<'_, I> {}

/// Declares each assertion once and generates its panicking and its `try_` method.
macro_rules! assertions {
    ($(
        $(#[doc = $doc:literal])*
        $assertion:literal $name:ident $try_name:ident $lists:tt
        ($($argument:ident: $type:ty),*) $body:block
    )+) => {
        impl<'r, I: Borrow<ContextItem>> SelectionReportAssertionChain<'r, I> {
            $(
                $(#[doc = $doc])*
                ///
                /// # Panics
                ///
                /// If the assertion fails.
                #[track_caller]
                pub fn $name(self, $($argument: $type),*) -> Self {
                    match self.$try_name($($argument),*) {
                        Ok(chain) => chain,
                        Err(error) => panic!("{error}"),
                    }
                }

                #[doc = concat!("Returns an error where [`", stringify!($name), "`](Self::", stringify!($name), ") panics.")]
                ///
                /// # Errors
                ///
                /// If the assertion fails.
                pub fn $try_name(
                    self,
                    $($argument: $type),*
                ) -> Result<Self, SelectionReportAssertionError> {
                    let $lists = (&self.report.included, &self.report.excluded);
                    let outcome: Result<(), String> = $body;
                    let failed = |message| SelectionReportAssertionError {
                        assertion: $assertion,
                        message: format!("{}{message}", $assertion),
                    };
                    outcome.map(|()| self).map_err(failed)
                }
            )+
        }
    };
}

assertions! {
    /// Asserts that at least one included item has this kind.
    "IncludeItemWithKind" include_item_with_kind try_include_item_with_kind (included, _)
    (kind: impl Borrow<ContextKind>) {
        let kind = kind.borrow();
        expect(included.iter().any(|entry| kind_of(&entry.item) == kind), || {
            format!(
                "({kind}) failed: Included contained 0 items with Kind={kind}. Included had {} items \
                 with kinds: [{}].",
                included.len(),
                kinds(included).join(", ")
            )
        })
    }

    /// Asserts that at least one included item satisfies the predicate.
    "IncludeItemMatching" include_item_matching try_include_item_matching (included, _)
    (predicate: impl Fn(&IncludedItem<I>) -> bool) {
        expect(included.iter().any(predicate), || {
            let shown = included.iter().take(5).map(|entry| {
                format!("(kind={}, score={}, reason={})", kind_of(&entry.item), entry.score, entry.reason)
            });
            let shown: Vec<String> = shown.collect();
            let appendix = match shown.len() {
                0 => String::new(),
                count if count == included.len() => format!(" They are: {}.", shown.join(", ")),
                _ => format!(" The first are: {}.", shown.join(", ")),
            };
            let count = included.len();
            format!(
                " failed: no item in Included matched the predicate. Included had {count} items.{appendix}"
            )
        })
    }

    /// Asserts that exactly `n` included items have this kind.
    "IncludeExactlyNItemsWithKind" include_exactly_n_items_with_kind
    try_include_exactly_n_items_with_kind (included, _)
    (kind: impl Borrow<ContextKind>, n: usize) {
        let kind = kind.borrow();
        let actual = included.iter().filter(|entry| kind_of(&entry.item) == kind).count();
        expect(actual == n, || {
            format!(
                "({kind}, {n}) failed: expected {n} items with Kind={kind} in Included, but found {actual}. \
                 Included had {} items total.",
                included.len()
            )
        })
    }

    /// Asserts that at least one item is excluded for this reason. Ignores the numbers of the reason.
    "ExcludeItemWithReason" exclude_item_with_reason try_exclude_item_with_reason (_, excluded)
    (reason: impl Into<ExclusionVariant>) {
        let reason = reason.into();
        expect(excluded.iter().any(|entry| entry.reason.variant() == reason), || {
            format!(
                "({reason}) failed: no excluded item had reason {reason}. Excluded had {} items with \
                 reasons: [{}].",
                excluded.len(),
                reasons(excluded.iter()).join(", ")
            )
        })
    }

    /// Asserts that at least one item that satisfies the predicate is excluded for this reason.
    "ExcludeItemMatchingWithReason" exclude_item_matching_with_reason
    try_exclude_item_matching_with_reason (_, excluded)
    (predicate: impl Fn(&ContextItem) -> bool, reason: impl Into<ExclusionVariant>) {
        let reason = reason.into();
        let matching: Vec<_> = excluded.iter().filter(|entry| predicate(entry.item.borrow())).collect();
        expect(matching.iter().any(|entry| entry.reason.variant() == reason), || {
            format!(
                "(reason={reason}) failed: predicate matched {} excluded item(s) but none had reason \
                 {reason}. Matched items had reasons: [{}].",
                matching.len(),
                reasons(matching.iter().copied()).join(", ")
            )
        })
    }

    /// Asserts that an item that satisfies the predicate is excluded for `BudgetExceeded` with these numbers.
    "ExcludeItemWithBudgetDetails" exclude_item_with_budget_details
    try_exclude_item_with_budget_details (_, excluded)
    (predicate: impl Fn(&ContextItem) -> bool, expected_item_tokens: i64, expected_available_tokens: i64) {
        let details = |entry: &ExcludedItem<I>| match entry.reason {
            ExclusionReason::BudgetExceeded { item_tokens, available_tokens, .. } => {
                Some((item_tokens, available_tokens))
            }
            _ => None,
        };
        let expected = (expected_item_tokens, expected_available_tokens);
        let matching: Vec<_> = excluded.iter().filter(|entry| predicate(entry.item.borrow())).collect();
        let actual: Vec<(i64, i64)> = matching.iter().filter_map(|entry| details(entry)).collect();
        expect(actual.contains(&expected), || {
            let actual = match actual.first() {
                Some((item, available)) => {
                    format!("but found item_tokens={item}, available_tokens={available}.")
                }
                None => format!(
                    "but no matching item had reason BudgetExceeded. Predicate matched {} excluded item(s) \
                     with reasons: [{}].",
                    matching.len(),
                    reasons(matching.iter().copied()).join(", ")
                ),
            };
            let (item, available) = expected;
            format!(
                " failed: expected BudgetExceeded with item_tokens={item}, available_tokens={available}, {actual}"
            )
        })
    }

    /// Asserts that no excluded item has this kind.
    "HaveNoExclusionsForKind" have_no_exclusions_for_kind try_have_no_exclusions_for_kind (_, excluded)
    (kind: impl Borrow<ContextKind>) {
        let kind = kind.borrow();
        let matching: Vec<_> = excluded.iter().filter(|entry| kind_of(&entry.item) == kind).collect();
        match matching.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "({kind}) failed: found {} excluded item(s) with Kind={kind}. First: score={}, reason={}.",
                matching.len(),
                first.score,
                first.reason.name()
            )),
        }
    }

    /// Asserts that at least `n` items are excluded.
    "HaveAtLeastNExclusions" have_at_least_n_exclusions try_have_at_least_n_exclusions (_, excluded)
    (n: usize) {
        let actual = excluded.len();
        expect(actual >= n, || {
            format!("({n}) failed: expected at least {n} excluded items, but Excluded had {actual}.")
        })
    }

    /// Asserts that the scores of the excluded items never increase. NaN sorts last.
    "ExcludedItemsAreSortedByScoreDescending" excluded_items_are_sorted_by_score_descending
    try_excluded_items_are_sorted_by_score_descending (_, excluded)
    () {
        let rises = |pair: &[ExcludedItem<I>]| edges::compare(pair[0].score, pair[1].score).is_lt();
        match excluded.windows(2).position(rises) {
            None => Ok(()),
            Some(i) => Err(format!(
                " failed: item at index {} (score={}) is higher than item at index {i} (score={}). \
                 Expected non-increasing scores.",
                i + 1,
                excluded[i + 1].score,
                excluded[i].score
            )),
        }
    }

    /// Asserts that the included tokens divided by the window (`maxTokens`) are at least `threshold`, a fraction.
    /// The comparison is exact: choose a threshold that rounding cannot cross.
    "HaveBudgetUtilizationAbove" have_budget_utilization_above try_have_budget_utilization_above (included, _)
    (threshold: f64, budget: &ContextBudget) {
        let tokens: i128 = included.iter().map(|entry| i128::from(entry.item.borrow().tokens())).sum();
        let max_tokens = budget.max_tokens();
        let actual = if max_tokens == 0 { 0.0 } else { tokens as f64 / max_tokens as f64 };
        expect(actual >= threshold, || {
            format!(
                "({threshold}) failed: computed utilization was {actual:.6} (includedTokens={tokens}, \
                 budget.MaxTokens={max_tokens})."
            )
        })
    }

    /// Asserts that the included items have at least `n` distinct kinds.
    "HaveKindCoverageCount" have_kind_coverage_count try_have_kind_coverage_count (included, _)
    (n: usize) {
        let kinds = kinds(included);
        expect(kinds.len() >= n, || {
            format!(
                "({n}) failed: expected at least {n} distinct ContextKind values in Included, but found \
                 {}: [{}].",
                kinds.len(),
                kinds.join(", ")
            )
        })
    }

    /// Asserts that any of the items that satisfy the predicate is first or last.
    ///
    /// Use it with placers that define an order.
    "PlaceItemAtEdge" place_item_at_edge try_place_item_at_edge (included, _)
    (predicate: impl Fn(&IncludedItem<I>) -> bool) {
        let count = included.len();
        let matching: Vec<usize> = (0..count).filter(|i| predicate(&included[*i])).collect();
        let is_edge = |i: &usize| *i == 0 || *i + 1 == count;
        match matching.first() {
            _ if matching.iter().any(is_edge) => Ok(()),
            None => Err(" failed: no item in Included matched the predicate.".to_owned()),
            Some(first) => Err(format!(
                " failed: item matching predicate was at index {first} (not at edge). Edge positions: 0 and \
                 {}. Included had {count} items.",
                count - 1
            )),
        }
    }

    /// Asserts that the `n` items with the highest scores have the outermost positions: first, last, second, second
    /// to last and so on. Any of the items that tie for the last edge position may have it.
    ///
    /// Use it with placers that define an order.
    "PlaceTopNScoredAtEdges" place_top_n_scored_at_edges try_place_top_n_scored_at_edges (included, _)
    (n: usize) {
        let scores: Vec<f64> = included.iter().map(|entry| entry.score).collect();
        let expected = edges::positions(scores.len(), n);
        let top = edges::top(&scores, n, &expected);
        let placed = top.iter().filter(|(_, is_at_edge)| *is_at_edge).count();
        expect(placed == n, || {
            let items = top.iter().map(|(i, _)| {
                let entry = &included[*i];
                format!("(kind={}, score={}, idx={i})", kind_of(&entry.item), entry.score)
            });
            let items: Vec<String> = items.collect();
            let positions: Vec<String> = expected.iter().map(usize::to_string).collect();
            let mismatch = match scores.len() {
                count if count < n => format!(" Included had {count} items, fewer than {n}."),
                _ => String::new(),
            };
            format!(
                "({n}) failed: {} of the top-{n} scored items were not at expected edge positions. \
                 Top-{n} items (by score): [{}]. Expected edge positions: [{}].{mismatch}",
                n - placed,
                items.join(", "),
                positions.join(", ")
            )
        })
    }
}

fn expect(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

fn kind_of<I: Borrow<ContextItem>>(item: &I) -> &ContextKind {
    item.borrow().kind()
}

/// Returns the distinct kinds of these items, in order of first appearance.
fn kinds<I: Borrow<ContextItem>>(included: &[IncludedItem<I>]) -> Vec<String> {
    let mut kinds: Vec<&ContextKind> = Vec::new();
    for entry in included {
        if !kinds.contains(&kind_of(&entry.item)) {
            kinds.push(kind_of(&entry.item));
        }
    }
    kinds.into_iter().map(ToString::to_string).collect()
}

/// Returns the names of the distinct reasons of these items, in order of first appearance.
fn reasons<'e, I: 'e>(excluded: impl Iterator<Item = &'e ExcludedItem<I>>) -> Vec<&'e str> {
    let mut names = Vec::new();
    for entry in excluded {
        let name = entry.reason.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
