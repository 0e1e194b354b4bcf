//! Extracts keywords from the texts of open tasks.

use std::collections::BTreeSet;

/// Stop words of at least [`MIN_CHARS`] characters, sorted.
const STOP_WORDS: [&str; 93] = [
    "about", "after", "again", "all", "also", "and", "any", "are", "because", "been", "before",
    "being", "between", "both", "but", "can", "could", "did", "does", "doing", "done", "down",
    "during", "each", "every", "few", "for", "from", "had", "has", "have", "her", "here", "him",
    "his", "how", "into", "its", "just", "like", "may", "might", "more", "most", "must", "nor",
    "not", "now", "off", "once", "one", "only", "other", "our", "out", "over", "own", "per",
    "same", "she", "should", "some", "such", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "through", "too", "under", "until", "upon", "use",
    "very", "via", "was", "were", "what", "when", "where", "which", "while", "who", "why", "will",
    "with",
];

/// The minimum length of a keyword.
const MIN_CHARS: usize = 3;

/// Returns the distinct keywords of `texts` in order of first occurrence.
///
/// A keyword is a lowercased word between whitespace, trimmed to letters and digits at both ends. Tags, stop words and
/// words of fewer than three characters are skipped.
///
/// ```
/// assert_eq!(
///     pannier_memory::keywords(["Fix the login flow, see `auth/login.rs` #priority:high", "fix it"]),
///     ["fix", "login", "flow", "see", "auth/login.rs"]
/// );
/// ```
pub fn keywords<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let words = texts.into_iter().flat_map(str::split_whitespace);
    let words = words.filter(|word| !word.starts_with('#'));
    let (mut known, mut keywords) = (BTreeSet::new(), Vec::new());
    let mut lower = String::new();
    for word in words {
        let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        lower.clear();
        if word.is_ascii() {
            lower.push_str(word);
            lower.make_ascii_lowercase();
        } else {
            lower.push_str(&word.to_lowercase());
        }
        // Most words are repetitions, so look them up before cloning.
        if lower.chars().nth(MIN_CHARS - 1).is_some()
            && !known.contains(lower.as_str())
            && STOP_WORDS.binary_search(&lower.as_str()).is_err()
        {
            known.insert(lower.clone());
            keywords.push(lower.clone());
        }
    }
    keywords
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(STOP_WORDS.iter().all(|word| word.chars().count() >= MIN_CHARS));
    }

    #[test]
    fn stop_words_short_words_tags_and_repetitions_are_skipped() {
        let texts = ["Add the CI job for Über-tests.", "add IT to ci #ci:tests #jobs (CI-job)"];
        assert_eq!(keywords(texts), ["add", "job", "über-tests", "ci-job"]);
        assert_eq!(keywords(["a an of -- #x **\"", ""]), Vec::<String>::new());
        assert_eq!(keywords([]), Vec::<String>::new());
    }
}
