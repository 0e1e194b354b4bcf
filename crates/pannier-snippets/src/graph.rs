//! What snippets require, all the way down, and the order they are sent in.
//!
//! What is sent is sorted by scope; within a scope, what is required comes before what requires it, and otherwise the smaller
//! id first. Each scope is ordered by itself: its snippets are taken one after the other, always the smallest id of which
//! everything required is taken. Snippets of other scopes do not stand in this row, so they are taken as soon as they can
//! be; they pass on what is required through them, and hold up nothing else. Snippets that require each other in a circle
//! would wait for ever, so a circle is broken at its smallest id as soon as nothing outside of it is missing: the whole is
//! cut into strongly connected parts first, and a part in which all wait gives up its smallest member. Which one that is
//! does not depend on the scope that is ordered, because a part gives one up only when nothing else in it can be taken.
//! What requires one of a circle comes after the whole of it.
//!
//! Nothing is recursive, because a chain may be as long as there are snippets, and everything is linear but for the heap.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use crate::SnippetCatalog;

/// Requested snippets and all that they require. Its nodes are numbered in the order of their ids.
#[derive(Debug)]
pub(crate) struct DependencyClosure {
    /// The numbers of the snippets in their catalog, ascending.
    pub(crate) snippets: Vec<u32>,
    /// The nodes that each node requires, ascending.
    requires: Vec<Vec<u32>>,
    /// How each node came in.
    pub(crate) ways: ShortestPaths,
    /// References that mean nothing, with the node that has them.
    pub(crate) dangling: Vec<(u32, String)>,
}

/// A shortest way to a node from one where ways begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathNode {
    /// The node that it begins at.
    start: u32,
    /// The node before the last.
    parent: u32,
    /// How many steps it has: none where it begins.
    length: usize,
}

/// A shortest way to each node from some of them. Of as short ones, that from the smallest of these.
#[derive(Debug)]
pub(crate) struct ShortestPaths(Vec<Option<PathNode>>);

impl ShortestPaths {
    /// How many steps it takes to a node, if there is a way.
    pub(crate) fn length(&self, node: u32) -> Option<usize> {
        self.0[node as usize].map(|way| way.length)
    }

    /// The nodes of the way to a node, without itself, from its beginning on. Of a long way, only its first node and its
    /// last ones; all ways together may be longer than anybody could print.
    pub(crate) fn to(&self, node: u32, most: usize) -> Vec<u32> {
        let mut nodes = Vec::new();
        let mut at = self.0[node as usize];
        while let Some(PathNode { start, parent, length }) = at.filter(|way| way.length > 0) {
            let is_full = nodes.len() + 1 >= most && length > 1;
            nodes.push(if is_full { start } else { parent });
            at = if is_full { None } else { self.0[parent as usize] };
        }
        nodes.reverse();
        nodes
    }
}

impl DependencyClosure {
    /// Finds everything that these snippets require.
    pub(crate) fn new(catalog: &SnippetCatalog<'_>, requested: &[u32]) -> Self {
        let mut is_seen = vec![false; catalog.snippets().len()];
        let mut stack = Vec::new();
        for number in requested {
            if !std::mem::replace(&mut is_seen[*number as usize], true) {
                stack.push(*number);
            }
        }
        let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut dangling = Vec::new();
        while let Some(number) = stack.pop() {
            let snippet = &catalog.snippets()[number as usize];
            let mut requires = Vec::new();
            for reference in snippet.requires().texts() {
                match catalog.resolve(snippet.root(), &reference) {
                    Some(required) => requires.push(required),
                    None => dangling.push((number, reference.into_owned())),
                }
            }
            requires.sort_unstable();
            requires.dedup();
            for required in &requires {
                if !std::mem::replace(&mut is_seen[*required as usize], true) {
                    stack.push(*required);
                }
            }
            found.push((number, requires));
        }
        found.sort_unstable();
        dangling.sort_unstable();
        dangling.dedup();
        let snippets: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
        let mut nodes = vec![0; catalog.snippets().len()];
        (0..).zip(&snippets).for_each(|(node, number)| nodes[*number as usize] = node);
        let node = |number: u32| nodes[number as usize];
        let requires = found
            .into_iter()
            .map(|(_, requires)| requires.into_iter().map(node).collect())
            .collect();
        let dangling = dangling.into_iter().map(|(number, text)| (node(number), text)).collect();
        let mut closure = Self { snippets, requires, ways: ShortestPaths(Vec::new()), dangling };
        let starts: Vec<u32> = requested.iter().map(|number| node(*number)).collect();
        closure.ways = closure.shortest_paths_from(&starts);
        closure
    }

