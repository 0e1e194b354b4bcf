//! Collections: their rows, their index of vectors, and their end.

use std::sync::Arc;
use std::time::Duration;

use pannier_docs::DocsError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::connection::{Connection, Pool};
use crate::snapshot::CollectionRow;
use crate::vectors;

/// The first key of the lock under which the index of a collection is created.
const INDEX_LOCK: i32 = 0x70616e;

/// The first key of the lock under which a collection is loaded next to the current one of its name.
const DRAFT_LOCK: i32 = 0x70616f;

/// How often a build asks for that lock, and the pause: the session of a build that has just ended may still be open.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

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
    let mut connection = pool.get()?;
    // Deleting takes as long as it takes.
    connection.limit = None;
    let name = pool.address.collection.clone();
    connection.call(move |client, _| async move {
        let sql = "SELECT id FROM pannier.collection WHERE name = $1";
        for row in client.query_typed(sql, &[(&name, Type::TEXT)]).await? {
            delete_collection(&client, row.get(0)).await?;
        }
        Ok(())
    })
}

/// Locks the draft of a name for this session: one build at a time loads it.
pub(crate) fn lock_draft(connection: &Connection, waits: bool) -> Result<(), DocsError> {
    for attempt in 0.. {
        let is_locked = connection.call(|client, pool| async move {
            let sql = format!("SELECT pg_try_advisory_lock({DRAFT_LOCK}, hashtext($1))");
            let parameters: [(&(dyn ToSql + Sync), Type); 1] =
                [(&pool.address.collection, Type::TEXT)];
            Ok(client.query_typed_one(&sql, &parameters).await?.get::<_, bool>(0))
        })?;
        if is_locked {
            return Ok(());
        }
        if attempt == LOCK_ATTEMPTS && !waits {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(DocsError::Busy { path: connection.pool.address.location.clone().into() })
}

/// Replaces the current collection of a name by its draft, in one transaction with the deletion of the old rows. Returns false
/// if the draft is gone.
pub(crate) async fn publish(client: &Client, id: i32, name: &str) -> Result<bool, Error> {
    client.batch_execute("BEGIN").await?;
    let old =
        "DELETE FROM pannier.collection WHERE name = $1 AND is_current AND id <> $2 RETURNING id";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&name, Type::TEXT), (&id, Type::INT4)];
    let old = client.query_typed_opt(old, &parameters).await?;
    let publish = "UPDATE pannier.collection SET is_current = true WHERE id = $1";
    if client.execute_typed(publish, &parameters[1..]).await? == 0 {
        client.batch_execute("ROLLBACK").await?;
        return Ok(false);
    }
    if let Some(old) = old {
        delete_rows(client, old.get(0)).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(true)
}

/// Deletes a collection.
pub(crate) async fn delete_collection(client: &Client, id: i32) -> Result<(), Error> {
    // Waits for writers of the collection; later ones find that it is gone.
    let own = format!("BEGIN; DELETE FROM pannier.collection WHERE id = {id}");
    client.batch_execute(&own).await?;
    delete_rows(client, id).await?;
    client.batch_execute("COMMIT").await?;
    drop_leftover_indexes(client).await
}

/// Deletes everything that belongs to a collection.
async fn delete_rows(client: &Client, id: i32) -> Result<(), Error> {
    let has_vectors = "SELECT to_regclass('pannier.embedding') IS NOT NULL";
    let has_vectors: bool = client.query_typed_one(has_vectors, &[]).await?.get(0);
    let embeddings = match has_vectors {
        true => format!("DELETE FROM pannier.embedding WHERE collection = {id};"),
        false => String::new(),
    };
    client
        .batch_execute(&format!(
            "{embeddings}
             DELETE FROM pannier.posting WHERE collection = {id};
             DELETE FROM pannier.chunk c USING pannier.document d
                 WHERE c.document = d.id AND d.collection = {id};
             DELETE FROM pannier.document WHERE collection = {id};
             DELETE FROM pannier.delta WHERE collection = {id}"
        ))
        .await
}

/// Drops the indexes of vectors whose collection is gone. One that searches use is left to the next build.
pub(crate) async fn drop_leftover_indexes(client: &Client) -> Result<(), Error> {
    let sql = format!(
        "SELECT quote_ident(i.relname) FROM pg_index JOIN pg_class i ON i.oid = indexrelid
         WHERE indrelid = to_regclass('pannier.embedding') AND starts_with(i.relname, '{prefix}')
             AND NOT EXISTS (SELECT 1 FROM pannier.collection c WHERE i.relname = '{prefix}' || c.id)",
        prefix = vectors::INDEX_PREFIX
    );
    for row in client.query_typed(&sql, &[]).await? {
        drop_index(client, row.get(0)).await?;
    }
    Ok(())
}

/// Drops an index, unless searches use it for longer: new searches wait for the lock, so the wait is short.
async fn drop_index(client: &Client, name: &str) -> Result<(), Error> {
    let sql = format!(
        "BEGIN; SET LOCAL lock_timeout = '2s'; DROP INDEX IF EXISTS pannier.{name}; COMMIT"
    );
    match client.batch_execute(&sql).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            client.batch_execute("ROLLBACK").await
        }
        result => result,
    }
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
        drop_index(client, &name).await?;
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
