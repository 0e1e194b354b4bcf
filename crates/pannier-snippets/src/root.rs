//! Roots (folders of snippets) and contained file access.
//!
//! Paths in indexes and references are untrusted. The reader never leaves the root, neither by `..` nor through symbolic
//! links. It resolves each folder once and caches the result; it opens the file itself without following links. So the
//! checks cost nothing per file apart from the read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use crate::SnippetsError;
use crate::id::has_valid_segments;
use crate::reference::Alias;

/// The file name of indexes.
pub(crate) const INDEX: &str = "index.yaml";

/// The maximum size of a snippet file.
pub(crate) const MAX_FILE_BYTES: u64 = 8 << 20;

/// The maximum size of an index.
pub(crate) const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The maximum length of a path, as on Linux.
const MAX_PATH_BYTES: usize = 4_096;

/// The maximum number of folders above a root that a path may start with.
const MAX_NAME_FOLDERS: usize = 8;

/// A folder with snippets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
    /// The canonical path.
    real: PathBuf,
    /// The absolute path, with links.
    absolute: PathBuf,
    names: Vec<String>,
    /// The name in messages, instead of the path.
    label: Option<String>,
}

impl Root {
    /// Returns the path as passed to [`Roots::open`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the canonical path.
    pub fn real_path(&self) -> &Path {
        &self.real
    }

    /// Returns the names of the folder, with and without links resolved. References may start with either.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Strips the last folders of the root's path from a path that starts with them, as many as possible.
    pub(crate) fn without_name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let ends = path.match_indices('/').map(|(end, _)| end).take(MAX_NAME_FOLDERS);
        let is_name = |end: &usize| {
            [&self.real, &self.absolute].iter().any(|own| own.ends_with(&path[..*end]))
        };
        ends.filter(|end| *end > 0).filter(is_name).last().map(|end| &path[end + 1..])
    }

    /// Returns a path below the root for messages.
    pub(crate) fn display_path(&self, path: &str) -> String {
        match &self.label {
            Some(label) => crate::id::one_line(&format!("{label}/{path}")),
            None => crate::id::one_line(&self.path.join(path).display().to_string()),
        }
    }

    /// Makes an absolute path relative to the root, if it is below the root.
    pub(crate) fn strip_root(&self, path: &Path) -> Option<String> {
        let rest = path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.absolute));
        let rest = rest.ok()?.to_str()?.replace(std::path::MAIN_SEPARATOR, "/");
        is_below(&rest).then_some(rest)
    }
}

/// The folders of snippets, which do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    roots: Vec<Root>,
    home: Option<PathBuf>,
    aliases: Vec<Alias>,
}

impl Roots {
    /// Opens folders, in any order. `home` replaces `~` in references; without it, such references match nothing.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::NoRoots`] if `paths` is empty, [`SnippetsError::NoRoot`] if a path is not a folder,
    /// [`SnippetsError::SameRoots`] if a folder appears twice, [`SnippetsError::NestedRoots`] if one contains another,
    /// [`SnippetsError::Io`] if a folder cannot be opened.
    pub fn open(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        home: Option<PathBuf>,
    ) -> Result<Self, SnippetsError> {
        let mut roots = Vec::new();
        for path in paths {
            let path = path.into();
            let failed = |error| SnippetsError::io("open", &path, error);
            let real = match path.canonicalize() {
                Ok(real) if real.is_dir() => real,
                Ok(_) => return Err(SnippetsError::NoRoot { path }),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(SnippetsError::NoRoot { path });
                }
                Err(error) => return Err(failed(error)),
            };
            let absolute = std::path::absolute(&path).map_err(failed)?;
            let names = [&absolute, &real].into_iter().filter_map(|path| path.file_name());
            let mut names: Vec<String> =
                names.map(|name| name.to_string_lossy().into_owned()).collect();
            names.dedup();
            roots.push(Root { path, real, absolute, names, label: None });
        }
        roots.sort_by(|a, b| a.real.cmp(&b.real));
        for pair in roots.windows(2) {
            // In sorted order, the subfolders of a folder directly follow it.
            if pair[1].real.starts_with(&pair[0].real) {
                let (inner, outer) = (pair[1].path.clone(), pair[0].path.clone());
                return Err(match pair[1].real == pair[0].real {
                    true => SnippetsError::SameRoots { path: inner },
                    false => SnippetsError::NestedRoots { inner, outer },
                });
            }
        }
        match roots.is_empty() {
            true => Err(SnippetsError::NoRoots),
            false => Ok(Self { roots, home, aliases: Vec::new() }),
        }
    }

    /// Sets the names of the folders in messages, by their paths. A server names no paths.
    #[must_use]
    pub fn with_labels(mut self, label: impl Fn(&Path) -> Option<String>) -> Self {
        for root in &mut self.roots {
            root.label = label(&root.path);
        }
        self
    }

    /// Sets other names for paths. They come before those of the indexes.
    #[must_use]
    pub fn with_aliases(mut self, aliases: Vec<Alias>) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) fn aliases(&self) -> &[Alias] {
        &self.aliases
    }

    /// Iterates over the folders, sorted by canonical path.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter()
    }

    pub(crate) fn get(&self, number: usize) -> &Root {
        &self.roots[number]
    }

    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

