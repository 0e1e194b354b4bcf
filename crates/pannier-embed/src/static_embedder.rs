//! Static embeddings: a table with a row for each token, averaged over the tokens of a text.
//!
//! The order of words does not matter, and a text costs only its tokenization and one addition per token and dimension. Sums
//! are accumulated in 64 bits in token order, so the rounding is fixed.

use std::fmt;
use std::path::{Path, PathBuf};

use pannier_docs::{Embedder, EmbedderError, Model};
use rayon::prelude::*;

use crate::model_folder::ModelFolder;
use crate::tokenizer::ModelTokenizer;
use crate::weights::Tensors;
use crate::{EmbedError, hashed_model, quantize_or_zero};

/// The version of the computation, part of the model hash. Any change of the vectors must change it.
const EMBEDDING_VERSION: &str =
    "1: lower case, no special tokens, mean of the rows, length 1 as 32767";

/// Usual names of the table, the most common first.
const TABLE_NAMES: [&str; 3] = ["embedding.weight", "embeddings", "embeddings.weight"];

/// Computes vectors as the mean of static token embeddings.
pub struct StaticEmbedder {
    model: Model,
    path: PathBuf,
    tokenizer: ModelTokenizer,
    dimensions: usize,
    rows: Vec<f32>,
}

impl StaticEmbedder {
    /// Opens a folder with a `tokenizer.json` and a safetensors file that contains the table.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if the folder or a file is missing, unreadable or malformed.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let folder = ModelFolder::open(folder.as_ref())?;
        let (path, tensors) = folder.weights()?;
        let (tokenizer, tokenizer_bytes) = ModelTokenizer::read(&folder)?;
        let invalid = |problem: String| EmbedError::invalid(&path, problem);
        let name = find_table(&tensors).map_err(invalid)?;
        let (rows, [count, dimensions]) =
            tensors.tensor_f32(name, [None, None]).map_err(invalid)?;
        if dimensions == 0 || dimensions > Model::MAX_DIMENSIONS {
            return Err(invalid(format!(
                "the rows of {name:?} have {dimensions} dimensions; 1 to {} are supported",
                Model::MAX_DIMENSIONS
            )));
        }
        tokenizer.check_rows(count)?;
        let (major, minor, patch) = char::UNICODE_VERSION;
        let tokenizer_version =
            format!("{}, Unicode {major}.{minor}.{patch}", crate::tokenizer::VERSION);
        let version = format!("{EMBEDDING_VERSION}; table {name}; {tokenizer_version}");
        let model =
            hashed_model("static", &version, &[tensors.bytes(), &tokenizer_bytes], dimensions);
        Ok(Self { model, path, tokenizer, dimensions, rows })
    }

    fn vector(&self, text: &str) -> Result<Vec<i16>, EmbedError> {
        let tokens = self.tokenizer.encode(&text.to_lowercase())?;
        let mut sums = vec![0.0_f64; self.dimensions];
        for &token in &tokens {
            let Some(row) = self.rows.chunks_exact(self.dimensions).nth(token as usize) else {
                return Err(EmbedError::invalid(
                    self.tokenizer.path(),
                    format!("it returned the token id {token}, but the weights have no such row"),
                ));
            };
            for (sum, number) in sums.iter_mut().zip(row) {
                *sum += f64::from(*number);
            }
        }
        let count = tokens.len().max(1) as f64;
        let mean: Vec<f32> = sums.iter().map(|sum| (sum / count) as f32).collect();
        quantize_or_zero(&mean, &self.path)
    }
}

impl Embedder for StaticEmbedder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        // Collected first, so that the error is that of the first text that fails.
        let vectors: Vec<_> = texts.par_iter().map(|text| self.vector(text)).collect();
        Ok(vectors.into_iter().collect::<Result<_, _>>()?)
    }
}

