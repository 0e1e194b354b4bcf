//! The repository's vectors, and the runner's verdict on invalid ones.

use std::path::Path;

use pannier_conformance::{Outcome, Suite, run_vector};

fn vectors(folder: &str) -> Suite {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    Suite::run(&root.join(folder)).unwrap()
}

#[test]
fn every_required_vector_passes() {
    let suite = vectors("required");
    assert!(suite.is_clean(), "{suite}");
    assert!(suite.cases.len() >= 170, "vectors are missing: {suite}");
}

#[test]
fn every_optional_vector_passes() {
    let suite = vectors("optional");
    assert!(suite.is_clean(), "{suite}");
    assert!(suite.cases.len() >= 280, "vectors are missing: {suite}");
}

/// The keys that the runner reads.
const KEYS: &str = "
    available_tokens boost bucket_size budget cap cap_count cap_excluded_count case_insensitive
    cause children config content count curve deduplicated_against deduplication default default_score
    diagnostics displaced_by document drop_worthless drop_zero_score enough entries error estimation_safety_margin_percent excluded
    exclusion_reason expect_construction_error expected expected_output floor forms full_text_percent futureRelevanceHint gap group
    half_life_secs id included inclusion_reason inner_scorer inner_slicer item_tokens items
    items_in items_out keep keep_duplicates keep_groups_together key keywords kind kinds max_age_secs max_per_document max_per_section max_tokens
    memory_limit metadata name near near_duplicate_of near_duplicates null_timestamp_score order ordered_contents otherwise
    outcompeted output_reserve overflow overflow_strategy overflowing_contents overhead own
    packing pinned placer priority query quotas reference_time require require_count required_count
    reserved_slots satisfied_count saturation scarcity_behavior score score_approx scored_items scorer
    scorers selected_contents sent_contents share_of_best shared shares shortForm shortened_contents shortfall_count shortfalls slicer source stage stages summary
    tag tag_weights tags target_tokens test tiers timestamp title tokens tokens_over_budget total_candidates
    total_tokens_considered type use_default_weights value weight weights whole windows worth
";

/// The runner ignores keys it does not know, so that newer suites still run. In our own vectors a key
/// that nobody reads is a typing error, and states something that is never checked.
#[test]
fn our_vectors_have_no_unknown_keys() {
    let known: Vec<&str> = KEYS.split_whitespace().collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    for case in vectors("").cases {
        let text = std::fs::read_to_string(root.join(&case.path)).unwrap();
        let mut keys = Vec::new();
        collect_keys(&toml::Value::Table(text.parse().unwrap()), &mut keys);
        keys.retain(|key| !known.contains(&key.as_str()));
        // One vector is about just that.
        let about_that = case.path.to_string_lossy().contains("unknown-keys");
        assert!(keys.is_empty() || about_that, "{}: {keys:?}", case.path.display());
    }
}

/// All keys of a vector. What is inside metadata and slots is the vector's own.
fn collect_keys(value: &toml::Value, keys: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                keys.push(key.clone());
                if !matches!(key.as_str(), "metadata" | "reserved_slots") {
                    collect_keys(value, keys);
                }
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| collect_keys(value, keys)),
        _ => {}
    }
}

const RIGHT: &str = r#"
    [test]
    name = "the denser item is taken"
    stage = "pipeline"

    [budget]
    max_tokens = 100
    target_tokens = 50

    [config]
    slicer = "greedy"
    placer = "rank"
    deduplication = true
    scorers = [{ type = "reflexive", weight = 1.0 }]

    [[items]]
    content = "small"
    tokens = 30
    futureRelevanceHint = 0.9

    [[items]]
    content = "large"
    tokens = 45
    futureRelevanceHint = 0.8

    [[expected_output]]
    content = "small"

    [[expected.diagnostics.excluded]]
    content = "large"
    score_approx = 0.8
    exclusion_reason = "BudgetExceeded"
    item_tokens = 45
    available_tokens = 20
"#;

fn failures(text: &str) -> Vec<String> {
    match run_vector(text) {
        Outcome::Failed(differences) => differences,
        other => panic!("it must fail, and is {other:?}"),
    }
}

fn problem(text: &str) -> String {
    match run_vector(text) {
        Outcome::NotRun(problem) => problem,
        other => panic!("it must not run, and is {other:?}"),
    }
}

#[test]
fn a_valid_vector_passes_and_unknown_keys_are_ignored() {
    assert_eq!(run_vector(RIGHT), Outcome::Passed);
    let newer = RIGHT.replace("placer =", "future_option = 1\n    placer =");
    assert_eq!(run_vector(&newer), Outcome::Passed);
}

