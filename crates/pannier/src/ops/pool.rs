//! Items, policy and budget of a run: what packing and questions about it share.

use std::str::FromStr;
use std::sync::Arc;

use pannier_core::item::{UncountedItem, find_item};
use pannier_core::{
    ContextBudget, ContextItem, Explanation, Pipeline, Selection, Timestamp, TokenCounter,
};
use pannier_layout::TextLayout;
use pannier_policy::{BudgetScope, Policy, Receipt, RunConfig};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::values::list;
use super::{Control, Date, Sends, Slot, Tokens};
use crate::{Failure, Shelf};

/// The tokenizer if neither the request nor the shelf names one.
pub(super) const DEFAULT_TOKENIZER: &str = "o200k";

/// The policy if neither the request nor the shelf names one.
pub(super) const DEFAULT_POLICY: &str = "chat";

request! {
    /// Items and how they are ranked.
    pub struct PoolOptions {
        /// Candidates
        #[arg(skip)]
        #[serde(default)]
        #[schema(with = "Vec<ItemSchema>")]
        pub items: Vec<UncountedItem>,

        /// Rank items by relevance to this text
        ///
        /// BM25 counts as much as the whole policy.
        #[arg(long, value_name = "TEXT")]
        pub query: Option<String>,

        /// Model, encoding or file:PATH [default: o200k]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,

        /// Template of the text: a .toml or .json file
        #[arg(long, value_name = "FILE", help_heading = "Advanced", hide_short_help = true)]
        pub template: Option<String>,

        /// Reference time, e.g. 2026-03-01T12:00:00Z
        #[arg(long, value_name = "TIME", help_heading = "Advanced", hide_short_help = true)]
        pub now: Option<Date>,
    }
}

request! {
    /// The policy of a run.
    pub struct PolicyOptions {
        /// Preset or policy file [default: chat]
        #[arg(long, short, value_name = "NAME|FILE")]
        #[schema(with = "Option<String>")]
        pub policy: Option<PolicyName>,
    }
}

request! {
    /// Deductions from a window.
    pub struct ReserveOptions {
        /// Tokens kept free for the model's output [default: 0]
        #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
        pub reserve: Option<Tokens>,

        /// Safety margin for estimated token counts, in percent [default: 0]
        #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, help_heading = "Advanced", hide_short_help = true)]
        pub margin: Option<f64>,

        /// Tokens kept free for items of a kind that you add, e.g. Document=500
        #[arg(long = "slot", value_name = "KIND=N", help_heading = "Advanced", hide_short_help = true)]
        #[serde(default, deserialize_with = "list")]
        pub slots: Vec<Slot>,
    }
}

request! {
    /// The budget of a run.
    pub struct BudgetOptions {
        /// Token budget, e.g. 8000 or 128k
        #[arg(long, short, alias = "max-tokens", value_name = "N", allow_negative_numbers = true)]
        pub budget: Option<Tokens>,

        /// Token count of the selection [default: budget minus reserve]
        #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Advanced", hide_short_help = true)]
        pub target: Option<Tokens>,
    }
}

/// The name of a preset or of a policy file, or in JSON a policy itself.
#[derive(Clone, Debug)]
pub enum PolicyName {
    /// A preset, or a file if the shelf reads files.
    Name(String),
    /// A policy.
    Inline(Box<Policy>),
}

impl FromStr for PolicyName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::Name(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::Name(name)),
            policy => match serde_json::from_value(policy) {
                Ok(policy) => Ok(Self::Inline(Box::new(policy))),
                Err(error) => Err(serde::de::Error::custom(error)),
            },
        }
    }
}

impl ReserveOptions {
    /// Returns the budget of a window; the default target is the window minus the reserve.
    ///
    /// # Errors
    ///
    /// An error of the engine if a number is out of range or a kind has two slots.
    pub fn budget(&self, window: i64, target: Option<Tokens>) -> Result<ContextBudget, Failure> {
        let Tokens(reserve) = self.reserve.unwrap_or_default();
        let target = target.map(|Tokens(target)| target);
        let target = target.unwrap_or_else(|| window.saturating_sub(reserve).max(0));
        let mut budget = ContextBudget::builder(window, target)
            .output_reserve(reserve)
            .estimation_safety_margin_percent(self.margin.unwrap_or_default());
        for (i, Slot { kind, tokens }) in self.slots.iter().enumerate() {
            if self.slots[..i].iter().any(|other| other.kind == *kind) {
                return Err(Failure::SlotTwice { kind: kind.to_string() });
            }
            budget = budget.reserved_slot(kind.clone(), tokens.0);
        }
        Ok(budget.build()?)
    }
}

