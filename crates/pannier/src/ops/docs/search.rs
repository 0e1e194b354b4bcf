//! Searches passages, within a token budget.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pannier_core::item::Passage;
use pannier_core::{ContextBudget, ContextItem, Explanation, Pipeline, Selection, TokenCounter};
use pannier_docs::{
    Assembler, AssemblyConfig, Candidates, Corpus, Hit, LexicalScore, PassageSpans, QueryVector,
    RerankerScore, SearchMode, SemanticScore, TokenBudget,
};
use pannier_layout::{Citations, SentItem};
use pannier_policy::{Receipt, Replay};
use serde::Serialize;
use serde_json::Value;

use super::records::{self, Bound, Found, is_zero, rounded};
use super::{BudgetedOptions, IndexOptions, PassageOptions, QueryOptions, Retrievers};
use crate::ops::pool::explain;
use crate::ops::values::list;
use crate::ops::{Answer, Control, Count, Date, Group, Request};
use crate::{Failure, Shelf};

/// The budget if neither the request nor the shelf has one.
const DEFAULT_BUDGET: i64 = 2_000;

/// The longest description of filters.
const MAX_FILTER_CHARS: usize = 200;

request! {
    /// Print the passages that best match a query.
    pub struct SearchRequest {
        /// Question or keywords; "quoted words" match as a phrase
        #[arg(value_name = "QUERY")]
        pub query: String,

        /// The index.
        #[group(flatten)]
        pub index: IndexOptions,

        /// The budget.
        #[group(flatten)]
        pub budget: BudgetedOptions,

        /// The search.
        #[group(flatten)]
        pub search: QueryOptions,

        /// The packing.
        #[group(flatten)]
        pub packing: PassageOptions,

        /// Search the index as it is, without updating it first
        #[arg(long, help_heading = "Advanced", hide_short_help = true)]
        #[serde(default)]
        pub no_update: bool,

        /// Explain why a passage is in or out; repeatable
        #[arg(long, value_name = "ID")]
        #[serde(default, deserialize_with = "list")]
        pub explain: Vec<String>,
    }
}

/// The passages of a search, or the explanations that were asked for.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SearchAnswer {
    /// The passages.
    Passages(FoundPassages),
    /// Why passages were selected or dropped.
    Explanations {
        /// One for each passage that the request names.
        explanations: Vec<ExplainedPassage<Explanation>>,
    },
}

/// Why a passage was selected or dropped, and how it was found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ExplainedPassage<E> {
    /// The decision.
    #[serde(flatten)]
    pub explanation: E,
    /// Its rank by words, with the contribution of each term by field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexical: Option<LexicalScore>,
    /// Its rank by vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semantic: Option<SemanticScore>,
    /// Its score by the reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranker: Option<RerankerScore>,
}

/// The passages of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FoundPassages {
    /// The selected passages, in the order to send them.
    pub passages: Vec<FoundPassage>,
    /// Passages that are left out, best first, as far as the budget has tokens for their places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmittedPassage>,
    /// The number of other passages that are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The tokens of the selected passages.
    pub tokens: i64,
    /// The passages under citations of their lines. If nothing is found, a sentence says why.
    #[serde(skip)]
    pub text: String,
}

/// A selected passage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FoundPassage {
    /// The id of the chunk.
    pub id: String,
    /// The path of its document.
    pub path: String,
    /// Its start in the document, in bytes.
    pub start: usize,
    /// Its end in the document, in bytes.
    pub end: usize,
    /// The first and last line of each of its parts: one, or several if it is cut to some sentences.
    pub lines: Vec<[usize; 2]>,
    /// Its headings, from the outermost.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub headings: String,
    /// The date of its document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The terms of the query in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<String>,
    /// Its score as a share of the best; 0 for a neighbor.
    pub score: f64,
    /// Its tokens.
    pub tokens: i64,
    /// Whether it is cut, because it does not fit whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Its text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A passage that is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OmittedPassage {
    /// The path of its document.
    pub path: String,
    /// Its start in the document, in bytes.
    pub start: usize,
    /// Its end in the document, in bytes.
    pub end: usize,
    /// Its tokens.
    pub tokens: i64,
    /// The reason.
    pub reason: String,
}

