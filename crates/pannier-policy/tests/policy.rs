//! Policies: reading, writing, presets, the registry and the JSON Schema.

#[path = "../../pannier-core/tests/support/items.rs"]
mod support;

#[cfg(feature = "schema")]
use std::collections::BTreeSet;

use pannier_core::{item::*, layout::*, place::*, report::*, score::*, slice::*, *};
use pannier_policy::*;
use proptest::prelude::*;
use support::*;

/// A policy with every kind of component.
const FULL: &str = r#"
    name = "everything"
    description = "one of each part"
    slicer = "count_quota"
    scarcity_behavior = "throw"
    placer = "u-shaped"
    deduplication = false
    overflow_strategy = "proceed"
    keep_groups_together = true
    entries = [{ kind = "tool", require_count = 1, cap_count = 3 }]

    [inner_slicer]
    type = "quota"
    quotas = [{ kind = "Document", require = 20.0, cap = 60.0 }]
    inner_slicer = { type = "greedy" }

    [[scorers]]
    type = "recency"
    weight = 3.0

    [[scorers]]
    type = "kind"
    weight = 1.0
    weights = [{ kind = "Note", weight = 0.5 }]

    [[scorers]]
    type = "composite"
    weight = 2.5

    [[scorers.children]]
    type = "tag"
    weight = 1.0
    tag_weights = [{ tag = "rust", weight = 2.0 }]
    case_insensitive = true

    [[scorers.children]]
    type = "scaled"
    weight = 1.0
    inner_scorer = { type = "product", children = [
        { type = "reflexive" },
        { type = "metadata_key", key = "k", value = "v", boost = 1.5 },
    ] }

    [[scorers]]
    type = "decay"
    weight = 1.0
    reference_time = "2026-03-01T12:00:00Z"
    null_timestamp_score = 0.25
    curve = { type = "step", windows = [{ max_age_secs = 60.0, score = 0.9 }, { max_age_secs = 90.0, score = 0.1 }] }

    [[scorers]]
    type = "metadata_trust"
    weight = 1.0
    default_score = 0.1

    [[scorers]]
    type = "sum"
    weight = 1.0
    children = [
        { type = "keyword", keywords = ["Deploy", "roll-back"], saturation = 2 },
        { type = "by_kind", kinds = [
            { kind = "task", scorer = { type = "priority" } },
            { kinds = ["decision", "Learning"], scorer = { type = "frequency" } },
        ], default = { type = "prefix_stability" } },
    ]

    [[scorers]]
    type = "bm25"
    weight = 1.0
    query = "roll back a deployment"

    [[scorers]]
    type = "custom"
    weight = 1.0
    name = "mine"
"#;

fn custom(name: &str) -> CustomOptions {
    CustomOptions::new(name)
}

fn read(text: &str) -> Result<Policy, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

#[test]
fn every_component_survives_toml_and_json() {
    let policy = read(FULL).unwrap();
    assert_eq!(policy.name(), Some("everything"));
    let toml_text = toml::to_string(&policy).unwrap();
    assert_eq!(read(&toml_text).unwrap(), policy);
    let json_text = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&json_text).unwrap(), policy);
    // And nothing was added or left out on the way.
    let original: toml::Table = FULL.parse().unwrap();
    assert_eq!(toml_text.parse::<toml::Table>().unwrap(), original);
}

#[test]
fn a_reference_time_may_be_a_toml_datetime() {
    let own = FULL.replace("\"2026-03-01T12:00:00Z\"", "2026-03-01T13:00:00+01:00");
    assert_eq!(read(&own).unwrap(), read(FULL).unwrap());
}

#[test]
fn a_policy_of_scorers_has_the_default_components() {
    let policy = read("scorers = [{ type = \"recency\" }]").unwrap();
    assert_eq!(policy, Policy::new([(ScorerPolicy::Recency, 1.0)]));
}