impl BudgetOptions {
    /// Returns the budget. The window is the request's, its target, or that of the shelf.
    ///
    /// # Errors
    ///
    /// [`Failure::NoBudget`] if there is none, or an error of the engine.
    pub fn read(&self, reserves: &ReserveOptions, shelf: &Shelf) -> Result<ContextBudget, Failure> {
        let window = self.budget.or(self.target).or(shelf.defaults().budget);
        let Tokens(window) = window.ok_or(Failure::NoBudget)?;
        reserves.budget(window, self.target)
    }
}

/// Items that were counted, and how they are ranked and rendered.
#[derive(Debug)]
pub struct CountedPool {
    pub(super) items: Vec<ContextItem>,
    layout: TextLayout,
    /// Whether the budget limits the sum of the items' tokens, not the rendered text.
    is_counted: bool,
    query: Option<String>,
    now: Option<Timestamp>,
}

/// Items that were counted, and the pipeline that selects from them.
#[derive(Debug)]
pub struct PackPool {
    items: Vec<ContextItem>,
    pipeline: Pipeline,
    layout: TextLayout,
    config: RunConfig,
}

impl PoolOptions {
    /// Counts the items.
    ///
    /// If the caller counted every item, names no tokenizer and no template, and does not send a text, its counts are the
    /// cost, and the budget limits their sum. Otherwise it limits the rendered text.
    pub(super) fn count(
        self,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<CountedPool, Failure> {
        let template = self.template.as_deref().map(|name| shelf.template(name)).transpose()?;
        // What is sent as a text is bounded by its own tokens.
        let is_counted = control.sends() == Sends::Data
            && self.tokenizer.is_none()
            && template.is_none()
            && self.items.iter().all(UncountedItem::is_counted);
        let counter: Arc<dyn TokenCounter> = match is_counted {
            // Nothing is counted, so nothing needs a vocabulary.
            true => Arc::new(pannier_tokens::BytesOverFour),
            false => shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?,
        };
        control.step("counting tokens")?;
        let items = UncountedItem::count(self.items, &*counter);
        warn_about_negative_tokens(&items, control);
        let layout = TextLayout::new(template.unwrap_or_default(), counter);
        let now = self.now.map(|Date(time)| time);
        Ok(CountedPool { items, layout, is_counted, query: self.query, now })
    }

    /// Counts the items and builds the pipeline.
    ///
    /// # Errors
    ///
    /// Any error of the policy, the template or the tokenizer.
    pub fn open(
        self,
        policy: &PolicyOptions,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<PackPool, Failure> {
        let policy = shelf.policy(policy.policy.as_ref(), DEFAULT_POLICY, control)?;
        let pool = self.count(shelf, control)?;
        let (policy, pipeline) = pool.pipeline(policy, shelf)?;
        let CountedPool { items, layout, is_counted, now, .. } = pool;
        let mut config = RunConfig::new(policy);
        config.reference_time = now;
        config.tokenizer = layout.counter().name().to_owned();
        config.template = layout.template().clone();
        if !is_counted {
            config.budget_scope = BudgetScope::Text;
        }
        Ok(PackPool { items, pipeline, layout, config })
    }
}

impl CountedPool {
    /// Builds the pipeline of a policy, and returns the policy with the query in it.
    pub(super) fn pipeline(
        &self,
        policy: Policy,
        shelf: &Shelf,
    ) -> Result<(Policy, Pipeline), Failure> {
        let policy = match &self.query {
            Some(query) => policy.for_query(query),
            None => policy,
        };
        let pipeline = shelf.registry().pipeline(&policy, self.now)?;
        let pipeline = match self.is_counted {
            true => pipeline,
            false => pipeline.with_layout(self.layout.clone()),
        };
        Ok((policy, pipeline))
    }
}

impl PackPool {
    /// Returns the items.
    pub fn items(&self) -> &[ContextItem] {
        &self.items
    }

    /// Returns the counter of the text.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        self.layout.counter()
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Renders a selection.
    pub fn render(&self, selection: &Selection<'_>) -> String {
        self.layout.template().render(selection)
    }

    /// Returns the record of a selection.
    pub fn receipt(&self, selection: &Selection<'_>) -> Receipt {
        Receipt::new(selection, self.config.clone())
    }

    /// Explains items by id or index, as far as is known when the run is stopped.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such item, or [`Failure::TooManyExplained`].
    pub fn explain(
        &self,
        names: &[String],
        budget: &ContextBudget,
        control: &Control<'_>,
    ) -> Result<Vec<Explanation<&ContextItem>>, Failure> {
        explain(&self.pipeline, &self.items, names, budget, control)
    }
}

/// Explains items of a pool by id or index.
pub(super) fn explain<'p>(
    pipeline: &Pipeline,
    items: &'p [ContextItem],
    names: &[String],
    budget: &ContextBudget,
    control: &Control<'_>,
) -> Result<Vec<Explanation<&'p ContextItem>>, Failure> {
    check_explained(names)?;
    let indices = names.iter().map(|name| find_item(items, name));
    let indices: Vec<usize> = indices.collect::<Result<_, _>>()?;
    let prepared = pipeline.prepare(items)?;
    let steps = Explanation::<()>::STEPS.saturating_mul(indices.len() as u64);
    Ok(prepared.explain(budget, &indices, &mut control.search(steps))?)
}

