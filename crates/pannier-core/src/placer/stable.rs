use super::{InputOrder, Placer};
use crate::{Previous, ScoredItem};

/// What was sent before first, in the order it was sent, so that the beginning stays as it was; then everything
/// else, as another placer orders it.
#[derive(Clone, Debug, Default)]
pub struct StablePlacer<P> {
    previous: Previous,
    others: P,
}

impl<P: Placer> StablePlacer<P> {
    /// A placer that knows what was sent, and leaves the others to another one.
    pub fn new(previous: Previous, others: P) -> Self {
        Self { previous, others }
    }
}

impl<P: Placer> Placer for StablePlacer<P> {
    fn place(&self, items: &[ScoredItem<'_>]) -> Vec<u32> {
        let places = self.previous.places(items.iter().map(|scored| scored.item.content()));
        let places: Vec<Option<usize>> = places.collect();
        let mut sent: Vec<(usize, u32)> =
            places.iter().zip(0..).filter_map(|(place, at)| Some(((*place)?, at))).collect();
        sent.sort_unstable();
        let others = self.others.place(items);
        // What the other placer gets wrong is checked where its answer is used.
        let is_new = |at: &u32| places.get(*at as usize).is_none_or(Option::is_none);
        sent.into_iter().map(|(_, at)| at).chain(others.into_iter().filter(is_new)).collect()
    }

    fn input_order(&self) -> InputOrder {
        self.others.input_order()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, RankPlacer};

    #[test]
    fn what_was_sent_keeps_its_order_and_comes_first() {
        let items = ["new", "b", "better", "a"].map(|text| ContextItem::new(text, 1).unwrap());
        let scores = [0.3, 0.9, 0.4, 0.1];
        let scored: Vec<_> =
            items.iter().zip(scores).map(|(item, score)| ScoredItem { item, score }).collect();
        let placer = StablePlacer::new(Previous::new(["a", "gone", "b"]), RankPlacer);
        assert_eq!(placer.place(&scored), [3, 1, 2, 0]);
    }
}
