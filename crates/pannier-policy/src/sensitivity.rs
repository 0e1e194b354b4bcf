//! Compares the selections of several policies.

use pannier_core::{ContextBudget, ContextItem, Error, Pipeline, PolicySensitivityReport};

use crate::Policy;

/// Runs each policy over the same pool and budget, and lists the contents whose status differs.
///
/// # Errors
///
/// As [`pannier_core::policy_sensitivity`], which compares pipelines, and any error that keeps a policy from being
/// built.
pub fn policy_sensitivity<'a>(
    items: &'a [ContextItem],
    budget: &ContextBudget,
    variants: &[(impl AsRef<str>, &Policy)],
) -> Result<PolicySensitivityReport<&'a ContextItem>, Error> {
    let pipelines = variants.iter().map(|(_, policy)| policy.pipeline());
    let pipelines: Vec<Pipeline> = pipelines.collect::<Result<_, _>>()?;
    let labels = variants.iter().map(|(label, _)| label.as_ref());
    let variants: Vec<_> = labels.zip(&pipelines).collect();
    pannier_core::policy_sensitivity(items, budget, &variants)
}
