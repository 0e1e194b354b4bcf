//! Reads structs from a tree of values, with the path to every mistake.
//!
//! A policy is written by a person, so an error names the key and the remedy. [`Tree`] is a deserializer whose errors have
//! a path. A component is read from a tree inside any deserializer, whose errors are only text. So the path is a part of
//! the text, up to a [mark](MARK), and the next reader takes it off again.

use std::collections::btree_map;
use std::fmt::{self, Display};
use std::iter::Enumerate;
use std::vec;

use pannier_core::Error;
use pannier_core::item::{Metadata, MetadataValue};
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected,
    IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

/// Ends the path in an error's text: a colon, a space and an invisible separator.
const MARK: &str = ": \u{2063}";

/// The key under which `toml` passes a date to readers of any value.
const TOML_DATETIME: &str = "$__toml_private_datetime";

/// Former names of options: read, but never suggested.
const FORMER_KEYS: &[&str] = &["drop_worthless", "enough", "otherwise", "whole"];

/// A mistake, and the path to it.
#[derive(Debug)]
pub(crate) struct ReadError {
    path: String,
    problem: String,
    /// The keys of the struct in which a key is unknown.
    keys: &'static [&'static str],
}

impl ReadError {
    pub(crate) fn new(path: impl Into<String>, problem: impl Display) -> Self {
        Self { path: path.into(), problem: problem.to_string(), keys: &[] }
    }

    pub(crate) fn missing(key: &str) -> Self {
        Self::new(key, "it is missing; add it")
    }

    /// Prepends a key, or an index in brackets, to the path.
    pub(crate) fn at(mut self, segment: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{segment}{dot}{}", self.path);
        self
    }

    /// Takes the keys of tables off the path that are not in the file, because their entries are next to a name.
    pub(crate) fn unnested(mut self, nested: &[&str]) -> Self {
        for key in nested {
            match self.path.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')) {
                Some("type") => self.path = (*key).to_owned(),
                Some(inner) => self.path = inner.to_owned(),
                None => break,
            }
        }
        self
    }
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{MARK}{}", self.path, self.problem)
    }
}

impl std::error::Error for ReadError {}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        let path = if error.path.is_empty() { "the whole".to_owned() } else { error.path };
        Self::InvalidPolicy { path, problem: error.problem }
    }
}

impl serde::de::Error for ReadError {
    fn custom<T: Display>(message: T) -> Self {
        let text = message.to_string();
        let (path, problem) = text.split_once(MARK).unwrap_or(("", &text));
        Self::new(path, problem)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let names = [
            ("f64", "a number"),
            ("i64", "a whole number"),
            ("u64", "a whole number of 0 or more"),
            ("usize", "a whole number of 0 or more"),
            ("a boolean", "true or false"),
            ("a sequence", "a list"),
            ("a map", "a table"),
        ];
        let expected = expected.to_string();
        let name = names.iter().find(|(name, _)| *name == expected).map(|(_, name)| *name);
        let table = expected.starts_with("struct ").then_some("a table");
        let expected = name.or(table).unwrap_or(&expected);
        let found = match found {
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => number.to_string(),
            Unexpected::Str(text) => format!("'{text}'"),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        Self::new("", format!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::new("", format!("expected one of {}, found '{name}'", known.join(", ")))
    }

    fn missing_field(key: &'static str) -> Self {
        Self::missing(key)
    }

    fn duplicate_field(key: &'static str) -> Self {
        Self::new(key, "it is set twice, once by its former name; remove one")
    }
}

/// Fails at the first key of a table that is not among `known`.
pub(crate) fn check_keys(table: &Metadata, known: &[&str]) -> Result<(), ReadError> {
    let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let known: Vec<&str> =
        known.iter().copied().filter(|known| !FORMER_KEYS.contains(known)).collect();
    let advice = match similar(key, &known) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None if known.is_empty() => "remove it; there are no options here".to_owned(),
        None => format!("expected one of {}", known.join(", ")),
    };
    Err(ReadError::new(key, format!("unknown key `{key}`; {advice}")))
}

/// Returns the known key that was probably meant.
fn similar<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    // A policy lists its scorers, a composite its children.
    let twin = match key {
        "scorers" => "children",
        "children" => "scorers",
        _ => "",
    };
    let distance = |known: &&str| strsim::osa_distance(key, known);
    let is_similar =
        |known: &&str| distance(known) * 3 <= key.chars().count() || known.ends_with(key);
    let twin = known.iter().copied().find(|known| *known == twin);
    twin.or(known.iter().copied().filter(is_similar).min_by_key(distance))
}

