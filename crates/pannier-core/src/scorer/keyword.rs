//! Scores by keywords in the content.
//!
//! Each word of a content is looked up in the sorted keywords: `O(words * log(keywords))`. Reading a content stops once
//! its score is saturated.

use std::collections::BTreeSet;
use std::iter;

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

/// The number of distinct keywords in an item's content, divided by the saturation; at most 1.
///
/// Keywords match whole words, without regard to case. The words of a content are separated by whitespace and lose
/// punctuation at both ends. Parts of a word between punctuation are words, too: `(auth/login.rs)` has the words
/// `auth/login.rs`, `auth`, `login` and `rs`. A repeated keyword counts once.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{KeywordScorer, Pool};
///
/// let scorer = KeywordScorer::new(["deploy", "rollback", "Friday"], 2)?;
/// let items = [
///     ContextItem::new("Never deploy on a friday, rollback or not.", 11)?,
///     ContextItem::new("Deploy: see deploy/README.md", 8)?,
///     ContextItem::new("Deployments are on Mondays.", 6)?,
/// ];
/// assert_eq!(Pool::new(&items).scores(&scorer)?, [1.0, 0.5, 0.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeywordScorer {
    /// Normalized, in the order of the caller.
    keywords: Vec<String>,
    /// Their positions, in the order of their texts.
    sorted: Vec<usize>,
    /// The lengths of the keywords by their first byte, as bits. Most words of a text have none of them.
    lengths: Vec<u64>,
    saturation: usize,
}

impl KeywordScorer {
    /// Creates a scorer that gives 1 to items with at least `saturation` of these keywords, and a share to others.
    ///
    /// Keywords lose punctuation at both ends. Empty and repeated keywords are ignored. A keyword with whitespace inside
    /// never matches. Without keywords, every score is 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if `saturation` is 0.
    pub fn new<K: AsRef<str>>(
        keywords: impl IntoIterator<Item = K>,
        saturation: usize,
    ) -> Result<Self, Error> {
        if saturation == 0 {
            let problem = "saturation is 0; it must be 1 or more".to_owned();
            return Err(Error::InvalidScorer { scorer: "KeywordScorer", problem });
        }
        let mut known = BTreeSet::new();
        let keywords =
            keywords.into_iter().map(|keyword| trim_punctuation(keyword.as_ref()).to_lowercase());
        let is_new = |keyword: &String| !keyword.is_empty() && known.insert(keyword.clone());
        let keywords: Vec<String> = keywords.filter(is_new).collect();
        let mut sorted: Vec<usize> = (0..keywords.len()).collect();
        sorted.sort_unstable_by_key(|position| &keywords[*position]);
        let mut lengths = vec![0; 256];
        for keyword in &keywords {
            lengths[usize::from(keyword.as_bytes()[0])] |= length_bit(keyword);
        }
        Ok(Self { keywords, sorted, lengths, saturation })
    }

    /// Returns the normalized keywords, in the order of the caller.
    pub fn keywords(&self) -> &[String] {
        &self.keywords
    }

    /// Returns the position of the keyword that equals a word.
    fn find(&self, word: &str) -> Option<usize> {
        // Most words are ASCII, and compare without a lowercased copy.
        let found = if word.is_ascii() {
            let first = word.bytes().next()?.to_ascii_lowercase();
            if self.lengths[usize::from(first)] & length_bit(word) == 0 {
                return None;
            }
            let lower = || word.bytes().map(|byte| byte.to_ascii_lowercase());
            self.sorted.binary_search_by(|keyword| self.keywords[*keyword].bytes().cmp(lower()))
        } else {
            let lower = word.to_lowercase();
            self.sorted.binary_search_by(|keyword| self.keywords[*keyword].cmp(&lower))
        };
        found.ok().map(|index| self.sorted[index])
    }

    /// Returns the positions of the keywords in a content, with repetitions.
    fn matched_keywords(&self, content: &str) -> impl Iterator<Item = usize> {
        words(content).filter_map(|word| self.find(word))
    }
}

/// Returns the bit of a length. The last one is that of all long words.
fn length_bit(word: &str) -> u64 {
    1 << word.len().min(63)
}

/// Removes everything but letters and digits from both ends.
fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Returns the words of a text, and their parts.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(trim_punctuation).filter(|word| !word.is_empty()).flat_map(|word| {
        let parts = word.split(|c: char| !c.is_alphanumeric() && c != '_');
        // A word without parts is its own only part.
        let parts = parts.filter(|part| !part.is_empty() && part.len() < word.len());
        iter::once(word).chain(parts)
    })
}