#[test]
fn every_error_has_the_path_to_its_key() {
    for (right, wrong, message) in [
        (
            "placer = \"",
            "placer = \"x",
            "in the policy, placer: there is no placer 'xu-shaped'; expected one of chronological, u-shaped, rank",
        ),
        (
            "deduplication = false",
            "deduplicate = false",
            "in the policy, deduplicate: unknown key `deduplicate`; did you mean `deduplication`?",
        ),
        (
            "deduplication = false",
            "deduplication = 0",
            "in the policy, deduplication: expected true or false, found 0",
        ),
        (
            "deduplication = false",
            "deduplication = { near = 1001 }",
            "in the policy, deduplication.near: expected a number from 0 to 1000, found 1001",
        ),
        (
            "deduplication = false",
            "deduplication = { near = -1 }",
            "in the policy, deduplication.near: expected a number from 0 to 1000, found -1",
        ),
        (
            "deduplication = false",
            "deduplication = { near = 0.8 }",
            "in the policy, deduplication.near: expected a whole number, found 0.8",
        ),
        (
            "deduplication = false",
            "deduplication = {}",
            "in the policy, deduplication.near: it is missing; add it",
        ),
        (
            "deduplication = false",
            "deduplication = { near = 800, far = 1 }",
            "in the policy, deduplication.far: unknown key `far`; expected one of near",
        ),
        (
            "type = \"quota\"\n    quotas = [{ kind = \"Document\", require = 20.0, cap = 60.0 }]\n    inner_slicer = { type = \"greedy\" }",
            "type = \"document\"\npacking = \"tight\"",
            "in the policy, inner_slicer.packing: expected one of greedy, interleaved, score-weighted, found 'tight'",
        ),
        (
            "type = \"quota\"\n    quotas = [{ kind = \"Document\", require = 20.0, cap = 60.0 }]\n    inner_slicer = { type = \"greedy\" }",
            "type = \"document\"\noverhead = -1",
            "in the policy, inner_slicer: document: overhead is -1; it must be 0 or more tokens",
        ),
        (
            "type = \"quota\"\n    quotas = [{ kind = \"Document\", require = 20.0, cap = 60.0 }]\n    inner_slicer = { type = \"greedy\" }",
            "type = \"document\"\nmax_per_document = -1",
            "in the policy, inner_slicer.max_per_document: expected a whole number of 0 or more, found -1",
        ),
        (
            "placer = \"u-shaped\"",
            "placer = \"random\"",
            "in the policy, placer: there is no placer 'random'; expected one of chronological, u-shaped, rank",
        ),
        (
            "slicer = \"count_quota\"",
            "slicer = \"magic\"",
            "in the policy, slicer: there is no slicer 'magic'; expected one of greedy, rank, best, knapsack, quota, count_quota, count_constrained_knapsack, document",
        ),
        (
            "boost = 1.5",
            "boost = 0.0",
            "in the policy, scorers[2].children[1].inner_scorer.children[1]: MetadataKeyScorer: boost is 0; it must be a finite number above 0",
        ),
        (
            "boost = 1.5",
            "boots = 1.5",
            "in the policy, scorers[2].children[1].inner_scorer.children[1].boots: unknown key `boots`; did you mean `boost`?",
        ),
        (
            "require = 20.0",
            "require = 70.0",
            "in the policy, inner_slicer: QuotaSlice: kind 'Document' requires 70 percent, above its cap of 60",
        ),
        (
            "require_count = 1",
            "require_count = -1",
            "in the policy, entries[0].require_count: expected a whole number of 0 or more, found -1",
        ),
        (
            "type = \"greedy\"",
            "type = \"knapsack\"",
            "in the policy, slicer: CountQuotaSlice: the inner slicer does not take the best candidates first, as a knapsack does not; use GreedySlice inside, or CountConstrainedKnapsackSlice instead",
        ),
        (
            "type = \"step\"",
            "type = \"cliff\"",
            "in the policy, scorers[3].curve.type: there is no curve 'cliff'; expected one of exponential, window, step",
        ),
        (
            "weight = 2.5",
            "weight = 0",
            "in the policy, scorers[2].weight: expected a finite number above 0, found 0",
        ),
        (
            "type = \"recency\"",
            "type = \"recent\"",
            "in the policy, scorers[0].type: there is no scorer 'recent'; expected one of recency, priority,",
        ),
        (
            "saturation = 2",
            "saturation = 0",
            "in the policy, scorers[5].children[0]: KeywordScorer: saturation is 0; it must be 1 or more",
        ),
        (
            "saturation = 2",
            "saturation = -2",
            "in the policy, scorers[5].children[0].saturation: expected a whole number of 0 or more, found -2",
        ),
        (
            ", saturation = 2",
            "",
            "in the policy, scorers[5].children[0].saturation: it is missing; add it",
        ),
        (
            "\"roll-back\"",
            "7",
            "in the policy, scorers[5].children[0].keywords[1]: expected a string, found 7",
        ),
        (
            "keywords = [\"Deploy\", \"roll-back\"]",
            "words = []",
            "in the policy, scorers[5].children[0].words: unknown key `words`; did you mean `keywords`?",
        ),
        (
            "kind = \"task\"",
            "kind = \"LEARNING\"",
            "in the policy, scorers[5].children[1]: ByKindScorer: the kind 'Learning' is listed twice; list it once",
        ),
        (
            "kind = \"task\"",
            "kind = \" \"",
            "in the policy, scorers[5].children[1].kinds[0].kind: the kind is blank",
        ),
        (
            "kind = \"task\", ",
            "",
            "in the policy, scorers[5].children[1].kinds[0].kind: it is missing; add it",
        ),
        (
            "kind = \"task\"",
            "kind = \"task\", kinds = [\"note\"]",
            "in the policy, scorers[5].children[1].kinds[0].kinds: there is a kind, too; list all kinds here, or none",
        ),
        (
            "[\"decision\", \"Learning\"]",
            "[\"decision\", \"\"]",
            "in the policy, scorers[5].children[1].kinds[1].kinds[1]: the kind is blank",
        ),
        (
            "[\"decision\", \"Learning\"]",
            "[]",
            "in the policy, scorers[5].children[1]: ByKindScorer: scorer 1 has no kinds; give it at least one",
        ),
        (
            "scorer = { type = \"frequency\" }",
            "scorer = { type = \"often\" }",
            "in the policy, scorers[5].children[1].kinds[1].scorer.type: there is no scorer 'often'",
        ),
        (
            "default = { type = \"prefix_stability\" }",
            "default = { type = \"prefix_stability\", weight = 1 }",
            "in the policy, scorers[5].children[1].default.weight: unknown key `weight`; remove it; there are no options here",
        ),
        (
            "query = \"roll back a deployment\"",
            "query = [\"roll\", \"back\"]",
            "in the policy, scorers[6].query: expected a string, found a list",
        ),
        (
            "query = \"roll",
            "search = \"roll",
            "in the policy, scorers[6].search: unknown key `search`; expected one of query, weight",
        ),
        (
            "2026-03-01T12:00:00Z",
            "noon",
            "in the policy, scorers[3].reference_time: 'noon' is not a timestamp",
        ),
    ] {
        let error = read(&FULL.replacen(right, wrong, 1)).unwrap_err();
        assert!(error.starts_with(message), "{wrong}\n{error}\n{message}");
    }
    assert_eq!(
        read("slicer = \"greedy\"\nplacer = \"rank\"").unwrap_err(),
        "in the policy, scorers: CompositeScorer: it has no scorers; add at least one"
    );
    let list = Policy::from_value(&MetadataValue::Array(vec![])).unwrap_err();
    assert_eq!(list.to_string(), "in the policy, the whole: expected a table");
    let greedy = "slicer = \"greedy\"\nbucket_size = 1\nplacer = \"rank\"\nscorers = [{ type = \"recency\" }]";
    assert!(read(greedy).unwrap_err().starts_with(
        "in the policy, bucket_size: unknown key `bucket_size`; expected one of name"
    ));
}

#[test]
fn an_unknown_key_is_reported_before_a_missing_one() {
    for (policy, error) in [
        (
            r#"scorers = [{ type = "composite", scorers = [{ type = "recency" }] }]"#,
            "in the policy, scorers[0].scorers: unknown key `scorers`; did you mean `children`?",
        ),
        (
            r#"children = [{ type = "recency" }]"#,
            "in the policy, children: unknown key `children`; did you mean `scorers`?",
        ),
        (
            r#"scorers = [{ type = "scaled", inner_scorer = { type = "sum", children = [
                { type = "decay", curve = { type = "window", max_age_secs = "a day" } }] } }]"#,
            "in the policy, scorers[0].inner_scorer.children[0].curve.max_age_secs: expected a number, found 'a day'",
        ),
        (
            "slicer = \"knapsak\"\nbucket_size = 1\nscorers = [{ type = \"recency\" }]",
            "in the policy, slicer: there is no slicer 'knapsak'; expected one of greedy, rank, best, \
             knapsack, quota, count_quota, count_constrained_knapsack, document, fill, fair, tiered, custom",
        ),
        (
            "slicer = \"knapsack\"\nbucket_sise = 1\nscorers = [{ type = \"recency\" }]",
            "in the policy, bucket_sise: unknown key `bucket_sise`; did you mean `bucket_size`?",
        ),
        (
            r#"scorers = [{ type = "recency", weigth = 2 }]"#,
            "in the policy, scorers[0].weigth: unknown key `weigth`; did you mean `weight`?",
        ),
        (
            r#"scorers = [{ type = "keyword", keywords = [], saturation = 1, enough = 1 }]"#,
            "in the policy, scorers[0].saturation: it is set twice, once by its former name; remove one",
        ),
        (
            r#"scorers = [{ type = "tag", tag_weights = [["rust", 1.0]] }]"#,
            "in the policy, scorers[0].tag_weights[0]: expected a table, found a list",
        ),
    ] {
        assert_eq!(read(policy).unwrap_err(), error);
    }
}

