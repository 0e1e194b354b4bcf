//! Policies: nothing lost on the way to a file and back, and every mistake found where it is.

mod support;

use pannier_core::*;
use pannier_policy::{policy_sensitivity, *};
use proptest::prelude::*;
use support::*;

/// One of everything.
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
        { type = "keyword", keywords = ["Deploy", "roll-back"], enough = 2 },
        { type = "by_kind", kinds = [
            { kind = "task", scorer = { type = "priority" } },
            { kinds = ["decision", "Learning"], scorer = { type = "frequency" } },
        ], otherwise = { type = "stability" } },
    ]

    [[scorers]]
    type = "lexical"
    weight = 1.0
    query = "roll back a deployment"

    [[scorers]]
    type = "custom"
    weight = 1.0
    name = "mine"
"#;

fn read(text: &str) -> Result<Policy, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

#[test]
fn one_of_everything_goes_to_toml_and_json_and_back() {
    let policy = read(FULL).unwrap();
    assert_eq!(policy.name.as_deref(), Some("everything"));
    let toml_text = toml::to_string(&policy).unwrap();
    assert_eq!(read(&toml_text).unwrap(), policy);
    let json_text = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&json_text).unwrap(), policy);
    // And nothing was added or left out on the way.
    let original: toml::Table = FULL.parse().unwrap();
    assert_eq!(toml_text.parse::<toml::Table>().unwrap(), original);
}

#[test]
fn a_time_may_be_tomls_own() {
    let own = FULL.replace("\"2026-03-01T12:00:00Z\"", "2026-03-01T13:00:00+01:00");
    assert_eq!(read(&own).unwrap(), read(FULL).unwrap());
}

#[test]
fn a_policy_of_scorers_alone_has_the_parts_of_any_pipeline() {
    let policy = read("scorers = [{ type = \"recency\" }]").unwrap();
    assert_eq!(policy, Policy::new([(ScorerPolicy::Recency, 1.0)]));
}

