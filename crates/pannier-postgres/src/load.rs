//! Writes documents: each batch is one transaction, so a reader sees all of a document or none of it.
//!
//! A document is identified by its path and compared by its hash, so an interrupted load is completed by the next one. Writers
//! lock the rows of their documents in the order of paths. A writer that meets another one at a new document starts its batch
//! again. The old postings of a document are deleted by its old terms, which its old text gives, so no index by document is
//! needed. Statistics are changed by adding a row; the rows are added up when they are read, and replaced by their sum later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt;
use pannier_docs::corpus::{
    AnalyzedDocument, DocumentKind, SourceDocument, check_vectors, map_all, vector_key, with_files,
};
use pannier_docs::{
    BuildOptions, BuildSummary, ChunkSizes, Corpus, DocsError, DocumentMetadata, DocumentSource,
    Manifest, Model, Progress, RemovalReason, SkipReason, VectorSource,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::connection::{Connection, Pool, is_conflict, store_error, to_error};
use crate::copy::{Rows, int};
use crate::lexical::date;
use crate::schema::migrate;
use crate::snapshot::{CollectionRow, Snapshot};
use crate::vectors::{self, EXACT_MAX_CHUNKS, MAX_DIMENSIONS};

/// The maximum number of documents in a transaction, and of bytes of their texts.
const BATCH_DOCUMENTS: usize = 512;
const BATCH_BYTES: usize = 8 << 20;

/// The number of texts that are embedded at once.
const EMBED_BATCH_TEXTS: usize = 64;

/// How often a batch is started again after it met another writer.
const MAX_ATTEMPTS: u32 = 20;

/// After this many documents, the tables are vacuumed: narrowing reads the index alone only where it knows that rows are visible.
const VACUUM_DOCUMENTS: usize = 1_000;

/// Begins a transaction that writes.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '10min'; SET LOCAL lock_timeout = '2min';
    SET LOCAL idle_in_transaction_session_timeout = '10min'";

/// The caller gave the title, or the date.
const TITLE_GIVEN: i16 = 1;
const DATE_GIVEN: i16 = 2;

/// What a collection has of a document.
struct Stored {
    hash: Vec<u8>,
    given: DocumentMetadata,
}

/// Vectors of the chunks of a document, with their keys.
type DocumentVectors = Vec<([u8; 16], Vec<i16>)>;

/// A document to be written, with its vectors.
struct Written {
    document: AnalyzedDocument,
    vectors: DocumentVectors,
}

/// A collection that is written.
struct Target<'p> {
    connection: Connection,
    pool: &'p Arc<Pool>,
    id: i32,
    sizes: ChunkSizes,
    model: Option<Model>,
    /// Whether it replaces the current collection of its name.
    is_draft: bool,
    embedded: u64,
}

