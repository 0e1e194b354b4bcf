//! Suggests requests to drop from a response that exceeds its budget.
//!
//! A request that a kept one reaches would come back as a dependency, so a kept set has all requests that it reaches. It is
//! rendered and counted before it is suggested.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::SnippetCatalog;
use crate::error::{OverBudget, SnippetCost};
use crate::get::{BodyStore, SentSnippet, SnippetBundle};
use crate::graph::DependencyClosure;

/// Up to this number of requests, all sets are tried.
pub(crate) const MAX_EXACT_REQUESTS: usize = 8;

/// The maximum number of pairs of a request and a snippet that it reaches. Requests beyond it are dropped.
const MAX_PAIRS: usize = 1 << 20;

/// The maximum number of sets that the search among many requests tries.
const MAX_TRIALS: usize = 64;

/// Builds the error for a response that exceeds the budget.
pub(crate) fn over_budget(
    catalog: &SnippetCatalog<'_>,
    requested: &[u32],
    bodies: &mut BodyStore<'_>,
    bundle: &SnippetBundle<'_>,
    (tokens, budget): (usize, usize),
    max_exact: usize,
) -> OverBudget {
    let ids: BTreeSet<&str> = bundle.requested.iter().map(AsRef::as_ref).collect();
    let mut costs = vec![0; catalog.snippets().len()];
    let mut snippets = Vec::new();
    for SentSnippet { id, tokens, .. } in &bundle.snippets {
        catalog.find(id).into_iter().for_each(|number| costs[number as usize] = *tokens);
        let is_requested = ids.contains(&**id);
        snippets.push(SnippetCost { id: id.to_string(), tokens: *tokens, is_requested });
    }
    // Renders some requests with those that they reach. If that fits, returns the tokens and the ids of the others.
    let mut fit = |some: &[u32]| {
        let closure = DependencyClosure::new(catalog, some);
        let texts: usize = closure.snippets.iter().map(|number| costs[*number as usize]).sum();
        let is_kept = |number: &u32| closure.node(*number).is_some();
        let (kept, dropped): (Vec<u32>, Vec<u32>) = requested.iter().partition(|one| is_kept(one));
        let text = (texts <= budget)
            .then(|| catalog.bundle(&kept, bodies).render(bodies.options.format))?;
        let tokens = bodies.counter.count_up_to(&text, budget)?;
        let id = |number: &u32| catalog.snippets()[*number as usize].id().to_owned();
        Some((tokens, dropped.iter().map(id).collect::<Vec<String>>()))
    };
    let count = requested.len();
    let is_exact = count <= max_exact;
    let found = if is_exact {
        (1..count as u32).rev().find_map(|kept| {
            let sets = (0..1_usize << count).filter(|set| set.count_ones() == kept);
            let fitting = sets.filter_map(|set| {
                let some = requested.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
                fit(&some.map(|(_, number)| *number).collect::<Vec<u32>>())
            });
            fitting.max_by_key(|(tokens, _)| *tokens)
        })
    } else {
        // Small requests are kept first, in runs that are halved if they do not fit.
        let mut order = largest_first(catalog, requested, &costs);
        let (mut some, mut skipped, mut found) = (Vec::new(), Vec::new(), None);
        let mut run = order.len();
        for _ in 0..MAX_TRIALS {
            let more = order.split_off(order.len().saturating_sub(run.max(1)));
            match fit(&[some.as_slice(), &more].concat()) {
                _ if more.is_empty() => break,
                Some(fitting) => {
                    (found, run) = (Some(fitting), 2 * run);
                    some.extend(more);
                    order.splice(..0, skipped.drain(..));
                }
                None if run > 1 => {
                    run /= 2;
                    order.extend(more);
                }
                None => skipped.extend(more),
            }
        }
        found
    };
    let is_smallest = is_exact || found.as_ref().is_some_and(|(_, dropped)| dropped.len() == 1);
    let (tokens_without, drop) = found.unwrap_or_default();
    OverBudget { tokens, budget, snippets, drop, tokens_without, is_smallest }
}

/// Sorts requests by their share of the tokens, largest first. Requests share the tokens of what they all reach.
fn largest_first(catalog: &SnippetCatalog<'_>, requested: &[u32], costs: &[usize]) -> Vec<u32> {
    let closure = DependencyClosure::new(catalog, requested);
    let nodes = requested.iter().filter_map(|number| closure.node(*number));
    let within = |left: &mut usize, reached: BTreeSet<u32>| {
        *left = left.checked_sub(reached.len())?;
        Some(reached)
    };
    let reached: Vec<BTreeSet<u32>> =
        nodes.map(|node| closure.reach(node)).scan(MAX_PAIRS, within).collect();
    let mut sharers = vec![0; closure.len()];
    reached.iter().flatten().for_each(|node| sharers[*node as usize] += 1);
    let cost = |node: usize| costs[closure.snippets[node] as usize] + 1;
    let share = |node: &u32| (cost(*node as usize) << 16) / sharers[*node as usize];
    let shares = reached.iter().map(|reached| Reverse(reached.iter().map(share).sum::<usize>()));
    let mut order: Vec<(Reverse<usize>, u32)> = shares.zip(requested.iter().copied()).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| number).collect()
}
