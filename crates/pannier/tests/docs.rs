//! Searching and reading: the budget bounds everything that is sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use pannier::ops::{
    Answer, Bound, Control, FoundPassages, IndexRequest, ReadAnswer, ReadRequest, Request,
    SearchAnswer, SearchRequest, StatsRequest, VerifyRequest,
};
use pannier::{Audience, Category, Defaults, Failure, NamedFolder, Shelf, TokenCounter};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The handbook of the examples, and this project's own documents.
const SOURCES: [&str; 2] = ["examples/handbook", "docs"];

/// The indexes of both, built once.
static INDEXES: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    SOURCES.map(|source| {
        let name = source.replace('/', "-");
        let index = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ops-{name}"));
        let _ = fs::remove_dir_all(&index);
        let request = IndexRequest { folder: Some(root.join(source)), ..IndexRequest::default() };
        let built = request.run(&shelf(&index), &Control::default()).unwrap();
        assert!(built.documents >= 3 && !built.is_unchanged);
        index
    })
});

fn shelf(index: &Path) -> Shelf {
    let mut defaults = Defaults::default();
    defaults.index = Some(index.to_owned());
    Shelf::local().with_defaults(defaults)
}

fn search(source: usize, request: Value) -> Result<FoundPassages, Failure> {
    let request = SearchRequest::from_value(request)?;
    match request.run(&shelf(&INDEXES[source]), &Control::default())? {
        SearchAnswer::Passages(answer) => Ok(answer),
        other => panic!("{other:?}"),
    }
}

fn read(source: usize, request: Value) -> Result<pannier::ops::FoundDocuments, Failure> {
    match ReadRequest::from_value(request)?.run(&shelf(&INDEXES[source]), &Control::default())? {
        ReadAnswer::Documents(answer) => Ok(answer),
        other => panic!("{other:?}"),
    }
}

fn counter(name: &str) -> Arc<dyn TokenCounter> {
    Arc::from(pannier::tokens::counter_by_name(name).unwrap())
}

/// Checks that an answer fits in both ways of sending it, or that the smallest budget of the failure works.
fn check<A: Answer>(
    tokenizer: &str,
    budget: i64,
    run: impl Fn(i64) -> Result<A, Failure>,
) -> Result<(), TestCaseError> {
    let fits = |answer: &A, budget: i64| {
        let counter = counter(tokenizer);
        let line = serde_json::to_string(answer).unwrap() + "\n";
        let sent = counter.count(&answer.text()) + counter.count(&answer.details().to_string());
        prop_assert!(counter.count(&line) as i64 <= budget, "{budget}: {line}");
        prop_assert!(sent as i64 <= budget, "{budget}: {line}");
        Ok(())
    };
    match run(budget) {
        Ok(answer) => fits(&answer, budget),
        Err(failure) => {
            prop_assert_eq!(failure.category(), Category::BudgetNotMet);
            let Failure::AnswerOverBudget { smallest_budget, .. } = failure else {
                return Err(TestCaseError::fail(failure.to_string()));
            };
            prop_assert!(smallest_budget > budget);
            fits(&run(smallest_budget).unwrap(), smallest_budget)?;
            prop_assert!(run(smallest_budget - 1).is_err());
            Ok(())
        }
    }
}

fn query() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "deploy",
        "roll",
        "back",
        "canteen",
        "budget",
        "tokens",
        "policy",
        "\"roll back\"",
        "index",
        "the",
        "passages",
        "memory",
        "zebra",
        "ünïcode",
        "{\"json\"}",
    ]);
    prop::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

fn tokenizer() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["bytes/4", "o200k"])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn answers_of_searches_never_exceed_their_budget(
        source in 0..2_usize,
        query in query(),
        tokenizer in tokenizer(),
        budget in prop_oneof![0..100_i64, 100..4_000_i64],
        layout in prop::sample::select(vec!["grouped", "interleaved", "ranked"]),
        neighbors in any::<bool>(),
    ) {
        check(tokenizer, budget, |budget| search(source, json!({
            "query": query, "budget": budget, "tokenizer": tokenizer, "layout": layout,
            "neighbors": neighbors,
        })))?;
    }

    #[test]
    fn answers_of_reading_never_exceed_their_budget(
        source in 0..2_usize,
        query in query(),
        tokenizer in tokenizer(),
        budget in prop_oneof![0..100_i64, 100..4_000_i64],
    ) {
        check(tokenizer, budget, |budget| read(source, json!({
            "query": query, "budget": budget, "tokenizer": tokenizer,
        })))?;
    }
}

