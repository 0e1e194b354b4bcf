//! Lexical search: BM25 over the terms and phrases of a query.
//!
//! Scores come from integers: term counts, chunk lengths and document frequencies. The arithmetic, including the logarithm, is
//! the same on every platform, so all machines rank alike, and each score is explained term by term. Pruning is exact: terms
//! are processed from the highest idf down, and once the remaining terms cannot lift a new chunk into the top k, their long
//! lists are only probed for chunks that are still candidates (MaxScore).

use std::collections::{BTreeMap, BTreeSet};

use pannier_text::{MAX_TF_FACTOR, for_each_term, idf, is_stop_word, tf_factor};
use serde::Serialize;

use crate::document_index::ChunkTable;
use crate::inverted_index::PostingList;
use crate::manifest::CHUNK_POSTINGS;
use crate::{DocsError, DocumentIndex};

/// Tolerance for sums whose terms were added in another order.
const ROUNDING_SLACK: f64 = 1.0 + 1e-9;

/// The maximum length of a query.
pub(crate) const MAX_QUERY_BYTES: usize = 64 << 10;

/// The contribution of one query term to the score of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TermScore {
    /// The term as it is indexed: lowercased and stemmed. A phrase is in quotes.
    pub term: String,
    /// Its count in the chunk.
    pub count: u32,
    /// The number of chunks that contain it.
    pub chunks: u32,
    /// Its contribution to the score.
    pub score: f64,
}

/// A term or phrase of a query.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clause {
    Term(String),
    Phrase(Vec<String>),
}

/// A clause of a query with the chunks that match it.
#[derive(Debug)]
struct ClauseMatches {
    name: String,
    idf: f64,
    chunks: MatchList,
}

/// The chunks that contain a term or phrase, with its count.
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

    /// Calls `f` with each chunk and count, in order. Returns `None` if the list is corrupt.
    fn for_each(&self, mut f: impl FnMut(u32, u32)) -> Option<()> {
        match self {
            Self::Term(list) => list.for_each(f),
            Self::Phrase(chunks) => {
                chunks.iter().for_each(|(chunk, count)| f(*chunk, *count));
                Some(())
            }
        }
    }

    /// Calls `f` with those of the ascending `requested` chunks that match.
    fn for_each_of(&self, requested: &[u32], mut f: impl FnMut(u32, u32)) -> Option<()> {
        match self {
            Self::Term(list) => list.for_each_of(requested, f),
            Self::Phrase(chunks) => {
                for chunk in requested {
                    if let Ok(index) = chunks.binary_search_by_key(chunk, |(chunk, _)| *chunk) {
                        f(*chunk, chunks[index].1);
                    }
                }
                Some(())
            }
        }
    }
}

/// A parsed query with the matches of all its clauses.
#[derive(Debug)]
pub(crate) struct Bm25Query<'c> {
    index: &'c DocumentIndex,
    table: &'c ChunkTable,
    /// In clause order, which is the order of addition.
    clauses: Vec<ClauseMatches>,
}

/// BM25's term-frequency factors, precomputed for common counts and lengths.
#[derive(Debug, Default)]
pub(crate) struct TfFactorTable {
    avg_words: f64,
    cached: Vec<f64>,
}

/// Counts and lengths below these are precomputed.
const CACHED_TF: usize = 8;
const CACHED_LENGTHS: usize = 512;

impl TfFactorTable {
    pub(crate) fn new(avg_words: f64) -> Self {
        let words = 0..CACHED_LENGTHS as u32;
        let of_count = |tf| words.clone().map(move |words| tf_factor(tf, words, avg_words));
        let cached = (0..CACHED_TF as u32).flat_map(of_count).collect();
        Self { avg_words, cached }
    }

    #[inline]
    fn get(&self, tf: u32, words: u32) -> f64 {
        match (tf as usize, words as usize) {
            (count, length) if count < CACHED_TF && length < CACHED_LENGTHS => {
                self.cached[count * CACHED_LENGTHS + length]
            }
            _ => tf_factor(tf, words, self.avg_words),
        }
    }
}

