//! The statistics of a collection: each batch adds a row with its change, and a build replaces the rows by their sum. So writers
//! never wait for each other's statistics.

use pannier_docs::corpus::AnalyzedDocument;
use tokio_postgres::{Client, Error};

/// What a document adds to the statistics.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) documents: i64,
    pub(crate) bytes: i64,
    pub(crate) words: i64,
    pub(crate) tokens: i64,
    pub(crate) chunks: i64,
    pub(crate) chunk_words: i64,
    pub(crate) code_chunks: i64,
    pub(crate) version: i128,
}

impl Totals {
    /// Adds another one, or subtracts it if the sign is -1.
    pub(crate) fn add(&mut self, other: Self, sign: i64) {
        self.documents += sign * other.documents;
        self.bytes += sign * other.bytes;
        self.words += sign * other.words;
        self.tokens += sign * other.tokens;
        self.chunks += sign * other.chunks;
        self.chunk_words += sign * other.chunk_words;
        self.code_chunks += sign * other.code_chunks;
        self.version = self.version.wrapping_add(other.version.wrapping_mul(sign.into()));
    }

    pub(crate) fn of(document: &AnalyzedDocument) -> Self {
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

    /// Adds a row with this change.
    pub(crate) async fn insert(&self, client: &Client, collection: i32) -> Result<(), Error> {
        let version = self.version.to_string();
        let numbers = [
            self.documents,
            self.bytes,
            self.words,
            self.tokens,
            self.chunks,
            self.chunk_words,
            self.code_chunks,
        ];
        let numbers = numbers.map(|number| number.to_string()).join(", ");
        let sql = format!("INSERT INTO pannier.delta VALUES ({collection}, {numbers}, {version})");
        client.batch_execute(&sql).await
    }
}

/// The number of rows from which a writer of single documents adds them up.
pub(crate) const FOLDED_ROWS: i64 = 100;

/// Replaces the rows of statistics by their sum. Rows that another writer is adding up are left alone.
pub(crate) async fn fold(client: &Client, id: i32) -> Result<(), Error> {
    client
        .batch_execute(&format!(
            "WITH gone AS (
                 DELETE FROM pannier.delta WHERE ctid = ANY (ARRAY(
                     SELECT ctid FROM pannier.delta WHERE collection = (
                         SELECT id FROM pannier.collection WHERE id = {id} FOR KEY SHARE
                     ) FOR UPDATE SKIP LOCKED
                 )) RETURNING *
             )
             INSERT INTO pannier.delta
             SELECT {id}, sum(documents), sum(bytes), sum(words), sum(tokens), sum(chunks), sum(chunk_words),
                 sum(code_chunks), sum(version)
             FROM gone HAVING count(*) > 0"
        ))
        .await
}
