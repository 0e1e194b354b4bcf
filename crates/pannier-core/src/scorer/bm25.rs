//! Scores by the terms of a query, with BM25.
//!
//! One pass over all contents builds posting lists for the terms of the query. Document frequencies and lengths are
//! known only after that pass, so scores follow, term by term. The order of additions is fixed, and with it the bits of
//! every sum. The time is linear in the contents.

use std::collections::{BTreeMap, BTreeSet};

use pannier_text::{K1, TermSet, for_each_term, idf, is_stop_word, tf_factor};

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

/// The BM25 score of each content for a query, divided by the best score of the pool.
///
/// Texts match by their [terms](pannier_text): `deploying` matches `deployment`, and `http_header` matches
/// `HttpHeader`. Rare terms and terms that the query repeats count for more. Stop words such as `the` do not count. An
/// item without any term of the query scores 0.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{Bm25Scorer, Pool};
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
    /// The distinct terms of the query, ascending, with their frequencies.
    terms: Vec<(String, u32)>,
}

/// The posting list of a term: items in pool order, with term frequencies.
type Postings = Vec<(usize, u32)>;

impl Bm25Scorer {
    /// Creates a scorer for a query. The query is plain text; quotes have no meaning.
    pub fn new(query: &str) -> Self {
        // A whole identifier may equal its first subword, and is then not a second occurrence.
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
        Self { terms: counts.into_iter().collect() }
    }

    /// Returns the distinct terms of the query.
    pub fn terms(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|(term, _)| term.as_str())
    }

    /// Calls a function with the index of a term, an item and the term's score for it. The terms of each item ascend.
    fn for_each_term_score(&self, pool: &Pool<'_>, mut f: impl FnMut(usize, usize, f64)) {
        if self.terms.is_empty() {
            return;
        }
        let mut postings: Vec<Postings> = vec![Vec::new(); self.terms.len()];
        let mut occurrences = Vec::new();
        let mut lengths = Vec::with_capacity(pool.len());
        let mut terms = TermSet::new(self.terms());
        for (index, item) in pool.items().iter().enumerate() {
            lengths.push(find_occurrences(&mut terms, item.content(), &mut occurrences));
            for (term, _) in &occurrences {
                match postings[*term].last_mut() {
                    Some((last, tf)) if *last == index => *tf = tf.saturating_add(1),
                    _ => postings[*term].push((index, 1)),
                }
            }
        }
        let total: u64 = lengths.iter().copied().map(u64::from).sum();
        let avg_len = total as f64 / (pool.len() as f64).max(1.0);
        for (term, postings) in postings.iter().enumerate() {
            let query_tf = f64::from(self.terms[term].1);
            let weight = query_tf * idf(postings.len() as u32, pool.len());
            for (item, tf) in postings {
                f(term, *item, weight * tf_factor(K1, *tf, lengths[*item], avg_len));
            }
        }
    }
}

/// Finds the terms of the query in a text, with their positions, and returns the number of words in the text.
fn find_occurrences(terms: &mut TermSet<'_>, text: &str, found: &mut Vec<(usize, u32)>) -> u32 {
    found.clear();
    terms.for_each_in(text, |term, position, shares_position| {
        // A whole identifier follows its subwords, and may equal the first of them.
        let mut parts = found.iter().rev().take_while(|(_, other)| *other >= position);
        if !shares_position || parts.all(|part| *part != (term, position)) {
            found.push((term, position));
        }
    })
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
        "bm25"
    }

    /// Explains the score by one child for each term. The children add up to the score, apart from rounding.
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
    fn the_terms_of_a_query_have_frequencies() {
        let terms = |query| Bm25Scorer::new(query).terms;
        let expected = |terms: &[(&str, u32)]| -> Vec<(String, u32)> {
            terms.iter().map(|(term, count)| ((*term).to_owned(), *count)).collect()
        };
        let rolled = expected(&[("back", 1), ("deploy", 2), ("roll", 1)]);
        assert_eq!(terms("Roll \"back\" the deployments, deployed"), rolled);
        assert_eq!(terms("getHttp"), expected(&[("get", 1), ("gethttp", 1), ("http", 1)]));
        // The whole has the same stem and position as its first subword.
        assert_eq!(terms("ing_ing"), expected(&[("ing", 2)]));
        assert!(terms("how would the").is_empty() && terms("?").is_empty());
    }

    #[test]
    fn the_best_item_scores_1_and_items_without_terms_0() {
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
    fn rare_terms_short_contents_and_repetitions_score_higher() {
        let found = scores("rare common", &["rare x", "common x", "common x", "common x"]);
        assert!(found[0] == 1.0 && found[1] < 0.5, "{found:?}");
        let found = scores("c", &["c", "c x x x", "c c c x"]);
        assert!(found[1] < found[0] && found[1] < found[2], "{found:?}");
        let found = scores("c d d", &["c x", "d x"]);
        assert!(close(found[0], 0.5) && found[1] == 1.0, "{found:?}");
    }

    #[test]
    fn an_identifier_that_equals_its_subword_counts_once() {
        // Twice "ing" and two words, both times.
        let found = scores("ing", &["ing_ing", "ing ing"]);
        assert_eq!(found, [1.0, 1.0]);
    }

    #[test]
    fn an_explanation_has_the_score_of_each_term() {
        let items = items(&["c d d", "d x", "x"]);
        let pool = Pool::new(&items);
        let scorer = Bm25Scorer::new("d c y");
        for (index, score) in pool.scores(&scorer).unwrap().into_iter().enumerate() {
            let ScoreExplanation { score: explained, children, .. } =
                scorer.explain(&pool, index).unwrap();
            assert_eq!(explained.to_bits(), score.to_bits());
            let names: Vec<&str> = children.iter().map(|child| child.scorer.as_str()).collect();
            assert_eq!(names, [&["c", "d"][..], &["d"], &[]][index]);
            assert!(close(children.iter().map(|child| child.score).sum(), score));
        }
    }
}
