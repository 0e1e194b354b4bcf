//! Folders by name.
//!
//! Clients of a server know names, never paths. A name is also the host of a URI, which has no case; so names have none.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::ShelfError;

/// The longest part of a foreign name that a message repeats.
pub(super) const MAX_SHOWN_CHARS: usize = 80;

/// A folder and its name.
///
/// ```
/// use pannier::NamedFolder;
///
/// let named: NamedFolder = "handbook=.cache/docs".parse()?;
/// assert_eq!(named.name(), "handbook");
/// let plain: NamedFolder = ".cache/docs".parse()?;
/// assert_eq!(plain.name(), "docs");
/// # Ok::<(), pannier::ShelfError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct NamedFolder {
    name: String,
    path: PathBuf,
}

impl NamedFolder {
    /// Names a folder.
    ///
    /// # Errors
    ///
    /// [`ShelfError::InvalidName`] unless the name has 1 to 64 ASCII letters, digits, `.`, `_` and `-`.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Result<Self, ShelfError> {
        let path = path.into();
        match is_name(name) {
            true => Ok(Self { name: name.to_owned(), path }),
            false => {
                let name = name.chars().take(MAX_SHOWN_CHARS).collect();
                Err(ShelfError::InvalidName { name, path: shown(&path) })
            }
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for NamedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedFolder")
            .field("name", &self.name)
            .field("path", &shown(&self.path))
            .finish()
    }
}

/// Returns a path for a message. The address of a database may have a password, so only its scheme is shown.
fn shown(path: &Path) -> PathBuf {
    match path.to_str().and_then(|text| text.split_once("://")) {
        Some((scheme, _)) => format!("{scheme}://…").into(),
        None => path.to_owned(),
    }
}

/// Returns the name of a collection, by the address of its database.
fn collection_name(address: &str) -> &str {
    let options = address.split_once('?').map_or("", |(_, options)| options);
    let mut options = options.split('&').filter_map(|option| option.split_once('='));
    let name = options.find(|(key, _)| *key == "collection").map_or("default", |(_, name)| name);
    if is_name(name) { name } else { "collection" }
}

impl FromStr for NamedFolder {
    type Err = ShelfError;

    /// Parses `NAME=PATH`, or a path whose last component is the name. A folder `.context` has the name of its project.
    fn from_str(text: &str) -> Result<Self, ShelfError> {
        // An address always has a name: a message about it could show its password.
        if let Some((before, _)) = text.split_once("://") {
            let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            let (before, address) = text.split_at(before.trim_end_matches(is_scheme).len());
            let name = before.strip_suffix('=').filter(|name| is_name(name));
            return Self::new(name.unwrap_or_else(|| collection_name(address)), address);
        }
        if let Some((name, path)) = text.split_once('=')
            && is_name(name)
            && !path.is_empty()
        {
            return Self::new(name, path);
        }
        let path = PathBuf::from(text);
        // Only the file system knows the names of `.` and `..`.
        let absolute = path.canonicalize().unwrap_or_else(|_| path.clone());
        let last = match absolute.file_name() {
            Some(name) if name == ".context" => absolute.parent().and_then(Path::file_name),
            name => name,
        };
        let name = last.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::new(&name, path)
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain) && name.contains(|c| c != '.')
}

/// Rejects two folders with one name.
#[cfg(any(feature = "docs", feature = "memory", feature = "snippets"))]
pub(super) fn check_names(folders: &[NamedFolder]) -> Result<(), ShelfError> {
    for (position, folder) in folders.iter().enumerate() {
        let is_same = |other: &NamedFolder| other.name.eq_ignore_ascii_case(&folder.name);
        if folders[..position].iter().any(is_same) {
            let (name, path) = (folder.name.clone(), shown(&folder.path));
            return Err(ShelfError::DuplicateName { name, path });
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "docs"))]
mod tests {
    use super::*;

    #[test]
    fn parse_takes_a_name_or_the_last_component() {
        for (text, name) in [
            ("a=b", "a"),
            ("a=b=c", "a"),
            ("/x/docs", "docs"),
            ("/x/docs/", "docs"),
            ("/project/.context", "project"),
            ("A-b_c.9=/x", "A-b_c.9"),
        ] {
            assert_eq!(text.parse::<NamedFolder>().unwrap().name(), name, "{text}");
        }
        for text in ["/x/my docs", "/", "ä=/x/ä", "", "..=/x/a b"] {
            let error = text.parse::<NamedFolder>().unwrap_err();
            assert!(matches!(error, ShelfError::InvalidName { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_of_databases_have_names_and_are_not_shown() {
        for (text, name) in [
            ("team=postgres://me:hunter2@db/x", "team"),
            ("postgres://me:hunter2@db/x?collection=handbook&sslmode=require", "handbook"),
            ("postgresql://me:hunter2@db/x", "default"),
            ("my docs=postgres://me:hunter2@db/x?collection=a%20b", "collection"),
            ("postgresql+psycopg://me:hunter2@db", "default"),
            ("team=postgresql+psycopg://me:hunter2@db/x", "team"),
        ] {
            let named: NamedFolder = text.parse().unwrap();
            assert_eq!(named.name(), name);
            assert!(named.path().to_str().unwrap().starts_with("postgres"));
            let error = check_names(&[named.clone(), named.clone()]).unwrap_err();
            assert!(!format!("{named:?} {error} {error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn check_names_rejects_duplicates_ignoring_case() {
        let folders = ["a=x", "b=y", "A=z"].map(|text| text.parse().unwrap());
        let error = check_names(&folders).unwrap_err();
        assert_eq!(error.to_string(), "two folders are called 'A'; rename one, as in A-2=z");
        assert!(check_names(&folders[..2]).is_ok());
    }
}