#[test]
fn a_component_is_a_name_or_a_table_everywhere() {
    let scorers = r#"scorers = [{ type = "recency" }]"#;
    let flat = "slicer = \"quota\"\ninner_slicer = \"knapsack\"\nbucket_size = 7";
    let tables = [
        flat,
        "slicer = \"quota\"\ninner_slicer = { type = \"knapsack\", bucket_size = 7 }",
        "slicer = { type = \"quota\", inner_slicer = { type = \"knapsack\", bucket_size = 7 } }",
        "slicer = { type = \"quota\", inner_slicer = \"knapsack\", bucket_size = 7 }",
    ];
    let policies = tables.map(|slicer| read(&format!("{slicer}\n{scorers}")).unwrap());
    assert!(policies.iter().all(|policy| *policy == policies[0]));
    let written = toml::to_string(&policies[0]).unwrap();
    assert!(written.starts_with("placer = \"chronological\"\nquotas = []\n"), "{written}");
    assert!(written.contains("slicer = \"quota\"\n"), "{written}");
    let names = read("scorers = [\"recency\", { type = \"scaled\", inner_scorer = \"recency\" }]");
    assert_eq!(names.unwrap().scorers()[0], (ScorerPolicy::Recency, 1.0).into());
    assert_eq!(
        read("placer = { type = \"rank\" }\nscorers = [\"recency\"]").unwrap().placer(),
        &PlacerPolicy::Rank
    );
    assert_eq!(
        read("slicer = \"quota\"\ninner_slicer = \"quota\"\nquotas = []\nscorers = [\"recency\"]")
            .unwrap_err(),
        "in the policy, inner_slicer: `inner_slicer` could belong to 'quota' or to the table around it; \
         write inner_slicer as a table with a type"
    );
}

#[test]
fn null_counts_as_absent_wherever_a_key_is_optional() {
    let nulls = r#"{
        "name": null, "description": null, "slicer": null, "placer": null, "deduplication": null,
        "near_duplicates": null, "overflow_strategy": null, "keep_groups_together": null,
        "scorers": [
            { "type": "kind", "weights": null, "weight": null },
            { "type": "tag", "tag_weights": null, "case_insensitive": null },
            { "type": "decay", "reference_time": null, "null_timestamp_score": null,
              "curve": { "type": "window", "max_age_secs": 1 } },
            { "type": "by_kind", "default": null,
              "kinds": [{ "kind": "Note", "kinds": null, "scorer": "recency" }] }
        ]
    }"#;
    let policy: Policy = serde_json::from_str(nulls).unwrap();
    let read_back: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
    assert_eq!(read_back, policy);
    assert_eq!((policy.slicer(), policy.scorers().len()), (&SlicerPolicy::Greedy, 4));
    for slicer in [
        r#"{ "type": "knapsack", "bucket_size": null }"#,
        r#"{ "type": "quota", "quotas": [{ "kind": "a", "require": null, "cap": null }], "inner_slicer": null }"#,
        r#"{ "type": "count_quota", "entries": null, "scarcity_behavior": null, "inner_slicer": null }"#,
        r#"{ "type": "document", "packing": null, "overhead": null, "max_per_document": null }"#,
        r#"{ "type": "fair", "weights": [{ "kind": "a", "weight": 1 }], "full_text_percent": null }"#,
        r#"{ "type": "tiered", "full_text_percent": null,
             "tiers": [{ "kinds": ["a"], "cap": null, "floor": null, "drop_zero_score": null }] }"#,
    ] {
        let json = format!(r#"{{ "scorers": ["recency"], "slicer": {slicer} }}"#);
        assert!(serde_json::from_str::<Policy>(&json).is_ok(), "{slicer}");
    }
    let needed = r#"{ "scorers": [{ "type": "bm25", "query": null }] }"#;
    let error = serde_json::from_str::<Policy>(needed).unwrap_err().to_string();
    assert_eq!(error, "in the policy, scorers[0].query: it is missing; add it");
    let unknown = r#"{ "scorers": ["recency"], "scorer": null }"#;
    let error = serde_json::from_str::<Policy>(unknown).unwrap_err().to_string();
    assert_eq!(error, "in the policy, scorer: unknown key `scorer`; did you mean `scorers`?");
}

#[test]
fn former_names_are_read_and_current_ones_written() {
    let former = r#"
        slicer = "tiered"
        placer = "taken"
        whole = 70.0
        deduplication = { near = 800 }
        tiers = [{ kinds = ["task"], drop_worthless = true }]
        scorers = [
            { type = "lexical", query = "q" },
            { type = "stability" },
            { type = "keyword", keywords = ["k"], enough = 2 },
            { type = "by_kind", kinds = [{ kind = "a", scorer = { type = "recency" } }], otherwise = { type = "priority" } },
        ]
    "#;
    let current = former
        .replace("\"taken\"", "\"slice-order\"")
        .replace("whole", "full_text_percent")
        .replace("deduplication = { near = 800 }", "near_duplicates = 0.8")
        .replace("drop_worthless", "drop_zero_score")
        .replace("\"lexical\"", "\"bm25\"")
        .replace("\"stability\"", "\"prefix_stability\"")
        .replace("enough", "saturation")
        .replace("otherwise", "default");
    let policy = read(former).unwrap();
    assert_eq!(policy, read(&current).unwrap());
    let written = toml::to_string(&policy).unwrap();
    for name in ["taken", "whole", "near = ", "worthless", "lexical", "enough", "otherwise"] {
        assert!(!written.contains(name), "{name} in\n{written}");
    }
    assert!(written.contains("near_duplicates = 0.8\n"), "{written}");
    let stable = read("placer = \"stable\"\nscorers = [\"recency\"]").unwrap();
    assert_eq!(*stable.placer(), PlacerPolicy::PrefixStable);
    let off = read("deduplication = false\nnear_duplicates = 0.8\nscorers = [\"recency\"]");
    assert_eq!(
        off.unwrap_err(),
        "in the policy, near_duplicates: deduplication is off; remove one of them"
    );
    for (share, found) in [("1.5", "1.5"), ("-0.1", "-0.1"), ("nan", "NaN")] {
        let error =
            read(&format!("near_duplicates = {share}\nscorers = [\"recency\"]")).unwrap_err();
        assert_eq!(
            error,
            format!("in the policy, near_duplicates: expected a number from 0 to 1, found {found}")
        );
    }
}

