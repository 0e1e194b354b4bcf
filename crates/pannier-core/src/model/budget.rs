//! Token budgets: the limits of a run, and the part of them that a slicer may spend.

use std::collections::BTreeMap;

use super::ContextKind;
#[cfg(feature = "serde")]
use super::null;
use crate::{Error, sum_tokens};

/// The token budget of a selection. A budget is always valid: the builder checks it, and so does reading.
///
/// ```
/// use pannier_core::{ContextBudget, ContextKind};
///
/// let budget = ContextBudget::builder(128_000, 100_000)
///     .output_reserve(8_000)
///     .reserved_slot(ContextKind::MEMORY, 500)
///     .estimation_safety_margin_percent(5.0)
///     .build()?;
/// // 128000 - 8000 - 500 = 119500 for items, with a target of 100000 - 500, minus 5 %.
/// assert_eq!(budget.effective(0).target_tokens, 94_525);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Limits"))]
pub struct ContextBudget(Limits);

/// The limits of a budget, unchecked.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", deny_unknown_fields))]
#[cfg_attr(feature = "serde", serde(expecting = "a context budget"))]
struct Limits {
    max_tokens: i64,
    target_tokens: i64,
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "null::as_default"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_default"))]
    output_reserve: i64,
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "wire::slots"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "BTreeMap::is_empty"))]
    reserved_slots: BTreeMap<ContextKind, i64>,
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "null::as_default"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_default"))]
    estimation_safety_margin_percent: f64,
}

/// The budget of a slicer: a [`ContextBudget`] minus pinned items, reserves and the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceBudget {
    /// The hard limit.
    pub max_tokens: i64,
    /// The target; at most `max_tokens`.
    pub target_tokens: i64,
    /// The target before the subtraction of pinned items, slots and the margin. Percentages of the budget refer to it.
    pub whole_tokens: i64,
}

impl SliceBudget {
    /// Creates a budget in which limit, target and whole are equal.
    pub fn new(tokens: i64) -> Self {
        Self { max_tokens: tokens, target_tokens: tokens, whole_tokens: tokens }
    }
}

impl ContextBudget {
    /// Creates a budget with a window and a target.
    ///
    /// # Errors
    ///
    /// [`Error::NegativeTokens`] or [`Error::AboveWindow`] if a number is out of range.
    pub fn new(max_tokens: i64, target_tokens: i64) -> Result<Self, Error> {
        Self::builder(max_tokens, target_tokens).build()
    }

    /// Starts a budget with its window and its target.
    pub fn builder(max_tokens: i64, target_tokens: i64) -> ContextBudgetBuilder {
        ContextBudgetBuilder(Limits {
            max_tokens,
            target_tokens,
            output_reserve: 0,
            reserved_slots: BTreeMap::new(),
            estimation_safety_margin_percent: 0.0,
        })
    }

    /// Returns the model's context window.
    pub fn max_tokens(&self) -> i64 {
        self.0.max_tokens
    }

    /// Returns the token count that pinned and selected items together aim for. The slicer gets less if the output
    /// reserve leaves less.
    pub fn target_tokens(&self) -> i64 {
        self.0.target_tokens
    }

    /// Returns the tokens of the window that are kept free for the model's output.
    pub fn output_reserve(&self) -> i64 {
        self.0.output_reserve
    }

    /// Returns the tokens that are subtracted for each kind.
    pub fn reserved_slots(&self) -> &BTreeMap<ContextKind, i64> {
        &self.0.reserved_slots
    }

    /// Returns the percentage of the budget that is held back because token counts are estimates.
    pub fn estimation_safety_margin_percent(&self) -> f64 {
        self.0.estimation_safety_margin_percent
    }

    /// Returns the window minus the output reserve: the hard limit for all items together.
    pub fn input_tokens(&self) -> i64 {
        self.0.max_tokens - self.0.output_reserve
    }

    /// Returns the budget with `tokens` less in window and target.
    pub(crate) fn shrunk_by(&self, tokens: i64) -> Result<Self, Error> {
        if tokens < 0 {
            return Err(Error::NegativeTokens { field: "slack".to_owned(), tokens });
        }
        let shrink = |size: i64| size.saturating_sub(tokens);
        self.with_sizes(shrink(self.max_tokens()), shrink(self.target_tokens()))
    }

    /// Returns the budget with another window and target.
    pub(crate) fn with_sizes(&self, max_tokens: i64, target_tokens: i64) -> Result<Self, Error> {
        ContextBudgetBuilder(Limits { max_tokens, target_tokens, ..self.0.clone() }).build()
    }

    /// Returns the budget of the slicer if pinned items take `pinned_tokens`.
    pub fn effective(&self, pinned_tokens: i64) -> SliceBudget {
        self.effective_for(self.max_tokens(), self.target_tokens(), pinned_tokens)
    }

    /// Returns the sum of all reserved slots.
    pub(crate) fn slot_tokens(&self) -> i64 {
        sum_tokens(self.0.reserved_slots.values().copied())
    }

