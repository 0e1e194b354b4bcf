//! Builds or updates an index from a document folder.
//!
//! An update compares the files of the source with the catalog of the current version. It writes new and changed documents,
//! and those of segments that it merges, into one new segment. It keeps the other segments. The new version lists the live
//! documents of all segments, and is published by one rename. A build that fails or is interrupted leaves the index unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::chunk::{self, ChunkSizes, chunker_version};
use crate::document_index::{Location, document_row};
use crate::manifest::{
    CATALOG, CONTENTS, DOCUMENTS, MANIFEST, ManifestFile, ManifestSource, SEGMENTS, SegmentInfo,
    VERSIONS,
};
use crate::merge::{self, SegmentSize};
use crate::segment_writer::{
    PreparedDocument, SegmentWriter, Source, WrittenSegment, map_parallel, too_many_chunks,
};
use crate::source::{SkipReason, SkippedFile, SourceFile, SourceFiles, relative_path};
use crate::stamps::{Content, Stamp, Stamps};
use crate::store::{self, draft_name, lock, publish, publish_segment, sync_folder, write_synced};
use crate::vectors::{ChunkVectors, IMPORTED_MODEL, VectorSource};
use crate::{
    DocsError, DocumentIndex, DocumentMetadata, DocumentSource, Hit, Manifest, Model, catalog,
    document_index, verify,
};

/// The maximum number of paths that a summary lists for each kind of change.
const MAX_LISTED_PATHS: usize = 5;

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of written documents.
    pub done: usize,
    /// The number of documents to write.
    pub of: usize,
    /// The number of chunks that the embedder computed a vector for.
    pub embedded: u64,
}

/// The options of a build.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildOptions<'v> {
    /// Reuses nothing of the current version. Default: no.
    pub from_scratch: bool,
    /// The source of chunk vectors.
    pub vectors: VectorSource<'v>,
    /// The sizes of chunks. Default: those of the current version, or 256 and at most 512 tokens.
    pub chunk_sizes: Option<ChunkSizes>,
    /// Waits for another build of the index to end, instead of failing with [`DocsError::Busy`]. Default: no.
    pub waits: bool,
    /// Does not check the checksums of the files that an update keeps. Readers check what they read in any case. Default: no,
    /// so that a build repairs a damaged index.
    pub trusts_index: bool,
}

/// The result of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BuildSummary {
    /// The version of the index.
    pub version: String,
    /// The number of documents.
    pub documents: u32,
    /// The number of chunks.
    pub chunks: u64,
    /// New documents.
    pub added: PathCount,
    /// Documents whose content, title or date changed.
    pub changed: PathCount,
    /// Documents that are no longer in the index, by reason.
    pub removed: BTreeMap<RemovalReason, PathCount>,
    /// The number of other documents.
    pub unchanged: u32,
    /// Files that are not indexed, by reason.
    pub skipped: BTreeMap<SkipReason, PathCount>,
    /// The number of chunks that the embedder computed a vector for.
    pub embedded: u64,
    /// Whether nothing changed, so that nothing was written.
    pub is_unchanged: bool,
}

/// A number of paths, and the first few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PathCount {
    /// The number.
    pub count: u32,
    /// The first five, in order.
    pub paths: Vec<String>,
}

/// The reason why a document is no longer in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RemovalReason {
    /// Its file no longer exists.
    Deleted,
    /// Its file exists, but no glob pattern selects it, or an ignore rule excludes it.
    Excluded,
    /// Its file is no longer a text that can be read.
    Skipped,
    /// It belongs to another folder, which was indexed before.
    OtherFolder,
}

impl RemovalReason {
    /// Returns the reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Excluded => "no longer selected",
            Self::Skipped => "no longer readable as text",
            Self::OtherFolder => "of another folder",
        }
    }
}

impl Progress {
    /// Creates a report of `done` of `of` documents.
    pub fn new(done: usize, of: usize, embedded: u64) -> Self {
        Self { done, of, embedded }
    }
}

impl PathCount {
    /// Counts a path.
    pub fn add(&mut self, path: &str) {
        self.count += 1;
        if self.paths.len() < MAX_LISTED_PATHS {
            self.paths.push(path.to_owned());
        }
    }
}

