//! What resources are called: `pannier://NAME/docs/PATH` for a document of a cache, `pannier://NAME/snippets/ID` for a snippet.
//!
//! A URI is only ever compared with names that are known. Nothing of it becomes the path of a file, so there is nowhere that
//! one could lead.

use std::fmt;

const SCHEME: &str = "pannier://";

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    Snippet,
}

impl Kind {
    fn segment(self) -> &'static str {
        match self {
            Self::Document => "docs",
            Self::Snippet => "snippets",
        }
    }
}

/// The name of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uri {
    pub(crate) folder: String,
    pub(crate) kind: Kind,
    /// The path of the document, or the id of the snippet.
    pub(crate) name: String,
}

impl Uri {
    pub(crate) fn new(folder: &str, kind: Kind, name: &str) -> Self {
        Self { folder: folder.to_owned(), kind, name: name.to_owned() }
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return None;
        }
        let (folder, rest) = rest.split_once('/')?;
        let (segment, name) = rest.split_once('/')?;
        let kind = match segment {
            "docs" => Kind::Document,
            "snippets" => Kind::Snippet,
            _ => return None,
        };
        Some(Self { folder: folder.to_owned(), kind, name: decode(name)? })
    }

    /// What all names of a folder begin with.
    pub(crate) fn template(folder: &str, kind: Kind) -> String {
        format!("{SCHEME}{folder}/{}/{{+name}}", kind.segment())
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/", self.folder, self.kind.segment())?;
        for byte in self.name.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    write!(f, "{}", char::from(byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(left.next())?, digit(left.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back() {
        for name in ["a.md", "a b/c%d.md", "ü/漢.md", "x?y#z", "a//b", "..", "\n"] {
            let uri = Uri::new("docs", Kind::Document, name);
            let text = uri.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(Uri::read(&text), Some(uri));
        }
        assert_eq!(
            Uri::new("d", Kind::Snippet, "a/b c").to_string(),
            "pannier://d/snippets/a/b%20c"
        );
    }

    #[test]
    fn what_is_no_uri_of_ours_is_none() {
        for text in [
            "",
            "pannier",
            "pannier://",
            "pannier://a",
            "pannier://a/docs",
            "pannier://a/other/x",
            "file:///etc/passwd",
            "pannier://a/docs/%",
            "pannier://a/docs/%4",
            "pannier://a/docs/%zz",
            "pannier://a/docs/%ff",
            "ü://",
        ] {
            assert_eq!(Uri::read(text), None, "{text}");
        }
    }
}
