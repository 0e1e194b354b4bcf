//! In which order the selected items are sent.

mod chronological;
mod document;
mod prefix_stable;
mod rank;
mod slice_order;
mod u_shaped;

pub use chronological::ChronologicalPlacer;
pub use document::DocumentPlacer;
pub use prefix_stable::PrefixStablePlacer;
pub use rank::RankPlacer;
pub use slice_order::SliceOrderPlacer;
pub use u_shaped::UShapedPlacer;

use crate::{ContextItem, Error, Level, ScoredItem, SectionId};

/// A selected item, as a placer sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Placing<'a> {
    /// The item.
    pub item: &'a ContextItem,
    /// Its score; 1 if it is pinned.
    pub score: f64,
    /// The form in which it is sent.
    pub level: Level,
    /// The section of the layout that it is sent in.
    pub section: SectionId,
    /// Its position in the order in which the slicer took items; `None` if it is pinned.
    pub taken: Option<u32>,
}

impl<'a> From<ScoredItem<'a>> for Placing<'a> {
    fn from(ScoredItem { item, score }: ScoredItem<'a>) -> Self {
        Self { item, score, level: Level::WHOLE, section: SectionId::NONE, taken: None }
    }
}

/// Orders the selected items.
///
/// A placer only orders. It returns the positions of the items it was given, each exactly once;
/// the pipeline checks that.
pub trait Placer: Send + Sync {
    /// Returns the positions of `items` in the order they should be sent.
    ///
    /// Pinned items come first, with a score of 1, then the others in descending order of score.
    ///
    /// # Errors
    ///
    /// Any error that keeps the placer from ordering; the run fails with it.
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error>;
}

forward! {
    Placer {
        fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error>;
    }
}