impl<'c> Bm25Query<'c> {
    pub(crate) fn new(index: &'c DocumentIndex, query: &str) -> Result<Self, DocsError> {
        let table = index.chunk_table()?;
        let mut matched = Vec::new();
        for clause in clauses(query) {
            let (name, chunks) = match clause {
                Clause::Term(term) => match index.chunk_postings(&term)? {
                    Some(list) => (term, MatchList::Term(list)),
                    None => continue,
                },
                Clause::Phrase(terms) => {
                    let chunks = MatchList::Phrase(phrase(index, &terms)?);
                    (format!("\"{}\"", terms.join(" ")), chunks)
                }
            };
            let idf = idf(chunks.len(), table.rows.len());
            matched.push(ClauseMatches { name, idf, chunks });
        }
        Ok(Self { index, table, clauses: matched })
    }

    /// Returns the `count` best chunks that `is_allowed` accepts, ordered by score, then by `tie_break`. The result equals that
    /// of scoring every chunk.
    pub(crate) fn top_k(
        &self,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
        tie_break: impl Fn(u32) -> (u32, u32),
    ) -> Result<Vec<(u32, f64)>, DocsError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut candidates = self.candidates(count, is_allowed)?;
        candidates.sort_unstable();
        let mut best = self.scores(&candidates)?;
        best.sort_unstable_by(|a, b| {
            b.1.total_cmp(&a.1).then_with(|| tie_break(a.0).cmp(&tie_break(b.0)))
        });
        best.truncate(count);
        Ok(best)
    }

    /// Returns a superset of the top `count` chunks, including ties.
    fn candidates(
        &self,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Result<Vec<u32>, DocsError> {
        let mut rare_first: Vec<&ClauseMatches> = self.clauses.iter().collect();
        rare_first.sort_by(|a, b| b.idf.total_cmp(&a.idf));
        let factors = &self.table.tf_factors;
        let mut scores = vec![0.0_f64; self.table.words.len()];
        let mut candidates: Vec<u32> = Vec::new();
        for (index, clause) in rare_first.iter().enumerate() {
            // The check pays where the list is long compared with the candidates.
            if candidates.len() >= count && clause.chunks.len() as usize > candidates.len() / 4 {
                let common = &rare_first[index..];
                let max_rest: f64 = common.iter().map(|clause| clause.idf * MAX_TF_FACTOR).sum();
                let threshold = kth_best_score(&candidates, &scores, count);
                if max_rest * ROUNDING_SLACK < threshold {
                    candidates.retain(|chunk| {
                        scores[*chunk as usize] + max_rest * ROUNDING_SLACK >= threshold
                    });
                    candidates.sort_unstable();
                    for clause in common {
                        self.add(clause, &candidates, |chunk, score| {
                            scores[chunk as usize] += score;
                        })?;
                    }
                    break;
                }
            }
            let read = clause.chunks.for_each(|chunk, count| {
                let index = chunk as usize;
                if scores[index] == 0.0 {
                    if !is_allowed(chunk) {
                        return;
                    }
                    candidates.push(chunk);
                }
                scores[index] += clause.idf * factors.get(count, self.table.words[index]);
            });
            read.ok_or_else(|| self.corrupt(clause))?;
        }
        if candidates.len() > count {
            let threshold = kth_best_score(&candidates, &scores, count);
            candidates.retain(|chunk| scores[*chunk as usize] * ROUNDING_SLACK >= threshold);
        }
        Ok(candidates)
    }

    /// Returns the scores of ascending chunks, with contributions added in clause order.
    fn scores(&self, chunks: &[u32]) -> Result<Vec<(u32, f64)>, DocsError> {
        let mut scores: Vec<(u32, f64)> = chunks.iter().map(|chunk| (*chunk, 0.0)).collect();
        for clause in &self.clauses {
            let mut next = scores.iter_mut();
            self.add(clause, chunks, |chunk, score| {
                if let Some((_, sum)) = next.find(|(other, _)| *other == chunk) {
                    *sum += score;
                }
            })?;
        }
        Ok(scores)
    }

    /// Calls `f` with the contribution of a clause to those of the ascending `chunks` that match it.
    fn add(
        &self,
        clause: &ClauseMatches,
        chunks: &[u32],
        mut f: impl FnMut(u32, f64),
    ) -> Result<(), DocsError> {
        let read = clause.chunks.for_each_of(chunks, |chunk, count| {
            let words = self.table.words[chunk as usize];
            f(chunk, clause.idf * self.table.tf_factors.get(count, words));
        });
        read.ok_or_else(|| self.corrupt(clause))
    }

    fn corrupt(&self, clause: &ClauseMatches) -> DocsError {
        self.index.corrupt_postings(&clause.name, CHUNK_POSTINGS)
    }

    /// Returns the contribution of each clause to the score of a chunk.
    pub(crate) fn explain(&self, chunk: u32) -> Result<Vec<TermScore>, DocsError> {
        let words = self.table.words[chunk as usize];
        let mut terms = Vec::new();
        for clause in &self.clauses {
            let read = clause.chunks.for_each_of(&[chunk], |_, count| {
                terms.push(TermScore {
                    term: clause.name.clone(),
                    count,
                    chunks: clause.chunks.len(),
                    score: clause.idf * self.table.tf_factors.get(count, words),
                });
            });
            read.ok_or_else(|| self.corrupt(clause))?;
        }
        Ok(terms)
    }
}

