//! Greedy search for a small set of requests to drop, for many requests.
//!
//! A text is dropped only if all requests that reach it are. So the search drops such groups, always the one that frees
//! the most tokens per request. A second heuristic keeps requests in order of cost while they fit. The better result is
//! rendered; if it exceeds the budget, the excess is subtracted from the target and the search repeats. Finally, dropped
//! requests that fit are restored.
//!
//! The freed tokens are estimates, because chains change, too. Where texts are so short that this matters, rendering is
//! cheap, and the groups are chosen again by rendered size.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::drop_advice::bitset::BitSet;
use crate::drop_advice::costs::PIECES;
use crate::drop_advice::{Advice, MAX_TRIALS, Question, Trial};
use crate::graph::DependencyClosure;

/// The maximum number of repetitions.
const MAX_ROUNDS: usize = 8;

/// The maximum number of pairs of a request and a snippet for which groups are computed.
const MAX_PAIRS: usize = 16 << 20;

/// The maximum number of group comparisons per step.
const MAX_COMPARISONS: usize = 32 << 20;

/// Finds a small set of requests to drop, not necessarily a smallest.
pub(super) fn greedy_drop_set(
    question: &Question<'_, '_>,
    trial: &mut Trial<'_, '_, '_>,
) -> Option<Advice> {
    let search = Search::new(question);
    let (kept, tokens) = search.start(trial)?;
    let (mut kept, mut tokens) = search.put_back(kept, tokens, trial);
    let printed = search.without_groups(question.budget, |dropped| {
        let kept = dropped.complement(question.nodes.len());
        trial.is_cheap().then(|| trial.count(&kept))
    });
    if printed.len() > kept.len()
        && let Some(counted) = trial.fits(&printed)
    {
        (kept, tokens) = search.put_back(printed, counted, trial);
    }
    let is_smallest = kept.len() + 1 == question.nodes.len();
    Some(Advice { kept, tokens, is_smallest })
}

struct Search<'a> {
    closure: &'a DependencyClosure,
    /// The node of each request.
    nodes: &'a [u32],
    base: usize,
    /// The cost of each node, with its chain given all requests.
    costs: Vec<usize>,
    /// The cost of each node without its chain.
    fixed: &'a [usize],
    budget: usize,
    /// The positions of the requests, cheapest first.
    order: Vec<usize>,
    /// Sets of requests that reach the same nodes, and the cost of those nodes. Empty above [`MAX_PAIRS`].
    groups: Vec<(BitSet, usize)>,
}

impl<'a> Search<'a> {
    fn new(question: &'a Question<'_, '_>) -> Self {
        let Question { closure, nodes, budget, .. } = question;
        let costs: Vec<usize> =
            (0..).take(closure.len()).map(|node| question.costs.of(node)).collect();
        let mut search = Self {
            closure,
            nodes,
            base: question.costs.base,
            costs,
            fixed: &question.costs.fixed,
            budget: *budget,
            order: (0..nodes.len()).collect(),
            groups: Vec::new(),
        };
        let mut alone: Vec<usize> = nodes.iter().map(|node| search.costs[*node as usize]).collect();
        if nodes.len().saturating_mul(closure.len()) <= MAX_PAIRS {
            let mut marks = VisitedSet::new(closure.len());
            let mut leads = vec![BitSet::with_capacity(nodes.len()); closure.len()];
            for (place, node) in nodes.iter().enumerate() {
                let found = search.found(*node, &mut marks, usize::MAX);
                found.iter().for_each(|node| leads[*node as usize].insert(place));
                alone[place] = search.sum(&found);
            }
            let mut groups: BTreeMap<BitSet, usize> = BTreeMap::new();
            for (lead, cost) in leads.into_iter().zip(&search.costs) {
                *groups.entry(lead).or_default() += cost;
            }
            search.groups = groups.into_iter().collect();
        }
        search.order.sort_by_key(|place| (alone[*place], *place));
        search
    }

