//! The strategies for a selection above its target.

/// What the pipeline does if pinned and selected items together exceed the target.
///
/// Built-in slicers stay within their budget. A selection can exceed the target by pinned items, by required counts, or
/// by a custom slicer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum OverflowStrategy {
    /// Fail with [`Error::OverTarget`](crate::Error::OverTarget).
    #[default]
    Throw,
    /// Drop items, lowest scores first; never pinned items.
    Truncate,
    /// Keep all items, and report an [`OverflowEvent`](crate::OverflowEvent).
    Proceed,
}
