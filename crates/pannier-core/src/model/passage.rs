//! Passages: items that are spans of documents.
//!
//! The engine does no file access. It needs three facts about a passage: its document, its position in the document and
//! its byte range. They are entries of the item's metadata, so every format of an item carries them.

use std::ops::Range;

use super::{ContextItem, ContextItemBuilder, MetadataValue};

/// A span of a document, from the metadata of an item: `document` (a string), `sequence`, `start` and `end` (integers
/// from 0).
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::item::Passage;
///
/// let passage = Passage { document: "guides/deploy.md", sequence: 2, range: 120..158 };
/// let item = ContextItem::builder("Deploy from the main branch, at noon.\n", 9).passage(&passage).build()?;
/// assert_eq!(Passage::from_item(&item), Some(passage));
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// The document's path or another unique name.
    pub document: &'a str,
    /// Its position among the passages of the document.
    pub sequence: u64,
    /// Its bytes in the document.
    pub range: Range<u64>,
}

impl<'a> Passage<'a> {
    /// Returns the span that an item comes from. `None` if its metadata lacks an entry, has one of another type, or ends
    /// the range before its start.
    pub fn from_item(item: &'a ContextItem) -> Option<Self> {
        let metadata = item.metadata();
        let document = metadata.get("document")?.as_str()?;
        let number = |key| u64::try_from(metadata.get(key)?.as_integer()?).ok();
        let (sequence, start, end) = (number("sequence")?, number("start")?, number("end")?);
        (start <= end).then_some(Self { document, sequence, range: start..end })
    }

    /// Returns the entries of metadata that [`from_item`](Self::from_item) reads.
    pub fn metadata(&self) -> [(&'static str, MetadataValue); 4] {
        [
            ("document", self.document.into()),
            ("sequence", self.sequence.into()),
            ("start", self.range.start.into()),
            ("end", self.range.end.into()),
        ]
    }

    /// Returns its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Returns the number of bytes that it shares with another passage of the same document.
    pub(crate) fn overlap_bytes(&self, other: &Passage<'_>) -> u64 {
        let (start, end) =
            (self.range.start.max(other.range.start), self.range.end.min(other.range.end));
        end.saturating_sub(start)
    }
}

impl ContextItemBuilder {
    /// Sets the span of a document that the item comes from, as entries of its metadata.
    pub fn passage(self, passage: &Passage<'_>) -> Self {
        passage.metadata().into_iter().fold(self, |item, (key, value)| item.metadata(key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_passage_is_none() {
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
