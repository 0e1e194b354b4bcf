//! Which chunks answer a query: found by words, by meaning, or by both.
//!
//! The two legs rank chunks apart, and their ranks are fused, not their scores, which have nothing in common. Fused scores
//! are whole numbers, so that ties are ties, and are broken by a total order: paths, and document_ranks in documents.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use pannier_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chunk::{Chunk, chunk_id, chunker_version, document_id};
use crate::document_index::ChunkTable;
use crate::lexical::{Bm25Query, MAX_QUERY_BYTES, TermScore};
use crate::source::glob_set;
use crate::vectors::{IMPORTED_MODEL, nearest};
use crate::{DocsError, DocumentIndex, Embedder};

/// What a rank of 1 is rrf_score, times the sum of the rank and `rrf_k`.
const RRF_SCALE: u64 = 1 << 32;

/// By what chunks are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SearchMode {
    /// By words, and by vectors where the cache has them.
    #[default]
    Hybrid,
    /// By words.
    Lexical,
    /// By vectors.
    Semantic,
}

/// What is looked for, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SearchOptions {
    /// By what chunks are found.
    pub mode: SearchMode,
    /// How many chunks are taken by their words.
    pub lexical_k: usize,
    /// How many chunks are taken by their vectors.
    pub semantic_k: usize,
    /// How many are left of both.
    pub top_k: usize,
    /// How much the first ranks stand out: the greater, the less.
    pub rrf_k: u32,
    /// What a rank by words counts.
    pub lexical_weight: u32,
    /// What a rank by vectors counts.
    pub semantic_weight: u32,
    /// Of equal scores, puts the later document first.
    pub prefer_recent: bool,
    /// Which chunks are looked at.
    pub filters: Filters,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            mode: SearchMode::default(),
            lexical_k: 50,
            semantic_k: 50,
            top_k: 100,
            rrf_k: 60,
            lexical_weight: 1,
            semantic_weight: 1,
            prefer_recent: false,
            filters: Filters::default(),
        }
    }
}

/// Which chunks are looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Filters {
    /// Patterns of which a document's path matches one, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The document's date is this or later. A document without a date has none.
    #[serde(skip_serializing_if = "Option::is_none", with = "timestamp")]
    pub after: Option<Timestamp>,
    /// The document's date is earlier.
    #[serde(skip_serializing_if = "Option::is_none", with = "timestamp")]
    pub before: Option<Timestamp>,
    /// Texts that a chunk must have, in whatever case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
}

