//! Collections in a database, as indexes: `postgres://…` instead of a folder.

use std::path::Path;
use std::sync::Arc;

use pannier_docs::{BuildOptions, BuildSummary, Corpus, DocumentSource, Manifest, Progress};

use crate::Failure;

/// Returns the address of a database, if a path is one. An address of another kind is an error without its credentials, and not
/// a folder: messages show the paths of folders.
pub(crate) fn address(path: &Path) -> Result<Option<&str>, Failure> {
    let Some(text) = path.to_str() else { return Ok(None) };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    match text.split_once("://").map(|(scheme, _)| scheme) {
        Some(scheme) if ["postgres", "postgresql"].contains(&&*scheme.to_ascii_lowercase()) => {
            Ok(Some(text))
        }
        Some(scheme) if scheme.chars().all(is_part) => {
            let problem = format!(
                "{scheme}:// is not the address of an index; write postgres://USER@HOST/DATABASE, or name a folder"
            );
            Err(Failure::Request { path: "index".to_owned(), problem })
        }
        _ => Ok(None),
    }
}

/// Names another collection in an address.
pub(crate) fn with_collection(address: &str, name: &str) -> String {
    let (start, options) = address.split_once('?').unwrap_or((address, ""));
    let is_other = |option: &&str| !option.is_empty() && !option.starts_with("collection=");
    let mut options: Vec<String> = options.split('&').filter(is_other).map(str::to_owned).collect();
    let name: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
    options.push(format!("collection={name}"));
    format!("{start}?{}", options.join("&"))
}

/// A collection of a database.
#[derive(Debug)]
pub(crate) struct DatabaseIndex {
    #[cfg(feature = "postgres")]
    database: pannier_postgres::Database,
}

impl DatabaseIndex {
    /// Parses an address. Nothing connects yet.
    #[cfg(feature = "postgres")]
    pub(crate) fn new(address: &str) -> Result<Self, Failure> {
        Ok(Self { database: pannier_postgres::Database::new(address)? })
    }

    #[cfg(not(feature = "postgres"))]
    pub(crate) fn new(_: &str) -> Result<Self, Failure> {
        let problem = "this build cannot use a database; enable the feature `postgres`".to_owned();
        Err(Failure::Request { path: "index".to_owned(), problem })
    }

    /// Returns the address without credentials.
    pub(crate) fn location(&self) -> String {
        #[cfg(feature = "postgres")]
        return self.database.location().to_owned();
        #[cfg(not(feature = "postgres"))]
        String::new()
    }

    /// Opens the collection as it is now.
    pub(crate) fn open(&self) -> Result<Arc<dyn Corpus>, Failure> {
        #[cfg(feature = "postgres")]
        return Ok(Arc::new(self.database.snapshot()?));
        #[cfg(not(feature = "postgres"))]
        Err(Failure::Request { path: "index".to_owned(), problem: String::new() })
    }

    /// Reads the manifest where the collection is written, which may be ahead of a replica.
    pub(crate) fn manifest(&self) -> Result<Manifest, Failure> {
        #[cfg(feature = "postgres")]
        return Ok(self.database.primary_snapshot()?.manifest().clone());
        #[cfg(not(feature = "postgres"))]
        Err(Failure::Request { path: "index".to_owned(), problem: String::new() })
    }

    /// Writes what changed in a folder.
    pub(crate) fn build(
        &self,
        source: &DocumentSource,
        options: &BuildOptions<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, Failure> {
        #[cfg(feature = "postgres")]
        return Ok(self.database.build(source, options, progress)?);
        #[cfg(not(feature = "postgres"))]
        {
            let _ = (source, options, progress);
            Err(Failure::Request { path: "index".to_owned(), problem: String::new() })
        }
    }
}
