//! Declares each component once.
//!
//! A component is an entry of a list: its name, its options and how it is built. [`components!`] makes the rest from the
//! list: an enum, structs for the options, reading, writing, the names and the JSON Schema.
//!
//! An internally tagged enum of serde would be shorter, but it buffers its content and loses the path to a mistake.

use pannier_core::item::{Metadata, MetadataValue, PreviousPrompt};
use pannier_core::{Error, Timestamp};
use serde::{Deserialize, Serialize};

use crate::PolicyRegistry;
use crate::tree::{self, ReadError, check_keys};

/// Values that a policy leaves to the caller.
pub(crate) struct BuildContext<'c> {
    /// The current time, for decay scorers without a reference time.
    pub(crate) now: Option<Timestamp>,
    /// The prompt that was sent before.
    pub(crate) previous: Option<&'c PreviousPrompt>,
    /// Finds custom components. Without it, built-in ones stand in for them.
    pub(crate) registry: Option<&'c PolicyRegistry>,
}

/// Replaces the caller's values where a component is built only to check its options.
pub(crate) const VALIDATION_CONTEXT: BuildContext<'_> =
    BuildContext { now: Some(Timestamp::UNIX_EPOCH), previous: None, registry: None };

impl BuildContext<'_> {
    pub(crate) fn previous(&self) -> PreviousPrompt {
        self.previous.cloned().unwrap_or_default()
    }
}

/// A component as it is looked up by name: the keys of its options, and how they are read.
pub(crate) struct Entry<C> {
    pub(crate) keys: &'static [&'static str],
    pub(crate) read: fn(MetadataValue) -> Result<C, ReadError>,
}

/// One of several components, distinguished by name.
pub(crate) trait Component: Sized {
    /// The object that is built.
    type Built;
    /// The noun for these components in messages.
    const NOUN: &'static str;
    /// The names that are written.
    const NAMES: &'static [&'static str];
    /// The key under which a component contains another one of its kind, or "".
    const INNER: &'static str;

    /// Finds a component by its name or a former one.
    fn entry(name: &str) -> Option<Entry<Self>>;

    /// Returns the options, and the name under `type`.
    fn to_table(&self) -> Metadata;

    fn build(&self, context: &BuildContext<'_>) -> Result<Self::Built, Error>;
}

/// Reads a component from its name, or from a table with its name under `type`. Other keys that are given belong to the same
/// table, and have been removed from it.
pub(crate) fn read<C: Component>(
    value: MetadataValue,
    beside: &[&'static str],
) -> Result<C, ReadError> {
    let (path, name, mut options) = match value {
        MetadataValue::String(name) => ("", name, Metadata::new()),
        MetadataValue::Object(mut options) => {
            let name = options.remove("type").ok_or_else(|| ReadError::missing("type"))?;
            ("type", tree::read(name).map_err(|error| error.at("type"))?, options)
        }
        other => ("", tree::read(other)?, Metadata::new()),
    };
    let entry = C::entry(&name).ok_or_else(|| {
        let (noun, names) = (C::NOUN, C::NAMES.join(", "));
        ReadError::new(path, format!("there is no {noun} '{name}'; expected one of {names}"))
    })?;
    let nested = nest::<C>(&mut options, C::INNER, &[entry.keys, beside].concat())?;
    let component = (entry.read)(options.into()).map_err(|error| error.unnested(&nested))?;
    component.build(&VALIDATION_CONTEXT).map_err(|error| ReadError::new("", error))?;
    Ok(component)
}

/// Moves the options next to the name of a component into a table of its own, and checks all keys against these options and
/// the table's `own` keys. Returns the keys of the tables that it made, the outer one first.
///
/// `slicer = "quota"`, `inner_slicer = "knapsack"` and `bucket_size = 1` become
/// `slicer = { type = "quota", inner_slicer = { type = "knapsack", bucket_size = 1 } }`.
pub(crate) fn nest<C: Component>(
    table: &mut Metadata,
    key: &'static str,
    own: &[&'static str],
) -> Result<Vec<&'static str>, ReadError> {
    let (mut known, mut nested) = (own.to_vec(), Vec::new());
    nest_known::<C>(table, key, &mut known, &mut nested)?;
    check_keys(table, &known)?;
    Ok(nested)
}

fn nest_known<C: Component>(
    table: &mut Metadata,
    key: &'static str,
    known: &mut Vec<&'static str>,
    nested: &mut Vec<&'static str>,
) -> Result<(), ReadError> {
    let name = match table.get(key) {
        None | Some(MetadataValue::Null | MetadataValue::Object(_)) => return Ok(()),
        Some(MetadataValue::String(name)) if C::entry(name).is_some() => name,
        // Without a component, the options beside it would seem to be the mistake.
        Some(other) => {
            return read::<C>(other.clone(), &[]).map(drop).map_err(|error| error.at(key));
        }
    };
    let options = C::entry(name).map_or(&[][..], |entry| entry.keys);
    // Two components with the same option share it, but a name is not shared, nor a component inside both.
    let is_ambiguous =
        |option: &&&str| [C::INNER, "name"].contains(*option) && known.contains(*option);
    if let Some(option) = options.iter().find(is_ambiguous) {
        let problem = format!(
            "`{option}` could belong to '{name}' or to the table around it; write {key} as a table with a type"
        );
        return Err(ReadError::new(key, problem));
    }
    let mut inner = Metadata::from([("type".to_owned(), name.as_str().into())]);
    let shared: Vec<&str> =
        options.iter().copied().filter(|option| known.contains(option)).collect();
    known.extend(options);
    nested.push(key);
    if options.contains(&C::INNER) {
        nest_known::<C>(table, C::INNER, known, nested)?;
    }
    for option in options {
        let value = if shared.contains(option) {
            table.get(*option).cloned()
        } else {
            table.remove(*option)
        };
        inner.extend(value.map(|value| ((*option).to_owned(), value)));
    }
    table.insert(key.to_owned(), inner.into());
    Ok(())
}

/// Writes a struct of options.
pub(crate) fn to_metadata<T: Serialize>(options: &T) -> Metadata {
    // Its keys are names and its numbers are finite, so it always becomes a table.
    serde_json::to_value(options).and_then(Metadata::deserialize).unwrap_or_default()
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares structs of options, with all that is derived for them.
macro_rules! records {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:tt)* })*) => {
        $(
            #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
            #[serde(deny_unknown_fields)]
            $(#[$meta])*
            $vis struct $name { $($field)* }
        )*
    };
}
pub(crate) use records;

