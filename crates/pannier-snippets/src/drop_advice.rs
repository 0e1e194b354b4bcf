//! Suggests requests to drop from a response that exceeds its budget.
//!
//! A request that a kept request reaches would come back as a dependency. So a suggested set contains, with each request,
//! all requests that reach it. The rest is rendered and counted before it is suggested.
//!
//! Nodes that the same requests reach form a group, which disappears when all these requests are dropped. The groups give a
//! lower bound for the tokens of every set. For `n` requests and `g` groups:
//!
//! - Up to [`MAX_EXACT_REQUESTS`], all sets are tried, fewest drops first and then most tokens first: O(2^n g).
//! - Above that, a greedy search drops the group that frees the most of the excess per request: at most
//!   [`MAX_COMPARISONS`] comparisons. A bisection finds the first of these drops after which the rest fits. Dropped
//!   requests that still fit are restored, cheapest first.
//! - Above [`MAX_PAIRS`], the longest prefix of the requests that fits is kept.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::SnippetCatalog;
use crate::error::{OverBudget, SnippetCost};
use crate::get::{BodyStore, SentSnippet, SnippetBundle};
use crate::graph::DependencyClosure;

/// The maximum number of requests for the exact search.
const MAX_EXACT_REQUESTS: usize = 12;

/// The maximum number of pairs of a request and a node or edge for which groups are computed.
const MAX_PAIRS: usize = 1 << 20;

/// The maximum number of comparisons of groups in the greedy search.
const MAX_COMPARISONS: usize = 4 << 20;

/// Sets are rendered and counted while either limit is not reached.
const MAX_TRIALS: usize = 64;
const MAX_CHEAP_BYTES: usize = 8 << 20;

/// Builds the error for a response that exceeds the budget.
pub(crate) fn over_budget(
    catalog: &SnippetCatalog<'_>,
    requested: &[u32],
    bodies: &mut BodyStore<'_>,
    bundle: &SnippetBundle<'_>,
    tokens: usize,
    budget: usize,
) -> OverBudget {
    let ids: BTreeSet<&str> = bundle.requested.iter().map(AsRef::as_ref).collect();
    let cost = |SentSnippet { id, tokens, .. }: &SentSnippet<'_>| SnippetCost {
        id: id.to_string(),
        tokens: *tokens,
        is_requested: ids.contains(&**id),
    };
    let snippets = bundle.snippets.iter().map(cost).collect();
    let mut search = Search::new(catalog, requested, bodies, bundle, (tokens, budget));
    let (found, is_smallest) = search.drop_set(MAX_EXACT_REQUESTS);
    let (dropped, tokens_without) = found.unwrap_or_default();
    let dropped =
        bundle.requested.iter().enumerate().filter(|(request, _)| dropped.contains(request));
    let mut drop: Vec<String> = dropped.map(|(_, id)| id.to_string()).collect();
    drop.sort_unstable();
    OverBudget { tokens, budget, snippets, drop, tokens_without, is_smallest }
}

/// Positions of requests.
type RequestSet = BTreeSet<usize>;

/// A set of dropped requests, and the tokens of the rest.
type DropSet = (RequestSet, usize);

struct Search<'a, 'b, 't> {
    catalog: &'a SnippetCatalog<'t>,
    /// The numbers of the requested snippets, in request order.
    requested: &'a [u32],
    bodies: &'a mut BodyStore<'b>,
    /// The tokens of the response with all requests.
    tokens: usize,
    budget: usize,
    /// The requests that reach each request. Empty above [`MAX_PAIRS`], like `groups`.
    reached_by: Vec<RequestSet>,
    /// The requests that reach a node, and a lower bound for the tokens of all nodes that they reach.
    groups: BTreeMap<RequestSet, usize>,
    /// The number and the bytes of rendered responses.
    trials: usize,
    bytes: usize,
}

