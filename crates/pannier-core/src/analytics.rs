//! Statistics of a selection, computed from its report.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use crate::diagnostics::SelectionReport;
use crate::{ContextBudget, ContextItem, ContextKind, CountQuotaEntry, Quota, sum_tokens};

impl<I: Borrow<ContextItem>> SelectionReport<I> {
    /// Returns the sum of the included items' tokens.
    pub fn included_tokens(&self) -> i64 {
        sum_tokens(self.included.iter().map(|entry| entry.item.borrow().tokens()))
    }

    /// Returns the used share of the window: included tokens divided by `maxTokens`. Above 1 after an overflow; 0 if the
    /// window is 0.
    pub fn budget_utilization(&self, budget: &ContextBudget) -> f64 {
        ratio(self.included_tokens() as f64, budget.max_tokens() as f64)
    }

    /// Returns the number of distinct kinds among the included items.
    pub fn kind_diversity(&self) -> usize {
        let kinds = self.included.iter().map(|entry| entry.item.borrow().kind());
        kinds.collect::<BTreeSet<_>>().len()
    }

    /// Returns the share of included items with a timestamp; 0 if no item is included.
    pub fn timestamp_coverage(&self) -> f64 {
        let dated = self.included.iter().filter(|entry| entry.item.borrow().timestamp().is_some());
        ratio(dated.count() as f64, self.included.len() as f64)
    }

    /// Returns the utilization of each limit, in order of kind. A [`QuotaLimit`] is made from a quota.
    pub fn quota_utilization(
        &self,
        limits: impl IntoIterator<Item = QuotaLimit>,
        budget: &ContextBudget,
    ) -> Vec<QuotaUtilization> {
        let mut utilizations: Vec<QuotaUtilization> = limits
            .into_iter()
            .map(|limit| {
                let items = self.included.iter().map(|entry| entry.item.borrow());
                let of_kind = items.filter(|item| *item.kind() == limit.kind);
                let actual = match limit.unit {
                    QuotaUnit::Percent => {
                        let tokens = sum_tokens(of_kind.map(ContextItem::tokens));
                        ratio(tokens as f64, budget.target_tokens() as f64) * 100.0
                    }
                    QuotaUnit::Count => of_kind.count() as f64,
                };
                let utilization = ratio(actual, limit.cap).clamp(0.0, 1.0);
                QuotaUtilization { limit, actual, utilization }
            })
            .collect();
        utilizations.sort_by(|a, b| a.limit.kind.cmp(&b.limit.kind));
        utilizations
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaUnit {
    /// Percent of the target's tokens.
    Percent,
    /// Items.
    Count,
}

/// A kind's minimum and maximum, from a [`Quota`] or a [`CountQuotaEntry`].
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaLimit {
    /// The kind.
    pub kind: ContextKind,
    /// The unit of the minimum and the maximum.
    pub unit: QuotaUnit,
    /// The minimum.
    pub require: f64,
    /// The maximum.
    pub cap: f64,
}

impl From<&Quota> for QuotaLimit {
    fn from(quota: &Quota) -> Self {
        Self {
            kind: quota.kind.clone(),
            unit: QuotaUnit::Percent,
            require: quota.require_percent,
            cap: quota.cap_percent,
        }
    }
}

impl From<&CountQuotaEntry> for QuotaLimit {
    fn from(entry: &CountQuotaEntry) -> Self {
        Self {
            kind: entry.kind().clone(),
            unit: QuotaUnit::Count,
            require: entry.require_count() as f64,
            cap: entry.cap_count() as f64,
        }
    }
}

/// The utilization of a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaUtilization {
    /// The limit.
    pub limit: QuotaLimit,
    /// The value of the selection, in the limit's unit.
    pub actual: f64,
    /// The value divided by the maximum, from 0 to 1; 0 if the maximum is 0.
    pub utilization: f64,
}
