//! Writes documents: each batch is one transaction, so a reader sees all of a document or none of it.
//!
//! A document is identified by its path and compared by its hash, so an interrupted load is completed by the next one. A writer
//! that meets another one at a new document starts its batch again, and one whose collection was replaced starts again with the
//! new one. If the rules of chunking or the model changed, a draft is loaded next to the current collection and replaces it at the
//! end; one build at a time does that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pannier_docs::corpus::{AnalyzedDocument, SourceDocument, check_vectors, map_all, with_files};
use pannier_docs::{
    BuildOptions, BuildSummary, ChunkSizes, Corpus, DocsError, DocumentMetadata, DocumentSource,
    Manifest, Model, Progress, RemovalReason, SkipReason, VectorSource,
};
use tokio_postgres::types::{ToSql, Type};

use crate::batch::{Batch, DATE_GIVEN, Outcome, TITLE_GIVEN, Written};
use crate::collection::{
    create_index, delete_collection, drop_leftover_indexes, lock_draft, publish, read_collection,
};
use crate::connection::{Connection, Pool, WRITE_LIMIT, is_conflict, store_error};
use crate::lexical::date;
use crate::schema::migrate;
use crate::snapshot::{CollectionRow, Snapshot};
use crate::statistics::{FOLDED_ROWS, fold};
use crate::vectors::MAX_DIMENSIONS;

/// The maximum number of documents in a transaction, and of bytes of their texts.
const BATCH_DOCUMENTS: usize = 512;
const BATCH_BYTES: u64 = 8 << 20;

/// The maximum number of documents in a transaction if a model embeds them: an interrupted build loses its vectors.
const BATCH_EMBEDDED_DOCUMENTS: usize = 64;

/// The maximum length of a path: the key of an index has 2,704 bytes.
const MAX_PATH_BYTES: usize = 2_600;

/// How often a batch is started again after it met another writer.
const MAX_ATTEMPTS: u32 = 20;

/// How often a writer starts again because its collection was replaced.
const MAX_REPLACED: u32 = 3;

/// After this many documents, the tables are vacuumed: narrowing reads the index alone only where it knows that rows are visible.
const VACUUM_DOCUMENTS: usize = 1_000;

/// What a writer says whose collection another program has removed.
const GONE: &str =
    "another program has removed or replaced the collection while it was written; try again";

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
    /// Whether the documents of before are those of another folder.
    is_other_folder: bool,
    /// Whether another program has removed or replaced it.
    is_gone: bool,
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
        if source.file_rules().strict {
            // Before anything is written.
            let read = map_all(files, |file| read(file).err());
            let problems: Vec<String> = read.into_iter().flatten().map(|(_, own)| own).collect();
            if !problems.is_empty() {
                return Err(DocsError::Sources { problems });
            }
        }
        let (target, summary) = with_target(
            || Target::open(pool, source, options),
            |target| target.update(files, &skipped, source, options, progress),
        )?;
        target.finish(summary)
    })
}

/// Reads the text and the hash of a file, or returns why it is not indexed.
fn read(file: &SourceDocument<'_>) -> Result<(String, [u8; 32]), (SkipReason, String)> {
    let path = file.path();
    if path.len() > MAX_PATH_BYTES {
        let problem = format!("{path}: its path is longer than {MAX_PATH_BYTES} bytes; exclude it");
        return Err((SkipReason::Name, problem));
    }
    file.read()
}

/// Opens a collection and works on it; again if another program has replaced it meanwhile.
fn with_target<'p, T>(
    open: impl Fn() -> Result<Target<'p>, DocsError>,
    mut work: impl FnMut(&mut Target<'p>) -> Result<T, DocsError>,
) -> Result<(Target<'p>, T), DocsError> {
    let mut attempt = 0;
    loop {
        let mut target = open()?;
        match work(&mut target) {
            Err(_) if target.is_gone && attempt < MAX_REPLACED => attempt += 1,
            result => return result.map(|result| (target, result)),
        }
    }
}

/// Splits items into batches of at most `max`, and of [`BATCH_BYTES`] bytes if they have several.
fn batches<T>(items: &[T], max: usize, bytes: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let (mut rest, mut batches) = (items, Vec::new());
    while !rest.is_empty() {
        let mut sum = 0;
        let fits = |item: &&T| {
            sum += bytes(item);
            sum <= BATCH_BYTES
        };
        let count = rest.iter().take(max).take_while(fits).count();
        let (batch, after) = rest.split_at(count.max(1));
        batches.push(batch);
        rest = after;
    }
    batches
}

