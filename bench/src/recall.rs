//! Contexts of other ways to fill a budget, for the same judge: `pannier eval docs --contexts FILE` measures each file.
//!
//! `RECALL_DATA` is a data set, `RECALL_WORK` the folder in which `pannier eval docs --keep` left its index, and `RECALL_OUT` the
//! folder for the results: NAME.jsonl with a line for each query and budget. All but `bm25` choose from the same 50 passages with
//! the same scores; `bm25` searches windows of 1,000 bytes by `tantivy`. Four bytes are a token, and two bytes separate passages.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use pannier_docs::{DocumentIndex, Hit, QueryVector, SearchMode, SearchOptions};
use serde::Deserialize;
use serde_json::json;
use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{
    IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::{Index, Searcher, TantivyDocument};

use crate::search::english;

const CANDIDATES: usize = 50;
const SEPARATOR_BYTES: usize = 2;
/// Of the windows of `bm25`.
const WINDOW_BYTES: usize = 1_000;
const OVERLAP_BYTES: usize = 200;
/// The weight of relevance in MMR.
const LAMBDA: f64 = 0.5;

#[derive(Deserialize)]
struct Line {
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

pub(crate) fn run() {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(data), Some(work), Some(out)) =
        (folder("RECALL_DATA"), folder("RECALL_WORK"), folder("RECALL_OUT"))
    else {
        println!(
            "\nRecall: skipped; `bench/tables recall` sets RECALL_DATA, RECALL_WORK and RECALL_OUT"
        );
        return;
    };
    let lines = |name: &str| -> Vec<Line> {
        let text = fs::read_to_string(data.join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of data")).collect()
    };
    let documents = lines("docs.jsonl");
    let ids: Vec<&str> = documents.iter().map(|line| line.id.as_str()).collect();
    let budgets: &[usize] = match ids.is_empty() {
        true => &[1_000, 2_000, 4_000],
        false => &[200, 400, 800, 1_200],
    };
    // `pannier eval docs` names the files of `docs.jsonl` by their line.
    let id = |path: &str| match line_number(path).and_then(|line| ids.get(line)) {
        Some(id) => (*id).to_owned(),
        None => path.to_owned(),
    };
    let index = DocumentIndex::open(work.join("cache")).expect("an index");
    let windows = Windows::new(&index, &documents);
    let mut search = SearchOptions::default();
    (search.mode, search.lexical_k, search.top_k) = (SearchMode::Lexical, CANDIDATES, CANDIDATES);
    fs::create_dir_all(&out).expect("a folder");
    let mut files: BTreeMap<&str, fs::File> = BTreeMap::new();
    for query in lines("queries.jsonl") {
        let hits = index.search(&query.text, &search, QueryVector::None).expect("hits");
        let pool = Pool::new(hits);
        let windows = windows.search(&query.text);
        for budget in budgets {
            let bytes = budget * 4;
            let whole = |chosen: Vec<usize>| -> Vec<Passage> {
                chosen.into_iter().map(|i| pool.passages[i].clone()).collect()
            };
            let contexts = [
                ("top-k", whole(pool.top_k(bytes))),
                ("top-k-cut", cut(&pool.passages, bytes)),
                ("bm25", cut(&windows, bytes)),
                ("mmr", whole(pool.mmr(bytes))),
                ("facility-location", whole(pool.facility_location(bytes))),
                ("adagres-like", whole(pool.adagres(bytes))),
                ("cupel-greedy", whole(pool.cupel(*budget, Box::new(cupel::GreedySlice)))),
                ("cupel-knapsack", whole(pool.cupel(*budget, knapsack()))),
            ];
            for (name, passages) in contexts {
                let file = files.entry(name).or_insert_with(|| {
                    fs::File::create(out.join(format!("{name}.jsonl"))).expect("a file")
                });
                let sent: usize = passages.iter().map(|p| p.range.len() + SEPARATOR_BYTES).sum();
                let passages: Vec<_> = passages
                    .iter()
                    .map(|passage| {
                        json!([id(&passage.path), passage.range.start, passage.range.end])
                    })
                    .collect();
                let tokens = sent.saturating_sub(SEPARATOR_BYTES).div_ceil(4);
                let line = json!({ "query": query.id, "budget": budget, "tokens": tokens, "passages": passages });
                writeln!(file, "{line}").expect("a line");
            }
        }
    }
}

fn line_number(path: &str) -> Option<usize> {
    path.strip_suffix(".txt")?.parse().ok()
}

fn knapsack() -> Box<dyn cupel::Slicer> {
    Box::new(cupel::KnapsackSlice::new(100).expect("it is valid"))
}

#[derive(Clone)]
struct Passage {
    path: String,
    range: Range<usize>,
}

/// Takes passages in order, and cuts the last one at the budget.
fn cut(passages: &[Passage], bytes: usize) -> Vec<Passage> {
    let mut rest = bytes;
    let mut chosen = Vec::new();
    for passage in passages {
        let length = passage.range.len().min(rest);
        if length == 0 {
            break;
        }
        let range = passage.range.start..passage.range.start + length;
        chosen.push(Passage { range, ..passage.clone() });
        rest = rest.saturating_sub(length + SEPARATOR_BYTES);
    }
    chosen
}

/// The candidates of a query.
struct Pool {
    passages: Vec<Passage>,
    texts: Vec<String>,
    /// From 0 to 1.
    relevance: Vec<f64>,
    /// Cosine similarity of TF-IDF vectors.
    similarity: Vec<Vec<f64>>,
}

impl Pool {
    fn new(hits: Vec<Hit>) -> Self {
        let score = |hit: &Hit| hit.lexical.as_ref().map_or(0.0, |lexical| lexical.score);
        let best = hits.iter().map(score).fold(f64::MIN_POSITIVE, f64::max);
        let relevance = hits.iter().map(|hit| score(hit) / best).collect();
        let vectors = tf_idf(hits.iter().map(|hit| hit.text.as_str()));
        let cosine = |a: &HashMap<String, f64>, b: &HashMap<String, f64>| -> f64 {
            let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
            // Sorted, so that sums do not depend on the order of a hash map.
            let mut products: Vec<f64> =
                short.iter().filter_map(|(word, weight)| Some(weight * long.get(word)?)).collect();
            products.sort_by(f64::total_cmp);
            products.iter().sum()
        };
        let similarity = vectors.iter().map(|a| vectors.iter().map(|b| cosine(a, b)).collect());
        let similarity = similarity.collect();
        let texts = hits.iter().map(|hit| hit.text.clone()).collect();
        let passages = hits.into_iter().map(|hit| Passage { path: hit.path, range: hit.range });
        Self { passages: passages.collect(), texts, relevance, similarity }
    }

    fn bytes(&self, item: usize) -> usize {
        self.passages[item].range.len() + SEPARATOR_BYTES
    }

    /// The longest beginning of the ranking that fits.
    fn top_k(&self, bytes: usize) -> Vec<usize> {
        let mut sum = 0;
        let fits = |item: &usize| {
            sum += self.bytes(*item);
            sum <= bytes + SEPARATOR_BYTES
        };
        (0..self.passages.len()).take_while(fits).collect()
    }

    /// Takes the item with the highest gain that fits, until none does or no gain is positive.
    fn greedy(&self, bytes: usize, gain: impl Fn(&[usize], usize) -> Option<f64>) -> Vec<usize> {
        let (mut chosen, mut rest) = (Vec::new(), bytes + SEPARATOR_BYTES);
        loop {
            let open = (0..self.passages.len()).filter(|item| !chosen.contains(item));
            let fitting = open.filter(|item| self.bytes(*item) <= rest);
            let gains = fitting.filter_map(|item| Some((gain(&chosen, item)?, item)));
            // Of equal gains, the better rank.
            let best = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            let Some((_, item)) = best else { return chosen };
            rest -= self.bytes(item);
            chosen.push(item);
        }
    }

    /// Maximal marginal relevance.
    fn mmr(&self, bytes: usize) -> Vec<usize> {
        self.greedy(bytes, |chosen, item| {
            let nearest =
                chosen.iter().map(|other| self.similarity[item][*other]).fold(0.0, f64::max);
            Some(LAMBDA * self.relevance[item] - (1.0 - LAMBDA) * nearest)
        })
    }

    /// Facility location, weighted by relevance, per byte: each candidate counts by its similarity to the nearest chosen one.
    fn facility_location(&self, bytes: usize) -> Vec<usize> {
        self.greedy(bytes, |chosen, item| {
            let gain = |other: usize| {
                let covered =
                    chosen.iter().map(|one| self.similarity[other][*one]).fold(0.0, f64::max);
                self.relevance[other] * (self.similarity[other][item] - covered).max(0.0)
            };
            let gain: f64 = (0..self.passages.len()).map(gain).sum();
            (gain > 0.0).then(|| gain / self.bytes(item) as f64)
        })
    }

    /// Relevance less redundancy with all chosen ones. Its weight follows from the pool: the mean relevance equals the mean
    /// redundancy of as many items as the budget holds on average, as in AdaGReS.
    fn adagres(&self, bytes: usize) -> Vec<usize> {
        let count = self.passages.len().max(1) as f64;
        let mean_relevance = self.relevance.iter().sum::<f64>() / count;
        let pairs = (count * (count - 1.0)).max(1.0);
        let all: f64 = self.similarity.iter().flatten().sum();
        let own: f64 = (0..self.passages.len()).map(|i| self.similarity[i][i]).sum();
        let mean_similarity = ((all - own) / pairs).max(1e-9);
        let mean_bytes =
            (0..self.passages.len()).map(|i| self.bytes(i)).sum::<usize>() as f64 / count;
        let held = (bytes as f64 / mean_bytes.max(1.0)).clamp(2.0, count.max(2.0));
        let weight = mean_relevance / ((held - 1.0) / 2.0 * mean_similarity);
        self.greedy(bytes, |chosen, item| {
            let redundancy: f64 = chosen.iter().map(|other| self.similarity[item][*other]).sum();
            let gain = self.relevance[item] - weight * redundancy;
            (gain > 0.0).then_some(gain)
        })
    }

    /// The crate `cupel`, with the relevance as its hint.
    fn cupel(&self, budget: usize, slicer: Box<dyn cupel::Slicer>) -> Vec<usize> {
        let items = self.texts.iter().enumerate().map(|(i, text)| {
            cupel::ContextItemBuilder::new(text.as_str(), self.bytes(i).div_ceil(4) as i64)
                .future_relevance_hint(self.relevance[i])
                .build()
        });
        let items: Vec<_> = items.map(|item| item.expect("an item")).collect();
        let pipeline = cupel::Pipeline::builder()
            .scorer(Box::new(cupel::ReflexiveScorer))
            .slicer(slicer)
            .placer(Box::new(cupel::ChronologicalPlacer))
            .deduplication(true)
            .build()
            .expect("the pipeline is valid");
        let budget =
            cupel::ContextBudget::new(budget as i64, budget as i64, 0, HashMap::new(), 0.0);
        let selected = pipeline.run(&items, &budget.expect("it is valid")).expect("it fits");
        let position = |item: &cupel::ContextItem| {
            self.texts.iter().position(|text| text == item.content()).expect("one of ours")
        };
        selected.iter().map(position).collect()
    }
}

/// Returns vectors of length 1.
fn tf_idf<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<HashMap<String, f64>> {
    let counts: Vec<HashMap<String, f64>> = texts
        .map(|text| {
            let mut counts = HashMap::new();
            for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
                *counts.entry(word.to_lowercase()).or_default() += 1.0;
            }
            counts
        })
        .collect();
    let mut with_word: HashMap<&str, f64> = HashMap::new();
    for word in counts.iter().flat_map(HashMap::keys) {
        *with_word.entry(word).or_default() += 1.0;
    }
    let total = counts.len() as f64;
    let weighted = counts.iter().map(|counts| {
        let mut weights: Vec<(&String, f64)> = counts
            .iter()
            .map(|(word, count)| (word, count * (1.0 + total / with_word[word.as_str()]).ln()))
            .collect();
        weights.sort_unstable_by(|a, b| a.0.cmp(b.0));
        let length = weights.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
        weights.into_iter().map(|(word, weight)| (word.clone(), weight / length)).collect()
    });
    weighted.collect()
}

/// Windows of all documents in `tantivy`, as tutorials make them.
struct Windows {
    searcher: Searcher,
    parser: QueryParser,
    location: tantivy::schema::Field,
    passages: Vec<Passage>,
}

impl Windows {
    fn new(index: &DocumentIndex, documents: &[Line]) -> Self {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("english")
            .set_index_option(IndexRecordOption::WithFreqs);
        let body =
            schema.add_text_field("body", TextOptions::default().set_indexing_options(indexing));
        let location = schema.add_text_field("location", STRING | STORED);
        let tantivy = Index::create_in_ram(schema.build());
        tantivy.tokenizers().register("english", english());
        let mut writer = tantivy.writer_with_num_threads(1, 100 << 20).expect("a writer");
        let mut passages = Vec::new();
        for (path, text) in contents(index) {
            let line = line_number(&path).and_then(|line| documents.get(line));
            let title = line.map_or("", |line| &line.title);
            for range in windows(&text) {
                let mut document = TantivyDocument::new();
                document.add_text(body, format!("{title}\n{}", &text[range.clone()]));
                document.add_text(location, passages.len().to_string());
                writer.add_document(document).expect("a document");
                passages.push(Passage { path: path.clone(), range });
            }
        }
        writer.commit().expect("a commit");
        let searcher = tantivy.reader().expect("a reader").searcher();
        Self { parser: QueryParser::for_index(&tantivy, vec![body]), searcher, location, passages }
    }

    fn search(&self, query: &str) -> Vec<Passage> {
        let (query, _) = self.parser.parse_query_lenient(query);
        let best = self.searcher.search(&query, &TopDocs::with_limit(CANDIDATES).order_by_score());
        let passage = |address| {
            let document: TantivyDocument = self.searcher.doc(address).expect("a document");
            let number = document.get_first(self.location).and_then(|value| value.as_str());
            let number: usize = number.expect("a number").parse().expect("a number");
            self.passages[number].clone()
        };
        best.expect("results").into_iter().map(|(_, address)| passage(address)).collect()
    }
}

/// Returns the path and the text of each document.
fn contents(index: &DocumentIndex) -> Vec<(String, String)> {
    let mut contents: Vec<(String, String)> = Vec::new();
    for chunk in index.all_chunks().expect("chunks") {
        let chunk = chunk.expect("a chunk");
        if contents.last().is_none_or(|(path, _)| *path != chunk.path) {
            let document = index.read_documents(&[chunk.document]).expect("a document").pop();
            contents.push((chunk.path, document.expect("a document").content));
        }
    }
    contents
}

/// Returns windows that end after whitespace where there is some.
fn windows(text: &str) -> Vec<Range<usize>> {
    let boundary = |at: usize| text.floor_char_boundary(at);
    let mut windows = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let mut end = boundary(start + WINDOW_BYTES);
        if end < text.len() {
            let least = boundary(start + WINDOW_BYTES / 2);
            end = text[least..end]
                .rfind(char::is_whitespace)
                .map_or(end, |at| boundary(least + at + 1));
        }
        windows.push(start..end);
        if end == text.len() {
            break;
        }
        start = boundary(end - OVERLAP_BYTES).max(start + 1);
    }
    windows
}
