//! Statistics of an index, and the metadata of its documents.

use serde::Serialize;

use crate::manifest::CurrentVersion;
use crate::{DocsError, DocumentIndex, DocumentMetadata, Manifest};

/// The statistics of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// The manifest.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// The token count of all documents.
    pub tokens: u64,
    /// The word count of all documents.
    pub words: u64,
    /// The sizes of chunks in bytes, if there are any.
    pub chunk_bytes: Option<SizeStats>,
}

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SizeStats {
    /// The minimum.
    #[serde(rename = "least")]
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The maximum.
    #[serde(rename = "most")]
    pub max: u64,
}

impl IndexStats {
    /// Creates statistics from a manifest, the token and word counts of all documents, and the sizes of chunks.
    pub fn new(manifest: Manifest, tokens: u64, words: u64, sizes: Option<[u64; 3]>) -> Self {
        let chunk_bytes = sizes.map(|[min, median, max]| SizeStats { min, median, max });
        Self { manifest, tokens, words, chunk_bytes }
    }
}

impl DocumentInfo {
    /// Creates the description of a document.
    pub fn new(path: String, metadata: DocumentMetadata, bytes: u64) -> Self {
        Self { path, metadata, bytes }
    }
}

/// The path, title, date and size of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentInfo {
    /// Its path relative to the document folder.
    pub path: String,
    /// Its title and date.
    pub metadata: DocumentMetadata,
    /// The size of its content in bytes.
    pub bytes: u64,
}

impl DocumentIndex {
    /// Computes the statistics of the index.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn inspect(&self) -> Result<IndexStats, DocsError> {
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
            manifest: self.manifest().clone(),
            tokens: self.total_tokens(),
            words: self.total_words(),
            chunk_bytes,
        })
    }

    /// Returns whether this is still the current version, or a build has replaced it.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoIndex`] if the index is gone, [`DocsError::Invalid`] if it does not name its version.
    pub fn is_current(&self) -> Result<bool, DocsError> {
        Ok(CurrentVersion::read(self.root())?.folder == self.folder())
    }

    /// Returns the path, title, date and size of a document without reading its content.
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

    /// Returns the number of the document with this path, by binary search: documents are ordered by id, the lowercased path.
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
        let is_match = low < self.len() && self.record(low)?.path == path;
        Ok(is_match.then_some(low))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{BuildOptions, DocsError, DocumentIndex, DocumentSource, build};

    #[test]
    fn documents_are_found_by_path_and_new_versions_are_detected() {
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
        let index = DocumentIndex::open(&path).unwrap();
        for name in names {
            let number = index.find_document(name).unwrap().unwrap();
            let document_info = index.document_info(number).unwrap();
            assert_eq!(document_info.path, name);
            assert_eq!(document_info.metadata.title, Some(format!("The {name}")));
            assert_eq!(document_info.bytes, index.document(number).unwrap().content.len() as u64);
        }
        for none in ["", "a.md", "b", "b/c", "../A.md", "zz.md", "A.md/"] {
            assert_eq!(index.find_document(none).unwrap(), None, "{none}");
        }
        assert!(matches!(index.document_info(5), Err(DocsError::Invalid { .. })));
        assert!(index.is_current().unwrap());
        make().unwrap();
        assert!(index.is_current().unwrap(), "nothing has changed");
        fs::write(docs.join("z.md"), "Other.").unwrap();
        make().unwrap();
        assert!(!index.is_current().unwrap());
        assert!(DocumentIndex::open(&path).unwrap().is_current().unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(index.is_current(), Err(DocsError::NoIndex { .. })));
    }
}
