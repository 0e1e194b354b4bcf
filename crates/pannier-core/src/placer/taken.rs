use super::{InputOrder, Placer};
use crate::ScoredItem;

/// In the order in which the slicer took them, pinned items first.
///
/// For slicers whose order means something: [`DocumentSlice`](crate::DocumentSlice) counts a heading at every change of
/// document in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakenPlacer;

impl Placer for TakenPlacer {
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
        (0..items.len() as u32).collect()
    }

    fn input_order(&self) -> InputOrder {
        InputOrder::Taken
    }
}
