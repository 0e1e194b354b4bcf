//! Reads whole documents, within a token budget.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use pannier_core::item::Passage;
use pannier_core::{
    ContextBudget, ContextItem, ContextKind, Explanation, Pipeline, Selection, TokenCounter,
};
use pannier_docs::{Corpus, resolve_policy};
use pannier_layout::{Citations, SentItem};
use pannier_policy::{BudgetScope, PolicyRegistry, Receipt, ReceiptSource, Replay, RunConfig};
use serde::Serialize;
use serde_json::Value;

use super::records::{self, Bound, Found, is_zero, rounded};
use super::{BudgetedOptions, IndexOptions};
use crate::ops::pool::explain;
use crate::ops::values::list;
use crate::ops::{Answer, Control, Count, Group, Request};
use crate::{Failure, Shelf};

/// The budget if neither the request nor the shelf has one.
const DEFAULT_BUDGET: i64 = 4_000;

/// The number of documents that compete for the budget.
const DEFAULT_LIMIT: usize = 100;

/// The size up to which a document that exceeds the budget is counted, too.
const MAX_COUNTED_BYTES: usize = 1 << 20;

request! {
    /// Print whole documents, by keyword or path.
    pub struct ReadRequest {
        /// Question or keywords, if the paths are unknown
        #[arg(value_name = "QUERY")]
        pub query: Option<String>,

        /// Path of a document in the index; repeatable
        #[arg(long = "path", value_name = "PATH")]
        #[serde(default, alias = "path", deserialize_with = "list")]
        pub paths: Vec<String>,

        /// The index.
        #[group(flatten)]
        pub index: IndexOptions,

        /// The budget.
        #[group(flatten)]
        pub budget: BudgetedOptions,

        /// Number of matching documents that compete for the budget [default: 100]
        #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        pub limit: Option<Count>,

        /// Search the index as it is, without updating it first
        #[arg(long, help_heading = "Advanced", hide_short_help = true)]
        #[serde(default)]
        pub no_update: bool,

        /// Explain why a document is in or out; repeatable
        #[arg(long, value_name = "PATH")]
        #[serde(default, deserialize_with = "list")]
        pub explain: Vec<String>,
    }
}

/// The documents of a request, or the explanations that were asked for.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ReadAnswer {
    /// The documents.
    Documents(FoundDocuments),
    /// Why documents were selected or dropped.
    Explanations {
        /// One for each document that the request names.
        explanations: Vec<Explanation>,
    },
}

/// Whole documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FoundDocuments {
    /// The selected documents, best first.
    pub documents: Vec<FoundDocument>,
    /// Documents that are left out, best first, as far as the budget has tokens for their paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmittedDocument>,
    /// The number of other documents that are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The tokens of the selected documents.
    pub tokens: i64,
    /// The documents under citations, and the paths of some that are left out.
    #[serde(skip)]
    pub text: String,
}

/// A selected document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FoundDocument {
    /// Its path.
    pub path: String,
    /// The score of its best passage as a share of the best of all, if there is a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Its tokens.
    pub tokens: i64,
    /// Its text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub content: String,
}

/// A document that is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OmittedDocument {
    /// Its path.
    pub path: String,
    /// Its tokens.
    pub tokens: i64,
    /// The reason.
    pub reason: String,
}

impl Answer for ReadAnswer {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Documents(documents) => documents.text(),
            Self::Explanations { explanations } => {
                // Explanations always serialize.
                serde_json::to_string(explanations).unwrap_or_default().into()
            }
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Documents(documents) => documents.details(),
            Self::Explanations { .. } => Value::Null,
        }
    }
}

impl Answer for FoundDocuments {
    fn text(&self) -> Cow<'_, str> {
        self.text.as_str().into()
    }

    fn details(&self) -> Value {
        let mut places = self.clone();
        places.documents.iter_mut().for_each(|document| document.content.clear());
        serde_json::to_value(places).unwrap_or_default()
    }
}

/// The scores of all documents that compete, and the number of those that do not.
#[derive(Clone, Debug)]
struct Scores {
    scores: Arc<[Option<f64>]>,
    others: usize,
    /// The number of documents in the index.
    documents: u32,
}

impl Citations for Scores {
    fn lines(&self, (_, item): SentItem<'_>) -> Vec<[usize; 2]> {
        vec![[1, item.content().lines().count().max(1)]]
    }

    fn empty_text(&self) -> String {
        match self.scores.len() {
            0 => format!(
                "No document matches. Searched {} documents; try other words.\n",
                self.documents
            ),
            count => format!("No document fits: {count} match. Raise the budget.\n"),
        }
    }
}

impl Found for Scores {
    type Answer = FoundDocuments;
    type Record = FoundDocument;
    type Stub = OmittedDocument;

    fn record(&self, (index, item): SentItem<'_>) -> FoundDocument {
        FoundDocument {
            path: path(item),
            score: self.scores[index],
            tokens: item.tokens(),
            content: item.content().to_owned(),
        }
    }

