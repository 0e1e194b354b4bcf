//! Reads with a byte limit.
//!
//! The size that a file system reports can be wrong by the time a file is read, so the limit holds for the bytes
//! themselves.

use std::fs::File;
use std::io::{self, Read};

/// Reads `source` to its end, or returns `None` if it has more than `max_bytes`.
///
/// # Errors
///
/// The error of `source`.
pub fn read_bounded(source: impl Read, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    read_into(Vec::new(), source, max_bytes)
}

/// Reads an open file to its end, or returns `None` if it has more than `max_bytes`. Allocates once, by the file's size.
///
/// # Errors
///
/// The error of the operating system, or [`io::ErrorKind::OutOfMemory`].
pub fn read_file_bounded(file: &File, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    if size > max_bytes {
        return Ok(None);
    }
    // With capacity for one byte more, the end of the file is found without growing.
    let capacity = usize::try_from(size.saturating_add(1)).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(capacity).map_err(|_| io::ErrorKind::OutOfMemory)?;
    read_into(bytes, file, max_bytes)
}

fn read_into(mut bytes: Vec<u8>, source: impl Read, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    source.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= max_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_store::tests::Scratch;

    #[test]
    fn more_bytes_than_the_limit_are_none() {
        assert_eq!(read_bounded(&b"0123"[..], 4).unwrap().as_deref(), Some(&b"0123"[..]));
        assert_eq!(read_bounded(&b"0123"[..], 3).unwrap(), None);
        assert_eq!(read_bounded(&b""[..], 0).unwrap(), Some(vec![]));
        assert_eq!(read_bounded(&b"0"[..], u64::MAX).unwrap().map(|bytes| bytes.len()), Some(1));
        let scratch = Scratch::new("bounded");
        let path = scratch.0.join("file");
        std::fs::write(&path, "0123").unwrap();
        let read = |max| read_file_bounded(&File::open(&path).unwrap(), max).unwrap();
        assert_eq!(read(4).as_deref(), Some(&b"0123"[..]));
        assert_eq!(read(3), None);
    }
}
