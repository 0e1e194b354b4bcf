//! Several scorers as one: the weighted average.

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

const NAME: &str = "CompositeScorer";

/// The weighted average of other scorers. Weights are relative: 3 and 1 are 0.75 and 0.25.
///
/// ```
/// use pannier_core::score::{CompositeScorer, KindScorer, RecencyScorer};
///
/// let scorer = CompositeScorer::builder()
///     .add(RecencyScorer, 3.0)
///     .add(KindScorer::default(), 1.0)
///     .build()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct CompositeScorer {
    children: Vec<Child>,
    /// The sum of the children's weights.
    total: f64,
}

struct Child {
    scorer: Box<dyn Scorer>,
    /// As it was given.
    weight: f64,
    /// The weight over the sum of all weights.
    share: f64,
}

impl CompositeScorer {
    /// Starts a composite.
    pub fn builder() -> CompositeScorerBuilder {
        CompositeScorerBuilder(Vec::new())
    }
}

impl Scorer for CompositeScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        scores.fill(0.0);
        let mut part = vec![0.0; scores.len()];
        for child in &self.children {
            child.scorer.score(pool, &mut part)?;
            for (sum, score) in scores.iter_mut().zip(&part) {
                *sum += score * child.share;
            }
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "composite"
    }

    fn max_score(&self) -> f64 {
        self.children.iter().map(|child| child.scorer.max_score() * child.share).sum()
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        let explain = |child: &Child| {
            let part = child.scorer.explain(pool, item)?;
            Ok(part.with_weight(child.weight, self.total))
        };
        let children: Result<Vec<ScoreExplanation>, Error> =
            self.children.iter().map(explain).collect();
        let children = children?;
        let parts = children.iter().zip(&self.children);
        let sum = parts.fold(0.0, |sum, (part, child)| sum + part.score * child.share);
        Ok(ScoreExplanation::new(self.name(), sum).with_children(children))
    }
}

/// Builds a [`CompositeScorer`]; see [`CompositeScorer::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct CompositeScorerBuilder(Vec<(Box<dyn Scorer>, f64)>);

impl CompositeScorerBuilder {
    /// Adds a scorer with its weight. Children are evaluated and summed in the order of these calls.
    pub fn add(mut self, scorer: impl Scorer + 'static, weight: f64) -> Self {
        self.0.push((Box::new(scorer), weight));
        self
    }

    /// Checks the weights and returns the composite.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if there is no child, or a weight is not a finite number above 0.
    pub fn build(self) -> Result<CompositeScorer, Error> {
        if self.0.is_empty() {
            let problem = "it has no scorers; add at least one".to_owned();
            return Err(Error::InvalidScorer { scorer: NAME, problem });
        }
        let mut total = 0.0;
        for (i, (_, weight)) in self.0.iter().enumerate() {
            if !weight.is_finite() || *weight <= 0.0 {
                let problem = format!(
                    "the weight of scorer {i} is {weight}; it must be a finite number above 0"
                );
                return Err(Error::InvalidScorer { scorer: NAME, problem });
            }
            total += weight;
        }
        if !f64::is_finite(total) {
            let problem =
                "the sum of the weights is not a finite number; use smaller ones".to_owned();
            return Err(Error::InvalidScorer { scorer: NAME, problem });
        }
        let children = self.0.into_iter();
        let children =
            children.map(|(scorer, weight)| Child { scorer, weight, share: weight / total });
        Ok(CompositeScorer { children: children.collect(), total })
    }
}

opaque_debug!(CompositeScorer, CompositeScorerBuilder);
