//! Caller-owned data that rides along with an item.
//!
//! The pipeline keeps it and never changes it. Values are those of JSON, with integers kept apart
//! from floating-point numbers so that nothing is rounded on the way through.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// An item's metadata: names to values, in name order.
pub type Metadata = BTreeMap<String, MetadataValue>;

/// One value of an item's metadata: anything that JSON can say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetadataValue {
    /// JSON's `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A whole number above [`i64::MAX`].
    Unsigned(u64),
    /// Any other number.
    Float(f64),
    /// A text.
    String(String),
    /// A list of values.
    Array(Vec<MetadataValue>),
    /// Named values.
    Object(Metadata),
}

impl MetadataValue {
    /// The value as a number: a number itself, or a text that reads as one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Unsigned(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::String(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The value as a text: a text itself, or the shortest spelling of a number or truth value.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(text) => Some(Cow::Borrowed(text)),
            Self::Bool(value) => Some(Cow::Borrowed(if *value { "true" } else { "false" })),
            Self::Integer(value) => Some(Cow::Owned(value.to_string())),
            Self::Unsigned(value) => Some(Cow::Owned(value.to_string())),
            // With a decimal point or an exponent, as JSON tells it from a whole number.
            Self::Float(value) => Some(Cow::Owned(format!("{value:?}"))),
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

    use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::{Metadata, MetadataValue};

    impl Serialize for MetadataValue {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self {
                Self::Null => serializer.serialize_unit(),
                Self::Bool(value) => serializer.serialize_bool(*value),
                Self::Integer(value) => serializer.serialize_i64(*value),
                Self::Unsigned(value) => serializer.serialize_u64(*value),
                Self::Float(value) => serializer.serialize_f64(*value),
                Self::String(value) => serializer.serialize_str(value),
                Self::Array(values) => values.serialize(serializer),
                Self::Object(values) => values.serialize(serializer),
            }
        }
    }

    impl<'de> Deserialize<'de> for MetadataValue {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(AnyValue)
        }
    }

    struct AnyValue;

    impl<'de> Visitor<'de> for AnyValue {
        type Value = MetadataValue;

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

        fn visit_bool<E: Error>(self, value: bool) -> Result<MetadataValue, E> {
            Ok(value.into())
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<MetadataValue, E> {
            Ok(value.into())
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<MetadataValue, E> {
            Ok(value.into())
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<MetadataValue, E> {
            Ok(value.into())
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<MetadataValue, E> {
            Ok(value.into())
        }

        fn visit_string<E: Error>(self, value: String) -> Result<MetadataValue, E> {
            Ok(value.into())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<MetadataValue, A::Error> {
            let mut values = Vec::new();
            while let Some(value) = seq.next_element()? {
                values.push(value);
            }
            Ok(MetadataValue::Array(values))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MetadataValue, A::Error> {
            let mut values = Metadata::new();
            while let Some((name, value)) = map.next_entry()? {
                values.insert(name, value);
            }
            Ok(MetadataValue::Object(values))
        }
    }
}
