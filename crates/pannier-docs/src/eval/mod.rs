//! Retrieval quality, measured on questions whose answers are known.
//!
//! A data set is a folder with documents, `queries.jsonl` (`id`, `text`) and `qrels.tsv` (query, document, grade). The documents
//! are in `docs.jsonl` (`id`, `title`, `text`), or are the files below `tree/`, whose ids are their paths. Spans that answer a
//! query are in `answers.jsonl` (`id`, `answer`, `start` in characters), `evidence.jsonl` (`id`, `evidence` of `doc` and
//! `sentence`) or `gold.jsonl` (`id`, `items` of path, first byte, end and name).
//!
//! Rankings are measured by nDCG@10 and recall@100, contexts by the shares that hold a span or a passage of a relevant document
//! at several budgets, and by how they use their budget. Two runs are compared query by query.

mod compare;
mod gold;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pannier_core::TokenCounter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use compare::Difference;

use crate::chunk::{is_markdown, open_fence};
use crate::{
    AssembledContext, Assembler, AssemblyConfig, BuildOptions, Candidates, ContextChunk, Corpus,
    DocsError, DocumentIndex, DocumentMetadata, DocumentSource, Embedder, FileRules, QueryVector,
    Reranker, Reranking, TokenBudget, VectorSource, build,
};
use gold::{Coverage, GoldSpans, read_spans};

/// The budgets at which contexts of short documents, and of source trees, are scored.
const TEXT_BUDGETS_TOKENS: [usize; 4] = [200, 400, 800, 1_200];
const TREE_BUDGETS_TOKENS: [usize; 3] = [1_000, 2_000, 4_000];

/// The budgets at which only the length of contexts is checked: from 0 to the maximum in steps.
const MAX_CHECKED_BUDGET_TOKENS: usize = 4_000;
const CHECKED_BUDGET_STEP_TOKENS: usize = 7;

/// Without [`EvalOptions::every_budget`], a query is checked at each 97th budget, starting with another one each.
const BUDGET_STRIDE: usize = 97;

/// The number of passages that each retriever finds for the ranking of documents.
const RANKING_DEPTH: usize = 300;

const MAX_DATA_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct DataDocument {
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Query {
    id: String,
    text: String,
}

/// A line of a file with contexts of another program.
#[derive(Deserialize)]
struct OtherContext {
    query: String,
    budget: usize,
    /// The tokens of the whole context.
    tokens: usize,
    /// The id of a document, the first byte of a passage of it, and its end.
    passages: Vec<(String, usize, usize)>,
}

/// Grades of documents, by query.
type Grades = BTreeMap<String, BTreeMap<String, f64>>;

/// How a data set is searched and its contexts are counted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EvalOptions<'e> {
    /// The search and the packing of contexts. The ranking of documents uses the search with more hits.
    pub config: AssemblyConfig,
    /// The options of the index.
    pub build: BuildOptions<'e>,
    /// The embedder of queries, if any. The index must have its vectors.
    pub embedder: Option<&'e dyn Embedder>,
    /// The reranker of passages, if any.
    pub reranker: Option<&'e dyn Reranker>,
    /// The token counter of contexts.
    pub counter: Arc<dyn TokenCounter>,
    /// The budgets at which contexts are scored. Empty: 200, 400, 800 and 1,200, for a tree 1,000, 2,000 and 4,000.
    pub budgets: Vec<usize>,
    /// Checks the length of contexts at every budget from 0 to 4,000 in steps of 7; otherwise at a few for each query.
    pub every_budget: bool,
}

impl<'e> EvalOptions<'e> {
    /// Creates options for a lexical search with defaults, and contexts counted by `counter`.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            config: AssemblyConfig::default(),
            build: BuildOptions { vectors: VectorSource::None, ..BuildOptions::default() },
            embedder: None,
            reranker: None,
            counter,
            budgets: Vec::new(),
            every_budget: false,
        }
    }

    /// Embeds documents and queries.
    #[must_use]
    pub fn with_embedder(mut self, embedder: &'e dyn Embedder) -> Self {
        self.build.vectors = VectorSource::Embedder(embedder);
        self.embedder = Some(embedder);
        self
    }
}

