//! The engine of the inspector page. JSON goes in, JSON comes out; `inspector/src/worker.js` is its face.
//!
//! A [`Pool`] stays in memory between questions: a slider asks many times for the same items, and reading them is most of the
//! work. Answers name items by their index, because the page has the items already.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use pannier::ops::PackTotals;
use pannier::{Audience, Failure};
use pannier_core::item::{Exactness, UncountedItem};
use pannier_core::report::{ExclusionReason, SelectionReport};
use pannier_core::whatif::{BudgetSweep, Search};
use pannier_core::{
    ContextBudget, ContextItem, Error, Explanation, Pipeline, Selection, Timestamp, TokenCounter,
};
use pannier_layout::{DocumentLayout, Template, TextLayout};
use pannier_policy::{
    BudgetScope, Policy, PolicyRegistry, Receipt, ReceiptSource, Replay, RunConfig,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;

/// The steps of a sweep, about a second.
const SWEEP_STEPS: u64 = 1 << 26;

/// Loads the vocabulary of an encoding from the bytes of its file, and returns the encoding's name.
///
/// # Errors
///
/// JSON with a code, a message and a hint.
#[wasm_bindgen(js_name = loadVocabulary)]
pub fn load_vocabulary(bytes: Vec<u8>) -> Result<String, String> {
    let name = pannier_tokens::load_vocabulary(bytes);
    name.map(str::to_owned).map_err(|error| error_json(&error.into()))
}

/// Returns the presets as JSON: pairs of a name and a policy.
#[wasm_bindgen]
pub fn presets() -> String {
    let registry = PolicyRegistry::default();
    let policies = registry.policies().filter(|(_, policy)| policy.session().is_none());
    let policies: Vec<_> = policies.map(|(name, policy)| (name, policy.to_value())).collect();
    to_json(&policies)
}

/// Returns the words of a text that match a query, as JSON: those with a term of the query.
#[wasm_bindgen(js_name = matchingWords)]
pub fn matching_words(query: &str, text: &str) -> String {
    let mut terms = BTreeSet::new();
    pannier_text::for_each_term(query, 0, |term| {
        if !pannier_text::is_stop_word(term.text) {
            terms.insert(term.text.to_owned());
        }
    });
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words: BTreeSet<&str> =
        text.split(|letter| !is_part(letter)).filter(|word| !word.is_empty()).collect();
    let matches = |word: &&str| {
        let mut is_match = false;
        pannier_text::for_each_term(word, 0, |term| is_match |= terms.contains(term.text));
        is_match
    };
    to_json(&words.into_iter().filter(matches).collect::<Vec<_>>())
}

/// Items, and how their selection is rendered and recorded.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Pool {
    items: Vec<ContextItem>,
    receipt: Option<Receipt>,
    counter: Arc<dyn TokenCounter>,
    template: Template,
    scope: BudgetScope,
    now: Option<Timestamp>,
    source: Option<ReceiptSource>,
    registry: PolicyRegistry,
}

/// A question about a pool.
#[derive(Deserialize)]
struct Question {
    policy: Policy,
    budget: ContextBudget,
    /// Items that are pinned or unpinned, other than in the pool.
    #[serde(default)]
    pins: BTreeMap<usize, bool>,
    /// The item of an explanation.
    #[serde(default)]
    index: usize,
    /// The largest budget of a sweep.
    #[serde(default)]
    max: i64,
}

/// The decision about every item.
#[derive(Serialize)]
struct Decided<'a> {
    totals: PackTotals,
    /// The indices of the selected items, in the order to send them.
    order: Vec<usize>,
    /// The reason of each of them.
    reasons: Vec<&'static str>,
    /// The index, the tokens and the name of items that are sent in a form.
    shortened: Vec<(usize, i64, String)>,
    /// The excluded items, best first.
    excluded: Vec<usize>,
    /// The reason of each of them, and its text.
    why: Vec<(&'static str, String)>,
    /// The index of an item, and of the one that it repeats.
    duplicates: Vec<(usize, usize)>,
    /// The score of each item of the pool.
    scores: Vec<f64>,
    /// The tokens of each item of the pool, which the engine may have counted.
    tokens: Vec<i64>,
    exactness: &'a str,
}

