//! Whether a cache is, in every byte, what its documents make of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::chunk::{self, ChunkRow, chunker_version};
use crate::inverted_index::IndexBuilder;
use crate::manifest::{
    CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CurrentVersion, FILES, MANIFEST, Manifest, POSTINGS,
    TABLE, TERMS, check_kind,
};
use crate::store::ChecksumWriter;
use crate::word_counts::WordCounts;
use crate::{DocsError, DocumentIndex, build};

/// Everything that is wrong with the cache at a path, a line each; nothing if it is sound.
///
/// Contents are held against their hashes, chunks and the index are made again and compared, and so is the version.
///
/// # Errors
///
/// [`DocsError::NoCache`], or whatever keeps files from being read.
pub fn verify(path: &Path) -> Result<Vec<String>, DocsError> {
    loop {
        // A build may replace the version that is looked at, and remove it.
        let before = CurrentVersion::read(path).ok();
        let found = verify_once(path);
        let is_sound = found.as_ref().is_ok_and(Vec::is_empty);
        if is_sound || CurrentVersion::read(path).ok() == before {
            return found;
        }
    }
}

fn verify_once(path: &Path) -> Result<Vec<String>, DocsError> {
    let mut problems = Vec::new();
    let current = match CurrentVersion::read(path) {
        Ok(current) => current,
        Err(error) => return finding(error),
    };
    if let Err(error) = current.check() {
        return finding(error);
    }
    check_names(&current.folder, &mut problems)?;
    match Manifest::read(&current) {
        Ok(manifest) => check_files(&current.folder, &manifest, &mut problems)?,
        Err(error) => problems.extend(finding(error)?),
    }
    match DocumentIndex::open(path) {
        Ok(cache) => check_contents(&cache, &mut problems)?,
        Err(error) => problems.extend(finding(error)?),
    }
    let mut seen = BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    Ok(problems)
}

/// What is wrong with a cache, as a finding; what keeps it from being looked at stays an error.
fn finding(error: DocsError) -> Result<Vec<String>, DocsError> {
    match error {
        DocsError::Invalid { path, problem } => Ok(vec![format!("{}: {problem}", path.display())]),
        error => Err(error),
    }
}

/// Names what does not belong into the folder of a version.
fn check_names(folder: &Path, problems: &mut Vec<String>) -> Result<(), DocsError> {
    let failed = |error| DocsError::io("read", folder, error);
    let mut extra = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !FILES.iter().chain(&[MANIFEST]).any(|known| name == **known) {
            extra.push(format!("{}: it does not belong here", folder.join(&name).display()));
        }
    }
    extra.sort_unstable();
    problems.extend(extra);
    Ok(())
}

/// Holds every file against its size and checksum.
fn check_files(
    folder: &Path,
    manifest: &Manifest,
    problems: &mut Vec<String>,
) -> Result<(), DocsError> {
    for name in FILES {
        if let Err(error) = check_file(&folder.join(name), manifest.file(name)) {
            problems.extend(finding(error)?);
        }
    }
    Ok(())
}

/// Whether every file of a cache has the size and the checksum that it should have.
pub(crate) fn checksums_match(cache: &DocumentIndex) -> bool {
    let mut problems = Vec::new();
    check_files(cache.folder(), cache.manifest(), &mut problems).is_ok() && problems.is_empty()
}

fn check_file(path: &Path, (bytes, checksum): (u64, &str)) -> Result<(), DocsError> {
    let found = check_kind(path, false)?;
    if found != bytes {
        let problem = format!("it has {found} bytes, and should have {bytes}");
        return Err(DocsError::invalid(path, problem));
    }
    let mut file = fs::File::open(path).map_err(|error| DocsError::io("read", path, error))?;
    let mut hash = ChecksumWriter::default();
    std::io::copy(&mut file, &mut hash).map_err(|error| DocsError::io("read", path, error))?;
    match hash.checksum() == checksum {
        true => Ok(()),
        false => Err(DocsError::invalid(path, "its checksum is another one")),
    }
}

