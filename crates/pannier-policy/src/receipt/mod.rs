//! Records of runs, which replay and compare them.
//!
//! A receipt holds the inputs that decide (policy, budget, time) in full, and the pool as hashes, so it proves a selection
//! without its texts. A replay takes the pool from its source again, and the hashes show whether it changed.
//!
//! Hashes are BLAKE3 over bytes that anybody can produce: an item as one line of JSON, the result as the text that is
//! sent, the report as one line of JSON.

mod diff;
mod digest;
mod version_1;

pub use diff::{DiffEntry, ReceiptDiff};
pub use digest::Digest;

use std::sync::Arc;

use pannier_core::item::{FormName, MetadataValue};
use pannier_core::report::SelectionReport;
use pannier_core::{
    ContextBudget, ContextItem, Error, Pipeline, Selection, Timestamp, TokenCounter,
};
use pannier_layout::{DocumentLayout, Template, TextLayout};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Policy, PolicyRegistry};

/// The source of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptSource {
    /// The kind of source: `items`, for a list of items.
    pub kind: String,
    /// The version of the source, as it names it.
    pub version: String,
    /// The query, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The options of the front end, in its own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<MetadataValue>,
}

/// The part of a prompt that the budget limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetScope {
    /// The tokens of the items.
    #[default]
    Items,
    /// The text that is sent.
    Text,
    /// The text that is sent: passages under the names of their documents, without a template.
    Documents,
    /// The text that is sent: passages under citations. A replay needs the source's renderer.
    Citations,
    /// The text that is sent, in the source's own format. A replay needs the source's renderer.
    #[serde(rename = "own")]
    CustomRenderer,
}

/// The configuration of a run, without its pool and budget.
///
/// ```
/// use pannier_policy::{BudgetScope, Policy, RunConfig, ScorerPolicy};
///
/// let mut config = RunConfig::new(Policy::new([(ScorerPolicy::Recency, 1.0)]));
/// config.tokenizer = "o200k".to_owned();
/// config.budget_scope = BudgetScope::Text;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunConfig {
    /// The policy.
    pub policy: Policy,
    /// The time of the run, for decay scorers without a reference time.
    pub reference_time: Option<Timestamp>,
    /// The name of the token counter.
    pub tokenizer: String,
    /// The template of the text.
    pub template: Template,
    /// The part of the prompt that the budget limits.
    pub budget_scope: BudgetScope,
    /// The source of the pool; default: a list of items.
    pub source: Option<ReceiptSource>,
}

impl RunConfig {
    /// A policy with the default template, and tokens that the caller counted and the budget limits.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            reference_time: None,
            tokenizer: "given".to_owned(),
            template: Template::default(),
            budget_scope: BudgetScope::default(),
            source: None,
        }
    }
}

