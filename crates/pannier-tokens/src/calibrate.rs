//! Calibration of a counter against the token counts that a provider reports.
//!
//! The bound is the largest ratio of reported to counted tokens. It is distribution-free: the maximum of n
//! independent ratios exceeds a fraction p of all ratios with confidence 1 - p^n (a one-sided tolerance interval), so
//! the number of pairs alone determines how far to trust it.

use pannier_core::TokenCounter;

use crate::TokenError;

/// The ratios of reported to counted tokens over a set of texts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The number of texts that were compared.
    pub pairs: usize,
    /// Reported tokens divided by counted tokens, over all texts.
    pub mean: f64,
    /// The largest ratio of a single text, rounded up to three decimals.
    pub bound: f64,
    /// The fraction (0–1) of similar texts that the bound covers, with 95 % confidence.
    pub covered_share: f64,
}

/// The sums of a calibration, to which pairs are added one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalibrationSums {
    /// The number of pairs.
    pub pairs: u64,
    /// The reported tokens of all pairs.
    pub reported: u64,
    /// The counted tokens of all pairs.
    pub counted: u64,
    /// The largest ratio of a pair, in thousandths, rounded up.
    pub bound_permille: u64,
}

impl CalibrationSums {
    /// Adds a pair. A pair with 0 counted tokens is skipped.
    pub fn add(&mut self, counted: u64, reported: u64) {
        if counted == 0 {
            return;
        }
        self.pairs = self.pairs.saturating_add(1);
        self.reported = self.reported.saturating_add(reported);
        self.counted = self.counted.saturating_add(counted);
        let ratio = (u128::from(reported) * 1_000).div_ceil(counted.into());
        self.bound_permille = self.bound_permille.max(u64::try_from(ratio).unwrap_or(u64::MAX));
    }

    /// Returns the calibration by all pairs, or `None` if there is no pair.
    pub fn calibration(&self) -> Option<Calibration> {
        (self.pairs > 0).then(|| Calibration {
            pairs: usize::try_from(self.pairs).unwrap_or(usize::MAX),
            mean: self.reported as f64 / self.counted as f64,
            bound: self.bound_permille as f64 / 1_000.0,
            covered_share: 0.05_f64.powf(1.0 / self.pairs as f64),
        })
    }
}

/// Compares `counter` with reported token counts. Skips texts that it counts as 0 tokens.
///
/// # Errors
///
/// [`TokenError::NoPairs`] if no text remains.
pub fn calibrate<'t>(
    counter: &dyn TokenCounter,
    pairs: impl IntoIterator<Item = (&'t str, u64)>,
) -> Result<Calibration, TokenError> {
    let mut sums = CalibrationSums::default();
    for (text, reported) in pairs {
        sums.add(counter.count(text) as u64, reported);
    }
    sums.calibration().ok_or(TokenError::NoPairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BytesOverFour;

    #[test]
    fn the_bound_covers_every_pair_and_a_fraction_of_other_texts() {
        let texts: Vec<String> = (1..=59).map(|i| "x".repeat(4 * i)).collect();
        let pairs = texts.iter().zip(1_u64..).map(|(text, i)| (text.as_str(), i + i / 3));
        let calibration = calibrate(&BytesOverFour, pairs).unwrap();
        assert_eq!((calibration.pairs, calibration.bound), (59, 1.334));
        assert!((calibration.mean - 1.33).abs() < 0.02);
        // 59 is the smallest sample that covers 95 % with 95 % confidence.
        assert!((calibration.covered_share - 0.95).abs() < 0.001, "{}", calibration.covered_share);
        assert!(calibrate(&BytesOverFour, [("", 3)]).is_err());
    }
}
