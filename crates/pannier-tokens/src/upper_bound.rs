//! Bounds for models whose vocabulary is not published.

use std::fmt;

use pannier_core::{Exactness, TokenCounter};

use crate::TokenError;

/// Another counter times a factor, rounded up.
///
/// How good the bound is depends on the factor and the texts; [`calibrate`](crate::calibrate) finds one from texts
/// whose counts a provider has told.
pub struct UpperBound {
    name: String,
    inner: Box<dyn TokenCounter>,
    /// The factor in thousandths, so that the same text has the same count everywhere.
    thousandths: u64,
}

impl UpperBound {
    /// Counts as `inner` does, times a factor from 1 to 100, of which three decimals are used.
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

    fn scaled(&self, count: usize) -> usize {
        let scaled = (count as u128 * u128::from(self.thousandths)).div_ceil(1_000);
        usize::try_from(scaled).unwrap_or(usize::MAX)
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
        self.scaled(self.inner.count(text))
    }

    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        self.inner.count_up_to(text, self.room(limit)).map(|count| self.scaled(count))
    }

    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        self.inner.truncate(text, self.room(limit))
    }
}

impl UpperBound {
    /// The most that the inner counter may count for a limit here.
    fn room(&self, limit: usize) -> usize {
        let room = limit as u128 * 1_000 / u128::from(self.thousandths);
        usize::try_from(room).unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for UpperBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpperBound").field("name", &self.name).finish_non_exhaustive()
    }
}
