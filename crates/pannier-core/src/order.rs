//! The one order that scores have.
//!
//! Everything that ranks does it by the same key: higher scores first, equal scores by position,
//! and scores that are not numbers last. A score becomes an integer whose ascending order is that
//! order, so sorting compares plain integers, and the result is the same on every machine.

/// A key that sorts ascending where scores should come descending. `-0.0` equals `0.0`, and NaN
/// comes after everything.
pub(crate) fn descending_key(score: f64) -> u64 {
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
pub(crate) fn pack_key(score: f64, first: u32, second: u32) -> u128 {
    u128::from(descending_key(score)) << 64 | u128::from(first) << 32 | u128::from(second)
}

/// Returns positions in descending order of score, ties by position.
pub(crate) fn positions_by_score(scores: impl Iterator<Item = f64>) -> Vec<u32> {
    let scores: Vec<f64> = scores.collect();
    let key = |position: u32| pack_key(scores[position as usize], 0, position);
    sort_by_key(0..scores.len() as u32, scores.len(), key)
}

/// Sorts numbers up to `max` by their keys, which differ.
///
/// A number and the upper bits of its key share a word, so the sort moves half as much. Numbers of which those bits are
/// equal are compared by their keys.
pub(crate) fn sort_by_key(
    numbers: impl Iterator<Item = u32>,
    max: usize,
    key: impl Fn(u32) -> u128,
) -> Vec<u32> {
    let mask = low_bits(max);
    let word = |number: u32| (key(number) >> 64) as u64 & !mask | u64::from(number);
    let mut words = Vec::with_capacity(max + 1);
    words.extend(numbers.map(word));
    sort_by_prefix(&mut words, |word| word);
    for run in words.chunk_by_mut(|a, b| a ^ b <= mask).filter(|run| run.len() > 1) {
        run.sort_unstable_by_key(|word| key((word & mask) as u32));
    }
    words.into_iter().map(|word| (word & mask) as u32).collect()
}

/// Returns the bits that numbers up to `max` need.
pub(crate) fn low_bits(max: usize) -> u64 {
    u64::MAX.checked_shr((max as u64).leading_zeros()).unwrap_or_default()
}

/// Below this length a comparison sort is faster.
const MIN_RADIX_LEN: usize = 1024;

/// Buckets of one pass: 2^11 write positions stay in the cache.
const MAX_DIGIT_BITS: u32 = 11;
const MAX_PASSES: u32 = 3;

/// Sorts keys of which `prefix` returns the leading bits: where prefixes differ, keys have the same order.
///
/// Radix sort, lowest digit first, over those upper bits of the prefix that tell `n` keys apart if they are spread
/// evenly: two passes up to two million keys. Runs that those bits leave equal are sorted by comparison. So the
/// time is `O(n)` for spread keys and `O(n log n)` for any others.
pub(crate) fn sort_by_prefix<K: Copy + Default + Ord>(
    keys: &mut Vec<K>,
    prefix: impl Fn(K) -> u64,
) {
    if keys.len() < MIN_RADIX_LEN {
        return keys.sort_unstable();
    }
    let prefixes = keys.iter().map(|key| prefix(*key));
    let (min, max) = prefixes.fold((u64::MAX, 0), |(min, max), p| (min.min(p), max.max(p)));
    let differing = u64::BITS - (max - min).leading_zeros();
    let passes = differing
        .min(usize::BITS - keys.len().leading_zeros() + 1)
        .div_ceil(MAX_DIGIT_BITS)
        .min(MAX_PASSES);
    let bits = differing.min(passes * MAX_DIGIT_BITS);
    let shift = differing - bits;
    let bucket_prefix = |key: K| (prefix(key) - min) >> shift;
    let digit_bits = bits.div_ceil(passes.max(1));
    let digit = |key: K, pass: u32| {
        (bucket_prefix(key) >> (pass * digit_bits)) as usize & ((1 << digit_bits) - 1)
    };
    let mut counts = [[0_u32; 1 << MAX_DIGIT_BITS]; MAX_PASSES as usize];
    for key in &*keys {
        for (pass, counts) in (0..passes).zip(&mut counts) {
            counts[digit(*key, pass)] += 1;
        }
    }
    let mut sorted = vec![K::default(); if passes > 0 { keys.len() } else { 0 }];
    for (pass, starts) in (0..passes).zip(&mut counts) {
        let mut next = 0;
        for start in &mut *starts {
            next += std::mem::replace(start, next);
        }
        for key in &*keys {
            let position = &mut starts[digit(*key, pass)];
            sorted[*position as usize] = *key;
            *position += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
    let mut next = 1;
    while next < keys.len() {
        if keys[next - 1] <= keys[next] {
            next += 1;
            continue;
        }
        let bucket = bucket_prefix(keys[next]);
        let is_other = |key: &K| bucket_prefix(*key) != bucket;
        let start = keys[..next].iter().rposition(is_other).map_or(0, |last| last + 1);
        let end = keys[next..].iter().position(is_other).map_or(keys.len(), |len| next + len);
        keys[start..end].sort_unstable();
        next = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

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
        let keys: Vec<u64> = scores.iter().map(|score| descending_key(*score)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(descending_key(-0.0), descending_key(0.0));
        assert!(descending_key(f64::NAN) > descending_key(f64::NEG_INFINITY));
        assert_eq!(descending_key(-f64::NAN), descending_key(f64::NAN));
    }

    proptest! {
        #[test]
        fn radix_sort_equals_comparison_sort(
            bits in 0_u32..=64,
            outlier in proptest::option::of(any::<u64>()),
            numbers in vec(any::<u64>(), 0..3 * MIN_RADIX_LEN),
        ) {
            let narrow = |number: u64| number.checked_shr(64 - bits).unwrap_or(0);
            let prefixes = numbers.iter().map(|number| narrow(*number)).chain(outlier);
            let keys: Vec<u128> =
                prefixes.zip(&numbers).map(|(p, low)| u128::from(p) << 64 | u128::from(*low)).collect();
            let (mut sorted, mut expected) = (keys.clone(), keys.clone());
            sort_by_prefix(&mut sorted, |key| (key >> 64) as u64);
            expected.sort_unstable();
            prop_assert_eq!(&sorted, &expected);
            let by_key = sort_by_key(0..keys.len() as u32, keys.len(), |number| keys[number as usize]);
            let by_key: Vec<u128> = by_key.iter().map(|number| keys[*number as usize]).collect();
            prop_assert_eq!(by_key, expected);
        }
    }

    #[test]
    fn equal_scores_keep_their_order() {
        let scores = [0.5, f64::NAN, 0.0, 1.0, -0.0, 0.5];
        assert_eq!(positions_by_score(scores.into_iter()), [3, 0, 5, 2, 4, 1]);
    }
}