/// Timestamps as texts.
mod timestamp {
    use pannier_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde asks for this form")]
    pub(super) fn serialize<S: Serializer>(
        timestamp: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match timestamp {
            Some(timestamp) => serializer.serialize_str(&timestamp.to_string()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// Where the vector of a query comes from.
#[derive(Clone, Copy, Debug, Default)]
pub enum QueryVector<'q> {
    /// There is none.
    #[default]
    None,
    /// A model makes it: the one that made the vectors of the cache.
    Embedder(&'q dyn Embedder),
    /// The caller has made it.
    Given(&'q [i16]),
}

/// A chunk that answers a query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// What it is called: a hash of its document's path and content, its number and its text.
    pub id: String,
    /// The path of its document.
    pub path: String,
    /// The number of its document.
    pub document: u32,
    /// Its number among the chunks of its document.
    pub sequence: u32,
    /// Where it is, in bytes of the document.
    pub range: Range<usize>,
    /// The headings it stands under.
    pub heading_path: String,
    /// Its text.
    pub text: String,
    /// When its document was written, if that is known.
    pub date: Option<Timestamp>,
    /// Its fused score.
    pub score: u64,
    /// What its words make of it.
    pub lexical: Option<LexicalScore>,
    /// What its vector makes of it.
    pub semantic: Option<SemanticScore>,
}

/// How a chunk was found by its words.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LexicalScore {
    /// Its rank, from 1.
    pub rank: u32,
    /// Its BM25.
    pub score: f64,
    /// What each term adds to it.
    pub terms: Vec<TermScore>,
}

/// How a chunk was found by its vector.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SemanticScore {
    /// Its rank, from 1.
    pub rank: u32,
    /// Its likeness to the query: 1 if it is the same.
    pub score: f64,
}

/// A chunk and the ranks it has got.
struct Fused {
    chunk: u32,
    score: u64,
    lexical: Option<(u32, f64)>,
    semantic: Option<(u32, i32)>,
}

impl DocumentIndex {
    /// The chunks that answer a query, best first.
    ///
    /// ```
    /// # use pannier_docs::{BuildOptions, DocumentIndex, QueryVector, SearchOptions, DocumentSource, build};
    /// # let folder = std::env::temp_dir().join(format!("pannier-search-{}", std::process::id()));
    /// # let (docs, cache) = (folder.join("docs"), folder.join("cache"));
    /// # std::fs::create_dir_all(&docs)?;
    /// # std::fs::write(docs.join("http.md"), "# Requests\n\nCall parse_http_header first.\n\n# Bread\n\nBake it.")?;
    /// # build(&DocumentSource::new(&docs), &cache, &BuildOptions::default(), &mut |_| {})?;
    /// let hits = DocumentIndex::open(&cache)?.search("parseHttpHeader", &SearchOptions::default(), QueryVector::None)?;
    /// assert_eq!(hits[0].heading_path, "Requests");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DocsError::LongQuery`], [`DocsError::Pattern`], [`DocsError::Model`] if the vector of the query is missing or not
    /// of the cache's model, [`DocsError::Outdated`], and [`DocsError::Invalid`] if anything that is needed is not as it was built.
    pub fn search(
        &self,
        query: &str,
        search: &SearchOptions,
        vector: QueryVector<'_>,
    ) -> Result<Vec<Hit>, DocsError> {
        let (bytes, most) = (query.len(), MAX_QUERY_BYTES);
        if bytes > most {
            return Err(DocsError::LongQuery { bytes, most });
        }
        self.check_mode(search.mode, vector)?;
        if self.manifest().chunking != chunker_version() {
            return Err(DocsError::Outdated { path: self.root().to_owned() });
        }
        let table = self.chunk_table()?;
        let allowed = ChunkFilter::new(self, &search.filters)?;
        let order = TieBreak::new(self, table, search.prefer_recent)?;
        let has_vectors = self.manifest().model.is_some() && search.mode != SearchMode::Lexical;
        let by_words = || self.lexical_search(query, search.lexical_k, &order, &allowed).map(Some);
        let by_vectors = || self.vector_search(query, vector, search.semantic_k, &order, &allowed);
        // To hand one leg to another thread takes longer than a search by words.
        let (lexical, semantic) = match search.mode {
            SearchMode::Semantic => (Ok(None), by_vectors()),
            _ if !has_vectors => (by_words(), Ok(Vec::new())),
            _ => rayon::join(by_words, by_vectors),
        };
        let lexical = lexical?;
        let ranked = lexical.as_ref().map_or(&[][..], |(_, ranked)| ranked);
        let fused = fuse(search, ranked, &semantic?, &order);
        let mut reader = HitReader { cache: self, table, chunks: BTreeMap::new() };
        let mut hits = Vec::with_capacity(fused.len());
        for fused in fused {
            let mut hit = reader.hit(fused.chunk)?;
            hit.score = fused.score;
            if let (Some((rank, score)), Some((lexical, _))) = (fused.lexical, &lexical) {
                let terms = lexical.explain(fused.chunk)?;
                hit.lexical = Some(LexicalScore { rank, score, terms });
            }
            hit.semantic = fused.semantic.map(|(rank, product)| SemanticScore {
                rank,
                score: f64::from(product) / (32_767.0 * 32_767.0),
            });
            hits.push(hit);
        }
        Ok(hits)
    }

    /// The chunks before and after a hit, where there are any.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if they are not as they were built.
    pub fn neighbors(&self, hit: &Hit) -> Result<Vec<Hit>, DocsError> {
        let table = self.chunk_table()?;
        let mut reader = HitReader { cache: self, table, chunks: BTreeMap::new() };
        if hit.document >= self.len() {
            return Ok(Vec::new());
        }
        let beside = [hit.sequence.checked_sub(1), hit.sequence.checked_add(1)];
        let chunks = table.of_document(hit.document);
        let chunks =
            beside.into_iter().flatten().map(|sequence| chunks.start.saturating_add(sequence));
        chunks
            .filter(|chunk| table.of_document(hit.document).contains(chunk))
            .map(|chunk| reader.hit(chunk))
            .collect()
    }

    /// Every chunk, in the order of documents.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn all_chunks(&self) -> Result<impl Iterator<Item = Result<Hit, DocsError>>, DocsError> {
        let table = self.chunk_table()?;
        let mut reader = HitReader { cache: self, table, chunks: BTreeMap::new() };
        Ok((0..table.rows.len() as u32).map(move |chunk| reader.hit(chunk)))
    }

    /// Whether the query has the vector that a mode needs, of the model that made those of the cache.
    fn check_mode(&self, mode: SearchMode, vector: QueryVector<'_>) -> Result<(), DocsError> {
        let wrong = |problem: String| Err(DocsError::model(self.root(), problem));
        let Some(model) = &self.manifest().model else {
            let has_vector = !matches!(vector, QueryVector::None) && mode == SearchMode::Hybrid;
            return match mode == SearchMode::Semantic || has_vector {
                true => wrong(
                    "the cache has no vectors; build it with the embedder, or search by words alone"
                        .to_owned(),
                ),
                false => Ok(()),
            };
        };
        if mode == SearchMode::Lexical {
            return Ok(());
        }
        match vector {
            QueryVector::None if model.name == IMPORTED_MODEL => wrong(
                "the cache has vectors of your own, and the query has none; give it one, or search by words alone"
                    .to_owned(),
            ),
            QueryVector::None => wrong(format!(
                "the cache has vectors by {}, and the query has none; give the embedder, or search by words alone",
                model.name
            )),
            QueryVector::Embedder(embedder) if embedder.model() != model => wrong(format!(
                "the vectors are by {} {:.12}…, and the embedder is {} {:.12}…; give the one that the cache was built with",
                model.name,
                model.hash,
                embedder.model().name,
                embedder.model().hash
            )),
            QueryVector::Given(vector) if vector.len() != model.dimensions as usize => {
                wrong(format!(
                    "its vectors have {} numbers, and that of the query {}; make both by one model",
                    model.dimensions,
                    vector.len()
                ))
            }
            _ => Ok(()),
        }
    }

    fn lexical_search<'c>(
        &'c self,
        query: &str,
        count: usize,
        order: &TieBreak<'_>,
        allowed: &ChunkFilter<'_>,
    ) -> Result<(Bm25Query<'c>, Vec<(u32, f64)>), DocsError> {
        let lexical = Bm25Query::new(self, query)?;
        let best = allowed.first(count, order.table, |count| {
            let is_allowed = |chunk| allowed.document(order.table, chunk);
            lexical.top_k(count, is_allowed, |chunk| order.of(chunk))
        })?;
        Ok((lexical, best))
    }

