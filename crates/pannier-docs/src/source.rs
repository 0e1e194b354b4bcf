//! The files of a document folder: which of them are indexed, their paths and ids.
//!
//! Files are selected as ripgrep selects them: text files that no glob pattern, no `.gitignore` and no `.ignore` excludes, without
//! hidden ones. Only files below the folder and the ignore files of its parents matter, not the settings of a user, so that
//! the same tree gives the same index on every machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;
use serde::{Deserialize, Serialize};

use crate::stamps::Stamp;
use crate::{DocsError, DocumentMetadata};

/// The maximum size of a document.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// The folder of a Git repository, which is never indexed.
const GIT_FOLDER: &str = ".git";

/// Which files of a folder are indexed. An index remembers them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FileRules {
    /// Glob patterns: a file must match one of them, and none that starts with `!`. A pattern without a slash matches file
    /// names, one with a slash matches paths relative to the root. Default: all files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// Includes files and folders whose names start with a dot. Default: no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Includes files that `.gitignore` or `.ignore` exclude. Default: no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_ignore: bool,
    /// Fails if a selected file is not a text that can be read, instead of skipping it. Default: no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

impl FileRules {
    /// Creates the rules of the specified command `build`: `.md` files, hidden and ignored ones included, and all must be text.
    pub fn specified() -> Self {
        Self { globs: vec!["*.md".to_owned()], hidden: true, no_ignore: true, strict: true }
    }

    /// Creates rules that select all files, hidden and ignored ones included.
    pub fn all() -> Self {
        Self { hidden: true, no_ignore: true, ..Self::default() }
    }

    /// Returns whether these are the default rules.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A folder of documents, and which of its files are indexed.
#[derive(Clone, Debug)]
pub struct DocumentSource {
    pub(crate) root: PathBuf,
    pub(crate) rules: FileRules,
    /// Titles and dates by path; `None` keeps those of the index.
    metadata: Option<BTreeMap<String, DocumentMetadata>>,
}

/// The reason why a selected file is not indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkipReason {
    /// It contains a NUL byte.
    Binary,
    /// It is not UTF-8.
    NotUtf8,
    /// It is larger than a document may be.
    TooLarge,
    /// It cannot be read.
    Unreadable,
    /// Its path is not UTF-8, contains a line break, or differs from another one only in case.
    Name,
    /// It is a link or a special file. Targets of links may be outside of the folder.
    Link,
}

impl SkipReason {
    /// Returns the reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::NotUtf8 => "not UTF-8",
            Self::TooLarge => "too large",
            Self::Unreadable => "unreadable",
            Self::Name => "name not usable",
            Self::Link => "link or special file",
        }
    }
}

/// A selected file that is not indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedFile {
    pub(crate) path: String,
    pub(crate) reason: SkipReason,
    /// What is wrong with it, and what to do.
    pub(crate) problem: String,
    /// Its stamp, if the reason follows from its content.
    pub(crate) stamp: Option<Stamp>,
}

impl SkippedFile {
    fn new(path: impl Into<String>, reason: SkipReason, problem: impl Into<String>) -> Self {
        Self { path: path.into(), reason, problem: problem.into(), stamp: None }
    }

    /// Skips a file that was skipped before and has not changed.
    pub(crate) fn again(file: &SourceFile, reason: SkipReason) -> Self {
        Self { stamp: file.stamp, ..Self::new(&file.path, reason, reason.as_str()) }
    }

    pub(crate) fn message(&self) -> String {
        format!("{}: {}", self.path, self.problem)
    }
}

/// A file to be indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    root: Arc<Path>,
    /// Its path relative to the root, with forward slashes.
    pub(crate) path: String,
    /// The lowercased path, if it differs from the path.
    lowercase: Option<Box<str>>,
    /// The title and date from the caller; `None` keeps those of the index.
    pub(crate) metadata: Option<Box<DocumentMetadata>>,
    /// What the file system says about it.
    pub(crate) stamp: Option<Stamp>,
}

/// The files of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    /// Ordered by id.
    pub(crate) files: Vec<SourceFile>,
    pub(crate) skipped: Vec<SkippedFile>,
}

impl DocumentSource {
    /// Indexes the text files below a folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), rules: FileRules::default(), metadata: None }
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns which files are indexed.
    pub fn file_rules(&self) -> &FileRules {
        &self.rules
    }

