//! Folders by name.
//!
//! Clients never see or say where a folder is: they call it by a name, which stands in URIs, too. A host part of a URI has no
//! case, so neither have names.

use std::path::PathBuf;
use std::str::FromStr;

use crate::ServeError;

/// A folder, and what clients call it.
///
/// ```
/// use pannier_mcp::NamedFolder;
///
/// let named: NamedFolder = "handbook=.cache/docs".parse()?;
/// assert_eq!(named.name(), "handbook");
/// let plain: NamedFolder = ".cache/docs".parse()?;
/// assert_eq!(plain.name(), "docs");
/// # Ok::<(), pannier_mcp::ServeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    name: String,
    path: PathBuf,
}

impl NamedFolder {
    /// Names a folder.
    ///
    /// # Errors
    ///
    /// [`ServeError::Name`] if that cannot be a name.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Result<Self, ServeError> {
        let path = path.into();
        match is_name(name) {
            true => Ok(Self { name: name.to_owned(), path }),
            false => Err(ServeError::Name { name: name.chars().take(80).collect(), path }),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl FromStr for NamedFolder {
    type Err = ServeError;

    /// Reads `NAME=PATH`, or a path that is called by its last part. The folder `.context` is called by that of its project.
    fn from_str(text: &str) -> Result<Self, ServeError> {
        if let Some((name, path)) = text.split_once('=')
            && is_name(name)
            && !path.is_empty()
        {
            return Self::new(name, path);
        }
        let path = PathBuf::from(text);
        // Of `.` and `..`, only the system knows the name.
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        let named = match whole.file_name() {
            Some(name) if name == ".context" => {
                whole.parent().and_then(|parent| parent.file_name())
            }
            name => name,
        };
        let name = named.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::new(&name, path)
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain) && name.contains(|c| c != '.')
}

/// Refuses two folders of one name.
pub(crate) fn check_names(folders: &[NamedFolder]) -> Result<(), ServeError> {
    for (place, folder) in folders.iter().enumerate() {
        let is_same = |other: &NamedFolder| other.name.eq_ignore_ascii_case(&folder.name);
        if folders[..place].iter().any(is_same) {
            let (name, path) = (folder.name.clone(), folder.path.clone());
            return Err(ServeError::SameName { name, path });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
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
            assert!(matches!(error, ServeError::Name { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn two_folders_of_one_name_are_refused() {
        let folders = ["a=x", "b=y", "A=z"].map(|text| text.parse().unwrap());
        let error = check_names(&folders).unwrap_err();
        assert_eq!(
            error.to_string(),
            "two folders are called 'A'; give one another name, as in A-2=z"
        );
        assert!(check_names(&folders[..2]).is_ok());
    }
}