/// A record of a run.
///
/// ```
/// use std::sync::Arc;
///
/// use pannier_core::{ContextBudget, ContextItem, TokenCounter};
/// use pannier_core::item::Exactness;
/// use pannier_policy::{Policy, PolicyRegistry, Receipt, Replay, RunConfig, ScorerPolicy};
///
/// struct Words;
/// impl TokenCounter for Words {
///     fn name(&self) -> &str {
///         "words"
///     }
///     fn count(&self, text: &str) -> usize {
///         text.split_whitespace().count()
///     }
///     fn exactness(&self) -> Exactness {
///         Exactness::Exact
///     }
/// }
///
/// let mut items = vec![ContextItem::new("one", 10)?, ContextItem::new("two", 10)?];
/// let policy = Policy::new([(ScorerPolicy::Recency, 1.0)]);
/// let selection = policy.pipeline()?.run(&items, &ContextBudget::new(10, 10)?)?;
/// let receipt = Receipt::new(&selection, RunConfig::new(policy));
///
/// let (registry, counter) = (PolicyRegistry::default(), Arc::new(Words) as Arc<dyn TokenCounter>);
/// assert_eq!(receipt.replay(&items, &registry, &counter)?, Replay::Identical);
/// items.pop();
/// let replay = receipt.replay(&items, &registry, &counter)?;
/// assert_eq!(replay, Replay::ItemCount { recorded: 2, found: 1 });
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a receipt", remote = "Self")]
#[non_exhaustive]
pub struct Receipt {
    /// The version of this format.
    #[serde(rename = "receipt", deserialize_with = "read_format")]
    pub format: u32,
    /// The version of the engine.
    pub engine: String,
    /// The source of the pool.
    pub source: ReceiptSource,
    /// The name of the token counter.
    pub tokenizer: String,
    /// The template of the text.
    pub template: Template,
    /// The part of the prompt that the budget limits.
    #[serde(rename = "bound")]
    pub budget_scope: BudgetScope,
    /// The time of the run, for decay scorers without a reference time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_time: Option<Timestamp>,
    policy: RecordedPolicy,
    /// The budget.
    pub budget: ContextBudget,
    /// The pool.
    pub items: Vec<ReceiptItem>,
    /// The indices of the selected items, in placed order.
    pub selected: Vec<usize>,
    /// The indices of items that are sent in a form, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<usize>,
    /// The level of each of them, from 1. Empty if all are 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<usize>,
    /// The hash of the text that is sent.
    pub result: Digest,
    /// The hash of the report, without events.
    pub report: Digest,
    /// The hash of everything above as one line of JSON. A receipt that was changed is not read.
    seal: Digest,
}

/// A policy, and its text as it was recorded. The seal covers the text, so former names of options stay in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "MetadataValue", try_from = "MetadataValue")]
struct RecordedPolicy {
    recorded: MetadataValue,
    policy: Policy,
}

impl From<RecordedPolicy> for MetadataValue {
    fn from(policy: RecordedPolicy) -> Self {
        policy.recorded
    }
}

impl TryFrom<MetadataValue> for RecordedPolicy {
    type Error = Error;

    fn try_from(recorded: MetadataValue) -> Result<Self, Error> {
        Ok(Self { policy: Policy::from_value(&recorded)?, recorded })
    }
}

/// An item of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptItem {
    /// The item's id, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The item's tokens.
    pub tokens: i64,
    /// The hash of the item as one line of JSON.
    pub item: Digest,
    /// The hash of its content.
    pub content: Digest,
    /// Its short form, if that is its only form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    short_form: Option<Box<ReceiptItem>>,
    /// Its forms, if it has others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forms: Vec<ReceiptItem>,
}

impl ReceiptItem {
    fn new(item: &ContextItem) -> Self {
        let mut recorded = Self {
            id: item.id().map(str::to_owned),
            tokens: item.tokens(),
            item: Digest::of_json(item),
            content: Digest::of(item.content().as_bytes()),
            short_form: None,
            forms: Vec::new(),
        };
        let mut forms = item.forms().iter().map(|form| Self::new(form.item()));
        match item.forms() {
            [only] if *only.name() == FormName::SHORT => {
                recorded.short_form = forms.next().map(Box::new);
            }
            _ => recorded.forms = forms.collect(),
        }
        recorded
    }

    /// Returns its forms below the whole, longest first.
    pub fn forms(&self) -> &[ReceiptItem] {
        self.short_form.as_deref().map_or(&self.forms, std::slice::from_ref)
    }

    /// Returns the item as it is sent at a level, if it has the level.
    fn at(&self, level: usize) -> Option<&ReceiptItem> {
        level.checked_sub(1).map_or(Some(self), |form| self.forms().get(form))
    }

    /// Returns its id, or the first 12 digits of its content's hash.
    pub fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| self.content.to_string().chars().take(12).collect())
    }
}

/// A run of a source with its own rules.
#[derive(Clone, Copy, Debug)]
pub struct SourceRun<'r, R> {
    /// The indices of the selected items, in placed order.
    pub selected: &'r [usize],
    /// The text that is sent.
    pub text: &'r str,
    /// What the source reports.
    pub report: R,
}

