//! What to leave out of a context that is too large.
//!
//! Only what was asked for can be left out, and with it goes what nothing else requires. To leave out what something else
//! requires does nothing, so that is not suggested, unless nothing better fits.
//!
//! What is printed for a snippet hardly depends on what else is asked for: its text does not, and the line that says why it
//! is in depends only on the nearest request that leads to it. So what is left of any set of requests can be estimated from
//! a few [counts](costs). Up to [`MAX_EXACT_REQUESTS`] requests, that is done for all sets of them at once, and the
//! [smallest](exact) that fits is found and proven to be. Above, a set is found by [taking the best](greedy) one after the
//! other, and the answer says that fewer may do. Either way, what is left is printed and counted before it is suggested,
//! because the counts of parts do not add up to the count of the whole.

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

/// Up to so many requests, all sets of them are looked at.
const MAX_EXACT_REQUESTS: usize = 18;

/// Looking at all sets takes a line for each request and each snippet that it leads to. Up to so many, that is done.
const MAX_EXACT_LINES: usize = 100_000;

/// Sets are printed and counted as long as they are so few, or so short together.
const MAX_TRIALS: usize = 64;
const MAX_CHEAP_BYTES: usize = 8 << 20;

/// Says by how much a context is too large, and what to leave out.
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

/// What is to be answered.
struct Question<'a, 't> {
    catalog: &'a SnippetCatalog<'t>,
    closure: DependencyClosure,
    /// The numbers of what was asked for, in the order it was.
    requested: &'a [u32],
    /// The same, ascending. Their places in here are what sets are made of.
    requests: Vec<u32>,
    /// The node of each request.
    nodes: Vec<u32>,
    costs: Costs,
    budget: usize,
}

/// Requests to keep.
#[derive(Debug, PartialEq, Eq)]
struct Advice {
    kept: BitSet,
    /// How many tokens they have.
    tokens: usize,
    /// Whether it was shown that no more can be kept.
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

/// Prints and counts what is left of a request.
struct Trial<'a, 'b, 't> {
    question: &'a Question<'a, 't>,
    bodies: &'a mut BodyStore<'b>,
    tried: usize,
    bytes: usize,
}

impl Trial<'_, '_, '_> {
    /// How many tokens these requests have.
    fn count(&mut self, kept: &BitSet) -> usize {
        let text = self.print(kept);
        self.bodies.counter.count(&text)
    }

    /// How many tokens these requests have, if they fit.
    fn fits(&mut self, kept: &BitSet) -> Option<usize> {
        let text = self.print(kept);
        self.bodies.counter.count_up_to(&text, self.question.budget)
    }

    /// Whether enough was tried.
    fn is_over(&self) -> bool {
        self.tried >= MAX_TRIALS && !self.is_cheap()
    }

    /// Whether all that was printed is so short that more of it does not matter.
    fn is_cheap(&self) -> bool {
        self.bytes < MAX_CHEAP_BYTES
    }

    fn print(&mut self, kept: &BitSet) -> String {
        let Question { catalog, requested, requests, .. } = self.question;
        let is_kept =
            |number: &u32| requests.binary_search(number).is_ok_and(|place| kept.contains(place));
        // As somebody would ask who leaves out the others.
        let requested: Vec<u32> = requested.iter().copied().filter(is_kept).collect();
        let context = catalog.context(&requested, self.bodies);
        let text = context.render(self.bodies.options.format);
        self.tried += 1;
        self.bytes += text.len();
        text
    }
}
