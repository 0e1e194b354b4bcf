//! In which order the selected items stand in the window.

mod chronological;
mod rank;
mod stable;
mod u_shaped;

use std::sync::Arc;

pub use chronological::ChronologicalPlacer;
pub use rank::RankPlacer;
pub use stable::StablePlacer;
pub use u_shaped::UShapedPlacer;

use crate::ScoredItem;

/// Orders the selected items.
///
/// A placer only orders. It answers with the positions of the items it was given, each exactly once;
/// the pipeline checks that.
pub trait Placer: Send + Sync {
    /// The positions of `items` in the order they should stand.
    ///
    /// Pinned items come first, with a score of 1, then the others in descending order of score.
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32>;
}

impl<P: Placer + ?Sized> Placer for Box<P> {
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
        (**self).place(items)
    }
}

impl<P: Placer + ?Sized> Placer for Arc<P> {
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
        (**self).place(items)
    }
}
