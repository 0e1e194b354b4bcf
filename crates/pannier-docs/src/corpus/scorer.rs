//! BM25 for a corpus that narrows candidates by itself: the clauses of a query, and the exact scores of candidates.
//!
//! The arithmetic is that of an index folder, in the same order, so that both give the same scores to the bit.

use std::collections::BTreeSet;

use pannier_text::{B, K1, idf};

use super::analysis::{DocumentKind, TermChunk};
use crate::lexical::{
    Bm25, Clause, ExplainedScore, Ranking, TEST_WEIGHT, TermScore, TfFactorTable, clauses,
    field_k1, phrase_name,
};
use crate::word_counts::FieldCounts;

/// A term or phrase of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryClause {
    /// The analyzed terms; more than one are a phrase.
    pub terms: Vec<String>,
    /// Its count in the query.
    pub in_query: u32,
}

/// Returns the distinct clauses of a query, in the order in which their scores are added.
pub fn query_clauses(query: &str) -> Vec<QueryClause> {
    let clauses = clauses(query).into_iter();
    let clauses = clauses.map(|(clause, in_query)| match clause {
        Clause::Term(term) => QueryClause { terms: vec![term], in_query },
        Clause::Phrase(terms) => QueryClause { terms, in_query },
    });
    clauses.collect()
}

/// The statistics of a collection that BM25 needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStats {
    /// The number of documents.
    pub documents: u64,
    /// The number of chunks.
    pub chunks: u64,
    /// The number of analyzed words of all chunks.
    pub chunk_words: u64,
    /// The number of chunks of source code, tests included.
    pub code_chunks: u64,
}

/// The numbers of the formula `idf * kind * (tf(chunk) + document_share * tf(document))`, where `tf(count, words)` is
/// `count * (k1 + 1) / (count + k1 * (1 - b + b * words / mean))`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bm25Parameters {
    /// The length normalization.
    pub b: f64,
    /// The term-frequency saturation of chunks.
    pub k1: f64,
    /// The mean length of chunks, at least 1.
    pub mean_words: f64,
    /// The term-frequency saturation of documents.
    pub document_k1: f64,
    /// The mean length of documents, at least 1.
    pub document_mean_words: f64,
    /// The share of a document's own score.
    pub document_share: f64,
    /// What a passage of a test counts.
    pub test_weight: f64,
}

/// Scores candidates.
#[derive(Debug)]
pub struct Scorer {
    ranking: Ranking,
    chunks: u64,
    parameters: Bm25Parameters,
    chunk_factors: TfFactorTable,
    document_factors: TfFactorTable,
}

impl Scorer {
    /// Creates a scorer for a collection.
    pub fn new(stats: CollectionStats, ranking: Ranking) -> Self {
        let mean = |count: u64| stats.chunk_words as f64 / (count as f64).max(1.0);
        let code_share = stats.code_chunks as f64 / (stats.chunks as f64).max(1.0);
        let k1 = match ranking {
            Ranking::Fields => field_k1(code_share),
            Ranking::Body => K1,
        };
        let (mean_words, document_mean_words) = (mean(stats.chunks), mean(stats.documents));
        let parameters = Bm25Parameters {
            b: B,
            k1,
            mean_words: mean_words.max(1.0),
            document_k1: K1,
            document_mean_words: document_mean_words.max(1.0),
            document_share: ranking.document_share(),
            test_weight: if ranking == Ranking::Fields { TEST_WEIGHT } else { 1.0 },
        };
        Self {
            ranking,
            chunks: stats.chunks,
            parameters,
            chunk_factors: TfFactorTable::new(k1, mean_words),
            document_factors: TfFactorTable::new(K1, document_mean_words),
        }
    }

    /// Returns the numbers of the formula.
    pub fn parameters(&self) -> Bm25Parameters {
        self.parameters
    }

    /// Returns the number of chunks in the collection.
    pub fn chunk_count(&self) -> u64 {
        self.chunks
    }

    /// Returns the weight of a clause that `count` chunks match.
    pub fn weight(&self, clause: &QueryClause, count: u32) -> f64 {
        idf(count, usize::try_from(self.chunks).unwrap_or(usize::MAX)) * f64::from(clause.in_query)
    }

    /// Returns the scores of the chunks of a document that match any clause, ascending. `matches` has the clauses in order, the
    /// number of chunks in the collection that match each, and the chunks of the document that do.
    pub fn score(
        &self,
        kind: DocumentKind,
        chunk_words: u32,
        matches: &[(&QueryClause, u32, Vec<TermChunk>)],
    ) -> Vec<(u32, ExplainedScore)> {
        let ranking = self.ranking;
        let (chunks, documents) = (&self.chunk_factors, &self.document_factors);
        let bm25 = Bm25 { ranking, chunks, documents };
        let own = matches.iter().flat_map(|(.., chunks)| chunks);
        let own = own.filter(|chunk| ranking.count(chunk.counts) > 0);
        let sequences: BTreeSet<u32> = own.map(|chunk| chunk.sequence).collect();
        let mut scores: Vec<(u32, ExplainedScore)> =
            sequences.into_iter().map(|sequence| (sequence, ExplainedScore::default())).collect();
        for (clause, count, chunks) in matches {
            let all = chunks.iter().map(|chunk| ranking.count(chunk.counts));
            let in_document = all.fold(0_u32, u32::saturating_add);
            if in_document == 0 {
                continue;
            }
            let weight = self.weight(clause, *count);
            let document = weight * bm25.document_factor(kind.0, chunk_words, in_document);
            for (sequence, explained) in &mut scores {
                let chunk = chunks.binary_search_by_key(sequence, |chunk| chunk.sequence);
                let chunk = chunk.ok().map(|index| &chunks[index]);
                let (words, counts) = match chunk {
                    Some(chunk) => (chunk.words, chunk.counts),
                    None => (0, FieldCounts::default()),
                };
                let counts = match ranking {
                    Ranking::Fields => counts,
                    Ranking::Body => FieldCounts::in_body(counts.body),
                };
                let count_in_chunk = ranking.count(counts);
                if count_in_chunk == 0 && ranking == Ranking::Body {
                    continue;
                }
                let own = bm25.chunk_score(weight, kind.0, words, count_in_chunk);
                let score = own + document;
                explained.score += score;
                let name = match clause.terms.as_slice() {
                    [term] => term.clone(),
                    terms => phrase_name(terms),
                };
                let of = (counts, score, document);
                explained.terms.push(TermScore::new(name, clause.in_query, *count, of));
            }
        }
        scores
    }
}
