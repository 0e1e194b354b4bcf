//! Collections: their rows, their index of vectors, and their end.

use std::sync::Arc;

use pannier_docs::DocsError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::connection::{Connection, Pool};
use crate::snapshot::CollectionRow;
use crate::vectors;

/// The first key of the lock under which the index of a collection is created.
const INDEX_LOCK: i32 = 0x70616e;

/// Reads the current collection of a pool's name, or its draft.
pub(crate) fn read_collection(
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

/// Deletes the rows of a collection.
pub(crate) async fn delete_collection(client: &Client, id: i32) -> Result<(), Error> {
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

/// Creates the index of a collection's vectors, if it is large enough to need one.
pub(crate) async fn create_index(
    client: &Client,
    pool: &Pool,
    id: i32,
    dimensions: u32,
) -> Result<(), Error> {
    let Some(kind) = vectors::indexed_type(dimensions) else { return Ok(()) };
    let count = format!("SELECT count(*) FROM pannier.embedding WHERE collection = {id}");
    let count: i64 = client.query_typed_one(&count, &[]).await?.get(0);
    if u64::try_from(count).unwrap_or_default() <= pool.address.exact_max_chunks {
        return Ok(());
    }
    // One session creates it. An index that another one has not finished is not valid, and is created again.
    let lock = format!("SELECT pg_try_advisory_lock({INDEX_LOCK}, {id})");
    if !client.query_typed_one(&lock, &[]).await?.get::<_, bool>(0) {
        return Ok(());
    }
    let (name, class) = (vectors::index_name(id), kind.split('(').next().unwrap_or_default());
    let invalid = format!(
        "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('pannier.{name}') AND NOT indisvalid"
    );
    if client.query_typed_opt(&invalid, &[]).await?.is_some() {
        client.batch_execute(&format!("DROP INDEX pannier.{name}")).await?;
    }
    client
        .batch_execute(&format!(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON pannier.embedding
             USING hnsw ((vector::{kind}) {class}_ip_ops) WITH ({}) WHERE collection = {id}",
            vectors::HNSW
        ))
        .await?;
    client.batch_execute(&format!("SELECT pg_advisory_unlock({INDEX_LOCK}, {id})")).await
}
