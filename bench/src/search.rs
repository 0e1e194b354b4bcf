//! Lexical search next to `tantivy`: the same chunks, the same queries, one process, one thread each.
//!
//! `tantivy` has one segment, a stemmer and a stop-word filter, and is mapped into memory. Its time is measured twice: for the
//! addresses of ten results, and for their stored texts, which a search of ours always returns. The first round of ours is
//! printed apart: it reads and checks the posting lists.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pannier_docs::{
    BuildOptions, DocumentIndex, DocumentSource, QueryVector, SearchMode, SearchOptions, build,
};
use serde::Deserialize;
use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{
    Language, LowerCaser, SimpleTokenizer, Stemmer, StopWordFilter, TextAnalyzer,
};
use tantivy::{Index, Searcher, TantivyDocument};

use crate::measure::{ratio, show};
use crate::retrieval::Numbers;

/// The number of chunks in a document.
const SECTIONS: usize = 10;
/// The number of times that a query is measured.
const ROUNDS: usize = 5;

pub(crate) fn run() {
    title();
    generated("5k", 5_000);
    generated("100k", 100_000);
    match std::env::var_os("PANNIER_DATA") {
        Some(data) => {
            let root = root().join("real");
            let queries = write_data(Path::new(&data), &root.join("docs"));
            compare("real texts", &root, &queries);
        }
        None => println!("\n    real texts: skipped, PANNIER_DATA does not name their folder"),
    }
    segments();
}

/// A million chunks.
pub(crate) fn million() {
    title();
    generated("1M", 1_000_000);
}

fn title() {
    println!("\nSearch by words: ten results, queries of two to eight words; ours / tantivy\n");
    println!("    {:<22}{:>11}{:>10}{:>12}{:>24}", "", "p50", "p99", "first p99", "ratio");
}

fn generated(name: &str, chunks: usize) {
    let root = root().join(name);
    write_documents(&root.join("docs"), 0..chunks / SECTIONS);
    compare(name, &root, &generated_queries());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/search-bench")
}

/// Searches of an index with many segments next to those of the same documents in one segment.
fn segments() {
    let root = root().join("segments");
    let _ = fs::remove_dir_all(&root);
    let (docs, many, one) = (root.join("docs"), root.join("many"), root.join("one"));
    let mut next = 0;
    // As many as the merge policy keeps: three of each tier.
    for size in [2_048, 512, 128, 32, 8, 2] {
        for _ in 0..3 {
            write_documents(&docs, next..next + size);
            next += size;
            update(&docs, &many);
        }
    }
    update(&docs, &one);
    let (many, one) = (open(&many), open(&one));
    let queries = generated_queries();
    for query in &queries {
        let texts = |index| search(index, query).into_iter().map(|hit| (hit.id, hit.lexical));
        assert!(texts(&many).eq(texts(&one)), "{query}");
    }
    let time = |index| percentiles(&queries, ROUNDS, |query| search(index, query).len());
    let (of_many, of_one) = (time(&many), time(&one));
    println!(
        "\n    {} chunks in {} segments   p50 {}, p99 {}; in one segment   p50 {}, p99 {}; {:.2}x, {:.2}x",
        many.manifest().chunks,
        many.manifest().segments.len(),
        show(of_many.0),
        show(of_many.1),
        show(of_one.0),
        show(of_one.1),
        ratio(of_many.0, of_one.0),
        ratio(of_many.1, of_one.1)
    );
}

fn update(docs: &Path, index: &Path) {
    let source = DocumentSource::new(docs);
    build(&source, index, &BuildOptions::default(), &mut |_| {}).expect("an index");
}

fn open(path: &Path) -> DocumentIndex {
    DocumentIndex::open(path).expect("an index")
}

fn search(index: &DocumentIndex, query: &str) -> Vec<pannier_docs::Hit> {
    let mut options = SearchOptions::default();
    (options.mode, options.lexical_k, options.top_k) = (SearchMode::Lexical, 10, 10);
    index.search(query, &options, QueryVector::None).expect("hits")
}

