//! Scores by what the caller wrote into an item's metadata.

use super::{Pool, Scorer, check_unit_interval, score_independently};
use crate::Error;

/// The trust that `metadata["cupel:trust"]` states, clamped to 0..1.
///
/// The value is a number or a text that reads as one. Items without it, or with one that is not a
/// finite number, get a default.
#[derive(Clone, Debug)]
pub struct MetadataTrustScorer {
    default_score: f64,
}

impl MetadataTrustScorer {
    /// The metadata key that is read.
    pub const KEY: &'static str = "cupel:trust";

    /// A scorer that gives items without a usable value this score.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the score is not between 0 and 1.
    pub fn new(default_score: f64) -> Result<Self, Error> {
        let default_score =
            check_unit_interval("MetadataTrustScorer", "defaultScore", default_score)?;
        Ok(Self { default_score })
    }
}

impl Default for MetadataTrustScorer {
    /// Items without a value get 0.5.
    fn default() -> Self {
        Self { default_score: 0.5 }
    }
}

impl Scorer for MetadataTrustScorer {
    fn name(&self) -> &str {
        "metadata_trust"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_independently(pool, scores, |item| {
            let trust = item.metadata().get(Self::KEY).and_then(|value| value.as_f64());
            match trust {
                Some(trust) if trust.is_finite() => trust.clamp(0.0, 1.0),
                _ => self.default_score,
            }
        });
        Ok(())
    }
}

/// A multiplier for items whose metadata has a certain value; all others get 1.
#[derive(Clone, Debug)]
pub struct MetadataKeyScorer {
    key: String,
    value: String,
    boost: f64,
}

impl MetadataKeyScorer {
    /// Boosts items whose metadata has `value` under `key`. Numbers and truth values compare by their
    /// shortest spelling: `true`, `3`, `3.0`, `1.5`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if the boost is not a finite number above 0.
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        boost: f64,
    ) -> Result<Self, Error> {
        if !boost.is_finite() || boost <= 0.0 {
            let problem = format!("boost is {boost}; it must be a finite number above 0");
            return Err(Error::InvalidScorer { scorer: "MetadataKeyScorer", problem });
        }
        Ok(Self { key: key.into(), value: value.into(), boost })
    }
}

impl Scorer for MetadataKeyScorer {
    fn name(&self) -> &str {
        "metadata_key"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_independently(pool, scores, |item| {
            let value = item.metadata().get(&self.key).and_then(|value| value.as_text());
            if value.is_some_and(|value| value == self.value) { self.boost } else { 1.0 }
        });
        Ok(())
    }
}
