//! Metadata: data of the caller's own that an item carries.
//!
//! The pipeline keeps it and never changes it. Values are those of JSON. Integers are kept apart from floating-point
//! numbers, so that reading and writing round nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// An item's metadata: names to values, in name order.
pub type Metadata = BTreeMap<String, MetadataValue>;

/// One value of an item's metadata: any JSON value.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
#[non_exhaustive]
pub enum MetadataValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// An integer above [`i64::MAX`].
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<MetadataValue>),
    /// An object.
    Object(Metadata),
}

impl MetadataValue {
    /// Returns the value as a number: a number, or a string that parses as one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Unsigned(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::String(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the value if it is an integer.
    pub(crate) fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Integer(value) => Some((*value).into()),
            Self::Unsigned(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// Returns the value if it is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value as a text: a string, or the shortest spelling of a number or a Boolean.
    pub(crate) fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(text) => Some(text.into()),
            Self::Bool(value) => Some(value.to_string().into()),
            Self::Integer(value) => Some(value.to_string().into()),
            Self::Unsigned(value) => Some(value.to_string().into()),
            // With a decimal point or an exponent, so that it differs from an integer.
            Self::Float(value) => Some(format!("{value:?}").into()),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$type> for MetadataValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

from! {
    bool => Bool, i32 => Integer, i64 => Integer, f64 => Float,
    &str => String, String => String, Vec<MetadataValue> => Array, Metadata => Object,
}

impl From<u64> for MetadataValue {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Unsigned(value), Self::Integer)
    }
}

#[cfg(feature = "serde")]
mod wire {
    use std::fmt;

    use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
    use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

    use super::{Metadata, MetadataValue};

    impl<'de> Deserialize<'de> for MetadataValue {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(AnyValue)
        }
    }

    struct AnyValue;

    macro_rules! visit {
        ($($visit:ident: $type:ty),+ $(,)?) => {
            $(fn $visit<E: Error>(self, value: $type) -> Result<MetadataValue, E> {
                Ok(value.into())
            })+
        };
    }

    impl<'de> Visitor<'de> for AnyValue {
        type Value = MetadataValue;

        visit! {
            visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64,
            visit_str: &str, visit_string: String,
        }

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON value")
        }

        fn visit_unit<E: Error>(self) -> Result<MetadataValue, E> {
            Ok(MetadataValue::Null)
        }

        fn visit_none<E: Error>(self) -> Result<MetadataValue, E> {
            Ok(MetadataValue::Null)
        }

        fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<MetadataValue, D::Error> {
            MetadataValue::deserialize(value)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<MetadataValue, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq)).map(MetadataValue::Array)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MetadataValue, A::Error> {
            Metadata::deserialize(MapAccessDeserializer::new(map)).map(MetadataValue::Object)
        }
    }
}
