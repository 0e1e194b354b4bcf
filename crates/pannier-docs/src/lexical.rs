//! Which chunks have the words of a query, by BM25.
//!
//! Every chunk that has any of the words is scored, from whole numbers: how often a term occurs, how long chunks are, how
//! many have it. The arithmetic is the same everywhere, the logarithm included, so no two machines order two chunks
//! differently; and as it is only this, a score is told term by term.

use std::collections::{BTreeMap, BTreeSet};

use pannier_core::terms::{MOST_WORTH, each_term, rarity, says_little, worth};
use serde::Serialize;

use crate::document_index::ChunkTable;
use crate::inverted_index::PostingList;
use crate::manifest::CHUNK_POSTINGS;
use crate::{DocsError, DocumentIndex};

/// Room for sums whose terms are added in another order.
const ROUNDING_SLACK: f64 = 1.0 + 1e-9;

/// The longest query that is taken.
pub(crate) const MAX_QUERY_BYTES: usize = 64 << 10;

/// What a term of a query adds to the score of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TermScore {
    /// The term, as it is searched for: in lower case, without its ending. A phrase is in quotes.
    pub term: String,
    /// How often it occurs in the chunk.
    pub count: u32,
    /// How many chunks it is in.
    pub chunks: u32,
    /// What it adds.
    pub score: f64,
}

/// What is looked for.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clause {
    Term(String),
    Phrase(Vec<String>),
}

/// Where a clause of a query is found.
#[derive(Debug)]
struct ClauseMatches {
    name: String,
    weight: f64,
    chunks: MatchList,
}

/// The chunks that have a term or a phrase, with how often.
#[derive(Debug)]
enum MatchList {
    Term(PostingList),
    Phrase(Vec<(u32, u32)>),
}

impl MatchList {
    fn len(&self) -> u32 {
        match self {
            Self::Term(list) => list.count,
            Self::Phrase(chunks) => chunks.len() as u32,
        }
    }

    /// Calls a function with each chunk, in order. None if the list is not as it was written.
    fn for_each(&self, mut f: impl FnMut(u32, u32)) -> Option<()> {
        match self {
            Self::Term(list) => list.for_each(f),
            Self::Phrase(chunks) => {
                chunks.iter().for_each(|(chunk, times)| f(*chunk, *times));
                Some(())
            }
        }
    }

    /// The same for some chunks, which are ascending.
    fn for_each_of(&self, asked: &[u32], mut f: impl FnMut(u32, u32)) -> Option<()> {
        match self {
            Self::Term(list) => list.for_each_of(asked, f),
            Self::Phrase(chunks) => {
                for chunk in asked {
                    if let Ok(at) = chunks.binary_search_by_key(chunk, |(chunk, _)| *chunk) {
                        f(*chunk, chunks[at].1);
                    }
                }
                Some(())
            }
        }
    }
}

/// What all clauses of a query are found in.
#[derive(Debug)]
pub(crate) struct Bm25Query<'c> {
    cache: &'c DocumentIndex,
    table: &'c ChunkTable,
    /// By clause. Scores are added up in this order.
    found: Vec<ClauseMatches>,
}

/// What so many occurrences in a chunk of so many words are worth, computed before for the usual numbers.
#[derive(Debug, Default)]
pub(crate) struct TfFactorTable {
    mean_words: f64,
    usual: Vec<f64>,
}

/// Up to how many occurrences, and words, are usual.
const CACHED_TF: usize = 8;
const CACHED_LENGTHS: usize = 512;

impl TfFactorTable {
    pub(crate) fn new(mean_words: f64) -> Self {
        let words = 0..CACHED_LENGTHS as u32;
        let of_count = |count| words.clone().map(move |words| worth(count, words, mean_words));
        let usual = (0..CACHED_TF as u32).flat_map(of_count).collect();
        Self { mean_words, usual }
    }

    #[inline]
    fn of(&self, count: u32, words: u32) -> f64 {
        match (count as usize, words as usize) {
            (times, length) if times < CACHED_TF && length < CACHED_LENGTHS => {
                self.usual[times * CACHED_LENGTHS + length]
            }
            _ => worth(count, words, self.mean_words),
        }
    }
}

