//! Counting with a `tokenizer.json`, the tokenizer format of most open models.

use std::fmt;
use std::path::Path;

use pannier_core::TokenCounter;
use pannier_core::item::Exactness;
use tokenizers::{ModelWrapper, Tokenizer};

use crate::TokenError;

/// A counter that reads a `tokenizer.json`. It does not count the special tokens that a model adds around a text.
pub struct TokenizerFile {
    name: String,
    tokenizer: Tokenizer,
}

impl TokenizerFile {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// [`TokenError::File`] if the file cannot be read, exceeds 256 MiB or is not a `tokenizer.json`.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let failed = |problem: String| TokenError::File { path: path.to_owned(), problem };
        let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if size > Self::MAX_FILE_BYTES {
            return Err(failed(format!(
                "it has {size} bytes, the limit is {}",
                Self::MAX_FILE_BYTES
            )));
        }
        let mut tokenizer =
            Tokenizer::from_file(path).map_err(|error| failed(error.to_string()))?;
        disable_training_settings(&mut tokenizer).map_err(|error| failed(error.to_string()))?;
        Ok(Self { name: format!("file:{}", path.display()), tokenizer })
    }

    const MAX_FILE_BYTES: u64 = 256 << 20;
}

/// Disables the settings for training and batching: truncation and padding would change tokens, BPE dropout and unigram
/// sampling would randomize them.
///
/// # Errors
///
/// Any error of the tokenizer that refuses a setting.
pub fn disable_training_settings(tokenizer: &mut Tokenizer) -> tokenizers::Result<()> {
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
    tokenizer.with_truncation(None)?;
    tokenizer.with_padding(None);
    Ok(())
}

impl TokenCounter for TokenizerFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn count(&self, text: &str) -> usize {
        match self.tokenizer.encode_fast(text, false) {
            Ok(encoding) => encoding.len(),
            // The model cannot encode the text. No text has more tokens than bytes.
            Err(_) => text.len(),
        }
    }
}

impl fmt::Debug for TokenizerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizerFile").field("name", &self.name).finish_non_exhaustive()
    }
}
