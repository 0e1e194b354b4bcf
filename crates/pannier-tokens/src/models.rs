//! Finds counters by the name of an encoding or a model.

use std::path::PathBuf;

use pannier_core::TokenCounter;

use crate::{BytesOverFour, ScriptEstimate};

/// The reasons why a counter or a calibration cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// No counter has this name.
    #[error("there is no tokenizer '{name}'; {suggestion}")]
    Unknown {
        /// The name.
        name: String,
        /// The names to use instead.
        suggestion: String,
    },

    /// The counter needs a cargo feature that this build lacks.
    #[error("the tokenizer '{name}' is not part of this build; build with the feature '{feature}'")]
    NotBuilt {
        /// The name.
        name: String,
        /// The cargo feature.
        feature: &'static str,
    },

    /// The counter needs the vocabulary of an encoding, and this build has none.
    #[error(
        "the tokenizer '{name}' needs the vocabulary of {encoding}; load it first, or build with the feature 'openai'"
    )]
    NotLoaded {
        /// The name.
        name: String,
        /// The encoding.
        encoding: &'static str,
    },

    /// The bytes are not those of a vocabulary.
    #[error(
        "the vocabulary cannot be used: {problem}; take a file of this version's folder vocabularies"
    )]
    Vocabulary {
        /// The cause.
        problem: &'static str,
    },

    /// A file is not a `tokenizer.json`.
    #[error("{} cannot be used as a tokenizer: {problem}; give the path of a tokenizer.json", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        problem: String,
    },

    /// The factor of an upper bound is out of range.
    #[error("the factor is {factor}; it must be from 1 to 100")]
    Factor {
        /// The factor.
        factor: f64,
    },

    /// A calibration has no text that the counter counts as at least one token.
    #[error("no text to calibrate with; log pairs of a non-empty text and its token count")]
    NoPairs,
}

/// The counter that a name stands for.
#[derive(Clone, Copy)]
enum Kind {
    BytesOverFour,
    Script,
    O200k,
    Cl100k,
    /// `o200k` times a factor, in thousandths.
    Bounded(u32),
}

/// Names, and prefixes of the names of models. The first match wins, so longer prefixes precede shorter ones.
const NAMES: &[(&str, Kind)] = &[
    ("bytes/4", Kind::BytesOverFour),
    ("script", Kind::Script),
    ("o200k", Kind::O200k),
    ("cl100k", Kind::Cl100k),
    ("gpt-5", Kind::O200k),
    ("gpt-oss", Kind::O200k),
    ("gpt-4.5", Kind::O200k),
    ("gpt-4.1", Kind::O200k),
    ("gpt-4o", Kind::O200k),
    ("chatgpt-4o", Kind::O200k),
    ("o1", Kind::O200k),
    ("o3", Kind::O200k),
    ("o4-mini", Kind::O200k),
    ("gpt-4", Kind::Cl100k),
    ("gpt-3.5", Kind::Cl100k),
    ("text-embedding-3", Kind::Cl100k),
    ("text-embedding-ada-002", Kind::Cl100k),
    ("claude", Kind::Bounded(1_500)),
    ("gemini", Kind::Bounded(1_300)),
];

/// The longest name that is looked up. Factors nest, and each needs a stack frame.
const MAX_NAME_BYTES: usize = 200;

/// Returns all names except `file:PATH`.
pub fn counter_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Returns the counter of this name.
///
/// A name is an encoding (`o200k`), a model (`gpt-5-mini`), a family whose vocabulary is not published (`claude`), or
/// `file:` and the path of a `tokenizer.json`. ASCII case is ignored. A factor may follow every name but a file:
/// `o200k x 1.4`. `TokenCounter::name` of the result finds the same counter.
///
/// # Errors
///
/// [`TokenError::Unknown`] with suggestions, [`TokenError::NotBuilt`], [`TokenError::NotLoaded`],
/// [`TokenError::Factor`] or [`TokenError::File`].
pub fn counter_by_name(name: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    match name.strip_prefix("file:") {
        Some(path) => file(path),
        None => builtin_counter(name),
    }
}