    /// Returns the tokens by which the safety margin lowers the target of the slicer.
    pub(crate) fn margin_tokens(&self, pinned_tokens: i64) -> i64 {
        let mut certain = self.clone();
        certain.0.estimation_safety_margin_percent = 0.0;
        let target_tokens = certain.effective(pinned_tokens).target_tokens;
        target_tokens - self.effective(pinned_tokens).target_tokens
    }

    /// Returns the budget of the slicer for another window and target.
    pub(crate) fn effective_for(
        &self,
        max_tokens: i64,
        target_tokens: i64,
        pinned_tokens: i64,
    ) -> SliceBudget {
        let taken = pinned_tokens.saturating_add(self.slot_tokens());
        let input_tokens = max_tokens - self.output_reserve();
        let whole_tokens = target_tokens.min(input_tokens).max(0);
        let max_tokens = input_tokens.saturating_sub(taken).max(0);
        let target_tokens = target_tokens.saturating_sub(taken).max(0).min(max_tokens);
        let percent = self.estimation_safety_margin_percent();
        if percent == 0.0 {
            return SliceBudget { max_tokens, target_tokens, whole_tokens };
        }
        let multiplier = 1.0 - percent / 100.0;
        let reduced = |tokens: i64| ((tokens as f64 * multiplier).floor() as i64).min(tokens);
        let max_tokens = reduced(max_tokens);
        let target_tokens = reduced(target_tokens).min(max_tokens);
        SliceBudget { max_tokens, target_tokens, whole_tokens }
    }
}

impl TryFrom<Limits> for ContextBudget {
    type Error = Error;

    fn try_from(limits: Limits) -> Result<Self, Error> {
        ContextBudgetBuilder(limits).build()
    }
}

/// Builds a [`ContextBudget`]; see [`ContextBudget::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ContextBudgetBuilder(Limits);

impl ContextBudgetBuilder {
    setters! {
        /// Keeps tokens of the window free for the model's output. Default: 0.
        output_reserve: i64 => output_reserve;
        /// Holds back a percentage of the budget, from 0 to 100, because token counts are estimates. Default: 0.
        estimation_safety_margin_percent: f64 => estimation_safety_margin_percent;
    }

    /// Subtracts tokens for items of a kind that you will add yourself. A second call for the same kind replaces the
    /// first.
    ///
    /// Items of that kind in the pool compete for the remaining budget like all others. To guarantee a share of the
    /// selection to a kind, use [`QuotaSlice`](crate::QuotaSlice).
    pub fn reserved_slot(mut self, kind: ContextKind, tokens: i64) -> Self {
        self.0.reserved_slots.insert(kind, tokens);
        self
    }

    /// Checks and returns the budget.
    ///
    /// # Errors
    ///
    /// [`Error::NegativeTokens`], [`Error::AboveWindow`] or [`Error::MarginOutOfRange`], for the first rule that is
    /// violated.
    pub fn build(self) -> Result<ContextBudget, Error> {
        let Limits { max_tokens, target_tokens, output_reserve, .. } = self.0;
        let within_window = [("targetTokens", target_tokens), ("outputReserve", output_reserve)];
        let mut sizes = [("maxTokens", max_tokens)].into_iter().chain(within_window);
        if let Some((field, tokens)) = sizes.find(|(_, tokens)| *tokens < 0) {
            return Err(Error::NegativeTokens { field: field.to_owned(), tokens });
        }
        if let Some((field, tokens)) = within_window.into_iter().find(|(_, t)| *t > max_tokens) {
            return Err(Error::AboveWindow { field, tokens, max_tokens });
        }
        let percent = self.0.estimation_safety_margin_percent;
        if !(0.0..=100.0).contains(&percent) {
            return Err(Error::MarginOutOfRange { percent });
        }
        match self.0.reserved_slots.iter().find(|(_, tokens)| **tokens < 0) {
            Some((kind, &tokens)) => {
                Err(Error::NegativeTokens { field: format!("reservedSlots.{kind}"), tokens })
            }
            None => Ok(ContextBudget(self.0)),
        }
    }
}

#[cfg(feature = "serde")]
mod wire {
    use std::collections::BTreeMap;
    use std::fmt;

    use serde::de::{Deserializer, Error, MapAccess, Visitor};

    use super::ContextKind;

    struct Slots;

    /// Reads slots, and refuses two for one kind, because the first would be lost.
    pub(super) fn slots<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ContextKind, i64>, D::Error> {
        deserializer.deserialize_option(Slots)
    }

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

    pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_budgets_are_refused() {
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
    fn limits_of_each_range_are_valid() {
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
    fn the_target_is_clamped_to_the_limit_and_both_are_rounded_down() {
        let budget = ContextBudget::builder(1000, 900).output_reserve(300);
        let budget = budget.estimation_safety_margin_percent(3.0).build().unwrap();
        // min(900, 1000 - 300) = 700, 0.97 * 700 = 679.
        assert_eq!(budget.effective(0).target_tokens, 679);
        // 1000 - 300 - 51 = 649, 0.97 * 649 = 629.53.
        assert_eq!(budget.effective(51).target_tokens, 629);
    }
}
