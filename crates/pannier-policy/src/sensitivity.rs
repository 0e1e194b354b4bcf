//! Compares the selections of several policies or pipelines.

use std::collections::{BTreeMap, BTreeSet};

use pannier_core::report::SelectionReport;
use pannier_core::{ContextBudget, ContextItem, Error, Pipeline};
use serde::{Deserialize, Serialize};

use crate::Policy;

/// Whether a variant selects a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ItemStatus {
    /// It does.
    Included,
    /// It does not.
    Excluded,
}

/// A content on which variants differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySensitivityDiffEntry {
    /// The content.
    pub content: String,
    /// What each variant does with it, in the order of the variants.
    pub statuses: Vec<(String, ItemStatus)>,
}

/// How variants differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicySensitivityReport<I = ContextItem> {
    /// The report of each variant, in the order they were given.
    pub variants: Vec<(String, SelectionReport<I>)>,
    /// The contents on which at least two of them differ, in order of first appearance in the pool.
    pub diffs: Vec<PolicySensitivityDiffEntry>,
}

/// Runs each policy over the same pool and budget, and lists the contents whose status differs.
///
/// # Errors
///
/// As [`pipeline_sensitivity`], and any error that keeps a policy from being built.
pub fn policy_sensitivity<'a>(
    items: &'a [ContextItem],
    budget: &ContextBudget,
    variants: &[(impl AsRef<str>, &Policy)],
) -> Result<PolicySensitivityReport<&'a ContextItem>, Error> {
    let pipelines = variants.iter().map(|(_, policy)| policy.pipeline());
    let pipelines: Vec<Pipeline> = pipelines.collect::<Result<_, _>>()?;
    let labels = variants.iter().map(|(label, _)| label.as_ref());
    let variants: Vec<_> = labels.zip(&pipelines).collect();
    pipeline_sensitivity(items, budget, &variants)
}

/// Runs several pipelines over the same pool and budget, and lists the contents whose status differs.
///
/// Equal contents count as one, which is included if any copy is. References count by their id.
///
/// # Errors
///
/// [`Error::TooFewVariants`] for fewer than two, and any error that keeps a variant from running.
pub fn pipeline_sensitivity<'a>(
    items: &'a [ContextItem],
    budget: &ContextBudget,
    variants: &[(impl AsRef<str>, &Pipeline)],
) -> Result<PolicySensitivityReport<&'a ContextItem>, Error> {
    if variants.len() < 2 {
        return Err(Error::TooFewVariants);
    }
    let mut reports = Vec::with_capacity(variants.len());
    for (label, pipeline) in variants {
        reports.push((label.as_ref().to_owned(), pipeline.dry_run(items, budget)?));
    }
    Ok(PolicySensitivityReport { diffs: differences(items, &reports), variants: reports })
}

fn differences(
    items: &[ContextItem],
    variants: &[(String, SelectionReport<&ContextItem>)],
) -> Vec<PolicySensitivityDiffEntry> {
    // For each content, which variants include it.
    let mut included: BTreeMap<(&str, bool), BTreeSet<usize>> = BTreeMap::new();
    for (variant, (_, report)) in variants.iter().enumerate() {
        for entry in &report.included {
            included.entry(entry.item.identity()).or_default().insert(variant);
        }
    }
    let mut seen = BTreeSet::new();
    let contents = items.iter().map(ContextItem::identity).filter(|content| seen.insert(*content));
    contents
        .filter_map(|content| {
            let by = included.get(&content).filter(|by| by.len() < variants.len())?;
            let status = |variant| match by.contains(&variant) {
                true => ItemStatus::Included,
                false => ItemStatus::Excluded,
            };
            let labels = variants.iter().enumerate();
            let statuses = labels.map(|(i, (label, _))| (label.clone(), status(i))).collect();
            Some(PolicySensitivityDiffEntry { content: content.0.to_owned(), statuses })
        })
        .collect()
}
