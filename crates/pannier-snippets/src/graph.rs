//! What snippets require, all the way down, and the order they are sent in.
//!
//! What is sent is sorted by scope; within a scope, what is required comes before what requires it, and otherwise the smaller
//! id first. To get there, snippets are taken one after the other: always one whose requirements are all taken, of those
//! the one with the first scope, then with the smallest id. Snippets that require each other in a circle would wait for
//! ever, so a circle is broken at its smallest id as soon as nothing outside of it is missing: the whole is cut into
//! strongly connected parts first, and a part in which all wait gives up its smallest member. What requires one of a circle
//! comes after the whole of it.
//!
//! Nothing is recursive, because a chain may be as long as there are snippets, and everything is linear but for the heap.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use crate::Catalogue;

/// Requested snippets and all that they require. Its nodes are numbered in the order of their ids.
#[derive(Debug)]
pub(crate) struct Closure {
    /// The numbers of the snippets in their catalogue, ascending.
    pub(crate) snippets: Vec<u32>,
    /// The nodes that each node requires, ascending.
    requires: Vec<Vec<u32>>,
    /// How each node came in.
    pub(crate) ways: Vec<Way>,
    /// References that mean nothing, with the node that has them.
    pub(crate) dangling: Vec<(u32, String)>,
}

/// A shortest way to a node from one that was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    /// The requested node that it begins at.
    pub(crate) start: u32,
    /// The node before the last.
    pub(crate) parent: u32,
    /// How many steps it has: none for what was requested.
    pub(crate) length: usize,
}

impl Closure {
    /// Finds everything that these snippets require.
    pub(crate) fn new(catalogue: &Catalogue<'_>, requested: &[u32]) -> Self {
        let mut ways: Vec<Option<Way>> = vec![None; catalogue.snippets().len()];
        let mut queue: VecDeque<(u32, Way)> = VecDeque::new();
        let mut start = requested.to_vec();
        start.sort_unstable();
        start.dedup();
        for number in start {
            let way = Way { start: number, parent: number, length: 0 };
            ways[number as usize] = Some(way);
            queue.push_back((number, way));
        }
        let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut dangling = Vec::new();
        while let Some((number, way)) = queue.pop_front() {
            let snippet = &catalogue.snippets()[number as usize];
            let mut requires = Vec::new();
            for reference in snippet.requires().texts() {
                match catalogue.resolve(snippet.root(), &reference) {
                    Some(required) => requires.push(required),
                    None => dangling.push((number, reference.into_owned())),
                }
            }
            requires.sort_unstable();
            requires.dedup();
            for required in &requires {
                let seen = &mut ways[*required as usize];
                if seen.is_none() {
                    let way = Way { parent: number, length: way.length + 1, ..way };
                    *seen = Some(way);
                    queue.push_back((*required, way));
                }
            }
            found.push((number, requires));
        }
        found.sort_unstable();
        dangling.sort_unstable();
        dangling.dedup();
        let snippets: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
        let mut nodes = vec![0; catalogue.snippets().len()];
        (0..).zip(&snippets).for_each(|(node, number)| nodes[*number as usize] = node);
        let node = |number: u32| nodes[number as usize];
        let way = |number: &u32| {
            let way = ways[*number as usize].unwrap_or_default();
            Way { start: node(way.start), parent: node(way.parent), length: way.length }
        };
        Self {
            ways: snippets.iter().map(way).collect(),
            requires: found
                .into_iter()
                .map(|(_, requires)| requires.into_iter().map(node).collect())
                .collect(),
            dangling: dangling.into_iter().map(|(number, text)| (node(number), text)).collect(),
            snippets,
        }
    }

    /// The nodes of the way to a node, without itself, from the requested one on. Of a long way, only its first node and
    /// its last ones; all ways together may be longer than anybody could print.
    pub(crate) fn way(&self, node: u32, most: usize) -> Vec<u32> {
        let Way { start, length, .. } = self.ways[node as usize];
        let mut way = Vec::new();
        let mut at = node;
        for place in (0..length).rev() {
            let is_full = way.len() + 1 >= most && place > 0;
            at = if is_full { start } else { self.ways[at as usize].parent };
            way.push(at);
            if is_full {
                break;
            }
        }
        way.reverse();
        way
    }