    /// Finds a set of requests that fits.
    fn start(&self, trial: &mut Trial<'_, '_, '_>) -> Option<(BitSet, usize)> {
        // All requests together do not fit, regardless of the estimate.
        let total = self.base + self.costs.iter().sum::<usize>();
        let mut target = self.budget.min(total.saturating_sub(1));
        for _ in 0..MAX_ROUNDS {
            let taken = self.taken_in_order(target);
            let left = self.without_groups(target, |dropped| Some(self.left_without(dropped)));
            let kept = if left.len() > taken.len() { left } else { taken };
            if kept.len() == 0 {
                break;
            }
            let tokens = trial.count(&kept);
            if tokens <= self.budget {
                return Some((kept, tokens));
            }
            target = target.saturating_sub(tokens - self.budget);
        }
        let mut marks = VisitedSet::new(self.closure.len());
        // Single requests, with the requests among their dependencies or without.
        for (tried, place) in self.order.iter().enumerate() {
            let found = self.found(self.nodes[*place], &mut marks, usize::MAX);
            if self.least(&found) > self.budget && tried >= MAX_TRIALS {
                continue;
            }
            let mut alone = BitSet::with_capacity(self.nodes.len());
            alone.insert(*place);
            let mut together = alone.clone();
            found
                .iter()
                .filter_map(|node| self.place(*node))
                .for_each(|place| together.insert(place));
            if let Some(tokens) = trial.fits(&together) {
                return Some((together, tokens));
            }
            if together != alone
                && let Some(tokens) = trial.fits(&alone)
            {
                return Some((alone, tokens));
            }
        }
        None
    }

    /// Restores dropped requests that fit, cheapest first.
    fn put_back(
        &self,
        mut kept: BitSet,
        mut tokens: usize,
        trial: &mut Trial<'_, '_, '_>,
    ) -> (BitSet, usize) {
        let mut marks = VisitedSet::new(self.closure.len());
        for place in (0..self.nodes.len()).filter(|place| kept.contains(*place)) {
            let found = self.found(self.nodes[place], &mut marks, usize::MAX);
            marks.take(&found);
        }
        let left = self.order.iter().filter(|place| !kept.contains(**place));
        let mut cost =
            |place: usize| self.sum(&self.found(self.nodes[place], &mut marks, self.budget));
        let mut left: Vec<(usize, usize)> = left.map(|place| (cost(*place), *place)).collect();
        left.sort_unstable();
        for (_, place) in left {
            if kept.contains(place) || trial.is_over() {
                continue;
            }
            // A bounded traversal is enough to reject a request, but not to restore it.
            let beginning = self.found(self.nodes[place], &mut marks, self.budget);
            if self.least(&beginning) > self.budget - tokens {
                continue;
            }
            let found = self.found(self.nodes[place], &mut marks, usize::MAX);
            let mut more = kept.clone();
            more.insert(place);
            found.iter().filter_map(|node| self.place(*node)).for_each(|place| more.insert(place));
            if let Some(counted) = trial.fits(&more) {
                (kept, tokens) = (more, counted);
                marks.take(&found);
            }
        }
        (kept, tokens)
    }

    /// Keeps requests in order of cost while they fit.
    fn taken_in_order(&self, target: usize) -> BitSet {
        let mut marks = VisitedSet::new(self.closure.len());
        let mut left = target.saturating_sub(self.base);
        loop {
            let before = left;
            for place in &self.order {
                if marks.is_taken(self.nodes[*place]) {
                    continue;
                }
                let found = self.found(self.nodes[*place], &mut marks, left);
                let cost = self.sum(&found);
                if cost <= left {
                    left -= cost;
                    marks.take(&found);
                }
            }
            // Kept dependencies make other requests cheaper.
            if left == before {
                break;
            }
        }
        let mut kept = BitSet::with_capacity(self.nodes.len());
        let taken = (0..self.nodes.len()).filter(|place| marks.is_taken(self.nodes[*place]));
        taken.for_each(|place| kept.insert(place));
        kept
    }

