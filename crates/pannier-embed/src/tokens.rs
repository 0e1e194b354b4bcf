//! Splits texts as a model's `tokenizer.json` says.
//!
//! Such a file may ask to cut and to fill texts, for training or for batches of one length. Both are switched off: what
//! is cut is a rule of each embedder, and a text is computed at its own length.

use std::path::{Path, PathBuf};

use tokenizers::{ModelWrapper, Tokenizer};

use crate::EmbedError;
use crate::files::{Folder, LARGEST_TOKENIZER};

/// What splits texts, as far as vectors depend on its version.
pub(crate) const VERSION: &str = "tokenizers 0.23";

/// Refuses a part whose data the library trusts: it would fail on a text, or ask for any amount of memory.
fn check_parts(bytes: &[u8]) -> Result<(), String> {
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not a tokenizer: {error}"))?;
    let mut open = vec![&value["normalizer"]];
    while let Some(part) = open.pop() {
        if part["type"] == "Precompiled" {
            return Err(
                "its normalizer is Precompiled, which is not taken; give another model".to_owned()
            );
        }
        open.extend(part["normalizers"].as_array().into_iter().flatten());
    }
    Ok(())
}

/// A tokenizer from a file.
pub(crate) struct Tokens {
    path: PathBuf,
    tokenizer: Tokenizer,
}

impl Tokens {
    pub(crate) const FILE: &str = "tokenizer.json";

    /// Reads the `tokenizer.json` of a folder, and gives its bytes along.
    pub(crate) fn read(folder: &Folder) -> Result<(Self, Vec<u8>), EmbedError> {
        let bytes = folder.read(Self::FILE, LARGEST_TOKENIZER)?;
        let path = folder.file(Self::FILE);
        let not_one = |error| EmbedError::invalid(&path, format!("it is not a tokenizer: {error}"));
        check_parts(&bytes).map_err(|problem| EmbedError::invalid(&path, problem))?;
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(not_one)?;
        // What is left to chance in training must not be in use.
        match tokenizer.get_model().clone() {
            ModelWrapper::BPE(mut model) if model.dropout.is_some() => {
                model.dropout = None;
                tokenizer.with_model(model);
            }
            ModelWrapper::Unigram(mut model) if model.alpha.is_some() => {
                model.alpha = None;
                tokenizer.with_model(model);
            }
            _ => {}
        }
        tokenizer.with_truncation(None).map_err(not_one)?;
        tokenizer.with_padding(None);
        Ok((Self { path, tokenizer }, bytes))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of a text's tokens, without those that a model adds around a text.
    pub(crate) fn split(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => {
                Err(EmbedError::invalid(&self.path, format!("it cannot split a text: {error}")))
            }
        }
    }

    /// The number of a token that must be there.
    pub(crate) fn number(&self, token: &str) -> Result<u32, EmbedError> {
        self.tokenizer.token_to_id(token).ok_or_else(|| {
            EmbedError::invalid(
                &self.path,
                format!("it has no token {token}; give the one of the right model"),
            )
        })
    }

    /// Checks that a table has a row for each token.
    pub(crate) fn check_rows(&self, rows: usize) -> Result<(), EmbedError> {
        let largest = self.tokenizer.get_vocab(true).into_values().max();
        match largest {
            Some(largest) if largest as usize >= rows => Err(EmbedError::invalid(
                &self.path,
                format!(
                    "it has a token with the number {largest}, and the weights have only {rows} rows; give two files of one model"
                ),
            )),
            _ => Ok(()),
        }
    }
}
