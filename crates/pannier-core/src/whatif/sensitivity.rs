use std::collections::{BTreeMap, BTreeSet};

use crate::{ContextBudget, ContextItem, Error, Pipeline, SelectionReport};

/// Whether a variant selects a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ItemStatus {
    /// It does.
    Included,
    /// It does not.
    Excluded,
}

/// A content on which variants differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicySensitivityDiffEntry {
    /// The content.
    pub content: String,
    /// What each variant does with it, in the order of the variants.
    pub statuses: Vec<(String, ItemStatus)>,
}

/// How variants differ.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicySensitivityReport<I = ContextItem> {
    /// The report of each variant, in the order they were given.
    pub variants: Vec<(String, SelectionReport<I>)>,
    /// The contents on which at least two of them differ, in order of first appearance in the pool.
    pub diffs: Vec<PolicySensitivityDiffEntry>,
}

/// Runs several pipelines over the same items and budget, and reports where they differ.
///
/// Items are told apart by content: equal contents count as one, which is included if any copy is.
///
/// # Errors
///
/// [`Error::TooFewVariants`] for fewer than two, and any error that keeps a variant from running.
pub fn policy_sensitivity<'a>(
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