#[test]
fn an_answer_has_contents_once_and_places_of_what_is_left_out() {
    let answer = search(0, json!({ "query": "roll back", "budget": 300 })).unwrap();
    assert_eq!(answer.passages[0].path, "guides/rollback.md");
    assert_eq!(answer.passages[0].score, 1.0);
    let line = serde_json::to_string(&answer).unwrap();
    assert_eq!(line.matches("A rollback takes two minutes").count(), 1, "{line}");
    assert!(!answer.details().to_string().contains("two minutes"));
    assert!(answer.text().contains("two minutes"));

    let all = search(1, json!({ "query": "budget", "budget": 100_000 })).unwrap();
    assert!(all.more == 0 && all.passages.len() + all.omitted.len() == 50, "{all:?}");
    // One passage, and six that are left out: some have a stub, and the others are counted.
    let few = (300..1_000).step_by(20).map(|budget| {
        let request = json!({
            "query": "budget", "budget": budget, "paths": "json.md", "max_per_doc": 1, "limit": 7,
        });
        search(1, request).unwrap()
    });
    let mut few =
        few.inspect(|few| assert_eq!(few.passages.len() + few.omitted.len() + few.more, 7));
    let few = few.find(|few| few.passages.len() == 1 && few.omitted.len() > 2 && few.more > 0);
    let reason = &few.unwrap().omitted[0].reason;
    assert!(["BudgetExceeded", "DocumentCapExceeded"].contains(&reason.as_str()), "{reason}");
}

#[test]
fn if_nothing_fits_the_best_passage_is_cut_and_documents_are_only_named() {
    let answer = search(1, json!({ "query": "\"reciprocal ranks\"", "budget": 250 })).unwrap();
    assert_eq!(answer.passages.len(), 1, "{answer:?}");
    let passage = &answer.passages[0];
    assert!(passage.truncated && passage.text.contains("[…]"), "{passage:?}");
    assert!(passage.text.to_lowercase().contains("reciprocal rank"), "{passage:?}");
    assert!(!passage.lines.is_empty());
    let answer = read(1, json!({ "query": "\"reciprocal ranks\"", "budget": 250 })).unwrap();
    assert!(answer.documents.is_empty() && !answer.omitted.is_empty(), "{answer:?}");
}

#[test]
fn documents_are_read_whole_by_path_or_because_they_match() {
    let both = json!({ "paths": ["lunch.md", "guides/deploy.md"], "budget": 400 });
    let answer = read(0, both).unwrap();
    let paths: Vec<&str> = answer.documents.iter().map(|document| document.path.as_str()).collect();
    assert_eq!(paths, ["lunch.md", "guides/deploy.md"]);
    assert_eq!(answer.documents[0].content, "The canteen closes at two.");
    assert_eq!(answer.documents[0].score, None);

    let answer = read(0, json!({ "query": "canteen?", "budget": "4k" })).unwrap();
    assert_eq!((answer.documents.len(), answer.more), (1, 0), "{answer:?}");
    assert_eq!(answer.documents[0].score, Some(1.0));

    let failure = read(0, json!({ "paths": "../lunch.md" })).unwrap_err();
    assert_eq!(failure.to_string(), "paths: there is no document `../lunch.md` in the index");
    let failure = read(0, json!({})).unwrap_err();
    assert_eq!(failure.to_string(), "give a query or the paths of documents");
}

