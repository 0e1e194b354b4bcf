//! How many tokens there are, and who may use them.

use std::collections::BTreeMap;

use super::ContextKind;
use crate::Error;

/// The token budget of a selection. A budget that breaks a rule cannot be built.
///
/// ```
/// use pannier_core::{ContextBudget, ContextKind};
///
/// let budget = ContextBudget::builder(128_000, 100_000)
///     .output_reserve(8_000)
///     .reserved_slot(ContextKind::MEMORY, 500)
///     .estimation_safety_margin_percent(5.0)
///     .build()?;
/// // 128000 - 8000 - 500 = 119500 for items, of which 100000 - 500 are aimed at, less 5 %.
/// assert_eq!(budget.effective(0).target_tokens, 94_525);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", try_from = "wire::Budget"))]
pub struct ContextBudget {
    max_tokens: i64,
    target_tokens: i64,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_zero"))]
    output_reserve: i64,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "BTreeMap::is_empty"))]
    reserved_slots: BTreeMap<ContextKind, i64>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_no_margin"))]
    estimation_safety_margin_percent: f64,
}

/// What a slicer may spend: the budget that is left once pinned items, reserves and the margin are
/// taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceBudget {
    /// The hard ceiling.
    pub max_tokens: i64,
    /// What to aim for; never above the ceiling.
    pub target_tokens: i64,
    /// What there was to aim for before pinned items, slots and the margin were taken off. Only shares of the whole are
    /// measured by it.
    pub whole_tokens: i64,
}

impl SliceBudget {
    /// So many tokens, of which nothing was taken off.
    pub fn new(tokens: i64) -> Self {
        Self { max_tokens: tokens, target_tokens: tokens, whole_tokens: tokens }
    }
}

impl ContextBudget {
    /// A budget with a window, a target within it and nothing else.
    ///
    /// # Errors
    ///
    /// [`Error::NegativeTokens`] or [`Error::AboveWindow`] if the numbers break a rule.
    pub fn new(max_tokens: i64, target_tokens: i64) -> Result<Self, Error> {
        Self::builder(max_tokens, target_tokens).build()
    }

    /// Starts a budget from its window and its target.
    pub fn builder(max_tokens: i64, target_tokens: i64) -> ContextBudgetBuilder {
        ContextBudgetBuilder(Self {
            max_tokens,
            target_tokens,
            output_reserve: 0,
            reserved_slots: BTreeMap::new(),
            estimation_safety_margin_percent: 0.0,
        })
    }

    /// The model's context window.
    pub fn max_tokens(&self) -> i64 {
        self.max_tokens
    }

    /// What the selection aims for; pinned and selected items together are held against it. Where the
    /// output reserve leaves less, the slicer gets less.
    pub fn target_tokens(&self) -> i64 {
        self.target_tokens
    }

    /// Tokens kept free for the model's answer.
    pub fn output_reserve(&self) -> i64 {
        self.output_reserve
    }

    /// Tokens taken off for each kind.
    pub fn reserved_slots(&self) -> &BTreeMap<ContextKind, i64> {
        &self.reserved_slots
    }

    /// How much of the budget is held back because token counts are estimates, in percent.
    pub fn estimation_safety_margin_percent(&self) -> f64 {
        self.estimation_safety_margin_percent
    }

    /// The window less the output reserve: what all items together may never exceed.
    pub fn input_tokens(&self) -> i64 {
        self.max_tokens - self.output_reserve
    }

    /// The same budget with so many tokens less in window and target.
    pub(crate) fn shrunk_by(&self, tokens: i64) -> Result<Self, Error> {
        if tokens < 0 {
            return Err(Error::NegativeTokens { field: "slack".to_owned(), tokens });
        }
        let mut reduced = self.clone();
        reduced.max_tokens = self.max_tokens.saturating_sub(tokens);
        reduced.target_tokens = self.target_tokens.saturating_sub(tokens);
        ContextBudgetBuilder(reduced).build()
    }

    /// Another window and another target, with everything else the same.
    pub(crate) fn with_sizes(&self, max_tokens: i64, target_tokens: i64) -> Result<Self, Error> {
        let mut resized = self.clone();
        (resized.max_tokens, resized.target_tokens) = (max_tokens, target_tokens);
        ContextBudgetBuilder(resized).build()
    }

