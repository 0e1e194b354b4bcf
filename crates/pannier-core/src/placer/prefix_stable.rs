use super::{Placer, Placing};
use crate::{Error, PreviousPrompt};

/// What was sent before first, in the order it was sent, so that the beginning stays as it was; then everything
/// else, as another placer orders it.
#[derive(Clone, Debug, Default)]
pub struct PrefixStablePlacer<P> {
    previous: PreviousPrompt,
    others: P,
}

impl<P: Placer> PrefixStablePlacer<P> {
    /// A placer that knows what was sent, and leaves the others to another one.
    pub fn new(previous: PreviousPrompt, others: P) -> Self {
        Self { previous, others }
    }
}

impl<P: Placer> Placer for PrefixStablePlacer<P> {
    fn place(&self, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
        let contents = items.iter().map(|placing| placing.item.content());
        let previous: Vec<Option<usize>> = self.previous.positions(contents).collect();
        let mut sent: Vec<(usize, u32)> =
            previous.iter().zip(0..).filter_map(|(before, now)| Some(((*before)?, now))).collect();
        sent.sort_unstable();
        let others = self.others.place(items)?;
        // What the other placer gets wrong is checked where its result is used.
        let is_new = |position: &u32| previous.get(*position as usize).is_none_or(Option::is_none);
        let sent = sent.into_iter().map(|(_, position)| position);
        Ok(sent.chain(others.into_iter().filter(is_new)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, RankPlacer, ScoredItem};

    #[test]
    fn what_was_sent_keeps_its_order_and_comes_first() {
        let items = ["new", "b", "better", "a"].map(|text| ContextItem::new(text, 1).unwrap());
        let scores = [0.3, 0.9, 0.4, 0.1];
        let scored: Vec<Placing<'_>> = items
            .iter()
            .zip(scores)
            .map(|(item, score)| ScoredItem { item, score }.into())
            .collect();
        let placer = PrefixStablePlacer::new(PreviousPrompt::new(["a", "gone", "b"]), RankPlacer);
        assert_eq!(placer.place(&scored).unwrap(), [3, 1, 2, 0]);
    }
}
