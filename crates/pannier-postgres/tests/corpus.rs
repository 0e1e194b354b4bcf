//! The search of a database gives the answers of an index folder with the same documents.
#![cfg(unix)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pannier_docs::{
    BuildOptions, Corpus, DocsError, DocumentIndex, DocumentSource, Embedder, EmbedderError,
    FileRules, Filters, Fusion, Hit, ImportedVectors, Model, QueryVector, Ranking, RemovalReason,
    SearchMode, SearchOptions, SkipReason, VectorSource, build, parse_date,
};
use pannier_postgres::Database;
use support::{HashEmbedder, Numbers, Scratch, database, is_long, print_skipped};

fn options(change: impl FnOnce(&mut SearchOptions)) -> SearchOptions {
    let mut options = SearchOptions::default();
    change(&mut options);
    options
}

fn load(database: &Database, folder: &Path, options: &BuildOptions<'_>) {
    database.build(&DocumentSource::new(folder), options, &mut |_| {}).unwrap();
}

/// Everything of a hit that does not depend on the store: numbers of documents do.
fn without_number(mut hit: Hit) -> Hit {
    hit.document = 0;
    hit
}

fn assert_same(
    folder: &DocumentIndex,
    corpus: &dyn Corpus,
    query: &str,
    options: &SearchOptions,
    vector: QueryVector<'_>,
) {
    let search = |corpus: &dyn Corpus| -> Vec<Hit> {
        let hits = corpus.search(query, options, vector).unwrap();
        hits.into_iter().map(without_number).collect()
    };
    assert_eq!(search(corpus), search(folder), "{query:?} {options:?}");
}

/// Documents with sections, code, tests, dates, repeated and equal texts.
fn generate(scratch: &Scratch, documents: usize, seed: u64) {
    let mut numbers = Numbers(seed);
    for number in 0..documents {
        let (words, vocabulary) = (5 + numbers.next(700), 10 + numbers.next(300));
        let text = numbers.text(words, vocabulary);
        match number % 5 {
            0 => scratch.write(
                &format!("notes/Note{number}.md"),
                &format!(
                    "---\ndate: 2026-0{}-1{}\n---\n# Word{number}\n\n{text}\n\n## More\n\n{text}",
                    1 + number % 9,
                    number % 10
                ),
            ),
            1 => scratch.write(
                &format!("src/word{}.py", number % 7 + number),
                &format!("def word{number}():\n    {}", text.replace('\n', "\n    ")),
            ),
            2 => scratch.write(
                &format!("tests/test_word{number}.py"),
                &format!("def test_word1():\n    pass\n# {text}"),
            ),
            3 => scratch.write(&format!("same/{number}.txt"), "word1 word2 word3 and word1"),
            _ => scratch.write(&format!("plain/{number}.txt"), &text),
        }
    }
}

