//! The hashes of source files by what the file system says about them, so that unchanged files are not read.
//!
//! A stamp is a hint: it says that a file with this size, these times and this inode has this content. It decides only whether
//! a file is read, so answers are the same without it. A file that changed at about the time of its stamp may change again
//! within the resolution of the file system's clock without a trace; such a stamp is not kept. A damaged file of stamps
//! counts as empty. Stamps of the index's own files save computing their checksums at every update.

use std::cmp::Ordering;
use std::fs::{self, Metadata};
use std::path::Path;
use std::time::{Duration, SystemTime};

use pannier_files::replace_file_through;
use xxhash_rust::xxh3::xxh3_64;

use crate::manifest::check_kind;
use crate::source::SkipReason;
use crate::varint::{ByteReader, write_str};

pub(crate) const STAMPS: &str = "stamps";
const MAGIC: &[u8] = b"pannier stamps 1\n";

/// The size of a stamp with a path of medium length.
const EXPECTED_STAMP_BYTES: usize = 96;

/// The stamps are written if at least one in this many is new, or if the files with new ones are large.
const MIN_NEW_SHARE: usize = 200;
const MAX_UNWRITTEN_BYTES: u64 = 1 << 20;

/// The code of [`Content::Checked`].
const CHECKED: u8 = 4;

/// The coarsest resolution of file times: that of FAT.
const RESOLUTION: Duration = Duration::from_secs(2);

/// What the file system says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    /// In nanoseconds, modulo 2⁶⁴.
    modified: u64,
    changed: u64,
    inode: u64,
}

/// What is known about the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// SHA-256 of a text.
    Text([u8; 32]),
    /// Not a text.
    Skipped(SkipReason),
    /// A file of the index whose checksum matched.
    Checked,
}

/// The stamps of an index, by path: of the files of its source, and of its own files, whose paths start with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// All paths, concatenated in order.
    paths: String,
    entries: Vec<Entry>,
}

/// A stamp with the end of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    path_end: usize,
    stamp: Stamp,
    content: Content,
}

impl Stamp {
    /// Returns the stamp of a file that was last changed before `now`.
    pub(crate) fn new(metadata: &Metadata, now: SystemTime) -> Option<Self> {
        let (changed, inode) = changed_and_inode(metadata);
        let modified = metadata.modified().ok()?;
        let limit = now.checked_sub(RESOLUTION)?;
        let is_old = modified < limit && changed.is_none_or(|changed| changed < limit);
        let changed = changed.map_or(0, nanoseconds);
        let (size, modified) = (metadata.len(), nanoseconds(modified));
        is_old.then_some(Self { size, modified, changed, inode })
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as u64,
        Err(error) => (error.duration().as_nanos() as u64).wrapping_neg(),
    }
}

/// Returns when a file or its attributes last changed, and its inode.
#[cfg(unix)]
fn changed_and_inode(metadata: &Metadata) -> (Option<SystemTime>, u64) {
    use std::os::unix::fs::MetadataExt;

    let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
    let nanoseconds = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
    let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds));
    (changed, metadata.ino())
}

#[cfg(not(unix))]
fn changed_and_inode(_: &Metadata) -> (Option<SystemTime>, u64) {
    (None, 0)
}

impl Stamps {
    /// Reads the stamps of an index.
    pub(crate) fn read(index: &Path) -> Self {
        let path = index.join(STAMPS);
        let bytes = check_kind(&path, false).ok().and_then(|_| fs::read(&path).ok());
        bytes.and_then(|bytes| Self::decode(&bytes)).unwrap_or_default()
    }

    /// Writes the stamps of an index in the order of paths, unless few of them changed: reading a few files again costs less.
    /// They are a hint, so errors are ignored.
    pub(crate) fn replace(&self, index: &Path, stamps: &[(&str, Stamp, Content)]) {
        let mut next = 0;
        let (mut new, mut new_bytes) = (0, 0_u64);
        for (path, stamp, content) in stamps {
            if self.get_next(&mut next, path, Some(*stamp)) != Some(*content) {
                new += 1;
                new_bytes = new_bytes.saturating_add(stamp.size);
            }
        }
        let known = stamps.len() - new;
        // Those of files that no longer exist are removed then, too.
        let changed = new + self.entries.len().saturating_sub(known);
        if changed > stamps.len() / MIN_NEW_SHARE || new_bytes > MAX_UNWRITTEN_BYTES {
            let (bytes, next) = (encode(stamps), index.join("stamps.next"));
            let _ = replace_file_through(&next, &index.join(STAMPS), |file| file.write_all(&bytes));
        }
    }

    /// Returns what is known about the content of a file. `next` is where to look first, and moves on: files that are looked up
    /// in the order of their paths are found at once.
    pub(crate) fn get_next(
        &self,
        next: &mut usize,
        path: &str,
        stamp: Option<Stamp>,
    ) -> Option<Content> {
        if *next >= self.entries.len() || self.path(*next) != path {
            *next = self.position(path)?;
        }
        let entry = self.entries[*next];
        *next += 1;
        (Some(entry.stamp) == stamp).then_some(entry.content)
    }

    /// Returns what is known about the content of a file.
    pub(crate) fn get(&self, path: &str, stamp: Option<Stamp>) -> Option<Content> {
        let mut next = usize::MAX;
        self.get_next(&mut next, path, stamp)
    }

