//! The files of a document folder, their paths and ids.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;

use crate::{DocsError, DocumentMetadata};

/// A folder of documents, and which of its files are indexed.
#[derive(Clone, Debug)]
pub struct DocumentSource {
    root: PathBuf,
    patterns: Vec<String>,
    respects_gitignore: bool,
    metadata: BTreeMap<String, DocumentMetadata>,
}

/// A file to be indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Its id: the lowercased path.
    pub(crate) id: String,
    /// Its path relative to the root, with forward slashes.
    pub(crate) path: String,
    /// Its path on disk.
    pub(crate) file: PathBuf,
    /// The title and date from the caller.
    pub(crate) metadata: DocumentMetadata,
    /// Its position among all documents in path order.
    pub(crate) path_rank: u32,
}

impl DocumentSource {
    /// Indexes the `.md` files below a folder, including hidden ones.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            patterns: Vec::new(),
            respects_gitignore: false,
            metadata: BTreeMap::new(),
        }
    }

    /// Sets titles and dates by path relative to the root. They take precedence over front matter.
    pub fn metadata(mut self, metadata: BTreeMap<String, DocumentMetadata>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Indexes the files that match any of these glob patterns instead. A pattern without a slash matches file names, one with
    /// a slash matches paths relative to the root.
    pub fn patterns(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patterns = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether files that `.gitignore` lists are skipped. Default: no.
    pub fn respect_gitignore(mut self, respects: bool) -> Self {
        self.respects_gitignore = respects;
        self
    }

    fn globs(&self) -> Result<GlobSet, DocsError> {
        let default = ["*.md".to_owned()];
        glob_set(if self.patterns.is_empty() { &default } else { &self.patterns })
    }

    /// Returns the files ordered by id. The folder of the index itself is skipped.
    pub(crate) fn files(&self, index: Option<&Path>) -> Result<Vec<SourceFile>, DocsError> {
        if !self.root.is_dir() {
            return Err(DocsError::NoSources { path: self.root.clone() });
        }
        let globs = self.globs()?;
        let index = index.and_then(|index| index.canonicalize().ok());
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        let mut walk = WalkBuilder::new(&self.root);
        walk.standard_filters(false).require_git(false);
        walk.git_ignore(self.respects_gitignore).parents(self.respects_gitignore);
        walk.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_index =
                |index: &PathBuf| entry.path().canonicalize().is_ok_and(|path| path == *index);
            !(is_folder && index.as_ref().is_some_and(is_index))
        });
        for entry in walk.build() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    problems.push(error.to_string());
                    continue;
                }
            };
            // Links are not followed: their targets may be outside the root.
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
                    "{}: its name is not UTF-8 or contains a line break; rename it",
                    relative.display()
                )),
            }
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        files.iter_mut().zip(0..).for_each(|(file, path_rank)| file.path_rank = path_rank);
        for path in self.metadata.keys() {
            if files.binary_search_by(|file| file.path.as_str().cmp(path)).is_err() {
                problems
                    .push(format!("{path}: there is no such document; remove its title and date"));
            }
        }
        files.sort_unstable_by(|a, b| (&a.id, &a.path).cmp(&(&b.id, &b.path)));
        for pair in files.windows(2).filter(|pair| pair[0].id == pair[1].id) {
            let (first, second) = (&pair[0].path, &pair[1].path);
            problems.push(format!("{first} and {second} differ only in case; rename one"));
        }
        problems.sort_unstable();
        if problems.is_empty() { Ok(files) } else { Err(DocsError::Sources { problems }) }
    }
}

/// Compiles glob patterns: one without a slash matches file names, one with a slash matches whole paths.
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

/// Returns a path with forward slashes, if it is UTF-8 and has no line break.
fn slash_path(relative: &Path) -> Option<String> {
    let components: Option<Vec<&str>> =
        relative.components().map(|component| component.as_os_str().to_str()).collect();
    let path = components?.join("/");
    (!path.contains(['\n', '\r', '\0'])).then_some(path)
}

/// Returns whether a relative path stays within its root.
pub(crate) fn is_contained_path(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\n', '\r', '\0'])
        && path.split('/').all(|component| !matches!(component, "" | "." | ".."))
}