/// Builds or updates the index at a path.
///
/// Unchanged documents stay where they are, and if nothing changed, nothing is written. The version depends only on the documents,
/// their paths, titles and dates, and the model: not on the machine, the order of folders, the number of threads or earlier
/// versions. Files that are not texts are skipped, unless [`FileRules::strict`](crate::FileRules::strict) is set.
///
/// # Errors
///
/// [`DocsError::Sources`] with every file that cannot be indexed, if the rules are strict; [`DocsError::Model`] if the index has
/// vectors and [`BuildOptions::vectors`] is unspecified; [`DocsError::Busy`]; and [`DocsError::Io`]. The current version is then
/// unchanged.
pub fn build(
    sources: &DocumentSource,
    index: &Path,
    options: &BuildOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuildSummary, DocsError> {
    sources.check()?;
    let _lock = lock(index, options.waits)?;
    let previous = match DocumentIndex::open(index) {
        Ok(previous) => Some(previous),
        // A missing or damaged index is rebuilt; one that cannot be read may be intact.
        Err(DocsError::NoIndex { .. } | DocsError::Invalid { .. }) => None,
        Err(error) => return Err(error),
    };
    let model = previous.as_ref().and_then(|previous| previous.manifest().model.as_ref());
    check_vectors(index, model, options.vectors)?;
    store::clean(index, previous.as_ref());
    // Taken before the files are looked at.
    let now = SystemTime::now();
    let files = sources.files(Some(index), now)?;
    Update::new(sources, index, options, previous.as_ref(), &files, now)?.run(progress)
}

/// Rejects a build that would drop vectors unasked.
pub(crate) fn check_vectors(
    index: &Path,
    model: Option<&Model>,
    vectors: VectorSource<'_>,
) -> Result<(), DocsError> {
    let (VectorSource::Unspecified, Some(model)) = (vectors, model) else { return Ok(()) };
    let needed = match model.name == IMPORTED_MODEL {
        true => "vectors for all chunks",
        false => "the same embedder",
    };
    let problem = format!(
        "the index has vectors by {}; provide {needed} again to update them, or the embedder `none` to drop them",
        model.name
    );
    Err(DocsError::model(index, problem))
}

/// Calls `f` with every chunk that an index of these documents would have, in order.
///
/// # Errors
///
/// As [`build`], and the errors of `f`.
pub fn for_each_chunk<E: From<DocsError>>(
    sources: &DocumentSource,
    sizes: ChunkSizes,
    mut f: impl FnMut(Hit) -> Result<(), E>,
) -> Result<(), E> {
    let mut problems = Vec::new();
    for file in sources.files(None, SystemTime::UNIX_EPOCH)?.files {
        let given = file.metadata.as_deref().cloned().unwrap_or_default();
        match PreparedDocument::from_file(&file, &given, sizes) {
            Ok(prepared) if problems.is_empty() => {
                let document = chunk::document_id(&file.path, &prepared.hash);
                for (chunk, sequence) in prepared.chunks.into_iter().zip(0..) {
                    let text = &prepared.content[chunk.range.clone()];
                    f(Hit {
                        id: chunk::chunk_id(&document, sequence, text),
                        path: file.path.clone(),
                        document: 0,
                        sequence,
                        text: text.to_owned(),
                        range: chunk.range,
                        line: chunk.line,
                        heading_path: chunk.heading_path,
                        fence: chunk.fence,
                        date: prepared.metadata.date,
                        score: 0,
                        lexical: None,
                        semantic: None,
                        reranker: None,
                    })?;
                }
            }
            Err(skipped) if sources.rules.strict => problems.push(skipped.message()),
            Ok(_) | Err(_) => {}
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(DocsError::Sources { problems }.into()),
    }
}

/// A document of the new version.
struct Planned<'u> {
    file: &'u SourceFile,
    /// Its number in the current version.
    number: Option<u32>,
    is_unchanged: bool,
    /// What is known about its content.
    content: Option<Content>,
}

impl Planned<'_> {
    /// Returns its number in the current version, if it is unchanged.
    fn kept(&self) -> Option<u32> {
        self.number.filter(|_| self.is_unchanged)
    }

    /// Returns whether its content is needed to know whether it changed. A new document is read when it is written.
    fn must_be_read(&self) -> bool {
        self.number.is_some() && self.content.is_none()
    }

    /// Compares it with its entry in the catalog.
    fn is_same(&self, catalog: &[catalog::Entry]) -> bool {
        let (Some(number), Some(Content::Text(hash))) = (self.number, self.content) else {
            return false;
        };
        let entry = &catalog[number as usize];
        match &self.file.metadata {
            Some(given) => entry.is_same(&hash, given),
            None => entry.hash == hash,
        }
    }
}