/// Returns the counter of this name, but reads no files: for names from untrusted input.
///
/// # Errors
///
/// [`TokenError::Unknown`] with suggestions, [`TokenError::NotBuilt`], [`TokenError::NotLoaded`] or
/// [`TokenError::Factor`].
pub fn builtin_counter(name: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    if name.len() > MAX_NAME_BYTES {
        let name = name.chars().take(40).chain(['…']).collect();
        return Err(TokenError::Unknown { name, suggestion: suggest("") });
    }
    if let Some((inner, factor)) = name.rsplit_once(" x ") {
        let factor = factor.trim().parse().unwrap_or(f64::NAN);
        return Ok(Box::new(crate::UpperBound::new(builtin_counter(inner)?, factor)?));
    }
    let folded = name.to_ascii_lowercase();
    let matches_prefix = |known: &str| match folded.strip_prefix(known) {
        // `gpt-5-mini` is a `gpt-5` and `o200k_base` is `o200k`, but `o30` is not `o3`.
        Some(rest) => rest.is_empty() || rest.starts_with(['-', '_', '.', ':', '@']),
        None => false,
    };
    let Some((_, kind)) = NAMES.iter().find(|(known, _)| matches_prefix(known)) else {
        return Err(TokenError::Unknown { name: name.to_owned(), suggestion: suggest(&folded) });
    };
    match kind {
        Kind::BytesOverFour => Ok(Box::new(BytesOverFour)),
        Kind::Script => Ok(Box::new(ScriptEstimate)),
        Kind::O200k => exact(name, "o200k"),
        Kind::Cl100k => exact(name, "cl100k"),
        Kind::Bounded(thousandths) => {
            let factor = f64::from(*thousandths) / 1_000.0;
            Ok(Box::new(crate::UpperBound::new(exact(name, "o200k")?, factor)?))
        }
    }
}

#[cfg(feature = "encodings")]
fn exact(name: &str, encoding: &'static str) -> Result<Box<dyn TokenCounter>, TokenError> {
    crate::encoding::counter(encoding)
        .ok_or_else(|| TokenError::NotLoaded { name: name.to_owned(), encoding })
}

#[cfg(not(feature = "encodings"))]
fn exact(name: &str, _encoding: &'static str) -> Result<Box<dyn TokenCounter>, TokenError> {
    Err(TokenError::NotBuilt { name: name.to_owned(), feature: "openai" })
}

#[cfg(feature = "tokenizer-json")]
fn file(path: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    Ok(Box::new(crate::TokenizerFile::open(path.as_ref())?))
}

#[cfg(not(feature = "tokenizer-json"))]
fn file(path: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    Err(TokenError::NotBuilt { name: format!("file:{path}"), feature: "tokenizer-json" })
}

/// Suggests the three names closest to `name` by edit distance, or lists all names if none is close.
fn suggest(name: &str) -> String {
    let mut near: Vec<(usize, &str)> = counter_names()
        .map(|known| (strsim::levenshtein(name, known), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .collect();
    near.sort();
    if near.is_empty() {
        let all: Vec<&str> = counter_names().collect();
        return format!("use {} or file:PATH", all.join(", "));
    }
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, known)| known).collect();
    format!("did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_names_open_no_files_and_nesting_is_bounded() {
        for name in ["file:/dev/zero", "file:tokenizer.json x 1.4"] {
            assert!(matches!(builtin_counter(name), Err(TokenError::Unknown { .. })), "{name}");
        }
        assert!(builtin_counter("bytes/4 x 1.2 x 1.1").is_ok());
        let deep = format!("bytes/4{}", " x 1".repeat(100_000));
        assert!(counter_by_name(&deep).is_err_and(|error| error.to_string().len() < 1_000));
    }
}
