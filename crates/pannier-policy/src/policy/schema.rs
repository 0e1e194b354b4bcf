//! A JSON Schema of policies, for editors and for machines that write policies.
//!
//! It knows every part, its keys and the types of their values. Whether values go together (a
//! requirement below its cap, no knapsack inside a count quota) only reading a policy can tell.

use super::Policy;
use super::read::{PACKINGS, PLACERS, SCARCITIES, STRATEGIES};
use pannier_core::{Metadata, MetadataValue};

/// A part's name, its keys with their schemas, and which of them it needs.
type Part = (&'static str, Vec<(&'static str, Metadata)>, &'static [&'static str]);

impl Policy {
    /// The JSON Schema (2020-12) of policies.
    pub fn schema() -> MetadataValue {
        let mut keys = vec![
            ("name", kind_of("string")),
            ("description", kind_of("string")),
            ("scorers", non_empty_list(reference("weighted_scorer"))),
            ("placer", choice(PLACERS.iter().map(|(name, _)| *name))),
            ("deduplication", any_of([kind_of("boolean"), near()])),
            ("overflow_strategy", choice(STRATEGIES.iter().map(|(name, _)| *name))),
            ("keep_groups_together", kind_of("boolean")),
            ("slicer", choice(slicers().iter().map(|(name, ..)| *name))),
        ];
        // The slicer's options stand beside its name.
        keys.extend(all_options(slicers()));
        let mut schema = object(keys, &["scorers"]);
        put(&mut schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
        put(&mut schema, "title", "Pannier policy");
        let definitions = [
            ("scorer", one_of(scorers(), &[])),
            ("weighted_scorer", one_of(scorers(), &[("weight", positive())])),
            ("slicer", one_of(slicers(), &[])),
            ("curve", one_of(curves(), &[])),
        ];
        let definitions = definitions.map(|(name, schema)| (name.to_owned(), schema.into()));
        put(&mut schema, "$defs", Metadata::from(definitions));
        schema.into()
    }
}

/// How much of an item may be found in a better one.
fn near() -> Metadata {
    let thousandths = with(with(kind_of("integer"), "minimum", 0), "maximum", 1_000);
    object([("near", thousandths)], &["near"])
}

fn scorers() -> Vec<Part> {
    let weights = |name: &'static str| {
        let weight = with(kind_of("number"), "minimum", 0);
        list(object([(name, kind_of("string")), ("weight", weight)], &[name, "weight"]))
    };
    let mut parts: Vec<Part> = vec![
        ("recency", vec![], &[]),
        ("priority", vec![], &[]),
        ("kind", vec![("weights", weights("kind"))], &[]),
        (
            "tag",
            vec![("tag_weights", weights("tag")), ("case_insensitive", kind_of("boolean"))],
            &[],
        ),
        ("frequency", vec![], &[]),
        ("reflexive", vec![], &[]),
        (
            "composite",
            vec![("children", non_empty_list(reference("weighted_scorer")))],
            &["children"],
        ),
        ("product", vec![("children", non_empty_list(reference("scorer")))], &["children"]),
        ("sum", vec![("children", non_empty_list(reference("scorer")))], &["children"]),
        (
            "by_kind",
            vec![("kinds", non_empty_list(scorer_of_kinds())), ("otherwise", reference("scorer"))],
            &["kinds"],
        ),
        ("metadata_trust", vec![("default_score", unit())], &[]),
        (
            "metadata_key",
            vec![("key", kind_of("string")), ("value", kind_of("string")), ("boost", positive())],
            &["key", "value", "boost"],
        ),
        (
            "decay",
            vec![
                ("reference_time", with(kind_of("string"), "format", "date-time")),
                ("curve", reference("curve")),
                ("null_timestamp_score", unit()),
            ],
            &["curve"],
        ),
        (
            "keyword",
            vec![
                ("keywords", list(kind_of("string"))),
                ("enough", with(kind_of("integer"), "minimum", 1)),
            ],
            &["keywords", "enough"],
        ),
        ("lexical", vec![("query", kind_of("string"))], &["query"]),
        ("stability", vec![], &[]),
        ("custom", vec![("name", kind_of("string"))], &["name"]),
    ];
    // An inner scorer that is only a name has its options beside it.
    let name = choice(parts.iter().map(|(name, ..)| *name));
    let mut options = vec![("inner_scorer", any_of([name, reference("scorer")]))];
    options.extend(all_options(parts.clone()).into_iter().filter(|(key, _)| *key != "children"));
    parts.push(("scaled", options, &["inner_scorer"]));
    parts
}

/// One kind or several, and what scores them.
fn scorer_of_kinds() -> Metadata {
    let scorer = || ("scorer", reference("scorer"));
    let one = object([("kind", kind_of("string")), scorer()], &["kind", "scorer"]);
    let kinds = ("kinds", non_empty_list(kind_of("string")));
    any_of([one, object([kinds, scorer()], &["kinds", "scorer"])])
}

fn curves() -> Vec<Part> {
    let window = [("max_age_secs", positive()), ("score", kind_of("number"))];
    vec![
        ("exponential", vec![("half_life_secs", positive())], &["half_life_secs"]),
        ("window", vec![("max_age_secs", positive())], &["max_age_secs"]),
        (
            "step",
            vec![("windows", non_empty_list(object(window, &["max_age_secs", "score"])))],
            &["windows"],
        ),
    ]
}