/// Returns whether a path is relative, without `..` and control characters, and at most [`MAX_PATH_BYTES`] long.
pub(crate) fn is_below(path: &str) -> bool {
    let is_plain = |byte: u8| !byte.is_ascii_control() && byte != b'\\';
    let is_normal = |component: Component<'_>| matches!(component, Component::Normal(_));
    path.len() <= MAX_PATH_BYTES
        && has_valid_segments(path, is_plain)
        && (path.is_ascii() || !path.contains(char::is_control))
        // Windows prefixes such as `C:` contain a colon.
        && (!path.contains(':') || Path::new(path).components().all(is_normal))
}

/// The reason why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    Missing,
    Refused(String),
}

impl ReadFailure {
    pub(crate) fn problem(&self) -> &str {
        match self {
            Self::Missing => "it does not exist",
            Self::Refused(problem) => problem,
        }
    }
}

/// Reads files of a root.
#[derive(Debug)]
pub(crate) struct Reader<'r> {
    root: &'r Root,
    /// The canonical paths of folders, by path below the root.
    folders: BTreeMap<String, Result<PathBuf, ReadFailure>>,
    /// The last of them, which usually contains the next file, too.
    last: (String, PathBuf),
}

impl<'r> Reader<'r> {
    pub(crate) fn new(root: &'r Root) -> Self {
        Self { root, folders: BTreeMap::new(), last: (String::new(), root.real.clone()) }
    }

    /// Reads a UTF-8 file of at most `max_bytes`.
    pub(crate) fn read(&mut self, path: &str, max_bytes: u64) -> Result<String, ReadFailure> {
        let refused = |problem: &str| ReadFailure::Refused(problem.to_owned());
        if !is_below(path) {
            return Err(refused("its path is outside of the root"));
        }
        let file = self.open(path)?;
        let metadata = file.metadata().map_err(|error| read_failure(&error))?;
        if !metadata.is_file() {
            return Err(refused("it is not a file"));
        }
        let size = usize::try_from(metadata.len()).ok().filter(|_| metadata.len() <= max_bytes);
        let size = size
            .ok_or_else(|| ReadFailure::Refused(format!("it has more than {max_bytes} bytes")))?;
        let mut bytes = Vec::with_capacity(size);
        // One byte more, to detect a file that grows.
        let read = file.take(metadata.len().saturating_add(1)).read_to_end(&mut bytes);
        match read.map_err(|error| read_failure(&error))? == size {
            true => String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8")),
            false => Err(refused("it is being written")),
        }
    }

    fn open(&mut self, path: &str) -> Result<File, ReadFailure> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.last.0 != folder {
            self.last = (folder.to_owned(), self.folder(folder)?);
        }
        self.last.1.push(name);
        let file = match open_no_follow(&self.last.1) {
            Err(_) if is_link(&self.last.1) => match self.resolve(&self.last.1) {
                Ok(path) => open_no_follow(&path).map_err(|error| read_failure(&error)),
                Err(failure) => Err(failure),
            },
            file => file.map_err(|error| read_failure(&error)),
        };
        self.last.1.pop();
        file
    }

    /// Returns the canonical path of a folder, from the cache if possible.
    fn folder(&mut self, path: &str) -> Result<PathBuf, ReadFailure> {
        if path.is_empty() {
            return Ok(self.root.real.clone());
        }
        if let Some(known) = self.folders.get(path) {
            return known.clone();
        }
        // Iterative, from the nearest cached ancestor: a path may have thousands of components.
        let mut starts = path.match_indices('/').map(|(end, _)| end).chain([path.len()]).rev();
        let known = starts.find_map(|end| Some((end, self.folders.get(&path[..end])?.clone())));
        let (mut end, mut resolved) = known.unwrap_or_else(|| (0, Ok(self.root.real.clone())));
        while end < path.len() {
            let start = if end == 0 { 0 } else { end + 1 };
            end = path[start..].find('/').map_or(path.len(), |length| start + length);
            let name = &path[start..end];
            resolved = resolved.and_then(|parent| self.follow(parent.join(name)));
            self.folders.insert(path[..end].to_owned(), resolved.clone());
            // Nothing exists below a missing folder, so do not cache thousands of failures.
            if resolved.is_err() {
                self.folders.insert(path.to_owned(), resolved.clone());
                break;
            }
        }
        resolved
    }

    /// Resolves the last component of a path whose parent is canonical.
    fn follow(&self, path: PathBuf) -> Result<PathBuf, ReadFailure> {
        let metadata = fs::symlink_metadata(&path).map_err(|error| read_failure(&error))?;
        if metadata.is_symlink() { self.resolve(&path) } else { Ok(path) }
    }

    /// Follows a link that stays below the root.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ReadFailure> {
        let target = path.canonicalize().map_err(|error| read_failure(&error))?;
        match target.starts_with(&self.root.real) {
            true => Ok(target),
            false => {
                Err(ReadFailure::Refused("a symbolic link points outside of the root".to_owned()))
            }
        }
    }
}

