//! Ids that look like one that is not there.

use crate::Catalogue;

/// So many are suggested.
const MOST_CLOSE: usize = 3;

/// Ids further away than this are not close, however long they are.
const FARTHEST: usize = 8;

/// The ids that look like this one, the closest first: a few characters away, or the same without what stands before it.
pub(crate) fn close(catalogue: &Catalogue<'_>, id: &str) -> Vec<String> {
    let farthest = (id.len() / 4).clamp(1, FARTHEST);
    let name = |id: &str| id.rsplit('/').next().unwrap_or_default().to_owned();
    let last = name(id);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for known in catalogue.snippets().iter().map(|snippet| snippet.id()) {
        let distance = distance(id.as_bytes(), known.as_bytes(), farthest);
        let is_same_name = known.ends_with(&last) && name(known) == last;
        let distance =
            if is_same_name { Some(distance.map_or(1, |far| far.min(1))) } else { distance };
        found.extend(distance.map(|distance| (distance, known)));
    }
    found.sort_unstable();
    found.into_iter().take(MOST_CLOSE).map(|(_, id)| id.to_owned()).collect()
}

/// How many bytes must be put in, taken out or replaced to make one of the other, if that is at most so many.
///
/// Only what is that close to the diagonal is looked at, so this takes as long as the shorter text times `most`.
fn distance(a: &[u8], b: &[u8], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let over = most + 1;
    let mut row: Vec<usize> = (0..=b.len()).map(|place| place.min(over)).collect();
    for (i, x) in (1_usize..).zip(a) {
        let (from, to) = (i.saturating_sub(most).max(1), (i + most).min(b.len()));
        let mut diagonal = row[from - 1];
        row[from - 1] = if from == 1 { i.min(over) } else { over };
        let mut best = row[from - 1];
        for j in from..=to {
            let above = if j == i + most { over } else { row[j] };
            let replaced = diagonal + usize::from(*x != b[j - 1]);
            diagonal = row[j];
            row[j] = replaced.min(above + 1).min(row[j - 1] + 1).min(over);
            best = best.min(row[j]);
        }
        if best > most {
            return None;
        }
    }
    Some(row[b.len()]).filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By its definition, with a whole table.
    fn plain(a: &[u8], b: &[u8]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = match (i, j) {
                    (0, _) => j,
                    (_, 0) => i,
                    _ => {
                        let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                        replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                    }
                };
            }
        }
        table[a.len()][b.len()]
    }

    proptest! {
        #[test]
        fn the_distance_is_that_of_the_definition(
            a in prop::collection::vec(0_u8..3, 0..12),
            b in prop::collection::vec(0_u8..3, 0..12),
            most in 0_usize..9,
        ) {
            let expected = Some(plain(&a, &b)).filter(|distance| *distance <= most);
            prop_assert_eq!(distance(&a, &b, most), expected);
        }
    }
}
