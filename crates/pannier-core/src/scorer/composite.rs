//! Several scorers as one: the weighted average.

use super::{Pool, Scorer};
use crate::Error;

const NAME: &str = "CompositeScorer";

/// The weighted average of other scorers. Weights are relative: 3 and 1 are 0.75 and 0.25.
///
/// ```
/// use pannier_core::{CompositeScorer, KindScorer, RecencyScorer};
///
/// let scorer = CompositeScorer::builder()
///     .add(RecencyScorer, 3.0)
///     .add(KindScorer::default(), 1.0)
///     .build()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct CompositeScorer {
    /// Each child with its share; the shares add up to 1.
    children: Vec<(Box<dyn Scorer>, f64)>,
}

impl CompositeScorer {
    /// Starts a composite.
    pub fn builder() -> CompositeScorerBuilder {
        CompositeScorerBuilder(Vec::new())
    }
}

impl Scorer for CompositeScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) {
        scores.fill(0.0);
        let mut part = vec![0.0; scores.len()];
        for (child, share) in &self.children {
            child.score(pool, &mut part);
            for (sum, score) in scores.iter_mut().zip(&part) {
                *sum += score * share;
            }
        }
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
        let mut children = self.0;
        if children.is_empty() {
            let problem = "it has no scorers; add at least one".to_owned();
            return Err(Error::InvalidScorer { scorer: NAME, problem });
        }
        let mut total = 0.0;
        for (i, (_, weight)) in children.iter().enumerate() {
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
        for (_, weight) in &mut children {
            *weight /= total;
        }
        Ok(CompositeScorer { children })
    }
}

opaque_debug!(CompositeScorer, CompositeScorerBuilder);