impl Answer for SearchAnswer {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Passages(passages) => passages.text(),
            Self::Explanations { explanations } => {
                // Explanations always serialize.
                serde_json::to_string(explanations).unwrap_or_default().into()
            }
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Passages(passages) => passages.details(),
            Self::Explanations { .. } => Value::Null,
        }
    }
}

impl Answer for FoundPassages {
    fn text(&self) -> Cow<'_, str> {
        self.text.as_str().into()
    }

    fn details(&self) -> Value {
        let mut places = self.clone();
        places.passages.iter_mut().for_each(|passage| passage.text.clear());
        serde_json::to_value(places).unwrap_or_default()
    }
}

/// The places and scores of all hits, and how passages are sent.
#[derive(Clone, Debug)]
struct Places {
    hits: Arc<[FoundPassage]>,
    /// The first line and the text of each hit, to cite by lines.
    lines: Arc<[(usize, String)]>,
    spans: PassageSpans,
    /// What was searched, for a sentence about nothing found.
    searched: Arc<str>,
}

impl Places {
    fn new(candidates: &Candidates, searched: &str) -> Self {
        let hits = candidates.hits();
        let best = hits.iter().map(|hit| hit.score).max().unwrap_or_default().max(1) as f64;
        let place = |hit: &Hit| FoundPassage {
            id: hit.id.clone(),
            path: hit.path.clone(),
            start: hit.range.start,
            end: hit.range.end,
            lines: Vec::new(),
            headings: hit.heading_path.clone(),
            date: hit.date.map(|date| date.to_string()),
            terms: hit
                .lexical
                .iter()
                .flat_map(|lexical| &lexical.terms)
                .filter(|term| term.count > 0 || term.path > 0 || term.symbols > 0)
                .map(|term| term.term.clone())
                .collect(),
            score: rounded(hit.score as f64 / best),
            tokens: 0,
            truncated: false,
            text: String::new(),
        };
        Self {
            hits: hits.iter().map(place).collect(),
            lines: hits.iter().map(|hit| (hit.line, hit.text.clone())).collect(),
            spans: candidates.spans().clone(),
            searched: searched.into(),
        }
    }

    /// Returns the end of a passage. A truncated one ends earlier.
    fn end(&self, (index, item): SentItem<'_>) -> usize {
        let end = Passage::from_item(item).map(|passage| passage.range.end as usize);
        end.unwrap_or(self.hits[index].end)
    }

    /// Returns the first and last lines of the spans of a passage.
    fn lines_of(&self, index: usize, spans: &[Range<usize>]) -> Vec<[usize; 2]> {
        let (first, text) = &self.lines[index];
        let start = self.hits[index].start;
        let line = |position: usize| {
            let before = text.get(..position.saturating_sub(start)).unwrap_or(text);
            first + before.matches('\n').count()
        };
        // The last byte of a span may be its line break.
        spans
            .iter()
            .map(|span| [line(span.start), line(span.end.saturating_sub(1).max(span.start))])
            .collect()
    }
}

impl Citations for Places {
    fn lines(&self, (index, item): SentItem<'_>) -> Vec<[usize; 2]> {
        let mut spans = self.spans.get(index, item);
        if spans.is_empty() {
            spans.push(self.hits[index].start..self.end((index, item)));
        }
        self.lines_of(index, &spans)
    }

    fn empty_text(&self) -> String {
        match self.hits.len() {
            0 => format!("No passage matches. Searched {}.\n", self.searched),
            count => format!("No passage fits: {count} match. Raise the budget.\n"),
        }
    }
}

impl Found for Places {
    type Answer = FoundPassages;
    type Record = FoundPassage;
    type Stub = OmittedPassage;