#[test]
fn generated_corpora_give_the_same_hits_scores_and_explanations() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    generate(&scratch, 120, 7);
    let folder = scratch.index(&BuildOptions::default());
    load(&database, &scratch.docs(), &BuildOptions::default());
    let snapshot = database.snapshot().unwrap();
    assert_eq!(snapshot.manifest().chunks, folder.manifest().chunks);
    let (own, others) = (snapshot.inspect().unwrap(), folder.inspect().unwrap());
    assert_eq!(
        (own.tokens, own.words, own.chunk_bytes),
        (others.tokens, others.words, others.chunk_bytes)
    );
    assert_eq!(snapshot.verify().unwrap(), [""; 0]);
    let queries = [
        "word1",
        "word2 word3",
        "word1 word1 word40",
        "word200 word3 note",
        "\"word1 word2\"",
        "\"word1 word2\" word7 \"word3 and\"",
        "test",
        "the",
        "",
        "nothing",
        "word5 word6 word7 word8 word9",
        "\"word0 word0\" word0",
    ];
    for query in queries {
        for ranking in [Ranking::Fields, Ranking::Body] {
            for k in [1, 3, 50, 400, usize::MAX] {
                let options = options(|own| {
                    (own.ranking, own.lexical_k, own.top_k) = (ranking, k, k);
                });
                assert_same(&folder, &snapshot, query, &options, QueryVector::None);
            }
        }
        let recent = options(|own| own.prefer_recent = true);
        assert_same(&folder, &snapshot, query, &recent, QueryVector::None);
    }
    let mut numbers = Numbers(99);
    for _ in 0..40 {
        let words = 1 + numbers.next(5);
        let query = numbers.text(words, 250);
        let k = [1, 2, 10, 50][numbers.next(4)];
        let options = options(|own| (own.lexical_k, own.top_k) = (k, k));
        assert_same(&folder, &snapshot, &query, &options, QueryVector::None);
    }
    let hits = snapshot.search("word1", &SearchOptions::default(), QueryVector::None).unwrap();
    let sorted = |mut hits: Vec<Hit>| {
        hits.sort_by(|a, b| a.id.cmp(&b.id));
        hits.into_iter().map(without_number).collect::<Vec<_>>()
    };
    let others = folder.search("word1", &SearchOptions::default(), QueryVector::None).unwrap();
    assert_eq!(
        sorted(snapshot.neighbors(&hits).unwrap()),
        sorted(Corpus::neighbors(&folder, &others).unwrap())
    );
    let ranks = |corpus: &dyn Corpus| -> Vec<(String, f64)> {
        let ranked = corpus.rank_documents("word1 word4").unwrap();
        let numbers: Vec<u32> = ranked.iter().map(|(number, _)| *number).collect();
        let documents = corpus.read_documents(&numbers).unwrap();
        documents.into_iter().map(|own| own.path).zip(ranked.into_iter().map(|own| own.1)).collect()
    };
    assert_eq!(ranks(&snapshot), ranks(&folder));
    let listed = |corpus: &dyn Corpus, start| corpus.list_documents(start, 7).unwrap();
    for start in [0, 5, 118, 120, 500] {
        assert_eq!(listed(&snapshot, start), listed(&folder, start));
    }
    let all = |corpus: &dyn Corpus| -> Vec<Hit> {
        corpus.all_chunks().unwrap().map(|hit| without_number(hit.unwrap())).collect()
    };
    assert!(all(&snapshot) == all(&folder));
    assert!(snapshot.find_document("same/3.txt").unwrap().is_some());
    assert_eq!(snapshot.find_document("same/3.TXT").unwrap(), None);
}

#[test]
fn filters_select_the_same_documents() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    generate(&scratch, 60, 21);
    scratch.write("notes/ünï.md", "Word1 with the KELVIN sign \u{212a} and Straße");
    scratch.write("deep/er/🦀,x.md", "word1");
    scratch.write("a+b (c).txt", "word1 100% of it's \"quoted\" \\ back");
    let folder = scratch.index(&BuildOptions::default());
    load(&database, &scratch.docs(), &BuildOptions::default());
    let snapshot = database.snapshot().unwrap();
    let paths: [&[&str]; 18] = [
        &["*.md"],
        &["notes/*"],
        &["**/*.py", "same/*"],
        &["/src/**"],
        &["note?.md"],
        &["{src,tests}/*.py"],
        &["[ab]*"],
        &["notes/ü*"],
        &["notes/???.md"],
        &["a+b (c).txt"],
        &["no'; DROP TABLE x; --"],
        &["notes/note[0-9].md"],
        &["Note[!1]*.md"],
        &["test_*1*.py"],
        &["**/test_word2.py"],
        &["notes/**/Note0.md", "**/🦀,x.md"],
        &["**/a+b (c).txt"],
        &["{notes,same}/**"],
    ];
    for paths in paths {
        let options = options(|own| {
            own.filters.paths = paths.iter().map(|path| (*path).to_owned()).collect();
        });
        assert_same(&folder, &snapshot, "word1 word2 test", &options, QueryVector::None);
    }
    let contains: [&[&str]; 8] = [
        &["WORD1"],
        &["word1 word2", "and"],
        &["k and stra"],
        &["straße"],
        &["100% of it's \"quoted\" \\"],
        &["\u{212a}"],
        &["never"],
        &["word3\0"],
    ];
    for contains in contains {
        let options = options(|own| {
            own.filters.contains = contains.iter().map(|text| (*text).to_owned()).collect();
            own.lexical_k = 5;
        });
        assert_same(&folder, &snapshot, "word1 word2 word3", &options, QueryVector::None);
    }
    for (after, before) in [
        (Some("2026-03-10"), None),
        (None, Some("2026-03-10")),
        (Some("2026-03-10T00:00:00.5Z"), Some("2026-08-01")),
    ] {
        let options = options(|own| {
            let mut filters = Filters::default();
            (filters.after, filters.before) =
                (after.and_then(parse_date), before.and_then(parse_date));
            own.filters = filters;
            own.prefer_recent = true;
        });
        assert_same(&folder, &snapshot, "word1 word2", &options, QueryVector::None);
    }
}

