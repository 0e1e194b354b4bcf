//! Lexical search: BM25 over the terms and phrases of a query.
//!
//! Scores come from integers: term counts, lengths and document frequencies. The arithmetic, including the logarithm, is the
//! same on every platform, so all machines rank alike, and each score is explained term by term and field by field. Pruning is
//! exact: the candidates are a superset of the top k, and their scores are computed in clause order.
//!
//! By [`Ranking::Fields`], a term counts in the path of a document and among the symbols that a chunk defines, too, and a part
//! of the document's own score is added: `idf * (tf_factor(chunk) + 0.3 * tf_factor(document))`. Programs repeat the names that
//! they are about, so repeated terms count for longer the more of the index is source code. Tests count for less than the code
//! that they test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pannier_text::{K1, for_each_term, idf, is_stop_word, tf_factor};
use serde::{Deserialize, Serialize};

use crate::document_index::{ChunkLocation, ChunkTable};
use crate::file_kind::FileKind;
use crate::impacts::weighted_count;
use crate::inverted_index::PostingList;
use crate::manifest::CHUNK_POSTINGS;
use crate::max_score::{self, Buffers, Cursor, SegmentDocuments, SegmentScorer, TopScores};
use crate::segment::Segment;
use crate::term_postings::{SegmentPostings, TermPostings};
use crate::word_counts::FieldCounts;
use crate::{DocsError, DocumentIndex};

/// The maximum length of a query.
pub(crate) const MAX_QUERY_BYTES: usize = 64 << 10;

/// The share of a document's own score in the score of its chunks.
const DOCUMENT_SHARE: f64 = 0.3;
/// The term-frequency saturation of an index with nothing but source code.
const CODE_K1: f64 = 2.5;
/// What a passage of a test counts, compared with one of other files.
pub(crate) const TEST_WEIGHT: f64 = 0.8;

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
    pub(crate) fn count(self, counts: FieldCounts) -> u32 {
        match self {
            Self::Body => counts.body,
            Self::Fields => weighted_count(counts),
        }
    }

    pub(crate) fn document_share(self) -> f64 {
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

impl TermScore {
    /// Creates the contribution of a term by its counts, its score and the part that comes from the document.
    pub(crate) fn new(
        term: String,
        in_query: u32,
        chunks: u32,
        (counts, score, document_score): (FieldCounts, f64, f64),
    ) -> Self {
        let FieldCounts { body: count, path, symbols } = counts;
        Self { term, count, path, symbols, in_query, chunks, score, document_score }
    }
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
struct ClauseMatches {
    name: String,
    /// Its count in the query.
    in_query: u32,
    /// The inverse document frequency, times the count in the query.
    weight: f64,
    /// The number of chunks that match.
    count: u32,
    postings: Arc<TermPostings>,
}

/// A parsed query with the matches of all its clauses.
#[derive(Debug)]
pub(crate) struct Bm25Query<'c> {
    index: &'c DocumentIndex,
    table: &'c ChunkTable,
    ranking: Ranking,
    bm25: Bm25<'c>,
    /// In clause order, which is the order of addition.
    clauses: Vec<ClauseMatches>,
}

/// BM25's term-frequency factors, precomputed for common counts and lengths.
#[derive(Debug, Default)]
pub(crate) struct TfFactorTable {
    k1: f64,
    avg_words: f64,
    cached: Vec<f64>,
}

/// The factors of a ranking, by the statistics of a collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bm25<'t> {
    pub(crate) ranking: Ranking,
    /// Term-frequency factors of chunks, and of documents.
    pub(crate) chunks: &'t TfFactorTable,
    pub(crate) documents: &'t TfFactorTable,
}