/// Builds or updates a collection.
pub(crate) fn build(
    pool: &Arc<Pool>,
    source: &DocumentSource,
    options: &BuildOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuildSummary, DocsError> {
    with_files(source, |files, skipped| {
        let mut target = Target::open(pool, source, options)?;
        let summary = target.update(files, skipped, source, options, progress)?;
        target.finish(summary)
    })
}

/// Writes documents by path and text.
pub(crate) fn put(
    pool: &Arc<Pool>,
    documents: &[(&str, &str)],
    options: &BuildOptions<'_>,
) -> Result<(), DocsError> {
    let mut target = Target::current(pool)?;
    check_vectors(pool.address.location.as_ref(), target.model.as_ref(), options.vectors)?;
    let sizes = target.sizes;
    for batch in documents.chunks(BATCH_DOCUMENTS) {
        let analyze = |(path, text): &(&str, &str)| {
            let given = DocumentMetadata::default();
            AnalyzedDocument::new(path, (*text).to_owned(), given, sizes)
        };
        target.write(map_all(batch, analyze), Vec::new(), options.vectors)?;
    }
    Ok(())
}

/// Removes documents by path.
pub(crate) fn remove(pool: &Arc<Pool>, paths: &[&str]) -> Result<(), DocsError> {
    let mut target = Target::current(pool)?;
    for batch in paths.chunks(BATCH_DOCUMENTS) {
        let paths = batch.iter().map(|path| (*path).to_owned()).collect();
        target.write(Vec::new(), paths, VectorSource::None)?;
    }
    Ok(())
}

/// Creates the index of vectors.
pub(crate) fn create_vector_index(pool: &Arc<Pool>) -> Result<(), DocsError> {
    let target = Target::current(pool)?;
    let (id, dimensions) = (target.id, target.model.as_ref().map_or(0, |model| model.dimensions));
    target
        .connection
        .call(move |client, _| async move { create_index(&client, id, dimensions).await })
}

/// Removes the collection.
pub(crate) fn drop_collection(pool: &Arc<Pool>) -> Result<(), DocsError> {
    let connection = pool.get()?;
    let name = pool.address.collection.clone();
    connection.call(move |client, _| async move {
        let sql = "SELECT id FROM pannier.collection WHERE name = $1";
        for row in client.query_typed(sql, &[(&name, Type::TEXT)]).await? {
            delete_collection(&client, row.get(0)).await?;
        }
        Ok(())
    })
}

async fn delete_collection(client: &Client, id: i32) -> Result<(), Error> {
    client
        .batch_execute(&format!("DROP INDEX IF EXISTS pannier.{}", vectors::index_name(id)))
        .await?;
    let has_vectors = "SELECT to_regclass('pannier.embedding') IS NOT NULL";
    let has_vectors: bool = client.query_typed_one(has_vectors, &[]).await?.get(0);
    let embeddings = match has_vectors {
        true => format!("DELETE FROM pannier.embedding WHERE collection = {id};"),
        false => String::new(),
    };
    // The collection goes first, so that nobody finds the rest.
    client
        .batch_execute(&format!(
            "BEGIN;
             DELETE FROM pannier.collection WHERE id = {id};
             {embeddings}
             DELETE FROM pannier.posting WHERE collection = {id};
             DELETE FROM pannier.chunk c USING pannier.document d
                 WHERE c.document = d.id AND d.collection = {id};
             DELETE FROM pannier.document WHERE collection = {id};
             DELETE FROM pannier.delta WHERE collection = {id};
             COMMIT"
        ))
        .await
}

impl<'p> Target<'p> {
    /// Opens the current collection for single documents.
    fn current(pool: &'p Arc<Pool>) -> Result<Self, DocsError> {
        let connection = connected(pool)?;
        let location = &pool.address.location;
        let row = read_collection(&connection, true)?;
        let row = row.ok_or_else(|| DocsError::NoIndex { path: location.into() })?;
        let manifest = row.manifest(location)?;
        let sizes = manifest.chunk_sizes;
        if manifest.chunking != pannier_docs::corpus::chunking_version(sizes) {
            return Err(DocsError::Outdated { path: location.into() });
        }
        let (id, model) = (row.id, manifest.model);
        Ok(Self { connection, pool, id, sizes, model, is_draft: false, embedded: 0 })
    }

    /// Opens the collection that a build writes: the current one if its settings are the same, or else a draft.
    fn open(
        pool: &'p Arc<Pool>,
        source: &DocumentSource,
        options: &BuildOptions<'_>,
    ) -> Result<Self, DocsError> {
        let connection = connected(pool)?;
        let location = pool.address.location.clone();
        let model = options.vectors.model().cloned();
        if model.as_ref().is_some_and(|model| model.dimensions > MAX_DIMENSIONS) {
            let problem = format!("pgvector stores at most {MAX_DIMENSIONS} dimensions");
            return Err(DocsError::Model { path: location.into(), problem });
        }
        let has_vectors = model.is_some();
        connection.call(move |client, _| async move { migrate(&client, has_vectors).await })?;
        let current = read_collection(&connection, true)?;
        let manifest = current.as_ref().map(|row| row.manifest(&location)).transpose()?;
        let before = manifest.as_ref();
        check_vectors(
            location.as_ref(),
            before.and_then(|own| own.model.as_ref()),
            options.vectors,
        )?;
        let sizes = options.chunk_sizes.or(before.map(|own| own.chunk_sizes)).unwrap_or_default();
        let root = std::path::absolute(source.root()).unwrap_or_else(|_| source.root().to_owned());
        let (root, rules) = (root.display().to_string(), source.file_rules().clone());
        let wanted = Manifest::of_collection(sizes, model.clone(), root, rules);
        let is_same = |own: &Manifest| own.chunking == wanted.chunking && own.model == wanted.model;
        let is_reused = !options.from_scratch && before.is_some_and(is_same);
        let is_draft = current.is_some() && !is_reused;
        let settings = serde_json::to_string(&wanted)
            .map_err(|_| store_error(&location, "the settings cannot be written"))?;
        let (name, from_scratch) = (pool.address.collection.clone(), options.from_scratch);
        let chunking = (wanted.chunking.clone(), wanted.model.clone());
        let id = connection.call(move |client, _| async move {
            let parameters: [(&(dyn ToSql + Sync), Type); 3] =
                [(&name, Type::TEXT), (&!is_draft, Type::BOOL), (&settings, Type::TEXT)];
            let find = CollectionRow::sql();
            let found = client.query_typed_opt(&find, &parameters[..2]).await?;
            if is_draft && let Some(row) = &found {
                // An interrupted draft is continued if it has the same settings.
                let row = CollectionRow::read(row);
                let own = row.manifest("").ok().map(|own| (own.chunking, own.model));
                if from_scratch || own != Some(chunking) {
                    delete_collection(&client, row.id).await?;
                }
            }
            // The source may have changed.
            let insert = "INSERT INTO pannier.collection (name, is_current, settings) VALUES ($1, $2, $3)
                 ON CONFLICT (name, is_current) DO UPDATE SET settings = excluded.settings RETURNING id";
            Ok(client.query_typed_one(insert, &parameters).await?.get::<_, i32>(0))
        })?;
        Ok(Self { connection, pool, id, sizes, model, is_draft, embedded: 0 })
    }

    /// Writes what changed, and removes what is gone.
    fn update(
        &mut self,
        files: &[SourceDocument<'_>],
        skipped: Vec<(String, SkipReason)>,
        source: &DocumentSource,
        options: &BuildOptions<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, DocsError> {
        let mut summary = BuildSummary::default();
        let mut problems = Vec::new();
        skipped
            .iter()
            .for_each(|(path, reason)| summary.skipped.entry(*reason).or_default().add(path));
        let stored = self.stored()?;
        let mut present: BTreeSet<&str> = BTreeSet::new();
        let of = files.len();
        let mut done = 0;
        progress(Progress::new(0, of, 0));
        for files in files.chunks(BATCH_DOCUMENTS) {
            let read = map_all(files, |file| {
                let before = stored.get(file.path());
                let given = file.given().cloned().or_else(|| before.map(|own| own.given.clone()));
                let (content, hash) = file.read()?;
                let given = given.unwrap_or_default();
                let is_same = before.is_some_and(|own| own.hash == hash && own.given == given);
                Ok((!is_same)
                    .then(|| AnalyzedDocument::new(file.path(), content, given, self.sizes)))
            });
            let mut changed = Vec::new();
            for (file, document) in files.iter().zip(read) {
                match document {
                    Ok(document) => {
                        present.insert(file.path());
                        match (&document, stored.contains_key(file.path())) {
                            (None, _) => summary.unchanged += 1,
                            (Some(_), true) => summary.changed.add(file.path()),
                            (Some(_), false) => summary.added.add(file.path()),
                        }
                        changed.extend(document);
                    }
                    Err((reason, problem)) => {
                        summary.skipped.entry(reason).or_default().add(file.path());
                        problems.push(problem);
                    }
                }
            }
            if source.file_rules().strict && !problems.is_empty() {
                return Err(DocsError::Sources { problems });
            }
            while !changed.is_empty() {
                let mut bytes = 0;
                let fitting = changed.iter().take_while(|document| {
                    bytes += document.content.len();
                    bytes <= BATCH_BYTES
                });
                let rest = changed.split_off(fitting.count().max(1));
                self.write(std::mem::replace(&mut changed, rest), Vec::new(), options.vectors)?;
            }
            done += files.len();
            progress(Progress::new(done, of, self.embedded));
        }
        let gone: Vec<String> =
            stored.keys().filter(|path| !present.contains(path.as_str())).cloned().collect();
        for path in &gone {
            let is_skipped = files.iter().any(|file| file.path() == path);
            let reason = match (is_skipped, source.root().join(path).exists()) {
                (true, _) => RemovalReason::Skipped,
                (false, true) => RemovalReason::Excluded,
                (false, false) => RemovalReason::Deleted,
            };
            summary.removed.entry(reason).or_default().add(path);
        }
        for paths in gone.chunks(BATCH_DOCUMENTS) {
            self.write(Vec::new(), paths.to_vec(), options.vectors)?;
        }
        summary.embedded = self.embedded;
        Ok(summary)
    }

    /// Returns what the collection has.
    fn stored(&self) -> Result<BTreeMap<String, Stored>, DocsError> {
        let id = self.id;
        let rows = self.connection.call(move |client, _| async move {
            let sql =
                "SELECT path, hash, title, date, given FROM pannier.document WHERE collection = $1";
            client.query_typed(sql, &[(&id, Type::INT4)]).await
        })?;
        let stored = rows.into_iter().map(|row| {
            let flags: i16 = row.get(4);
            let mut given = DocumentMetadata::default();
            given.title = row.get::<_, Option<String>>(2).filter(|_| flags & TITLE_GIVEN != 0);
            let own_date = row.get::<_, Option<i64>>(3).and_then(date);
            given.date = own_date.filter(|_| flags & DATE_GIVEN != 0);
            (row.get(0), Stored { hash: row.get(1), given })
        });
        Ok(stored.collect())
    }

    /// Writes and removes documents in one transaction.
    fn write(
        &mut self,
        mut documents: Vec<AnalyzedDocument>,
        removed: Vec<String>,
        vectors: VectorSource<'_>,
    ) -> Result<(), DocsError> {
        documents.sort_by(|a, b| a.path.cmp(&b.path));
        documents.dedup_by(|a, b| a.path == b.path);
        let mut written = Vec::with_capacity(documents.len());
        let vectors = self.vectors(&documents, vectors)?;
        for (document, vectors) in documents.into_iter().zip(vectors) {
            written.push(Written { document, vectors });
        }
        let batch = Arc::new(Batch {
            collection: self.id,
            sizes: self.sizes,
            has_vectors: self.model.is_some(),
            written,
            removed,
        });
        let location = self.pool.address.location.clone();
        for attempt in 0.. {
            let batch = Arc::clone(&batch);
            let location = location.clone();
            // An error of the inner kind is another attempt.
            let result = self.connection.call(move |client, _| async move {
                match batch.run(&client).await {
                    Ok(is_done) => Ok(Ok(is_done)),
                    Err(error) if is_conflict(&error) => Ok(Ok(false)),
                    Err(error) => Ok(Err(to_error(&location, &error))),
                }
            })?;
            if !matches!(result, Ok(true)) {
                let _ = self
                    .connection
                    .call(|client, _| async move { client.batch_execute("ROLLBACK").await });
            }
            match result? {
                true => return Ok(()),
                false if attempt == MAX_ATTEMPTS => break,
                false => std::thread::sleep(Duration::from_millis(5 << attempt.min(6))),
            }
        }
        Err(store_error(&location, "other writers change the same documents; try again later"))
    }

    /// Returns the vectors of each document's chunks. Those of unchanged chunks are reused.
    fn vectors(
        &mut self,
        documents: &[AnalyzedDocument],
        source: VectorSource<'_>,
    ) -> Result<Vec<DocumentVectors>, DocsError> {
        let mut all = vec![Vec::new(); documents.len()];
        match source {
            VectorSource::Imported(imported) => {
                let (mut missing, mut count) = (None, 0);
                for (document, own) in documents.iter().zip(&mut all) {
                    for (id, text) in document.embedded_texts() {
                        match imported.get(&id) {
                            Some(vector) => own.push((vector_key(&text), vector.to_vec())),
                            None => {
                                count += 1;
                                missing.get_or_insert((id, text));
                            }
                        }
                    }
                }
                if let Some((id, text)) = missing {
                    let words: Vec<&str> = text.split_whitespace().collect();
                    let text = words.join(" ").chars().take(40).collect();
                    return Err(DocsError::NoVector { count, id, text });
                }
            }
            VectorSource::Embedder(embedder) => {
                let texts: Vec<Vec<(String, String)>> =
                    documents.iter().map(|document| document.embedded_texts().collect()).collect();
                let mut known = self.known_vectors(documents)?;
                let mut new: BTreeMap<[u8; 16], &str> = BTreeMap::new();
                for (_, text) in texts.iter().flatten() {
                    let key = vector_key(text);
                    if !known.contains_key(&key) {
                        new.insert(key, text);
                    }
                }
                let new: Vec<([u8; 16], &str)> = new.into_iter().collect();
                for batch in new.chunks(EMBED_BATCH_TEXTS) {
                    let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
                    let vectors = embedder.embed(&texts).map_err(DocsError::Embedder)?;
                    let dimensions = embedder.model().dimensions as usize;
                    let is_wrong = |vector: &Vec<i16>| vector.len() != dimensions;
                    if vectors.len() != texts.len() || vectors.iter().any(is_wrong) {
                        let path = embedder.model().name.clone().into();
                        let problem = format!(
                            "it did not return a vector of {dimensions} dimensions for each text"
                        );
                        return Err(DocsError::Model { path, problem });
                    }
                    self.embedded += texts.len() as u64;
                    known.extend(batch.iter().map(|(key, _)| *key).zip(vectors));
                }
                for (texts, own) in texts.iter().zip(&mut all) {
                    let keys = texts.iter().map(|(_, text)| vector_key(text));
                    own.extend(keys.map(|key| (key, known.get(&key).cloned().unwrap_or_default())));
                }
            }
            _ => {}
        }
        Ok(all)
    }

    /// Returns the vectors that the stored versions of documents have, by key.
    fn known_vectors(
        &self,
        documents: &[AnalyzedDocument],
    ) -> Result<BTreeMap<[u8; 16], Vec<i16>>, DocsError> {
        let paths: Vec<String> = documents.iter().map(|document| document.path.clone()).collect();
        let id = self.id;
        let rows = self.connection.call(move |client, _| async move {
            let sql =
                "SELECT e.key, e.vector::real[] FROM pannier.embedding e JOIN pannier.document d
                 ON d.id = e.document WHERE d.collection = $1 AND d.path = ANY($2)";
            client.query_typed(sql, &[(&id, Type::INT4), (&paths, Type::TEXT_ARRAY)]).await
        })?;
        let vectors = rows.into_iter().filter_map(|row| {
            let key = <[u8; 16]>::try_from(row.get::<_, &[u8]>(0)).ok()?;
            let vector: Vec<f32> = row.get(1);
            Some((key, vector.into_iter().map(|number| number as i16).collect()))
        });
        Ok(vectors.collect())
    }

    /// Publishes a draft, adds up statistics, and prepares the tables for searches.
    fn finish(self, mut summary: BuildSummary) -> Result<BuildSummary, DocsError> {
        let (id, is_draft, name) = (self.id, self.is_draft, self.pool.address.collection.clone());
        let removed: u32 = summary.removed.values().map(|removed| removed.count).sum();
        let changed = (summary.added.count + summary.changed.count + removed) as usize;
        let dimensions = self.model.as_ref().map_or(0, |model| model.dimensions);
        self.connection.call(move |client, _| async move {
            if is_draft {
                client.batch_execute("BEGIN").await?;
                let old =
                    "DELETE FROM pannier.collection WHERE name = $1 AND is_current RETURNING id";
                let old = client.query_typed_opt(old, &[(&name, Type::TEXT)]).await?;
                let publish =
                    format!("UPDATE pannier.collection SET is_current = true WHERE id = {id}");
                client.batch_execute(&publish).await?;
                client.batch_execute("COMMIT").await?;
                if let Some(old) = old {
                    delete_collection(&client, old.get(0)).await?;
                }
            }
            fold(&client, id).await?;
            if changed >= VACUUM_DOCUMENTS {
                let tables = ["posting", "document", "chunk", "delta"];
                for table in tables.iter().chain((dimensions > 0).then_some(&"embedding")) {
                    client.batch_execute(&format!("VACUUM (ANALYZE) pannier.{table}")).await?;
                }
            }
            create_index(&client, id, dimensions).await
        })?;
        let location = self.pool.address.location.clone();
        drop(self.connection);
        let snapshot = Snapshot::open(self.pool)?;
        let manifest = snapshot.manifest();
        summary.version.clone_from(&manifest.version);
        (summary.documents, summary.chunks) = (manifest.documents, manifest.chunks);
        summary.is_unchanged = changed == 0 && !is_draft;
        if manifest.version.is_empty() {
            return Err(store_error(&location, "the collection has no version"));
        }
        Ok(summary)
    }
}

/// Replaces the rows of statistics by their sum. Rows that another writer is adding up are left alone.
async fn fold(client: &Client, id: i32) -> Result<(), Error> {
    client
        .batch_execute(&format!(
            "WITH gone AS (
                 DELETE FROM pannier.delta WHERE ctid = ANY (ARRAY(
                     SELECT ctid FROM pannier.delta WHERE collection = {id} FOR UPDATE SKIP LOCKED
                 )) RETURNING *
             )
             INSERT INTO pannier.delta
             SELECT {id}, sum(documents), sum(bytes), sum(words), sum(tokens), sum(chunks), sum(chunk_words),
                 sum(code_chunks), sum(version)
             FROM gone HAVING count(*) > 0"
        ))
        .await
}

/// Creates the index of a collection's vectors, if it is large enough to need one.
async fn create_index(client: &Client, id: i32, dimensions: u32) -> Result<(), Error> {
    let Some(kind) = vectors::indexed_type(dimensions) else { return Ok(()) };
    let count = format!("SELECT count(*) FROM pannier.embedding WHERE collection = {id}");
    let count: i64 = client.query_typed_one(&count, &[]).await?.get(0);
    if u64::try_from(count).unwrap_or_default() <= EXACT_MAX_CHUNKS {
        return Ok(());
    }
    let (name, class) = (vectors::index_name(id), kind.split('(').next().unwrap_or_default());
    client
        .batch_execute(&format!(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON pannier.embedding
             USING hnsw ((vector::{kind}) {class}_ip_ops) WITH (m = 16, ef_construction = 128)
             WHERE collection = {id}"
        ))
        .await
}

fn connected(pool: &Arc<Pool>) -> Result<Connection, DocsError> {
    let connection = pool.get()?;
    let probe = |connection: &Connection| {
        connection.call(|client, _| async move { client.batch_execute("SELECT 1").await })
    };
    match probe(&connection) {
        Ok(()) => Ok(connection),
        // The server may have closed a connection that was idle.
        Err(_) if connection.is_closed() => pool.get(),
        Err(error) => Err(error),
    }
}

fn read_collection(
    connection: &Connection,
    is_current: bool,
) -> Result<Option<CollectionRow>, DocsError> {
    let row = connection.call(move |client, pool| async move {
        let name = &pool.address.collection;
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(name, Type::TEXT), (&is_current, Type::BOOL)];
        client.query_typed_opt(&CollectionRow::sql(), &parameters).await
    })?;
    Ok(row.as_ref().map(CollectionRow::read))
}

/// Documents of one transaction.
struct Batch {
    collection: i32,
    sizes: ChunkSizes,
    has_vectors: bool,
    written: Vec<Written>,
    removed: Vec<String>,
}

/// A document as it is before a batch.
struct Before {
    id: i32,
    path: String,
    hash: Vec<u8>,
    title: Option<String>,
    date: Option<i64>,
    given: i16,
    totals: Totals,
    terms: i32,
    content: Vec<u8>,
}

/// What a document adds to the statistics.
#[derive(Clone, Copy, Default)]
struct Totals {
    documents: i64,
    bytes: i64,
    words: i64,
    tokens: i64,
    chunks: i64,
    chunk_words: i64,
    code_chunks: i64,
    version: i128,
}

impl Totals {
    fn add(&mut self, other: Self, sign: i64) {
        self.documents += sign * other.documents;
        self.bytes += sign * other.bytes;
        self.words += sign * other.words;
        self.tokens += sign * other.tokens;
        self.chunks += sign * other.chunks;
        self.chunk_words += sign * other.chunk_words;
        self.code_chunks += sign * other.code_chunks;
        self.version = self.version.wrapping_add(other.version.wrapping_mul(sign.into()));
    }

    fn of(document: &AnalyzedDocument) -> Self {
        let chunks = document.chunks.len() as i64;
        let hash = document.version_hash();
        let mut version = [0; 16];
        version.copy_from_slice(&hash[..16]);
        Self {
            documents: 1,
            bytes: document.content.len() as i64,
            words: document.words.into(),
            tokens: document.content.len().div_ceil(4) as i64,
            chunks,
            chunk_words: document.chunk_words.into(),
            code_chunks: if document.kind.is_code() { chunks } else { 0 },
            version: i128::from_be_bytes(version),
        }
    }
}

impl Batch {
    /// Writes everything. Returns false if another writer has added a document in between.
    async fn run(&self, client: &Client) -> Result<bool, Error> {
        client.batch_execute(BEGIN).await?;
        let before = self.lock(client).await?;
        let is_same = |written: &&Written| {
            before.get(&written.document.path).is_some_and(|own| own.is_same(&written.document))
        };
        let (same, written): (Vec<&Written>, Vec<&Written>) =
            self.written.iter().partition(is_same);
        let same: BTreeSet<&str> = same.iter().map(|own| own.document.path.as_str()).collect();
        let replaced: Vec<&Before> =
            before.values().filter(|own| !same.contains(own.path.as_str())).collect();
        if written.is_empty() && replaced.is_empty() {
            client.batch_execute("COMMIT").await?;
            return Ok(true);
        }
        let mut delta = Totals::default();
        replaced.iter().for_each(|own| delta.add(own.totals, -1));
        written.iter().for_each(|own| delta.add(Totals::of(&own.document), 1));
        self.delete_parts(client, &replaced).await?;
        let removed: Vec<i32> = replaced
            .iter()
            .filter(|own| self.removed.contains(&own.path))
            .map(|own| own.id)
            .collect();
        if !removed.is_empty() {
            let sql = "DELETE FROM pannier.document WHERE id = ANY($1)";
            client.execute_typed(sql, &[(&removed, Type::INT4_ARRAY)]).await?;
        }
        let Some(ids) = self.put_documents(client, &written, &before).await? else {
            return Ok(false);
        };
        self.copy_parts(client, &written, &ids).await?;
        self.add_delta(client, delta).await?;
        client.batch_execute("COMMIT").await?;
        Ok(true)
    }

    /// Locks the documents of the batch that are stored, and reads what is known about them.
    async fn lock(&self, client: &Client) -> Result<BTreeMap<String, Before>, Error> {
        let paths = self.written.iter().map(|own| &own.document.path).chain(&self.removed);
        let paths: Vec<&String> = paths.collect();
        let sql = "SELECT id, path, hash, title, date, given, kind, bytes, words, chunk_count, chunk_words,
                 version::text, term_count, content
             FROM pannier.document WHERE collection = $1 AND path = ANY($2) ORDER BY path FOR UPDATE";
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&self.collection, Type::INT4), (&paths, Type::TEXT_ARRAY)];
        let rows = client.query_typed(sql, &parameters).await?;
        let before = rows.into_iter().map(|row| {
            let number = |column: usize| i64::from(row.get::<_, i32>(column));
            let kind: i16 = row.get(6);
            let is_code = u8::try_from(kind).ok().and_then(DocumentKind::from_byte);
            let chunks = number(9);
            let totals = Totals {
                documents: 1,
                bytes: number(7),
                words: number(8),
                tokens: (number(7) + 3) / 4,
                chunks,
                chunk_words: number(10),
                code_chunks: if is_code.is_some_and(DocumentKind::is_code) { chunks } else { 0 },
                version: row.get::<_, String>(11).parse().unwrap_or_default(),
            };
            let own = Before {
                id: row.get(0),
                path: row.get(1),
                hash: row.get(2),
                title: row.get(3),
                date: row.get(4),
                given: row.get(5),
                totals,
                terms: row.get(12),
                content: row.get(13),
            };
            (own.path.clone(), own)
        });
        Ok(before.collect())
    }

    /// Deletes chunks, postings and vectors of documents.
    async fn delete_parts(&self, client: &Client, documents: &[&Before]) -> Result<(), Error> {
        if documents.is_empty() {
            return Ok(());
        }
        let ids: Vec<i32> = documents.iter().map(|own| own.id).collect();
        let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&ids, Type::INT4_ARRAY)];
        let sql = "DELETE FROM pannier.chunk WHERE document = ANY($1)";
        client.execute_typed(sql, &parameters).await?;
        if self.has_vectors {
            let sql = "DELETE FROM pannier.embedding WHERE document = ANY($1)";
            client.execute_typed(sql, &parameters).await?;
        }
        let analyzed = map_all(documents, |own| own.analyze(self.sizes));
        let (mut terms, mut owners, mut expected) = (Vec::new(), Vec::new(), 0);
        for (own, document) in documents.iter().zip(&analyzed) {
            for term in document.terms() {
                terms.push(term.term.to_owned());
                owners.push(own.id);
            }
            expected += u64::try_from(own.terms).unwrap_or_default();
        }
        let sql =
            "DELETE FROM pannier.posting p USING unnest($2::text[], $3::int[]) AS t(term, document)
             WHERE p.collection = $1 AND p.term = t.term AND p.document = t.document";
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&self.collection, Type::INT4),
            (&terms, Type::TEXT_ARRAY),
            (&owners, Type::INT4_ARRAY),
        ];
        let deleted = client.execute_typed(sql, &parameters).await?;
        if deleted != expected {
            // Another analysis wrote them. Reading all postings takes long, and is right.
            let sql = "DELETE FROM pannier.posting WHERE collection = $1 AND document = ANY($2)";
            let parameters: [(&(dyn ToSql + Sync), Type); 2] =
                [(&self.collection, Type::INT4), (&ids, Type::INT4_ARRAY)];
            client.execute_typed(sql, &parameters).await?;
        }
        Ok(())
    }

    /// Updates and inserts documents, and returns their ids; `None` if another writer has inserted one.
    async fn put_documents(
        &self,
        client: &Client,
        written: &[&Written],
        before: &BTreeMap<String, Before>,
    ) -> Result<Option<Vec<i32>>, Error> {
        let mut ids: Vec<Option<i32>> =
            written.iter().map(|own| before.get(&own.document.path).map(|own| own.id)).collect();
        for is_new in [false, true] {
            let chosen: Vec<usize> =
                (0..written.len()).filter(|index| ids[*index].is_none() == is_new).collect();
            if chosen.is_empty() {
                continue;
            }
            let columns = DocumentColumns::new(&chosen, written, &ids);
            let set = "path, id_path, hash, version, title, date, given, kind, words, chunk_words,
                chunk_count, term_count, bytes, content";
            let values =
                "u.path, u.id_path, u.hash, u.version::numeric, u.title, u.date, u.given, u.kind,
                u.words, u.chunk_words, u.chunk_count, u.term_count, u.bytes, u.content";
            let rows = "unnest($2::int[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::text[],
                $8::int8[], $9::int2[], $10::int2[], $11::int[], $12::int[], $13::int[], $14::int[],
                $15::int[], $16::bytea[]) AS u(id, path, id_path, hash, version, title, date, given, kind,
                words, chunk_words, chunk_count, term_count, bytes, content)";
            let sql = match is_new {
                true => format!(
                    "INSERT INTO pannier.document (collection, {set}) SELECT $1, {values} FROM {rows}
                     ORDER BY u.path ON CONFLICT (collection, path) DO NOTHING RETURNING id, path"
                ),
                false => format!(
                    "UPDATE pannier.document d SET ({set}) = ROW({values}) FROM {rows}
                     WHERE d.id = u.id AND d.collection = $1 RETURNING d.id, d.path"
                ),
            };
            let rows = client.query_typed(&sql, &columns.parameters(&self.collection)).await?;
            let known: BTreeMap<String, i32> =
                rows.into_iter().map(|row| (row.get(1), row.get(0))).collect();
            for index in chosen {
                ids[index] = known.get(&written[index].document.path).copied();
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Copies chunks, postings and vectors.
    async fn copy_parts(
        &self,
        client: &Client,
        written: &[&Written],
        ids: &[i32],
    ) -> Result<(), Error> {
        let (mut chunks, mut postings, mut embeddings) =
            (Rows::new(8), Rows::new(11), Rows::new(5));
        for (Written { document, vectors }, id) in written.iter().zip(ids) {
            for (chunk, sequence) in document.chunks.iter().zip(0..) {
                let (start, bytes) = (int(chunk.range.start), int(chunk.range.len()));
                chunks.row().int(*id).int(sequence).int(start).int(bytes).int(int(chunk.line));
                chunks.text(&chunk.heading_path).text(&chunk.symbols).text(&chunk.fence);
            }
            for term in document.terms() {
                let (max_count, min_words) = term.bound();
                postings.row().int(self.collection).int(*id).int(int(term.count()));
                postings.int(int(document.chunk_words)).int(int(max_count)).int(int(min_words));
                postings.int(int(term.chunks.len())).int(int(term.body_chunks()));
                postings.boolean(document.kind.is_test()).text(term.term).bytes(&term.encode());
            }
            for ((key, vector), sequence) in vectors.iter().zip(0..) {
                embeddings
                    .row()
                    .int(self.collection)
                    .int(*id)
                    .int(sequence)
                    .bytes(key)
                    .vector(vector);
            }
        }
        copy(client, "chunk", chunks).await?;
        copy(client, "posting", postings).await?;
        match self.has_vectors {
            true => copy(client, "embedding", embeddings).await,
            false => Ok(()),
        }
    }

    async fn add_delta(&self, client: &Client, delta: Totals) -> Result<(), Error> {
        let version = delta.version.to_string();
        let numbers = [
            delta.documents,
            delta.bytes,
            delta.words,
            delta.tokens,
            delta.chunks,
            delta.chunk_words,
            delta.code_chunks,
        ];
        let numbers = numbers.map(|number| number.to_string()).join(", ");
        let sql =
            format!("INSERT INTO pannier.delta VALUES ({}, {numbers}, {version})", self.collection);
        client.batch_execute(&sql).await
    }
}

impl Before {
    /// Returns whether the stored document is the same as the one to be written.
    fn is_same(&self, document: &AnalyzedDocument) -> bool {
        self.given == given_flags(&document.given)
            && self.title == document.metadata.title
            && self.date == seconds(document)
            && self.hash == document.hash
    }

    /// Analyzes the stored text.
    fn analyze(&self, sizes: ChunkSizes) -> AnalyzedDocument {
        let mut given = DocumentMetadata::default();
        given.title = self.title.clone();
        given.date = self.date.and_then(date);
        let content = String::from_utf8_lossy(&self.content).into_owned();
        AnalyzedDocument::new(&self.path, content, given, sizes)
    }
}

fn given_flags(given: &DocumentMetadata) -> i16 {
    let title = if given.title.is_some() { TITLE_GIVEN } else { 0 };
    title | if given.date.is_some() { DATE_GIVEN } else { 0 }
}

/// Returns the date of a document in whole seconds.
fn seconds(document: &AnalyzedDocument) -> Option<i64> {
    let date = document.metadata.date?;
    i64::try_from(date.unix_nanoseconds().div_euclid(1_000_000_000)).ok()
}

/// The columns of documents, as arrays.
#[derive(Default)]
struct DocumentColumns<'d> {
    ids: Vec<i32>,
    paths: Vec<&'d str>,
    id_paths: Vec<String>,
    hashes: Vec<&'d [u8]>,
    versions: Vec<String>,
    titles: Vec<Option<&'d str>>,
    dates: Vec<Option<i64>>,
    given: Vec<i16>,
    kinds: Vec<i16>,
    words: Vec<i32>,
    chunk_words: Vec<i32>,
    chunk_counts: Vec<i32>,
    term_counts: Vec<i32>,
    bytes: Vec<i32>,
    contents: Vec<&'d [u8]>,
}

