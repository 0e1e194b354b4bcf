//! Reasons, as data.

use std::fmt;
use std::sync::Arc;

/// Why an item is in the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "reason"))]
#[non_exhaustive]
pub enum InclusionReason {
    /// It was selected for its score.
    Scored,
    /// It is pinned, or belongs to a group with a pinned member.
    Pinned,
    /// It costs nothing.
    ZeroToken,
    /// It was selected in its short form, because all of it was too much.
    Shortened,
    /// A reason of another implementation.
    #[cfg_attr(feature = "serde", serde(other))]
    Unknown,
}

impl InclusionReason {
    /// The reason's name, as it is written in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scored => "Scored",
            Self::Pinned => "Pinned",
            Self::ZeroToken => "ZeroToken",
            Self::Shortened => "Shortened",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for InclusionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why an item is not in the selection, with the numbers.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "reason"))]
#[non_exhaustive]
pub enum ExclusionReason {
    /// It did not fit.
    BudgetExceeded {
        /// What it costs; of a group, all of it.
        item_tokens: i64,
        /// What was left.
        available_tokens: i64,
        /// Whether it would have fitted what was left, and the slicer's choice does without it.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
        outcompeted: bool,
    },
    /// It scored below a threshold. Not given by built-in parts.
    ScoredTooLow {
        /// Its score.
        score: f64,
        /// The threshold.
        threshold: f64,
    },
    /// Another item with the same content was kept.
    Deduplicated {
        /// The content that was kept.
        deduplicated_against: Arc<str>,
    },
    /// Too much of it is found in an item that ranks higher, whether that is selected or not.
    NearDuplicate {
        /// The content that was kept.
        near_duplicate_of: Arc<str>,
        /// How many of its word sequences (of its words, if it has few, or of its bytes, if both are passages of one
        /// document) are found there.
        shared: u64,
        /// How many it has.
        #[cfg_attr(feature = "serde", serde(rename = "own"))]
        total: u64,
    },
    /// Its kind exceeded a share of the budget. Not given by built-in parts.
    QuotaCapExceeded {
        /// The kind.
        kind: String,
        /// The cap.
        cap: i64,
        /// What it would have been.
        actual: i64,
    },
    /// It made room for what another kind requires. Not given by built-in parts.
    QuotaRequireDisplaced {
        /// The other kind.
        displaced_by_kind: String,
    },
    /// Its token count is below zero.
    NegativeTokens {
        /// The count.
        tokens: i64,
    },
    /// It would have fitted if no item were pinned.
    PinnedOverride {
        /// The content of the first pinned item.
        displaced_by: Arc<str>,
    },
    /// A filter dropped it. Not given by built-in parts.
    Filtered {
        /// The filter.
        filter_name: String,
    },
    /// Enough items of its kind were selected.
    CountCapExceeded {
        /// The kind.
        kind: String,
        /// How many may be selected.
        cap: usize,
        /// How many were when its turn came.
        count: usize,
    },
    /// Enough passages of its document were selected.
    DocumentCapExceeded {
        /// The document.
        document: String,
        /// How many may be selected.
        cap: usize,
        /// How many were when its turn came.
        count: usize,
    },
    /// Another member of its group is invalid, and a group goes together.
    GroupExcluded {
        /// The group.
        group: String,
        /// The name of the other member's reason.
        cause: String,
    },
    /// The text of the selection was over the target, and it had the lowest rank.
    RenderedOverBudget {
        /// What the text of the whole selection counts.
        rendered_tokens: i64,
        /// What it may count.
        target_tokens: i64,
    },
    /// It cannot be sent, by a rule of how selections are sent.
    #[cfg_attr(feature = "serde", serde(rename = "Refused"))]
    RejectedByFormat {
        /// The rule.
        rule: String,
    },
    /// A reason of another implementation, of which only the name was kept.
    #[cfg_attr(feature = "serde", serde(untagged))]
    Unknown {
        /// Its name.
        reason: String,
    },
}

/// Which reason it is that an item is not in the selection, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ExclusionVariant {
    /// [`ExclusionReason::BudgetExceeded`]
    BudgetExceeded,
    /// [`ExclusionReason::ScoredTooLow`]
    ScoredTooLow,
    /// [`ExclusionReason::Deduplicated`]
    Deduplicated,
    /// [`ExclusionReason::NearDuplicate`]
    NearDuplicate,
    /// [`ExclusionReason::QuotaCapExceeded`]
    QuotaCapExceeded,
    /// [`ExclusionReason::QuotaRequireDisplaced`]
    QuotaRequireDisplaced,
    /// [`ExclusionReason::NegativeTokens`]
    NegativeTokens,
    /// [`ExclusionReason::PinnedOverride`]
    PinnedOverride,
    /// [`ExclusionReason::Filtered`]
    Filtered,
    /// [`ExclusionReason::CountCapExceeded`]
    CountCapExceeded,
    /// [`ExclusionReason::DocumentCapExceeded`]
    DocumentCapExceeded,
    /// [`ExclusionReason::GroupExcluded`]
    GroupExcluded,
    /// [`ExclusionReason::RenderedOverBudget`]
    RenderedOverBudget,
    /// [`ExclusionReason::RejectedByFormat`], which reports write as `Refused`.
    RejectedByFormat,
    /// [`ExclusionReason::Unknown`], whatever its name.
    Unknown,
}

