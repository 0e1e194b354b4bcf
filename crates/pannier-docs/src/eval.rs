//! Retrieval quality, measured on questions whose answers are known.
//!
//! A data set is a folder with `docs.jsonl` (`id`, `title`, `text`), `queries.jsonl` (`id`, `text`), `qrels.tsv` (query,
//! document, grade) and optionally `answers.jsonl` (`id`, `answer`). Rankings are measured by nDCG@10 and recall@100,
//! contexts by the share that holds a relevant passage at four budgets, and by how they use their budget.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pannier_core::TokenCounter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    AssembledContext, Assembler, AssemblyConfig, BuildOptions, Candidates, ContextChunk, DocsError,
    DocumentIndex, DocumentMetadata, DocumentSource, Embedder, QueryVector, SearchOptions,
    TokenBudget, VectorSource, build,
};

/// The budgets at which contexts are scored.
const SCORED_BUDGETS_TOKENS: [usize; 4] = [200, 400, 800, 1_200];

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

#[derive(Deserialize)]
struct Answer {
    id: String,
    answer: String,
}

/// Grades of documents, by query.
type Grades = BTreeMap<String, BTreeMap<String, f64>>;

/// How a data set is searched and its contexts are counted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EvalOptions<'e> {
    /// The search for contexts. The ranking of documents uses it with more hits.
    pub search: SearchOptions,
    /// The embedder of documents and queries, if any.
    pub embedder: Option<&'e dyn Embedder>,
    /// The token counter of contexts.
    pub counter: Arc<dyn TokenCounter>,
    /// Checks the length of contexts at every budget from 0 to 4,000 in steps of 7; otherwise at a few for each query.
    pub every_budget: bool,
}

impl EvalOptions<'_> {
    /// Creates options for a lexical search with defaults, and contexts counted by `counter`.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { search: SearchOptions::default(), embedder: None, counter, every_budget: false }
    }
}

/// The measures of a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EvalReport {
    /// The number of queries that have grades.
    pub queries: usize,
    /// Mean normalized discounted cumulative gain of the first 10 documents.
    pub ndcg_at_10: f64,
    /// Mean share of the relevant documents among the first 100.
    pub recall_at_100: f64,
    /// The measures of assembled contexts; `None` for a ranking from a file.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub contexts: Option<ContextReport>,
}

