//! Scores by the words of a query.
//!
//! One pass over all contents finds where the terms of the query are; how many items have a term and
//! how long contents are is only known behind it, so scores follow, term by term. That order is fixed,
//! and with it the bits of every sum.

use std::collections::{BTreeMap, BTreeSet};

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;
use crate::analysis::{for_each_term, for_each_term_starting_with, idf, is_stop_word, tf_factor};

/// How well contents answer a query, by BM25 among the items of the pool: the best has 1.
///
/// Texts are compared by their [terms](crate::analysis), so `deploying` finds `deployment`, and
/// `http_header` finds `HttpHeader`. A term that few items have counts for more, and so does one that
/// the query repeats. Words that say little, such as `the` and `how`, do not count. An item without any
/// term scores 0; so do all, if the query has none.
///
/// ```
/// use pannier_core::{ContextItem, Bm25Scorer, Pool};
///
/// let scorer = Bm25Scorer::new("how to roll back a deployment");
/// let items = [
///     ContextItem::new("Deployed services are rolled back by the pipeline.", 11)?,
///     ContextItem::new("We deploy on Mondays.", 6)?,
///     ContextItem::new("How to order lunch.", 5)?,
/// ];
/// let scores = Pool::new(&items).scores(&scorer)?;
/// assert_eq!(scores[0], 1.0);
/// assert!(scores[1] > 0.0 && scores[1] < 1.0);
/// assert_eq!(scores[2], 0.0);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bm25Scorer {
    /// The distinct terms that count, in their order, with how often the query has them.
    terms: Vec<(String, u32)>,
    /// With which bytes they begin.
    beginnings: Box<[bool; 256]>,
}

/// The items that have a term, in the order of the pool, with how often.
type Found = Vec<(usize, u32)>;

impl Bm25Scorer {
    /// A scorer by this query. Any text is one; quotes mean nothing.
    pub fn new(query: &str) -> Self {
        // A whole identifier may be the same as its first part, and is then no second occurrence.
        let mut occurrences = BTreeSet::new();
        for_each_term(query, 0, |term| {
            if !is_stop_word(term.text) {
                occurrences.insert((term.text.to_owned(), term.position));
            }
        });
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (term, _) in occurrences {
            *counts.entry(term).or_default() += 1;
        }
        let mut beginnings = Box::new([false; 256]);
        for byte in counts.keys().filter_map(|term| term.bytes().next()) {
            beginnings[usize::from(byte)] = true;
        }
        Self { terms: counts.into_iter().collect(), beginnings }
    }

    /// The terms that are looked for, each once.
    pub fn terms(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|(term, _)| term.as_str())
    }

    /// Calls a function with every part of a score: which term gives it, to which item, and how much.
    /// For each item, terms come in their order.
    fn for_each_term_score(&self, pool: &Pool<'_>, mut f: impl FnMut(usize, usize, f64)) {
        if self.terms.is_empty() {
            return;
        }
        let mut found: Vec<Found> = vec![Vec::new(); self.terms.len()];
        let mut occurrences = Vec::new();
        let mut lengths = Vec::with_capacity(pool.len());
        for (place, item) in pool.items().iter().enumerate() {
            lengths.push(self.occurrences(item.content(), &mut occurrences));
            for (term, _) in &occurrences {
                match found[*term].last_mut() {
                    Some((last, count)) if *last == place => *count = count.saturating_add(1),
                    _ => found[*term].push((place, 1)),
                }
            }
        }
        let total: u64 = lengths.iter().copied().map(u64::from).sum();
        let mean = total as f64 / (pool.len() as f64).max(1.0);
        for (term, found) in found.iter().enumerate() {
            let repeated = f64::from(self.terms[term].1);
            let weight = repeated * idf(found.len() as u32, pool.len());
            for (item, count) in found {
                f(term, *item, weight * tf_factor(*count, lengths[*item], mean));
            }
        }
    }

    /// Finds the terms in a text, each with its place, and returns how many words the text has.
    fn occurrences(&self, text: &str, found: &mut Vec<(usize, u32)>) -> u32 {
        found.clear();
        for_each_term_starting_with(&self.beginnings, text, 0, |term| {
            let known = self.terms.binary_search_by(|(known, _)| known.as_str().cmp(term.text));
            let Ok(known) = known else { return };
            // A whole identifier comes behind its parts, and may be the same as the first of them.
            let mut parts = found.iter().rev().take_while(|(_, place)| *place >= term.position);
            if !term.shares_position || parts.all(|part| *part != (known, term.position)) {
                found.push((known, term.position));
            }
        })
    }
}

