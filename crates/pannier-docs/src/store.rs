//! Writing index versions to disk.
//!
//! One build at a time holds the lock. It writes a segment and a version as drafts next to the current ones, syncs them, and
//! publishes them by one rename. An interrupted build leaves drafts that nobody reads. The next command that sees them while
//! nobody holds the lock removes them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pannier_files::{FileLock, replace_file_through};
use xxhash_rust::xxh3::Xxh3;

use crate::manifest::{
    CURRENT, CurrentVersion, LOCK, MANIFEST, Manifest, ManifestFile, SEGMENTS, SegmentInfo,
    VERSIONS, check_kind, is_version_name,
};
use crate::vector_log::VECTOR_LOG;
use crate::{DocsError, DocumentIndex};

/// The content of the lock file. It marks a folder as an index.
const LOCK_MAGIC: &str = "pannier cache\n";

/// Locks the folder for one build, and waits for another build if `waits`. A folder that is neither empty nor marked as an
/// index is rejected.
pub(crate) fn lock(index: &Path, waits: bool) -> Result<FileLock, DocsError> {
    let failed = |error| DocsError::io("write", index, error);
    fs::create_dir_all(index).map_err(failed)?;
    let path = index.join(LOCK);
    let is_link = |name: &&str| {
        fs::symlink_metadata(index.join(name)).is_ok_and(|metadata| !metadata.is_dir())
    };
    let is_empty = fs::read_dir(index).map_err(failed)?.next().is_none();
    if !(is_marked(&path) || is_empty) || [VERSIONS, SEGMENTS].iter().any(is_link) {
        return Err(DocsError::NotAnIndex { path: index.to_owned() });
    }
    let lock = match waits {
        true => FileLock::wait(&path).map(Some),
        false => FileLock::try_acquire(&path),
    };
    let Some(lock) = lock.map_err(|error| DocsError::io("lock", &path, error))? else {
        return Err(DocsError::Busy { path: index.to_owned() });
    };
    let mut file = lock.file();
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        let marked = file.write_all(LOCK_MAGIC.as_bytes()).and_then(|()| file.sync_all());
        marked.map_err(|error| DocsError::io("write", &path, error))?;
    }
    Ok(lock)
}

/// Returns whether a lock file marks an index. A build that was interrupted at its start leaves an empty one.
fn is_marked(path: &Path) -> bool {
    check_kind(path, false).is_ok()
        && fs::read(path).is_ok_and(|text| text == LOCK_MAGIC.as_bytes() || text.is_empty())
}

/// Removes the drafts of builds that were interrupted, unless a build is running. Vectors that such a build computed stay for
/// the next one.
pub fn remove_drafts(index: &Path) {
    let has_draft = |folder: &str| {
        let entries = fs::read_dir(index.join(folder)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_draft))
    };
    if [VERSIONS, SEGMENTS].into_iter().any(has_draft)
        && is_marked(&index.join(LOCK))
        && let Ok(_lock) = lock(index, false)
    {
        [VERSIONS, SEGMENTS].into_iter().for_each(|folder| remove(&index.join(folder), is_draft));
    }
}

/// Removes what an interrupted build left. If there is no current version, only drafts are removed.
pub(crate) fn clean(index: &Path, current: Option<&DocumentIndex>) {
    match current {
        Some(current) => remove_unused(index, current.manifest(), current.folder()),
        None => {
            [VERSIONS, SEGMENTS].into_iter().for_each(|folder| {
                remove(&index.join(folder), is_draft);
            });
        }
    }
}

/// Removes what the current version does not use: older versions and segments, and the log of vectors.
pub(crate) fn clean_after_build(index: &Path, manifest: &Manifest) {
    if let Ok(current) = CurrentVersion::read(index) {
        remove_unused(index, manifest, &current.folder);
    }
    let _ = fs::remove_file(index.join(VECTOR_LOG));
}

fn remove_unused(index: &Path, manifest: &Manifest, version: &Path) {
    let is_other = |name: &str| is_draft(name) || is_version_name(name) && !version.ends_with(name);
    remove(&index.join(VERSIONS), is_other);
    let is_used = |name: &str| manifest.segments.iter().any(|segment| segment.name == name);
    remove(&index.join(SEGMENTS), |name| is_draft(name) || is_version_name(name) && !is_used(name));
}

