//! A batch of documents: one transaction that replaces their rows.
//!
//! Writers lock the rows of their documents in the order of paths. The old postings of a document are deleted by its old terms,
//! which its old text gives, so no index by document is needed.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::SinkExt;
use pannier_docs::corpus::{AnalyzedDocument, DocumentKind, map_all};
use pannier_docs::{ChunkSizes, DocumentMetadata};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::copy::{Rows, int};
use crate::lexical::date;
use crate::statistics::Totals;

/// Begins a transaction that writes.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '10min'; SET LOCAL lock_timeout = '2min';
    SET LOCAL idle_in_transaction_session_timeout = '10min'";

/// The caller gave the title, or the date.
pub(crate) const TITLE_GIVEN: i16 = 1;
pub(crate) const DATE_GIVEN: i16 = 2;

/// Vectors of the chunks of a document, with their keys.
pub(crate) type DocumentVectors = Vec<([u8; 16], Vec<i16>)>;

/// A document to be written, with its vectors.
pub(crate) struct Written {
    pub(crate) document: AnalyzedDocument,
    pub(crate) vectors: DocumentVectors,
}

/// Documents of one transaction.
pub(crate) struct Batch {
    pub(crate) collection: i32,
    pub(crate) sizes: ChunkSizes,
    pub(crate) has_vectors: bool,
    pub(crate) written: Vec<Written>,
    pub(crate) removed: Vec<String>,
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Another writer has added one of its documents in between.
    Conflict,
    /// Another program has removed or replaced the collection.
    NoCollection,
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

impl Batch {
    /// Writes everything. The transaction of a batch that is not done is still open.
    pub(crate) async fn run(&self, client: &Client) -> Result<Outcome, Error> {
        // Whoever replaces the collection waits for this transaction.
        let own = "SELECT 1 FROM pannier.collection WHERE id = $1 FOR KEY SHARE";
        let id: [(&(dyn ToSql + Sync), Type); 1] = [(&self.collection, Type::INT4)];
        let (begun, own) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            client.query_typed_opt(own, &id)
        );
        begun?;
        if own?.is_none() {
            return Ok(Outcome::NoCollection);
        }
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
            return Ok(Outcome::Done);
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
            return Ok(Outcome::Conflict);
        };
        self.copy_parts(client, &written, &ids).await?;
        delta.insert(client, self.collection).await?;
        client.batch_execute("COMMIT").await?;
        Ok(Outcome::Done)
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
        // One thread serves all connections, and may not be kept from them.
        let analyze = || map_all(documents, |own| own.analyze(self.sizes));
        let analyzed = tokio::task::block_in_place(analyze);
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
        let encode = || self.encode_parts(written, ids);
        let (chunks, postings, embeddings) = tokio::task::block_in_place(encode);
        copy(client, "chunk", chunks).await?;
        copy(client, "posting", postings).await?;
        match self.has_vectors {
            true => copy(client, "embedding", embeddings).await,
            false => Ok(()),
        }
    }

    /// Encodes chunks, postings and vectors.
    fn encode_parts(&self, written: &[&Written], ids: &[i32]) -> (Rows, Rows, Rows) {
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
        (chunks, postings, embeddings)
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
