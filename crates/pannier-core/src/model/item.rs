//! Items: the candidates for the context window.

use std::sync::Arc;

use super::form::check_worth;
use super::{
    ContextKind, ContextSource, Form, FormName, Level, Metadata, MetadataValue, Timestamp,
};
use crate::Error;
#[cfg(feature = "serde")]
use crate::TokenCounter;

/// A piece of text that can be selected: a message, a document, a memory, a tool's output.
///
/// Items are immutable. The engine trusts the caller's token count and never counts the content itself.
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
    /// `None` if it is empty. An item and its forms share it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    metadata: Option<Arc<Metadata>>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    timestamp: Option<Timestamp>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "wire::is_non_finite"))]
    future_relevance_hint: Option<f64>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
    pinned: bool,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    original_tokens: Option<i64>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    id: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    group: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
    keep: bool,
    /// Longest first.
    #[cfg_attr(feature = "serde", serde(flatten, serialize_with = "wire::write_forms"))]
    forms: Vec<Form>,
}

impl ContextItem {
    /// The maximum number of forms below the whole.
    pub const MAX_FORMS: usize = 32;

    /// Creates an item with a content and a token count.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyContent`] if there is no content.
    pub fn new(content: impl Into<String>, tokens: i64) -> Result<Self, Error> {
        Self::builder(content, tokens).build()
    }