#[test]
fn vectors_and_hybrid_search_are_identical() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    generate(&scratch, 60, 3);
    let embedder = HashEmbedder::new(48);
    let vectors =
        BuildOptions { vectors: VectorSource::Embedder(&embedder), ..BuildOptions::default() };
    let folder = scratch.index(&vectors);
    load(&database, &scratch.docs(), &vectors);
    let snapshot = database.snapshot().unwrap();
    for query in ["word1", "word2 word3", "something else", "word1 \"word1 word2\""] {
        for mode in [SearchMode::Semantic, SearchMode::Hybrid] {
            for fusion in [Fusion::Score, Fusion::Rrf] {
                for k in [1, 10, 50, 200] {
                    let options = options(|own| {
                        (own.mode, own.fusion, own.semantic_k, own.lexical_k) =
                            (mode, fusion, k, k);
                    });
                    assert_same(
                        &folder,
                        &snapshot,
                        query,
                        &options,
                        QueryVector::Embedder(&embedder),
                    );
                }
            }
            let filtered = options(|own| {
                own.mode = mode;
                own.filters.paths = vec!["*.py".to_owned()];
                own.filters.contains = vec!["word1".to_owned()];
            });
            assert_same(&folder, &snapshot, query, &filtered, QueryVector::Embedder(&embedder));
        }
    }
    // Unchanged chunks keep their vectors.
    scratch.write("plain/4.txt", "word1 changed");
    let summary =
        database.build(&DocumentSource::new(scratch.docs()), &vectors, &mut |_| {}).unwrap();
    assert_eq!((summary.changed.count, summary.embedded), (1, 1));
    let error =
        database.build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {});
    assert!(matches!(error, Err(DocsError::Model { .. })), "{error:?}");
    // Another model replaces all vectors at once.
    let other = HashEmbedder::new(2_100);
    let vectors =
        BuildOptions { vectors: VectorSource::Embedder(&other), ..BuildOptions::default() };
    load(&database, &scratch.docs(), &vectors);
    let (folder, snapshot) = (scratch.index(&vectors), database.snapshot().unwrap());
    assert_same(
        &folder,
        &snapshot,
        "word1",
        &SearchOptions::default(),
        QueryVector::Embedder(&other),
    );
    let given = ImportedVectors::read("{\"id\":\"x\",\"vector\":[1]}".as_bytes()).unwrap();
    let vectors =
        BuildOptions { vectors: VectorSource::Imported(&given), ..BuildOptions::default() };
    let error = database.build(&DocumentSource::new(scratch.docs()), &vectors, &mut |_| {});
    assert!(matches!(error, Err(DocsError::NoVector { .. })), "{error:?}");
    assert_eq!(database.snapshot().unwrap().manifest().model.as_ref().unwrap().dimensions, 2_100);
}

