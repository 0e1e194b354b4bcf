//! A scorer stretched over the full range.

use super::{Pool, ScoreExplanation, Scorer, leaf};
use crate::Error;

/// Moves the scores of another scorer so that the lowest of the pool is 0 and the highest 1.
///
/// If all of them are equal they carry no information, and everything scores 0.5.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{Pool, ReflexiveScorer, ScaledScorer};
///
/// let item = |hint| ContextItem::builder("passage", 1).future_relevance_hint(hint).build();
/// let items = [item(0.25)?, item(0.5)?, item(0.75)?];
/// assert_eq!(Pool::new(&items).scores(&ScaledScorer::new(ReflexiveScorer))?, [0.0, 0.5, 1.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct ScaledScorer<S> {
    inner: S,
}

impl<S: Scorer> ScaledScorer<S> {
    /// Scales this scorer.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: Scorer> Scorer for ScaledScorer<S> {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        self.inner.score(pool, scores)?;
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        for score in &*scores {
            if *score < lowest {
                lowest = *score;
            }
            if *score > highest {
                highest = *score;
            }
        }
        for score in scores {
            *score = if highest == lowest { 0.5 } else { (*score - lowest) / (highest - lowest) };
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "scaled"
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        Ok(leaf(self, pool, item)?.with_children(vec![self.inner.explain(pool, item)?]))
    }
}

opaque_debug!(ScaledScorer<S>);
