//! Figures of large collections, for docs/reference/postgres.md. Run by hand, optimized:
//!
//! `PANNIER_SCALE=10000,100000 cargo test --release -p pannier-postgres --test scale -- --ignored --nocapture --test-threads 1`
//!
//! A million chunks take 12 GB in the folder of temporary files, and half an hour. `PANNIER_POSTGRES_OPTIONS` has options of the
//! server, as in `-c shared_buffers=1GB`. With `PANNIER_SERVER`, the collection of a server that runs is filled or measured again.
#![cfg(unix)]

mod support;

use std::time::{Duration, Instant};

use pannier_docs::{
    BuildOptions, Corpus, DocumentSource, Embedder, EmbedderError, Model, QueryVector, SearchMode,
    SearchOptions, VectorSource, dot_product,
};
use pannier_postgres::{Database, EXACT_MAX_CHUNKS};
use support::{HashEmbedder, Numbers, Scratch, database};

/// Words by rank: their frequency falls with it, as in natural texts.
fn text(numbers: &mut Numbers, words: usize) -> String {
    let next = |numbers: &mut Numbers| {
        let share = numbers.next(1 << 20) as f64 / f64::from(1 << 20);
        word((50_000_f64.powf(share)) as usize) + " "
    };
    (0..words).map(|_| next(numbers)).collect()
}

/// A text about two of a thousand subjects: two thirds of its words are theirs, the others those of any text.
fn topical(numbers: &mut Numbers, words: usize) -> String {
    let subjects = [numbers.next(1_000), numbers.next(1_000)];
    let mut next = || match numbers.next(3) {
        0 => text(numbers, 1),
        own => {
            let share = numbers.next(1 << 20) as f64 / f64::from(1 << 20);
            word(100_000 + subjects[own - 1] * 200 + 200_f64.powf(share) as usize) + " "
        }
    };
    (0..words).map(|_| next()).collect()
}

/// A function that generates a text with a number of words.
type Generate = fn(&mut Numbers, usize) -> String;

/// Adds documents of one chunk each, in batches.
fn fill(
    database: &Database,
    generate: Generate,
    count: usize,
    options: &BuildOptions<'_>,
) -> Duration {
    let started = Instant::now();
    for start in (0..count).step_by(2_048) {
        let documents: Vec<(String, String)> = (start..(start + 2_048).min(count))
            .map(|number| {
                let text = generate(&mut Numbers(number as u64 * 7_919 + 1), 110);
                (path(number), text)
            })
            .collect();
        let documents: Vec<(&str, &str)> =
            documents.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        database.put(&documents, options).unwrap();
    }
    started.elapsed()
}

/// Returns the processor time of the server and of this process, in milliseconds. Unlike the time that passes, it does not depend
/// on what else the machine does.
fn processor_ms() -> [f64; 2] {
    let server = support::server().unwrap();
    let postmaster = std::fs::read_to_string(server.folder.join("pid")).unwrap().trim().to_owned();
    let mut ticks = [0.0; 2];
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let is_own = entry.file_name().to_str() == Some(&std::process::id().to_string());
        if fields.len() > 12 && (is_own || fields[1] == postmaster) {
            let own = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
            ticks[usize::from(is_own)] += own;
        }
    }
    // A tick is ten milliseconds on Linux.
    ticks.map(|ticks| ticks * 10.0)
}

/// Calls a function `count` times, and describes the times that passed and those of processors.
fn measure(count: usize, mut call: impl FnMut(usize)) -> String {
    let (mut times, before) = (Vec::new(), processor_ms());
    for number in 0..count {
        let started = Instant::now();
        call(number);
        times.push(started.elapsed());
    }
    let after = processor_ms();
    let mean = |index: usize| (after[index] - before[index]) / count as f64;
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    format!(
        "p50 {:.1} ms, p99 {:.1} ms; processor: server {:.1} ms, client {:.1} ms",
        at(0.5),
        at(0.99),
        mean(0),
        mean(1)
    )
}

fn search(database: &Database, query: &str) {
    let mut options = SearchOptions::default();
    options.mode = SearchMode::Lexical;
    let hits = database.snapshot().unwrap().search(query, &options, QueryVector::None).unwrap();
    assert!(!hits.is_empty(), "{query}");
}

/// Returns the word of a rank: letters that no stemmer changes.
fn word(rank: usize) -> String {
    let letters: String = rank
        .to_string()
        .bytes()
        .map(|digit| char::from(b"bcdfghklmn"[usize::from(digit - b'0')]))
        .collect();
    letters + "o"
}

