//! Packs items into a token budget.

use std::borrow::Cow;

use pannier_core::layout::Ledger;
use pannier_core::report::Note;
use pannier_core::{ContextBudget, ContextItem, Explanation, Selection};
use serde::Serialize;
use serde_json::Value;

use super::pool::selection_details;
use super::values::list;
use super::{
    Answer, BudgetOptions, Control, Group, PackPool, PolicyOptions, PoolOptions, Request,
    ReserveOptions, Sends,
};
use crate::{Failure, Shelf};

request! {
    /// Pack items into a token budget.
    pub struct PackRequest {
        /// Items and ranking.
        #[group(flatten)]
        pub pool: PoolOptions,

        /// The policy.
        #[group(flatten)]
        pub policy: PolicyOptions,

        /// The budget.
        #[group(flatten)]
        pub budget: BudgetOptions,

        /// Deductions from the window.
        #[group(flatten)]
        pub reserves: ReserveOptions,

        /// Explain why an item is in or out; repeatable
        #[arg(long, value_name = "ID")]
        #[serde(default, deserialize_with = "list")]
        pub explain: Vec<String>,
    }
}

/// A selection, or the explanations that were asked for.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PackAnswer {
    /// The selected items.
    Selection {
        /// The items, in the order to send them.
        items: Vec<ContextItem>,
        /// The totals.
        totals: Box<PackTotals>,
        /// The items as one text.
        #[serde(skip)]
        text: String,
        /// Scores and reasons, if the caller sends them.
        #[serde(skip)]
        details: Value,
    },
    /// Why items were selected or dropped.
    Explanations {
        /// One for each item that the request names.
        explanations: Vec<Explanation>,
    },
}

/// The totals of a selection.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PackTotals {
    /// The number of items in the pool.
    pub candidates: usize,
    /// The number of selected items.
    pub selected: usize,
    /// The sum of their tokens.
    pub tokens: i64,
    /// The budget.
    #[cfg_attr(feature = "schema", schemars(with = "super::answers::Budget"))]
    pub budget: ContextBudget,
    /// The token breakdown of the window.
    #[cfg_attr(feature = "schema", schemars(with = "super::answers::Ledger"))]
    pub ledger: Ledger,
    /// Remarks on how the items were chosen, where that differs from what the policy asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<super::answers::Note>"))]
    pub notes: Vec<Note>,
}

impl PackTotals {
    /// Sums a selection up.
    pub fn new(selection: &Selection<'_>) -> Self {
        Self {
            candidates: selection.pool().len(),
            selected: selection.len(),
            tokens: selection.tokens(),
            budget: selection.budget().clone(),
            ledger: selection.ledger().clone(),
            notes: selection.notes().to_vec(),
        }
    }
}

impl PackAnswer {
    /// Summarizes a selection.
    pub fn new(pool: &PackPool, selection: &Selection<'_>) -> Self {
        let totals = PackTotals::new(selection);
        Self::Selection {
            items: selection.items().cloned().collect(),
            totals: Box::new(totals),
            text: pool.render(selection),
            details: Value::Null,
        }
    }

    /// Returns the selected items, in the order to send them.
    pub fn items(&self) -> &[ContextItem] {
        match self {
            Self::Selection { items, .. } => items,
            Self::Explanations { .. } => &[],
        }
    }
}

impl Answer for PackAnswer {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Selection { text, .. } => text.into(),
            Self::Explanations { explanations } => {
                // Explanations always serialize.
                serde_json::to_string(explanations).unwrap_or_default().into()
            }
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Selection { details, .. } => details.clone(),
            Self::Explanations { .. } => Value::Null,
        }
    }
}

impl PackRequest {
    /// Counts the items, builds the pipeline and reads the budget.
    ///
    /// # Errors
    ///
    /// Any error of the policy, the template, the tokenizer or the budget.
    pub fn open(
        self,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<(PackPool, ContextBudget), Failure> {
        let budget = self.budget.read(&self.reserves, shelf)?;
        Ok((self.pool.open(&self.policy, shelf, control)?, budget))
    }
}

impl Request for PackRequest {
    const GROUPS: &'static [Group] = &[
        Group::new::<PoolOptions>("pool"),
        Group::new::<PolicyOptions>("policy"),
        Group::new::<BudgetOptions>("budget"),
        Group::new::<ReserveOptions>("reserves"),
    ];
    const ADVERTISED: &'static [&'static str] = &["items", "budget", "query", "policy"];
    const INPUTS: &'static [&'static str] = &["items"];
    type Answer = PackAnswer;

    fn run(mut self, shelf: &Shelf, control: &Control<'_>) -> Result<PackAnswer, Failure> {
        let explain = std::mem::take(&mut self.explain);
        let (pool, budget) = self.open(shelf, control)?;
        control.bound(budget.target_tokens(), pool.counter());
        control.step("selecting items")?;
        if explain.is_empty() {
            let selection = pool.pipeline().run(pool.items(), &budget)?;
            let mut answer = PackAnswer::new(&pool, &selection);
            if let PackAnswer::Selection { details, .. } = &mut answer
                && control.sends() == Sends::Details
            {
                *details = selection_details(&selection);
            }
            return Ok(answer);
        }
        let explanations = pool.explain(&explain, &budget, control)?;
        let explanations = explanations.into_iter().map(Explanation::into_owned).collect();
        Ok(PackAnswer::Explanations { explanations })
    }
}
