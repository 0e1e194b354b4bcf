//! `pannier eval`: how well contexts answer, measured on questions whose answers are known.
//!
//! For developers, so it is hidden from the help. A data folder has `docs.jsonl` (`id`, `title`, `text`), `queries.jsonl`
//! (`id`, `text`) and `qrels.tsv` (query, document, grade), and perhaps `answers.jsonl` (`id`, `answer`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use pannier_assemble::{AssembledContext, Assembler, AssemblyConfig, Candidates, TokenBudget};
use pannier_core::TokenCounter;
use pannier_docs::{About, BuildOptions, Cache, Embedder, QueryVector, Sources, Vectors};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::AnswerFormat;
use super::assemble::SearchArguments;
use super::docs::EmbedderArguments;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::input;
use crate::output::Output;

/// The budgets at which contexts are judged.
const BUDGETS: [usize; 4] = [200, 400, 800, 1_200];

/// The budgets at which contexts are only held against their bound.
const LAST_BUDGET: usize = 4_000;
const BUDGET_STEP: usize = 7;

/// How many passages each leg finds for the ranking of documents.
const DEPTH: usize = 300;

const LARGEST_DATA: u64 = 1 << 30;

/// Measure how well contexts answer questions whose answers are known
#[derive(Args, Debug)]
pub(crate) struct Eval {
    /// A folder with docs.jsonl, queries.jsonl and qrels.tsv
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: PathBuf,

    /// Where documents and cache are kept for the next time [default: nowhere]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep: Option<PathBuf>,

    /// Measure this ranking instead: lines of query, document, best first, parted by tabs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    run: Option<PathBuf>,

    /// Ask only the first so many queries
    #[arg(long, value_name = "COUNT")]
    queries: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    #[command(flatten)]
    embedder: EmbedderArguments,

    #[command(flatten)]
    search: SearchArguments,

    /// Hold every query against every budget from 0 to 4,000 in steps of 7, not a few of them
    #[arg(long)]
    thorough: bool,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

#[derive(Deserialize)]
struct DataDocument {
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct DataQuery {
    id: String,
    text: String,
}

#[derive(Deserialize)]
struct DataAnswer {
    id: String,
    answer: String,
}

/// Grades of documents, by query.
type Grades = BTreeMap<String, BTreeMap<String, f64>>;

/// What was measured.
#[derive(Serialize)]
struct Measured {
    queries: usize,
    ndcg_at_10: f64,
    recall_at_100: f64,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    contexts: Option<MeasuredContexts>,
}

#[derive(Serialize)]
struct MeasuredContexts {
    gold_in_context: BTreeMap<usize, f64>,
    fill: f64,
    fill_by_budget: BTreeMap<usize, f64>,
    contexts: usize,
    overruns: usize,
    top3_in_first5: f64,
    adjacency: f64,
    coverage: f64,
}

impl Eval {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let queries: Vec<DataQuery> = read_lines(&self.data.join("queries.jsonl"))?;
        let grades = read_grades(&self.data.join("qrels.tsv"))?;
        let judged = queries.into_iter().filter(|query| grades.contains_key(&query.id));
        let queries: Vec<DataQuery> = judged.take(self.queries.unwrap_or(usize::MAX)).collect();
        let measured = match &self.run {
            Some(path) => {
                let rankings = read_rankings(path)?;
                let none = Vec::new();
                let ranking = |query: &DataQuery| rankings.get(&query.id).unwrap_or(&none).clone();
                measure_rankings(&queries, &grades, |query| Ok(ranking(query)))?
            }
            None => self.measure(&queries, &grades)?,
        };
        let mut output = Output::new();
        match self.format {
            AnswerFormat::Json => output.json(&measured)?,
            AnswerFormat::Text => output.text(&measured.text())?,
        }
        output.finish()
    }

