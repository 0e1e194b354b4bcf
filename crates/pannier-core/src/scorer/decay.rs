//! Scores by age.
//!
//! Recency ranks items against each other; decay depends on each item's age alone. The engine reads no clock, so the
//! caller provides the time. Each scorer reads it once per run, so that all items are scored at the same instant. Two
//! decay scorers that must agree to the nanosecond need the same [`Timestamp`].

use std::time::Duration;

use super::{Pool, Scorer, check_unit_interval, score_independently};
use crate::{Error, Timestamp};

const NAME: &str = "DecayScorer";

/// The clock of a [`DecayScorer`].
///
/// A [`Timestamp`] is a fixed time, which makes runs repeatable. A closure may read the system clock.
pub trait TimeProvider: Send + Sync {
    /// Returns the time that ages are measured from.
    fn now(&self) -> Timestamp;
}

impl TimeProvider for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}

impl<F: Fn() -> Timestamp + Send + Sync> TimeProvider for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// The score of an item as a function of its age.
#[derive(Clone, Debug, PartialEq)]
pub struct DecayCurve(Shape);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Exponential { half_life: Duration },
    Step { windows: Vec<(Duration, f64)> },
}

impl DecayCurve {
    /// Creates a curve that halves with every `half_life`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the half-life is zero.
    pub fn exponential(half_life: Duration) -> Result<Self, Error> {
        not_zero("halfLife", half_life)?;
        Ok(Self(Shape::Exponential { half_life }))
    }

    /// Creates a curve that is 1 below `max_age` and 0 from there on.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the age is zero.
    pub fn window(max_age: Duration) -> Result<Self, Error> {
        not_zero("maxAge", max_age)?;
        Ok(Self(Shape::Step { windows: vec![(max_age, 1.0), (Duration::MAX, 0.0)] }))
    }

    /// Creates a step curve: an item gets the score of the first window with a greater age, or of the last window.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if there is no window, an age is zero, ages do not ascend, or a score is not a finite number.
    pub fn step(windows: impl IntoIterator<Item = (Duration, f64)>) -> Result<Self, Error> {
        let windows: Vec<_> = windows.into_iter().collect();
        let invalid = |problem: String| Err(Error::InvalidScorer { scorer: NAME, problem });
        if windows.is_empty() {
            return invalid("windows is empty; a step curve needs at least one".to_owned());
        }
        for (max_age, score) in &windows {
            not_zero("maxAge of a window", *max_age)?;
            if !score.is_finite() {
                return invalid(format!("the score of a window is {score}; it must be finite"));
            }
        }
        if !windows.is_sorted_by_key(|(max_age, _)| *max_age) {
            return invalid("windows must go from the youngest maxAge to the oldest".to_owned());
        }
        Ok(Self(Shape::Step { windows }))
    }

    /// Returns the score at an age.
    pub fn score_at_age(&self, age: Duration) -> f64 {
        match &self.0 {
            Shape::Exponential { half_life } => {
                libm::exp2(-(age.as_secs_f64() / half_life.as_secs_f64()))
            }
            Shape::Step { windows } => {
                let reached = windows.partition_point(|(max_age, _)| *max_age <= age);
                windows[reached.min(windows.len() - 1)].1
            }
        }
    }
}

fn not_zero(parameter: &str, duration: Duration) -> Result<(), Error> {
    if duration > Duration::ZERO {
        return Ok(());
    }
    let problem = format!("{parameter} is zero; it must be longer");
    Err(Error::InvalidScorer { scorer: NAME, problem })
}

/// Scores each item by a [curve](DecayCurve) over its age.
///
/// Items dated after the reference time have age 0. Items without a timestamp get a fixed score, 0.5 unless set.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use pannier_core::Timestamp;
/// use pannier_core::score::{DecayCurve, DecayScorer};
///
/// let curve = DecayCurve::exponential(Duration::from_secs(24 * 60 * 60))?;
/// // A fixed time gives the same scores tomorrow.
/// let reference: Timestamp = "2026-03-01T12:00:00Z".parse()?;
/// let repeatable = DecayScorer::new(reference, curve.clone());
/// // Or the time of the run.
/// let live = DecayScorer::new(|| SystemTime::now().into(), curve);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct DecayScorer {
    time: Box<dyn TimeProvider>,
    curve: DecayCurve,
    null_timestamp_score: f64,
}

impl DecayScorer {
    /// Creates a scorer that reads `time` once per run.
    pub fn new(time: impl TimeProvider + 'static, curve: DecayCurve) -> Self {
        Self { time: Box::new(time), curve, null_timestamp_score: 0.5 }
    }

    /// Sets the score of items without a timestamp.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the score is not between 0 and 1.
    pub fn with_null_timestamp_score(mut self, score: f64) -> Result<Self, Error> {
        self.null_timestamp_score = check_unit_interval(NAME, "nullTimestampScore", score)?;
        Ok(self)
    }
}

impl Scorer for DecayScorer {
    fn name(&self) -> &str {
        "decay"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let now = self.time.now();
        score_independently(pool, scores, |item| match item.timestamp() {
            Some(timestamp) => self.curve.score_at_age(now.since(timestamp)),
            None => self.null_timestamp_score,
        });
        Ok(())
    }
}

opaque_debug!(DecayScorer);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_curve_is_the_power_of_two_of_the_specification() {
        for half_life in [1, 7, 86_400] {
            let curve = DecayCurve::exponential(Duration::from_secs(half_life)).unwrap();
            for tenths in 0..5_000_u64 {
                let age = Duration::from_millis(100 * tenths);
                let power = libm::pow(2.0, -age.as_secs_f64() / half_life as f64);
                assert!((curve.score_at_age(age) - power).abs() < 1e-12, "{half_life} {age:?}");
            }
        }
    }
}
