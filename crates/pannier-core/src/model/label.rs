//! Names that compare without regard to ASCII case: the kind of an item and where it came from.
//!
//! The spelling that was given is kept, because it is what people read in reports; only
//! comparison, order and hashing fold case. The well-known names, in their own spelling, are
//! numbers: the usual item carries no allocation for them, and comparing two is one instruction.
//! Other names are shared by their copies: whoever makes a thousand items of one kind makes it once.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::Error;

/// Orders two texts by their bytes after ASCII lower-casing.
pub(crate) fn cmp_ignore_ascii_case(left: &str, right: &str) -> Ordering {
    let left = left.bytes().map(|byte| byte.to_ascii_lowercase());
    left.cmp(right.bytes().map(|byte| byte.to_ascii_lowercase()))
}

#[derive(Clone)]
enum CaseInsensitiveName {
    Known(u8),
    Other(Arc<str>),
}

macro_rules! label {
    (
        $(#[$docs:meta])*
        $name:ident, $field:literal, default $default:ident,
        { $($(#[$known_docs:meta])* $number:literal => $known:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$docs])*
        #[derive(Clone)]
        pub struct $name(CaseInsensitiveName);

        impl $name {
            /// The well-known names, by number.
            const KNOWN: [&'static str; [$($number),+].len()] = [$($text),+];

            $($(#[$known_docs])* pub const $known: Self = Self(CaseInsensitiveName::Known($number));)+

            /// Makes a name of any text that is not blank.
            ///
            /// # Errors
            ///
            /// [`Error::BlankName`] if the text is empty or only white space.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
                let text = text.as_ref();
                match text {
                    $($text => Ok(Self::$known),)+
                    blank if blank.trim().is_empty() => Err(Error::BlankName { field: $field }),
                    _ => Ok(Self(CaseInsensitiveName::Other(text.into()))),
                }
            }

            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                match &self.0 {
                    CaseInsensitiveName::Known(number) => Self::KNOWN[usize::from(*number)],
                    CaseInsensitiveName::Other(text) => text,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                match (&self.0, &other.0) {
                    (CaseInsensitiveName::Known(number), CaseInsensitiveName::Known(other)) => number == other,
                    _ => self.as_str().eq_ignore_ascii_case(other.as_str()),
                }
            }
        }

        impl Eq for $name {}

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                cmp_ignore_ascii_case(self.as_str(), other.as_str())
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                for byte in self.as_str().bytes() {
                    state.write_u8(byte.to_ascii_lowercase());
                }
                state.write_u8(0xff);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.as_str()).finish()
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;

            fn try_from(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

label! {
    /// What sort of thing an item is. Any text is a kind; the well-known ones are constants.
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
        /// A conversational message; the default.
        0 => MESSAGE = "Message",
        /// A document, or a file's content.
        1 => DOCUMENT = "Document",
        /// What a tool returned.
        2 => TOOL_OUTPUT = "ToolOutput",
        /// A stored memory or fact.
        3 => MEMORY = "Memory",
        /// An instruction at system level.
        4 => SYSTEM_PROMPT = "SystemPrompt",
    }
}

label! {
    /// Where an item came from. Any text is a source; the well-known ones are constants.
    ContextSource, "source", default CHAT,
    {
        /// A chat with the user; the default.
        0 => CHAT = "Chat",
        /// A tool or function call.
        1 => TOOL = "Tool",
        /// Retrieval.
        2 => RAG = "Rag",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a hash is made of.
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
    fn only_ascii_letters_fold() {
        assert_ne!(ContextKind::new("Ä").unwrap(), ContextKind::new("ä").unwrap());
        assert_ne!(ContextKind::new("a[").unwrap(), ContextKind::new("a{").unwrap());
    }

    #[test]
    fn blank_names_are_refused() {
        for blank in ["", " ", "\t\n", "\u{2003}"] {
            assert_eq!(ContextKind::new(blank), Err(Error::BlankName { field: "kind" }));
            assert_eq!(ContextSource::new(blank), Err(Error::BlankName { field: "source" }));
        }
    }
}
