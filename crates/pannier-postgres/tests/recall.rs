//! The recall of the index of vectors, on real sentences with real models. Run by hand, optimized:
//!
//! `PANNIER_DATA=DIR PANNIER_MODELS=target/models cargo test --release -p pannier-postgres --test recall -- --ignored --nocapture`
//!
//! The sentences are those of the texts in `docs.jsonl`, of at least 40 characters; the queries are those of `queries.jsonl`.
#![cfg(unix)]

mod support;

use std::fs;
use std::path::Path;
use std::time::Instant;

use pannier_docs::{
    BuildOptions, Corpus, DocumentSource, Embedder, QueryVector, SearchMode, SearchOptions,
    VectorSource,
};
use pannier_postgres::{Database, EXACT_MAX_CHUNKS};
use support::{Scratch, database};

const DATA_SETS: [&str; 3] = ["scifact", "xquad-en", "cosqa-dev"];
const MIN_CHARS: usize = 40;
/// Of each data set.
const QUERIES: usize = 100;
/// The documents of a transaction.
const BATCH: usize = 2_048;

#[test]
#[ignore = "takes a minute"]
fn the_index_of_vectors_finds_nearly_all_with_a_static_model() {
    recall("static", "wordllama");
}

#[test]
#[ignore = "takes half an hour"]
fn the_index_of_vectors_finds_nearly_all_with_minilm() {
    recall("minilm", "minilm");
}

/// Compares the nearest 50 by the index with those by comparing all vectors.
fn recall(kind: &str, model: &str) {
    let (Some(data), Some(models)) =
        (std::env::var_os("PANNIER_DATA"), std::env::var_os("PANNIER_MODELS"))
    else {
        eprintln!("skipped: set PANNIER_DATA and PANNIER_MODELS");
        return;
    };
    let Some((database, _)) = database() else { return };
    let folder = Path::new(&models).join(model);
    let embedder = pannier_embed::open_embedder(&format!("{kind}:{}", folder.display()));
    let embedder = embedder.unwrap().unwrap();
    let (sentences, queries) = texts(Path::new(&data));
    assert!(sentences.len() > EXACT_MAX_CHUNKS as usize, "{} sentences", sentences.len());
    let options =
        BuildOptions { vectors: VectorSource::Embedder(&*embedder), ..BuildOptions::default() };
    let scratch = Scratch::new();
    database.build(&DocumentSource::new(scratch.docs()), &options, &mut |_| {}).unwrap();
    let started = Instant::now();
    for (number, batch) in sentences.chunks(BATCH).enumerate() {
        let path = |index: usize| format!("{:06}.txt", number * BATCH + index);
        let paths: Vec<String> = (0..batch.len()).map(path).collect();
        let documents: Vec<(&str, &str)> =
            paths.iter().map(String::as_str).zip(batch.iter().map(String::as_str)).collect();
        database.put(&documents, &options).unwrap();
    }
    let dimensions = embedder.model().dimensions;
    eprintln!("{model}: {} sentences, {dimensions} dimensions", sentences.len());
    eprintln!("loaded in {:.0?}", started.elapsed());
    let exact = nearest(&database, &queries, &*embedder);
    let started = Instant::now();
    database.create_vector_index().unwrap();
    eprintln!("index created in {:.0?}", started.elapsed());
    let indexed = nearest(&database, &queries, &*embedder);
    let share = |exact: &Vec<String>, own: &Vec<String>| {
        exact.iter().filter(|path| own.contains(path)).count() as f64 / exact.len() as f64
    };
    let mut shares: Vec<f64> =
        exact.iter().zip(&indexed).map(|(exact, own)| share(exact, own)).collect();
    shares.sort_by(f64::total_cmp);
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    eprintln!("recall@50 of {} queries: {mean:.4}, least {:.2}", shares.len(), shares[0]);
    assert!(mean >= 0.98, "{mean}");
}

/// Returns the sentences and the queries of the data sets.
fn texts(data: &Path) -> (Vec<String>, Vec<String>) {
    let (mut sentences, mut queries) = (Vec::new(), Vec::new());
    for name in DATA_SETS {
        let texts = |file: &str| -> Vec<String> {
            let text = fs::read_to_string(data.join(name).join(file)).unwrap();
            let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
            values
                .map(|value: serde_json::Value| value["text"].as_str().unwrap().to_owned())
                .collect()
        };
        for text in texts("docs.jsonl") {
            let parts = text.split('\n').flat_map(|line| line.split_inclusive(". "));
            let parts = parts.map(str::trim).filter(|part| part.chars().count() >= MIN_CHARS);
            sentences.extend(parts.map(str::to_owned));
        }
        queries.extend(texts("queries.jsonl").into_iter().take(QUERIES));
    }
    (sentences, queries)
}

/// Returns the paths of the nearest 50 sentences of each query.
fn nearest(database: &Database, queries: &[String], embedder: &dyn Embedder) -> Vec<Vec<String>> {
    let mut options = SearchOptions::default();
    options.mode = SearchMode::Semantic;
    let snapshot = database.snapshot().unwrap();
    let search = |query: &String| {
        let hits = snapshot.search(query, &options, QueryVector::Embedder(embedder)).unwrap();
        assert_eq!(hits.len(), 50);
        hits.into_iter().map(|hit| hit.path).collect()
    };
    queries.iter().map(search).collect()
}
