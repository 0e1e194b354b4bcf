//! Several scorers as one: the product.

use super::{Pool, Scorer};
use crate::Error;

/// The product of other scorers, in their order.
///
/// This is what makes a multiplier multiply: a [`MetadataKeyScorer`](super::MetadataKeyScorer) with
/// a boost of 1.5 raises a score by half here, while in a composite it is one more term of the
/// average.
pub struct ProductScorer {
    children: Vec<Box<dyn Scorer>>,
}

impl ProductScorer {
    /// The product of these scorers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if there is none.
    pub fn new(children: impl IntoIterator<Item = Box<dyn Scorer>>) -> Result<Self, Error> {
        let children: Vec<_> = children.into_iter().collect();
        if children.is_empty() {
            let problem = "it has no scorers; add at least one".to_owned();
            return Err(Error::InvalidScorer { scorer: "ProductScorer", problem });
        }
        Ok(Self { children })
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
}
