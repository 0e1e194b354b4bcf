//! Scores by what the caller already knows.

use super::{Pool, Scorer, score_independently};
use crate::Error;

/// The item's own hint, clamped to 0..1; no hint, or one that is not a finite number, scores 0.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{Pool, ReflexiveScorer};
///
/// let item = |hint| ContextItem::builder("passage", 1).future_relevance_hint(hint).build();
/// let items = [item(0.84)?, item(1.7)?, ContextItem::new("no hint", 1)?];
/// assert_eq!(Pool::new(&items).scores(&ReflexiveScorer)?, [0.84, 1.0, 0.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReflexiveScorer;

impl Scorer for ReflexiveScorer {
    fn name(&self) -> &str {
        "reflexive"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_independently(pool, scores, |item| match item.future_relevance_hint() {
            Some(hint) if hint.is_finite() => hint.clamp(0.0, 1.0),
            _ => 0.0,
        });
        Ok(())
    }
}
