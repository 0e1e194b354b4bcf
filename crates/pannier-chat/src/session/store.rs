//! Keeps the content of cut blocks in files, for sessions whose history is gone.
//!
//! A file has the hash of its content as its name, so equal blocks are stored once and an id finds its file by its digits.
//! Files are readable by their owner alone. Old files, and the oldest beyond a total size, are removed after each addition, but
//! never those of its request.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pannier_files::{FileLock, read_file_bounded, replace_private_file_unsynced};

use super::id::BlockHash;
use super::{CutForm, Fitted};
use crate::ChatError;

const EXTENSION: &str = "txt";
const LOCK: &str = "lock";

/// The limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecallStoreOptions {
    /// The maximum bytes of all files; default: 256 MiB.
    pub max_bytes: u64,
    /// The age after which a file is removed; default: 30 days.
    pub max_age: Duration,
}

impl Default for RecallStoreOptions {
    fn default() -> Self {
        Self { max_bytes: 256 << 20, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// A folder with the content of cut blocks.
#[derive(Clone, Debug)]
pub struct RecallStore {
    folder: PathBuf,
    options: RecallStoreOptions,
}

impl RecallStore {
    /// Keeps files in `folder`, which is created on the first addition.
    pub fn in_folder(folder: impl Into<PathBuf>, options: RecallStoreOptions) -> Self {
        Self { folder: folder.into(), options }
    }

    /// Adds the content of all cut blocks of a request, and removes old files of other requests. The caller passes the current
    /// time.
    ///
    /// # Errors
    ///
    /// [`ChatError::Store`] if a file cannot be written.
    pub fn add(&self, fitted: &Fitted<'_, '_>, now: SystemTime) -> Result<(), ChatError> {
        if fitted.cuts().is_empty() {
            return Ok(());
        }
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| {
                let problem = error.to_string();
                ChatError::Store { action, path, problem }
            }
        };
        create_private(&self.folder).map_err(failed("write", &self.folder))?;
        let lock = self.folder.join(LOCK);
        let _lock = FileLock::acquire(&lock).map_err(failed("lock", &lock))?;
        let (mut omitted, mut named) = (None, BTreeSet::new());
        for cut in fitted.cuts() {
            if cut.form == CutForm::Omitted && omitted.replace(&cut.id) == Some(&cut.id) {
                continue;
            }
            let Some(content) = fitted.content(cut) else { continue };
            let digits = BlockHash::new(&content).digits();
            let path = self.path(&digits);
            // After a power failure, a file may be empty.
            if fs::read(&path).is_ok_and(|stored| stored == content.as_bytes()) {
                // Its age is that of the last request that named it.
                let file = fs::File::options().write(true).open(&path);
                file.and_then(|file| file.set_modified(now)).map_err(failed("write", &path))?;
            } else {
                replace_private_file_unsynced(&path, content.as_bytes())
                    .map_err(failed("write", &path))?;
            }
            named.insert(digits);
        }
        self.remove_old(&named, now);
        Ok(())
    }

    /// Returns the content of the block with a recall id, or `None` unless exactly one block has it.
    ///
    /// # Errors
    ///
    /// [`ChatError::Store`] if the file cannot be read.
    pub fn recall(&self, id: &str) -> Result<Option<String>, ChatError> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.is_empty() || !id.bytes().all(is_hex) {
            return Ok(None);
        }
        let mut matches = self.files().into_iter().filter(|file| file.name.starts_with(id));
        let (Some(file), None) = (matches.next(), matches.next()) else { return Ok(None) };
        let path = self.path(&file.name);
        let failed =
            |problem: String| ChatError::Store { action: "read", path: path.clone(), problem };
        let bytes = fs::File::open(&path)
            .and_then(|file| read_file_bounded(&file, self.options.max_bytes))
            .map_err(|error| failed(error.to_string()))?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        // Somebody else may have changed it.
        Ok(text.filter(|text| BlockHash::new(text).digits() == file.name))
    }

    fn path(&self, digits: &str) -> PathBuf {
        self.folder.join(digits).with_extension(EXTENSION)
    }

    fn files(&self) -> Vec<StoredFile> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let stored = entries.flatten().filter_map(|entry| {
            let path = entry.path();
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let name = path.file_stem()?.to_str()?.to_owned();
            let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION);
            let written = metadata.modified().ok()?;
            is_ours.then_some(StoredFile { written, name, bytes: metadata.len() })
        });
        let mut files: Vec<StoredFile> = stored.collect();
        files.sort_unstable();
        files
    }

    /// Removes files that are too old, and the oldest ones beyond the maximum size, except those with these names.
    fn remove_old(&self, named: &BTreeSet<String>, now: SystemTime) {
        let mut bytes = 0_u64;
        for file in self.files().into_iter().rev() {
            bytes = bytes.saturating_add(file.bytes);
            let age = now.duration_since(file.written).unwrap_or_default();
            let is_old = bytes > self.options.max_bytes || age > self.options.max_age;
            if is_old && !named.contains(&file.name) {
                // A file that cannot be removed now is tried again after the next addition.
                let _ = fs::remove_file(self.path(&file.name));
            }
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct StoredFile {
    written: SystemTime,
    name: String,
    bytes: u64,
}

/// Creates a folder that only its owner can read, so that no file in it is public before its mode is set.
fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