    fn stub(&self, _: usize, item: &ContextItem, reason: &str) -> OmittedDocument {
        OmittedDocument { path: path(item), tokens: item.tokens(), reason: reason.to_owned() }
    }

    fn answer(&self, sent: &[SentItem<'_>], stubs: &[OmittedDocument]) -> FoundDocuments {
        FoundDocuments {
            documents: sent.iter().map(|sent| self.record(*sent)).collect(),
            omitted: stubs.to_vec(),
            more: self.others + self.scores.len() - sent.len() - stubs.len(),
            tokens: sent.iter().map(|(_, item)| item.tokens()).sum(),
            text: String::new(),
        }
    }

    fn text(answer: &mut FoundDocuments) -> &mut String {
        &mut answer.text
    }

    fn omitted_line(stubs: &[OmittedDocument]) -> String {
        let names = stubs.iter().map(|stub| format!("{} ({} tokens)", stub.path, stub.tokens));
        format!("Not sent: {}\n", names.collect::<Vec<_>>().join(", "))
    }
}

fn path(item: &ContextItem) -> String {
    item.id().unwrap_or_default().to_owned()
}

/// The documents that match, ready to be packed.
#[derive(Debug)]
pub struct ReadPool {
    items: Vec<ContextItem>,
    counter: Arc<dyn TokenCounter>,
    budget: ContextBudget,
    scores: Scores,
    source: ReceiptSource,
}

impl ReadRequest {
    /// Finds the documents.
    ///
    /// # Errors
    ///
    /// Any error of the index, the query, the tokenizer or the budget; [`Failure::Request`] for an unknown path.
    pub fn open(&self, shelf: &Shelf, control: &Control<'_>) -> Result<ReadPool, Failure> {
        if self.query.is_none() && self.paths.is_empty() {
            let problem = "give a query or the paths of documents".to_owned();
            return Err(Failure::Request { path: String::new(), problem });
        }
        let budget = self.budget.read(DEFAULT_BUDGET, shelf)?;
        let counter = self.budget.counter(shelf, control)?;
        let index = match self.no_update {
            true => self.index.open(shelf)?,
            false => self.index.open_updated(None, None, shelf, control)?,
        };
        self.find(&*index, counter, budget, control)
    }

    fn find(
        &self,
        index: &dyn Corpus,
        counter: Arc<dyn TokenCounter>,
        budget: ContextBudget,
        control: &Control<'_>,
    ) -> Result<ReadPool, Failure> {
        control.step("searching documents")?;
        let mut matches = self.matches(index)?;
        let Count(limit) = self.limit.unwrap_or(Count(DEFAULT_LIMIT));
        let others = matches.len().saturating_sub(limit.max(self.paths.len()));
        matches.truncate(matches.len() - others);
        control.step("counting tokens")?;
        let mut scores = Vec::with_capacity(matches.len());
        let mut items = Vec::with_capacity(matches.len());
        // Of equal scores, the first document is taken first.
        let default = if self.query.is_some() { 0.0 } else { 1.0 };
        let numbers: Vec<u32> = matches.iter().map(|(number, _)| *number).collect();
        let documents = index.read_documents(&numbers)?;
        for (document, (_, score)) in documents.into_iter().zip(&matches) {
            if document.content.is_empty() {
                control.warn(format!("{} is empty", document.path));
                continue;
            }
            let count = match document.content.len() <= MAX_COUNTED_BYTES {
                true => counter.count(&document.content),
                // Above the budget, an estimate is enough: the document is not sent.
                false => {
                    let limit = usize::try_from(budget.target_tokens()).unwrap_or_default();
                    let estimate = document.content.len().div_ceil(4);
                    let counted = counter.count_up_to(&document.content, limit);
                    counted.unwrap_or_else(|| estimate.max(limit.saturating_add(1)))
                }
            };
            let passage = Passage {
                document: &document.path,
                sequence: 0,
                range: 0..document.content.len() as u64,
            };
            let item =
                ContextItem::builder(&*document.content, i64::try_from(count).unwrap_or(i64::MAX))
                    .kind(ContextKind::DOCUMENT)
                    .id(&document.path)
                    .passage(&passage)
                    .future_relevance_hint(score.unwrap_or(default));
            items.push(item.build()?);
            scores.push(*score);
        }
        control.bound(budget.target_tokens(), &counter);
        let documents = index.manifest().documents;
        let scores = Scores { scores: scores.into(), others, documents };
        let options = serde_json::json!({ "paths": self.paths, "limit": limit });
        let source = ReceiptSource {
            kind: "reads".to_owned(),
            version: index.manifest().version.clone(),
            query: self.query.clone(),
            options: serde_json::from_value(options).ok(),
        };
        Ok(ReadPool { items, counter, budget, scores, source })
    }

