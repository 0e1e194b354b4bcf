//! An open collection: one version of every document, by a transaction that only reads.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pannier_docs::corpus::{
    ChunkIterator, ChunkRef, CollectionStats, Corpus, Retrieval, Retrieved, collection_version,
    id_of_chunk,
};
use pannier_docs::{
    Chunk, DocsError, Document, DocumentInfo, DocumentMetadata, Hit, IndexStats, Manifest,
};
use tokio_postgres::types::Type;

use crate::connection::{Connection, Pool};
use crate::filter::{DocumentFilter, Parameter};
use crate::lexical::{Documents, LexicalQuery, Ranked, date, query};
use crate::vectors::VectorQuery;
use crate::{vectors, verify};

/// Begins a transaction. A search that takes longer than 30 seconds, and a snapshot that is not used for two minutes, end with
/// an error: an open transaction keeps the server from cleaning up. The plans are short; compiling them takes longer. A group
/// for each document that matches frequent words should fit the memory.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL statement_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '120s';
    SET LOCAL jit = off; SET LOCAL work_mem = '64MB'";

/// The number of chunks that are read at once when all are read.
const CHUNKS_PER_PAGE: usize = 256;

/// Two to the power of 128: sums of version hashes are modulo this number.
const MODULUS: &str = "340282366920938463463374607431768211456";

/// A collection as it was when it was opened.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) connection: Connection,
    manifest: Manifest,
    location: PathBuf,
    pub(crate) collection: i32,
    stats: CollectionStats,
    tokens: u64,
    words: u64,
    /// Whether there is an index of vectors.
    has_index: bool,
}

/// What is read about a collection.
#[derive(Debug)]
pub(crate) struct CollectionRow {
    pub(crate) id: i32,
    pub(crate) settings: String,
    /// Documents, bytes, words, tokens, chunks, words of chunks, chunks of code.
    pub(crate) totals: [i64; 7],
    pub(crate) version: String,
    pub(crate) has_index: bool,
    /// The number of rows that the statistics are the sum of.
    pub(crate) deltas: i64,
}

impl CollectionRow {
    /// Returns the statement that reads a collection by name and whether it is current.
    pub(crate) fn sql() -> String {
        format!(
            "SELECT c.id, c.settings, t.documents, t.bytes, t.words, t.tokens, t.chunks, t.chunk_words,
                 t.code_chunks, mod(mod(t.version, {MODULUS}) + {MODULUS}, {MODULUS})::text,
                 coalesce((SELECT indisvalid FROM pg_index
                     WHERE indexrelid = to_regclass('pannier.{}' || c.id)), false), t.deltas
             FROM pannier.collection c, LATERAL (
                 SELECT coalesce(sum(documents), 0)::int8 AS documents, coalesce(sum(bytes), 0)::int8 AS bytes,
                     coalesce(sum(words), 0)::int8 AS words, coalesce(sum(tokens), 0)::int8 AS tokens,
                     coalesce(sum(chunks), 0)::int8 AS chunks,
                     coalesce(sum(chunk_words), 0)::int8 AS chunk_words,
                     coalesce(sum(code_chunks), 0)::int8 AS code_chunks,
                     coalesce(sum(version), 0) AS version, count(*) AS deltas
                 FROM pannier.delta WHERE collection = c.id
             ) AS t
             WHERE c.name = $1 AND c.is_current = $2",
            vectors::INDEX_PREFIX
        )
    }

    pub(crate) fn read(row: &tokio_postgres::Row) -> Self {
        let mut totals = [0; 7];
        totals.iter_mut().enumerate().for_each(|(index, total)| *total = row.get(2 + index));
        Self {
            id: row.get(0),
            settings: row.get(1),
            totals,
            version: row.get(9),
            has_index: row.get(10),
            deltas: row.get(11),
        }
    }

    /// Returns the manifest with the counts and the version.
    pub(crate) fn manifest(&self, location: &str) -> Result<Manifest, DocsError> {
        let mut manifest: Manifest = serde_json::from_str(&self.settings).map_err(|_| {
            let problem = "its settings cannot be read".to_owned();
            DocsError::Invalid { path: location.into(), problem }
        })?;
        let [documents, bytes, _, _, chunks, ..] = self.totals;
        manifest.documents = u32::try_from(documents).unwrap_or_default();
        manifest.bytes = u64::try_from(bytes).unwrap_or_default();
        manifest.chunks = u64::try_from(chunks).unwrap_or_default();
        let (chunking, model) = (&manifest.chunking, manifest.model.as_ref());
        manifest.version = collection_version(chunking, model, self.version.as_bytes());
        Ok(manifest)
    }
}

