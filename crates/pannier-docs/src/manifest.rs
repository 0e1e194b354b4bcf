//! What a cache says about itself, for people and for whoever opens it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{DocsError, Model, document_index};

/// The file that names the present version.
pub(crate) const CURRENT: &str = "CURRENT";
/// Held while a cache is built.
pub(crate) const LOCK: &str = "LOCK";
/// The folder of the versions.
pub(crate) const VERSIONS: &str = "versions";
pub(crate) const MANIFEST: &str = "manifest.json";

/// The files of a version, besides the manifest.
pub(crate) const TABLE: &str = "table";
pub(crate) const RECORDS: &str = "records";
pub(crate) const PATHS: &str = "paths";
pub(crate) const CONTENTS: &str = "contents";
pub(crate) const CHUNKS: &str = "chunks";
pub(crate) const TERMS: &str = "terms";
pub(crate) const POSTINGS: &str = "postings";
pub(crate) const CHUNK_TABLE: &str = "chunk-table";
pub(crate) const CHUNK_TERMS: &str = "chunk-terms";
pub(crate) const CHUNK_POSTINGS: &str = "chunk-postings";
pub(crate) const VECTORS: &str = "vectors";
pub(crate) const VECTOR_KEYS: &str = "vector-keys";
pub(crate) const FILES: [&str; 12] = [
    TABLE,
    RECORDS,
    PATHS,
    CONTENTS,
    CHUNKS,
    TERMS,
    POSTINGS,
    CHUNK_TABLE,
    CHUNK_TERMS,
    CHUNK_POSTINGS,
    VECTORS,
    VECTOR_KEYS,
];

const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// What a cache says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Manifest {
    /// The version of the format.
    #[serde(rename = "pannier_cache")]
    pub format: u32,
    /// Which state of the sources it is: the hash of all paths, contents, dates, chunks and vectors.
    pub version: String,
    /// How many documents there are.
    pub documents: u32,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many chunks they were cut into.
    pub chunks: u64,
    /// How the chunks were made.
    pub chunking: String,
    /// How many different words there are.
    pub terms: u64,
    /// How many different terms chunks are searched by.
    pub chunk_terms: u64,
    /// Which model made the vectors of the chunks, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The files, with their sizes and checksums.
    pub files: BTreeMap<String, ManifestFile>,
}

/// A file of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ManifestFile {
    /// Its size.
    pub bytes: u64,
    /// XXH3 of its bytes, 16 hexadecimal digits.
    pub checksum: String,
}

impl Manifest {
    /// The format that is written and read.
    pub const FORMAT: u32 = 2;

    /// The manifest of a version, whose checksum is known.
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
            let (found, known) = (format.pannier_cache, Self::FORMAT);
            let problem =
                format!("its format is {found}, and this version of Pannier reads {known}");
            return Err(DocsError::invalid(&path, problem));
        }
        if document_index::checksum(text.as_bytes()) != *checksum {
            return Err(DocsError::invalid(&path, "its checksum is another one"));
        }
        let manifest: Self = serde_json::from_str(&text).map_err(invalid)?;
        if manifest.files.len() != FILES.len()
            || !FILES.iter().all(|name| manifest.files.contains_key(*name))
        {
            return Err(DocsError::invalid(&path, "its list of files is another one"));
        }
        Ok(manifest)
    }

    /// What it says about one of its files.
    pub(crate) fn file(&self, name: &str) -> (u64, &str) {
        self.files.get(name).map_or((0, ""), |file| (file.bytes, file.checksum.as_str()))
    }
}

/// A file that is no link, and small.
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

/// Refuses a file or a folder of a cache that is missing, or that is a link to somewhere else.
pub(crate) fn check_kind(path: &Path, is_folder: bool) -> Result<u64, DocsError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && !is_folder || found.is_dir() && is_folder => {
            Ok(found.len())
        }
        Ok(_) => Err(DocsError::invalid(path, "it is a link, or not what it should be")),
        Err(error) => Err(open_error(path, error)),
    }
}

/// A file of a cache that is not there is damage; one that cannot be opened is not.
pub(crate) fn open_error(path: &Path, error: std::io::Error) -> DocsError {
    match error.kind() {
        ErrorKind::NotFound => DocsError::invalid(path, "it is missing"),
        _ => DocsError::io("read", path, error),
    }
}

/// The present version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CurrentVersion {
    pub(crate) folder: PathBuf,
    /// The checksum of its manifest.
    pub(crate) checksum: String,
}

impl CurrentVersion {
    /// What `CURRENT` says.
    pub(crate) fn read(cache: &Path) -> Result<Self, DocsError> {
        let path = cache.join(CURRENT);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(DocsError::NoCache { path: cache.to_owned() });
        }
        let text = read_small(&path)?;
        let named = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let Some((name, checksum)) = named.filter(|(name, _)| is_version_name(name)) else {
            return Err(DocsError::invalid(&path, "it does not name a version"));
        };
        let folder = cache.join(VERSIONS).join(name);
        Ok(Self { folder, checksum: checksum.to_owned() })
    }

    /// Refuses a folder that is missing, or that is elsewhere.
    pub(crate) fn check(&self) -> Result<(), DocsError> {
        self.folder.parent().map_or(Ok(0), |versions| check_kind(versions, true))?;
        check_kind(&self.folder, true).map(|_| ())
    }

    /// How many versions there were before it. No two that follow each other have the same name.
    pub(crate) fn number(&self) -> u32 {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.split_once('-').map_or(1, |(_, number)| number.parse().unwrap_or(1))
    }

    /// The line that names a version.
    pub(crate) fn line(name: &str, manifest: &[u8]) -> String {
        format!("{name} {}\n", document_index::checksum(manifest))
    }
}

/// A hash, and a number for all versions but the first.
pub(crate) fn is_version_name(name: &str) -> bool {
    let (hash, number) = name.split_once('-').unwrap_or((name, "1"));
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hash.len() == 64
        && hash.bytes().all(is_hex)
        && (1..=9).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}
