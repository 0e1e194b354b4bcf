//! Renders a selection by a template.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pannier_core::item::{MetadataValue, sum_tokens};
use pannier_core::layout::{Around, PlacedItems, Plan, RenderCost};
use pannier_core::score::Pool;
use pannier_core::{ContextItem, ContextKind, Error, Layout, Selection, TokenCounter};

use crate::count::{above, count, count_up_to};
use crate::rejected_references;

/// A template of the text: the items in placed order, with text around and between them.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline};
/// use pannier_core::score::RecencyScorer;
/// use pannier_layout::Template;
///
/// let mut template = Template::default();
/// template.item = "<{kind}>\n{content}\n</{kind}>".parse()?;
///
/// let items = [ContextItem::new("Hello.", 2)?];
/// let pipeline = Pipeline::builder(RecencyScorer).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(template.render(&selection), "<Message>\nHello.\n</Message>\n");
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Template {
    /// The text before all items.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")
    )]
    pub before: String,
    /// The template of an item.
    #[cfg_attr(
        feature = "serde",
        serde(
            deserialize_with = "wire::or_default",
            skip_serializing_if = "ItemTemplate::is_content"
        )
    )]
    pub item: ItemTemplate,
    /// Templates for single kinds, in place of `item`.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")
    )]
    pub kinds: BTreeMap<ContextKind, ItemTemplate>,
    /// The text between two items.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "wire::separator"))]
    pub separator: String,
    /// The text after all items. A line end always follows.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")
    )]
    pub after: String,
}

impl Default for Template {
    /// Contents, separated by an empty line.
    fn default() -> Self {
        Self {
            before: String::new(),
            item: ItemTemplate::default(),
            kinds: BTreeMap::new(),
            separator: "\n\n".to_owned(),
            after: String::new(),
        }
    }
}

impl Template {
    /// Renders a selection.
    pub fn render(&self, selection: &Selection<'_>) -> String {
        let mut text = String::new();
        self.write(selection, |piece| text.push_str(piece));
        text
    }

    /// Renders a selection piece by piece, without copying contents.
    pub fn write(&self, selection: &Selection<'_>, write: impl FnMut(&str)) {
        self.write_items(selection.items(), write);
    }

    fn write_items<'i>(
        &self,
        items: impl ExactSizeIterator<Item = &'i ContextItem>,
        mut write: impl FnMut(&str),
    ) {
        if items.len() == 0 && self.before.is_empty() && self.after.is_empty() {
            return;
        }
        write(&self.before);
        for (item, position) in items.zip(1..) {
            if position > 1 {
                write(&self.separator);
            }
            self.of(item).write(item, position, &mut write);
        }
        write(&self.after);
        write("\n");
    }

    fn of(&self, item: &ContextItem) -> &ItemTemplate {
        self.kinds.get(item.kind()).unwrap_or(&self.item)
    }
}

/// The template of one item: a text with `{content}`, and optionally `{id}`, `{kind}`, `{source}`, `{timestamp}`,
/// `{position}` (from 1) or `{metadata.KEY}`. Absent fields are empty. `{{` is a literal brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemTemplate(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Content,
    Id,
    Kind,
    Source,
    Timestamp,
    Position,
    Metadata(String),
}

impl Default for ItemTemplate {
    /// The content alone.
    fn default() -> Self {
        Self(vec![Piece::Content])
    }
}

impl ItemTemplate {
    fn is_content(&self) -> bool {
        self.0 == [Piece::Content]
    }

    fn write(&self, item: &ContextItem, position: usize, write: &mut impl FnMut(&str)) {
        for piece in &self.0 {
            write(&piece.of(item, position));
        }
    }

    /// Returns the text around the content.
    fn frame(&self, item: &ContextItem, position: usize) -> String {
        let around = self.0.iter().filter(|piece| **piece != Piece::Content);
        around.map(|piece| piece.of(item, position)).collect()
    }
}