impl fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Returns the name of the table: a usual name, or the only two-dimensional tensor.
fn find_table(tensors: &Tensors) -> Result<&str, String> {
    let matrices: Vec<&str> =
        tensors.shapes().filter(|(_, shape)| shape.len() == 2).map(|(name, _)| name).collect();
    if let Some(name) =
        TABLE_NAMES.iter().find_map(|name| matrices.iter().find(|other| *other == name))
    {
        return Ok(name);
    }
    match matrices.as_slice() {
        [name] => Ok(name),
        names => Err(format!(
            "it has {} two-dimensional tensors, none of them named {}; use a file with one table",
            names.len(),
            TABLE_NAMES.join(" or ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, TestTensor, random, tokenizer};

    const WORDS: [&str; 4] = ["[UNK]", "deploy", "on", "fridays"];

    fn folder(name: &str, tensors: &[TestTensor]) -> Scratch {
        let folder = Scratch::new(name);
        folder.weights("model.safetensors", tensors);
        folder.write("tokenizer.json", tokenizer(&WORDS).as_bytes());
        folder
    }

    fn rows() -> Vec<f32> {
        vec![0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, -1.0]
    }

    #[test]
    fn vectors_are_the_mean_of_their_rows() {
        let folder = folder("mean", &[TestTensor::new("embedding.weight", &[4, 3], rows())]);
        let table = StaticEmbedder::open(folder.path()).unwrap();
        assert_eq!((table.model().name.as_str(), table.model().dimensions), ("static", 3));
        let texts = ["", "deploy", "On  DEPLOY on", "unheard", "Fridays"];
        let vectors = table.embed(&texts).unwrap();
        assert_eq!(
            vectors,
            [[0, 0, 0], [32_767, 0, 0], [7_947, 31_789, 0], [0, 0, 0], [0, 0, -32_767]]
        );
        let reversed: Vec<&str> = texts.into_iter().rev().collect();
        let mut again = table.embed(&reversed).unwrap();
        again.reverse();
        assert_eq!(vectors, again);
    }

    #[test]
    fn the_table_has_a_usual_name_or_is_the_only_matrix() {
        let other = || TestTensor::new("other", &[2, 2], vec![1.0; 4]);
        let bias = || TestTensor::new("bias", &[3], vec![1.0; 3]);
        for name in ["embedding.weight", "embeddings", "embeddings.weight"] {
            let folder = folder("usual", &[other(), TestTensor::new(name, &[4, 3], rows())]);
            assert_eq!(StaticEmbedder::open(folder.path()).unwrap().model().dimensions, 3);
        }
        let folder = folder("only", &[bias(), TestTensor::new("table", &[4, 3], rows())]);
        assert_eq!(StaticEmbedder::open(folder.path()).unwrap().model().dimensions, 3);
        folder.weights("model.safetensors", &[other(), TestTensor::new("table", &[4, 3], rows())]);
        let error = StaticEmbedder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it has 2 two-dimensional tensors"), "{error}");
    }

    #[test]
    fn the_weights_have_the_usual_name_or_are_the_only_file() {
        let folder = folder("file", &[TestTensor::new("embeddings", &[4, 3], rows())]);
        let hash = StaticEmbedder::open(folder.path()).unwrap().model().hash.clone();
        folder.rename("model.safetensors", "a.safetensors");
        assert_eq!(StaticEmbedder::open(folder.path()).unwrap().model().hash, hash);
        folder.weights("b.safetensors", &[]);
        let error = StaticEmbedder::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("several weight files: a.safetensors, b.safetensors; rename the right one to model.safetensors"),
            "{error}"
        );
    }

    #[test]
    fn the_hash_changes_with_each_file() {
        let folder = folder("hash", &[TestTensor::new("embeddings", &[4, 3], rows())]);
        let hash = || StaticEmbedder::open(folder.path()).unwrap().model().hash.clone();
        let first = hash();
        folder.write("tokenizer.json", tokenizer(&["[UNK]", "deploy", "off"]).as_bytes());
        let second = hash();
        folder
            .weights("model.safetensors", &[TestTensor::new("embeddings", &[4, 3], random(12, 1))]);
        assert!(first != second && second != hash() && first != hash());
    }

    #[test]
    fn a_table_without_a_row_for_a_token_is_rejected() {
        let folder = folder("rows", &[TestTensor::new("embeddings", &[3, 3], random(9, 1))]);
        let error = StaticEmbedder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("the token id 3, but the weights have only 3 rows"), "{error}");
        folder.weights("model.safetensors", &[TestTensor::new("embeddings", &[4, 0], vec![])]);
        let error = StaticEmbedder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("have 0 dimensions"), "{error}");
    }

    #[test]
    fn missing_and_malformed_files_are_named() {
        let folder = folder("lacks", &[TestTensor::new("embeddings", &[4, 3], rows())]);
        let nowhere = folder.path().join("nowhere");
        let error_of = |path: &Path| StaticEmbedder::open(path).unwrap_err();
        assert!(matches!(error_of(&nowhere), EmbedError::NoFolder { .. }));
        let file = folder.path().join("tokenizer.json");
        assert!(matches!(error_of(&file), EmbedError::NoFolder { .. }));
        folder.write("tokenizer.json", b"{}");
        let error = error_of(folder.path()).to_string();
        assert!(error.contains("tokenizer.json cannot be used: it is not a tokenizer"), "{error}");
        folder.rename("tokenizer.json", "other.json");
        let error = error_of(folder.path());
        assert!(matches!(&error, EmbedError::MissingFile { file, .. } if file == "tokenizer.json"));
        folder.rename("model.safetensors", "model.bin");
        let error = error_of(folder.path());
        assert!(
            matches!(&error, EmbedError::MissingFile { file, .. } if file == "model.safetensors")
        );
    }
}