#[wasm_bindgen]
impl Pool {
    /// Reads items: lists, or objects one after the other. The receipt of their run names tokenizer, template and time;
    /// without one, `tokenizer` counts items without tokens. All are the texts of files: JavaScript would write other
    /// numbers, and a receipt hashes them.
    ///
    /// # Errors
    ///
    /// JSON with a code, a message and a hint.
    #[wasm_bindgen(constructor)]
    #[expect(clippy::needless_pass_by_value, reason = "JavaScript hands over copies")]
    pub fn new(
        texts: Vec<String>,
        receipt: Option<String>,
        tokenizer: Option<String>,
    ) -> Result<Pool, String> {
        Self::read(&texts, receipt.as_deref(), tokenizer.as_deref())
            .map_err(|failure| error_json(&failure))
    }

    /// Answers a question: `decide`, `explain`, `sweep`, `selection`, `receipt`, `text` or `verify`.
    ///
    /// # Errors
    ///
    /// As [`Pool::new`].
    pub fn ask(&self, operation: &str, question: &str) -> Result<String, String> {
        self.answer(operation, question).map_err(|failure| error_json(&failure))
    }
}

impl Pool {
    fn read(
        texts: &[String],
        receipt: Option<&str>,
        tokenizer: Option<&str>,
    ) -> Result<Self, Failure> {
        let receipt: Option<Receipt> = receipt.map(parse).transpose()?;
        let mut items = Vec::new();
        for text in texts {
            items.append(&mut read_items(text)?);
        }
        let is_counted = tokenizer.is_none() && items.iter().all(UncountedItem::is_counted);
        let name = match &receipt {
            // Only rendered text is counted.
            Some(receipt) if is_counted && receipt.budget_scope == BudgetScope::Items => "bytes/4",
            Some(receipt) => &receipt.tokenizer,
            None if is_counted => "bytes/4",
            None => tokenizer.unwrap_or("script"),
        };
        let counter: Arc<dyn TokenCounter> = Arc::from(pannier_tokens::builtin_counter(name)?);
        let items = UncountedItem::count(items, &*counter);
        let mut pool = Self {
            items,
            counter,
            template: Template::default(),
            scope: if is_counted { BudgetScope::Items } else { BudgetScope::Text },
            now: None,
            source: None,
            registry: PolicyRegistry::default(),
            receipt: None,
        };
        if let Some(receipt) = receipt {
            if matches!(receipt.budget_scope, BudgetScope::Citations | BudgetScope::CustomRenderer)
            {
                let problem =
                    "its text has the format of its source, which this page does not render";
                return Err(invalid(problem.to_owned()));
            }
            pool.template = receipt.template.clone();
            (pool.scope, pool.now) = (receipt.budget_scope, receipt.reference_time);
            pool.source = Some(receipt.source.clone());
            pool.receipt = Some(receipt);
        }
        Ok(pool)
    }

