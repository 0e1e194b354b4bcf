//! URIs of resources: `pannier://NAME/docs/PATH` for a document of a cache, `pannier://NAME/snippets/ID` for a snippet.
//!
//! A URI is only compared with known names. It never becomes the path of a file, so path traversal is impossible.

use std::fmt;

const SCHEME: &str = "pannier://";

/// The kind of a resource.
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

/// The URI of a resource.
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

    pub(crate) fn parse(text: &str) -> Option<Self> {
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

    /// Returns the URI template of a folder.
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
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_inverts_formatting() {
        for name in ["a.md", "a b/c%d.md", "ü/漢.md", "x?y#z", "a//b", "..", "\n"] {
            let uri = Uri::new("docs", Kind::Document, name);
            let text = uri.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(Uri::parse(&text), Some(uri));
        }
        assert_eq!(
            Uri::new("d", Kind::Snippet, "a/b c").to_string(),
            "pannier://d/snippets/a/b%20c"
        );
    }

    #[test]
    fn other_texts_are_not_uris() {
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
            assert_eq!(Uri::parse(text), None, "{text}");
        }
    }
}