#[test]
fn custom_components_are_built_from_their_options() {
    #[derive(serde::Deserialize)]
    struct Options {
        order: Vec<u32>,
    }

    struct Fixed(Vec<u32>);
    impl Placer for Fixed {
        fn place(&self, _: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
            Ok(self.0.clone())
        }
    }

    #[derive(serde::Deserialize)]
    struct Frame {
        fixed: i64,
    }
    impl Layout for Frame {
        fn plan(&self, _: &Pool<'_>) -> Result<Plan, Error> {
            let mut plan = Plan::default();
            plan.fixed = self.fixed;
            Ok(plan)
        }
    }

    let mut registry = PolicyRegistry::empty();
    registry.add_slicer("all", GreedySlice).unwrap();
    registry.add_scorer("hint", ReflexiveScorer).unwrap();
    registry.add_layout_factory("frame", |custom| Ok(Box::new(custom.read::<Frame>()?))).unwrap();
    registry
        .add_placer_factory("fixed", |custom| {
            let Options { order } = custom.read()?;
            Ok(Box::new(Fixed(order)))
        })
        .unwrap();
    let policy = r#"
        slicer = { type = "custom", name = "all" }
        placer = { type = "custom", name = "Fixed", options = { order = [1, 0] } }
        layout = { type = "custom", name = "frame", options = { fixed = 8 } }
        scorers = [{ type = "custom", name = "hint" }]
    "#;
    let read = |text: &str| -> Policy { toml::from_str(text).unwrap() };
    let written = toml::to_string(&read(policy)).unwrap();
    assert_eq!(read(&written), read(policy));
    let items = [item("a", 1, 0.9), item("b", 1, 0.1)];
    let pipeline = registry.pipeline(&read(policy), None).unwrap();
    let selection = pipeline.run(&items, &budget(10)).unwrap();
    assert_eq!(placed(&selection), ["b", "a"]);
    assert_eq!(selection.ledger().fixed, 8);

    let error = |text: String| registry.pipeline(&read(&text), None).err().unwrap().to_string();
    assert_eq!(
        error(policy.replace("[1, 0]", "[1, -1]")),
        "in the policy, options.order[1]: expected u32, found -1"
    );
    assert_eq!(
        error(policy.replace("name = \"all\"", "name = \"all\", options = { depth = 1 }")),
        "in the policy, options: it takes no options; remove them"
    );
    assert_eq!(
        error(policy.replace("name = \"all\"", "name = \"none\"")),
        "there is no slicer 'none'; there are all"
    );
    assert_eq!(
        error(policy.replace("\"frame\"", "\"none\"")),
        "there is no layout 'none'; there are frame"
    );
    let message = toml::from_str::<Policy>("layout = \"text\"\nscorers = [\"recency\"]");
    assert_eq!(
        message.unwrap_err().message(),
        "in the policy, layout: there is no layout 'text'; expected one of custom"
    );
}

#[test]
fn an_inner_component_takes_the_options_beside_its_name() {
    let short = r#"
        slicer = "quota"
        inner_slicer = "knapsack"
        bucket_size = 1
        quotas = [{ kind = "Document", cap = 50 }]
        placer = "rank"
        scorers = [{ type = "scaled", inner_scorer = "kind", weights = [{ kind = "Note", weight = 2 }] }]
    "#;
    let policy = read(short).unwrap();
    let SlicerPolicy::Quota(quota) = policy.slicer() else { panic!("{policy:?}") };
    let exact = KnapsackOptions { bucket_size: Some(1), memory_limit: None };
    assert_eq!(*quota.inner_slicer, exact.into());
    let weights = Some(vec![KindWeight { kind: kind("Note"), weight: 2.0 }]);
    let scaled = ScaledOptions { inner_scorer: Box::new(KindOptions { weights }.into()) };
    assert_eq!(policy.scorers(), [(scaled, 1.0).into()]);
    assert_eq!(read(&toml::to_string(&policy).unwrap()).unwrap(), policy);
}

#[test]
fn a_policy_builds_the_pipeline_it_describes() {
    let items = [item("a", 60, 0.6), item("b", 50, 0.55), item("c", 50, 0.5), item("d", 1, 0.1)];
    let exact = Policy::new([(ScorerPolicy::Reflexive, 1.0)])
        .with_slicer(KnapsackOptions::default())
        .with_placer(PlacerPolicy::Rank);
    let by_hand = Pipeline::builder(ReflexiveScorer).slicer(KnapsackSlice::exact());
    let by_hand = by_hand.placer(RankPlacer).build();
    let by_policy = exact.pipeline().unwrap();
    let selection = by_policy.run(&items, &budget(101)).unwrap();
    assert_eq!(placed(&selection), placed(&by_hand.run(&items, &budget(101)).unwrap()));
    assert_eq!(placed(&selection), ["b", "c", "d"]);
}

#[test]
fn a_knapsack_is_exact_by_default() {
    let items: Vec<_> = (1..=20).map(|i| item(&i.to_string(), 47 + i % 2, 0.5)).collect();
    for slicer in ["knapsack", "count_constrained_knapsack"] {
        let policy = format!("slicer = \"{slicer}\"\nscorers = [\"reflexive\"]");
        let policy = read(&policy).unwrap();
        let selection = policy.pipeline().unwrap().run(&items, &budget(1_000)).unwrap();
        assert_eq!(selection.len(), 20);
        assert_eq!(selection.notes(), []);
        let written = toml::to_string(&policy).unwrap();
        assert!(!written.contains("bucket_size"), "{written}");
    }
}