/// Begins a transaction and reads the current collection, in one round trip.
fn begin(connection: &Connection) -> Result<CollectionRow, DocsError> {
    let row = connection.call(move |client, pool| async move {
        let sql = CollectionRow::sql();
        let name = &pool.address.collection;
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(name, Type::TEXT), (&true, Type::BOOL)];
        let (begun, row) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            client.query_typed_opt(&sql, &parameters)
        );
        begun?;
        row
    })?;
    let location = &connection.pool.address.location;
    let row = row.ok_or_else(|| DocsError::NoIndex { path: location.into() })?;
    Ok(CollectionRow::read(&row))
}

impl Snapshot {
    pub(crate) fn open(pool: &Arc<Pool>) -> Result<Self, DocsError> {
        let mut connection = pool.get()?;
        let mut row = begin(&connection);
        // The server may have closed a connection that was idle.
        if row.is_err() && (connection.is_closed() || connection.take_conflict()) {
            connection = pool.get()?;
            row = begin(&connection);
        }
        let location = pool.address.location.clone();
        let row = row?;
        let [documents, _, words, tokens, chunks, chunk_words, code_chunks] =
            row.totals.map(|total| u64::try_from(total).unwrap_or_default());
        Ok(Self {
            connection,
            manifest: row.manifest(&location)?,
            location: location.into(),
            collection: row.id,
            stats: CollectionStats { documents, chunks, chunk_words, code_chunks },
            tokens,
            words,
            has_index: row.has_index,
        })
    }

    /// Reads; once more if a conflict has ended the transaction and the collection is still the same.
    fn retry<T>(&self, read: impl Fn() -> Result<T, DocsError>) -> Result<T, DocsError> {
        let result = read();
        if result.is_ok() || !self.connection.take_conflict() {
            return result;
        }
        self.connection.call(|client, _| async move { client.batch_execute("ROLLBACK").await })?;
        let row = begin(&self.connection)?;
        let now = row.manifest(&self.connection.pool.address.location)?;
        match row.id == self.collection && now.version == self.manifest.version {
            true => read(),
            false => result,
        }
    }

    fn lexical(
        &self,
        retrieval: &Retrieval<'_>,
        filter: &DocumentFilter,
    ) -> Result<(Ranked, Documents), DocsError> {
        let options = retrieval.options();
        let mut documents = Documents::new();
        if !retrieval.is_lexical() {
            return Ok((Vec::new(), documents));
        }
        let lexical = LexicalQuery::new(
            &self.connection,
            self.collection,
            self.stats,
            retrieval.query(),
            options.ranking,
        )?;
        let order = order(options.prefer_recent);
        let ranked = self.take_matching(options.lexical_k, filter, |count| {
            lexical.top_k(count, filter, &mut documents, &order)
        })?;
        Ok((ranked, documents))
    }

    fn semantic(
        &self,
        retrieval: &Retrieval<'_>,
        filter: &DocumentFilter,
    ) -> Result<(Vec<(ChunkRef, i32)>, Documents), DocsError> {
        let options = retrieval.options();
        let mut documents = Documents::new();
        if !retrieval.is_semantic() {
            return Ok((Vec::new(), documents));
        }
        let vector = retrieval.vector()?;
        let search = VectorQuery {
            connection: &self.connection,
            collection: self.collection,
            vector: &vector,
            is_indexed: self.has_index
                && self.stats.chunks > self.connection.pool.address.exact_max_chunks,
        };
        let order = order(options.prefer_recent);
        let ranked = self.take_matching(options.semantic_k, filter, |count| {
            search.top_k(count, filter, &mut documents, &order)
        })?;
        Ok((ranked, documents))
    }

    /// Returns the top `count` chunks of a retriever that contain all required strings: it is asked for more until enough
    /// remain.
    fn take_matching<S>(
        &self,
        count: usize,
        filter: &DocumentFilter,
        mut retrieve: impl FnMut(usize) -> Result<Vec<(ChunkRef, S)>, DocsError>,
    ) -> Result<Vec<(ChunkRef, S)>, DocsError> {
        if filter.contains.is_empty() {
            return retrieve(count);
        }
        let mut requested = count.max(1);
        loop {
            let ranked = retrieve(requested)?;
            let is_all = ranked.len() < requested;
            let chunks: Vec<ChunkRef> = ranked.iter().map(|(chunk, _)| *chunk).collect();
            let hits = self.read_chunks_once(&chunks)?;
            let allowed = hits.iter().map(|hit| filter.allows_text(&hit.text));
            let kept = ranked.into_iter().zip(allowed).filter(|(_, is_allowed)| *is_allowed);
            let mut kept: Vec<(ChunkRef, S)> = kept.map(|(own, _)| own).collect();
            if is_all || kept.len() >= count {
                kept.truncate(count);
                return Ok(kept);
            }
            requested = requested.saturating_mul(8);
        }
    }