    fn vector_search(
        &self,
        query: &str,
        vector: QueryVector<'_>,
        count: usize,
        order: &TieBreak<'_>,
        allowed: &ChunkFilter<'_>,
    ) -> Result<Vec<(u32, i32)>, DocsError> {
        let made = match vector {
            QueryVector::None => Vec::new(),
            QueryVector::Given(vector) => vector.to_vec(),
            QueryVector::Embedder(embedder) => {
                let vectors = embedder.embed(&[query]).map_err(DocsError::Embedder)?;
                vectors.into_iter().next().unwrap_or_default()
            }
        };
        let dimensions = self.manifest().model.as_ref().map_or(0, |model| model.dimensions);
        if made.len() != dimensions as usize {
            let found = made.len();
            let problem =
                format!("the query got a vector of {found} numbers, and not of {dimensions}");
            return Err(DocsError::model(self.root(), problem));
        }
        let vectors = self.vectors()?;
        allowed.first(count, order.table, |count| {
            let is_allowed = |chunk| allowed.document(order.table, chunk);
            Ok(nearest(vectors, &made, count, is_allowed, |chunk| order.of(chunk)))
        })
    }
}

/// One ranking of the ranks in both legs.
fn fuse(
    search: &SearchOptions,
    lexical: &[(u32, f64)],
    semantic: &[(u32, i32)],
    order: &TieBreak<'_>,
) -> Vec<Fused> {
    let mut fused: BTreeMap<u32, Fused> = BTreeMap::new();
    let rrf_score = |rank: u32, weight: u32| {
        RRF_SCALE / (u64::from(search.rrf_k) + u64::from(rank)) * u64::from(weight)
    };
    let new = |chunk| Fused { chunk, score: 0, lexical: None, semantic: None };
    for ((chunk, score), rank) in lexical.iter().zip(1..) {
        let entry = fused.entry(*chunk).or_insert_with(|| new(*chunk));
        entry.score = entry.score.saturating_add(rrf_score(rank, search.lexical_weight));
        entry.lexical = Some((rank, *score));
    }
    for ((chunk, product), rank) in semantic.iter().zip(1..) {
        let entry = fused.entry(*chunk).or_insert_with(|| new(*chunk));
        entry.score = entry.score.saturating_add(rrf_score(rank, search.semantic_weight));
        entry.semantic = Some((rank, *product));
    }
    let mut fused: Vec<Fused> = fused.into_values().collect();
    fused.sort_unstable_by_key(|fused| (Reverse(fused.score), order.of(fused.chunk)));
    fused.truncate(search.top_k);
    fused
}