impl Piece {
    /// The names of the placeholders.
    const NAMES: [(&'static str, Self); 6] = [
        ("content", Self::Content),
        ("id", Self::Id),
        ("kind", Self::Kind),
        ("source", Self::Source),
        ("timestamp", Self::Timestamp),
        ("position", Self::Position),
    ];

    fn of<'p>(&'p self, item: &'p ContextItem, position: usize) -> Cow<'p, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Content => item.content().into(),
            Self::Id => item.id().unwrap_or_default().into(),
            Self::Kind => item.kind().as_str().into(),
            Self::Source => item.source().as_str().into(),
            Self::Timestamp => {
                item.timestamp().map(|time| time.to_string()).unwrap_or_default().into()
            }
            Self::Position => position.to_string().into(),
            Self::Metadata(key) => match item.metadata().get(key) {
                Some(MetadataValue::String(text)) => text.into(),
                Some(MetadataValue::Integer(number)) => number.to_string().into(),
                Some(MetadataValue::Unsigned(number)) => number.to_string().into(),
                Some(MetadataValue::Float(number)) => number.to_string().into(),
                Some(MetadataValue::Bool(flag)) => flag.to_string().into(),
                _ => "".into(),
            },
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name.strip_prefix("metadata.") {
            Some(key) => (!key.is_empty()).then(|| Self::Metadata(key.to_owned())),
            None => {
                Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, piece)| piece)
            }
        }
    }
}

impl FromStr for ItemTemplate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |problem: &str| Error::InvalidTemplate { problem: problem.to_owned() };
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let close = after.find('}').filter(|_| brace == "{");
            let Some((name, after)) = close.map(|close| (&after[..close], &after[close + 1..]))
            else {
                return Err(invalid("unmatched brace; write {{ or }} for a literal brace"));
            };
            let piece = Piece::named(name).ok_or_else(|| {
                let known = Piece::NAMES.map(|(name, _)| format!("{{{name}}}")).join(", ");
                invalid(&format!(
                    "unknown placeholder {{{name}}}; expected one of {known}, {{metadata.KEY}}; write \
                     {{{{ for a literal brace"
                ))
            })?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        match pieces.iter().filter(|piece| **piece == Piece::Content).count() {
            1 => Ok(Self(pieces)),
            0 => Err(invalid("it lacks {content}; add it")),
            _ => Err(invalid("it has {content} more than once; keep one")),
        }
    }
}

impl fmt::Display for ItemTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                Piece::Metadata(key) => write!(f, "{{metadata.{key}}}")?,
                named => {
                    let name = Piece::NAMES.into_iter().find(|(_, piece)| piece == named);
                    write!(f, "{{{}}}", name.map_or("", |(name, _)| name))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ItemTemplate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ItemTemplate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
mod wire {
    //! Reads `null` as an absent field.

    use serde::{Deserialize, Deserializer};

    pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: Deserialize<'de> + Default,
    {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }

    pub(super) fn separator<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<String, D::Error> {
        let separator = Option::deserialize(deserializer)?;
        Ok(separator.unwrap_or_else(|| super::Template::default().separator))
    }
}

/// A [`Template`], and the counter of its texts' tokens.
///
/// A pipeline with this layout counts the rendered text, and never selects one above its target.
#[derive(Debug, Clone)]
pub struct TextLayout {
    template: Template,
    counter: Arc<dyn TokenCounter>,
}

impl TextLayout {
    /// Renders by this template, and counts with this counter.
    pub fn new(template: Template, counter: Arc<dyn TokenCounter>) -> Self {
        Self { template, counter }
    }

    /// Returns the template.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Returns the counter.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.counter
    }

    fn text<'i>(&self, items: impl ExactSizeIterator<Item = &'i ContextItem>) -> String {
        let mut text = String::new();
        self.template.write_items(items, |piece| text.push_str(piece));
        text
    }

    fn count(&self, text: &str) -> i64 {
        count(&*self.counter, text)
    }

    /// Counts the text of an empty selection.
    fn fixed(&self) -> i64 {
        self.count(&self.text([].into_iter()))
    }

    /// Counts the text around an item.
    fn frame(&self, item: &ContextItem, position: usize) -> i64 {
        let template = self.template.of(item);
        if template.is_content() { 0 } else { self.count(&template.frame(item, position)) }
    }

    fn has_frames(&self) -> bool {
        !self.template.item.is_content() || !self.template.kinds.is_empty()
    }
}

