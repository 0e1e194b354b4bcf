//! Metrics over many runs.

use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use pannier_core::{Error, Selection};

use crate::names::{Names, PREFIX};

/// The instruments. Create them once and share them among all collectors of an application.
///
/// | name | measures |
/// |---|---|
/// | `cupel.selections` | runs; failed runs have the attribute `error.type` |
/// | `cupel.selection.duration` | the duration of a run in seconds |
/// | `cupel.selection.tokens` | the tokens of the selected items |
/// | `cupel.items.excluded` | excluded items, by `cupel.exclusion.reason` |
#[derive(Clone, Debug)]
pub struct SelectionMetrics {
    names: Names,
    selections: Counter<u64>,
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
    excluded: Counter<u64>,
}

impl SelectionMetrics {
    /// Creates instruments with the meter `cupel` of the global meter provider.
    pub fn global() -> Self {
        Self::new(&global::meter(PREFIX))
    }

    /// Creates instruments with this meter.
    pub fn new(meter: &Meter) -> Self {
        Self::with_prefix(meter, PREFIX)
    }

    /// Creates instruments with this meter and this prefix of their names.
    pub fn with_prefix(meter: &Meter, prefix: &str) -> Self {
        let name = |name: &str| format!("{prefix}.{name}");
        Self {
            names: Names::new(prefix),
            selections: meter
                .u64_counter(name("selections"))
                .with_unit("{selection}")
                .with_description("Selections, including failed ones")
                .build(),
            duration: meter
                .f64_histogram(name("selection.duration"))
                .with_unit("s")
                .with_description("Duration of a selection")
                .with_boundaries(vec![
                    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
                    0.25, 0.5, 1.0, 2.5,
                ])
                .build(),
            tokens: meter
                .u64_histogram(name("selection.tokens"))
                .with_unit("{token}")
                .with_description("Tokens of the selected items")
                .with_boundaries((8..=20).map(|power| f64::from(1 << power)).collect())
                .build(),
            excluded: meter
                .u64_counter(name("items.excluded"))
                .with_unit("{item}")
                .with_description("Excluded items")
                .build(),
        }
    }

    pub(crate) fn record(&self, selection: &Selection<'_>, duration: Duration) {
        self.selections.add(1, &[]);
        self.duration.record(duration.as_secs_f64(), &[]);
        self.tokens.record(selection.tokens().max(0).unsigned_abs(), &[]);
        for (reason, count) in selection.exclusion_counts() {
            let reason = KeyValue::new(self.names.exclusion_reason.clone(), reason.name());
            self.excluded.add(count as u64, &[reason]);
        }
    }

    pub(crate) fn record_failure(&self, error: &Error, duration: Duration) {
        let error = [KeyValue::new("error.type", error.kind().code())];
        self.selections.add(1, &error);
        self.duration.record(duration.as_secs_f64(), &error);
    }
}
