//! Session ids.

use std::fmt;

use crate::SessionError;

/// The id of a session, safe as a part of a file name.
///
/// ```
/// use pannier_files::SessionId;
///
/// assert_eq!(SessionId::new("6d40ae08")?.as_str(), "6d40ae08");
/// assert!(SessionId::new("x/../../evil").is_err());
/// # Ok::<(), pannier_files::SessionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Checks an id: 1 to 128 letters, digits, `.`, `_` and `-`, without `.` at the beginning.
    ///
    /// # Errors
    ///
    /// [`SessionError::Id`] for anything else.
    pub fn new(id: &str) -> Result<Self, SessionError> {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_name =
            (1..=128).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_plain);
        match is_name {
            true => Ok(Self(id.to_owned())),
            false => Err(SessionError::Id { id: id.chars().take(40).collect() }),
        }
    }

    /// Takes the id that a host gave a session. An id that [`new`](Self::new) rejects is replaced by its hash.
    pub fn from_host(id: &str) -> Self {
        Self::new(id).unwrap_or_else(|_| Self(blake3::hash(id.as_bytes()).to_hex().to_string()))
    }

    /// Returns the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_folder() {
        for good in
            ["a", "6d40ae08-1b2c", "A.b_c-9", "..a".trim_start_matches('.'), &"x".repeat(128)]
        {
            assert!(SessionId::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "x/../../evil",
            "a b",
            "a\n",
            "a\0",
            "ä",
            "C:x",
            &"x".repeat(129),
        ] {
            let error = SessionId::new(bad).unwrap_err();
            assert!(error.to_string().contains("1 to 128"), "{error}");
        }
    }
}
