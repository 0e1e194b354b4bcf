//! Lexical search: BM25 over the terms and phrases of a query.
//!
//! Scores come from integers: term counts, lengths and document frequencies. The arithmetic, including the logarithm, is the
//! same on every platform, so all machines rank alike, and each score is explained term by term and field by field. Pruning is
//! exact: terms are processed from the highest weight down, and once the remaining terms cannot lift a new chunk into the top k,
//! only chunks that are still candidates are scored (MaxScore).
//!
//! By [`Ranking::Fields`], a term counts in the path of a document and among the symbols that a chunk defines, too, and a part
//! of the document's own score is added: `idf * (tf_factor(chunk) + 0.3 * tf_factor(document))`. Programs repeat the names that
//! they are about, so repeated terms count for longer the more of the index is source code. Tests count for less than the code
//! that they test.

use std::collections::{BTreeMap, BTreeSet};

use pannier_text::{K1, for_each_term, idf, is_stop_word, tf_factor};
use serde::{Deserialize, Serialize};

use crate::document_index::{ChunkTable, TermPostings};
use crate::file_kind::FileKind;
use crate::manifest::CHUNK_POSTINGS;
use crate::word_counts::FieldCounts;
use crate::{DocsError, DocumentIndex};

/// Tolerance for sums whose terms were added in another order.
const ROUNDING_SLACK: f64 = 1.0 + 1e-9;

/// The maximum length of a query.
pub(crate) const MAX_QUERY_BYTES: usize = 64 << 10;

/// What an occurrence in the path of a document counts, compared with one in the body.
const PATH_WEIGHT: u32 = 2;
/// What an occurrence among the symbols that a chunk defines counts.
const SYMBOL_WEIGHT: u32 = 4;
/// The share of a document's own score in the score of its chunks.
const DOCUMENT_SHARE: f64 = 0.3;
/// The term-frequency saturation of an index with nothing but source code.
const CODE_K1: f64 = 2.5;
/// What a passage of a test counts, compared with one of other files.
const TEST_WEIGHT: f64 = 0.8;

/// Returns the term-frequency saturation of an index in which this share of the chunks is source code.
pub(crate) fn field_k1(code_share: f64) -> f64 {
    K1 + (CODE_K1 - K1) * code_share
}

/// The text that the lexical retriever ranks chunks by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Ranking {
    /// Headings and text, path, defined symbols, and the whole document.
    #[default]
    Fields,
    /// Headings and text only.
    Body,
}

impl Ranking {
    /// Returns the weighted count of a term.
    #[inline]
    fn count(self, counts: FieldCounts) -> u32 {
        match self {
            Self::Body => counts.body,
            Self::Fields => {
                let path = counts.path.saturating_mul(PATH_WEIGHT);
                let symbols = counts.symbols.saturating_mul(SYMBOL_WEIGHT);
                counts.body.saturating_add(path).saturating_add(symbols)
            }
        }
    }

    fn document_share(self) -> f64 {
        match self {
            Self::Fields => DOCUMENT_SHARE,
            Self::Body => 0.0,
        }
    }
}

/// The contribution of one query term to the score of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TermScore {
    /// The term as it is indexed: lowercased and stemmed. A phrase is in quotes.
    pub term: String,
    /// Its count in the chunk's headings and text.
    pub count: u32,
    /// Its count in the path of the document.
    #[serde(skip_serializing_if = "is_zero")]
    pub path: u32,
    /// Its count among the symbols that the chunk defines.
    #[serde(skip_serializing_if = "is_zero")]
    pub symbols: u32,
    /// Its count in the query, if it occurs more than once.
    #[serde(skip_serializing_if = "is_one")]
    pub in_query: u32,
    /// The number of chunks that contain it.
    pub chunks: u32,
    /// Its contribution to the score.
    pub score: f64,
    /// The part of the contribution that comes from the whole document.
    #[serde(skip_serializing_if = "is_zero_score")]
    pub document_score: f64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

fn is_zero_score(score: &f64) -> bool {
    *score == 0.0
}