/// The order of chunks with the same score: by their documents, and by their document_ranks in them.
struct TieBreak<'c> {
    table: &'c ChunkTable,
    /// The place of each document.
    document_ranks: Cow<'c, [u32]>,
}

impl<'c> TieBreak<'c> {
    /// By the paths of documents, or by their dates first, the latest before all.
    fn new(
        cache: &'c DocumentIndex,
        table: &'c ChunkTable,
        by_date: bool,
    ) -> Result<Self, DocsError> {
        if !by_date {
            return Ok(Self { table, document_ranks: cache.path_ranks().into() });
        }
        let mut documents = Vec::with_capacity(cache.len() as usize);
        for (document, place) in (0..cache.len()).zip(cache.path_ranks()) {
            documents.push((Reverse(cache.record(document)?.metadata.date), *place, document));
        }
        documents.sort_unstable();
        let mut document_ranks = vec![0; documents.len()];
        for ((_, _, document), place) in documents.into_iter().zip(0..) {
            document_ranks[document as usize] = place;
        }
        Ok(Self { table, document_ranks: document_ranks.into() })
    }

    fn of(&self, chunk: u32) -> (u32, u32) {
        (self.document_ranks[self.table.rows[chunk as usize].document as usize], chunk)
    }
}

impl ChunkTable {
    /// The numbers of a document's chunks.
    fn of_document(&self, document: u32) -> Range<u32> {
        let at = document as usize;
        self.firsts[at]..self.firsts[at + 1]
    }
}

/// Reads chunks, and the list of a document's chunks once.
struct HitReader<'c> {
    cache: &'c DocumentIndex,
    table: &'c ChunkTable,
    chunks: BTreeMap<u32, Document>,
}

struct Document {
    id: [u8; 32],
    path: String,
    date: Option<Timestamp>,
    chunks: Vec<Chunk>,
}

