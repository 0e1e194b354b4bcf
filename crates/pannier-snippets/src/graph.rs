//! The dependency graph: transitive closure, shortest paths and the topological order of a response.
//!
//! A response is sorted by scope. Within a scope, dependencies precede their dependents, and ties are broken by id. Each
//! scope has its own run of Kahn's algorithm with a heap of ready nodes. Nodes of other scopes are not part of the output
//! of that run; they are visited as soon as they are ready, so that they only carry transitive dependencies.
//!
//! The nodes of a cycle would never become ready. Tarjan's algorithm finds the strongly connected components first. If a
//! component waits for no other component and has no ready node, the run breaks the cycle at its smallest unvisited node.
//! The choice does not depend on the scope, because a cycle is broken only when no node of its component is ready.
//! Dependents of a cycle follow the whole component.
//!
//! Nothing is recursive, because a chain may be as long as the catalog. A run takes O(E + V log V).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use crate::SnippetCatalog;

/// The requested snippets and their transitive dependencies. Nodes are numbered in id order.
#[derive(Debug)]
pub(crate) struct DependencyClosure {
    /// The number of each node's snippet in the catalog, ascending.
    pub(crate) snippets: Vec<u32>,
    /// The dependencies of each node, ascending.
    requires: Vec<Vec<u32>>,
    /// The shortest paths from the requested nodes.
    pub(crate) paths: ShortestPaths,
    /// References without a target, each with its node.
    pub(crate) dangling: Vec<(u32, String)>,
}

/// The last step of a shortest path to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathNode {
    /// The first node of the path.
    start: u32,
    /// The node before the last; the node itself if the path is empty.
    parent: u32,
    /// The number of edges.
    length: usize,
}

/// A shortest path to each node from a set of start nodes. Ties go to the smallest start node.
#[derive(Debug)]
pub(crate) struct ShortestPaths(Vec<Option<PathNode>>);

impl ShortestPaths {
    /// Returns the length of the path to a node, if it is reachable.
    pub(crate) fn length(&self, node: u32) -> Option<usize> {
        self.0[node as usize].map(|step| step.length)
    }

    /// Returns the nodes of the path to a node, without the node itself. Of a path with more than `max_nodes`, only the
    /// first node and the last ones: the lengths of all paths together may be quadratic.
    pub(crate) fn to(&self, node: u32, max_nodes: usize) -> Vec<u32> {
        let mut nodes = Vec::new();
        let mut step = self.0[node as usize];
        while let Some(PathNode { start, parent, length }) = step.filter(|step| step.length > 0) {
            let is_full = nodes.len() + 1 >= max_nodes && length > 1;
            nodes.push(if is_full { start } else { parent });
            step = if is_full { None } else { self.0[parent as usize] };
        }
        nodes.reverse();
        nodes
    }
}

