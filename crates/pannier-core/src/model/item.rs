//! One candidate for the context window.

use std::sync::Arc;

use super::{ContextKind, ContextSource, Metadata, MetadataValue, Timestamp};
use crate::Error;
#[cfg(feature = "serde")]
use crate::TokenCounter;

/// A piece of context that may be selected: a message, a document, a memory, a tool's output.
///
/// Items do not change once they are built. The token count is the caller's: the engine trusts it
/// and never looks at the content to second-guess it.
///
/// ```
/// use pannier_core::{ContextItem, ContextKind};
///
/// let item = ContextItem::builder("The deploy failed at 12:04.", 9)
///     .kind(ContextKind::TOOL_OUTPUT)
///     .priority(5)
///     .tags(["deploy", "incident"])
///     .build()?;
/// assert_eq!(item.tokens(), 9);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub struct ContextItem {
    content: String,
    tokens: i64,
    kind: ContextKind,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_chat"))]
    source: ContextSource,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    priority: Option<i64>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    tags: Vec<String>,
    /// None if there is none. An item and its short form have the same.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    metadata: Option<Arc<Metadata>>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    timestamp: Option<Timestamp>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_not_a_number"))]
    future_relevance_hint: Option<f64>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
    pinned: bool,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    original_tokens: Option<i64>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    id: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    group: Option<String>,
    /// The same item with less in it, and without another one below.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "serde", serde(serialize_with = "wire::write_short_form"))]
    short_form: Option<Box<ContextItem>>,
}

impl ContextItem {
    /// An item with nothing but content and a token count.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyContent`] if there is no content.
    pub fn new(content: impl Into<String>, tokens: i64) -> Result<Self, Error> {
        Self::builder(content, tokens).build()
    }

    /// Starts an item; every other field has a default.
    pub fn builder(content: impl Into<String>, tokens: i64) -> ContextItemBuilder {
        ContextItemBuilder(Self {
            content: content.into(),
            tokens,
            kind: ContextKind::default(),
            source: ContextSource::default(),
            priority: None,
            tags: Vec::new(),
            metadata: None,
            timestamp: None,
            future_relevance_hint: None,
            pinned: false,
            original_tokens: None,
            id: None,
            group: None,
            short_form: None,
        })
    }

    /// Returns a reference: an item whose content is elsewhere, under `id`. A selection from references says which
    /// contents to read, so that only those are read.
    ///
    /// Only the content is missing, so this holds for one:
    ///
    /// - Scorers see an empty content. References with the same id are duplicates; others are not, not even nearly.
    /// - The layouts of `pannier-layout` reject it, because there is nothing to send.
    /// - JSON has its id and an empty content, which is refused when it is read.
    ///
    /// ```
    /// use pannier_core::ContextItem;
    ///
    /// let item = ContextItem::reference("guide.md", 120)?;
    /// assert!(item.is_reference() && item.content().is_empty());
    /// assert_eq!((item.id(), item.tokens()), (Some("guide.md"), 120));
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::BlankName`] if the id is blank.
    pub fn reference(id: impl Into<String>, tokens: i64) -> Result<Self, Error> {
        Self::builder(String::new(), tokens).id(id).0.with_checked_names()
    }

    /// Returns whether the content is elsewhere; see [`reference`](Self::reference).
    pub fn is_reference(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns the text that makes two items duplicates, and whether it is the id of a reference.
    pub(crate) fn identity(&self) -> (&str, bool) {
        match (self.is_reference(), &self.id) {
            (true, Some(id)) => (id, true),
            (is_reference, _) => (&self.content, is_reference),
        }
    }

    /// Fails if the id or the group is blank.
    fn with_checked_names(self) -> Result<Self, Error> {
        for (field, name) in [("id", &self.id), ("group", &self.group)] {
            if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
                return Err(Error::BlankName { field });
            }
        }
        Ok(self)
    }

    /// The text. Empty only if the item [is a reference](Self::is_reference).
    pub fn content(&self) -> &str {
        &self.content
    }

    /// The token count, as the caller gave it. Below zero means invalid: such an item is excluded.
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// What sort of thing this is.
    pub fn kind(&self) -> &ContextKind {
        &self.kind
    }

    /// Where it came from.
    pub fn source(&self) -> &ContextSource {
        &self.source
    }

    /// Importance given by the caller; higher is more important.
    pub fn priority(&self) -> Option<i64> {
        self.priority
    }

    /// Tags, in the order they were given.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Data of the caller's own.
    pub fn metadata(&self) -> &Metadata {
        static NONE: Metadata = Metadata::new();
        self.metadata.as_deref().unwrap_or(&NONE)
    }

    /// When the item was made or seen.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// The caller's own idea of how relevant the item will be, by convention from 0 to 1.
    pub fn future_relevance_hint(&self) -> Option<f64> {
        self.future_relevance_hint
    }

    /// Whether the item is always included, whatever it scores.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// The token count before someone shortened the content. Of a [short form](Self::short_form), that of the item.
    /// Kept for the caller; not used.
    pub fn original_tokens(&self) -> Option<i64> {
        self.original_tokens
    }

    /// A name for people and reports. It plays no part in the selection.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The group the item belongs to. The members of a group are selected or excluded together.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// What may be sent in its place where the whole is too much: the same item with a shorter content.
    pub fn short_form(&self) -> Option<&ContextItem> {
        self.short_form.as_deref()
    }
}

/// Builds a [`ContextItem`]; see [`ContextItem::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ContextItemBuilder(ContextItem);

impl ContextItemBuilder {
    /// Sets what sort of thing the item is.
    pub fn kind(mut self, kind: ContextKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets where the item came from.
    pub fn source(mut self, source: ContextSource) -> Self {
        self.0.source = source;
        self
    }

    /// Sets the importance; higher is more important.
    pub fn priority(mut self, priority: i64) -> Self {
        self.0.priority = Some(priority);
        self
    }

    /// Adds tags.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.0.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Adds one entry of metadata.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<MetadataValue>) -> Self {
        Arc::make_mut(self.0.metadata.get_or_insert_default()).insert(key.into(), value.into());
        self
    }

