//! Search: BM25, fusion, filters and vectors, compared with their definitions.

use std::collections::{BTreeMap, BTreeSet};

use pannier_docs::{
    BuildOptions, ChunkSizes, Corpus, DocsError, DocumentIndex, DocumentMetadata, Filters, Fusion,
    Hit, ImportedVectors, QueryVector, Ranking, SearchMode, SearchOptions, VectorSource, build,
    for_each_chunk, parse_date, verify,
};
use proptest::prelude::*;
use support::{Folder, Letters};

mod support;

fn dated(date: &str) -> DocumentMetadata {
    let mut about = DocumentMetadata::default();
    about.date = parse_date(date);
    about
}

fn paths(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.path.as_str()).collect()
}

fn lexical(folder: &Folder, query: &str) -> Vec<Hit> {
    folder.open().search(query, &SearchOptions::default(), QueryVector::None).unwrap()
}

/// Textbook BM25 over lowercase words that the stemmer leaves unchanged.
fn bm25(texts: &[String], query: &[&str]) -> Vec<(usize, f64)> {
    let words: Vec<Vec<&str>> =
        texts.iter().map(|text| text.split_whitespace().collect()).collect();
    let mean = words.iter().map(Vec::len).sum::<usize>() as f64 / texts.len() as f64;
    let terms: BTreeSet<&&str> = query.iter().collect();
    let in_query = |term: &&str| query.iter().filter(|other| *other == term).count() as f64;
    let mut scored: Vec<(usize, f64)> = words
        .iter()
        .enumerate()
        .map(|(text, own)| {
            let of_term = |term: &&str| {
                let having = words.iter().filter(|words| words.contains(term)).count() as f64;
                let count = own.iter().filter(|word| *word == term).count() as f64;
                let rarity = (1.0 + (texts.len() as f64 - having + 0.5) / (having + 0.5)).ln();
                let length = 1.2 * (1.0 - 0.75 + 0.75 * own.len() as f64 / mean.max(1.0));
                rarity * in_query(term) * count * 2.2 / (count + length)
            };
            (text, terms.iter().map(|term| of_term(term)).sum())
        })
        .filter(|(_, score)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn scores_equal_textbook_bm25(
        texts in prop::collection::vec(
            prop::collection::vec(prop_oneof![1 => "[k-p]q", 3 => Just("kq".to_owned()), 1 => Just("zz".to_owned())], 1..12),
            1..30,
        ),
        query in prop::collection::vec("[k-p]q", 1..6),
    ) {
        let folder = Folder::new();
        let texts: Vec<String> = texts.into_iter().map(|words| words.join(" ")).collect();
        for (i, text) in texts.iter().enumerate() {
            folder.write(&format!("{i:02}.md"), text);
        }
        folder.build();
        let hits = lexical(&folder, &query.join(" "));
        let query: Vec<&str> = query.iter().map(String::as_str).collect();
        let expected = bm25(&texts, &query);
        prop_assert_eq!(hits.len(), expected.len());
        // A document with one chunk adds three tenths of the same score.
        let mut body = SearchOptions::default();
        body.ranking = Ranking::Body;
        let plain = folder.open().search(&query.join(" "), &body, QueryVector::None).unwrap();
        for (plain, hit) in plain.iter().zip(&hits) {
            let [plain, with_document] = [plain, hit].map(|hit| hit.lexical.as_ref().unwrap().score);
            prop_assert!((plain * 1.3 - with_document).abs() < 1e-9);
        }
        for (hit, (text, score)) in plain.iter().zip(&expected) {
            let lexical = hit.lexical.as_ref().unwrap();
            prop_assert!((lexical.score - score).abs() < 1e-9);
            let own = &expected.iter().find(|(text, _)| format!("{text:02}.md") == hit.path).unwrap();
            prop_assert!((lexical.score - own.1).abs() < 1e-9, "{} {}", hit.path, text);
            let explained: f64 = lexical.terms.iter().map(|term| term.score).sum();
            prop_assert!((lexical.score - explained).abs() < 1e-9);
        }
        // A small k returns the prefix of a large one, although pruning skips lists.
        for count in 1..6 {
            let mut search = SearchOptions::default();
            search.lexical_k = count;
            let few = folder.open().search(&query.join(" "), &search, QueryVector::None).unwrap();
            prop_assert_eq!(&few[..], &hits[..few.len()]);
            prop_assert_eq!(few.len(), hits.len().min(count));
        }
        for pair in hits.windows(2) {
            let scores = [0, 1].map(|i| pair[i].lexical.as_ref().unwrap().score);
            prop_assert!(scores[0] > scores[1] || scores[0] == scores[1] && pair[0].path < pair[1].path);
        }
    }

    /// The RRF formula over the ranks of each retriever alone.
    #[test]
    fn ranks_are_fused_by_rrf(
        texts in prop::collection::vec("[a-hz ]{1,20}", 1..25),
        query in "[a-h ]{1,12}",
        (lexical_k, semantic_k, top_k) in (0..12_usize, 0..12_usize, 0..20_usize),
        (rrf_k, lexical_weight, semantic_weight) in (0..100_u32, 0..4_u32, 0..4_u32),
    ) {
        let folder = Folder::new();
        for (i, text) in texts.iter().enumerate() {
            folder.write(&format!("{}{i}.md", ["b", "A", "c"][i % 3]), text);
        }
        let letters = Letters::new();
        folder.build_with(VectorSource::Embedder(&letters)).unwrap();
        let cache = folder.open();
        let mut search = SearchOptions::default();
        search.fusion = Fusion::Rrf;
        (search.lexical_k, search.semantic_k, search.top_k) = (lexical_k, semantic_k, 1_000);
        let mut leg = |mode| {
            search.mode = mode;
            cache.search(&query, &search, QueryVector::Embedder(&letters)).unwrap()
        };
        let (by_words, by_vectors) = (leg(SearchMode::Lexical), leg(SearchMode::Semantic));
        prop_assert!(by_words.len() <= lexical_k && by_vectors.len() <= semantic_k);

        let mut scores: BTreeMap<&str, u64> = BTreeMap::new();
        for (hits, weight) in [(&by_words, lexical_weight), (&by_vectors, semantic_weight)] {
            for (hit, rank) in hits.iter().zip(1_u64..) {
                *scores.entry(&hit.path).or_default() += (1 << 32) / (u64::from(rrf_k) + rank) * u64::from(weight);
            }
        }
        let mut expected: Vec<(u64, &str)> = scores.into_iter().map(|(path, score)| (score, path)).collect();
        expected.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        expected.truncate(top_k);

        (search.mode, search.top_k, search.rrf_k) = (SearchMode::Hybrid, top_k, rrf_k);
        (search.lexical_weight, search.semantic_weight) = (lexical_weight, semantic_weight);
        let hits = cache.search(&query, &search, QueryVector::Embedder(&letters)).unwrap();
        let fused: Vec<(u64, &str)> = hits.iter().map(|hit| (hit.score, hit.path.as_str())).collect();
        prop_assert_eq!(fused, expected);

        // By vectors: the exact products, and ties by path.
        let own = Letters::vector(&query);
        let product = |hit: &Hit| -> i64 {
            Letters::vector(&hit.text).iter().zip(&own).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum()
        };
        for pair in by_vectors.windows(2) {
            let (first, second) = (product(&pair[0]), product(&pair[1]));
            prop_assert!(first > second || first == second && pair[0].path < pair[1].path);
        }
    }
}

#[test]
fn identifiers_match_whole_and_by_subword() {
    let folder = Folder::new();
    folder.write("camel.md", "fn parseHttpHeader() reads one line of many words");
    folder.write("parts.md", "The header of an http message, and how to parse it from the wire");
    folder.write("snake.md", "fn parse_http_header() reads one line of many words");
    folder.write("other.md", "Nothing of the kind, but some words more");
    folder.build();
    for query in ["parse_http_header", "parseHttpHeader", "ParseHTTPHeaders"] {
        assert_eq!(
            paths(&lexical(&folder, query)),
            ["camel.md", "snake.md", "parts.md"],
            "{query}"
        );
    }
    assert_eq!(lexical(&folder, "HTTP").len(), 3);
    let hits = lexical(&folder, "parse_http_header");
    let terms: Vec<&str> =
        hits[0].lexical.as_ref().unwrap().terms.iter().map(|term| term.term.as_str()).collect();
    assert_eq!(terms, ["header", "http", "pars", "parsehttphead"]);
}

#[test]
fn phrases_match_consecutive_words() {
    let folder = Folder::new();
    folder.write("apart.md", "Roll the dough, and put it back on the table.");
    folder.write("together.md", "How to roll back a deployment. To roll back twice is an art.");
    folder.build();
    let hits = lexical(&folder, "\"rolling back\"");
    assert_eq!(paths(&hits), ["together.md"]);
    let term = &hits[0].lexical.as_ref().unwrap().terms[0];
    assert_eq!((term.term.as_str(), term.count, term.chunks), ("\"roll back\"", 2, 1));
    assert_eq!(lexical(&folder, "rolling back").len(), 2);
    assert_eq!(lexical(&folder, "\"roll nowhere\"").len(), 0);
}

#[test]
fn every_chunk_of_a_section_matches_its_headings() {
    let folder = Folder::new();
    let long = "Some sentence that says little. ".repeat(100);
    folder.write("guide.md", format!("# Zeppelins\n\n{long}"));
    folder.build();
    let hits = lexical(&folder, "zeppelin");
    assert!(hits.len() > 2);
    for hit in &hits {
        assert_eq!(
            (hit.heading_path.as_str(), hit.lexical.as_ref().unwrap().terms[0].count),
            ("Zeppelins", 1)
        );
    }
}

#[test]
fn filters_apply_before_ranking() {
    let folder = Folder::new();
    for i in 0..30 {
        let date = format!("---\ndate: 2026-01-{:02}\n---\n", i + 1);
        folder.write(&format!("notes/{i:02}.md"), format!("{date}word number {i}"));
        folder.write(&format!("other/{i:02}.md"), "word number none");
    }
    folder.build();
    let cache = folder.open();
    let find = |filters: Filters| {
        let mut search = SearchOptions::default();
        (search.filters, search.lexical_k) = (filters, 3);
        let hits = cache.search("word number", &search, QueryVector::None).unwrap();
        hits.into_iter().map(|hit| hit.path).collect::<Vec<_>>()
    };
    let mut filters = Filters::default();
    filters.paths = vec!["other/**".to_owned()];
    assert_eq!(find(filters.clone()), ["other/00.md", "other/01.md", "other/02.md"]);
    filters.paths = vec!["29.md".to_owned()];
    assert_eq!(find(filters.clone()).len(), 2);
    filters.paths.clear();
    filters.after = parse_date("2026-01-29");
    assert_eq!(find(filters.clone()), ["notes/28.md", "notes/29.md"]);
    filters.before = parse_date("2026-01-30");
    assert_eq!(find(filters.clone()), ["notes/28.md"]);
    filters = Filters::default();
    filters.contains = vec!["NUMBER 1".to_owned()];
    assert_eq!(find(filters.clone()), ["notes/01.md", "notes/10.md", "notes/11.md"]);
    filters.contains.push("nowhere".to_owned());
    assert_eq!(find(filters.clone()), [""; 0]);
    filters.paths = vec!["[".to_owned()];
    let mut search = SearchOptions::default();
    search.filters = filters;
    let error = cache.search("word", &search, QueryVector::None).unwrap_err();
    assert!(matches!(error, DocsError::Pattern { .. }), "{error}");
}

#[test]
fn prefer_recent_breaks_ties_by_date() {
    let folder = Folder::new();
    folder.write("a.md", "aaa");
    folder.write("b.md", "---\ndate: 2026-03-01\n---\n");
    folder.write("c.md", "bbb");
    let dates = [("a.md", "2020-01-01"), ("c.md", "2026-02-01")]
        .map(|(path, date)| (path.to_owned(), dated(date)));
    let letters = Letters::new();
    let options =
        BuildOptions { vectors: VectorSource::Embedder(&letters), ..BuildOptions::default() };
    let sources = folder.sources().metadata(dates.into());
    build(&sources, &folder.cache(), &options, &mut |_| {}).unwrap();
    let cache = folder.open();
    // One is first by words, the other by vectors.
    let find = |prefer_recent| {
        let mut search = SearchOptions::default();
        (search.prefer_recent, search.lexical_k, search.semantic_k) = (prefer_recent, 1, 1);
        let vector = Letters::vector("b");
        let hits = cache.search("aaa", &search, QueryVector::Given(&vector)).unwrap();
        hits.into_iter().map(|hit| (hit.path, hit.score)).collect::<Vec<_>>()
    };
    let one = 1 << 32;
    assert_eq!(find(false), [("a.md".to_owned(), one), ("c.md".to_owned(), one)]);
    assert_eq!(find(true), [("c.md".to_owned(), one), ("a.md".to_owned(), one)]);

    // Dates are a part of the version, wherever they come from.
    let version = cache.manifest().version.clone();
    let again = build(&sources, &folder.cache(), &options, &mut |_| {}).unwrap();
    assert!(again.is_unchanged);
    let undated = folder.sources().metadata([].into());
    let built = build(&undated, &folder.cache(), &options, &mut |_| {}).unwrap();
    assert!(!built.is_unchanged && built.version != version);
    let unknown = [("x.md".to_owned(), dated("2026-01-01"))];
    let error =
        build(&folder.sources().metadata(unknown.into()), &folder.cache(), &options, &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("x.md: there is no such document"));
}

#[test]
fn every_chunk_matches_its_title() {
    let folder = Folder::new();
    folder.write("a.md", "---\ntitle: Own title\n---\n# Install\n\nRun it.\n\n# Use\n\nUse it.");
    folder.write("b.md", "# Said title\n\nText.");
    let mut about = DocumentMetadata::default();
    about.title = Some("Said title".to_owned());
    let sources = folder.sources().metadata([("b.md".to_owned(), about)].into());
    let built = build(&sources, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap();
    let contexts =
        |query| lexical(&folder, query).into_iter().map(|hit| hit.heading_path).collect::<Vec<_>>();
    assert_eq!(contexts("own"), ["Own title", "Own title > Install", "Own title > Use"]);
    assert_eq!(contexts("said"), ["Said title"]);
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
    let again = build(&sources, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap();
    assert!(again.is_unchanged);
    // Without what was said, other chunks.
    let untitled = folder.sources().metadata([].into());
    let plain = build(&untitled, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap();
    assert!(plain.version != built.version && plain.unchanged == 1);
}

#[test]
fn vectors_are_computed_once() {
    let folder = Folder::new();
    folder.write("a.md", "abc");
    folder.write("b.md", "def");
    let letters = Letters::new();
    assert_eq!(folder.build_with(VectorSource::Embedder(&letters)).unwrap().embedded, 2);
    assert!(folder.build_with(VectorSource::Embedder(&letters)).unwrap().is_unchanged);
    // Moved, and one new.
    std::fs::rename(folder.0.join("docs/a.md"), folder.0.join("docs/z.md")).unwrap();
    folder.write("c.md", "gh");
    assert_eq!(folder.build_with(VectorSource::Embedder(&letters)).unwrap().embedded, 1);
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
    let mut search = SearchOptions::default();
    search.mode = SearchMode::Semantic;
    let hits = folder.open().search("a", &search, QueryVector::Embedder(&letters)).unwrap();
    assert_eq!(paths(&hits), ["z.md"]);
    assert!((hits[0].semantic.as_ref().unwrap().score - 1.0 / 3_f64.sqrt()).abs() < 1e-4);
    // Said nothing, they are not thrown away.
    let error = folder.build_with(VectorSource::Unspecified).unwrap_err();
    assert!(error.to_string().contains("the index has vectors by letters"), "{error}");
    folder.build_with(VectorSource::None).unwrap();
    assert_eq!(folder.open().manifest().model, None);
}

#[test]
fn query_vectors_of_another_model_are_rejected() {
    let folder = Folder::new();
    folder.write("a.md", "abc");
    let letters = Letters::new();
    folder.build();
    let mut search = SearchOptions::default();
    search.mode = SearchMode::Semantic;
    let ask = |search: &SearchOptions, vector: QueryVector<'_>| {
        let error = folder.open().search("a", search, vector).unwrap_err();
        assert!(matches!(error, DocsError::Model { .. } | DocsError::NoVectors { .. }), "{error}");
        error.to_string()
    };
    assert!(ask(&search, QueryVector::Embedder(&letters)).contains("the index has no vectors"));
    folder.build_with(VectorSource::Embedder(&letters)).unwrap();
    for mode in [SearchMode::Semantic, SearchMode::Hybrid] {
        search.mode = mode;
        assert!(
            ask(&search, QueryVector::None).contains("vectors by letters, but the query has none")
        );
        let other = ask(&search, QueryVector::Embedder(&Letters::of_hash("f00d")));
        assert!(
            other.contains("by letters 0123456789ab…, but the embedder is letters f00d"),
            "{other}"
        );
        assert!(
            ask(&search, QueryVector::Given(&[1, 2]))
                .contains("its vectors have 8 dimensions, but the query vector has 2")
        );
    }
    search.mode = SearchMode::Hybrid;
    folder.build_with(VectorSource::None).unwrap();
    assert!(ask(&search, QueryVector::Embedder(&letters)).contains("the index has no vectors"));
    search.mode = SearchMode::Lexical;
    assert_eq!(folder.open().search("abc", &search, QueryVector::None).unwrap().len(), 1);
    let long = "x".repeat(1 << 20);
    assert!(matches!(
        folder.open().search(&long, &search, QueryVector::None),
        Err(DocsError::LongQuery { bytes: 1_048_576, .. })
    ));
    for empty in ["", " ", "\"", "?!"] {
        assert_eq!(folder.open().search(empty, &search, QueryVector::None).unwrap(), []);
    }
}

#[test]
fn vectors_can_be_imported() {
    let folder = Folder::new();
    folder.write("a.md", "one");
    folder.write("b.md", "two");
    folder.build();
    let ids: Vec<String> =
        folder.open().all_chunks().unwrap().map(|chunk| chunk.unwrap().id).collect();
    let mut planned = Vec::new();
    let plan = for_each_chunk(&folder.sources(), ChunkSizes::default(), |chunk| {
        planned.push(chunk.id);
        Ok::<(), DocsError>(())
    });
    plan.unwrap();
    assert_eq!(planned, ids);
    let line = |id: &str, vector: &str| format!("{{\"id\":\"{id}\",\"vector\":{vector}}}\n");
    let imported = |text: String| ImportedVectors::read(text.as_bytes()).unwrap();
    let one = imported(line(&ids[0], "[1,0]"));
    let error = folder.build_with(VectorSource::Imported(&one)).unwrap_err().to_string();
    assert!(error.contains(&ids[1]) && error.contains("no vector for 1 of the chunks"), "{error}");
    let both = imported(line(&ids[0], "[1,0]") + &line(&ids[1], "[3,4]"));
    folder.build_with(VectorSource::Imported(&both)).unwrap();
    assert!(folder.build_with(VectorSource::Imported(&both)).unwrap().is_unchanged);
    let mut search = SearchOptions::default();
    search.mode = SearchMode::Semantic;
    let hits = folder.open().search("", &search, QueryVector::Given(&[0, 32_767])).unwrap();
    assert_eq!(paths(&hits), ["b.md"]);
    let others = imported(line(&ids[0], "[0,1]") + &line(&ids[1], "[3,4]"));
    let version = folder.open().manifest().version.clone();
    assert_ne!(folder.build_with(VectorSource::Imported(&others)).unwrap().version, version);
}

#[test]
fn neighbors_are_adjacent_chunks() {
    let folder = Folder::new();
    folder.write("a.md", "# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\n");
    folder.write("b.md", "two");
    folder.build();
    let cache: DocumentIndex = folder.open();
    let hits = lexical(&folder, "two");
    let neighbors: Vec<(String, Vec<String>)> = hits
        .iter()
        .map(|hit| {
            let neighbors = cache.neighbors(std::slice::from_ref(hit)).unwrap();
            (hit.heading_path.clone(), neighbors.into_iter().map(|hit| hit.heading_path).collect())
        })
        .collect();
    assert!(
        neighbors.contains(&("B".to_owned(), vec!["A".to_owned(), "C".to_owned()])),
        "{neighbors:?}"
    );
    assert!(neighbors.contains(&(String::new(), Vec::new())), "{neighbors:?}");
    let cut: Vec<String> = cache.all_chunks().unwrap().map(|chunk| chunk.unwrap().text).collect();
    assert_eq!(cut.concat(), "# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\ntwo");
}

#[test]
fn any_k_and_weight_is_accepted() {
    let folder = Folder::new();
    folder.write("a.md", "alpha one");
    folder.write("b.md", "alpha two");
    let letters = Letters::new();
    folder.build_with(VectorSource::Embedder(&letters)).unwrap();
    let mut search = SearchOptions::default();
    (search.lexical_k, search.semantic_k, search.top_k) = (usize::MAX, usize::MAX, usize::MAX);
    (search.rrf_k, search.lexical_weight, search.semantic_weight) = (0, u32::MAX, u32::MAX);
    search.filters.contains = vec!["a".to_owned()];
    let hits = folder.open().search("alpha", &search, QueryVector::Embedder(&letters)).unwrap();
    assert_eq!(hits.len(), 2);
    for query in [
        "y".repeat(60_000) + "ed",
        format!("\"{}\"", "alpha ".repeat(10_000)),
        "yyyY ".repeat(9_000),
    ] {
        folder
            .open()
            .search(&query, &SearchOptions::default(), QueryVector::Embedder(&letters))
            .unwrap();
    }
}

#[test]
fn prefer_recent_breaks_lexical_ties() {
    let folder = Folder::new();
    folder.write("a.md", "---\ndate: 2020-01-01\n---\nalpha one");
    folder.write("b.md", "---\ndate: 2026-01-01\n---\nalpha two");
    folder.write("c.md", "---\ntext: 2026-01-01\n---\nalpha six");
    folder.build();
    let mut search = SearchOptions::default();
    assert_eq!(paths(&lexical(&folder, "alpha")), ["a.md", "b.md", "c.md"]);
    search.prefer_recent = true;
    let hits = folder.open().search("alpha", &search, QueryVector::None).unwrap();
    assert_eq!(paths(&hits), ["b.md", "a.md", "c.md"]);
}

#[test]
fn short_headings_match_as_whole_words() {
    let folder = Folder::new();
    folder.write("a.md", format!("# Go\n\n{}Google", "Some words of Google. ".repeat(150)));
    folder.build();
    assert_eq!(lexical(&folder, "go").len() as u64, folder.open().manifest().chunks);
}

#[test]
fn long_heading_paths_are_truncated() {
    let folder = Folder::new();
    folder.write("a.md", format!("# {}\n\ntext", "word ".repeat(400_000)));
    folder.build();
    let cache = folder.open();
    assert!(cache.chunks(0).unwrap().iter().all(|chunk| chunk.heading_path.len() <= 512));
}

#[test]
fn changed_metadata_updates_the_index() {
    let folder = Folder::new();
    folder.write("a.md", "---\ntitle: Zebra\n---\ntext");
    let fresh = folder.build();
    let mut about = DocumentMetadata::default();
    about.title = Some(String::new());
    let sources = folder.sources().metadata([("a.md".to_owned(), about)].into());
    build(&sources, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap();
    let untitled = folder.sources().metadata([].into());
    let again = build(&untitled, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((again.is_unchanged, again.version), (false, fresh.version));
}

#[test]
fn unicode_forms_match_each_other() {
    let folder = Folder::new();
    folder.write("a.md", "\u{1109}\u{1165}\u{1107}\u{1165} and ｻｰﾊﾞ and cafe\u{301}");
    folder.build();
    for query in ["서버", "サーバ", "café", "CAFE"] {
        assert_eq!(lexical(&folder, query).len(), 1, "{query}");
    }
}

#[test]
fn an_empty_lock_file_is_reused() {
    let folder = Folder::new();
    folder.write("a.md", "text");
    std::fs::create_dir_all(folder.cache()).unwrap();
    std::fs::write(folder.cache().join("LOCK"), "").unwrap();
    folder.build();
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

#[test]
fn a_word_counts_in_the_path_and_for_all_chunks_of_its_document() {
    let folder = Folder::new();
    let other = "Nothing that anybody searches for. ".repeat(40);
    folder.write("guides/deploy.md", format!("# One\n\nThe zeppelin.\n\n# Two\n\n{other}"));
    folder.write("notes.md", format!("# Deploy\n\nThe zeppelin.\n\n# Two\n\n{other}"));
    folder.build();
    let hits = lexical(&folder, "deploy zeppelin deploy");
    let hit = |path: &str, heading: &str| {
        let found = hits.iter().find(|hit| hit.path == path && hit.heading_path == heading);
        found.and_then(|hit| hit.lexical.clone()).unwrap()
    };
    let term = |path: &str, heading: &str, term: &str| {
        hit(path, heading).terms.into_iter().find(|other| other.term == term).unwrap()
    };
    let in_path = term("guides/deploy.md", "One", "deploy");
    assert_eq!((in_path.count, in_path.path, in_path.symbols, in_path.in_query), (0, 1, 0, 2));
    let in_text = term("notes.md", "Deploy", "deploy");
    assert_eq!((in_text.count, in_text.path), (1, 0));
    // The whole document has the word in the path of each chunk.
    assert!(in_path.document_score > in_text.document_score);
    // The second chunk has one word by its path, and the other by its document.
    let zeppelin = term("guides/deploy.md", "Two", "zeppelin");
    assert_eq!((zeppelin.count, zeppelin.score), (0, zeppelin.document_score));
    assert!(zeppelin.score > 0.0);
    for hit in &hits {
        let lexical = hit.lexical.as_ref().unwrap();
        let sum: f64 = lexical.terms.iter().map(|term| term.score).sum();
        assert!((sum - lexical.score).abs() < 1e-12);
    }
    // By the body alone, the path counts nothing.
    let mut body = SearchOptions::default();
    body.ranking = Ranking::Body;
    let found = folder.open().search("deploy", &body, QueryVector::None).unwrap();
    assert_eq!(paths(&found), ["notes.md"]);
}

#[test]
fn tests_count_less_and_repeated_words_count_for_longer_in_source_code() {
    let scores = |paths: [&str; 2]| {
        let folder = Folder::new();
        folder.write(paths[0], "zeppelin zeppelin zeppelin balloon");
        folder.write(paths[1], "zeppelin hangar airship balloon");
        folder.build_all_files();
        let hits = lexical(&folder, "zeppelin");
        let score = |path: &str| hits.iter().find(|hit| hit.path == path)?.lexical.as_ref();
        paths.map(|path| score(path).unwrap().score)
    };
    // All chunks have the same length, so a factor is n * (k1 + 1) / (n + k1), and 3/10 of the document's are added.
    let idf = (1.0 + 0.5 / 2.5_f64).ln();
    let document = |n: f64| 0.3 * n * 2.2 / (n + 1.2);
    let expected = |k1: f64, n: f64| idf * (n * (k1 + 1.0) / (n + k1) + document(n));
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    for (paths, k1, weights) in [
        (["a.md", "b.md"], 1.2, [1.0, 1.0]),
        (["a.lua", "b.md"], 1.85, [1.0, 1.0]),
        (["a.lua", "b.lua"], 2.5, [1.0, 1.0]),
        (["tests/a.lua", "b.lua"], 2.5, [0.8, 1.0]),
    ] {
        let [repeated, once] = scores(paths);
        close(repeated, weights[0] * expected(k1, 3.0));
        close(once, weights[1] * expected(k1, 1.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Pruning never changes what is found, although documents have a score of their own.
    #[test]
    fn few_chunks_are_the_first_of_many(
        documents in prop::collection::vec(prop::collection::vec("([k-p]q ){1,9}", 1..5), 1..14),
        query in prop::collection::vec("[k-p]q", 1..7),
    ) {
        let folder = Folder::new();
        for (i, sections) in documents.iter().enumerate() {
            let text: String = sections.iter().map(|words| format!("# {i}\n\n{words}\n\n")).collect();
            let kind = [".md", ".txt", ".lua", "_test.lua"][i % 4];
            folder.write(&format!("{}{i}{kind}", ["kq/", "lq-", ""][i % 3]), text);
        }
        folder.build_all_files();
        let index = folder.open();
        let mut search = SearchOptions::default();
        let mut find = |count| {
            search.lexical_k = count;
            index.search(&query.join(" "), &search, QueryVector::None).unwrap()
        };
        let all = find(1_000);
        for count in 1..12 {
            let few = find(count);
            prop_assert_eq!(&few[..], &all[..all.len().min(count)]);
        }
    }
}

#[cfg(all(feature = "rust", feature = "python"))]
#[test]
fn items_of_source_code_are_chunks_with_their_names() {
    let folder = Folder::new();
    let body = "        self.count += 1; // a step of many\n".repeat(50);
    let text = format!(
        "use std::fmt;\n\n/// Counts.\n#[derive(Debug)]\npub struct Counter<T> {{\n    count: T,\n}}\n\nimpl<T> Counter<T> {{\n    \
         /// Adds one.\n    pub fn increment(&mut self) {{\n{body}    }}\n\n    pub fn reset(&mut self) {{\n        self.count = 0;\n    }}\n}}\n"
    );
    folder.write("src/counter.rs", &text);
    folder.write(
        "src/use_it.py",
        "import counter\n\n\n@cached\ndef use_it(counter):\n    counter.reset()\n",
    );
    folder.write("src/broken.rs", "%%% ))) not { code at all ((( \\ ???");
    folder.build_all_files();
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
    let index = folder.open();
    let chunks = |path: &str| index.chunks(index.find_document(path).unwrap().unwrap()).unwrap();
    let of_rust = chunks("src/counter.rs");
    let symbols: Vec<&str> = of_rust.iter().map(|chunk| chunk.symbols.as_str()).collect();
    assert_eq!(symbols, ["Counter", "increment", "increment", "reset"]);
    let starts = |index: usize| &text[of_rust[index].range.clone()];
    assert!(starts(1).starts_with("    /// Adds one.\n    pub fn increment"), "{}", starts(1));
    assert_eq!(
        (of_rust[1].heading_path.as_str(), of_rust[3].heading_path.as_str()),
        ("Counter", "Counter")
    );
    assert_eq!(chunks("src/use_it.py").last().unwrap().symbols, "use_it");
    assert_eq!(chunks("src/broken.rs").len(), 1);
    // The definition comes before the file that mentions it.
    let hits = lexical(&folder, "reset");
    assert_eq!((hits[0].path.as_str(), hits[0].sequence), ("src/counter.rs", 3));
    assert_eq!(hits[0].lexical.as_ref().unwrap().terms[0].symbols, 1);
}

#[test]
fn chunk_sizes_are_remembered_and_part_of_the_version() {
    let folder = Folder::new();
    folder.write("a.md", "One sentence that is here. ".repeat(100));
    let make = |chunk_sizes| {
        let options = BuildOptions { chunk_sizes, ..BuildOptions::default() };
        build(&folder.sources(), &folder.cache(), &options, &mut |_| {}).unwrap()
    };
    let default = make(None);
    let small = make(Some(ChunkSizes::new(64, 100)));
    assert!(small.chunks > 2 * default.chunks && small.version != default.version);
    assert!(make(None).is_unchanged);
    let largest = folder.open().inspect().unwrap().chunk_bytes.unwrap().max;
    assert!(largest <= 400, "{largest}");
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
    assert_eq!(make(Some(ChunkSizes::default())).version, default.version);
}

#[test]
fn scores_are_fused_between_the_lowest_and_the_highest() {
    let folder = Folder::new();
    for (name, text) in
        [("a.md", "ah ah ah"), ("b.md", "ah bh"), ("c.md", "ah ch dh eh fh"), ("d.md", "bh")]
    {
        folder.write(name, text);
    }
    let letters = Letters::new();
    folder.build_with(VectorSource::Embedder(&letters)).unwrap();
    let index = folder.open();
    let mut search = SearchOptions::default();
    let mut find = |mode| {
        search.mode = mode;
        index.search("ah", &search, QueryVector::Embedder(&letters)).unwrap()
    };
    // A retriever alone keeps its scores in proportion.
    let words = find(SearchMode::Lexical);
    let score = |hit: &Hit| hit.lexical.as_ref().map_or(0.0, |lexical| lexical.score);
    for hit in &words {
        let share = score(hit) / score(&words[0]);
        assert_eq!(hit.score, (share * 2_f64.powi(32)) as u64);
    }
    // Two are scaled, each to its own lowest and highest.
    let both = find(SearchMode::Hybrid);
    let semantic = |hit: &Hit| hit.semantic.as_ref().map_or(0.0, |semantic| semantic.score);
    let scaled = |own: &dyn Fn(&Hit) -> f64, hit: &Hit| {
        let scores: Vec<f64> = both.iter().map(own).filter(|score| *score > 0.0).collect();
        let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = scores.iter().copied().fold(0.0, f64::max);
        if own(hit) > 0.0 { (own(hit) - lowest) / (highest - lowest) } else { 0.0 }
    };
    assert!(both.len() > 2 && both.is_sorted_by_key(|hit| std::cmp::Reverse(hit.score)));
    for hit in &both {
        let expected = scaled(&score, hit) + scaled(&semantic, hit);
        assert!(
            (hit.score as f64 / 2_f64.powi(32) - expected).abs() < 1e-6,
            "{} {expected}",
            hit.path
        );
    }
}
