//! Several scorers as one: the product.

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

/// The product of other scorers, in their order.
///
/// This is what makes a multiplier multiply: a [`MetadataKeyScorer`](super::MetadataKeyScorer) with
/// a boost of 1.5 raises a score by half here, while in a composite it is one more term of the
/// average.
///
/// ```
/// use pannier_core::{MetadataKeyScorer, ProductScorer, ReflexiveScorer};
///
/// let scorer = ProductScorer::builder()
///     .factor(ReflexiveScorer)
///     .factor(MetadataKeyScorer::new("cupel:priority", "high", 1.5)?)
///     .build()?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct ProductScorer {
    children: Vec<Box<dyn Scorer>>,
}

impl ProductScorer {
    /// Starts a product.
    pub fn builder() -> ProductScorerBuilder {
        ProductScorerBuilder(Vec::new())
    }
}

impl Scorer for ProductScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) {
        scores.fill(1.0);
        let mut factor = vec![0.0; scores.len()];
        for child in &self.children {
            child.score(pool, &mut factor);
            for (product, score) in scores.iter_mut().zip(&factor) {
                *product *= score;
            }
        }
    }

    fn name(&self) -> &str {
        "product"
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> ScoreExplanation {
        let children = self.children.iter().map(|child| child.explain(pool, item));
        let children: Vec<ScoreExplanation> = children.collect();
        let product = children.iter().fold(1.0, |product, child| product * child.score);
        ScoreExplanation::new(self.name(), product).with_children(children)
    }
}

/// Builds a [`ProductScorer`]; see [`ProductScorer::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct ProductScorerBuilder(Vec<Box<dyn Scorer>>);

impl ProductScorerBuilder {
    /// Adds a factor. Factors are evaluated and multiplied in the order of these calls.
    pub fn factor(mut self, scorer: impl Scorer + 'static) -> Self {
        self.0.push(Box::new(scorer));
        self
    }

    /// Returns the product.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if there is no factor.
    pub fn build(self) -> Result<ProductScorer, Error> {
        if self.0.is_empty() {
            let problem = "it has no scorers; add at least one".to_owned();
            return Err(Error::InvalidScorer { scorer: "ProductScorer", problem });
        }
        Ok(ProductScorer { children: self.0 })
    }
}

opaque_debug!(ProductScorer, ProductScorerBuilder);