    /// How many snippets there are.
    pub(crate) fn len(&self) -> usize {
        self.snippets.len()
    }

    /// What a node requires.
    pub(crate) fn requires(&self, node: u32) -> &[u32] {
        &self.requires[node as usize]
    }

    /// The nodes in the order to send them, and the circles among them.
    pub(crate) fn order(&self, scope: impl Fn(u32) -> usize) -> Ordered {
        let parts = self.parts();
        let mut taking = Taking::new(self, &parts, &scope);
        let mut nodes = taking.take_all();
        // Stable: within a scope, the order stays.
        nodes.sort_by_key(|node| scope(*node));
        let circles = parts.members.iter().filter_map(|members| self.circle(&parts, members));
        let mut cycles: Vec<Vec<u32>> = circles.collect();
        cycles.sort_unstable();
        Ordered { nodes, cycles }
    }

    /// A shortest circle through the smallest member of a part, from that one on.
    fn circle(&self, parts: &Parts, members: &[u32]) -> Option<Vec<u32>> {
        let smallest = *members.first()?;
        if self.requires(smallest).binary_search(&smallest).is_ok() {
            return Some(vec![smallest]);
        }
        if members.len() == 1 {
            return None;
        }
        let part = parts.of[smallest as usize];
        let place = |node: u32| members.binary_search(&node).unwrap_or_default();
        let mut parents = vec![None; members.len()];
        let mut queue = VecDeque::from([smallest]);
        while let Some(node) = queue.pop_front() {
            for required in self.requires(node) {
                if *required == smallest {
                    let mut circle = vec![node];
                    let mut at = node;
                    while let Some(parent) = parents[place(at)].filter(|_| at != smallest) {
                        circle.push(parent);
                        at = parent;
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if parts.of[*required as usize] == part && parents[place(*required)].is_none() {
                    parents[place(*required)] = Some(node);
                    queue.push_back(*required);
                }
            }
        }
        None
    }

    /// The strongly connected parts: Tarjan's algorithm, with a stack of its own.
    fn parts(&self) -> Parts {
        const UNSEEN: u32 = u32::MAX;
        let count = self.len();
        let mut order = vec![UNSEEN; count];
        let mut lowest = vec![0_u32; count];
        let mut of = vec![UNSEEN; count];
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut way: Vec<(u32, usize)> = Vec::new();
        let mut next = 0;
        for start in (0..).take(count) {
            if order[start as usize] != UNSEEN {
                continue;
            }
            way.push((start, 0));
            while let Some((node, edge)) = way.last_mut() {
                let at = *node as usize;
                if *edge == 0 {
                    (order[at], lowest[at]) = (next, next);
                    next += 1;
                    open.push(*node);
                }
                if let Some(required) = self.requires[at].get(*edge) {
                    *edge += 1;
                    let to = *required as usize;
                    if order[to] == UNSEEN {
                        way.push((*required, 0));
                    } else if of[to] == UNSEEN {
                        lowest[at] = lowest[at].min(order[to]);
                    }
                    continue;
                }
                let node = *node;
                way.pop();
                if let Some((parent, _)) = way.last() {
                    let parent = *parent as usize;
                    lowest[parent] = lowest[parent].min(lowest[at]);
                }
                if lowest[at] == order[at] {
                    let from = open.iter().rposition(|other| *other == node).unwrap_or(0);
                    let mut part = open.split_off(from);
                    part.sort_unstable();
                    let number = u32::try_from(members.len()).unwrap_or(UNSEEN);
                    part.iter().for_each(|member| of[*member as usize] = number);
                    members.push(part);
                }
            }
        }
        Parts { of, members }
    }
}

/// The nodes in the order to send them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub(crate) nodes: Vec<u32>,
    /// For each part in which snippets require each other, a circle from its smallest member on.
    pub(crate) cycles: Vec<Vec<u32>>,
}

/// The strongly connected parts of a closure.
#[derive(Debug)]
struct Parts {
    /// Which part a node is in.
    of: Vec<u32>,
    /// The nodes of each part, ascending.
    members: Vec<Vec<u32>>,
}

/// Takes nodes one after the other.
struct Taking<'a, S> {
    closure: &'a Closure,
    parts: &'a Parts,
    scope: &'a S,
    /// Who requires each node.
    dependents: Vec<Vec<u32>>,
    /// How many nodes each node still waits for, itself not counted.
    waits: Vec<usize>,
    /// How many nodes outside of it each part still waits for, counted once for each member.
    outside: Vec<usize>,
    /// How many members of each part are in the heap.
    ready: Vec<usize>,
    /// How many members of each part are not taken.
    left: Vec<usize>,
    /// How far the members of each part were looked at for one to give up.
    looked_at: Vec<usize>,
    is_queued: Vec<bool>,
    heap: BinaryHeap<Reverse<(usize, u32)>>,
}

