//! From a folder to a cache.
//!
//! A version is written beside the present one, and becomes the present one by one rename. Whatever ends a build early
//! (a bad document, a full disk, a signal) leaves the cache as it was.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::cache::{RECORD_BYTES, Record, record_check};
use crate::chunk::{self, chunking};
use crate::index::IndexBuilder;
use crate::manifest::{
    CHUNKS, CONTENTS, CURRENT, Current, LOCK, MANIFEST, ManifestFile, PATHS, POSTINGS, RECORDS,
    TABLE, TERMS, VERSIONS, check_kind, is_version_name,
};
use crate::source::SourceFile;
use crate::words::Words;
use crate::{Cache, DocsError, Manifest, Sources, verify};

/// The largest document that is taken.
const LARGEST: u64 = 64 << 20;

/// How many documents, and how many bytes of them, are worked on at once.
pub(crate) const BATCH: usize = 2_048;
pub(crate) const BATCH_BYTES: u64 = 32 << 20;

/// How far a build has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How many documents have been worked on.
    pub done: usize,
    /// How many there are.
    pub of: usize,
}

/// What a build did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Built {
    /// The version of the cache.
    pub version: String,
    /// How many documents it has.
    pub documents: u32,
    /// How many chunks.
    pub chunks: u64,
    /// How many different words.
    pub terms: u64,
    /// How many documents were not cut into chunks again, because they had not changed.
    pub reused: u32,
    /// Whether nothing had changed, and nothing was written.
    pub is_unchanged: bool,
}

/// Builds the cache at a path, or brings it up to date.
///
/// Documents that have not changed are not cut into chunks again, and if nothing has changed, nothing is written. The
/// version depends on the documents and their paths alone: not on the machine, the order of folders or the number of
/// threads. With `from_scratch`, nothing of the present cache is used.
///
/// # Errors
///
/// [`DocsError::Sources`] with every document that cannot be used, and whatever keeps files from being read or written.
/// The present cache stays as it is.
pub fn build(
    sources: &Sources,
    cache: &Path,
    from_scratch: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Built, DocsError> {
    let files = sources.files(cache)?;
    let _lock = lock(cache)?;
    let before = match Cache::open(cache) {
        Ok(before) => Some(before),
        // What is missing or damaged is made; what cannot be read now is left alone.
        Err(DocsError::NoCache { .. } | DocsError::Invalid { .. }) => None,
        Err(error) => return Err(error),
    };
    let before = before.filter(|before| !from_scratch && before.manifest().chunking == chunking());
    if let Some(before) = &before
        && verify::is_whole(before)
        && is_same(before, &files)
    {
        return Ok(Built::of(before.manifest(), before.len(), true));
    }
    let versions = cache.join(VERSIONS);
    fs::create_dir_all(&versions).map_err(|error| DocsError::io("write", &versions, error))?;
    // What an earlier build left behind when it was stopped.
    remove(&versions, is_draft);
    let draft = versions.join(format!("draft-{}", std::process::id()));
    let built =
        Writer::new(&draft).and_then(|writer| writer.write(&files, before.as_ref(), progress));
    let (manifest, reused) = built.inspect_err(|_| _ = fs::remove_dir_all(&draft))?;
    let name = publish(cache, &versions, &draft, &manifest.version)?;
    remove(&versions, |other| is_version_name(other) && other != name);
    Ok(Built::of(&manifest, reused, false))
}

impl Built {
    fn of(manifest: &Manifest, reused: u32, is_unchanged: bool) -> Self {
        Self {
            version: manifest.version.clone(),
            documents: manifest.documents,
            chunks: manifest.chunks,
            terms: manifest.terms,
            reused,
            is_unchanged,
        }
    }
}

/// What the lock of a cache says, so that no other folder is taken for one.
const MARK: &str = "pannier cache\n";

/// Takes the folder for this build alone, until it ends in whatever way. A folder that is not empty, and not marked as
/// a cache, is left alone.
fn lock(cache: &Path) -> Result<File, DocsError> {
    let failed = |error| DocsError::io("write", cache, error);
    fs::create_dir_all(cache).map_err(failed)?;
    let path = cache.join(LOCK);
    let is_marked = check_kind(&path, false).is_ok()
        && fs::read(&path).is_ok_and(|text| text == MARK.as_bytes());
    let is_link = fs::symlink_metadata(cache.join(VERSIONS)).is_ok_and(|found| !found.is_dir());
    let is_empty = fs::read_dir(cache).map_err(failed)?.next().is_none();
    if !(is_marked || is_empty) || is_link {
        return Err(DocsError::NotACache { path: cache.to_owned() });
    }
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(|error| DocsError::io("write", &path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            return Err(DocsError::Busy { path: cache.to_owned() });
        }
        Err(fs::TryLockError::Error(error)) => return Err(DocsError::io("lock", &path, error)),
    }
    if !is_marked {
        file.write_all(MARK.as_bytes()).map_err(|error| DocsError::io("write", &path, error))?;
    }
    Ok(file)
}

/// Whether a cache is of exactly these files.
fn is_same(before: &Cache, files: &[SourceFile]) -> bool {
    let is_same = |(file, document): (&SourceFile, u32)| {
        let record = before.record(document);
        record.is_ok_and(|record| {
            record.path == file.path && hash_file(&file.file).is_ok_and(|hash| hash == record.hash)
        })
    };
    files.len() == before.len() as usize && files.par_iter().zip(0..before.len()).all(is_same)
}

/// SHA-256 of a file, read piece by piece.
fn hash_file(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&piece[..read]),
        }
    }
}

