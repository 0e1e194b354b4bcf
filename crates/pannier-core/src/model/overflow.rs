//! What to do when a selection is larger than its target.

/// What happens when pinned and selected items together exceed the target.
///
/// Built-in slicers stay within their budget, so this decides about pinned items above the target,
/// about counts that were promised whatever they cost, and about slicers of your own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum OverflowStrategy {
    /// Fail with [`Error::OverTarget`](crate::Error::OverTarget).
    #[default]
    Throw,
    /// Drop what does not fit, lowest scores first; pinned items stay.
    Truncate,
    /// Keep everything, and report it as an [`OverflowEvent`](crate::OverflowEvent).
    Proceed,
}