impl<'c> Bm25Query<'c> {
    pub(crate) fn new(cache: &'c DocumentIndex, query: &str) -> Result<Self, DocsError> {
        let table = cache.chunk_table()?;
        let mut found = Vec::new();
        for clause in clauses(query) {
            let (name, chunks) = match clause {
                Clause::Term(term) => match cache.chunk_postings(&term)? {
                    Some(list) => (term, MatchList::Term(list)),
                    None => continue,
                },
                Clause::Phrase(terms) => {
                    let chunks = MatchList::Phrase(phrase(cache, &terms)?);
                    (format!("\"{}\"", terms.join(" ")), chunks)
                }
            };
            let weight = rarity(chunks.len(), table.rows.len());
            found.push(ClauseMatches { name, weight, chunks });
        }
        Ok(Self { cache, table, found })
    }

    /// The best chunks with their scores: by score and then by `order`, of those that are allowed.
    ///
    /// Rare terms come first, and where what common ones could still add does not matter to a chunk that has none of the
    /// rare ones, their long lists are only looked into for chunks that are already good. What is found is what scoring
    /// every chunk would find.
    pub(crate) fn top_k(
        &self,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
        order: impl Fn(u32) -> (u32, u32),
    ) -> Result<Vec<(u32, f64)>, DocsError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut candidates = self.candidates(count, is_allowed)?;
        candidates.sort_unstable();
        let mut best = self.scores(&candidates)?;
        best.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then_with(|| order(a.0).cmp(&order(b.0))));
        best.truncate(count);
        Ok(best)
    }

    /// MatchList among which are the best so many, with all that are as good as the last of them.
    fn candidates(
        &self,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Result<Vec<u32>, DocsError> {
        let mut rare_first: Vec<&ClauseMatches> = self.found.iter().collect();
        rare_first.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let worth = &self.table.tf_factors;
        let mut scores = vec![0.0_f64; self.table.words.len()];
        let mut touched: Vec<u32> = Vec::new();
        for (at, found) in rare_first.iter().enumerate() {
            // To look for the least of the best pays where the list is longer than what there is to look at.
            if touched.len() >= count && found.chunks.len() as usize > touched.len() / 4 {
                let common = &rare_first[at..];
                let most: f64 = common.iter().map(|found| found.weight * MOST_WORTH).sum();
                let least = kth_best_score(&touched, &scores, count);
                if most * ROUNDING_SLACK < least {
                    touched
                        .retain(|chunk| scores[*chunk as usize] + most * ROUNDING_SLACK >= least);
                    touched.sort_unstable();
                    for found in common {
                        self.add(found, &touched, |chunk, score| scores[chunk as usize] += score)?;
                    }
                    break;
                }
            }
            let read = found.chunks.for_each(|chunk, times| {
                let at = chunk as usize;
                if scores[at] == 0.0 {
                    if !is_allowed(chunk) {
                        return;
                    }
                    touched.push(chunk);
                }
                scores[at] += found.weight * worth.of(times, self.table.words[at]);
            });
            read.ok_or_else(|| self.damaged(found))?;
        }
        if touched.len() > count {
            let least = kth_best_score(&touched, &scores, count);
            touched.retain(|chunk| scores[*chunk as usize] * ROUNDING_SLACK >= least);
        }
        Ok(touched)
    }

    /// The scores of chunks, which are ascending, with the terms in their order.
    fn scores(&self, chunks: &[u32]) -> Result<Vec<(u32, f64)>, DocsError> {
        let mut scores: Vec<(u32, f64)> = chunks.iter().map(|chunk| (*chunk, 0.0)).collect();
        for found in &self.found {
            let mut next = scores.iter_mut();
            self.add(found, chunks, |chunk, score| {
                if let Some((_, sum)) = next.find(|(other, _)| *other == chunk) {
                    *sum += score;
                }
            })?;
        }
        Ok(scores)
    }

    /// Calls a function with what a term adds to the scores of those of these chunks, which are ascending, that have it.
    fn add(
        &self,
        found: &ClauseMatches,
        chunks: &[u32],
        mut f: impl FnMut(u32, f64),
    ) -> Result<(), DocsError> {
        let read = found.chunks.for_each_of(chunks, |chunk, times| {
            let words = self.table.words[chunk as usize];
            f(chunk, found.weight * self.table.tf_factors.of(times, words));
        });
        read.ok_or_else(|| self.damaged(found))
    }

    fn damaged(&self, found: &ClauseMatches) -> DocsError {
        self.cache.corrupt_postings(&found.name, CHUNK_POSTINGS)
    }

    /// What each term adds to the score of a chunk.
    pub(crate) fn explain(&self, chunk: u32) -> Result<Vec<TermScore>, DocsError> {
        let words = self.table.words[chunk as usize];
        let mut terms = Vec::new();
        for found in &self.found {
            let read = found.chunks.for_each_of(&[chunk], |_, count| {
                terms.push(TermScore {
                    term: found.name.clone(),
                    count,
                    chunks: found.chunks.len(),
                    score: found.weight * self.table.tf_factors.of(count, words),
                });
            });
            read.ok_or_else(|| self.damaged(found))?;
        }
        Ok(terms)
    }
}

