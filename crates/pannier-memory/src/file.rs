//! Reads files of a project that somebody else may have written.
//!
//! A link can lead anywhere, and a name can belong to a pipe that never ends. What is read is a file, lies within the
//! project whatever its path goes through, and has an end that is not too far.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pannier_files::read_bounded;

use crate::MemoryError;

/// What became of reading a file.
#[derive(Debug)]
pub(crate) enum Reading {
    Missing,
    /// Why it was not read.
    Refused(&'static str),
    Bytes(Vec<u8>),
}

/// Reads a file of at most so many bytes below a root, which is given without links.
pub(crate) fn read(root: &Path, path: &Path, most: u64) -> Result<Reading, MemoryError> {
    let failed = |error| MemoryError::io("read", path, error);
    let found = match within(root, path)? {
        Within::Missing => return Ok(Reading::Missing),
        Within::Refused(problem) => return Ok(Reading::Refused(problem)),
        Within::At(found) => found,
    };
    // Opening a pipe would wait for somebody to write to it.
    if !fs::metadata(&found).map_err(failed)?.is_file() {
        return Ok(Reading::Refused("it is not a file, so it is not read"));
    }
    let file = File::open(&found).map_err(failed)?;
    match read_bounded(file, most).map_err(failed)? {
        Some(bytes) => Ok(Reading::Bytes(bytes)),
        None => Err(MemoryError::TooLong { path: path.to_owned(), most }),
    }
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) enum Within {
    Missing,
    Refused(&'static str),
    At(PathBuf),
}

/// Follows a path, if it leads to something below a root, which is given without links.
pub(crate) fn within(root: &Path, path: &Path) -> Result<Within, MemoryError> {
    let is_missing = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    match fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if is_missing(error.kind()) => return Ok(Within::Missing),
        Err(error) => return Err(MemoryError::io("read", path, error)),
    }
    match path.canonicalize() {
        Ok(found) if found.starts_with(root) => Ok(Within::At(found)),
        Ok(_) => {
            Ok(Within::Refused("it is a link that leads out of the project, so it is not read"))
        }
        Err(error) if is_missing(error.kind()) => {
            Ok(Within::Refused("it is a link that leads nowhere, so it is not read"))
        }
        Err(error) => Err(MemoryError::io("read", path, error)),
    }
}