    /// Builds a cache of the documents, and asks it all queries.
    fn measure(&self, queries: &[DataQuery], grades: &Grades) -> Result<Measured, CliError> {
        let folder = match &self.keep {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("pannier-eval-{}", std::process::id())),
        };
        let measured = self.measure_in(&folder, queries, grades);
        if self.keep.is_none() {
            // What stays of it is in the way of nobody.
            let _ = fs::remove_dir_all(&folder);
        }
        measured
    }

    fn measure_in(
        &self,
        folder: &Path,
        queries: &[DataQuery],
        grades: &Grades,
    ) -> Result<Measured, CliError> {
        let Written { names, about } =
            write_documents(&self.data.join("docs.jsonl"), &folder.join("docs"))?;
        let embedder = self.embedder.open()?;
        let vectors = embedder.as_deref().map_or(Vectors::None, Vectors::Embedder);
        let options = BuildOptions { vectors, ..BuildOptions::default() };
        let sources = Sources::new(folder.join("docs")).patterns(["*.txt"]).about(about);
        pannier_docs::build(&sources, &folder.join("cache"), &options, &mut |_| {})?;
        let cache = Cache::open(folder.join("cache"))?;

        let mut search = self.search.read();
        let mut deep = search.clone();
        (deep.lexical_k, deep.semantic_k, deep.top_k) = (DEPTH, DEPTH, 2 * DEPTH);
        let vector = query_vector(embedder.as_deref());
        let mut measured = measure_rankings(queries, grades, |query| {
            let hits = cache.search(&query.text, &deep, vector)?;
            let mut seen = BTreeSet::new();
            let documents = hits.iter().filter(|hit| seen.insert(hit.document));
            Ok(documents.filter_map(|hit| names.get(&hit.path).cloned()).collect())
        })?;

        let mut config = AssemblyConfig::default();
        std::mem::swap(&mut config.search, &mut search);
        let counter: Arc<dyn TokenCounter> = Arc::from(self.tokenizer.counter()?);
        let assembler = Assembler::new(&cache, config).counted_by(Arc::clone(&counter));
        let answers: BTreeMap<String, String> = match self.data.join("answers.jsonl") {
            path if path.is_file() => read_lines(&path)?
                .into_iter()
                .map(|DataAnswer { id, answer }| (id, answer))
                .collect(),
            _ => BTreeMap::new(),
        };
        let mut judge = Judge::new(&*counter, &names);
        for (number, query) in queries.iter().enumerate() {
            let candidates = assembler.candidates(&query.text, vector)?;
            let gold = Gold { grades: grades.get(&query.id), answer: answers.get(&query.id) };
            for budget in BUDGETS {
                judge.judge(&candidates, budget, &gold)?;
            }
            let budgets = (0..=LAST_BUDGET).step_by(BUDGET_STEP).enumerate();
            let is_tried = |i: &usize| self.thorough || i % queries.len().min(97) == number % 97;
            for (_, budget) in budgets.filter(|(i, _)| is_tried(i)) {
                judge.hold(&candidates, budget)?;
            }
        }
        measured.contexts = Some(judge.finish());
        Ok(measured)
    }
}

fn query_vector(embedder: Option<&dyn Embedder>) -> QueryVector<'_> {
    embedder.map_or(QueryVector::None, QueryVector::Embedder)
}

/// What a query should find.
struct Gold<'g> {
    grades: Option<&'g BTreeMap<String, f64>>,
    answer: Option<&'g String>,
}

/// Looks at contexts, and sums up.
struct Judge<'j> {
    counter: &'j dyn TokenCounter,
    names: &'j BTreeMap<String, String>,
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

impl<'j> Judge<'j> {
    fn new(counter: &'j dyn TokenCounter, names: &'j BTreeMap<String, String>) -> Self {
        Self {
            counter,
            names,
            with_gold: BTreeMap::new(),
            fill: BTreeMap::new(),
            contexts: 0,
            overruns: 0,
            top3_in_first5: Mean::default(),
            adjacency: Mean::default(),
            coverage: Mean::default(),
        }
    }

