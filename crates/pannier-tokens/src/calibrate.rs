//! A factor from experience.
//!
//! A provider tells how many tokens a request had. From such pairs follows how much more the model counts than a
//! counter that we have, and a bound for texts of the same sort. The bound is the largest ratio seen. How much it
//! can be trusted follows from the number of pairs alone, whatever the distribution: of n independent texts, the
//! largest is above a share p of all texts with a confidence of 1 - p^n.

use pannier_core::TokenCounter;

use crate::TokenError;

/// What was learned from pairs of texts and counts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// How many pairs there were.
    pub pairs: usize,
    /// All told tokens over all counted ones.
    pub mean: f64,
    /// The largest ratio of a single text, rounded up to thousandths: a bound for all of them.
    pub bound: f64,
    /// The share of texts of this sort that the bound holds for, with a confidence of 95 %.
    pub covered_share: f64,
}

/// How much more tokens texts have than a counter counts. Texts that it counts as nothing are left out.
///
/// # Errors
///
/// [`TokenError::NoPairs`] if nothing is left.
pub fn calibrate<'t>(
    counter: &dyn TokenCounter,
    pairs: impl IntoIterator<Item = (&'t str, u64)>,
) -> Result<Calibration, TokenError> {
    let (mut told_sum, mut counted_sum, mut count, mut bound) = (0_u128, 0_u128, 0_usize, 0_u128);
    for (text, told) in pairs {
        let counted = counter.count(text) as u128;
        if counted == 0 {
            continue;
        }
        told_sum += u128::from(told);
        counted_sum += counted;
        count += 1;
        bound = bound.max((u128::from(told) * 1_000).div_ceil(counted));
    }
    if count == 0 {
        return Err(TokenError::NoPairs);
    }
    Ok(Calibration {
        pairs: count,
        mean: told_sum as f64 / counted_sum as f64,
        bound: bound as f64 / 1_000.0,
        covered_share: 0.05_f64.powf(1.0 / count as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BytesOverFour;

    #[test]
    fn the_bound_holds_for_every_pair_and_says_for_how_many_more() {
        let texts: Vec<String> = (1..=59).map(|i| "x".repeat(4 * i)).collect();
        let pairs = texts.iter().zip(1_u64..).map(|(text, i)| (text.as_str(), i + i / 3));
        let found = calibrate(&BytesOverFour, pairs).unwrap();
        assert_eq!((found.pairs, found.bound), (59, 1.334));
        assert!((found.mean - 1.33).abs() < 0.02);
        // The rule of thumb: 59 texts for 95 % with a confidence of 95 %.
        assert!((found.covered_share - 0.95).abs() < 0.001, "{}", found.covered_share);
        assert!(calibrate(&BytesOverFour, [("", 3)]).is_err());
    }
}