/// The measures of data sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EvalReport {
    /// The number of queries that have grades.
    pub queries: usize,
    /// Mean normalized discounted cumulative gain of the first 10 documents.
    pub ndcg_at_10: Option<f64>,
    /// Mean share of the relevant documents among the first 100.
    pub recall_at_100: Option<f64>,
    /// The measures of assembled contexts; `None` for a ranking from a file.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub contexts: Option<ContextReport>,
}

/// The measures of assembled contexts. A mean is `None` if no query was judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContextReport {
    /// The share of contexts with a span that answers the query, by budget.
    pub gold_in_context: BTreeMap<usize, Option<f64>>,
    /// The share of contexts with 200 bytes of a relevant document, or all of it, by budget.
    pub document_in_context: BTreeMap<usize, Option<f64>>,
    /// The mean share of the budget that is used.
    pub fill: Option<f64>,
    /// The mean share of the budget that is used, by budget.
    pub fill_by_budget: BTreeMap<usize, Option<f64>>,
    /// The number of contexts that were assembled.
    pub contexts: usize,
    /// The number of contexts above their budget.
    pub overruns: usize,
    /// The number of passages whose spans are not in the text of their context.
    pub misquoted: usize,
    /// The number of passages of Markdown, and of contexts of nothing else, that end inside a fenced code block.
    pub odd_fences: usize,
    /// The share of contexts whose three best passages are among the first five.
    pub top3_in_first5: Option<f64>,
    /// The share of passages of one document that are next to each other.
    pub adjacency: Option<f64>,
    /// Distinct bytes of documents, divided by four and by the budget.
    pub coverage: Option<f64>,
}

/// The outcome of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueryOutcome {
    /// The name of the data set's folder.
    pub set: String,
    /// The id of the query.
    pub query: String,
    /// Normalized discounted cumulative gain of the first 10 documents; `None` if no document is relevant.
    pub ndcg_at_10: Option<f64>,
    /// Share of the relevant documents among the first 100; `None` if no document is relevant.
    pub recall_at_100: Option<f64>,
    /// The outcome at each budget.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contexts: BTreeMap<usize, ContextOutcome>,
}

/// The outcome of a query at a budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextOutcome {
    /// Whether the context has a span that answers the query; `None` if the data set names none.
    pub gold: Option<bool>,
    /// Whether the context has a passage of a relevant document; `None` if there is no relevant one.
    pub document: Option<bool>,
    /// The share of the budget that is used.
    pub fill: f64,
}

impl QueryOutcome {
    fn key(&self) -> (&str, &str) {
        (&self.set, &self.query)
    }

    /// Returns all measures by name; `None` where the query was not judged.
    fn measures(&self) -> BTreeMap<String, Option<f64>> {
        let mut measures = BTreeMap::from([
            ("ndcg_at_10".to_owned(), self.ndcg_at_10),
            ("recall_at_100".to_owned(), self.recall_at_100),
        ]);
        for (budget, context) in &self.contexts {
            let share = |judged: Option<bool>| judged.map(f64::from);
            measures.insert(format!("gold_in_context at {budget:>5}"), share(context.gold));
            measures.insert(format!("document_in_context at {budget:>5}"), share(context.document));
        }
        measures
    }
}

/// The outcomes of all queries of one or more data sets.
#[derive(Debug, Default)]
pub struct EvalRun {
    outcomes: Vec<QueryOutcome>,
    /// `None` for a ranking from a file.
    contexts: Option<ContextCounts>,
}

impl EvalRun {
    /// Adds the outcomes of another data set.
    pub fn append(&mut self, other: Self) {
        self.outcomes.extend(other.outcomes);
        if let Some(counts) = other.contexts {
            self.contexts.get_or_insert_default().add(&counts);
        }
    }