    /// Returns the numbers of the documents that match, best first, with their scores.
    fn matches(&self, index: &dyn Corpus) -> Result<Vec<(u32, Option<f64>)>, Failure> {
        let ranked = match &self.query {
            Some(query) => index.rank_documents(query)?,
            None => Vec::new(),
        };
        let best = ranked.first().map_or(1.0, |(_, score)| *score);
        let share = |score: f64| Some(rounded(score / best));
        if self.paths.is_empty() {
            return Ok(ranked.into_iter().map(|(number, score)| (number, share(score))).collect());
        }
        let mut known = BTreeSet::new();
        let mut matches = Vec::new();
        for path in &self.paths {
            let Some(number) = index.find_document(path)? else {
                let shown: String = path.chars().take(80).collect();
                let problem = format!("there is no document `{shown}` in the index");
                return Err(Failure::Request { path: "paths".to_owned(), problem });
            };
            if known.insert(number) {
                let found = ranked.iter().position(|(ranked, _)| *ranked == number);
                matches.push((found, number));
            }
        }
        // Documents with a query term first, by score; then the others, as they are named.
        matches.sort_by_key(|(found, _)| found.unwrap_or(usize::MAX));
        let score = |found: Option<usize>| found.and_then(|rank| share(ranked[rank].1));
        Ok(matches.into_iter().map(|(found, number)| (number, score(found))).collect())
    }
}

impl ReadPool {
    /// Returns the documents as items, best first.
    pub fn items(&self) -> &[ContextItem] {
        &self.items
    }

    fn pipeline(&self, bound: Bound) -> Result<Pipeline, Failure> {
        let pipeline = PolicyRegistry::empty().pipeline(&resolve_policy(), None)?;
        Ok(pipeline.with_layout(records::layout(&self.scores, &self.counter, bound)))
    }

    /// Selects documents, and calls a function with the selection and its answer.
    ///
    /// # Errors
    ///
    /// An error of the engine, such as a budget below the smallest answer.
    pub fn select<T>(
        &self,
        bound: Bound,
        call: impl FnOnce(&Selection<'_>, FoundDocuments) -> T,
    ) -> Result<T, Failure> {
        let pipeline = self.pipeline(bound)?;
        let selection = pipeline.run(&self.items, &self.budget);
        let selection =
            selection.map_err(|error| records::name_smallest_budget(error.into(), &self.budget))?;
        let answer = records::answer(&self.scores, &self.counter, bound, &selection);
        Ok(call(&selection, answer))
    }

    /// Returns the record of a selection.
    pub fn receipt(&self, bound: Bound, selection: &Selection<'_>) -> Receipt {
        let mut config = RunConfig::new(resolve_policy());
        config.tokenizer = self.counter.name().to_owned();
        config.budget_scope = BudgetScope::Documents;
        config.source = Some(self.source.clone());
        records::receipt(&self.scores, &self.counter, bound, selection, config)
    }

    /// Finds the documents of a receipt again.
    ///
    /// # Errors
    ///
    /// An error of the index, or [`Failure::Request`] if the receipt is not of documents that were read.
    pub fn from_receipt(
        receipt: &Receipt,
        index: &dyn Corpus,
        counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, Failure> {
        let options = serde_json::to_value(&receipt.source.options).unwrap_or_default();
        let mut request = ReadRequest::from_value(options)?;
        request.query.clone_from(&receipt.source.query);
        request.find(index, counter, receipt.budget.clone(), &Control::default())
    }

    /// Selects as a receipt records it, and compares.
    ///
    /// # Errors
    ///
    /// An error of the engine.
    pub fn replay(&self, receipt: &Receipt) -> Result<Replay, Failure> {
        let Some(bound) = records::bound_of(receipt) else {
            return records::replay_documents(receipt, &self.counter, &self.items);
        };
        let pipeline = self.pipeline(bound)?;
        records::replay(&self.scores, &self.counter, bound, receipt, &self.items, &pipeline)
    }

    /// Explains documents by path or index.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such document, or [`Failure::TooManyExplained`].
    pub fn explain(
        &self,
        bound: Bound,
        names: &[String],
        control: &Control<'_>,
    ) -> Result<Vec<Explanation<&ContextItem>>, Failure> {
        explain(&self.pipeline(bound)?, &self.items, names, &self.budget, control)
    }
}

impl Request for ReadRequest {
    const GROUPS: &'static [Group] =
        &[Group::new::<IndexOptions>("index"), Group::new::<BudgetedOptions>("budget")];
    const ADVERTISED: &'static [&'static str] = &["paths", "query", "budget"];
    type Answer = ReadAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<ReadAnswer, Failure> {
        let pool = self.open(shelf, control)?;
        control.step("packing documents")?;
        let bound = Bound::new(control);
        if !self.explain.is_empty() {
            let explanations = pool.explain(bound, &self.explain, control)?;
            let explanations = explanations.into_iter().map(Explanation::into_owned).collect();
            return Ok(ReadAnswer::Explanations { explanations });
        }
        pool.select(bound, |_, answer| ReadAnswer::Documents(answer))
    }
}
