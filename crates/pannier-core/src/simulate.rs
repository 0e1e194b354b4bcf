//! What if: other budgets, other policies.
//!
//! Nothing here is a second implementation. A question is answered by running pipelines and comparing
//! what they select, so an answer is always what a run would do.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ContextBudget, ContextItem, Error, Pipeline, Policy, SelectionReport};

impl Pipeline {
    /// Every item with its score and its reason, as [`run`](Self::run) would decide.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn dry_run<'a>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
    ) -> Result<SelectionReport<&'a ContextItem>, Error> {
        Ok(self.run(items, budget)?.report())
    }

    /// The indices of the items that are selected within `budget`, and no longer if it had `slack_tokens`
    /// less; in the order they are placed.
    ///
    /// # Errors
    ///
    /// [`Error::NotMonotonic`] if the slicer gives kinds shares of the budget: with less, other items
    /// would come in, and the question has no answer of this form. [`Error::NegativeTokens`] if the slack
    /// is negative or leaves less than nothing. Otherwise as [`run`](Self::run).
    pub fn get_marginal_items(
        &self,
        items: &[ContextItem],
        budget: &ContextBudget,
        slack_tokens: i64,
    ) -> Result<Vec<usize>, Error> {
        if self.slicer_properties().shares_budget {
            return Err(Error::NotMonotonic { question: MARGINAL });
        }
        let reduced = budget.reduced(slack_tokens)?;
        let with_less: BTreeSet<usize> = self.run(items, &reduced)?.indices().collect();
        let selection = self.run(items, budget)?;
        Ok(selection.indices().filter(|index| !with_less.contains(index)).collect())
    }
}

const MARGINAL: &str = "GetMarginalItems requires monotonic item inclusion. QuotaSlice produces \
                        non-monotonic inclusion as budget changes shift percentage allocations.";

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

/// Runs several policies over the same items and budget, and tells where they differ.
///
/// Items are told apart by content: equal contents count as one, which is included if any copy is.
///
/// # Errors
///
/// [`Error::TooFewVariants`] for fewer than two, and whatever keeps a variant from running.
pub fn policy_sensitivity<'a>(
    items: &'a [ContextItem],
    budget: &ContextBudget,
    variants: &[(impl AsRef<str>, &Policy)],
) -> Result<PolicySensitivityReport<&'a ContextItem>, Error> {
    let pipelines = variants.iter().map(|(_, policy)| policy.pipeline());
    let pipelines: Vec<Pipeline> = pipelines.collect::<Result<_, _>>()?;
    let labels = variants.iter().map(|(label, _)| label.as_ref());
    let variants: Vec<_> = labels.zip(&pipelines).collect();
    policy_sensitivity_from_pipelines(items, budget, &variants)
}

/// As [`policy_sensitivity`], for pipelines, which may have parts that no policy can name.
///
/// # Errors
///
/// As [`policy_sensitivity`].
pub fn policy_sensitivity_from_pipelines<'a>(
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
    let mut included: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (variant, (_, report)) in variants.iter().enumerate() {
        for entry in &report.included {
            included.entry(entry.item.content()).or_default().insert(variant);
        }
    }
    let mut seen = BTreeSet::new();
    let contents = items.iter().map(ContextItem::content).filter(|content| seen.insert(*content));
    contents
        .filter_map(|content| {
            let by = included.get(content).filter(|by| by.len() < variants.len())?;
            let status = |variant| match by.contains(&variant) {
                true => ItemStatus::Included,
                false => ItemStatus::Excluded,
            };
            let labels = variants.iter().enumerate();
            let statuses = labels.map(|(i, (label, _))| (label.clone(), status(i))).collect();
            Some(PolicySensitivityDiffEntry { content: content.to_owned(), statuses })
        })
        .collect()
}