/// Above the stated size, an index answers: nearly as comparing all vectors does, and exactly where a filter leaves too few.
#[test]
fn large_collections_use_the_index_of_vectors() {
    let Some((database, address)) = database() else { return };
    let server = support::server().unwrap();
    let scratch = Scratch::new();
    generate(&scratch, 70, 31);
    // Which of equal texts come first is no question of recall.
    fs::remove_dir_all(scratch.docs().join("same")).unwrap();
    // Above 2,000 dimensions the index has half precision. Above 4,000 a collection has no index.
    for (dimensions, kind) in [(96, "vector_ip_ops"), (2_100, "halfvec_ip_ops"), (4_100, "")] {
        let database = database.with_collection(&format!("d{dimensions}")).unwrap();
        let database = database.with_exact_max_chunks(50).unwrap();
        let embedder = HashEmbedder::new(dimensions);
        let vectors =
            BuildOptions { vectors: VectorSource::Embedder(&embedder), ..BuildOptions::default() };
        load(&database, &scratch.docs(), &vectors);
        let folder = scratch.index(&vectors);
        let (snapshot, query) = (database.snapshot().unwrap(), QueryVector::Embedder(&embedder));
        let own = format!(
            "FROM pg_stat_user_indexes JOIN pannier.collection c ON indexrelname = 'embedding_hnsw_' || c.id
             WHERE c.name = 'd{dimensions}'"
        );
        let definition = format!("SELECT pg_get_indexdef(indexrelid) {own}");
        let definition = server.sql(&address, &definition);
        assert!(
            definition.contains(kind) && definition.is_empty() == kind.is_empty(),
            "{definition}"
        );
        let scans = format!("SELECT coalesce(sum(idx_scan), 0) {own}");
        let scans = || server.sql(&address, &scans).trim().parse::<u32>().unwrap();
        let semantic = options(|own| own.mode = SearchMode::Semantic);
        let (mut found, mut all) = (0, 0);
        for text in ["word1", "word2 word3", "word7 word40 word200", "something else", "test note"]
        {
            let ids = |corpus: &dyn Corpus| -> Vec<String> {
                let hits = corpus.search(text, &semantic, query).unwrap();
                hits.into_iter().map(|hit| hit.id).collect()
            };
            let (exact, own) = (ids(&folder), ids(&snapshot));
            found += exact.iter().filter(|id| own.contains(id)).count();
            all += exact.len();
        }
        assert!(f64::from(found as u32) >= 0.98 * f64::from(all as u32), "{found} of {all}");
        let filtered = options(|own| {
            own.mode = SearchMode::Semantic;
            own.filters.paths = vec!["notes/Note1?.md".to_owned()];
        });
        assert_same(&folder, &snapshot, "word1", &filtered, query);
        // Statistics of a connection arrive when it ends.
        drop((snapshot, database));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while scans() == 0 && !kind.is_empty() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(scans() > 0, !kind.is_empty(), "{dimensions}");
    }
    // An index whose creation was interrupted is created again.
    let broken = "UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text LIKE '%embedding_hnsw_%'";
    server.sql(&address, broken);
    let large = database.with_collection("d96").unwrap().with_exact_max_chunks(50).unwrap();
    large.create_vector_index().unwrap();
    let invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid AND indrelid = 'pannier.embedding'::regclass";
    assert_eq!(server.sql(&address, invalid).trim(), "1");
    // One that outlived its collection is dropped by the next build.
    server.sql(&address, "ALTER INDEX pannier.embedding_hnsw_1 RENAME TO embedding_hnsw_999");
    let plain = database.with_collection("plain").unwrap();
    load(&plain, &scratch.docs(), &BuildOptions::default());
    let leftover = "SELECT to_regclass('pannier.embedding_hnsw_999') IS NULL";
    assert_eq!(server.sql(&address, leftover).trim(), "t");
    let wide = HashEmbedder::new(16_001);
    let wide = BuildOptions { vectors: VectorSource::Embedder(&wide), ..BuildOptions::default() };
    let error = database.build(&DocumentSource::new(scratch.docs()), &wide, &mut |_| {});
    assert!(matches!(error, Err(DocsError::Model { .. })), "{error:?}");
}

#[test]
fn updates_write_what_changed_and_equal_a_fresh_load() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    generate(&scratch, 50, 11);
    let source = DocumentSource::new(scratch.docs());
    let build = |database: &Database| {
        database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap()
    };
    let first = build(&database);
    assert_eq!((first.added.count, first.unchanged, first.documents), (50, 0, 50));
    let again = build(&database);
    assert!(again.is_unchanged && again.version == first.version);
    scratch.write("notes/Note0.md", "# Other\n\nword1 new");
    scratch.write("new.md", "word1");
    fs::remove_file(scratch.docs().join("plain/4.txt")).unwrap();
    fs::write(scratch.docs().join("same/3.txt"), [b'a', 0, b'b']).unwrap();
    let before = database.snapshot().unwrap();
    let changed = build(&database);
    let counts = (
        changed.added.count,
        changed.changed.count,
        changed.unchanged,
        changed.removed.len(),
        changed.skipped.len(),
    );
    assert_eq!(counts, (1, 1, 47, 2, 1), "{changed:?}");
    assert!(changed.version != first.version && !before.is_current().unwrap());
    // An open snapshot is one version.
    assert_eq!(before.manifest().version, first.version);
    assert_eq!(
        before.search("new", &SearchOptions::default(), QueryVector::None).unwrap().len(),
        0
    );
    let folder = scratch.index(&BuildOptions::default());
    let snapshot = database.snapshot().unwrap();
    assert_eq!(snapshot.verify().unwrap(), [""; 0]);
    for query in ["word1 new", "word2 word3 word4", "\"word1 new\""] {
        assert_same(&folder, &snapshot, query, &SearchOptions::default(), QueryVector::None);
    }
    // The version depends on the documents, and not on how they came to be.
    let other =
        database.with_collection("it's \"another\"; DROP TABLE pannier.document; --").unwrap();
    assert!(matches!(other.snapshot(), Err(DocsError::NoIndex { .. })));
    assert_eq!(build(&other).version, changed.version);
    other.put(&[("same/9.txt", "word1 put"), ("x.md", "word1")], &BuildOptions::default()).unwrap();
    assert_ne!(other.snapshot().unwrap().manifest().version, changed.version);
    other.remove(&["x.md", "unknown"]).unwrap();
    assert_eq!(other.snapshot().unwrap().verify().unwrap(), [""; 0]);
    assert_eq!(build(&other).version, changed.version);
    let rebuilt = BuildOptions { from_scratch: true, ..BuildOptions::default() };
    let rebuilt = other.build(&source, &rebuilt, &mut |_| {}).unwrap();
    assert_eq!((rebuilt.version, rebuilt.added.count), (changed.version, 49));
    other.drop_collection().unwrap();
    assert!(matches!(other.snapshot(), Err(DocsError::NoIndex { .. })));
    assert_same(
        &folder,
        &database.snapshot().unwrap(),
        "word1",
        &SearchOptions::default(),
        QueryVector::None,
    );
}