/// The state of an update.
struct Update<'u> {
    sources: &'u DocumentSource,
    index: &'u Path,
    options: &'u BuildOptions<'u>,
    previous: Option<&'u DocumentIndex>,
    /// The documents of the current version.
    catalog: Vec<catalog::Entry>,
    sizes: ChunkSizes,
    /// In the order of ids.
    planned: Vec<Planned<'u>>,
    skipped: Vec<SkippedFile>,
    /// The stamps that were read.
    stamps: Stamps,
    /// The stamps of files of the index whose checksums match.
    checked: Vec<(String, Stamp)>,
    source: ManifestSource,
}

impl<'u> Update<'u> {
    /// Compares the files with the current version.
    fn new(
        sources: &'u DocumentSource,
        index: &'u Path,
        options: &'u BuildOptions<'u>,
        previous: Option<&'u DocumentIndex>,
        files: &'u SourceFiles,
        now: SystemTime,
    ) -> Result<Self, DocsError> {
        let remembered = previous.map(|previous| previous.manifest().chunk_sizes);
        let sizes = options.chunk_sizes.or(remembered).unwrap_or_default();
        // A damaged catalog is rebuilt.
        let catalog = previous.and_then(|previous| previous.catalog().ok());
        let previous = previous.filter(|_| catalog.is_some());
        let catalog = catalog.unwrap_or_default();
        let stamps = if options.from_scratch { Stamps::default() } else { Stamps::read(index) };
        let reusable = previous.filter(|previous| {
            !options.from_scratch
                && previous.manifest().chunking == chunker_version(sizes)
                && previous.manifest().model.as_ref() == options.vectors.model()
        });
        let checked = reusable.and_then(|previous| match options.trusts_index {
            true => Some(stamps.checked()),
            false => verify::checksums_match(previous, &stamps, now),
        });
        // Files and documents have the same order.
        let (mut next_document, mut next_stamp) = (0, 0);
        let mut planned = Vec::with_capacity(files.files.len());
        let mut skipped = files.skipped.clone();
        for file in &files.files {
            let number = catalog::find_next(&catalog, &mut next_document, file.id(), &file.path);
            let content = match stamps.get_next(&mut next_stamp, &file.path, file.stamp) {
                // Strict rules need to know what exactly is wrong.
                Some(Content::Skipped(reason)) if !sources.rules.strict => {
                    skipped.push(SkippedFile::again(file, reason));
                    continue;
                }
                known => known.filter(|content| matches!(content, Content::Text(_))),
            };
            planned.push(Planned { file, number, is_unchanged: false, content });
        }
        let unread: Vec<&SourceFile> = planned
            .iter()
            .filter(|document| document.must_be_read())
            .map(|document| document.file)
            .collect();
        let hash = |text: String| Content::Text(Sha256::digest(text).into());
        let mut read = map_parallel(&unread, |file| file.read().map(hash)).into_iter();
        planned.retain_mut(|document| {
            if document.must_be_read() {
                match read.next() {
                    Some(Ok(content)) => document.content = Some(content),
                    Some(Err(file)) => {
                        skipped.push(file);
                        return false;
                    }
                    None => {}
                }
            }
            document.is_unchanged = checked.is_some() && document.is_same(&catalog);
            true
        });
        let source = ManifestSource {
            root: source_root(index, &sources.root),
            rules: sources.rules.clone(),
        };
        Ok(Self {
            sources,
            index,
            options,
            previous,
            catalog,
            sizes,
            planned,
            skipped,
            stamps,
            checked: checked.unwrap_or_default(),
            source,
        })
    }

    /// Returns the title and date of a document that the caller gave, now or before.
    fn given(&self, document: &Planned<'_>) -> DocumentMetadata {
        let entry = document.number.map(|number| self.catalog[number as usize].given());
        document.file.metadata.as_deref().cloned().or(entry).unwrap_or_default()
    }

