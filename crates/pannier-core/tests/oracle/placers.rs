//! Every placer, over items with their scores in merged order.

use pannier_core::item::ScoredItem;

use super::descending;
use super::plan::PlacerPlan;

/// The positions of the items in the order they stand.
pub(crate) fn place(plan: PlacerPlan, items: &[ScoredItem<'_>]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..items.len()).collect();
    match plan {
        PlacerPlan::Chronological => {
            positions.sort_by_key(|position| {
                let timestamp = items[*position].item.timestamp();
                (timestamp.is_none(), timestamp, *position)
            });
            positions
        }
        PlacerPlan::UShaped => {
            sort_by_score(&mut positions, items);
            let mut result = vec![0; items.len()];
            let mut left = 0;
            let mut right = items.len();
            for (rank, position) in positions.into_iter().enumerate() {
                if rank % 2 == 0 {
                    result[left] = position;
                    left += 1;
                } else {
                    right -= 1;
                    result[right] = position;
                }
            }
            result
        }
        PlacerPlan::Rank => {
            sort_by_score(&mut positions, items);
            positions
        }
    }
}

fn sort_by_score(positions: &mut [usize], items: &[ScoredItem<'_>]) {
    positions.sort_by(|left, right| {
        descending(items[*left].score, items[*right].score).then(left.cmp(right))
    });
}