    fn record(&self, (index, item): SentItem<'_>) -> FoundPassage {
        let place = &self.hits[index];
        FoundPassage {
            end: self.end((index, item)),
            lines: self.lines((index, item)),
            tokens: item.tokens(),
            truncated: item.original_tokens().is_some(),
            text: item.content().to_owned(),
            ..place.clone()
        }
    }

    fn stub(&self, index: usize, item: &ContextItem, reason: &str) -> OmittedPassage {
        let FoundPassage { path, start, end, .. } = self.hits[index].clone();
        OmittedPassage { path, start, end, tokens: item.tokens(), reason: reason.to_owned() }
    }

    fn answer(&self, sent: &[SentItem<'_>], stubs: &[OmittedPassage]) -> FoundPassages {
        FoundPassages {
            passages: sent.iter().map(|sent| self.record(*sent)).collect(),
            omitted: stubs.to_vec(),
            more: self.hits.len() - sent.len() - stubs.len(),
            tokens: sent.iter().map(|(_, item)| item.tokens()).sum(),
            text: String::new(),
        }
    }

    fn text(answer: &mut FoundPassages) -> &mut String {
        &mut answer.text
    }
}

/// The passages that a query finds, ready to be packed.
#[derive(Debug)]
pub struct SearchPool {
    candidates: Candidates,
    counter: Arc<dyn TokenCounter>,
    window: ContextBudget,
    budget: TokenBudget,
    places: Places,
}

impl FoundPassages {
    /// Returns its size in memory.
    pub(crate) fn memory(&self) -> usize {
        let passage = |own: &FoundPassage| {
            let texts = [&own.id, &own.path, &own.headings, &own.text].map(String::len);
            let terms = own.terms.iter().map(|term| term.len() + size_of::<String>());
            let lines = own.lines.len() * size_of::<[usize; 2]>();
            size_of::<FoundPassage>() + texts.iter().sum::<usize>() + terms.sum::<usize>() + lines
        };
        let stub =
            |own: &OmittedPassage| size_of::<OmittedPassage>() + own.path.len() + own.reason.len();
        let passages = self.passages.iter().map(passage).sum::<usize>();
        size_of::<Self>()
            + self.text.len()
            + passages
            + self.omitted.iter().map(stub).sum::<usize>()
    }
}

/// What a search needs, before it starts.
struct Prepared {
    window: ContextBudget,
    config: AssemblyConfig,
    counter: Arc<dyn TokenCounter>,
    index: Arc<dyn Corpus>,
}

impl SearchRequest {
    /// Searches the index.
    ///
    /// # Errors
    ///
    /// Any error of the index, the query, the tokenizer or the budget.
    pub fn open(&self, shelf: &Shelf, control: &Control<'_>) -> Result<SearchPool, Failure> {
        self.search(self.prepare(shelf, control)?, shelf, control)
    }

    fn prepare(&self, shelf: &Shelf, control: &Control<'_>) -> Result<Prepared, Failure> {
        let window = self.budget.read(DEFAULT_BUDGET, shelf)?;
        let mut config = self.packing.config(&self.search, shelf, control)?;
        let counter = self.budget.counter(shelf, control)?;
        let index = match self.no_update {
            true => self.index.open(shelf)?,
            false => {
                let (embedder, key_env) = (&self.search.embedder, &self.search.embedder_key_env);
                let (embedder, key_env) = (embedder.as_deref(), key_env.as_deref());
                self.index.open_updated(embedder, key_env, shelf, control)?
            }
        };
        if self.lacks_embedder(&*index, shelf) {
            config.search.mode = SearchMode::Lexical;
            control.warn(
                "searched by words only: the index has embeddings, and their model is not available",
            );
        }
        control.bound(window.target_tokens(), &counter);
        Ok(Prepared { window, config, counter, index })
    }

