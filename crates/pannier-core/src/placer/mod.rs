//! In which order the selected items stand in the window.

mod chronological;
mod document;
mod rank;
mod stable;
mod taken;
mod u_shaped;

use std::sync::Arc;

pub use chronological::ChronologicalPlacer;
pub use document::DocumentPlacer;
pub use rank::RankPlacer;
pub use stable::StablePlacer;
pub use taken::TakenPlacer;
pub use u_shaped::UShapedPlacer;

use crate::ScoredItem;

/// Orders the selected items.
///
/// A placer only orders. It answers with the positions of the items it was given, each exactly once;
/// the pipeline checks that.
pub trait Placer: Send + Sync {
    /// The positions of `items` in the order they should stand.
    ///
    /// Pinned items come first, with a score of 1, then the others in the order that
    /// [`input_order`](Self::input_order) asks for.
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32>;

    /// In which order the items that are not pinned are given.
    fn input_order(&self) -> InputOrder {
        InputOrder::Rank
    }
}

/// In which order a placer is given the items that are not pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputOrder {
    /// In descending order of score, ties in pool order.
    #[default]
    Rank,
    /// In the order in which the slicer took them.
    Taken,
}

macro_rules! forward {
    ($($pointer:ty),+) => {
        $(impl<P: Placer + ?Sized> Placer for $pointer {
            fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
                (**self).place(items)
            }

            fn input_order(&self) -> InputOrder {
                (**self).input_order()
            }
        })+
    };
}

forward!(Box<P>, Arc<P>);
