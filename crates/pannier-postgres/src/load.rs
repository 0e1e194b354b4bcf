//! Writes documents: each batch is one transaction, so a reader sees all of a document or none of it.
//!
//! A document is identified by its path and compared by its hash, so an interrupted load is completed by the next one. A writer
//! that meets another one at a new document starts its batch again. If the rules of chunking or the model changed, a draft is
//! loaded next to the current collection and replaces it at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pannier_docs::corpus::{AnalyzedDocument, SourceDocument, check_vectors, map_all, with_files};
use pannier_docs::{
    BuildOptions, BuildSummary, ChunkSizes, Corpus, DocsError, DocumentMetadata, DocumentSource,
    Manifest, Model, Progress, RemovalReason, SkipReason, VectorSource,
};
use tokio_postgres::types::{ToSql, Type};

use crate::batch::{Batch, DATE_GIVEN, TITLE_GIVEN, Written};
use crate::collection::{create_index, delete_collection, read_collection};
use crate::connection::{Connection, Pool, is_conflict, store_error, to_error};
use crate::lexical::date;
use crate::schema::migrate;
use crate::snapshot::{CollectionRow, Snapshot};
use crate::statistics::fold;
use crate::vectors::MAX_DIMENSIONS;

/// The maximum number of documents in a transaction, and of bytes of their texts.
const BATCH_DOCUMENTS: usize = 512;
const BATCH_BYTES: usize = 8 << 20;

/// How often a batch is started again after it met another writer.
const MAX_ATTEMPTS: u32 = 20;

/// After this many documents, the tables are vacuumed: narrowing reads the index alone only where it knows that rows are visible.
const VACUUM_DOCUMENTS: usize = 1_000;

/// What a collection has of a document.
struct Stored {
    hash: Vec<u8>,
    given: DocumentMetadata,
}

/// A collection that is written.
pub(crate) struct Target<'p> {
    pub(crate) connection: Connection,
    pool: &'p Arc<Pool>,
    pub(crate) id: i32,
    sizes: ChunkSizes,
    model: Option<Model>,
    /// Whether it replaces the current collection of its name.
    is_draft: bool,
    pub(crate) embedded: u64,
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
        let summary = target.update(files, &skipped, source, options, progress)?;
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
        .call(move |client, pool| async move { create_index(&client, &pool, id, dimensions).await })
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
        skipped: &[(String, SkipReason)],
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

    /// Publishes a draft, adds up statistics, and prepares the tables for searches.
    fn finish(self, mut summary: BuildSummary) -> Result<BuildSummary, DocsError> {
        let (id, is_draft, name) = (self.id, self.is_draft, self.pool.address.collection.clone());
        let removed: u32 = summary.removed.values().map(|removed| removed.count).sum();
        let changed = (summary.added.count + summary.changed.count + removed) as usize;
        let dimensions = self.model.as_ref().map_or(0, |model| model.dimensions);
        self.connection.call(move |client, pool| async move {
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
            create_index(&client, &pool, id, dimensions).await
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
