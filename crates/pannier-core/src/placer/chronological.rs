use super::Placer;
use crate::ScoredItem;

/// Oldest first, as a conversation reads. Items without a timestamp come last, in their order.
///
/// That holds for pinned items too: give a system prompt a timestamp before the first message, or it
/// will stand at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChronologicalPlacer;

impl Placer for ChronologicalPlacer {
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
        let mut keys: Vec<_> = items
            .iter()
            .zip(0_u32..)
            .map(|(scored, position)| {
                let timestamp = scored.item.timestamp();
                (timestamp.is_none(), timestamp, position)
            })
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, _, position)| position).collect()
    }
}