fn slicers() -> Vec<Part> {
    let percent = || with(with(kind_of("number"), "minimum", 0), "maximum", 100);
    let count = || with(kind_of("integer"), "minimum", 0);
    let quota = [("kind", kind_of("string")), ("require", percent()), ("cap", percent())];
    let entry = [("kind", kind_of("string")), ("require_count", count()), ("cap_count", count())];
    let quotas = ("quotas", list(object(quota, &["kind"])));
    let entries = ("entries", list(object(entry, &["kind", "cap_count"])));
    let scarcity = ("scarcity_behavior", choice(SCARCITIES.iter().map(|(name, _)| *name)));
    let bucket_size = ("bucket_size", with(kind_of("integer"), "minimum", 1));
    let document = vec![
        ("packing", choice(PACKINGS.iter().map(|(name, _)| *name))),
        ("overhead", count()),
        ("max_per_document", count()),
    ];
    let tier = [
        ("kinds", non_empty_list(kind_of("string"))),
        ("cap", percent()),
        ("floor", percent()),
        ("drop_worthless", kind_of("boolean")),
    ];
    let tiered = vec![("tiers", list(object(tier, &["kinds"]))), ("whole", percent())];
    let names = [
        "greedy",
        "rank",
        "knapsack",
        "quota",
        "count_quota",
        "count_constrained_knapsack",
        "document",
        "tiered",
    ];
    let inner = ("inner_slicer", any_of([choice(names.into_iter()), reference("slicer")]));
    vec![
        (names[0], vec![], &[]),
        (names[1], vec![], &[]),
        (names[2], vec![bucket_size.clone()], &[]),
        // An inner slicer that is only a name has its options beside it.
        (
            names[3],
            [quotas.clone(), inner.clone(), bucket_size.clone(), entries.clone(), scarcity.clone()]
                .into_iter()
                .chain(document.clone())
                .chain(tiered.clone())
                .collect(),
            &[],
        ),
        (
            names[4],
            [entries.clone(), scarcity.clone(), inner, quotas, bucket_size.clone()]
                .into_iter()
                .chain(document.clone())
                .collect(),
            &[],
        ),
        (names[5], vec![entries, scarcity, bucket_size], &[]),
        (names[6], document, &[]),
        (names[7], tiered, &[]),
    ]
}

/// The keys of all parts, each once.
fn all_options(parts: Vec<Part>) -> Vec<(&'static str, Metadata)> {
    let mut all: Vec<(&'static str, Metadata)> = Vec::new();
    for option in parts.into_iter().flat_map(|(_, options, _)| options) {
        if all.iter().all(|(key, _)| *key != option.0) {
            all.push(option);
        }
    }
    all
}

/// One of these parts, told apart by `type`; with further keys for all of them.
fn one_of(parts: Vec<Part>, extra: &[(&'static str, Metadata)]) -> Metadata {
    let part = |(name, options, needs): Part| {
        let constant = Metadata::from([("const".to_owned(), name.into())]);
        let keys = options.into_iter().chain([("type", constant)]).chain(extra.iter().cloned());
        let needs: Vec<_> = ["type"].iter().chain(needs).copied().collect();
        object(keys, &needs).into()
    };
    let parts: Vec<MetadataValue> = parts.into_iter().map(part).collect();
    Metadata::from([("oneOf".to_owned(), parts.into())])
}

fn any_of<const N: usize>(schemas: [Metadata; N]) -> Metadata {
    let schemas: Vec<MetadataValue> = schemas.into_iter().map(Into::into).collect();
    Metadata::from([("anyOf".to_owned(), schemas.into())])
}

fn object(
    keys: impl IntoIterator<Item = (&'static str, Metadata)>,
    needs: &[&'static str],
) -> Metadata {
    let keys = keys.into_iter().map(|(key, schema)| (key.to_owned(), schema.into()));
    let needs: Vec<MetadataValue> = needs.iter().map(|key| (*key).into()).collect();
    let mut object = kind_of("object");
    put(&mut object, "properties", keys.collect::<Metadata>());
    put(&mut object, "additionalProperties", false);
    if !needs.is_empty() {
        put(&mut object, "required", needs);
    }
    object
}

fn list(entries: Metadata) -> Metadata {
    with(kind_of("array"), "items", entries)
}

fn non_empty_list(entries: Metadata) -> Metadata {
    with(list(entries), "minItems", 1)
}

fn choice<'n>(names: impl Iterator<Item = &'n str>) -> Metadata {
    let names: Vec<MetadataValue> = names.map(Into::into).collect();
    Metadata::from([("enum".to_owned(), names.into())])
}

fn reference(definition: &str) -> Metadata {
    Metadata::from([("$ref".to_owned(), format!("#/$defs/{definition}").into())])
}

fn positive() -> Metadata {
    with(kind_of("number"), "exclusiveMinimum", 0)
}

fn unit() -> Metadata {
    with(with(kind_of("number"), "minimum", 0), "maximum", 1)
}

fn kind_of(name: &str) -> Metadata {
    Metadata::from([("type".to_owned(), name.into())])
}

fn with(mut schema: Metadata, key: &str, value: impl Into<MetadataValue>) -> Metadata {
    put(&mut schema, key, value);
    schema
}

fn put(schema: &mut Metadata, key: &str, value: impl Into<MetadataValue>) {
    schema.insert(key.to_owned(), value.into());
}