impl<'a, S: Fn(u32) -> usize> Taking<'a, S> {
    fn new(closure: &'a Closure, parts: &'a Parts, scope: &'a S) -> Self {
        let count = closure.len();
        let mut taking = Self {
            closure,
            parts,
            scope,
            dependents: vec![Vec::new(); count],
            waits: vec![0; count],
            outside: vec![0; parts.members.len()],
            ready: vec![0; parts.members.len()],
            left: parts.members.iter().map(Vec::len).collect(),
            looked_at: vec![0; parts.members.len()],
            is_queued: vec![false; count],
            heap: BinaryHeap::new(),
        };
        for node in (0..).take(count) {
            for required in closure.requires(node).iter().filter(|required| **required != node) {
                taking.dependents[*required as usize].push(node);
                taking.waits[node as usize] += 1;
                if parts.of[*required as usize] != parts.of[node as usize] {
                    taking.outside[parts.of[node as usize] as usize] += 1;
                }
            }
        }
        taking
    }

    fn take_all(&mut self) -> Vec<u32> {
        (0..self.parts.members.len()).for_each(|part| self.give_up(part));
        let mut taken = Vec::with_capacity(self.closure.len());
        while let Some(Reverse((_, node))) = self.heap.pop() {
            taken.push(node);
            let part = self.parts.of[node as usize];
            self.ready[part as usize] -= 1;
            self.left[part as usize] -= 1;
            self.release(node, |other| other == part);
            // What requires one of a circle waits for the whole of it.
            if self.left[part as usize] == 0 {
                for member in &self.parts.members[part as usize] {
                    self.release(*member, |other| other != part);
                }
            }
            self.give_up(part as usize);
        }
        taken
    }

    /// Tells those that wait for a node, as far as their part is meant.
    fn release(&mut self, node: u32, is_meant: impl Fn(u32) -> bool) {
        let dependents = std::mem::take(&mut self.dependents[node as usize]);
        for dependent in &dependents {
            let part = self.parts.of[*dependent as usize];
            if !is_meant(part) {
                continue;
            }
            self.waits[*dependent as usize] -= 1;
            if self.waits[*dependent as usize] == 0 {
                self.queue(*dependent);
            }
            if part != self.parts.of[node as usize] {
                self.outside[part as usize] -= 1;
                self.give_up(part as usize);
            }
        }
        self.dependents[node as usize] = dependents;
    }

    fn queue(&mut self, node: u32) {
        if !std::mem::replace(&mut self.is_queued[node as usize], true) {
            self.ready[self.parts.of[node as usize] as usize] += 1;
            self.heap.push(Reverse(((self.scope)(node), node)));
        }
    }

    /// If all members of a part wait for each other, and for nothing else, lets the smallest one go.
    fn give_up(&mut self, part: usize) {
        if self.outside[part] > 0 || self.ready[part] > 0 {
            return;
        }
        let members = &self.parts.members[part];
        while let Some(member) = members.get(self.looked_at[part]) {
            self.looked_at[part] += 1;
            if !self.is_queued[*member as usize] {
                return self.queue(*member);
            }
        }
    }
}

