//! Suggests requests to drop from a response that exceeds its budget.
//!
//! Dropping a request also drops the dependencies that no other request needs. Requests that another request requires are
//! not suggested unless nothing else fits, because they would remain as dependencies.
//!
//! The rendered cost of a snippet hardly depends on the other requests: only its chain does. So a few [counts](costs)
//! estimate the cost of every subset. Up to [`MAX_EXACT_REQUESTS`] requests, an [exact](exact) search over all subsets
//! finds a smallest set to drop. Above that, a [greedy](greedy) search finds a small one. Both render and count the
//! remaining response before they suggest it, because token counts of parts do not add up.

mod bitset;
mod costs;
mod exact;
mod greedy;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::SnippetCatalog;
use crate::drop_advice::bitset::BitSet;
use crate::drop_advice::costs::Costs;
use crate::error::{OverBudget, SnippetCost};
use crate::get::{BodyStore, SnippetBundle};
use crate::graph::DependencyClosure;

/// The maximum number of requests for the exact search.
const MAX_EXACT_REQUESTS: usize = 18;

/// The maximum number of pairs of a request and a reachable snippet for the exact search.
const MAX_EXACT_LINES: usize = 100_000;

/// Subsets are rendered and counted while either limit is not reached.
const MAX_TRIALS: usize = 64;
const MAX_CHEAP_BYTES: usize = 8 << 20;

/// Builds the error for a response that exceeds the budget.
pub(crate) fn over_budget(
    catalog: &SnippetCatalog<'_>,
    requested: &[u32],
    bodies: &mut BodyStore<'_>,
    context: &SnippetBundle<'_>,
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
    let question = Question::new(catalog, requested, context, bodies, budget);
    if let Some(advice) = question.advice(bodies, MAX_EXACT_REQUESTS) {
        let number = |place: usize| question.requests[place] as usize;
        let dropped = (0..question.requests.len()).filter(|place| !advice.kept.contains(*place));
        let id = |place: usize| catalog.snippets()[number(place)].id().to_owned();
        over.drop = dropped.map(id).collect();
        (over.tokens_without, over.is_smallest) = (advice.tokens, advice.is_smallest);
    }
    over
}

/// The inputs of the search.
struct Question<'a, 't> {
    catalog: &'a SnippetCatalog<'t>,
    closure: DependencyClosure,
    /// The numbers of the requested snippets, in request order.
    requested: &'a [u32],
    /// The same, ascending. Sets contain positions in this list.
    requests: Vec<u32>,
    /// The node of each request.
    nodes: Vec<u32>,
    costs: Costs,
    budget: usize,
}

/// The requests to keep.
#[derive(Debug, PartialEq, Eq)]
struct Advice {
    kept: BitSet,
    /// The tokens of the rendered response.
    tokens: usize,
    /// Whether the set of dropped requests is proven to be smallest.
    is_smallest: bool,
}

impl<'a, 't> Question<'a, 't> {
    fn new(
        catalog: &'a SnippetCatalog<'t>,
        requested: &'a [u32],
        context: &SnippetBundle<'_>,
        bodies: &BodyStore<'_>,
        budget: usize,
    ) -> Self {
        let closure = DependencyClosure::new(catalog, requested);
        let mut requests = requested.to_vec();
        requests.sort_unstable();
        let nodes = requests.iter().filter_map(|number| closure.node(*number)).collect();
        let costs = Costs::new(catalog, &closure, context, bodies);
        Self { catalog, closure, requested, requests, nodes, costs, budget }
    }

    fn advice(&self, bodies: &mut BodyStore<'_>, most_exact: usize) -> Option<Advice> {
        let count = self.requests.len();
        let mut trial = Trial { question: self, bodies, tried: 0, bytes: 0 };
        match count {
            0 | 1 => None,
            _ if count <= most_exact && count * self.closure.len() <= MAX_EXACT_LINES => {
                exact::min_drop_set(self, &mut trial)
            }
            _ => greedy::greedy_drop_set(self, &mut trial),
        }
    }
}

/// Renders and counts the response for a subset of the requests.
struct Trial<'a, 'b, 't> {
    question: &'a Question<'a, 't>,
    bodies: &'a mut BodyStore<'b>,
    tried: usize,
    bytes: usize,
}

impl Trial<'_, '_, '_> {
    /// Returns the tokens of the response.
    fn count(&mut self, kept: &BitSet) -> usize {
        let text = self.print(kept);
        self.bodies.counter.count(&text)
    }

    /// Returns the tokens of the response, if it fits the budget.
    fn fits(&mut self, kept: &BitSet) -> Option<usize> {
        let text = self.print(kept);
        self.bodies.counter.count_up_to(&text, self.question.budget)
    }

    /// Returns whether the limits are reached.
    fn is_over(&self) -> bool {
        self.tried >= MAX_TRIALS && !self.is_cheap()
    }

    /// Returns whether all rendered responses together are short.
    fn is_cheap(&self) -> bool {
        self.bytes < MAX_CHEAP_BYTES
    }

    fn print(&mut self, kept: &BitSet) -> String {
        let Question { catalog, requested, requests, .. } = self.question;
        let is_kept =
            |number: &u32| requests.binary_search(number).is_ok_and(|place| kept.contains(place));
        // In request order, as a user would repeat the request.
        let requested: Vec<u32> = requested.iter().copied().filter(is_kept).collect();
        let context = catalog.bundle(&requested, self.bodies);
        let text = context.render(self.bodies.options.format);
        self.tried += 1;
        self.bytes += text.len();
        text
    }
}
