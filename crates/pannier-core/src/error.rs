//! Everything that can go wrong, with the numbers.

use std::sync::Arc;

use crate::ContextKind;

/// An error of the engine: something that cannot be built, or a selection that cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An item has no content.
    #[error("an item has no content; leave the item out, or give it a text")]
    EmptyContent,

    /// An item has no token count.
    #[error("the item has no tokens; count them, as in \"tokens\": 12")]
    NoTokens,

    /// A name is empty or white space.
    #[error("the {field} is blank; give it a name, or leave it out")]
    BlankName {
        /// The field the name was meant for.
        field: &'static str,
    },

    /// A text is not a point in time.
    #[error(
        "'{text}' is not a timestamp: {problem}; write a date, a time and an offset, \
         as in 2026-03-01T12:00:00Z"
    )]
    InvalidTimestamp {
        /// What was read.
        text: String,
        /// What is wrong with it.
        problem: String,
    },

    /// A number of tokens in a budget is below zero.
    #[error("the budget's {field} is {tokens}; it must be 0 or more")]
    NegativeTokens {
        /// The field of the budget.
        field: String,
        /// Its value.
        tokens: i64,
    },

    /// A part of a budget is larger than its window.
    #[error(
        "the budget's {field} is {tokens}; it must not exceed maxTokens, which is {max_tokens}"
    )]
    AboveWindow {
        /// The field of the budget.
        field: &'static str,
        /// Its value.
        tokens: i64,
        /// The window.
        max_tokens: i64,
    },

    /// A safety margin is not a percentage.
    #[error("the budget's estimationSafetyMarginPercent is {percent}; it must be from 0 to 100")]
    MarginOutOfRange {
        /// The value given.
        percent: f64,
    },

    /// A scorer was given a parameter it cannot work with.
    #[error("{scorer}: {problem}")]
    InvalidScorer {
        /// The scorer.
        scorer: &'static str,
        /// Which parameter is wrong, its value, and what is allowed.
        problem: String,
    },

    /// A decay scorer does not know what time it is.
    #[error(
        "a decay scorer does not know what time it is; set reference_time in the policy, or give the time \
         to whoever builds the pipeline"
    )]
    NoReferenceTime,

    /// A slicer was given a parameter it cannot work with.
    #[error("{slicer}: {problem}")]
    InvalidSlicer {
        /// The slicer.
        slicer: &'static str,
        /// Which parameter is wrong, its value, and what is allowed.
        problem: String,
    },

    /// A policy says something that is not possible.
    #[error("in the policy, {path}: {problem}")]
    InvalidPolicy {
        /// Where, as a path of keys: `scorers[1].boost`.
        path: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },

    /// A template says something that is not possible.
    #[error("this template cannot be used: {problem}")]
    InvalidTemplate {
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A receipt says something that is not possible.
    #[error("this receipt cannot be used: {problem}")]
    InvalidReceipt {
        /// What is wrong, and what to do.
        problem: String,
    },

    /// A name is already in use.
    #[error("there is already a {what} '{name}'; choose another name")]
    DuplicateName {
        /// What the name was meant for.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// There is nothing of this name.
    #[error(
        "there is no {what} '{name}'; there are {}",
        if known.is_empty() { "none here" } else { known }
    )]
    UnknownName {
        /// What was looked for.
        what: &'static str,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },

    /// A question about budgets that the slicer has no answer to.
    #[error("{question}")]
    NotMonotonic {
        /// Which question, and why.
        question: &'static str,
    },

    /// A question names an item that is not in the pool.
    #[error("targetItem must be an element of items")]
    NoSuchItem,

    /// A search for a budget ends below the item's own tokens.
    #[error("searchCeiling must be >= targetItem.Tokens")]
    CeilingTooLow,

    /// A sweep over budgets has more to say than can be held.
    #[error(
        "the sweep holds {ranges} ranges of budgets, above the limit of {}; sweep a smaller range",
        crate::MAX_SWEEP_RANGES
    )]
    SweepTooLarge {
        /// How many there are.
        ranges: usize,
    },

    /// A question about budgets takes too many steps.
    #[error(
        "trying every budget would take too long; ask about a smaller range, or let an explanation search by halves"
    )]
    SearchTooLong,

    /// A comparison needs something to compare.
    #[error("policy_sensitivity requires at least 2 variants")]
    TooFewVariants,

    /// Pinned items do not fit the window.
    #[error(
        "pinned items require {pinned_tokens} tokens, but only {available_tokens} are available \
         (maxTokens less outputReserve); unpin items, or raise the budget"
    )]
    PinnedOverBudget {
        /// What the pinned items need.
        pinned_tokens: i64,
        /// What there is.
        available_tokens: i64,
    },

    /// The selection is over its target, and the overflow strategy is to fail.
    #[error(
        "selected items require {selected_tokens} tokens, exceeding the target budget of \
         {target_tokens}; raise targetTokens, or choose another overflow strategy"
    )]
    OverTarget {
        /// Pinned and sliced items together.
        selected_tokens: i64,
        /// The target.
        target_tokens: i64,
    },

    /// The selection is over the window itself, which no strategy may accept.
    #[error(
        "selected items require {selected_tokens} tokens, but the window has room for {input_tokens} \
         (maxTokens less outputReserve); lower the required counts, or raise the budget"
    )]
    OverWindow {
        /// Pinned and sliced items together.
        selected_tokens: i64,
        /// The window less the output reserve.
        input_tokens: i64,
    },

    /// What cannot be left out is over the target by itself.
    #[error(
        "what must be sent has {fixed_tokens} tokens, above the target of {target_tokens}; unpin items, shorten \
         what stands around them, or raise the budget"
    )]
    RequiredTextOverBudget {
        /// Pinned items, and what is sent whatever is selected.
        fixed_tokens: i64,
        /// The target.
        target_tokens: i64,
    },

    /// There are fewer candidates of a kind than were required.
    #[error(
        "{slicer}: candidate pool for kind '{kind}' has {satisfied} items but RequireCount is \
         {required}."
    )]
    Scarcity {
        /// The slicer that required them.
        slicer: &'static str,
        /// The kind.
        kind: ContextKind,
        /// How many candidates there are.
        satisfied: usize,
        /// How many were required.
        required: usize,
    },

    /// An exact knapsack would need more memory than allowed.
    #[error(
        "the knapsack over {items} items and {capacity} buckets needs a table of {bytes} bytes, \
         above the limit of {limit}; use a larger bucket size, or raise the limit"
    )]
    TableTooLarge {
        /// Items that are still open.
        items: usize,
        /// Buckets of capacity.
        capacity: u64,
        /// What the table takes.
        bytes: u64,
        /// What it may take.
        limit: u64,
    },

    /// A pool holds more items than the engine can number.
    #[error("the pool holds {items} items; at most {} are possible", u32::MAX)]
    PoolTooLarge {
        /// How many there are.
        items: usize,
    },

    /// No item has this name.
    #[error("{}", no_item(name, *items))]
    UnknownItem {
        /// What was looked for.
        name: String,
        /// How many items there are.
        items: usize,
    },

    /// Two items have the same id.
    #[error(
        "items {index} and {other} both have the id '{name}'; name one by its index, as in '#{index}'"
    )]
    AmbiguousItem {
        /// The id.
        name: String,
        /// The index of the first.
        index: usize,
        /// The index of the second.
        other: usize,
    },

    /// Somebody stopped a search.
    #[error("the search was stopped before it had an answer; ask again, or allow it more time")]
    Stopped,

    /// A scorer, slicer, placer or layout written outside the engine failed, or broke its contract.
    #[error("{component} failed: {source}")]
    CustomComponentFailed {
        /// Which component.
        component: String,
        /// The error.
        source: ForeignError,
    },
}

