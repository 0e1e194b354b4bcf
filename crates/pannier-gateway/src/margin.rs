//! The margin of sessions, calibrated by what providers report.
//!
//! A provider may count more tokens than we do. The largest ratio that was seen for a model bounds the next requests, so a
//! session that begins later keeps the difference free. Counts that are too high never lower a margin: a bound is a promise,
//! a ratio of earlier requests is not. A running session keeps its margin, because another one would change its prefix.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pannier::tokens::CalibrationSums;
use serde::{Deserialize, Serialize};

use crate::state::StateFolder;

/// Shorter requests are mostly the provider's own framing.
const MIN_TOKENS: u64 = 1_000;

/// The largest margin. A ratio beyond it is not a difference of counts.
const MAX_PERCENT: f64 = 50.0;

/// The number of models that are calibrated.
const MAX_MODELS: usize = 64;

/// The longest name of a model that is calibrated.
const MAX_NAME_BYTES: usize = 128;

/// The margins of models.
#[derive(Debug)]
pub(crate) struct Margins {
    percent: f64,
    models: Mutex<BTreeMap<String, CalibrationSums>>,
    state: Option<Arc<StateFolder>>,
}

/// The calibration of a model, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    model: String,
    pairs: u64,
    reported: u64,
    counted: u64,
    bound_permille: u64,
}

impl Margins {
    /// Returns margins of at least a percentage, with the calibration of a state folder.
    pub(crate) fn new(percent: f64, state: Option<Arc<StateFolder>>) -> Self {
        let stored = state.as_ref().and_then(|state| state.calibration());
        let stored: Vec<Stored> =
            stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let sums = |stored: Stored| {
            let Stored { model, pairs, reported, counted, bound_permille } = stored;
            (model, CalibrationSums { pairs, reported, counted, bound_permille })
        };
        let models = stored.into_iter().take(MAX_MODELS).map(sums).collect();
        Self { percent, models: Mutex::new(models), state }
    }

    fn models(&self) -> MutexGuard<'_, BTreeMap<String, CalibrationSums>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the margin of a session that begins with a model, in percent.
    pub(crate) fn percent(&self, model: &str) -> f64 {
        let calibration = self.models().get(model).and_then(CalibrationSums::calibration);
        let bound = calibration.map_or(1.0, |calibration| calibration.bound);
        // A part of 1 / bound of the window is full by the provider's count.
        let calibrated = if bound > 1.0 { 100.0 * (1.0 - 1.0 / bound) } else { 0.0 };
        self.percent.max(calibrated.min(MAX_PERCENT))
    }

    /// Adds the two counts of a request.
    pub(crate) fn add(&self, model: &str, counted: u64, reported: u64) {
        if counted < MIN_TOKENS || model.len() > MAX_NAME_BYTES {
            return;
        }
        let mut models = self.models();
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            return;
        }
        let sums = models.entry(model.to_owned()).or_default();
        let bound = sums.bound_permille;
        sums.add(counted, reported);
        let (Some(state), true) = (&self.state, sums.bound_permille > bound) else { return };
        let stored = |(model, sums): (&String, &CalibrationSums)| Stored {
            model: model.clone(),
            pairs: sums.pairs,
            reported: sums.reported,
            counted: sums.counted,
            bound_permille: sums.bound_permille,
        };
        let stored: Vec<Stored> = models.iter().map(stored).collect();
        let text = serde_json::to_string(&stored).unwrap_or_default();
        if let Err(error) = state.set_calibration(&text) {
            tracing::warn!(%error, "cannot write the calibration");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_grow_with_what_the_provider_counts_more() {
        let margins = Margins::new(2.0, None);
        assert_eq!(margins.percent("m"), 2.0);
        margins.add("m", 10_000, 9_000);
        assert_eq!(margins.percent("m"), 2.0, "a count that is too high lowers nothing");
        margins.add("m", 100, 200);
        assert_eq!(margins.percent("m"), 2.0, "short requests do not count");
        margins.add("m", 10_000, 12_500);
        margins.add("m", 10_000, 10_500);
        assert!((margins.percent("m") - 20.0).abs() < 1e-9);
        assert_eq!(margins.percent("other"), 2.0);
        margins.add("m", 1_000, u64::MAX);
        assert_eq!(margins.percent("m"), MAX_PERCENT);
        for number in 0..2 * MAX_MODELS {
            margins.add(&number.to_string(), 1_000, 1_000);
        }
        assert_eq!(margins.models().len(), MAX_MODELS);
    }
}