#[test]
fn damage_is_found() {
    let Some((database, address)) = database() else { return };
    let scratch = Scratch::new();
    generate(&scratch, 10, 5);
    load(&database, &scratch.docs(), &BuildOptions::default());
    let server = support::server().unwrap();
    server.sql(&address, "DELETE FROM pannier.posting WHERE term = 'word1'");
    let problems = database.snapshot().unwrap().verify().unwrap();
    assert!(
        problems.iter().any(|problem| problem.contains("its postings are wrong")),
        "{problems:?}"
    );
    assert!(problems.contains(&"there are postings of no document".to_owned()), "{problems:?}");
    // Search narrows by bounds, so they are as important as the occurrences.
    let embedder = HashEmbedder::new(8);
    let vectors = VectorSource::Embedder(&embedder);
    let embedded = BuildOptions { vectors, ..BuildOptions::default() };
    for (number, (damage, part)) in [
        ("posting SET max_count = 0", "postings are wrong"),
        ("posting SET min_words = 9999", "postings are wrong"),
        ("posting SET chunks = 0", "postings are wrong"),
        ("posting SET is_test = NOT is_test", "postings are wrong"),
        ("document SET chunk_count = 0", "row does not match"),
        ("document SET id_path = 'x'", "row does not match"),
        ("chunk SET line = 77", "chunks are wrong"),
        ("chunk SET sequence = sequence + 100", "chunks are wrong"),
        ("embedding SET key = ''", "vectors are wrong"),
        ("embedding SET sequence = sequence + 100", "vectors are wrong"),
        ("embedding SET vector = '[1]'", "vectors are wrong"),
    ]
    .into_iter()
    .enumerate()
    {
        let database = database.with_collection(&format!("c{number}")).unwrap();
        load(&database, &scratch.docs(), &embedded);
        assert_eq!(database.snapshot().unwrap().verify().unwrap(), [""; 0]);
        server.sql(&address, &format!("UPDATE pannier.{damage}"));
        let problems = database.snapshot().unwrap().verify().unwrap();
        assert!(problems.iter().any(|problem| problem.contains(part)), "{damage}: {problems:?}");
    }
    server.sql(&address, "UPDATE pannier.posting SET places = '\\xff' WHERE term = 'word2'");
    let error =
        database.snapshot().unwrap().search("word2", &SearchOptions::default(), QueryVector::None);
    assert!(matches!(error, Err(DocsError::Invalid { .. })), "{error:?}");
}