/// Visits a node and all that it requires, each once, until a visit says that it is enough.
pub(crate) fn reached(closure: &Closure, start: u32, mut visit: impl FnMut(u32) -> bool) {
    let mut stack = vec![start];
    let mut seen = BTreeSet::from([start]);
    while let Some(node) = stack.pop() {
        if !visit(node) {
            return;
        }
        for required in closure.requires(node) {
            if seen.insert(*required) {
                stack.push(*required);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn closure(requires: Vec<Vec<u32>>) -> Closure {
        let count = u32::try_from(requires.len()).unwrap();
        let mut requires = requires;
        for list in &mut requires {
            list.sort_unstable();
            list.dedup();
        }
        let ways = vec![Way::default(); requires.len()];
        Closure { snippets: (0..count).collect(), requires, ways, dangling: Vec::new() }
    }

    fn reach(closure: &Closure, from: u32) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for required in closure.requires(from) {
            reached(closure, *required, |node| {
                found.insert(node);
                true
            });
        }
        found
    }

    #[test]
    fn requirements_come_first_then_the_smaller_id() {
        let order = |requires: Vec<Vec<u32>>| closure(requires).order(|_| 0).nodes;
        assert_eq!(order(vec![vec![], vec![], vec![]]), [0, 1, 2]);
        assert_eq!(order(vec![vec![2], vec![], vec![]]), [1, 2, 0]);
        assert_eq!(order(vec![vec![1], vec![2], vec![]]), [2, 1, 0]);
    }

    #[test]
    fn a_circle_is_broken_at_its_smallest_id_and_told_from_there() {
        let two = closure(vec![vec![1], vec![0], vec![]]).order(|_| 0);
        assert_eq!(two, Ordered { nodes: vec![0, 1, 2], cycles: vec![vec![0, 1]] });
        let own = closure(vec![vec![0], vec![]]).order(|_| 0);
        assert_eq!(own, Ordered { nodes: vec![0, 1], cycles: vec![vec![0]] });
        // 1 needs what is outside of its circle first.
        let late = closure(vec![vec![], vec![2], vec![3, 4], vec![1], vec![]]).order(|_| 0);
        assert_eq!(late, Ordered { nodes: vec![0, 4, 1, 3, 2], cycles: vec![vec![1, 2, 3]] });
        // Two circles with a member in common are one part; the shortest through the smallest is told.
        let eight = closure(vec![vec![1, 2], vec![0], vec![3], vec![0, 2]]).order(|_| 0);
        assert_eq!(eight.cycles, [vec![0, 1]]);
        assert_eq!(eight.nodes, [0, 1, 2, 3]);
    }

    #[test]
    fn a_chain_may_be_very_long() {
        let count = 300_000;
        let chain = closure((0..count).map(|node| vec![node + 1]).chain([vec![]]).collect());
        let Ordered { nodes, cycles } = chain.order(|_| 0);
        assert!(nodes.iter().rev().copied().eq(0..=count));
        assert!(cycles.is_empty());
        let ring = closure((0..count).map(|node| vec![(node + 1) % count]).collect());
        assert_eq!(ring.order(|_| 0).cycles[0].len(), count as usize);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_order_is_what_it_says(
            requires in prop::collection::vec(prop::collection::vec(0_u32..12, 0..4), 12),
            scopes in prop::collection::vec(0_usize..3, 12),
        ) {
            let closure = closure(requires);
            let Ordered { nodes, cycles } = closure.order(|node| scopes[node as usize]);
            let mut sorted = nodes.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..12), "each once");
            let scope = |node: &u32| scopes[*node as usize];
            prop_assert!(nodes.is_sorted_by_key(scope));
            let place = |node: u32| nodes.iter().position(|other| *other == node).unwrap();
            let reaches: Vec<BTreeSet<u32>> = (0..12).map(|node| reach(&closure, node)).collect();
            let mut in_circle = BTreeSet::new();
            for node in 0..12 {
                for required in &reaches[node as usize] {
                    let is_circle = reaches[*required as usize].contains(&node);
                    if is_circle {
                        in_circle.insert(node);
                    } else if scope(&node) == scope(required) {
                        prop_assert!(place(*required) < place(node));
                    }
                }
            }
            // Each circle is one, begins with its smallest id, and every part with circles is told once.
            let mut told = BTreeSet::new();
            for cycle in &cycles {
                let next = cycle.iter().skip(1).chain(&cycle[..1]);
                prop_assert!(cycle.iter().zip(next).all(|(node, next)| closure.requires(*node).contains(next)));
                let part: BTreeSet<u32> = reaches[cycle[0] as usize]
                    .iter()
                    .copied()
                    .filter(|node| reaches[*node as usize].contains(&cycle[0]))
                    .collect();
                prop_assert_eq!(part.first(), cycle.first());
                for node in part {
                    prop_assert!(told.insert(node));
                }
            }
            prop_assert_eq!(told, in_circle);
        }
    }
}