    /// What a slicer may spend when pinned items already take `pinned_tokens`.
    pub fn effective(&self, pinned_tokens: i64) -> SliceBudget {
        self.effective_for(self.max_tokens, self.target_tokens, pinned_tokens)
    }

    /// The same for another window and target.
    pub(crate) fn effective_for(
        &self,
        max_tokens: i64,
        target_tokens: i64,
        pinned_tokens: i64,
    ) -> SliceBudget {
        let reserved =
            self.reserved_slots.values().fold(0_i64, |sum, slot| sum.saturating_add(*slot));
        let taken = pinned_tokens.saturating_add(reserved);
        let input_tokens = max_tokens - self.output_reserve;
        let whole_tokens = target_tokens.min(input_tokens).max(0);
        let max_tokens = input_tokens.saturating_sub(taken).max(0);
        let target_tokens = target_tokens.saturating_sub(taken).max(0).min(max_tokens);
        if self.estimation_safety_margin_percent == 0.0 {
            return SliceBudget { max_tokens, target_tokens, whole_tokens };
        }
        let multiplier = 1.0 - self.estimation_safety_margin_percent / 100.0;
        let reduced = |tokens: i64| ((tokens as f64 * multiplier).floor() as i64).min(tokens);
        let max_tokens = reduced(max_tokens);
        let target_tokens = reduced(target_tokens).min(max_tokens);
        SliceBudget { max_tokens, target_tokens, whole_tokens }
    }
}

/// Builds a [`ContextBudget`]; see [`ContextBudget::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ContextBudgetBuilder(ContextBudget);

impl ContextBudgetBuilder {
    /// Keeps tokens free for the model's answer.
    pub fn output_reserve(mut self, tokens: i64) -> Self {
        self.0.output_reserve = tokens;
        self
    }

    /// Takes tokens off what is selected, for items of a kind that you will add yourself. A second
    /// call for the same kind replaces the first.
    ///
    /// Items of that kind in the pool compete for the rest like all others; to keep a share of the
    /// selection for a kind, use [`QuotaSlice`](crate::QuotaSlice).
    pub fn reserved_slot(mut self, kind: ContextKind, tokens: i64) -> Self {
        self.0.reserved_slots.insert(kind, tokens);
        self
    }

    /// Holds back a share of the budget, from 0 to 100, because counts are estimates.
    pub fn estimation_safety_margin_percent(mut self, percent: f64) -> Self {
        self.0.estimation_safety_margin_percent = percent;
        self
    }

    /// Checks and returns the budget.
    ///
    /// # Errors
    ///
    /// [`Error::NegativeTokens`], [`Error::AboveWindow`] or [`Error::MarginOutOfRange`], for the
    /// first rule that is broken.
    pub fn build(self) -> Result<ContextBudget, Error> {
        let budget = self.0;
        let within_window =
            [("targetTokens", budget.target_tokens), ("outputReserve", budget.output_reserve)];
        for (field, tokens) in [("maxTokens", budget.max_tokens)].into_iter().chain(within_window) {
            if tokens < 0 {
                return Err(Error::NegativeTokens { field: field.to_owned(), tokens });
            }
        }
        for (field, tokens) in within_window {
            if tokens > budget.max_tokens {
                return Err(Error::AboveWindow { field, tokens, max_tokens: budget.max_tokens });
            }
        }
        let percent = budget.estimation_safety_margin_percent;
        if !(0.0..=100.0).contains(&percent) {
            return Err(Error::MarginOutOfRange { percent });
        }
        for (kind, &tokens) in &budget.reserved_slots {
            if tokens < 0 {
                return Err(Error::NegativeTokens {
                    field: format!("reservedSlots.{kind}"),
                    tokens,
                });
            }
        }
        Ok(budget)
    }
}

#[cfg(feature = "serde")]
mod wire {
    //! The form a budget is read in, before it is checked.

    use std::collections::BTreeMap;
    use std::fmt;

    use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

