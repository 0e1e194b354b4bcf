//! Names that compare without regard to ASCII case: the kind and the source of an item, and the names of its forms.
//!
//! A name keeps its spelling, because people read it in reports. Comparison, order and hashing ignore ASCII case. A
//! well-known name in its own spelling is a number: it needs no allocation, and comparing two is one instruction. Copies
//! of any other name share its text.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::Error;

/// Orders two texts by their bytes after ASCII lowercasing.
pub(crate) fn cmp_ignore_ascii_case(left: &str, right: &str) -> Ordering {
    let left = left.bytes().map(|byte| byte.to_ascii_lowercase());
    left.cmp(right.bytes().map(|byte| byte.to_ascii_lowercase()))
}

#[derive(Clone)]
enum CaseInsensitiveName {
    /// The position of a well-known name.
    Known(u8),
    Other(Arc<str>),
}

impl CaseInsensitiveName {
    /// The well-known kinds, then the well-known sources and forms.
    const KNOWN: [&'static str; 13] = [
        "Message",
        "Document",
        "ToolOutput",
        "Memory",
        "SystemPrompt",
        "Chat",
        "Tool",
        "Rag",
        "short",
        "head-tail",
        "signature",
        "title",
        "stub",
    ];

    /// Returns the name, unless it is blank. `field` is the field it is for.
    fn new(text: &str, field: &'static str) -> Result<Self, Error> {
        match Self::KNOWN.iter().position(|known| *known == text) {
            Some(position) => Ok(Self::Known(position as u8)),
            None if text.trim().is_empty() => Err(Error::BlankName { field }),
            None => Ok(Self::Other(text.into())),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Known(position) => Self::KNOWN[usize::from(*position)],
            Self::Other(text) => text,
        }
    }
}

impl PartialEq for CaseInsensitiveName {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(position), Self::Known(other)) => position == other,
            (Self::Other(text), Self::Other(other)) if Arc::ptr_eq(text, other) => true,
            _ => self.as_str().eq_ignore_ascii_case(other.as_str()),
        }
    }
}

impl Eq for CaseInsensitiveName {}

impl Ord for CaseInsensitiveName {
    fn cmp(&self, other: &Self) -> Ordering {
        cmp_ignore_ascii_case(self.as_str(), other.as_str())
    }
}

impl PartialOrd for CaseInsensitiveName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for CaseInsensitiveName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.as_str().bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(0xff);
    }
}

impl fmt::Debug for CaseInsensitiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

