//! Folders with snippets, and reading what is in them.
//!
//! Paths in an index and in references are foreign. They are relative, and nothing outside of a root is ever read: not by
//! `..`, not through a link. What a path goes through is looked up once for each folder, and the file itself is opened
//! without following a link, so that a file costs no more than reading it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use crate::SnippetsError;
use crate::id::has_parts;

/// What an index is called.
pub(crate) const INDEX: &str = "index.yaml";

/// Longer files are not read.
pub(crate) const MAX_FILE_BYTES: u64 = 8 << 20;
pub(crate) const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Longer paths are none, as no system has them.
const MAX_PATH_BYTES: usize = 4_096;

/// A folder with snippets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
    /// Without links.
    real: PathBuf,
    /// As it was given, from the root of the file system on.
    absolute: PathBuf,
    names: Vec<String>,
}

impl Root {
    /// What was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is, without links.
    pub fn real_path(&self) -> &Path {
        &self.real
    }

    /// The names of the folder, with which references may begin: that of what was given, and that of where it is.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// What is left of a path behind the name of the folder.
    pub(crate) fn without_name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (first, rest) = path.split_once('/')?;
        self.names.iter().any(|name| name == first).then_some(rest)
    }

    /// A path in it, for people.
    pub(crate) fn display_path(&self, path: &str) -> String {
        crate::id::one_line(&self.path.join(path).display().to_string())
    }

    /// The path below it, if a path from the root of the file system on leads there.
    pub(crate) fn strip_root(&self, path: &Path) -> Option<String> {
        let rest = path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.absolute));
        let rest = rest.ok()?.to_str()?.replace(std::path::MAIN_SEPARATOR, "/");
        is_below(&rest).then_some(rest)
    }
}

/// The folders with snippets that are looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    roots: Vec<Root>,
    home: Option<PathBuf>,
}

impl Roots {
    /// Takes these folders. Their order does not matter. `home` is what `~` in references means; without it, nothing.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::NoRoots`] without any, [`SnippetsError::NoRoot`] if one is no folder,
    /// [`SnippetsError::SameRoots`] if one is there twice, [`SnippetsError::NestedRoots`] if one lies in another,
    /// [`SnippetsError::Io`] if one cannot be looked at.
    pub fn open(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        home: Option<PathBuf>,
    ) -> Result<Self, SnippetsError> {
        let mut roots = Vec::new();
        for path in paths {
            let path = path.into();
            let failed = |error| SnippetsError::io("look into", &path, error);
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
            roots.push(Root { path, real, absolute, names });
        }
        roots.sort_by(|a, b| a.real.cmp(&b.real));
        for pair in roots.windows(2) {
            // Whatever lies in a folder follows it, up to the next that does not.
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
            false => Ok(Self { roots, home }),
        }
    }

    /// The folders, in the order of where they are.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter()
    }

    pub(crate) fn get(&self, place: usize) -> &Root {
        &self.roots[place]
    }

    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

/// Whether a path stays below where it starts: no absolute path, no `..`, nothing that breaks a line.
pub(crate) fn is_below(path: &str) -> bool {
    let is_plain = |byte: u8| !byte.is_ascii_control() && byte != b'\\';
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    path.len() <= MAX_PATH_BYTES
        && has_parts(path, is_plain)
        && (path.is_ascii() || !path.contains(char::is_control))
        // Some systems have more ways to lead elsewhere, all of which have a colon.
        && (!path.contains(':') || Path::new(path).components().all(is_normal))
}

/// Why a file was not read, as a part of a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    Missing,
    Refused(String),
}

impl ReadFailure {
    pub(crate) fn problem(&self) -> &str {
        match self {
            Self::Missing => "it is not there",
            Self::Refused(problem) => problem,
        }
    }
}

/// RequiredReads files of a root.
#[derive(Debug)]
pub(crate) struct Reader<'r> {
    root: &'r Root,
    /// Where folders really are, as far as that is within the root.
    folders: BTreeMap<String, Result<PathBuf, ReadFailure>>,
    /// The last one of them, and where it is: mostly that of the next file, too.
    last: (String, PathBuf),
}

impl<'r> Reader<'r> {
    pub(crate) fn new(root: &'r Root) -> Self {
        Self { root, folders: BTreeMap::new(), last: (String::new(), root.real.clone()) }
    }