impl<'a, 'b, 't> Search<'a, 'b, 't> {
    fn new(
        catalog: &'a SnippetCatalog<'t>,
        requested: &'a [u32],
        bodies: &'a mut BodyStore<'b>,
        bundle: &SnippetBundle<'_>,
        (tokens, budget): (usize, usize),
    ) -> Self {
        let closure = DependencyClosure::new(catalog, requested);
        let nodes: Vec<u32> = requested.iter().filter_map(|number| closure.node(*number)).collect();
        let sizes = (0..).take(closure.len()).map(|node| 1 + closure.requires(node).len());
        let (mut reached_by, mut groups) = (Vec::new(), BTreeMap::new());
        if nodes.len().saturating_mul(sizes.sum()) <= MAX_PAIRS {
            let mut sets = vec![RequestSet::new(); closure.len()];
            for (request, start) in nodes.iter().enumerate() {
                let paths = closure.shortest_paths_from(&[*start]);
                let nodes = (0..).zip(&mut sets).filter(|(node, _)| paths.length(*node).is_some());
                nodes.for_each(|(_, set)| _ = set.insert(request));
            }
            reached_by.extend(nodes.iter().map(|node| sets[*node as usize].clone()));
            for (set, cost) in sets.into_iter().zip(min_costs(catalog, &closure, bodies, bundle)) {
                *groups.entry(set).or_default() += cost;
            }
        }
        let (trials, bytes) = (0, 0);
        Self { catalog, requested, bodies, tokens, budget, reached_by, groups, trials, bytes }
    }

    /// Returns requests to drop, and whether no smaller set exists.
    fn drop_set(&mut self, max_exact: usize) -> (Option<DropSet>, bool) {
        let count = self.requested.len();
        if count <= max_exact.min(self.reached_by.len()) {
            for set in self.closed_sets() {
                if self.is_over() {
                    break;
                }
                if let Some(tokens) = self.fits(&set) {
                    return (Some((set, tokens)), true);
                }
            }
            if !self.is_over() {
                return (None, true);
            }
        }
        let found = self.greedy();
        let is_smallest = found.as_ref().is_some_and(|(set, _)| set.len() == 1);
        (found, is_smallest)
    }

    /// Returns the sets that may fit: fewest drops first, then most remaining tokens, then the first requests.
    fn closed_sets(&self) -> Vec<RequestSet> {
        let count = self.requested.len();
        let sets = (1..(1_u64 << count).saturating_sub(1)).map(|bits| -> RequestSet {
            (0..count).filter(|request| bits >> request & 1 == 1).collect()
        });
        let mut sets: Vec<(usize, Reverse<usize>, RequestSet)> = sets
            .filter(|set| set.iter().all(|request| self.reached_by[*request].is_subset(set)))
            .map(|set| (set.len(), Reverse(self.min_tokens(&set)), set))
            .filter(|(_, Reverse(tokens), _)| *tokens <= self.budget)
            .collect();
        sets.sort_unstable();
        sets.into_iter().map(|(_, _, set)| set).collect()
    }

    /// Returns a small set to drop, not necessarily a smallest.
    fn greedy(&mut self) -> Option<DropSet> {
        let count = self.requested.len();
        let order = self.drop_order();
        let (mut from, mut to) = (0, if order.is_empty() { count - 1 } else { order.len() });
        let mut found = None;
        while from < to {
            let middle = from.midpoint(to);
            let set = order.get(middle).cloned().unwrap_or_else(|| self.drop_last(middle + 1));
            match self.fits(&set) {
                Some(tokens) => (found, to) = (Some((set, tokens)), middle),
                None => from = middle + 1,
            }
        }
        let mut dropped = found.as_ref().map_or((0..count).collect(), |(set, _)| set.clone());
        let mut requests: Vec<usize> = dropped.iter().copied().collect();
        requests.sort_by_cached_key(|request| self.min_tokens(&self.restore(&dropped, *request)));
        for request in requests {
            let set = self.restore(&dropped, request);
            if set.len() < dropped.len()
                && !self.is_over()
                && self.min_tokens(&set) <= self.budget
                && let Some(tokens) = self.fits(&set)
            {
                found = Some((set.clone(), tokens));
                dropped = set;
            }
        }
        found
    }

    /// Removes a request and the requests that it reaches from the dropped ones.
    fn restore(&self, dropped: &RequestSet, request: usize) -> RequestSet {
        let is_reached =
            |other: &usize| self.reached_by.get(*other).is_some_and(|set| set.contains(&request));
        dropped.iter().copied().filter(|other| !is_reached(other)).collect()
    }

