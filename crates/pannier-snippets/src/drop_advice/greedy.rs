//! Few requests to leave out, where there are too many to look at all sets.
//!
//! A text goes only if all requests that lead to it do. So requests are left out in such groups: always the group that frees
//! the most for each request in it, until one that frees enough is smaller than what was found so far. Beside that, requests
//! are taken one after the other as long as they fit, the cheap ones first. The better of both is printed and counted; what
//! it has too much is taken off the budget, and it starts again. Then what was left out for nothing is put back. In none of
//! these is something left out that another request leads to, because whatever leads to a member of a group is in the group.
//!
//! What a group frees is estimated by what goes with it, though chains become shorter or longer, too. Where texts are so
//! short that this matters, printing them is cheap: there, groups are chosen once more by what is printed without them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::drop_advice::bitset::BitSet;
use crate::drop_advice::costs::PIECES;
use crate::drop_advice::{Advice, MAX_TRIALS, Question, Trial};
use crate::graph::DependencyClosure;

/// So often it starts again.
const MAX_ROUNDS: usize = 8;

/// Which requests lead to which snippets is looked at up to so many pairs of them.
const MAX_PAIRS: usize = 16 << 20;

/// So many groups are compared with each other, in all steps of a round together.
const MAX_COMPARISONS: usize = 32 << 20;

/// Few requests to leave out, but maybe not the fewest.
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
    /// What each node costs, with the line that tells why it is in if all requests are.
    costs: Vec<usize>,
    /// What each node costs without that line.
    fixed: &'a [usize],
    budget: usize,
    /// The places of requests, the cheapest first.
    order: Vec<usize>,
    /// Requests that all lead to something, and what that costs. None, if there are too many.
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

    /// Requests that fit.
    fn start(&self, trial: &mut Trial<'_, '_, '_>) -> Option<(BitSet, usize)> {
        // Whatever the estimate says, all together do not fit.
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
        // One by one: with the requests among what it requires, or really alone.
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

    /// Puts back what fits, the cheapest first.
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
            // A beginning is enough to see that it is too much, but not to put it back.
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

    /// Requests taken one after the other, as long as they fit.
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
            // What came in may have made others cheap.
            if left == before {
                break;
            }
        }
        let mut kept = BitSet::with_capacity(self.nodes.len());
        let taken = (0..self.nodes.len()).filter(|place| marks.is_taken(self.nodes[*place]));
        taken.for_each(|place| kept.insert(place));
        kept
    }

    /// What is kept if groups of requests are left out, the best ones first, until what is left without them is within a
    /// target. It ends early if nobody knows what that is.
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
            // With one more, what comes next must be less than what was found.
            if let Some(best) = &best {
                steps.retain(|step| step.set.len() + 1 < best.len());
            }
            // The first of the best: a fraction is greater if the product across is.
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

    /// About what is left without these requests.
    fn left_without(&self, dropped: &BitSet) -> usize {
        let left = self.groups.iter().filter(|(group, _)| !group.is_subset(dropped));
        self.base + left.map(|(_, cost)| cost).sum::<usize>()
    }

    /// A node and all that it requires, without what is taken. It ends when that costs more than so much.
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

    /// What nodes cost at least, whatever the lines are that tell why they are in.
    fn least(&self, nodes: &[u32]) -> usize {
        let fixed: usize = nodes.iter().map(|node| self.fixed[*node as usize]).sum();
        fixed.saturating_sub(PIECES * nodes.len())
    }

    /// The place of the request that a node is.
    fn place(&self, node: u32) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }
}

/// Leaving out a group.
struct Step {
    /// How many requests more are left out.
    more: usize,
    /// How many tokens that frees.
    freed: usize,
    /// All that are left out then.
    set: BitSet,
}

/// What was seen on a walk, and what is taken for good. A new walk costs nothing.
struct VisitedSet {
    walk: u32,
    /// The last walk that came by each node.
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

    /// Whether nobody came by on this walk, and it is not taken. From now on, somebody did.
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
