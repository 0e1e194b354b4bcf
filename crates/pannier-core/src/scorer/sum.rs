//! Several scorers as one: the sum.

use std::ops::Add;

use super::children::Children;
use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

/// The sum of other scorers, in their order.
///
/// Nothing is divided by the number of scorers, so one more of them never lowers a score: a bonus is
/// added to what an item has, where in a [`CompositeScorer`](super::CompositeScorer) it would share
/// the weight with everything else. Scores may exceed 1.
///
/// ```
/// use pannier_core::{ContextItem, Pool, RecencyScorer, ReflexiveScorer, SumScorer};
///
/// let scorer = SumScorer::builder().add(ReflexiveScorer).add(RecencyScorer).build()?;
/// let item = ContextItem::builder("Yes.", 2)
///     .future_relevance_hint(0.25)
///     .timestamp("2026-03-01T12:00:00Z".parse()?)
///     .build()?;
/// assert_eq!(Pool::new([&item]).scores(&scorer)?, [1.25]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct SumScorer {
    children: Children,
}

impl SumScorer {
    /// Starts a sum.
    pub fn builder() -> SumScorerBuilder {
        SumScorerBuilder(Vec::new())
    }
}

impl Scorer for SumScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        self.children.score(0.0, Add::add, pool, scores)
    }

    fn name(&self) -> &str {
        "sum"
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        self.children.explain(self.name(), 0.0, Add::add, (pool, item))
    }
}

/// Builds a [`SumScorer`]; see [`SumScorer::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct SumScorerBuilder(Vec<Box<dyn Scorer>>);

impl SumScorerBuilder {
    /// Adds a scorer. Scorers are evaluated and added up in the order of these calls.
    #[allow(clippy::should_implement_trait, reason = "it adds a part, as other builders do")]
    pub fn add(mut self, scorer: impl Scorer + 'static) -> Self {
        self.0.push(Box::new(scorer));
        self
    }

    /// Returns the sum.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if there is no scorer.
    pub fn build(self) -> Result<SumScorer, Error> {
        Ok(SumScorer { children: Children::new("SumScorer", self.0)? })
    }
}

opaque_debug!(SumScorer, SumScorerBuilder);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, FnScorer};

    #[test]
    fn children_are_added_up_and_told() {
        let items = [ContextItem::new("four", 4).unwrap(), ContextItem::new("none", 0).unwrap()];
        let tokens = || FnScorer(|item: &ContextItem| item.tokens() as f64);
        let sum = SumScorer::builder().add(tokens()).add(FnScorer(|_: &ContextItem| 0.5));
        let sum = sum.add(tokens()).build().unwrap();
        let pool = Pool::new(&items);
        assert_eq!(pool.scores(&sum).unwrap(), [8.5, 0.5]);
        let told = sum.explain(&pool, 0).unwrap();
        assert_eq!((told.scorer.as_str(), told.score), ("sum", 8.5));
        let parts: Vec<f64> = told.children.iter().map(|child| child.score).collect();
        assert_eq!(parts, [4.0, 0.5, 4.0]);
    }

    #[test]
    fn a_sum_of_nothing_is_refused() {
        let error = SumScorer::builder().build().unwrap_err();
        assert_eq!(error.to_string(), "SumScorer: it has no scorers; add at least one");
    }
}
