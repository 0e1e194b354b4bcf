//! Parses JSON only as deep as needed and writes the rest unchanged.
//!
//! A message may have unknown fields, numbers beyond any Rust type, and a key order that a prompt cache depends on. Values
//! therefore stay raw text.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;
use std::string::FromUtf8Error;
use std::sync::LazyLock;

use memchr::{memchr, memmem};
use serde_json::value::RawValue;

use crate::ChatError;

/// A JSON value as it was written, without whitespace around it.
///
/// Only [`parse`] and [`scan::split`](crate::scan::split) validate JSON. The values in it are valid, too, so they are found by
/// their quotes and brackets alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawJson<'t>(pub(crate) &'t str);

impl<'t> RawJson<'t> {
    /// Returns the text of the value.
    pub(crate) fn get(self) -> &'t str {
        self.0
    }

    fn first_byte(self) -> u8 {
        self.0.bytes().next().unwrap_or_default()
    }

    /// Returns the text between the quotes or brackets of the value, if it begins with this one.
    fn inside(self, opening: char) -> Option<&'t str> {
        let closing = self.0.len().checked_sub(1)?;
        self.0.get(..closing)?.strip_prefix(opening)
    }
}

/// The fields of an object, in input order.
#[derive(Clone, Debug)]
pub(crate) struct Object<'t>(pub(crate) Vec<ObjectField<'t>>);

/// The name and the value of a field.
pub(crate) type ObjectField<'t> = (Cow<'t, str>, RawJson<'t>);

impl<'t> Object<'t> {
    /// Returns the value of a field, or `None` if it is missing or `null`.
    pub(crate) fn get(&self, name: &str) -> Option<RawJson<'t>> {
        let field = self.0.iter().find(|(other, _)| other == name);
        field.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    /// Parses an object, unless the text is something else.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        object("", validate(text).ok()?).ok()
    }
}

/// The maximum number of fields of an object. It bounds the quadratic search for duplicates.
pub(crate) const MAX_FIELDS: usize = 1_000;

fn validate(json: &str) -> Result<RawJson<'_>, serde_json::Error> {
    serde_json::from_str::<&RawValue>(json).map(|value| RawJson(value.get()))
}

pub(crate) fn without_byte_order_mark(json: &str) -> &str {
    json.strip_prefix('\u{feff}').unwrap_or(json)
}

/// Parses a document, with or without a byte order mark.
pub(crate) fn parse(json: &str) -> Result<RawJson<'_>, ChatError> {
    validate(without_byte_order_mark(json)).map_err(|error| {
        let (line, column) = (error.line().max(1), error.column().max(1));
        let position = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&position).unwrap_or(&problem).to_owned();
        ChatError::NotJson { line, column, problem }
    })
}

/// Returns the error of a value that has another type than the expected one.
fn mistyped(path: impl Display, value: RawJson<'_>, expected: &str) -> ChatError {
    let actual = match value.first_byte() {
        b'"' => "a text",
        b'[' => "a list",
        b'{' => "an object",
        b'n' => "null",
        b't' | b'f' => "true or false",
        _ => "a number",
    };
    ChatError::invalid(path, format!("it is {actual}; it must be {expected}"))
}

/// Returns a string. A lone surrogate becomes U+FFFD.
pub(crate) fn string(path: impl Display, value: RawJson<'_>) -> Result<String, ChatError> {
    borrowed_string(path, value).map(Cow::into_owned)
}

/// Returns a string as [`string`] does. One without escapes is not copied.
fn borrowed_string<'t>(path: impl Display, value: RawJson<'t>) -> Result<Cow<'t, str>, ChatError> {
    value.inside('"').map(unescaped).ok_or_else(|| mistyped(path, value, "a text"))
}

/// Returns the text between the quotes of a string, without escapes.
fn unescaped(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let Some(first) = memchr(b'\\', bytes) else { return Cow::Borrowed(text) };
    let mut plain = Vec::with_capacity(bytes.len());
    plain.extend_from_slice(&bytes[..first]);
    let mut start = first;
    loop {
        let (character, length) = escaped(text.get(start..).unwrap_or_default());
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => plain.push(byte),
            _ => plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        // What is escaped is ASCII.
        let rest = bytes.get(start + length..).unwrap_or_default();
        let count = push_until_backslash(rest, &mut plain);
        if count == rest.len() {
            break;
        }
        start += length + count;
    }
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Cow::Owned(String::from_utf8(plain).unwrap_or_else(lossy))
}

