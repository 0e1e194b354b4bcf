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
        stack.extend(closure.requires(node).iter().filter(|required| reached.insert(**required)));
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
    assert_eq!(late, TopologicalOrder { nodes: vec![0, 4, 1, 3, 2], cycles: vec![vec![1, 2, 3]] });
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
    let is_cycle = |a: u32, b: u32| a == b || reaches(a).contains(&b) && reaches(b).contains(&a);
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
                Some(free) => requires(free).filter(|required| cycle.contains(required)).collect(),
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
