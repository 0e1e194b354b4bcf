//! Lexical search: SQL narrows to documents by upper bounds, and the scorer of `pannier-docs` decides.
//!
//! A posting has the highest count and the lowest length of the chunks with its term. The formula of BM25 with both bounds the
//! score of every chunk of the document; for a document of one chunk, it is the score. The documents with the highest bounds come
//! first, with all that have the bound of the last. Once the k-th best exact score reaches it, no other can change the top k.
//! Otherwise, all documents whose bound reaches that score are read, too.
//!
//! The number of chunks with a term is counted from the same postings, in the same snapshot. So it is never stale, and writers
//! need not agree on a counter.

use std::collections::BTreeMap;

use pannier_core::Timestamp;
use pannier_docs::corpus::{
    ChunkRef, CollectionStats, DocumentKind, DocumentTerm, QueryClause, Scorer, TermChunk,
    query_clauses,
};
use pannier_docs::{DocsError, ExplainedScore, Ranking};
use tokio_postgres::types::{ToSql, Type};

use crate::connection::Connection;
use crate::filter::{DocumentFilter, Parameter};

/// Tolerance for sums in another order and for another logarithm.
const SLACK: f64 = 1e-9;

/// A document that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundDocument {
    pub(crate) path: String,
    pub(crate) date: Option<Timestamp>,
}

/// Documents by number.
pub(crate) type Documents = BTreeMap<u32, FoundDocument>;

/// Chunks with their scores, best first.
pub(crate) type Ranked = Vec<(ChunkRef, ExplainedScore)>;

/// A lexical query of a collection.
pub(crate) struct LexicalQuery<'s> {
    connection: &'s Connection,
    collection: i32,
    ranking: Ranking,
    scorer: Scorer,
    clauses: Vec<QueryClause>,
    /// The phrases, by clause.
    phrases: BTreeMap<usize, Phrase>,
}

/// The documents that contain a phrase, and the number of their chunks that do.
struct Phrase {
    documents: BTreeMap<u32, PhraseMatch>,
    chunk_count: u32,
}

/// The occurrences of a phrase in a document.
struct PhraseMatch {
    chunks: Vec<TermChunk>,
    words: i32,
    is_test: bool,
}

/// A candidate: a document with the occurrences of each clause.
struct Candidate {
    bound: f64,
    kind: DocumentKind,
    chunk_words: u32,
    /// For each clause: the number of chunks in the collection, and the chunks of the document.
    matches: Vec<(u32, Vec<TermChunk>)>,
}

impl<'s> LexicalQuery<'s> {
    pub(crate) fn new(
        connection: &'s Connection,
        collection: i32,
        stats: CollectionStats,
        query: &str,
        ranking: Ranking,
    ) -> Result<Self, DocsError> {
        let mut own = Self {
            connection,
            collection,
            ranking,
            scorer: Scorer::new(stats, ranking),
            clauses: query_clauses(query),
            phrases: BTreeMap::new(),
        };
        for number in 0..own.clauses.len() {
            if own.clauses[number].terms.len() > 1 {
                let phrase = own.find_phrase(&own.clauses[number].terms)?;
                own.phrases.insert(number, phrase);
            }
        }
        Ok(own)
    }