    /// Sets when the item was made or seen.
    pub fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.0.timestamp = Some(timestamp);
        self
    }

    /// Sets the caller's own idea of relevance.
    pub fn future_relevance_hint(mut self, hint: f64) -> Self {
        self.0.future_relevance_hint = Some(hint);
        self
    }

    /// Pins the item, or not.
    pub fn pinned(mut self, pinned: bool) -> Self {
        self.0.pinned = pinned;
        self
    }

    /// Sets the token count before shortening.
    pub fn original_tokens(mut self, tokens: i64) -> Self {
        self.0.original_tokens = Some(tokens);
        self
    }

    /// Names the item for people and reports.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.0.id = Some(id.into());
        self
    }

    /// Puts the item into a group that is selected or excluded as a whole.
    ///
    /// A group costs what its members cost together and is worth their scores together. It stands where
    /// its best member stands, and counts as that member's kind.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.0.group = Some(group.into());
        self
    }

    /// Sets what may be sent in its place where the whole is too much: a title, a summary. Slicers that know of short
    /// forms, such as [`TieredSlice`](crate::TieredSlice), choose between the two; others know the whole only.
    ///
    /// ```
    /// use pannier_core::ContextItem;
    ///
    /// let item = ContextItem::builder("Use SQLite. It needs no server, and backups are copies.", 14)
    ///     .id("storage")
    ///     .short_form("Use SQLite.", 3)
    ///     .build()?;
    /// let short = item.short_form().unwrap();
    /// assert_eq!((short.tokens(), short.original_tokens(), short.id()), (3, Some(14), Some("storage")));
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    pub fn short_form(mut self, content: impl Into<String>, tokens: i64) -> Self {
        // The other fields are filled in when the item is built.
        self.0.short_form = Some(Box::new(ContextItem::builder(content, tokens).0));
        self
    }

    /// Checks and returns the item.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyContent`] if there is no content, or its short form has none, [`Error::BlankName`] if the id or the
    /// group is blank.
    pub fn build(self) -> Result<ContextItem, Error> {
        let mut item = self.0;
        if item.content.is_empty() {
            return Err(Error::EmptyContent);
        }
        if let Some(short) = item.short_form.take() {
            let ContextItem { content, tokens, .. } = *short;
            if content.is_empty() {
                return Err(Error::EmptyContent);
            }
            let original_tokens = item.original_tokens.or(Some(item.tokens));
            // All but the content is the same, and that may be long.
            let whole = std::mem::take(&mut item.content);
            let short = ContextItem { content, tokens, original_tokens, ..item.clone() };
            item.content = whole;
            item.short_form = Some(Box::new(short));
        }
        item.with_checked_names()
    }
}

