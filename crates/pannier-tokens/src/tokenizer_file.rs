//! A `tokenizer.json`, as most open models have one.

use std::fmt;
use std::path::Path;

use pannier_core::{Exactness, TokenCounter};
use tokenizers::{ModelWrapper, Tokenizer};

use crate::TokenError;

/// Counts with a tokenizer from a file. Special tokens that a model adds around a text are not counted.
pub struct TokenizerFile {
    name: String,
    tokenizer: Tokenizer,
}

impl TokenizerFile {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// [`TokenError::File`] if it cannot be read, or is not one.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let failed = |problem: String| TokenError::File { path: path.to_owned(), problem };
        let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if size > Self::LARGEST {
            return Err(failed(format!("it has {size} bytes; at most {} are read", Self::LARGEST)));
        }
        let mut tokenizer =
            Tokenizer::from_file(path).map_err(|error| failed(error.to_string()))?;
        // What was set up for training would cut or fill every text, or split it at random.
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
        tokenizer.with_truncation(None).map_err(|error| failed(error.to_string()))?;
        tokenizer.with_padding(None);
        Ok(Self { name: format!("file:{}", path.display()), tokenizer })
    }

    const LARGEST: u64 = 256 << 20;
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
            // A text that the model has no tokens for: no text has more tokens than bytes.
            Err(_) => text.len(),
        }
    }
}

impl fmt::Debug for TokenizerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizerFile").field("name", &self.name).finish_non_exhaustive()
    }
}