impl<'d> DocumentColumns<'d> {
    fn new(chosen: &[usize], written: &[&'d Written], ids: &[Option<i32>]) -> Self {
        let mut own = Self::default();
        for index in chosen {
            let document = &written[*index].document;
            own.ids.push(ids[*index].unwrap_or_default());
            own.paths.push(&document.path);
            own.id_paths.push(document.path.to_lowercase());
            own.hashes.push(&document.hash);
            own.versions.push(Totals::of(document).version.to_string());
            own.titles.push(document.metadata.title.as_deref());
            own.dates.push(seconds(document));
            own.given.push(given_flags(&document.given));
            own.kinds.push(document.kind.as_byte().into());
            own.words.push(int(document.words));
            own.chunk_words.push(int(document.chunk_words));
            own.chunk_counts.push(int(document.chunks.len()));
            own.term_counts.push(int(document.terms().len()));
            own.bytes.push(int(document.content.len()));
            own.contents.push(document.content.as_bytes());
        }
        own
    }

    fn parameters<'s>(&'s self, collection: &'s i32) -> [(&'s (dyn ToSql + Sync), Type); 16] {
        [
            (collection, Type::INT4),
            (&self.ids, Type::INT4_ARRAY),
            (&self.paths, Type::TEXT_ARRAY),
            (&self.id_paths, Type::TEXT_ARRAY),
            (&self.hashes, Type::BYTEA_ARRAY),
            (&self.versions, Type::TEXT_ARRAY),
            (&self.titles, Type::TEXT_ARRAY),
            (&self.dates, Type::INT8_ARRAY),
            (&self.given, Type::INT2_ARRAY),
            (&self.kinds, Type::INT2_ARRAY),
            (&self.words, Type::INT4_ARRAY),
            (&self.chunk_words, Type::INT4_ARRAY),
            (&self.chunk_counts, Type::INT4_ARRAY),
            (&self.term_counts, Type::INT4_ARRAY),
            (&self.bytes, Type::INT4_ARRAY),
            (&self.contents, Type::BYTEA_ARRAY),
        ]
    }
}

/// Copies rows into a table.
async fn copy(client: &Client, table: &str, rows: Rows) -> Result<(), Error> {
    if rows.count == 0 {
        return Ok(());
    }
    let sink = client.copy_in(&format!("COPY pannier.{table} FROM STDIN (FORMAT binary)")).await?;
    let mut sink = std::pin::pin!(sink);
    sink.as_mut().send(std::io::Cursor::new(rows.finish())).await?;
    sink.finish().await?;
    Ok(())
}