#[test]
fn old_names_of_options_are_read() {
    let new = json!({
        "query": "deploy", "budget": 900, "layout": "ranked", "max_per_doc": 1,
        "near_duplicates": 0.5, "limit": 9, "must_contain": "deploy", "paths": "guides/**",
    });
    let old = json!({
        "query": "deploy", "max_tokens": "900", "packing": "score-weighted",
        "max_chunks_per_doc": 1, "dedup_threshold": 0.5, "top_k": "9", "contains": ["deploy"],
        "globs": ["guides/**"],
    });
    let (new, old) = (search(0, new).unwrap(), search(0, old).unwrap());
    assert_eq!(new, old);
    assert_eq!(new.passages.len(), 2, "{new:?}");
    let failure = search(0, json!({ "query": "x", "near_duplicates": 80 })).unwrap_err();
    let expected = "near_duplicates: 80 is not a share; write a number from 0 to 1";
    assert_eq!(failure.to_string(), expected);
}

#[test]
fn a_smallest_share_of_the_best_score_drops_the_rest() {
    let find = |option: Value| {
        let mut request = json!({ "query": "roll back a deploy", "budget": 2000 });
        request.as_object_mut().unwrap().append(&mut option.as_object().unwrap().clone());
        search(0, request)
    };
    let all = find(json!({})).unwrap();
    let scores = |found: &FoundPassages| -> Vec<f64> {
        let mut scores: Vec<_> = found.passages.iter().map(|passage| passage.score).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        scores
    };
    let middle = scores(&all)[1];
    let some = find(json!({ "min_score": middle - 0.0001 })).unwrap();
    assert!(scores(&all).iter().any(|score| *score < middle), "{all:?}");
    assert_eq!(scores(&some), scores(&all)[..2]);
    assert!(some.omitted.iter().any(|passage| passage.reason == "BelowFloor"), "{some:?}");
    assert_eq!(find(json!({ "min_score": 0 })).unwrap(), all);

    let failure = find(json!({ "min_score": 2 })).unwrap_err();
    let expected = "min_score: 2 is not a share; write a number from 0 to 1";
    assert_eq!(failure.to_string(), expected);
}

#[test]
fn a_policy_packs_passages() {
    let policy = json!({ "scorers": ["reflexive"], "slicer": "rank", "placer": "rank" });
    let request = json!({ "query": "roll back a deploy", "budget": 2000, "policy": policy });
    let found = search(0, request).unwrap();
    assert!(found.passages.is_sorted_by(|a, b| a.score >= b.score), "{found:?}");
    assert!(search(0, json!({ "query": "deploy", "policy": "rag" })).is_ok());

    let failure = search(0, json!({ "query": "deploy", "policy": "rag", "max_per_doc": 1 }));
    let expected = "max_per_doc: the policy decides this; remove one of them";
    assert_eq!(failure.unwrap_err().to_string(), expected);
    assert!(search(0, json!({ "query": "deploy", "policy": "rug" })).is_err());
}

#[test]
fn a_server_knows_names_only() {
    let index = NamedFolder::new("handbook", &INDEXES[0]).unwrap();
    let server = Shelf::default().with_documents(&[index]).unwrap();
    let run =
        |request: Value| SearchRequest::from_value(request)?.run(&server, &Control::default());
    assert!(run(json!({ "query": "canteen" })).is_ok());
    assert!(run(json!({ "query": "canteen", "index": "Handbook" })).is_ok());
    let path = INDEXES[1].display().to_string();
    for request in [
        json!({ "query": "canteen", "index": path }),
        json!({ "query": "canteen", "embedder": "static:/etc" }),
        json!({ "query": "canteen", "embedder": "http://localhost/v1#m", "embedder_key_env": "HOME" }),
        json!({ "query": "canteen", "reranker": "http://localhost/v1#m", "reranker_key_env": "HOME" }),
        json!({ "query": "canteen", "tokenizer": "file:/etc/passwd" }),
    ] {
        let failure = run(request.clone()).unwrap_err();
        assert_eq!(failure.category(), Category::InvalidInput, "{request}");
    }
    let build = IndexRequest::default().run(&server, &Control::default());
    assert_eq!(build.unwrap_err().category(), Category::InvalidInput);
    let control = Control::default();
    assert!(StatsRequest::default().run(&server, &control).unwrap().manifest.documents == 3);
    assert!(VerifyRequest::default().run(&server, &control).unwrap().is_sound);
}

