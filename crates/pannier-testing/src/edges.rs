//! Edge positions: positions numbered from both ends of a list inward.

use std::cmp::Ordering;

/// Returns the `n` outermost positions of a list: first, last, second, second to last and so on.
pub(crate) fn positions(count: usize, n: usize) -> Vec<usize> {
    let inward = (0..count).map(|i| if i % 2 == 0 { i / 2 } else { count - 1 - i / 2 });
    inward.take(n).collect()
}

/// Returns the positions of the `n` highest scores, highest first, and whether each is one of `edges`.
///
/// Equal scores are ordered by edge, then by position, so that ties for the last edge position favor edges.
pub(crate) fn top(scores: &[f64], n: usize, edges: &[usize]) -> Vec<(usize, bool)> {
    let mut order: Vec<(usize, bool)> = (0..scores.len()).map(|i| (i, false)).collect();
    edges.iter().for_each(|edge| order[*edge].1 = true);
    order.sort_by(|(a, a_at_edge), (b, b_at_edge)| {
        compare(scores[*b], scores[*a]).then(b_at_edge.cmp(a_at_edge)).then(a.cmp(b))
    });
    order.truncate(n);
    order
}

/// Compares scores in ascending order, NaN first.
pub(crate) fn compare(left: f64, right: f64) -> Ordering {
    let is_number = |score: f64| !score.is_nan();
    is_number(left).cmp(&is_number(right)).then(left.partial_cmp(&right).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_run_from_the_ends_inward() {
        assert_eq!(positions(6, 4), [0, 5, 1, 4]);
        assert_eq!(positions(5, 9), [0, 4, 1, 3, 2]);
        assert_eq!(positions(1, 1), [0]);
        assert_eq!(positions(0, 3), [0; 0]);
    }

    #[test]
    fn ties_favor_the_edges() {
        let scores = [0.5, 0.9, 0.5, f64::NAN, 0.5];
        let top = |n, edges: &[usize]| top(&scores, n, edges).into_iter().map(|(i, _)| i).collect();
        let (two, three, all): (Vec<_>, Vec<_>, Vec<_>) =
            (top(2, &[0, 4]), top(3, &[4, 2]), top(9, &[]));
        assert_eq!((two, three), (vec![1, 0], vec![1, 2, 4]));
        assert_eq!(all, [1, 0, 2, 4, 3]);
    }
}