#[test]
fn every_mistake_is_found_where_it_is() {
    for (right, wrong, message) in [
        (
            "placer = \"",
            "placer = \"x",
            "in the policy, placer: it is 'xu-shaped'; it must be one of chronological, u-shaped, rank",
        ),
        (
            "deduplication = false",
            "deduplicate = false",
            "in the policy, deduplicate: it is not known here; there are deduplication, description, \
             entries, inner_slicer, keep_groups_together, name, overflow_strategy, placer, \
             scarcity_behavior, scorers, slicer",
        ),
        (
            "deduplication = false",
            "deduplication = 0",
            "in the policy, deduplication: it must be true, false or a table such as { near = 800 }, and \
             is a number",
        ),
        (
            "deduplication = false",
            "deduplication = { near = 1001 }",
            "in the policy, deduplication.near: it is 1001; it must be from 0 to 1000 thousandths",
        ),
        (
            "deduplication = false",
            "deduplication = { near = -1 }",
            "in the policy, deduplication.near: it is -1; it must be from 0 to 1000 thousandths",
        ),
        (
            "deduplication = false",
            "deduplication = { near = 0.8 }",
            "in the policy, deduplication.near: it must be a whole number, and is a number",
        ),
        (
            "deduplication = false",
            "deduplication = {}",
            "in the policy, deduplication.near: it is missing; add it",
        ),
        (
            "deduplication = false",
            "deduplication = { near = 800, far = 1 }",
            "in the policy, deduplication.far: it is not known here; there are near",
        ),
        (
            "type = \"quota\"",
            "type = \"document\"\npacking = \"tight\"",
            "in the policy, inner_slicer.packing: it is 'tight'; it must be one of greedy, \
             interleaved, score-weighted",
        ),
        (
            "type = \"quota\"",
            "type = \"document\"\noverhead = -1",
            "in the policy, inner_slicer: DocumentSlice: overhead is -1; it must be 0 or more tokens",
        ),
        (
            "type = \"quota\"",
            "type = \"document\"\nmax_per_document = -1",
            "in the policy, inner_slicer.max_per_document: it must be a whole number, 0 or more, and \
             is a number",
        ),
        (
            "placer = \"u-shaped\"",
            "placer = \"random\"",
            "in the policy, placer: it is 'random'; it must be one of chronological, u-shaped, rank",
        ),
        (
            "slicer = \"count_quota\"",
            "slicer = \"magic\"",
            "in the policy, slicer: there is no slicer 'magic'; there are greedy, rank, knapsack, \
             quota, count_quota, count_constrained_knapsack, document",
        ),
        (
            "boost = 1.5",
            "boost = 0.0",
            "in the policy, scorers[2].children[1].inner_scorer.children[1]: MetadataKeyScorer: boost \
             is 0; it must be a finite number above 0",
        ),
        (
            "boost = 1.5",
            "boots = 1.5",
            "in the policy, scorers[2].children[1].inner_scorer.children[1].boost: it is missing; add it",
        ),
        (
            "require = 20.0",
            "require = 70.0",
            "in the policy, inner_slicer: QuotaSlice: kind 'Document' requires 70 percent, above its \
             cap of 60",
        ),
        (
            "require_count = 1",
            "require_count = -1",
            "in the policy, entries[0].require_count: it must be a whole number, 0 or more, and is a number",
        ),
        (
            "type = \"greedy\"",
            "type = \"knapsack\"",
            "in the policy, slicer: CountQuotaSlice: the inner slicer does not take the best \
             candidates first, as a knapsack does not; use GreedySlice inside, or \
             CountConstrainedKnapsackSlice instead",
        ),
        (
            "type = \"step\"",
            "type = \"cliff\"",
            "in the policy, scorers[3].curve.type: there is no curve 'cliff'; there are exponential, \
             window, step",
        ),
        (
            "weight = 2.5",
            "weight = 0",
            "in the policy, scorers[2].weight: it is 0; it must be a finite number above 0",
        ),
        (
            "type = \"recency\"",
            "type = \"recent\"",
            "in the policy, scorers[0].type: there is no scorer 'recent'; there are recency, priority,",
        ),
        (
            "enough = 2",
            "enough = 0",
            "in the policy, scorers[5].children[0]: KeywordScorer: enough is 0; it must be 1 or more",
        ),
        (
            "enough = 2",
            "enough = -2",
            "in the policy, scorers[5].children[0].enough: it must be a whole number, 0 or more, and \
             is a number",
        ),
        (", enough = 2", "", "in the policy, scorers[5].children[0].enough: it is missing; add it"),
        (
            "\"roll-back\"",
            "7",
            "in the policy, scorers[5].children[0].keywords[1]: it must be a text, and is a number",
        ),
        (
            "keywords = [\"Deploy\", \"roll-back\"]",
            "words = []",
            "in the policy, scorers[5].children[0].keywords: it is missing; add it",
        ),
        (
            "kind = \"task\"",
            "kind = \"LEARNING\"",
            "in the policy, scorers[5].children[1]: ByKindScorer: the kind 'Learning' is listed \
             twice; list it once",
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
            "in the policy, scorers[5].children[1].kinds[0].kinds: there is a kind beside it; list \
             all kinds here, or none",
        ),
        (
            "[\"decision\", \"Learning\"]",
            "[\"decision\", \"\"]",
            "in the policy, scorers[5].children[1].kinds[1].kinds[1]: the kind is blank",
        ),
        (
            "[\"decision\", \"Learning\"]",
            "[]",
            "in the policy, scorers[5].children[1]: ByKindScorer: scorer 1 has no kinds; give it at \
             least one",
        ),
        (
            "scorer = { type = \"frequency\" }",
            "scorer = { type = \"often\" }",
            "in the policy, scorers[5].children[1].kinds[1].scorer.type: there is no scorer 'often'",
        ),
        (
            "otherwise = { type = \"stability\" }",
            "otherwise = { type = \"stability\", weight = 1 }",
            "in the policy, scorers[5].children[1].otherwise.weight: it is not known here",
        ),
        (
            "query = \"roll back a deployment\"",
            "query = [\"roll\", \"back\"]",
            "in the policy, scorers[6].query: it must be a text, and is a list",
        ),
        (
            "query = \"roll",
            "search = \"roll",
            "in the policy, scorers[6].query: it is missing; add it",
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
    assert_eq!(list.to_string(), "in the policy, the whole: it must be a table, and is a list");
    let greedy = "slicer = \"greedy\"\nbucket_size = 1\nplacer = \"rank\"\nscorers = [{ type = \"recency\" }]";
    assert!(
        read(greedy).unwrap_err().starts_with("in the policy, bucket_size: it is not known here")
    );
}

#[test]
fn an_inner_part_may_be_only_a_name() {
    let short = r#"
        slicer = "quota"
        inner_slicer = "knapsack"
        bucket_size = 1
        quotas = [{ kind = "Document", cap = 50 }]
        placer = "rank"
        scorers = [{ type = "scaled", inner_scorer = "kind", weights = [{ kind = "Note", weight = 2 }] }]
    "#;
    let policy = read(short).unwrap();
    let SlicerPolicy::Quota { inner, .. } = &policy.slicer else { panic!("{policy:?}") };
    assert_eq!(**inner, SlicerPolicy::Knapsack { bucket_size: 1 });
    let weights = Some(vec![(kind("Note"), 2.0)]);
    let scaled = ScorerPolicy::Scaled { inner: Box::new(ScorerPolicy::Kind { weights }) };
    assert_eq!(policy.scorers, [(scaled, 1.0)]);
    assert_eq!(read(&toml::to_string(&policy).unwrap()).unwrap(), policy);
}

#[test]
fn a_policy_selects_what_its_pipeline_would() {
    let items = [item("a", 60, 0.6), item("b", 50, 0.55), item("c", 50, 0.5), item("d", 1, 0.1)];
    let exact = Policy {
        slicer: SlicerPolicy::Knapsack { bucket_size: 1 },
        placer: PlacerPolicy::Rank,
        ..Policy::new([(ScorerPolicy::Reflexive, 1.0)])
    };
    let by_hand = Pipeline::builder(ReflexiveScorer).slicer(KnapsackSlice::exact());
    let by_hand = by_hand.placer(RankPlacer).build();
    let by_policy = exact.pipeline().unwrap();
    let selection = by_policy.run(&items, &budget(101)).unwrap();
    assert_eq!(placed(&selection), placed(&by_hand.run(&items, &budget(101)).unwrap()));
    assert_eq!(placed(&selection), ["b", "c", "d"]);
}

#[test]
fn the_presets_are_valid_and_found_whatever_their_case() {
    let registry = PolicyRegistry::default();
    let names: Vec<_> = registry.policies().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "assemble",
            "chat",
            "code-review",
            "debugging",
            "document-qa",
            "long-running",
            "rag",
            "tool-use",
            "transcript"
        ]
    );
    for (name, policy) in registry.policies() {
        assert_eq!(policy.name.as_deref(), Some(name));
        assert!(policy.pipeline().is_ok());
        assert_eq!(read(&toml::to_string(policy).unwrap()).unwrap(), *policy);
    }
    let rag = registry.policy("RAG").unwrap();
    let kind = ScorerPolicy::Kind { weights: None };
    assert_eq!(rag.scorers, [(ScorerPolicy::Reflexive, 3.0), (kind, 1.0)]);
    assert_eq!(rag.placer, PlacerPolicy::UShaped);
    let exact = SlicerPolicy::Knapsack { bucket_size: 1 };
    assert_eq!(registry.policy("document-qa").unwrap().slicer, exact);
    assert_eq!(
        registry.policy("chatt").unwrap_err().to_string(),
        "there is no policy 'chatt'; there are assemble, chat, code-review, debugging, \
         document-qa, long-running, rag, tool-use, transcript"
    );
}

