//! JSON Schemas of answers, for documents such as OpenAPI.
//!
//! Types of this crate derive their schemas. The types here mirror those of the crates below, which have no feature for schemas:
//! names, types and what may be absent. `pannier-server` checks real answers against them.

#![expect(dead_code, reason = "only the schemas are used")]

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::{
    BudgetAnswer, BudgetRequest, CountAnswer, CountRequest, LossAnswer, LossRequest, PackRequest,
    PackTotals, SweepAnswer, SweepRequest,
};
#[cfg(feature = "chat")]
use super::{ChatRequest, FittedMessage};
#[cfg(feature = "docs")]
use super::{FoundDocuments, ReadRequest, SearchRequest};

/// Collects schemas of answers, which share definitions.
#[derive(Debug)]
pub struct AnswerSchemas(SchemaGenerator);

/// A request whose answers have schemas.
pub trait Described {
    /// Returns the schemas of its answers: one of them describes each answer.
    fn answers(schemas: &mut AnswerSchemas) -> Vec<Value>;
}

impl AnswerSchemas {
    /// References to definitions begin with `path`, such as `/components/schemas`.
    pub fn new(path: &str) -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = path.to_owned().into();
            settings.meta_schema = None;
        });
        Self(settings.into_generator())
    }

    fn add<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().into()
    }

    /// Returns all definitions by name.
    pub fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.0.take_definitions(true);
        definitions.values_mut().for_each(relax);
        definitions
    }
}

/// Makes values that may be null optional: most answers omit them.
fn relax(schema: &mut Value) {
    let allows_null = |property: &Value| {
        let is_null = |value: &Value| *value == "null" || value["type"] == "null";
        ["type", "anyOf"].iter().filter_map(|key| property[key].as_array()).flatten().any(is_null)
    };
    let properties = schema["properties"].clone();
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !allows_null(&properties[name.as_str().unwrap_or_default()]));
    }
}

