//! The tables, created by numbered migrations.
//!
//! A posting has everything that bounds its score in an index of its own, so that narrowing reads the index alone. Its key begins
//! with the collection, so that tables can be partitioned or distributed by it. Texts compare by bytes everywhere, as in Rust.

use tokio_postgres::{Client, Error};

/// The migrations: a number, and statements that run in one transaction.
const MIGRATIONS: [(i32, &str); 3] = [
    (
        1,
        r#"
        CREATE TABLE pannier.collection (
            id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text COLLATE "C" NOT NULL,
            is_current boolean NOT NULL,
            settings text NOT NULL
        );
        CREATE UNIQUE INDEX collection_name ON pannier.collection (name, is_current);
        CREATE TABLE pannier.document (
            id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            collection int NOT NULL,
            path text COLLATE "C" NOT NULL,
            id_path text COLLATE "C" NOT NULL,
            hash bytea NOT NULL,
            version numeric NOT NULL,
            title text,
            date bigint,
            given smallint NOT NULL,
            kind smallint NOT NULL,
            words int NOT NULL,
            chunk_words int NOT NULL,
            chunk_count int NOT NULL,
            term_count int NOT NULL,
            bytes int NOT NULL,
            content bytea NOT NULL
        );
        CREATE UNIQUE INDEX document_path ON pannier.document (collection, path);
        CREATE INDEX document_id_path ON pannier.document (collection, id_path);
        CREATE TABLE pannier.chunk (
            document int NOT NULL,
            sequence int NOT NULL,
            start int NOT NULL,
            bytes int NOT NULL,
            line int NOT NULL,
            headings text NOT NULL,
            symbols text NOT NULL,
            fence text NOT NULL,
            PRIMARY KEY (document, sequence)
        );
        CREATE TABLE pannier.posting (
            collection int NOT NULL,
            document int NOT NULL,
            count int NOT NULL,
            words int NOT NULL,
            max_count int NOT NULL,
            min_words int NOT NULL,
            chunks int NOT NULL,
            body_chunks int NOT NULL,
            is_test boolean NOT NULL,
            term text COLLATE "C" NOT NULL,
            places bytea NOT NULL
        );
        CREATE UNIQUE INDEX posting_key ON pannier.posting (collection, term, document)
            INCLUDE (count, words, max_count, min_words, chunks, body_chunks, is_test);
        CREATE TABLE pannier.delta (
            collection int NOT NULL,
            documents bigint NOT NULL,
            bytes bigint NOT NULL,
            words bigint NOT NULL,
            tokens bigint NOT NULL,
            chunks bigint NOT NULL,
            chunk_words bigint NOT NULL,
            code_chunks bigint NOT NULL,
            version numeric NOT NULL
        );
        CREATE INDEX delta_collection ON pannier.delta (collection);
        "#,
    ),
    (
        2,
        "
        CREATE EXTENSION IF NOT EXISTS vector;
        CREATE TABLE pannier.embedding (
            collection int NOT NULL,
            document int NOT NULL,
            sequence int NOT NULL,
            key bytea NOT NULL,
            vector vector NOT NULL,
            PRIMARY KEY (document, sequence)
        );
        CREATE INDEX embedding_collection ON pannier.embedding (collection);
        ",
    ),
    // A part of a compressed text cannot be read without what precedes it.
    (3, "ALTER TABLE pannier.document ALTER COLUMN content SET STORAGE EXTERNAL"),
];

/// The migration that needs an extension.
const VECTORS: i32 = 2;

/// The key of the lock that migrations and settings of collections are changed under.
const LOCK: i64 = 0x70616e6e696572;

/// Applies the migrations that are missing. Vectors need an extension, so their table is created when the first collection has
/// vectors.
pub(crate) async fn migrate(client: &Client, has_vectors: bool) -> Result<(), Error> {
    let applied = "SELECT coalesce(array_agg(number), '{}') FROM pannier.migration";
    let is_missing =
        |done: &[i32], number: i32| !done.contains(&number) && (has_vectors || number != VECTORS);
    if let Ok(row) = client.query_typed_one(applied, &[]).await {
        let done: Vec<i32> = row.get(0);
        if !MIGRATIONS.iter().any(|(number, _)| is_missing(&done, *number)) {
            return Ok(());
        }
    }
    client
        .batch_execute(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock({LOCK});
             CREATE SCHEMA IF NOT EXISTS pannier;
             CREATE TABLE IF NOT EXISTS pannier.migration (number int PRIMARY KEY);"
        ))
        .await?;
    let done: Vec<i32> = client.query_typed_one(applied, &[]).await?.get(0);
    for (number, statements) in MIGRATIONS {
        if is_missing(&done, number) {
            client.batch_execute(statements).await?;
            let insert = format!("INSERT INTO pannier.migration VALUES ({number})");
            client.batch_execute(&insert).await?;
        }
    }
    client.batch_execute("COMMIT").await
}
