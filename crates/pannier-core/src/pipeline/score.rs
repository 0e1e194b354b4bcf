//! Stage 2: gives every scoreable item its score.

use super::units::Units;
use crate::{ContextItem, Error, Pool, Scorer};

/// The scores of the scoreable items, by pool index; 0 for all others.
pub(super) fn score(
    items: &[&ContextItem],
    scoreable: &Units,
    scorer: &dyn Scorer,
) -> Result<Vec<f64>, Error> {
    let mut scores = vec![0.0; items.len()];
    let indices = scoreable.in_pool_order();
    if indices.len() == items.len() {
        if !items.is_empty() {
            scorer.score(&Pool::borrowed(items), &mut scores)?;
        }
        return Ok(scores);
    }
    if indices.is_empty() {
        return Ok(scores);
    }
    let pool = Pool::new(indices.iter().map(|index| items[*index as usize]));
    for (index, score) in indices.iter().zip(pool.scores(scorer)?) {
        scores[*index as usize] = score;
    }
    Ok(scores)
}