    /// Assembles a context, and holds it against its bound.
    fn hold(
        &mut self,
        candidates: &Candidates<'_>,
        budget: usize,
    ) -> Result<AssembledContext, CliError> {
        let context = candidates.assemble(&TokenBudget::available(budget))?;
        let charged = context.total_tokens + context.overhead_tokens;
        self.contexts += 1;
        self.overruns += usize::from(charged.max(self.counter.count(&context.text)) > budget);
        Ok(context)
    }

    fn judge(
        &mut self,
        candidates: &Candidates<'_>,
        budget: usize,
        gold: &Gold<'_>,
    ) -> Result<(), CliError> {
        let context = self.hold(candidates, budget)?;
        let chunks = &context.chunks;
        let has_gold = chunks.iter().any(|chunk| {
            let name = self.names.get(&chunk.document_path);
            let is_gold = name.is_some_and(|name| {
                gold.grades.is_some_and(|grades| grades.get(name).is_some_and(|grade| *grade > 0.0))
            });
            is_gold
                && match gold.answer {
                    Some(answer) => chunk.text.contains(answer.as_str()),
                    None => !context.truncated,
                }
        });
        self.with_gold.entry(budget).or_default().add(f64::from(has_gold));
        let sent = self.counter.count(&context.text);
        self.fill.entry(budget).or_default().add(sent as f64 / budget as f64);
        self.coverage.add(unique_bytes(&context) as f64 / 4.0 / budget as f64);

        let mut by_score: Vec<usize> = (0..chunks.len()).collect();
        by_score.sort_by_key(|at| std::cmp::Reverse(chunks[*at].score));
        if !chunks.is_empty() {
            self.top3_in_first5.add(f64::from(by_score.iter().take(3).all(|at| *at < 5)));
        }
        let documents: BTreeSet<&str> =
            chunks.iter().map(|chunk| chunk.document_path.as_str()).collect();
        let possible = chunks.len() - documents.len();
        if possible > 0 {
            let is_same = |pair: &&[pannier_assemble::ContextChunk]| {
                pair[0].document_path == pair[1].document_path
            };
            self.adjacency.add(chunks.windows(2).filter(is_same).count() as f64 / possible as f64);
        }
        Ok(())
    }

    fn finish(self) -> MeasuredContexts {
        let values = |means: &BTreeMap<usize, Mean>| -> BTreeMap<usize, f64> {
            means.iter().map(|(budget, mean)| (*budget, mean.value())).collect()
        };
        let fill_by_budget = values(&self.fill);
        MeasuredContexts {
            gold_in_context: values(&self.with_gold),
            fill: fill_by_budget.values().sum::<f64>() / fill_by_budget.len().max(1) as f64,
            fill_by_budget,
            contexts: self.contexts,
            overruns: self.overruns,
            top3_in_first5: self.top3_in_first5.value(),
            adjacency: self.adjacency.value(),
            coverage: self.coverage.value(),
        }
    }
}

