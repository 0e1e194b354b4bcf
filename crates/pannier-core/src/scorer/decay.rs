//! Scores by age.
//!
//! Unlike recency, which ranks items against each other, decay looks at each item's age alone. It
//! needs to know what time it is, and the engine reads no clock: the caller provides the time, and each
//! scorer reads it once a run, so that all items are judged at the same instant. Two decay scorers that
//! must agree to the nanosecond are given the same [`Timestamp`].

use std::time::Duration;

use super::{Pool, Scorer, check_unit_interval, score_independently};
use crate::{Error, Timestamp};

const NAME: &str = "DecayScorer";

/// Tells a [`DecayScorer`] what time it is.
///
/// A [`Timestamp`] is a clock that stands still, which makes runs repeatable; a closure may read
/// the real one.
pub trait TimeProvider: Send + Sync {
    /// The time that ages are measured to.
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

/// How a score falls as an item ages.
#[derive(Clone, Debug, PartialEq)]
pub struct DecayCurve(Shape);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Exponential { half_life: Duration },
    Window { max_age: Duration },
    Step { windows: Vec<(Duration, f64)> },
}

impl DecayCurve {
    /// Halves with every `half_life`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the half-life is zero.
    pub fn exponential(half_life: Duration) -> Result<Self, Error> {
        not_zero("halfLife", half_life)?;
        Ok(Self(Shape::Exponential { half_life }))
    }

    /// 1 while the age is below `max_age`, then 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the age is zero.
    pub fn window(max_age: Duration) -> Result<Self, Error> {
        not_zero("maxAge", max_age)?;
        Ok(Self(Shape::Window { max_age }))
    }

    /// The score of the first window whose age is above the item's; the last one's beyond them all.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if there is no window, one has no width, they are not in order of
    /// age, or a score is not a finite number.
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

    /// The score at an age.
    pub fn score_at_age(&self, age: Duration) -> f64 {
        match &self.0 {
            Shape::Exponential { half_life } => {
                libm::exp2(-(age.as_secs_f64() / half_life.as_secs_f64()))
            }
            Shape::Window { max_age } => f64::from(u8::from(age < *max_age)),
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

/// Fresher is better: a curve over each item's age.
///
/// Items dated after the reference time count as new. Items without a timestamp get a score of
/// their own, 0.5 unless set.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use pannier_core::{DecayCurve, DecayScorer, Timestamp};
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
    /// A scorer that asks `time` once a run.
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

impl std::fmt::Debug for DecayScorer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecayScorer")
            .field("curve", &self.curve)
            .field("null_timestamp_score", &self.null_timestamp_score)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_curve_is_the_power_of_two_that_the_specification_states() {
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
