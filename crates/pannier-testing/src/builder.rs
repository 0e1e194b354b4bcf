//! Builds selection reports without a run.

use pannier_core::ContextItem;
use pannier_core::report::{
    ExcludedItem, ExclusionReason, IncludedItem, InclusionReason, SelectionReport,
};

/// A builder of reports. It keeps the order of the calls, even if no run would produce that order.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::report::ExclusionReason;
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
    /// Starts an empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an included item with the reason `Scored`.
    pub fn include(self, item: ContextItem, score: f64) -> Self {
        self.include_for(item, score, InclusionReason::Scored)
    }

    /// Appends an included item with the given reason.
    pub fn include_for(mut self, item: ContextItem, score: f64, reason: InclusionReason) -> Self {
        self.included.push(IncludedItem::new(item, score, reason));
        self
    }

    /// Appends an excluded item with the given reason.
    pub fn exclude(mut self, item: ContextItem, score: f64, reason: ExclusionReason) -> Self {
        self.excluded.push(ExcludedItem::new(item, score, reason));
        self
    }

    /// Builds the report and computes its totals.
    pub fn build(self) -> SelectionReport {
        SelectionReport::new(self.included, self.excluded)
    }
}