    /// Sets which files are indexed.
    pub fn rules(mut self, rules: FileRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the glob patterns of the rules.
    pub fn patterns(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.rules.globs = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets titles and dates by path relative to the root. They take precedence over front matter. Without this, an update keeps
    /// those of the index.
    pub fn metadata(mut self, metadata: BTreeMap<String, DocumentMetadata>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Checks that the root is a folder, and that the patterns are valid.
    pub(crate) fn check(&self) -> Result<(), DocsError> {
        Globs::new(&self.rules.globs)?;
        match self.root.is_dir() {
            true => Ok(()),
            false => Err(DocsError::NoSources { path: self.root.clone() }),
        }
    }

    /// Returns the files ordered by id, as they are at the time `now`. The folder of the index itself is skipped.
    pub(crate) fn files(
        &self,
        index: Option<&Path>,
        now: SystemTime,
    ) -> Result<SourceFiles, DocsError> {
        let (mut found, mut skipped) = (self.walk(index, now)?, Vec::new());
        found.files.dedup_by(|second, first| {
            let is_clash = second.id() == first.id();
            if is_clash {
                let problem =
                    format!("its name and {} differ only in case; rename one", first.path);
                skipped.push(SkippedFile::new(&second.path, SkipReason::Name, problem));
            }
            is_clash
        });
        found.skipped.extend(skipped);
        found.skipped.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut problems = Vec::new();
        for path in self.metadata.iter().flat_map(BTreeMap::keys) {
            let id = path.to_lowercase();
            let same = found.files.binary_search_by(|file| file.id().cmp(&id));
            if same.is_err() {
                problems
                    .push(format!("{path}: there is no such document; remove its title and date"));
            }
        }
        if self.rules.strict {
            problems.extend(found.skipped.iter().map(SkippedFile::message));
        }
        problems.sort_unstable();
        if problems.is_empty() { Ok(found) } else { Err(DocsError::Sources { problems }) }
    }

    fn walk(&self, index: Option<&Path>, now: SystemTime) -> Result<SourceFiles, DocsError> {
        self.check()?;
        let globs = Globs::new(&self.rules.globs)?;
        let root: Arc<Path> = short_path(&self.root).into();
        let root = &root;
        // Links are not followed, so the index has one path below the root.
        let index = index.and_then(|index| {
            let (index, canonical) = (index.canonicalize().ok()?, root.canonicalize().ok()?);
            index.strip_prefix(canonical).ok().map(|below| root.join(below))
        });
        let mut walk = WalkBuilder::new(&**root);
        walk.standard_filters(false).require_git(false).hidden(!self.rules.hidden);
        let uses_ignore = !self.rules.no_ignore;
        walk.ignore(uses_ignore).git_ignore(uses_ignore).parents(uses_ignore);
        walk.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_skipped =
                || entry.file_name() == GIT_FOLDER || index.as_deref() == Some(entry.path());
            !is_folder || entry.depth() == 0 || !is_skipped()
        });
        let mut found = SourceFiles::default();
        let mut folders: Vec<Vec<SourceFile>> = Vec::new();
        for entry in walk.build() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let path = below(root, error_path(&error).unwrap_or(root));
                    let problem = format!("it cannot be read: {error}");
                    let skipped = SkippedFile::new(path, SkipReason::Unreadable, problem);
                    found.skipped.push(skipped);
                    continue;
                }
            };
            let kind = entry.file_type();
            if kind.is_some_and(|kind| kind.is_dir()) {
                continue;
            }
            let Ok(relative) = entry.path().strip_prefix(root) else { continue };
            if !globs.matches(relative) {
                continue;
            }
            // Links are not followed: their targets may be outside the root.
            if !kind.is_some_and(|kind| kind.is_file()) {
                // They are no mistake, so they do not fail a strict build.
                if !self.rules.strict {
                    let (path, reason) = (below(root, entry.path()), SkipReason::Link);
                    found.skipped.push(SkippedFile::new(path, reason, reason.as_str()));
                }
                continue;
            }
            match slash_path(relative) {
                Some(path) => {
                    let metadata = self.metadata.as_ref();
                    let metadata = metadata.map(|all| all.get(&path).cloned().unwrap_or_default());
                    let stamp = entry.metadata().ok();
                    let stamp = stamp.and_then(|stamp| Stamp::new(&stamp, now));
                    let file = SourceFile::new(root, path, metadata, stamp);
                    match folders.last_mut() {
                        Some(folder) if folder[0].folder() == file.folder() => folder.push(file),
                        _ => folders.push(vec![file]),
                    }
                }
                None => {
                    let problem = "its name is not UTF-8 or contains a line break; rename it";
                    let path = below(root, entry.path());
                    found.skipped.push(SkippedFile::new(path, SkipReason::Name, problem));
                }
            }
        }
        found.files = sorted(folders);
        Ok(found)
    }
}

/// Orders the files of folders by id. Most of a sort is comparing paths, and those of one folder are few.
fn sorted(mut folders: Vec<Vec<SourceFile>>) -> Vec<SourceFile> {
    let order = |a: &SourceFile, b: &SourceFile| (a.id(), &a.path).cmp(&(b.id(), &b.path));
    folders.iter_mut().for_each(|folder| folder.sort_unstable_by(order));
    folders.sort_unstable_by(|a, b| order(&a[0], &b[0]));
    let mut files: Vec<SourceFile> = folders.into_iter().flatten().collect();
    // Stable sorting exploits that they are nearly in order.
    files.sort_by(order);
    files
}

impl SourceFile {
    fn new(
        root: &Arc<Path>,
        path: String,
        metadata: Option<DocumentMetadata>,
        stamp: Option<Stamp>,
    ) -> Self {
        let is_lowercase = path.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        let lowercase = (!is_lowercase).then(|| path.to_lowercase().into());
        Self { root: Arc::clone(root), path, lowercase, metadata: metadata.map(Box::new), stamp }
    }

