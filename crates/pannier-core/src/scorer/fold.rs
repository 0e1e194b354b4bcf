//! The sum and the product of other scorers.
//!
//! Children are evaluated one after the other, in the order they were added, and their scores joined from left to right.
//! The order is fixed because floating-point arithmetic depends on it.

use std::ops::{Add, Mul};

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

macro_rules! fold_scorer {
    (
        $(#[$docs:meta])* $scorer:ident: $name:literal, $start:literal, $join:path;
        $(#[$builder_docs:meta])* $builder:ident: $(#[$push_docs:meta])* $push:ident
    ) => {
        $(#[$docs])*
        pub struct $scorer(Vec<Box<dyn Scorer>>);

        impl $scorer {
            /// Starts a scorer without children.
            pub fn builder() -> $builder {
                $builder(Vec::new())
            }
        }

        impl Scorer for $scorer {
            fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
                scores.fill($start);
                let mut part = vec![0.0; scores.len()];
                for child in &self.0 {
                    child.score(pool, &mut part)?;
                    for (joined, score) in scores.iter_mut().zip(&part) {
                        *joined = $join(*joined, *score);
                    }
                }
                Ok(())
            }

            fn name(&self) -> &str {
                $name
            }

            fn max_score(&self) -> f64 {
                self.0.iter().fold($start, |joined, child| $join(joined, child.max_score()))
            }

            fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
                let children = self.0.iter().map(|child| child.explain(pool, item));
                let children = children.collect::<Result<Vec<ScoreExplanation>, Error>>()?;
                let joined = children.iter().fold($start, |joined, child| $join(joined, child.score));
                Ok(ScoreExplanation::new(self.name(), joined).with_children(children))
            }
        }

        $(#[$builder_docs])*
        #[must_use = "a builder does nothing until `build` is called"]
        pub struct $builder(Vec<Box<dyn Scorer>>);

        impl $builder {
            $(#[$push_docs])*
            pub fn $push(mut self, scorer: impl Scorer + 'static) -> Self {
                self.0.push(Box::new(scorer));
                self
            }

            /// Returns the scorer.
            ///
            /// # Errors
            ///
            /// [`Error::InvalidScorer`] if there is no child.
            pub fn build(self) -> Result<$scorer, Error> {
                if self.0.is_empty() {
                    let problem = "it has no scorers; add at least one".to_owned();
                    return Err(Error::InvalidScorer { scorer: stringify!($scorer), problem });
                }
                Ok($scorer(self.0))
            }
        }

        opaque_debug!($scorer, $builder);
    };
}

fold_scorer! {
    /// The sum of other scorers.
    ///
    /// The sum is not divided by the number of scorers, so another scorer never lowers a score: it adds a bonus. In a
    /// [`CompositeScorer`](super::CompositeScorer), it would share the weight with all others. Scores may exceed 1.
    ///
    /// ```
    /// use pannier_core::ContextItem;
    /// use pannier_core::score::{Pool, RecencyScorer, ReflexiveScorer, SumScorer};
    ///
    /// let scorer = SumScorer::builder().add(ReflexiveScorer).add(RecencyScorer).build()?;
    /// let item = ContextItem::builder("Yes.", 2)
    ///     .future_relevance_hint(0.25)
    ///     .timestamp("2026-03-01T12:00:00Z".parse()?)
    ///     .build()?;
    /// assert_eq!(Pool::new([&item]).scores(&scorer)?, [1.25]);
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    SumScorer: "sum", 0.0, Add::add;
    /// Builds a [`SumScorer`]; see [`SumScorer::builder`].
    SumScorerBuilder:
    /// Adds a scorer.
    #[allow(clippy::should_implement_trait, reason = "it adds a scorer, as other builders do")]
    add
}

fold_scorer! {
    /// The product of other scorers.
    ///
    /// A product is the scorer for multipliers: in it, a [`MetadataKeyScorer`](super::MetadataKeyScorer) with a boost of
    /// 1.5 raises a score by half. In a composite, the boost would be one more term of the average.
    ///
    /// ```
    /// use pannier_core::score::{MetadataKeyScorer, ProductScorer, ReflexiveScorer};
    ///
    /// let scorer = ProductScorer::builder()
    ///     .factor(ReflexiveScorer)
    ///     .factor(MetadataKeyScorer::new("cupel:priority", "high", 1.5)?)
    ///     .build()?;
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    ProductScorer: "product", 1.0, Mul::mul;
    /// Builds a [`ProductScorer`]; see [`ProductScorer::builder`].
    ProductScorerBuilder:
    /// Adds a factor.
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, FnScorer};

    #[test]
    fn a_sum_adds_and_explains_its_children() {
        let items = [ContextItem::new("four", 4).unwrap(), ContextItem::new("none", 0).unwrap()];
        let tokens = || FnScorer(|item: &ContextItem| item.tokens() as f64);
        let sum = SumScorer::builder().add(tokens()).add(FnScorer(|_: &ContextItem| 0.5));
        let sum = sum.add(tokens()).build().unwrap();
        let pool = Pool::new(&items);
        assert_eq!(pool.scores(&sum).unwrap(), [8.5, 0.5]);
        let explanation = sum.explain(&pool, 0).unwrap();
        assert_eq!((explanation.scorer.as_str(), explanation.score), ("sum", 8.5));
        let children: Vec<f64> = explanation.children.iter().map(|child| child.score).collect();
        assert_eq!(children, [4.0, 0.5, 4.0]);
    }

    #[test]
    fn a_sum_without_children_is_refused() {
        let error = SumScorer::builder().build().unwrap_err();
        assert_eq!(error.to_string(), "SumScorer: it has no scorers; add at least one");
    }
}