    /// Drops groups of requests, best first, until the rest is within `target`, and returns the kept requests. Stops early
    /// if `left_without` returns `None`.
    fn without_groups(
        &self,
        target: usize,
        mut left_without: impl FnMut(&BitSet) -> Option<usize>,
    ) -> BitSet {
        let count = self.nodes.len();
        let mut dropped = BitSet::with_capacity(count);
        let mut total = left_without(&dropped).unwrap_or_default();
        let mut best: Option<BitSet> = None;
        let most = MAX_COMPARISONS / (self.groups.len() * count).max(1);
        let mut alive: Vec<&(BitSet, usize)> = self.groups.iter().collect();
        alive.sort_by_key(|(_, cost)| Reverse(*cost));
        while total > target {
            let mut steps: Vec<Step> = Vec::new();
            for (group, _) in alive.iter().take(most) {
                let set = dropped.union(group);
                if set.len() < count
                    && let Some(left) = left_without(&set)
                {
                    let freed = total.saturating_sub(left);
                    steps.push(Step { more: set.len() - dropped.len(), freed, set });
                }
            }
            let enough = steps.iter().filter(|step| total - step.freed <= target);
            let enough = enough.min_by_key(|step| (step.more, step.freed));
            if let Some(step) = enough
                && best.as_ref().is_none_or(|best| step.set.len() < best.len())
            {
                best = Some(step.set.clone());
            }
            // A further step drops at least one more, so only smaller sets can improve.
            if let Some(best) = &best {
                steps.retain(|step| step.set.len() + 1 < best.len());
            }
            // Compares fractions by cross multiplication; the first maximum wins.
            let better =
                |best: Step, step: Step| match step.freed * best.more > best.freed * step.more {
                    true => step,
                    false => best,
                };
            let Some(Step { set, freed, .. }) = steps.into_iter().reduce(better) else { break };
            total -= freed;
            alive.retain(|(group, _)| !group.is_subset(&set));
            dropped = set;
        }
        best.map_or_else(|| BitSet::with_capacity(count), |best| best.complement(count))
    }

    /// Returns the approximate cost of the response without these requests.
    fn left_without(&self, dropped: &BitSet) -> usize {
        let left = self.groups.iter().filter(|(group, _)| !group.is_subset(dropped));
        self.base + left.map(|(_, cost)| cost).sum::<usize>()
    }

    /// Returns a node and its dependencies that are not taken. Stops when their cost exceeds `most`.
    fn found(&self, start: u32, marks: &mut VisitedSet, most: usize) -> Vec<u32> {
        marks.begin();
        let mut found = Vec::new();
        let mut cost = 0_usize;
        let mut stack = Vec::new();
        if marks.is_new(start) {
            stack.push(start);
        }
        while let Some(node) = stack.pop() {
            found.push(node);
            cost += self.costs[node as usize];
            if cost > most {
                break;
            }
            for required in self.closure.requires(node) {
                if marks.is_new(*required) {
                    stack.push(*required);
                }
            }
        }
        found
    }

    fn sum(&self, nodes: &[u32]) -> usize {
        nodes.iter().map(|node| self.costs[*node as usize]).sum()
    }

    /// Returns a lower bound for the cost of nodes with any chains.
    fn least(&self, nodes: &[u32]) -> usize {
        let fixed: usize = nodes.iter().map(|node| self.fixed[*node as usize]).sum();
        fixed.saturating_sub(PIECES * nodes.len())
    }

    /// Returns the position of the request of a node.
    fn place(&self, node: u32) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }
}

/// The effect of dropping a group.
struct Step {
    /// The number of additional dropped requests.
    more: usize,
    /// The number of freed tokens.
    freed: usize,
    /// All dropped requests after the step.
    set: BitSet,
}

/// The nodes visited by a traversal, and the nodes taken permanently. Starting a new traversal is O(1).
struct VisitedSet {
    walk: u32,
    /// The last traversal that visited each node.
    seen: Vec<u32>,
}

impl VisitedSet {
    const TAKEN: u32 = u32::MAX;

    fn new(count: usize) -> Self {
        Self { walk: 0, seen: vec![0; count] }
    }

    fn begin(&mut self) {
        self.walk += 1;
    }

    /// Marks a node as visited. Returns whether it was neither visited by this traversal nor taken.
    fn is_new(&mut self, node: u32) -> bool {
        let seen = &mut self.seen[node as usize];
        let is_new = *seen < self.walk;
        *seen = self.walk.max(*seen);
        is_new
    }

    fn take(&mut self, nodes: &[u32]) {
        nodes.iter().for_each(|node| self.seen[*node as usize] = Self::TAKEN);
    }

    fn is_taken(&self, node: u32) -> bool {
        self.seen[node as usize] == Self::TAKEN
    }
}