    /// Returns the path of its folder.
    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns its id: the lowercased path.
    pub(crate) fn id(&self) -> &str {
        self.lowercase.as_deref().unwrap_or(&self.path)
    }

    /// Returns its path on disk.
    pub(crate) fn location(&self) -> PathBuf {
        let mut location = self.root.to_path_buf();
        location.extend(self.path.split('/'));
        location
    }

    /// Reads the text, or returns why the file is not indexed.
    pub(crate) fn read(&self) -> Result<String, SkippedFile> {
        let skipped = |reason, problem: String| {
            let stamp = self.stamp;
            SkippedFile { stamp, ..SkippedFile::new(&self.path, reason, problem) }
        };
        let unreadable = |error| {
            let problem = format!("it cannot be read: {error}");
            SkippedFile::new(&self.path, SkipReason::Unreadable, problem)
        };
        let source = File::open(self.location()).map_err(unreadable)?;
        let bytes = pannier_files::read_file_bounded(&source, MAX_DOCUMENT_BYTES);
        let bytes = bytes.map_err(unreadable)?.ok_or_else(|| {
            let problem =
                format!("it is larger than {MAX_DOCUMENT_BYTES} bytes; split or exclude it");
            skipped(SkipReason::TooLarge, problem)
        })?;
        if bytes.contains(&0) {
            let problem = "it is binary: it contains a NUL byte; exclude it";
            return Err(skipped(SkipReason::Binary, problem.to_owned()));
        }
        String::from_utf8(bytes).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            let problem =
                format!("it is not UTF-8 at byte {offset}; save it as UTF-8 or exclude it");
            skipped(SkipReason::NotUtf8, problem)
        })
    }
}

/// Returns a folder relative to the current one, if that is shorter: the system resolves the path of every file below it.
fn short_path(folder: &Path) -> PathBuf {
    let short = || {
        let (current, folder) = (std::env::current_dir().ok()?, folder.canonicalize().ok()?);
        let below = folder.strip_prefix(current).ok()?;
        Some(if below == Path::new("") { PathBuf::from(".") } else { below.to_owned() })
    };
    let has_parents = folder.components().any(|component| component == Component::ParentDir);
    has_parents.then(short).flatten().unwrap_or_else(|| folder.to_owned())
}

/// Returns the path that an error of walking is about.
fn error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            error_path(err)
        }
        _ => None,
    }
}

/// Returns a path relative to the root, for messages.
fn below(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path).display().to_string();
    relative.escape_debug().to_string()
}

/// Compiled glob patterns.
struct Globs {
    /// `None` selects all files.
    included: Option<GlobSet>,
    excluded: GlobSet,
}

impl Globs {
    fn new(patterns: &[String]) -> Result<Self, DocsError> {
        let (excluded, included): (Vec<String>, Vec<String>) =
            patterns.iter().cloned().partition(|pattern| pattern.starts_with('!'));
        let excluded: Vec<String> =
            excluded.iter().map(|pattern| pattern[1..].to_owned()).collect();
        let included = if included.is_empty() { None } else { Some(glob_set(&included)?) };
        Ok(Self { included, excluded: glob_set(&excluded)? })
    }

    fn matches(&self, path: &Path) -> bool {
        self.included.as_ref().is_none_or(|included| included.is_match(path))
            && (self.excluded.is_empty() || !self.excluded.is_match(path))
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
    let path = relative.to_str()?;
    let path = match std::path::MAIN_SEPARATOR {
        '/' => path.to_owned(),
        separator => path.replace(separator, "/"),
    };
    (!path.contains(['\n', '\r', '\0'])).then_some(path)
}

/// Returns whether a relative path stays within its root.
pub(crate) fn is_contained_path(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\n', '\r', '\0'])
        && path.split('/').all(|component| !matches!(component, "" | "." | ".."))
}

/// Returns the path from one folder to another, both absolute, with forward slashes: relative, so that both can be moved
/// together. Folders without a common ancestor, and names that are not UTF-8, have none.
pub(crate) fn relative_path(from: &Path, to: &Path) -> Option<String> {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return None;
    }
    let up = std::iter::repeat_n(Some(".."), from.len() - common);
    let down = to[common..].iter().map(|component| component.as_os_str().to_str());
    let parts: Option<Vec<&str>> = up.chain(down).collect();
    Some(parts?.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_lead_from_one_folder_to_the_other() {
        let path = |from: &str, to: &str| relative_path(Path::new(from), Path::new(to));
        assert_eq!(path("/a/.pannier/index", "/a").as_deref(), Some("../.."));
        assert_eq!(path("/a/cache", "/a/docs/x").as_deref(), Some("../docs/x"));
        assert_eq!(path("/a", "/a").as_deref(), Some(""));
        assert_eq!(path("/a/b", "/").as_deref(), Some("../.."));
        assert_eq!(path("a", "/b"), None);
    }
}
