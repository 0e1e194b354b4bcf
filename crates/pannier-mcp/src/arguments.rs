//! The arguments of calls. Clients do not enforce the schemas, so every argument is checked here. An unknown argument is an
//! error, because a misspelled name would silently change the result. Unambiguous deviations are accepted: models write `"600"`
//! and `600.0` for 600, a string for a list of one, and `null` for an absent argument.

use pannier_core::Timestamp;
use pannier_docs::{SearchMode, parse_date};
use pannier_policy::Packing;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::tool_error::ToolError;

/// Parses the arguments of a call. Inside an argument, such as a policy, `null` keeps its meaning.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, ToolError> {
    let mut arguments = arguments.unwrap_or_default();
    arguments.retain(|_, value| !value.is_null());
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner().to_string());
        let message = match path.as_str() {
            "." | "?" => problem,
            // The message names the field; a path is only needed inside a list or an object.
            path if problem.starts_with("unknown field") && !path.contains(['.', '[']) => problem,
            path => format!("{path}: {problem}"),
        };
        ToolError::invalid(message, "see the input schema of the tool, then call again")
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inspect {
    pub(crate) cache: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resolve {
    pub(crate) cache: Option<String>,
    pub(crate) query: String,
    #[serde(deserialize_with = "integer")]
    pub(crate) budget: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assemble {
    pub(crate) cache: Option<String>,
    pub(crate) query: String,
    #[serde(deserialize_with = "integer")]
    pub(crate) budget: usize,
    pub(crate) tokenizer: Option<String>,
    #[serde(default)]
    pub(crate) mode: SearchMode,
    #[serde(default, deserialize_with = "string_array")]
    pub(crate) paths: Vec<String>,
    #[serde(default, deserialize_with = "string_array")]
    pub(crate) contains: Vec<String>,
    #[serde(default, deserialize_with = "optional_date")]
    pub(crate) after: Option<Timestamp>,
    #[serde(default, deserialize_with = "optional_date")]
    pub(crate) before: Option<Timestamp>,
    #[serde(default)]
    pub(crate) prefer_recent: bool,
    #[serde(default)]
    pub(crate) packing: Packing,
    #[serde(default, deserialize_with = "optional_integer")]
    pub(crate) max_chunks_per_doc: Option<usize>,
    #[serde(default)]
    pub(crate) neighbours: bool,
    #[serde(default)]
    pub(crate) metadata: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Get {
    pub(crate) docs: Option<String>,
    #[serde(deserialize_with = "string_array")]
    pub(crate) areas: Vec<String>,
    #[serde(deserialize_with = "string_array")]
    pub(crate) scopes: Vec<String>,
    pub(crate) baseline_only: bool,
    pub(crate) query: Option<String>,
    #[serde(deserialize_with = "optional_integer")]
    pub(crate) limit: Option<usize>,
    #[serde(deserialize_with = "string_array")]
    pub(crate) snippet_ids: Vec<String>,
    #[serde(deserialize_with = "optional_integer")]
    pub(crate) budget: Option<usize>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) resend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Packet {
    pub(crate) context: Option<String>,
    #[serde(deserialize_with = "optional_integer")]
    pub(crate) budget: Option<usize>,
    pub(crate) query: Option<String>,
    #[serde(deserialize_with = "string_array")]
    pub(crate) files: Vec<String>,
    pub(crate) format: PacketForm,
    #[serde(deserialize_with = "optional_date")]
    pub(crate) now: Option<Timestamp>,
    pub(crate) tokenizer: Option<String>,
    #[serde(deserialize_with = "optional_integer")]
    pub(crate) max_chars: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PacketForm {
    #[default]
    Md,
    Json,
}

fn optional_date<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let form = "write a date, as in 2026-03-01 or 2026-03-01T12:00:00Z";
    parse_date(&text).map(Some).ok_or_else(|| serde::de::Error::custom(form))
}

fn integer<'de, D: Deserializer<'de>, T: TryFrom<i128>>(deserializer: D) -> Result<T, D::Error> {
    let number = match &Value::deserialize(deserializer)? {
        Value::String(text) => text.trim().parse().ok(),
        // Above 2^53, the number may have been rounded.
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .filter(|number| number.fract() == 0.0 && number.abs() < 9e15)
            .map(|number| number as i128),
        Value::Number(number) => number.as_i128(),
        _ => None,
    };
    let number = number.filter(|number| *number >= 0).and_then(|number| T::try_from(number).ok());
    let form = "write a non-negative integer, as in 4000";
    number.ok_or_else(|| serde::de::Error::custom(form))
}

fn optional_integer<'de, D: Deserializer<'de>, T: TryFrom<i128>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    integer(deserializer).map(Some)
}

fn string_array<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(vec![text]),
        value => Vec::deserialize(value).map_err(|_| {
            serde::de::Error::custom("write a list of strings, as in [\"one\", \"other\"]")
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        parse(Some(arguments)).map_err(|error| error.message)
    }

    fn packet(arguments: Value) -> Result<Packet, String> {
        read(arguments)
    }

    #[test]
    fn unambiguous_deviations_are_accepted() {
        for budget in [json!(600), json!(600.0), json!("600"), json!(" 600 ")] {
            assert_eq!(packet(json!({ "budget": budget })).unwrap().budget, Some(600));
        }
        assert_eq!(packet(json!({ "budget": null })).unwrap().budget, None);
        for files in [json!("a.rs"), json!(["a.rs"])] {
            assert_eq!(packet(json!({ "files": files })).unwrap().files, ["a.rs"]);
        }
    }

    #[test]
    fn null_is_accepted_for_every_optional_argument() {
        fn same<T: DeserializeOwned + std::fmt::Debug>(required: Value, optional: &[&str]) {
            let mut arguments = required.clone();
            for name in optional {
                arguments[name] = Value::Null;
            }
            let expected: T = read(required).unwrap();
            assert_eq!(format!("{:?}", read::<T>(arguments).unwrap()), format!("{expected:?}"));
        }
        same::<Inspect>(json!({}), &["cache"]);
        let required = json!({ "query": "q", "budget": 9 });
        same::<Resolve>(required.clone(), &["cache"]);
        let optional = [
            "cache",
            "tokenizer",
            "mode",
            "paths",
            "contains",
            "after",
            "before",
            "prefer_recent",
            "packing",
            "max_chunks_per_doc",
            "neighbours",
            "metadata",
        ];
        same::<Assemble>(required, &optional);
        let optional = [
            "docs",
            "areas",
            "scopes",
            "baseline_only",
            "query",
            "limit",
            "snippet_ids",
            "budget",
            "tokenizer",
            "session",
            "resend",
        ];
        same::<Get>(json!({}), &optional);
        let optional =
            ["context", "budget", "query", "files", "format", "now", "tokenizer", "max_chars"];
        same::<Packet>(json!({}), &optional);
        // A required argument stays required.
        let problem = read::<Resolve>(json!({ "query": "q", "budget": null })).unwrap_err();
        assert_eq!(problem, "missing field `budget`");
    }

    #[test]
    fn invalid_values_are_rejected_with_the_expected_form() {
        for budget in [json!(-1), json!(1.5), json!("many"), json!([1]), json!(1e300), json!(true)]
        {
            let problem = packet(json!({ "budget": budget })).unwrap_err();
            assert_eq!(problem, "budget: write a non-negative integer, as in 4000");
        }
        for files in [json!(1), json!([1]), json!({})] {
            let problem = packet(json!({ "files": files })).unwrap_err();
            assert_eq!(problem, "files: write a list of strings, as in [\"one\", \"other\"]");
        }
        assert!(packet(json!({ "bugdet": 1 })).unwrap_err().starts_with("unknown field `bugdet`"));
    }
}
