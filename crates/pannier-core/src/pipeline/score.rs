//! Stage 2: gives every scoreable item its score.

use super::units::Units;
use crate::{ContextItem, Pool, Scorer};

/// The scores of the scoreable items, by pool index; 0 for all others.
pub(super) fn score(items: &[ContextItem], scoreable: &Units, scorer: &dyn Scorer) -> Vec<f64> {
    let mut scores = vec![0.0; items.len()];
    let indices = scoreable.in_pool_order();
    if indices.is_empty() {
        return scores;
    }
    let pool = Pool::new(indices.iter().map(|index| &items[*index as usize]));
    if pool.len() == items.len() {
        scorer.score(&pool, &mut scores);
        return scores;
    }
    for (index, score) in indices.iter().zip(scorer.scores(&pool)) {
        scores[*index as usize] = score;
    }
    scores
}