#[test]
fn hostile_texts_are_texts() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    let long = "x'\"; ".repeat(13_000);
    let texts = [
        ("it's.md", "Robert'); DROP TABLE pannier.posting; --"),
        ("quote\".md", "a \"quoted\" \\ text $1 $$ %s {} \u{1}\u{2028}"),
        ("semi;colon.md", long.as_str()),
        ("emoji 🦀.md", "🦀 crab \u{202e} reversed"),
        ("e\u{301}.md", "combining é and é"),
    ];
    texts.iter().for_each(|(path, text)| scratch.write(path, text));
    fs::write(scratch.docs().join("invalid.md"), [0xff, 0xfe, b'a']).unwrap();
    let folder = scratch.index(&BuildOptions::default());
    load(&database, &scratch.docs(), &BuildOptions::default());
    let snapshot = database.snapshot().unwrap();
    assert_eq!(snapshot.manifest().documents, 5);
    let long_query = "word ".repeat(12_000);
    let queries = [
        "Robert'); DROP TABLE pannier.posting; --",
        "\"quoted\" $1",
        "\0",
        "a\0b robert",
        "🦀",
        "'",
        "\\",
        "%",
        "\u{1}",
        "\"drop table\" \"pannier posting",
        long_query.as_str(),
    ];
    for query in queries {
        assert_same(&folder, &snapshot, query, &SearchOptions::default(), QueryVector::None);
    }
    let too_long = "word ".repeat(14_000);
    let error = snapshot.search(&too_long, &SearchOptions::default(), QueryVector::None);
    assert!(matches!(error, Err(DocsError::LongQuery { .. })));
    for path in ["it's.md", "a\0b", "\\", "%", "semi;colon.md"] {
        let found = snapshot.find_document(path).unwrap();
        assert_eq!(found.is_some(), folder.find_document(path).unwrap().is_some(), "{path:?}");
    }
    let strange = options(|own| {
        own.filters.paths = vec!["it's.md".to_owned(), "[\\]]".to_owned(), "\u{1}*\"".to_owned()];
        own.filters.contains = vec!["');".to_owned(), "\0".to_owned()];
    });
    assert_same(&folder, &snapshot, "robert", &strange, QueryVector::None);
    assert!(database.with_collection("a\0b").is_err() && database.with_collection("").is_err());
    // Texts that no file would have: the database stores no NUL in a name.
    let error = database.put(&[("a\0b.md", "text")], &BuildOptions::default());
    assert!(matches!(error, Err(DocsError::Store { .. })), "{error:?}");
    let long = format!("{}.md", "x/".repeat(1_400));
    for (path, text) in [("nul.md", "with a \0 NUL"), ("nul.md", "# a \0 b"), (&long, "text")] {
        let error = database.put(&[("b.md", "text"), (path, text)], &BuildOptions::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(&path[..4]) && !error.contains("the error"), "{error}");
    }
    database.remove(&["a\0b.md"]).unwrap();
    assert_eq!(database.snapshot().unwrap().manifest().documents, 5);
}

#[test]
fn titles_without_control_characters_and_long_paths() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    scratch.write("a.md", "---\ntitle: \"one\\0two\\etwo\"\n---\nword1\n\n# Heading\n\nword1");
    scratch.write("b.txt", &"longword".repeat(2_000));
    let folder = scratch.index(&BuildOptions::default());
    let parts: Vec<String> = (0..11).map(|part| format!("{part:0>240}")).collect();
    scratch.write(&format!("{}.md", parts.join("/")), "word1");
    let source = DocumentSource::new(scratch.docs());
    let built = database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((built.documents, built.skipped[&SkipReason::Name].count), (2, 1));
    let snapshot = database.snapshot().unwrap();
    assert_same(&folder, &snapshot, "one word1", &SearchOptions::default(), QueryVector::None);
    let hits = snapshot.search("one", &SearchOptions::default(), QueryVector::None).unwrap();
    assert_eq!(hits[0].heading_path, "one two two");
    assert_eq!(snapshot.verify().unwrap(), [""; 0]);
}

#[test]
fn a_strict_build_that_fails_writes_nothing() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    (0..70).for_each(|number| scratch.write(&format!("{number}.md"), "word1"));
    fs::write(scratch.docs().join("z.bin"), [b'a', 0]).unwrap();
    let mut rules = FileRules::default();
    rules.strict = true;
    let source = DocumentSource::new(scratch.docs()).rules(rules);
    let embedder = HashEmbedder::new(8);
    let vectors = VectorSource::Embedder(&embedder);
    let options = BuildOptions { vectors, ..BuildOptions::default() };
    let error = database.build(&source, &options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DocsError::Sources { .. }), "{error}");
    assert!(matches!(database.snapshot(), Err(DocsError::NoIndex { .. })));
}

/// Fails after the first batch of texts.
#[derive(Debug)]
struct FailingEmbedder(HashEmbedder, std::sync::atomic::AtomicBool);

impl Embedder for FailingEmbedder {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        match self.1.swap(true, std::sync::atomic::Ordering::Relaxed) {
            false => self.0.embed(texts),
            true => Err("it is away".into()),
        }
    }
}

#[test]
fn an_interrupted_build_keeps_the_vectors_of_before() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    (0..100).for_each(|number| scratch.write(&format!("{number}.md"), &format!("word{number}")));
    let build = |embedder: &dyn Embedder| {
        let vectors = VectorSource::Embedder(embedder);
        let options = BuildOptions { vectors, ..BuildOptions::default() };
        database.build(&DocumentSource::new(scratch.docs()), &options, &mut |_| {})
    };
    let failing = FailingEmbedder(HashEmbedder::new(8), false.into());
    assert!(matches!(build(&failing), Err(DocsError::Embedder(_))));
    assert_eq!(build(&failing.0).unwrap().embedded, 36);
}

