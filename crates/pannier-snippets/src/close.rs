//! Ids that look like one that is not there.

use crate::Catalogue;

/// So many are suggested.
const MOST_CLOSE: usize = 3;

/// What is longer is no slip of a finger.
const LONGEST: usize = 400;

/// The ids that look like this one, the closest first. The last part of an id is its name, and is what people remember: it
/// may be a few characters off, whatever stands before it. What all begin with the id are close to it, too.
pub(crate) fn close(catalogue: &Catalogue<'_>, id: &str) -> Vec<String> {
    if id.len() > LONGEST {
        return Vec::new();
    }
    let id = id.to_ascii_lowercase();
    let id = id.strip_suffix(".md").unwrap_or(&id).trim_matches('/');
    let (before, name) = parts(id);
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    for known in catalogue.snippets().iter().map(|snippet| snippet.id()) {
        let (known_before, known_name) = parts(known);
        let is_below = known.strip_prefix(id).is_some_and(|rest| rest.starts_with('/'));
        let names = distance(name.as_bytes(), known_name.as_bytes(), (name.len() / 3).max(1));
        let names = if is_below { Some(0) } else { names };
        // One that stands elsewhere is still the one of this name.
        let far = before.len().max(known_before.len());
        let befores = distance(before.as_bytes(), known_before.as_bytes(), far).unwrap_or(far);
        found.extend(names.map(|names| (names, befores, known)));
    }
    found.sort_unstable();
    found.into_iter().take(MOST_CLOSE).map(|(_, _, id)| id.to_owned()).collect()
}

/// What stands before the name of an id, and the name.
fn parts(id: &str) -> (&str, &str) {
    id.rsplit_once('/').unwrap_or(("", id))
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