impl DependencyClosure {
    /// Collects the transitive dependencies of these snippets.
    pub(crate) fn new(catalog: &SnippetCatalog<'_>, requested: &[u32]) -> Self {
        let mut is_seen = vec![false; catalog.snippets().len()];
        let mut stack = Vec::new();
        for number in requested {
            if !std::mem::replace(&mut is_seen[*number as usize], true) {
                stack.push(*number);
            }
        }
        let mut edges: Vec<(u32, Vec<u32>)> = Vec::new();
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
            edges.push((number, requires));
        }
        edges.sort_unstable();
        dangling.sort_unstable();
        dangling.dedup();
        let snippets: Vec<u32> = edges.iter().map(|(number, _)| *number).collect();
        let mut nodes = vec![0; catalog.snippets().len()];
        (0..).zip(&snippets).for_each(|(node, number)| nodes[*number as usize] = node);
        let node = |number: u32| nodes[number as usize];
        let requires = edges
            .into_iter()
            .map(|(_, requires)| requires.into_iter().map(node).collect())
            .collect();
        let dangling = dangling.into_iter().map(|(number, text)| (node(number), text)).collect();
        let mut closure = Self { snippets, requires, paths: ShortestPaths(Vec::new()), dangling };
        let starts: Vec<u32> = requested.iter().map(|number| node(*number)).collect();
        closure.paths = closure.shortest_paths_from(&starts);
        closure
    }

    /// Finds shortest paths from these nodes by breadth-first search.
    pub(crate) fn shortest_paths_from(&self, starts: &[u32]) -> ShortestPaths {
        let mut steps: Vec<Option<PathNode>> = vec![None; self.len()];
        let mut starts = starts.to_vec();
        starts.sort_unstable();
        for start in &starts {
            steps[*start as usize] = Some(PathNode { start: *start, parent: *start, length: 0 });
        }
        starts.dedup();
        let mut queue = VecDeque::from(starts);
        while let Some(node) = queue.pop_front() {
            let step = steps[node as usize];
            for required in self.requires(node) {
                if steps[*required as usize].is_none() {
                    steps[*required as usize] =
                        step.map(|step| PathNode { parent: node, length: step.length + 1, ..step });
                    queue.push_back(*required);
                }
            }
        }
        ShortestPaths(steps)
    }

    /// Returns the node of a snippet of the closure.
    pub(crate) fn node(&self, number: u32) -> Option<u32> {
        let node = self.snippets.binary_search(&number).ok()?;
        u32::try_from(node).ok()
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.snippets.len()
    }

    /// Returns the dependencies of a node.
    pub(crate) fn requires(&self, node: u32) -> &[u32] {
        &self.requires[node as usize]
    }

    /// Sorts the nodes by scope and topologically within a scope, and finds a cycle of each cyclic component.
    pub(crate) fn order(&self, scope: impl Fn(u32) -> usize) -> TopologicalOrder {
        let components = self.strongly_connected_components();
        let dependents = self.dependents();
        let scopes: Vec<usize> = (0..).take(self.len()).map(scope).collect();
        let mut nodes = Vec::with_capacity(self.len());
        for scope in scopes.iter().copied().collect::<BTreeSet<usize>>() {
            let is_in_scope = |node: u32| scopes[node as usize] == scope;
            nodes.extend(ScopedTopoSort::new(self, &components, &dependents, is_in_scope).run());
        }
        let members = components.members.iter();
        let mut cycles: Vec<Vec<u32>> =
            members.filter_map(|members| self.shortest_cycle(&components, members)).collect();
        cycles.sort_unstable();
        TopologicalOrder { nodes, cycles }
    }

    /// Returns the dependents of each node, without itself.
    fn dependents(&self) -> Vec<Vec<u32>> {
        let mut dependents = vec![Vec::new(); self.len()];
        for node in (0..).take(self.len()) {
            for required in self.requires(node).iter().filter(|required| **required != node) {
                dependents[*required as usize].push(node);
            }
        }
        dependents
    }

    /// Returns a shortest cycle through the smallest node of a component, starting there.
    fn shortest_cycle(&self, components: &Components, members: &[u32]) -> Option<Vec<u32>> {
        let smallest = *members.first()?;
        if self.requires(smallest).binary_search(&smallest).is_ok() {
            return Some(vec![smallest]);
        }
        if members.len() == 1 {
            return None;
        }
        let component = components.of[smallest as usize];
        let position = |node: u32| members.binary_search(&node).unwrap_or_default();
        let mut parents = vec![None; members.len()];
        let mut queue = VecDeque::from([smallest]);
        while let Some(node) = queue.pop_front() {
            for required in self.requires(node) {
                if *required == smallest {
                    let mut cycle = vec![node];
                    let mut last = node;
                    while let Some(parent) = parents[position(last)].filter(|_| last != smallest) {
                        cycle.push(parent);
                        last = parent;
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if components.of[*required as usize] == component
                    && parents[position(*required)].is_none()
                {
                    parents[position(*required)] = Some(node);
                    queue.push_back(*required);
                }
            }
        }
        None
    }

    /// Finds the strongly connected components by Tarjan's algorithm, with an explicit stack.
    fn strongly_connected_components(&self) -> Components {
        const UNVISITED: u32 = u32::MAX;
        let count = self.len();
        let mut discovery = vec![UNVISITED; count];
        let mut lowlink = vec![0_u32; count];
        let mut of = vec![UNVISITED; count];
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut stack: Vec<u32> = Vec::new();
        let mut calls: Vec<(u32, usize)> = Vec::new();
        let mut counter = 0;
        for start in (0..).take(count) {
            if discovery[start as usize] != UNVISITED {
                continue;
            }
            calls.push((start, 0));
            while let Some((node, edge)) = calls.last_mut() {
                let index = *node as usize;
                if *edge == 0 {
                    (discovery[index], lowlink[index]) = (counter, counter);
                    counter += 1;
                    stack.push(*node);
                }
                if let Some(required) = self.requires[index].get(*edge) {
                    *edge += 1;
                    let target = *required as usize;
                    if discovery[target] == UNVISITED {
                        calls.push((*required, 0));
                    } else if of[target] == UNVISITED {
                        lowlink[index] = lowlink[index].min(discovery[target]);
                    }
                    continue;
                }
                let node = *node;
                calls.pop();
                if let Some((parent, _)) = calls.last() {
                    let parent = *parent as usize;
                    lowlink[parent] = lowlink[parent].min(lowlink[index]);
                }
                if lowlink[index] == discovery[index] {
                    let from = stack.iter().rposition(|other| *other == node).unwrap_or(0);
                    let mut component = stack.split_off(from);
                    component.sort_unstable();
                    let number = u32::try_from(members.len()).unwrap_or(UNVISITED);
                    component.iter().for_each(|member| of[*member as usize] = number);
                    members.push(component);
                }
            }
        }
        Components { of, members }
    }
}

/// The nodes in response order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TopologicalOrder {
    pub(crate) nodes: Vec<u32>,
    /// A shortest cycle of each cyclic component, starting at its smallest node.
    pub(crate) cycles: Vec<Vec<u32>>,
}

