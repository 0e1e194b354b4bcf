//! The smallest set of requests to leave out.
//!
//! The line that tells why a snippet is in begins at the nearest request, and of those as near, at the smallest id; so for
//! each snippet, the requests that lead to it stand in a row, and the first of them that is kept decides what the line
//! costs. If the first ones are left out, it changes from the cost of one to that of the next, and if all are, to nothing.
//! These differences are written down for the sets at which they come in, and a sum over subsets (one request after the
//! other) makes of them what is left of every set. It is a bound from below: a set above the budget does not fit, and all
//! others are printed and counted, those that leave out the fewest first.

use std::cmp::Reverse;

use crate::drop_advice::bitset::BitSet;
use crate::drop_advice::{Advice, MAX_TRIALS, Question, Trial};
use crate::get::added;
use crate::render::RenderedLines;

/// The fewest requests to leave out; of as many, those that leave the most; of those, the smallest ids.
pub(super) fn min_drop_set(
    question: &Question<'_, '_>,
    trial: &mut Trial<'_, '_, '_>,
) -> Option<Advice> {
    let count = question.nodes.len();
    let all = (1_usize << count) - 1;
    let Bounds { least, leads } = Bounds::new(question, trial);
    // What is left out does not come back as something that is required.
    let is_gone =
        |set: usize| (0..count).all(|place| set & (1 << place) == 0 || leads[place] & !set == 0);
    // Where nothing comes back, then the others; each by how many are left out.
    let mut sets: [Vec<Vec<usize>>; 2] = [vec![Vec::new(); count], vec![Vec::new(); count]];
    for set in (1..all).filter(|set| least[*set] <= question.budget) {
        sets[usize::from(!is_gone(set))][set.count_ones() as usize].push(set);
    }
    let mut is_proven = true;
    for sets in sets.iter_mut().flatten() {
        // The lowest bit is the smallest id.
        sets.sort_unstable_by_key(|set| (Reverse(least[*set]), Reverse(set.reverse_bits())));
        let mut fits = |set: usize, trial: &mut Trial<'_, '_, '_>| {
            let kept = BitSet::from_bits(all & !set);
            trial.fits(&kept).map(|tokens| (kept, tokens))
        };
        if let Some((kept, tokens)) = first_that_fits(sets, trial, &mut fits, &mut is_proven) {
            return Some(Advice { kept, tokens, is_smallest: is_proven });
        }
    }
    None
}

type Fitting = Option<(BitSet, usize)>;

/// The first set that fits, as far as it is found in time. That there is none may not be proven in time, either.
fn first_that_fits<'a, 'b, 't>(
    sets: &[usize],
    trial: &mut Trial<'a, 'b, 't>,
    fits: &mut impl FnMut(usize, &mut Trial<'a, 'b, 't>) -> Fitting,
    is_proven: &mut bool,
) -> Fitting {
    // What leaves the least fits if any does, but for a few tokens.
    let (last, others) = sets.split_last()?;
    let Some(mut found) = fits(*last, trial) else {
        for set in others.iter().rev() {
            if trial.is_over() {
                *is_proven = false;
                return None;
            }
            if let Some(found) = fits(*set, trial) {
                return Some(found);
            }
        }
        return None;
    };
    let (mut from, mut to) = (0, others.len());
    while from < to {
        let middle = from.midpoint(to);
        match fits(others[middle], trial) {
            Some(better) => (found, to) = (better, middle),
            None => from = middle + 1,
        }
    }
    let first = others[..to].iter().take(MAX_TRIALS).find_map(|set| fits(*set, trial));
    Some(first.unwrap_or(found))
}

/// What is left of sets of requests.
struct Bounds {
    /// What is left at least if the requests of a set are left out, by set.
    least: Vec<usize>,
    /// The requests that lead to each request, as a set.
    leads: Vec<usize>,
}

impl Bounds {
    fn new(question: &Question<'_, '_>, trial: &Trial<'_, '_, '_>) -> Self {
        let Question { closure, nodes, costs, .. } = question;
        let mut rows: Vec<Vec<RequestDistance>> = vec![Vec::new(); closure.len()];
        for (place, start) in nodes.iter().enumerate() {
            lines_from(question, trial, place, *start, &mut rows);
        }
        let mut leads = vec![0; nodes.len()];
        // Sums wrap on the way: a difference may be negative, what is left is not.
        let mut least = vec![0_usize; 1 << nodes.len()];
        least[0] = costs.base;
        for (node, row) in rows.iter_mut().enumerate() {
            row.sort_unstable();
            let cost = |start: Option<&RequestDistance>| {
                start.map_or(0, |start| costs.least(node, start.line))
            };
            least[0] = least[0].wrapping_add(cost(row.first()));
            let mut set = 0;
            for (index, start) in row.iter().enumerate() {
                set |= 1 << start.place;
                let difference = cost(row.get(index + 1)).wrapping_sub(cost(Some(start)));
                least[set] = least[set].wrapping_add(difference);
            }
            if let Some(place) = nodes.iter().position(|request| *request as usize == node) {
                leads[place] = set;
            }
        }
        for place in 0..nodes.len() {
            for set in (0..least.len()).filter(|set| set & (1 << place) != 0) {
                least[set] = least[set].wrapping_add(least[set ^ (1 << place)]);
            }
        }
        Self { least, leads }
    }
}

/// A request that leads to a node, the nearest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestDistance {
    length: usize,
    place: usize,
    /// What the line costs that tells why the node is in, if it begins here.
    line: usize,
}

fn lines_from(
    question: &Question<'_, '_>,
    trial: &Trial<'_, '_, '_>,
    place: usize,
    start: u32,
    rows: &mut [Vec<RequestDistance>],
) {
    let Question { catalog, closure, costs, .. } = question;
    let pieces = RenderedLines(trial.bodies.options.format);
    let id = |node: u32| catalog.snippets()[closure.snippets[node as usize] as usize].id();
    let ways = closure.shortest_paths_from(&[start]);
    let reached = (0..).take(closure.len()).filter_map(|node| Some((node, ways.length(node)?)));
    let reached: Vec<(u32, usize)> = reached.collect();
    let line = |(node, length): &(u32, usize)| match length {
        0 => pieces.requested(id(*node)),
        _ if costs.is_delivered[*node as usize] => String::new(),
        _ => pieces.added(&added(&ways, *node, id)),
    };
    let texts: Vec<String> = reached.iter().map(line).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for ((node, length), line) in reached.into_iter().zip(trial.bodies.counter.count_each(&texts)) {
        rows[node as usize].push(RequestDistance { length, place, line });
    }
}
