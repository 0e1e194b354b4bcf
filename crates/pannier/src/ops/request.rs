//! Requests, declared once.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Control, read};
use crate::{Failure, Shelf};

/// Declares a request or a group of options: a struct whose fields are flags (clap), JSON (serde) and a schema (schemars).
///
/// The doc comment of a field is its help and its description. `arg` and `command` are attributes of clap, `schema` of
/// schemars. A field with `group` holds options that are written next to the others.
macro_rules! request {
    (
        $(#[doc = $about:expr])*
        $(#[command($($command:tt)*)])?
        pub struct $name:ident {
            $(
                $(#[doc = $doc:expr])*
                $(#[arg($($arg:tt)*)])?
                $(#[serde($($serde:tt)*)])?
                $(#[schema($($schema:tt)*)])?
                $(#[group($group:ident)])?
                pub $field:ident: $type:ty,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $(#[cfg_attr(feature = "clap", command($($command)*))])?
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[cfg_attr(feature = "clap", arg($($arg)*))])?
                $(#[serde($($serde)*)])?
                $(#[cfg_attr(feature = "schema", schemars($($schema)*))])?
                $(
                    #[cfg_attr(feature = "clap", command($group))]
                    #[cfg_attr(feature = "schema", schemars($group))]
                    #[serde(default)]
                )?
                pub $field: $type,
            )*
        }
    };
}

/// Options of a request that are a struct of their own. Flags and JSON have its fields next to the others.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub(super) name: &'static str,
    pub(super) keys: fn() -> &'static [&'static str],
}

impl Group {
    /// The field `name` of a request, which holds a `T`.
    pub const fn new<T: DeserializeOwned>(name: &'static str) -> Self {
        Self { name, keys: read::keys::<T> }
    }
}

/// What to do, with all options.
pub trait Request: DeserializeOwned {
    /// The fields that hold groups of options.
    const GROUPS: &'static [Group] = &[];

    /// The fields that a command reads from files or from standard input. All others are flags or arguments.
    const INPUTS: &'static [&'static str] = &[];

    /// The options that a tool shows to a model. It accepts the others, too.
    const ADVERTISED: &'static [&'static str] = &[];

    /// What comes of it.
    type Answer: Answer;

    /// Runs the request on the folders and settings of a shelf.
    ///
    /// # Errors
    ///
    /// Any failure of the libraries below.
    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<Self::Answer, Failure>;

    /// Reads a request from JSON. Unknown options are refused. Numbers may be written as strings, lists of one as their
    /// element, absent options as `null`.
    ///
    /// # Errors
    ///
    /// [`Failure::Request`] with the path to a mistake.
    fn from_value(value: Value) -> Result<Self, Failure> {
        read::request(value)
    }

    /// Returns the JSON Schema of all options.
    #[cfg(feature = "schema")]
    fn schema() -> Value
    where
        Self: schemars::JsonSchema,
    {
        super::schema::of::<Self>()
    }

    /// Returns the JSON Schema of the options that a tool shows to a model.
    #[cfg(feature = "schema")]
    fn advertised_schema() -> Value
    where
        Self: schemars::JsonSchema,
    {
        let mut schema = Self::schema();
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.retain(|name, _| Self::ADVERTISED.contains(&name.as_str()));
        }
        schema
    }
}

/// The result of a request.
pub trait Answer: Serialize {
    /// Returns the text for people and models.
    fn text(&self) -> Cow<'_, str>;

    /// Returns how the answer came about, without what `text` has already, for callers that get both. `Null` if the text
    /// says everything.
    fn details(&self) -> Value {
        Value::Null
    }
}