impl HitReader<'_> {
    fn hit(&mut self, number: u32) -> Result<Hit, DocsError> {
        let row = self.table.rows[number as usize];
        let document = row.document;
        if !self.chunks.contains_key(&document) {
            // Chunks mostly come document by document, or are few.
            if self.chunks.len() > 1_000 {
                self.chunks.clear();
            }
            let record = self.cache.record(document)?;
            self.chunks.insert(
                document,
                Document {
                    id: document_id(&record.path, &record.hash),
                    chunks: self.cache.chunks_of(document, &record)?,
                    path: record.path,
                    date: record.metadata.date,
                },
            );
        }
        let damaged = || {
            let problem = format!("the chunks of document {document} are not those of its list");
            DocsError::invalid(self.cache.folder(), problem)
        };
        let found = self.chunks.get(&document).ok_or_else(damaged)?;
        let sequence = number - self.table.of_document(document).start;
        let chunk = found.chunks.get(sequence as usize).ok_or_else(damaged)?;
        let range = row.start as usize..row.start as usize + row.length as usize;
        if chunk.range != range {
            return Err(damaged());
        }
        let text = self.cache.chunk_text(&row)?;
        Ok(Hit {
            id: chunk_id(&found.id, sequence, &text),
            path: found.path.clone(),
            document,
            sequence,
            range,
            heading_path: chunk.heading_path.clone(),
            text,
            date: found.date,
            score: 0,
            lexical: None,
            semantic: None,
        })
    }
}

/// Which chunks are looked at.
struct ChunkFilter<'c> {
    cache: &'c DocumentIndex,
    /// Of each document, whether it is; all are if nothing is asked of documents.
    documents: Option<Vec<bool>>,
    /// Texts in lower case.
    contains: Vec<String>,
}

impl<'c> ChunkFilter<'c> {
    fn new(cache: &'c DocumentIndex, filters: &Filters) -> Result<Self, DocsError> {
        let Filters { paths, after, before, contains } = filters;
        let contains = contains.iter().map(|text| text.to_lowercase()).collect();
        if paths.is_empty() && after.is_none() && before.is_none() {
            return Ok(Self { cache, documents: None, contains });
        }
        let globs = glob_set(paths)?;
        let is_allowed = |document: u32| {
            let record = cache.record(document)?;
            let date = record.metadata.date;
            let is_after = after.is_none_or(|after| date.is_some_and(|date| date >= after));
            let is_before = before.is_none_or(|before| date.is_some_and(|date| date < before));
            Ok(is_after && is_before && (paths.is_empty() || globs.is_match(&record.path)))
        };
        let documents = (0..cache.len()).map(is_allowed).collect::<Result<_, DocsError>>()?;
        Ok(Self { cache, documents: Some(documents), contains })
    }

    /// Whether the document of a chunk is looked at.
    fn document(&self, table: &ChunkTable, chunk: u32) -> bool {
        let document = table.rows[chunk as usize].document as usize;
        self.documents.as_ref().is_none_or(|documents| documents[document])
    }

    /// The first so many that have the texts they must have, of those that a leg ranks. Texts are read only of what is
    /// ranked high enough.
    fn first<S: Copy>(
        &self,
        count: usize,
        table: &ChunkTable,
        best: impl Fn(usize) -> Result<Vec<(u32, S)>, DocsError>,
    ) -> Result<Vec<(u32, S)>, DocsError> {
        if self.contains.is_empty() {
            return best(count);
        }
        let mut asked = count.max(1);
        loop {
            let ranked = best(asked)?;
            let is_all = ranked.len() < asked;
            let mut kept = Vec::new();
            for (chunk, score) in ranked {
                let text = self.cache.chunk_text(&table.rows[chunk as usize])?.to_lowercase();
                if self.contains.iter().all(|contained| text.contains(contained)) {
                    kept.push((chunk, score));
                }
            }
            if is_all || kept.len() >= count {
                kept.truncate(count);
                return Ok(kept);
            }
            asked = asked.saturating_mul(8);
        }
    }
}