#[test]
fn a_knapsack_above_its_memory_limit_says_which_buckets_it_used() {
    // Equal densities leave every item undecided.
    let items: Vec<_> =
        (0..200).map(|i| item(&i.to_string(), 901 + i, (901 + i) as f64 / 2_000.0)).collect();
    let run = |slicer: &str, options: &str| {
        let policy = format!("slicer = \"{slicer}\"\n{options}\nscorers = [\"reflexive\"]");
        read(&policy).unwrap().pipeline().unwrap().run(&items, &budget(100_000))
    };
    let table =
        |options: &str| run("knapsack", options).map(|selection| selection.notes().to_vec());
    assert_eq!(table(""), Ok(vec![]));
    let memory_limit = 400_000;
    let notes = table("memory_limit = 400_000").unwrap();
    let [Note::LargerBuckets { bucket_size, memory_limit: limit }] = notes[..] else {
        panic!("{notes:?}");
    };
    assert_eq!(limit, memory_limit);
    // The smallest that fits: with a bucket size of its own, a table fails instead.
    let fails = |size: i64| {
        matches!(
            table(&format!("memory_limit = 400_000\nbucket_size = {size}")),
            Err(Error::TableTooLarge { .. })
        )
    };
    assert!(bucket_size > 1 && fails(1) && fails(bucket_size - 1) && !fails(bucket_size));
    // Slicers around a knapsack pass the note on, and the report has it.
    for slicer in ["count_constrained_knapsack", "quota"] {
        let inner = if slicer == "quota" { "inner_slicer = \"knapsack\"" } else { "" };
        let selection = run(slicer, &format!("{inner}\nmemory_limit = 400_000")).unwrap();
        assert_eq!(selection.report().notes, notes);
    }
    let json =
        serde_json::to_value(run("knapsack", "memory_limit = 400_000").unwrap().report()).unwrap();
    assert_eq!(json["notes"][0]["note"], "LargerBuckets");
    let json = serde_json::to_value(run("knapsack", "").unwrap().report()).unwrap();
    assert_eq!(json.get("notes"), None);
}

#[test]
fn duplicates_of_some_kinds_are_kept() {
    let doc = |text: &str| scored(text, 5, 0.5).kind(kind("Document")).build().unwrap();
    let items = [item("yes", 5, 0.5), item("yes", 5, 0.4), doc("yes"), doc("no"), doc("no")];
    let kept = |policy: &Policy| {
        let pipeline = policy.pipeline().unwrap();
        let mut kept: Vec<_> = pipeline.run(&items, &budget(100)).unwrap().indices().collect();
        kept.sort_unstable();
        kept
    };
    let policy = read("keep_duplicates = [\"message\"]\nscorers = [\"reflexive\"]").unwrap();
    assert_eq!(policy.kept_duplicates(), [kind("Message")]);
    assert_eq!(kept(&policy), [0, 1, 2, 3]);
    assert_eq!(kept(PolicyRegistry::default().policy("chat").unwrap()), [0, 1, 2, 3]);
    assert_eq!(kept(&policy.clone().with_kept_duplicates([])), [0, 3]);
    let near = policy.clone().with_deduplication(Deduplication::NearDuplicates { threshold: 0.5 });
    assert_eq!(kept(&near), [0, 1, 2, 3]);
    assert_eq!(read(&toml::to_string(&near).unwrap()).unwrap(), near);
    let off = "deduplication = false\nkeep_duplicates = [\"Message\"]\nscorers = [\"recency\"]";
    assert_eq!(
        read(off).unwrap_err(),
        "in the policy, keep_duplicates: deduplication is off; remove one of them"
    );
}

#[test]
fn the_preset_rag_takes_the_best_passage_first() {
    let items = [item("long", 80, 0.84), item("short", 30, 0.40)];
    let rag = PolicyRegistry::default().policy("rag").unwrap().pipeline().unwrap();
    assert_eq!(placed(&rag.run(&items, &budget(100)).unwrap()), ["long"]);
}

#[test]
fn presets_are_valid_and_found_in_any_case() {
    let registry = PolicyRegistry::default();
    let names: Vec<_> = registry.policies().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "assemble",
            "balanced",
            "careful",
            "chat",
            "code-review",
            "debugging",
            "document-qa",
            "long-running",
            "memory",
            "packet-seed",
            "rag",
            "thrifty",
            "tool-use",
            "transcript"
        ]
    );
    for (name, policy) in registry.policies() {
        assert_eq!(policy.name(), Some(name));
        // The age of entries needs a time.
        let now: Option<Timestamp> = "2026-11-16T12:00:00Z".parse().ok();
        assert!(registry.pipeline(policy, now).is_ok(), "{policy:?}");
        assert_eq!(read(&toml::to_string(policy).unwrap()).unwrap(), *policy);
    }
    let rag = registry.policy("RAG").unwrap();
    let kind = KindOptions { weights: None };
    assert_eq!(rag.scorers(), [(ScorerPolicy::Reflexive, 3.0).into(), (kind, 1.0).into()]);
    assert_eq!(*rag.placer(), PlacerPolicy::UShaped);
    let exact = SlicerPolicy::from(KnapsackOptions::default());
    assert_eq!(*registry.policy("document-qa").unwrap().slicer(), exact);
    assert_eq!(
        registry.policy("chatt").unwrap_err().to_string(),
        "there is no policy 'chatt'; there are assemble, balanced, careful, chat, code-review, \
         debugging, document-qa, long-running, memory, packet-seed, rag, thrifty, tool-use, transcript"
    );
}

