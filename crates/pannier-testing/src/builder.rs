//! Reports by hand.

use pannier_core::{
    ContextItem, ExcludedItem, ExclusionReason, IncludedItem, InclusionReason, SelectionReport,
};

/// Makes a report without a run. Its lists stay in the order they are given, also where no run would give
/// that order.
///
/// ```
/// use pannier_core::{ContextItem, ExclusionReason};
/// use pannier_testing::{ReportBuilder, Should};
///
/// let report = ReportBuilder::new()
///     .include(ContextItem::new("kept", 10)?, 0.9)
///     .exclude(ContextItem::new("broken", -1)?, 0.0, ExclusionReason::NegativeTokens { tokens: -1 })
///     .build();
/// report.should().have_at_least_n_exclusions(1);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ReportBuilder {
    included: Vec<IncludedItem>,
    excluded: Vec<ExcludedItem>,
}

impl ReportBuilder {
    /// A report of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an item that was selected for its score, behind those already there.
    pub fn include(self, item: ContextItem, score: f64) -> Self {
        self.include_for(item, score, InclusionReason::Scored)
    }

    /// Adds an item that was selected for a reason.
    pub fn include_for(mut self, item: ContextItem, score: f64, reason: InclusionReason) -> Self {
        self.included.push(IncludedItem::new(item, score, reason));
        self
    }

    /// Adds an item that was not selected, behind those already there.
    pub fn exclude(mut self, item: ContextItem, score: f64, reason: ExclusionReason) -> Self {
        self.excluded.push(ExcludedItem::new(item, score, reason));
        self
    }

    /// The report, with its totals.
    pub fn build(self) -> SelectionReport {
        SelectionReport::new(self.included, self.excluded)
    }
}