    /// Returns the outcome of each query.
    pub fn outcomes(&self) -> &[QueryOutcome] {
        &self.outcomes
    }

    /// Compares this run with the outcomes of another one.
    pub fn compare(&self, before: &[QueryOutcome]) -> Vec<Difference> {
        compare::compare(&self.outcomes, before)
    }

    /// Returns the means over the queries that were judged.
    pub fn report(&self) -> EvalReport {
        let mean = |value: fn(&QueryOutcome) -> Option<f64>| {
            self.outcomes.iter().filter_map(value).collect::<Mean>().value()
        };
        EvalReport {
            queries: self.outcomes.len(),
            ndcg_at_10: mean(|outcome| outcome.ndcg_at_10),
            recall_at_100: mean(|outcome| outcome.recall_at_100),
            contexts: self.contexts.as_ref().map(|counts| self.context_report(counts)),
        }
    }

    fn context_report(&self, counts: &ContextCounts) -> ContextReport {
        let by_budget = |value: fn(&ContextOutcome) -> Option<f64>| {
            let mut means: BTreeMap<usize, Mean> = BTreeMap::new();
            for (budget, context) in self.outcomes.iter().flat_map(|outcome| &outcome.contexts) {
                means.entry(*budget).or_default().extend(value(context));
            }
            means.into_iter().map(|(budget, mean)| (budget, mean.value())).collect()
        };
        let fill_by_budget: BTreeMap<usize, Option<f64>> = by_budget(|context| Some(context.fill));
        ContextReport {
            gold_in_context: by_budget(|context| context.gold.map(f64::from)),
            document_in_context: by_budget(|context| context.document.map(f64::from)),
            fill: fill_by_budget.values().flatten().copied().collect::<Mean>().value(),
            fill_by_budget,
            contexts: counts.contexts,
            overruns: counts.overruns,
            misquoted: counts.misquoted,
            odd_fences: counts.odd_fences,
            top3_in_first5: counts.top3_in_first5.value(),
            adjacency: counts.adjacency.value(),
            coverage: counts.coverage.value(),
        }
    }
}

/// A folder with documents, queries and grades.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    queries: Vec<Query>,
    grades: Grades,
}

impl Dataset {
    /// Reads the grades of a folder, and its first `max_queries` queries that have grades.
    ///
    /// # Errors
    ///
    /// [`DocsError::EvalData`] with the first malformed line, and [`DocsError::Io`].
    pub fn open(folder: impl Into<PathBuf>, max_queries: Option<usize>) -> Result<Self, DocsError> {
        let folder = folder.into();
        let queries: Vec<Query> = read_lines(&folder.join("queries.jsonl"))?;
        let grades = read_grades(&folder.join("qrels.tsv"))?;
        let graded = queries.into_iter().filter(|query| grades.contains_key(&query.id));
        let queries = graded.take(max_queries.unwrap_or(usize::MAX)).collect();
        Ok(Self { folder, queries, grades })
    }

    /// Measures a ranking from a file: lines of query and document, best first, separated by a tab.
    ///
    /// # Errors
    ///
    /// [`DocsError::EvalData`] with the first malformed line, and [`DocsError::Io`].
    pub fn measure_ranking(&self, path: &Path) -> Result<EvalRun, DocsError> {
        let mut rankings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (line, number) in read_text(path)?.lines().zip(1..) {
            let Some((query, document)) = line.split_once('\t') else {
                let problem = "write query and document, separated by a tab";
                return Err(malformed(path, number, problem));
            };
            rankings.entry(query.to_owned()).or_default().push(document.to_owned());
        }
        let outcome =
            |query| self.ranking_outcome(query, rankings.get(&query.id).map_or(&[][..], |ids| ids));
        Ok(EvalRun { outcomes: self.queries.iter().map(outcome).collect(), contexts: None })
    }