    /// The text of a file of at most so many bytes.
    pub(crate) fn read(&mut self, path: &str, most: u64) -> Result<String, ReadFailure> {
        let refused = |problem: &str| ReadFailure::Refused(problem.to_owned());
        if !is_below(path) {
            return Err(refused("its path leads out of the root"));
        }
        let file = self.open(path)?;
        let found = file.metadata().map_err(|error| unread(&error))?;
        if !found.is_file() {
            return Err(refused("it is not a file"));
        }
        let size = usize::try_from(found.len()).ok().filter(|_| found.len() <= most);
        let size =
            size.ok_or_else(|| ReadFailure::Refused(format!("it has more than {most} bytes")))?;
        let mut bytes = Vec::with_capacity(size);
        // One byte more, to see whether it has grown meanwhile.
        let read = file.take(found.len().saturating_add(1)).read_to_end(&mut bytes);
        match read.map_err(|error| unread(&error))? == size {
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
                Ok(path) => open_no_follow(&path).map_err(|error| unread(&error)),
                Err(unread) => Err(unread),
            },
            file => file.map_err(|error| unread(&error)),
        };
        self.last.1.pop();
        file
    }

    /// Where a folder really is.
    fn folder(&mut self, path: &str) -> Result<PathBuf, ReadFailure> {
        if path.is_empty() {
            return Ok(self.root.real.clone());
        }
        if let Some(known) = self.folders.get(path) {
            return known.clone();
        }
        // Down from the nearest folder that is known; a path may have more parts than a stack has frames.
        let mut starts = path.match_indices('/').map(|(end, _)| end).chain([path.len()]).rev();
        let known = starts.find_map(|end| Some((end, self.folders.get(&path[..end])?.clone())));
        let (mut end, mut found) = known.unwrap_or_else(|| (0, Ok(self.root.real.clone())));
        while end < path.len() {
            let start = if end == 0 { 0 } else { end + 1 };
            end = path[start..].find('/').map_or(path.len(), |length| start + length);
            let name = &path[start..end];
            found = found.and_then(|above| self.follow(above.join(name)));
            self.folders.insert(path[..end].to_owned(), found.clone());
            // There is nothing below what is not there; and a path may have thousands of parts.
            if found.is_err() {
                self.folders.insert(path.to_owned(), found.clone());
                break;
            }
        }
        found
    }

    /// Where something in a folder, which is without links, really is.
    fn follow(&self, path: PathBuf) -> Result<PathBuf, ReadFailure> {
        let found = fs::symlink_metadata(&path).map_err(|error| unread(&error))?;
        if found.is_symlink() { self.resolve(&path) } else { Ok(path) }
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf, ReadFailure> {
        let found = path.canonicalize().map_err(|error| unread(&error))?;
        match found.starts_with(&self.root.real) {
            true => Ok(found),
            false => Err(ReadFailure::Refused("a link leads out of the root".to_owned())),
        }
    }
}

/// Opens a file to read it, but not what a link leads to; and does not wait for whoever would write to a pipe.
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
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

fn unread(error: &io::Error) -> ReadFailure {
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
    fn roots_are_folders_that_do_not_overlap() {
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
    fn paths_stay_below() {
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
    fn nothing_outside_is_read() {
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
            |path: &str| reader.read(path, 10).map_err(|unread| unread.problem().to_owned());
        for inside in ["in/a.md", "within.md", "also/a.md"] {
            assert_eq!(read(inside).as_deref(), Ok("inside"), "{inside}");
        }
        for (path, problem) in [
            ("../secret/a.md", "its path leads out of the root"),
            ("/etc/passwd", "its path leads out of the root"),
            ("a\0b", "its path leads out of the root"),
            ("file.md", "a link leads out of the root"),
            ("folder/a.md", "a link leads out of the root"),
            ("dangling.md", "it is not there"),
            ("none/a.md", "it is not there"),
            ("in/a.md/b.md", "it is not there"),
            ("in", "it is not a file"),
            ("pipe.md", "it is not a file"),
            ("long.md", "it has more than 10 bytes"),
            ("latin.md", "it is not UTF-8"),
        ] {
            assert_eq!(read(path), Err(problem.to_owned()), "{path}");
        }
    }
}
