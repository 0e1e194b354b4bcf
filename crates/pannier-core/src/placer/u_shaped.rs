use super::rank::positions_by_score;
use super::{Placer, Placing};
use crate::Error;

/// Best at both ends, worst in the middle: models attend most to where a window begins and ends.
///
/// The best item stands first, the second best last, the third second, and so on inwards.
#[derive(Clone, Copy, Debug, Default)]
pub struct UShapedPlacer;

impl Placer for UShapedPlacer {
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        let ranked = positions_by_score(items);
        let from_the_start = ranked.iter().step_by(2);
        let from_the_end = ranked.iter().skip(1).step_by(2);
        Ok(from_the_start.chain(from_the_end.rev()).copied().collect())
    }
}
