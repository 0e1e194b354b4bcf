use super::{Placer, Placing};
use crate::Error;

/// In the order in which the slicer took them, pinned items first.
///
/// For layouts that send a heading [at every change](crate::Headings::AtEveryChange) of section: the order in which
/// headings were charged is the order in which they are sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SliceOrderPlacer;

impl Placer for SliceOrderPlacer {
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_by_key(|position| items[*position as usize].taken);
        Ok(order)
    }
}