    fn check_strict(&self) -> Result<(), DocsError> {
        if !self.sources.rules.strict || self.skipped.is_empty() {
            return Ok(());
        }
        let mut problems: Vec<String> = self.skipped.iter().map(SkippedFile::message).collect();
        problems.sort_unstable();
        Err(DocsError::Sources { problems })
    }

    fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Result<BuildSummary, DocsError> {
        self.check_strict()?;
        let has_new = self.planned.iter().any(|document| document.kept().is_none());
        if !has_new && let Some(summary) = self.keep_all() {
            return Ok(summary);
        }
        let segments = self.previous.map_or(&[][..], DocumentIndex::segments);
        let is_rewritten = self.rewritten_segments();
        let previous = self.previous;
        let location = |number: u32| previous.map(|previous| previous.location(number));
        let kept = |document: &Planned<'_>| {
            let place = document.kept().and_then(location);
            place.filter(|place| !is_rewritten[place.segment as usize])
        };
        let written: Vec<Source<'_>> = self
            .planned
            .iter()
            .filter(|document| kept(document).is_none())
            .map(|document| Source {
                file: document.file,
                given: self.given(document),
                stored: document
                    .kept()
                    .and_then(location)
                    .map(|place| (&segments[place.segment as usize], place.document)),
            })
            .collect();
        let written = self.write_segment(&written, progress)?;
        self.skipped.extend(written.iter().flat_map(|written| written.skipped.clone()));
        // New files may all turn out not to be texts.
        let written = written.filter(|written| !written.entries.is_empty());
        if written.is_none()
            && self.check_strict().is_ok()
            && let Some(summary) = self.keep_all()
        {
            return Ok(summary);
        }
        let committed = self.check_strict().and_then(|()| {
            let mut retained = Vec::new();
            let mut numbers = vec![0; segments.len()];
            for (number, segment) in segments.iter().enumerate() {
                if !is_rewritten[number] {
                    numbers[number] = retained.len() as u32;
                    retained.push(segment.info.clone());
                }
            }
            let mut version = NewVersion::new(retained, written.as_ref());
            let new = written.iter().flat_map(|written| &written.entries);
            let mut new = new.zip(0..).peekable();
            for document in &self.planned {
                match (kept(document), document.kept()) {
                    (Some(place), Some(number)) => {
                        let segment = &segments[place.segment as usize];
                        version.bytes += segment.content_bytes(place.document);
                        version.chunks += u64::from(segment.table_row(place.document).chunks);
                        let entry = &self.catalog[number as usize];
                        version.add(entry, numbers[place.segment as usize], place.document);
                    }
                    // A file that was skipped was not written.
                    _ => {
                        let next = new.next_if(|(entry, _)| entry.path == document.file.path);
                        if let Some((entry, number)) = next {
                            version.add(entry, version.new_segment, number);
                        }
                    }
                }
            }
            self.publish(version)
        });
        let (manifest, entries) =
            committed.inspect_err(|_| store::clean(self.index, self.previous))?;
        self.write_stamps(&entries);
        Ok(self.summary(&manifest, &entries, written.as_ref()))
    }

    /// Ends an update that writes no document, if it keeps exactly those of the current version.
    fn keep_all(&self) -> Option<BuildSummary> {
        let kept = self.planned.iter().filter(|document| document.kept().is_some()).count();
        let previous = self.previous.filter(|previous| {
            kept == previous.len() as usize && previous.manifest().source == self.source
        })?;
        store::clean(self.index, self.previous);
        self.write_stamps(&[]);
        let entries: Vec<&catalog::Entry> = self.catalog.iter().collect();
        Some(self.summary(previous.manifest(), &entries, None))
    }

    /// Returns whether each segment is rewritten.
    fn rewritten_segments(&self) -> Vec<bool> {
        let Some(previous) = self.previous else { return Vec::new() };
        let size = |segment: &crate::segment::Segment| SegmentSize { live: 0, all: segment.len() };
        let mut sizes: Vec<SegmentSize> = previous.segments().iter().map(size).collect();
        for number in self.planned.iter().filter_map(Planned::kept) {
            sizes[previous.location(number).segment as usize].live += 1;
        }
        let new = self.planned.iter().filter(|document| document.kept().is_none()).count();
        merge::rewritten(&sizes, new)
    }

    /// Writes a segment as a draft; none, if there are no documents.
    fn write_segment(
        &self,
        documents: &[Source<'_>],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<WrittenSegment>, DocsError> {
        let folder = self.index.join(SEGMENTS);
        fs::create_dir_all(&folder).map_err(|error| DocsError::io("write", &folder, error))?;
        if documents.is_empty() {
            return Ok(None);
        }
        let vectors = ChunkVectors::new(self.options.vectors, self.index, self.previous)?;
        let writer = SegmentWriter::new(&folder.join(draft_name()), vectors, self.sizes);
        let written = writer.and_then(|writer| writer.write(documents, progress));
        written.map(Some).inspect_err(|_| store::clean(self.index, self.previous))
    }

    /// Publishes a version.
    fn publish<'e>(
        &self,
        version: NewVersion<'e>,
    ) -> Result<(Manifest, Vec<&'e catalog::Entry>), DocsError> {
        if u32::try_from(version.chunks).is_err() {
            return Err(too_many_chunks());
        }
        let (chunking, model) = (chunker_version(self.sizes), self.options.vectors.model());
        let versions = self.index.join(VERSIONS);
        let draft = versions.join(draft_name());
        let failed = |error| DocsError::io("write", &draft, error);
        fs::create_dir_all(&draft).map_err(failed)?;
        let mut files = BTreeMap::new();
        for (name, bytes) in [(CATALOG, version.catalog()), (DOCUMENTS, version.documents())] {
            write_synced(&draft.join(name), &bytes)?;
            let checksum = document_index::checksum(&bytes);
            files.insert(name.to_owned(), ManifestFile { bytes: bytes.len() as u64, checksum });
        }
        let mut segments = version.segments;
        if let Some(new) = segments.last_mut().filter(|new| new.name.is_empty()) {
            new.name = publish_segment(self.index, new)?;
        }
        let manifest = Manifest {
            format: Manifest::FORMAT,
            version: catalog::version(&chunking, model, &version.entries),
            documents: version.entries.len() as u32,
            bytes: version.bytes,
            chunks: version.chunks,
            chunking,
            chunk_sizes: self.sizes,
            model: model.cloned(),
            source: self.source.clone(),
            segments,
            files,
        };
        let mut text =
            serde_json::to_vec_pretty(&manifest).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        write_synced(&draft.join(MANIFEST), &text)?;
        sync_folder(&draft)?;
        publish(self.index, &draft, &manifest.version)?;
        store::clean_after_build(self.index, &manifest);
        Ok((manifest, version.entries))
    }

    /// Writes what is known about the files, if that is new. `entries` are the documents of a new version.
    fn write_stamps(&self, entries: &[&catalog::Entry]) {
        let mut entries = entries.iter().peekable();
        let documents = self.planned.iter().filter_map(|document| {
            let path = document.file.path.as_str();
            let written = entries.next_if(|entry| entry.path == path);
            let written = written.map(|entry| Content::Text(entry.hash));
            Some((path, document.file.stamp?, written.or(document.content)?))
        });
        let skipped =
            self.skipped.iter().filter_map(|SkippedFile { path, reason, stamp, .. }| {
                Some((path.as_str(), (*stamp)?, Content::Skipped(*reason)))
            });
        let checked = self.checked.iter();
        let checked = checked.map(|(path, stamp)| (path.as_str(), *stamp, Content::Checked));
        let mut stamps: Vec<_> = checked.chain(documents).chain(skipped).collect();
        // Stable sorting exploits that they are nearly in order.
        stamps.sort_by_key(|(path, ..)| *path);
        self.stamps.replace(self.index, &stamps);
    }

    fn summary(
        &self,
        manifest: &Manifest,
        entries: &[&catalog::Entry],
        written: Option<&WrittenSegment>,
    ) -> BuildSummary {
        let is_unchanged = self
            .previous
            .is_some_and(|previous| written.is_none() && previous.manifest() == manifest);
        let mut summary = BuildSummary {
            version: manifest.version.clone(),
            documents: manifest.documents,
            chunks: manifest.chunks,
            added: PathCount::default(),
            changed: PathCount::default(),
            removed: BTreeMap::new(),
            unchanged: 0,
            skipped: BTreeMap::new(),
            embedded: written.map_or(0, |written| written.embedded),
            is_unchanged,
        };
        if is_unchanged {
            summary.unchanged = manifest.documents;
        } else {
            self.compare(entries, &mut summary);
        }
        let mut skipped: Vec<_> =
            self.skipped.iter().map(|file| (file.path.as_str(), file.reason)).collect();
        skipped.sort_unstable();
        for (path, reason) in skipped {
            summary.skipped.entry(reason).or_default().add(path);
        }
        summary
    }

    /// Counts the documents of a new version that were added or changed, and those that were removed.
    fn compare(&self, entries: &[&catalog::Entry], summary: &mut BuildSummary) {
        let is_other_folder = self
            .previous
            .is_some_and(|previous| previous.manifest().source.root != self.source.root);
        let mut removed = Vec::new();
        let mut old = self.catalog.iter().peekable();
        for entry in entries {
            let mut same = old.next_if(|old| old.path == entry.path);
            if same.is_none() {
                let key = entry.order();
                removed.extend(std::iter::from_fn(|| old.next_if(|old| old.order() < key)));
                same = old.next_if(|old| old.path == entry.path);
            }
            match same {
                None => summary.added.add(&entry.path),
                Some(old) if !old.is_equal(entry) => summary.changed.add(&entry.path),
                Some(_) => summary.unchanged += 1,
            }
        }
        removed.extend(old);
        let skipped: BTreeSet<&str> = match removed.is_empty() {
            true => BTreeSet::new(),
            false => self.skipped.iter().map(|file| file.path.as_str()).collect(),
        };
        for path in removed.into_iter().map(|entry| entry.path.as_str()) {
            let file = self.sources.root.join(path);
            let reason = match is_other_folder {
                true => RemovalReason::OtherFolder,
                false if skipped.contains(path) => RemovalReason::Skipped,
                false if fs::symlink_metadata(file).is_ok() => RemovalReason::Excluded,
                false => RemovalReason::Deleted,
            };
            summary.removed.entry(reason).or_default().add(path);
        }
    }
}

