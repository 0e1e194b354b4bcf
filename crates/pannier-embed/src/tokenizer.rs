//! The tokenizer of a model, from its `tokenizer.json`.
//!
//! Such a file may configure truncation and padding for training or batching. Both are disabled: each embedder has its own
//! limit, and a text is computed at its own length.

use std::path::{Path, PathBuf};

use pannier_tokens::disable_training_settings;
use tokenizers::Tokenizer;

use crate::EmbedError;
use crate::model_folder::{MAX_TOKENIZER_BYTES, ModelFolder};

/// The tokenizer library, as far as vectors depend on its version. Model hashes contain this text.
pub(crate) const VERSION: &str = "tokenizers 0.23";

/// Rejects components whose data the library trusts: they could panic on a text, or allocate without a bound.
fn check_components(bytes: &[u8]) -> Result<(), String> {
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not a tokenizer: {error}"))?;
    let mut pending = vec![&value["normalizer"]];
    while let Some(component) = pending.pop() {
        if component["type"] == "Precompiled" {
            return Err(
                "its normalizer type Precompiled is not supported; use another model".to_owned()
            );
        }
        pending.extend(component["normalizers"].as_array().into_iter().flatten());
    }
    Ok(())
}

/// The tokenizer of a model.
pub(crate) struct ModelTokenizer {
    path: PathBuf,
    tokenizer: Tokenizer,
}

impl ModelTokenizer {
    pub(crate) const FILE: &str = "tokenizer.json";

    /// Reads the `tokenizer.json` of a folder, and returns its bytes, too.
    pub(crate) fn read(folder: &ModelFolder) -> Result<(Self, Vec<u8>), EmbedError> {
        let bytes = folder.read(Self::FILE, MAX_TOKENIZER_BYTES)?;
        let path = folder.file(Self::FILE);
        let malformed =
            |error| EmbedError::invalid(&path, format!("it is not a tokenizer: {error}"));
        check_components(&bytes).map_err(|problem| EmbedError::invalid(&path, problem))?;
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(malformed)?;
        disable_training_settings(&mut tokenizer).map_err(malformed)?;
        Ok((Self { path, tokenizer }, bytes))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the token ids of a text, without special tokens.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => {
                Err(EmbedError::invalid(&self.path, format!("it cannot tokenize a text: {error}")))
            }
        }
    }

    /// Returns the id of a token that the model requires.
    pub(crate) fn token_id(&self, token: &str) -> Result<u32, EmbedError> {
        self.tokenizer.token_to_id(token).ok_or_else(|| {
            EmbedError::invalid(
                &self.path,
                format!("it has no token {token}; use the tokenizer.json of the model"),
            )
        })
    }

    /// Checks that a table with this many rows has one for each token id.
    pub(crate) fn check_rows(&self, rows: usize) -> Result<(), EmbedError> {
        let max_id = self.tokenizer.get_vocab(true).into_values().max();
        match max_id {
            Some(max_id) if max_id as usize >= rows => Err(EmbedError::invalid(
                &self.path,
                format!(
                    "it has the token id {max_id}, but the weights have only {rows} rows; use the tokenizer and weights of the same model"
                ),
            )),
            _ => Ok(()),
        }
    }
}
