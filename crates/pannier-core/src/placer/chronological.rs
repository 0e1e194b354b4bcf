use super::{Placer, Placing};
use crate::Error;

/// Oldest first, as a conversation reads. Items without a timestamp come last, in their order.
///
/// That holds for pinned items too: give a system prompt a timestamp before the first message, or it
/// will stand at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChronologicalPlacer;

impl Placer for ChronologicalPlacer {
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        let mut keys: Vec<_> = items
            .iter()
            .zip(0_u32..)
            .map(|(placing, position)| {
                let timestamp = placing.item.timestamp();
                (timestamp.is_none(), timestamp, position)
            })
            .collect();
        keys.sort_unstable();
        Ok(keys.into_iter().map(|(_, _, position)| position).collect())
    }
}