    fn search(
        &self,
        Prepared { window, config, counter, index }: Prepared,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<SearchPool, Failure> {
        control.step("searching passages")?;
        let reranker = self.search.open_reranker(shelf)?;
        let assembler = Assembler::new(&*index, config)
            .with_counter(Arc::clone(&counter))
            .with_reranker(reranker.as_deref());
        let candidates = self
            .search
            .with_vector(&*index, shelf, |vector| Ok(assembler.candidates(&self.query, vector)?))?;
        let tokens = usize::try_from(window.target_tokens()).unwrap_or_default();
        let mut budget = TokenBudget::available(tokens);
        budget.per_doc_overhead = self.packing.per_doc_overhead.map_or(10, |Count(count)| count);
        let places = Places::new(&candidates, &self.searched(&*index));
        Ok(SearchPool { candidates, counter, window, budget, places })
    }
}

impl SearchRequest {
    /// Returns whether the index has embeddings that a server cannot use, because it has no model for the query.
    fn lacks_embedder(&self, index: &dyn Corpus, shelf: &Shelf) -> bool {
        let QueryOptions { mode, embedder, query_embedding, .. } = &self.search;
        !shelf.is_local()
            && mode.unwrap_or_default() == Retrievers::Hybrid
            && embedder.is_none()
            && query_embedding.is_none()
            && index.manifest().model.is_some()
            && matches!(shelf.query_vector(index), QueryVector::None)
    }

    /// Describes what was searched, and what to try.
    fn searched(&self, index: &dyn Corpus) -> String {
        let QueryOptions { paths, after, before, must_contain, .. } = &self.search;
        let mut filters: Vec<String> = Vec::new();
        if !paths.is_empty() {
            filters.push(format!("in {}", paths.join(", ")));
        }
        filters.extend(after.map(|Date(time)| format!("from {time}")));
        filters.extend(before.map(|Date(time)| format!("before {time}")));
        if !must_contain.is_empty() {
            filters.push(format!("with \"{}\"", must_contain.join("\", \"")));
        }
        let documents = index.manifest().documents;
        match filters.is_empty() {
            true => format!("{documents} documents; try other words"),
            false => {
                let filters: String = filters.join(", ").chars().take(MAX_FILTER_CHARS).collect();
                format!("{documents} documents, only {filters}; try other words or fewer filters")
            }
        }
    }
}

impl SearchPool {
    /// Returns the candidates.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// Returns the budget.
    pub fn budget(&self) -> &TokenBudget {
        &self.budget
    }

    /// Calls a function with the pipeline, the items and the budget.
    fn with<T>(
        &self,
        bound: Bound,
        call: impl FnOnce(&Pipeline, &[ContextItem], &ContextBudget) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let result = self.with_pipeline(bound, call);
        result.map_err(|failure| records::name_smallest_budget(failure, &self.window))
    }

    fn with_pipeline<T>(
        &self,
        bound: Bound,
        call: impl FnOnce(&Pipeline, &[ContextItem], &ContextBudget) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let budget = self.budget.context_budget()?;
        let layout = records::layout(&self.places, &self.counter, bound);
        let pipeline = self.candidates.pipeline_with(&self.budget, layout)?;
        let pool = self.candidates.pool_for(&pipeline, &budget)?;
        call(&pipeline, &pool, &budget)
    }