impl Scorer for KeywordScorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let max_matches = self.saturation.min(self.keywords.len());
        if max_matches == 0 {
            scores.fill(0.0);
            return Ok(());
        }
        // The last item that each keyword occurs in.
        let mut last = vec![usize::MAX; self.keywords.len()];
        for (position, (score, item)) in scores.iter_mut().zip(pool.items()).enumerate() {
            let is_new =
                |keyword: &usize| std::mem::replace(&mut last[*keyword], position) != position;
            let matches =
                self.matched_keywords(item.content()).filter(is_new).take(max_matches).count();
            *score = matches as f64 / self.saturation as f64;
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "keyword"
    }

    fn max_score(&self) -> f64 {
        self.saturation.min(self.keywords.len()) as f64 / self.saturation as f64
    }

    /// Returns every keyword that occurs, including those beyond the saturation.
    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        let content = pool.items().get(item).map_or("", |item| item.content());
        let matches: BTreeSet<usize> = self.matched_keywords(content).collect();
        let each = 1.0 / self.saturation as f64;
        let children = matches
            .iter()
            .map(|keyword| ScoreExplanation::new(self.keywords[*keyword].as_str(), each));
        let score = matches.len().min(self.saturation) as f64 / self.saturation as f64;
        Ok(ScoreExplanation::new(self.name(), score).with_children(children.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextItem;

    fn score(keywords: &[&str], saturation: usize, content: &str) -> f64 {
        let item = ContextItem::new(content, 1).unwrap();
        let scorer = KeywordScorer::new(keywords, saturation).unwrap();
        Pool::new([&item]).scores(&scorer).unwrap()[0]
    }

    #[test]
    fn words_are_split_at_whitespace_and_punctuation() {
        let shown = |text| words(text).collect::<Vec<_>>().join(" ");
        assert_eq!(shown("(auth/login.rs)"), "auth/login.rs auth login rs");
        assert_eq!(shown("snake_case _x_ don't -- é"), "snake_case x don't don t é");
        assert_eq!(shown("a//b\u{a0}c"), "a//b a b c");
        assert_eq!(shown(" \n … __ "), "");
    }

    #[test]
    fn keywords_are_normalized() {
        let given = ["  Deploy,", "DEPLOY", "", "--", "Größe", "auth/Login.rs", "a b"];
        let scorer = KeywordScorer::new(given, 1).unwrap();
        assert_eq!(scorer.keywords(), ["deploy", "größe", "auth/login.rs", "a b"]);
    }

    #[test]
    fn distinct_keywords_count_up_to_the_saturation() {
        let keywords = ["deploy", "rollback", "friday", "größe"];
        assert_eq!(score(&keywords, 3, "deploy deploy DEPLOY deploy/deploy"), 1.0 / 3.0);
        assert_eq!(score(&keywords, 3, "Deploy, then rollback."), 2.0 / 3.0);
        assert_eq!(score(&keywords, 3, "GRÖßE friday: deploy rollback"), 1.0);
        assert_eq!(score(&keywords, 9, "größe friday deploy rollback"), 4.0 / 9.0);
        assert_eq!(score(&keywords, 1, "deployment predeploy"), 0.0);
        assert_eq!(score(&["auth/login.rs"], 1, "in (AUTH/login.rs)"), 1.0);
        assert_eq!(score(&["auth"], 1, "in auth/login.rs:12"), 1.0);
        assert_eq!(score(&["a b"], 1, "a b"), 0.0);
        assert_eq!(score(&[], 1, "deploy"), 0.0);
    }

    #[test]
    fn an_explanation_has_all_matched_keywords() {
        let item = ContextItem::new("b/a c", 1).unwrap();
        let pool = Pool::new([&item]);
        let explanation =
            KeywordScorer::new(["c", "x", "a", "b"], 2).unwrap().explain(&pool, 0).unwrap();
        let part = |keyword| ScoreExplanation::new(keyword, 0.5);
        let expected = ScoreExplanation::new("keyword", 1.0);
        assert_eq!(explanation, expected.with_children(vec![part("c"), part("a"), part("b")]));
    }

    #[test]
    fn a_saturation_of_0_is_refused() {
        let error = KeywordScorer::new(["a"], 0).unwrap_err();
        assert_eq!(error.to_string(), "KeywordScorer: saturation is 0; it must be 1 or more");
    }
}
