//! The manifest of an index version: counts, settings, segments, and the sizes and checksums of all files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{ChunkSizes, DocsError, DocumentSource, FileRules, Model, document_index};

/// The file that names the current version.
pub(crate) const CURRENT: &str = "CURRENT";
/// The lock of a build.
pub(crate) const LOCK: &str = "LOCK";
/// The folder of the versions.
pub(crate) const VERSIONS: &str = "versions";
/// The folder of the segments.
pub(crate) const SEGMENTS: &str = "segments";

// The files of a version.
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const DOCUMENTS: &str = "documents";
pub(crate) const CATALOG: &str = "catalog";
/// The files of a version, besides the manifest.
pub(crate) const VERSION_FILES: [&str; 2] = [CATALOG, DOCUMENTS];

// The files of a segment.
pub(crate) const TABLE: &str = "table";
pub(crate) const RECORDS: &str = "records";
pub(crate) const PATHS: &str = "paths";
pub(crate) const CONTENTS: &str = "contents";
pub(crate) const CHUNKS: &str = "chunks";
pub(crate) const TERMS: &str = "terms";
pub(crate) const POSTINGS: &str = "postings";
pub(crate) const CHUNK_TABLE: &str = "chunk-table";
pub(crate) const CHUNK_WORDS: &str = "chunk-words";
pub(crate) const CHUNK_TERMS: &str = "chunk-terms";
pub(crate) const CHUNK_POSTINGS: &str = "chunk-postings";
pub(crate) const VECTORS: &str = "vectors";
pub(crate) const VECTOR_KEYS: &str = "vector-keys";
pub(crate) const SEGMENT_FILES: [&str; 13] = [
    TABLE,
    RECORDS,
    PATHS,
    CONTENTS,
    CHUNKS,
    TERMS,
    POSTINGS,
    CHUNK_TABLE,
    CHUNK_WORDS,
    CHUNK_TERMS,
    CHUNK_POSTINGS,
    VECTORS,
    VECTOR_KEYS,
];

const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// The description of an index version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Manifest {
    /// The version of the file format.
    #[serde(rename = "pannier_cache")]
    pub format: u32,
    /// The version of the index: a hash of all paths, titles, dates and contents, of the chunker and of the model.
    pub version: String,
    /// The number of documents.
    pub documents: u32,
    /// The total size of the documents in bytes.
    pub bytes: u64,
    /// The number of chunks.
    pub chunks: u64,
    /// The version of the chunker and of text analysis.
    pub chunking: String,
    /// The sizes of chunks.
    pub chunk_sizes: ChunkSizes,
    /// The model of the vectors, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The folder that was indexed, relative to the index where possible, and the rules that selected its files.
    pub source: ManifestSource,
    /// The segments, the oldest first.
    pub segments: Vec<SegmentInfo>,
    /// The other files with their sizes and checksums.
    pub files: BTreeMap<String, ManifestFile>,
}

/// The folder that was indexed, and the rules that selected its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ManifestSource {
    /// The folder, relative to the index where possible.
    pub root: String,
    /// The rules.
    #[serde(default, skip_serializing_if = "FileRules::is_default")]
    pub rules: FileRules,
}

/// A segment: an immutable part of an index. Deleted documents stay in it until it is merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// The name of its folder.
    pub name: String,
    /// The number of documents in it, deleted ones included.
    pub documents: u32,
    /// The number of their chunks.
    pub chunks: u64,
    /// The number of distinct words of documents.
    pub terms: u64,
    /// The number of distinct terms of chunks.
    pub chunk_terms: u64,
    /// Its files with their sizes and checksums.
    pub files: BTreeMap<String, ManifestFile>,
}

/// The size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ManifestFile {
    /// Its size in bytes.
    pub bytes: u64,
    /// XXH3 of its bytes, 16 hexadecimal digits.
    pub checksum: String,
}

impl SegmentInfo {
    /// Returns the size and the checksum of a file.
    pub(crate) fn file(&self, name: &str) -> (u64, &str) {
        entry(&self.files, name)
    }
}

fn entry<'m>(files: &'m BTreeMap<String, ManifestFile>, name: &str) -> (u64, &'m str) {
    files.get(name).map_or((0, ""), |file| (file.bytes, file.checksum.as_str()))
}

fn has_exactly(files: &BTreeMap<String, ManifestFile>, names: &[&str]) -> bool {
    files.len() == names.len() && names.iter().all(|name| files.contains_key(*name))
}

impl Manifest {
    /// The format version that is written and read.
    pub const FORMAT: u32 = 5;