/// An item as it is read, whose tokens, or those of its short form, may not have been counted yet.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// use pannier_core::UncountedItem;
///
/// let item: UncountedItem = serde_json::from_str(r#"{ "content": "Hello!" }"#).unwrap();
/// assert!(!item.is_counted());
/// # }
/// ```
#[cfg(feature = "serde")]
#[derive(Clone, Debug, PartialEq)]
pub struct UncountedItem {
    item: ContextItem,
    is_counted: bool,
    is_short_form_counted: bool,
}

#[cfg(feature = "serde")]
impl UncountedItem {
    /// The text. Never empty.
    pub fn content(&self) -> &str {
        &self.item.content
    }

    /// Whether it came with its tokens, and with those of its short form if it has one.
    pub fn is_counted(&self) -> bool {
        self.is_counted && self.is_short_form_counted
    }

    /// Its texts that came without tokens, and where those go.
    fn uncounted(&mut self) -> impl Iterator<Item = (&str, &mut i64)> {
        let ContextItem { content, tokens, short_form, .. } = &mut self.item;
        let own = (!self.is_counted).then_some((content.as_str(), tokens));
        let short = short_form.as_deref_mut().filter(|_| !self.is_short_form_counted);
        own.into_iter().chain(short.map(|short| (short.content.as_str(), &mut short.tokens)))
    }

    /// The items, with the tokens they came with, or else those that a counter finds in their contents. Equal
    /// contents are counted once.
    pub fn count(mut items: Vec<Self>, counter: &dyn TokenCounter) -> Vec<ContextItem> {
        let (texts, tokens): (Vec<&str>, Vec<&mut i64>) =
            items.iter_mut().flat_map(Self::uncounted).unzip();
        for (tokens, count) in tokens.into_iter().zip(counter.count_each(&texts)) {
            *tokens = i64::try_from(count).unwrap_or(i64::MAX);
        }
        let counted = items.into_iter().map(|UncountedItem { mut item, is_counted, .. }| {
            if let Some(short) = item.short_form.as_deref_mut().filter(|_| !is_counted) {
                // What it was before it was shortened was not known when it was read.
                short.original_tokens = item.original_tokens.or(Some(item.tokens));
            }
            item
        });
        counted.collect()
    }
}

/// The index of an item as a user names it: by its id, or else by its index in the pool, as in `#3` or `3`.
///
/// ```
/// use pannier_core::{ContextItem, find_item};
///
/// let items = [ContextItem::builder("Hello!", 2).id("greeting").build()?];
/// assert_eq!(find_item(&items, "greeting")?, 0);
/// assert_eq!(find_item(&items, "#0")?, 0);
/// # Ok::<(), pannier_core::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::UnknownItem`], and [`Error::AmbiguousItem`] if two items have the id.
pub fn find_item(items: &[ContextItem], name: &str) -> Result<usize, Error> {
    let mut named = items.iter().enumerate().filter(|(_, item)| item.id() == Some(name));
    if let Some((index, _)) = named.next() {
        return match named.next() {
            None => Ok(index),
            Some((other, _)) => Err(Error::AmbiguousItem { name: name.to_owned(), index, other }),
        };
    }
    let number = name.strip_prefix('#').unwrap_or(name);
    let index = number.parse().ok().filter(|index| *index < items.len());
    index.ok_or_else(|| Error::UnknownItem { name: name.to_owned(), items: items.len() })
}

/// An item and its relevance score, by convention from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ScoredItem<'a> {
    /// The item.
    pub item: &'a ContextItem,
    /// Its score.
    pub score: f64,
}

#[cfg(feature = "serde")]
mod wire {
    //! The form an item is read in, before it is checked.

    use std::fmt;
    use std::sync::Arc;

    use serde::de::value::MapAccessDeserializer;
    use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
    use serde::{Serialize as _, Serializer};