#[test]
fn documents_are_removed_for_the_reasons_of_a_folder() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    let write = || {
        ["a.md", "b.md", "c.md"].iter().for_each(|path| scratch.write(path, "word1"));
        scratch.write("other/d.md", "word1");
    };
    let source = DocumentSource::new(scratch.docs());
    let other = DocumentSource::new(scratch.docs().join("other"));
    write();
    let index = scratch.0.join("index");
    let build = |source: &DocumentSource| {
        let folder = build(source, &index, &BuildOptions::default(), &mut |_| {}).unwrap();
        let own = database.build(source, &BuildOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(own.removed, folder.removed);
        own.removed
    };
    assert!(build(&source).is_empty());
    fs::remove_file(scratch.docs().join("a.md")).unwrap();
    fs::write(scratch.docs().join("b.md"), [b'a', 0]).unwrap();
    fs::remove_file(scratch.docs().join("c.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", scratch.docs().join("c.md")).unwrap();
    let removed = build(&source);
    assert_eq!(removed[&RemovalReason::Deleted].paths, ["a.md"]);
    assert_eq!(removed[&RemovalReason::Skipped].paths, ["b.md", "c.md"]);
    assert_eq!(build(&other)[&RemovalReason::OtherFolder].paths, ["other/d.md"]);
}

#[test]
fn errors_say_what_to_do_and_nothing_secret() {
    let Some((database, address)) = database() else { return };
    assert!(matches!(database.snapshot(), Err(DocsError::NoIndex { .. })));
    let error = |url: &str| Database::new(url).unwrap().snapshot().unwrap_err().to_string();
    let no_database = error(&address.replace("/test", "/none"));
    assert!(no_database.contains("there is no such database"), "{no_database}");
    for url in [
        "postgres://me:hunter2@127.0.0.1:1/db?connect_timeout=2",
        "postgres://me:hunter2@/db?host=/nowhere",
        "postgres://me:hunter2@127.0.0.1:1/db?sslmode=require",
    ] {
        let away = error(url);
        assert!(away.contains("the server is away") && !away.contains("hunter2"), "{away}");
    }
    let scratch = Scratch::new();
    scratch.write("a.md", "word1");
    load(&database, &scratch.docs(), &BuildOptions::default());
    // A user who may do nothing.
    let server = support::server().unwrap();
    server.sql(&address, "CREATE ROLE nobody LOGIN PASSWORD 'hunter2'");
    let denied = error(&address.replace("pannier@", "nobody:hunter2@"));
    assert!(denied.contains("grant access") && !denied.contains("hunter2"), "{denied}");
    assert!(!format!("{database:?}").contains("hunter2"));
    server.sql(&address, "DROP OWNED BY nobody; DROP ROLE nobody");
    // A connection that the server has ended is replaced.
    server.sql(&address, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pannier' AND datname = current_database()");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(database.snapshot().unwrap().manifest().documents, 1);
}

/// A search waits for a lock that another session holds: until the server cancels the statement, as it does after 30 seconds,
/// or until a timeout of the server's own.
#[test]
fn slow_searches_end_with_an_error() {
    let Some((database, address)) = database() else { return };
    let server = support::server().unwrap();
    let scratch = Scratch::new();
    scratch.write("a.md", "word1");
    load(&database, &scratch.docs(), &BuildOptions::default());
    let is_long = is_long();
    let hold = if is_long { 40 } else { 5 };
    let lock = format!(
        "BEGIN; LOCK TABLE pannier.posting IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({hold}); COMMIT"
    );
    let impatient = Database::new(&format!("{address}&options=-c%20lock_timeout%3D300ms")).unwrap();
    let snapshots = (database.snapshot().unwrap(), impatient.snapshot().unwrap());
    let (sql, cancel) = (address.clone(), address.clone());
    let holder = std::thread::spawn(move || server.sql(&sql, &lock));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let error = |snapshot: &dyn Corpus| {
        let result = snapshot.search("word1", &SearchOptions::default(), QueryVector::None);
        result.unwrap_err().to_string()
    };
    let locked = error(&snapshots.1);
    assert!(locked.contains("another program has locked"), "{locked}");
    let canceler = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(1));
        if !is_long {
            server.sql(&cancel, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                WHERE application_name = 'pannier' AND datname = current_database() AND wait_event_type = 'Lock'");
        }
    });
    let started = std::time::Instant::now();
    let canceled = error(&snapshots.0);
    assert!(canceled.contains("the database took too long"), "{canceled}");
    assert!(started.elapsed().as_secs() < 35);
    canceler.join().unwrap();
    holder.join().unwrap();
    // The snapshot cannot be used again, and says so; the next one can.
    let ended = error(&snapshots.0);
    assert!(ended.contains("try again"), "{ended}");
    let hits =
        database.snapshot().unwrap().search("word1", &SearchOptions::default(), QueryVector::None);
    assert_eq!(hits.unwrap().len(), 1);
}