    /// Returns the best `count` chunks of documents that the filter allows, with their documents. `tie_break` orders chunks with
    /// equal scores.
    pub(crate) fn top_k<K: Ord>(
        &self,
        count: usize,
        filter: &DocumentFilter,
        documents: &mut Documents,
        tie_break: impl Fn(&Documents, ChunkRef) -> K,
    ) -> Result<Ranked, DocsError> {
        if count == 0 || self.clauses.is_empty() {
            return Ok(Vec::new());
        }
        let mut limit = i64::try_from(count.saturating_add(count / 4 + 10)).unwrap_or(i64::MAX);
        let mut min_bound = 0.0;
        loop {
            let candidates = self.narrow(limit, min_bound, filter, documents)?;
            let is_all = (candidates.len() as i64) < limit;
            let mut bounds: Vec<f64> = candidates.values().map(|own| own.bound).collect();
            bounds.sort_by(|a, b| b.total_cmp(a));
            // No other document has this bound, or nearly.
            let last = usize::try_from(limit).ok().and_then(|limit| bounds.get(limit - 1).copied());
            let mut ranked: Ranked = Vec::new();
            for (document, candidate) in candidates {
                if !documents.get(&document).is_some_and(|own| filter.allows(&own.path)) {
                    continue;
                }
                let matches = self.clauses.iter().zip(candidate.matches);
                let matches: Vec<_> =
                    matches.map(|(clause, (count, chunks))| (clause, count, chunks)).collect();
                let scores = self.scorer.score(candidate.kind, candidate.chunk_words, &matches);
                ranked.extend(
                    scores
                        .into_iter()
                        .map(|(sequence, score)| (ChunkRef { document, sequence }, score)),
                );
            }
            ranked.sort_by(|(a, a_score), (b, b_score)| {
                let by_score = b_score.score.total_cmp(&a_score.score);
                by_score.then_with(|| tie_break(documents, *a).cmp(&tie_break(documents, *b)))
            });
            let threshold = ranked.get(count - 1).map(|(_, own)| own.score);
            let is_above = |last: f64| threshold.is_some_and(|score| score >= last * (1.0 - SLACK));
            let is_enough = is_all || last.is_some_and(is_above);
            if is_enough {
                ranked.truncate(count);
                return Ok(ranked);
            }
            match threshold {
                Some(score) => (min_bound, limit) = (score * (1.0 - SLACK), i64::MAX),
                None => limit = limit.saturating_mul(8),
            }
        }
    }