/// The score of the last of the best so many chunks, of which there are at least that many.
fn kth_best_score(chunks: &[u32], scores: &[f64], count: usize) -> f64 {
    let mut best: Vec<f64> = chunks.iter().map(|chunk| scores[*chunk as usize]).collect();
    let (_, least, _) = best.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    *least
}

/// The distinct clauses of a query. Whatever is typed is a query: a quote without its other half is a blank.
pub(crate) fn clauses(query: &str) -> BTreeSet<Clause> {
    let mut clauses = BTreeSet::new();
    let mut parts: Vec<&str> = query.split(['"', '“', '”']).collect();
    let last = if parts.len().is_multiple_of(2) { parts.pop() } else { None };
    let mut add_words = |text: &str| {
        each_term(text, 0, |term| _ = clauses.insert(Clause::Term(term.text.to_owned())));
    };
    parts.iter().step_by(2).copied().chain(last).for_each(&mut add_words);
    for quoted in parts.iter().skip(1).step_by(2) {
        let mut terms = Vec::new();
        each_term(quoted, 0, |term| {
            if !term.is_extra {
                terms.push(term.text.to_owned());
            }
        });
        match terms.len() {
            0 => {}
            1 => clauses.extend(terms.pop().map(Clause::Term)),
            _ => _ = clauses.insert(Clause::Phrase(terms)),
        }
    }
    // Words that say little count only where there are no others, and in phrases.
    let is_weak = |clause: &Clause| match clause {
        Clause::Term(term) => says_little(term),
        Clause::Phrase(_) => false,
    };
    if !clauses.iter().all(is_weak) {
        clauses.retain(|clause| !is_weak(clause));
    }
    clauses
}

/// The chunks in which terms follow each other, with how often.
fn phrase(cache: &DocumentIndex, terms: &[String]) -> Result<Vec<(u32, u32)>, DocsError> {
    // What is said twice is read once.
    let mut lists: BTreeMap<&str, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    // For each chunk, the places where the phrase begins.
    let mut begins: Option<Vec<(u32, Vec<u32>)>> = None;
    for (offset, term) in (0_u32..).zip(terms) {
        if !lists.contains_key(term.as_str()) {
            let Some((chunks, places)) = cache.chunk_positions(term)? else {
                return Ok(Vec::new());
            };
            let chunks = chunks.into_iter().map(|(chunk, _)| chunk);
            lists.insert(term, chunks.zip(places).collect());
        }
        let Some(found) = lists.get(term.as_str()) else { continue };
        begins = Some(match begins {
            None => found.iter().map(|(chunk, places)| (*chunk, places.clone())).collect(),
            Some(mut begins) => {
                begins.retain_mut(|(chunk, begins)| {
                    let places = found.get(chunk).map_or(&[][..], Vec::as_slice);
                    begins.retain(|begin| {
                        let place = begin.checked_add(offset);
                        place.is_some_and(|place| places.binary_search(&place).is_ok())
                    });
                    !begins.is_empty()
                });
                begins
            }
        });
        if begins.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
    }
    let begins = begins.unwrap_or_default();
    Ok(begins.into_iter().map(|(chunk, begins)| (chunk, begins.len() as u32)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(query: &str) -> String {
        let name = |clause: &Clause| match clause {
            Clause::Term(term) => term.clone(),
            Clause::Phrase(terms) => format!("<{}>", terms.join(" ")),
        };
        clauses(query).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn any_text_is_a_query() {
        assert_eq!(shown("How do I deploy on Fridays?"), "deploy friday on");
        assert_eq!(shown("what did you do?"), "did do what you");
        assert_eq!(shown("\"to be\" question"), "question <to be>");
        assert_eq!(shown("“rolling back” \"x\" \"\" \"open end"), "end open x <roll back>");
        assert_eq!(shown("AND OR NOT (* ^ NEAR/2 a:b"), "2 and b near not or");
        assert_eq!(shown("\"parseHttp\" getHttp"), "get gethttp http <pars http>");
        assert_eq!(shown("\" ' ; --"), "");
    }
}