/// Returns the folder of a source as an index remembers it.
fn source_root(index: &Path, root: &Path) -> String {
    let (index, root) = (index.canonicalize(), root.canonicalize());
    let (Ok(index), Ok(root)) = (index, root) else { return String::new() };
    relative_path(&index, &root).unwrap_or_else(|| root.to_string_lossy().into_owned())
}

/// The documents of a new version, in the order of their ids.
struct NewVersion<'e> {
    segments: Vec<SegmentInfo>,
    /// The number of the new segment, which is the last one.
    new_segment: u32,
    entries: Vec<&'e catalog::Entry>,
    locations: Vec<Location>,
    bytes: u64,
    chunks: u64,
}

impl<'e> NewVersion<'e> {
    fn new(mut segments: Vec<SegmentInfo>, written: Option<&WrittenSegment>) -> Self {
        let new_segment = segments.len() as u32;
        let info = written.map(|written| &written.info);
        segments.extend(info.cloned());
        Self {
            segments,
            new_segment,
            entries: Vec::new(),
            locations: Vec::new(),
            bytes: info.map_or(0, |info| info.file(CONTENTS).0),
            chunks: info.map_or(0, |info| info.chunks),
        }
    }

    fn add(&mut self, entry: &'e catalog::Entry, segment: u32, document: u32) {
        self.entries.push(entry);
        self.locations.push(Location { segment, document });
    }

    fn catalog(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.entries.iter().for_each(|entry| entry.write(&mut bytes));
        bytes
    }

    fn documents(&self) -> Vec<u8> {
        let mut by_path: Vec<usize> = (0..self.entries.len()).collect();
        // Stable sorting exploits that they are nearly in order.
        by_path.sort_by_key(|number| &self.entries[*number].path);
        let mut ranks = vec![0; by_path.len()];
        by_path.into_iter().zip(0..).for_each(|(number, rank)| ranks[number] = rank);
        let rows = self.locations.iter().zip(ranks);
        rows.flat_map(|(location, rank)| document_row(*location, rank)).collect()
    }
}
