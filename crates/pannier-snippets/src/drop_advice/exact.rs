//! Exact search for a smallest set of requests to drop.
//!
//! The chain of a snippet starts at the nearest kept request; ties go to the smallest id. Dropping the nearest requests
//! changes its cost to that of the next, and dropping all removes the snippet. These differences are recorded at the sets
//! where they occur. A sum over subsets then yields a lower bound for the cost of every set. Sets within the budget are
//! rendered and counted, fewest drops first.

use std::cmp::Reverse;

use crate::drop_advice::bitset::BitSet;
use crate::drop_advice::{Advice, MAX_TRIALS, Question, Trial};
use crate::get::added;
use crate::render::RenderedLines;

/// Finds a smallest set of requests to drop. Ties go to the largest remaining response, then to the smallest ids.
pub(super) fn min_drop_set(
    question: &Question<'_, '_>,
    trial: &mut Trial<'_, '_, '_>,
) -> Option<Advice> {
    let count = question.nodes.len();
    let all = (1_usize << count) - 1;
    let Bounds { least, leads } = Bounds::new(question, trial);
    // No dropped request remains as a dependency.
    let is_gone =
        |set: usize| (0..count).all(|place| set & (1 << place) == 0 || leads[place] & !set == 0);
    // First the sets without remaining dependencies, then the others; each by the number of drops.
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

/// Finds the first set that fits by bisection, within the limits of the trial.
fn first_that_fits<'a, 'b, 't>(
    sets: &[usize],
    trial: &mut Trial<'a, 'b, 't>,
    fits: &mut impl FnMut(usize, &mut Trial<'a, 'b, 't>) -> Fitting,
    is_proven: &mut bool,
) -> Fitting {
    // The set with the smallest bound fits if any does, apart from a few tokens.
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

/// Lower bounds for sets of dropped requests.
struct Bounds {
    /// The minimum cost of the response without the requests of a set, by set.
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
        // Differences may be negative, so sums wrap; the results are not negative.
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

/// A request from which a node is reachable, nearest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestDistance {
    length: usize,
    place: usize,
    /// The cost of the chain that starts at this request.
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
