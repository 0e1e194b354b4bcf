//! Writing index versions to disk.
//!
//! One build at a time holds the lock. It writes a version as a draft next to the current one, syncs it, and publishes it by
//! one rename. An interrupted build leaves a draft that nobody reads and that the next build removes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pannier_files::{FileLock, replace_file_through};
use xxhash_rust::xxh3::Xxh3;

use crate::DocsError;
use crate::manifest::{
    CURRENT, CurrentVersion, LOCK, MANIFEST, ManifestFile, VERSIONS, check_kind,
};

/// The content of the lock file. It marks a folder as an index.
const LOCK_MAGIC: &str = "pannier cache\n";

/// Locks the folder for one build. A folder that is neither empty nor marked as an index is rejected.
pub(crate) fn lock(index: &Path) -> Result<FileLock, DocsError> {
    let failed = |error| DocsError::io("write", index, error);
    fs::create_dir_all(index).map_err(failed)?;
    let path = index.join(LOCK);
    // A build that was interrupted at its start leaves an empty lock file.
    let is_marked = check_kind(&path, false).is_ok()
        && fs::read(&path).is_ok_and(|text| text == LOCK_MAGIC.as_bytes() || text.is_empty());
    let is_link =
        fs::symlink_metadata(index.join(VERSIONS)).is_ok_and(|metadata| !metadata.is_dir());
    let is_empty = fs::read_dir(index).map_err(failed)?.next().is_none();
    if !(is_marked || is_empty) || is_link {
        return Err(DocsError::NotAnIndex { path: index.to_owned() });
    }
    let failed = |error| DocsError::io("lock", &path, error);
    let Some(lock) = FileLock::try_acquire(&path).map_err(failed)? else {
        return Err(DocsError::Busy { path: index.to_owned() });
    };
    let mut file = lock.file();
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        let marked = file.write_all(LOCK_MAGIC.as_bytes()).and_then(|()| file.sync_all());
        marked.map_err(|error| DocsError::io("write", &path, error))?;
    }
    Ok(lock)
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

/// Makes a draft the current version: renames it, then replaces `CURRENT`. Returns its name.
pub(crate) fn publish(
    index: &Path,
    versions: &Path,
    draft: &Path,
    version: &str,
) -> Result<String, DocsError> {
    let first = CurrentVersion::read(index).map_or(1, |current| current.number().saturating_add(1));
    let names = (first..=999_999_999).chain(1..first).map(|number| match number {
        1 => version.to_owned(),
        number => format!("{version}-{number}"),
    });
    let name = names.into_iter().find(|name| fs::symlink_metadata(versions.join(name)).is_err());
    let name = name.unwrap_or_default();
    let (folder, next) = (versions.join(&name), index.join("CURRENT.next"));
    let manifest = draft.join(MANIFEST);
    let manifest = fs::read(&manifest).map_err(|error| DocsError::io("read", &manifest, error))?;
    fs::rename(draft, &folder).map_err(|error| DocsError::io("write", &folder, error))?;
    let published = (|| {
        sync_folder(versions)?;
        let (line, current) = (CurrentVersion::line(&name, &manifest), index.join(CURRENT));
        // The name is fixed, so that the next build replaces the file of an interrupted one.
        replace_file_through(&next, &current, |file| file.write_all(line.as_bytes()))
            .map_err(|error| DocsError::io("write", &current, error))
    })();
    published.inspect_err(|_| _ = fs::remove_dir_all(&folder))?;
    sync_folder(index)?;
    Ok(name)
}

pub(crate) fn is_draft(name: &str) -> bool {
    let number = name.strip_prefix("draft-");
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Removes version folders by name. A folder that cannot be removed because a process reads it stays until the next build.
pub(crate) fn remove(versions: &Path, is_match: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(versions) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(&is_match) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