#[test]
fn receipts_of_texts_and_of_answers_replay() {
    let shelf = shelf(&INDEXES[1]);
    let control = Control::default();
    let index = shelf.index(None).unwrap();
    let request = json!({ "query": "budget", "budget": 900, "neighbors": true });
    let request = SearchRequest::from_value(request).unwrap();
    let pool = request.open(&shelf, &control).unwrap();
    for bound in [Bound::Text, Bound::Answer] {
        let receipt = pool.select(bound, |selection, _| pool.receipt(bound, selection)).unwrap();
        let none = pannier::docs::QueryVector::None;
        let again =
            pannier::ops::SearchPool::from_receipt(&receipt, &*index, none, counter("o200k"));
        let replay = again.unwrap().replay(&receipt).unwrap();
        assert_eq!(replay, pannier::policy::Replay::Identical);
    }
    let request = json!({ "query": "budget", "budget": 5_000, "limit": 20 });
    let pool = ReadRequest::from_value(request).unwrap().open(&shelf, &control).unwrap();
    for bound in [Bound::Text, Bound::Answer] {
        let receipt = pool.select(bound, |selection, _| pool.receipt(bound, selection)).unwrap();
        let again = pannier::ops::ReadPool::from_receipt(&receipt, &*index, counter("o200k"));
        let replay = again.unwrap().replay(&receipt).unwrap();
        assert_eq!(replay, pannier::policy::Replay::Identical);
    }
}

#[test]
fn a_budget_below_the_smallest_answer_says_which_one_works() {
    let failure = search(0, json!({ "query": "deploy", "budget": 30, "reserve": 25 })).unwrap_err();
    let Failure::AnswerOverBudget { smallest_budget, budget: 30 } = failure else {
        panic!("{failure}");
    };
    assert!(smallest_budget > 30);
    let advice = failure.advice(Audience::Command).unwrap();
    assert_eq!(advice, format!("raise --budget to {smallest_budget}"));
    let works = json!({ "query": "deploy", "budget": smallest_budget, "reserve": 25 });
    assert!(search(0, works).unwrap().passages.is_empty());
}

/// A repeated search is answered from memory: it does not read the index, and the bytes are the same.
#[test]
fn a_server_remembers_answers_until_the_index_changes() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("remembered");
    let _ = fs::remove_dir_all(&root);
    let (docs, index) = (root.join("docs"), root.join("index"));
    fs::create_dir_all(&docs).unwrap();
    fs::write(docs.join("a.md"), "# Ferries\n\nThe ferry leaves at noon.\n").unwrap();
    let build = || {
        let request = IndexRequest { folder: Some(docs.clone()), ..IndexRequest::default() };
        request.run(&shelf(&index), &Control::default()).unwrap()
    };
    build();
    let folder: NamedFolder = format!("docs={}", index.display()).parse().unwrap();
    let server = Shelf::default().with_documents(&[folder]).unwrap();
    let ask = |request: Value| {
        let answer = SearchRequest::from_value(request)?.run(&server, &Control::default())?;
        Ok::<_, Failure>((answer.text().into_owned(), answer.details()))
    };
    let first = ask(json!({ "query": "ferry" })).unwrap();
    assert!(first.0.contains("leaves at noon"));
    // The text of the passage is damaged in the files that the server has open.
    let segment = fs::read_dir(index.join("segments")).unwrap().next().unwrap().unwrap().path();
    let contents = fs::read(segment.join("contents")).unwrap();
    fs::write(segment.join("contents"), vec![b'x'; contents.len()]).unwrap();
    assert_eq!(ask(json!({ "query": "ferry" })).unwrap(), first);
    for other in [json!({ "query": "noon" }), json!({ "query": "ferry", "budget": 100 })] {
        assert!(ask(other).unwrap_err().to_string().contains("does not match its checksum"));
    }
    // A new version has new answers.
    fs::write(docs.join("a.md"), "# Ferries\n\nThe ferry leaves at ten.\n").unwrap();
    build();
    let later = ask(json!({ "query": "ferry" })).unwrap();
    assert!(later.0.contains("leaves at ten") && !later.0.contains("noon"));
}