/// The result of a replay: identical, or the first difference; see [`Receipt`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replay {
    /// The same in every byte.
    Identical,
    /// The number of items changed.
    ItemCount {
        /// The number in the receipt.
        recorded: usize,
        /// The number now.
        found: usize,
    },
    /// An item of the pool changed or moved.
    Item {
        /// Its index.
        index: usize,
        /// Its name in the receipt.
        name: String,
    },
    /// Another item is selected at a position.
    Selection {
        /// The position, from 0.
        position: usize,
        /// The index of the item in the receipt.
        recorded: Option<usize>,
        /// The index of the item now.
        found: Option<usize>,
    },
    /// An item is sent in another form.
    Form {
        /// Its index.
        index: usize,
    },
    /// The items are the same, but their text is not.
    Result,
    /// The selection is the same, but its report is not.
    Report,
}

impl Receipt {
    /// The version of the format that Pannier writes.
    pub const FORMAT: u32 = 2;

    /// Records a selection. Of a reference, it records the id and the tokens: a replay does not see a change of its
    /// content.
    pub fn new(selection: &Selection<'_>, config: RunConfig) -> Self {
        let result = digest(config.budget_scope, &config.template, &config.policy, selection);
        Self::from_result(selection, config, result)
    }

    /// Records a selection that the source rendered as this text, in its own format.
    pub fn for_text(selection: &Selection<'_>, mut config: RunConfig, text: &str) -> Self {
        if config.budget_scope != BudgetScope::Citations {
            config.budget_scope = BudgetScope::CustomRenderer;
        }
        Self::from_result(selection, config, Digest::of(text.as_bytes()))
    }

    /// Records a run of a source that has its own rules: the selected items, the text that is sent, and a report.
    pub fn of_source(
        items: &[ContextItem],
        budget: &ContextBudget,
        config: RunConfig,
        run: &SourceRun<'_, impl Serialize>,
    ) -> Self {
        let mut receipt = Self {
            selected: run.selected.to_vec(),
            result: Digest::of(run.text.as_bytes()),
            report: Digest::of_json(&run.report),
            budget_scope: BudgetScope::CustomRenderer,
            ..Self::of_pool(items.iter(), budget, config)
        };
        receipt.seal = receipt.computed_seal();
        receipt
    }

    fn from_result(selection: &Selection<'_>, config: RunConfig, result: Digest) -> Self {
        let sent = selection.sent().filter(|sent| !sent.is_whole());
        let mut forms: Vec<(usize, usize)> =
            sent.map(|sent| (sent.index, sent.level.get())).collect();
        forms.sort_unstable();
        let (shortened, mut levels): (Vec<usize>, Vec<usize>) = forms.into_iter().unzip();
        if levels.iter().all(|level| *level == 1) {
            levels.clear();
        }
        let pool = selection.pool().iter().map(|item| &**item);
        let mut receipt = Self {
            selected: selection.indices().collect(),
            shortened,
            levels,
            result,
            report: Digest::of_json(&selection.report()),
            ..Self::of_pool(pool, selection.budget(), config)
        };
        receipt.seal = receipt.computed_seal();
        receipt
    }

