//! Upper bounds on token counts, for models whose vocabulary is not published.

use pannier_core::TokenCounter;
use pannier_core::item::Exactness;

use crate::TokenError;

/// The count of another counter times a factor, rounded up.
///
/// [`calibrate`](crate::calibrate) computes a factor from texts and the counts that a provider reported for them.
#[derive(Debug)]
pub struct UpperBound {
    name: String,
    inner: Box<dyn TokenCounter>,
    /// The factor in thousandths: integer arithmetic gives the same count on every platform.
    thousandths: u64,
}

impl UpperBound {
    /// Multiplies the counts of `inner` by `factor`, from 1 to 100, rounded up to three decimals.
    ///
    /// # Errors
    ///
    /// [`TokenError::Factor`] if the factor is not between 1 and 100.
    pub fn new(inner: impl TokenCounter + 'static, factor: f64) -> Result<Self, TokenError> {
        if !(1.0..=100.0).contains(&factor) {
            return Err(TokenError::Factor { factor });
        }
        let thousandths = (factor * 1_000.0).ceil() as u64;
        let name = format!("{} x {}", inner.name(), thousandths as f64 / 1_000.0);
        Ok(Self { name, inner: Box::new(inner), thousandths })
    }

    /// Returns `count` times the factor, rounded up.
    fn apply_factor(&self, count: usize) -> usize {
        let scaled = (count as u128 * u128::from(self.thousandths)).div_ceil(1_000);
        usize::try_from(scaled).unwrap_or(usize::MAX)
    }

    /// Returns the largest count of the inner counter that is within `limit` after scaling.
    fn inner_limit(&self, limit: usize) -> usize {
        let inner = limit as u128 * 1_000 / u128::from(self.thousandths);
        usize::try_from(inner).unwrap_or(usize::MAX)
    }
}

impl TokenCounter for UpperBound {
    fn name(&self) -> &str {
        &self.name
    }

    fn exactness(&self) -> Exactness {
        Exactness::UpperBound
    }

    fn count(&self, text: &str) -> usize {
        self.apply_factor(self.inner.count(text))
    }

    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        self.inner.count_up_to(text, self.inner_limit(limit)).map(|count| self.apply_factor(count))
    }

    fn max_count(&self, bytes: usize) -> Option<usize> {
        self.inner.max_count(bytes).map(|count| self.apply_factor(count))
    }

    fn count_distinct(&self, texts: &[&str]) -> Vec<usize> {
        let counts = self.inner.count_distinct(texts).into_iter();
        counts.map(|count| self.apply_factor(count)).collect()
    }

    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        self.inner.truncate(text, self.inner_limit(limit))
    }
}
