use super::{Placer, Placing};
use crate::{Error, order};

/// Best first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankPlacer;

impl Placer for RankPlacer {
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        Ok(positions_by_score(items))
    }
}

pub(super) fn positions_by_score(items: &[Placing<'_>]) -> Vec<u32> {
    order::positions_by_score(items.iter().map(|placing| placing.score))
}