#[test]
fn session_options_are_checked() {
    let policy = |session: &str| read(&format!("scorers = [\"recency\"]\n[session]\n{session}"));
    let session = policy("low_water = 0.7\n[session.weights]\nage = -0.5").unwrap();
    let options = session.session().unwrap();
    assert_eq!((options.low_water, options.weights.age, options.pressure), (0.7, -0.5, 0.5));
    for (text, expected) in [
        ("pressure = 1.5", "session.pressure: expected a number from 0 to 1, found 1.5"),
        ("min_cap_tokens = -1", "session.min_cap_tokens: expected a number from 0 to"),
        ("[session.weights]\nage = 1e9", "session.weights.age: expected a number from -1000"),
        ("[session.prices]\nread = -1", "session.prices.read: expected a number from 0"),
        ("hight_water = 1", "session"),
    ] {
        let error = policy(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_document_slicer_survives_toml() {
    let text = r#"
        slicer = "document"
        packing = "interleaved"
        overhead = 0
        max_per_document = 3
        placer = "slice-order"
        scorers = [{ type = "reflexive", weight = 1.0 }]
        near_duplicates = 0.8
    "#;
    let policy = read(text).unwrap();
    let slicer = |packing, overhead, max_per_document| {
        SlicerPolicy::from(DocumentOptions {
            packing,
            overhead,
            max_per_document,
            length_exponent: 0.0,
            shortened_first: 0,
        })
    };
    assert_eq!(*policy.slicer(), slicer(Packing::Interleaved, 0, Some(3)));
    assert_eq!(*policy.placer(), PlacerPolicy::SliceOrder);
    assert_eq!(policy.deduplication(), Deduplication::NearDuplicates { threshold: 0.8 });
    let written = toml::to_string(&policy).unwrap();
    assert_eq!(written.parse::<toml::Table>().unwrap(), text.parse::<toml::Table>().unwrap());

    let registry = PolicyRegistry::default();
    let assemble = registry.policy("assemble").unwrap();
    assert_eq!(*assemble.slicer(), slicer(Packing::Greedy, 10, None));
    assert_eq!(*assemble.placer(), PlacerPolicy::Document);
    assert_eq!(assemble.deduplication(), Deduplication::NearDuplicates { threshold: 0.8 });
    let rag = registry.policy("rag").unwrap();
    assert_eq!(assemble.overflow_strategy(), rag.overflow_strategy());
}

#[test]
fn a_registry_holds_custom_policies_and_scorers() {
    let mut registry = PolicyRegistry::default();
    let longest = FnScorer(|item: &ContextItem| item.tokens() as f64);
    registry.add_scorer("Longest", longest).unwrap();
    let policy = Policy::new([(custom("longest"), 1.0)]).with_placer(PlacerPolicy::Rank);
    registry.add("Mine", policy.clone()).unwrap();
    let pipeline = registry.pipeline(registry.policy("mine").unwrap(), None).unwrap();
    let items = [item("short", 1, 0.9), item("long", 9, 0.1)];
    assert_eq!(placed(&pipeline.run(&items, &budget(100)).unwrap()), ["long", "short"]);

    let taken = registry.add("CHAT", policy.clone()).unwrap_err();
    assert_eq!(taken.to_string(), "there is already a policy 'CHAT'; choose another name");
    let alone = policy.pipeline().unwrap_err();
    assert_eq!(alone.to_string(), "there is no scorer 'longest'; there are none here");
}

#[test]
fn c28_a_decay_scorer_needs_to_know_the_time() {
    let curve = ExponentialOptions { half_life_secs: 60.0 }.into();
    let decay = DecayOptions { reference_time: None, curve, null_timestamp_score: 0.5 };
    let policy = Policy::new([(decay, 1.0)]);
    let error = policy.pipeline().unwrap_err();
    assert_eq!(error, Error::NoReferenceTime);
    let registry = PolicyRegistry::empty();
    assert!(registry.pipeline(&policy, Some(Timestamp::UNIX_EPOCH)).is_ok());
}

fn any_scorer() -> impl Strategy<Value = ScorerPolicy> {
    let unit = 0.0..=1.0;
    let weight = 0.001..1e6;
    let text = "[a-zA-Z \"'\\\\=.\u{e9}]{1,6}";
    let seconds = 0.5..1e7;
    let leaf = prop_oneof![
        Just(ScorerPolicy::Recency),
        Just(ScorerPolicy::Priority),
        Just(ScorerPolicy::Frequency),
        Just(ScorerPolicy::Reflexive),
        Just(ScorerPolicy::PrefixStability),
        Just(KindOptions { weights: None }.into()),
        weight.clone().prop_map(|weight| {
            let one = KindWeight { kind: kind("One"), weight };
            let two = KindWeight { kind: kind("two"), weight: 0.0 };
            KindOptions { weights: Some(vec![one, two]) }.into()
        }),
        (text, weight.clone(), any::<bool>()).prop_map(|(tag, weight, case_insensitive)| {
            TagOptions { tag_weights: vec![TagWeight { tag, weight }], case_insensitive }.into()
        }),
        unit.clone().prop_map(|default_score| MetadataTrustOptions { default_score }.into()),
        (text, text, weight).prop_map(|(key, value, boost)| MetadataKeyOptions {
            key,
            value,
            boost
        }
        .into()),
        (seconds.clone(), unit.clone(), any::<bool>()).prop_map(|(max_age_secs, score, dated)| {
            let first = StepWindow { max_age_secs, score };
            let second = StepWindow { max_age_secs: 2.0 * max_age_secs, score: 0.1 };
            DecayOptions {
                reference_time: dated.then_some(Timestamp::UNIX_EPOCH),
                curve: StepOptions { windows: vec![first, second] }.into(),
                null_timestamp_score: score,
            }
            .into()
        }),
        seconds.prop_map(|half_life_secs| {
            DecayOptions {
                reference_time: None,
                curve: ExponentialOptions { half_life_secs }.into(),
                null_timestamp_score: 0.5,
            }
            .into()
        }),
        (text, any::<Option<i64>>()).prop_map(|(name, option)| {
            let options = option.map(|option| ("depth".to_owned(), option.into()));
            CustomOptions { name, options: options.into_iter().collect() }.into()
        }),
        text.prop_map(|query| Bm25Options { query }.into()),
        (prop::collection::vec(text, 0..3), 1_usize..9)
            .prop_map(|(keywords, saturation)| KeywordOptions { keywords, saturation }.into()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let weighted = (inner.clone(), 0.5..9.0).prop_map(WeightedScorer::from);
        let several = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            prop::collection::vec(weighted, 1..3)
                .prop_map(|children| CompositeOptions { children }.into()),
            several.clone().prop_map(|children| ProductOptions { children }.into()),
            several.prop_map(|children| SumOptions { children }.into()),
            (inner.clone(), inner.clone(), prop::option::of(inner.clone())).prop_map(
                |(one, several, default)| {
                    let kinds = vec![
                        KindsScorer::new([kind("One")], one),
                        KindsScorer::new([kind("two"), kind("Three")], several),
                    ];
                    ByKindOptions { kinds, default: default.map(Box::new) }.into()
                }
            ),
            inner.prop_map(|inner| ScaledOptions { inner_scorer: Box::new(inner) }.into()),
        ]
    })
}

fn any_slicer() -> impl Strategy<Value = SlicerPolicy> {
    let counts =
        (0_usize..3, 3_usize..6, any::<bool>()).prop_map(|(require_count, cap_count, strict)| {
            let scarcity = if strict { ScarcityBehavior::Throw } else { ScarcityBehavior::Degrade };
            (vec![KindCount { kind: kind("tool"), require_count, cap_count }], scarcity)
        });
    let greedy_inside = (0.0..40.0, 40.0..100.0).prop_map(|(require, cap)| {
        let quotas = vec![KindQuota { kind: kind("doc"), require, cap }];
        QuotaOptions { quotas, inner_slicer: Box::default() }.into()
    });
    prop_oneof![
        Just(SlicerPolicy::Greedy),
        prop::option::of(1_i64..5000).prop_map(|bucket_size| KnapsackOptions {
            bucket_size,
            memory_limit: None
        }
        .into()),
        prop::option::of(1_i64..5000).prop_map(|bucket_size| {
            let inner_slicer = Box::new(KnapsackOptions { bucket_size, memory_limit: None }.into());
            QuotaOptions { quotas: vec![], inner_slicer }.into()
        }),
        (counts.clone(), greedy_inside).prop_map(|((entries, scarcity_behavior), inner)| {
            let inner_slicer = Box::new(inner);
            CountQuotaOptions { entries, scarcity_behavior, inner_slicer }.into()
        }),
        (0..3_usize, 0_i64..50, prop::option::of(0..9_usize)).prop_map(
            |(packing, overhead, max_per_document)| {
                let packings = [Packing::Greedy, Packing::Interleaved, Packing::ScoreWeighted];
                let packing = packings[packing];
                DocumentOptions {
                    packing,
                    overhead,
                    max_per_document,
                    length_exponent: 0.5,
                    shortened_first: 2,
                }
                .into()
            }
        ),
        (0.0..=100.0, 0.0..=50.0, any::<bool>(), 0.0..=100.0).prop_map(
            |(cap, floor, drop_zero_score, full_text_percent)| {
                let first = TierOptions { cap, ..TierOptions::new([kind("task")]) };
                let kinds = [kind("decision"), kind("learning")];
                let second = TierOptions { floor, drop_zero_score, ..TierOptions::new(kinds) };
                TieredOptions { tiers: vec![first, second], full_text_percent }.into()
            }
        ),
        (counts, prop::option::of(1_i64..500)).prop_map(
            |((entries, scarcity_behavior), bucket_size)| {
                CountConstrainedKnapsackOptions {
                    entries,
                    scarcity_behavior,
                    bucket_size,
                    memory_limit: None,
                }
                .into()
            }
        ),
        Just(custom("mine").into()),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let scorers = prop::collection::vec((any_scorer(), 0.1..10.0), 1..4);
    let deduplication = prop_oneof![
        Just(Deduplication::Off),
        Just(Deduplication::Exact),
        (0..=1_000_u16).prop_map(|thousandths| Deduplication::NearDuplicates {
            threshold: f64::from(thousandths) / 1_000.0
        }),
    ];
    let placer = prop::sample::select(vec![
        PlacerPolicy::Chronological,
        PlacerPolicy::UShaped,
        PlacerPolicy::Rank,
        PlacerPolicy::Document,
        PlacerPolicy::SliceOrder,
        PlacerPolicy::PrefixStable,
        custom("mine").into(),
    ]);
    let overflow = prop::sample::select(vec![
        OverflowStrategy::Throw,
        OverflowStrategy::Truncate,
        OverflowStrategy::Proceed,
    ]);
    let flags = (deduplication, any::<bool>());
    (scorers, any_slicer(), placer, flags, overflow, any::<Option<String>>()).prop_map(
        |(scorers, slicer, placer, (deduplication, together), overflow, name)| {
            let policy = Policy::new(scorers)
                .with_slicer(slicer)
                .with_placer(placer)
                .with_deduplication(deduplication)
                .with_overflow_strategy(overflow)
                .with_groups_together(together);
            match name {
                Some(name) => policy.with_name(name),
                None => policy,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn policies_survive_toml_and_json(policy in any_policy()) {
        prop_assert_eq!(&Policy::from_value(&policy.to_value()).unwrap(), &policy);
        let json_text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Policy>(&json_text).unwrap(), &policy);
        let toml_text = toml::to_string(&policy).unwrap();
        prop_assert_eq!(&toml::from_str::<Policy>(&toml_text).unwrap(), &policy);
    }
}

/// `PANNIER_BLESS=1 cargo test -p pannier-policy --all-features --test policy` rewrites the file.
#[cfg(feature = "schema")]
#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/policy.schema.json");
    let generated = serde_json::to_string_pretty(&Policy::schema()).unwrap() + "\n";
    #[allow(clippy::disallowed_methods, reason = "a test may look at its environment")]
    if std::env::var("PANNIER_BLESS").is_ok() {
        std::fs::write(path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == generated,
        "docs/reference/policy.schema.json is out of date; see this test"
    );
}

/// What the reader knows and what the schema knows are the same keys, part by part.
#[cfg(feature = "schema")]
#[test]
fn the_schema_has_the_keys_of_the_reader() {
    let schema = serde_json::to_value(Policy::schema()).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value["properties"].as_object().unwrap().keys().cloned().collect()
    };
    // The reader lists the keys of a table with an unknown one.
    let known = |text: &str| -> Vec<String> {
        let error = read(text).unwrap_err();
        let (_, known) = error.split_once("unknown key `zzz`; expected one of ").expect(&error);
        let mut known: Vec<String> = known.split(", ").map(str::to_owned).collect();
        known.sort();
        known
    };
    let scorers = &schema["$defs"]["weighted_scorer"]["anyOf"][1]["oneOf"];
    for scorer in scorers.as_array().unwrap() {
        let name = scorer["properties"]["type"]["const"].as_str().unwrap();
        if name == "scaled" {
            continue; // Its keys depend on the inner scorer.
        }
        let mut keys = keys(scorer);
        keys.retain(|key| key != "type");
        assert_eq!(known(&format!("scorers = [{{ type = \"{name}\", zzz = 1 }}]")), keys, "{name}");
    }
    let slicers = [
        "quota",
        "count_quota",
        "count_constrained_knapsack",
        "document",
        "fill",
        "fair",
        "tiered",
    ];
    let keys_beside = |slicer| known(&format!("slicer = \"{slicer}\"\nzzz = 1"));
    let all: BTreeSet<String> = slicers.into_iter().flat_map(keys_beside).collect();
    assert_eq!(Vec::from_iter(all), keys(&schema));
}

#[test]
fn nesting_is_limited_by_the_format_and_not_by_the_stack() {
    let nested = |depth: usize| {
        let open = r#"{ "type": "scaled", "inner_scorer": "#.repeat(depth);
        format!(r#"{{ "scorers": [{open}"recency"{}] }}"#, " }".repeat(depth))
    };
    assert!(serde_json::from_str::<Policy>(&nested(125)).is_ok());
    let error = serde_json::from_str::<Policy>(&nested(126)).unwrap_err().to_string();
    assert!(error.starts_with("recursion limit exceeded"), "{error}");
}

/// The example of the documentation is a policy, and its error is the real one.
#[test]
fn the_documented_policy_is_valid() {
    let page = include_str!("../../../docs/reference/policy.md");
    let block = |fence: &str| page.split(fence).nth(1).unwrap().split("```").next().unwrap();
    let example = block("```toml");
    let policy = read(example).unwrap();
    assert_eq!(policy.name(), Some("support"));
    assert!(policy.pipeline().is_ok());
    let typo =
        example.replace("tag = \"refund\", weight", "tag = \"refund\", weight = 1.0, weigth");
    assert_eq!(read(&typo).unwrap_err(), block("```text").trim());
}

#[test]
fn custom_scorers_are_explained_by_their_names() {
    let mut registry = PolicyRegistry::empty();
    registry
        .add_scorer("brevity", FnScorer(|item: &ContextItem| 1.0 / item.tokens() as f64))
        .unwrap();
    let policy = Policy::new([(custom("brevity"), 1.0)]).with_scorer(ScorerPolicy::Reflexive, 1.0);
    let pipeline = registry.pipeline(&policy, None).unwrap();
    let items = [item("text", 4, 0.5)];
    let answer = pipeline.explain(&items, &budget(10), 0).unwrap();
    let tree = answer.score.unwrap();
    assert_eq!((tree.score, tree.children[0].scorer.as_str()), (0.375, "brevity"));
}

#[test]
fn c23_policies_compare_as_their_pipelines_do() {
    let items = contested_pool();
    let by_priority = Policy::new([(ScorerPolicy::Priority, 1.0)]);
    let by_hint = Policy::new([(ScorerPolicy::Reflexive, 1.0)]);
    let variants = [("priority", &by_priority), ("reflexive", &by_hint)];
    let report = policy_sensitivity(&items, &budget(80), &variants).unwrap();
    let contents: Vec<_> = report.diffs.iter().map(|diff| diff.content.as_str()).collect();
    assert_eq!(contents, ["item-a", "item-b"]);
    let pipelines = [by_priority.pipeline().unwrap(), by_hint.pipeline().unwrap()];
    let variants = [("priority", &pipelines[0]), ("reflexive", &pipelines[1])];
    let same = pipeline_sensitivity(&items, &budget(80), &variants).unwrap();
    assert_eq!(same, report);
}

#[test]
fn c23_policies_are_compared_by_content_in_pool_order() {
    let items = contested_pool();
    let by_priority = Pipeline::builder(PriorityScorer).build();
    let by_hint = Pipeline::builder(ReflexiveScorer).build();
    let variants = [("priority", &by_priority), ("reflexive", &by_hint)];
    let report = pipeline_sensitivity(&items, &budget(80), &variants).unwrap();
    let labels: Vec<_> = report.variants.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["priority", "reflexive"]);
    use ItemStatus::{Excluded, Included};
    let diff = |content: &str, first, second| PolicySensitivityDiffEntry {
        content: content.to_owned(),
        statuses: vec![("priority".to_owned(), first), ("reflexive".to_owned(), second)],
    };
    let expected = [diff("item-a", Included, Excluded), diff("item-b", Excluded, Included)];
    assert_eq!(report.diffs, expected);
}

#[test]
fn c23_a_comparison_needs_two_variants() {
    let pipeline = Pipeline::builder(RecencyScorer).build();
    for variants in [&[][..], &[("only", &pipeline)]] {
        let error = pipeline_sensitivity(&contested_pool(), &budget(80), variants).unwrap_err();
        assert_eq!(error.to_string(), "policy_sensitivity requires at least 2 variants");
    }
}

#[test]
fn sensitivity_distinguishes_references_by_id() {
    let reference = |id: &str| ContextItem::reference(id, 2).unwrap();
    let items = [reference("a"), reference("b")];
    let all = Pipeline::builder(ReflexiveScorer).deduplication(false).build();
    let second = FnScorer(|item: &ContextItem| f64::from(u8::from(item.id() == Some("b"))));
    let second = Pipeline::builder(second).slicer(FillSlice::default()).build();
    let budget = ContextBudget::new(2, 2).unwrap();
    let report =
        pipeline_sensitivity(&items, &budget, &[("all", &all), ("second", &second)]).unwrap();
    let contents: Vec<_> = report.diffs.iter().map(|entry| entry.content.as_str()).collect();
    assert_eq!(contents, ["a", "b"]);
}

#[test]
fn fills_floors_and_forms_are_read_and_written() {
    let text = r#"
        slicer = "fill"
        order = "marginal"
        max_per_section = 2
        shares = [{ kind = "Memory", floor = 20.0, cap = 50.0 }]
        floor = { share_of_best = 0.25 }
        forms = { title = 0.5, outline = 0.2 }
        scorers = ["reflexive"]
    "#;
    let policy: Policy = toml::from_str(text).unwrap();
    assert_eq!(policy.floor(), Some(Floor::ShareOfBest(0.25)));
    let worths = FormWorths::default().with(FormName::TITLE, 0.5).unwrap();
    let worths = worths.with(FormName::new("outline").unwrap(), 0.2).unwrap();
    assert_eq!(policy.form_worths(), Ok(worths));
    let same = Policy::new([(ScorerPolicy::Reflexive, 1.0)])
        .with_slicer(FillOptions {
            order: FillOrder::Marginal,
            max_per_section: Some(2),
            shares: vec![KindShare { kind: ContextKind::MEMORY, floor: 20.0, cap: 50.0 }],
        })
        .with_floor(Floor::ShareOfBest(0.25))
        .with_form_worth(&FormName::TITLE, 0.5)
        .with_form_worth(&FormName::new("outline").unwrap(), 0.2);
    assert_eq!(policy, same);
    assert_eq!(Policy::from_value(&policy.to_value()), Ok(same));
    // A number is a score.
    let policy: Policy = toml::from_str("floor = 0.5\nscorers = [\"recency\"]").unwrap();
    assert_eq!(policy.floor(), Some(Floor::Score(0.5)));
    assert_eq!(Policy::from_value(&policy.to_value()), Ok(policy));
    for (line, problem) in [
        ("floor = {}", "floor: expected either score or share_of_best"),
        ("floor = { score = 0.1, share_of_best = 0.1 }", "floor: expected either"),
        ("floor = { share_of_best = 1.5 }", "floor.share_of_best: expected a number from 0 to 1"),
        ("floor = \"high\"", "floor: expected a table"),
        ("forms = { title = 2.0 }", "forms.title: expected a number from 0 to 1"),
        ("forms = { \" \" = 0.5 }", "forms: the name of a form is blank"),
        (
            "slicer = \"fill\"\norder = \"best\"",
            "order: expected one of score, density, marginal, turns",
        ),
        (
            "slicer = \"fill\"\nshares = [{ kind = \"a\", floor = 9, cap = 5 }]",
            "expected 0 <= floor <= cap",
        ),
    ] {
        let error = read(&format!("{line}\nscorers = [\"recency\"]")).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}