    /// Returns the `limit` documents with the highest bounds, ties included, that reach a bound.
    ///
    /// SQL reads the postings of each term twice, from the index alone: to count its chunks, and to add up bounds. The constants
    /// of the formula are computed here, since the server interprets it for each posting. `LIMIT` in a query of its own sorts
    /// with a heap; `WITH TIES` would sort all documents.
    fn narrow(
        &self,
        limit: i64,
        min_bound: f64,
        filter: &DocumentFilter,
        documents: &mut Documents,
    ) -> Result<BTreeMap<u32, Candidate>, DocsError> {
        let own = self.scorer.parameters();
        let terms = self.clauses.iter().filter(|clause| clause.terms.len() == 1);
        let (names, in_query): (Vec<String>, Vec<f64>) =
            terms.map(|clause| (clause.terms[0].clone(), f64::from(clause.in_query))).unzip();
        let mut parameters: Vec<Parameter> = vec![
            (Box::new(self.collection), Type::INT4),
            (Box::new(names), Type::TEXT_ARRAY),
            (Box::new(in_query), Type::FLOAT8_ARRAY),
            (Box::new(self.scorer.chunk_count() as f64), Type::FLOAT8),
            (Box::new(limit), Type::INT8),
            (Box::new(min_bound), Type::FLOAT8),
            (Box::new(own.test_weight), Type::FLOAT8),
            (Box::new(own.k1 + 1.0), Type::FLOAT8),
            (Box::new(own.k1 * (1.0 - own.b)), Type::FLOAT8),
            (Box::new(own.k1 * own.b / own.mean_words), Type::FLOAT8),
            (Box::new(own.document_share * (own.document_k1 + 1.0)), Type::FLOAT8),
            (Box::new(own.document_k1 * (1.0 - own.b)), Type::FLOAT8),
            (Box::new(own.document_k1 * own.b / own.document_mean_words), Type::FLOAT8),
        ];
        let count = match self.ranking {
            Ranking::Body => "body_chunks",
            _ => "chunks",
        };
        let mut phrases = String::new();
        if !self.phrases.is_empty() {
            let first = parameters.len() + 1;
            parameters.extend(self.phrase_rows().parameters());
            phrases = format!(
                "UNION ALL SELECT * FROM unnest({}) AS p(document, weight, count, words, max_count, min_words, is_test)",
                (first..first + 7)
                    .map(|number| format!("${number}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
        let condition = filter.sql(&mut parameters);
        let allowed = match filter.is_empty {
            true => String::new(),
            false => format!("JOIN pannier.document d ON d.id = posting.document AND {condition}"),
        };
        let sql = format!(
            "WITH counted AS MATERIALIZED (
                 SELECT n, term, in_query, (
                     SELECT coalesce(sum({count}), 0)::float8 FROM pannier.posting p
                     WHERE p.collection = $1 AND p.term = t.term
                 ) AS own
                 FROM unnest($2, $3) WITH ORDINALITY AS t(term, in_query, n)
             ),
             term AS MATERIALIZED (
                 SELECT n, term, own, in_query * ln(1 + ($4 - own + 0.5) / (own + 0.5)) AS weight FROM counted
             ),
             bound AS MATERIALIZED (
                 SELECT document, sum(weight * CASE WHEN is_test THEN $7 ELSE 1 END * (
                     max_count * $8 / (max_count + ($9 + $10 * min_words))
                     + count * $11 / (count + ($12 + $13 * words))
                 )) AS bound
                 FROM (
                     SELECT document, weight, count, words, max_count, min_words, is_test
                     FROM term JOIN pannier.posting p ON p.collection = $1 AND p.term = term.term
                     {phrases}
                 ) AS posting GROUP BY document
             ),
             allowed AS {materialized} (SELECT posting.document, posting.bound FROM bound AS posting {allowed}),
             best AS MATERIALIZED (
                 SELECT document, bound FROM allowed WHERE bound >= $6 AND bound >= (
                     SELECT min(bound) * (1 - 2 * {SLACK}::float8) FROM (SELECT bound FROM allowed ORDER BY bound DESC LIMIT $5) AS highest
                 )
             )
             SELECT best.document, best.bound, d.path, d.date, d.kind, d.chunk_words,
                 ARRAY(SELECT own::int8 FROM term ORDER BY n),
                 ARRAY(SELECT (
                     SELECT places FROM pannier.posting p
                     WHERE p.collection = $1 AND p.term = term.term AND p.document = best.document
                 ) FROM term ORDER BY n)
             FROM best JOIN pannier.document d ON d.id = best.document",
            materialized = if filter.is_empty { "NOT MATERIALIZED" } else { "MATERIALIZED" },
        );
        // Postings are looked up one by one: a join might read all of them.
        let rows = query(self.connection, sql, parameters)?;
        let mut candidates = BTreeMap::new();
        for row in rows {
            let document = row.get::<_, i32>(0) as u32;
            documents.entry(document).or_insert_with(|| FoundDocument {
                path: row.get(2),
                date: row.get::<_, Option<i64>>(3).and_then(date),
            });
            let kind = u8::try_from(row.get::<_, i16>(4)).ok().and_then(DocumentKind::from_byte);
            let kind = kind.ok_or_else(|| self.corrupt("a document has no kind"))?;
            let (counts, places): (Vec<i64>, Vec<Option<&[u8]>>) = (row.get(6), row.get(7));
            let mut terms = counts.into_iter().zip(places);
            let mut matches = Vec::with_capacity(self.clauses.len());
            for number in 0..self.clauses.len() {
                matches.push(match self.phrases.get(&number) {
                    Some(phrase) => {
                        let own = phrase.documents.get(&document);
                        (phrase.chunk_count, own.map_or(Vec::new(), |own| own.chunks.clone()))
                    }
                    None => {
                        let (count, places) = terms.next().unwrap_or_default();
                        let chunks = places.map_or(Some(Vec::new()), TermChunk::decode);
                        let chunks = chunks.ok_or_else(|| self.corrupt("a posting is damaged"))?;
                        (u32::try_from(count).unwrap_or(u32::MAX), chunks)
                    }
                });
            }
            let (bound, chunk_words) = (row.get(1), row.get::<_, i32>(5) as u32);
            candidates.insert(document, Candidate { bound, kind, chunk_words, matches });
        }
        Ok(candidates)
    }

    /// Returns the bounds of phrases as rows, with the weights of their clauses.
    fn phrase_rows(&self) -> PhraseRows {
        let mut rows = PhraseRows::default();
        for (number, Phrase { documents, chunk_count }) in &self.phrases {
            let weight = self.scorer.weight(&self.clauses[*number], *chunk_count);
            for (document, PhraseMatch { chunks, words, is_test }) in documents {
                let own = DocumentTerm::new("", chunks.clone());
                let (max_count, min_words) = own.bound();
                rows.documents.push(*document as i32);
                rows.weights.push(weight);
                let numbers = [own.count() as i32, *words, max_count as i32, min_words as i32];
                rows.numbers.iter_mut().zip(numbers).for_each(|(column, own)| column.push(own));
                rows.is_test.push(*is_test);
            }
        }
        rows
    }

    /// Returns the documents that contain a phrase.
    fn find_phrase(&self, terms: &[String]) -> Result<Phrase, DocsError> {
        let mut distinct: Vec<String> = terms.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let count = distinct.len() as i64;
        let sql = "SELECT p.document, p.term, p.places, p.words, p.is_test FROM pannier.posting p
             WHERE p.collection = $1 AND p.term = ANY($2) AND p.document IN (
                 SELECT document FROM pannier.posting WHERE collection = $1 AND term = ANY($2)
                 GROUP BY document HAVING count(*) = $3)";
        let parameters: Vec<Parameter> = vec![
            (Box::new(self.collection), Type::INT4),
            (Box::new(distinct), Type::TEXT_ARRAY),
            (Box::new(count), Type::INT8),
        ];
        type Found = (BTreeMap<String, Vec<TermChunk>>, i32, bool);
        let mut found: BTreeMap<u32, Found> = BTreeMap::new();
        for row in query(self.connection, sql.to_owned(), parameters)? {
            let own = found.entry(row.get::<_, i32>(0) as u32);
            let own = own.or_insert_with(|| (BTreeMap::new(), row.get(3), row.get(4)));
            let chunks = TermChunk::decode(row.get(2));
            own.0.insert(row.get(1), chunks.ok_or_else(|| self.corrupt("a posting is damaged"))?);
        }
        let found = found.into_iter().filter_map(|(document, (own, words, is_test))| {
            let lists: Vec<Vec<TermChunk>> =
                terms.iter().map(|term| own.get(term).cloned().unwrap_or_default()).collect();
            let chunks = TermChunk::phrase(&lists);
            (!chunks.is_empty()).then_some((document, PhraseMatch { chunks, words, is_test }))
        });
        let documents: BTreeMap<u32, PhraseMatch> = found.collect();
        let chunk_count = documents.values().map(|own| own.chunks.len() as u32).sum();
        Ok(Phrase { documents, chunk_count })
    }

    fn corrupt(&self, problem: &str) -> DocsError {
        let path = self.connection.pool.address.location.clone().into();
        DocsError::Invalid { path, problem: problem.to_owned() }
    }
}

/// The bounds of phrases, as columns.
#[derive(Default)]
struct PhraseRows {
    documents: Vec<i32>,
    weights: Vec<f64>,
    numbers: [Vec<i32>; 4],
    is_test: Vec<bool>,
}

impl PhraseRows {
    fn parameters(self) -> Vec<Parameter> {
        let mut parameters: Vec<Parameter> = vec![
            (Box::new(self.documents), Type::INT4_ARRAY),
            (Box::new(self.weights), Type::FLOAT8_ARRAY),
        ];
        for column in self.numbers {
            parameters.push((Box::new(column), Type::INT4_ARRAY));
        }
        parameters.push((Box::new(self.is_test), Type::BOOL_ARRAY));
        parameters
    }
}

/// Returns a stored date.
pub(crate) fn date(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_unix_seconds(seconds).ok()
}

/// Runs a query.
pub(crate) fn query(
    connection: &Connection,
    sql: String,
    parameters: Vec<Parameter>,
) -> Result<Vec<tokio_postgres::Row>, DocsError> {
    query_with(connection, String::new(), sql, parameters)
}

/// Runs a query with settings of the transaction, in one round trip.
pub(crate) fn query_with(
    connection: &Connection,
    settings: String,
    sql: String,
    parameters: Vec<Parameter>,
) -> Result<Vec<tokio_postgres::Row>, DocsError> {
    connection.call(move |client, _| async move {
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> = parameters
            .iter()
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect();
        let query = client.query_typed(&sql, &parameters);
        if settings.is_empty() {
            return query.await;
        }
        let (set, rows) = tokio::join!(biased; client.batch_execute(&settings), query);
        set?;
        rows
    })
}
