//! Scores by an item's metadata.

use super::{Pool, Scorer, check_unit_interval, score_independently};
use crate::Error;

/// The trust in `metadata["cupel:trust"]`, clamped to the range 0 to 1.
///
/// The value is a number, or a string that parses as one. Items without a finite value get the default, 0.5 unless set.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{MetadataTrustScorer, Pool};
///
/// let trusted = ContextItem::builder("A", 1).metadata("cupel:trust", 0.9).build()?;
/// let unknown = ContextItem::new("B", 1)?;
/// let scorer = MetadataTrustScorer::new(0.3)?;
/// assert_eq!(Pool::new([&trusted, &unknown]).scores(&scorer)?, [0.9, 0.3]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetadataTrustScorer {
    default_score: f64,
}

impl MetadataTrustScorer {
    /// The metadata key.
    pub const KEY: &'static str = "cupel:trust";

    /// Creates a scorer with a score for items without a finite value.
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
    /// Creates a scorer that gives 0.5 to items without a finite value.
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
            let trust = trust.filter(|trust| trust.is_finite());
            trust.map_or(self.default_score, |trust| trust.clamp(0.0, 1.0))
        });
        Ok(())
    }
}

/// A multiplier for items whose metadata has a given value. All other items get 1.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{MetadataKeyScorer, Pool, ProductScorer, ReflexiveScorer};
///
/// let item = |team: &str| {
///     ContextItem::builder(team, 1).metadata("team", team).future_relevance_hint(0.5).build()
/// };
/// let items = [item("payments")?, item("search")?];
/// let boost = MetadataKeyScorer::new("team", "payments", 1.5)?;
/// let scorer = ProductScorer::builder().factor(ReflexiveScorer).factor(boost).build()?;
/// assert_eq!(Pool::new(&items).scores(&scorer)?, [0.75, 0.5]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetadataKeyScorer {
    key: String,
    value: String,
    boost: f64,
}

impl MetadataKeyScorer {
    /// Creates a scorer that boosts items whose metadata has `value` under `key`. Numbers and Booleans compare by their
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

    fn max_score(&self) -> f64 {
        self.boost.max(1.0)
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_independently(pool, scores, |item| {
            let value = item.metadata().get(&self.key).and_then(|value| value.as_text());
            if value.is_some_and(|value| value == self.value) { self.boost } else { 1.0 }
        });
        Ok(())
    }
}