impl Bm25<'_> {
    /// Returns the factor of a chunk, by the weighted count of a term.
    #[inline]
    pub(crate) fn chunk_factor(&self, kind: FileKind, words: u32, count: u32) -> f64 {
        self.kind_weight(kind) * self.chunks.get(count, words)
    }

    /// Returns the factor of a document, by the weighted count of a term.
    #[inline]
    pub(crate) fn document_factor(&self, kind: FileKind, words: u32, count: u32) -> f64 {
        let factor = self.documents.get(count, words);
        self.kind_weight(kind) * self.ranking.document_share() * factor
    }

    /// Returns what a chunk counts by the kind of its file.
    fn kind_weight(&self, kind: FileKind) -> f64 {
        match (self.ranking, kind) {
            (Ranking::Fields, FileKind::Test) => TEST_WEIGHT,
            _ => 1.0,
        }
    }

    /// Returns the score of a chunk by a clause, with the weight of the clause.
    #[inline]
    pub(crate) fn chunk_score(&self, weight: f64, kind: FileKind, words: u32, count: u32) -> f64 {
        match count {
            0 => 0.0,
            count => weight * self.chunk_factor(kind, words, count),
        }
    }
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
            let (name, postings) = match clause {
                Clause::Term(term) => {
                    let postings = index.chunk_postings(&term)?;
                    (term, postings)
                }
                Clause::Phrase(terms) => (phrase_name(&terms), Arc::new(phrase(index, &terms)?)),
            };
            let count = match ranking {
                Ranking::Fields => postings.count,
                Ranking::Body => postings.body_count,
            };
            let weight = idf(count, table.len() as usize) * f64::from(in_query);
            matched.push(ClauseMatches { name, in_query, weight, count, postings });
        }
        let chunks = match ranking {
            Ranking::Fields => &table.field_tf_factors,
            Ranking::Body => &table.tf_factors,
        };
        let bm25 = Bm25 { ranking, chunks, documents: &table.document_tf_factors };
        Ok(Self { index, table, ranking, bm25, clauses: matched })
    }

    /// Returns the `count` best chunks of documents that `is_allowed` accepts, ordered by score, then by `tie_break`. The result
    /// equals that of scoring every chunk.
    pub(crate) fn top_k(
        &self,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
        tie_break: impl Fn(u32) -> (u32, u32),
    ) -> Result<Vec<(u32, ExplainedScore)>, DocsError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let by_score = |(a, a_score): (u32, f64), (b, b_score): (u32, f64)| {
            b_score.total_cmp(&a_score).then_with(|| tie_break(a).cmp(&tie_break(b)))
        };
        let mut candidates = self.candidates(count, is_allowed)?;
        candidates.sort_unstable();
        // Many chunks may have the same score. Only the best are explained.
        if candidates.len() / 2 > count {
            let mut scores = self.scores(&candidates)?;
            scores.sort_unstable_by(|a, b| by_score(*a, *b));
            candidates = scores.into_iter().take(count).map(|(chunk, _)| chunk).collect();
            candidates.sort_unstable();
        }
        let mut best = self.explain(&candidates)?;
        best.sort_unstable_by(|a, b| by_score((a.0, a.1.score), (b.0, b.1.score)));
        best.truncate(count);
        Ok(best)
    }

    /// Returns a superset of the top `count` chunks, including ties.
    fn candidates(
        &self,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Result<Vec<u32>, DocsError> {
        let (mut top, mut buffers) = (TopScores::new(count), Buffers::default());
        for (number, segment) in self.index.segments().iter().enumerate() {
            let mut cursors = Vec::new();
            for clause in &self.clauses {
                let own = clause.postings.lists.iter().find(|own| own.segment == number);
                let bounds = own.map(|own| (&own.list, self.bounds(own)));
                cursors.extend(bounds.map(|(list, bounds)| {
                    Cursor::new(list, clause.weight, bounds, buffers.block())
                }));
            }
            if cursors.is_empty() {
                continue;
            }
            let scorer = QueryScorer {
                query: self,
                number,
                segment,
                words: segment.chunk_words()?,
                is_allowed: &is_allowed,
            };
            let postings = cursors.iter().map(|cursor| cursor.len()).sum();
            let documents = segment.chunk_documents(postings);
            let documents = SegmentDocuments { firsts: segment.firsts(), documents };
            let collected = max_score::collect(cursors, documents, &scorer, &mut buffers, &mut top);
            collected.ok_or_else(|| {
                let names: Vec<&str> = self.clauses.iter().map(|own| own.name.as_str()).collect();
                segment.corrupt_postings(&names.join(" "), CHUNK_POSTINGS)
            })?;
        }
        Ok(top.into_candidates())
    }

    /// Returns bounds on the factors of the blocks of a posting list.
    fn bounds<'p>(&self, postings: &'p SegmentPostings) -> &'p [f64] {
        let bound = |block| {
            let (mut chunk, mut document) = (0.0_f64, 0.0_f64);
            let known = postings.list.impacts(
                block,
                |own| chunk = chunk.max(self.tf_factors().get(own.count, own.words)),
                |own| document = document.max(self.document_tf_factors().get(own.count, own.words)),
            );
            if known.is_none() {
                (chunk, document) = (self.tf_factors().max(), self.document_tf_factors().max());
            }
            chunk + self.ranking.document_share() * document
        };
        let bounds = &postings.bounds[self.ranking as usize];
        bounds.get_or_init(|| postings.list.blocks.iter().map(bound).collect())
    }

    fn tf_factors(&self) -> &TfFactorTable {
        self.bm25.chunks
    }

    fn document_tf_factors(&self) -> &TfFactorTable {
        self.bm25.documents
    }

    /// Returns the scores of ascending chunks, with contributions added in clause order.
    fn scores(&self, chunks: &[u32]) -> Result<Vec<(u32, f64)>, DocsError> {
        let mut scores: Vec<(u32, f64)> = chunks.iter().map(|chunk| (*chunk, 0.0)).collect();
        let requested = self.requested(chunks);
        for clause in &self.clauses {
            self.contributions(clause, &requested, |index, parts| {
                scores[index].1 += parts.chunk + parts.document;
            })?;
        }
        Ok(scores)
    }

    /// Returns the scores of ascending chunks with the contribution of each clause.
    fn explain(&self, chunks: &[u32]) -> Result<Vec<(u32, ExplainedScore)>, DocsError> {
        let mut explained: Vec<(u32, ExplainedScore)> =
            chunks.iter().map(|chunk| (*chunk, ExplainedScore::default())).collect();
        let requested = self.requested(chunks);
        for clause in &self.clauses {
            self.contributions(clause, &requested, |index, parts| {
                let explained = &mut explained[index].1;
                let score = parts.chunk + parts.document;
                explained.score += score;
                let (name, in_query) = (clause.name.clone(), clause.in_query);
                let of = (parts.counts, score, parts.document);
                explained.terms.push(TermScore::new(name, in_query, clause.count, of));
            })?;
        }
        Ok(explained)
    }

    /// Returns the chunks that must be read to score these, by segment: all of their documents, if those have a score.
    fn requested(&self, chunks: &[u32]) -> Vec<Requested> {
        let mut requested: Vec<Requested> = Vec::new();
        let mut rest = chunks.iter().copied().zip(0..).peekable();
        while let Some((chunk, index)) = rest.next() {
            let first = self.index.locate_chunk(self.table, chunk);
            let own = match self.ranking {
                Ranking::Fields => self.table.chunks_of(first.document),
                Ranking::Body => chunk..chunk + 1,
            };
            let start = requested.len();
            requested.extend(own.clone().map(|number| Requested {
                location: ChunkLocation { own_chunk: first.own_chunk + number - chunk, ..first },
                scored: (number == chunk).then_some(index),
            }));
            while let Some((other, index)) = rest.next_if(|(other, _)| own.contains(other)) {
                requested[start + (other - own.start) as usize].scored = Some(index);
            }
        }
        // Within a segment, chunks keep their order.
        requested.sort_by_key(|own| own.location.segment);
        requested
    }

    /// Calls `f` with the contributions of a clause to the scored ones among `requested`.
    fn contributions(
        &self,
        clause: &ClauseMatches,
        requested: &[Requested],
        mut f: impl FnMut(usize, Contribution),
    ) -> Result<(), DocsError> {
        let mut found = vec![FieldCounts::default(); requested.len()];
        for SegmentPostings { segment: number, list, .. } in &clause.postings.lists {
            let start = requested.partition_point(|own| (own.location.segment as usize) < *number);
            let of_segment = requested[start..].iter();
            let of_segment = of_segment.take_while(|own| own.location.segment as usize == *number);
            let chunks: Vec<u32> = of_segment.map(|own| own.location.own_chunk).collect();
            let mut rest = chunks.iter().zip(start..);
            let read = list.for_each_of(&chunks, |chunk, counts| {
                if let Some((_, index)) = rest.find(|(other, _)| **other == chunk) {
                    found[index] = match self.ranking {
                        Ranking::Fields => counts,
                        Ranking::Body => FieldCounts::in_body(counts.body),
                    };
                }
            });
            let segment = &self.index.segments()[*number];
            read.ok_or_else(|| segment.corrupt_postings(&clause.name, CHUNK_POSTINGS))?;
        }
        let mut counts = found.as_slice();
        for own in requested.chunk_by(|a, b| a.location.document == b.location.document) {
            let (own_counts, rest) = counts.split_at(own.len());
            counts = rest;
            let all = own_counts.iter().map(|counts| self.ranking.count(*counts));
            let in_document = all.fold(0_u32, u32::saturating_add);
            if in_document == 0 {
                continue;
            }
            let segment = &self.index.segments()[own[0].location.segment as usize];
            let row = segment.table_row(own[0].location.own_document);
            let words = segment.chunk_words()?;
            let factor = self.bm25.document_factor(row.kind, row.chunk_words, in_document);
            let document = clause.weight * factor;
            for (Requested { location, scored }, counts) in own.iter().zip(own_counts) {
                let count = self.ranking.count(*counts);
                let words = u32::from_le_bytes(words[location.own_chunk as usize]);
                let chunk = self.bm25.chunk_score(clause.weight, row.kind, words, count);
                if let Some(index) = scored
                    && (count > 0 || self.ranking == Ranking::Fields)
                {
                    f(*index, Contribution { counts: *counts, chunk, document });
                }
            }
        }
        Ok(())
    }
}