    fn retrieve_once(
        &self,
        retrieval: &Retrieval<'_>,
        filter: &DocumentFilter,
    ) -> Result<Retrieved, DocsError> {
        // Requests of two threads share the connection, and their messages one round trip.
        let (lexical, semantic) = match retrieval.is_lexical() && retrieval.is_semantic() {
            false => (self.lexical(retrieval, filter), self.semantic(retrieval, filter)),
            true => std::thread::scope(|scope| {
                let semantic = scope.spawn(|| self.semantic(retrieval, filter));
                let lexical = self.lexical(retrieval, filter);
                let ended = || {
                    Err(DocsError::Store {
                        location: self.location.display().to_string(),
                        problem: "a thread has ended".to_owned(),
                    })
                };
                (lexical, semantic.join().unwrap_or_else(|_| ended()))
            }),
        };
        let ((lexical, mut documents), (semantic, others)) = (lexical?, semantic?);
        documents.extend(others);
        let order = order(retrieval.options().prefer_recent);
        Ok(Retrieved::new(lexical, semantic, |chunk| order(&documents, chunk)))
    }

    fn read_chunks_once(&self, chunks: &[ChunkRef]) -> Result<Vec<Hit>, DocsError> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let documents: Vec<i32> = chunks.iter().map(|chunk| chunk.document as i32).collect();
        let sequences: Vec<i32> = chunks.iter().map(|chunk| chunk.sequence as i32).collect();
        let sql =
            "SELECT d.id, d.path, d.hash, d.date, c.sequence, c.start, c.bytes, c.line, c.headings,
                 c.symbols, c.fence, substring(d.content FROM c.start + 1 FOR c.bytes)
             FROM unnest($2::int[], $3::int[]) WITH ORDINALITY AS r(document, sequence, n)
             JOIN pannier.chunk c ON c.document = r.document AND c.sequence = r.sequence
             JOIN pannier.document d ON d.id = c.document AND d.collection = $1
             ORDER BY r.n";
        let parameters: Vec<Parameter> = vec![
            self.own(),
            (Box::new(documents), Type::INT4_ARRAY),
            (Box::new(sequences), Type::INT4_ARRAY),
        ];
        let hit = |row: &tokio_postgres::Row| {
            let invalid = || DocsError::Invalid {
                path: self.location.clone(),
                problem: "a chunk is damaged".to_owned(),
            };
            let text = String::from_utf8(row.get(11)).map_err(|_| invalid())?;
            let hash: [u8; 32] = row.get::<_, &[u8]>(2).try_into().map_err(|_| invalid())?;
            let (path, sequence) = (row.get::<_, &str>(1), row.get::<_, i32>(4) as u32);
            let start = row.get::<_, i32>(5) as usize;
            let range = start..start + row.get::<_, i32>(6) as usize;
            if text.len() != range.len() {
                return Err(invalid());
            }
            let (line, texts) =
                (row.get::<_, i32>(7) as usize, [row.get(8), row.get(9), row.get(10)]);
            let [headings, symbols, fence]: [String; 3] = texts;
            let chunk = Chunk::new(range, line, headings, symbols, fence);
            let id = id_of_chunk(path, &hash, sequence, &text);
            let of =
                (row.get::<_, i32>(0) as u32, path, row.get::<_, Option<i64>>(3).and_then(date));
            Ok(Hit::new(id, of, sequence, chunk, text))
        };
        self.query(sql, parameters)?.iter().map(hit).collect()
    }

    /// Runs a query in this snapshot.
    pub(crate) fn query(
        &self,
        sql: &str,
        parameters: Vec<Parameter>,
    ) -> Result<Vec<tokio_postgres::Row>, DocsError> {
        query(&self.connection, sql.to_owned(), parameters)
    }

    fn own(&self) -> Parameter {
        (Box::new(self.collection), Type::INT4)
    }
}

/// Returns the function that orders chunks with equal scores: by path, or the latest document first.
fn order(
    prefers_recent: bool,
) -> impl Fn(&Documents, ChunkRef) -> (Option<Reverse<Option<pannier_core::Timestamp>>>, String, u32)
{
    move |documents, chunk| {
        let document = documents.get(&chunk.document);
        let date = document.and_then(|own| own.date);
        let path = document.map(|own| own.path.clone()).unwrap_or_default();
        (prefers_recent.then_some(Reverse(date)), path, chunk.sequence)
    }
}

impl Corpus for Snapshot {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn location(&self) -> &Path {
        &self.location
    }

    fn is_current(&self) -> Result<bool, DocsError> {
        let now = Self::open(&self.connection.pool)?;
        Ok(now.collection == self.collection && now.manifest.version == self.manifest.version)
    }

