//! The catalog of a version: what an update compares with the files of the source, and what the version is a hash of.

use pannier_core::Timestamp;

use crate::source::is_contained_path;
use crate::varint::{ByteReader, write_str};
use crate::{DocumentMetadata, Model};

/// The caller gave the title, or the date.
const TITLE_GIVEN: u8 = 1;
const DATE_GIVEN: u8 = 2;

/// The size of an entry with a path of medium length.
const EXPECTED_ENTRY_BYTES: usize = 64;
/// The number of entries that are hashed at once: enough for the hash function to be fast.
const HASHED_ENTRIES: usize = 512;

/// A document in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    /// SHA-256 of its content.
    pub(crate) hash: [u8; 32],
    pub(crate) metadata: DocumentMetadata,
    flags: u8,
}

impl Entry {
    /// Creates an entry from the title and date of a document, and those that the caller gave.
    pub(crate) fn new(
        path: &str,
        hash: [u8; 32],
        metadata: DocumentMetadata,
        given: &DocumentMetadata,
    ) -> Self {
        let title = if given.title.is_some() { TITLE_GIVEN } else { 0 };
        let date = if given.date.is_some() { DATE_GIVEN } else { 0 };
        Self { path: path.to_owned(), hash, metadata, flags: title | date }
    }

    /// Returns the title and date that the caller gave.
    pub(crate) fn given(&self) -> DocumentMetadata {
        let title = self.metadata.title.clone().unwrap_or_default();
        DocumentMetadata {
            title: (self.flags & TITLE_GIVEN != 0).then_some(title),
            date: self.metadata.date.filter(|_| self.flags & DATE_GIVEN != 0),
        }
    }

    /// Returns whether the document is the same with this content and these given fields.
    pub(crate) fn is_same(&self, hash: &[u8; 32], given: &DocumentMetadata) -> bool {
        let own = self.given();
        let normal = |given: &DocumentMetadata| given.or_else(DocumentMetadata::default()).title;
        self.hash == *hash
            && given.title.is_some() == own.title.is_some()
            && normal(given) == normal(&own)
            && date_bytes(given.date) == date_bytes(own.date)
    }

    /// Returns what documents are ordered by: the id, which is the lowercased path.
    pub(crate) fn order(&self) -> (String, &str) {
        (self.path.to_lowercase(), &self.path)
    }

    /// Returns whether content, title and date are equal.
    pub(crate) fn is_equal(&self, other: &Self) -> bool {
        let (own, others) = (&self.metadata, &other.metadata);
        self.hash == other.hash
            && own.title == others.title
            && date_bytes(own.date) == date_bytes(others.date)
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        self.write_content(bytes);
        bytes.push(self.flags);
    }

    /// Writes what the version of an index depends on.
    fn write_content(&self, bytes: &mut Vec<u8>) {
        write_str(bytes, &self.path);
        write_str(bytes, self.metadata.title.as_deref().unwrap_or_default());
        bytes.extend_from_slice(&date_bytes(self.metadata.date));
        bytes.extend_from_slice(&self.hash);
    }

    /// Returns the hash of what the version of an index depends on.
    pub(crate) fn version_hash(&self) -> [u8; 32] {
        let mut bytes = Vec::new();
        self.write_content(&mut bytes);
        blake3::hash(&bytes).into()
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let path = reader.read_str().filter(|path| is_contained_path(path))?.to_owned();
        let title = Some(reader.read_str()?.to_owned()).filter(|title| !title.is_empty());
        let date = Timestamp::from_unix_seconds(reader.u64()? as i64).ok();
        let hash = reader.take(32)?.try_into().ok()?;
        let flags = reader.take(1)?[0];
        Some(Self { path, hash, metadata: DocumentMetadata { title, date }, flags })
    }
}

/// Decodes a catalog, or returns `None` if it is malformed.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<Entry>> {
    let (mut reader, mut entries) = (ByteReader(bytes), Vec::new());
    entries.reserve(bytes.len() / EXPECTED_ENTRY_BYTES);
    while !reader.is_empty() {
        entries.push(Entry::read(&mut reader)?);
    }
    Some(entries)
}

/// Finds a document among all, by id and path. `next` is where to look first, and moves on: documents that are looked up in
/// order are found at once.
pub(crate) fn find_next(entries: &[Entry], next: &mut usize, id: &str, path: &str) -> Option<u32> {
    if entries.get(*next).is_none_or(|entry| entry.path != path) {
        let found = entries.binary_search_by(|entry| {
            let (own_id, own_path) = entry.order();
            (own_id.as_str(), own_path).cmp(&(id, path))
        });
        *next = found.ok()?;
    }
    *next += 1;
    Some(*next as u32 - 1)
}

/// Returns the version of an index: a hash of the chunker's version, the model, and the path, title, date and content hash of
/// every document. The chunks follow from these.
pub(crate) fn version(chunking: &str, model: Option<&Model>, entries: &[&Entry]) -> String {
    let (mut hash, mut bytes) = (blake3::Hasher::new(), Vec::new());
    for text in ["pannier cache 4", chunking, model.map_or("", |model| &model.hash)] {
        write_str(&mut bytes, text);
    }
    for entries in entries.chunks(HASHED_ENTRIES) {
        entries.iter().for_each(|entry| entry.write_content(&mut bytes));
        hash.update(&bytes);
        bytes.clear();
    }
    hash.update(&bytes).finalize().to_hex().to_string()
}

/// Encodes a date as seconds; `i64::MIN` means none.
pub(crate) fn date_bytes(date: Option<Timestamp>) -> [u8; 8] {
    let seconds = date.map(|date| date.unix_nanoseconds().div_euclid(1_000_000_000));
    seconds.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(i64::MIN).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_roundtrip_and_compare_by_content_and_given_fields() {
        let date = crate::parse_date("2026-03-01");
        let given = DocumentMetadata { title: Some(" The  title ".to_owned()), date: None };
        let effective = given.or_else(DocumentMetadata { title: None, date });
        let entry = Entry::new("a/b.md", [7; 32], effective, &given);
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        assert_eq!(read(&bytes), Some(vec![entry.clone()]));
        for cut in 1..bytes.len() {
            assert_eq!(read(&bytes[..cut]), None);
        }
        assert_eq!(entry.given().title.as_deref(), Some("The title"));
        assert!(entry.is_same(&[7; 32], &given) && entry.is_same(&[7; 32], &entry.given()));
        assert!(!entry.is_same(&[8; 32], &given));
        assert!(!entry.is_same(&[7; 32], &DocumentMetadata::default()));
        assert!(!entry.is_same(&[7; 32], &DocumentMetadata { date, ..given }));
        assert_eq!(Entry::read(&mut ByteReader(&bytes[..0])), None);
    }
}