    use super::{ContextBudget, ContextBudgetBuilder, ContextKind};
    use crate::Error;
    use crate::model::null;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a context budget")]
    pub(super) struct Budget {
        max_tokens: i64,
        target_tokens: i64,
        #[serde(default, deserialize_with = "null::as_default")]
        output_reserve: i64,
        #[serde(default, deserialize_with = "slots")]
        reserved_slots: BTreeMap<ContextKind, i64>,
        #[serde(default, deserialize_with = "null::as_default")]
        estimation_safety_margin_percent: f64,
    }

    impl TryFrom<Budget> for ContextBudget {
        type Error = Error;

        fn try_from(budget: Budget) -> Result<Self, Error> {
            ContextBudgetBuilder(Self {
                max_tokens: budget.max_tokens,
                target_tokens: budget.target_tokens,
                output_reserve: budget.output_reserve,
                reserved_slots: budget.reserved_slots,
                estimation_safety_margin_percent: budget.estimation_safety_margin_percent,
            })
            .build()
        }
    }

    /// Two slots for one kind, also if they differ in case, would lose one of them without a word.
    fn slots<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ContextKind, i64>, D::Error> {
        struct Slots;

        impl<'de> Visitor<'de> for Slots {
            type Value = BTreeMap<ContextKind, i64>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("kinds and their tokens")
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(BTreeMap::new())
            }

            fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
                value.deserialize_map(self)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut slots = BTreeMap::new();
                while let Some((kind, tokens)) = map.next_entry::<ContextKind, i64>()? {
                    if slots.contains_key(&kind) {
                        return Err(A::Error::custom(format!(
                            "reservedSlots names the kind '{kind}' twice; kinds do not differ by case"
                        )));
                    }
                    slots.insert(kind, tokens);
                }
                Ok(slots)
            }
        }

        deserializer.deserialize_option(Slots)
    }

    pub(super) fn is_zero(tokens: &i64) -> bool {
        *tokens == 0
    }

    pub(super) fn is_no_margin(percent: &f64) -> bool {
        *percent == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_enforced() {
        let negative =
            |field: &str, tokens| Err(Error::NegativeTokens { field: field.to_owned(), tokens });
        assert_eq!(ContextBudget::new(-1, 0), negative("maxTokens", -1));
        assert_eq!(ContextBudget::new(10, -2), negative("targetTokens", -2));
        let above = |field, tokens| Err(Error::AboveWindow { field, tokens, max_tokens: 10 });
        assert_eq!(ContextBudget::new(10, 11), above("targetTokens", 11));
        let reserve = |tokens| ContextBudget::builder(10, 5).output_reserve(tokens).build();
        assert_eq!(reserve(-3), negative("outputReserve", -3));
        assert_eq!(reserve(11), above("outputReserve", 11));
        for percent in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
            let margin = ContextBudget::builder(10, 5).estimation_safety_margin_percent(percent);
            assert!(matches!(margin.build(), Err(Error::MarginOutOfRange { .. })), "{percent}");
        }
        let slot = ContextBudget::builder(10, 5).reserved_slot(ContextKind::MEMORY, -4).build();
        assert_eq!(slot, negative("reservedSlots.Memory", -4));
    }

    #[test]
    fn the_edges_are_valid() {
        assert!(ContextBudget::new(0, 0).is_ok());
        let budget = ContextBudget::builder(10, 10).output_reserve(10);
        let budget = budget.estimation_safety_margin_percent(100.0).build().unwrap();
        let effective = budget.effective(0);
        assert_eq!((effective.max_tokens, effective.target_tokens), (0, 0));
        let huge = ContextBudget::builder(i64::MAX, i64::MAX)
            .reserved_slot(ContextKind::MEMORY, i64::MAX)
            .reserved_slot(ContextKind::MESSAGE, i64::MAX)
            .build()
            .unwrap();
        assert_eq!(huge.effective(i64::MAX).max_tokens, 0);
    }

    #[test]
    fn the_target_is_clamped_to_the_ceiling_and_both_are_floored() {
        let budget = ContextBudget::builder(1000, 900).output_reserve(300);
        let budget = budget.estimation_safety_margin_percent(3.0).build().unwrap();
        // min(900, 1000 - 300) = 700, 0.97 * 700 = 679.
        assert_eq!(budget.effective(0).target_tokens, 679);
        // 1000 - 300 - 51 = 649, 0.97 * 649 = 629.53.
        assert_eq!(budget.effective(51).target_tokens, 629);
    }
}
