//! Both readers agree, but for what the new one is meant to read or to explain better.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pannier_core::{Error, Metadata, MetadataValue};

use super::Policy as Former;
use crate::{Policy, PolicyRegistry};

/// Policies of the repository, by where they are.
fn corpus() -> Vec<(String, MetadataValue)> {
    let mut corpus: Vec<(String, MetadataValue)> = Vec::new();
    for (name, policy) in PolicyRegistry::default().policies() {
        corpus.push((name.to_owned(), former_names(policy.to_value())));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in [
        "conformance",
        "crates/pannier-cli/tests",
        "docs",
        "examples",
        "crates/pannier-policy/tests",
    ] {
        list(&root.join(folder), &mut files);
    }
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let name = file.display().to_string();
        let mut blocks = vec![text.clone()];
        blocks.extend(
            text.split("```toml")
                .skip(1)
                .filter_map(|rest| rest.split("```").next())
                .map(str::to_owned),
        );
        blocks.extend(
            text.split("r#\"")
                .skip(1)
                .filter_map(|rest| rest.split("\"#").next())
                .map(str::to_owned),
        );
        for block in blocks {
            let toml = toml::from_str::<MetadataValue>(&block).ok();
            let value = toml.or_else(|| serde_json::from_str(&block).ok());
            corpus.extend(
                value
                    .into_iter()
                    .flat_map(policies)
                    .map(|value| (name.clone(), former_names(value))),
            );
        }
    }
    corpus
}

/// What may be a policy: a table with scorers, also within a vector or a receipt; a part of a vector on its own.
fn policies(value: MetadataValue) -> Vec<MetadataValue> {
    let MetadataValue::Object(table) = value else { return Vec::new() };
    let mut found = Vec::new();
    for key in ["config", "policy"] {
        if let Some(MetadataValue::Object(config)) = table.get(key) {
            let test = |key: &str| match table.get("test") {
                Some(MetadataValue::Object(test)) => test.get(key).cloned(),
                _ => None,
            };
            let mut config = config.clone();
            if let Some(slicer) = test("slicer") {
                config.insert("slicer".to_owned(), slicer);
                config.insert("scorers".to_owned(), vec!["recency".into()].into());
                config.insert("scorers".to_owned(), scorer("recency".into(), Metadata::new()));
            }
            if let Some(name) = test("scorer") {
                config = Metadata::from([("scorers".to_owned(), scorer(name, config))]);
            }
            found.push(config.into());
        }
    }
    if table.contains_key("scorers") {
        found.push(table.into());
    }
    found
}

fn scorer(name: MetadataValue, mut options: Metadata) -> MetadataValue {
    options.insert("type".to_owned(), name);
    vec![MetadataValue::Object(options)].into()
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() { list(&path, files) } else { files.push(path) }
    }
}

const RENAMED: [(&str, &str); 9] = [
    ("bm25", "lexical"),
    ("prefix_stability", "stability"),
    ("slice-order", "taken"),
    ("prefix-stable", "stable"),
    ("saturation", "enough"),
    ("full_text_percent", "whole"),
    ("drop_zero_score", "drop_worthless"),
    ("default", "otherwise"),
    ("near_duplicates", "near_duplicates"),
];

/// A value with the names that the former reader knows.
fn former_names(value: MetadataValue) -> MetadataValue {
    let name = |text: String| match RENAMED.iter().find(|(new, _)| *new == text) {
        Some((_, former)) => (*former).to_owned(),
        None => text,
    };
    match value {
        MetadataValue::String(text) => name(text).into(),
        MetadataValue::Array(values) => {
            values.into_iter().map(former_names).collect::<Vec<_>>().into()
        }
        MetadataValue::Object(mut table) => {
            if let Some(MetadataValue::Float(share)) = table.remove("near_duplicates") {
                let near = Metadata::from([(
                    "near".to_owned(),
                    ((share * 1_000.0).round() as i64).into(),
                )]);
                table.insert("deduplication".to_owned(), near.into());
            }
            table
                .into_iter()
                .map(|(key, value)| (name(key), former_names(value)))
                .collect::<Metadata>()
                .into()
        }
        other => other,
    }
}

/// A random number generator: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

const WORDS: &[&str] = &[
    "type",
    "weight",
    "scorers",
    "children",
    "inner_scorer",
    "inner_slicer",
    "slicer",
    "placer",
    "bucket_size",
    "quotas",
    "entries",
    "kind",
    "kinds",
    "tiers",
    "whole",
    "enough",
    "keywords",
    "weights",
    "tag_weights",
    "curve",
    "name",
    "near",
    "deduplication",
    "cap",
    "require",
    "require_count",
    "cap_count",
    "overhead",
    "packing",
    "recency",
    "kind",
    "tag",
    "scaled",
    "composite",
    "product",
    "sum",
    "by_kind",
    "decay",
    "keyword",
    "lexical",
    "stability",
    "custom",
    "metadata_key",
    "greedy",
    "rank",
    "knapsack",
    "quota",
    "count_quota",
    "count_constrained_knapsack",
    "document",
    "tiered",
    "taken",
    "stable",
    "u-shaped",
    "chronological",
    "throw",
    "degrade",
    "proceed",
    "exponential",
    "window",
    "step",
    "half_life_secs",
    "zzz",
    "",
];

