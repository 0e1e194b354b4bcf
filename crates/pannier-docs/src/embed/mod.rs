//! Texts as vectors, the same on every machine.
//!
//! A cache is compiled once and asked for years, perhaps on another machine: a vector must not depend on the processor,
//! on the number of threads or on which other texts came along. So a vector is made of whole numbers, and what leads to
//! them uses only the operations whose results IEEE 754 fixes to the bit, in an order that the code spells out. A
//! [`Model`] says by its hash which vectors can be compared: those of the same files under the same rules.

mod arithmetic;
mod bert;
mod error;
mod files;
mod matrix;
mod minilm;
mod safetensors;
mod static_table;
#[cfg(test)]
mod testing;
mod tokens;
mod width;

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use error::EmbedError;
pub use minilm::MiniLm;
pub use static_table::StaticTable;

/// Turns texts into vectors.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// What makes the vectors.
    fn model(&self) -> &Model;

    /// One vector for each text, in order, as [`quantise`] makes them: each has as many numbers as the model has
    /// dimensions. A text without tokens gets zeros. The vector of a text depends neither on the other texts nor on the
    /// number of threads.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Invalid`] if the model's files give a text no vector.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedError>;
}

/// What makes vectors. Only vectors of equal models can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Model {
    /// The kind: `minilm` or `static`.
    pub name: String,
    /// BLAKE3 of the kind, its rules and all files that matter, in hexadecimal digits.
    pub hash: String,
    /// How many numbers a vector has.
    pub dimensions: u32,
}

impl Model {
    /// A model by its kind, its hash and the length of its vectors.
    pub fn new(name: impl Into<String>, hash: impl Into<String>, dimensions: u32) -> Self {
        Self { name: name.into(), hash: hash.into(), dimensions }
    }

    /// Commits to a kind, its rules and its files. Everything stands behind its length, so nothing can pass for two.
    fn of(name: &str, rules: &str, files: &[&[u8]], dimensions: usize) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [name.as_bytes(), rules.as_bytes()].iter().chain(files) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self::new(name, hasher.finalize().to_hex().as_str(), dimensions as u32)
    }
}

/// The most numbers that a vector can have. It bounds what a foreign file can ask for.
const MAX_DIMENSIONS: usize = 1 << 16;

/// What 1 becomes in whole numbers.
const ONE: f64 = 32_767.0;

/// A vector of length 1 with the direction of the given one, times 32767, rounded to the nearest whole numbers, halves
/// away from zero. There is none for zeros, for what is not finite, and for more than 65536 numbers.
///
/// The sum of the squares stays below 2³¹: rounding moves each of `n` numbers by at most one half, so the length grows
/// from 32767 by at most `√n / 2`, which is 128.
///
/// ```
/// assert_eq!(pannier_docs::quantise(&[3.0, -4.0]), Some(vec![19_660, -26_214]));
/// assert_eq!(pannier_docs::quantise(&[0.0, 0.0]), None);
/// ```
pub fn quantise(vector: &[f32]) -> Option<Vec<i16>> {
    if vector.len() > MAX_DIMENSIONS {
        return None;
    }
    // The square of any finite f32 is a finite f64, and that of any but zero is not zero.
    let squares = vector.iter().fold(0.0_f64, |sum, &number| {
        let number = f64::from(number);
        sum + number * number
    });
    if !squares.is_finite() || squares == 0.0 {
        return None;
    }
    let length = squares.sqrt();
    // `round` is exact whatever the processor, unlike the functions of its sort that approximate.
    Some(vector.iter().map(|&number| (f64::from(number) / length * ONE).round() as i16).collect())
}

/// The vector of a text from a sum or mean of numbers: zeros for zeros, as for a text without tokens.
fn quantise_or_zero(vector: &[f32], path: &Path) -> Result<Vec<i16>, EmbedError> {
    if vector.iter().all(|&number| number == 0.0) {
        return Ok(vec![0; vector.len()]);
    }
    quantise(vector).ok_or_else(|| {
        EmbedError::invalid(
            path,
            "its numbers are so large that a text has no vector; use the weights as published",
        )
    })
}

/// The embedder of a name: `none`, `static:FOLDER` for a [`StaticTable`], or `minilm:FOLDER` for a [`MiniLm`].
///
/// # Errors
///
/// [`EmbedError::UnknownName`] for another name, and what [`StaticTable::open`] and [`MiniLm::open`] say of the folder.
pub fn embedder(name: &str) -> Result<Option<Box<dyn Embedder>>, EmbedError> {
    match name.split_once(':') {
        None if name == "none" => Ok(None),
        Some(("static", folder)) if !folder.is_empty() => {
            Ok(Some(Box::new(StaticTable::open(folder)?)))
        }
        Some(("minilm", folder)) if !folder.is_empty() => Ok(Some(Box::new(MiniLm::open(folder)?))),
        _ => Err(EmbedError::UnknownName { name: name.to_owned() }),
    }
}