    /// Shortest ways from these nodes, breadth first.
    pub(crate) fn shortest_paths_from(&self, starts: &[u32]) -> ShortestPaths {
        let mut ways: Vec<Option<PathNode>> = vec![None; self.len()];
        let mut starts = starts.to_vec();
        starts.sort_unstable();
        for start in &starts {
            ways[*start as usize] = Some(PathNode { start: *start, parent: *start, length: 0 });
        }
        starts.dedup();
        let mut queue = VecDeque::from(starts);
        while let Some(node) = queue.pop_front() {
            let way = ways[node as usize];
            for required in self.requires(node) {
                if ways[*required as usize].is_none() {
                    ways[*required as usize] =
                        way.map(|way| PathNode { parent: node, length: way.length + 1, ..way });
                    queue.push_back(*required);
                }
            }
        }
        ShortestPaths(ways)
    }

    /// The node of a snippet that is in.
    pub(crate) fn node(&self, number: u32) -> Option<u32> {
        let place = self.snippets.binary_search(&number).ok()?;
        u32::try_from(place).ok()
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
    pub(crate) fn order(&self, scope: impl Fn(u32) -> usize) -> TopologicalOrder {
        let parts = self.strongly_connected_components();
        let dependents = self.dependents();
        let scopes: Vec<usize> = (0..).take(self.len()).map(scope).collect();
        let mut nodes = Vec::with_capacity(self.len());
        for ordered in scopes.iter().copied().collect::<BTreeSet<usize>>() {
            let is_meant = |node: u32| scopes[node as usize] == ordered;
            nodes.extend(ScopedTopoSort::new(self, &parts, &dependents, is_meant).take_all());
        }
        let circles =
            parts.members.iter().filter_map(|members| self.shortest_cycle(&parts, members));
        let mut cycles: Vec<Vec<u32>> = circles.collect();
        cycles.sort_unstable();
        TopologicalOrder { nodes, cycles }
    }

    /// Who requires each node, but for itself.
    fn dependents(&self) -> Vec<Vec<u32>> {
        let mut dependents = vec![Vec::new(); self.len()];
        for node in (0..).take(self.len()) {
            for required in self.requires(node).iter().filter(|required| **required != node) {
                dependents[*required as usize].push(node);
            }
        }
        dependents
    }

    /// A shortest circle through the smallest member of a part, from that one on.
    fn shortest_cycle(&self, parts: &Components, members: &[u32]) -> Option<Vec<u32>> {
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
    fn strongly_connected_components(&self) -> Components {
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
        Components { of, members }
    }
}

/// The nodes in the order to send them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TopologicalOrder {
    pub(crate) nodes: Vec<u32>,
    /// For each part in which snippets require each other, a circle from its smallest member on.
    pub(crate) cycles: Vec<Vec<u32>>,
}

/// The strongly connected parts of a closure.
#[derive(Debug)]
struct Components {
    /// Which part a node is in.
    of: Vec<u32>,
    /// The nodes of each part, ascending.
    members: Vec<Vec<u32>>,
}

/// Takes nodes one after the other, and tells those that are meant.
struct ScopedTopoSort<'a, M> {
    parts: &'a Components,
    /// Who requires each node.
    dependents: &'a [Vec<u32>],
    is_meant: M,
    /// How many nodes each node still waits for, itself not counted.
    waits: Vec<usize>,
    /// How many nodes outside of it each part still waits for, counted once for each member.
    outside: Vec<usize>,
    /// How many members of each part can be taken.
    ready: Vec<usize>,
    /// How many members of each part are not taken.
    left: Vec<usize>,
    /// How far the members of each part were looked at for one to give up.
    looked_at: Vec<usize>,
    is_queued: Vec<bool>,
    /// What can be taken and is meant.
    heap: BinaryHeap<Reverse<u32>>,
    /// What can be taken and is not meant, which goes first.
    others: Vec<u32>,
}

impl<'a, M: Fn(u32) -> bool> ScopedTopoSort<'a, M> {
    fn new(
        closure: &DependencyClosure,
        parts: &'a Components,
        dependents: &'a [Vec<u32>],
        is_meant: M,
    ) -> Self {
        let mut taking = Self {
            parts,
            dependents,
            is_meant,
            waits: vec![0; closure.len()],
            outside: vec![0; parts.members.len()],
            ready: vec![0; parts.members.len()],
            left: parts.members.iter().map(Vec::len).collect(),
            looked_at: vec![0; parts.members.len()],
            is_queued: vec![false; closure.len()],
            heap: BinaryHeap::new(),
            others: Vec::new(),
        };
        for node in (0..).take(closure.len()) {
            for required in closure.requires(node).iter().filter(|required| **required != node) {
                taking.waits[node as usize] += 1;
                if parts.of[*required as usize] != parts.of[node as usize] {
                    taking.outside[parts.of[node as usize] as usize] += 1;
                }
            }
        }
        taking
    }

