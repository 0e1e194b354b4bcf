//! Shingles: runs of words, by which near-duplicates are found.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of words in a shingle.
pub const SHINGLE_LEN: usize = 5;

/// Words and shingles have different hash seeds, so a word never equals a shingle.
const WORD_SEED: u64 = 1;
const SHINGLE_SEED: u64 = SHINGLE_LEN as u64;

/// A text as its words: lowercased, with a space between them, so that a shingle is a slice.
#[derive(Clone, Debug)]
pub struct WordSequence {
    text: String,
    bounds: Vec<(usize, usize)>,
}

impl WordSequence {
    /// Splits a text into words.
    pub fn new(content: &str) -> Self {
        let (mut text, mut bounds) = (String::with_capacity(content.len()), Vec::new());
        for word in split_words(content) {
            if !text.is_empty() {
                text.push(' ');
            }
            let start = text.len();
            if word.is_ascii() {
                text.push_str(word);
                text[start..].make_ascii_lowercase();
            } else {
                text.push_str(&word.to_lowercase());
            }
            bounds.push((start, text.len()));
        }
        Self { text, bounds }
    }

    /// Returns whether the text has fewer words than a shingle.
    pub fn is_short(&self) -> bool {
        self.bounds.len() < SHINGLE_LEN
    }

    /// Returns the words, each after its hash.
    pub fn words(&self) -> impl Iterator<Item = (u64, &str)> {
        let words = self.bounds.iter().map(|(start, end)| &self.text[*start..*end]);
        words.map(|word| (xxh3_64_with_seed(word.as_bytes(), WORD_SEED), word))
    }

    /// Returns the shingles, each after its hash.
    pub fn shingles(&self) -> impl Iterator<Item = (u64, &str)> {
        let shingles = self.bounds.windows(SHINGLE_LEN);
        let shingles = shingles.map(|words| &self.text[words[0].0..words[SHINGLE_LEN - 1].1]);
        shingles.map(|shingle| (xxh3_64_with_seed(shingle.as_bytes(), SHINGLE_SEED), shingle))
    }
}

/// Splits a content at everything that is not a letter or a digit.
pub fn split_words(content: &str) -> impl Iterator<Item = &str> {
    content.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lowercased_runs_of_letters_and_digits() {
        let words = WordSequence::new("Don't STOP—2 Straße\u{130}x");
        let texts = words.words().map(|(_, word)| word);
        assert_eq!(texts.collect::<Vec<_>>(), ["don", "t", "stop", "2", "straßei\u{307}x"]);
        let shingles = words.shingles().map(|(_, shingle)| shingle);
        assert_eq!(shingles.collect::<Vec<_>>(), ["don t stop 2 straßei\u{307}x"]);
        assert!(!words.is_short());
        assert!(WordSequence::new("... --- ...").bounds.is_empty());
    }
}
