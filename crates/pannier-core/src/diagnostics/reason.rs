//! Reasons, as data.

use std::fmt;

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
        deduplicated_against: String,
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
        displaced_by: String,
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
    /// Another member of its group is invalid, and a group goes together.
    GroupExcluded {
        /// The group.
        group: String,
        /// The name of the other member's reason.
        cause: String,
    },
    /// A reason of another implementation, of which only the name was kept.
    #[cfg_attr(feature = "serde", serde(untagged))]
    Unknown {
        /// Its name.
        reason: String,
    },
}

impl ExclusionReason {
    /// The reason's name, as it is written in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::BudgetExceeded { .. } => "BudgetExceeded",
            Self::ScoredTooLow { .. } => "ScoredTooLow",
            Self::Deduplicated { .. } => "Deduplicated",
            Self::QuotaCapExceeded { .. } => "QuotaCapExceeded",
            Self::QuotaRequireDisplaced { .. } => "QuotaRequireDisplaced",
            Self::NegativeTokens { .. } => "NegativeTokens",
            Self::PinnedOverride { .. } => "PinnedOverride",
            Self::Filtered { .. } => "Filtered",
            Self::CountCapExceeded { .. } => "CountCapExceeded",
            Self::GroupExcluded { .. } => "GroupExcluded",
            Self::Unknown { reason } => reason,
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
            Self::QuotaCapExceeded { kind, cap, actual } => {
                write!(f, ": kind {kind} would be at {actual}, its cap is {cap}")
            }
            Self::QuotaRequireDisplaced { displaced_by_kind } => {
                write!(f, ": kind {displaced_by_kind} requires the room")
            }
            Self::NegativeTokens { tokens } => write!(f, ": {tokens} tokens"),
            Self::PinnedOverride { .. } => write!(f, ": it would fit if no item were pinned"),
            Self::Filtered { filter_name } => write!(f, ": by filter {filter_name}"),
            Self::CountCapExceeded { kind, cap, count } => {
                write!(f, ": {count} of kind {kind} selected, its cap is {cap}")
            }
            Self::GroupExcluded { group, cause } => {
                write!(f, ": another member of group {group} is out for {cause}")
            }
            Self::Unknown { .. } => Ok(()),
        }
    }
}

#[cfg(feature = "serde")]
mod wire {
    //! Reading: a known name must have its fields; an unknown one is kept as a name.

    use serde::de::{Deserialize, Deserializer, Error};

    use super::ExclusionReason;

    /// The fields of all reasons.
    #[derive(serde::Deserialize)]
    struct Fields {
        reason: String,
        item_tokens: Option<i64>,
        available_tokens: Option<i64>,
        #[serde(default)]
        outcompeted: bool,
        score: Option<f64>,
        threshold: Option<f64>,
        deduplicated_against: Option<String>,
        kind: Option<String>,
        cap: Option<i64>,
        actual: Option<i64>,
        count: Option<i64>,
        displaced_by_kind: Option<String>,
        tokens: Option<i64>,
        displaced_by: Option<String>,
        filter_name: Option<String>,
        group: Option<String>,
        cause: Option<String>,
    }

    impl<'de> Deserialize<'de> for ExclusionReason {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            fn need<T, E: Error>(field: &'static str, value: Option<T>) -> Result<T, E> {
                value.ok_or_else(|| E::missing_field(field))
            }
            fn number<E: Error>(field: &'static str, value: Option<i64>) -> Result<usize, E> {
                let number = need(field, value)?;
                usize::try_from(number).map_err(|_| E::custom(format!("{field} is {number}")))
            }
            let fields = Fields::deserialize(deserializer)?;
            Ok(match fields.reason.as_str() {
                "BudgetExceeded" => Self::BudgetExceeded {
                    item_tokens: need("item_tokens", fields.item_tokens)?,
                    available_tokens: need("available_tokens", fields.available_tokens)?,
                    outcompeted: fields.outcompeted,
                },
                "ScoredTooLow" => Self::ScoredTooLow {
                    score: need("score", fields.score)?,
                    threshold: need("threshold", fields.threshold)?,
                },
                "Deduplicated" => Self::Deduplicated {
                    deduplicated_against: need(
                        "deduplicated_against",
                        fields.deduplicated_against,
                    )?,
                },
                "QuotaCapExceeded" => Self::QuotaCapExceeded {
                    kind: need("kind", fields.kind)?,
                    cap: need("cap", fields.cap)?,
                    actual: need("actual", fields.actual)?,
                },
                "QuotaRequireDisplaced" => Self::QuotaRequireDisplaced {
                    displaced_by_kind: need("displaced_by_kind", fields.displaced_by_kind)?,
                },
                "NegativeTokens" => Self::NegativeTokens { tokens: need("tokens", fields.tokens)? },
                "PinnedOverride" => Self::PinnedOverride {
                    displaced_by: need("displaced_by", fields.displaced_by)?,
                },
                "Filtered" => {
                    Self::Filtered { filter_name: need("filter_name", fields.filter_name)? }
                }
                "CountCapExceeded" => Self::CountCapExceeded {
                    kind: need("kind", fields.kind)?,
                    cap: number("cap", fields.cap)?,
                    count: number("count", fields.count)?,
                },
                "GroupExcluded" => Self::GroupExcluded {
                    group: need("group", fields.group)?,
                    cause: need("cause", fields.cause)?,
                },
                _ => Self::Unknown { reason: fields.reason },
            })
        }
    }
}