impl ExclusionVariant {
    /// The name, as it is written in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BudgetExceeded => "BudgetExceeded",
            Self::ScoredTooLow => "ScoredTooLow",
            Self::Deduplicated => "Deduplicated",
            Self::NearDuplicate => "NearDuplicate",
            Self::QuotaCapExceeded => "QuotaCapExceeded",
            Self::QuotaRequireDisplaced => "QuotaRequireDisplaced",
            Self::NegativeTokens => "NegativeTokens",
            Self::PinnedOverride => "PinnedOverride",
            Self::Filtered => "Filtered",
            Self::CountCapExceeded => "CountCapExceeded",
            Self::DocumentCapExceeded => "DocumentCapExceeded",
            Self::GroupExcluded => "GroupExcluded",
            Self::RenderedOverBudget => "RenderedOverBudget",
            Self::RejectedByFormat => "Refused",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ExclusionVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<&ExclusionReason> for ExclusionVariant {
    fn from(reason: &ExclusionReason) -> Self {
        reason.variant()
    }
}

impl ExclusionReason {
    /// Which reason it is, without its numbers.
    pub fn variant(&self) -> ExclusionVariant {
        match self {
            Self::BudgetExceeded { .. } => ExclusionVariant::BudgetExceeded,
            Self::ScoredTooLow { .. } => ExclusionVariant::ScoredTooLow,
            Self::Deduplicated { .. } => ExclusionVariant::Deduplicated,
            Self::NearDuplicate { .. } => ExclusionVariant::NearDuplicate,
            Self::QuotaCapExceeded { .. } => ExclusionVariant::QuotaCapExceeded,
            Self::QuotaRequireDisplaced { .. } => ExclusionVariant::QuotaRequireDisplaced,
            Self::NegativeTokens { .. } => ExclusionVariant::NegativeTokens,
            Self::PinnedOverride { .. } => ExclusionVariant::PinnedOverride,
            Self::Filtered { .. } => ExclusionVariant::Filtered,
            Self::CountCapExceeded { .. } => ExclusionVariant::CountCapExceeded,
            Self::DocumentCapExceeded { .. } => ExclusionVariant::DocumentCapExceeded,
            Self::GroupExcluded { .. } => ExclusionVariant::GroupExcluded,
            Self::RenderedOverBudget { .. } => ExclusionVariant::RenderedOverBudget,
            Self::RejectedByFormat { .. } => ExclusionVariant::RejectedByFormat,
            Self::Unknown { .. } => ExclusionVariant::Unknown,
        }
    }

    /// The reason's name, as it is written in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { reason } => reason,
            known => known.variant().name(),
        }
    }
}

impl fmt::Display for ExclusionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Self::BudgetExceeded { item_tokens, available_tokens, outcompeted } => {
                write!(f, ": {item_tokens} tokens requested, {available_tokens} available")?;
                if *outcompeted { write!(f, "; it would fit, but was not chosen") } else { Ok(()) }
            }
            Self::ScoredTooLow { score, threshold } => {
                write!(f, ": score {score}, threshold {threshold}")
            }
            Self::Deduplicated { .. } => write!(f, ": another item with the same content was kept"),
            Self::NearDuplicate { shared, total, .. } => {
                write!(f, ": {shared} of its {total} parts are in an item that ranks higher")
            }
            Self::QuotaCapExceeded { kind, cap, actual } => {
                write!(f, ": kind {kind} would be at {actual}, its cap is {cap}")
            }
            Self::QuotaRequireDisplaced { displaced_by_kind } => {
                write!(f, ": kind {displaced_by_kind} requires the room")
            }
            Self::NegativeTokens { tokens } => write!(f, ": {tokens} tokens"),
            Self::PinnedOverride { .. } => {
                write!(f, ": it would fit the target if no item were pinned")
            }
            Self::Filtered { filter_name } => write!(f, ": by filter {filter_name}"),
            Self::CountCapExceeded { kind, cap, count } => {
                write!(f, ": {count} of kind {kind} selected, its cap is {cap}")
            }
            Self::DocumentCapExceeded { document, cap, count } => {
                write!(f, ": {count} of document {document} selected, its cap is {cap}")
            }
            Self::GroupExcluded { group, cause } => {
                write!(f, ": another member of group {group} is out for {cause}")
            }
            Self::RenderedOverBudget { rendered_tokens, target_tokens } => {
                write!(
                    f,
                    ": the text of all would have {rendered_tokens} tokens, the target is {target_tokens}"
                )
            }
            Self::RejectedByFormat { rule } => write!(f, ": {rule}"),
            Self::Unknown { .. } => Ok(()),
        }
    }
}