/// The median and the 99th percentile of the time of a query, which is the lowest of several rounds: the noise of the machine
/// is not a property of a query.
fn percentiles(
    queries: &[String],
    rounds: usize,
    mut search: impl FnMut(&str) -> usize,
) -> (Duration, Duration) {
    let mut times = vec![Duration::MAX; queries.len()];
    for _ in 0..rounds {
        for (query, best) in queries.iter().zip(&mut times) {
            let start = Instant::now();
            std::hint::black_box(search(query));
            *best = start.elapsed().min(*best);
        }
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn compare(name: &str, root: &Path, queries: &[String]) {
    update(&root.join("docs"), &root.join("index"));
    let index = open(&root.join("index"));
    let peer = Peer::open(&root.join("tantivy"), &index);
    let first = percentiles(queries, 1, |query| search(&index, query).len());
    let ours = percentiles(queries, ROUNDS, |query| search(&index, query).len());
    let addresses = percentiles(queries, ROUNDS, |query| peer.search(query, false));
    let texts = percentiles(queries, ROUNDS, |query| peer.search(query, true));
    let chunks = index.manifest().chunks;
    let (p50, p99) = (show(ours.0), show(ours.1));
    println!("    {name:<10}{chunks:>7} ours {p50:>10}{p99:>10}{:>12}", show(first.1));
    for (what, times) in [("tantivy, texts", texts), ("tantivy, addresses", addresses)] {
        let (p50, p99) = (show(times.0), show(times.1));
        let ratios = format!("{:.2}x, {:.2}x", ratio(ours.0, times.0), ratio(ours.1, times.1));
        println!("    {what:>22} {p50:>10}{p99:>10}{ratios:>36}");
    }
}

/// An index of `tantivy` with the chunks of ours.
struct Peer {
    searcher: Searcher,
    parser: QueryParser,
}

impl Peer {
    fn open(folder: &Path, ours: &DocumentIndex) -> Self {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("english")
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let options = TextOptions::default().set_indexing_options(indexing) | STORED;
        let body = schema.add_text_field("body", options);
        let stamp = folder.with_extension("version");
        let is_current =
            fs::read_to_string(&stamp).is_ok_and(|version| version == ours.manifest().version);
        let index = match is_current {
            true => Index::open_in_dir(folder).expect("an index"),
            false => {
                let _ = fs::remove_dir_all(folder);
                fs::create_dir_all(folder).expect("a folder");
                Index::create_in_dir(folder, schema.build()).expect("an index")
            }
        };
        let analyzer = TextAnalyzer::builder(SimpleTokenizer::default())
            .filter(LowerCaser)
            .filter(StopWordFilter::new(Language::English).expect("stop words"))
            .filter(Stemmer::new(Language::English))
            .build();
        index.tokenizers().register("english", analyzer);
        if !is_current {
            let mut writer = index.writer_with_num_threads(1, 400 << 20).expect("a writer");
            for hit in ours.all_chunks().expect("chunks") {
                let hit = hit.expect("a chunk");
                let mut document = TantivyDocument::new();
                document.add_text(body, format!("{}\n{}", hit.heading_path, hit.text));
                writer.add_document(document).expect("a document");
            }
            writer.commit().expect("a commit");
            let segments = index.searchable_segment_ids().expect("segments");
            if segments.len() > 1 {
                writer.merge(&segments).wait().expect("one segment");
            }
            writer.wait_merging_threads().expect("one segment");
            fs::write(stamp, &ours.manifest().version).expect("a file");
        }
        let searcher = index.reader().expect("a reader").searcher();
        assert_eq!(searcher.num_docs(), ours.manifest().chunks);
        Self { parser: QueryParser::for_index(&index, vec![body]), searcher }
    }

    fn search(&self, query: &str, is_stored: bool) -> usize {
        let (query, _) = self.parser.parse_query_lenient(query);
        let best = self.searcher.search(&query, &TopDocs::with_limit(10).order_by_score());
        let best = best.expect("results");
        if is_stored {
            for (_, address) in &best {
                let document: TantivyDocument = self.searcher.doc(*address).expect("a document");
                std::hint::black_box(document);
            }
        }
        best.len()
    }
}

/// Writes documents of ten sections, if they are missing.
fn write_documents(folder: &Path, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let part = folder.join(format!("part-{:03}", number / 1_000));
        let path = part.join(format!("document-{number:06}.md"));
        if number % 1_000 == 0 {
            fs::create_dir_all(&part).expect("a folder");
        }
        if path.exists() {
            continue;
        }
        let mut text = String::new();
        for section in 0..SECTIONS {
            let mut numbers = Numbers::new((number * SECTIONS + section) as u64);
            let words: Vec<String> = (0..100).map(|_| numbers.word()).collect();
            text.push_str(&format!("## {}\n\n{}.\n\n", words[..3].join(" "), words.join(" ")));
        }
        fs::write(path, text).expect("a document");
    }
}

fn generated_queries() -> Vec<String> {
    let query = |number: usize| {
        let mut numbers = Numbers::new(number as u64 + (1 << 40));
        let words: Vec<String> = (0..2 + number % 7).map(|_| numbers.word()).collect();
        words.join(" ")
    };
    (0..1_000).map(query).collect()
}

/// Writes the documents of the data sets as files, and returns their queries.
fn write_data(data: &Path, folder: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Line {
        id: String,
        #[serde(default)]
        title: String,
        text: String,
    }
    let mut queries = Vec::new();
    for (set, ending) in [("scifact", "md"), ("xquad-en", "md"), ("cosqa-dev", "py")] {
        let lines = |name: &str| -> Vec<Line> {
            let text = fs::read_to_string(data.join(set).join(name)).unwrap_or_default();
            text.lines().map(|line| serde_json::from_str(line).expect("a line of data")).collect()
        };
        fs::create_dir_all(folder.join(set)).expect("a folder");
        for line in lines("docs.jsonl") {
            let path = folder.join(set).join(format!("{}.{ending}", line.id));
            let text = format!("{}\n\n{}\n", line.title, line.text);
            if !path.exists() {
                fs::write(path, text).expect("a document");
            }
        }
        queries.extend(lines("queries.jsonl").into_iter().map(|line| line.text));
    }
    queries
}
