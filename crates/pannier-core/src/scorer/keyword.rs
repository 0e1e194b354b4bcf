//! Scores by the words that occur in a content.
//!
//! A word is looked up in the sorted keywords, so a content is read once, however many keywords there
//! are, and only as far as its score can still grow.

use std::collections::BTreeSet;
use std::iter;

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

/// How many of some keywords occur in an item's content, over how many are enough; at most 1.
///
/// Keywords are whole words, and case does not matter. The words of a content are what stands between
/// white space, without what is neither letter nor digit at its ends; and the parts of such a word
/// between characters that are no letters, digits or underscores. So `(auth/login.rs)` has the words
/// `auth/login.rs`, `auth`, `login` and `rs`. A keyword that occurs often counts once.
///
/// ```
/// use pannier_core::{ContextItem, KeywordScorer, Pool};
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
    /// In the order they were given, as they are looked for.
    keywords: Vec<String>,
    /// Their places, by their texts.
    sorted: Vec<usize>,
    saturation: usize,
}

impl KeywordScorer {
    /// A scorer that gives 1 to an item with `saturation` of these keywords, and to one with fewer its share.
    ///
    /// Keywords lose what is neither letter nor digit at their ends. Those that are then empty, or the
    /// same as another but for case, do not count. One with white space inside is found nowhere.
    /// Without keywords every score is 0.
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
        sorted.sort_unstable_by_key(|place| &keywords[*place]);
        Ok(Self { keywords, sorted, saturation })
    }

    /// The keywords as they are looked for, in the order they were given.
    pub fn keywords(&self) -> &[String] {
        &self.keywords
    }

    /// The place of the keyword that a word is.
    fn find(&self, word: &str) -> Option<usize> {
        // Most words are ASCII, and compare without a copy in lower case.
        let found = if word.is_ascii() {
            let lower = || word.bytes().map(|byte| byte.to_ascii_lowercase());
            self.sorted.binary_search_by(|place| self.keywords[*place].bytes().cmp(lower()))
        } else {
            let lower = word.to_lowercase();
            self.sorted.binary_search_by(|place| self.keywords[*place].cmp(&lower))
        };
        found.ok().map(|at| self.sorted[at])
    }

    /// The places of the keywords in a content, as often as they occur.
    fn matched_keywords(&self, content: &str) -> impl Iterator<Item = usize> {
        words(content).filter_map(|word| self.find(word))
    }
}

/// Without what is neither letter nor digit at its ends.
fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The words of a text, and their parts.
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
        let most = self.saturation.min(self.keywords.len());
        if most == 0 {
            scores.fill(0.0);
            return Ok(());
        }
        // The last item that each keyword was found in.
        let mut last = vec![usize::MAX; self.keywords.len()];
        for (place, (score, item)) in scores.iter_mut().zip(pool.items()).enumerate() {
            let is_new = |keyword: &usize| std::mem::replace(&mut last[*keyword], place) != place;
            let matches = self.matched_keywords(item.content()).filter(is_new).take(most).count();
            *score = matches as f64 / self.saturation as f64;
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "keyword"
    }

    /// Tells every keyword that occurs, also those beyond what is enough.
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
    fn words_are_what_stands_between_blanks_and_their_parts() {
        let shown = |text| words(text).collect::<Vec<_>>().join(" ");
        assert_eq!(shown("(auth/login.rs)"), "auth/login.rs auth login rs");
        assert_eq!(shown("snake_case _x_ don't -- é"), "snake_case x don't don t é");
        assert_eq!(shown("a//b\u{a0}c"), "a//b a b c");
        assert_eq!(shown(" \n … __ "), "");
    }

    #[test]
    fn keywords_are_looked_for_in_one_form() {
        let given = ["  Deploy,", "DEPLOY", "", "--", "Größe", "auth/Login.rs", "a b"];
        let scorer = KeywordScorer::new(given, 1).unwrap();
        assert_eq!(scorer.keywords(), ["deploy", "größe", "auth/login.rs", "a b"]);
    }

    #[test]
    fn distinct_keywords_count_up_to_what_is_enough() {
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
    fn an_explanation_tells_all_keywords_that_occur() {
        let item = ContextItem::new("b/a c", 1).unwrap();
        let pool = Pool::new([&item]);
        let told = KeywordScorer::new(["c", "x", "a", "b"], 2).unwrap().explain(&pool, 0).unwrap();
        let part = |keyword| ScoreExplanation::new(keyword, 0.5);
        let expected = ScoreExplanation::new("keyword", 1.0);
        assert_eq!(told, expected.with_children(vec![part("c"), part("a"), part("b")]));
    }

    #[test]
    fn nothing_is_never_enough() {
        let error = KeywordScorer::new(["a"], 0).unwrap_err();
        assert_eq!(error.to_string(), "KeywordScorer: saturation is 0; it must be 1 or more");
    }
}