macro_rules! label {
    (
        $(#[$docs:meta])*
        $name:ident, $field:literal, default $default:ident,
        { $($(#[$known_docs:meta])* $known:ident = $position:literal),+ $(,)? }
    ) => {
        $(#[$docs])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(CaseInsensitiveName);

        impl $name {
            $($(#[$known_docs])* pub const $known: Self = Self(CaseInsensitiveName::Known($position));)+

            /// Makes a name of any text that is not blank.
            ///
            /// # Errors
            ///
            /// [`Error::BlankName`] if the text is empty or only whitespace.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
                CaseInsensitiveName::new(text.as_ref(), $field).map(Self)
            }

            /// Returns the name in its own spelling.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        #[cfg(feature = "serde")]
        serde_as_text!($name);
    };
}

label! {
    /// The type of an item. Any text is a kind; the well-known ones are constants.
    ///
    /// ```
    /// use pannier_core::ContextKind;
    ///
    /// assert_eq!(ContextKind::new("toolOUTPUT")?, ContextKind::TOOL_OUTPUT);
    /// assert_eq!(ContextKind::new("Commit")?.as_str(), "Commit");
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    ContextKind, "kind", default MESSAGE,
    {
        /// `Message`: a conversational message; the default.
        MESSAGE = 0,
        /// `Document`: a document, or the content of a file.
        DOCUMENT = 1,
        /// `ToolOutput`: the output of a tool.
        TOOL_OUTPUT = 2,
        /// `Memory`: a stored memory or fact.
        MEMORY = 3,
        /// `SystemPrompt`: an instruction at system level.
        SYSTEM_PROMPT = 4,
    }
}

label! {
    /// The origin of an item. Any text is a source; the well-known ones are constants.
    ContextSource, "source", default CHAT,
    {
        /// `Chat`: a chat with the user; the default.
        CHAT = 5,
        /// `Tool`: a tool or function call.
        TOOL = 6,
        /// `Rag`: retrieval.
        RAG = 7,
    }
}

label! {
    /// The name of a form. Any text is a name; the well-known ones are constants.
    FormName, "name of a form", default SHORT,
    {
        /// `short`: the only short form of an item; the default.
        SHORT = 8,
        /// `head-tail`: the beginning and the end of a text.
        HEAD_TAIL = 9,
        /// `signature`: a declaration without its body.
        SIGNATURE = 10,
        /// `title`: a heading, or the first line.
        TITLE = 11,
        /// `stub`: a note that the text exists.
        STUB = 12,
    }
}

/// A map from kinds to small values. Well-known kinds in their own spelling are found without a comparison.
#[derive(Clone, Debug)]
pub(crate) struct KindMap<V> {
    known: [Option<V>; CaseInsensitiveName::KNOWN.len()],
    all: BTreeMap<ContextKind, V>,
}

impl<V: Copy> KindMap<V> {
    pub(crate) fn new() -> Self {
        Self { known: [None; CaseInsensitiveName::KNOWN.len()], all: BTreeMap::new() }
    }

    /// Sets the value of a kind, and returns whether it had none.
    pub(crate) fn insert(&mut self, kind: &ContextKind, value: V) -> bool {
        let mut known = CaseInsensitiveName::KNOWN.iter();
        if let Some(known) = known.position(|known| known.eq_ignore_ascii_case(kind.as_str())) {
            self.known[known] = Some(value);
        }
        self.all.insert(kind.clone(), value).is_none()
    }

    #[inline]
    pub(crate) fn get(&self, kind: &ContextKind) -> Option<V> {
        match &kind.0 {
            CaseInsensitiveName::Known(position) => self.known[usize::from(*position)],
            CaseInsensitiveName::Other(_) => self.all.get(kind).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Collects the bytes that are hashed.
    struct Bytes(Vec<u8>);

    impl Hasher for Bytes {
        fn finish(&self) -> u64 {
            0
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }
    }

    #[test]
    fn names_compare_without_ascii_case_and_keep_their_spelling() {
        let kind = ContextKind::new("mEsSaGe").unwrap();
        assert_eq!(kind, ContextKind::MESSAGE);
        assert_eq!(kind.cmp(&ContextKind::MESSAGE), Ordering::Equal);
        assert_eq!(kind.as_str(), "mEsSaGe");
        assert_eq!(ContextSource::new("RAG").unwrap(), ContextSource::RAG);
        let digest = |kind: &ContextKind| {
            let mut hasher = Bytes(Vec::new());
            kind.hash(&mut hasher);
            hasher.0
        };
        assert_eq!(digest(&kind), digest(&ContextKind::MESSAGE));
        let kinds = BTreeSet::from([kind, ContextKind::MESSAGE, ContextKind::MEMORY]);
        assert_eq!(kinds.len(), 2);
    }

    #[test]
    fn case_of_other_letters_matters() {
        assert_ne!(ContextKind::new("Ä").unwrap(), ContextKind::new("ä").unwrap());
        assert_ne!(ContextKind::new("a[").unwrap(), ContextKind::new("a{").unwrap());
    }

    #[test]
    fn constants_have_their_names() {
        let kinds = [ContextKind::MESSAGE, ContextKind::TOOL_OUTPUT, ContextKind::SYSTEM_PROMPT];
        assert_eq!(kinds.map(|kind| kind.to_string()), ["Message", "ToolOutput", "SystemPrompt"]);
        let sources = [ContextSource::CHAT, ContextSource::TOOL, ContextSource::RAG];
        assert_eq!(sources.map(|source| source.to_string()), ["Chat", "Tool", "Rag"]);
    }

    #[test]
    fn blank_names_are_refused() {
        for blank in ["", " ", "\t\n", "\u{2003}"] {
            assert_eq!(ContextKind::new(blank), Err(Error::BlankName { field: "kind" }));
            assert_eq!(ContextSource::new(blank), Err(Error::BlankName { field: "source" }));
        }
    }

    #[test]
    fn maps_find_kinds_in_any_spelling() {
        let kind = |text| ContextKind::new(text).unwrap();
        let mut map = KindMap::new();
        assert!(map.insert(&kind("memory"), 1) && map.insert(&kind("Note"), 2));
        assert!(!map.insert(&kind("NOTE"), 3));
        let values =
            ["Memory", "MEMORY", "note", "Message", "other"].map(|text| map.get(&kind(text)));
        assert_eq!(values, [Some(1), Some(1), Some(3), None, None]);
    }
}