#[cfg(feature = "serde")]
mod wire {
    //! Reading: a known name must have its fields; an unknown one is kept as a name. Fields of other
    //! reasons, or of none, are not looked at.

    use serde::de::{Deserialize, Deserializer, Error};

    use super::ExclusionReason;
    use crate::{Metadata, MetadataValue};

    struct Fields(Metadata);

    impl Fields {
        fn get<T, E: Error>(
            &self,
            field: &'static str,
            read: impl FnOnce(&MetadataValue) -> Option<T>,
        ) -> Result<T, E> {
            let value = self.0.get(field).ok_or_else(|| E::missing_field(field))?;
            read(value).ok_or_else(|| E::custom(format!("{field} is not what it should be")))
        }

        fn text<E: Error>(&self, field: &'static str) -> Result<String, E> {
            self.get(field, |value| match value {
                MetadataValue::String(text) => Some(text.clone()),
                _ => None,
            })
        }

        fn whole<E: Error>(&self, field: &'static str) -> Result<i64, E> {
            self.get(field, |value| match value {
                MetadataValue::Integer(number) => Some(*number),
                _ => None,
            })
        }

        fn count<T, E>(&self, field: &'static str) -> Result<T, E>
        where
            T: TryFrom<i64> + TryFrom<u64>,
            E: Error,
        {
            self.get(field, |value| match value {
                MetadataValue::Integer(number) => T::try_from(*number).ok(),
                MetadataValue::Unsigned(number) => T::try_from(*number).ok(),
                _ => None,
            })
        }

        /// JSON writes a number that is not finite as `null`.
        fn number<E: Error>(&self, field: &'static str) -> Result<f64, E> {
            self.get(field, |value| match value {
                MetadataValue::Null => Some(f64::NAN),
                MetadataValue::String(_) => None,
                number => number.as_f64(),
            })
        }
    }

    impl<'de> Deserialize<'de> for ExclusionReason {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let fields = Fields(Metadata::deserialize(deserializer)?);
            let reason: String = fields.text("reason")?;
            Ok(match reason.as_str() {
                "BudgetExceeded" => Self::BudgetExceeded {
                    item_tokens: fields.whole("item_tokens")?,
                    available_tokens: fields.whole("available_tokens")?,
                    outcompeted: fields.0.get("outcompeted") == Some(&MetadataValue::Bool(true)),
                },
                "ScoredTooLow" => Self::ScoredTooLow {
                    score: fields.number("score")?,
                    threshold: fields.number("threshold")?,
                },
                "Deduplicated" => Self::Deduplicated {
                    deduplicated_against: fields.text("deduplicated_against")?.into(),
                },
                "NearDuplicate" => Self::NearDuplicate {
                    near_duplicate_of: fields.text("near_duplicate_of")?.into(),
                    shared: fields.count("shared")?,
                    total: fields.count("own")?,
                },
                "QuotaCapExceeded" => Self::QuotaCapExceeded {
                    kind: fields.text("kind")?,
                    cap: fields.whole("cap")?,
                    actual: fields.whole("actual")?,
                },
                "QuotaRequireDisplaced" => Self::QuotaRequireDisplaced {
                    displaced_by_kind: fields.text("displaced_by_kind")?,
                },
                "NegativeTokens" => Self::NegativeTokens { tokens: fields.whole("tokens")? },
                "PinnedOverride" => {
                    Self::PinnedOverride { displaced_by: fields.text("displaced_by")?.into() }
                }
                "Filtered" => Self::Filtered { filter_name: fields.text("filter_name")? },
                "CountCapExceeded" => Self::CountCapExceeded {
                    kind: fields.text("kind")?,
                    cap: fields.count("cap")?,
                    count: fields.count("count")?,
                },
                "DocumentCapExceeded" => Self::DocumentCapExceeded {
                    document: fields.text("document")?,
                    cap: fields.count("cap")?,
                    count: fields.count("count")?,
                },
                "GroupExcluded" => Self::GroupExcluded {
                    group: fields.text("group")?,
                    cause: fields.text("cause")?,
                },
                "RenderedOverBudget" => Self::RenderedOverBudget {
                    rendered_tokens: fields.whole("rendered_tokens")?,
                    target_tokens: fields.whole("target_tokens")?,
                },
                "Refused" => Self::RejectedByFormat { rule: fields.text("rule")? },
                _ => Self::Unknown { reason },
            })
        }
    }
}