    /// Returns growing sets of dropped requests.
    fn drop_order(&self) -> Vec<RequestSet> {
        let count = self.requested.len();
        let mut groups: Vec<(&RequestSet, &usize)> = self.groups.iter().collect();
        groups.sort_by_key(|(set, cost)| Reverse(**cost / set.len()));
        let max_candidates = MAX_COMPARISONS / (count * groups.len() * groups.len()).max(1);
        // In the unit of the bounds, which are lower than the tokens.
        let total: usize = self.groups.values().sum();
        let mut excess = total.saturating_mul(self.tokens - self.budget) / self.tokens;
        let mut order = vec![RequestSet::new()];
        while let Some(dropped) = order.last() {
            let sets = groups.iter().take(max_candidates.max(1)).map(|(set, _)| dropped | *set);
            let candidates = sets.filter(|set| set.len() < count).map(|set| {
                let freed = groups.iter().filter(|(group, _)| group.is_subset(&set));
                (freed.map(|(_, cost)| **cost).sum::<usize>(), set)
            });
            let per_request = |(freed, set): &(usize, RequestSet)| {
                let useful = (*freed).min(excess.max(1)).saturating_mul(1_000);
                Reverse(useful / (set.len() - dropped.len()))
            };
            let Some((freed, set)) = candidates.min_by_key(per_request) else { break };
            groups.retain(|(group, _)| !group.is_subset(&set));
            excess = excess.saturating_sub(freed);
            order.push(set);
        }
        order.split_off(1)
    }

    /// Returns the last requests that no other request reaches.
    fn drop_last(&self, requests: usize) -> RequestSet {
        let kept = &self.requested[..self.requested.len() - requests];
        let kept = DependencyClosure::new(self.catalog, kept);
        let requested = self.requested.iter().enumerate();
        requested.filter(|(_, number)| kept.node(**number).is_none()).map(|(at, _)| at).collect()
    }

    /// Returns a lower bound for the tokens of the response without these requests.
    fn min_tokens(&self, dropped: &RequestSet) -> usize {
        let kept = self.groups.iter().filter(|(group, _)| !group.is_subset(dropped));
        kept.map(|(_, cost)| cost).sum()
    }

    /// Returns the tokens of the rendered response without these requests, if it fits the budget.
    fn fits(&mut self, dropped: &RequestSet) -> Option<usize> {
        let kept =
            self.requested.iter().enumerate().filter(|(request, _)| !dropped.contains(request));
        let kept: Vec<u32> = kept.map(|(_, number)| *number).collect();
        let bundle = self.catalog.bundle(&kept, self.bodies);
        let text = bundle.render(self.bodies.options.format);
        self.trials += 1;
        self.bytes += text.len();
        self.bodies.counter.count_up_to(&text, self.budget)
    }

    /// Returns whether the limits are reached.
    fn is_over(&self) -> bool {
        self.trials >= MAX_TRIALS && self.bytes >= MAX_CHEAP_BYTES
    }
}

/// Returns a lower bound for the tokens of each node: its rendered section and its id in a line. The rest of the line has
/// more tokens than merge at the borders.
fn min_costs(
    catalog: &SnippetCatalog<'_>,
    closure: &DependencyClosure,
    bodies: &BodyStore<'_>,
    bundle: &SnippetBundle<'_>,
) -> Vec<usize> {
    let BodyStore { counter, options, .. } = bodies;
    let id = |number: &u32| catalog.snippets()[*number as usize].id();
    let mut costs = counter.count_each(&closure.snippets.iter().map(id).collect::<Vec<&str>>());
    let tokens = |snippets| {
        let bundle = SnippetBundle { snippets, ..SnippetBundle::default() };
        counter.count(&bundle.render(options.format))
    };
    let empty = tokens(Vec::new());
    for snippet in &bundle.snippets {
        if let Some(node) = catalog.find(&snippet.id).and_then(|number| closure.node(number)) {
            costs[node as usize] += tokens(vec![snippet.clone()]).saturating_sub(empty);
        }
    }
    costs
}
