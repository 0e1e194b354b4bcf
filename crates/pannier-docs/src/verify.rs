//! Verification: rebuilds everything from the stored contents and compares it with the index.
//!
//! Time is that of a build, without reading the source folder. Contents are processed in batches, so memory does not grow with
//! their size.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use crate::chunk::{self, ChunkRow, chunker_version};
use crate::impacts::ChunkLengths;
use crate::inverted_index::IndexBuilder;
use crate::manifest::{
    CATALOG, CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CHUNK_WORDS, CHUNKS, CurrentVersion,
    DOCUMENTS, MANIFEST, Manifest, POSTINGS, RECORDS, SEGMENT_FILES, SEGMENTS, TABLE, TERMS,
    VERSION_FILES, VERSIONS,
};
use crate::segment::{Segment, TableRow};
use crate::segment_writer::{BATCH_BYTES, BATCH_DOCUMENTS};
use crate::sized_file::SizedFile;
use crate::stamps::{Content, Stamp, Stamps};
use crate::store::ChecksumWriter;
use crate::word_counts::TermCounts;
use crate::{DocsError, DocumentIndex, catalog};

/// The size of the blocks in which checksums are computed.
const MAX_BLOCK_BYTES: usize = 1 << 18;

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
    let names: Vec<&str> = VERSION_FILES.iter().copied().chain([MANIFEST]).collect();
    check_names(&current.folder, &names, &mut problems)?;
    match Manifest::read(&current) {
        Ok(manifest) => {
            for segment in &manifest.segments {
                let folder = path.join(SEGMENTS).join(&segment.name);
                // A missing folder is a problem of its files.
                if folder.is_dir() {
                    check_names(&folder, &SEGMENT_FILES, &mut problems)?;
                }
            }
            check_files(path, &current.folder, &manifest, &mut problems)?;
        }
        Err(error) => problems.extend(to_problem(error)?),
    }
    match DocumentIndex::open(path) {
        Ok(index) => {
            let chunking = index.manifest().chunking.as_str();
            for segment in index.segments() {
                let is_same_chunker = chunking == chunker_version(index.manifest().chunk_sizes);
                check_segment(&index, segment, is_same_chunker, &mut problems)?;
            }
            check_version(&index, &mut problems)?;
        }
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

/// Reports files that do not belong to a folder.
fn check_names(folder: &Path, names: &[&str], problems: &mut Vec<String>) -> Result<(), DocsError> {
    let failed = |error| DocsError::io("read", folder, error);
    let mut extra = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !names.iter().any(|known| name == **known) {
            extra
                .push(format!("{}: it does not belong to the index", folder.join(&name).display()));
        }
    }
    extra.sort_unstable();
    problems.extend(extra);
    Ok(())
}

