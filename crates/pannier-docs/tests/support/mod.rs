//! Helpers of the document tests.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use pannier_docs::{
    BuildOptions, BuildSummary, DocsError, DocumentIndex, DocumentSource, Embedder, EmbedderError,
    FileRules, Model, VectorSource, build, quantize,
};

pub(crate) const FROM_SCRATCH: BuildOptions<'static> = BuildOptions {
    from_scratch: true,
    vectors: VectorSource::Unspecified,
    chunk_sizes: None,
    waits: false,
    trusts_index: false,
};

/// A temporary folder with documents and an index.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("docs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("docs")).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join("docs").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn sources(&self) -> DocumentSource {
        DocumentSource::new(self.0.join("docs")).rules(FileRules::specified())
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    pub(crate) fn build(&self) -> BuildSummary {
        build(&self.sources(), &self.cache(), &BuildOptions::default(), &mut |_| {}).unwrap()
    }

    /// Builds an index of all files, not only of Markdown.
    #[allow(dead_code)]
    pub(crate) fn build_all_files(&self) -> BuildSummary {
        let sources = self.sources().patterns(["*"]);
        build(&sources, &self.cache(), &BuildOptions::default(), &mut |_| {}).unwrap()
    }

    pub(crate) fn build_with(&self, vectors: VectorSource<'_>) -> Result<BuildSummary, DocsError> {
        let options = BuildOptions { vectors, ..BuildOptions::default() };
        build(&self.sources(), &self.cache(), &options, &mut |_| {})
    }

    pub(crate) fn open(&self) -> DocumentIndex {
        DocumentIndex::open(self.cache()).unwrap()
    }

    /// Returns the files of the current version and of its segments.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let version = fs::read_to_string(self.cache().join("CURRENT")).unwrap();
        let version = self.cache().join("versions").join(version.split(' ').next().unwrap());
        let segments = fs::read_dir(self.cache().join("segments")).unwrap();
        let folders = segments.map(|entry| entry.unwrap().path()).chain([version]);
        let mut files: Vec<_> = folders
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A test embedder: a vector counts the letters a to h.
#[derive(Debug)]
pub(crate) struct Letters(Model);

impl Letters {
    pub(crate) fn new() -> Self {
        Self::of_hash("0123456789abcdef")
    }

    pub(crate) fn of_hash(hash: &str) -> Self {
        Self(Model::new("letters", hash, 8))
    }

    pub(crate) fn vector(text: &str) -> Vec<i16> {
        let count = |letter| text.chars().filter(|c| *c == letter).count() as f32;
        quantize(&('a'..='h').map(count).collect::<Vec<_>>()).unwrap_or(vec![0; 8])
    }
}

impl Embedder for Letters {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        Ok(texts.iter().map(|text| Self::vector(text)).collect())
    }
}
