//! Embedding models for Pannier: static token tables and MiniLM, with bit-identical vectors on every machine.
//!
//! A vector consists of integers, and everything that leads to them uses only operations whose results IEEE 754 fixes to the
//! bit, in an order that the code spells out. The hash of a [`Model`] commits to the files and to the rules of computation.
//! Model files come from elsewhere: every length is checked before it is used.
//!
//! [`open_embedder`] opens a model by name; [`StaticEmbedder`] and [`MiniLmEmbedder`] implement [`Embedder`].

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod activations;
mod bert;
mod error;
mod matrix;
mod minilm;
mod model_folder;
mod simd;
mod static_embedder;
#[cfg(test)]
mod testing;
mod tokenizer;
mod weights;

use std::path::Path;

use pannier_docs::{Embedder, Model, quantize};

pub use error::EmbedError;
pub use minilm::MiniLmEmbedder;
pub use static_embedder::StaticEmbedder;

/// Creates the model of a kind, the version of its computation and its files. Each is hashed after its length, so that no two lists are equal.
fn hashed_model(name: &str, version: &str, files: &[&[u8]], dimensions: usize) -> Model {
    let mut hasher = blake3::Hasher::new();
    for part in [name.as_bytes(), version.as_bytes()].iter().chain(files) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Model::new(name, hasher.finalize().to_hex().as_str(), dimensions as u32)
}

/// Quantizes the mean vector of a text; zeros, as of a text without tokens, stay zeros.
fn quantize_or_zero(vector: &[f32], path: &Path) -> Result<Vec<i16>, EmbedError> {
    if vector.iter().all(|&number| number == 0.0) {
        return Ok(vec![0; vector.len()]);
    }
    quantize(vector).ok_or_else(|| {
        EmbedError::invalid(
            path,
            "its numbers are so large that a vector overflows; use the published weights",
        )
    })
}

/// Opens an embedder by name: `none`, `static:FOLDER` for a [`StaticEmbedder`] or `minilm:FOLDER` for a
/// [`MiniLmEmbedder`].
///
/// # Errors
///
/// [`EmbedError::UnknownName`] for another name, and the errors of [`StaticEmbedder::open`] and [`MiniLmEmbedder::open`].
pub fn open_embedder(name: &str) -> Result<Option<Box<dyn Embedder>>, EmbedError> {
    match name.split_once(':') {
        None if name == "none" => Ok(None),
        Some(("static", folder)) if !folder.is_empty() => {
            Ok(Some(Box::new(StaticEmbedder::open(folder)?)))
        }
        Some(("minilm", folder)) if !folder.is_empty() => {
            Ok(Some(Box::new(MiniLmEmbedder::open(folder)?)))
        }
        _ => Err(EmbedError::UnknownName { name: name.to_owned() }),
    }
}

/// The fuzz target: parses the bytes as weights, as a configuration and as numbers.
#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    if let Ok(tensors) = weights::Tensors::parse(data.to_vec()) {
        for (name, _) in tensors.shapes() {
            if let Ok((numbers, [rows, columns])) = tensors.tensor_f32(name, [None, None]) {
                assert_eq!(numbers.len(), rows * columns);
            }
        }
        let _ = bert::Bert::read(&tensors, &bert::Config::default());
    }
    let _ = bert::Config::parse(data);
    let numbers: Vec<f32> =
        data.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    if let Some(vector) = quantize(&numbers) {
        let squares: i64 = vector.iter().map(|&number| i64::from(number).pow(2)).sum();
        assert!(squares < 1 << 31);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_rejected_with_the_known_ones() {
        for name in ["", "None", "minilm", "static:", "minilm:", "openai:x"] {
            let error = open_embedder(name).unwrap_err();
            assert!(matches!(error, EmbedError::UnknownName { .. }));
            let expected =
                format!("there is no embedder '{name}'; use none, static:FOLDER or minilm:FOLDER");
            assert_eq!(error.to_string(), expected);
        }
        assert!(open_embedder("none").unwrap().is_none());
    }

    #[test]
    fn the_hash_covers_kind_version_and_files() {
        let model = hashed_model("static", "rules", &[b"ab", b"c"], 4);
        assert_eq!(model, hashed_model("static", "rules", &[b"ab", b"c"], 4));
        assert_eq!(model.hash.len(), 64);
        for other in [
            hashed_model("minilm", "rules", &[b"ab", b"c"], 4),
            hashed_model("static", "rule", &[b"ab", b"c"], 4),
            hashed_model("static", "rules", &[b"a", b"bc"], 4),
            hashed_model("static", "rules", &[b"abc"], 4),
        ] {
            assert_ne!(model.hash, other.hash);
        }
    }
}
