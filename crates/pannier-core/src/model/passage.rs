//! Where in a document an item comes from.
//!
//! The engine knows nothing of files. It needs this much: which items are of one document, in which order they
//! stand there, and which bytes they share. That rides along in the metadata, so that an item says it in every
//! form in which items are written.

use std::ops::Range;

use super::{ContextItem, ContextItemBuilder, MetadataValue};

/// A part of a document, as the metadata of an item tells it: `document`, a text, and `sequence`, `start` and `end`,
/// whole numbers from 0 up.
///
/// ```
/// use pannier_core::{ContextItem, Passage};
///
/// let passage = Passage { document: "guides/deploy.md", sequence: 2, range: 120..158 };
/// let item = ContextItem::builder("Deploy from the main branch, at noon.\n", 9).passage(&passage).build()?;
/// assert_eq!(Passage::from_item(&item), Some(passage));
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// The document, by its path or whatever else tells it from others.
    pub document: &'a str,
    /// Its place among the passages of the document.
    pub sequence: u64,
    /// The bytes of the document that it has.
    pub range: Range<u64>,
}

impl<'a> Passage<'a> {
    /// Where an item comes from. `None` if its metadata does not say, does not say all of it, or says that it ends
    /// before it starts.
    pub fn from_item(item: &'a ContextItem) -> Option<Self> {
        let metadata = item.metadata();
        let Some(MetadataValue::String(document)) = metadata.get("document") else {
            return None;
        };
        let number = |key| match metadata.get(key) {
            Some(MetadataValue::Integer(number)) => u64::try_from(*number).ok(),
            Some(MetadataValue::Unsigned(number)) => Some(*number),
            _ => None,
        };
        let (sequence, start, end) = (number("sequence")?, number("start")?, number("end")?);
        (start <= end).then_some(Self { document, sequence, range: start..end })
    }

    /// The entries of metadata that say so.
    pub fn metadata(&self) -> [(&'static str, MetadataValue); 4] {
        [
            ("document", self.document.into()),
            ("sequence", self.sequence.into()),
            ("start", self.range.start.into()),
            ("end", self.range.end.into()),
        ]
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// How many bytes it shares with another of the same document.
    pub(crate) fn overlap_bytes(&self, other: &Passage<'_>) -> u64 {
        let (start, end) =
            (self.range.start.max(other.range.start), self.range.end.min(other.range.end));
        end.saturating_sub(start)
    }
}

impl ContextItemBuilder {
    /// Sets where in a document the item comes from, as entries of its metadata.
    pub fn passage(self, passage: &Passage<'_>) -> Self {
        passage.metadata().into_iter().fold(self, |item, (key, value)| item.metadata(key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_passage_is_none() {
        let whole = |range| {
            let passage = Passage { document: "a.md", sequence: 0, range };
            ContextItem::builder("text", 1).passage(&passage)
        };
        assert!(Passage::from_item(&whole(3..3).build().unwrap()).is_some());
        assert!(Passage::from_item(&whole(0..u64::MAX).build().unwrap()).is_some());
        let backwards = Range { start: 4, end: 3 };
        assert_eq!(Passage::from_item(&whole(backwards).build().unwrap()), None);
        for (key, value) in [
            ("document", MetadataValue::Integer(1)),
            ("sequence", MetadataValue::Integer(-1)),
            ("start", MetadataValue::Float(0.0)),
            ("end", MetadataValue::Null),
        ] {
            let item = whole(0..4).metadata(key, value).build().unwrap();
            assert_eq!(Passage::from_item(&item), None, "{key}");
        }
        assert_eq!(Passage::from_item(&ContextItem::new("text", 1).unwrap()), None);
    }
}