/// Reads a value. A field of a struct that is null counts as absent.
pub(crate) fn read<T: DeserializeOwned>(value: MetadataValue) -> Result<T, ReadError> {
    T::deserialize(Tree(value))
}

/// Returns the keys of a struct, former names included.
pub(crate) fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    // No struct has an empty key, so it names its own.
    let unknown = Metadata::from([(String::new(), MetadataValue::Null)]);
    read::<T>(unknown.into()).err().map_or(&[], |error| error.keys)
}

/// Reads a list, and checks each entry.
pub(crate) fn checked<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    check: impl Fn(&T) -> Result<(), ReadError>,
) -> Result<Vec<T>, D::Error> {
    let entries = Vec::<T>::deserialize(deserializer)?;
    for (i, entry) in entries.iter().enumerate() {
        check(entry).map_err(|error| D::Error::custom(error.at(&format!("[{i}]"))))?;
    }
    Ok(entries)
}

struct Tree(MetadataValue);

impl<'de> Deserializer<'de> for Tree {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            MetadataValue::Bool(flag) => visitor.visit_bool(flag),
            MetadataValue::Integer(number) => visitor.visit_i64(number),
            MetadataValue::Unsigned(number) => visitor.visit_u64(number),
            MetadataValue::Float(number) => visitor.visit_f64(number),
            MetadataValue::String(text) => visitor.visit_string(text),
            MetadataValue::Array(values) => visitor.visit_seq(List(values.into_iter().enumerate())),
            MetadataValue::Object(mut table) => match table.remove(TOML_DATETIME) {
                Some(MetadataValue::String(time)) => visitor.visit_string(time),
                _ => visitor.visit_map(Table::new(table)),
            },
            _ => visitor.visit_unit(),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            MetadataValue::Object(mut table) => {
                check_keys(&table, keys).map_err(|error| ReadError { keys, ..error })?;
                table.retain(|_, value| *value != MetadataValue::Null);
                visitor.visit_map(Table::new(table))
            }
            // A struct could also be a list of its fields, without names.
            MetadataValue::Array(_) => Err(ReadError::invalid_type(Unexpected::Seq, &visitor)),
            other => Tree(other).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            MetadataValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            MetadataValue::Object(table) => {
                visitor.visit_enum(MapAccessDeserializer::new(Table::new(table)))
            }
            other => visitor.visit_enum(String::deserialize(Tree(other))?.into_deserializer()),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct List(Enumerate<vec::IntoIter<MetadataValue>>);

impl<'de> SeqAccess<'de> for List {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some((index, value)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Tree(value)).map(Some).map_err(|error| error.at(&format!("[{index}]")))
    }
}

/// The entries of a table, and the one whose value is read next.
struct Table(btree_map::IntoIter<String, MetadataValue>, (String, MetadataValue));

impl Table {
    fn new(table: Metadata) -> Self {
        Self(table.into_iter(), (String::new(), MetadataValue::Null))
    }
}

impl<'de> MapAccess<'de> for Table {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some(entry) = self.0.next() else { return Ok(None) };
        self.1 = entry;
        let key: StringDeserializer<ReadError> = self.1.0.clone().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let value = std::mem::replace(&mut self.1.1, MetadataValue::Null);
        seed.deserialize(Tree(value)).map_err(|error| error.at(&self.1.0))
    }
}
