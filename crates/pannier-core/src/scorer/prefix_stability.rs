//! Scores by the position in the previous prompt.

use super::{Pool, Scorer};
use crate::{Error, PreviousPrompt};

/// A bonus for items of the previous prompt: 1 for the first item, linearly less for each later one, 0 for new items.
///
/// Earlier items get more, because a provider can reuse an item only if everything before it is unchanged. Combine this
/// scorer with others, by weight. Without a previous prompt, all scores are 0.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::item::PreviousPrompt;
/// use pannier_core::score::{Pool, PrefixStabilityScorer};
///
/// let items = [ContextItem::new("first", 1)?, ContextItem::new("new", 1)?];
/// let scorer = PrefixStabilityScorer::new(PreviousPrompt::new(["first", "second"]));
/// assert_eq!(Pool::new(&items).scores(&scorer)?, [1.0, 0.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PrefixStabilityScorer {
    previous: PreviousPrompt,
}

impl PrefixStabilityScorer {
    /// Creates a scorer for a previous prompt.
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
        let positions = self.previous.positions(pool.items().iter().map(|item| item.content()));
        for (score, position) in scores.iter_mut().zip(positions) {
            *score = position.map_or(0.0, |position| (sent - position) as f64 / sent as f64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextItem;

    #[test]
    fn earlier_positions_score_higher_and_equal_contents_get_one_each() {
        let items = ["new", "b", "a", "a", "a"].map(|text| ContextItem::new(text, 1).unwrap());
        let scorer = PrefixStabilityScorer::new(PreviousPrompt::new(["a", "b", "a", "gone"]));
        assert_eq!(Pool::new(&items).scores(&scorer).unwrap(), [0.0, 0.75, 1.0, 0.5, 0.0]);
        let nothing_sent = PrefixStabilityScorer::default();
        assert_eq!(Pool::new(&items).scores(&nothing_sent).unwrap(), [0.0; 5]);
    }
}
