//! The contract of every counter on arbitrary texts, and the exact encodings against references.

use pannier_tokens::{
    BytesOverFour, Exactness, ScriptEstimate, TokenCounter, TokenError, TokenizerFile, UpperBound,
    cl100k, counter_by_name, counter_names, o200k,
};
use proptest::prelude::*;

fn all_counters() -> Vec<Box<dyn TokenCounter>> {
    vec![
        Box::new(BytesOverFour),
        Box::new(ScriptEstimate),
        Box::new(o200k()),
        Box::new(cl100k()),
        Box::new(UpperBound::new(o200k(), 1.337).unwrap()),
        Box::new(UpperBound::new(ScriptEstimate, 2.0).unwrap()),
        Box::new(word_tokenizer()),
    ]
}

/// Writes and opens a `tokenizer.json` with two words.
fn word_tokenizer() -> TokenizerFile {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let json = r#"{
        "version": "1.0", "truncation": {"max_length": 2, "stride": 0, "strategy": "LongestFirst", "direction": "Right"},
        "padding": null, "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"}
    }"#;
    let path =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("words-{number}.json"));
    std::fs::write(&path, json).unwrap();
    TokenizerFile::open(&path).unwrap()
}

/// Texts in many scripts, with control characters, combining marks and long runs.
fn texts() -> impl Strategy<Value = String> {
    let alphabet = "[a-zA-Z0-9 .,_=(){}\n\t<|>äßé漢字かな한글яعก👍\u{200d}\u{301}\u{feff}]{0,60}";
    prop_oneof![".{0,40}", alphabet, "(\\PC|\n){0,30}", "a{0,200}", "( |\n){0,80}"]
}