/// The contribution of a clause to the score of a chunk, by the chunk itself and by its document.
struct Contribution {
    counts: FieldCounts,
    chunk: f64,
    document: f64,
}

/// A BM25 score with the contribution of each query term.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExplainedScore {
    /// The sum of the contributions.
    pub score: f64,
    /// The contribution of each query term.
    pub terms: Vec<TermScore>,
}

/// A chunk whose postings are read.
struct Requested {
    location: ChunkLocation,
    /// The position of its score; `None` if only its document needs it.
    scored: Option<usize>,
}

/// The scores of a query in a segment.
struct QueryScorer<'s, 'c, F> {
    query: &'s Bm25Query<'c>,
    number: usize,
    segment: &'s Segment,
    words: &'s [[u8; 4]],
    is_allowed: &'s F,
}

impl<F: Fn(u32) -> bool> SegmentScorer for QueryScorer<'_, '_, F> {
    #[inline]
    fn count(&self, counts: FieldCounts) -> u32 {
        self.query.ranking.count(counts)
    }

    #[inline]
    fn chunk_factor(&self, document: u32, chunk: u32, count: u32) -> f64 {
        // Most segments have no tests, and then the kind does not matter.
        let kind = match self.segment.totals.tests {
            0 => FileKind::Prose,
            _ => self.segment.table_row(document).kind,
        };
        let words = u32::from_le_bytes(self.words[chunk as usize]);
        self.query.bm25.chunk_factor(kind, words, count)
    }

