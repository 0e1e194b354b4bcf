//! Builds components from a vector's configuration, through policies.
//!
//! A vector's keys are those of a policy, but for four differences: a scorer under test has its children under `scorers`,
//! a kind scorer may ask for the default weights, a knapsack has the specification's buckets of 100 tokens, and unknown keys
//! are ignored, so that newer suites still run.

use pannier_core::item::{Metadata, MetadataValue};
use pannier_core::{Error, Pipeline};
use pannier_policy::{PlacerPolicy, Policy, PolicyRegistry, ScorerPolicy, SlicerPolicy};

/// Why a component could not be built: the vector is not understood, or the engine refused.
pub(crate) enum Problem {
    NotUnderstood(String),
    Refused(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidPolicy { path, problem } if problem.starts_with("it is missing") => {
                Self::NotUnderstood(format!("'{path}' is missing"))
            }
            error => Self::Refused(error),
        }
    }
}

fn unknown(what: &str, name: &str) -> Problem {
    Problem::NotUnderstood(format!("unknown {what} '{name}'"))
}

fn name(config: &Metadata, key: &str) -> Result<String, Problem> {
    match config.get(key) {
        Some(MetadataValue::String(name)) => Ok(name.clone()),
        _ => Err(Problem::NotUnderstood(format!("'{key}' is missing"))),
    }
}

/// Reads the pipeline of a configuration.
pub(crate) fn pipeline(mut config: Metadata) -> Result<Pipeline, Problem> {
    let (slicer, placer) = (name(&config, "slicer")?, name(&config, "placer")?);
    config.insert("slicer".to_owned(), slicer_table(&slicer, config.clone())?);
    PlacerPolicy::option_names(&placer).ok_or_else(|| unknown("placer", &placer))?;
    rewrite_each(&mut config, "scorers", |scorer| scorer_of_table(scorer, &["weight"]))?;
    let keys = [
        "deduplication",
        "floor",
        "forms",
        "keep_duplicates",
        "keep_groups_together",
        "near_duplicates",
        "overflow_strategy",
        "placer",
        "scorers",
        "slicer",
    ];
    config.retain(|key, _| keys.contains(&key.as_str()));
    let policy = Policy::from_value(&config.into())?;
    Ok(PolicyRegistry::empty().pipeline(&policy, None)?)
}

/// Reads the scorer `name` with the options of a configuration.
pub(crate) fn scorer(name: &str, config: Metadata) -> Result<ScorerPolicy, Problem> {
    Ok(ScorerPolicy::from_value(scorer_table(name, config, &[])?)?)
}

/// Reads the slicer `name` with the options of a configuration.
pub(crate) fn slicer(name: &str, config: Metadata) -> Result<SlicerPolicy, Problem> {
    Ok(SlicerPolicy::from_value(slicer_table(name, config)?)?)
}

/// Reads the placer `name`.
pub(crate) fn placer(name: &str) -> Result<PlacerPolicy, Problem> {
    PlacerPolicy::option_names(name).ok_or_else(|| unknown("placer", name))?;
    Ok(PlacerPolicy::from_value(name.into())?)
}

/// Rewrites the keys of a scorer to those of a policy. The other keys that are given are kept.
fn scorer_table(
    name: &str,
    mut table: Metadata,
    beside: &[&str],
) -> Result<MetadataValue, Problem> {
    let options = ScorerPolicy::option_names(name).ok_or_else(|| unknown("scorer", name))?;
    match table.get("use_default_weights") {
        Some(MetadataValue::Bool(true)) => drop(table.remove("weights")),
        Some(MetadataValue::Bool(false)) => {
            table.entry("weights".to_owned()).or_insert_with(|| Vec::new().into());
        }
        _ => {}
    }
    if let Some(children) = table.remove("scorers") {
        table.insert("children".to_owned(), children);
    }
    let weight: &[&str] = if name == "composite" { &["weight"] } else { &[] };
    rewrite_each(&mut table, "children", |child| scorer_of_table(child, weight))?;
    rewrite_each(&mut table, "kinds", |entry| match entry {
        MetadataValue::Object(mut entry) => {
            rewrite(&mut entry, "scorer", |scorer| scorer_of_table(scorer, &[]))?;
            Ok(entry.into())
        }
        other => Ok(other),
    })?;
    for key in ["default", "otherwise"] {
        rewrite(&mut table, key, |scorer| scorer_of_table(scorer, &[]))?;
    }
    // An inner scorer that is only a name has its options in the same table.
    let mut options_of_inner = table.clone();
    options_of_inner.remove("inner_scorer");
    rewrite(&mut table, "inner_scorer", |inner| match inner {
        MetadataValue::String(inner) if inner != name => {
            scorer_table(&inner, options_of_inner, &[])
        }
        other => scorer_of_table(other, &[]),
    })?;
    Ok(typed(name, table, &[options, beside].concat()))
}

fn scorer_of_table(value: MetadataValue, beside: &[&str]) -> Result<MetadataValue, Problem> {
    match value {
        MetadataValue::Object(table) => scorer_table(&name(&table, "type")?, table, beside),
        other => Ok(other),
    }
}

fn slicer_table(name_of: &str, mut table: Metadata) -> Result<MetadataValue, Problem> {
    let options = SlicerPolicy::option_names(name_of).ok_or_else(|| unknown("slicer", name_of))?;
    let mut options_of_inner = table.clone();
    options_of_inner.remove("inner_slicer");
    rewrite(&mut table, "inner_slicer", |inner| match inner {
        MetadataValue::String(inner) if matches!(inner.as_str(), "greedy" | "knapsack") => {
            slicer_table(&inner, options_of_inner)
        }
        MetadataValue::Object(inner) => slicer_table(&name(&inner, "type")?, inner),
        inner => {
            let problem = format!("a {inner:?} slicer inside a {name_of} slicer needs a table");
            Err(Problem::NotUnderstood(problem))
        }
    })?;
    if options.contains(&"bucket_size") {
        table.entry("bucket_size".to_owned()).or_insert_with(|| 100.into());
    }
    Ok(typed(name_of, table, options))
}

/// A table with these keys only, and a name.
fn typed(name: &str, mut table: Metadata, keys: &[&str]) -> MetadataValue {
    table.retain(|key, _| keys.contains(&key.as_str()));
    table.insert("type".to_owned(), name.into());
    table.into()
}

fn rewrite(
    table: &mut Metadata,
    key: &str,
    rewrite: impl FnOnce(MetadataValue) -> Result<MetadataValue, Problem>,
) -> Result<(), Problem> {
    if let Some(value) = table.remove(key) {
        table.insert(key.to_owned(), rewrite(value)?);
    }
    Ok(())
}

fn rewrite_each(
    table: &mut Metadata,
    key: &str,
    each: impl Fn(MetadataValue) -> Result<MetadataValue, Problem>,
) -> Result<(), Problem> {
    rewrite(table, key, |value| match value {
        MetadataValue::Array(values) => {
            Ok(values.into_iter().map(each).collect::<Result<Vec<_>, _>>()?.into())
        }
        other => Ok(other),
    })
}
