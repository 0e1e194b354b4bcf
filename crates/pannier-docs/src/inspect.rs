//! What is in a cache: its figures, and its documents one by one.

use serde::Serialize;

use crate::manifest::CurrentVersion;
use crate::{DocsError, DocumentIndex, DocumentMetadata, Manifest};

/// The figures of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexStats<'c> {
    /// What the cache says about itself.
    #[serde(flatten)]
    pub manifest: &'c Manifest,
    /// What all documents cost together.
    pub tokens: u64,
    /// How many words they have.
    pub words: u64,
    /// How large the chunks are, if there are any.
    pub chunk_bytes: Option<SizeStats>,
}

/// The min, the middle and the max.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SizeStats {
    /// The min.
    #[serde(rename = "least")]
    pub min: u64,
    /// The one in the middle.
    pub median: u64,
    /// The max.
    #[serde(rename = "most")]
    pub max: u64,
}

/// What is known about a document besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentInfo {
    /// Its path below the root of the sources.
    pub path: String,
    /// What it is called and when it was written.
    pub metadata: DocumentMetadata,
    /// How many bytes its content has.
    pub bytes: u64,
}

impl DocumentIndex {
    /// The figures of the cache.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn inspect(&self) -> Result<IndexStats<'_>, DocsError> {
        let mut sizes = Vec::new();
        for document in 0..self.len() {
            sizes.extend(self.chunks(document)?.iter().map(|chunk| chunk.range.len() as u64));
        }
        sizes.sort_unstable();
        let chunk_bytes = match (sizes.first(), sizes.get(sizes.len() / 2), sizes.last()) {
            (Some(&min), Some(&median), Some(&max)) => Some(SizeStats { min, median, max }),
            _ => None,
        };
        Ok(IndexStats {
            manifest: self.manifest(),
            tokens: self.total_tokens(),
            words: self.total_words(),
            chunk_bytes,
        })
    }

    /// Whether this is still the present version of the cache. A build that came since then has made another one.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoCache`] if it is gone, [`DocsError::Invalid`] if it does not say which version it is.
    pub fn is_current(&self) -> Result<bool, DocsError> {
        Ok(CurrentVersion::read(self.root())?.folder == self.folder())
    }

    /// What is known about a document besides its content, which is not read.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn document_info(&self, document: u32) -> Result<DocumentInfo, DocsError> {
        if document >= self.len() {
            return Err(DocsError::invalid(
                self.folder(),
                format!("there is no document {document}"),
            ));
        }
        let record = self.record(document)?;
        Ok(DocumentInfo {
            path: record.path,
            metadata: record.metadata,
            bytes: self.content_bytes(document),
        })
    }

    /// The number of the document with this path. Documents are in the order of their ids, which are paths in lower case.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn find_document(&self, path: &str) -> Result<Option<u32>, DocsError> {
        let id = path.to_lowercase();
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.record(middle)?.path.to_lowercase() < id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let is_found = low < self.len() && self.record(low)?.path == path;
        Ok(is_found.then_some(low))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{BuildOptions, DocsError, DocumentIndex, DocumentSource, build};

    #[test]
    fn documents_are_found_by_their_paths_and_versions_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("pannier-inspect-{}", std::process::id()));
        let (docs, path) = (folder.join("docs"), folder.join("cache"));
        fs::create_dir_all(docs.join("b")).unwrap();
        let names = ["A.md", "B.md", "b/c.md", "z.md", "ä.md"];
        for name in names {
            fs::write(docs.join(name), format!("---\ntitle: The {name}\n---\nText.\n")).unwrap();
        }
        let make =
            || build(&DocumentSource::new(&docs), &path, &BuildOptions::default(), &mut |_| {});
        make().unwrap();
        let cache = DocumentIndex::open(&path).unwrap();
        for name in names {
            let number = cache.find_document(name).unwrap().unwrap();
            let document_info = cache.document_info(number).unwrap();
            assert_eq!(document_info.path, name);
            assert_eq!(document_info.metadata.title, Some(format!("The {name}")));
            assert_eq!(document_info.bytes, cache.document(number).unwrap().content.len() as u64);
        }
        for none in ["", "a.md", "b", "b/c", "../A.md", "zz.md", "A.md/"] {
            assert_eq!(cache.find_document(none).unwrap(), None, "{none}");
        }
        assert!(matches!(cache.document_info(5), Err(DocsError::Invalid { .. })));
        assert!(cache.is_current().unwrap());
        make().unwrap();
        assert!(cache.is_current().unwrap(), "nothing has changed");
        fs::write(docs.join("z.md"), "Other.").unwrap();
        make().unwrap();
        assert!(!cache.is_current().unwrap());
        assert!(DocumentIndex::open(&path).unwrap().is_current().unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(cache.is_current(), Err(DocsError::NoCache { .. })));
    }
}