/// The strongly connected components of a closure.
#[derive(Debug)]
struct Components {
    /// The component of each node.
    of: Vec<u32>,
    /// The nodes of each component, ascending.
    members: Vec<Vec<u32>>,
}

/// A topological sort that outputs the nodes of one scope.
struct ScopedTopoSort<'a, M> {
    components: &'a Components,
    /// The dependents of each node.
    dependents: &'a [Vec<u32>],
    is_in_scope: M,
    /// The number of unvisited dependencies of each node, without itself.
    pending: Vec<usize>,
    /// The number of unvisited dependencies of each component outside of it, once for each edge.
    pending_outside: Vec<usize>,
    /// The number of queued nodes of each component.
    ready: Vec<usize>,
    /// The number of unvisited nodes of each component.
    unvisited: Vec<usize>,
    /// The position in each component up to which all nodes are queued.
    cursor: Vec<usize>,
    is_queued: Vec<bool>,
    /// The ready nodes in scope.
    heap: BinaryHeap<Reverse<u32>>,
    /// The ready nodes of other scopes, which are visited first.
    out_of_scope: Vec<u32>,
}

impl<'a, M: Fn(u32) -> bool> ScopedTopoSort<'a, M> {
    fn new(
        closure: &DependencyClosure,
        components: &'a Components,
        dependents: &'a [Vec<u32>],
        is_in_scope: M,
    ) -> Self {
        let mut sort = Self {
            components,
            dependents,
            is_in_scope,
            pending: vec![0; closure.len()],
            pending_outside: vec![0; components.members.len()],
            ready: vec![0; components.members.len()],
            unvisited: components.members.iter().map(Vec::len).collect(),
            cursor: vec![0; components.members.len()],
            is_queued: vec![false; closure.len()],
            heap: BinaryHeap::new(),
            out_of_scope: Vec::new(),
        };
        for node in (0..).take(closure.len()) {
            for required in closure.requires(node).iter().filter(|required| **required != node) {
                sort.pending[node as usize] += 1;
                if components.of[*required as usize] != components.of[node as usize] {
                    sort.pending_outside[components.of[node as usize] as usize] += 1;
                }
            }
        }
        sort
    }

