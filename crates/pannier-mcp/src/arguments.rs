//! What calls bring along. Clients show the schemas and do not enforce them, so everything is checked here: an argument that
//! is not known is an error, because a typing error would silently change an answer.

use pannier_core::{Packing, Timestamp, UncountedItem};
use pannier_docs::{Mode, read_date};
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::problem::Problem;

/// Reads the arguments of a call.
pub(crate) fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, Problem> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner().to_string());
        let message = match path.as_str() {
            "." | "?" => problem,
            _ if problem.starts_with("unknown field") => problem,
            path => format!("{path}: {problem}"),
        };
        Problem::invalid(message, "see the input schema of the tool, and call again")
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

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
    pub(crate) budget: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assemble {
    pub(crate) cache: Option<String>,
    pub(crate) query: String,
    pub(crate) budget: usize,
    pub(crate) tokenizer: Option<String>,
    #[serde(default)]
    pub(crate) mode: Mode,
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    #[serde(default)]
    pub(crate) contains: Vec<String>,
    #[serde(default, deserialize_with = "date")]
    pub(crate) after: Option<Timestamp>,
    #[serde(default, deserialize_with = "date")]
    pub(crate) before: Option<Timestamp>,
    #[serde(default)]
    pub(crate) prefer_recent: bool,
    #[serde(default)]
    pub(crate) packing: Packing,
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
    pub(crate) areas: Vec<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) baseline_only: bool,
    pub(crate) query: Option<String>,
    pub(crate) limit: Option<usize>,
    pub(crate) snippet_ids: Vec<String>,
    pub(crate) budget: Option<usize>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) resend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Packet {
    pub(crate) context: Option<String>,
    pub(crate) budget: Option<usize>,
    pub(crate) query: Option<String>,
    pub(crate) files: Vec<String>,
    pub(crate) format: PacketForm,
    #[serde(deserialize_with = "date")]
    pub(crate) now: Option<Timestamp>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) max_chars: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PacketForm {
    #[default]
    Md,
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Select {
    pub(crate) items: Vec<UncountedItem>,
    pub(crate) budget: i64,
    pub(crate) target: Option<i64>,
    #[serde(default)]
    pub(crate) reserve: i64,
    pub(crate) policy: Option<Value>,
    pub(crate) query: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) now: Option<Timestamp>,
    #[serde(default)]
    pub(crate) explain: Vec<String>,
}

fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let form = "write a date, as in 2026-03-01 or 2026-03-01T12:00:00Z";
    read_date(&text).map(Some).ok_or_else(|| serde::de::Error::custom(form))
}