/// Declares components of one kind: those without options under `plain`, the others with a struct of their options. A name
/// may be followed by its former ones.
macro_rules! components {
    (
        $(#[$enum_doc:meta])*
        pub enum $enum:ident($noun:literal, $inner:literal) -> $built:ty, |$context:ident, $bound:ident| {
            plain { $(
                #[doc = $plain_doc:literal] $(#[$attribute:meta])?
                $plain:literal $(| $plain_former:literal)* => $unit:ident = $plain_build:expr;
            )* }
            options { $(
                #[doc = $doc:literal]
                $name:literal $(| $former:literal)* => $variant:ident($options:ident $({ $($field:tt)* })?) = $build:expr;
            )* }
        }
    ) => {
        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $enum {
            $(#[doc = $plain_doc] $(#[$attribute])? $unit,)*
            $(#[doc = $doc] $variant($options),)*
        }

        $($($crate::component::records! {
            #[doc = concat!("Options of the ", $noun, " `", $name, "`.")]
            pub struct $options { $($field)* }
        })?)*

        impl $enum {
            #[doc = concat!("Reads a ", $noun, " from its name, or from a table with its name under `type`.")]
            ///
            /// # Errors
            ///
            /// [`Error::InvalidPolicy`](pannier_core::Error::InvalidPolicy) with the path to a mistake and what is
            /// expected there.
            pub fn from_value(value: pannier_core::item::MetadataValue) -> Result<Self, pannier_core::Error> {
                Ok($crate::component::read(value, &[])?)
            }

            #[doc = concat!("Returns the keys of the options of the ", $noun, " with this name, if there is one.")]
            pub fn option_names(name: &str) -> Option<&'static [&'static str]> {
                Some(<Self as $crate::component::Component>::entry(name)?.keys)
            }
        }

        impl $crate::component::Component for $enum {
            type Built = $built;
            const NOUN: &'static str = $noun;
            const NAMES: &'static [&'static str] = &[$($plain,)* $($name),*];
            const INNER: &'static str = $inner;

            fn entry(name: &str) -> Option<$crate::component::Entry<Self>> {
                use $crate::component::Entry;
                use $crate::tree::{keys, read};
                Some(match name {
                    $($plain $(| $plain_former)* => Entry { keys: &[], read: |_| Ok(Self::$unit) },)*
                    $($name $(| $former)* => Entry {
                        keys: keys::<$options>(),
                        read: |options| read(options).map(Self::$variant),
                    },)*
                    _ => return None,
                })
            }

            fn to_table(&self) -> pannier_core::item::Metadata {
                let (name, mut table) = match self {
                    $(Self::$unit => ($plain, pannier_core::item::Metadata::new()),)*
                    $(Self::$variant(options) => ($name, $crate::component::to_metadata(options)),)*
                };
                table.insert("type".to_owned(), name.into());
                table
            }

            fn build(
                &self,
                $context: &$crate::component::BuildContext<'_>,
            ) -> Result<$built, pannier_core::Error> {
                Ok(match self {
                    $(Self::$unit => $plain_build,)*
                    $(Self::$variant($bound) => $build,)*
                })
            }
        }

        $(impl From<$options> for $enum {
            fn from(options: $options) -> Self {
                Self::$variant(options)
            }
        })*

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::component::Component::to_table(self).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = pannier_core::item::MetadataValue::deserialize(deserializer)?;
                $crate::component::read(value, &[]).map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $enum {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $noun.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let components = [
                    $(($plain, $plain_doc, schemars::json_schema!({ "type": "object" })),)*
                    $(($name, $doc, <$options as schemars::JsonSchema>::json_schema(generator)),)*
                ];
                $crate::schema::one_of(&components, $inner)
            }
        }
    };
}
pub(crate) use components;
