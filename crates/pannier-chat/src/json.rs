//! Parses JSON only as deep as needed and writes the rest unchanged.
//!
//! A message may have unknown fields, numbers beyond any Rust type, and a key order that a prompt cache depends on. Values
//! therefore stay raw text.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::LazyLock;

use memchr::{memchr, memchr2, memmem};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ChatError;

/// The fields of an object, in input order.
#[derive(Clone, Debug)]
pub(crate) struct Object<'t>(pub(crate) Vec<ObjectField<'t>>);

/// The name and the value of a field.
pub(crate) type ObjectField<'t> = (Cow<'t, str>, &'t RawValue);

impl<'t> Object<'t> {
    /// Returns the value of a field, or `None` if it is missing or `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'t RawValue> {
        let field = self.0.iter().find(|(other, _)| other == name);
        field.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;

        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields: Vec<ObjectField<'de>> = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    if fields.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("duplicate field `{name}`")));
                    }
                    fields.push((name, value));
                    if fields.len() > MAX_FIELDS {
                        let problem = format!("there are more than {MAX_FIELDS} fields");
                        return Err(A::Error::custom(problem));
                    }
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(FieldVisitor)
    }
}

/// The name of a field. A lone surrogate in it is replaced.
struct Name<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Name<'de>, E> {
                Ok(Name(String::from_utf8_lossy(name)))
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Name<'de>, E> {
                Ok(Name(String::from_utf8_lossy(name).into_owned().into()))
            }
        }

        deserializer.deserialize_bytes(NameVisitor)
    }
}

/// The maximum number of fields of an object. It bounds the quadratic search for duplicates.
const MAX_FIELDS: usize = 1_000;

/// Parses a document, with or without a byte order mark.
pub(crate) fn parse(json: &str) -> Result<&RawValue, ChatError> {
    let json = json.strip_prefix('\u{feff}').unwrap_or(json);
    serde_json::from_str(json).map_err(|error| {
        let (line, column) = (error.line().max(1), error.column().max(1));
        let position = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&position).unwrap_or(&problem).to_owned();
        ChatError::NotJson { line, column, problem }
    })
}

/// Returns whether a document is a list, if it is JSON.
pub(crate) fn is_list(json: &str) -> bool {
    json.trim_start_matches(|c: char| c == '\u{feff}' || c.is_ascii_whitespace()).starts_with('[')
}

/// Parses a document that is a list. A second pass finds what is wrong with another one.
pub(crate) fn parse_array(json: &str) -> Result<Vec<&RawValue>, ChatError> {
    serde_json::from_str(json).or_else(|_| array("the list", parse(json)?))
}

/// Parses a document that is an object. A second pass finds what is wrong with another one.
pub(crate) fn parse_object(json: &str) -> Result<Object<'_>, ChatError> {
    serde_json::from_str(json).or_else(|_| object("the request", parse(json)?))
}

/// Deserializes a value. Errors name its path, its type and the expected type.
fn read<'t, T: Deserialize<'t>>(
    path: impl Display,
    value: &'t RawValue,
    expected: &str,
) -> Result<T, ChatError> {
    serde_json::from_str(value.get()).map_err(|error| {
        let actual = match value.get().as_bytes().first() {
            Some(b'"') => "a text",
            Some(b'[') => "a list",
            Some(b'{') => "an object",
            Some(b'n') => "null",
            Some(b't' | b'f') => "true or false",
            _ => "a number",
        };
        let problem = error.to_string();
        let problem = problem.split(" at line ").next().unwrap_or_default();
        ChatError::invalid(
            path,
            match expected == actual {
                true => format!("{problem}; fix the JSON"),
                false => format!("it is {actual}; it must be {expected}"),
            },
        )
    })
}

/// Returns a string. A lone surrogate becomes U+FFFD.
pub(crate) fn string(path: impl Display, value: &RawValue) -> Result<String, ChatError> {
    let text = value.get().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    if let Some(text) = text.filter(|text| memchr(b'\\', text.as_bytes()).is_none()) {
        return Ok(text.to_owned());
    }
    match without_lone_surrogates(value.get()) {
        Cow::Borrowed(_) => read(path, value, "a text"),
        Cow::Owned(fixed) => {
            serde_json::from_str(&fixed).map_err(|_| ChatError::invalid(path, "it must be a text"))
        }
    }
}

pub(crate) fn has_lone_surrogates(value: &RawValue) -> bool {
    matches!(without_lone_surrogates(value.get()), Cow::Owned(_))
}

/// Returns whether JSON has escapes of surrogates. Few texts have any, and many have other escapes.
pub(crate) fn may_have_lone_surrogates(json: &str) -> bool {
    static ESCAPES: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new("\\u"));
    let json = json.as_bytes();
    ESCAPES.find_iter(json).any(|start| matches!(json.get(start + 2), Some(b'd' | b'D')))
}