    /// Judges contexts of another program, from a file with lines of `query`, `budget`, `tokens` and `passages` (the id of a
    /// document, the first byte and the end of each). A context that is missing has no passages. Documents are written to `work`.
    ///
    /// # Errors
    ///
    /// [`DocsError::EvalData`] with the first malformed line, and [`DocsError::Io`].
    pub fn measure_contexts(&self, path: &Path, work: &Path) -> Result<EvalRun, DocsError> {
        let corpus = DataCorpus::open(self, work)?;
        let spans = read_spans(&self.folder, &self.grades, &corpus.texts)?;
        let given: Vec<OtherContext> = read_lines(path)?;
        let budgets: BTreeSet<usize> = given.iter().map(|context| context.budget).collect();
        let given: BTreeMap<(&str, usize), &OtherContext> = given
            .iter()
            .map(|context| ((context.query.as_str(), context.budget), context))
            .collect();
        let mut counts = ContextCounts::default();
        let mut outcomes = Vec::with_capacity(self.queries.len());
        for query in &self.queries {
            let mut outcome = self.ranking_outcome(query, &[]);
            for budget in &budgets {
                let context = given.get(&(query.id.as_str(), *budget));
                let tokens = context.map_or(0, |context| context.tokens);
                let passages = context.iter().flat_map(|context| &context.passages);
                let coverage = Coverage::of_spans(
                    passages.map(|(document, start, end)| (document.as_str(), *start..*end)),
                );
                counts.contexts += 1;
                counts.overruns += usize::from(tokens > *budget);
                let (gold, document) = corpus.judge(&query.id, &spans, &self.grades, &coverage);
                let fill = tokens as f64 / (*budget).max(1) as f64;
                outcome.contexts.insert(*budget, ContextOutcome { gold, document, fill });
            }
            outcomes.push(outcome);
        }
        Ok(EvalRun { outcomes, contexts: Some(counts) })
    }

    /// Builds an index of the documents in `work`, runs all queries, and assembles contexts for them.
    ///
    /// # Errors
    ///
    /// [`DocsError::EvalData`] with the first malformed line, and the errors of building, searching and assembling.
    pub fn measure(&self, work: &Path, options: &EvalOptions<'_>) -> Result<EvalRun, DocsError> {
        let index = work.join("cache");
        self.measure_with(work, options, |source| {
            build(source, &index, &options.build, &mut |_| {})?;
            Ok(Arc::new(DocumentIndex::open(&index)?))
        })
    }

    /// As [`measure`](Self::measure), on a corpus that `open` builds from the documents.
    ///
    /// # Errors
    ///
    /// As [`measure`](Self::measure), and those of `open`.
    pub fn measure_with(
        &self,
        work: &Path,
        options: &EvalOptions<'_>,
        open: impl FnOnce(&DocumentSource) -> Result<Arc<dyn Corpus>, DocsError>,
    ) -> Result<EvalRun, DocsError> {
        let corpus = DataCorpus::open(self, work)?;
        let index = &*open(&corpus.source)?;
        let spans = read_spans(&self.folder, &self.grades, &corpus.texts)?;

        let mut deep = options.config.search.clone();
        (deep.lexical_k, deep.semantic_k, deep.top_k) =
            (RANKING_DEPTH, RANKING_DEPTH, 2 * RANKING_DEPTH);
        let vector = options.embedder.map_or(QueryVector::None, QueryVector::Embedder);
        let assembler = Assembler::new(index, options.config.clone())
            .with_counter(Arc::clone(&options.counter))
            .with_reranker(options.reranker);
        let budgets = match options.budgets.is_empty() {
            true => corpus.budgets,
            false => &options.budgets,
        };
        let mut judge = Judge {
            index,
            corpus: &corpus,
            grades: &self.grades,
            spans,
            options,
            counts: ContextCounts::default(),
        };
        let mut outcomes = Vec::with_capacity(self.queries.len());
        for (number, query) in self.queries.iter().enumerate() {
            let mut hits = index.search(&query.text, &deep, vector)?;
            if let Some(reranker) = options.reranker {
                Reranking::ask(reranker, &query.text, &hits)?.apply(&mut hits)?;
            }
            let mut seen = BTreeSet::new();
            let documents = hits.iter().filter(|hit| seen.insert(hit.document));
            let ranked: Vec<String> =
                documents.filter_map(|hit| corpus.ids.get(&hit.path).cloned()).collect();
            let mut outcome = self.ranking_outcome(query, &ranked);
            let candidates = assembler.candidates(&query.text, vector)?;
            for budget in budgets {
                let context = judge.context_outcome(&query.id, &candidates, *budget)?;
                outcome.contexts.insert(*budget, context);
            }
            let checked = (0..=MAX_CHECKED_BUDGET_TOKENS).step_by(CHECKED_BUDGET_STEP_TOKENS);
            let is_checked = |i: usize| {
                let stride = self.queries.len().min(BUDGET_STRIDE);
                options.every_budget || i % stride == number % BUDGET_STRIDE
            };
            for (_, budget) in checked.enumerate().filter(|(i, _)| is_checked(*i)) {
                judge.check_budget(&candidates, budget)?;
            }
            outcomes.push(outcome);
        }
        Ok(EvalRun { outcomes, contexts: Some(judge.counts) })
    }