    fn run(&mut self) -> Vec<u32> {
        (0..self.components.members.len()).for_each(|component| self.break_cycle(component));
        let mut sorted = Vec::new();
        loop {
            if let Some(node) = self.out_of_scope.pop() {
                self.visit(node);
            } else if let Some(Reverse(node)) = self.heap.pop() {
                sorted.push(node);
                self.visit(node);
            } else {
                return sorted;
            }
        }
    }

    fn visit(&mut self, node: u32) {
        let component = self.components.of[node as usize];
        self.ready[component as usize] -= 1;
        self.unvisited[component as usize] -= 1;
        self.release(node, |other| other == component);
        // Dependents outside of a component wait for all of its nodes.
        if self.unvisited[component as usize] == 0 {
            for member in &self.components.members[component as usize] {
                self.release(*member, |other| other != component);
            }
        }
        self.break_cycle(component as usize);
    }

    /// Decrements the pending counts of the dependents of a node whose component satisfies the predicate.
    fn release(&mut self, node: u32, is_released: impl Fn(u32) -> bool) {
        let dependents = self.dependents;
        for dependent in &dependents[node as usize] {
            let component = self.components.of[*dependent as usize];
            if !is_released(component) {
                continue;
            }
            self.pending[*dependent as usize] -= 1;
            if self.pending[*dependent as usize] == 0 {
                self.queue(*dependent);
            }
            if component != self.components.of[node as usize] {
                self.pending_outside[component as usize] -= 1;
                self.break_cycle(component as usize);
            }
        }
    }

    fn queue(&mut self, node: u32) {
        if std::mem::replace(&mut self.is_queued[node as usize], true) {
            return;
        }
        self.ready[self.components.of[node as usize] as usize] += 1;
        match (self.is_in_scope)(node) {
            true => self.heap.push(Reverse(node)),
            false => self.out_of_scope.push(node),
        }
    }

    /// Queues the smallest unqueued node of a component that has no ready node and no pending dependency outside.
    fn break_cycle(&mut self, component: usize) {
        if self.pending_outside[component] > 0 || self.ready[component] > 0 {
            return;
        }
        let members = &self.components.members[component];
        while let Some(member) = members.get(self.cursor[component]) {
            self.cursor[component] += 1;
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
        let paths = ShortestPaths(vec![None; requires.len()]);
        DependencyClosure { snippets: (0..count).collect(), requires, paths, dangling: Vec::new() }
    }

    /// Returns the transitive dependencies of a node.
    fn reach(closure: &DependencyClosure, from: u32) -> BTreeSet<u32> {
        let mut reached = BTreeSet::new();
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            stack.extend(
                closure.requires(node).iter().filter(|required| reached.insert(**required)),
            );
        }
        reached
    }

    #[test]
    fn dependencies_come_first_then_the_smaller_id() {
        let order = |requires: Vec<Vec<u32>>| closure(requires).order(|_| 0).nodes;
        assert_eq!(order(vec![vec![], vec![], vec![]]), [0, 1, 2]);
        assert_eq!(order(vec![vec![2], vec![], vec![]]), [1, 2, 0]);
        assert_eq!(order(vec![vec![1], vec![2], vec![]]), [2, 1, 0]);
    }