/// Returns how a selection came about: scores, forms and reasons, without contents.
pub(super) fn selection_details(selection: &Selection<'_>) -> Value {
    let name = |index: usize, item: &ContextItem| match item.id() {
        Some(id) => Value::from(id),
        None => format!("#{index}").into(),
    };
    let report = selection.report();
    let included = report.included.iter().filter_map(|included| {
        let (index, item) = (included.index?, included.item);
        let (score, reason) = (included.score, included.reason.name());
        Some(json!({ "id": name(index, item), "tokens": item.tokens(), "score": score, "reason": reason }))
    });
    let excluded = report.excluded.iter().filter_map(|excluded| {
        let (index, item) = (excluded.index?, excluded.item);
        let (score, reason) = (excluded.score, excluded.reason.name());
        Some(json!({ "id": name(index, item), "tokens": item.tokens(), "score": score, "reason": reason }))
    });
    json!({ "included": included.collect::<Vec<_>>(), "excluded": excluded.collect::<Vec<_>>() })
}

/// The maximum number of explanations of one request: each takes many runs of the engine.
const MAX_EXPLAINED_ITEMS: usize = 50;

/// Rejects a request that explains too many items.
pub(super) fn check_explained(names: &[String]) -> Result<(), Failure> {
    match names.len() > MAX_EXPLAINED_ITEMS {
        true => Err(Failure::TooManyExplained { max: MAX_EXPLAINED_ITEMS }),
        false => Ok(()),
    }
}

/// Warns about items with negative tokens, which are excluded from every selection.
fn warn_about_negative_tokens(items: &[ContextItem], control: &Control<'_>) {
    let mut invalid = items.iter().enumerate().filter(|(_, item)| item.tokens() < 0);
    if let Some((index, item)) = invalid.next() {
        let (tokens, more) = (item.tokens(), invalid.count());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let name = item.id().map_or_else(|| format!("#{index}"), str::to_owned);
        control.warn(format!("{name} has {tokens} tokens and is excluded{more}; count them again"));
    }
}

/// The schema of an item, as far as models need it.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(inline)]
struct ItemSchema {
    content: String,
    id: Option<String>,
    /// Message, Document, ToolOutput, Memory or SystemPrompt.
    kind: Option<String>,
    /// Counted if absent.
    tokens: Option<i64>,
    /// Higher is more important.
    priority: Option<i64>,
    /// RFC 3339.
    timestamp: Option<String>,
    /// Always select.
    pinned: Option<bool>,
    /// Kept or dropped together.
    group: Option<String>,
}
