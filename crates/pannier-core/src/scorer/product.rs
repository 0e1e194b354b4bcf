//! Several scorers as one: the product.

use std::ops::Mul;

use super::children::Children;
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
    children: Children,
}

impl ProductScorer {
    /// Starts a product.
    pub fn builder() -> ProductScorerBuilder {
        ProductScorerBuilder(Vec::new())
    }
}

impl Scorer for ProductScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        self.children.score(1.0, Mul::mul, pool, scores)
    }

    fn name(&self) -> &str {
        "product"
    }

    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        self.children.explain(self.name(), 1.0, Mul::mul, (pool, item))
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
        Ok(ProductScorer { children: Children::new("ProductScorer", self.0)? })
    }
}

opaque_debug!(ProductScorer, ProductScorerBuilder);