#[test]
fn documents_are_assembled_by_a_preset_and_read_as_others_are() {
    let text = r#"
        slicer = "document"
        packing = "interleaved"
        overhead = 0
        max_per_document = 3
        placer = "taken"
        scorers = [{ type = "reflexive", weight = 1.0 }]
        deduplication = { near = 800 }
    "#;
    let policy = read(text).unwrap();
    let slicer = |packing, overhead, max_per_document| SlicerPolicy::Document {
        packing,
        overhead,
        max_per_document,
    };
    assert_eq!(policy.slicer, slicer(Packing::Interleaved, 0, Some(3)));
    assert_eq!(policy.placer, PlacerPolicy::Taken);
    assert_eq!(policy.deduplication, Deduplication::Near { threshold: 800 });
    let written = toml::to_string(&policy).unwrap();
    assert_eq!(written.parse::<toml::Table>().unwrap(), text.parse::<toml::Table>().unwrap());

    let registry = PolicyRegistry::default();
    let assemble = registry.policy("assemble").unwrap();
    assert_eq!(assemble.slicer, slicer(Packing::Greedy, 10, None));
    assert_eq!(assemble.placer, PlacerPolicy::Document);
    assert_eq!(assemble.deduplication, Deduplication::Near { threshold: 800 });
    assert_eq!(assemble.overflow_strategy, registry.policy("rag").unwrap().overflow_strategy);
}

