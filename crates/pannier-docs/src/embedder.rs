//! Embeddings that are equal on every machine.
//!
//! An index is built once and searched for years, perhaps on another machine: a vector must not depend on the processor, on
//! the number of threads or on the other texts of a call. So vectors hold integers, and [`quantize`] uses only operations
//! whose results IEEE 754 fixes to the bit, in a fixed order. A [`Model`] identifies by its hash the vectors that can be
//! compared: those of the same files under the same rules.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The error of an [`Embedder`], which each implementation chooses.
pub type EmbedderError = Box<dyn Error + Send + Sync>;

/// Computes embeddings of texts.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Returns the model that computes the vectors.
    fn model(&self) -> &Model;

    /// Computes one vector for each text, in order, as [`quantize`] returns them: each has as many numbers as the model has
    /// dimensions. A text without tokens gets zeros. The vector of a text depends neither on the other texts nor on the
    /// number of threads.
    ///
    /// # Errors
    ///
    /// An error of the implementation, if it cannot compute a vector.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError>;

    /// Returns whether vectors of `model` can be compared with those of this embedder. Default: only if the models are equal.
    fn is_compatible(&self, model: &Model) -> bool {
        self.model() == model
    }

    /// Returns whether the vector of a text is always the same. Default: yes. If not, receipts record the vector of a query.
    fn is_reproducible(&self) -> bool {
        true
    }
}

/// The identity of an embedding model. Only vectors of equal models can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Model {
    /// The kind, such as `minilm` or `static`.
    pub name: String,
    /// A hash of everything that the vectors depend on, in hexadecimal digits.
    pub hash: String,
    /// The number of dimensions of a vector.
    pub dimensions: u32,
}

impl Model {
    /// The maximum number of dimensions. It bounds the memory that a file can request.
    pub const MAX_DIMENSIONS: usize = 1 << 16;

    /// Creates a model from its kind, its hash and the number of dimensions.
    pub fn new(name: impl Into<String>, hash: impl Into<String>, dimensions: u32) -> Self {
        Self { name: name.into(), hash: hash.into(), dimensions }
    }
}

/// The integer that represents 1.0 in a quantized vector.
const SCALE: f64 = 32_767.0;

/// Scales a vector to length 1, multiplies it by 32767 and rounds to integers, halves away from zero. Returns `None` for
/// zeros, for numbers that are not finite, and for more than [`Model::MAX_DIMENSIONS`] numbers.
///
/// The sum of the squares stays below 2³¹: rounding moves each of `n` numbers by at most one half, so the length grows
/// from 32767 by at most `√n / 2`, which is 128.
///
/// ```
/// assert_eq!(pannier_docs::quantize(&[3.0, -4.0]), Some(vec![19_660, -26_214]));
/// assert_eq!(pannier_docs::quantize(&[0.0, 0.0]), None);
/// ```
pub fn quantize(vector: &[f32]) -> Option<Vec<i16>> {
    if vector.len() > Model::MAX_DIMENSIONS {
        return None;
    }
    // The square of a finite f32 is a finite f64, and only the square of zero is zero.
    let squares = vector.iter().fold(0.0_f64, |sum, &number| {
        let number = f64::from(number);
        sum + number * number
    });
    if !squares.is_finite() || squares == 0.0 {
        return None;
    }
    let length = squares.sqrt();
    // `round` is exact on every processor, unlike functions that approximate.
    Some(vector.iter().map(|&number| (f64::from(number) / length * SCALE).round() as i16).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn squares(vector: &[i16]) -> i64 {
        vector.iter().map(|&number| i64::from(number).pow(2)).sum()
    }

    #[test]
    fn vectors_are_scaled_to_length_one() {
        assert_eq!(quantize(&[1e-40]), Some(vec![32_767]));
        assert_eq!(quantize(&[f32::MAX, -f32::MAX]), Some(vec![23_170, -23_170]));
        assert_eq!(quantize(&[f32::MIN_POSITIVE, 0.0]), Some(vec![32_767, 0]));
        assert_eq!(quantize(&[-f32::from_bits(1)]), Some(vec![-32_767]));
        assert_eq!(quantize(&[]), None);
        assert_eq!(quantize(&[0.0, -0.0]), None);
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(quantize(&[1.0, number]), None);
        }
        assert_eq!(quantize(&vec![1.0; Model::MAX_DIMENSIONS + 1]), None);
        // Each number rounds up by as much as a number can: 127.998 to 128.
        assert_eq!(squares(&quantize(&vec![1.0; Model::MAX_DIMENSIONS]).unwrap()), 1 << 30);
    }

    #[test]
    fn halves_round_away_from_zero() {
        // 1² + 65533² + 355² + 71² = 65534², so the first becomes a half.
        assert_eq!(quantize(&[1.0, 65_533.0, 355.0, 71.0]), Some(vec![1, 32_767, 178, 36]));
        assert_eq!(quantize(&[-1.0, 65_533.0, -355.0, 71.0]), Some(vec![-1, 32_767, -178, 36]));
    }

    #[test]
    fn a_model_roundtrips_and_rejects_unknown_fields() {
        let model = Model::new("static", "f00d", 4);
        let text = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Model>(&text).unwrap(), model);
        assert!(serde_json::from_str::<Model>(&text.replace('}', ",\"more\":1}")).is_err());
    }

    proptest! {
        #[test]
        fn the_sum_of_squares_is_below_2_31(vector in prop::collection::vec(any::<f32>(), 0..700)) {
            if let Some(quantized) = quantize(&vector) {
                prop_assert_eq!(quantized.len(), vector.len());
                prop_assert!(squares(&quantized) < 1 << 31);
            }
        }

        #[test]
        fn scaling_the_input_changes_nothing(vector in prop::collection::vec(-1.0_f32..1.0, 1..64)) {
            let doubled: Vec<f32> = vector.iter().map(|number| number * 1024.0).collect();
            prop_assert_eq!(quantize(&vector), quantize(&doubled));
        }
    }
}