/// How many bytes of documents a context has, each counted once.
fn unique_bytes(context: &AssembledContext) -> usize {
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

/// nDCG@10 and recall@100 of rankings of documents.
fn measure_rankings(
    queries: &[DataQuery],
    grades: &Grades,
    mut ranking: impl FnMut(&DataQuery) -> Result<Vec<String>, CliError>,
) -> Result<Measured, CliError> {
    let (mut ndcg, mut recall) = (Mean::default(), Mean::default());
    let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    for query in queries {
        let none = BTreeMap::new();
        let grades = grades.get(&query.id).unwrap_or(&none);
        let ranked = ranking(query)?;
        let gain = |ranked: &mut dyn Iterator<Item = f64>| -> f64 {
            ranked.take(10).enumerate().map(|(rank, grade)| grade * discount(rank)).sum()
        };
        let found = gain(&mut ranked.iter().map(|id| grades.get(id).copied().unwrap_or_default()));
        let mut best: Vec<f64> = grades.values().copied().collect();
        best.sort_by(|a, b| b.total_cmp(a));
        let best = gain(&mut best.into_iter());
        ndcg.add(if best > 0.0 { found / best } else { 0.0 });
        let relevant = |id: &&String| grades.get(*id).is_some_and(|grade| *grade > 0.0);
        let all = grades.values().filter(|grade| **grade > 0.0).count();
        recall.add(ranked.iter().take(100).filter(relevant).count() as f64 / all.max(1) as f64);
    }
    Ok(Measured {
        queries: queries.len(),
        ndcg_at_10: ndcg.value(),
        recall_at_100: recall.value(),
        contexts: None,
    })
}

impl Measured {
    fn text(&self) -> String {
        let mut text = format!(
            "queries          {}\nnDCG@10          {:.4}\nrecall@100       {:.4}\n",
            self.queries, self.ndcg_at_10, self.recall_at_100
        );
        if let Some(contexts) = &self.contexts {
            for (budget, share) in &contexts.gold_in_context {
                let fill = contexts.fill_by_budget.get(budget).copied().unwrap_or_default();
                text.push_str(&format!(
                    "at {budget:>5} tokens  gold in context {share:.4}, fill {fill:.4}\n"
                ));
            }
            let MeasuredContexts {
                contexts, overruns, top3_in_first5, adjacency, coverage, ..
            } = contexts;
            text.push_str(&format!(
                "overruns         {overruns} of {contexts} contexts\ntop 3 in first 5 {top3_in_first5:.4}\nadjacency        {adjacency:.4}\ncoverage         {coverage:.4}\n"
            ));
        }
        text
    }
}

/// Documents as files: what each is called in the data, and its title.
struct Written {
    names: BTreeMap<String, String>,
    about: BTreeMap<String, About>,
}

/// Writes each document into a file of its own.
fn write_documents(data: &Path, folder: &Path) -> Result<Written, CliError> {
    let failed = |error| CliError::io("write", folder, error);
    // What an earlier run left may be of other data.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut written = Written { names: BTreeMap::new(), about: BTreeMap::new() };
    for (number, DataDocument { id, title, text }) in read_lines(data)?.into_iter().enumerate() {
        let name = format!("{number:07}.txt");
        fs::write(folder.join(&name), text).map_err(failed)?;
        let mut about = About::default();
        about.title = Some(title).filter(|title| !title.is_empty());
        written.about.insert(name.clone(), about);
        written.names.insert(name, id);
    }
    Ok(written)
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CliError> {
    let text = input::read_text(path, LARGEST_DATA)?;
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let parsed = lines.map(|(line, number)| {
        serde_json::from_str(line).map_err(|error| invalid(path, number, error.to_string()))
    });
    parsed.collect()
}

fn invalid(path: &Path, line: usize, problem: String) -> CliError {
    CliError::input_line(path, line, problem)
}

fn read_grades(path: &Path) -> Result<Grades, CliError> {
    let mut grades = Grades::new();
    for (line, number) in input::read_text(path, LARGEST_DATA)?.lines().zip(1..) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [query, document, grade] = fields[..] else {
            return Err(invalid(
                path,
                number,
                "write query, document and grade, parted by tabs".to_owned(),
            ));
        };
        let grade = grade
            .trim()
            .parse()
            .map_err(|_| invalid(path, number, format!("'{grade}' is no grade")))?;
        grades.entry(query.to_owned()).or_default().insert(document.to_owned(), grade);
    }
    Ok(grades)
}

fn read_rankings(path: &Path) -> Result<BTreeMap<String, Vec<String>>, CliError> {
    let mut rankings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (line, number) in input::read_text(path, LARGEST_DATA)?.lines().zip(1..) {
        let Some((query, document)) = line.split_once('\t') else {
            return Err(invalid(
                path,
                number,
                "write query and document, parted by a tab".to_owned(),
            ));
        };
        rankings.entry(query.to_owned()).or_default().push(document.to_owned());
    }
    Ok(rankings)
}