#[test]
fn a_registry_takes_policies_and_scorers_of_ones_own() {
    let mut registry = PolicyRegistry::default();
    let longest = FnScorer(|item: &ContextItem| item.tokens() as f64);
    registry.add_scorer("Longest", longest).unwrap();
    let policy = Policy {
        placer: PlacerPolicy::Rank,
        ..Policy::new([(ScorerPolicy::Custom { name: "longest".to_owned() }, 1.0)])
    };
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
    let curve = CurvePolicy::Exponential { half_life_secs: 60.0 };
    let decay = ScorerPolicy::Decay { reference_time: None, curve, null_timestamp_score: 0.5 };
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
        Just(ScorerPolicy::Kind { weights: None }),
        weight.clone().prop_map(|weight| ScorerPolicy::Kind {
            weights: Some(vec![(kind("One"), weight), (kind("two"), 0.0)])
        }),
        (text, weight.clone(), any::<bool>()).prop_map(|(tag, weight, case_insensitive)| {
            ScorerPolicy::Tag { weights: vec![(tag, weight)], case_insensitive }
        }),
        unit.clone().prop_map(|default_score| ScorerPolicy::MetadataTrust { default_score }),
        (text, text, weight).prop_map(|(key, value, boost)| ScorerPolicy::MetadataKey {
            key,
            value,
            boost
        }),
        (seconds.clone(), unit.clone(), any::<bool>()).prop_map(|(age, score, dated)| {
            ScorerPolicy::Decay {
                reference_time: dated.then_some(Timestamp::UNIX_EPOCH),
                curve: CurvePolicy::Step { windows: vec![(age, score), (2.0 * age, 0.1)] },
                null_timestamp_score: score,
            }
        }),
        seconds.prop_map(|half_life_secs| ScorerPolicy::Decay {
            reference_time: None,
            curve: CurvePolicy::Exponential { half_life_secs },
            null_timestamp_score: 0.5,
        }),
        text.prop_map(|name| ScorerPolicy::Custom { name }),
        text.prop_map(|query| ScorerPolicy::Lexical { query }),
        (prop::collection::vec(text, 0..3), 1_usize..9)
            .prop_map(|(keywords, enough)| ScorerPolicy::Keyword { keywords, enough }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let weighted = prop::collection::vec((inner.clone(), 0.5..9.0), 1..3);
        prop_oneof![
            weighted.prop_map(|children| ScorerPolicy::Composite { children }),
            prop::collection::vec(inner.clone(), 1..3)
                .prop_map(|children| ScorerPolicy::Product { children }),
            prop::collection::vec(inner.clone(), 1..3)
                .prop_map(|children| ScorerPolicy::Sum { children }),
            (inner.clone(), inner.clone(), prop::option::of(inner.clone())).prop_map(
                |(one, several, otherwise)| ScorerPolicy::ByKind {
                    kinds: vec![
                        (vec![kind("One")], one),
                        (vec![kind("two"), kind("Three")], several),
                    ],
                    otherwise: otherwise.map(Box::new),
                }
            ),
            inner.prop_map(|inner| ScorerPolicy::Scaled { inner: Box::new(inner) }),
        ]
    })
}

