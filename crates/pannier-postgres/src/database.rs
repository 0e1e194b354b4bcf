//! A database with collections.

use std::sync::Arc;

use pannier_docs::{BuildOptions, BuildSummary, DocsError, DocumentSource, Progress};

use crate::address::Address;
use crate::connection::Pool;
use crate::load;
use crate::snapshot::Snapshot;

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
        let address = Address::parse(url)?;
        let replica = std::env::var(REPLICA).ok().filter(|url| !url.is_empty());
        let replica = replica.map(|url| Address::parse(&url)?.with_collection(&address.collection));
        let replica = replica.transpose()?.map(Pool::new).transpose()?;
        Ok(Self { pool: Pool::new(address)?, replica })
    }

    /// Names another collection of the database.
    ///
    /// # Errors
    ///
    /// [`DocsError::Store`] if the name is empty, longer than 128 bytes, or has a NUL.
    pub fn with_collection(&self, name: &str) -> Result<Self, DocsError> {
        let named = |pool: &Arc<Pool>| Pool::new(pool.address.clone().with_collection(name)?);
        let replica = self.replica.as_ref().map(named).transpose()?;
        Ok(Self { pool: named(&self.pool)?, replica })
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

    /// Writes new and changed documents into the collection, and removes those that are gone.
    ///
    /// Each batch of documents is a transaction, and unchanged documents are skipped. So an interrupted build is completed by the
    /// next one, and several may run at once. If the rules of chunking or the model changed, a new collection is loaded and
    /// replaces the current one at the end.
    ///
    /// # Errors
    ///
    /// As [`pannier_docs::build`], and [`DocsError::Store`].
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
    /// and [`DocsError::Store`].
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
        load::drop_collection(&self.pool)
    }
}