/// The bytes of a document, or what is wrong with it.
fn read(file: &SourceFile) -> Result<Vec<u8>, String> {
    let path = &file.path;
    let source =
        File::open(&file.file).map_err(|error| format!("{path}: it cannot be read: {error}"))?;
    // With room for one more than there is, the end is met at once.
    let size = source.metadata().map_or(0, |found| found.len().min(LARGEST)) as usize;
    let mut bytes = Vec::with_capacity(size + 1);
    let read = source.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{path}: it cannot be read: {error}"))?;
    match bytes.len() as u64 > LARGEST {
        true => {
            Err(format!("{path}: it is larger than {LARGEST} bytes; split it, or leave it out"))
        }
        false => Ok(bytes),
    }
}

/// What becomes of one document.
struct Prepared {
    content: String,
    hash: [u8; 32],
    chunks: Vec<u8>,
    chunk_count: u32,
    is_reused: bool,
    words: Words,
}

impl Prepared {
    fn new(file: &SourceFile, before: Option<(&Cache, &Record)>) -> Result<Self, String> {
        let content = String::from_utf8(read(file)?).map_err(|error| {
            let (path, place) = (&file.path, error.utf8_error().valid_up_to());
            format!("{path}: it is not UTF-8 at byte {place}; save it as UTF-8, or leave it out")
        })?;
        let hash = <[u8; 32]>::from(Sha256::digest(content.as_bytes()));
        let words = Words::of(&content);
        let same = before.filter(|(_, record)| record.hash == hash);
        let kept = same.and_then(|(cache, record)| {
            // Read back and checked; anything wrong, and they are made again.
            let chunks = cache.chunk_bytes(record).ok()?;
            let (bytes, check) = chunks.split_at_checked(chunks.len().checked_sub(8)?)?;
            let is_sound = check == xxh3_64(bytes).to_le_bytes()
                && chunk::read(bytes, content.len()).is_some();
            is_sound.then(|| (bytes.to_vec(), record.chunk_count))
        });
        let is_reused = kept.is_some();
        let (chunks, chunk_count) = kept.unwrap_or_else(|| {
            let chunks = chunk::chunks(&file.path, &content);
            (chunk::write(&chunks), chunks.len() as u32)
        });
        Ok(Self { content, hash, chunks, chunk_count, is_reused, words })
    }
}

/// Writes a version.
struct Writer {
    folder: PathBuf,
    files: BTreeMap<&'static str, Counted>,
    index: IndexBuilder,
    root: Root,
    documents: u32,
    chunks: u64,
    reused: u32,
    problems: Vec<String>,
}