    #[test]
    fn a_cycle_is_broken_at_its_smallest_id_and_reported_from_there() {
        let two = closure(vec![vec![1], vec![0], vec![]]).order(|_| 0);
        assert_eq!(two, TopologicalOrder { nodes: vec![0, 1, 2], cycles: vec![vec![0, 1]] });
        let own = closure(vec![vec![0], vec![]]).order(|_| 0);
        assert_eq!(own, TopologicalOrder { nodes: vec![0, 1], cycles: vec![vec![0]] });
        // 1 waits for 4, which is outside of its cycle.
        let late = closure(vec![vec![], vec![2], vec![3, 4], vec![1], vec![]]).order(|_| 0);
        assert_eq!(
            late,
            TopologicalOrder { nodes: vec![0, 4, 1, 3, 2], cycles: vec![vec![1, 2, 3]] }
        );
        // Two cycles with a common node are one component; only the shortest through the smallest node is reported.
        let eight = closure(vec![vec![1, 2], vec![0], vec![3], vec![0, 2]]).order(|_| 0);
        assert_eq!(eight.cycles, [vec![0, 1]]);
        assert_eq!(eight.nodes, [0, 1, 2, 3]);
    }

    #[test]
    fn nodes_of_other_scopes_only_carry_transitive_dependencies() {
        let scopes = |list: &'static [usize]| |node: u32| list[node as usize];
        // 0 and 1 have the scope domain; 0 requires 2 of the scope project, which does not require 1.
        let free = closure(vec![vec![2], vec![], vec![]]);
        assert_eq!(free.order(scopes(&[1, 1, 2])).nodes, [0, 1, 2]);
        // 0 requires 1 through 2 of the scope project.
        let through = closure(vec![vec![2], vec![], vec![1]]);
        assert_eq!(through.order(scopes(&[1, 1, 2])).nodes, [1, 0, 2]);
        // A cycle is broken at its smallest id regardless of scopes.
        let cycle = closure(vec![vec![1], vec![2], vec![0]]);
        assert_eq!(cycle.order(scopes(&[2, 1, 1])).nodes, [2, 1, 0]);
    }

    #[test]
    fn long_chains_and_cycles_do_not_overflow_the_stack() {
        let count = 300_000;
        let chain = closure((0..count).map(|node| vec![node + 1]).chain([vec![]]).collect());
        let TopologicalOrder { nodes, cycles } = chain.order(|_| 0);
        assert!(nodes.iter().rev().copied().eq(0..=count));
        assert!(cycles.is_empty());
        let ring = closure((0..count).map(|node| vec![(node + 1) % count]).collect());
        assert_eq!(ring.order(|_| 0).cycles[0].len(), count as usize);
    }