/// Returns the path of every file below the folder of the index, with its size and checksum.
fn files<'m>(
    version: &'m Path,
    manifest: &'m Manifest,
) -> impl Iterator<Item = (String, (u64, &'m str))> {
    let version = version.file_name().unwrap_or_default().to_string_lossy();
    let own = VERSION_FILES
        .iter()
        .map(move |name| (format!("{VERSIONS}/{version}/{name}"), manifest.file(name)));
    let of_segments = manifest.segments.iter().flat_map(|segment| {
        SEGMENT_FILES
            .iter()
            .map(move |name| (format!("{SEGMENTS}/{}/{name}", segment.name), segment.file(name)))
    });
    own.chain(of_segments)
}

/// Checks the size and checksum of every file.
fn check_files(
    root: &Path,
    version: &Path,
    manifest: &Manifest,
    problems: &mut Vec<String>,
) -> Result<(), DocsError> {
    for (path, file) in files(version, manifest) {
        if let Err(error) = check_file(&root.join(path), file) {
            problems.extend(to_problem(error)?);
        }
    }
    Ok(())
}

/// Returns the stamps of all files, if every file has the size and the checksum of the manifest. A file that has not changed
/// since it was checked is not read.
pub(crate) fn checksums_match(
    index: &DocumentIndex,
    stamps: &Stamps,
    now: SystemTime,
) -> Option<Vec<(String, Stamp)>> {
    let mut checked = Vec::new();
    let is_of_segment = |path: &str| path.starts_with(SEGMENTS);
    let files = files(index.folder(), index.manifest());
    // The caller has read those of the version.
    for (path, file) in files.filter(|(path, _)| is_of_segment(path)) {
        let own = index.root().join(&path);
        let stamp = fs::symlink_metadata(&own).ok();
        let stamp = stamp.and_then(|metadata| Stamp::new(&metadata, now));
        let key = format!("/{path}");
        if stamps.get(&key, stamp) != Some(Content::Checked) {
            check_file(&own, file).ok()?;
        }
        checked.extend(stamp.map(|stamp| (key, stamp)));
    }
    Some(checked)
}

fn check_file(path: &Path, (bytes, checksum): (u64, &str)) -> Result<(), DocsError> {
    let SizedFile { file, .. } = SizedFile::open(path.to_owned(), bytes)?;
    let mut hash = ChecksumWriter::default();
    // Large blocks: an update of a large index checks all of its files.
    let capacity = usize::try_from(bytes).map_or(MAX_BLOCK_BYTES, |size| size.min(MAX_BLOCK_BYTES));
    let mut blocks = std::io::BufReader::with_capacity(capacity.max(1), file);
    std::io::copy(&mut blocks, &mut hash).map_err(|error| DocsError::io("read", path, error))?;
    match hash.checksum() == checksum {
        true => Ok(()),
        false => Err(DocsError::invalid(path, "its checksum does not match")),
    }
}

/// Returns the end of the batch of documents that starts at `first`.
fn batch_end(segment: &Segment, first: u32) -> u32 {
    let mut bytes = 0;
    let fits = |document: &u32| {
        bytes += segment.content_bytes(*document);
        bytes <= BATCH_BYTES
    };
    let count = (first..segment.len()).take(BATCH_DOCUMENTS).take_while(fits).count();
    first + (count as u32).max(1)
}

/// Rebuilds a segment from its contents, deleted ones included, and compares.
fn check_segment(
    index: &DocumentIndex,
    segment: &Segment,
    is_same_chunker: bool,
    problems: &mut Vec<String>,
) -> Result<(), DocsError> {
    let folder = &segment.folder;
    let (mut document_terms, mut chunk_terms) = (IndexBuilder::default(), IndexBuilder::default());
    let (mut chunk_table, mut chunk_words) = (ChecksumWriter::default(), ChecksumWriter::default());
    let mut lengths = ChunkLengths::default();
    let sizes = index.manifest().chunk_sizes;
    let mut last: Option<String> = None;
    let mut chunk_count = 0;
    let mut is_readable = true;
    let mut first = 0;
    while first < segment.len() {
        let (mut words, mut terms, first_chunk) = (Vec::new(), Vec::new(), chunk_count);
        let end = batch_end(segment, first);
        for number in first..end {
            let read = segment.record(number).and_then(|record| {
                let content = segment.content(number, &record)?;
                let chunks = segment.chunks(number, &record)?;
                Ok((record, content, chunks))
            });
            let (record, content, chunks) = match read {
                Ok(read) => read,
                Err(error) => {
                    problems.extend(to_problem(error)?);
                    is_readable = false;
                    continue;
                }
            };
            let mut report = |file: &str, problem: String| {
                problems.push(format!("{}: {problem}", folder.join(file).display()));
            };
            let path = &record.path;
            let id = path.to_lowercase();
            if last.as_ref().is_some_and(|last| *last >= id) {
                report(RECORDS, format!("{path} is not in id order"));
            }
            let title = record.metadata.title.as_deref();
            let rebuilt = chunk::chunks(path, &content, title, sizes);
            let is_intact = chunk::are_char_boundaries(&chunks, &content);
            if !is_intact || rebuilt != chunks && is_same_chunker {
                report(CHUNKS, format!("the chunks of {path} do not match its content"));
            }
            let mut own_terms = Vec::with_capacity(chunks.len());
            for chunk in chunks.iter().filter(|_| is_intact) {
                let chunk_terms = chunk.terms(path, &content);
                let words = chunk_words.write_all(&chunk_terms.total.to_le_bytes());
                words
                    .and_then(|()| chunk_table.write_all(&ChunkRow::new(chunk, &content).bytes()))
                    .map_err(|error| DocsError::io("read", folder, error))?;
                own_terms.push(chunk_terms);
            }
            chunk_count += chunks.len() as u64;
            let counts = TermCounts::of_document(&content);
            let row = TableRow::new(path, &content, &counts, &own_terms);
            if is_intact && row != segment.table_row(number) {
                report(TABLE, format!("its counts of {path} do not match its content"));
            }
            words.push(counts);
            lengths.add_document(own_terms.iter().map(|terms| terms.total));
            terms.extend(own_terms);
            last = Some(id);
        }
        document_terms.add(first, &words.iter().collect::<Vec<_>>());
        chunk_terms.add(first_chunk as u32, &terms.iter().collect::<Vec<_>>());
        first = end;
    }
    // Another version's terms cannot be reproduced.
    if !is_readable || !is_same_chunker {
        return Ok(());
    }
    let mut check = |name: &str, rebuilt: &ChecksumWriter| {
        if rebuilt.checksum() != segment.info.file(name).1 {
            let path = folder.join(name);
            problems.push(format!("{}: it does not match the documents", path.display()));
        }
    };
    check(CHUNK_TABLE, &chunk_table);
    check(CHUNK_WORDS, &chunk_words);
    let builders = [
        (document_terms, None, TERMS, POSTINGS),
        (chunk_terms, Some(&lengths), CHUNK_TERMS, CHUNK_POSTINGS),
    ];
    for (builder, lengths, terms_name, postings_name) in builders {
        let (mut terms, mut postings) = (ChecksumWriter::default(), ChecksumWriter::default());
        builder
            .write(lengths, &mut terms, &mut postings)
            .map_err(|error| DocsError::io("read", folder, error))?;
        check(terms_name, &terms);
        check(postings_name, &postings);
    }
    Ok(())
}

/// Compares the catalog, the order of documents and the version with the segments.
fn check_version(index: &DocumentIndex, problems: &mut Vec<String>) -> Result<(), DocsError> {
    let entries = match index.catalog() {
        Ok(entries) => entries,
        Err(error) => return to_problem(error).map(|found| problems.extend(found)),
    };
    let manifest = index.manifest();
    let mut report = |file: &str, problem: &str| {
        problems.push(format!("{}: {problem}", index.folder().join(file).display()));
    };
    let (mut chunks, mut is_same) = (0, true);
    for (entry, number) in entries.iter().zip(0..) {
        // A damaged record is reported with its segment.
        let Ok(record) = index.record(number) else { return Ok(()) };
        chunks += u64::from(record.chunk_count);
        is_same &= record.path == entry.path
            && record.hash == entry.hash
            && record.metadata == entry.metadata;
    }
    if !is_same {
        report(CATALOG, "it does not match the documents");
    }
    let is_ascending = entries.is_sorted_by(|a, b| a.path.to_lowercase() < b.path.to_lowercase());
    let mut by_path: Vec<u32> = (0..index.len()).collect();
    by_path.sort_unstable_by_key(|number| &entries[*number as usize].path);
    let is_ranked = |(number, rank): (&u32, u32)| index.path_rank(*number) == rank;
    if !is_ascending || !by_path.iter().zip(0..).all(is_ranked) {
        report(DOCUMENTS, "it does not list the documents in order");
    }
    let entries: Vec<&catalog::Entry> = entries.iter().collect();
    let version = catalog::version(&manifest.chunking, manifest.model.as_ref(), &entries);
    if version != manifest.version || chunks != manifest.chunks {
        report(MANIFEST, "its version or counts do not match the documents");
    }
    Ok(())
}
