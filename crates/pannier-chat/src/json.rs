//! JSON that is looked into as far as needed, and otherwise passed on as it came.
//!
//! A message may have fields that nobody here knows, numbers that no type here holds, and its keys in an order that
//! somebody's cache depends on. So values stay the text they are.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ChatError;

/// The fields of an object, in their order.
#[derive(Debug)]
pub(crate) struct Object<'t>(pub(crate) Vec<(String, &'t RawValue)>);

impl<'t> Object<'t> {
    /// The value of a field; `null` is none.
    pub(crate) fn get(&self, name: &str) -> Option<&'t RawValue> {
        let field = self.0.iter().find(|(other, _)| other == name);
        field.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if fields.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("the field `{name}` is there twice")));
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

        deserializer.deserialize_map(Fields)
    }
}

/// How many fields are looked through for one that is there twice. No message has as many.
const MAX_FIELDS: usize = 1_000;

/// A whole text.
pub(crate) fn parse(json: &str) -> Result<&RawValue, ChatError> {
    let json = json.strip_prefix('\u{feff}').unwrap_or(json);
    serde_json::from_str(json).map_err(|error| {
        let (line, column) = (error.line().max(1), error.column().max(1));
        let place = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&place).unwrap_or(&problem).to_owned();
        ChatError::NotJson { line, column, problem }
    })
}

/// Reads a value as some type.
fn read<'t, T: Deserialize<'t>>(
    path: &str,
    value: &'t RawValue,
    expected: &str,
) -> Result<T, ChatError> {
    serde_json::from_str(value.get()).map_err(|error| {
        let found = match value.get().as_bytes().first() {
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
            match expected == found {
                true => format!("{problem}; correct it"),
                false => format!("it is {found}; it must be {expected}"),
            },
        )
    })
}

pub(crate) fn string(path: &str, value: &RawValue) -> Result<String, ChatError> {
    read(path, value, "a text")
}

pub(crate) fn array<'t>(path: &str, value: &'t RawValue) -> Result<Vec<&'t RawValue>, ChatError> {
    read(path, value, "a list")
}

pub(crate) fn object<'t>(path: &str, value: &'t RawValue) -> Result<Object<'t>, ChatError> {
    read(path, value, "an object")
}

pub(crate) fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

pub(crate) fn is_array(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

/// The text of a field that must be there.
pub(crate) fn required_str(path: &str, object: &Object<'_>, name: &str) -> Result<String, ChatError> {
    match object.get(name) {
        Some(value) => string(&format!("{path}.{name}"), value),
        None => Err(ChatError::invalid(path, format!("it has no `{name}`; add it"))),
    }
}

/// The text of a field, empty if it is not there.
pub(crate) fn optional_str(path: &str, object: &Object<'_>, name: &str) -> Result<String, ChatError> {
    object.get(name).map_or(Ok(String::new()), |value| string(&format!("{path}.{name}"), value))
}

/// Writes a value without the blanks between its parts.
pub(crate) fn write(value: &RawValue, into: &mut String) {
    let text = value.get();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if is_quoted {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_quoted = false,
                _ => {}
            }
        } else if byte == b'"' {
            is_quoted = true;
        } else if byte.is_ascii_whitespace() {
            into.push_str(&text[start..at]);
            start = at + 1;
        }
    }
    into.push_str(&text[start..]);
}

/// The same by itself.
pub(crate) fn compact(value: &RawValue) -> String {
    let mut text = String::with_capacity(value.get().len());
    write(value, &mut text);
    text
}

/// Writes a text as JSON.
pub(crate) fn write_string(text: &str, into: &mut String) {
    into.push_str(&serde_json::Value::from(text).to_string());
}

/// Writes values as a list.
pub(crate) fn write_array<'t>(values: impl Iterator<Item = &'t RawValue>, into: &mut String) {
    into.push('[');
    for (value, at) in values.zip(0..) {
        if at > 0 {
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
    fn only_blanks_between_parts_go() {
        let value = parse(" { \"a b\" : [ 1.50 , \"x \\\" y\\\\\" ,\n\t null ] } ").unwrap();
        assert_eq!(compact(value), r#"{"a b":[1.50,"x \" y\\",null]}"#);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        assert_eq!(
            parse("[1,\n 2").unwrap_err().to_string(),
            "line 2, column 2: EOF while parsing a list; give one JSON list of messages, or a request with `messages`"
        );
        let twice = object("messages[0]", parse(r#"{"a":1,"a":2}"#).unwrap()).unwrap_err();
        assert_eq!(twice.to_string(), "messages[0]: the field `a` is there twice; correct it");
        let number = string("role", parse("3").unwrap()).unwrap_err();
        assert_eq!(number.to_string(), "role: it is a number; it must be a text");
        let broken = string("role", parse(r#""\ud800""#).unwrap()).unwrap_err();
        assert!(broken.to_string().starts_with("role: "), "{broken}");
    }
}
