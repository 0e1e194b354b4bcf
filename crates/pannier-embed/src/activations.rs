//! Activation functions with bit-identical results on every processor.
//!
//! IEEE 754 fixes the results of `+`, `-`, `*`, `/` and the square root to the bit, but platforms differ in `exp` and `erf`.
//! So both are polynomials here, and a multiplication is not fused with an addition. Sums use eight lanes that are added in
//! a fixed tree: wide enough for SIMD, and the same sum without it.

const LANES: usize = 8;

/// Sums `each(number)` over `numbers` in the fixed order: eight lanes, then a tree.
#[inline(always)]
fn ordered_sum(numbers: &[f32], each: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (full, rest) = numbers.as_chunks::<LANES>();
    for chunk in full {
        for (sum, &number) in sums.iter_mut().zip(chunk) {
            *sum += each(number);
        }
    }
    for (sum, &number) in sums.iter_mut().zip(rest) {
        *sum += each(number);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Returns e to the power of a number that is not positive. Numbers below -87 count as -87: the result, 10⁻³⁸, vanishes
/// next to the 1 that every sum here contains.
///
/// Range reduction: a multiple of ln 2 goes into the exponent, and a polynomial of degree 6 covers the remainder of at most
/// ln 2 / 2 with an error of 3·10⁻⁹. With rounding, the relative error is below 10⁻⁷.
#[inline(always)]
pub(crate) fn exp(number: f32) -> f32 {
    // 1.5 · 2²³: adding it rounds to an integer, which the lowest mantissa bits then hold.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts (Cody-Waite); the first has few enough bits that its multiples are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -0.000_212_194_44;
    let number = if number > -87.0 { number } else { -87.0 };
    let rounded = number * std::f32::consts::LOG2_E + ROUND;
    let whole = rounded - ROUND;
    let rest = (number - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let mut polynomial = 0.001_381_454;
    for coefficient in [0.008_368_745, 0.041_668_39, 0.166_665_21, 0.499_999_94] {
        polynomial = polynomial * rest + coefficient;
    }
    let power = polynomial * (rest * rest) + rest + 1.0;
    power * f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

/// Returns the error function with an absolute error below 10⁻⁷.
///
/// For `x > 0` it is `1 - exp(-x·p(x))`, where `p` is the minimax polynomial of degree 7. From 4 on it is 1.
#[inline(always)]
pub(crate) fn erf(number: f32) -> f32 {
    let magnitude = number.abs();
    let magnitude = if magnitude < 4.0 { magnitude } else { 4.0 };
    let mut polynomial = 3.144_017e-5;
    for coefficient in [
        -3.088_022_6e-4,
        1.032_402e-3,
        5.369_325e-4,
        -1.958_396e-2,
        0.102_919_616,
        0.636_597_75,
        1.128_380_3,
    ] {
        polynomial = polynomial * magnitude + coefficient;
    }
    (1.0 - exp(-(polynomial * magnitude))).copysign(number)
}

/// Applies the Gaussian error linear unit, by its definition with the error function.
#[inline(always)]
pub(crate) fn gelu(numbers: &mut [f32]) {
    for number in numbers {
        *number = 0.5 * *number * (1.0 + erf(*number * std::f32::consts::FRAC_1_SQRT_2));
    }
}

/// Applies softmax to `factor * scores`; `factor` must be positive.
#[inline(always)]
pub(crate) fn softmax(scores: &mut [f32], factor: f32) {
    let mut max = [f32::NEG_INFINITY; LANES];
    let (full, rest) = scores.as_chunks::<LANES>();
    for chunk in full {
        for (max, &score) in max.iter_mut().zip(chunk) {
            *max = if score > *max { score } else { *max };
        }
    }
    for (max, &score) in max.iter_mut().zip(rest) {
        *max = if score > *max { score } else { *max };
    }
    let max = max.into_iter().fold(f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = exp((*score - max) * factor);
    }
    let sum = ordered_sum(scores, |share| share);
    for score in scores {
        *score /= sum;
    }
}

/// Layer normalization: scales each row to mean 0 and variance 1, then applies the learned weight and bias.
pub(crate) struct LayerNorm {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) epsilon: f32,
}

impl LayerNorm {
    /// Normalizes each row.
    #[inline(always)]
    pub(crate) fn apply(&self, rows: &mut [f32]) {
        let count = self.weight.len() as f32;
        for row in rows.chunks_exact_mut(self.weight.len()) {
            let mean = ordered_sum(row, |number| number) / count;
            let variance = ordered_sum(row, |number| (number - mean) * (number - mean)) / count;
            let deviation = (variance + self.epsilon).sqrt();
            for ((number, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *number = (*number - mean) / deviation * weight + bias;
            }
        }
    }
}

/// Adds `others` to `numbers`, element by element.
#[inline(always)]
pub(crate) fn add(numbers: &mut [f32], others: &[f32]) {
    for (number, other) in numbers.iter_mut().zip(others) {
        *number += other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;

    /// The error function in 64 bits: by its power series below 3, by its continued fraction above.
    fn erf_f64(number: f64) -> f64 {
        let magnitude = number.abs();
        let result = if magnitude < 3.0 {
            let (mut term, mut sum) = (magnitude, magnitude);
            for n in 1..200 {
                let n = f64::from(n);
                term *= -magnitude * magnitude / n;
                sum += term / (2.0 * n + 1.0);
            }
            sum * std::f64::consts::FRAC_2_SQRT_PI
        } else {
            let fraction =
                (1..200).rev().fold(0.0, |rest, n| f64::from(n) / 2.0 / (magnitude + rest));
            let tail = (-magnitude * magnitude).exp() / (magnitude + fraction);
            1.0 - tail / std::f64::consts::PI.sqrt()
        };
        result.copysign(number)
    }

    #[test]
    fn exp_has_a_relative_error_below_1e_7() {
        for step in 0..=2_000_000_u32 {
            let number = -(step as f32) * 4.35e-5;
            let expected = f64::from(number.max(-87.0)).exp();
            let difference = (f64::from(exp(number)) / expected - 1.0).abs();
            assert!(difference < 1e-7, "exp({number}) is off by {difference:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        for number in [-88.0, -1e30, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(exp(number), exp(-87.0));
        }
    }

    #[test]
    fn erf_has_an_absolute_error_below_1e_7() {
        for step in -100_000..=100_000_i32 {
            let number = step as f32 * 5e-5;
            let difference = (f64::from(erf(number)) - erf_f64(f64::from(number))).abs();
            assert!(difference < 1e-7, "erf({number}) is off by {difference:e}");
        }
        assert_eq!(erf(0.0), 0.0);
        for (number, expected) in [(4.0, 1.0), (1e30, 1.0), (f32::NEG_INFINITY, -1.0)] {
            assert_eq!(erf(number), expected);
        }
    }

    #[test]
    fn gelu_follows_its_definition() {
        let mut numbers: Vec<f32> = (-800..=800).map(|step| step as f32 * 0.01).collect();
        let before = numbers.clone();
        gelu(&mut numbers);
        for (number, result) in before.into_iter().zip(numbers) {
            let number = f64::from(number);
            let expected = 0.5 * number * (1.0 + erf_f64(number / 2_f64.sqrt()));
            assert!((f64::from(result) - expected).abs() < 4e-7 * number.abs().max(1.0));
        }
    }

    #[test]
    fn softmax_follows_its_definition() {
        for count in [1, 7, 8, 9, 100] {
            let scores: Vec<f32> = random(count, 3).iter().map(|score| score * 50.0).collect();
            let mut shares = scores.clone();
            softmax(&mut shares, 0.25);
            let powers: Vec<f64> =
                scores.iter().map(|&score| (f64::from(score) * 0.25).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (share, power) in shares.iter().zip(powers) {
                assert!((f64::from(*share) - power / sum).abs() < 1e-6);
            }
        }
        let mut far_apart = [0.0, -1e30, -200.0];
        softmax(&mut far_apart, 1.0);
        assert_eq!(far_apart[0], 1.0);
    }

    #[test]
    fn layer_norm_scales_mean_and_variance() {
        let count = 37;
        let norm = LayerNorm { weight: vec![2.0; count], bias: vec![0.5; count], epsilon: 1e-12 };
        let mut rows: Vec<f32> = random(2 * count, 9).iter().map(|number| number + 3.0).collect();
        norm.apply(&mut rows);
        for row in rows.chunks(count) {
            let mean = row.iter().map(|&number| f64::from(number)).sum::<f64>() / count as f64;
            let variance =
                row.iter().map(|&number| (f64::from(number) - mean).powi(2)).sum::<f64>()
                    / count as f64;
            assert!((mean - 0.5).abs() < 1e-5 && (variance - 4.0).abs() < 1e-4);
        }
    }

    #[test]
    fn ordered_sum_adds_lanes_in_a_fixed_tree() {
        let numbers = random(21, 5);
        let mut lanes = [0.0_f32; 8];
        for (index, number) in numbers.iter().enumerate() {
            lanes[index % 8] += number;
        }
        let halves: Vec<f32> = (0..4).map(|lane| lanes[lane] + lanes[lane + 4]).collect();
        let expected = (halves[0] + halves[2]) + (halves[1] + halves[3]);
        assert_eq!(ordered_sum(&numbers, |number| number).to_bits(), expected.to_bits());
    }
}
