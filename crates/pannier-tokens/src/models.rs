//! Counters by name.

use std::path::PathBuf;

use pannier_core::TokenCounter;

use crate::{BytesOverFour, ScriptEstimate};

/// Why there is no counter, or none that works.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Nothing has this name.
    #[error("there is no tokenizer '{name}'; {suggestion}")]
    Unknown {
        /// The name.
        name: String,
        /// What to write instead.
        suggestion: String,
    },

    /// This build does not have it.
    #[error("the tokenizer '{name}' is not part of this build; build with the feature '{feature}'")]
    NotBuilt {
        /// The name.
        name: String,
        /// The cargo feature that has it.
        feature: &'static str,
    },

    /// A file is not a tokenizer.
    #[error("{} cannot be used as a tokenizer: {problem}; give the path of a tokenizer.json", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },

    /// A factor that makes no bound.
    #[error("the factor is {factor}; it must be from 1 to 100")]
    Factor {
        /// The factor.
        factor: f64,
    },

    /// There is nothing to learn from.
    #[error("there are no texts with tokens to learn from; log pairs of a text and its tokens")]
    NoPairs,
}

/// What counts for a name.
#[derive(Clone, Copy)]
enum Kind {
    BytesOverFour,
    Script,
    O200k,
    Cl100k,
    /// `o200k`, times so many thousandths.
    Bounded(u32),
}

/// Names, and beginnings of names of models. Longer ones first where one begins another.
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

/// Longer names are none. Factors nest, and each takes a place on the stack.
const LONGEST_NAME: usize = 200;

/// The names there are, without `file:PATH`.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// The counter of this name: an encoding (`o200k`), a model (`gpt-5-mini`), a family whose vocabulary is not
/// published (`claude`), or `file:` and the path of a `tokenizer.json`. ASCII case does not matter. Any of them may be
/// followed by a factor: `o200k x 1.4`. The name that a counter has finds it again.
///
/// # Errors
///
/// [`TokenError::Unknown`] with suggestions, [`TokenError::NotBuilt`] or [`TokenError::File`].
pub fn counter(name: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    match name.strip_prefix("file:") {
        Some(path) => file(path),
        None => built_in(name),
    }
}

/// As [`counter`], but without those that are made of a file: for names that come from elsewhere.
///
/// # Errors
///
/// [`TokenError::Unknown`] with suggestions, or [`TokenError::NotBuilt`].
pub fn built_in(name: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    if name.len() > LONGEST_NAME {
        let name = name.chars().take(40).chain(['…']).collect();
        return Err(TokenError::Unknown { name, suggestion: suggest("") });
    }
    if let Some((inner, factor)) = name.rsplit_once(" x ") {
        let factor = factor.trim().parse().unwrap_or(f64::NAN);
        return Ok(Box::new(crate::UpperBound::new(built_in(inner)?, factor)?));
    }
    let folded = name.to_ascii_lowercase();
    let is_meant = |known: &str| match folded.strip_prefix(known) {
        // A model has variants; `o200k` and `o200k_base` are the same; `o30` is not `o3`.
        Some(rest) => rest.is_empty() || rest.starts_with(['-', '_', '.', ':', '@']),
        None => false,
    };
    let found = NAMES.iter().find(|(known, _)| is_meant(known));
    let Some((_, kind)) = found else {
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

#[cfg(feature = "openai")]
fn exact(_name: &str, encoding: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
    Ok(if encoding == "o200k" { Box::new(crate::o200k()) } else { Box::new(crate::cl100k()) })
}

#[cfg(not(feature = "openai"))]
fn exact(name: &str, _encoding: &str) -> Result<Box<dyn TokenCounter>, TokenError> {
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

/// The names that are nearest, or all of them.
fn suggest(name: &str) -> String {
    let mut near: Vec<(usize, &str)> = names()
        .map(|known| (distance(name, known), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .collect();
    near.sort();
    if near.is_empty() {
        let all: Vec<&str> = names().collect();
        return format!("there are {}, and file:PATH", all.join(", "));
    }
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, known)| known).collect();
    format!("did you mean {}?", near.join(" or "))
}

/// How many characters have to be changed, added or removed to make one of the other. Names are short; what is not
/// is cut.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) =
        (left.chars().take(64).collect(), right.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_open_no_file_and_nest_a_little_only() {
        for foreign in ["file:/dev/zero", "file:tokenizer.json x 1.4"] {
            assert!(matches!(built_in(foreign), Err(TokenError::Unknown { .. })), "{foreign}");
        }
        assert!(built_in("bytes/4 x 1.2 x 1.1").is_ok());
        let deep = format!("bytes/4{}", " x 1".repeat(100_000));
        assert!(counter(&deep).is_err_and(|error| error.to_string().len() < 1_000));
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("o200k", "o200k"), 0);
    }
}
