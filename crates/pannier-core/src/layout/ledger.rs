use crate::{ContextBudget, sum_tokens};

/// What a rendered selection costs, by what it is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderCost {
    /// Tokens that are sent with any selection.
    pub fixed: i64,
    /// Tokens around and between the items.
    pub framing: i64,
    /// Tokens of the items by themselves.
    pub items: i64,
    /// Tokens of the whole beyond its parts; negative where an encoding merges across borders.
    pub merge_adjustment: i64,
    /// What another limit of the layout, such as one of characters, counts as in tokens. The larger of this and the
    /// total is held against the budget.
    pub other_limit_tokens: Option<i64>,
}

impl RenderCost {
    /// A cost of `total` tokens, of which these are known; the rest is the merge adjustment.
    pub fn from_total(total: i64, fixed: i64, framing: i64, items: i64) -> Self {
        let merge_adjustment =
            total.saturating_sub(fixed).saturating_sub(framing).saturating_sub(items);
        Self { fixed, framing, items, merge_adjustment, other_limit_tokens: None }
    }

    /// Returns what is held against the budget.
    pub(crate) fn bound(&self) -> i64 {
        self.other_limit_tokens.map_or(self.total(), |tokens| tokens.max(self.total()))
    }

    /// Returns the sum.
    pub fn total(&self) -> i64 {
        sum_tokens([self.fixed, self.framing, self.items, self.merge_adjustment].into_iter())
    }
}

#[cfg(feature = "serde")]
fn is_zero(tokens: &i64) -> bool {
    *tokens == 0
}

/// Where the tokens of a window go. The lines add up: the window is the sum of all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Ledger {
    /// The window: `maxTokens`.
    pub window: i64,
    /// Tokens kept free for the model's output.
    pub output_reserve: i64,
    /// Tokens kept free by reserved slots. JSON omits 0.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub slots: i64,
    /// Tokens kept free by the safety margin. JSON omits 0.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub margin: i64,
    /// Tokens that are sent with any selection: the frame of a template, the tools of a chat.
    pub fixed: i64,
    /// Tokens around and between the items.
    pub framing: i64,
    /// Tokens of the items by themselves.
    pub items: i64,
    /// Tokens of the whole beyond its parts; negative where an encoding merges across borders.
    #[cfg_attr(feature = "serde", serde(rename = "joins"))]
    pub merge_adjustment: i64,
    /// Tokens left over. Negative only where a selection is allowed to overflow.
    #[cfg_attr(feature = "serde", serde(rename = "slack"))]
    pub unused: i64,
}

impl Ledger {
    /// The ledger of a selection that costs this much, `committed_tokens` of it regardless of its budget.
    pub(crate) fn new(budget: &ContextBudget, committed_tokens: i64, cost: RenderCost) -> Self {
        let (window, output_reserve) = (budget.max_tokens(), budget.output_reserve());
        let RenderCost { fixed, framing, items, merge_adjustment, .. } = cost;
        let mut unused = window.saturating_sub(output_reserve).saturating_sub(cost.total());
        // A selection that overflows leaves less than they should keep.
        let mut keep = |tokens: i64| {
            let kept = tokens.min(unused).max(0);
            unused -= kept;
            kept
        };
        let slots = keep(budget.slot_tokens());
        let margin = keep(budget.margin_tokens(committed_tokens));
        let kept = Self { window, output_reserve, slots, margin, ..Self::default() };
        Self { fixed, framing, items, merge_adjustment, unused, ..kept }
    }

    /// Returns the tokens that are sent: everything but the tokens kept free and what is unused.
    pub fn sent(&self) -> i64 {
        sum_tokens([self.fixed, self.framing, self.items, self.merge_adjustment].into_iter())
    }
}
