//! Scorers whose scores are put together one after the other: what a sum and a product have in common.

use super::{Pool, ScoreExplanation, Scorer};
use crate::Error;

/// At least one scorer.
pub(super) struct Children(Vec<Box<dyn Scorer>>);

impl Children {
    /// Refuses to be empty, in the name of the scorer that they are the children of.
    pub(super) fn new(scorer: &'static str, children: Vec<Box<dyn Scorer>>) -> Result<Self, Error> {
        if children.is_empty() {
            let problem = "it has no scorers; add at least one".to_owned();
            return Err(Error::InvalidScorer { scorer, problem });
        }
        Ok(Self(children))
    }

    /// Joins the scores of all children, in their order, beginning with a number.
    pub(super) fn score(
        &self,
        start: f64,
        join: impl Fn(f64, f64) -> f64,
        pool: &Pool<'_>,
        scores: &mut [f64],
    ) -> Result<(), Error> {
        scores.fill(start);
        let mut part = vec![0.0; scores.len()];
        for child in &self.0 {
            child.score(pool, &mut part)?;
            for (joined, score) in scores.iter_mut().zip(&part) {
                *joined = join(*joined, *score);
            }
        }
        Ok(())
    }

    /// The same for one item, with what each child gave.
    pub(super) fn explain(
        &self,
        name: &str,
        start: f64,
        join: impl Fn(f64, f64) -> f64,
        (pool, item): (&Pool<'_>, usize),
    ) -> Result<ScoreExplanation, Error> {
        let children = self.0.iter().map(|child| child.explain(pool, item));
        let children = children.collect::<Result<Vec<ScoreExplanation>, Error>>()?;
        let joined = children.iter().fold(start, |joined, child| join(joined, child.score));
        Ok(ScoreExplanation::new(name, joined).with_children(children))
    }
}
