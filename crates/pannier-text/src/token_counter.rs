//! The interface of token counters. The crate `pannier-tokens` implements it.
//!
//! The engine trusts the counts of items and never counts contents. Readers of items and layouts use a counter. Token
//! counts of parts do not add up to the count of the whole, so a layout counts the text as it is sent.

use xxhash_rust::xxh3::xxh3_64;

/// How far a token count can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exactness {
    /// The count of the model itself.
    Exact,
    /// Close to it, above or below.
    Estimate,
    /// Not below it.
    UpperBound,
}

impl Exactness {
    /// Returns the name that messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Estimate => "estimate",
            Self::UpperBound => "upper bound",
        }
    }
}

/// Counts tokens.
///
/// ```
/// use pannier_text::{Exactness, TokenCounter};
///
/// /// A token for each word.
/// struct Words;
///
/// impl TokenCounter for Words {
///     fn name(&self) -> &str {
///         "words"
///     }
///
///     fn exactness(&self) -> Exactness {
///         Exactness::Estimate
///     }
///
///     fn count(&self, text: &str) -> usize {
///         text.split_whitespace().count()
///     }
/// }
///
/// assert_eq!(Words.count("one two three"), 3);
/// assert_eq!(Words.count_up_to("one two three", 2), None);
/// assert_eq!(Words.truncate("one two three", 2), "one two ");
/// ```
pub trait TokenCounter: Send + Sync {
    /// Returns the name of the counter, with every setting that its counts depend on.
    fn name(&self) -> &str;

    /// Returns how far its counts can be trusted.
    fn exactness(&self) -> Exactness;

    /// Counts the tokens of a text. An empty text has none.
    fn count(&self, text: &str) -> usize;

    /// Counts the tokens of a text, or returns `None` if they exceed `limit`. A counter may stop there.
    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        Some(self.count(text)).filter(|count| *count <= limit)
    }

    /// Returns a count that no text of this many bytes exceeds, if the counter knows one.
    fn max_count(&self, bytes: usize) -> Option<usize> {
        let _ = bytes;
        None
    }

    /// Counts the tokens of each text. Equal texts are counted once.
    fn count_each(&self, texts: &[&str]) -> Vec<usize> {
        let mut order: Vec<(u64, &str, usize)> = texts
            .iter()
            .enumerate()
            .filter(|(_, text)| !text.is_empty())
            .map(|(index, text)| (xxh3_64(text.as_bytes()), *text, index))
            .collect();
        order.sort_unstable();
        let mut first = vec![0; texts.len()];
        for equal in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            equal.iter().for_each(|(_, _, index)| first[*index] = equal[0].2);
        }
        // In the order of the texts: neighbors share words, whose counts a counter may cache.
        let is_first = |index: usize| !texts[index].is_empty() && first[index] == index;
        let distinct = (0..texts.len()).filter(|index| is_first(*index)).map(|index| texts[index]);
        let mut new = self.count_distinct(&distinct.collect::<Vec<_>>()).into_iter();
        let mut counts: Vec<usize> = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            counts.push(match first[index] {
                _ if text.is_empty() => 0,
                first if first == index => new.next().unwrap_or_default(),
                first => counts[first],
            });
        }
        counts
    }

    /// Counts the tokens of each of several different texts. A counter may use several threads.
    fn count_distinct(&self, texts: &[&str]) -> Vec<usize> {
        texts.iter().map(|text| self.count(text)).collect()
    }

    /// Truncates a text between two characters so that its count is at most `limit`. Bisection finds the longest prefix
    /// if counts grow with the text.
    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        if self.count_up_to(text, limit).is_some() {
            return text;
        }
        // Every returned prefix has been counted, because counts need not grow with the text.
        let (mut fits, mut over) = (0, text.len());
        loop {
            let mut middle = fits + (over - fits) / 2;
            while !text.is_char_boundary(middle) {
                middle -= 1;
            }
            if middle <= fits {
                middle = next_boundary(text, fits);
                if middle >= over {
                    return &text[..fits];
                }
            }
            match self.count_up_to(&text[..middle], limit) {
                Some(_) => fits = middle,
                None => over = middle,
            }
        }
    }
}

impl std::fmt::Debug for dyn TokenCounter + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn next_boundary(text: &str, after: usize) -> usize {
    (after + 1..text.len()).find(|index| text.is_char_boundary(*index)).unwrap_or(text.len())
}

forward! {
    TokenCounter {
        fn name(&self) -> &str;
        fn exactness(&self) -> Exactness;
        fn count(&self, text: &str) -> usize;
        fn count_up_to(&self, text: &str, limit: usize) -> Option<usize>;
        fn max_count(&self, bytes: usize) -> Option<usize>;
        fn count_each(&self, texts: &[&str]) -> Vec<usize>;
        fn count_distinct(&self, texts: &[&str]) -> Vec<usize>;
        fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Characters;

    impl TokenCounter for Characters {
        fn name(&self) -> &str {
            "characters"
        }

        fn exactness(&self) -> Exactness {
            Exactness::Exact
        }

        fn count(&self, text: &str) -> usize {
            text.chars().count()
        }
    }

    #[test]
    fn equal_texts_are_counted_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        struct Bytes(AtomicUsize);

        impl TokenCounter for Bytes {
            fn name(&self) -> &str {
                "bytes"
            }

            fn exactness(&self) -> Exactness {
                Exactness::Exact
            }

            fn count(&self, text: &str) -> usize {
                self.0.fetch_add(1, Ordering::Relaxed);
                text.len()
            }
        }

        let counter = Bytes(AtomicUsize::new(0));
        assert_eq!(counter.count_each(&["bb", "a", "bb", "", "a", "bb"]), [2, 1, 2, 0, 1, 2]);
        // The empty text has no tokens.
        assert_eq!(counter.0.load(Ordering::Relaxed), 2);
    }

    proptest! {
        #[test]
        fn truncation_keeps_the_longest_prefix_if_counts_grow_with_the_text(text in ".{0,40}", limit in 0..45_usize) {
            let cut = Characters.truncate(&text, limit);
            prop_assert!(text.starts_with(cut));
            prop_assert_eq!(Characters.count(cut), Characters.count(&text).min(limit));
        }
    }
}