/// Adds generated documents of one chunk by SQL: 80 words of which a few are frequent, with their postings.
fn fill_by_sql(address: &str, first: usize, end: usize) {
    let sql = format!(
        "CREATE TEMP TABLE new AS SELECT d AS number, t, count(*)::int AS count FROM (
             SELECT d, floor(power(50000, random()))::int AS t
             FROM generate_series({first}, {end} - 1) AS d, generate_series(1, 80)) AS w GROUP BY d, t;
         INSERT INTO pannier.document (collection, path, id_path, hash, version, given, kind, words, chunk_words,
             chunk_count, term_count, bytes, content)
         SELECT 1, 'generated/' || d, 'generated/' || d, decode(lpad(to_hex(d), 64, '0'), 'hex'), d, 0, 0, 80, 80, 1,
             0, 1000, decode(repeat('61', 1000), 'hex') FROM generate_series({first}, {end} - 1) AS d;
         INSERT INTO pannier.chunk SELECT id, 0, 0, 1000, 1, '', '', '' FROM pannier.document
             WHERE path LIKE 'generated/%' AND substr(path, 11)::int >= {first};
         INSERT INTO pannier.posting SELECT 1, d.id, n.count, 80, n.count, 80, 1, 1, false,
             translate(n.t::text, '0123456789', 'bcdfghklmn') || 'o',
             decode('0050' || lpad(to_hex(n.count), 2, '0') || '0000' || repeat('01', n.count), 'hex')
             FROM new n JOIN pannier.document d ON d.collection = 1 AND d.path = 'generated/' || n.number
             ORDER BY d.id;
         INSERT INTO pannier.delta VALUES (1, {n}, {n} * 1000, {n} * 80, {n} * 250, {n}, {n} * 80, 0, 0);
         DROP TABLE new;",
        n = end - first
    );
    support::server().unwrap().sql(address, &sql);
}

/// Returns the path of a document that `fill` writes.
fn path(number: usize) -> String {
    format!("folder{}/{number}.txt", number % 97)
}

fn prepare(database: &Database) {
    if database.snapshot().is_ok() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("first.md", "first");
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
}

#[test]
#[ignore = "takes minutes"]
fn lexical_search_and_updates() {
    let Some((database, address)) = database() else { return };
    let server = support::server().unwrap();
    let sizes = std::env::var("PANNIER_SCALE").unwrap_or_else(|_| "10000,100000".to_owned());
    let sizes: Vec<usize> = sizes.split(',').map(|size| size.parse().unwrap()).collect();
    prepare(&database);
    let done = "SELECT count(*) FROM pannier.document WHERE path LIKE 'generated/%'";
    let done: usize = server.sql(&address, done).trim().parse().unwrap();
    let mut filled = done;
    let is_smaller = |size: &&usize| **size < done;
    for size in sizes.iter().skip_while(is_smaller) {
        let started = Instant::now();
        for first in (filled..*size).step_by(100_000) {
            fill_by_sql(&address, first, (first + 100_000).min(*size));
        }
        filled = *size;
        server.sql(&address, "VACUUM ANALYZE");
        eprintln!("{size} chunks, generated in {:?}", started.elapsed());
        let tables = server.sql(
            &address,
            "SELECT relname, pg_size_pretty(pg_table_size(c.oid)), pg_size_pretty(pg_indexes_size(c.oid))
             FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
             WHERE nspname = 'pannier' AND relname IN ('chunk', 'document', 'posting') ORDER BY relname",
        );
        eprintln!("table and indexes: {}", tables.trim().replace('\n', "; "));
        let mut numbers = Numbers(4_711);
        let mut query = |low: usize, high: usize| -> String {
            let words = (0..4).map(|_| word(low + numbers.next(high - low)) + " ");
            words.collect()
        };
        // The word of rank r is in about 80 / (r * ln 50000) of the chunks: in less than a tenth from rank 75.
        let selective: Vec<String> = (0..200).map(|_| query(100, 5_000)).collect();
        let frequent: Vec<String> = (0..50).map(|_| query(5, 60)).collect();
        // The same number of matches in all sizes: the rarer the words, the more chunks.
        let factor = size / sizes[0];
        let same: Vec<String> = (0..200).map(|_| query(400 * factor, 500 * factor)).collect();
        selective[..20].iter().for_each(|query| search(&database, query));
        for (name, queries) in
            [("selective", &selective), ("frequent", &frequent), ("same matches", &same)]
        {
            eprintln!(
                "{name}: {}",
                measure(queries.len(), |number| search(&database, &queries[number]))
            );
        }
        let changed = measure(50, |number| {
            let text = text(&mut Numbers(number as u64 + 99), 110);
            database.put(&[("changed.txt", &text)], &BuildOptions::default()).unwrap();
        });
        eprintln!("one changed document: {changed}");
        let (count, before) = (4_096, processor_ms());
        let time = fill(&database, text, count, &BuildOptions::default());
        let after = processor_ms();
        let mean = |index: usize| (after[index] - before[index]) / count as f64;
        eprintln!(
            "loading: {:.0} chunks/s; processor for each: server {:.2} ms, client {:.2} ms",
            count as f64 / time.as_secs_f64(),
            mean(0),
            mean(1)
        );
        let paths: Vec<String> = (0..count).map(path).collect();
        database.remove(&paths.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    }
}

/// An embedder with the geometry of those of texts: 384 dimensions, of which about thirty are independent, and noise in all.
#[derive(Debug)]
struct LatentEmbedder {
    model: Model,
    words: HashEmbedder,
    /// The directions of the independent dimensions.
    directions: Vec<Vec<f32>>,
}

impl LatentEmbedder {
    fn new() -> Self {
        let mut numbers = Numbers(77);
        let mut row = || (0..384).map(|_| numbers.next(2_001) as f32 / 1_000.0 - 1.0).collect();
        let directions = (0..32).map(|_| row()).collect();
        let model = Model::new("latent", format!("{:064}", 32), 384);
        Self { model, words: HashEmbedder::new(32), directions }
    }
}

impl Embedder for LatentEmbedder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        let latent = self.words.embed(texts)?;
        let embed = |(text, latent): (&&str, Vec<i16>)| {
            let mut noise =
                Numbers(text.len() as u64 * 7_919 + latent[0].unsigned_abs() as u64 + 1);
            let component = |index: usize| {
                let weighted = latent.iter().zip(&self.directions);
                let sum: f32 = weighted.map(|(own, row)| f32::from(*own) / 1e4 * row[index]).sum();
                sum.tanh() + (noise.next(2_001) as f32 / 1_000.0 - 1.0) * 0.1
            };
            let vector: Vec<f32> = (0..384).map(component).collect();
            pannier_docs::quantize(&vector).unwrap()
        };
        Ok(texts.iter().zip(latent).map(embed).collect())
    }
}