    /// Starts an item. Every other field has a default.
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
            keep: false,
            forms: Vec::new(),
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
    pub fn identity(&self) -> (&str, bool) {
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

    /// Returns the text. It is empty only if the item [is a reference](Self::is_reference).
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Returns the caller's token count. The pipeline drops items with a negative count.
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Returns the type of the item.
    pub fn kind(&self) -> &ContextKind {
        &self.kind
    }

    /// Returns the origin of the item.
    pub fn source(&self) -> &ContextSource {
        &self.source
    }

    /// Returns the caller's priority; higher is more important.
    pub fn priority(&self) -> Option<i64> {
        self.priority
    }

    /// Returns the tags, in the caller's order.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns the caller's own data.
    pub fn metadata(&self) -> &Metadata {
        static NONE: Metadata = Metadata::new();
        self.metadata.as_deref().unwrap_or(&NONE)
    }

    /// Returns the time at which the item was created or seen.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Returns the caller's estimate of relevance, by convention from 0 to 1.
    pub fn future_relevance_hint(&self) -> Option<f64> {
        self.future_relevance_hint
    }

    /// Returns whether the item is always selected, regardless of its score.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Returns whether the item is always sent, in some form. Its last form is certain; the longer ones compete for the
    /// budget.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Returns the token count before the content was shortened; for a [form](Self::forms), that of the whole item.
    /// The engine does not use it.
    pub fn original_tokens(&self) -> Option<i64> {
        self.original_tokens
    }

    /// Returns the name for people and reports. It does not affect the selection.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the item's group. The members of a group are selected or dropped together.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns the item with another token count.
    pub(crate) fn with_tokens(&self, tokens: i64) -> Self {
        Self { tokens, ..self.clone() }
    }

    /// Returns the forms that may be sent where the whole item does not fit, longest first.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// Returns the item as it is sent at a level. If it has fewer forms, this is the last one.
    ///
    /// ```
    /// use pannier_core::ContextItem;
    /// use pannier_core::item::{FormName, Level};
    ///
    /// let item = ContextItem::builder("Use SQLite. It needs no server.", 9)
    ///     .form(FormName::TITLE, "Use SQLite.", 3)
    ///     .build()?;
    /// let contents = [0, 1, 2].map(|level| item.at(Level::new(level)).content());
    /// assert_eq!(contents, ["Use SQLite. It needs no server.", "Use SQLite.", "Use SQLite."]);
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    pub fn at(&self, level: Level) -> &ContextItem {
        match self.clamp_level(level).get().checked_sub(1) {
            Some(form) => &self.forms[form].item,
            None => self,
        }
    }

    /// Returns the level, or the last one that the item has.
    pub(crate) fn clamp_level(&self, level: Level) -> Level {
        level.min(self.last_level())
    }

    pub(crate) fn last_level(&self) -> Level {
        Level::last(self.forms.len() + 1)
    }
}

/// Builds a [`ContextItem`]; see [`ContextItem::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ContextItemBuilder(ContextItem);

impl ContextItemBuilder {
    setters! {
        /// Sets the type of the item. Default: `Message`.
        kind: ContextKind => kind;
        /// Sets the origin of the item. Default: `Chat`.
        source: ContextSource => source;
        /// Sets the priority; higher is more important.
        priority: i64 => Some(priority);
        /// Sets the time at which the item was created or seen.
        timestamp: Timestamp => Some(timestamp);
        /// Sets the estimate of relevance, by convention from 0 to 1.
        future_relevance_hint: f64 => Some(future_relevance_hint);
        /// Sets whether the item is always selected. Default: `false`.
        pinned: bool => pinned;
        /// Sets whether the item is always sent, in some form. Default: `false`.
        keep: bool => keep;
        /// Sets the token count before the content was shortened.
        original_tokens: i64 => Some(original_tokens);
        /// Names the item for people and reports.
        id: impl Into<String> => Some(id.into());
        /// Adds the item to a group, which is selected or dropped as a whole.
        ///
        /// The tokens and the value of a group are the sums over its members. Its rank and its kind are those of its best
        /// member.
        group: impl Into<String> => Some(group.into());
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

    /// Adds a form: a shorter text that may be sent where the whole item does not fit. Slicers with support for forms,
    /// such as [`TieredSlice`](crate::TieredSlice), choose among them. Other slicers use the whole item only.
    ///
    /// Forms may be added in any order: an item has the longest first.
    ///
    /// ```
    /// use pannier_core::ContextItem;
    /// use pannier_core::item::FormName;
    ///
    /// let item = ContextItem::builder("Use SQLite. It needs no server, and backups are copies.", 14)
    ///     .id("storage")
    ///     .form(FormName::TITLE, "Use SQLite.", 3)
    ///     .build()?;
    /// let title = item.forms()[0].item();
    /// assert_eq!((title.tokens(), title.original_tokens(), title.id()), (3, Some(14), Some("storage")));
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    pub fn form(self, name: FormName, content: impl Into<String>, tokens: i64) -> Self {
        self.add_form(name, content.into(), tokens, None)
    }

    /// Adds a form with the share of the item's value that it has, from 0 to 1.
    pub fn form_with_worth(
        self,
        name: FormName,
        content: impl Into<String>,
        tokens: i64,
        worth: f64,
    ) -> Self {
        self.add_form(name, content.into(), tokens, Some(worth))
    }

    fn add_form(
        mut self,
        name: FormName,
        content: String,
        tokens: i64,
        worth: Option<f64>,
    ) -> Self {
        // The other fields are filled in when the item is built.
        let item = ContextItem::builder(content, tokens).0;
        self.0.forms.push(Form { name, worth, item });
        self
    }

    /// Checks and returns the item.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyContent`] if the content or a form is empty, [`Error::BlankName`] if the id or the group is blank,
    /// [`Error::WorthOutOfRange`] or [`Error::TooManyForms`] for invalid forms.
    pub fn build(self) -> Result<ContextItem, Error> {
        let mut item = self.check()?;
        item.finish_forms();
        Ok(item)
    }

    /// Checks the item and its forms, which keep their order.
    fn check(self) -> Result<ContextItem, Error> {
        let item = self.0;
        if item.content.is_empty() || item.forms.iter().any(|form| form.item.content.is_empty()) {
            return Err(Error::EmptyContent);
        }
        let (forms, max) = (item.forms.len(), ContextItem::MAX_FORMS);
        if forms > max {
            return Err(Error::TooManyForms { forms, max });
        }
        for Form { name, worth, .. } in &item.forms {
            worth.map_or(Ok(()), |worth| check_worth(name, worth))?;
        }
        item.with_checked_names()
    }
}

impl ContextItem {
    /// Sorts the forms, and gives them the fields of the whole item.
    fn finish_forms(&mut self) {
        if self.forms.is_empty() {
            return;
        }
        // The clones have no content, which may be long.
        let (whole, mut forms) =
            (std::mem::take(&mut self.content), std::mem::take(&mut self.forms));
        for form in &mut forms {
            let (content, tokens) = (std::mem::take(&mut form.item.content), form.item.tokens);
            let original_tokens = self.original_tokens.or(Some(self.tokens));
            form.item = Self { content, tokens, original_tokens, ..self.clone() };
        }
        forms.sort_by_key(|form| std::cmp::Reverse(form.tokens()));
        (self.content, self.forms) = (whole, forms);
    }
}

/// A deserialized item whose tokens, or those of its forms, may be missing.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// use pannier_core::item::UncountedItem;
///
/// let item: UncountedItem = serde_json::from_str(r#"{ "content": "Hello!" }"#).unwrap();
/// assert!(!item.is_counted());
/// # }
/// ```
#[cfg(feature = "serde")]
#[derive(Clone, Debug, PartialEq)]
pub struct UncountedItem {
    item: ContextItem,
    /// The positions of texts without tokens: 0 for the whole, then the forms in their given order.
    uncounted: Vec<usize>,
}

#[cfg(feature = "serde")]
impl UncountedItem {
    /// Returns the text, which is never empty.
    pub fn content(&self) -> &str {
        &self.item.content
    }

    /// Returns whether the item and its forms have their tokens.
    pub fn is_counted(&self) -> bool {
        self.uncounted.is_empty()
    }

