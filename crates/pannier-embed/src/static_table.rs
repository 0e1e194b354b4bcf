//! Vectors from a table with a row for each token: the mean of the rows of a text's tokens.
//!
//! It knows nothing of the order of words, and costs next to nothing: a text is split and its rows are added up. The
//! sums are kept in 64 bits in the order of the tokens, so there is one way to round.

use std::fmt;
use std::path::{Path, PathBuf};

use pannier_docs::{Embedder, EmbedderError, Model};
use rayon::prelude::*;

use crate::files::Folder;
use crate::safetensors::Tensors;
use crate::tokens::Tokens;
use crate::{EmbedError, hashed_model, quantise_or_zero};

/// What a hash commits to besides the files. A change of what is computed changes this text.
const RULES: &str = "1: lower case, no special tokens, mean of the rows, length 1 as 32767";

/// Names that tables go by, the usual one first.
const NAMES: [&str; 3] = ["embedding.weight", "embeddings", "embeddings.weight"];

/// Makes a text's vector from a table with a row for each token.
pub struct StaticTable {
    model: Model,
    path: PathBuf,
    tokens: Tokens,
    dimensions: usize,
    rows: Vec<f32>,
}

impl StaticTable {
    /// Opens a folder with a `tokenizer.json` and one safetensors file that holds the table.
    ///
    /// # Errors
    ///
    /// [`EmbedError`], if the folder or a file is not there, cannot be read, or is not that of such a table.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let folder = Folder::open(folder.as_ref())?;
        let (path, tensors) = folder.weights()?;
        let (tokens, tokens_bytes) = Tokens::read(&folder)?;
        let invalid = |problem: String| EmbedError::invalid(&path, problem);
        let name = table(&tensors).map_err(invalid)?;
        let (rows, [count, dimensions]) = tensors.numbers(name, [None, None]).map_err(invalid)?;
        if dimensions == 0 || dimensions > Model::MAX_DIMENSIONS {
            return Err(invalid(format!(
                "the rows of {name:?} have {dimensions} numbers; 1 to {} can be used",
                Model::MAX_DIMENSIONS
            )));
        }
        tokens.check_rows(count)?;
        let (major, minor, patch) = char::UNICODE_VERSION;
        let versions = format!("{}, Unicode {major}.{minor}.{patch}", crate::tokens::VERSION);
        let rules = format!("{RULES}; table {name}; {versions}");
        let model = hashed_model("static", &rules, &[tensors.bytes(), &tokens_bytes], dimensions);
        Ok(Self { model, path, tokens, dimensions, rows })
    }

    fn vector(&self, text: &str) -> Result<Vec<i16>, EmbedError> {
        let tokens = self.tokens.split(&text.to_lowercase())?;
        let mut sums = vec![0.0_f64; self.dimensions];
        for &token in &tokens {
            let Some(row) = self.rows.chunks_exact(self.dimensions).nth(token as usize) else {
                return Err(EmbedError::invalid(
                    self.tokens.path(),
                    format!("it gave the token {token}, which the weights have no row for"),
                ));
            };
            for (sum, number) in sums.iter_mut().zip(row) {
                *sum += f64::from(*number);
            }
        }
        let count = tokens.len().max(1) as f64;
        let mean: Vec<f32> = sums.iter().map(|sum| (sum / count) as f32).collect();
        quantise_or_zero(&mean, &self.path)
    }
}

impl Embedder for StaticTable {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        // Gathered before it is looked through, so that the first error is the first text's.
        let vectors: Vec<_> = texts.par_iter().map(|text| self.vector(text)).collect();
        Ok(vectors.into_iter().collect::<Result<_, _>>()?)
    }
}

impl fmt::Debug for StaticTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTable").field("model", &self.model).finish_non_exhaustive()
    }
}