/// An error from outside the engine. Two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct ForeignError(Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for ForeignError {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl std::fmt::Display for ForeignError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ForeignError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Error {
    /// An error of a component from outside the engine.
    ///
    /// ```
    /// use pannier_core::Error;
    ///
    /// let error = Error::custom("the scorer", "the model server does not answer");
    /// assert_eq!(error.to_string(), "the scorer failed: the model server does not answer");
    /// ```
    pub fn custom(
        component: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = ForeignError(Arc::from(source.into()));
        Self::CustomComponentFailed { component: component.into(), source }
    }
}

fn no_item(name: &str, items: usize) -> String {
    match items.checked_sub(1) {
        Some(last) => {
            format!("there is no item '{name}'; give an id, or an index from 0 to {last}")
        }
        None => format!("there is no item '{name}': there are no items at all"),
    }
}

/// The class of an [`Error`], for callers that handle classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An item, a budget, a component or a question is invalid.
    Invalid,
    /// No selection meets the budget.
    BudgetNotMet,
    /// The caller stopped the run.
    Stopped,
    /// A component written outside the engine failed or broke its contract.
    Custom,
}

impl ErrorKind {
    /// Returns a stable name for telemetry and protocols.
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_input",
            Self::BudgetNotMet => "budget_not_met",
            Self::Stopped => "stopped",
            Self::Custom => "internal",
        }
    }
}

impl Error {
    /// Returns the class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::PinnedOverBudget { .. }
            | Self::OverTarget { .. }
            | Self::OverWindow { .. }
            | Self::RequiredTextOverBudget { .. }
            | Self::Scarcity { .. } => ErrorKind::BudgetNotMet,
            Self::CustomComponentFailed { .. } => ErrorKind::Custom,
            Self::Stopped => ErrorKind::Stopped,
            _ => ErrorKind::Invalid,
        }
    }
}