/// Replaces lone surrogates in JSON, which are not characters, by U+FFFD. The length stays the same.
fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    if !may_have_lone_surrogates(json) {
        return Cow::Borrowed(json);
    }
    let unit = |index: usize| {
        let escape = json.get(index..index + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut fixed = Cow::Borrowed(json);
    let mut index = 0;
    while let Some(offset) = json.get(index..).and_then(|rest| rest.find('\\')) {
        index += offset;
        index += match (unit(index), unit(index + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                fixed.to_mut().replace_range(index..index + 6, "\\ufffd");
                6
            }
            // The character after a backslash is ASCII.
            _ => 2,
        };
    }
    fixed
}

pub(crate) fn array(path: impl Display, value: &RawValue) -> Result<Vec<&RawValue>, ChatError> {
    read(path, value, "a list")
}

pub(crate) fn object(path: impl Display, value: &RawValue) -> Result<Object<'_>, ChatError> {
    read(path, value, "an object")
}

pub(crate) fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

pub(crate) fn is_array(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

/// Returns the string in a required field.
pub(crate) fn required_str(
    path: impl Display,
    object: &Object<'_>,
    name: &str,
) -> Result<String, ChatError> {
    match object.get(name) {
        Some(value) => string(format_args!("{path}.{name}"), value),
        None => Err(ChatError::invalid(path, format!("missing field `{name}`; add it"))),
    }
}

/// Returns the string in a field, or an empty one if the field is missing.
pub(crate) fn optional_str(
    path: impl Display,
    object: &Object<'_>,
    name: &str,
) -> Result<String, ChatError> {
    object.get(name).map_or(Ok(String::new()), |value| string(format_args!("{path}.{name}"), value))
}

/// Writes a value without whitespace between tokens.
pub(crate) fn write(value: &RawValue, into: &mut String) {
    write_compact(value.get(), into);
}

/// Writes JSON that starts and ends between two tokens, without whitespace between tokens and without lone surrogates.
fn write_compact(text: &str, into: &mut String) {
    let text = &*without_lone_surrogates(text);
    let (mut start, mut index) = (0, 0);
    while let Some(byte) = text.as_bytes().get(index) {
        if *byte == b'"' {
            index += string_literal(&text[index..]).len();
            continue;
        }
        if byte.is_ascii_whitespace() {
            into.push_str(&text[start..index]);
            start = index + 1;
        }
        index += 1;
    }
    into.push_str(&text[start..]);
}

/// Returns the string at the beginning of JSON, with its quotes.
fn string_literal(json: &str) -> &str {
    let mut end = 1;
    while let Some(offset) = memchr2(b'"', b'\\', json.as_bytes().get(end..).unwrap_or_default()) {
        end += offset;
        if json.as_bytes()[end] == b'"' {
            return &json[..=end];
        }
        // The character after a backslash is ASCII.
        end += 2;
    }
    json
}

/// Returns a value without whitespace between tokens.
pub(crate) fn compact(value: &RawValue) -> String {
    let mut text = String::with_capacity(value.get().len());
    write(value, &mut text);
    text
}

/// Returns a value with a space after each comma and colon, and without needless escapes in strings.
///
/// Clients write the same value in many ways. This form is counted, so their counts agree.
pub(crate) fn spaced(value: &RawValue) -> String {
    let text = &*without_lone_surrogates(value.get());
    let mut spaced = String::with_capacity(text.len() + text.len() / 16);
    let mut index = 0;
    while let Some(byte) = text.as_bytes().get(index) {
        match byte {
            b'"' => {
                let literal = string_literal(&text[index..]);
                match serde_json::from_str::<String>(literal) {
                    Ok(content) if literal.contains('\\') => write_string(&content, &mut spaced),
                    _ => spaced.push_str(literal),
                }
                index += literal.len();
                continue;
            }
            b',' => spaced.push_str(", "),
            b':' => spaced.push_str(": "),
            // Outside strings, JSON is ASCII.
            _ if !byte.is_ascii_whitespace() => spaced.push(char::from(*byte)),
            _ => {}
        }
        index += 1;
    }
    spaced
}

/// Writes `outer` with another value in the place of `inner`, which is a part of it.
pub(crate) fn write_replaced(outer: &RawValue, inner: &RawValue, new: &str, into: &mut String) {
    let text = outer.get();
    let start = (inner.get().as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let parts = text.get(..start).zip(text.get(start.wrapping_add(inner.get().len())..));
    let Some((before, after)) = parts else {
        return write(outer, into);
    };
    write_compact(before, into);
    into.push_str(new);
    write_compact(after, into);
}

/// Returns an object with a field set to a value, as its last field, or removed.
pub(crate) fn with_field(object: &str, name: &str, value: Option<&str>) -> String {
    let Ok(fields) = serde_json::from_str::<Object<'_>>(object) else { return object.to_owned() };
    let mut text = "{".to_owned();
    let kept = fields.0.iter().filter(|(field, _)| field != name);
    let kept = kept.map(|(field, value)| (&**field, value.get()));
    for (field, value) in kept.chain(value.map(|value| (name, value))) {
        if text.len() > 1 {
            text.push(',');
        }
        write_string(field, &mut text);
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    text
}

/// Writes `text` as a JSON string.
pub(crate) fn write_string(text: &str, into: &mut String) {
    // Strings always serialize.
    into.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Writes fields as an object, and then `required` if it is not one of them. The value of a missing field is `None`.
pub(crate) fn write_fields<'f, 't: 'f>(
    fields: impl Iterator<Item = &'f ObjectField<'t>>,
    required: Option<&str>,
    into: &mut String,
    mut write_value: impl FnMut(&str, Option<&'t RawValue>, &mut String),
) {
    let mut required = required;
    let mut separator = "{";
    let mut write_field = |name: &str, value, into: &mut String| {
        into.push_str(separator);
        separator = ",";
        write_string(name, into);
        into.push(':');
        write_value(name, value, into);
    };
    for (name, value) in fields {
        required = required.filter(|required| required != name);
        write_field(name, Some(*value), into);
    }
    if let Some(name) = required {
        write_field(name, None, into);
    }
    into.push('}');
}

/// Writes values as a JSON array.
pub(crate) fn write_array<T>(
    values: impl Iterator<Item = T>,
    into: &mut String,
    write: impl Fn(T, &mut String),
) {
    into.push('[');
    for (value, index) in values.zip(0..) {
        if index > 0 {
            into.push(',');
        }
        write(value, into);
    }
    into.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compacting_keeps_whitespace_in_strings() {
        let value = parse(" { \"a b\" : [ 1.50 , \"x \\\" y\\\\\" ,\n\t null ] } ").unwrap();
        assert_eq!(compact(value), r#"{"a b":[1.50,"x \" y\\",null]}"#);
    }

    #[test]
    fn spaced_values_do_not_depend_on_how_they_were_written() {
        let written = [
            r#"{"a b":[1.50,"x:\u00e9,\u0041\n"],"c":{}}"#,
            " { \"a b\" : [ 1.50 ,\"x:é,A\\n\" ] ,\n\"c\" : { } } ",
        ];
        for text in written {
            assert_eq!(spaced(parse(text).unwrap()), "{\"a b\": [1.50, \"x:é,A\\n\"], \"c\": {}}");
        }
        assert_eq!(spaced(parse(r#""\ud800""#).unwrap()), "\"\u{fffd}\"");
    }

    #[test]
    fn a_field_is_set_or_removed() {
        assert_eq!(with_field(r#"{"a":1,"b":2}"#, "a", Some("3")), r#"{"b":2,"a":3}"#);
        assert_eq!(with_field(r#"{"a":1,"b":2}"#, "a", None), r#"{"b":2}"#);
        assert_eq!(with_field("{}", "a", None), "{}");
    }

    #[test]
    fn a_nested_value_is_replaced() {
        let outer = parse(r#"{ "a": { "b": "long" }, "c": 1 }"#).unwrap();
        let inner = object("a", object("", outer).unwrap().get("a").unwrap()).unwrap();
        let mut text = String::new();
        write_replaced(outer, inner.get("b").unwrap(), "2", &mut text);
        assert_eq!(text, r#"{"a":{"b":2},"c":1}"#);
        let mut text = String::new();
        write_replaced(outer, parse("[]").unwrap(), "2", &mut text);
        assert_eq!(text, r#"{"a":{"b":"long"},"c":1}"#);
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        for (text, fixed, decoded) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""a\ud83d""#, r#""a\ufffd""#, "a\u{fffd}"),
            (
                r#""\uDE00\ud83d\uD83D\ude00""#,
                r#""\ufffd\ufffd\uD83D\ude00""#,
                "\u{fffd}\u{fffd}\u{1f600}",
            ),
            (r#""\\ud83d \u00e9""#, r#""\\ud83d \u00e9""#, "\\ud83d \u{e9}"),
        ] {
            let value = parse(text).unwrap();
            assert_eq!(string("text", value).unwrap(), decoded);
            assert_eq!(compact(value), fixed);
            assert_eq!(has_lone_surrogates(value), text != fixed);
        }
        let fields = object("", parse(r#"{"a\ud800":1,"b":2}"#).unwrap()).unwrap().0;
        assert!(fields[0].0.starts_with("a\u{fffd}") && fields[1].0 == "b", "{fields:?}");
    }

    #[test]
    fn errors_name_their_location() {
        assert_eq!(
            parse("[1,\n 2").unwrap_err().to_string(),
            "line 2, column 2: EOF while parsing a list; give one JSON list of messages, or a request with `messages`"
        );
        let twice = object("messages[0]", parse(r#"{"a":1,"a":2}"#).unwrap()).unwrap_err();
        assert_eq!(twice.to_string(), "messages[0]: duplicate field `a`; fix the JSON");
        let number = string("role", parse("3").unwrap()).unwrap_err();
        assert_eq!(number.to_string(), "role: it is a number; it must be a text");
    }
}