fn random_value(random: &mut Random) -> MetadataValue {
    match random.below(14) {
        0 => MetadataValue::Null,
        1 => true.into(),
        2 => false.into(),
        3 => 0_i64.into(),
        4 => (-1_i64).into(),
        5 => 3_i64.into(),
        6 => 0.5.into(),
        7 => 1e300.into(),
        8 => f64::NAN.into(),
        9 => u64::MAX.into(),
        10 => Vec::new().into(),
        11 => Metadata::new().into(),
        12 => vec![MetadataValue::from("recency")].into(),
        _ => WORDS[random.below(WORDS.len())].into(),
    }
}

/// Changes one thing somewhere in the tree.
fn mutate(value: &mut MetadataValue, depth: usize, random: &mut Random) {
    let is_leaf = depth > 0 && random.below(4) == 0;
    match value {
        MetadataValue::Object(table) if !table.is_empty() && !is_leaf => {
            let position = random.below(table.len());
            let Some(key) = table.keys().nth(position).cloned() else { return };
            match random.below(10) {
                0 => drop(table.remove(&key)),
                1 => {
                    let Some(entry) = table.remove(&key) else { return };
                    table.insert(WORDS[random.below(WORDS.len())].to_owned(), entry);
                }
                2 => {
                    let Some(entry) = table.remove(&key) else { return };
                    table.insert(format!("{key}s"), entry);
                }
                3 => drop(
                    table.insert(WORDS[random.below(WORDS.len())].to_owned(), random_value(random)),
                ),
                _ => {
                    if let Some(entry) = table.get_mut(&key) {
                        mutate(entry, depth + 1, random);
                    }
                }
            }
        }
        MetadataValue::Array(values) if !values.is_empty() && !is_leaf => {
            let position = random.below(values.len());
            match random.below(6) {
                0 => drop(values.remove(position)),
                1 => values.push(values[position].clone()),
                _ => mutate(&mut values[position], depth + 1, random),
            }
        }
        other => *other = random_value(random),
    }
}

/// How the verdicts of both readers relate.
fn compare(value: &MetadataValue) -> Result<&'static str, String> {
    match (Former::from_value(value), Policy::from_value(value)) {
        (Ok(former), Ok(policy)) => {
            let written = Policy::from_value(&former.to_value());
            let same = written.as_ref() == Ok(&policy)
                && former_names(policy.to_value()) == former.to_value();
            if same { Ok("both read the same") } else { Err(format!("{former:?}\n{policy:?}")) }
        }
        (Err(former), Ok(_)) => match problem(&former) {
            (_, problem) if problem.ends_with("is null") => Ok("null is absent"),
            (_, problem) if problem.contains("must be a table, and is a text") => {
                Ok("a name instead of a table")
            }
            (path, problem) => Err(format!("only the former refuses: {path}: {problem}")),
        },
        (Ok(_), Err(error)) => Err(format!("only the new one refuses: {error}")),
        (Err(former), Err(error)) => {
            let ((path, problem), (new_path, new_problem)) = (problem(&former), problem(&error));
            if path.trim_end_matches('.') == new_path {
                Ok("same path")
            } else if new_path.starts_with(&path) {
                Ok("fuller path")
            } else if new_problem.starts_with("unknown key") && problem.contains("missing") {
                Ok("unknown key, where the former missed another one in the same table")
            } else if new_problem.starts_with("unknown key") && !problem.contains("not known") {
                Ok("unknown key, where the former asked for other values first")
            } else if problem.contains("there is no scorer") && new_path.ends_with("inner_scorer") {
                Ok("the path to the inner scorer, not to the outer one's type")
            } else if new_problem.contains("missing") && problem.contains("missing") {
                Ok("two keys are missing")
            } else {
                Err(format!("{path}: {problem}\n{new_path}: {new_problem}"))
            }
        }
    }
}

fn problem(error: &Error) -> (String, String) {
    match error {
        Error::InvalidPolicy { path, problem } => (path.clone(), problem.clone()),
        other => (String::new(), other.to_string()),
    }
}

#[test]
fn both_readers_agree() {
    let corpus = corpus();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differences = Vec::new();
    for (name, value) in &corpus {
        match compare(value) {
            Ok(relation) => *counts.entry(relation).or_default() += 1,
            Err(difference) => differences.push(format!("{name}: {difference}")),
        }
    }
    eprintln!("{} policies of the repository: {counts:#?}", corpus.len());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut random = Random(18);
    for number in 0..10_000 {
        let mut value = corpus[random.below(corpus.len())].1.clone();
        // A policy with one mistake has one path to it.
        while compare(&value) != Ok("both read the same") {
            value = corpus[random.below(corpus.len())].1.clone();
        }
        mutate(&mut value, 0, &mut random);
        match compare(&value) {
            Ok(relation) => *counts.entry(relation).or_default() += 1,
            Err(difference) => differences.push(format!(
                "{number}: {difference}\n{}",
                serde_json::to_string(&value).unwrap()
            )),
        }
    }
    eprintln!("10,000 mutated policies: {counts:#?}");
    for number in 0..10_000 {
        let mut value = corpus[random.below(corpus.len())].1.clone();
        mutate(&mut value, 0, &mut random);
        mutate(&mut value, 0, &mut random);
        let verdicts = (Former::from_value(&value).is_ok(), Policy::from_value(&value).is_ok());
        if verdicts.0 != verdicts.1 && compare(&value).is_err() {
            differences
                .push(format!("{number}, twice: {}", serde_json::to_string(&value).unwrap()));
        }
    }
    eprintln!("{} differences", differences.len());
    let shown: Vec<_> = differences.iter().take(20).cloned().collect();
    assert!(differences.is_empty(), "{}", shown.join("\n\n"));
}