    fn answer(&self, operation: &str, question: &str) -> Result<String, Failure> {
        if operation == "verify" {
            return self.verify();
        }
        let question: Question = parse(question)?;
        let items = self.pinned(&question.pins)?;
        let items = items.as_deref().unwrap_or(&self.items);
        let pipeline = self.pipeline(&question.policy)?;
        let budget = &question.budget;
        match operation {
            "decide" => Ok(to_json(&self.decided(&pipeline.run(items, budget)?))),
            "explain" => {
                let prepared = pipeline.prepare(items)?;
                let mut search = Search::new(Explanation::<()>::STEPS >> 4);
                let explanations = prepared.explain(budget, &[question.index], &mut search)?;
                Ok(to_json(&explanations))
            }
            "sweep" => {
                let prepared = pipeline.prepare(items)?;
                let mut search = Search::new(SWEEP_STEPS);
                Ok(to_json(&swept(&prepared.sweep(budget, 0..=question.max, &mut search))))
            }
            "selection" => {
                let selection = pipeline.run(items, budget)?;
                let items: Vec<&ContextItem> = selection.items().collect();
                Ok(to_json(&Selected { items, totals: PackTotals::new(&selection) }))
            }
            "receipt" => {
                let selection = pipeline.run(items, budget)?;
                let mut config = RunConfig::new(question.policy);
                config.reference_time = self.now;
                config.tokenizer = match &self.receipt {
                    Some(receipt) => receipt.tokenizer.clone(),
                    None => self.counter.name().to_owned(),
                };
                config.template = self.template.clone();
                config.budget_scope = self.scope;
                // With other pins, it is another pool.
                config.source = self.source.clone().filter(|_| question.pins.is_empty());
                Ok(to_json(&Receipt::new(&selection, config)))
            }
            "text" => {
                let selection = pipeline.run(items, budget)?;
                Ok(to_json(&self.text(&question.policy, &selection)))
            }
            _ => Err(invalid(format!("there is no operation '{operation}'"))),
        }
    }

    /// Compares a run of the recorded policy with the receipt.
    fn verify(&self) -> Result<String, Failure> {
        let Some(receipt) = &self.receipt else { return Ok("null".to_owned()) };
        let replay = receipt.replay(&self.items, &self.registry, &self.counter)?;
        let difference = match &replay {
            Replay::Identical => None,
            Replay::ItemCount { recorded, found } => {
                Some(format!("the receipt has {recorded} items, and the file {found}"))
            }
            Replay::Item { index, name } => Some(format!("item {index} ({name}) has changed")),
            Replay::Selection { position, .. } => {
                Some(format!("another item is selected at position {position}"))
            }
            Replay::Form { index } => Some(format!("item {index} has another form")),
            Replay::Result => Some("the text differs, although the items are the same".to_owned()),
            _ => Some("a score, a reason or a count has changed".to_owned()),
        };
        Ok(to_json(&json!({ "identical": difference.is_none(), "difference": difference })))
    }

    /// Returns the items with other pins, or `None` without any.
    fn pinned(&self, pins: &BTreeMap<usize, bool>) -> Result<Option<Vec<ContextItem>>, Failure> {
        if pins.is_empty() {
            return Ok(None);
        }
        let mut items = self.items.clone();
        for (index, is_pinned) in pins {
            let item = items.get_mut(*index).ok_or(Error::NoSuchItem)?;
            // An item is immutable, and its JSON has every field.
            let mut value = serde_json::to_value(&*item).unwrap_or_default();
            value["pinned"] = Value::Bool(*is_pinned);
            *item = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        }
        Ok(Some(items))
    }

    /// Builds the pipeline of a policy, with the layout that the budget limits.
    fn pipeline(&self, policy: &Policy) -> Result<Pipeline, Failure> {
        let pipeline = self.registry.pipeline(policy, self.now)?;
        let counter = Arc::clone(&self.counter);
        Ok(match self.scope {
            BudgetScope::Text => {
                pipeline.with_layout(TextLayout::new(self.template.clone(), counter))
            }
            BudgetScope::Documents => {
                let layout = DocumentLayout::new(counter);
                let packed = policy.slicer().document_layout(layout.clone());
                pipeline.with_layout(packed.unwrap_or(layout))
            }
            _ => pipeline,
        })
    }

    fn text(&self, policy: &Policy, selection: &Selection<'_>) -> String {
        match self.scope {
            BudgetScope::Documents => {
                let layout = DocumentLayout::uncounted();
                let packed = policy.slicer().document_layout(layout.clone());
                packed.unwrap_or(layout).render(selection.items())
            }
            _ => self.template.render(selection),
        }
    }