    /// Records the inputs of a run, without its result.
    fn of_pool<'i>(
        items: impl Iterator<Item = &'i ContextItem>,
        budget: &ContextBudget,
        config: RunConfig,
    ) -> Self {
        let items: Vec<ReceiptItem> = items.map(ReceiptItem::new).collect();
        let source = config.source.unwrap_or_else(|| {
            let version = Digest::of_digests(items.iter().map(|item| item.item)).to_string();
            ReceiptSource { kind: "items".to_owned(), version, query: None, options: None }
        });
        Self {
            format: Self::FORMAT,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            source,
            tokenizer: config.tokenizer,
            budget_scope: config.budget_scope,
            reference_time: config.reference_time,
            policy: RecordedPolicy { recorded: config.policy.to_value(), policy: config.policy },
            budget: budget.clone(),
            items,
            selected: Vec::new(),
            shortened: Vec::new(),
            levels: Vec::new(),
            result: Digest::of(&[]),
            report: Digest::of(&[]),
            template: config.template,
            seal: Digest::of(&[]),
        }
    }

    /// Returns the hash of everything but the seal.
    fn computed_seal(&self) -> Digest {
        // The seal is the last key. Writing to memory does not fail.
        let mut json = serde_json::to_vec(self).unwrap_or_default();
        let seal = r#","seal":""}"#.len() + self.seal.to_string().len();
        json.truncate(json.len().saturating_sub(seal));
        json.push(b'}');
        Digest::of(&json)
    }

    /// Returns why a receipt that was read cannot be used.
    fn problem(&self) -> Option<String> {
        let mut seen = vec![false; self.items.len()];
        for index in &self.selected {
            match seen.get_mut(*index) {
                Some(seen @ false) => *seen = true,
                _ => {
                    return Some(format!(
                        "it selects item {index} more than once, or there is no such item; write the \
                         receipt again"
                    ));
                }
            }
        }
        let is_ascending = self.shortened.is_sorted_by(|one, two| one < two);
        let is_short = |index: &usize| {
            let level = self.level(*index);
            seen.get(*index) == Some(&true) && level > 0 && self.items[*index].at(level).is_some()
        };
        let has_levels = self.levels.is_empty() || self.levels.len() == self.shortened.len();
        if !is_ascending || !has_levels || !self.shortened.iter().all(is_short) {
            let problem = "it shortens items that it does not select, or that have no such form; \
                           write the receipt again";
            return Some(problem.to_owned());
        }
        let is_sealed = self.seal == self.computed_seal();
        (!is_sealed).then(|| "it was changed after it was written; write it again".to_owned())
    }

    /// Returns the level at which an item is sent: 0 is the whole, then its forms.
    fn level(&self, index: usize) -> usize {
        let form = self.shortened.binary_search(&index);
        form.map_or(0, |form| self.levels.get(form).copied().unwrap_or(1))
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy.policy
    }

    /// Runs the policy over a pool again, and compares. The counter must be the recorded one.
    ///
    /// # Errors
    ///
    /// Any error of the policy or the run; [`Error::InvalidReceipt`] if only the source can replay it.
    pub fn replay(
        &self,
        items: &[ContextItem],
        registry: &PolicyRegistry,
        counter: &Arc<dyn TokenCounter>,
    ) -> Result<Replay, Error> {
        let mut pipeline = registry.pipeline(self.policy(), self.reference_time)?;
        let (counter, counter_then) = (Arc::clone(counter), Arc::clone(counter));
        match self.budget_scope {
            BudgetScope::Items => {}
            BudgetScope::Text => {
                pipeline = pipeline.with_layout(TextLayout::new(self.template.clone(), counter));
            }
            BudgetScope::Documents => {
                let layout = DocumentLayout::new(counter);
                let packed = self.policy().slicer().document_layout(layout.clone());
                pipeline = pipeline.with_layout(packed.unwrap_or(layout));
            }
            BudgetScope::Citations | BudgetScope::CustomRenderer => {
                let problem = "its text has the format of its source; replay it there".to_owned();
                return Err(Error::InvalidReceipt { problem });
            }
        }
        if self.format == 1 {
            pipeline = version_1::pipeline(pipeline, self, counter_then);
        }
        self.compare(items, &pipeline, |selection| {
            digest(self.budget_scope, &self.template, self.policy(), selection)
        })
    }

    /// Replays a receipt [of a text](Self::for_text), with the source's pipeline and renderer.
    ///
    /// # Errors
    ///
    /// Any error of the run.
    pub fn replay_for_text(
        &self,
        items: &[ContextItem],
        pipeline: &Pipeline,
        write: impl FnOnce(&Selection<'_>) -> String,
    ) -> Result<Replay, Error> {
        self.compare(items, pipeline, |selection| Digest::of(write(selection).as_bytes()))
    }

    /// Compares a pool with the recorded one, and another run with the recorded run [of the source](Self::of_source).
    pub fn replay_of_source(
        &self,
        items: &[ContextItem],
        run: &SourceRun<'_, impl Serialize>,
    ) -> Replay {
        let difference = self.compare_pool(items);
        if let Some(replay) = difference.or_else(|| self.compare_selected(run.selected)) {
            return replay;
        }
        match () {
            () if self.result != Digest::of(run.text.as_bytes()) => Replay::Result,
            () if self.report != Digest::of_json(&run.report) => Replay::Report,
            () => Replay::Identical,
        }
    }

    fn compare_pool(&self, items: &[ContextItem]) -> Option<Replay> {
        let (recorded, found) = (self.items.len(), items.len());
        if recorded != found {
            return Some(Replay::ItemCount { recorded, found });
        }
        let mut pool = self.items.iter().zip(items).enumerate();
        let changed = pool.find(|(_, (recorded, found))| **recorded != ReceiptItem::new(found));
        changed.map(|(index, (recorded, _))| Replay::Item { index, name: recorded.name() })
    }

    fn compare_selected(&self, selected: &[usize]) -> Option<Replay> {
        let len = self.selected.len().max(selected.len());
        let pair = |position| (self.selected.get(position), selected.get(position));
        let position = (0..len).find(|position| pair(*position).0 != pair(*position).1)?;
        let (recorded, found) = pair(position);
        Some(Replay::Selection { position, recorded: recorded.copied(), found: found.copied() })
    }

    fn compare(
        &self,
        items: &[ContextItem],
        pipeline: &Pipeline,
        result: impl FnOnce(&Selection<'_>) -> Digest,
    ) -> Result<Replay, Error> {
        if let Some(replay) = self.compare_pool(items) {
            return Ok(replay);
        }
        let selection = pipeline.run(items, &self.budget)?;
        let selected: Vec<usize> = selection.indices().collect();
        if let Some(replay) = self.compare_selected(&selected) {
            return Ok(replay);
        }
        let mut sent = selection.sent();
        if let Some(sent) = sent.find(|sent| self.level(sent.index) != sent.level.get()) {
            return Ok(Replay::Form { index: sent.index });
        }
        if self.result != result(&selection) {
            return Ok(Replay::Result);
        }
        let report = selection.report();
        let is_same = self.report == Digest::of_json(&report)
            || self.report == Digest::of_json(&former_report(report));
        Ok(if is_same { Replay::Identical } else { Replay::Report })
    }
}

/// Returns a report as it was before ledgers had lines for slots and the margin.
fn former_report(mut report: SelectionReport<&ContextItem>) -> SelectionReport<&ContextItem> {
    if let Some(ledger) = &mut report.ledger {
        ledger.unused += std::mem::take(&mut ledger.slots) + std::mem::take(&mut ledger.margin);
    }
    report
}

/// Returns the hash of the text that is sent.
fn digest(
    scope: BudgetScope,
    template: &Template,
    policy: &Policy,
    selection: &Selection<'_>,
) -> Digest {
    match scope {
        BudgetScope::Items
        | BudgetScope::Text
        | BudgetScope::Citations
        | BudgetScope::CustomRenderer => Digest::of_text(template, selection),
        BudgetScope::Documents => {
            let layout = DocumentLayout::uncounted();
            let packed = policy.slicer().document_layout(layout.clone());
            Digest::of(packed.unwrap_or(layout).render(selection.items()).as_bytes())
        }
    }
}

/// Reads the version of the format. An unknown one fails at once, because its other keys may mean something else.
fn read_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let known = Receipt::FORMAT;
    match u32::deserialize(deserializer)? {
        format if (1..=known).contains(&format) => Ok(format),
        format => {
            let problem = format!(
                "its format is {format}, and this version of Pannier reads 1 to {known}; use the \
                 version that wrote it"
            );
            Err(D::Error::custom(Error::InvalidReceipt { problem }))
        }
    }
}

impl Serialize for Receipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Receipt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let receipt = Self::deserialize(deserializer)?;
        match receipt.problem() {
            Some(problem) => Err(D::Error::custom(Error::InvalidReceipt { problem })),
            None => Ok(receipt),
        }
    }
}