/// Documents with both line endings, long paragraphs, adjacent sections, fences and source code, and their index.
static CITED: LazyLock<(Vec<(&str, String)>, PathBuf)> = LazyLock::new(|| {
    let words = ["oar", "sail", "keel", "mast", "rudder"];
    let sentences = |count: usize, seed: usize| -> String {
        let sentence = |i: usize| {
            let (word, other) = (words[(i * 7 + seed) % 5], words[(i * 3 + seed) % 5]);
            let end = if i % 4 == 3 { "\n" } else { " " };
            format!("Sentence {seed} {i} is about the {word} and the {other}.{end}")
        };
        (0..count).map(sentence).collect()
    };
    let section = |i: usize| {
        let code = format!(
            "```sh\n{}```\n",
            format!("{} --now {i}\n", words[i % 5]).repeat(i % 3 * 9 + 1)
        );
        format!(
            "## Section {i} of the {}\n\n{}\n\n{code}\n",
            words[i % 5],
            sentences(i % 4 * 9 + 1, i)
        )
    };
    let prose: String = (0..24).map(section).collect();
    let function = |i: usize| {
        let word = words[i % 5];
        format!(
            "/// Turns the {word}.\nfn {word}_{i}() -> usize {{\n    let {word} = {i};\n    {word} + {i}\n}}\n\n"
        )
    };
    let files = vec![
        ("unix.md", format!("# Boats\n\n{prose}")),
        ("windows.md", format!("# Ships\n\n{prose}").replace('\n', "\r\n")),
        ("plain.txt", sentences(300, 1)),
        ("code.rs", (0..40).map(function).collect()),
    ];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ops-cited");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("files")).unwrap();
    for (name, text) in &files {
        fs::write(folder.join("files").join(name), text).unwrap();
    }
    let index = folder.join("index");
    let request = IndexRequest { folder: Some(folder.join("files")), ..IndexRequest::default() };
    request.run(&shelf(&index), &Control::default()).unwrap();
    (files, index)
});

/// Returns the numbers of `[path:first-last,first-last]`, and the path.
fn citation(line: &str) -> Option<(&str, Vec<[usize; 2]>)> {
    let (path, ranges) = line.strip_prefix('[')?.strip_suffix(']')?.rsplit_once(':')?;
    let range = |range: &str| {
        let (first, last) = range.split_once('-')?;
        Some([first.parse().ok()?, last.parse().ok()?])
    };
    Some((path, ranges.split(',').map(range).collect::<Option<_>>()?))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// What stands below a citation is in the cited lines, from the first to the last.
    #[test]
    fn citations_name_the_lines_of_their_passages(
        words in prop::collection::vec(prop::sample::select(vec!["oar", "sail", "keel", "section 7", "rudder", "sentence 5"]), 1..4),
        budget in 60..3_000_i64,
    ) {
        let (files, index) = &*CITED;
        let request = json!({ "query": words.join(" "), "budget": budget });
        let answer = SearchRequest::from_value(request).unwrap().run(&shelf(index), &Control::default());
        let text = answer.unwrap().text().into_owned();
        let mut cited = 0;
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some((path, ranges)) = citation(line) else { continue };
            cited += 1;
            let (_, file) = files.iter().find(|(name, _)| *name == path).unwrap();
            let file: Vec<&str> = file.lines().collect();
            let mut pieces = Vec::new();
            while let Some(line) = lines.next_if(|line| citation(line).is_none()) {
                // Cut code has marks of its own.
                let is_fence = line.trim_start().starts_with("```");
                pieces.extend(line.split("[…]").map(str::trim).filter(|piece| !is_fence && !piece.is_empty()));
            }
            for piece in &pieces {
                let is_cited = ranges.iter().any(|[first, last]| {
                    file[first - 1..*last].iter().any(|line| line.contains(piece))
                });
                prop_assert!(is_cited, "{piece:?} of {path} {ranges:?}\n{text}");
            }
            for [first, last] in &ranges {
                for number in [first, last] {
                    let line = file[number - 1].trim();
                    let is_fence = line.starts_with("```") || line.is_empty();
                    let is_quoted = pieces.iter().any(|piece| line.contains(piece));
                    prop_assert!(is_fence || is_quoted, "line {number} of {path} {ranges:?}\n{text}");
                }
            }
        }
        prop_assert!(cited > 0 || text.starts_with("No passage fits"), "{text}");
    }
}
