//! Context assembly: the examples of the specification, and the invariants of every context.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pannier_core::TokenCounter;
use pannier_docs::{
    AssembledContext, Assembler, AssemblyConfig, BuildOptions, ContextChunk, DocumentIndex,
    DocumentSource, OmittedReason, QueryVector, TokenBudget, build, verify_determinism,
};
use pannier_policy::Packing;
use pannier_policy::{PolicyRegistry, Replay};
use proptest::prelude::*;

/// A temporary index of documents.
struct Documents {
    folder: PathBuf,
    cache: DocumentIndex,
}

impl Documents {
    fn new(documents: &[(&str, &str)]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("assembly-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for (path, text) in documents {
            let path = folder.join("docs").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let sources = DocumentSource::new(folder.join("docs")).patterns(["*.md", "*.txt"]);
        build(&sources, &folder.join("cache"), &BuildOptions::default(), &mut |_| {}).unwrap();
        let cache = DocumentIndex::open(folder.join("cache")).unwrap();
        Self { folder, cache }
    }

    fn assemble(&self, config: AssemblyConfig, query: &str, budget: usize) -> AssembledContext {
        let assembler = Assembler::new(&self.cache, config);
        assembler.assemble(query, &TokenBudget::available(budget), QueryVector::None).unwrap()
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn config(change: impl FnOnce(&mut AssemblyConfig)) -> AssemblyConfig {
    let mut config = AssemblyConfig::specified();
    change(&mut config);
    config
}

fn names(context: &AssembledContext) -> Vec<String> {
    let name = |path: &str, sequence: u32| format!("{path}#{sequence}");
    context.chunks.iter().map(|chunk| name(&chunk.document_path, chunk.sequence)).collect()
}

/// Returns a text of `tokens` tokens that contains `word` `times` times. More occurrences rank higher.
fn text(word: &str, times: usize, tokens: usize) -> String {
    let mut text = format!("{word} ").repeat(times);
    while text.len() < tokens * 4 - 1 {
        let filler = format!("{word}filler{} ", text.len());
        text.push_str(&filler[..filler.len().min(tokens * 4 - 1 - text.len())]);
    }
    text + "\n"
}

#[test]
fn the_packing_vector() {
    // A has 50 tokens, B 100, C 30, D 80, in this order of rank.
    let texts = [("a.md", 9, 50), ("b.md", 14, 100), ("c.md", 3, 30), ("d.md", 5, 80)]
        .map(|(path, times, tokens)| (path, text("target", times, tokens)));
    let documents: Vec<(&str, &str)> =
        texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let documents = Documents::new(&documents);
    let context = documents.assemble(AssemblyConfig::specified(), "target", 150);
    assert_eq!(names(&context), ["a.md#0", "c.md#0"]);
    assert_eq!((context.total_tokens, context.overhead_tokens, context.truncated), (80, 20, false));
    let omitted: Vec<_> = context
        .omitted
        .iter()
        .map(|omitted| (omitted.document_path.as_str(), omitted.tokens))
        .collect();
    assert_eq!(omitted, [("b.md", 100), ("d.md", 80)]);
    assert!(context.omitted.iter().all(|omitted| matches!(&omitted.reason, OmittedReason::Other(reason) if reason.name() == "BudgetExceeded")));
}

#[test]
fn the_grouping_vector() {
    let section = |times: usize, name: &str| {
        format!("# {name}\n\n{}\n", format!("target {name} ").repeat(times))
    };
    let a = section(9, "One") + &section(5, "Two");
    let b = section(7, "Three") + &section(4, "Four");
    let documents = Documents::new(&[("a.md", &a), ("b.md", &b)]);
    let context = documents.assemble(AssemblyConfig::specified(), "target", 4_000);
    assert_eq!(names(&context), ["a.md#0", "a.md#1", "b.md#0", "b.md#1"]);
    assert_eq!(context.text, format!("[DOC: a.md]\n{a}\n[DOC: b.md]\n{b}"));
    // Their order by score, and one after the other.
    let mixed = documents.assemble(
        config(|config| config.packing = Packing::ScoreWeighted),
        "target",
        4_000,
    );
    assert_eq!(names(&mixed), ["a.md#0", "b.md#0", "a.md#1", "b.md#1"]);
    assert_eq!(mixed.text.matches("[DOC: ").count(), 4);
    let turns =
        documents.assemble(config(|config| config.packing = Packing::Interleaved), "target", 4_000);
    assert_eq!(names(&turns), ["a.md#0", "b.md#0", "a.md#1", "b.md#1"]);
    assert!(turns.overhead_tokens > context.overhead_tokens);
}

#[test]
fn the_determinism_vector() {
    let documents = Documents::new(&[
        ("a.md", "Text A about blockchain consensus."),
        ("b.md", "Text B about the consensus of a blockchain."),
        ("c.md", "Text C about consensus."),
    ]);
    for packing in [Packing::Greedy, Packing::Interleaved, Packing::ScoreWeighted] {
        let assembler = Assembler::new(&documents.cache, config(|config| config.packing = packing));
        let budget = TokenBudget::new(2_000);
        assert!(
            verify_determinism(&assembler, "blockchain consensus", &budget, QueryVector::None)
                .unwrap()
        );
        let context =
            assembler.assemble("blockchain consensus", &budget, QueryVector::None).unwrap();
        assert_eq!(names(&context), ["a.md#0", "b.md#0", "c.md#0"]);
        assert_eq!(context.query_hash, blake3::hash(b"blockchain consensus").to_hex().as_str());
        assert_eq!(context.state_root, documents.cache.manifest().version);
    }
}

#[test]
fn reserves_above_the_window_give_an_empty_context() {
    let documents = Documents::new(&[("a.md", "word")]);
    let assembler = Assembler::new(&documents.cache, AssemblyConfig::specified());
    for total in [0, 1, 799, 800] {
        let context =
            assembler.assemble("word", &TokenBudget::new(total), QueryVector::None).unwrap();
        assert_eq!(
            (context.chunks.len(), context.text.as_str(), context.truncated),
            (0, "", false),
            "{total}"
        );
        assert_eq!((context.total_tokens, context.overhead_tokens), (0, 0));
        assert_eq!(context.omitted.len(), 1);
    }
    let context = assembler.assemble("word", &TokenBudget::new(811), QueryVector::None).unwrap();
    assert_eq!(context.text, "[DOC: a.md]\nword\n");
    for query in ["", "?", "nowhere"] {
        let context =
            assembler.assemble(query, &TokenBudget::new(9_000), QueryVector::None).unwrap();
        assert_eq!((context.text.as_str(), context.omitted.len()), ("", 0));
    }
}

#[test]
fn a_passage_is_truncated_only_if_none_fits() {
    let long = format!("{}\n", "target words ".repeat(60));
    let documents = Documents::new(&[("long.md", &long)]);
    let whole = long.len().div_ceil(4);
    for budget in 0..whole + 20 {
        let context = documents.assemble(AssemblyConfig::specified(), "target", budget);
        assert!(context.text.len().div_ceil(4) <= budget, "{budget}");
        assert!(context.total_tokens + context.overhead_tokens <= budget, "{budget}");
        let is_whole = budget >= ("[DOC: long.md]\n".len() + long.len()).div_ceil(4);
        assert_eq!(context.truncated, !is_whole && budget >= 12, "{budget}");
        if let (true, [chunk]) = (context.truncated, &context.chunks[..]) {
            assert_eq!(
                (chunk.start, chunk.text.strip_suffix("...").unwrap()),
                (0, &long[..chunk.end])
            );
            assert!(!long[..chunk.end].ends_with(' '));
            assert!(context.text.ends_with("...\n"));
            // As much as fits: what is left is less than a token or two.
            assert!(budget - (context.total_tokens + context.overhead_tokens) <= 2, "{budget}");
        }
        assert_eq!(context.omitted.len(), usize::from(context.chunks.is_empty()), "{budget}");
    }
    // A smaller one that fits comes before a cut one.
    let documents = Documents::new(&[("long.md", &long), ("short.md", "target aside")]);
    let context = documents.assemble(AssemblyConfig::specified(), "target", 20);
    assert_eq!((names(&context), context.truncated), (vec!["short.md#0".to_owned()], false));
}

#[test]
fn near_duplicates_are_omitted() {
    let words = "the quick brown fox jumps over the lazy dog near the old river bank at dawn";
    let documents = Documents::new(&[
        ("a.md", words),
        ("b.md", words),
        ("c.md", &format!("{words} today")),
        (
            "d.md",
            &format!("{words} while somebody else writes a very different end of this one story"),
        ),
    ]);
    let context = documents.assemble(AssemblyConfig::specified(), "fox river", 4_000);
    let kept = &context.chunks[0];
    let reasons: Vec<(&str, &str, &str)> = context
        .omitted
        .iter()
        .map(|omitted| match &omitted.reason {
            OmittedReason::Duplicate { reason, duplicate_of } => {
                (omitted.document_path.as_str(), reason.as_str(), duplicate_of.as_str())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kept.document_path, "a.md");
    assert_eq!(
        reasons,
        [
            ("b.md", "Deduplicated", kept.chunk_id.as_str()),
            ("c.md", "NearDuplicate", kept.chunk_id.as_str())
        ]
    );
    let all =
        documents.assemble(config(|config| config.dedup_threshold = 1_000), "fox river", 4_000);
    assert_eq!(all.chunks.len(), 3);
}

#[test]
fn passages_per_document_are_limited() {
    let sections: String =
        (0..6).map(|i| format!("# Part {i}\n\ntarget text number {i}\n\n")).collect();
    let documents = Documents::new(&[("a.md", &sections), ("b.md", "one target")]);
    let context =
        documents.assemble(config(|config| config.max_chunks_per_doc = Some(2)), "target", 4_000);
    assert_eq!(context.chunks.iter().filter(|chunk| chunk.document_path == "a.md").count(), 2);
    assert_eq!(context.omitted.len(), 4);
    let none =
        documents.assemble(config(|config| config.max_chunks_per_doc = Some(0)), "target", 4_000);
    assert_eq!((none.truncated, none.text.as_str()), (false, ""));
    let json = serde_json::to_value(&context.omitted[0]).unwrap();
    assert_eq!(
        (&json["reason"], &json["document"], &json["cap"]),
        (&"DocumentCapExceeded".into(), &"a.md".into(), &2.into())
    );
}

#[test]
fn neighbors_are_selected_together_and_merged() {
    let sections: String = ["One", "Two", "Three", "Four", "Five"]
        .map(|name| format!("# {name}\n\nText of section {name}.\n\n"))
        .concat();
    let documents = Documents::new(&[("a.md", &sections)]);
    let with =
        |config: AssemblyConfig, budget| documents.assemble(config, "\"section Three\"", budget);
    let alone = with(AssemblyConfig::specified(), 4_000);
    assert_eq!(names(&alone), ["a.md#2"]);
    let neighbors = config(|config| config.neighbors = true);
    let context = with(neighbors.clone(), 4_000);
    assert_eq!(names(&context), ["a.md#1", "a.md#2", "a.md#3"]);
    let (start, end) = (context.chunks[0].start, context.chunks[2].end);
    assert_eq!(context.text, format!("[DOC: a.md]\n{}", &sections[start..end]));
    assert_eq!(
        context.chunks.iter().map(|chunk| chunk.score > 0).collect::<Vec<_>>(),
        [false, true, false]
    );
    // Laid out as taken, they still read as the document.
    for packing in [Packing::Interleaved, Packing::ScoreWeighted] {
        let mut taken = neighbors.clone();
        taken.packing = packing;
        assert_eq!(with(taken, 4_000).text, context.text);
    }
    // All of them, or none: what fits one of them does not fit the group. By itself it fits as a whole.
    let few = with(neighbors.clone(), alone.total_tokens + alone.overhead_tokens);
    assert_eq!((few.truncated, &few.text), (false, &alone.text));
    let fewer = with(neighbors, alone.total_tokens + alone.overhead_tokens - 1);
    assert!(fewer.truncated && fewer.chunks.len() == 1, "{:?}", names(&fewer));
}

#[test]
fn metadata_is_optional() {
    let documents =
        Documents::new(&[("a.md", "---\ndate: 2026-03-01\n---\n# Guide\n\nThe target.")]);
    let plain =
        serde_json::to_value(documents.assemble(AssemblyConfig::specified(), "target", 500))
            .unwrap();
    assert!(plain["chunks"][0].get("metadata").is_none());
    assert_eq!(plain["chunks"][0]["lexical"]["rank"], 1);
    let context =
        documents.assemble(config(|config| config.include_metadata = true), "target", 500);
    let context = serde_json::to_value(context).unwrap();
    let metadata = &context["chunks"][0]["metadata"];
    assert_eq!(
        (&metadata["context"], &metadata["date"]),
        (&"Guide".into(), &"2026-03-01T00:00:00Z".into())
    );
    assert_eq!(metadata["terms"][0]["term"], "target");
}

#[test]
fn receipts_replay_from_the_index() {
    let long = format!("{}\n", "target words ".repeat(60));
    let documents = Documents::new(&[("a.md", "target one"), ("b.md", &long)]);
    let assembler =
        Assembler::new(&documents.cache, config(|config| config.packing = Packing::Interleaved));
    for (budget, query) in [(500, "target"), (60, "words"), (5, "words")] {
        let mut budget = TokenBudget::available(budget);
        budget.per_doc_overhead = 11;
        let receipt =
            assembler.candidates(query, QueryVector::None).unwrap().receipt(&budget).unwrap();
        let config = Assembler::config_from_receipt(&receipt).unwrap();
        assert_eq!(&config, assembler.config());
        let again = Assembler::new(&documents.cache, config);
        let query = receipt.source.query.clone().unwrap();
        let pool = again
            .candidates(&query, QueryVector::None)
            .unwrap()
            .pool_from_receipt(&receipt)
            .unwrap();
        let replay = receipt.replay(&pool, &PolicyRegistry::default(), again.counter()).unwrap();
        assert_eq!(replay, Replay::Identical);
    }
}

#[test]
fn null_in_recorded_options_is_an_absent_option() {
    let documents = Documents::new(&[("a.md", "target one")]);
    let assembler = Assembler::new(&documents.cache, AssemblyConfig::default());
    let candidates = assembler.candidates("target", QueryVector::None).unwrap();
    let mut receipt = candidates.receipt(&TokenBudget::available(60)).unwrap();
    let options = r#"{ "search": { "lexical_k": null, "filters": { "paths": null } }, "packing": null,
                       "max_chunks_per_doc": null, "neighbours": null }"#;
    receipt.source.options = Some(serde_json::from_str(options).unwrap());
    let config = Assembler::config_from_receipt(&receipt).unwrap();
    assert_eq!(config, AssemblyConfig::default());
}

/// Documents of many formats, for property tests.
fn library() -> &'static Documents {
    static LIBRARY: OnceLock<Documents> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut documents = Vec::new();
        for i in 0..40_usize {
            let sections = (0..i % 5 + 1).map(|section| {
                let words = (0..(i * 37 + section * 91) % 300)
                    .map(|word| format!("w{} ", (word * 7 + i * section) % 90));
                format!("## Section {section}\n\n{}\n\n", words.collect::<String>())
            });
            let text = format!("# Document {}\n\n{}", i % 20, sections.collect::<String>());
            documents.push((format!("folder {}/d{i}].md", i % 3), text));
        }
        documents.push(("code.txt".to_owned(), "w1\tw2\n\n".repeat(400)));
        documents.push(("cjk.md".to_owned(), "東京 w3 漢字。".repeat(300)));
        let documents: Vec<(&str, &str)> =
            documents.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Documents::new(&documents)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// The text is within the budget, the reported tokens add up, and every hit is either selected or omitted.
    #[test]
    fn a_context_is_within_its_budget(
        words in prop::collection::vec(0..100_usize, 1..5),
        budget in 0..4_001_usize,
        overhead in 0..30_usize,
        packing in prop_oneof![Just(Packing::Greedy), Just(Packing::Interleaved), Just(Packing::ScoreWeighted)],
        max in prop::option::of(0..4_usize),
        neighbors: bool,
        counter in prop_oneof![Just("bytes/4"), Just("o200k"), Just("script")],
    ) {
        let counter: Arc<dyn TokenCounter> = Arc::from(pannier_tokens::counter_by_name(counter).unwrap());
        let config = config(|config| {
            (config.packing, config.max_chunks_per_doc, config.neighbors) = (packing, max, neighbors);
        });
        let assembler = Assembler::new(&library().cache, config).with_counter(Arc::clone(&counter));
        let query = words.iter().map(|word| format!("w{word} ")).collect::<String>();
        let candidates = assembler.candidates(&query, QueryVector::None).unwrap();
        let mut tokens = TokenBudget::available(budget);
        tokens.per_doc_overhead = overhead;
        let context = candidates.assemble(&tokens).unwrap();
        prop_assert!(counter.count(&context.text) <= budget);
        prop_assert!(context.total_tokens + context.overhead_tokens <= budget);
        prop_assert_eq!(context.total_tokens as i64, context.chunks.iter().map(|chunk| chunk.tokens).sum::<i64>());
        let mut ids: Vec<&str> = context.chunks.iter().map(|chunk| chunk.chunk_id.as_str()).collect();
        ids.extend(context.omitted.iter().map(|omitted| omitted.chunk_id.as_str()));
        prop_assert_eq!(ids.len(), candidates.hits().len());
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        // At most one passage is truncated; others may still fit.
        let is_cut = |chunk: &ContextChunk| chunk.text.len() != chunk.end - chunk.start;
        let cut = context.chunks.iter().filter(|chunk| is_cut(chunk)).count();
        prop_assert_eq!(cut, usize::from(context.truncated));
        for chunk in &context.chunks {
            let kept = match is_cut(chunk) {
                true => chunk.text.strip_suffix("...").unwrap(),
                false => &chunk.text,
            };
            prop_assert_eq!(chunk.end - chunk.start, kept.len());
            let heading = format!("[DOC: {}]\n", chunk.document_path.replace(']', "%5D"));
            prop_assert!(context.text.contains(&heading), "{}", heading);
        }
        if max == Some(0) && !context.truncated {
            prop_assert_eq!(context.chunks.len(), 0);
        }
    }
}

/// The documented JSON has the keys of the real one, in the same order.
#[test]
fn documented_json_matches() {
    let page = include_str!("../../../docs/reference/json.md");
    let block =
        page.split("### An assembled context").nth(1).unwrap().split("```json").nth(1).unwrap();
    let documented: serde_json::Value =
        serde_json::from_str(block.split("```").next().unwrap()).unwrap();
    let deploy = "# Deploy\n\nDeploy from the main branch, never on a Friday.\n\n";
    let rollback = "# Roll back\n\nTo roll back a deploy, deploy the version before it. A rollback takes two minutes.";
    let documents =
        Documents::new(&[("guides/deploy.md", deploy), ("guides/rollback.md", rollback)]);
    let config = config(|config| config.include_metadata = true);
    let context = documents.assemble(config, "deploy branch", 40);
    let written = serde_json::to_value(&context).unwrap();
    let keys =
        |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for path in [
        "",
        "/chunks/0",
        "/chunks/0/lexical",
        "/chunks/0/metadata",
        "/chunks/0/metadata/terms/0",
        "/omitted/0",
    ] {
        let (actual, expected) =
            (written.pointer(path).unwrap(), documented.pointer(path).unwrap());
        assert_eq!(keys(actual), keys(expected), "{path}");
    }
    assert_eq!(written["text"], documented["text"]);
    assert_eq!(written["chunks"][0]["text"], documented["chunks"][0]["text"]);
}
