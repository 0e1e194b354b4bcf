//! The vectors of a build that has not ended: a log, so that a build that was interrupted does not compute them again.
//!
//! Vectors are appended in batches, each with a checksum, by the hash of the text that they were computed from. A batch that
//! was not written completely is dropped when the log is opened. The log belongs to one model. A build that ends removes it,
//! because its vectors are then in a segment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::varint::write_str;
use crate::vectors::{KEY_BYTES, KeyedVector, VectorKey};
use crate::{DocsError, Model};

pub(crate) const VECTOR_LOG: &str = "vector-log";
const MAGIC: &str = "pannier vectors 1";

/// The maximum number of vectors in a batch.
const MAX_BATCH: u32 = 1 << 16;

/// The log of a build.
#[derive(Debug)]
pub(crate) struct VectorLog {
    path: PathBuf,
    file: File,
    /// The offset of each vector.
    offsets: BTreeMap<VectorKey, u64>,
    vector_bytes: usize,
    end: u64,
}

impl VectorLog {
    /// Opens the log of an index, or starts an empty one if the log is missing or of another model.
    pub(crate) fn open(index: &Path, model: &Model) -> Result<Self, DocsError> {
        let path = index.join(VECTOR_LOG);
        // A link would be written through.
        if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(DocsError::invalid(&path, "it is not a regular file"));
        }
        let failed = |error| DocsError::io("write", &path, error);
        let options =
            File::options().read(true).write(true).create(true).truncate(false).to_owned();
        let mut file = options.open(&path).map_err(failed)?;
        let header = header(model);
        let vector_bytes = model.dimensions as usize * 2;
        let read = read(&mut file, &header, vector_bytes).map_err(failed)?;
        let (offsets, end) = match read {
            Some(read) => read,
            None => {
                file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
                file.write_all(&header).map_err(failed)?;
                (BTreeMap::new(), header.len() as u64)
            }
        };
        // Drops a batch that was not written completely.
        file.set_len(end).map_err(failed)?;
        Ok(Self { path, file, offsets, vector_bytes, end })
    }

    /// Reads a vector.
    pub(crate) fn get(&mut self, key: &VectorKey) -> Result<Option<Vec<u8>>, DocsError> {
        let Some(offset) = self.offsets.get(key) else { return Ok(None) };
        let mut bytes = vec![0; self.vector_bytes];
        let read = self.file.seek(SeekFrom::Start(*offset));
        read.and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|error| DocsError::io("read", &self.path, error))?;
        Ok(Some(bytes))
    }

    /// Appends vectors.
    pub(crate) fn append(&mut self, batch: &[KeyedVector]) -> Result<(), DocsError> {
        for batch in batch.chunks(MAX_BATCH as usize) {
            let mut bytes = (batch.len() as u32).to_le_bytes().to_vec();
            let mut offsets = Vec::with_capacity(batch.len());
            for (key, vector) in batch {
                bytes.extend_from_slice(key);
                offsets.push((*key, self.end + bytes.len() as u64));
                bytes.extend_from_slice(vector);
            }
            let check = xxh3_64(&bytes);
            bytes.extend_from_slice(&check.to_le_bytes());
            let written = self.file.seek(SeekFrom::Start(self.end));
            written
                .and_then(|_| self.file.write_all(&bytes))
                .map_err(|error| DocsError::io("write", &self.path, error))?;
            self.end += bytes.len() as u64;
            self.offsets.extend(offsets);
        }
        Ok(())
    }
}

fn header(model: &Model) -> Vec<u8> {
    let mut header = Vec::new();
    for text in [MAGIC, &model.name, &model.hash, &model.dimensions.to_string()] {
        write_str(&mut header, text);
    }
    header
}

/// Reads the offsets of all vectors in complete batches, and the end of the last one. Returns `None` if the header differs.
fn read(
    file: &mut File,
    header: &[u8],
    vector_bytes: usize,
) -> io::Result<Option<(BTreeMap<VectorKey, u64>, u64)>> {
    let length = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut own = vec![0; header.len()];
    if !read_exact(&mut reader, &mut own)? || own != header {
        return Ok(None);
    }
    let (mut offsets, mut end) = (BTreeMap::new(), header.len() as u64);
    loop {
        let mut batch = vec![0; 4];
        if !read_exact(&mut reader, &mut batch)? {
            break;
        }
        let count = u32::from_le_bytes(batch.as_slice().try_into().unwrap_or_default());
        let size = u64::from(count) * (KEY_BYTES + vector_bytes) as u64;
        // A damaged count does not reserve memory beyond the file.
        if count > MAX_BATCH || size > length {
            break;
        }
        batch.resize(4 + size as usize, 0);
        let mut check = [0; 8];
        if !read_exact(&mut reader, &mut batch[4..])?
            || !read_exact(&mut reader, &mut check)?
            || check != xxh3_64(&batch).to_le_bytes()
        {
            break;
        }
        let vectors = batch[4..].chunks_exact(KEY_BYTES + vector_bytes);
        for (position, vector) in vectors.enumerate() {
            let start = 4 + position * (KEY_BYTES + vector_bytes) + KEY_BYTES;
            if let Some(key) = vector.first_chunk() {
                offsets.insert(*key, end + start as u64);
            }
        }
        end += 4 + size + 8;
    }
    Ok(Some((offsets, end)))
}

/// Fills a buffer, or returns false at the end of the file.
fn read_exact(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_batches_survive_any_cut_or_damage() {
        let folder = std::env::temp_dir().join(format!("pannier-log-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(VECTOR_LOG);
        let model = Model::new("letters", "f00d", 2);
        let open = || VectorLog::open(&folder, &model).unwrap();
        let vector = |number: u8| ([number; KEY_BYTES], vec![number; 4]);
        let mut log = open();
        log.append(&[vector(1), vector(2)]).unwrap();
        let first = log.end;
        log.append(&[vector(3)]).unwrap();
        let second = log.end;
        drop(log);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, second);
        let check = |length: u64| {
            let mut log = open();
            for (number, end) in [(1, first), (2, first), (3, second)] {
                let expected = (length >= end).then(|| vector(number).1);
                assert_eq!(log.get(&vector(number).0).unwrap(), expected, "{length}");
            }
            // What follows a cut is complete again.
            log.append(&[vector(4)]).unwrap();
            drop(log);
            assert_eq!(open().get(&vector(4).0).unwrap(), Some(vector(4).1), "{length}");
        };
        for length in 0..=bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            check(length as u64);
            if length < bytes.len() {
                let mut damaged = bytes.clone();
                damaged[length] ^= 0x40;
                fs::write(&path, &damaged).unwrap();
                check(match length as u64 {
                    position if position < header(&model).len() as u64 => 0,
                    position if position < first => first - 1,
                    _ => first,
                });
            }
        }
        // Another model starts another log.
        fs::write(&path, &bytes).unwrap();
        let mut other = VectorLog::open(&folder, &Model::new("letters", "beef", 2)).unwrap();
        assert_eq!(other.get(&vector(1).0).unwrap(), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
