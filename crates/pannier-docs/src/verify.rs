//! Verification: rebuilds everything from the stored contents and compares it with the index.
//!
//! Time is that of a build, without reading the source folder. Contents are processed in batches, so memory does not grow with
//! their size.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::chunk::{self, ChunkRow, chunker_version};
use crate::inverted_index::IndexBuilder;
use crate::manifest::{
    CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CurrentVersion, FILES, MANIFEST, Manifest, POSTINGS,
    TABLE, TERMS,
};
use crate::sized_file::SizedFile;
use crate::store::ChecksumWriter;
use crate::word_counts::TermCounts;
use crate::{DocsError, DocumentIndex, build};

/// Returns the problems of the index at a path, one line each; none if it is intact.
///
/// Contents are checked against their hashes. Chunks, posting lists and the version are rebuilt and compared.
///
/// # Errors
///
/// [`DocsError::NoIndex`], and [`DocsError::Io`] if a file cannot be read.
pub fn verify(path: &Path) -> Result<Vec<String>, DocsError> {
    loop {
        // A build may replace and remove the version in the meantime.
        let before = CurrentVersion::read(path).ok();
        let problems = verify_once(path);
        let is_intact = problems.as_ref().is_ok_and(Vec::is_empty);
        if is_intact || CurrentVersion::read(path).ok() == before {
            return problems;
        }
    }
}

fn verify_once(path: &Path) -> Result<Vec<String>, DocsError> {
    let mut problems = Vec::new();
    let current = match CurrentVersion::read(path) {
        Ok(current) => current,
        Err(error) => return to_problem(error),
    };
    if let Err(error) = current.check() {
        return to_problem(error);
    }
    check_names(&current.folder, &mut problems)?;
    match Manifest::read(&current) {
        Ok(manifest) => check_files(&current.folder, &manifest, &mut problems)?,
        Err(error) => problems.extend(to_problem(error)?),
    }
    match DocumentIndex::open(path) {
        Ok(index) => check_contents(&index, &mut problems)?,
        Err(error) => problems.extend(to_problem(error)?),
    }
    let mut seen = BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    Ok(problems)
}

/// Converts damage into a problem; other errors, which prevent verification, stay errors.
fn to_problem(error: DocsError) -> Result<Vec<String>, DocsError> {
    match error {
        DocsError::Invalid { path, problem } => Ok(vec![format!("{}: {problem}", path.display())]),
        error => Err(error),
    }
}

/// Reports files that do not belong to the folder of a version.
fn check_names(folder: &Path, problems: &mut Vec<String>) -> Result<(), DocsError> {
    let failed = |error| DocsError::io("read", folder, error);
    let mut extra = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !FILES.iter().chain(&[MANIFEST]).any(|known| name == **known) {
            extra
                .push(format!("{}: it does not belong to the index", folder.join(&name).display()));
        }
    }
    extra.sort_unstable();
    problems.extend(extra);
    Ok(())
}

/// Checks the size and checksum of every file.
fn check_files(
    folder: &Path,
    manifest: &Manifest,
    problems: &mut Vec<String>,
) -> Result<(), DocsError> {
    for name in FILES {
        if let Err(error) = check_file(&folder.join(name), manifest.file(name)) {
            problems.extend(to_problem(error)?);
        }
    }
    Ok(())
}

/// Returns whether every file has the size and the checksum of the manifest.
pub(crate) fn checksums_match(index: &DocumentIndex) -> bool {
    let mut problems = Vec::new();
    check_files(index.folder(), index.manifest(), &mut problems).is_ok() && problems.is_empty()
}

fn check_file(path: &Path, (bytes, checksum): (u64, &str)) -> Result<(), DocsError> {
    let SizedFile { mut file, .. } = SizedFile::open(path.to_owned(), bytes)?;
    let mut hash = ChecksumWriter::default();
    std::io::copy(&mut file, &mut hash).map_err(|error| DocsError::io("read", path, error))?;
    match hash.checksum() == checksum {
        true => Ok(()),
        false => Err(DocsError::invalid(path, "its checksum does not match")),
    }
}

/// Returns the end of the batch of documents that starts at `first`.
fn batch_end(index: &DocumentIndex, first: u32) -> u32 {
    let mut bytes = 0;
    let fits = |document: &u32| {
        bytes += index.content_bytes(*document);
        bytes <= build::BATCH_BYTES
    };
    let count = (first..index.len()).take(build::BATCH_DOCUMENTS).take_while(fits).count();
    first + (count as u32).max(1)
}