/// Writes documents by path and text.
pub(crate) fn put(
    pool: &Arc<Pool>,
    documents: &[(&str, &str)],
    options: &BuildOptions<'_>,
) -> Result<(), DocsError> {
    for (path, text) in documents {
        let problem = match (path.len() > MAX_PATH_BYTES, path.contains('\0'), text.contains('\0'))
        {
            (true, ..) => format!("its path is longer than {MAX_PATH_BYTES} bytes; shorten it"),
            (_, true, _) => "its path has a NUL; remove it".to_owned(),
            (_, _, true) => "its text has a NUL; remove it".to_owned(),
            _ => continue,
        };
        let path: String = path.chars().take(80).collect();
        return Err(store_error(&pool.address.location, format!("{path:?}: {problem}")));
    }
    let put = |target: &mut Target<'_>| {
        check_vectors(pool.address.location.as_ref(), target.model.as_ref(), options.vectors)?;
        let sizes = target.sizes;
        for batch in batches(documents, max_documents(options), |(_, text)| text.len() as u64) {
            let analyze = |(path, text): &(&str, &str)| {
                let given = DocumentMetadata::default();
                AnalyzedDocument::new(path, (*text).to_owned(), given, sizes)
            };
            target.write(map_all(batch, analyze), Vec::new(), options.vectors)?;
        }
        Ok(())
    };
    with_target(|| Target::current(pool), put).map(|_| ())
}

fn max_documents(options: &BuildOptions<'_>) -> usize {
    match options.vectors {
        VectorSource::Embedder(_) => BATCH_EMBEDDED_DOCUMENTS,
        _ => BATCH_DOCUMENTS,
    }
}

/// Removes documents by path.
pub(crate) fn remove(pool: &Arc<Pool>, paths: &[&str]) -> Result<(), DocsError> {
    let remove = |target: &mut Target<'_>| {
        for batch in paths.chunks(BATCH_DOCUMENTS) {
            // No document has a NUL in its path.
            let paths = batch.iter().filter(|path| !path.contains('\0'));
            let paths = paths.map(|path| (*path).to_owned()).collect();
            target.write(Vec::new(), paths, VectorSource::None)?;
        }
        Ok(())
    };
    with_target(|| Target::current(pool), remove).map(|_| ())
}