    fn retrieve(&self, retrieval: &Retrieval<'_>) -> Result<Retrieved, DocsError> {
        let filter = &DocumentFilter::new(&retrieval.options().filters)?;
        self.retry(|| self.retrieve_once(retrieval, filter))
    }

    fn read_chunks(&self, chunks: &[ChunkRef]) -> Result<Vec<Hit>, DocsError> {
        self.retry(|| self.read_chunks_once(chunks))
    }
    fn find_document(&self, path: &str) -> Result<Option<u32>, DocsError> {
        if path.contains('\0') {
            return Ok(None);
        }
        let sql = "SELECT id FROM pannier.document WHERE collection = $1 AND path = $2";
        let rows = self.query(sql, vec![self.own(), (Box::new(path.to_owned()), Type::TEXT)])?;
        Ok(rows.first().map(|row| row.get::<_, i32>(0) as u32))
    }

    fn read_documents(&self, numbers: &[u32]) -> Result<Vec<Document>, DocsError> {
        let ids: Vec<i32> = numbers.iter().map(|number| *number as i32).collect();
        let sql =
            "SELECT d.path, d.hash, d.content FROM unnest($2::int[]) WITH ORDINALITY AS r(id, n)
             JOIN pannier.document d ON d.id = r.id AND d.collection = $1 ORDER BY r.n";
        let rows = self.query(sql, vec![self.own(), (Box::new(ids), Type::INT4_ARRAY)])?;
        let invalid = |problem: &str| DocsError::Invalid {
            path: self.location.clone(),
            problem: problem.to_owned(),
        };
        if rows.len() != numbers.len() {
            return Err(invalid("a document is missing"));
        }
        let document = |row: &tokio_postgres::Row| {
            let content =
                String::from_utf8(row.get(2)).map_err(|_| invalid("a text is damaged"))?;
            Ok(Document::new(row.get(0), row.get(1), content))
        };
        rows.iter().map(document).collect()
    }

    fn list_documents(&self, start: usize, count: usize) -> Result<Vec<DocumentInfo>, DocsError> {
        let sql = "SELECT path, title, date, bytes FROM pannier.document
             WHERE collection = $1 ORDER BY id_path OFFSET $2 LIMIT $3";
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let parameters: Vec<Parameter> = vec![
            self.own(),
            (Box::new(number(start)), Type::INT8),
            (Box::new(number(count)), Type::INT8),
        ];
        let info = |row: &tokio_postgres::Row| {
            let mut metadata = DocumentMetadata::default();
            metadata.title = row.get(1);
            metadata.date = row.get::<_, Option<i64>>(2).and_then(date);
            DocumentInfo::new(row.get(0), metadata, row.get::<_, i32>(3) as u64)
        };
        Ok(self.query(sql, parameters)?.iter().map(info).collect())
    }

    fn all_chunks(&self) -> Result<ChunkIterator<'_>, DocsError> {
        let sql =
            "SELECT id, chunk_count FROM pannier.document WHERE collection = $1 ORDER BY id_path";
        let rows = self.query(sql, vec![self.own()])?;
        let chunks = rows.into_iter().flat_map(|row| {
            let (document, count) = (row.get::<_, i32>(0) as u32, row.get::<_, i32>(1) as u32);
            (0..count).map(move |sequence| ChunkRef { document, sequence })
        });
        let chunks: Vec<ChunkRef> = chunks.collect();
        let starts = (0..chunks.len()).step_by(CHUNKS_PER_PAGE);
        Ok(Box::new(starts.flat_map(move |start| {
            let page = &chunks[start..chunks.len().min(start + CHUNKS_PER_PAGE)];
            match self.read_chunks(page) {
                Ok(hits) => hits.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            }
        })))
    }

    fn inspect(&self) -> Result<IndexStats, DocsError> {
        let sql = "SELECT min(c.bytes), (array_agg(c.bytes ORDER BY c.bytes))[count(*) / 2 + 1], max(c.bytes)
             FROM pannier.chunk c JOIN pannier.document d ON d.id = c.document WHERE d.collection = $1";
        let rows = self.query(sql, vec![self.own()])?;
        let size = |column: usize| {
            let size = rows.first().and_then(|row| row.get::<_, Option<i32>>(column));
            size.and_then(|size| u64::try_from(size).ok())
        };
        let sizes =
            size(0).zip(size(1)).zip(size(2)).map(|((min, median), max)| [min, median, max]);
        Ok(IndexStats::new(self.manifest.clone(), self.tokens, self.words, sizes))
    }

    fn verify(&self) -> Result<Vec<String>, DocsError> {
        verify::verify(self)
    }
}
