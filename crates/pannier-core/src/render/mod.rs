//! From a selection to what is sent, and what that costs.
//!
//! Tokens of parts do not add up to the tokens of the whole: something stands between the parts, and encodings
//! merge across borders. So a selection that fits its budget may still be a text that does not. A pipeline that
//! knows how its selections are rendered asks what the whole costs, and leaves out what makes it too much.

use crate::pipeline::Forms;
use crate::{ContextBudget, ContextItem, sum_tokens};

/// How selections are sent, as far as a budget is concerned: what they cost as a whole, and which items cannot
/// be sent at all.
///
/// Templates and passages under the names of their documents are in `pannier-layout`. A format with rules of its own, such
/// as a chat, implements this trait.
pub trait Rendering: Send + Sync {
    /// What these items cost together, in this order.
    fn cost(&self, items: &Placed<'_>) -> Cost;

    /// What stands around an item, where its own tokens do not say. A slicer takes it for a part of the item.
    fn framing(&self, index: usize, item: &ContextItem) -> i64 {
        let _ = (index, item);
        0
    }

    /// The same for an item in its [short form](ContextItem::short_form), which is what is given.
    fn short_framing(&self, index: usize, short: &ContextItem) -> i64 {
        self.framing(index, short)
    }

    /// What a heading for an item's document or section costs, if there are headings. A slicer that knows of them adds
    /// it where one is opened.
    fn heading(&self, index: usize, item: &ContextItem) -> i64 {
        let _ = (index, item);
        0
    }

    /// Whether they cost no more than a limit: the same answer as from [`cost`](Self::cost), which may be
    /// found sooner.
    fn fits(&self, items: &Placed<'_>, limit: i64) -> bool {
        self.cost(items).total() <= limit
    }

    /// About how many steps a look at so many tokens takes, where a step is a look at an item. Whoever renders
    /// many times for one answer asks this first.
    fn effort(&self, tokens: i64) -> u64 {
        tokens.unsigned_abs().saturating_mul(128)
    }

    /// The rule by which an item of the pool cannot be sent, whatever else is.
    fn refuses(&self, index: usize, item: &ContextItem) -> Option<&str> {
        let _ = (index, item);
        None
    }

    /// The rule by which an item of the pool cannot be sent before all others. A pinned item is sent in any case;
    /// then it is not the first that the others need.
    fn refuses_first(&self, index: usize, item: &ContextItem) -> Option<&str> {
        let _ = (index, item);
        None
    }
}

/// Items of a pool in the order they are sent.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'p> {
    pool: &'p [ContextItem],
    indices: &'p [u32],
    forms: &'p Forms,
}

impl<'p> Placed<'p> {
    pub(crate) fn new(pool: &'p [ContextItem], indices: &'p [u32], forms: &'p Forms) -> Self {
        Self { pool, indices, forms }
    }

    /// No items.
    pub fn empty() -> Self {
        Self { pool: &[], indices: &[], forms: Forms::WHOLE }
    }

    /// The items, or their short forms where those are sent.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &'p ContextItem> + Clone {
        let (pool, forms) = (self.pool, self.forms);
        self.indices.iter().map(move |index| forms.of(pool, *index))
    }

    /// Whether each of them is a short form.
    pub fn shortened(&self) -> impl ExactSizeIterator<Item = bool> + Clone {
        let forms = self.forms;
        self.indices.iter().map(move |index| forms.is_short(*index))
    }

    /// Their indices in the pool.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.indices.iter().map(|index| *index as usize)
    }

    /// What they say that they cost.
    pub fn tokens(&self) -> i64 {
        sum_tokens(self.items().map(ContextItem::tokens))
    }
}

/// What a rendered selection costs, by what it is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// What is there whatever is selected.
    pub fixed: i64,
    /// What stands around and between the items.
    pub framing: i64,
    /// What the items cost by themselves.
    pub items: i64,
    /// What the whole costs beyond its parts; below zero where an encoding merges across borders.
    pub joins: i64,
}

impl Cost {
    /// A cost of so many tokens in all, of which these are known and the rest is in the joins.
    pub fn of_whole(total: i64, fixed: i64, framing: i64, items: i64) -> Self {
        let joins = total.saturating_sub(fixed).saturating_sub(framing).saturating_sub(items);
        Self { fixed, framing, items, joins }
    }

    /// All of it.
    pub fn total(&self) -> i64 {
        sum_tokens([self.fixed, self.framing, self.items, self.joins].into_iter())
    }
}

/// Where the tokens of a window go. The lines add up: the window is the sum of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Ledger {
    /// The window: `maxTokens`.
    pub window: i64,
    /// What is kept for the answer.
    pub output_reserve: i64,
    /// What is there whatever is selected: the frame of a template, the tools of a chat.
    pub fixed: i64,
    /// What stands around and between the items.
    pub framing: i64,
    /// What the items cost by themselves.
    pub items: i64,
    /// What the whole costs beyond its parts. Below zero where an encoding merges across borders.
    pub joins: i64,
    /// What is left. Below zero only where a selection is allowed to overflow.
    pub slack: i64,
}

impl Ledger {
    pub(crate) fn new(budget: &ContextBudget, cost: Cost) -> Self {
        let (window, output_reserve) = (budget.max_tokens(), budget.output_reserve());
        let Cost { fixed, framing, items, joins } = cost;
        let slack = window.saturating_sub(output_reserve).saturating_sub(cost.total());
        Self { window, output_reserve, fixed, framing, items, joins, slack }
    }

    /// What is sent: everything but the reserve and the slack.
    pub fn sent(&self) -> i64 {
        sum_tokens([self.fixed, self.framing, self.items, self.joins].into_iter())
    }
}