    use super::{ContextItem, ContextKind, ContextSource, Metadata, Timestamp, UncountedItem};
    use crate::Error;
    use crate::model::null;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a context item")]
    pub(super) struct Item {
        content: String,
        tokens: Option<i64>,
        #[serde(default, deserialize_with = "null::as_default")]
        kind: ContextKind,
        #[serde(default, deserialize_with = "null::as_default")]
        source: ContextSource,
        priority: Option<i64>,
        #[serde(default, deserialize_with = "null::as_default")]
        tags: Vec<String>,
        #[serde(default, deserialize_with = "null::as_default")]
        metadata: Metadata,
        timestamp: Option<Timestamp>,
        future_relevance_hint: Option<f64>,
        #[serde(default, deserialize_with = "null::as_default")]
        pinned: bool,
        original_tokens: Option<i64>,
        id: Option<String>,
        group: Option<String>,
        short_form: Option<ShortForm>,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a short form: an object with a content")]
    struct ShortForm<C = String> {
        content: C,
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<i64>,
    }

    /// Everything else in it is the item's.
    pub(super) fn write_short_form<S: Serializer>(
        short: &Option<Box<ContextItem>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let short = short.as_deref();
        let short =
            short.map(|short| ShortForm { content: &short.content, tokens: Some(short.tokens) });
        short.serialize(serializer)
    }

    impl<'de> Deserialize<'de> for UncountedItem {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            /// Takes objects alone: a list of values in the order of the fields is nobody's item.
            struct Object;

            impl<'de> Visitor<'de> for Object {
                type Value = Item;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an item: an object with a content")
                }

                fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
                    Item::deserialize(MapAccessDeserializer::new(map))
                }
            }

            deserializer.deserialize_map(Object)?.try_into().map_err(D::Error::custom)
        }
    }

    impl<'de> Deserialize<'de> for ContextItem {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let read = UncountedItem::deserialize(deserializer)?;
            if read.is_counted() { Ok(read.item) } else { Err(D::Error::custom(Error::NoTokens)) }
        }
    }

    impl TryFrom<Item> for UncountedItem {
        type Error = Error;

        fn try_from(item: Item) -> Result<Self, Error> {
            let is_counted = item.tokens.is_some();
            let short_form = item.short_form.as_ref();
            let is_short_form_counted = short_form.is_none_or(|short| short.tokens.is_some());
            let short_form = item.short_form.map(|ShortForm { content, tokens }| {
                Box::new(ContextItem::builder(content, tokens.unwrap_or_default()).0)
            });
            let item = super::ContextItemBuilder(ContextItem {
                content: item.content,
                tokens: item.tokens.unwrap_or_default(),
                kind: item.kind,
                source: item.source,
                priority: item.priority,
                tags: item.tags,
                metadata: (!item.metadata.is_empty()).then(|| Arc::new(item.metadata)),
                timestamp: item.timestamp,
                future_relevance_hint: item.future_relevance_hint,
                pinned: item.pinned,
                original_tokens: item.original_tokens,
                id: item.id,
                group: item.group,
                short_form,
            });
            Ok(Self { item: item.build()?, is_counted, is_short_form_counted })
        }
    }

    /// Only the default's own spelling may be left out, or another one would be lost.
    pub(super) fn is_chat(source: &ContextSource) -> bool {
        source.as_str() == ContextSource::CHAT.as_str()
    }

    /// JSON has no spelling for these, and `null` would not say what was there.
    pub(super) fn is_not_a_number(hint: &Option<f64>) -> bool {
        !hint.is_some_and(f64::is_finite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_specification() {
        let item = ContextItem::new("text", 3).unwrap();
        assert_eq!(item.kind(), &ContextKind::MESSAGE);
        assert_eq!(item.source(), &ContextSource::CHAT);
        assert!(item.tags().is_empty() && item.metadata().is_empty() && !item.is_pinned());
        assert_eq!(
            (item.priority(), item.timestamp(), item.original_tokens(), item.id(), item.group()),
            (None, None, None, None, None)
        );
        assert!(item.future_relevance_hint().is_none());
    }

    #[test]
    fn impossible_items_are_refused() {
        assert_eq!(ContextItem::new("", 1), Err(Error::EmptyContent));
        let blank = ContextItem::builder("text", 1).group(" ").build();
        assert_eq!(blank, Err(Error::BlankName { field: "group" }));
        assert!(
            ContextItem::new("text", -1).is_ok(),
            "negative counts are the pipeline's to judge"
        );
    }

    #[test]
    fn references_need_an_id() {
        assert_eq!(ContextItem::reference(" ", 1), Err(Error::BlankName { field: "id" }));
        let item = ContextItem::reference("a.md", 1).unwrap();
        assert!(item.is_reference() && !ContextItem::new("a.md", 1).unwrap().is_reference());
    }
}