/// Returns the `count`-th best score; there must be at least `count` chunks.
fn kth_best_score(chunks: &[u32], scores: &[f64], count: usize) -> f64 {
    let mut best: Vec<f64> = chunks.iter().map(|chunk| scores[*chunk as usize]).collect();
    let (_, kth, _) = best.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    *kth
}

/// Returns the distinct clauses of a query. Every text is a query: an unpaired quote counts as whitespace.
pub(crate) fn clauses(query: &str) -> BTreeSet<Clause> {
    let mut clauses = BTreeSet::new();
    let mut parts: Vec<&str> = query.split(['"', '“', '”']).collect();
    let last = if parts.len().is_multiple_of(2) { parts.pop() } else { None };
    let mut add_words = |text: &str| {
        for_each_term(text, 0, |term| _ = clauses.insert(Clause::Term(term.text.to_owned())));
    };
    parts.iter().step_by(2).copied().chain(last).for_each(&mut add_words);
    for quoted in parts.iter().skip(1).step_by(2) {
        let mut terms = Vec::new();
        for_each_term(quoted, 0, |term| {
            if !term.shares_position {
                terms.push(term.text.to_owned());
            }
        });
        match terms.len() {
            0 => {}
            1 => clauses.extend(terms.pop().map(Clause::Term)),
            _ => _ = clauses.insert(Clause::Phrase(terms)),
        }
    }
    // Stop words are used only in phrases, and in queries without other words.
    let is_stop_word_clause = |clause: &Clause| match clause {
        Clause::Term(term) => is_stop_word(term),
        Clause::Phrase(_) => false,
    };
    if !clauses.iter().all(is_stop_word_clause) {
        clauses.retain(|clause| !is_stop_word_clause(clause));
    }
    clauses
}

/// Returns the chunks that contain a phrase, with its count.
fn phrase(index: &DocumentIndex, terms: &[String]) -> Result<Vec<(u32, u32)>, DocsError> {
    // A repeated term is read once.
    let mut lists: BTreeMap<&str, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    // For each chunk, the positions where the phrase can start.
    let mut begins: Option<Vec<(u32, Vec<u32>)>> = None;
    for (offset, term) in (0_u32..).zip(terms) {
        if !lists.contains_key(term.as_str()) {
            let Some((chunks, positions)) = index.chunk_positions(term)? else {
                return Ok(Vec::new());
            };
            let chunks = chunks.into_iter().map(|(chunk, _)| chunk);
            lists.insert(term, chunks.zip(positions).collect());
        }
        let Some(matches) = lists.get(term.as_str()) else { continue };
        begins = Some(match begins {
            None => matches.iter().map(|(chunk, positions)| (*chunk, positions.clone())).collect(),
            Some(mut begins) => {
                begins.retain_mut(|(chunk, begins)| {
                    let positions = matches.get(chunk).map_or(&[][..], Vec::as_slice);
                    begins.retain(|begin| {
                        let position = begin.checked_add(offset);
                        position.is_some_and(|position| positions.binary_search(&position).is_ok())
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

    fn display(query: &str) -> String {
        let name = |clause: &Clause| match clause {
            Clause::Term(term) => term.clone(),
            Clause::Phrase(terms) => format!("<{}>", terms.join(" ")),
        };
        clauses(query).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn any_text_is_a_query() {
        assert_eq!(display("How do I deploy on Fridays?"), "deploy friday on");
        assert_eq!(display("what did you do?"), "did do what you");
        assert_eq!(display("\"to be\" question"), "question <to be>");
        assert_eq!(display("“rolling back” \"x\" \"\" \"open end"), "end open x <roll back>");
        assert_eq!(display("AND OR NOT (* ^ NEAR/2 a:b"), "2 and b near not or");
        assert_eq!(display("\"parseHttp\" getHttp"), "get gethttp http <pars http>");
        assert_eq!(display("\" ' ; --"), "");
    }
}