#[test]
#[ignore = "takes minutes"]
fn the_index_of_vectors_finds_nearly_all() {
    assert!(vector_recall("32 independent dimensions", &LatentEmbedder::new()) >= 0.98);
}

/// A harder case: the dimensions are independent, so a query is about as close to thousands of documents.
#[test]
#[ignore = "takes minutes"]
fn the_index_of_vectors_finds_nearly_all_of_independent_dimensions() {
    assert!(vector_recall("384 independent dimensions", &HashEmbedder::new(384)) >= 0.98);
}

/// Returns which share of the nearest 50 the index finds that comparing all vectors gives.
fn vector_recall(name: &str, embedder: &dyn Embedder) -> f64 {
    let Some((database, _)) = database() else { return 1.0 };
    let vectors =
        BuildOptions { vectors: VectorSource::Embedder(embedder), ..BuildOptions::default() };
    let scratch = Scratch::new();
    scratch.write("first.md", "first");
    let source = DocumentSource::new(scratch.docs());
    database.build(&source, &vectors, &mut |_| {}).unwrap();
    let count = EXACT_MAX_CHUNKS as usize + 10_000;
    let time = fill(&database, topical, count, &vectors);
    eprintln!("{name}: {count} vectors of 384 dimensions, loaded in {time:.0?}");
    let queries: Vec<String> =
        (0..50).map(|seed| topical(&mut Numbers(seed * 31 + 3), 12)).collect();
    let semantic = |database: &Database, name: &str| -> Vec<Vec<String>> {
        let mut options = SearchOptions::default();
        options.mode = SearchMode::Semantic;
        let mut all = Vec::new();
        let times = measure(queries.len(), |number| {
            let hits = database.snapshot().unwrap().search(
                &queries[number],
                &options,
                QueryVector::Embedder(embedder),
            );
            all.push(hits.unwrap().into_iter().map(|hit| hit.path).collect());
        });
        eprintln!("{name}: {times}");
        all
    };
    let exact = semantic(&database, "exact");
    // The exact answers, by comparing with every vector.
    let query = &embedder.embed(&[&queries[0]]).unwrap()[0];
    let mut products: Vec<(i32, String)> = (0..count)
        .map(|number| {
            let text = topical(&mut Numbers(number as u64 * 7_919 + 1), 110);
            let vector = &embedder.embed(&[&text]).unwrap()[0];
            (-dot_product(vector, query), path(number))
        })
        .collect();
    products.sort_unstable();
    assert!(products.iter().take(50).map(|own| &own.1).eq(&exact[0]));
    let started = Instant::now();
    database.create_vector_index().unwrap();
    eprintln!("index: created in {:.0?}", started.elapsed());
    let approximate = semantic(&database, "indexed");
    let found = exact.iter().zip(&approximate).map(|(exact, own)| {
        exact.iter().filter(|path| own.contains(path)).count() as f64 / exact.len() as f64
    });
    let recall = found.sum::<f64>() / exact.len() as f64;
    eprintln!("recall@50: {recall:.4}");
    recall
}