    #[inline]
    fn document_factor(&self, document: u32, count: u32) -> f64 {
        let row = self.segment.table_row(document);
        self.query.bm25.document_factor(row.kind, row.chunk_words, count)
    }

    #[inline]
    fn is_searched(&self, document: u32) -> bool {
        let number = self.query.index.document_number(self.number, document);
        number.is_some_and(|number| (self.is_allowed)(number))
    }

    fn first_number(&self, document: u32) -> Option<u32> {
        let number = self.query.index.document_number(self.number, document)?;
        Some(self.query.table.chunks_of(number).start)
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

/// Returns the name of a phrase: its terms in quotes.
pub(crate) fn phrase_name(terms: &[String]) -> String {
    format!("\"{}\"", terms.join(" "))
}

/// Returns the chunks of all segments that contain a phrase, with its count.
fn phrase(index: &DocumentIndex, terms: &[String]) -> Result<TermPostings, DocsError> {
    let mut postings = TermPostings::default();
    for (number, segment) in index.segments().iter().enumerate() {
        let mut matches = segment_phrase(segment, terms)?;
        let documents = segment.chunk_documents(matches.len());
        let documents = SegmentDocuments { firsts: segment.firsts(), documents };
        matches.retain(|(chunk, _)| {
            index.document_number(number, documents.document_of(*chunk)).is_some()
        });
        if let Some(list) = PostingList::from_postings(&matches).filter(|list| list.count > 0) {
            let count = list.count;
            postings.add(number, list, count, count);
        }
    }
    Ok(postings)
}

/// Returns the chunks of a segment that contain a phrase, with its count.
fn segment_phrase(
    segment: &Segment,
    terms: &[String],
) -> Result<Vec<(u32, FieldCounts)>, DocsError> {
    // A repeated term is read once.
    let mut lists: BTreeMap<&str, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    // For each chunk, the positions where the phrase can start.
    let mut begins: Option<Vec<(u32, Vec<u32>)>> = None;
    for (offset, term) in (0_u32..).zip(terms) {
        if !lists.contains_key(term.as_str()) {
            let Some((chunks, positions)) = segment.chunk_positions(term)? else {
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
    let begins = begins.unwrap_or_default().into_iter();
    Ok(begins.map(|(chunk, begins)| (chunk, FieldCounts::in_body(begins.len() as u32))).collect())
}

#[cfg(test)]
mod tests;