    /// Returns the stamps of files of the index.
    pub(crate) fn checked(&self) -> Vec<(String, Stamp)> {
        let checked = self.iter().filter(|(.., content)| *content == Content::Checked);
        checked.map(|(path, stamp, _)| (path.to_owned(), stamp)).collect()
    }

    fn iter(&self) -> impl Iterator<Item = (&str, Stamp, Content)> {
        let entries = self.entries.iter().enumerate();
        entries.map(|(index, entry)| (self.path(index), entry.stamp, entry.content))
    }

    fn path(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.entries[before].path_end);
        &self.paths[start..self.entries[index].path_end]
    }

    fn position(&self, path: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.path(middle).cmp(path) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, check) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        if check != xxh3_64(bytes).to_le_bytes() {
            return None;
        }
        let mut reader = ByteReader(bytes.strip_prefix(MAGIC)?);
        let mut stamps = Self::default();
        stamps.entries.reserve(bytes.len() / EXPECTED_STAMP_BYTES);
        let mut last = "";
        while !reader.is_empty() {
            let path =
                reader.read_str().filter(|path| stamps.entries.is_empty() || last < *path)?;
            last = path;
            let (size, modified) = (reader.u64()?, reader.u64()?);
            let (changed, inode) = (reader.u64()?, reader.u64()?);
            let content = match reader.take(1)?[0] {
                0 => Content::Text(reader.take(32)?.try_into().ok()?),
                CHECKED => Content::Checked,
                code => Content::Skipped(skip_reason(code)?),
            };
            stamps.paths.push_str(path);
            let stamp = Stamp { size, modified, changed, inode };
            stamps.entries.push(Entry { path_end: stamps.paths.len(), stamp, content });
        }
        Some(stamps)
    }
}

/// Encodes stamps in the order of paths.
fn encode(stamps: &[(&str, Stamp, Content)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stamps.len() * EXPECTED_STAMP_BYTES);
    bytes.extend_from_slice(MAGIC);
    for (path, stamp, content) in stamps {
        write_str(&mut bytes, path);
        for number in [stamp.size, stamp.modified, stamp.changed, stamp.inode] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        match content {
            Content::Text(hash) => {
                bytes.push(0);
                bytes.extend_from_slice(hash);
            }
            Content::Skipped(reason) => bytes.push(skip_code(*reason)),
            Content::Checked => bytes.push(CHECKED),
        }
    }
    let check = xxh3_64(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// Returns the code of a reason that follows from the content; 255 for others.
fn skip_code(reason: SkipReason) -> u8 {
    match reason {
        SkipReason::Binary => 1,
        SkipReason::NotUtf8 => 2,
        SkipReason::TooLarge => 3,
        _ => 255,
    }
}

fn skip_reason(code: u8) -> Option<SkipReason> {
    let reasons = [SkipReason::Binary, SkipReason::NotUtf8, SkipReason::TooLarge];
    reasons.into_iter().find(|reason| skip_code(*reason) == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(size: u64) -> Stamp {
        Stamp { size, modified: 1, changed: 2, inode: 3 }
    }

    #[test]
    fn stamps_roundtrip_and_damage_counts_as_none() {
        let sorted = [
            ("/c", stamp(7), Content::Checked),
            ("a", stamp(5), Content::Text([9; 32])),
            ("b", stamp(6), Content::Skipped(SkipReason::Binary)),
        ];
        let bytes = encode(&sorted);
        let stamps = Stamps::decode(&bytes).unwrap();
        assert!(stamps.iter().eq(sorted));
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            assert_eq!(Stamps::decode(&damaged), None);
            assert_eq!(Stamps::decode(&bytes[..position]), None);
        }
        assert_eq!(Stamps::decode(&encode(&[sorted[1], sorted[0]])), None);
        assert_eq!(stamps.get("a", Some(stamp(5))), Some(Content::Text([9; 32])));
        assert_eq!(stamps.get("a", Some(stamp(6))), None);
        assert_eq!(stamps.get("a", None), None);
        assert_eq!(stamps.checked(), [("/c".to_owned(), stamp(7))]);
        // In order, out of order, and missing.
        let mut next = 0;
        for path in ["/c", "b", "a", "x", "", "b"] {
            let expected = sorted.iter().find(|(own, ..)| *own == path);
            let content = stamps.get_next(&mut next, path, expected.map(|(_, stamp, _)| *stamp));
            assert_eq!(content, expected.map(|(.., content)| *content));
        }
    }

    #[test]
    fn a_file_that_just_changed_has_no_stamp() {
        let path = std::env::temp_dir().join(format!("pannier-stamp-{}", std::process::id()));
        fs::write(&path, "x").unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let changed = metadata.modified().unwrap();
        assert_eq!(Stamp::new(&metadata, changed), None);
        assert_eq!(Stamp::new(&metadata, changed + RESOLUTION), None);
        let later = changed + RESOLUTION + Duration::from_secs(1);
        assert!(Stamp::new(&metadata, later).is_some());
        // A time that was set back does not hide the change.
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        fs::File::options().write(true).open(&path).unwrap().set_modified(past).unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if cfg!(unix) {
            assert_eq!(Stamp::new(&metadata, changed), None);
        }
        fs::remove_file(&path).unwrap();
    }
}