    /// Selects passages, and calls a function with the selection and its answer.
    ///
    /// # Errors
    ///
    /// An error of the engine, such as a budget below the smallest answer.
    pub fn select<T>(
        &self,
        bound: Bound,
        call: impl FnOnce(&Selection<'_>, FoundPassages) -> T,
    ) -> Result<T, Failure> {
        self.with(bound, |pipeline, pool, budget| {
            let selection = pipeline.run(pool, budget)?;
            let answer = records::answer(&self.places, &self.counter, bound, &selection);
            Ok(call(&selection, answer))
        })
    }

    /// Explains passages by id or index, and calls a function with the explanations.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such passage, or [`Failure::TooManyExplained`].
    pub fn explain<T>(
        &self,
        bound: Bound,
        names: &[String],
        control: &Control<'_>,
        call: impl FnOnce(Vec<ExplainedPassage<Explanation<&ContextItem>>>) -> T,
    ) -> Result<T, Failure> {
        let hits = self.candidates.hits();
        self.with(bound, |pipeline, pool, budget| {
            let explanations = explain(pipeline, pool, names, budget, control)?.into_iter();
            let explained = explanations.map(|explanation| {
                let hit = hits.get(explanation.index);
                let lexical = hit.and_then(|hit| hit.lexical.clone());
                let semantic = hit.and_then(|hit| hit.semantic.clone());
                let reranker = hit.and_then(|hit| hit.reranker.clone());
                ExplainedPassage { explanation, lexical, semantic, reranker }
            });
            Ok(call(explained.collect()))
        })
    }

    /// Returns the record of a selection.
    pub fn receipt(&self, bound: Bound, selection: &Selection<'_>) -> Receipt {
        let config = self.candidates.run_config(&self.budget);
        records::receipt(&self.places, &self.counter, bound, selection, config)
    }

    /// Searches the passages of a receipt again.
    ///
    /// # Errors
    ///
    /// [`DocsError::Receipt`](pannier_docs::DocsError::Receipt) if it is not of a search, or an error of the search.
    pub fn from_receipt(
        receipt: &Receipt,
        index: &dyn Corpus,
        vector: QueryVector<'_>,
        counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, Failure> {
        let assembler = Assembler::new(index, Assembler::config_from_receipt(receipt)?);
        let assembler = assembler.with_counter(Arc::clone(&counter));
        let query = receipt.source.query.as_deref().unwrap_or_default();
        let candidates = assembler.candidates(query, vector)?;
        let budget = TokenBudget::from_receipt(receipt);
        let places = Places::new(&candidates, "");
        let window = receipt.budget.clone();
        Ok(Self { candidates, counter, window, budget, places })
    }

    /// Selects as a receipt records it, and compares.
    ///
    /// # Errors
    ///
    /// An error of the engine.
    pub fn replay(&self, receipt: &Receipt) -> Result<Replay, Failure> {
        let Some(bound) = records::bound_of(receipt) else {
            let pool = self.candidates.pool(&self.budget)?;
            return records::replay_documents(receipt, &self.counter, &pool);
        };
        self.with(bound, |pipeline, pool, _| {
            records::replay(&self.places, &self.counter, bound, receipt, pool, pipeline)
        })
    }
}

impl Request for SearchRequest {
    const GROUPS: &'static [Group] = &[
        Group::new::<IndexOptions>("index"),
        Group::new::<BudgetedOptions>("budget"),
        Group::new::<QueryOptions>("search"),
        Group::new::<PassageOptions>("packing"),
    ];
    const ADVERTISED: &'static [&'static str] = &["query", "budget", "paths", "after", "before"];
    const INPUTS: &'static [&'static str] = &["query_embedding"];
    type Answer = SearchAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<SearchAnswer, Failure> {
        let prepared = self.prepare(shelf, control)?;
        let bound = Bound::new(control);
        // Besides settings of the shelf, an answer depends on nothing else.
        let key = format!("{bound:?} {} {self:?}", prepared.index.manifest().version);
        let answers = shelf.answers().filter(|_| self.explain.is_empty());
        if let Some(answer) = answers.and_then(|answers| answers.get(&key)) {
            return Ok(SearchAnswer::Passages(FoundPassages::clone(&answer)));
        }
        let pool = self.search(prepared, shelf, control)?;
        control.step("packing passages")?;
        if !self.explain.is_empty() {
            let owned = |explanations: Vec<ExplainedPassage<Explanation<&ContextItem>>>| {
                let owned = explanations.into_iter().map(|explained| {
                    let ExplainedPassage { explanation, lexical, semantic, reranker } = explained;
                    let explanation = explanation.into_owned();
                    ExplainedPassage { explanation, lexical, semantic, reranker }
                });
                owned.collect()
            };
            let explanations = pool.explain(bound, &self.explain, control, owned)?;
            return Ok(SearchAnswer::Explanations { explanations });
        }
        let answer = pool.select(bound, |_, answer| answer)?;
        if let Some(answers) = answers {
            answers.insert(key, answer.clone());
        }
        Ok(SearchAnswer::Passages(answer))
    }
}
