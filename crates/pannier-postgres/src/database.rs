//! A database with collections.

use std::sync::Arc;
use std::time::Duration;

use pannier_docs::{BuildOptions, BuildSummary, DocsError, DocumentSource, Progress};

use crate::address::Address;
use crate::connection::Pool;
use crate::snapshot::Snapshot;
use crate::{collection, load};

/// The variable with the address of a replica that searches read from.
const REPLICA: &str = "PANNIER_POSTGRES_REPLICA";

/// A collection of documents in PostgreSQL, with a pool of connections. Nothing connects before the first use.
#[derive(Clone, Debug)]
pub struct Database {
    pool: Arc<Pool>,
    /// Where searches read from, if that is another server.
    replica: Option<Arc<Pool>>,
}

impl Database {
    /// Parses an address: `postgres://USER@HOST/DATABASE?collection=NAME`. What it leaves out comes from a service file
    /// (`service=NAME`) and from the variables `PGHOST`, `PGUSER`, `PGPASSWORD` and so on. If the variable
    /// `PANNIER_POSTGRES_REPLICA` has the address of a replica, searches read from there.
    ///
    /// # Errors
    ///
    /// [`DocsError::Store`] if it is malformed. No message contains the address as it was given.
    pub fn new(url: &str) -> Result<Self, DocsError> {
        let own = Self { pool: Pool::new(Address::parse(url)?)?, replica: None };
        match std::env::var(REPLICA).ok().filter(|url| !url.is_empty()) {
            Some(url) => own.with_replica(&url),
            None => Ok(own),
        }
    }

    /// Names another collection of the database.
    ///
    /// # Errors
    ///
    /// [`DocsError::Store`] if the name is empty, longer than 128 bytes, or has a NUL.
    pub fn with_collection(&self, name: &str) -> Result<Self, DocsError> {
        self.with_addresses(|address| address.with_collection(name))
    }

    /// Sets the number of chunks up to which every vector is compared with the query [default: 50,000]. Larger collections
    /// have an HNSW index.
    ///
    /// # Errors
    ///
    /// [`DocsError::Store`] if the certificates cannot be read again.
    pub fn with_exact_max_chunks(&self, chunks: u64) -> Result<Self, DocsError> {
        self.with_addresses(|address| Ok(Address { exact_max_chunks: chunks, ..address }))
    }

    /// Sets how long a search waits for each answer of the server [default: 40 s].
    ///
    /// # Errors
    ///
    /// As [`with_exact_max_chunks`](Self::with_exact_max_chunks).
    pub fn with_search_limit(&self, limit: Duration) -> Result<Self, DocsError> {
        self.with_addresses(|address| Ok(Address { search_limit: limit, ..address }))
    }

    /// Names another database that searches read from: a replica of this one.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_replica(self, url: &str) -> Result<Self, DocsError> {
        let own = &self.pool.address;
        let mut replica = Address::parse(url)?.with_collection(&own.collection)?;
        replica.exact_max_chunks = own.exact_max_chunks;
        replica.search_limit = own.search_limit;
        Ok(Self { replica: Some(Pool::new(replica)?), ..self })
    }

    fn with_addresses(
        &self,
        change: impl Fn(Address) -> Result<Address, DocsError>,
    ) -> Result<Self, DocsError> {
        let changed = |pool: &Arc<Pool>| Pool::new(change(pool.address.clone())?);
        let replica = self.replica.as_ref().map(changed).transpose()?;
        Ok(Self { pool: changed(&self.pool)?, replica })
    }

    /// Returns the address without credentials.
    pub fn location(&self) -> &str {
        &self.pool.address.location
    }

    /// Opens the collection as it is now. The snapshot holds a connection and a transaction until it is dropped.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoIndex`] if there is no such collection, and [`DocsError::Store`].
    pub fn snapshot(&self) -> Result<Snapshot, DocsError> {
        Snapshot::open(self.replica.as_ref().unwrap_or(&self.pool))
    }

    /// Opens the collection where it is written, even if searches read from a replica.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn primary_snapshot(&self) -> Result<Snapshot, DocsError> {
        Snapshot::open(&self.pool)
    }

    /// Writes new and changed documents into the collection, and removes those that are gone.
    ///
    /// Each batch of documents is a transaction, and unchanged documents are skipped. So an interrupted build is completed by the
    /// next one, and several may run at once. If the rules of chunking or the model changed, a new collection is loaded and
    /// replaces the current one at the end. One build at a time does that.
    ///
    /// # Errors
    ///
    /// As [`pannier_docs::build`], with [`DocsError::Busy`] if another build replaces the collection, and [`DocsError::Store`].
    pub fn build(
        &self,
        source: &DocumentSource,
        options: &BuildOptions<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, DocsError> {
        load::build(&self.pool, source, options, progress)
    }

    /// Writes documents, given by path and text, without looking at others.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoIndex`] if there is no such collection, [`DocsError::Model`] if it has vectors that `options` do not give,
    /// and [`DocsError::Store`], also if a text or a path has a NUL, or a path is longer than 2,600 bytes.
    pub fn put(
        &self,
        documents: &[(&str, &str)],
        options: &BuildOptions<'_>,
    ) -> Result<(), DocsError> {
        load::put(&self.pool, documents, options)
    }

    /// Removes documents by path. Unknown paths are ignored.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn remove(&self, paths: &[&str]) -> Result<(), DocsError> {
        load::remove(&self.pool, paths)
    }

    /// Creates the index of vectors, if the collection is large enough to use one. A build does that at its end.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn create_vector_index(&self) -> Result<(), DocsError> {
        load::create_vector_index(&self.pool)
    }

    /// Removes the collection and everything in it.
    ///
    /// # Errors
    ///
    /// [`DocsError::Store`].
    pub fn drop_collection(&self) -> Result<(), DocsError> {
        collection::drop_collection(&self.pool)
    }
}