/// Creates the index of vectors.
pub(crate) fn create_vector_index(pool: &Arc<Pool>) -> Result<(), DocsError> {
    let mut target = Target::current(pool)?;
    target.connection.limit = None;
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
        if row.deltas >= FOLDED_ROWS {
            connection.call(move |client, _| async move { fold(&client, id).await })?;
        }
        Ok(Self::new(connection, pool, id, sizes, model))
    }

    fn new(
        connection: Connection,
        pool: &'p Arc<Pool>,
        id: i32,
        sizes: ChunkSizes,
        model: Option<Model>,
    ) -> Self {
        let (is_draft, is_other_folder, is_gone) = (false, false, false);
        Self { connection, pool, id, sizes, model, is_draft, is_other_folder, is_gone, embedded: 0 }
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
        let root = std::path::absolute(source.root()).unwrap_or_else(|_| source.root().to_owned());
        let (root, rules) = (root.display().to_string(), source.file_rules().clone());
        let plan = || {
            let current = read_collection(&connection, true)?;
            let before = current.map(|row| row.manifest(&location)).transpose()?;
            let own_model = before.as_ref().and_then(|own| own.model.as_ref());
            check_vectors(location.as_ref(), own_model, options.vectors)?;
            let sizes = options.chunk_sizes.or(before.as_ref().map(|own| own.chunk_sizes));
            let sizes = sizes.unwrap_or_default();
            let (model, root, rules) = (model.clone(), root.clone(), rules.clone());
            let wanted = Manifest::of_collection(sizes, model, root, rules);
            let is_draft = before.as_ref().is_some_and(|own| {
                let is_same = own.chunking == wanted.chunking && own.model == wanted.model;
                options.from_scratch || !is_same
            });
            let is_other_folder = before.is_some_and(|own| own.source.root != wanted.source.root);
            Ok::<_, DocsError>((wanted, is_draft, is_other_folder))
        };
        let (mut wanted, mut is_draft, mut is_other_folder) = plan()?;
        if is_draft {
            lock_draft(&connection, options.waits)?;
            // Another build may have replaced the collection meanwhile.
            (wanted, is_draft, is_other_folder) = plan()?;
        }
        let sizes = wanted.chunk_sizes;
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
        let own = Self::new(connection, pool, id, sizes, model);
        Ok(Self { is_draft, is_other_folder, ..own })
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
        let mut unreadable: BTreeSet<&str> = BTreeSet::new();
        for (path, reason) in skipped {
            summary.skipped.entry(*reason).or_default().add(path);
            unreadable.insert(path);
        }
        let stored = self.stored()?;
        let mut present: BTreeSet<&str> = BTreeSet::new();
        let of = files.len();
        let mut done = 0;
        progress(Progress::new(0, of, 0));
        let bytes = |file: &SourceDocument<'_>| {
            std::fs::metadata(source.root().join(file.path())).map_or(0, |own| own.len())
        };
        for files in batches(files, max_documents(options), bytes) {
            let documents = map_all(files, |file| {
                let before = stored.get(file.path());
                let given = file.given().cloned().or_else(|| before.map(|own| own.given.clone()));
                let (content, hash) = read(file)?;
                let given = given.unwrap_or_default();
                let is_same = before.is_some_and(|own| own.hash == hash && own.given == given);
                Ok((!is_same)
                    .then(|| AnalyzedDocument::new(file.path(), content, given, self.sizes)))
            });
            let mut changed = Vec::new();
            for (file, document) in files.iter().zip(documents) {
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
                    Err((_, problem)) if source.file_rules().strict => {
                        return Err(DocsError::Sources { problems: vec![problem] });
                    }
                    Err((reason, _)) => {
                        summary.skipped.entry(reason).or_default().add(file.path());
                        unreadable.insert(file.path());
                    }
                }
            }
            self.write(changed, Vec::new(), options.vectors)?;
            done += files.len();
            progress(Progress::new(done, of, self.embedded));
        }
        let gone: Vec<String> =
            stored.keys().filter(|path| !present.contains(path.as_str())).cloned().collect();
        for path in &gone {
            let reason = match source.root().join(path).symlink_metadata() {
                _ if self.is_other_folder => RemovalReason::OtherFolder,
                _ if unreadable.contains(path.as_str()) => RemovalReason::Skipped,
                Ok(_) => RemovalReason::Excluded,
                Err(_) => RemovalReason::Deleted,
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
        if documents.is_empty() && removed.is_empty() {
            return Ok(());
        }
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
            let outcome = self.connection.call(move |client, _| async move {
                match batch.run(&client).await {
                    Err(error) if is_conflict(&error) => Ok(Outcome::Conflict),
                    result => result,
                }
            })?;
            if outcome == Outcome::Done {
                return Ok(());
            }
            self.connection
                .call(|client, _| async move { client.batch_execute("ROLLBACK").await })?;
            if outcome == Outcome::NoCollection {
                self.is_gone = true;
                return Err(store_error(&location, GONE));
            }
            if attempt == MAX_ATTEMPTS {
                break;
            }
            std::thread::sleep(Duration::from_millis(5 << attempt.min(6)));
        }
        Err(store_error(&location, "other writers change the same documents; try again later"))
    }

    /// Publishes a draft, adds up statistics, and prepares the tables for searches.
    fn finish(mut self, mut summary: BuildSummary) -> Result<BuildSummary, DocsError> {
        // Deleting and vacuuming take as long as they take.
        self.connection.limit = None;
        let location = self.pool.address.location.clone();
        let (id, is_draft, name) = (self.id, self.is_draft, self.pool.address.collection.clone());
        let removed: u32 = summary.removed.values().map(|removed| removed.count).sum();
        let changed = (summary.added.count + summary.changed.count + removed) as usize;
        let dimensions = self.model.as_ref().map_or(0, |model| model.dimensions);
        let is_published = self.connection.call(move |client, _| async move {
            Ok(!is_draft || publish(&client, id, &name).await?)
        })?;
        if !is_published {
            return Err(store_error(&location, GONE));
        }
        self.connection.call(move |client, pool| async move {
            drop_leftover_indexes(&client).await?;
            fold(&client, id).await?;
            if changed >= VACUUM_DOCUMENTS {
                let tables = ["posting", "document", "chunk", "delta"];
                for table in tables.iter().chain((dimensions > 0).then_some(&"embedding")) {
                    client.batch_execute(&format!("VACUUM (ANALYZE) pannier.{table}")).await?;
                }
            }
            create_index(&client, &pool, id, dimensions).await?;
            // The next build need not wait for the end of this session.
            client.batch_execute("SELECT pg_advisory_unlock_all()").await
        })?;
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
    let mut connection = pool.get()?;
    match connection.call(|client, _| async move { client.batch_execute("SELECT 1").await }) {
        // The server may have closed a connection that was idle.
        Err(_) if connection.is_closed() => connection = pool.get()?,
        result => result?,
    }
    connection.limit = Some(WRITE_LIMIT);
    Ok(connection)
}