/// A file writer that computes size and checksum.
pub(crate) struct ChecksummedFile {
    pub(crate) path: PathBuf,
    file: BufWriter<File>,
    pub(crate) bytes: u64,
    hash: ChecksumWriter,
}

/// A writer that computes the checksum of its input.
#[derive(Default)]
pub(crate) struct ChecksumWriter(Xxh3);

impl ChecksumWriter {
    pub(crate) fn checksum(&self) -> String {
        format!("{:016x}", self.0.digest())
    }
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ChecksummedFile {
    pub(crate) fn new(path: PathBuf) -> Result<Self, DocsError> {
        let file = File::create_new(&path).map_err(|error| DocsError::io("write", &path, error))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path, file, bytes: 0, hash: ChecksumWriter::default() })
    }

    pub(crate) fn finish(self) -> Result<ManifestFile, DocsError> {
        let failed = |error| DocsError::io("write", &self.path, error);
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(ManifestFile { bytes: self.bytes, checksum: self.hash.checksum() })
    }
}

impl Write for ChecksummedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.hash.0.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), DocsError> {
    let failed = |error| DocsError::io("write", path, error);
    let mut file = File::create_new(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

/// Syncs the entries of a folder to disk, where the platform supports it.
pub(crate) fn sync_folder(path: &Path) -> Result<(), DocsError> {
    if cfg!(unix) {
        let synced = File::open(path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| DocsError::io("write", path, error))?;
    }
    Ok(())
}

/// Returns a name that is not taken in a folder: a hash, and a number from `first` on.
fn free_name(folder: &Path, hash: &str, first: u32) -> String {
    let names = (first..=999_999_999).chain(1..first).map(|number| match number {
        1 => hash.to_owned(),
        number => format!("{hash}-{number}"),
    });
    let is_free = |name: &String| fs::symlink_metadata(folder.join(name)).is_err();
    names.into_iter().find(is_free).unwrap_or_default()
}

/// Gives the draft of a segment its name, a hash of its files, and returns it.
pub(crate) fn publish_segment(index: &Path, info: &SegmentInfo) -> Result<String, DocsError> {
    let segments = index.join(SEGMENTS);
    let mut hash = blake3::Hasher::new();
    for (name, file) in &info.files {
        hash.update(format!("{name} {} {}\n", file.bytes, file.checksum).as_bytes());
    }
    let name = free_name(&segments, hash.finalize().to_hex().as_str(), 1);
    let folder = segments.join(&name);
    let renamed = fs::rename(segments.join(draft_name()), &folder);
    renamed.map_err(|error| DocsError::io("write", &folder, error))?;
    sync_folder(&segments)?;
    Ok(name)
}

/// Makes a draft the current version: renames it, then replaces `CURRENT`.
pub(crate) fn publish(index: &Path, draft: &Path, version: &str) -> Result<(), DocsError> {
    let versions = index.join(VERSIONS);
    let first = CurrentVersion::read(index).map_or(1, |current| current.number().saturating_add(1));
    let name = free_name(&versions, version, first);
    let (folder, next) = (versions.join(&name), index.join("CURRENT.next"));
    let manifest = draft.join(MANIFEST);
    let manifest = fs::read(&manifest).map_err(|error| DocsError::io("read", &manifest, error))?;
    fs::rename(draft, &folder).map_err(|error| DocsError::io("write", &folder, error))?;
    let published = (|| {
        sync_folder(&versions)?;
        let (line, current) = (CurrentVersion::line(&name, &manifest), index.join(CURRENT));
        // The name is fixed, so that the next build replaces the file of an interrupted one.
        replace_file_through(&next, &current, |file| file.write_all(line.as_bytes()))
            .map_err(|error| DocsError::io("write", &current, error))
    })();
    published.inspect_err(|_| _ = fs::remove_dir_all(&folder))?;
    sync_folder(index)
}

/// Returns the name of this process's draft.
pub(crate) fn draft_name() -> String {
    format!("draft-{}", std::process::id())
}

fn is_draft(name: &str) -> bool {
    let number = name.strip_prefix("draft-");
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Removes folders by name. A folder that cannot be removed because a process reads it stays until the next build.
fn remove(folder: &Path, is_match: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(&is_match) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