    fn decided(&self, selection: &Selection<'_>) -> Decided<'_> {
        let report = selection.report();
        let mut scores = vec![0.0; selection.pool().len()];
        let included = report.included.iter().filter_map(|entry| Some((entry.index?, entry)));
        let mut shortened = Vec::new();
        let (mut order, mut reasons) = (Vec::new(), Vec::new());
        for (index, entry) in included {
            scores[index] = entry.score;
            order.push(index);
            reasons.push(entry.reason.name());
            if *entry.item != *selection.pool()[index] {
                let name = entry.form.as_ref().map_or("short", |name| name.as_str());
                shortened.push((index, entry.item.tokens(), name.to_owned()));
            }
        }
        let (mut excluded, mut why) = (Vec::new(), Vec::new());
        for entry in &report.excluded {
            let Some(index) = entry.index else { continue };
            scores[index] = entry.score;
            excluded.push(index);
            why.push((entry.reason.variant().name(), entry.reason.to_string()));
        }
        Decided {
            totals: PackTotals::new(selection),
            order,
            reasons,
            shortened,
            excluded,
            why,
            duplicates: duplicates(&report),
            scores,
            tokens: selection.pool().iter().map(|item| item.tokens()).collect(),
            exactness: match (self.scope, self.counter.exactness()) {
                (BudgetScope::Items, _) => "given",
                (_, Exactness::Exact) => "exact",
                (_, exactness) => exactness.name(),
            },
        }
    }
}

/// A selection as the command prints it with `--format json`.
#[derive(Serialize)]
struct Selected<'a> {
    items: Vec<&'a ContextItem>,
    totals: PackTotals,
}

/// Returns the indices of excluded duplicates and of the items that they repeat.
fn duplicates(report: &SelectionReport<&ContextItem>) -> Vec<(usize, usize)> {
    let mut repeated = Vec::new();
    for entry in &report.excluded {
        let kept = match &entry.reason {
            ExclusionReason::Deduplicated { deduplicated_against } => deduplicated_against,
            ExclusionReason::NearDuplicate { near_duplicate_of, .. } => near_duplicate_of,
            _ => continue,
        };
        repeated.extend(entry.index.map(|index| (index, &**kept)));
    }
    if repeated.is_empty() {
        return Vec::new();
    }
    // A kept item is not itself a duplicate.
    let duplicates: BTreeSet<usize> = repeated.iter().map(|(index, _)| *index).collect();
    let included = report.included.iter().map(|entry| (entry.index, entry.item));
    let excluded = report.excluded.iter().map(|entry| (entry.index, entry.item));
    let kept = included.chain(excluded).filter_map(|(index, item)| Some((index?, item.content())));
    let kept = kept.filter(|(index, _)| !duplicates.contains(index));
    let kept: BTreeMap<&str, usize> = kept.map(|(index, content)| (content, index)).collect();
    let find = |(index, content): (usize, &str)| Some((index, *kept.get(content)?));
    repeated.into_iter().filter_map(find).collect()
}

/// Returns the budgets that select each item, and the largest that was tried.
fn swept(sweep: &BudgetSweep) -> Value {
    let range = |range: &RangeInclusive<i64>| (*range.start(), *range.end());
    let ranges = |ranges: &Vec<RangeInclusive<i64>>| ranges.iter().map(range).collect::<Vec<_>>();
    let selected: Vec<_> = sweep.selected.iter().map(ranges).collect();
    json!({ "to": sweep.budgets.end(), "selected": selected })
}

fn read_items(text: &str) -> Result<Vec<UncountedItem>, Failure> {
    if text.trim_start().starts_with('[') {
        return parse(text);
    }
    let items = serde_json::Deserializer::from_str(text).into_iter();
    items.collect::<Result<_, _>>().map_err(|error| invalid(error.to_string()))
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| invalid(error.to_string()))
}

/// Writes plain data, which does not fail.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn invalid(problem: String) -> Failure {
    Failure::Request { path: String::new(), problem }
}

fn error_json(failure: &Failure) -> String {
    let audience = Audience::Binding;
    let error = json!({
        "code": failure.code(),
        "message": failure.message(audience),
        "hint": failure.advice(audience),
    });
    error.to_string()
}