/// The name of the tensor that is the table: a usual one, or the only one with rows.
fn table(tensors: &Tensors) -> Result<&str, String> {
    let with_rows: Vec<&str> =
        tensors.shapes().filter(|(_, shape)| shape.len() == 2).map(|(name, _)| name).collect();
    if let Some(name) = NAMES.iter().find_map(|name| with_rows.iter().find(|other| *other == name))
    {
        return Ok(name);
    }
    match with_rows.as_slice() {
        [name] => Ok(name),
        names => Err(format!(
            "it has {} tensors with rows and none is called {}; give the file of a table",
            names.len(),
            NAMES.join(" or ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, Written, random, tokenizer};

    const WORDS: [&str; 4] = ["[UNK]", "deploy", "on", "fridays"];

    fn folder(name: &str, tensors: &[Written]) -> Scratch {
        let folder = Scratch::new(name);
        folder.weights("model.safetensors", tensors);
        folder.write("tokenizer.json", tokenizer(&WORDS).as_bytes());
        folder
    }

    fn rows() -> Vec<f32> {
        vec![0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, -1.0]
    }

    #[test]
    fn a_vector_is_the_mean_of_its_rows() {
        let folder = folder("mean", &[Written::new("embedding.weight", &[4, 3], rows())]);
        let table = StaticTable::open(folder.path()).unwrap();
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
    fn the_table_goes_by_a_usual_name_or_is_the_only_one() {
        let other = || Written::new("other", &[2, 2], vec![1.0; 4]);
        let bias = || Written::new("bias", &[3], vec![1.0; 3]);
        for name in ["embedding.weight", "embeddings", "embeddings.weight"] {
            let folder = folder("usual", &[other(), Written::new(name, &[4, 3], rows())]);
            assert_eq!(StaticTable::open(folder.path()).unwrap().model().dimensions, 3);
        }
        let folder = folder("only", &[bias(), Written::new("table", &[4, 3], rows())]);
        assert_eq!(StaticTable::open(folder.path()).unwrap().model().dimensions, 3);
        folder.weights("model.safetensors", &[other(), Written::new("table", &[4, 3], rows())]);
        let error = StaticTable::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it has 2 tensors with rows"), "{error}");
    }

    #[test]
    fn the_file_is_the_named_one_or_the_only_one() {
        let folder = folder("file", &[Written::new("embeddings", &[4, 3], rows())]);
        let hash = StaticTable::open(folder.path()).unwrap().model().hash.clone();
        folder.rename("model.safetensors", "a.safetensors");
        assert_eq!(StaticTable::open(folder.path()).unwrap().model().hash, hash);
        folder.weights("b.safetensors", &[]);
        let error = StaticTable::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("several files of weights: a.safetensors, b.safetensors; name the right one model.safetensors"),
            "{error}"
        );
    }

    #[test]
    fn the_hash_changes_with_each_file() {
        let folder = folder("hash", &[Written::new("embeddings", &[4, 3], rows())]);
        let hash = || StaticTable::open(folder.path()).unwrap().model().hash.clone();
        let first = hash();
        folder.write("tokenizer.json", tokenizer(&["[UNK]", "deploy", "off"]).as_bytes());
        let second = hash();
        folder.weights("model.safetensors", &[Written::new("embeddings", &[4, 3], random(12, 1))]);
        assert!(first != second && second != hash() && first != hash());
    }

    #[test]
    fn a_table_without_a_row_for_a_token_is_refused() {
        let folder = folder("rows", &[Written::new("embeddings", &[3, 3], random(9, 1))]);
        let error = StaticTable::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("a token with the number 3, and the weights have only 3 rows"),
            "{error}"
        );
        folder.weights("model.safetensors", &[Written::new("embeddings", &[4, 0], vec![])]);
        let error = StaticTable::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("have 0 numbers"), "{error}");
    }

    #[test]
    fn a_folder_that_lacks_something_says_what() {
        let folder = folder("lacks", &[Written::new("embeddings", &[4, 3], rows())]);
        let nowhere = folder.path().join("nowhere");
        let refused = |path: &Path| StaticTable::open(path).unwrap_err();
        assert!(matches!(refused(&nowhere), EmbedError::NoFolder { .. }));
        let file = folder.path().join("tokenizer.json");
        assert!(matches!(refused(&file), EmbedError::NoFolder { .. }));
        folder.write("tokenizer.json", b"{}");
        let error = refused(folder.path()).to_string();
        assert!(error.contains("tokenizer.json cannot be used: it is not a tokenizer"), "{error}");
        folder.rename("tokenizer.json", "other.json");
        let error = refused(folder.path());
        assert!(matches!(&error, EmbedError::MissingFile { file, .. } if file == "tokenizer.json"));
        folder.rename("model.safetensors", "model.bin");
        let error = refused(folder.path());
        assert!(
            matches!(&error, EmbedError::MissingFile { file, .. } if file == "model.safetensors")
        );
    }
}