/// Adds the bytes before the first backslash, and returns their number. Escapes are often close to each other, so eight
/// bytes at a time are faster than a search that starts anew for each.
fn push_until_backslash(bytes: &[u8], into: &mut Vec<u8>) -> usize {
    let (blocks, _) = bytes.as_chunks::<32>();
    let has_backslash =
        |block: &[u8; 32]| block.iter().fold(false, |has, byte| has | (*byte == b'\\'));
    let mut plain = 0;
    for block in blocks.iter().take_while(|block| !has_backslash(block)) {
        into.extend_from_slice(block);
        plain += block.len();
    }
    let bytes = &bytes[plain..];
    let (words, rest) = bytes.as_chunks();
    for (word, index) in words.iter().zip(0..) {
        into.extend_from_slice(word);
        let marks = mark(*word, b'\\');
        if marks != 0 {
            let offset = first_marked(marks);
            into.truncate(into.len() - word.len() + offset);
            return plain + index * word.len() + offset;
        }
    }
    let length = rest.iter().position(|byte| *byte == b'\\').unwrap_or(rest.len());
    into.extend_from_slice(&rest[..length]);
    plain + bytes.len() - rest.len() + length
}

/// A word of eight bytes that are 1.
const ONES: u64 = u64::MAX / 0xff;

/// Marks bytes of a word by their highest bits: the first that equals `byte`, and perhaps later ones.
#[inline]
fn mark(word: [u8; 8], byte: u8) -> u64 {
    let word = u64::from_le_bytes(word) ^ (ONES * u64::from(byte));
    // A borrow only goes from a byte that is zero to later ones.
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

/// Marks the first byte of a word that is less than `end`, an ASCII character, and perhaps later ones.
#[inline]
fn mark_below(word: [u8; 8], end: u8) -> u64 {
    let word = u64::from_le_bytes(word);
    word.wrapping_sub(ONES * u64::from(end)) & !word & (ONES << 7)
}

/// Returns the position of the first byte that is marked.
#[inline]
fn first_marked(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Returns the character of the escape at the beginning of a text, and the length of the escape.
fn escaped(text: &str) -> (char, usize) {
    let character = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let units = [escaped_unit(text, 0), escaped_unit(text, 6)];
            let mut decoded = char::decode_utf16(units.into_iter().flatten());
            let character = decoded.next().and_then(Result::ok);
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            return (character, 6 * character.len_utf16());
        }
        // A quote, a slash or a backslash.
        Some(byte) => char::from(*byte),
        None => char::REPLACEMENT_CHARACTER,
    };
    (character, 2)
}

/// Returns the UTF-16 code unit of the escape at an index, if there is one.
fn escaped_unit(text: &str, index: usize) -> Option<u16> {
    let escape = text.get(index..index + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(escape, 16).ok()
}

pub(crate) fn has_lone_surrogates(value: RawJson<'_>) -> bool {
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
    let mut fixed = Cow::Borrowed(json);
    let mut index = 0;
    while let Some(offset) = json.get(index..).and_then(|rest| rest.find('\\')) {
        index += offset;
        index += match (escaped_unit(json, index), escaped_unit(json, index + 6)) {
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

/// Returns the elements of a list.
pub(crate) fn array<'t>(
    path: impl Display,
    value: RawJson<'t>,
) -> Result<Vec<RawJson<'t>>, ChatError> {
    let text = value.inside('[').ok_or_else(|| mistyped(path, value, "a list"))?;
    let (mut elements, mut rest) = (Vec::new(), after_separators(text));
    while !rest.is_empty() {
        let element;
        (element, rest) = split_value(rest);
        elements.push(element);
        rest = after_separators(rest);
    }
    Ok(elements)
}

/// An element of a list. If it is an object, its fields were found when the list was split.
#[derive(Clone, Debug)]
pub(crate) struct Element<'t> {
    pub(crate) raw: RawJson<'t>,
    pub(crate) fields: Option<Object<'t>>,
    /// The elements of its list of parts, if they were found, too.
    pub(crate) list: Option<Vec<Element<'t>>>,
}

impl<'t> From<RawJson<'t>> for Element<'t> {
    fn from(raw: RawJson<'t>) -> Self {
        Self { raw, fields: None, list: None }
    }
}