/// Opens a file for reading. Fails on a symbolic link and does not block on a named pipe.
#[cfg(unix)]
fn open_no_follow(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
fn open_no_follow(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is not a file")),
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn read_failure(error: &io::Error) -> ReadFailure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFailure::Missing,
        _ => ReadFailure::Refused(format!("it cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Scratch;

    #[test]
    fn roots_are_folders_without_overlap() {
        let scratch = Scratch::new("roots");
        scratch.write("docs/global/a.md", "");
        scratch.write("docs-more/a.md", "");
        let at = |path: &str| scratch.path().join(path);
        let open = |paths: &[&str]| Roots::open(paths.iter().map(|path| at(path)), None);
        let names = |paths: &[&str]| {
            open(paths).unwrap().iter().map(|root| root.names().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(names(&["docs-more", "docs"]), ["docs", "docs-more"]);
        assert!(matches!(open(&[]), Err(SnippetsError::NoRoots)));
        for bad in ["none", "docs/global/a.md"] {
            assert!(matches!(open(&[bad]), Err(SnippetsError::NoRoot { .. })), "{bad}");
        }
        assert!(matches!(open(&["docs", "docs/."]), Err(SnippetsError::SameRoots { .. })));
        for nested in [["docs/global", "docs"], ["docs/../docs", "docs/global"]] {
            let error = open(&nested).unwrap_err();
            assert!(matches!(error, SnippetsError::NestedRoots { .. }), "{nested:?}: {error}");
        }
    }

    #[test]
    fn relative_paths_without_parents_are_below() {
        for good in ["a", "a/b.md", "..a/b", "a b/ä.md"] {
            assert!(is_below(good), "{good}");
        }
        let long = "a/".repeat(MAX_PATH_BYTES / 2) + "a";
        for bad in [
            "", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\0", "a\nb", "a\\b",
            &long,
        ] {
            assert!(!is_below(bad), "{bad:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_outside_of_the_root_are_not_read() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("outside");
        let at = |path: &str| scratch.path().join(path);
        scratch.write("secret/a.md", "secret");
        scratch.write("docs/in/a.md", "inside");
        scratch.write("docs/long.md", "12345678901");
        scratch.write_bytes("docs/latin.md", b"\xe4");
        symlink(at("secret/a.md"), at("docs/file.md")).unwrap();
        symlink(at("secret"), at("docs/folder")).unwrap();
        symlink("in/a.md", at("docs/within.md")).unwrap();
        symlink("in", at("docs/also")).unwrap();
        symlink("nowhere", at("docs/dangling.md")).unwrap();
        let pipe = at("docs/pipe.md");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let roots = Roots::open([at("docs")], None).unwrap();
        let mut reader = Reader::new(roots.get(0));
        let mut read =
            |path: &str| reader.read(path, 10).map_err(|failure| failure.problem().to_owned());
        for inside in ["in/a.md", "within.md", "also/a.md"] {
            assert_eq!(read(inside).as_deref(), Ok("inside"), "{inside}");
        }
        for (path, problem) in [
            ("../secret/a.md", "its path is outside of the root"),
            ("/etc/passwd", "its path is outside of the root"),
            ("a\0b", "its path is outside of the root"),
            ("file.md", "a symbolic link points outside of the root"),
            ("folder/a.md", "a symbolic link points outside of the root"),
            ("dangling.md", "it does not exist"),
            ("none/a.md", "it does not exist"),
            ("in/a.md/b.md", "it does not exist"),
            ("in", "it is not a file"),
            ("pipe.md", "it is not a file"),
            ("long.md", "it has more than 10 bytes"),
            ("latin.md", "it is not UTF-8"),
        ] {
            assert_eq!(read(path), Err(problem.to_owned()), "{path}");
        }
    }
}
