//! The format of a vector file. Unknown keys are ignored, so that newer suites still run.

use pannier_core::{ContextBudget, ContextItem, ContextKind, Error};
use serde::Deserialize;

/// A vector file.
#[derive(Deserialize)]
pub(crate) struct Vector {
    pub(crate) test: Test,
    #[serde(default)]
    pub(crate) items: Vec<Item>,
    #[serde(default)]
    pub(crate) scored_items: Vec<Item>,
    pub(crate) budget: Option<Budget>,
    #[serde(default)]
    pub(crate) config: toml::Table,
    /// A list for scoring, a table for everything else.
    pub(crate) expected: Option<toml::Value>,
    pub(crate) expected_output: Option<Vec<ExpectedOutput>>,
    pub(crate) tolerance: Option<Tolerance>,
}

#[derive(Deserialize)]
pub(crate) struct Test {
    pub(crate) stage: String,
    pub(crate) scorer: Option<String>,
    pub(crate) slicer: Option<String>,
    pub(crate) placer: Option<String>,
    #[serde(default)]
    pub(crate) expect_construction_error: bool,
}

#[derive(Deserialize)]
pub(crate) struct Item {
    /// The score, for vectors of slicers and placers.
    pub(crate) score: Option<f64>,
    #[serde(flatten)]
    fields: toml::Table,
}

/// The fields of an item that a vector may state.
const ITEM_FIELDS: [&str; 15] = [
    "content",
    "tokens",
    "kind",
    "source",
    "timestamp",
    "priority",
    "tags",
    "futureRelevanceHint",
    "pinned",
    "metadata",
    "id",
    "group",
    "shortForm",
    "forms",
    "keep",
];

impl Item {
    pub(crate) fn build(mut self) -> Result<ContextItem, toml::de::Error> {
        self.fields.retain(|key, _| ITEM_FIELDS.contains(&key));
        // A timestamp is a TOML datetime or a string.
        if let Some(timestamp) = self.fields.get_mut("timestamp")
            && let Some(datetime) = timestamp.as_datetime()
        {
            *timestamp = datetime.to_string().into();
        }
        self.fields.try_into()
    }
}

#[derive(Deserialize)]
pub(crate) struct Budget {
    pub(crate) max_tokens: Option<i64>,
    pub(crate) target_tokens: i64,
    #[serde(default)]
    pub(crate) output_reserve: i64,
    #[serde(default)]
    pub(crate) reserved_slots: std::collections::BTreeMap<String, i64>,
    #[serde(default)]
    pub(crate) estimation_safety_margin_percent: f64,
}

impl Budget {
    pub(crate) fn build(&self) -> Result<ContextBudget, Error> {
        let max_tokens = self.max_tokens.unwrap_or(self.target_tokens);
        let mut budget = ContextBudget::builder(max_tokens, self.target_tokens)
            .output_reserve(self.output_reserve)
            .estimation_safety_margin_percent(self.estimation_safety_margin_percent);
        for (kind, tokens) in &self.reserved_slots {
            budget = budget.reserved_slot(ContextKind::new(kind.as_str())?, *tokens);
        }
        budget.build()
    }
}

#[derive(Deserialize)]
pub(crate) struct Tolerance {
    pub(crate) score_epsilon: f64,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedOutput {
    pub(crate) content: String,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedScore {
    pub(crate) content: String,
    pub(crate) score_approx: f64,
}

/// The expectations of slicing, placing and pipeline vectors.
#[derive(Deserialize, Default)]
pub(crate) struct Expected {
    pub(crate) selected_contents: Option<Vec<String>>,
    /// The contents as they are sent, in whole or in a form.
    pub(crate) sent_contents: Option<Vec<String>>,
    /// The contents of items that are selected in a form.
    pub(crate) shortened_contents: Option<Vec<String>>,
    pub(crate) shortfall_count: Option<usize>,
    pub(crate) gap: Option<f64>,
    pub(crate) cap_excluded_count: Option<usize>,
    pub(crate) ordered_contents: Option<Vec<String>>,
    pub(crate) error: Option<String>,
    pub(crate) diagnostics: Option<Diagnostics>,
}

#[derive(Deserialize)]
pub(crate) struct Diagnostics {
    pub(crate) included: Option<Vec<ExpectedIncluded>>,
    pub(crate) excluded: Option<Vec<ExpectedExcluded>>,
    pub(crate) summary: Option<Summary>,
    pub(crate) shortfalls: Option<Vec<ExpectedShortfall>>,
    pub(crate) overflow: Option<ExpectedOverflow>,
    pub(crate) stages: Option<Vec<ExpectedStage>>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedIncluded {
    pub(crate) content: String,
    pub(crate) score_approx: f64,
    pub(crate) inclusion_reason: String,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedExcluded {
    pub(crate) content: String,
    pub(crate) score_approx: f64,
    pub(crate) exclusion_reason: String,
    /// The fields of the reason.
    #[serde(flatten)]
    pub(crate) fields: toml::Table,
}

#[derive(Deserialize)]
pub(crate) struct Summary {
    pub(crate) total_candidates: Option<usize>,
    pub(crate) total_tokens_considered: Option<i64>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedShortfall {
    pub(crate) kind: String,
    pub(crate) required_count: usize,
    pub(crate) satisfied_count: usize,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedOverflow {
    pub(crate) tokens_over_budget: i64,
    pub(crate) overflowing_contents: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedStage {
    pub(crate) stage: String,
    pub(crate) items_in: usize,
    pub(crate) items_out: usize,
}