/// Rebuilds everything from the contents, and compares.
fn check_contents(index: &DocumentIndex, problems: &mut Vec<String>) -> Result<(), DocsError> {
    let folder = index.folder();
    let (mut document_terms, mut chunk_terms) = (IndexBuilder::default(), IndexBuilder::default());
    let mut chunk_table = ChecksumWriter::default();
    let mut version =
        build::VersionHasher::new(&index.manifest().chunking, index.manifest().model.as_ref());
    let sizes = index.manifest().chunk_sizes;
    let is_same_chunker = index.manifest().chunking == chunker_version(sizes);
    let mut last: Option<String> = None;
    let mut chunk_count = 0;
    let mut is_readable = true;
    let mut first = 0;
    while first < index.len() {
        let (mut words, mut terms, first_chunk) = (Vec::new(), Vec::new(), chunk_count);
        let end = batch_end(index, first);
        for number in first..end {
            let read = index
                .document(number)
                .and_then(|document| Ok((document, index.record(number)?, index.chunks(number)?)));
            let (document, record, chunks) = match read {
                Ok(read) => read,
                Err(error) => {
                    problems.extend(to_problem(error)?);
                    is_readable = false;
                    continue;
                }
            };
            if last.as_ref().is_some_and(|last| *last >= document.id) {
                problems.push(format!(
                    "{}: {} is not in id order",
                    folder.join("records").display(),
                    document.path
                ));
            }
            let title = record.metadata.title.as_deref();
            let rebuilt = chunk::chunks(&document.path, &document.content, title, sizes);
            if !chunk::are_char_boundaries(&chunks, &document.content)
                || rebuilt != chunks && is_same_chunker
            {
                problems.push(format!(
                    "{}: the chunks of {} do not match its content",
                    folder.join("chunks").display(),
                    document.path
                ));
            }
            version.add(&document.path, &record.hash, &record.metadata, &chunk::write(&chunks));
            for chunk in
                chunks.iter().filter(|_| chunk::are_char_boundaries(&chunks, &document.content))
            {
                let chunk_terms = chunk.terms(&document.path, &document.content);
                let row = ChunkRow::new(number, chunk, &document.content, &chunk_terms);
                chunk_table
                    .write_all(&row.bytes())
                    .map_err(|error| DocsError::io("read", folder, error))?;
                terms.push(chunk_terms);
            }
            chunk_count += chunks.len() as u64;
            let counts = TermCounts::of_document(&document.content);
            if counts.total != index.word_count(number) {
                problems.push(format!(
                    "{}: {} has {} words instead of {}",
                    folder.join(TABLE).display(),
                    document.path,
                    counts.total,
                    index.word_count(number)
                ));
            }
            words.push(counts);
            last = Some(document.id);
        }
        document_terms.add(first, &words.iter().collect::<Vec<_>>());
        chunk_terms.add(first_chunk as u32, &terms.iter().collect::<Vec<_>>());
        first = end;
    }
    if !is_readable {
        return Ok(());
    }
    let manifest = index.manifest();
    if version.finish() != manifest.version || chunk_count != manifest.chunks {
        problems.push(format!(
            "{}: its version or counts do not match the documents",
            folder.join(MANIFEST).display()
        ));
    }
    let mut check = |name: &str, rebuilt: &ChecksumWriter| {
        if rebuilt.checksum() != manifest.file(name).1 {
            let path = folder.join(name);
            problems.push(format!("{}: it does not match the documents", path.display()));
        }
    };
    if !is_same_chunker {
        // Another version built it, whose terms cannot be reproduced.
        return Ok(());
    }
    check(CHUNK_TABLE, &chunk_table);
    let builders = [(document_terms, TERMS, POSTINGS), (chunk_terms, CHUNK_TERMS, CHUNK_POSTINGS)];
    for (builder, terms_name, postings_name) in builders {
        let (mut terms, mut postings) = (ChecksumWriter::default(), ChecksumWriter::default());
        builder
            .write(&mut terms, &mut postings)
            .map_err(|error| DocsError::io("read", folder, error))?;
        check(terms_name, &terms);
        check(postings_name, &postings);
    }
    Ok(())
}