/// Texts that test the borders of pieces and tokens: tokens of the vocabulary in a row, characters of all classes,
/// contractions, and long runs.
fn hostile_texts() -> impl Strategy<Value = String> {
    let token = (0..199_998_u32).prop_map(|rank| {
        String::from_utf8_lossy(bpe_openai::o200k_base().bpe.token_bytes(rank)).into_owned()
    });
    let class = prop::sample::select(vec![
        "a",
        "B",
        "ǅ",
        "ʰ",
        "漢",
        "\u{301}",
        "7",
        "Ⅷ",
        "²",
        " ",
        "\t",
        "\u{a0}",
        "\u{2003}",
        "\r",
        "\n",
        "\u{85}",
        "\u{2028}",
        "'",
        "’",
        "'s",
        "'LL",
        "'ſ",
        "'vE",
        "'r",
        "/",
        "//",
        ".",
        "_",
        "<|endoftext|>",
        "👍",
        "\u{200d}",
        "\0",
        "й",
        "é",
        "ß",
    ])
    .prop_map(str::to_owned);
    let run = (class.clone(), 1..300_usize).prop_map(|(text, times)| text.repeat(times));
    let part = prop_oneof![4 => class, 3 => token, 1 => run];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

#[test]
fn every_character_is_in_its_class() {
    // All of the first scripts, and some of all others: `tests/vocabularies.rs` compares the whole table.
    for character in ('\0'..'\u{800}').chain(('\u{800}'..=char::MAX).step_by(97)) {
        // Alone, within, before and after words, numbers, punctuation and white space.
        let text = format!(
            "{character}A{character}a{character}{character}1 {character}.{character}\n{character} '{character}s"
        );
        assert_eq!(
            o200k().count(&text),
            bpe_openai::o200k_base().count(text.as_str()),
            "o200k: {text:?}"
        );
        assert_eq!(
            cl100k().count(&text),
            bpe_openai::cl100k_base().count(text.as_str()),
            "cl100k: {text:?}"
        );
    }
}

#[test]
fn long_pieces_equal_bpe_openai() {
    let shapes = [
        "a",
        "ab",
        "aaab",
        " ",
        "\n",
        "=",
        "-=",
        "漢",
        "漢字",
        "ก",
        "\u{301}",
        "AbC",
        "👍",
        "\u{200d}👩",
        "zq",
        "0",
    ];
    for shape in shapes {
        let text = shape.repeat(20_000 / shape.len());
        assert_eq!(
            o200k().count(&text),
            bpe_openai::o200k_base().count(text.as_str()),
            "{shape:?}"
        );
        assert_eq!(
            cl100k().count(&text),
            bpe_openai::cl100k_base().count(text.as_str()),
            "{shape:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_counter_fulfills_the_contract(text in texts(), limit in 0..60_usize) {
        for counter in all_counters() {
            let count = counter.count(&text);
            prop_assert_eq!(counter.count(""), 0, "{}", counter.name());
            let up_to = counter.count_up_to(&text, limit);
            prop_assert_eq!(up_to, Some(count).filter(|count| *count <= limit), "{}", counter.name());
            prop_assert!(counter.max_count(text.len()).is_none_or(|most| count <= most), "{}", counter.name());
            let cut = counter.truncate(&text, limit);
            prop_assert!(text.starts_with(cut));
            prop_assert!(counter.count(cut) <= limit, "{}: {:?}", counter.name(), cut);
            if count <= limit {
                prop_assert_eq!(cut, &text);
            }
        }
    }

    #[test]
    fn exact_encodings_equal_tiktoken(text in texts()) {
        prop_assert_eq!(o200k().count(&text), tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len());
        prop_assert_eq!(cl100k().count(&text), tiktoken_rs::cl100k_base_singleton().encode_ordinary(&text).len());
    }

    #[test]
    fn exact_encodings_equal_bpe_openai(texts in prop::collection::vec(hostile_texts(), 10)) {
        for text in &texts {
            prop_assert_eq!(o200k().count(text), bpe_openai::o200k_base().count(text.as_str()), "o200k: {:?}", text);
            prop_assert_eq!(cl100k().count(text), bpe_openai::cl100k_base().count(text.as_str()), "cl100k: {:?}", text);
        }
    }

    #[test]
    fn an_upper_bound_is_at_least_count_times_factor(text in texts(), thousandths in 1_000..100_000_u32) {
        let factor = f64::from(thousandths) / 1_000.0;
        let bound = UpperBound::new(o200k(), factor).unwrap();
        let (inner, outer) = (o200k().count(&text), bound.count(&text));
        prop_assert!(outer as f64 >= inner as f64 * factor - 1e-6);
        prop_assert!(outer as f64 <= inner as f64 * (factor + 0.001) + 1.0);
    }
}

#[test]
fn exact_encodings_equal_the_golden_counts() {
    let golden: Vec<serde_json::Value> = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(golden.len() > 300);
    for entry in golden {
        let text = entry["text"].as_str().unwrap();
        for (name, ours) in [("o200k", o200k().count(text)), ("cl100k", cl100k().count(text))] {
            assert_eq!(Some(ours as u64), entry[name].as_u64(), "{name}: {text:?}");
        }
    }
}

#[test]
fn truncation_uses_the_limit() {
    let text = "The quick brown fox jumps over the lazy dog, and nobody saw it. ".repeat(40);
    for limit in 0..200 {
        let cut = o200k().truncate(&text, limit);
        assert!(o200k().count(cut) + 2 > limit, "{limit}: {cut:?}");
    }
}

#[test]
fn counters_are_found_by_name() {
    for (name, expected, exactness) in [
        ("bytes/4", "bytes/4", Exactness::Estimate),
        ("script", "script", Exactness::Estimate),
        ("o200k", "o200k", Exactness::Exact),
        ("o200k_base", "o200k", Exactness::Exact),
        ("gpt-5", "o200k", Exactness::Exact),
        ("GPT-5-mini", "o200k", Exactness::Exact),
        ("gpt-4o-2024-08-06", "o200k", Exactness::Exact),
        ("gpt-4.1", "o200k", Exactness::Exact),
        ("gpt-4", "cl100k", Exactness::Exact),
        ("gpt-4-turbo", "cl100k", Exactness::Exact),
        ("gpt-3.5-turbo", "cl100k", Exactness::Exact),
        ("o3", "o200k", Exactness::Exact),
        ("o200k x 1.25", "o200k x 1.25", Exactness::UpperBound),
        ("claude", "o200k x 1.5", Exactness::UpperBound),
        ("claude-sonnet-4-5", "o200k x 1.5", Exactness::UpperBound),
        ("gemini-2.5-pro", "o200k x 1.3", Exactness::UpperBound),
    ] {
        let counter = counter_by_name(name).unwrap();
        assert_eq!((counter.name(), counter.exactness()), (expected, exactness), "{name}");
    }
    assert!(counter_names().all(|name| counter_by_name(name).is_ok()));
}

#[test]
fn an_unknown_name_gets_suggestions() {
    let message = |name: &str| counter_by_name(name).map(|_| ()).unwrap_err().to_string();
    assert_eq!(message("o20k"), "there is no tokenizer 'o20k'; did you mean o200k?");
    assert_eq!(message("cluade"), "there is no tokenizer 'cluade'; did you mean claude?");
    assert_eq!(message("o30"), "there is no tokenizer 'o30'; did you mean o3?");
    assert_eq!(message("gtp-5"), "there is no tokenizer 'gtp-5'; did you mean gpt-5?");
    assert!(message("something else").contains("use bytes/4, script, o200k, cl100k"));
    assert!(message(&"x".repeat(100_000)).len() < 101_000);
}

#[test]
fn a_tokenizer_file_counts_without_its_truncation() {
    let words = word_tokenizer();
    // The file truncates to two tokens.
    assert_eq!(words.count("Hello, hello world"), 4);
    assert_eq!(words.exactness(), Exactness::Exact);
    assert!(words.name().starts_with("file:"));
    let wrong = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for path in [wrong, "missing.json", "/"] {
        let error = counter_by_name(&format!("file:{path}")).map(|_| ()).unwrap_err();
        assert!(matches!(error, TokenError::File { .. }));
        assert!(error.to_string().contains("give the path of a tokenizer.json"), "{error}");
    }
}

#[test]
fn a_tokenizer_file_with_dropout_counts_deterministically() {
    let json = r#"{
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": 0.5, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 3}, "merges": [["a", "b"], ["ab", "ab"]]}
    }"#;
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("dropout.json");
    std::fs::write(&path, json).unwrap();
    let counter = TokenizerFile::open(&path).unwrap();
    let text = "ab".repeat(20);
    assert!((0..50).all(|_| counter.count(&text) == 10));
}

#[test]
fn factors_out_of_range_are_rejected() {
    for factor in [0.0, 0.999, 100.1, f64::NAN, f64::INFINITY, -1.0] {
        assert!(matches!(UpperBound::new(BytesOverFour, factor), Err(TokenError::Factor { .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// With every counter, the rendered text fits the target.
    #[test]
    fn a_rendered_text_never_exceeds_the_target(
        contents in prop::collection::vec("[a-z ,.\n]{1,60}|[漢字かな]{1,12}|[0-9(){};=]{1,30}", 0..12),
        name in prop::sample::select(vec!["bytes/4", "script", "o200k", "cl100k", "claude", "o200k x 1.37"]),
        item in prop::sample::select(vec!["{content}", "<{kind}>{content}</{kind}>"]),
        separator in prop::sample::select(vec!["", "\n", "\n\n", " -- "]),
        target in 0..120_i64,
    ) {
        use std::sync::Arc;
        use pannier_core::{*, score::*};
        use pannier_layout::{Template, TextLayout};

        let counter: Arc<dyn TokenCounter> = Arc::from(counter_by_name(name).unwrap());
        let mut template = Template::default();
        template.item = item.parse().unwrap();
        template.separator = separator.to_owned();
        let items: Vec<ContextItem> = contents
            .iter()
            .map(|content| ContextItem::new(content.as_str(), counter.count(content) as i64).unwrap())
            .collect();
        let rendering = TextLayout::new(template.clone(), Arc::clone(&counter));
        let pipeline = Pipeline::builder(RecencyScorer).build().with_layout(rendering);
        let selection = pipeline.run(&items, &ContextBudget::new(target, target).unwrap()).unwrap();
        let count = counter.count(&template.render(&selection)) as i64;
        prop_assert!(count <= target, "{} of {}", count, target);
        prop_assert_eq!(selection.ledger().sent(), count);
    }
}