impl Writer {
    fn new(folder: &Path) -> Result<Self, DocsError> {
        fs::create_dir(folder).map_err(|error| DocsError::io("write", folder, error))?;
        let mut files = BTreeMap::new();
        for name in [TABLE, RECORDS, PATHS, CONTENTS, CHUNKS, TERMS, POSTINGS] {
            files.insert(name, Counted::new(folder.join(name))?);
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            index: IndexBuilder::default(),
            root: Root::new(),
            documents: 0,
            chunks: 0,
            reused: 0,
            problems: Vec::new(),
        })
    }

    fn write(
        mut self,
        files: &[SourceFile],
        before: Option<&Cache>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Manifest, u32), DocsError> {
        let records = before.map_or_else(BTreeMap::new, records);
        let mut rest = files;
        progress(Progress { done: 0, of: files.len() });
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(batch_len(rest));
            let prepared: Vec<Result<Prepared, String>> = batch
                .par_iter()
                .map(|file| Prepared::new(file, before.zip(records.get(file.path.as_str()))))
                .collect();
            self.add(batch, prepared)?;
            rest = after;
            progress(Progress { done: files.len() - rest.len(), of: files.len() });
        }
        if !self.problems.is_empty() {
            return Err(DocsError::Sources { problems: self.problems });
        }
        self.finish()
    }

    /// Adds documents that follow those before. Of bad ones, only the problem is kept.
    fn add(
        &mut self,
        files: &[SourceFile],
        prepared: Vec<Result<Prepared, String>>,
    ) -> Result<(), DocsError> {
        let first = self.documents;
        let mut sound = Vec::with_capacity(prepared.len());
        for (file, prepared) in files.iter().zip(prepared) {
            match prepared {
                Ok(prepared) => sound.push((file, prepared)),
                Err(problem) => self.problems.push(problem),
            }
        }
        if !self.problems.is_empty() {
            return Ok(());
        }
        for (file, prepared) in &sound {
            self.add_document(file, prepared)?;
        }
        self.index
            .add(first, &sound.iter().map(|(_, prepared)| &prepared.words).collect::<Vec<_>>());
        Ok(())
    }

    fn add_document(&mut self, file: &SourceFile, prepared: &Prepared) -> Result<(), DocsError> {
        let Prepared { content, hash, chunks, chunk_count, is_reused, words } = prepared;
        self.root.add(&file.path, hash, chunks);
        let mut record = Vec::with_capacity(RECORD_BYTES);
        for start in [self.bytes(PATHS), self.bytes(CHUNKS)] {
            record.extend_from_slice(&start.to_le_bytes());
        }
        for number in [file.path.len() as u32, chunks.len() as u32 + 8, *chunk_count, 0] {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend_from_slice(hash);
        record.extend_from_slice(&record_check(&record, file.path.as_bytes()).to_le_bytes());
        let table = [content.len() as u32, words.total].map(u32::to_le_bytes).concat();
        self.put(RECORDS, &record)?;
        self.put(PATHS, file.path.as_bytes())?;
        self.put(TABLE, &table)?;
        self.put(CONTENTS, content.as_bytes())?;
        self.put(CHUNKS, chunks)?;
        self.put(CHUNKS, &xxh3_64(chunks).to_le_bytes())?;
        self.documents += 1;
        self.chunks += u64::from(*chunk_count);
        self.reused += u32::from(*is_reused);
        Ok(())
    }

    fn bytes(&self, name: &str) -> u64 {
        self.files.get(name).map_or(0, |file| file.bytes)
    }

    fn put(&mut self, name: &'static str, bytes: &[u8]) -> Result<(), DocsError> {
        match self.files.get_mut(name) {
            Some(file) => {
                file.write_all(bytes).map_err(|error| DocsError::io("write", &file.path, error))
            }
            None => Ok(()),
        }
    }

    /// Writes the index and the manifest, and sees that everything is on the disk.
    fn finish(mut self) -> Result<(Manifest, u32), DocsError> {
        let failed = |error| DocsError::io("write", &self.folder, error);
        let missing = || failed(io::ErrorKind::NotFound.into());
        let mut terms = self.files.remove(TERMS).ok_or_else(missing)?;
        let mut postings = self.files.remove(POSTINGS).ok_or_else(missing)?;
        let count = self.index.write(&mut terms, &mut postings).map_err(failed)?;
        let bytes = self.files.get(CONTENTS).map_or(0, |file| file.bytes);
        self.files.extend([(TERMS, terms), (POSTINGS, postings)]);
        let mut files = BTreeMap::new();
        for (name, file) in self.files {
            files.insert(name.to_owned(), file.finish()?);
        }
        let manifest = Manifest {
            format: Manifest::FORMAT,
            version: self.root.version(),
            documents: self.documents,
            bytes,
            chunks: self.chunks,
            chunking: chunking(),
            terms: count,
            files,
        };
        let path = self.folder.join(MANIFEST);
        let mut text =
            serde_json::to_vec_pretty(&manifest).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        write_synced(&path, &text)?;
        sync_folder(&self.folder)?;
        Ok((manifest, self.reused))
    }
}

