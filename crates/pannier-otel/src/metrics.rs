//! Numbers over many runs.

use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use pannier_core::{Error, Selection};

use crate::names::{Names, PREFIX};

/// The instruments: made once, and shared by all collectors of an application.
///
/// | name | what it counts |
/// |---|---|
/// | `cupel.selections` | runs; `error.type` on those that failed |
/// | `cupel.selection.duration` | how long they took, in seconds |
/// | `cupel.selection.tokens` | what the selected items cost |
/// | `cupel.items.excluded` | items that were not selected, by `cupel.exclusion.reason` |
#[derive(Clone, Debug)]
pub struct SelectionMetrics {
    names: Names,
    selections: Counter<u64>,
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
    excluded: Counter<u64>,
}

impl SelectionMetrics {
    /// Instruments of the global meter provider, under the source `cupel`.
    pub fn global() -> Self {
        Self::new(&global::meter(PREFIX))
    }

    /// Instruments of this meter.
    pub fn new(meter: &Meter) -> Self {
        Self::with_prefix(meter, PREFIX)
    }

    /// Instruments of this meter, whose names begin with this prefix.
    pub fn with_prefix(meter: &Meter, prefix: &str) -> Self {
        let name = |name: &str| format!("{prefix}.{name}");
        Self {
            names: Names::new(prefix),
            selections: meter
                .u64_counter(name("selections"))
                .with_unit("{selection}")
                .with_description("Selections, and attempts that failed")
                .build(),
            duration: meter
                .f64_histogram(name("selection.duration"))
                .with_unit("s")
                .with_description("How long a selection took")
                .with_boundaries(vec![
                    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
                    0.25, 0.5, 1.0, 2.5,
                ])
                .build(),
            tokens: meter
                .u64_histogram(name("selection.tokens"))
                .with_unit("{token}")
                .with_description("What the selected items cost")
                .with_boundaries((8..=20).map(|power| f64::from(1 << power)).collect())
                .build(),
            excluded: meter
                .u64_counter(name("items.excluded"))
                .with_unit("{item}")
                .with_description("Items that were not selected")
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
