//! Shares the budget between kinds, so that a larger budget never takes back what a smaller one had.
//!
//! The order is that of weighted fair queuing. Of the best candidates of all kinds, the next is the one after which its
//! kind has the fewest tokens in proportion to its weight. A kind without candidates leaves its share to the others.
//!
//! This order does not depend on the budget, and whole candidates are always a prefix of it. So what is whole at one
//! budget is whole at every larger one. The price is that the first candidate that does not fit ends the whole ones: it
//! and those after it get shorter forms, best first.

use std::collections::{BTreeMap, BTreeSet};

use super::{Offers, Release, Slicer, SlicerProperties, Tally, percentage};
use crate::{ContextKind, Error, Level, sum_tokens};

const NAME: &str = "FairSlice";

/// The kinds that are compared before a lookup.
const MAX_RECENT_KINDS: usize = 8;

/// Shares the budget between kinds by their weights. Whole candidates come first, then shorter forms.
///
/// If not all candidates fit, whole ones fill a part of the target, and [forms](crate::ContextItem::forms) get the rest:
///
/// 1. the longest form of the next best candidate of each kind;
/// 2. the shortest form of all others, as far as they fit;
/// 3. longer forms in place of shorter ones;
/// 4. further whole candidates, if every other one has its longest form.
///
/// Candidates without forms are whole or out.
///
/// ```
/// use pannier_core::ContextKind;
/// use pannier_core::slice::FairSlice;
///
/// let weights = [(ContextKind::MESSAGE, 60.0), (ContextKind::DOCUMENT, 40.0)];
/// let slicer = FairSlice::new(weights)?.with_full_text_percent(80.0)?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FairSlice {
    weights: Vec<(ContextKind, f64)>,
    full_text_percent: f64,
}

impl Default for FairSlice {
    fn default() -> Self {
        Self { weights: Vec::new(), full_text_percent: Self::FULL_TEXT_PERCENT }
    }
}

impl FairSlice {
    /// The default of [`with_full_text_percent`](Self::with_full_text_percent).
    pub const FULL_TEXT_PERCENT: f64 = 80.0;

    /// Shares the budget by these weights, in any unit. Kinds of weight 0 and kinds that are not named come last.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a kind is named twice, or a weight is negative or not finite.
    pub fn new(weights: impl IntoIterator<Item = (ContextKind, f64)>) -> Result<Self, Error> {
        let weights: Vec<(ContextKind, f64)> = weights.into_iter().collect();
        let invalid = |problem: String| Error::InvalidSlicer { slicer: NAME, problem };
        let mut kinds = BTreeSet::new();
        for (kind, weight) in &weights {
            if !kinds.insert(kind) {
                return Err(invalid(format!("kind '{kind}' has two weights; give it one")));
            }
            if !(0.0..f64::INFINITY).contains(weight) {
                let problem = format!("kind '{kind}' has the weight {weight}; expected 0 or more");
                return Err(invalid(problem));
            }
        }
        Ok(Self { weights, ..Self::default() })
    }

    /// Sets the part of the target that whole candidates may fill if not all fit.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if it is not a percentage.
    pub fn with_full_text_percent(mut self, percent: f64) -> Result<Self, Error> {
        if !(0.0..=100.0).contains(&percent) {
            let problem = format!("full_text_percent is {percent}; expected 0 to 100");
            return Err(Error::InvalidSlicer { slicer: NAME, problem });
        }
        self.full_text_percent = percent;
        Ok(self)
    }

    /// Returns the kind of each candidate as a position in the weights; kinds without a weight are last.
    fn kinds(&self, offers: &Offers<'_>) -> Vec<usize> {
        let kinds: BTreeMap<&ContextKind, usize> =
            self.weights.iter().zip(0..).map(|((kind, _), number)| (kind, number)).collect();
        // Items of one kind often share its name, and comparing that is one instruction.
        let mut recent: Vec<(&ContextKind, usize)> = Vec::new();
        let mut number = |kind| {
            if let Some((_, number)) = recent.iter().find(|(other, _)| *other == kind) {
                return *number;
            }
            let number = kinds.get(kind).copied().unwrap_or(self.weights.len());
            if recent.len() < MAX_RECENT_KINDS {
                recent.push((kind, number));
            }
            number
        };
        offers.candidates().iter().map(|candidate| number(candidate.item.kind())).collect()
    }