impl Scorer for Bm25Scorer {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        scores.fill(0.0);
        self.for_each_term_score(pool, |_, item, part| scores[item] += part);
        let best = best(scores);
        if best > 0.0 {
            scores.iter_mut().for_each(|score| *score /= best);
        }
        Ok(())
    }

    fn name(&self) -> &str {
        "lexical"
    }

    /// Tells what each term gives; the parts add up to the score, but for rounding.
    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        let (mut scores, mut parts) = (vec![0.0; pool.len()], Vec::new());
        self.for_each_term_score(pool, |term, other, part| {
            scores[other] += part;
            if other == item {
                parts.push((term, part));
            }
        });
        if parts.is_empty() {
            return Ok(ScoreExplanation::new(self.name(), 0.0));
        }
        let best = best(&scores);
        let children = parts
            .into_iter()
            .map(|(term, part)| ScoreExplanation::new(self.terms[term].0.as_str(), part / best));
        let explanation = ScoreExplanation::new(self.name(), scores[item] / best);
        Ok(explanation.with_children(children.collect()))
    }
}

fn best(scores: &[f64]) -> f64 {
    scores.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextItem;

    fn items(contents: &[&str]) -> Vec<ContextItem> {
        contents.iter().map(|content| ContextItem::new(*content, 1).unwrap()).collect()
    }

    fn scores(query: &str, contents: &[&str]) -> Vec<f64> {
        Pool::new(&items(contents)).scores(&Bm25Scorer::new(query)).unwrap()
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    #[test]
    fn a_query_has_terms_and_counts_them() {
        let terms = |query| Bm25Scorer::new(query).terms;
        let expected = |terms: &[(&str, u32)]| -> Vec<(String, u32)> {
            terms.iter().map(|(term, count)| ((*term).to_owned(), *count)).collect()
        };
        let rolled = expected(&[("back", 1), ("deploy", 2), ("roll", 1)]);
        assert_eq!(terms("Roll \"back\" the deployments, deployed"), rolled);
        assert_eq!(terms("getHttp"), expected(&[("get", 1), ("gethttp", 1), ("http", 1)]));
        // The whole is the stem of its first part here, and stands at the same place.
        assert_eq!(terms("ing_ing"), expected(&[("ing", 2)]));
        assert!(terms("how would the").is_empty() && terms("?").is_empty());
    }

    #[test]
    fn the_best_has_1_and_what_has_no_term_0() {
        // Two words each, and both terms in two of four.
        let found = scores("c d", &["x c", "c d", "x x", "x d"]);
        assert!(close(found[0], 0.5) && close(found[3], 0.5), "{found:?}");
        assert_eq!((found[1], found[2]), (1.0, 0.0));
        for query in ["", "the", "nowhere"] {
            assert_eq!(scores(query, &["the c", "d"]), [0.0, 0.0], "{query}");
        }
        assert!(scores("c", &[]).is_empty());
    }

    #[test]
    fn rare_terms_short_contents_and_repetitions_count_for_more() {
        let found = scores("rare common", &["rare x", "common x", "common x", "common x"]);
        assert!(found[0] == 1.0 && found[1] < 0.5, "{found:?}");
        let found = scores("c", &["c", "c x x x", "c c c x"]);
        assert!(found[1] < found[0] && found[1] < found[2], "{found:?}");
        let found = scores("c d d", &["c x", "d x"]);
        assert!(close(found[0], 0.5) && found[1] == 1.0, "{found:?}");
    }

    #[test]
    fn a_whole_that_is_the_same_as_its_part_counts_once() {
        // Twice "ing" and two words, both times.
        let found = scores("ing", &["ing_ing", "ing ing"]);
        assert_eq!(found, [1.0, 1.0]);
    }

    #[test]
    fn an_explanation_tells_the_part_of_each_term() {
        let items = items(&["c d d", "d x", "x"]);
        let pool = Pool::new(&items);
        let scorer = Bm25Scorer::new("d c y");
        for (place, score) in pool.scores(&scorer).unwrap().into_iter().enumerate() {
            let told = scorer.explain(&pool, place).unwrap();
            assert_eq!(told.score.to_bits(), score.to_bits());
            let names: Vec<&str> = told.children.iter().map(|part| part.scorer.as_str()).collect();
            assert_eq!(names, [&["c", "d"][..], &["d"], &[]][place]);
            assert!(close(told.children.iter().map(|part| part.score).sum(), score));
        }
    }
}
