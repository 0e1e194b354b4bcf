//! Reads untrusted files of a project.
//!
//! A symlink can point outside the project, and a path can name a pipe that never ends. Only regular files are read, only
//! inside the project after resolving links, and only up to a size limit.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pannier_files::read_bounded;

use crate::MemoryError;

/// The reason why something exists but is not read.
pub(crate) type Refusal = &'static str;

/// Reads a file of at most `max_bytes` below `root`, which must be canonical. Returns `None` if it is missing.
pub(crate) fn read(
    root: &Path,
    path: &Path,
    max_bytes: u64,
) -> Result<Result<Option<Vec<u8>>, Refusal>, MemoryError> {
    let failed = |error| MemoryError::io("read", path, error);
    let target = match resolve_contained(root, path)? {
        Ok(Some(target)) => target,
        Ok(None) => return Ok(Ok(None)),
        Err(refusal) => return Ok(Err(refusal)),
    };
    // Opening a pipe blocks until someone writes to it.
    if !fs::metadata(&target).map_err(failed)?.is_file() {
        return Ok(Err("it is not a file, so it is not read"));
    }
    let file = File::open(&target).map_err(failed)?;
    match read_bounded(file, max_bytes).map_err(failed)? {
        // Replacement characters in place of a binary file would fill the packet.
        Some(bytes) if bytes.contains(&0) => {
            Ok(Err("it is binary or UTF-16, so it is not read; save it as UTF-8"))
        }
        Some(bytes) => Ok(Ok(Some(bytes))),
        None => Err(MemoryError::TooLong { path: path.to_owned(), max_bytes }),
    }
}

/// Resolves the links of `path` and checks that the target is below `root`, which must be canonical. Returns `None` if the
/// path is missing.
pub(crate) fn resolve_contained(
    root: &Path,
    path: &Path,
) -> Result<Result<Option<PathBuf>, Refusal>, MemoryError> {
    let is_missing = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    match fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if is_missing(error.kind()) => return Ok(Ok(None)),
        Err(error) => return Err(MemoryError::io("read", path, error)),
    }
    match path.canonicalize() {
        Ok(target) if target.starts_with(root) => Ok(Ok(Some(target))),
        Ok(_) => Ok(Err("it is a link to a target outside the project, so it is not read")),
        Err(error) if is_missing(error.kind()) => {
            Ok(Err("it is a dangling link, so it is not read"))
        }
        Err(error) => Err(MemoryError::io("read", path, error)),
    }
}
