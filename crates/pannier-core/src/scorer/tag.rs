//! Scores by the tags an item carries.

use super::{Pool, Scorer, check_weight};
use crate::Error;
use crate::model::cmp_ignore_ascii_case;

const NAME: &str = "TagScorer";

/// The weight of an item's tags over the weight of all tags that count, at most 1.
///
/// A tag that an item carries twice counts twice. Case matters, unless
/// [`case_insensitive`](Self::case_insensitive) says otherwise.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{Pool, TagScorer};
///
/// let items = [
///     ContextItem::builder("A", 1).tags(["refund"]).build()?,
///     ContextItem::builder("B", 1).tags(["refund", "order"]).build()?,
/// ];
/// let scorer = TagScorer::new([("refund", 3.0), ("order", 1.0)])?;
/// assert_eq!(Pool::new(&items).scores(&scorer)?, [0.75, 1.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TagScorer {
    /// In order of tags.
    weights: Vec<(String, f64)>,
    total: f64,
    fold_case: bool,
}

impl TagScorer {
    /// Creates a scorer that distinguishes tags by case.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if a weight is negative or not finite, or a tag appears twice.
    pub fn new<T: Into<String>>(
        weights: impl IntoIterator<Item = (T, f64)>,
    ) -> Result<Self, Error> {
        Self::build(weights, false)
    }

    /// A scorer that takes tags as equal if they differ only in ASCII case.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); two tags that differ only in case are the same tag here.
    pub fn case_insensitive<T: Into<String>>(
        weights: impl IntoIterator<Item = (T, f64)>,
    ) -> Result<Self, Error> {
        Self::build(weights, true)
    }

    fn build<T: Into<String>>(
        weights: impl IntoIterator<Item = (T, f64)>,
        fold_case: bool,
    ) -> Result<Self, Error> {
        let mut scorer = Self { weights: Vec::new(), total: 0.0, fold_case };
        for (tag, weight) in weights {
            let tag = tag.into();
            check_weight(NAME, &tag, weight)?;
            match scorer.find(&tag) {
                Ok(_) => {
                    let problem = format!("the tag '{tag}' has two weights; give it one");
                    return Err(Error::InvalidScorer { scorer: NAME, problem });
                }
                Err(place) => scorer.weights.insert(place, (tag, weight)),
            }
            // In the order they were given, so that the sum has the same bits every time.
            scorer.total += weight;
        }
        if !scorer.total.is_finite() {
            let problem = "the sum of the weights is not a finite number; use smaller ones";
            return Err(Error::InvalidScorer { scorer: NAME, problem: problem.to_owned() });
        }
        Ok(scorer)
    }

    /// Where the tag is, or where it would be.
    fn find(&self, tag: &str) -> Result<usize, usize> {
        let compare = if self.fold_case { cmp_ignore_ascii_case } else { <str as Ord>::cmp };
        self.weights.binary_search_by(|(known, _)| compare(known, tag))
    }

    fn weight(&self, tag: &str) -> f64 {
        self.find(tag).map_or(0.0, |place| self.weights[place].1)
    }
}

impl Scorer for TagScorer {
    fn name(&self) -> &str {
        "tag"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        if self.total == 0.0 {
            scores.fill(0.0);
            return Ok(());
        }
        // Each distinct tag is looked up once; items then only add numbers.
        let tags = pool.tags();
        let weights: Vec<f64> = tags.names.iter().map(|name| self.weight(name)).collect();
        for (item, score) in scores.iter_mut().enumerate() {
            let matched: f64 =
                tags.of(item).iter().fold(0.0, |sum, tag| sum + weights[*tag as usize]);
            *score = (matched / self.total).min(1.0);
        }
        Ok(())
    }
}
