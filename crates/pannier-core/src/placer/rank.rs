use super::Placer;
use crate::{ScoredItem, order};

/// Best first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankPlacer;

impl Placer for RankPlacer {
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
        order::rank(items.iter().map(|scored| scored.score))
    }
}
