//! The names of spans, events and attributes, with their prefix.

use std::sync::Arc;

use opentelemetry::Key;

/// The default prefix, from the specification.
pub(crate) const PREFIX: &str = "cupel";

/// Attribute keys and event names, built once. Keys are reference-counted, so cloning one copies no text.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) prefix: String,
    pub(crate) exclusion: String,
    pub(crate) item_included: String,
    pub(crate) budget_max_tokens: Key,
    pub(crate) verbosity: Key,
    pub(crate) stage_name: Key,
    pub(crate) stage_item_count_in: Key,
    pub(crate) stage_item_count_out: Key,
    pub(crate) exclusion_count: Key,
    pub(crate) exclusion_reason: Key,
    pub(crate) exclusion_item_kind: Key,
    pub(crate) exclusion_item_tokens: Key,
    pub(crate) item_kind: Key,
    pub(crate) item_tokens: Key,
    pub(crate) item_score: Key,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        let key = |name: &str| -> Key { Arc::<str>::from(format!("{prefix}.{name}")).into() };
        Self {
            prefix: prefix.to_owned(),
            exclusion: format!("{prefix}.exclusion"),
            item_included: format!("{prefix}.item.included"),
            budget_max_tokens: key("budget.max_tokens"),
            verbosity: key("verbosity"),
            stage_name: key("stage.name"),
            stage_item_count_in: key("stage.item_count_in"),
            stage_item_count_out: key("stage.item_count_out"),
            exclusion_count: key("exclusion.count"),
            exclusion_reason: key("exclusion.reason"),
            exclusion_item_kind: key("exclusion.item_kind"),
            exclusion_item_tokens: key("exclusion.item_tokens"),
            item_kind: key("item.kind"),
            item_tokens: key("item.tokens"),
            item_score: key("item.score"),
        }
    }
}
