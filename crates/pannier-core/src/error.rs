//! Errors, with the values that a caller needs to react.

use std::sync::Arc;

use crate::ContextKind;

/// An error of the engine: an invalid value, or a budget that no selection meets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An item has no content.
    #[error("an item has no content; leave the item out, or give it a text")]
    EmptyContent,

    /// An item has no token count.
    #[error("the item has no tokens; count them, as in \"tokens\": 12")]
    NoTokens,

    /// A name is empty or whitespace.
    #[error("the {field} is blank; give it a name, or leave it out")]
    BlankName {
        /// The field.
        field: &'static str,
    },

    /// An item has too many forms.
    #[error("an item has {forms} forms; give it at most {max}")]
    TooManyForms {
        /// The number of forms.
        forms: usize,
        /// The maximum.
        max: usize,
    },

    /// The worth of a form is not a share.
    #[error("the worth of the form '{form}' is {worth}; it must be from 0 to 1")]
    WorthOutOfRange {
        /// The name of the form.
        form: String,
        /// The worth.
        worth: f64,
    },

    /// A relevance floor is invalid.
    #[error("the floor is invalid: {problem}")]
    InvalidFloor {
        /// The number, and the allowed values.
        problem: String,
    },

    /// A text is not a timestamp.
    #[error(
        "'{text}' is not a timestamp: {problem}; write a date, a time and an offset, \
         as in 2026-03-01T12:00:00Z"
    )]
    InvalidTimestamp {
        /// The text.
        text: String,
        /// The problem of the parser.
        problem: String,
    },

    /// A token count of a budget is negative.
    #[error("the budget's {field} is {tokens}; it must be 0 or more")]
    NegativeTokens {
        /// The field of the budget.
        field: String,
        /// Its value.
        tokens: i64,
    },

    /// A limit of a budget exceeds its window.
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
        /// The percentage.
        percent: f64,
    },

    /// A parameter of a scorer is invalid.
    #[error("{scorer}: {problem}")]
    InvalidScorer {
        /// The scorer.
        scorer: &'static str,
        /// The parameter, its value, and the allowed values.
        problem: String,
    },

    /// A decay scorer has no reference time.
    #[error(
        "a decay scorer has no reference time; set reference_time in the policy, or pass the time \
         to the code that builds the pipeline"
    )]
    NoReferenceTime,

    /// A parameter of a slicer is invalid.
    #[error("{slicer}: {problem}")]
    InvalidSlicer {
        /// The slicer.
        slicer: &'static str,
        /// The parameter, its value, and the allowed values.
        problem: String,
    },

    /// A policy is invalid.
    #[error("in the policy, {path}: {problem}")]
    InvalidPolicy {
        /// The path of keys to the mistake: `scorers[1].boost`.
        path: String,
        /// The mistake, and the allowed values.
        problem: String,
    },

    /// A template is invalid.
    #[error("this template cannot be used: {problem}")]
    InvalidTemplate {
        /// The mistake, and the fix.
        problem: String,
    },

    /// A receipt is invalid.
    #[error("this receipt cannot be used: {problem}")]
    InvalidReceipt {
        /// The mistake, and the fix.
        problem: String,
    },

    /// A name is already in use.
    #[error("there is already a {what} '{name}'; choose another name")]
    DuplicateName {
        /// The thing that has the name.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// Nothing has this name.
    #[error(
        "there is no {what} '{name}'; there are {}",
        if known.is_empty() { "none here" } else { known }
    )]
    UnknownName {
        /// The thing that was requested.
        what: &'static str,
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },

    /// A search over budgets needs a slicer that selects more with a larger budget.
    #[error("{question}")]
    NotMonotonic {
        /// The search, and the reason.
        question: &'static str,
    },

    /// An item is not in the pool.
    #[error("targetItem must be an element of items")]
    NoSuchItem,

    /// A search for a budget ends below the item's own token count.
    #[error("searchCeiling must be >= targetItem.Tokens")]
    CeilingTooLow,

    /// A search over budgets takes too many steps.
    #[error(
        "the search takes too many steps; search a smaller range of budgets, or allow more steps"
    )]
    SearchTooLong,

    /// A comparison has fewer than two variants.
    #[error("policy_sensitivity requires at least 2 variants")]
    TooFewVariants,

    /// Pinned items exceed the window.
    #[error(
        "pinned items require {pinned_tokens} tokens, but only {available_tokens} are available \
         (maxTokens less outputReserve); unpin items, or raise the budget"
    )]
    PinnedOverBudget {
        /// The tokens of the pinned items.
        pinned_tokens: i64,
        /// The window minus the output reserve.
        available_tokens: i64,
    },

    /// The selection exceeds its target, and the overflow strategy is to fail.
    #[error(
        "selected items require {selected_tokens} tokens, exceeding the target budget of \
         {target_tokens}; raise targetTokens, or choose another overflow strategy"
    )]
    OverTarget {
        /// The tokens of pinned and selected items.
        selected_tokens: i64,
        /// The target.
        target_tokens: i64,
    },

    /// The selection exceeds the window, which no strategy allows.
    #[error(
        "selected items require {selected_tokens} tokens, but the window allows {input_tokens} \
         (maxTokens minus outputReserve); lower the required counts, or raise the budget"
    )]
    OverWindow {
        /// The tokens of pinned and selected items.
        selected_tokens: i64,
        /// The window minus the output reserve.
        input_tokens: i64,
    },

    /// The pinned items and the fixed text exceed the target.
    #[error(
        "pinned items and the fixed text have {fixed_tokens} tokens, above the target of {target_tokens}; \
         unpin items, shorten the fixed text, or raise the budget"
    )]
    RequiredTextOverBudget {
        /// The tokens of pinned items and of the layout's fixed text.
        fixed_tokens: i64,
        /// The target.
        target_tokens: i64,
    },

    /// The pool has fewer candidates of a kind than required.
    #[error(
        "{slicer}: candidate pool for kind '{kind}' has {satisfied} items but RequireCount is \
         {required}."
    )]
    Scarcity {
        /// The slicer.
        slicer: &'static str,
        /// The kind.
        kind: ContextKind,
        /// The number of candidates.
        satisfied: usize,
        /// The required number.
        required: usize,
    },

    /// An exact knapsack would need more memory than allowed.
    #[error(
        "the knapsack over {items} items and {capacity} buckets needs a table of {bytes} bytes, \
         above the limit of {limit}; use a larger bucket size, or raise the limit"
    )]
    TableTooLarge {
        /// The undecided items.
        items: usize,
        /// The capacity in buckets.
        capacity: u64,
        /// The size of the table.
        bytes: u64,
        /// The limit.
        limit: u64,
    },

    /// A pool has more items than the engine supports.
    #[error(
        "the pool has {items} items, above the limit of {}; split it into several runs",
        u32::MAX
    )]
    PoolTooLarge {
        /// The number of items.
        items: usize,
    },

    /// No item has this id or index.
    #[error("{}", no_item(name, *items))]
    UnknownItem {
        /// The requested id or index.
        name: String,
        /// The number of items.
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

    /// The caller stopped a search.
    #[error("the search was stopped before it had a result; try again with more time")]
    Stopped,

    /// A custom scorer, slicer, placer or layout failed or violated its contract.
    #[error("{component} failed: {source}")]
    CustomComponentFailed {
        /// The component.
        component: String,
        /// The error.
        source: ForeignError,
    },
}

/// An error of a custom component. Two are equal if their texts are equal.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct ForeignError(Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for ForeignError {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Error {
    /// Wraps an error of a custom component.
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
        None => format!("there is no item '{name}': the pool is empty"),
    }
}

/// The class of an [`Error`], for callers that handle classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An item, a budget, a component or a request is invalid.
    Invalid,
    /// No selection meets the budget.
    BudgetNotMet,
    /// The caller stopped the run.
    Stopped,
    /// A custom component failed or violated its contract.
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
