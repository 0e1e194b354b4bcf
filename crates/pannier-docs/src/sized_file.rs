//! A file of an index whose size is known.
//!
//! Files are read, not mapped into memory: a file that shrinks is an error, not a crash.

use std::fs::File;
use std::path::PathBuf;

use crate::manifest::{check_kind, open_error};
use crate::{DocsError, document_index};

/// Up to this size, memory comes as zeros from the system. Above it, a lack of memory is an error, and zeros are written.
const MAX_ZEROED_BYTES: usize = 64 << 20;

/// An open file with the size that the manifest records.
#[derive(Debug)]
pub(crate) struct SizedFile {
    path: PathBuf,
    pub(crate) file: File,
    pub(crate) bytes: u64,
}

impl SizedFile {
    pub(crate) fn open(path: PathBuf, bytes: u64) -> Result<Self, DocsError> {
        let actual = check_kind(&path, false)?;
        if actual != bytes {
            let problem = format!("it has {actual} bytes instead of {bytes}");
            return Err(DocsError::invalid(&path, problem));
        }
        let file = File::open(&path).map_err(|error| open_error(&path, error))?;
        Ok(Self { path, file, bytes })
    }

    pub(crate) fn invalid(&self, problem: &str) -> DocsError {
        DocsError::invalid(&self.path, problem)
    }

    /// Reads the whole file, and checks its checksum.
    pub(crate) fn read_whole(&self, checksum: &str) -> Result<Vec<u8>, DocsError> {
        let bytes = self.read(0, self.bytes)?;
        match document_index::checksum(&bytes) == checksum {
            true => Ok(bytes),
            false => Err(self.invalid("its checksum does not match")),
        }
    }

    /// Reads `length` bytes from `start`.
    pub(crate) fn read(&self, start: u64, length: u64) -> Result<Vec<u8>, DocsError> {
        let is_within = start.checked_add(length).is_some_and(|end| end <= self.bytes);
        let size = usize::try_from(length).ok().filter(|_| is_within);
        let size = size.ok_or_else(|| self.invalid("it refers to bytes beyond its end"))?;
        let mut bytes = Vec::new();
        if size <= MAX_ZEROED_BYTES {
            bytes = vec![0; size];
        } else {
            bytes
                .try_reserve_exact(size)
                .map_err(|_| self.invalid("it refers to more bytes than memory can hold"))?;
            bytes.resize(size, 0);
        }
        read_exact_at(&self.file, &mut bytes, start).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.invalid("it was truncated while it was open"),
            _ => DocsError::io("read", &self.path, error),
        })?;
        Ok(bytes)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;

    while !bytes.is_empty() {
        match file.seek_read(bytes, start)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                start += read as u64;
            }
        }
    }
    Ok(())
}
