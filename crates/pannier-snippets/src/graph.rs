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

#[cfg(test)]
mod tests;

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
    fn shortest_paths_from(&self, starts: &[u32]) -> ShortestPaths {
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

    /// Returns a node and its transitive dependencies.
    pub(crate) fn reach(&self, from: u32) -> BTreeSet<u32> {
        let mut reached = BTreeSet::from([from]);
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            stack.extend(self.requires(node).iter().filter(|required| reached.insert(**required)));
        }
        reached
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