/// How many of these files are worked on at once.
fn batch_len(files: &[SourceFile]) -> usize {
    let mut bytes = 0;
    let sizes = files
        .iter()
        .take(BATCH)
        .map(|file| fs::metadata(&file.file).map_or(0, |found| found.len()));
    let fitting = sizes.take_while(|size| {
        bytes += size;
        bytes <= BATCH_BYTES
    });
    fitting.count().max(1)
}

/// The records of a cache, by path. What cannot be read is left out, and made again.
fn records(cache: &Cache) -> BTreeMap<String, Record> {
    let records = (0..cache.len()).filter_map(|document| cache.record(document).ok());
    records.map(|record| (record.path.clone(), record)).collect()
}

/// The hash of everything that a cache holds: how chunks are made, and of every document its path, the hash of its
/// content, and its chunks.
pub(crate) struct Root(blake3::Hasher);

impl Root {
    pub(crate) fn new() -> Self {
        let mut root = Self(blake3::Hasher::new());
        root.put(b"pannier cache 1");
        root.put(chunking().as_bytes());
        root
    }

    pub(crate) fn add(&mut self, path: &str, hash: &[u8; 32], chunks: &[u8]) {
        self.put(path.as_bytes());
        self.put(hash);
        self.put(chunks);
    }

    /// Adds bytes behind their number, so that no two lists of them are the same.
    fn put(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn version(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// A file that knows its size and its checksum.
struct Counted {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    hash: Hashed,
}

/// A checksum of what is written to it.
#[derive(Default)]
pub(crate) struct Hashed(Xxh3);

impl Hashed {
    pub(crate) fn checksum(&self) -> String {
        format!("{:016x}", self.0.digest())
    }
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Counted {
    fn new(path: PathBuf) -> Result<Self, DocsError> {
        let file = File::create_new(&path).map_err(|error| DocsError::io("write", &path, error))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path, file, bytes: 0, hash: Hashed::default() })
    }

    fn finish(self) -> Result<ManifestFile, DocsError> {
        let failed = |error| DocsError::io("write", &self.path, error);
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(ManifestFile { bytes: self.bytes, checksum: self.hash.checksum() })
    }
}

impl Write for Counted {
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

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), DocsError> {
    let failed = |error| DocsError::io("write", path, error);
    let mut file = File::create_new(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

/// Sees that the names in a folder are on the disk, where that can be asked for.
fn sync_folder(path: &Path) -> Result<(), DocsError> {
    if cfg!(unix) {
        let synced = File::open(path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| DocsError::io("write", path, error))?;
    }
    Ok(())
}

/// Makes a draft the present version: it gets its name, and then `CURRENT` is replaced. Tells the name.
fn publish(
    cache: &Path,
    versions: &Path,
    draft: &Path,
    version: &str,
) -> Result<String, DocsError> {
    let first = Current::read(cache).map_or(1, |current| current.number().saturating_add(1));
    let names = (first..=999_999_999).chain(1..first).map(|number| match number {
        1 => version.to_owned(),
        number => format!("{version}-{number}"),
    });
    let name = names.into_iter().find(|name| fs::symlink_metadata(versions.join(name)).is_err());
    let name = name.unwrap_or_default();
    let (folder, next) = (versions.join(&name), cache.join("CURRENT.next"));
    let manifest = draft.join(MANIFEST);
    let manifest = fs::read(&manifest).map_err(|error| DocsError::io("read", &manifest, error))?;
    fs::rename(draft, &folder).map_err(|error| DocsError::io("write", &folder, error))?;
    let published = (|| {
        sync_folder(versions)?;
        // What an earlier build left behind, or a link that somebody put there.
        let _ = fs::remove_file(&next);
        write_synced(&next, Current::line(&name, &manifest).as_bytes())?;
        let current = cache.join(CURRENT);
        fs::rename(&next, &current).map_err(|error| DocsError::io("write", &current, error))
    })();
    published.inspect_err(|_| {
        let _ = fs::remove_file(&next);
        let _ = fs::remove_dir_all(&folder);
    })?;
    sync_folder(cache)?;
    Ok(name)
}

fn is_draft(name: &str) -> bool {
    let number = name.strip_prefix("draft-");
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Removes folders of these names. What cannot be removed, because somebody still reads it, stays until the next build.
fn remove(versions: &Path, is_meant: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(versions) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(&is_meant) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