    fn take_all(&mut self) -> Vec<u32> {
        (0..self.parts.members.len()).for_each(|part| self.break_cycle(part));
        let mut taken = Vec::new();
        loop {
            if let Some(node) = self.others.pop() {
                self.take(node);
            } else if let Some(Reverse(node)) = self.heap.pop() {
                taken.push(node);
                self.take(node);
            } else {
                return taken;
            }
        }
    }

    fn take(&mut self, node: u32) {
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
        self.break_cycle(part as usize);
    }

    /// Tells those that wait for a node, as far as their part is in question.
    fn release(&mut self, node: u32, is_asked: impl Fn(u32) -> bool) {
        let dependents = self.dependents;
        for dependent in &dependents[node as usize] {
            let part = self.parts.of[*dependent as usize];
            if !is_asked(part) {
                continue;
            }
            self.waits[*dependent as usize] -= 1;
            if self.waits[*dependent as usize] == 0 {
                self.queue(*dependent);
            }
            if part != self.parts.of[node as usize] {
                self.outside[part as usize] -= 1;
                self.break_cycle(part as usize);
            }
        }
    }

    fn queue(&mut self, node: u32) {
        if std::mem::replace(&mut self.is_queued[node as usize], true) {
            return;
        }
        self.ready[self.parts.of[node as usize] as usize] += 1;
        match (self.is_meant)(node) {
            true => self.heap.push(Reverse(node)),
            false => self.others.push(node),
        }
    }

    /// If all members of a part wait for each other, and for nothing else, lets the smallest one go.
    fn break_cycle(&mut self, part: usize) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn closure(requires: Vec<Vec<u32>>) -> DependencyClosure {
        let count = u32::try_from(requires.len()).unwrap();
        let mut requires = requires;
        for list in &mut requires {
            list.sort_unstable();
            list.dedup();
        }
        let ways = ShortestPaths(vec![None; requires.len()]);
        DependencyClosure { snippets: (0..count).collect(), requires, ways, dangling: Vec::new() }
    }

