//! Scores by what was sent before.

use super::{Pool, Scorer};
use crate::{Error, PreviousPrompt};

/// A bonus for what was sent the last time: 1 for what stood first, less and less for what stood behind it, and 0
/// for what was not sent.
///
/// What stands first is worth most, because everything behind it can be used again only if it is still there. Give
/// it a weight beside other scorers; without anything that was sent before, it changes nothing.
#[derive(Clone, Debug, Default)]
pub struct PrefixStabilityScorer {
    previous: PreviousPrompt,
}

impl PrefixStabilityScorer {
    /// A scorer that knows what was sent.
    pub fn new(previous: PreviousPrompt) -> Self {
        Self { previous }
    }
}

impl Scorer for PrefixStabilityScorer {
    fn name(&self) -> &str {
        "stability"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let sent = self.previous.len();
        let places = self.previous.positions(pool.items().iter().map(|item| item.content()));
        for (score, place) in scores.iter_mut().zip(places) {
            *score = place.map_or(0.0, |place| (sent - place) as f64 / sent as f64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextItem;

    #[test]
    fn the_first_is_worth_most_and_equal_contents_take_turns() {
        let items = ["new", "b", "a", "a", "a"].map(|text| ContextItem::new(text, 1).unwrap());
        let scorer = PrefixStabilityScorer::new(PreviousPrompt::new(["a", "b", "a", "gone"]));
        assert_eq!(Pool::new(&items).scores(&scorer).unwrap(), [0.0, 0.75, 1.0, 0.5, 0.0]);
        let nothing_sent = PrefixStabilityScorer::default();
        assert_eq!(Pool::new(&items).scores(&nothing_sent).unwrap(), [0.0; 5]);
    }
}
