//! Search and assembly next to SQLite FTS5 and `bm25s`: the same texts, the same queries, one run.
//!
//! The peers are called from Python, in which a call costs a few microseconds; `bm25s` is installed below the target folder
//! when it is first needed. With `PANNIER_DATA` set to a folder of data sets (see `pannier eval`), the quality of FTS5 is
//! measured, too, by the same tool as ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pannier_docs::{
    Assembler, AssemblyConfig, BuildOptions, DocumentIndex, DocumentSource, Embedder,
    EmbedderError, Model, QueryVector, SearchMode, SearchOptions, TokenBudget, VectorSource, build,
    quantize,
};
use serde::Deserialize;

use crate::measure::{median, ratio, show};

const DIMENSIONS: usize = 384;

pub(crate) fn run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/retrieval-bench");
    fs::create_dir_all(&root).expect("a folder");
    println!("\nRetrieval: texts of about 600 bytes, queries of two to six words, ten results\n");
    let python = python(&root);
    for (name, count) in [("5k", 5_000), ("100k", 100_000)] {
        compare(&root.join(name), count, python.as_deref());
    }
    match std::env::var_os("PANNIER_DATA") {
        Some(data) => quality(&root, Path::new(&data), python.as_deref()),
        None => {
            println!("\n    quality: skipped, PANNIER_DATA does not name a folder of data sets");
        }
    }
}

fn compare(root: &Path, count: usize, python: Option<&Path>) {
    let texts: Vec<String> = (0..count).map(|number| text(number, 100)).collect();
    let queries: Vec<String> = (0..1_000).map(query).collect();
    let docs = root.join("docs");
    if fs::read_dir(&docs).map_or(0, Iterator::count) != count {
        let _ = fs::remove_dir_all(root);
        fs::create_dir_all(&docs).expect("a folder");
        for (number, text) in texts.iter().enumerate() {
            fs::write(docs.join(format!("{number:06}.txt")), text).expect("a document");
        }
    }
    let model = Noise(Model::new("noise", "noise", DIMENSIONS as u32));
    let options =
        BuildOptions { vectors: VectorSource::Embedder(&model), ..BuildOptions::default() };
    let start = Instant::now();
    build(
        &DocumentSource::new(&docs).patterns(["*.txt"]),
        &root.join("cache"),
        &options,
        &mut |_| {},
    )
    .expect("a cache");
    println!("    {count} texts, cache made or up to date in {}", show(start.elapsed()));
    let cache = DocumentIndex::open(root.join("cache")).expect("a cache");

    let mut search = SearchOptions::default();
    (search.mode, search.lexical_k, search.top_k) = (SearchMode::Lexical, 10, 10);
    let ours = percentiles(&queries, |query| {
        cache.search(query, &search, QueryVector::None).expect("hits").len()
    });
    println!("        by words     pannier      p50 {:>9}   p99 {:>9}", show(ours.0), show(ours.1));
    if let Some(python) = python {
        for (peer, times) in peers(root, python, &texts, &queries, None) {
            let (p50, p99) = (Duration::from_nanos(times.p50), Duration::from_nanos(times.p99));
            println!(
                "                     {peer:<12} p50 {:>9}   p99 {:>9}   {:.1}x, {:.1}x",
                show(p50),
                show(p99),
                ratio(p50, ours.0),
                ratio(p99, ours.1)
            );
        }
    }

    let mut semantic = search.clone();
    (semantic.mode, semantic.semantic_k) = (SearchMode::Semantic, 10);
    let vector = vector("query");
    let scan =
        median(9, || cache.search("", &semantic, QueryVector::Given(&vector)).expect("hits").len());
    let numbers = vec![1_i16; count * DIMENSIONS];
    let floor = median(9, || numbers.iter().fold(0_i64, |sum, number| sum + i64::from(*number)));
    println!(
        "        by vectors   all {count} x {DIMENSIONS}: {}; adding the numbers up: {}, {:.2}x",
        show(scan),
        show(floor),
        ratio(scan, floor)
    );

    let mut config = AssemblyConfig::default();
    config.search.mode = SearchMode::Lexical;
    let assembler = Assembler::new(&cache, config);
    let budget = TokenBudget::available(4_000);
    let whole = percentiles(&queries, |query| {
        assembler.assemble(query, &budget, QueryVector::None).expect("a context").chunks.len()
    });
    println!(
        "        assemble     4,000 tokens p50 {:>9}   p99 {:>9}   {:.1}x, {:.1}x the bare query",
        show(whole.0),
        show(whole.1),
        ratio(whole.0, ours.0),
        ratio(whole.1, ours.1)
    );
}

