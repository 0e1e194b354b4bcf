//! Reads untrusted files of a project.
//!
//! A symlink can point outside the project, and a path can name a pipe that never ends. Only regular files are read, only
//! inside the project after resolving links, and only up to a size limit.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pannier_files::read_bounded;

use crate::MemoryError;

/// The result of reading a file.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    Missing,
    /// The reason for not reading it.
    Refused(&'static str),
    Bytes(Vec<u8>),
}

/// Reads a file of at most `max_bytes` below `root`, which must be canonical.
pub(crate) fn read(root: &Path, path: &Path, max_bytes: u64) -> Result<ReadOutcome, MemoryError> {
    let failed = |error| MemoryError::io("read", path, error);
    let target = match resolve_contained(root, path)? {
        ContainedPath::Missing => return Ok(ReadOutcome::Missing),
        ContainedPath::Refused(problem) => return Ok(ReadOutcome::Refused(problem)),
        ContainedPath::Resolved(target) => target,
    };
    // Opening a pipe blocks until someone writes to it.
    if !fs::metadata(&target).map_err(failed)?.is_file() {
        return Ok(ReadOutcome::Refused("it is not a file, so it is not read"));
    }
    let file = File::open(&target).map_err(failed)?;
    match read_bounded(file, max_bytes).map_err(failed)? {
        Some(bytes) => Ok(ReadOutcome::Bytes(bytes)),
        None => Err(MemoryError::TooLong { path: path.to_owned(), max_bytes }),
    }
}

/// The target of a path, if it is inside a root.
#[derive(Debug)]
pub(crate) enum ContainedPath {
    Missing,
    Refused(&'static str),
    Resolved(PathBuf),
}

/// Resolves the links of `path` and checks that the target is below `root`, which must be canonical.
pub(crate) fn resolve_contained(root: &Path, path: &Path) -> Result<ContainedPath, MemoryError> {
    let is_missing = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    match fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if is_missing(error.kind()) => return Ok(ContainedPath::Missing),
        Err(error) => return Err(MemoryError::io("read", path, error)),
    }
    match path.canonicalize() {
        Ok(target) if target.starts_with(root) => Ok(ContainedPath::Resolved(target)),
        Ok(_) => Ok(ContainedPath::Refused(
            "it is a link to a target outside the project, so it is not read",
        )),
        Err(error) if is_missing(error.kind()) => {
            Ok(ContainedPath::Refused("it is a dangling link, so it is not read"))
        }
        Err(error) => Err(MemoryError::io("read", path, error)),
    }
}