macro_rules! described {
    ($($(#[$attribute:meta])* $request:ty => [$($answer:ty),+];)+) => {
        $($(#[$attribute])*
        impl Described for $request {
            fn answers(schemas: &mut AnswerSchemas) -> Vec<Value> {
                vec![$(schemas.add::<$answer>()),+]
            }
        })+
    };
}

described! {
    PackRequest => [PackedItems, Explanations];
    BudgetRequest => [BudgetAnswer];
    LossRequest => [LossAnswer];
    SweepRequest => [SweepAnswer];
    CountRequest => [CountAnswer];
    #[cfg(feature = "chat")]
    ChatRequest => [FittedChat, TrimmedChat, Messages, Explanations];
    #[cfg(feature = "docs")]
    SearchRequest => [FoundPassages, ExplainedPassages];
    #[cfg(feature = "docs")]
    ReadRequest => [FoundDocuments, Explanations];
    #[cfg(feature = "memory")]
    super::MemoryRequest => [Markdown, MemoryPacket, Items, Explanations];
    #[cfg(feature = "snippets")]
    super::SnippetListRequest => [SnippetList];
    #[cfg(feature = "snippets")]
    super::SnippetGetRequest => [SnippetBundle, SnippetList];
}

/// The selected items, in the order to send them.
#[derive(JsonSchema)]
struct PackedItems {
    items: Vec<Item>,
    totals: PackTotals,
}

/// Items.
#[derive(JsonSchema)]
struct Items {
    items: Vec<Item>,
}

/// An item.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct Item {
    content: String,
    tokens: i64,
    id: Option<String>,
    /// Message, Document, ToolOutput, Memory, SystemPrompt, or another one.
    kind: Option<String>,
    source: Option<String>,
    /// Higher is more important.
    priority: Option<i64>,
    tags: Option<Vec<String>>,
    metadata: Option<BTreeMap<String, Value>>,
    /// RFC 3339.
    timestamp: Option<String>,
    /// From 0 to 1.
    future_relevance_hint: Option<f64>,
    pinned: Option<bool>,
    /// The tokens of the whole item, if this is a shorter form.
    original_tokens: Option<i64>,
    /// Kept or dropped together.
    group: Option<String>,
    /// Shorter forms.
    forms: Option<Vec<BTreeMap<String, Value>>>,
    /// The only shorter form.
    short_form: Option<BTreeMap<String, Value>>,
    /// Whether some form is sent at any budget.
    keep: Option<bool>,
}

/// A budget.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct Budget {
    max_tokens: i64,
    target_tokens: i64,
    output_reserve: Option<i64>,
    reserved_slots: Option<BTreeMap<String, i64>>,
    estimation_safety_margin_percent: Option<f64>,
}

/// Where the tokens of a window go. The window is the sum of all others.
#[derive(JsonSchema)]
pub(super) struct Ledger {
    window: i64,
    output_reserve: i64,
    /// Tokens kept free by reserved slots.
    slots: Option<i64>,
    /// Tokens kept free by the safety margin.
    margin: Option<i64>,
    /// Tokens that are sent with any selection.
    fixed: i64,
    /// Tokens around and between the items.
    framing: i64,
    items: i64,
    /// Tokens of the whole beyond its parts.
    joins: i64,
    /// Tokens left over.
    slack: i64,
}

/// A remark on how items were chosen.
#[derive(JsonSchema)]
pub(super) struct Note {
    note: String,
    #[schemars(flatten)]
    details: BTreeMap<String, Value>,
}

/// Why items are in or out.
#[derive(JsonSchema)]
struct Explanations {
    explanations: Vec<Explanation>,
}

/// Why an item is in or out.
#[derive(JsonSchema)]
struct Explanation {
    index: u64,
    item: Item,
    /// The stage that decided about it.
    stage: String,
    decision: Decision,
    score: Option<ScoreExplanation>,
    rank: Option<Rank>,
    /// The score per token.
    density: Option<f64>,
    /// The items it lost to.
    lost_to: Vec<Rival>,
    smallest_budget: Option<BudgetThreshold>,
    smaller_budget: Option<BudgetThreshold>,
    /// The smallest score that selects it.
    smallest_score: Option<f64>,
    /// The largest number of tokens with which it is selected.
    max_item_tokens: Option<i64>,
    /// False if the search was stopped.
    is_complete: Option<bool>,
}

/// What was decided about an item, and why.
#[derive(JsonSchema)]
struct Decision {
    decision: DecisionName,
    reason: Reason,
    /// The place in the selection, from 0.
    position: Option<u64>,
    form: Option<BTreeMap<String, Value>>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum DecisionName {
    Included,
    Excluded,
}

/// A reason by its name, with its figures.
#[derive(JsonSchema)]
struct Reason {
    reason: String,
    #[schemars(flatten)]
    figures: BTreeMap<String, Value>,
}

/// A score, and the scores it was computed from.
#[derive(JsonSchema)]
struct ScoreExplanation {
    scorer: String,
    score: f64,
    weight: Option<f64>,
    /// The weight as a share of all weights.
    share: Option<f64>,
    children: Option<Vec<ScoreExplanation>>,
}

/// A rank among the scored items.
#[derive(JsonSchema)]
struct Rank {
    rank: u64,
    of: u64,
}

/// An item that was preferred.
#[derive(JsonSchema)]
struct Rival {
    index: u64,
    item: Item,
    score: f64,
}

/// A budget that selects an item.
#[derive(JsonSchema)]
struct BudgetThreshold {
    max_tokens: i64,
    target_tokens: i64,
    is_proven: bool,
}

/// A request of a session that fits its budget.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
struct FittedChat {
    /// The messages, or the request that contains them.
    transcript: Value,
    tokenizer: String,
    exactness: String,
    tokens: i64,
    /// Whether blocks were cut that the previous request contained.
    is_batch: bool,
    /// The last block that the previous request contained, with all before it.
    last_unchanged: Option<BlockPosition>,
    cuts: Vec<Cut>,
    repairs: Vec<Repair>,
}

/// A transcript with fewer messages.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
struct TrimmedChat {
    /// The messages, or the request that contains them.
    transcript: Value,
    tokenizer: String,
    exactness: String,
    prefix: Option<ReusedPrefix>,
    repairs: Vec<Repair>,
    totals: PackTotals,
}

/// How messages of a session are sent.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
struct Messages {
    messages: Vec<FittedMessage>,
}

/// The position of a content block in the sent request.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
struct BlockPosition {
    block: u64,
    message: u64,
}

/// A block that is sent in a shorter form.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
pub(super) struct Cut {
    /// The recall id.
    id: String,
    message: u64,
    part: u64,
    form: String,
    reason: String,
    tokens_before: i64,
    tokens_after: i64,
}

/// A change to a message that could not be sent as it was.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
struct Repair {
    message: u64,
    problem: String,
}

/// The common prefix with the previous transcript.
#[cfg(feature = "chat")]
#[derive(JsonSchema)]
struct ReusedPrefix {
    messages: u64,
    of_messages: u64,
    tokens: i64,
    of_tokens: i64,
}

/// The passages of a search.
#[cfg(feature = "docs")]
#[derive(JsonSchema)]
struct FoundPassages {
    /// In the order to send them.
    passages: Vec<FoundPassage>,
    /// Passages that are left out, best first.
    omitted: Option<Vec<OmittedPassage>>,
    /// The number of other passages that are left out.
    more: Option<u64>,
    tokens: i64,
}

/// A selected passage.
#[cfg(feature = "docs")]
#[derive(JsonSchema)]
struct FoundPassage {
    id: String,
    path: String,
    /// In bytes.
    start: u64,
    /// In bytes.
    end: u64,
    /// The first and last line of each of its parts.
    lines: Vec<Vec<u64>>,
    headings: Option<String>,
    date: Option<String>,
    /// The terms of the query in it.
    terms: Option<Vec<String>>,
    /// As a share of the best.
    score: f64,
    tokens: i64,
    /// Whether it is cut to some sentences.
    truncated: Option<bool>,
    text: Option<String>,
}

/// A passage that is left out.
#[cfg(feature = "docs")]
#[derive(JsonSchema)]
struct OmittedPassage {
    path: String,
    start: u64,
    end: u64,
    tokens: i64,
    reason: String,
}

/// Why passages are in or out, and how they were found.
#[cfg(feature = "docs")]
#[derive(JsonSchema)]
struct ExplainedPassages {
    explanations: Vec<ExplainedPassage>,
}

/// Why a passage is in or out, and how it was found.
#[cfg(feature = "docs")]
#[derive(JsonSchema)]
struct ExplainedPassage {
    #[schemars(flatten)]
    explanation: Explanation,
    lexical: Option<BTreeMap<String, Value>>,
    semantic: Option<BTreeMap<String, Value>>,
    reranker: Option<BTreeMap<String, Value>>,
}

/// A packet, or entries of a memory.
#[cfg(feature = "memory")]
#[derive(JsonSchema)]
struct Markdown {
    markdown: String,
}

/// A packet by its sections.
#[cfg(feature = "memory")]
#[derive(JsonSchema)]
struct MemoryPacket {
    budget: i64,
    tokens_used: i64,
    read_order: Vec<String>,
    constitution: Vec<String>,
    #[schemars(flatten)]
    sections: BTreeMap<String, Value>,
}

/// A list of snippets.
#[cfg(feature = "snippets")]
#[derive(JsonSchema)]
struct SnippetList {
    phase: u8,
    /// Why the list is not what was requested.
    message: Option<String>,
    tokenizer: String,
    snippets: Vec<SnippetSummary>,
    warnings: Vec<SnippetWarning>,
}

/// A problem with a part of the snippets.
#[cfg(feature = "snippets")]
#[derive(JsonSchema)]
struct SnippetWarning {
    kind: String,
    #[schemars(flatten)]
    details: BTreeMap<String, Value>,
}

/// A snippet in a list.
#[cfg(feature = "snippets")]
#[derive(JsonSchema)]
struct SnippetSummary {
    id: String,
    description: String,
    r#type: String,
    scope: String,
    tokens: Option<u64>,
    /// The relevance to the query, from 0 to 1.
    score: Option<f64>,
}

/// Snippets and what they require, in the order to read them.
#[cfg(feature = "snippets")]
#[derive(JsonSchema)]
struct SnippetBundle {
    phase: u8,
    tokenizer: String,
    text_tokens: u64,
    requested: Vec<String>,
    added: Vec<AddedSnippet>,
    /// What the session has already.
    delivered: Vec<String>,
    changed: Vec<String>,
    snippets: Vec<SentSnippet>,
    warnings: Vec<SnippetWarning>,
}

/// A snippet that a requested one requires.
#[cfg(feature = "snippets")]
#[derive(JsonSchema)]
struct AddedSnippet {
    id: String,
    /// The path from a requested snippet to it.
    chain: Vec<String>,
    chain_omitted: Option<u64>,
}

/// A snippet with its text.
#[cfg(feature = "snippets")]
#[derive(JsonSchema)]
struct SentSnippet {
    id: String,
    description: String,
    r#type: String,
    scope: String,
    path: String,
    tokens: u64,
    text: String,
}