/// The mean nDCG@10 of rankings by query, by the grades of documents.
fn ndcg(rankings: &[(String, Vec<String>)], grades: &BTreeMap<(String, String), f64>) -> f64 {
    let gain = |(rank, grade): (usize, f64)| grade / (rank as f64 + 2.0).log2();
    let mut sum = 0.0;
    for (query, documents) in rankings {
        let grade = |document: &String| grades.get(&(query.clone(), document.clone()));
        let own = documents.iter().map(|document| grade(document).copied().unwrap_or_default());
        let best = grades.iter().filter(|((own, _), _)| own == query).map(|(_, grade)| *grade);
        let mut best: Vec<f64> = best.collect();
        best.sort_by(|a, b| b.total_cmp(a));
        let ideal: f64 = best.into_iter().take(10).enumerate().map(gain).sum();
        sum += own.take(10).enumerate().map(gain).sum::<f64>() / ideal.max(f64::MIN_POSITIVE);
    }
    sum / rankings.len() as f64
}

/// Data sets with graded queries, where they are. Without `PANNIER_LONG`, some of the documents and queries.
#[test]
fn data_sets_give_the_same_top_50() {
    let data = std::env::var_os("PANNIER_DATA").map(PathBuf::from);
    let data = data.unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/retrieval")
    });
    let Some((database, _)) = database() else { return };
    let (max_documents, max_queries) = if is_long() { (usize::MAX, usize::MAX) } else { (600, 60) };
    for (name, extension) in [("scifact", "md"), ("xquad-en", "md"), ("cosqa-dev", "py")] {
        let folder = data.join(name);
        if !folder.is_dir() {
            let problem = format!("there is no {name}; set PANNIER_DATA to a folder of data sets");
            print_skipped(&problem);
            continue;
        }
        let scratch = Scratch::new();
        let lines = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        let values = |file: &str| -> Vec<serde_json::Value> {
            lines(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let path = |id: &str| format!("{}.{extension}", id.replace('/', "_"));
        let grade = |line: &str| {
            let mut parts = line.split('\t');
            let key = (parts.next()?.to_owned(), path(parts.next()?));
            Some((key, parts.next()?.trim().parse().ok()?))
        };
        let grades: BTreeMap<(String, String), f64> =
            lines("qrels.tsv").lines().filter_map(grade).collect();
        let queries: Vec<serde_json::Value> =
            values("queries.jsonl").into_iter().take(max_queries).collect();
        let answers: BTreeSet<&str> = grades
            .keys()
            .filter(|(query, _)| queries.iter().any(|own| own["id"] == query.as_str()))
            .map(|(_, path)| path.as_str())
            .collect();
        for (number, document) in values("docs.jsonl").iter().enumerate() {
            let text = |key: &str| document[key].as_str().unwrap_or_default();
            let path = path(text("id"));
            if number < max_documents || answers.contains(path.as_str()) {
                let title = match extension {
                    "md" => format!("# {}\n\n", text("title")),
                    _ => String::new(),
                };
                scratch.write(&path, &format!("{title}{}", text("text")));
            }
        }
        let index = scratch.index(&BuildOptions::default());
        let database = database.with_collection(name).unwrap();
        load(&database, &scratch.docs(), &BuildOptions::default());
        let snapshot = database.snapshot().unwrap();
        let mut rankings = [Vec::new(), Vec::new()];
        for query in &queries {
            let (id, query) = (query["id"].as_str().unwrap(), query["text"].as_str().unwrap());
            assert_same(&index, &snapshot, query, &SearchOptions::default(), QueryVector::None);
            for (corpus, rankings) in [&index as &dyn Corpus, &snapshot].iter().zip(&mut rankings) {
                let hits = corpus.search(query, &SearchOptions::default(), QueryVector::None);
                let mut paths: Vec<String> =
                    hits.unwrap().into_iter().map(|hit| hit.path).collect();
                let mut seen = BTreeSet::new();
                paths.retain(|path| seen.insert(path.clone()));
                rankings.push((id.to_owned(), paths));
            }
        }
        let [folder, own] = rankings.map(|rankings| ndcg(&rankings, &grades));
        assert!(own == folder && own > 0.3, "{name}: {own} {folder}");
        let (count, chunks) = (queries.len(), snapshot.manifest().chunks);
        eprintln!("{name}: {count} queries, {chunks} chunks, nDCG@10 {own:.4}");
    }
}