/// A term or phrase of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clause {
    Term(String),
    Phrase(Vec<String>),
}

/// A clause of a query with the chunks that match it.
#[derive(Debug)]
struct ClauseMatches<'c> {
    name: String,
    /// Its count in the query.
    in_query: u32,
    /// The inverse document frequency, times the count in the query.
    weight: f64,
    /// The number of chunks that match.
    count: u32,
    chunks: MatchList<'c>,
}

/// The chunks that contain a term or phrase, with its counts.
#[derive(Debug)]
enum MatchList<'c> {
    Term(TermPostings<'c>),
    Phrase(Vec<(u32, u32)>),
}

impl MatchList<'_> {
    fn len(&self, ranking: Ranking) -> u32 {
        match (self, ranking) {
            (Self::Term(list), Ranking::Fields) => list.count,
            (Self::Term(list), Ranking::Body) => list.body_count,
            (Self::Phrase(chunks), _) => chunks.len() as u32,
        }
    }

    /// Calls `f` with each chunk and its counts, the chunks of a document together. Returns `None` if the list is corrupt.
    fn for_each(&self, mut f: impl FnMut(u32, FieldCounts)) -> Option<()> {
        match self {
            Self::Term(list) => list.for_each(f),
            Self::Phrase(chunks) => {
                chunks.iter().for_each(|(chunk, count)| f(*chunk, FieldCounts::in_body(*count)));
                Some(())
            }
        }
    }

    /// Calls `f` with those of the ascending `requested` chunks that match.
    fn for_each_of(&self, requested: &[u32], mut f: impl FnMut(u32, FieldCounts)) -> Option<()> {
        match self {
            Self::Term(list) => list.for_each_of(requested, f),
            Self::Phrase(chunks) => {
                for chunk in requested {
                    if let Ok(index) = chunks.binary_search_by_key(chunk, |(chunk, _)| *chunk) {
                        f(*chunk, FieldCounts::in_body(chunks[index].1));
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
    ranking: Ranking,
    /// In clause order, which is the order of addition.
    clauses: Vec<ClauseMatches<'c>>,
}

/// BM25's term-frequency factors, precomputed for common counts and lengths.
#[derive(Debug, Default)]
pub(crate) struct TfFactorTable {
    k1: f64,
    avg_words: f64,
    cached: Vec<f64>,
}

/// Counts and lengths below these are precomputed.
const CACHED_TF: usize = 8;
const CACHED_LENGTHS: usize = 512;

impl TfFactorTable {
    pub(crate) fn new(k1: f64, avg_words: f64) -> Self {
        let words = 0..CACHED_LENGTHS as u32;
        let of_count = |tf| words.clone().map(move |words| tf_factor(k1, tf, words, avg_words));
        let cached = (0..CACHED_TF as u32).flat_map(of_count).collect();
        Self { k1, avg_words, cached }
    }

    /// Returns the limit of all factors.
    fn max(&self) -> f64 {
        self.k1 + 1.0
    }

    #[inline]
    fn get(&self, tf: u32, words: u32) -> f64 {
        match (tf as usize, words as usize) {
            (count, length) if count < CACHED_TF && length < CACHED_LENGTHS => {
                self.cached[count * CACHED_LENGTHS + length]
            }
            _ => tf_factor(self.k1, tf, words, self.avg_words),
        }
    }
}

impl<'c> Bm25Query<'c> {
    pub(crate) fn new(
        index: &'c DocumentIndex,
        query: &str,
        ranking: Ranking,
    ) -> Result<Self, DocsError> {
        let table = index.chunk_table()?;
        let mut matched = Vec::new();
        for (clause, in_query) in clauses(query) {
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
            let count = chunks.len(ranking);
            let weight = idf(count, table.rows.len()) * f64::from(in_query);
            matched.push(ClauseMatches { name, in_query, weight, count, chunks });
        }
        Ok(Self { index, table, ranking, clauses: matched })
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
        let mut heaviest_first: Vec<&ClauseMatches<'_>> = self.clauses.iter().collect();
        heaviest_first.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let max_factor = self.tf_factors().max() + (K1 + 1.0) * self.ranking.document_share();
        let mut partial = PartialScores::new(self.table);
        for (index, clause) in heaviest_first.iter().enumerate() {
            let candidates = &mut partial.candidates;
            // The check pays where the list is long compared with the candidates.
            if candidates.len() >= count && clause.count as usize > candidates.len() / 4 {
                let rest = heaviest_first[index..].iter();
                let max_rest: f64 = rest.map(|clause| clause.weight * max_factor).sum();
                let max_rest = max_rest * ROUNDING_SLACK;
                let threshold = partial.kth_best(count);
                if partial.max_document * ROUNDING_SLACK + max_rest < threshold {
                    return Ok(partial.at_least(threshold - max_rest));
                }
            }
            self.accumulate(clause, &mut partial, &is_allowed)?;
        }
        let threshold = match partial.candidates.len() > count {
            true => partial.kth_best(count),
            false => 0.0,
        };
        Ok(partial.at_least(threshold))
    }

    /// Adds the contributions of a clause to the partial scores of all chunks.
    fn accumulate(
        &self,
        clause: &ClauseMatches<'_>,
        partial: &mut PartialScores,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Result<(), DocsError> {
        let mut document = (0, 0_u32);
        let add_document = |partial: &mut PartialScores, (number, count): (u32, u32)| {
            if self.ranking == Ranking::Fields && count > 0 {
                partial.add_document(number, self.document_score(clause, number, count));
            }
        };
        let read = clause.chunks.for_each(|chunk, counts| {
            let count = self.ranking.count(counts);
            let number = self.table.rows[chunk as usize].document;
            if number != document.0 {
                add_document(partial, document);
                document = (number, 0);
            }
            document.1 = document.1.saturating_add(count);
            if count > 0 {
                let score = self.chunk_score(clause, chunk, count);
                partial.add_chunk(chunk, number, score, &is_allowed);
            }
        });
        add_document(partial, document);
        read.ok_or_else(|| self.corrupt(clause))
    }

    /// Returns the contribution of a clause to a chunk by the chunk itself.
    #[inline]
    fn chunk_score(&self, clause: &ClauseMatches<'_>, chunk: u32, count: u32) -> f64 {
        let factor = self.tf_factors().get(count, self.table.words[chunk as usize]);
        clause.weight * (self.kind_weight(chunk) * factor)
    }

    /// Returns the contribution of a clause to a chunk by its document.
    fn document_score(&self, clause: &ClauseMatches<'_>, document: u32, count: u32) -> f64 {
        let words = self.table.document_words[document as usize];
        let factor = self.table.document_tf_factors.get(count, words);
        let kind = self.kind_weight(self.table.firsts[document as usize]);
        clause.weight * (kind * self.ranking.document_share() * factor)
    }

    /// Returns the term-frequency factors of chunks.
    fn tf_factors(&self) -> &TfFactorTable {
        match self.ranking {
            Ranking::Fields => &self.table.field_tf_factors,
            Ranking::Body => &self.table.tf_factors,
        }
    }

    /// Returns what a chunk counts by the kind of its file.
    fn kind_weight(&self, chunk: u32) -> f64 {
        let kind = self.table.rows.get(chunk as usize).map(|row| row.kind);
        match (self.ranking, kind) {
            (Ranking::Fields, Some(FileKind::Test)) => TEST_WEIGHT,
            _ => 1.0,
        }
    }

    /// Returns the scores of ascending chunks, with contributions added in clause order.
    fn scores(&self, chunks: &[u32]) -> Result<Vec<(u32, f64)>, DocsError> {
        let mut scores: Vec<(u32, f64)> = chunks.iter().map(|chunk| (*chunk, 0.0)).collect();
        let requested = self.requested(chunks);
        for clause in &self.clauses {
            let mut next = scores.iter_mut().peekable();
            self.contributions(clause, &requested, chunks, |chunk, parts| {
                while next.next_if(|(other, _)| *other < chunk).is_some() {}
                if let Some((_, sum)) = next.next_if(|(other, _)| *other == chunk) {
                    *sum += parts.chunk + parts.document;
                }
            })?;
        }
        Ok(scores)
    }

    /// Returns the chunks that must be read to score these: all of their documents, if those have a score.
    fn requested(&self, chunks: &[u32]) -> Vec<u32> {
        if self.ranking == Ranking::Body {
            return chunks.to_vec();
        }
        let documents = chunks.iter().map(|chunk| self.table.rows[*chunk as usize].document);
        let documents: BTreeSet<u32> = documents.collect();
        documents.into_iter().flat_map(|document| self.table.chunks_of(document)).collect()
    }

    /// Calls `f` with the contributions of a clause to those of the ascending `chunks` that it contributes to.
    fn contributions(
        &self,
        clause: &ClauseMatches<'_>,
        requested: &[u32],
        chunks: &[u32],
        mut f: impl FnMut(u32, Contribution),
    ) -> Result<(), DocsError> {
        let mut counts: Vec<(u32, FieldCounts)> = Vec::new();
        let mut documents: BTreeMap<u32, u32> = BTreeMap::new();
        let read = clause.chunks.for_each_of(requested, |chunk, found| {
            counts.push((chunk, found));
            let count = documents.entry(self.table.rows[chunk as usize].document).or_default();
            *count = count.saturating_add(self.ranking.count(found));
        });
        read.ok_or_else(|| self.corrupt(clause))?;
        let mut counts = counts.into_iter().peekable();
        for chunk in chunks {
            while counts.next_if(|(other, _)| other < chunk).is_some() {}
            let found = counts.next_if(|(other, _)| other == chunk);
            let found = match (found, self.ranking) {
                (Some((_, found)), Ranking::Fields) => found,
                (Some((_, found)), Ranking::Body) => FieldCounts::in_body(found.body),
                (None, _) => FieldCounts::default(),
            };
            let count = self.ranking.count(found);
            let document = self.table.rows[*chunk as usize].document;
            let in_document = documents.get(&document).copied().unwrap_or_default();
            if count > 0 || self.ranking == Ranking::Fields && in_document > 0 {
                let own = if count > 0 { self.chunk_score(clause, *chunk, count) } else { 0.0 };
                let document = self.document_score(clause, document, in_document);
                f(*chunk, Contribution { counts: found, chunk: own, document });
            }
        }
        Ok(())
    }

    fn corrupt(&self, clause: &ClauseMatches<'_>) -> DocsError {
        self.index.corrupt_postings(&clause.name, CHUNK_POSTINGS)
    }

    /// Returns the contribution of each clause to the scores of ascending chunks.
    pub(crate) fn explain(
        &self,
        chunks: &[u32],
    ) -> Result<BTreeMap<u32, Vec<TermScore>>, DocsError> {
        let requested = self.requested(chunks);
        let mut terms: BTreeMap<u32, Vec<TermScore>> = BTreeMap::new();
        for clause in &self.clauses {
            self.contributions(clause, &requested, chunks, |chunk, parts| {
                terms.entry(chunk).or_default().push(TermScore {
                    term: clause.name.clone(),
                    count: parts.counts.body,
                    path: parts.counts.path,
                    symbols: parts.counts.symbols,
                    in_query: clause.in_query,
                    chunks: clause.count,
                    score: parts.chunk + parts.document,
                    document_score: parts.document,
                });
            })?;
        }
        Ok(terms)
    }
}

/// The contribution of a clause to the score of a chunk, by the chunk itself and by its document.
struct Contribution {
    counts: FieldCounts,
    chunk: f64,
    document: f64,
}

/// The scores of chunks and documents by some of the clauses.
struct PartialScores {
    chunks: Vec<f64>,
    documents: Vec<f64>,
    /// The highest score of a document.
    max_document: f64,
    /// The chunks with a score, and the document of each.
    candidates: Vec<u32>,
    document_of: Vec<u32>,
}

impl PartialScores {
    fn new(table: &ChunkTable) -> Self {
        Self {
            chunks: vec![0.0; table.words.len()],
            documents: vec![0.0; table.document_words.len()],
            max_document: 0.0,
            candidates: Vec::new(),
            document_of: Vec::new(),
        }
    }

    fn add_chunk(
        &mut self,
        chunk: u32,
        document: u32,
        score: f64,
        is_allowed: impl Fn(u32) -> bool,
    ) {
        let sum = &mut self.chunks[chunk as usize];
        if *sum == 0.0 {
            if !is_allowed(chunk) {
                return;
            }
            self.candidates.push(chunk);
            self.document_of.push(document);
        }
        *sum += score;
    }

    fn add_document(&mut self, document: u32, score: f64) {
        let sum = &mut self.documents[document as usize];
        *sum += score;
        self.max_document = self.max_document.max(*sum);
    }

    fn scores(&self) -> impl Iterator<Item = f64> {
        let pairs = self.candidates.iter().zip(&self.document_of);
        pairs.map(|(chunk, document)| {
            self.chunks[*chunk as usize] + self.documents[*document as usize]
        })
    }

    /// Returns the `count`-th best score; there must be at least `count` candidates.
    fn kth_best(&self, count: usize) -> f64 {
        let mut best: Vec<f64> = self.scores().collect();
        let (_, kth, _) = best.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
        *kth
    }

    /// Returns the candidates with at least this score, or less by rounding.
    fn at_least(&self, score: f64) -> Vec<u32> {
        let kept = self.candidates.iter().zip(self.scores());
        kept.filter(|(_, own)| own * ROUNDING_SLACK >= score).map(|(chunk, _)| *chunk).collect()
    }
}

/// Returns the distinct clauses of a query, with the count of each. Every text is a query: an unpaired quote counts as whitespace.
pub(crate) fn clauses(query: &str) -> BTreeMap<Clause, u32> {
    let mut clauses: BTreeMap<Clause, u32> = BTreeMap::new();
    let mut parts: Vec<&str> = query.split(['"', '“', '”']).collect();
    let last = if parts.len().is_multiple_of(2) { parts.pop() } else { None };
    for text in parts.iter().step_by(2).copied().chain(last) {
        // A subword may equal its whole word, and is then not a second occurrence.
        let mut occurrences = BTreeSet::new();
        for_each_term(text, 0, |term| {
            _ = occurrences.insert((term.text.to_owned(), term.position));
        });
        for (term, _) in occurrences {
            *clauses.entry(Clause::Term(term)).or_default() += 1;
        }
    }
    for quoted in parts.iter().skip(1).step_by(2) {
        let mut terms = Vec::new();
        for_each_term(quoted, 0, |term| {
            if !term.shares_position {
                terms.push(term.text.to_owned());
            }
        });
        let clause = match terms.len() {
            0 => continue,
            1 => terms.pop().map(Clause::Term),
            _ => Some(Clause::Phrase(terms)),
        };
        if let Some(clause) = clause {
            *clauses.entry(clause).or_default() += 1;
        }
    }
    // Stop words are used only in phrases, and in queries without other words.
    let is_stop_word_clause = |clause: &Clause| match clause {
        Clause::Term(term) => is_stop_word(term),
        Clause::Phrase(_) => false,
    };
    if !clauses.keys().all(is_stop_word_clause) {
        clauses.retain(|clause, _| !is_stop_word_clause(clause));
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
            let chunks = chunks.into_iter().map(|(chunk, _)| chunk).zip(positions);
            lists.insert(term, chunks.filter(|(_, positions)| !positions.is_empty()).collect());
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
        let display = |(clause, count): (&Clause, &u32)| match count {
            1 => name(clause),
            count => format!("{}*{count}", name(clause)),
        };
        clauses(query).iter().map(display).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn repeated_words_count_again() {
        assert_eq!(display("deploy, deploys and deployed"), "and deploy*3");
        assert_eq!(display("\"a b\" \"a b\" x \"x\""), "x*2 <a b>*2");
        assert_eq!(display("parse_it parseIt"), "pars*2 parseit*2");
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