    /// Measures nDCG@10 and recall@100 of ranked documents.
    fn ranking_outcome(&self, query: &Query, ranked: &[String]) -> QueryOutcome {
        let none = BTreeMap::new();
        let grades = self.grades.get(&query.id).unwrap_or(&none);
        let gain = |grades: &mut dyn Iterator<Item = f64>| -> f64 {
            let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
            grades.take(10).enumerate().map(|(rank, grade)| grade * discount(rank)).sum()
        };
        let gained = gain(&mut ranked.iter().map(|id| grades.get(id).copied().unwrap_or_default()));
        let mut ideal: Vec<f64> = grades.values().copied().collect();
        ideal.sort_by(|a, b| b.total_cmp(a));
        let ideal = gain(&mut ideal.into_iter());
        let is_relevant = |id: &&String| grades.get(*id).is_some_and(|grade| *grade > 0.0);
        let relevant = grades.values().filter(|grade| **grade > 0.0).count();
        let retrieved = ranked.iter().take(100).filter(is_relevant).count();
        let set = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        QueryOutcome {
            set,
            query: query.id.clone(),
            ndcg_at_10: (ideal > 0.0).then(|| gained / ideal),
            recall_at_100: (relevant > 0).then(|| retrieved as f64 / relevant as f64),
            contexts: BTreeMap::new(),
        }
    }
}

/// Assembles contexts and judges them.
struct Judge<'s> {
    index: &'s dyn Corpus,
    corpus: &'s DataCorpus,
    grades: &'s Grades,
    spans: GoldSpans,
    options: &'s EvalOptions<'s>,
    counts: ContextCounts,
}

#[derive(Debug, Default)]
struct ContextCounts {
    contexts: usize,
    overruns: usize,
    misquoted: usize,
    odd_fences: usize,
    top3_in_first5: Mean,
    adjacency: Mean,
    coverage: Mean,
}

impl ContextCounts {
    fn add(&mut self, other: &Self) {
        self.contexts += other.contexts;
        self.overruns += other.overruns;
        self.misquoted += other.misquoted;
        self.odd_fences += other.odd_fences;
        self.top3_in_first5.add(&other.top3_in_first5);
        self.adjacency.add(&other.adjacency);
        self.coverage.add(&other.coverage);
    }
}

#[derive(Debug, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Returns the mean; `None` of no values.
    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Extend<f64> for Mean {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        for value in values {
            self.sum += value;
            self.count += 1;
        }
    }
}

impl FromIterator<f64> for Mean {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut mean = Self::default();
        mean.extend(values);
        mean
    }
}