    /// The order by definition: in each scope, always the smallest id whose dependencies precede it.
    fn plain_order(closure: &DependencyClosure, scopes: &[usize]) -> Vec<u32> {
        let all: Vec<u32> = closure.snippets.clone();
        let reaches: Vec<BTreeSet<u32>> = all.iter().map(|node| reach(closure, *node)).collect();
        let reaches = |node: u32| &reaches[node as usize];
        let is_cycle =
            |a: u32, b: u32| a == b || reaches(a).contains(&b) && reaches(b).contains(&a);
        // The dependencies of each node within its cycle. Where all remaining nodes wait for each other, the smallest is
        // freed: it only waits for the nodes that are already ordered.
        let mut inside: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); all.len()];
        for smallest in &all {
            let cycle: BTreeSet<u32> =
                all.iter().copied().filter(|node| is_cycle(*smallest, *node)).collect();
            let mut remaining = cycle.clone();
            while let Some(first) =
                remaining.first().copied().filter(|_| cycle.first() == Some(smallest))
            {
                let requires = |node: u32| {
                    let required = closure.requires(node).iter().copied();
                    required.filter(move |required| *required != node)
                };
                let free = remaining
                    .iter()
                    .copied()
                    .find(|node| requires(*node).all(|required| !remaining.contains(&required)));
                inside[free.unwrap_or(first) as usize] = match free {
                    Some(free) => {
                        requires(free).filter(|required| cycle.contains(required)).collect()
                    }
                    None => cycle.difference(&remaining).copied().collect(),
                };
                remaining.remove(&free.unwrap_or(first));
            }
        }
        let before = |node: u32| {
            let mut before: BTreeSet<u32> =
                reaches(node).iter().copied().filter(|other| !is_cycle(node, *other)).collect();
            let mut stack = vec![node];
            while let Some(member) = stack.pop() {
                stack.extend(
                    inside[member as usize].iter().filter(|required| before.insert(**required)),
                );
            }
            before
        };
        let mut nodes: Vec<u32> = Vec::new();
        for scope in 0..3 {
            let mut remaining: Vec<u32> =
                all.iter().copied().filter(|node| scopes[*node as usize] == scope).collect();
            while !remaining.is_empty() {
                let is_ready =
                    |node: &u32| before(*node).iter().all(|required| !remaining.contains(required));
                let position = remaining.iter().position(is_ready).unwrap();
                nodes.push(remaining.remove(position));
            }
        }
        nodes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_order_equals_the_definition(
            requires in prop::collection::vec(prop::collection::vec(0_u32..10, 0..3), 10),
            scopes in prop::collection::vec(0_usize..3, 10),
        ) {
            let closure = closure(requires);
            let order = closure.order(|node| scopes[node as usize]).nodes;
            prop_assert_eq!(order, plain_order(&closure, &scopes));
        }

        #[test]
        fn paths_are_shortest(
            requires in prop::collection::vec(prop::collection::vec(0_u32..12, 0..3), 12),
            starts in prop::collection::vec(0_u32..12, 1..4),
            max_nodes in 2_usize..5,
        ) {
            let closure = closure(requires);
            let paths = closure.shortest_paths_from(&starts);
            // Level by level.
            let mut level: BTreeSet<u32> = starts.iter().copied().collect();
            let mut distances: Vec<Option<usize>> = vec![None; 12];
            for length in 0..12 {
                level.retain(|node| distances[*node as usize].is_none());
                level.iter().for_each(|node| distances[*node as usize] = Some(length));
                level = level.iter().flat_map(|node| closure.requires(*node)).copied().collect();
            }
            for node in 0..12 {
                prop_assert_eq!(paths.length(node), distances[node as usize]);
                let path: Vec<u32> = paths.to(node, usize::MAX);
                prop_assert_eq!(path.len(), distances[node as usize].unwrap_or(0));
                prop_assert!(path.first().is_none_or(|first| starts.contains(first)));
                let steps = path.iter().zip(path.iter().skip(1).chain([&node]));
                prop_assert!(steps.into_iter().all(|(from, to)| closure.requires(*from).contains(to)));
                let short = paths.to(node, max_nodes);
                let end = &path[path.len() - short.len().saturating_sub(1)..];
                prop_assert_eq!(short.len(), path.len().min(max_nodes));
                prop_assert_eq!(short.first(), path.first());
                prop_assert!(short.is_empty() || short.ends_with(end));
            }
        }

        #[test]
        fn the_order_is_topological_and_cycles_are_complete(
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
            let position = |node: u32| nodes.iter().position(|other| *other == node).unwrap();
            let reaches: Vec<BTreeSet<u32>> = (0..12).map(|node| reach(&closure, node)).collect();
            let mut in_cycle = BTreeSet::new();
            for node in 0..12 {
                for required in &reaches[node as usize] {
                    let is_cycle = reaches[*required as usize].contains(&node);
                    if is_cycle {
                        in_cycle.insert(node);
                    } else if scope(&node) == scope(required) {
                        prop_assert!(position(*required) < position(node));
                    }
                }
            }
            // Each reported cycle is a cycle that starts at its smallest id, and every cyclic component is reported once.
            let mut reported = BTreeSet::new();
            for cycle in &cycles {
                let next = cycle.iter().skip(1).chain(&cycle[..1]);
                prop_assert!(cycle.iter().zip(next).all(|(node, next)| closure.requires(*node).contains(next)));
                let component: BTreeSet<u32> = reaches[cycle[0] as usize]
                    .iter()
                    .copied()
                    .filter(|node| reaches[*node as usize].contains(&cycle[0]))
                    .collect();
                prop_assert_eq!(component.first(), cycle.first());
                for node in component {
                    prop_assert!(reported.insert(node));
                }
            }
            prop_assert_eq!(reported, in_cycle);
        }
    }
}