/// The measures of assembled contexts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContextReport {
    /// The share of contexts with a relevant passage, by budget.
    pub gold_in_context: BTreeMap<usize, f64>,
    /// The mean share of the budget that is used.
    pub fill: f64,
    /// The mean share of the budget that is used, by budget.
    pub fill_by_budget: BTreeMap<usize, f64>,
    /// The number of contexts that were assembled.
    pub contexts: usize,
    /// The number of contexts above their budget.
    pub overruns: usize,
    /// The share of contexts whose three best passages are among the first five.
    pub top3_in_first5: f64,
    /// The share of passages of one document that are next to each other.
    pub adjacency: f64,
    /// Distinct bytes of documents, divided by four and by the budget.
    pub coverage: f64,
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
    pub fn measure_ranking(&self, path: &Path) -> Result<EvalReport, DocsError> {
        let mut rankings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (line, number) in read_text(path)?.lines().zip(1..) {
            let Some((query, document)) = line.split_once('\t') else {
                let problem = "write query and document, separated by a tab";
                return Err(malformed(path, number, problem));
            };
            rankings.entry(query.to_owned()).or_default().push(document.to_owned());
        }
        self.measure_rankings(|query| Ok(rankings.remove(&query.id).unwrap_or_default()))
    }

    /// Builds an index of the documents in `work`, runs all queries, and assembles contexts for them.
    ///
    /// # Errors
    ///
    /// [`DocsError::EvalData`] with the first malformed line, and the errors of building, searching and assembling.
    pub fn measure(&self, work: &Path, options: &EvalOptions<'_>) -> Result<EvalReport, DocsError> {
        let WrittenDocuments { ids, metadata } =
            write_documents(&self.folder.join("docs.jsonl"), &work.join("docs"))?;
        let vectors = options.embedder.map_or(VectorSource::None, VectorSource::Embedder);
        let build_options = BuildOptions { vectors, ..BuildOptions::default() };
        let sources = DocumentSource::new(work.join("docs")).patterns(["*.txt"]).metadata(metadata);
        build(&sources, &work.join("cache"), &build_options, &mut |_| {})?;
        let cache = DocumentIndex::open(work.join("cache"))?;

        let mut deep = options.search.clone();
        (deep.lexical_k, deep.semantic_k, deep.top_k) =
            (RANKING_DEPTH, RANKING_DEPTH, 2 * RANKING_DEPTH);
        let vector = options.embedder.map_or(QueryVector::None, QueryVector::Embedder);
        let mut report = self.measure_rankings(|query| {
            let hits = cache.search(&query.text, &deep, vector)?;
            let mut seen = BTreeSet::new();
            let documents = hits.iter().filter(|hit| seen.insert(hit.document));
            Ok(documents.filter_map(|hit| ids.get(&hit.path).cloned()).collect())
        })?;

        let config = AssemblyConfig { search: options.search.clone(), ..AssemblyConfig::default() };
        let assembler = Assembler::new(&cache, config).with_counter(Arc::clone(&options.counter));
        let answers: BTreeMap<String, String> = match self.folder.join("answers.jsonl") {
            path if path.is_file() => {
                read_lines(&path)?.into_iter().map(|Answer { id, answer }| (id, answer)).collect()
            }
            _ => BTreeMap::new(),
        };
        let mut scores =
            ContextScores { counter: &*options.counter, ids: &ids, sums: Sums::default() };
        for (number, query) in self.queries.iter().enumerate() {
            let candidates = assembler.candidates(&query.text, vector)?;
            let gold = Gold { grades: self.grades.get(&query.id), answer: answers.get(&query.id) };
            for budget in SCORED_BUDGETS_TOKENS {
                scores.score_context(&candidates, budget, &gold)?;
            }
            let budgets = (0..=MAX_CHECKED_BUDGET_TOKENS).step_by(CHECKED_BUDGET_STEP_TOKENS);
            let is_checked = |i: usize| {
                let stride = self.queries.len().min(BUDGET_STRIDE);
                options.every_budget || i % stride == number % BUDGET_STRIDE
            };
            for (_, budget) in budgets.enumerate().filter(|(i, _)| is_checked(*i)) {
                scores.check_budget(&candidates, budget)?;
            }
        }
        report.contexts = Some(scores.report());
        Ok(report)
    }

    /// Measures nDCG@10 and recall@100 of the documents that `ranking` returns for each query.
    fn measure_rankings(
        &self,
        mut ranking: impl FnMut(&Query) -> Result<Vec<String>, DocsError>,
    ) -> Result<EvalReport, DocsError> {
        let (mut ndcg, mut recall) = (Mean::default(), Mean::default());
        let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
        for query in &self.queries {
            let none = BTreeMap::new();
            let grades = self.grades.get(&query.id).unwrap_or(&none);
            let ranked = ranking(query)?;
            let gain = |grades: &mut dyn Iterator<Item = f64>| -> f64 {
                grades.take(10).enumerate().map(|(rank, grade)| grade * discount(rank)).sum()
            };
            let gained =
                gain(&mut ranked.iter().map(|id| grades.get(id).copied().unwrap_or_default()));
            let mut ideal: Vec<f64> = grades.values().copied().collect();
            ideal.sort_by(|a, b| b.total_cmp(a));
            let ideal = gain(&mut ideal.into_iter());
            ndcg.add(if ideal > 0.0 { gained / ideal } else { 0.0 });
            let is_relevant = |id: &&String| grades.get(*id).is_some_and(|grade| *grade > 0.0);
            let relevant = grades.values().filter(|grade| **grade > 0.0).count();
            let retrieved = ranked.iter().take(100).filter(is_relevant).count();
            recall.add(retrieved as f64 / relevant.max(1) as f64);
        }
        Ok(EvalReport {
            queries: self.queries.len(),
            ndcg_at_10: ndcg.value(),
            recall_at_100: recall.value(),
            contexts: None,
        })
    }
}

/// The documents and the answer that a query should retrieve.
struct Gold<'g> {
    grades: Option<&'g BTreeMap<String, f64>>,
    answer: Option<&'g String>,
}

/// Assembles contexts and sums up their measures.
struct ContextScores<'s> {
    counter: &'s dyn TokenCounter,
    /// The ids of documents, by path.
    ids: &'s BTreeMap<String, String>,
    sums: Sums,
}

#[derive(Default)]
struct Sums {
    with_gold: BTreeMap<usize, Mean>,
    fill: BTreeMap<usize, Mean>,
    contexts: usize,
    overruns: usize,
    top3_in_first5: Mean,
    adjacency: Mean,
    coverage: Mean,
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

impl ContextScores<'_> {
    /// Assembles a context, and counts it as an overrun if it exceeds its budget.
    fn check_budget(
        &mut self,
        candidates: &Candidates,
        budget: usize,
    ) -> Result<AssembledContext, DocsError> {
        let context = candidates.assemble(&TokenBudget::available(budget))?;
        let charged = context.total_tokens + context.overhead_tokens;
        self.sums.contexts += 1;
        self.sums.overruns += usize::from(charged.max(self.counter.count(&context.text)) > budget);
        Ok(context)
    }