    /// Returns the texts without tokens, and the fields for their tokens.
    fn uncounted(&mut self) -> impl Iterator<Item = (&str, &mut i64)> {
        let ContextItem { content, tokens, forms, .. } = &mut self.item;
        let forms =
            forms.iter_mut().map(|form| (form.item.content.as_str(), &mut form.item.tokens));
        let texts = std::iter::once((content.as_str(), tokens)).chain(forms).enumerate();
        texts.filter(|(position, _)| self.uncounted.contains(position)).map(|(_, text)| text)
    }

    /// Counts the tokens that are missing, and returns the items. Equal contents are counted once.
    pub fn count(mut items: Vec<Self>, counter: &dyn TokenCounter) -> Vec<ContextItem> {
        let (texts, tokens): (Vec<&str>, Vec<&mut i64>) =
            items.iter_mut().flat_map(Self::uncounted).unzip();
        for (tokens, count) in tokens.into_iter().zip(counter.count_each(&texts)) {
            *tokens = i64::try_from(count).unwrap_or(i64::MAX);
        }
        items.into_iter().map(Self::finish).collect()
    }

    fn finish(mut self) -> ContextItem {
        self.item.finish_forms();
        self.item
    }
}

/// Finds an item by its id, or by its index in the pool (`#3` or `3`), and returns the index.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::item::find_item;
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
    //! Reading: an unchecked item, in which tokens may be missing.

    use std::fmt;
    use std::sync::Arc;

    use serde::Serializer;
    use serde::de::value::MapAccessDeserializer;
    use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
    use serde::ser::SerializeMap as _;

    use super::{
        ContextItem, ContextKind, ContextSource, Form, FormName, Metadata, Timestamp, UncountedItem,
    };
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
        #[serde(default, deserialize_with = "null::as_default")]
        keep: bool,
        short_form: Option<ShortForm>,
        #[serde(default, deserialize_with = "null::as_default")]
        forms: Vec<WrittenForm>,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a short form: an object with a content")]
    struct ShortForm<C = String> {
        content: C,
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<i64>,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a form: an object with a name and a content")]
    struct WrittenForm<C = String, N = FormName> {
        name: N,
        content: C,
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        worth: Option<f64>,
    }

    /// Writes what forms have of their own, because all other fields are those of the whole item. An item of former
    /// versions has one short form, which is written as it was: receipts hash it.
    pub(super) fn write_forms<S: Serializer>(
        forms: &[Form],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match forms {
            [] => {}
            [Form { name, worth: None, item }] if name.as_str() == FormName::SHORT.as_str() => {
                let short = ShortForm { content: &item.content, tokens: Some(item.tokens) };
                map.serialize_entry("shortForm", &short)?;
            }
            forms => {
                let forms = forms.iter().map(|Form { name, worth, item }| WrittenForm {
                    name,
                    content: item.content(),
                    tokens: Some(item.tokens),
                    worth: *worth,
                });
                map.serialize_entry("forms", &forms.collect::<Vec<_>>())?;
            }
        }
        map.end()
    }

    impl<'de> Deserialize<'de> for UncountedItem {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            /// Accepts objects only. By default, serde accepts a list of values in field order, too.
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
            match read.is_counted() {
                true => Ok(read.finish()),
                false => Err(D::Error::custom(Error::NoTokens)),
            }
        }
    }

    impl TryFrom<Item> for UncountedItem {
        type Error = Error;

        fn try_from(item: Item) -> Result<Self, Error> {
            let short = item.short_form.map(|ShortForm { content, tokens }| WrittenForm {
                name: FormName::SHORT,
                content,
                tokens,
                worth: None,
            });
            let forms: Vec<WrittenForm> = short.into_iter().chain(item.forms).collect();
            let tokens = std::iter::once(item.tokens).chain(forms.iter().map(|form| form.tokens));
            let uncounted = tokens.enumerate().filter(|(_, tokens)| tokens.is_none());
            let uncounted = uncounted.map(|(position, _)| position).collect();
            let mut builder = super::ContextItemBuilder(ContextItem {
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
                keep: item.keep,
                forms: Vec::new(),
            });
            for WrittenForm { name, content, tokens, worth } in forms {
                builder = builder.add_form(name, content, tokens.unwrap_or_default(), worth);
            }
            Ok(Self { item: builder.check()?, uncounted })
        }
    }

    /// Compares the spelling, because reading an absent source gives the default spelling.
    pub(super) fn is_chat(source: &ContextSource) -> bool {
        source.as_str() == ContextSource::CHAT.as_str()
    }

    /// Skips absent hints and numbers that JSON cannot express.
    pub(super) fn is_non_finite(hint: &Option<f64>) -> bool {
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
    fn invalid_items_are_refused() {
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
