//! Finds the weights of a session policy on recorded sessions.
//!
//! The search is a coordinate descent on a grid: one weight after the other moves by a step as long as the score gets
//! better. Two passes with a halved step follow. Each score is a replay of all sessions, so the number of replays is
//! bounded. The same sessions always give the same weights.
//!
//! The score is the cost with recalls: it weighs tokens that are sent against needles that are lost, in the provider's
//! prices. Weights for one half of the sessions may be worse for others. So every other session only checks the result.

use std::cmp::Ordering;

use pannier_policy::SessionWeights;

use crate::Failure;

/// The steps of the passes.
const STEPS: [f64; 2] = [0.5, 0.25];

/// The maximum moves of a weight in one direction and pass.
const MAX_MOVES: usize = 3;

/// The maximum number of replays: those of the search, and three for the comparison.
pub(super) const MAX_REPLAYS: usize = 4 + STEPS.len() * WEIGHTS.len() * (MAX_MOVES + 1);

type Weight = fn(&mut SessionWeights) -> &mut f64;

/// The weights to fit. Only differences between kinds of results matter, so that of reads stays.
const WEIGHTS: [Weight; 11] = [
    |weights| &mut weights.size,
    |weights| &mut weights.age,
    |weights| &mut weights.named,
    |weights| &mut weights.unnamed,
    |weights| &mut weights.superseded,
    |weights| &mut weights.edited,
    |weights| &mut weights.search,
    |weights| &mut weights.command,
    |weights| &mut weights.edit,
    |weights| &mut weights.acknowledgement,
    |weights| &mut weights.other,
];

/// The score of weights; lower is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) cost_with_recalls: f64,
    pub(super) lost_hard_needles: u64,
}

impl Score {
    pub(super) fn is_below(&self, other: &Self) -> bool {
        match self.cost_with_recalls.total_cmp(&other.cost_with_recalls) {
            Ordering::Equal => self.lost_hard_needles < other.lost_hard_needles,
            order => order.is_lt(),
        }
    }
}

/// Returns the best weights that the search finds, and their score.
pub(super) fn fit(
    start: SessionWeights,
    mut score: impl FnMut(&SessionWeights) -> Result<Score, Failure>,
) -> Result<(SessionWeights, Score), Failure> {
    let mut best = (score(&start)?, start);
    for step in STEPS {
        for weight in WEIGHTS {
            let mut is_moved = false;
            for direction in [step, -step] {
                // A weight that moved one way is not tried the other way.
                for _ in 0..if is_moved { 0 } else { MAX_MOVES } {
                    let mut weights = best.1.clone();
                    *weight(&mut weights) += direction;
                    let moved = score(&weights)?;
                    if !moved.is_below(&best.0) {
                        break;
                    }
                    (best, is_moved) = ((moved, weights), true);
                }
            }
        }
    }
    Ok((best.1, best.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bowl: the distance from given weights.
    fn bowl(weights: &SessionWeights) -> Score {
        let distance = (weights.size - 1.2).powi(2)
            + (weights.age + 0.8).powi(2)
            + (weights.other - 0.25).powi(2);
        Score { cost_with_recalls: distance, lost_hard_needles: 0 }
    }

    #[test]
    fn the_search_finds_the_bottom_of_a_bowl_to_half_of_a_step() {
        let mut replays = 0;
        let (weights, score) = fit(SessionWeights::default(), |weights| {
            replays += 1;
            Ok(bowl(weights))
        })
        .unwrap();
        assert_eq!(score, bowl(&weights));
        for (weight, expected) in [(weights.size, 1.2), (weights.age, -0.8), (weights.other, 0.25)]
        {
            assert!((weight - expected).abs() <= 0.125 + 1e-9, "{weights:?}");
        }
        // Weights without influence stay.
        assert_eq!(weights.named, SessionWeights::default().named);
        assert!(replays <= MAX_REPLAYS - 3, "{replays}");
    }

    #[test]
    fn equal_costs_are_decided_by_hard_needles() {
        let score =
            |cost_with_recalls, lost_hard_needles| Score { cost_with_recalls, lost_hard_needles };
        assert!(score(1.0, 2).is_below(&score(1.0, 3)));
        assert!(score(0.9, 9).is_below(&score(1.0, 3)));
        assert!(!score(1.0, 3).is_below(&score(1.0, 3)));
    }
}