impl Judge<'_> {
    /// Assembles a context, and counts it as an overrun if it exceeds its budget.
    fn check_budget(
        &mut self,
        candidates: &Candidates,
        budget: usize,
    ) -> Result<AssembledContext, DocsError> {
        let context = candidates.assemble(&TokenBudget::available(budget))?;
        let charged = context.total_tokens + context.overhead_tokens;
        self.counts.contexts += 1;
        let sent = self.options.counter.count(&context.text);
        self.counts.overruns += usize::from(charged.max(sent) > budget);
        Ok(context)
    }

    fn context_outcome(
        &mut self,
        query: &str,
        candidates: &Candidates,
        budget: usize,
    ) -> Result<ContextOutcome, DocsError> {
        let context = self.check_budget(candidates, budget)?;
        let coverage = Coverage::new(&context, &self.corpus.ids);
        let (gold, document) = self.corpus.judge(query, &self.spans, self.grades, &coverage);
        let fill = self.options.counter.count(&context.text) as f64 / budget.max(1) as f64;
        let outcome = ContextOutcome { gold, document, fill };
        let covered = coverage.total_bytes() as f64 / 4.0 / budget.max(1) as f64;
        self.counts.coverage.extend([covered]);
        self.check_quotes(&context)?;
        self.judge_order(&context.chunks);
        Ok(outcome)
    }

    /// Counts passages that are not in the text of the context, or that open a fence for what follows.
    fn check_quotes(&mut self, context: &AssembledContext) -> Result<(), DocsError> {
        for chunk in &context.chunks {
            let number = self.index.find_document(&chunk.document_path)?;
            let document = number.map(|number| self.index.read_documents(&[number])).transpose()?;
            let document = document.and_then(|mut documents| documents.pop());
            let is_quoted = |document: &crate::Document| {
                chunk.spans().into_iter().all(|span| {
                    let quoted = document.content.get(span);
                    quoted.is_some_and(|quoted| context.text.contains(quoted.trim()))
                })
            };
            self.counts.misquoted += usize::from(!document.as_ref().is_some_and(is_quoted));
            let is_odd = is_markdown(&chunk.document_path) && open_fence(&chunk.text).is_some();
            self.counts.odd_fences += usize::from(is_odd);
        }
        // Other files may have marks that open no fence.
        let is_markdown = context.chunks.iter().all(|chunk| is_markdown(&chunk.document_path));
        self.counts.odd_fences += usize::from(is_markdown && open_fence(&context.text).is_some());
        Ok(())
    }

    fn judge_order(&mut self, chunks: &[ContextChunk]) {
        let mut by_score: Vec<usize> = (0..chunks.len()).collect();
        by_score.sort_by_key(|index| std::cmp::Reverse(chunks[*index].score));
        if !chunks.is_empty() {
            let are_first = by_score.iter().take(3).all(|index| *index < 5);
            self.counts.top3_in_first5.extend([f64::from(are_first)]);
        }
        let documents: BTreeSet<&str> =
            chunks.iter().map(|chunk| chunk.document_path.as_str()).collect();
        let possible = chunks.len() - documents.len();
        if possible > 0 {
            let is_same = |pair: &&[ContextChunk]| pair[0].document_path == pair[1].document_path;
            let adjacent = chunks.windows(2).filter(is_same).count();
            self.counts.adjacency.extend([adjacent as f64 / possible as f64]);
        }
    }
}

/// The documents of a data set as files.
struct DataCorpus {
    source: DocumentSource,
    /// The id of each document, by path.
    ids: BTreeMap<String, String>,
    /// The text of each document that is relevant for a query, by id.
    texts: BTreeMap<String, String>,
    /// The budgets at which contexts are scored.
    budgets: &'static [usize],
}

impl DataCorpus {
    fn open(dataset: &Dataset, work: &Path) -> Result<Self, DocsError> {
        let relevant: BTreeSet<&str> =
            dataset.grades.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
        match dataset.folder.join("tree") {
            tree if tree.is_dir() => Self::from_tree(&tree, &relevant),
            _ => {
                Self::from_lines(&dataset.folder.join("docs.jsonl"), &work.join("docs"), &relevant)
            }
        }
    }

