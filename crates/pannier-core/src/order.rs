//! The one order that scores have.
//!
//! Everything that ranks does it by the same key: higher scores first, equal scores by position,
//! and scores that are not numbers last. A score becomes an integer whose ascending order is that
//! order, so sorting compares plain integers, and the result is the same on every machine.

/// A key that sorts ascending where scores should come descending. `-0.0` equals `0.0`, and NaN
/// comes after everything.
pub(crate) fn descending(score: f64) -> u64 {
    if score.is_nan() {
        return u64::MAX;
    }
    // Adding zero turns -0.0 into 0.0 and changes nothing else.
    let bits = (score + 0.0).to_bits();
    // Of the bit patterns of numbers, those with the sign bit are already in descending order, and
    // must come after the others, which are in ascending order.
    if bits >> 63 == 1 { bits } else { !bits & !(1 << 63) }
}

/// A key for sorting by descending score, then by two numbers in ascending order. One wide integer
/// compares without a branch, which is what sorting spends its time on.
pub(crate) fn key(score: f64, first: u32, second: u32) -> u128 {
    u128::from(descending(score)) << 64 | u128::from(first) << 32 | u128::from(second)
}

/// The first of the two numbers in a key.
pub(crate) fn first(key: u128) -> u32 {
    (key >> 32) as u32
}

/// The second of the two numbers in a key.
pub(crate) fn second(key: u128) -> u32 {
    key as u32
}

/// Positions in order of descending score, equal scores by position.
pub(crate) fn rank(scores: impl Iterator<Item = f64>) -> Vec<u32> {
    let mut keys: Vec<u128> =
        scores.zip(0..).map(|(score, position)| key(score, 0, position)).collect();
    keys.sort_unstable();
    keys.into_iter().map(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_scores() {
        let scores = [
            f64::INFINITY,
            1e300,
            1.0,
            0.5,
            f64::MIN_POSITIVE,
            0.0,
            -1e-9,
            -2.0,
            f64::NEG_INFINITY,
        ];
        let keys: Vec<u64> = scores.iter().map(|score| descending(*score)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(descending(-0.0), descending(0.0));
        assert!(descending(f64::NAN) > descending(f64::NEG_INFINITY));
        assert_eq!(descending(-f64::NAN), descending(f64::NAN));
    }

    #[test]
    fn equal_scores_keep_their_order() {
        let scores = [0.5, f64::NAN, 0.0, 1.0, -0.0, 0.5];
        assert_eq!(rank(scores.into_iter()), [3, 0, 5, 2, 4, 1]);
    }
}