/// The median and the 99th percentile of a query.
fn percentiles(queries: &[String], mut ask: impl FnMut(&str) -> usize) -> (Duration, Duration) {
    queries.iter().take(50).for_each(|query| _ = std::hint::black_box(ask(query)));
    let mut times: Vec<Duration> = queries
        .iter()
        .map(|query| {
            let start = Instant::now();
            std::hint::black_box(ask(query));
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

#[derive(Deserialize)]
struct Times {
    p50: u64,
    p99: u64,
}

/// What the peers need for the same.
fn peers(
    root: &Path,
    python: &Path,
    texts: &[String],
    queries: &[String],
    run: Option<&Path>,
) -> BTreeMap<String, Times> {
    let write = |name: &str, texts: &[String]| {
        let lines: Vec<String> =
            texts.iter().map(|text| serde_json::to_string(text).expect("a string")).collect();
        let path = root.join(name);
        fs::write(&path, lines.join("\n")).expect("a file");
        path
    };
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("retrieval_peers.py"));
    command.arg(write("texts.jsonl", texts)).arg(write("queries.jsonl", queries));
    if let Some(run) = run {
        command.arg("--run").arg(run);
    }
    let output = command.output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("times")
}

/// A Python that has `bm25s`, or at least one that has SQLite.
fn python(root: &Path) -> Option<PathBuf> {
    let works = |python: &Path, code: &str| {
        Command::new(python).args(["-c", code]).output().is_ok_and(|output| output.status.success())
    };
    let system = PathBuf::from("python3");
    if !works(
        &system,
        "import sqlite3; sqlite3.connect(':memory:').execute('create virtual table t using fts5(x)')",
    ) {
        println!("    peers: skipped, there is no python3 with SQLite FTS5");
        return None;
    }
    let (folder, own) = (root.join("python"), root.join("python/bin/python"));
    if !works(&own, "import bm25s") {
        let made = Command::new(&system).args(["-m", "venv"]).arg(&folder).status();
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "bm25s==0.3.16"];
        let installed = made.and_then(|_| Command::new(&own).args(pip).status());
        if !installed.is_ok_and(|status| status.success()) {
            println!("    bm25s: skipped, it cannot be installed here");
        }
    }
    Some(if works(&own, "import sqlite3") { own } else { system })
}

/// The quality of FTS5, by `pannier eval`, next to ours.
fn quality(root: &Path, data: &Path, python: Option<&Path>) {
    #[derive(Deserialize)]
    struct Line {
        id: String,
        #[serde(default)]
        title: String,
        text: String,
    }
    let (Some(python), Some(ours)) = (python, crate::command::build()) else { return };
    let lines = |path: &Path| -> Vec<Line> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of data")).collect()
    };
    println!("\n    nDCG@10 and recall@100 of documents, by words");
    for name in ["scifact", "cosqa-dev", "xquad-en"] {
        let (documents, queries) = (
            lines(&data.join(name).join("docs.jsonl")),
            lines(&data.join(name).join("queries.jsonl")),
        );
        if documents.is_empty() {
            println!("        {name}: skipped, it is not there");
            continue;
        }
        let texts: Vec<String> =
            documents.iter().map(|line| format!("{}\n{}", line.title, line.text)).collect();
        let asked: Vec<String> = queries.iter().map(|line| line.text.clone()).collect();
        let run = root.join(format!("{name}.run"));
        peers(root, python, &texts, &asked, Some(&run));
        // Numbers are what the script knows; the data has names.
        let at = |number: &str| number.parse::<usize>().expect("a number");
        let text = fs::read_to_string(&run).expect("a run");
        let lines_of_run = text.lines().map(|line| {
            let (query, document) = line.split_once('\t').expect("two numbers");
            format!("{}\t{}\n", queries[at(query)].id, documents[at(document)].id)
        });
        let named: String = lines_of_run.collect();
        fs::write(&run, named).expect("a run");
        let eval = |more: &[&str]| {
            let mut command = Command::new(&ours);
            command.args(["eval", "--format", "json", "--data"]).arg(data.join(name)).args(more);
            let output = command.output().expect("the command");
            let measured: serde_json::Value =
                serde_json::from_slice(&output.stdout).expect("what was measured");
            (
                measured["ndcg_at_10"].as_f64().unwrap_or_default(),
                measured["recall_at_100"].as_f64().unwrap_or_default(),
            )
        };
        let (mine, theirs) = (eval(&[]), eval(&["--run", run.to_str().expect("a path")]));
        println!(
            "        {name:<10} pannier {:.4} {:.4}   SQLite FTS5 {:.4} {:.4}",
            mine.0, mine.1, theirs.0, theirs.1
        );
    }
}

/// A model whose vectors mean nothing.
#[derive(Debug)]
struct Noise(Model);

impl Embedder for Noise {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

fn vector(text: &str) -> Vec<i16> {
    let mut noise = Numbers(xxhash_rust::xxh3::xxh3_64(text.as_bytes()) | 1);
    let numbers: Vec<f32> =
        (0..DIMENSIONS).map(|_| noise.next() as f32 / (1 << 30) as f32 - 1.0).collect();
    quantize(&numbers).expect("numbers")
}

/// Numbers of 31 bits that look like chance.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed * 7_919 + 1_234_567)
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32
    }

    /// A word; the first are much more frequent than the last, as in a language.
    pub(crate) fn word(&mut self) -> String {
        let place = f64::from(self.next()) / f64::from(1_u32 << 31);
        let rank = (30_000_f64.powf(place) - 1.0) as u32;
        let letters = "bcdfghklmnprstvz".as_bytes();
        let mut word = String::new();
        let mut rest = rank * 7 + 11;
        while rest > 0 {
            word.push(char::from(letters[rest as usize % 16]));
            word.push(char::from(b"aeiou"[rest as usize / 16 % 5]));
            rest /= 80;
        }
        word
    }
}

fn text(number: usize, words: usize) -> String {
    let mut numbers = Numbers::new(number as u64);
    let words: Vec<String> = (0..words).map(|_| numbers.word()).collect();
    words.join(" ")
}

fn query(number: usize) -> String {
    let mut numbers = Numbers(number as u64 * 104_729 + 99);
    let words: Vec<String> = (0..2 + number % 5).map(|_| numbers.word()).collect();
    words.join(" ")
}