    /// Returns whether a context has a span that answers a query, and whether it has a passage of a relevant document.
    fn judge(
        &self,
        query: &str,
        spans: &GoldSpans,
        grades: &Grades,
        coverage: &Coverage<'_>,
    ) -> (Option<bool>, Option<bool>) {
        let spans = spans.get(query).filter(|spans| !spans.is_empty());
        let relevant = grades.get(query).into_iter().flatten();
        let relevant: Vec<&String> =
            relevant.filter(|(_, grade)| **grade > 0.0).map(|(document, _)| document).collect();
        let has_document = |document: &&String| {
            let length = self.texts.get(*document).map_or(0, String::len);
            coverage.has_document(document, length)
        };
        let gold = spans.map(|spans| spans.iter().any(|span| coverage.has_span(span)));
        (gold, (!relevant.is_empty()).then(|| relevant.iter().any(has_document)))
    }

    /// Uses the files of a tree.
    fn from_tree(tree: &Path, relevant: &BTreeSet<&str>) -> Result<Self, DocsError> {
        let source = DocumentSource::new(tree).rules(FileRules::all());
        let paths =
            source.files(None, SystemTime::UNIX_EPOCH)?.files.into_iter().map(|file| file.path);
        let ids: BTreeMap<String, String> = paths.map(|path| (path.clone(), path)).collect();
        let mut texts = BTreeMap::new();
        for path in ids.keys().filter(|path| relevant.contains(path.as_str())) {
            texts.insert(path.clone(), read_text(&tree.join(path))?);
        }
        Ok(Self { source, ids, texts, budgets: &TREE_BUDGETS_TOKENS })
    }

    /// Writes each line into a file of its own.
    fn from_lines(
        data: &Path,
        folder: &Path,
        relevant: &BTreeSet<&str>,
    ) -> Result<Self, DocsError> {
        let failed = |error| DocsError::io("write", folder, error);
        // An earlier run may have left documents of another data set.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let (mut ids, mut texts, mut metadata) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (number, DataDocument { id, title, text }) in read_lines(data)?.into_iter().enumerate()
        {
            let name = format!("{number:07}.txt");
            fs::write(folder.join(&name), &text).map_err(failed)?;
            let title = Some(title).filter(|title| !title.is_empty());
            metadata
                .insert(name.clone(), DocumentMetadata { title, ..DocumentMetadata::default() });
            if relevant.contains(id.as_str()) {
                texts.insert(id.clone(), text);
            }
            ids.insert(name, id);
        }
        let source = DocumentSource::new(folder)
            .rules(FileRules::all())
            .patterns(["*.txt"])
            .metadata(metadata);
        Ok(Self { source, ids, texts, budgets: &TEXT_BUDGETS_TOKENS })
    }
}

fn malformed(path: &Path, line: usize, problem: impl Into<String>) -> DocsError {
    DocsError::EvalData { path: path.to_owned(), line, problem: problem.into() }
}

fn read_text(path: &Path) -> Result<String, DocsError> {
    let failed = |error| DocsError::io("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let bytes = pannier_files::read_file_bounded(&file, MAX_DATA_BYTES).map_err(failed)?;
    let bytes = bytes.ok_or_else(|| failed(io::ErrorKind::FileTooLarge.into()))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        malformed(path, line, "it is not UTF-8; save the file as UTF-8")
    })
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, DocsError> {
    let text = read_text(path)?;
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let parsed = lines.map(|(line, number)| {
        serde_json::from_str(line).map_err(|error| malformed(path, number, error.to_string()))
    });
    parsed.collect()
}

fn read_grades(path: &Path) -> Result<Grades, DocsError> {
    let mut grades = Grades::new();
    for (line, number) in read_text(path)?.lines().zip(1..) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [query, document, grade] = fields[..] else {
            let problem = "write query, document and grade, separated by tabs";
            return Err(malformed(path, number, problem));
        };
        let grade = grade
            .trim()
            .parse()
            .map_err(|_| malformed(path, number, format!("'{grade}' is not a grade")))?;
        grades.entry(query.to_owned()).or_default().insert(document.to_owned(), grade);
    }
    Ok(grades)
}
