//! What to leave out of a context that is too large.
//!
//! Only what was asked for can be left out, and with it goes what nothing else requires. Which texts go with which requests
//! is a set for each snippet: the requests that lead to it. Up to [`MOST_EXACT`] requests, the tokens that every set of
//! requests would free are summed up at once (a sum over subsets, one request after the other), and the smallest set that
//! frees enough is the answer. Above that, requests are taken one after the other as long as they fit, the small ones
//! first; the answer then says that fewer may do. Either way, what is left is printed and counted before it is suggested,
//! because the counts of parts do not add up to the count of the whole.

use std::collections::BTreeSet;

use crate::Catalogue;
use crate::error::{OverBudget, SnippetCost};
use crate::get::{Bodies, Context, GetOptions};
use crate::graph::{Closure, reached};

/// Up to so many requests, all sets of them are looked at.
const MOST_EXACT: usize = 14;

/// So many sets are printed and counted.
const MOST_TRIED: usize = 64;

/// Says by how much a context is too large, and what to leave out.
pub(crate) fn over(
    catalogue: &Catalogue<'_>,
    requested: &[u32],
    options: &GetOptions,
    bodies: &mut Bodies<'_>,
    context: &Context<'_>,
    tokens: usize,
    budget: usize,
) -> OverBudget {
    let asked: BTreeSet<&str> = context.requested.iter().copied().collect();
    let costs = context.snippets.iter().map(|snippet| SnippetCost {
        id: snippet.id.to_owned(),
        tokens: snippet.tokens,
        is_requested: asked.contains(snippet.id),
    });
    let mut over = OverBudget {
        tokens,
        budget,
        snippets: costs.collect(),
        drop: Vec::new(),
        tokens_without: 0,
        is_smallest: false,
    };
    let pieces = context.pieces(options.format);
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let counts = bodies.counter.count_each(&pieces);
    let closure = Closure::new(catalogue, requested);
    let mut costs = vec![0; closure.len()];
    for (snippet, count) in context.snippets.iter().zip(counts) {
        let number = catalogue.find(snippet.id);
        if let Some(node) = number.and_then(|number| closure.snippets.binary_search(&number).ok()) {
            costs[node] = count;
        }
    }
    let mut requests: Vec<u32> = requested.to_vec();
    requests.sort_unstable();
    let nodes = |number: &u32| closure.snippets.binary_search(number).unwrap_or_default() as u32;
    let nodes: Vec<u32> = requests.iter().map(nodes).collect();
    let mut trial = Trial { catalogue, options, bodies, requests: &requests, tried: 0, budget };
    let found = match requests.len() {
        0 | 1 => None,
        2..=MOST_EXACT => exact(&closure, &nodes, &costs, &mut trial),
        _ => {
            greedy(&closure, &nodes, &costs, &mut trial).map(|(kept, tokens)| (kept, tokens, false))
        }
    };
    if let Some((kept, tokens, is_smallest)) = found {
        let dropped = (0..requests.len()).filter(|place| !kept.contains(place));
        let id = |place: usize| catalogue.snippets()[requests[place] as usize].id().to_owned();
        over.drop = dropped.map(id).collect();
        (over.tokens_without, over.is_smallest) = (tokens, is_smallest);
    }
    over
}

/// Prints and counts what is left of a request.
struct Trial<'a, 'b, 't> {
    catalogue: &'a Catalogue<'t>,
    options: &'a GetOptions,
    bodies: &'a mut Bodies<'b>,
    requests: &'a [u32],
    tried: usize,
    budget: usize,
}

impl Trial<'_, '_, '_> {
    /// How many tokens these requests have, if they fit.
    fn fits(&mut self, kept: &[usize]) -> Option<usize> {
        self.tried += 1;
        let requests: Vec<u32> = kept.iter().map(|place| self.requests[*place]).collect();
        let context = self.catalogue.context(&requests, self.options, self.bodies);
        let text = context.render(self.options.format);
        self.bodies.counter.count_up_to(&text, self.budget)
    }
}

/// The fewest requests to drop; of as many, those that keep the most; of those, the smallest ids.
fn exact(
    closure: &Closure,
    nodes: &[u32],
    costs: &[usize],
    trial: &mut Trial<'_, '_, '_>,
) -> Option<(Vec<usize>, usize, bool)> {
    let mut leads = vec![0_usize; closure.len()];
    for (place, node) in nodes.iter().enumerate() {
        reached(closure, *node, |node| {
            leads[node as usize] |= 1 << place;
            true
        });
    }
    // First what goes with exactly these requests, then with these or some of them.
    let sets = 1_usize << nodes.len();
    let (mut freed, mut count) = (vec![0_usize; sets], vec![0_usize; sets]);
    for (requests, cost) in leads.iter().zip(costs) {
        freed[*requests] += cost;
        count[*requests] += 1;
    }
    for place in 0..nodes.len() {
        for set in (0..sets).filter(|set| set & (1 << place) != 0) {
            freed[set] += freed[set ^ (1 << place)];
            count[set] += count[set ^ (1 << place)];
        }
    }
    let all = sets - 1;
    // A part may cost a token less in the whole than alone, so a set that frees a little too little is tried, too.
    let may_fit = |set: usize| {
        let kept = freed[all] - freed[set];
        kept.saturating_sub(count[all] - count[set]) <= trial.budget
    };
    let mut candidates: Vec<usize> = (1..all).filter(|set| may_fit(*set)).collect();
    // The lowest bit is the smallest id.
    candidates.sort_by_key(|set| (set.count_ones(), freed[*set], set.reverse_bits() ^ usize::MAX));
    let mut is_smallest = true;
    for set in candidates {
        if trial.tried >= MOST_TRIED {
            is_smallest = false;
            break;
        }
        let kept: Vec<usize> = (0..nodes.len()).filter(|place| set & (1 << place) == 0).collect();
        if let Some(tokens) = trial.fits(&kept) {
            return Some((kept, tokens, is_smallest));
        }
    }
    let (kept, tokens) = if is_smallest { None } else { greedy(closure, nodes, costs, trial) }?;
    Some((kept, tokens, false))
}

/// Requests that fit together, taken one after the other.
fn greedy(
    closure: &Closure,
    nodes: &[u32],
    costs: &[usize],
    trial: &mut Trial<'_, '_, '_>,
) -> Option<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|place| (costs[nodes[*place] as usize], *place));
    let mut is_taken = vec![false; closure.len()];
    let mut left = trial.budget;
    let mut kept = Vec::new();
    for place in order {
        let (mut cost, mut new) = (0, Vec::new());
        reached(closure, nodes[place], |node| {
            if !is_taken[node as usize] {
                cost += costs[node as usize];
                new.push(node);
            }
            cost <= left
        });
        if cost <= left {
            left -= cost;
            new.into_iter().for_each(|node| is_taken[node as usize] = true);
            kept.push(place);
        }
    }
    for _ in 0..MOST_TRIED {
        if kept.is_empty() {
            return None;
        }
        if let Some(tokens) = trial.fits(&kept) {
            kept.sort_unstable();
            return Some((kept, tokens));
        }
        // What holds the whole together costs something, too.
        let few = kept.len().div_ceil(16);
        kept.truncate(kept.len() - few);
    }
    None
}