/// Where the documents end that are looked at together from here on.
fn batch_end(cache: &DocumentIndex, first: u32) -> u32 {
    let mut bytes = 0;
    let fits = |document: &u32| {
        bytes += cache.content_bytes(*document);
        bytes <= build::BATCH_BYTES
    };
    let count = (first..cache.len()).take(build::BATCH_DOCUMENTS).take_while(fits).count();
    first + (count as u32).max(1)
}

/// Makes everything again from the contents, and compares.
fn check_contents(cache: &DocumentIndex, problems: &mut Vec<String>) -> Result<(), DocsError> {
    let folder = cache.folder();
    let (mut index, mut chunk_index) = (IndexBuilder::default(), IndexBuilder::default());
    let mut chunk_table = ChecksumWriter::default();
    let mut root =
        build::VersionHasher::new(&cache.manifest().chunking, cache.manifest().model.as_ref());
    let is_ours = cache.manifest().chunking == chunker_version();
    let mut last: Option<String> = None;
    let mut chunks_in_all = 0;
    let mut is_whole = true;
    let mut first = 0;
    while first < cache.len() {
        let (mut words, mut terms, first_chunk) = (Vec::new(), Vec::new(), chunks_in_all);
        let end = batch_end(cache, first);
        for number in first..end {
            let found = cache
                .document(number)
                .and_then(|document| Ok((document, cache.record(number)?, cache.chunks(number)?)));
            let (document, record, chunks) = match found {
                Ok(found) => found,
                Err(error) => {
                    problems.extend(finding(error)?);
                    is_whole = false;
                    continue;
                }
            };
            if last.as_ref().is_some_and(|last| *last >= document.id) {
                problems.push(format!(
                    "{}: {} is not in the order of ids",
                    folder.join("records").display(),
                    document.path
                ));
            }
            let title = record.metadata.title.as_deref();
            let made = chunk::chunks(&document.path, &document.content, title);
            if !chunk::are_char_boundaries(&chunks, &document.content) || made != chunks && is_ours
            {
                problems.push(format!(
                    "{}: the chunks of {} are not what its content makes",
                    folder.join("chunks").display(),
                    document.path
                ));
            }
            root.add(&document.path, &record.hash, &record.metadata, &chunk::write(&chunks));
            for chunk in
                chunks.iter().filter(|_| chunk::are_char_boundaries(&chunks, &document.content))
            {
                let found = chunk.terms(&document.content);
                let row = ChunkRow::new(number, chunk, &document.content, &found);
                chunk_table
                    .write_all(&row.bytes())
                    .map_err(|error| DocsError::io("read", folder, error))?;
                terms.push(found);
            }
            chunks_in_all += chunks.len() as u64;
            let counted = WordCounts::new(&document.content);
            if counted.total != cache.word_count(number) {
                problems.push(format!(
                    "{}: {} has {} words, and the table says {}",
                    folder.join(TABLE).display(),
                    document.path,
                    counted.total,
                    cache.word_count(number)
                ));
            }
            words.push(counted);
            last = Some(document.id);
        }
        index.add(first, &words.iter().collect::<Vec<_>>());
        chunk_index.add(first_chunk as u32, &terms.iter().collect::<Vec<_>>());
        first = end;
    }
    if !is_whole {
        return Ok(());
    }
    let manifest = cache.manifest();
    if root.version() != manifest.version || chunks_in_all != manifest.chunks {
        problems.push(format!(
            "{}: its version or its counts are not what the documents make",
            folder.join(MANIFEST).display()
        ));
    }
    let mut check = |name: &str, made: &ChecksumWriter| {
        if made.checksum() != manifest.file(name).1 {
            let path = folder.join(name);
            problems.push(format!("{}: it is not what the documents make", path.display()));
        }
    };
    if !is_ours {
        // Made by another version, whose terms cannot be made again.
        return Ok(());
    }
    check(CHUNK_TABLE, &chunk_table);
    let indexes = [(index, TERMS, POSTINGS), (chunk_index, CHUNK_TERMS, CHUNK_POSTINGS)];
    for (index, terms_name, postings_name) in indexes {
        let (mut terms, mut postings) = (ChecksumWriter::default(), ChecksumWriter::default());
        index
            .write(&mut terms, &mut postings)
            .map_err(|error| DocsError::io("read", folder, error))?;
        check(terms_name, &terms);
        check(postings_name, &postings);
    }
    Ok(())
}