#[test]
fn each_wrong_expectation_fails_with_both_values() {
    let output = RIGHT.replace(
        "[[expected_output]]\n    content = \"small\"",
        "[[expected_output]]\n    content = \"large\"",
    );
    assert_eq!(failures(&output), ["output\n  expected: [\"large\"]\n  actual:   [\"small\"]"]);
    for (right, wrong, what) in [
        ("score_approx = 0.8", "score_approx = 0.7", "score of excluded 'large'"),
        ("available_tokens = 20", "available_tokens = 21", "available_tokens of excluded 'large'"),
        ("\"BudgetExceeded\"", "\"PinnedOverride\"", "excluded"),
        ("item_tokens = 45", "outcompeted = true", "outcompeted of excluded 'large'"),
    ] {
        let differences = failures(&RIGHT.replace(right, wrong));
        assert!(differences[0].starts_with(what), "{wrong}: {differences:?}");
    }
}

#[test]
fn a_missing_or_an_unexpected_error_fails() {
    let expects = RIGHT
        .replace("[[expected_output]]", "[expected]\n    error = \"OverTarget\"\n    [[ignored]]");
    assert_eq!(failures(&expects), ["error\n  expected: \"OverTarget\"\n  actual:   \"none\""]);
    let pinned = RIGHT.replace("tokens = 45", "tokens = 450\n    pinned = true");
    assert!(failures(&pinned)[0].starts_with("unexpected error: pinned items require 450 tokens"));
}

#[test]
fn a_component_that_builds_against_expectation_fails() {
    let vector = |boost: f64| {
        format!(
            "test = {{ name = \"n\", stage = \"scoring\", scorer = \"metadata_key\", \
             expect_construction_error = true }}\n\
             config = {{ key = \"k\", value = \"v\", boost = {boost:?} }}"
        )
    };
    assert_eq!(run_vector(&vector(0.0)), Outcome::Passed);
    assert_eq!(failures(&vector(1.5)), ["construction fails\n  expected: true\n  actual:   false"]);
}

#[test]
fn a_vector_that_is_not_understood_does_not_run() {
    for (right, wrong, expected) in [
        ("stage = \"pipeline\"", "stage = \"rerank\"", "unknown stage 'rerank'"),
        ("slicer = \"greedy\"", "slicer = \"magic\"", "unknown slicer 'magic'"),
        ("placer = \"rank\"", "placer = \"magic\"", "unknown placer 'magic'"),
        ("\"reflexive\"", "\"magic\"", "unknown scorer 'magic'"),
        ("slicer = \"greedy\"", "", "'slicer' is missing"),
        ("tokens = 30", "tokens = \"thirty\"", "invalid type: string"),
        ("[budget]", "[budget", "it cannot be read"),
    ] {
        let problem = problem(&RIGHT.replacen(right, wrong, 1));
        assert!(problem.contains(expected), "{wrong}: {problem}");
    }
    assert!(problem("").contains("missing field `test`"));
    let silent =
        "test = { name = \"n\", stage = \"scoring\", scorer = \"recency\" }\nexpected = []";
    assert_eq!(problem(silent), "it states nothing that could be compared");
    let unknown_error = RIGHT.replace("[[items]]", "[expected]\nerror = \"Never\"\n[[items]]");
    assert!(matches!(run_vector(&unknown_error), Outcome::NotRun(_) | Outcome::Failed(_)));
}

#[test]
fn toml_1_0_and_1_1_are_read() {
    // A newline and a trailing comma inside an inline table are TOML 1.1.
    let newer = "test = {\n  name = \"n\",\n  stage = \"placing\",\n  placer = \"rank\",\n}\n\
                 items = [{ content = \"a\", tokens = 1, score = 0.5 }]\n\
                 expected = { ordered_contents = [\"a\"] }";
    assert_eq!(run_vector(newer), Outcome::Passed);
}

#[test]
fn a_missing_folder_is_an_error_with_its_path() {
    let error = Suite::run(Path::new("no/such/folder")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read no/such/folder: "), "{error}");
}

#[test]
fn a_suite_lists_failures_and_counts() {
    let folder = std::env::temp_dir().join(format!("pannier-conformance-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("a-right.toml"), RIGHT).unwrap();
    std::fs::write(folder.join("deep/wrong.toml"), RIGHT.replace("= 45", "= 10")).unwrap();
    std::fs::write(folder.join("not-utf8.toml"), [0xff, 0xfe]).unwrap();
    std::fs::write(folder.join("notes.txt"), "not a vector").unwrap();
    let suite = Suite::run(&folder).unwrap();
    let single = Suite::run(&folder.join("a-right.toml")).unwrap();
    assert!(single.is_clean() && single.cases.len() == 1);
    std::fs::create_dir(folder.join("empty")).unwrap();
    let empty = Suite::run(&folder.join("empty")).unwrap();
    assert!(!empty.is_clean());
    assert_eq!(empty.to_string(), "there are no vectors here: no file ends in .toml");
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(!suite.is_clean());
    let text = suite.to_string();
    assert!(
        text.contains("FAILED   deep/wrong.toml\n  output\n    expected: [\"small\"]"),
        "{text}"
    );
    assert!(text.contains("NOT RUN  not-utf8.toml\n  cannot read the file"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed, 1 could not be run"), "{text}");
}