    /// Reads the manifest of a version, and checks its checksum.
    pub(crate) fn read(
        CurrentVersion { folder, checksum }: &CurrentVersion,
    ) -> Result<Self, DocsError> {
        let path = folder.join(MANIFEST);
        let text = read_small(&path)?;
        #[derive(Deserialize)]
        struct Format {
            pannier_cache: u32,
        }
        let invalid = |error: serde_json::Error| DocsError::invalid(&path, error.to_string());
        let format: Format = serde_json::from_str(&text).map_err(invalid)?;
        if format.pannier_cache != Self::FORMAT {
            let (actual, supported) = (format.pannier_cache, Self::FORMAT);
            let problem = format!(
                "its format is {actual}, but this version of Pannier reads {supported}; build the index again"
            );
            return Err(DocsError::invalid(&path, problem));
        }
        if document_index::checksum(text.as_bytes()) != *checksum {
            return Err(DocsError::invalid(&path, "its checksum does not match"));
        }
        let manifest: Self = serde_json::from_str(&text).map_err(invalid)?;
        let is_complete = |segment: &SegmentInfo| {
            is_version_name(&segment.name) && has_exactly(&segment.files, &SEGMENT_FILES)
        };
        if !has_exactly(&manifest.files, &VERSION_FILES)
            || !manifest.segments.iter().all(is_complete)
        {
            return Err(DocsError::invalid(&path, "its list of files is not complete"));
        }
        Ok(manifest)
    }

    /// Creates the manifest of a collection that is not stored in files.
    pub fn of_collection(
        chunk_sizes: ChunkSizes,
        model: Option<Model>,
        root: String,
        rules: FileRules,
    ) -> Self {
        Self {
            format: Self::FORMAT,
            version: String::new(),
            documents: 0,
            bytes: 0,
            chunks: 0,
            chunking: crate::corpus::chunking_version(chunk_sizes),
            chunk_sizes,
            model,
            source: ManifestSource { root, rules },
            segments: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    /// Reads the manifest of the current version of an index.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoIndex`], and [`DocsError::Invalid`] if it is damaged or of another format.
    pub fn open(index: &Path) -> Result<Self, DocsError> {
        Self::read(&CurrentVersion::read(index)?)
    }

    /// Returns the folder that the index at a path is of, with the rules that selected its files.
    pub fn document_source(&self, index: &Path) -> DocumentSource {
        DocumentSource::new(index.join(&self.source.root)).rules(self.source.rules.clone())
    }

    /// Returns the size and the checksum of a file of the version.
    pub(crate) fn file(&self, name: &str) -> (u64, &str) {
        entry(&self.files, name)
    }
}

/// Reads a small text file that is not a link.
fn read_small(path: &Path) -> Result<String, DocsError> {
    check_kind(path, false)?;
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| open_error(path, error))?;
    match file.take(MAX_MANIFEST_BYTES).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(DocsError::invalid(path, "it is not UTF-8"))
        }
        Err(error) => Err(DocsError::io("read", path, error)),
    }
}

/// Returns the size of a file or folder of an index, and rejects links and missing ones.
pub(crate) fn check_kind(path: &Path, is_folder: bool) -> Result<u64, DocsError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() && !is_folder || metadata.is_dir() && is_folder => {
            Ok(metadata.len())
        }
        Ok(_) => Err(DocsError::invalid(
            path,
            if is_folder { "it is not a folder" } else { "it is not a regular file" },
        )),
        Err(error) => Err(open_error(path, error)),
    }
}

/// Converts an error of opening: a missing file means a damaged index, any other error may pass.
pub(crate) fn open_error(path: &Path, error: std::io::Error) -> DocsError {
    match error.kind() {
        ErrorKind::NotFound => DocsError::invalid(path, "it is missing"),
        _ => DocsError::io("read", path, error),
    }
}

/// The current version of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CurrentVersion {
    pub(crate) folder: PathBuf,
    /// The checksum of its manifest.
    pub(crate) checksum: String,
}

impl CurrentVersion {
    /// Reads `CURRENT`.
    pub(crate) fn read(index: &Path) -> Result<Self, DocsError> {
        let path = index.join(CURRENT);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(DocsError::NoIndex { path: index.to_owned() });
        }
        let text = read_small(&path)?;
        let named = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let Some((name, checksum)) = named.filter(|(name, _)| is_version_name(name)) else {
            return Err(DocsError::invalid(&path, "it does not name a version"));
        };
        let folder = index.join(VERSIONS).join(name);
        Ok(Self { folder, checksum: checksum.to_owned() })
    }

    /// Checks that the folder of the version exists and is not a link.
    pub(crate) fn check(&self) -> Result<(), DocsError> {
        self.folder.parent().map_or(Ok(0), |versions| check_kind(versions, true))?;
        check_kind(&self.folder, true).map(|_| ())
    }

    /// Returns the number in its name, from 1. Consecutive versions with the same hash differ in it.
    pub(crate) fn number(&self) -> u32 {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.split_once('-').map_or(1, |(_, number)| number.parse().unwrap_or(1))
    }

    /// Returns the line of `CURRENT` for a version.
    pub(crate) fn line(name: &str, manifest: &[u8]) -> String {
        format!("{name} {}\n", document_index::checksum(manifest))
    }
}

/// Returns whether a name is a hash, optionally followed by `-` and a number.
pub(crate) fn is_version_name(name: &str) -> bool {
    let (hash, number) = name.split_once('-').unwrap_or((name, "1"));
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hash.len() == 64
        && hash.bytes().all(is_hex)
        && (1..=9).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}