impl<'t> Element<'t> {
    /// Takes the elements of its list, if they were found with it.
    pub(crate) fn take_list(&mut self) -> Option<Vec<Self>> {
        self.list.take()
    }

    /// Returns its fields, as [`object`] does.
    pub(crate) fn object(self, path: impl Display) -> Result<Object<'t>, ChatError> {
        self.fields.map_or_else(|| object(path, self.raw), Ok)
    }
}

/// Returns the elements of a list, most of which are objects: their fields are found in the same pass.
pub(crate) fn elements<'t>(
    path: impl Display,
    value: RawJson<'t>,
) -> Result<Vec<Element<'t>>, ChatError> {
    let text = value.inside('[').ok_or_else(|| mistyped(path, value, "a list"))?;
    let (mut elements, mut rest) = (Vec::new(), after_separators(text));
    while !rest.is_empty() {
        let element;
        (element, rest) = match split_object(rest) {
            Some((raw, fields, rest)) => (Element { raw, fields: Some(fields), list: None }, rest),
            None => {
                let (raw, rest) = split_value(rest);
                (raw.into(), rest)
            }
        };
        elements.push(element);
        rest = after_separators(rest);
    }
    Ok(elements)
}

/// Splits JSON after the object at its beginning, and returns its fields. `None` without such an object, or if its fields are invalid.
fn split_object(json: &str) -> Option<(RawJson<'_>, Object<'_>, &str)> {
    let (mut fields, mut rest) = (Vec::new(), after_separators(json.strip_prefix('{')?));
    while !rest.starts_with('}') {
        rest = split_field(rest, &mut fields).ok()?;
    }
    let rest = &rest[1..];
    Some((RawJson(&json[..json.len() - rest.len()]), Object(fields), rest))
}

/// Returns the name in a string.
pub(crate) fn unescaped_name(string: &str) -> Cow<'_, str> {
    unescaped(RawJson(string).inside('"').unwrap_or_default())
}

/// Adds the field at the beginning of JSON. Returns the JSON after it, or a problem of the object.
fn split_field<'t>(json: &'t str, fields: &mut Vec<ObjectField<'t>>) -> Result<&'t str, String> {
    let name = string_literal(json);
    let rest = after_separators(&json[name.len()..]);
    let name = unescaped_name(name);
    if fields.iter().any(|(other, _)| *other == name) {
        return Err(format!("duplicate field `{name}`"));
    }
    if fields.len() == MAX_FIELDS {
        return Err(format!("there are more than {MAX_FIELDS} fields"));
    }
    let (value, rest) = split_value(rest);
    fields.push((name, value));
    Ok(after_separators(rest))
}

/// Returns the fields of an object.
pub(crate) fn object<'t>(path: impl Display, value: RawJson<'t>) -> Result<Object<'t>, ChatError> {
    let Some(text) = value.inside('{') else { return Err(mistyped(path, value, "an object")) };
    let (mut fields, mut rest) = (Vec::new(), after_separators(text));
    while !rest.is_empty() {
        rest = split_field(rest, &mut fields)
            .map_err(|problem| ChatError::invalid(&path, format!("{problem}; fix the JSON")))?;
    }
    Ok(Object(fields))
}

/// Returns JSON without the whitespace, the comma or the colon between two values at its beginning.
fn after_separators(json: &str) -> &str {
    let is_separator = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r' | b',' | b':');
    let start = json.bytes().position(|byte| !is_separator(&byte));
    &json[start.unwrap_or(json.len())..]
}

/// Splits JSON after the value at its beginning.
fn split_value(json: &str) -> (RawJson<'_>, &str) {
    let bytes = json.as_bytes();
    let (mut end, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => end += string_literal(&json[end..]).len() - 1,
            b'{' | b'[' => depth += 1,
            // A number or a word ends before a separator, or before the bracket of what contains it.
            b',' | b' ' | b'\n' | b'\t' | b'\r' | b'}' | b']' if depth == 0 => break,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        end += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            break;
        }
    }
    let (value, rest) = json.split_at(end);
    (RawJson(value), rest)
}

pub(crate) fn is_string(value: RawJson<'_>) -> bool {
    value.first_byte() == b'"'
}

pub(crate) fn is_array(value: RawJson<'_>) -> bool {
    value.first_byte() == b'['
}