fn any_slicer() -> impl Strategy<Value = SlicerPolicy> {
    let counts = (0_usize..3, 3_usize..6, any::<bool>()).prop_map(|(require, cap, strict)| {
        let scarcity = if strict { ScarcityBehavior::Throw } else { ScarcityBehavior::Degrade };
        (vec![CountQuotaEntry::new(kind("tool"), require, cap).unwrap()], scarcity)
    });
    let greedy_inside = (0.0..40.0, 40.0..100.0).prop_map(|(require, cap)| {
        let quota = Quota { kind: kind("doc"), require_percent: require, cap_percent: cap };
        SlicerPolicy::Quota { quotas: vec![quota], inner: Box::new(SlicerPolicy::Greedy) }
    });
    prop_oneof![
        Just(SlicerPolicy::Greedy),
        (1_i64..5000).prop_map(|bucket_size| SlicerPolicy::Knapsack { bucket_size }),
        (1_i64..5000).prop_map(|bucket_size| SlicerPolicy::Quota {
            quotas: vec![],
            inner: Box::new(SlicerPolicy::Knapsack { bucket_size })
        }),
        (counts.clone(), greedy_inside).prop_map(|((entries, scarcity), inner)| {
            SlicerPolicy::CountQuota { entries, scarcity, inner: Box::new(inner) }
        }),
        (0..3_usize, 0_i64..50, prop::option::of(0..9_usize)).prop_map(
            |(packing, overhead, max_per_document)| SlicerPolicy::Document {
                packing: [Packing::Greedy, Packing::Interleaved, Packing::ScoreWeighted][packing],
                overhead,
                max_per_document,
            }
        ),
        (0.0..=100.0, 0.0..=50.0, any::<bool>(), 0.0..=100.0).prop_map(
            |(cap_percent, floor_percent, drop_worthless, whole_percent)| {
                let first = Tier { cap_percent, ..Tier::new([kind("task")]) };
                let kinds = [kind("decision"), kind("learning")];
                let second =
                    Tier { floor_percent, drop_zero_score: drop_worthless, ..Tier::new(kinds) };
                SlicerPolicy::Tiered { tiers: vec![first, second], whole_percent }
            }
        ),
        (counts, 1_i64..500).prop_map(|((entries, scarcity), bucket_size)| {
            SlicerPolicy::CountConstrainedKnapsack { entries, scarcity, bucket_size }
        }),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let scorers = prop::collection::vec((any_scorer(), 0.1..10.0), 1..4);
    let deduplication = prop_oneof![
        Just(Deduplication::Off),
        Just(Deduplication::Exact),
        (0..=1_000_u16).prop_map(|threshold| Deduplication::Near { threshold }),
    ];
    let flags = (deduplication, any::<bool>());
    (scorers, any_slicer(), 0..5_usize, flags, 0..3_usize, any::<Option<String>>()).prop_map(
        |(scorers, slicer, placer, (deduplication, together), overflow, name)| Policy {
            name,
            slicer,
            placer: [
                PlacerPolicy::Chronological,
                PlacerPolicy::UShaped,
                PlacerPolicy::Rank,
                PlacerPolicy::Document,
                PlacerPolicy::Taken,
            ][placer],
            deduplication,
            overflow_strategy: [
                OverflowStrategy::Throw,
                OverflowStrategy::Truncate,
                OverflowStrategy::Proceed,
            ][overflow],
            keep_groups_together: together,
            ..Policy::new(scorers)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_way_to_a_file_and_back_loses_nothing(policy in any_policy()) {
        prop_assert_eq!(&Policy::from_value(&policy.to_value()).unwrap(), &policy);
        let json_text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Policy>(&json_text).unwrap(), &policy);
        let toml_text = toml::to_string(&policy).unwrap();
        prop_assert_eq!(&toml::from_str::<Policy>(&toml_text).unwrap(), &policy);
    }
}

/// `PANNIER_BLESS=1 cargo test -p pannier-core --all-features --test policy` writes the file anew.
#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.schema.json");
    let generated = serde_json::to_string_pretty(&Policy::schema()).unwrap() + "\n";
    #[allow(clippy::disallowed_methods, reason = "a test may look at its environment")]
    if std::env::var("PANNIER_BLESS").is_ok() {
        std::fs::write(path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == generated, "docs/policy.schema.json is out of date; see this test");
}

/// What the reader knows and what the schema knows are the same keys, part by part.
#[test]
fn the_schema_has_the_keys_that_the_reader_reads() {
    let schema = serde_json::to_value(Policy::schema()).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value["properties"].as_object().unwrap().keys().cloned().collect()
    };
    // The reader lists what it knows when it meets a key that it does not know.
    let known = |text: &str| -> Vec<String> {
        let error = read(text).unwrap_err();
        let (_, known) = error.split_once("it is not known here; there are ").expect(&error);
        known.split(", ").map(str::to_owned).collect()
    };
    let needs = [
        ("composite", "children = [{ type = \"recency\" }]"),
        ("product", "children = [{ type = \"recency\" }]"),
        ("sum", "children = [{ type = \"recency\" }]"),
        ("by_kind", "kinds = [{ kind = \"k\", scorer = { type = \"recency\" } }]"),
        ("keyword", "keywords = [\"k\"], enough = 1"),
        ("lexical", "query = \"q\""),
        ("metadata_key", "key = \"k\", value = \"v\", boost = 2"),
        ("decay", "curve = { type = \"window\", max_age_secs = 1 }"),
        ("custom", "name = \"n\""),
    ];
    for part in schema["$defs"]["weighted_scorer"]["oneOf"].as_array().unwrap() {
        let name = part["properties"]["type"]["const"].as_str().unwrap();
        if name == "scaled" {
            continue; // Its keys depend on the scorer inside.
        }
        let needs = needs.iter().find(|(part, _)| *part == name).map_or("", |(_, needs)| needs);
        let comma = if needs.is_empty() { "" } else { ", " };
        let text = format!(
            "slicer = \"greedy\"\nplacer = \"rank\"\n\
             scorers = [{{ type = \"{name}\", zzz = 1{comma}{needs} }}]"
        );
        assert_eq!(known(&text), keys(part), "{name}");
    }
    let all: Vec<String> = {
        let tail = "placer = \"rank\"\nzzz = 1\nscorers = [{ type = \"recency\" }]";
        let quota = known(&format!("slicer = \"quota\"\ninner_slicer = \"knapsack\"\n{tail}"));
        let counts = known(&format!("slicer = \"count_constrained_knapsack\"\n{tail}"));
        let document = known(&format!("slicer = \"document\"\n{tail}"));
        quota
            .into_iter()
            .chain(counts)
            .chain(document)
            .chain(known(&format!("slicer = \"tiered\"\n{tail}")))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    assert_eq!(all, keys(&schema));
}

/// The example of the documentation is a policy, and its error is the real one.
#[test]
fn the_documented_policy_is_one() {
    let page = include_str!("../../../docs/policies.md");
    let block = |fence: &str| page.split(fence).nth(1).unwrap().split("```").next().unwrap();
    let example = block("```toml");
    let policy = read(example).unwrap();
    assert_eq!(policy.name.as_deref(), Some("support"));
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
    let brevity = ScorerPolicy::Custom { name: "brevity".to_owned() };
    let policy = Policy::new([(brevity, 1.0), (ScorerPolicy::Reflexive, 1.0)]);
    let pipeline = registry.pipeline(&policy, None).unwrap();
    let items = [item("text", 4, 0.5)];
    let answer = pipeline.explain(&items, &budget(10), 0).unwrap();
    let tree = answer.score.unwrap();
    assert_eq!((tree.score, tree.children[0].scorer.as_str()), (0.375, "brevity"));
}

#[test]
fn c23_policies_compare_as_their_pipelines_do() {
    let rated = |content: &str, priority, hint| {
        scored(content, 40, hint).priority(priority).build().unwrap()
    };
    let items = [
        rated("item-a", 10, 0.1),
        rated("item-b", 1, 0.9),
        rated("both", 20, 1.0),
        rated("item-b", 0, 0.0),
        rated("neither", 0, 0.0),
    ];
    let by_priority = Policy::new([(ScorerPolicy::Priority, 1.0)]);
    let by_hint = Policy::new([(ScorerPolicy::Reflexive, 1.0)]);
    let variants = [("priority", &by_priority), ("reflexive", &by_hint)];
    let report = policy_sensitivity(&items, &budget(80), &variants).unwrap();
    let contents: Vec<_> = report.diffs.iter().map(|diff| diff.content.as_str()).collect();
    assert_eq!(contents, ["item-a", "item-b"]);
    let pipelines = [by_priority.pipeline().unwrap(), by_hint.pipeline().unwrap()];
    let variants = [("priority", &pipelines[0]), ("reflexive", &pipelines[1])];
    let same = pannier_core::policy_sensitivity(&items, &budget(80), &variants).unwrap();
    assert_eq!(same, report);
}
