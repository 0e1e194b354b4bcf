//! Embedding models for Pannier: static token tables and MiniLM, with bit-identical vectors on every machine.
//!
//! A vector consists of integers, and everything that leads to them uses only operations whose results IEEE 754 fixes to the
//! bit, in an order that the code spells out. The hash of a [`Model`] commits to the files and to the rules of computation.
//! Model files come from elsewhere: every length is checked before it is used.
//!
//! [`embedder`] opens a model by name; [`StaticTable`] and [`MiniLm`] implement [`Embedder`].

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

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

use std::path::Path;

use pannier_docs::{Embedder, Model, quantise};

pub use error::EmbedError;
pub use minilm::MiniLm;
pub use static_table::StaticTable;

/// Creates the model of a kind, its rules and its files. Each is hashed after its length, so that no two lists are equal.
fn hashed_model(name: &str, rules: &str, files: &[&[u8]], dimensions: usize) -> Model {
    let mut hasher = blake3::Hasher::new();
    for part in [name.as_bytes(), rules.as_bytes()].iter().chain(files) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Model::new(name, hasher.finalize().to_hex().as_str(), dimensions as u32)
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
pub fn fuzz(data: &[u8]) {
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
    use super::*;

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
