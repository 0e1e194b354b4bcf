//! The reasons for which an item is selected or dropped, as data.
//!
//! One list declares each [`ExclusionReason`] with its fields, its text and its name in reports. The macro derives the
//! rest from it: the fieldless [`ExclusionVariant`], names, and reading. A derived `Deserialize` would not do: a known
//! reason must have its fields, while of an unknown reason only the name is kept.

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
    /// It is pinned, or in a group with a pinned member.
    Pinned,
    /// It costs nothing.
    ZeroToken,
    /// It was selected in a shorter form, because the whole item did not fit.
    Shortened,
    /// It is kept, or in a group with a kept member, and is sent in its last form.
    Kept,
    /// A reason of another implementation.
    #[cfg_attr(feature = "serde", serde(other))]
    Unknown,
}

impl InclusionReason {
    /// Returns the name that reports use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scored => "Scored",
            Self::Pinned => "Pinned",
            Self::ZeroToken => "ZeroToken",
            Self::Shortened => "Shortened",
            Self::Kept => "Kept",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for InclusionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the name that reports use for a variant or a field: its own, unless another one is declared.
macro_rules! report_name {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $report_name:literal) => {
        $report_name
    };
}

/// Declares the reasons: `Variant = "name in reports" { field = "name in reports": type }`.
macro_rules! exclusion_reasons {
    ($(
        $(#[$docs:meta])*
        $variant:ident $(= $name:literal)? {
            $($(#[$field_docs:meta])* $field:ident $(= $field_name:literal)?: $type:ty,)+
        }
    )+) => {
        /// Why an item is not in the selection, with the numbers.
        #[derive(Clone, Debug, PartialEq, thiserror::Error)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[cfg_attr(feature = "serde", serde(tag = "reason"))]
        #[non_exhaustive]
        pub enum ExclusionReason {
            $(
                $(#[$docs])*
                $(#[cfg_attr(feature = "serde", serde(rename = $name))])?
                $variant {
                    $(
                        $(#[$field_docs])*
                        $(#[cfg_attr(feature = "serde", serde(rename = $field_name))])?
                        $field: $type,
                    )+
                },
            )+
            /// A reason of another implementation, of which only the name is kept.
            #[cfg_attr(feature = "serde", serde(untagged))]
            #[error("{reason}")]
            Unknown {
                /// Its name.
                reason: String,
            },
        }

        /// An [`ExclusionReason`] without its numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ExclusionVariant {
            $(#[doc = concat!("[`ExclusionReason::", stringify!($variant), "`]")] $variant,)+
            /// [`ExclusionReason::Unknown`], regardless of its name.
            Unknown,
        }

        impl ExclusionVariant {
            /// Returns the name that reports use.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => report_name!($variant $($name)?),)+
                    Self::Unknown => "Unknown",
                }
            }
        }

        impl ExclusionReason {
            /// Returns the reason without its numbers.
            pub fn variant(&self) -> ExclusionVariant {
                match self {
                    $(Self::$variant { .. } => ExclusionVariant::$variant,)+
                    Self::Unknown { .. } => ExclusionVariant::Unknown,
                }
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for ExclusionReason {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let fields = crate::Metadata::deserialize(deserializer)?;
                let reason: String = wire::field(&fields, "reason")?;
                Ok(match reason.as_str() {
                    $(report_name!($variant $($name)?) => Self::$variant {
                        $($field: wire::field(&fields, report_name!($field $($field_name)?))?,)+
                    },)+
                    _ => Self::Unknown { reason },
                })
            }
        }
    };
}

exclusion_reasons! {
    /// It did not fit.
    #[error(
        "BudgetExceeded: {item_tokens} tokens requested, {available_tokens} available{}",
        match (*outcompeted, *item_tokens) {
            (true, _) => "; it would fit, but was not chosen",
            (false, 0) => "; a budget of 0 selects nothing",
            _ => "",
        }
    )]
    BudgetExceeded {
        /// Its tokens; of a group, those of all members.
        item_tokens: i64,
        /// The remaining budget.
        available_tokens: i64,
        /// Whether it fitted the remaining budget, but not the slicer's best choice.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
        outcompeted: bool,
    }
    /// It scored below a threshold. Built-in components do not use this reason.
    #[error("ScoredTooLow: score {score}, threshold {threshold}")]
    ScoredTooLow {
        /// Its score.
        score: f64,
        /// The threshold.
        threshold: f64,
    }
    /// Another item with the same content was kept.
    #[error("Deduplicated: another item with the same content was kept")]
    Deduplicated {
        /// The content that was kept.
        deduplicated_against: Arc<str>,
    }
    /// A higher-ranked item contains too much of it. That item need not be selected.
    #[error("NearDuplicate: {shared} of its {total} shingles are in an item that ranks higher")]
    NearDuplicate {
        /// The content that was kept.
        near_duplicate_of: Arc<str>,
        /// The number of its shingles that occur there. Of an item of fewer than five words, of its words; if both are
        /// passages of one document, of its bytes.
        shared: u64,
        /// The number of its shingles, words or bytes.
        total = "own": u64,
    }
    /// It scored below the relevance floor.
    #[error("BelowFloor: score {score}, floor {floor}")]
    BelowFloor {
        /// Its score; of a group, that of its best member.
        score: f64,
        /// The lowest score that stays.
        floor: f64,
    }
    /// Its kind exceeded a share of the budget. Built-in components do not use this reason.
    #[error("QuotaCapExceeded: kind {kind} would be at {actual}, its cap is {cap}")]
    QuotaCapExceeded {
        /// The kind.
        kind: String,
        /// The cap.
        cap: i64,
        /// The value with this item.
        actual: i64,
    }
    /// Another kind requires its budget. Built-in components do not use this reason.
    #[error("QuotaRequireDisplaced: kind {displaced_by_kind} requires the room")]
    QuotaRequireDisplaced {
        /// The other kind.
        displaced_by_kind: String,
    }
    /// Its token count is negative.
    #[error("NegativeTokens: {tokens} tokens")]
    NegativeTokens {
        /// The count.
        tokens: i64,
    }
    /// It would fit if no item were pinned.
    #[error("PinnedOverride: it would fit the target if no item were pinned")]
    PinnedOverride {
        /// The content of the first pinned item.
        displaced_by: Arc<str>,
    }
    /// A filter dropped it. Built-in components do not use this reason.
    #[error("Filtered: by filter {filter_name}")]
    Filtered {
        /// The filter.
        filter_name: String,
    }
    /// The selection has the maximum number of items of its kind.
    #[error("CountCapExceeded: {count} of kind {kind} selected, its cap is {cap}")]
    CountCapExceeded {
        /// The kind.
        kind: String,
        /// The maximum.
        cap: usize,
        /// The number when the slicer reached this item.
        count: usize,
    }
    /// The selection has the maximum number of passages of its document.
    #[error("DocumentCapExceeded: {count} of document {document} selected, its cap is {cap}")]
    DocumentCapExceeded {
        /// The document.
        document: String,
        /// The maximum.
        cap: usize,
        /// The number when the slicer reached this item.
        count: usize,
    }
    /// Another member of its group is invalid, and groups are dropped together.
    #[error("GroupExcluded: another member of group {group} is out for {cause}")]
    GroupExcluded {
        /// The group.
        group: String,
        /// The name of the other member's reason.
        cause: String,
    }
    /// The rendered selection exceeded the target, and this item had the lowest rank.
    #[error(
        "RenderedOverBudget: the text of all would have {rendered_tokens} tokens, the target is {target_tokens}"
    )]
    RenderedOverBudget {
        /// The tokens of the whole selection, rendered.
        rendered_tokens: i64,
        /// The target.
        target_tokens: i64,
    }
    /// The format that selections are sent in has no valid position for it.
    #[error("Refused: {rule}")]
    RejectedByFormat = "Refused" {
        /// The rule of the format.
        rule: String,
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
    /// Returns the name that reports use.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { reason } => reason,
            known => known.variant().name(),
        }
    }
}

#[cfg(feature = "serde")]
mod wire {
    //! Reads the fields of a reason, and names a field that is missing or invalid.

    use std::sync::Arc;

    use serde::de::Error;

    use crate::{Metadata, MetadataValue};

    pub(super) trait Field: Sized {
        fn read(value: &MetadataValue) -> Option<Self>;

        /// Returns the value of a field that is absent, if it is optional.
        fn absent() -> Option<Self> {
            None
        }
    }

    pub(super) fn field<T: Field, E: Error>(fields: &Metadata, name: &'static str) -> Result<T, E> {
        match fields.get(name) {
            Some(value) => T::read(value).ok_or_else(|| {
                E::custom(format!("the field {name} has a wrong type or is out of range"))
            }),
            None => T::absent().ok_or_else(|| E::missing_field(name)),
        }
    }

    macro_rules! fields {
        ($($($type:ty),+ => $read:expr;)+) => {
            $($(impl Field for $type {
                fn read(value: &MetadataValue) -> Option<Self> {
                    $read(value)
                }
            })+)+
        };
    }

    fields! {
        String, Arc<str> => |value: &MetadataValue| Some(value.as_str()?.into());
        i64, u64, usize => |value: &MetadataValue| value.as_integer()?.try_into().ok();
    }

    impl Field for f64 {
        fn read(value: &MetadataValue) -> Option<Self> {
            match value {
                // JSON writes a number that is not finite as `null`.
                MetadataValue::Null => Some(Self::NAN),
                MetadataValue::String(_) => None,
                number => number.as_f64(),
            }
        }
    }

    impl Field for bool {
        fn read(value: &MetadataValue) -> Option<Self> {
            Some(*value == MetadataValue::Bool(true))
        }

        fn absent() -> Option<Self> {
            Some(false)
        }
    }
}
