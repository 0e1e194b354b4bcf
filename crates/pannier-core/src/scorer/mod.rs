//! How relevant an item is, as a number.
//!
//! A scorer sees the whole pool in one call and writes one score for each item. Most questions a
//! scorer asks are about an item among its peers (how many are older? how many share a tag?), and
//! one sort or one count answers them for everybody at once, where a call per item would look at
//! the whole pool each time.
//!
//! Scorers are values that own their children, and a child must be finished before its parent can take
//! it. So the built-in scorers cannot contain themselves, and no search for cycles is needed.

mod bm25;
mod by_kind;
mod composite;
mod decay;
mod explanation;
mod fold;
mod frequency;
mod keyword;
mod kind;
mod metadata;
mod pool;
mod prefix_stability;
mod rank;
mod reflexive;
mod scaled;
mod tag;

pub use bm25::Bm25Scorer;
pub use by_kind::{ByKindScorer, ByKindScorerBuilder};
pub use composite::{CompositeScorer, CompositeScorerBuilder};
pub use decay::{DecayCurve, DecayScorer, TimeProvider};
pub use explanation::ScoreExplanation;
pub use fold::{ProductScorer, ProductScorerBuilder, SumScorer, SumScorerBuilder};
pub use frequency::FrequencyScorer;
pub use keyword::KeywordScorer;
pub use kind::KindScorer;
pub use metadata::{MetadataKeyScorer, MetadataTrustScorer};
pub use pool::Pool;
pub use prefix_stability::PrefixStabilityScorer;
pub use rank::{PriorityScorer, RecencyScorer};
pub use reflexive::ReflexiveScorer;
pub use scaled::ScaledScorer;
pub use tag::TagScorer;

use crate::{ContextItem, Error};

/// Gives every item of a pool a score.
///
/// A scorer is pure: the same pool gives the same scores. By convention scores lie between 0 and 1;
/// nothing enforces it.
///
/// ```
/// use pannier_core::{Error, Scorer};
/// use pannier_core::score::Pool;
///
/// /// Shorter is better, relative to the longest.
/// struct Brevity;
///
/// impl Scorer for Brevity {
///     fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
///         let longest = pool.items().iter().map(|item| item.tokens()).max().unwrap_or(0).max(1);
///         for (score, item) in scores.iter_mut().zip(pool.items()) {
///             *score = 1.0 - item.tokens() as f64 / longest as f64;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Scorer: Send + Sync {
    /// Writes the score of `pool.items()[i]` to `scores[i]`, for every `i`.
    ///
    /// The two have the same length. What `scores` holds before the call means nothing.
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error>;

    /// What explanations call this scorer.
    fn name(&self) -> &str {
        "custom"
    }

    /// Explains the score of `pool.items()[item]`, which is the one that [`score`](Self::score) writes.
    ///
    /// A scorer of several parts lists the score of each.
    fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error> {
        leaf(self, pool, item)
    }

    /// Returns the highest score that it can give. An explanation states no higher one. Default: 1.
    fn max_score(&self) -> f64 {
        1.0
    }
}

/// What a scorer gives an item, and nothing about why.
fn leaf<S: Scorer + ?Sized>(
    scorer: &S,
    pool: &Pool<'_>,
    item: usize,
) -> Result<ScoreExplanation, Error> {
    let score = pool.scores(scorer)?.get(item).copied().unwrap_or(f64::NAN);
    Ok(ScoreExplanation::new(scorer.name(), score))
}

forward! {
    Scorer {
        fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error>;
        fn name(&self) -> &str;
        fn explain(&self, pool: &Pool<'_>, item: usize) -> Result<ScoreExplanation, Error>;
        fn max_score(&self) -> f64;
    }
}

/// A scorer made of a function of one item.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{FnScorer, Pool};
///
/// let scorer = FnScorer(|item: &ContextItem| if item.content().contains('?') { 1.0 } else { 0.0 });
/// let item = ContextItem::new("Why?", 2)?;
/// assert_eq!(Pool::new([&item]).scores(&scorer)?, [1.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct FnScorer<F>(pub F);

impl<F: Fn(&ContextItem) -> f64 + Send + Sync> Scorer for FnScorer<F> {
    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_independently(pool, scores, &self.0);
        Ok(())
    }
}

/// Scores every item by itself.
fn score_independently(pool: &Pool<'_>, scores: &mut [f64], score: impl Fn(&ContextItem) -> f64) {
    for (slot, item) in scores.iter_mut().zip(pool.items()) {
        *slot = score(item);
    }
}

/// Refuses a weight that is negative or not a finite number.
fn check_weight(scorer: &'static str, name: &str, weight: f64) -> Result<(), Error> {
    if weight.is_finite() && weight >= 0.0 {
        return Ok(());
    }
    let problem =
        format!("the weight of '{name}' is {weight}; it must be a finite number, 0 or more");
    Err(Error::InvalidScorer { scorer, problem })
}

/// Refuses a score that is not between 0 and 1.
fn check_unit_interval(scorer: &'static str, parameter: &str, score: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&score) {
        return Ok(score);
    }
    let problem = format!("{parameter} is {score}; it must be from 0 to 1");
    Err(Error::InvalidScorer { scorer, problem })
}

opaque_debug!(FnScorer<F>);