    fn score_context(
        &mut self,
        candidates: &Candidates,
        budget: usize,
        gold: &Gold<'_>,
    ) -> Result<(), DocsError> {
        let context = self.check_budget(candidates, budget)?;
        let chunks = &context.chunks;
        let has_gold = chunks.iter().any(|chunk| {
            let id = self.ids.get(&chunk.document_path);
            let is_gold = id.is_some_and(|id| {
                gold.grades.is_some_and(|grades| grades.get(id).is_some_and(|grade| *grade > 0.0))
            });
            is_gold
                && match gold.answer {
                    Some(answer) => chunk.text.contains(answer.as_str()),
                    None => !context.truncated,
                }
        });
        self.sums.with_gold.entry(budget).or_default().add(f64::from(has_gold));
        let sent = self.counter.count(&context.text);
        self.sums.fill.entry(budget).or_default().add(sent as f64 / budget as f64);
        self.sums.coverage.add(distinct_bytes(&context) as f64 / 4.0 / budget as f64);

        let mut by_score: Vec<usize> = (0..chunks.len()).collect();
        by_score.sort_by_key(|index| std::cmp::Reverse(chunks[*index].score));
        if !chunks.is_empty() {
            self.sums
                .top3_in_first5
                .add(f64::from(by_score.iter().take(3).all(|index| *index < 5)));
        }
        let documents: BTreeSet<&str> =
            chunks.iter().map(|chunk| chunk.document_path.as_str()).collect();
        let possible = chunks.len() - documents.len();
        if possible > 0 {
            let is_same = |pair: &&[ContextChunk]| pair[0].document_path == pair[1].document_path;
            self.sums
                .adjacency
                .add(chunks.windows(2).filter(is_same).count() as f64 / possible as f64);
        }
        Ok(())
    }

    fn report(self) -> ContextReport {
        let values = |means: &BTreeMap<usize, Mean>| -> BTreeMap<usize, f64> {
            means.iter().map(|(budget, mean)| (*budget, mean.value())).collect()
        };
        let fill_by_budget = values(&self.sums.fill);
        ContextReport {
            gold_in_context: values(&self.sums.with_gold),
            fill: fill_by_budget.values().sum::<f64>() / fill_by_budget.len().max(1) as f64,
            fill_by_budget,
            contexts: self.sums.contexts,
            overruns: self.sums.overruns,
            top3_in_first5: self.sums.top3_in_first5.value(),
            adjacency: self.sums.adjacency.value(),
            coverage: self.sums.coverage.value(),
        }
    }
}

/// Counts the bytes of documents in a context, each once.
fn distinct_bytes(context: &AssembledContext) -> usize {
    let mut ranges: Vec<(&str, usize, usize)> = context
        .chunks
        .iter()
        .map(|chunk| (chunk.document_path.as_str(), chunk.start, chunk.end))
        .collect();
    ranges.sort_unstable();
    let (mut bytes, mut last) = (0, ("", 0));
    for (path, start, end) in ranges {
        let start = if last.0 == path { start.max(last.1) } else { start };
        bytes += end.saturating_sub(start);
        last = (path, if last.0 == path { end.max(last.1) } else { end });
    }
    bytes
}

/// Documents as files: the id and the title of each, by file name.
struct WrittenDocuments {
    ids: BTreeMap<String, String>,
    metadata: BTreeMap<String, DocumentMetadata>,
}

/// Writes each document into a file of its own.
fn write_documents(data: &Path, folder: &Path) -> Result<WrittenDocuments, DocsError> {
    let failed = |error| DocsError::io("write", folder, error);
    // An earlier run may have left documents of another data set.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut written = WrittenDocuments { ids: BTreeMap::new(), metadata: BTreeMap::new() };
    for (number, DataDocument { id, title, text }) in read_lines(data)?.into_iter().enumerate() {
        let name = format!("{number:07}.txt");
        fs::write(folder.join(&name), text).map_err(failed)?;
        let title = Some(title).filter(|title| !title.is_empty());
        written
            .metadata
            .insert(name.clone(), DocumentMetadata { title, ..DocumentMetadata::default() });
        written.ids.insert(name, id);
    }
    Ok(written)
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
