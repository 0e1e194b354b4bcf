//! Which files are documents, and what they are called.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;

use crate::{DocsError, DocumentMetadata};

/// A folder of documents.
#[derive(Clone, Debug)]
pub struct DocumentSource {
    root: PathBuf,
    patterns: Vec<String>,
    respects_gitignore: bool,
    metadata: BTreeMap<String, DocumentMetadata>,
}

/// A file that is a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// What it is called: its path in lower case.
    pub(crate) id: String,
    /// Its path below the root, with forward slashes.
    pub(crate) path: String,
    /// Where it is.
    pub(crate) file: PathBuf,
    /// What the caller says about it.
    pub(crate) metadata: DocumentMetadata,
    /// Its path_rank among all documents in the order of their paths.
    pub(crate) path_rank: u32,
}

impl DocumentSource {
    /// The `.md` files below a folder, hidden ones included.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            patterns: Vec::new(),
            respects_gitignore: false,
            metadata: BTreeMap::new(),
        }
    }

    /// Says what documents are called and when they were written, by their paths below the root, whatever their front
    /// matter says.
    pub fn metadata(mut self, metadata: BTreeMap<String, DocumentMetadata>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Takes the files that match one of these patterns instead. A pattern without a slash is for names, one with a
    /// slash for paths below the root.
    pub fn patterns(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patterns = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves out what `.gitignore` files say.
    pub fn respect_gitignore(mut self, respects: bool) -> Self {
        self.respects_gitignore = respects;
        self
    }

    fn globs(&self) -> Result<GlobSet, DocsError> {
        let default = ["*.md".to_owned()];
        glob_set(if self.patterns.is_empty() { &default } else { &self.patterns })
    }

    /// The documents in the order of their ids, whatever the order of the folders. A cache among them is not looked
    /// into.
    pub(crate) fn files(&self, cache: Option<&Path>) -> Result<Vec<SourceFile>, DocsError> {
        if !self.root.is_dir() {
            return Err(DocsError::NoSources { path: self.root.clone() });
        }
        let globs = self.globs()?;
        let cache = cache.and_then(|cache| cache.canonicalize().ok());
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        let mut walk = WalkBuilder::new(&self.root);
        walk.standard_filters(false).require_git(false);
        walk.git_ignore(self.respects_gitignore).parents(self.respects_gitignore);
        walk.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_cache =
                |cache: &PathBuf| entry.path().canonicalize().is_ok_and(|path| path == *cache);
            !(is_folder && cache.as_ref().is_some_and(is_cache))
        });
        for entry in walk.build() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    problems.push(error.to_string());
                    continue;
                }
            };
            // Links are not followed: what they lead to may lie outside.
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let Ok(relative) = entry.path().strip_prefix(&self.root) else { continue };
            if !globs.is_match(relative) {
                continue;
            }
            match slash_path(relative) {
                Some(path) => {
                    let id = path.to_lowercase();
                    let metadata = self.metadata.get(&path).cloned().unwrap_or_default();
                    files.push(SourceFile {
                        id,
                        path,
                        file: entry.into_path(),
                        metadata,
                        path_rank: 0,
                    });
                }
                None => problems.push(format!(
                    "{}: its name is not UTF-8, or has a line break; rename it",
                    relative.display()
                )),
            }
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        files.iter_mut().zip(0..).for_each(|(file, path_rank)| file.path_rank = path_rank);
        for path in self.metadata.keys() {
            if files.binary_search_by(|file| file.path.as_str().cmp(path)).is_err() {
                problems.push(format!("{path}: it is no document; remove its metadata"));
            }
        }
        files.sort_unstable_by(|a, b| (&a.id, &a.path).cmp(&(&b.id, &b.path)));
        for pair in files.windows(2).filter(|pair| pair[0].id == pair[1].id) {
            let (first, second) = (&pair[0].path, &pair[1].path);
            problems.push(format!(
                "{first} and {second} differ only in the case of letters; rename one"
            ));
        }
        problems.sort_unstable();
        if problems.is_empty() { Ok(files) } else { Err(DocsError::Sources { problems }) }
    }
}

/// What matches one of these patterns: one without a slash is for names, one with a slash for whole paths.
pub(crate) fn glob_set(patterns: &[String]) -> Result<GlobSet, DocsError> {
    let mut globs = GlobSetBuilder::new();
    let invalid = |pattern: &str, error: &globset::Error| DocsError::Pattern {
        pattern: pattern.to_owned(),
        problem: error.kind().to_string(),
    };
    for pattern in patterns {
        let whole = match pattern.trim_start_matches('/') {
            path if path.contains('/') => path.to_owned(),
            name => format!("**/{name}"),
        };
        let glob = GlobBuilder::new(&whole).literal_separator(true).build();
        globs.add(glob.map_err(|error| invalid(pattern, &error))?);
    }
    globs.build().map_err(|error| invalid(&patterns.join(", "), &error))
}

/// A path with forward slashes.
fn slash_path(relative: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> =
        relative.components().map(|part| part.as_os_str().to_str()).collect();
    let path = parts?.join("/");
    (!path.contains(['\n', '\r', '\0'])).then_some(path)
}

/// Whether a path stays below where it starts.
pub(crate) fn is_contained_path(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\n', '\r', '\0'])
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
