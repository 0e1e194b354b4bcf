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

/// Compares `counter` with reported token counts. Skips texts that it counts as 0 tokens.
///
/// # Errors
///
/// [`TokenError::NoPairs`] if no text remains.
pub fn calibrate<'t>(
    counter: &dyn TokenCounter,
    pairs: impl IntoIterator<Item = (&'t str, u64)>,
) -> Result<Calibration, TokenError> {
    let (mut reported_sum, mut counted_sum, mut count, mut bound) =
        (0_u128, 0_u128, 0_usize, 0_u128);
    for (text, reported) in pairs {
        let counted = counter.count(text) as u128;
        if counted == 0 {
            continue;
        }
        reported_sum += u128::from(reported);
        counted_sum += counted;
        count += 1;
        bound = bound.max((u128::from(reported) * 1_000).div_ceil(counted));
    }
    if count == 0 {
        return Err(TokenError::NoPairs);
    }
    Ok(Calibration {
        pairs: count,
        mean: reported_sum as f64 / counted_sum as f64,
        bound: bound as f64 / 1_000.0,
        covered_share: 0.05_f64.powf(1.0 / count as f64),
    })
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