    /// Returns the positions in the order of weighted fair queuing.
    fn order(&self, offers: &Offers<'_>, kinds: &[usize]) -> Vec<usize> {
        let mut queues = vec![Vec::new(); self.weights.len() + 1];
        // Reversed: the best is popped first.
        for position in (0..kinds.len()).rev() {
            queues[kinds[position]].push(position);
        }
        let weight = |kind: usize| self.weights.get(kind).map_or(0.0, |(_, weight)| *weight);
        // The tokens of a kind with its next candidate, in proportion to its weight.
        let share = |kind: usize, tokens: f64| match weight(kind) {
            weight if weight > 0.0 => tokens / weight,
            _ => f64::INFINITY,
        };
        let head = |kind: usize, queue: &[usize], used: f64| {
            let tokens = used + offers.candidates()[*queue.last()?].tokens as f64;
            Some((share(kind, tokens), tokens))
        };
        let mut heads: Vec<Option<(f64, f64)>> =
            queues.iter().enumerate().map(|(kind, queue)| head(kind, queue, 0.0)).collect();
        let mut order = Vec::with_capacity(kinds.len());
        let next = |heads: &[Option<(f64, f64)>]| {
            let heads = heads.iter().enumerate();
            let heads = heads.filter_map(|(kind, head)| head.map(|head| (kind, head)));
            heads.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))
        };
        while let Some((kind, (_, used))) = next(&heads) {
            order.extend(queues[kind].pop());
            heads[kind] = head(kind, &queues[kind], used);
        }
        order
    }
}

impl Slicer for FairSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let target = tally.budget().target_tokens;
        if target <= 0 {
            return Ok(());
        }
        let offers = tally.offers();
        let kinds = self.kinds(offers);
        let order = self.order(offers, &kinds);
        let limit = match total_tokens(offers) <= target {
            true => target,
            false => {
                // The parts for whole and for shorter forms grow with every token.
                tally.changes_at(target.saturating_add(1));
                percentage(self.full_text_percent, target)
            }
        };
        let mut whole_tokens = 0_i64;
        let mut take_whole = |position: &usize| {
            whole_tokens = whole_tokens.saturating_add(offers.candidates()[*position].tokens);
            whole_tokens <= limit && tally.take(*position, Level::WHOLE)
        };
        let whole = order.iter().take_while(|position| take_whole(position)).count();
        let mut rest = order[whole..].iter().copied();
        let mut seen = BTreeSet::new();
        for position in rest.clone().filter(|position| seen.insert(kinds[*position])) {
            take_longest(tally, position);
        }
        for position in rest.clone().filter(|position| offers.levels(*position) > 1) {
            tally.take(position, Level::last(offers.levels(position)));
        }
        rest.clone().for_each(|position| take_longest(tally, position));
        let has_longest = |position: usize| {
            let level = tally.level(position).map(|level| level.get());
            offers.levels(position) < 2 || level.is_some_and(|level| level < 2)
        };
        if rest.clone().all(has_longest) {
            rest.all(|position| tally.take(position, Level::WHOLE));
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties {
            splits_budget_by_kind: true,
            release: Release::LastTaken,
            ..SlicerProperties::UNORDERED
        }
    }
}

/// The tokens of all candidates whole, with headings and separators.
fn total_tokens(offers: &Offers<'_>) -> i64 {
    let candidates = offers.candidates();
    // Sections are few, so this is faster than sorting those of all candidates.
    let mut seen = BTreeSet::new();
    let sections = candidates.iter().map(|candidate| candidate.section);
    let headings =
        sections.filter(|section| seen.insert(*section)).map(|section| offers.heading(section));
    let separators = std::iter::repeat_n(offers.separator(), candidates.len().saturating_sub(1));
    sum_tokens(
        candidates.iter().map(|candidate| candidate.tokens).chain(headings).chain(separators),
    )
}

/// Takes a candidate in its longest form below the whole that fits.
fn take_longest(tally: &mut Tally<'_, '_>, position: usize) {
    let levels = match tally.level(position) {
        Some(level) => level.get(),
        None => tally.offers().levels(position),
    };
    Level::new(1).up_to(levels).any(|level| tally.take(position, level));
}