/// What a fuzzer calls: the bytes of weights, of a configuration and of numbers.
#[cfg(fuzzing)]
pub(crate) fn fuzz(data: &[u8]) {
    if let Ok(tensors) = safetensors::Tensors::parse(data.to_vec()) {
        for (name, _) in tensors.shapes() {
            if let Ok((numbers, [rows, columns])) = tensors.numbers(name, [None, None]) {
                assert_eq!(numbers.len(), rows * columns);
            }
        }
        let _ = bert::Bert::read(&tensors, &bert::Config::default());
    }
    let _ = bert::Config::parse(data);
    let numbers: Vec<f32> =
        data.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    if let Some(vector) = quantise(&numbers) {
        let squares: i64 = vector.iter().map(|&number| i64::from(number).pow(2)).sum();
        assert!(squares < 1 << 31);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn squares(vector: &[i16]) -> i64 {
        vector.iter().map(|&number| i64::from(number).pow(2)).sum()
    }

    #[test]
    fn a_vector_gets_the_length_of_one() {
        assert_eq!(quantise(&[1e-40]), Some(vec![32_767]));
        assert_eq!(quantise(&[f32::MAX, -f32::MAX]), Some(vec![23_170, -23_170]));
        assert_eq!(quantise(&[f32::MIN_POSITIVE, 0.0]), Some(vec![32_767, 0]));
        assert_eq!(quantise(&[-f32::from_bits(1)]), Some(vec![-32_767]));
        assert_eq!(quantise(&[]), None);
        assert_eq!(quantise(&[0.0, -0.0]), None);
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(quantise(&[1.0, number]), None);
        }
        assert_eq!(quantise(&vec![1.0; MAX_DIMENSIONS + 1]), None);
        // Each number rounds up by as much as a number can: 127.998 to 128.
        assert_eq!(squares(&quantise(&vec![1.0; MAX_DIMENSIONS]).unwrap()), 1 << 30);
    }

    #[test]
    fn halves_go_away_from_zero() {
        // 1² + 65533² + 355² + 71² = 65534², so the first becomes a half.
        assert_eq!(quantise(&[1.0, 65_533.0, 355.0, 71.0]), Some(vec![1, 32_767, 178, 36]));
        assert_eq!(quantise(&[-1.0, 65_533.0, -355.0, 71.0]), Some(vec![-1, 32_767, -178, 36]));
    }

    #[test]
    fn another_name_is_refused_with_those_there_are() {
        for name in ["", "None", "minilm", "static:", "minilm:", "openai:x"] {
            let error = embedder(name).unwrap_err();
            assert!(matches!(error, EmbedError::UnknownName { .. }));
            let expected = format!(
                "there is no embedder '{name}'; write none, static:FOLDER or minilm:FOLDER"
            );
            assert_eq!(error.to_string(), expected);
        }
        assert!(embedder("none").unwrap().is_none());
    }

    #[test]
    fn a_model_commits_to_each_of_its_parts() {
        let model = Model::of("static", "rules", &[b"ab", b"c"], 4);
        assert_eq!(model, Model::of("static", "rules", &[b"ab", b"c"], 4));
        assert_eq!(model.hash.len(), 64);
        for other in [
            Model::of("minilm", "rules", &[b"ab", b"c"], 4),
            Model::of("static", "rule", &[b"ab", b"c"], 4),
            Model::of("static", "rules", &[b"a", b"bc"], 4),
            Model::of("static", "rules", &[b"abc"], 4),
        ] {
            assert_ne!(model.hash, other.hash);
        }
        let text = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Model>(&text).unwrap(), model);
        assert!(serde_json::from_str::<Model>(&text.replace('}', ",\"more\":1}")).is_err());
    }

    proptest! {
        #[test]
        fn no_vector_is_longer_than_allowed(vector in prop::collection::vec(any::<f32>(), 0..700)) {
            if let Some(quantised) = quantise(&vector) {
                prop_assert_eq!(quantised.len(), vector.len());
                prop_assert!(squares(&quantised) < 1 << 31);
            }
        }

        #[test]
        fn only_the_direction_counts(vector in prop::collection::vec(-1.0_f32..1.0, 1..64)) {
            let doubled: Vec<f32> = vector.iter().map(|number| number * 1024.0).collect();
            prop_assert_eq!(quantise(&vector), quantise(&doubled));
        }
    }
}