impl Layout for TextLayout {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.fixed = self.fixed();
        plan.rejected = rejected_references(pool);
        // Every item is charged a separator, although the first needs none.
        let separator = self.count(&self.template.separator);
        let forms = |item: &&'_ ContextItem| {
            let frame = |item| self.frame(item, 1).saturating_add(separator);
            let forms: Vec<i64> = item.forms().iter().map(|form| frame(form.item())).collect();
            std::iter::once(frame(item)).chain(forms)
        };
        plan.around = match self.has_frames() {
            false => Around::Each(separator),
            true => Around::Forms(pool.items().iter().flat_map(forms).collect()),
        };
        Ok(plan)
    }

    fn measure(&self, items: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        let Some(total) = count_up_to(&*self.counter, &self.text(items.items()), up_to) else {
            return Ok(Some(above(up_to)));
        };
        let gaps = i64::try_from(items.items().len().saturating_sub(1)).unwrap_or(i64::MAX);
        let separators = self.count(&self.template.separator).saturating_mul(gaps);
        let frames = items.items().zip(1..).map(|(item, position)| self.frame(item, position));
        let framing = match self.has_frames() {
            false => separators,
            true => sum_tokens(frames.chain([separators])),
        };
        Ok(Some(RenderCost::from_total(total, self.fixed(), framing, items.tokens())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pannier_core::score::ReflexiveScorer;
    use pannier_core::{ContextBudget, Pipeline};

    fn render(items: &[ContextItem], tokens: i64, template: &Template) -> String {
        let pipeline = Pipeline::builder(ReflexiveScorer).deduplication(false).build();
        let budget = ContextBudget::new(tokens, tokens).unwrap();
        template.render(&pipeline.run(items, &budget).unwrap())
    }

    #[cfg(feature = "serde")]
    #[test]
    fn null_in_a_field_is_an_absent_field() {
        for field in ["before", "item", "kinds", "separator", "after"] {
            let template = format!(r#"{{ "{field}": null }}"#);
            let template: Template = serde_json::from_str(&template).unwrap();
            assert_eq!(template, Template::default(), "{field}");
        }
    }

    #[test]
    fn contents_are_joined_and_end_with_a_line_end() {
        let items = ["one", "two\n", "three"].map(|text| ContextItem::new(text, 1).unwrap());
        let plain = Template::default();
        assert_eq!(render(&items, 3, &plain), "one\n\ntwo\n\n\nthree\n");
        assert_eq!(render(&items, 1, &plain), "one\n");
        assert_eq!(render(&items, 0, &plain), "");
        let framed = Template {
            before: "<context>\n".to_owned(),
            separator: "\n".to_owned(),
            after: "\n</context>".to_owned(),
            ..Template::default()
        };
        assert_eq!(render(&items, 1, &framed), "<context>\none\n</context>\n");
        assert_eq!(render(&items, 0, &framed), "<context>\n\n</context>\n");
    }

    #[test]
    fn placeholders_are_filled_and_contents_are_not_expanded() {
        let item = ContextItem::builder("{id} {{", 1)
            .id("m1")
            .timestamp("2026-03-01T12:00:00Z".parse().unwrap())
            .metadata("path", "a.md")
            .metadata("line", 3_i64)
            .build()
            .unwrap();
        let bare = ContextItem::builder("x", 1).kind(ContextKind::DOCUMENT).build().unwrap();
        let template = Template {
            item: "{position} {id} {kind} {source} {timestamp} {{{metadata.path}:{metadata.line}}} {content}"
                .parse()
                .unwrap(),
            kinds: [(ContextKind::new("document").unwrap(), "doc {id}[{content}]".parse().unwrap())].into(),
            separator: "\n".to_owned(),
            ..Template::default()
        };
        assert_eq!(
            render(&[item, bare], 2, &template),
            "1 m1 Message Chat 2026-03-01T12:00:00Z {a.md:3} {id} {{\ndoc [x]\n"
        );
    }

    #[test]
    fn item_templates_round_trip_and_report_mistakes() {
        for text in ["{content}", "a {{ b }} {content} {metadata.x y} {position}", "{content}}}"] {
            let template: ItemTemplate = text.parse().unwrap();
            assert_eq!(template.to_string(), text);
        }
        for (text, problem) in [
            ("no content", "it lacks {content}; add it"),
            ("{content}{content}", "more than once"),
            ("{content} {author}", "unknown placeholder {author}; expected one of {content}, {id}"),
            ("{content} {", "unmatched brace"),
            ("{content} }", "unmatched brace"),
            ("{content} {metadata.}", "unknown placeholder {metadata.}"),
        ] {
            let error = text.parse::<ItemTemplate>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