    /// What a node requires, however far.
    fn reach(closure: &DependencyClosure, from: u32) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            stack.extend(closure.requires(node).iter().filter(|required| found.insert(**required)));
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
        assert_eq!(two, TopologicalOrder { nodes: vec![0, 1, 2], cycles: vec![vec![0, 1]] });
        let own = closure(vec![vec![0], vec![]]).order(|_| 0);
        assert_eq!(own, TopologicalOrder { nodes: vec![0, 1], cycles: vec![vec![0]] });
        // 1 needs what is outside of its circle first.
        let late = closure(vec![vec![], vec![2], vec![3, 4], vec![1], vec![]]).order(|_| 0);
        assert_eq!(
            late,
            TopologicalOrder { nodes: vec![0, 4, 1, 3, 2], cycles: vec![vec![1, 2, 3]] }
        );
        // Two circles with a member in common are one part; the shortest through the smallest is told.
        let eight = closure(vec![vec![1, 2], vec![0], vec![3], vec![0, 2]]).order(|_| 0);
        assert_eq!(eight.cycles, [vec![0, 1]]);
        assert_eq!(eight.nodes, [0, 1, 2, 3]);
    }

    #[test]
    fn another_scope_orders_only_what_is_required_through_it() {
        let scopes = |list: &'static [usize]| |node: u32| list[node as usize];
        // 0 and 1 are of the domain; what 0 requires is of the project, and says nothing about 1.
        let free = closure(vec![vec![2], vec![], vec![]]);
        assert_eq!(free.order(scopes(&[1, 1, 2])).nodes, [0, 1, 2]);
        // Now it does: 0 requires 1, though through the project.
        let through = closure(vec![vec![2], vec![], vec![1]]);
        assert_eq!(through.order(scopes(&[1, 1, 2])).nodes, [1, 0, 2]);
        // A circle is broken at its smallest id, of whatever scope that is.
        let circle = closure(vec![vec![1], vec![2], vec![0]]);
        assert_eq!(circle.order(scopes(&[2, 1, 1])).nodes, [2, 1, 0]);
    }

    #[test]
    fn a_chain_may_be_very_long() {
        let count = 300_000;
        let chain = closure((0..count).map(|node| vec![node + 1]).chain([vec![]]).collect());
        let TopologicalOrder { nodes, cycles } = chain.order(|_| 0);
        assert!(nodes.iter().rev().copied().eq(0..=count));
        assert!(cycles.is_empty());
        let ring = closure((0..count).map(|node| vec![(node + 1) % count]).collect());
        assert_eq!(ring.order(|_| 0).cycles[0].len(), count as usize);
    }

    /// The order by its definition: in each scope, always the smallest id of which everything required is there.
    fn plain_order(closure: &DependencyClosure, scopes: &[usize]) -> Vec<u32> {
        let all: Vec<u32> = closure.snippets.clone();
        let reaches: Vec<BTreeSet<u32>> = all.iter().map(|node| reach(closure, *node)).collect();
        let reaches = |node: u32| &reaches[node as usize];
        let is_circle =
            |a: u32, b: u32| a == b || reaches(a).contains(&b) && reaches(b).contains(&a);
        // In a circle: what each member requires of it, but for one that is given up because all wait for each other,
        // the smallest; that one waits for those that did not have to.
        let mut inside: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); all.len()];
        for smallest in &all {
            let circle: BTreeSet<u32> =
                all.iter().copied().filter(|node| is_circle(*smallest, *node)).collect();
            let mut left = circle.clone();
            while let Some(first) =
                left.first().copied().filter(|_| circle.first() == Some(smallest))
            {
                let requires = |node: u32| {
                    let required = closure.requires(node).iter().copied();
                    required.filter(move |required| *required != node)
                };
                let free = left
                    .iter()
                    .copied()
                    .find(|node| requires(*node).all(|required| !left.contains(&required)));
                inside[free.unwrap_or(first) as usize] = match free {
                    Some(free) => {
                        requires(free).filter(|required| circle.contains(required)).collect()
                    }
                    None => circle.difference(&left).copied().collect(),
                };
                left.remove(&free.unwrap_or(first));
            }
        }
        let before = |node: u32| {
            let mut before: BTreeSet<u32> =
                reaches(node).iter().copied().filter(|other| !is_circle(node, *other)).collect();
            let mut stack = vec![node];
            while let Some(at) = stack.pop() {
                stack.extend(
                    inside[at as usize].iter().filter(|required| before.insert(**required)),
                );
            }
            before
        };
        let mut nodes: Vec<u32> = Vec::new();
        for scope in 0..3 {
            let mut left: Vec<u32> =
                all.iter().copied().filter(|node| scopes[*node as usize] == scope).collect();
            while !left.is_empty() {
                let is_ready =
                    |node: &u32| before(*node).iter().all(|required| !left.contains(required));
                let place = left.iter().position(is_ready).unwrap();
                nodes.push(left.remove(place));
            }
        }
        nodes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_order_is_that_of_the_definition(
            requires in prop::collection::vec(prop::collection::vec(0_u32..10, 0..3), 10),
            scopes in prop::collection::vec(0_usize..3, 10),
        ) {
            let closure = closure(requires);
            let order = closure.order(|node| scopes[node as usize]).nodes;
            prop_assert_eq!(order, plain_order(&closure, &scopes));
        }

        #[test]
        fn ways_are_shortest(
            requires in prop::collection::vec(prop::collection::vec(0_u32..12, 0..3), 12),
            starts in prop::collection::vec(0_u32..12, 1..4),
            most in 2_usize..5,
        ) {
            let closure = closure(requires);
            let ways = closure.shortest_paths_from(&starts);
            // Step by step, everything that is so far away.
            let mut level: BTreeSet<u32> = starts.iter().copied().collect();
            let mut far: Vec<Option<usize>> = vec![None; 12];
            for length in 0..12 {
                level.retain(|node| far[*node as usize].is_none());
                level.iter().for_each(|node| far[*node as usize] = Some(length));
                level = level.iter().flat_map(|node| closure.requires(*node)).copied().collect();
            }
            for node in 0..12 {
                prop_assert_eq!(ways.length(node), far[node as usize]);
                let way: Vec<u32> = ways.to(node, usize::MAX);
                prop_assert_eq!(way.len(), far[node as usize].unwrap_or(0));
                prop_assert!(way.first().is_none_or(|first| starts.contains(first)));
                let steps = way.iter().zip(way.iter().skip(1).chain([&node]));
                prop_assert!(steps.into_iter().all(|(from, to)| closure.requires(*from).contains(to)));
                let short = ways.to(node, most);
                let end = &way[way.len() - short.len().saturating_sub(1)..];
                prop_assert_eq!(short.len(), way.len().min(most));
                prop_assert_eq!(short.first(), way.first());
                prop_assert!(short.is_empty() || short.ends_with(end));
            }
        }

        #[test]
        fn the_order_is_what_it_says(
            requires in prop::collection::vec(prop::collection::vec(0_u32..12, 0..4), 12),
            scopes in prop::collection::vec(0_usize..3, 12),
        ) {
            let closure = closure(requires);
            let TopologicalOrder { nodes, cycles } = closure.order(|node| scopes[node as usize]);
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