/// Returns the string in a required field.
pub(crate) fn required_str<'t>(
    path: impl Display,
    object: &Object<'t>,
    name: &str,
) -> Result<Cow<'t, str>, ChatError> {
    match object.get(name) {
        Some(value) => borrowed_string(format_args!("{path}.{name}"), value),
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

/// Writes JSON as it is, but without lone surrogates.
pub(crate) fn write_unchanged(text: &str, into: &mut String) {
    into.push_str(&without_lone_surrogates(text));
}

/// Writes a value without whitespace between tokens.
pub(crate) fn write(value: RawJson<'_>, into: &mut String) {
    write_compact(value.get(), into);
}

/// Writes JSON that starts and ends between two tokens, without whitespace between tokens and without lone surrogates.
pub(crate) fn write_compact(text: &str, into: &mut String) {
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
    let bytes = json.as_bytes();
    let mut end = 1;
    loop {
        end += plain_length(bytes.get(end..).unwrap_or_default());
        match bytes.get(end) {
            Some(b'"') => return &json[..=end],
            // A backslash escapes the next byte.
            Some(_) => end += 2,
            None => return json,
        }
    }
}

/// Returns the number of bytes before the first quote or backslash.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (word, index) in words.iter().zip(0..) {
        let marks = mark(*word, b'"') | mark(*word, b'\\');
        if marks != 0 {
            return index * word.len() + first_marked(marks);
        }
    }
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    bytes.len() - rest.len() + end.unwrap_or(rest.len())
}

/// Returns a value without whitespace between tokens.
pub(crate) fn compact(value: RawJson<'_>) -> String {
    let mut text = String::with_capacity(value.get().len());
    write(value, &mut text);
    text
}

/// Returns a value with a space after each comma and colon, and without needless escapes in strings.
///
/// Clients write the same value in many ways. This form is counted, so their counts agree.
pub(crate) fn spaced(value: RawJson<'_>) -> String {
    let text = value.get();
    let mut spaced = String::with_capacity(text.len() + text.len() / 16);
    let mut index = 0;
    while let Some(byte) = text.as_bytes().get(index) {
        match byte {
            b'"' => {
                let literal = string_literal(&text[index..]);
                match unescaped(RawJson(literal).inside('"').unwrap_or_default()) {
                    Cow::Owned(content) => write_string(&content, &mut spaced),
                    Cow::Borrowed(_) => spaced.push_str(literal),
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

/// Returns the position of `inner` in `outer`, of which it is a part.
pub(crate) fn range_in(outer: RawJson<'_>, inner: RawJson<'_>) -> Option<Range<usize>> {
    let (outer, inner) = (outer.get(), inner.get());
    let start = (inner.as_ptr() as usize).checked_sub(outer.as_ptr() as usize)?;
    let range = start..start.checked_add(inner.len())?;
    outer.get(range.clone()).map(|_| range)
}

/// Writes `outer` with another value in the place of `inner`, which is a part of it.
pub(crate) fn write_replaced(
    outer: RawJson<'_>,
    inner: RawJson<'_>,
    into: &mut String,
    write_new: impl FnOnce(&mut String),
) {
    let Some(range) = range_in(outer, inner) else {
        return write(outer, into);
    };
    write_compact(&outer.get()[..range.start], into);
    write_new(into);
    write_compact(&outer.get()[range.end..], into);
}

/// Returns an object with a field set to a value, as its last field, or removed.
pub(crate) fn with_field(object: &str, name: &str, value: Option<&str>) -> String {
    let Some(fields) = Object::parse(object) else { return object.to_owned() };
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
    into.reserve(text.len() + 2);
    into.push('"');
    let mut rest = text;
    loop {
        let (plain, escaped) = rest.split_at(unescaped_length(rest.as_bytes()));
        into.push_str(plain);
        let mut characters = escaped.chars();
        let Some(character) = characters.next() else { break };
        match character {
            '"' | '\\' => into.extend(['\\', character]),
            '\n' => into.push_str("\\n"),
            '\t' => into.push_str("\\t"),
            '\r' => into.push_str("\\r"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            control => {
                into.push_str("\\u00");
                let digits = [u32::from(control) >> 4, u32::from(control) & 15];
                into.extend(digits.map(|digit| char::from_digit(digit, 16).unwrap_or('0')));
            }
        }
        rest = characters.as_str();
    }
    into.push('"');
}

/// Returns the number of bytes before the first quote, backslash or control character.
#[inline]
pub(crate) fn unescaped_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (word, index) in words.iter().zip(0..) {
        let marks = mark(*word, b'"') | mark(*word, b'\\') | mark_below(*word, b' ');
        if marks != 0 {
            return index * word.len() + first_marked(marks);
        }
    }
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '));
    bytes.len() - rest.len() + end.unwrap_or(rest.len())
}

/// Writes fields as an object, and then `required` if it is not one of them. The value of a missing field is `None`.
pub(crate) fn write_fields<'f, 't: 'f>(
    fields: impl Iterator<Item = &'f ObjectField<'t>>,
    required: Option<&str>,
    into: &mut String,
    mut write_value: impl FnMut(&str, Option<RawJson<'t>>, &mut String),
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
pub(crate) mod test {
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// JSON with whitespace, nesting, and strings that contain brackets, quotes and escapes.
    pub(crate) fn documents() -> impl Strategy<Value = String> {
        let string = r#""([a-z,:{}\[\] é]|\\["\\/bfnrt]|\\u00e9|\\ud83d|\\uDE00)*""#;
        let word = "null|true|false|0|-1\\.50e3";
        let values = prop_oneof![string, word];
        values.prop_recursive(4, 32, 4, |values| {
            let fields = |values: Vec<String>| -> Vec<String> {
                let fields = values.iter().zip('a'..);
                fields.map(|(value, name)| format!("\"{name}\" :\t{value}")).collect()
            };
            prop_oneof![
                vec(values.clone(), 0..4).prop_map(|list| format!("[ {} ]", list.join(" ,\n"))),
                vec(values, 0..4).prop_map(move |list| format!("{{{}}}", fields(list).join(","))),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::test::documents;
    use super::*;

    proptest! {
        #[test]
        fn values_are_split_as_a_parser_splits_them(text in documents()) {
            let value = parse(&text).unwrap();
            let texts = |values: Vec<&RawValue>| -> Vec<String> {
                values.into_iter().map(|value| value.get().to_owned()).collect()
            };
            let list = array("", value);
            let list_texts = list.clone().map(|list| list.iter().map(|value| value.get().to_owned()).collect());
            prop_assert_eq!(list_texts.ok(), serde_json::from_str(&text).map(texts).ok());
            // Elements are the same, with the fields of objects.
            for (value, element) in list.into_iter().flatten().zip(elements("", value).into_iter().flatten()) {
                prop_assert_eq!(value, element.raw);
                prop_assert_eq!(object("", value).ok().map(|object| object.0), element.object("").ok().map(|object| object.0));
            }
            let fields = object("", value).map(|object| {
                object.0.iter().map(|(name, value)| (name.to_string(), value.get().to_owned())).collect()
            });
            let expected = serde_json::from_str::<BTreeMap<String, &RawValue>>(&text);
            let expected = expected.map(|fields| {
                fields.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect::<Vec<_>>()
            });
            prop_assert_eq!(fields.ok(), expected.ok());
            // The parser rejects lone surrogates.
            if let Ok(expected) = serde_json::from_str::<String>(&text) {
                prop_assert_eq!(string("", value).unwrap(), expected);
            }
            prop_assert_eq!(string("", value).is_ok(), text.starts_with('"'));
        }
    }

    #[test]
    fn a_word_at_the_end_of_an_object_does_not_contain_its_bracket() {
        let list = parse(r#"[{"a":null} ,{"b":"}"},{"c":1}]"#).unwrap();
        let elements = elements("", list).unwrap();
        let raw: Vec<&str> = elements.iter().map(|element| element.raw.get()).collect();
        assert_eq!(raw, [r#"{"a":null}"#, r#"{"b":"}"}"#, r#"{"c":1}"#]);
        assert_eq!(elements[2].clone().object("").unwrap().get("c").unwrap().get(), "1");
    }

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
    fn strings_are_written_as_a_serializer_does() {
        let controls: String = (0..0x30).map(char::from).collect();
        for text in ["", "plain", "a \"quote\" and a \\ in a longer text", "é\n日本", &controls]
        {
            let mut written = String::new();
            write_string(text, &mut written);
            assert_eq!(written, serde_json::to_string(text).unwrap());
        }
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
        write_replaced(outer, inner.get("b").unwrap(), &mut text, |text| text.push('2'));
        assert_eq!(text, r#"{"a":{"b":2},"c":1}"#);
        let mut text = String::new();
        write_replaced(outer, parse("[]").unwrap(), &mut text, |text| text.push('2'));
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
