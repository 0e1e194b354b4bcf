//! Takes candidates by what one more token brings.
//!
//! The forms of a candidate are points of tokens and value. Only those on their upper hull can be part of a good choice:
//! from one to the next, the value per token falls. So each candidate is a row of *steps*, from its shortest form on the
//! hull to the longest, and a heap yields the step with the highest value per token among all candidates.
//!
//! A heading makes the first candidate of a section cost more than the next ones. So a closed section competes as one: at
//! the value per token of its best candidates together with the heading. Once it is open, each of them competes alone.
//!
//! The hull skips forms, and the last step may not fit. So the rest of the budget goes to the longest forms that fit, in
//! order of score. For `f` forms this takes `O(f log f)`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fill::Limits;
use super::{Offers, Tally};
use crate::{Level, order};

/// The steps of all candidates.
#[derive(Debug)]
pub(super) struct Marginal {
    /// The levels on the hull of each candidate, shortest first, candidate after candidate.
    levels: Vec<Level>,
    /// Where the levels of each candidate start, and where the last ones end.
    starts: Vec<u32>,
    /// The candidates whose shortest form on the hull is sent in each section.
    members: Vec<Vec<u32>>,
}

/// A step that competes. Smaller ones come first: a higher value per token, then the better score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    density_key: u64,
    position: u32,
    level: Level,
    /// Whether it competes for a section that is closed.
    opens: bool,
}

fn density(value: f64, tokens: i64) -> f64 {
    if tokens <= 0 { f64::MAX } else { value / tokens as f64 }
}

impl Marginal {
    pub(super) fn new(offers: &Offers<'_>) -> Self {
        let candidates = offers.candidates().len();
        let mut starts = Vec::with_capacity(candidates + 1);
        let mut levels = Vec::with_capacity(candidates * 2);
        let mut members = vec![Vec::new(); offers.section_count()];
        let mut hull: Vec<(i64, f64, Level)> = Vec::new();
        for position in 0..candidates {
            starts.push(levels.len() as u32);
            hull_of(offers, position, &mut hull);
            levels.extend(hull.iter().map(|(_, _, level)| *level));
            let first = hull.first().and_then(|(_, _, level)| offers.offer(position, *level));
            if let Some(section) = first.and_then(|first| first.section.position()) {
                members[section].push(position as u32);
            }
        }
        starts.push(levels.len() as u32);
        Self { levels, starts, members }
    }

    /// Fills the budget, from what is taken already.
    pub(super) fn fill(&self, tally: &mut Tally<'_, '_>, limits: &mut Limits<'_>) {
        let is_first = tally.moves().len() == tally.offers().kept().len();
        // With shares, the best single form may not be allowed.
        if !is_first || limits.has_shares() {
            return self.take_steps(tally, limits);
        }
        let (mut single, mut single_limits) = (tally.clone(), limits.clone());
        let best = best_single(tally);
        self.take_steps(tally, limits);
        if let Some((position, level)) = best
            && single_limits.take(&mut single, position, level)
            && single.value() > tally.value()
        {
            self.take_steps(&mut single, &mut single_limits);
            single.changes_at(tally.holds_below());
            (*tally, *limits) = (single, single_limits);
        }
    }

    fn take_steps(&self, tally: &mut Tally<'_, '_>, limits: &mut Limits<'_>) {
        let offers = tally.offers();
        let candidates = offers.candidates().len();
        let mut first_steps = Vec::with_capacity(candidates);
        let mut is_listed = vec![false; self.members.len()];
        for position in 0..candidates as u32 {
            let next = self.next(tally, position, false);
            let section = next.and_then(|next| offers.offer(position as usize, next.level));
            let section = section.map(|offer| offer.section).unwrap_or_default();
            // Members of a closed section compete through it.
            if tally.level(position as usize).is_some() || !tally.opens(section) {
                first_steps.extend(next.map(Reverse));
            }
        }
        for section in 0..self.members.len() {
            first_steps.extend(self.best_prefix(tally, section).map(Reverse));
        }
        let mut steps = BinaryHeap::from(first_steps);
        while let Some(Reverse(step)) = steps.pop() {
            let position = step.position as usize;
            let current = tally.level(position);
            let Some(offer) = offers.offer(position, step.level) else { continue };
            if current.is_some_and(|current| current <= step.level) {
                continue;
            }
            let cost = tally.cost(position, step.level).unwrap_or(i64::MAX);
            if !step.opens {
                // Headings and separators are known only now.
                let gain = offer.value - value_of(offers, position, current);
                let density_key = order::descending_key(density(gain, cost));
                if density_key > step.density_key {
                    steps.push(Reverse(Step { density_key, ..step }));
                    continue;
                }
            }
            let section = offer.section.position();
            let is_taken = limits.take(tally, position, step.level);
            if is_taken {
                steps.extend(self.next(tally, step.position, false).map(Reverse));
            }
            // The others of the section compete alone: without the heading if it is paid, and with it if the best of
            // them did not fit.
            let lists = |section: &usize| match is_taken {
                true => !std::mem::replace(&mut is_listed[*section], true),
                false => step.opens,
            };
            if let Some(section) = section.filter(lists) {
                let others = self.members[section].iter().filter(|other| **other != step.position);
                let others = others.filter(|other| tally.level(**other as usize).is_none());
                steps
                    .extend(others.filter_map(|other| self.next(tally, *other, true)).map(Reverse));
            }
        }
        // A longer form of the same value comes last.
        take_longest(tally, limits, |gain| gain.is_none_or(|gain| gain > 0.0));
        take_longest(tally, limits, |gain| gain == Some(0.0));
    }

    /// The next step of a candidate, with or without the heading that it needs.
    fn next(&self, tally: &Tally<'_, '_>, position: u32, with_heading: bool) -> Option<Step> {
        let (offers, index) = (tally.offers(), position as usize);
        let current = tally.level(index);
        let hull = &self.levels[self.starts[index] as usize..self.starts[index + 1] as usize];
        let is_longer = |level: &&Level| current.is_none_or(|current| **level < current);
        let level = *hull.iter().find(is_longer)?;
        let offer = offers.offer(index, level)?;
        let tokens = match current.and_then(|current| offers.offer(index, current)) {
            Some(current) => offer.tokens - current.tokens,
            None => offer.tokens.saturating_add(offers.separator()),
        };
        let heading = match with_heading && tally.opens(offer.section) {
            true => offers.heading(offer.section),
            false => 0,
        };
        let gain = offer.value - value_of(offers, index, current);
        let density_key = order::descending_key(density(gain, tokens.saturating_add(heading)));
        Some(Step { density_key, position, level, opens: false })
    }

    /// The first candidate of a closed section, at the value per token of the best ones with the heading.
    fn best_prefix(&self, tally: &Tally<'_, '_>, section: usize) -> Option<Step> {
        let offers = tally.offers();
        let open = self.members[section].iter().filter(|p| tally.level(**p as usize).is_none());
        let mut steps: Vec<Step> = open.filter_map(|p| self.next(tally, *p, false)).collect();
        steps.sort_unstable();
        let first = *steps.first()?;
        let own_section = offers.offer(first.position as usize, first.level)?.section;
        if !tally.opens(own_section) {
            return None;
        }
        let (mut tokens, mut value, mut best) = (offers.heading(own_section), 0.0, f64::MIN);
        for step in &steps {
            let offer = offers.offer(step.position as usize, step.level)?;
            tokens = tokens.saturating_add(offer.tokens).saturating_add(offers.separator());
            value += offer.value;
            let density = density(value, tokens);
            if density <= best {
                break;
            }
            best = density;
        }
        Some(Step { density_key: order::descending_key(best), opens: true, ..first })
    }
}

/// Takes candidates in order of score, each in its longest form that fits and whose gain of value is enough. Only a
/// candidate that is taken already has a gain.
fn take_longest(
    tally: &mut Tally<'_, '_>,
    limits: &mut Limits<'_>,
    is_enough: impl Fn(Option<f64>) -> bool,
) {
    let offers = tally.offers();
    for position in 0..offers.candidates().len() {
        let current = tally.level(position);
        let levels = current.map_or(offers.levels(position), Level::get);
        for level in Level::WHOLE.up_to(levels) {
            let gain =
                || value_of(offers, position, Some(level)) - value_of(offers, position, current);
            if is_enough(current.map(|_| gain())) && limits.take(tally, position, level) {
                break;
            }
        }
    }
}

/// The upper hull of a candidate's forms with a value above 0, shortest first.
fn hull_of(offers: &Offers<'_>, position: usize, hull: &mut Vec<(i64, f64, Level)>) {
    hull.clear();
    for level in Level::WHOLE.up_to(offers.levels(position)).rev() {
        let Some(offer) = offers.offer(position, level) else { continue };
        let (tokens, value) = (offer.tokens.saturating_add(offers.separator()), offer.value);
        let is_better = value > hull.last().map_or(0.0, |last| last.1);
        if !is_better || tokens < 0 {
            continue;
        }
        while let Some(last) = hull.last() {
            let (base_tokens, base_value) =
                hull.len().checked_sub(2).map_or((0, 0.0), |base| (hull[base].0, hull[base].1));
            // The last one is not above the line from the one before it to this one.
            let rise = (last.1 - base_value) * (tokens - last.0) as f64;
            if tokens > last.0 && rise > (value - last.1) * (last.0 - base_tokens) as f64 {
                break;
            }
            hull.pop();
        }
        hull.push((tokens, value, level));
    }
}

/// The value of a candidate in a form, or 0.
fn value_of(offers: &Offers<'_>, position: usize, level: Option<Level>) -> f64 {
    let offer = level.and_then(|level| offers.offer(position, level));
    offer.map_or(0.0, |offer| offer.value)
}

/// The form with the highest gain of value that fits by itself.
fn best_single(tally: &mut Tally<'_, '_>) -> Option<(usize, Level)> {
    let offers = tally.offers();
    let (mut best, mut best_gain, mut changes_at) = (None, 0.0, i64::MAX);
    for position in 0..offers.candidates().len() {
        let current = tally.level(position);
        let levels = current.map_or(offers.levels(position), Level::get);
        for level in Level::WHOLE.up_to(levels) {
            let gain =
                value_of(offers, position, Some(level)) - value_of(offers, position, current);
            if gain <= best_gain {
                continue;
            }
            let cost = tally.cost(position, level).unwrap_or(i64::MAX);
            match cost <= tally.remaining() {
                true => (best, best_gain) = (Some((position, level)), gain),
                false => changes_at = changes_at.min(tally.used().saturating_add(cost)),
            }
        }
    }
    tally.changes_at(changes_at);
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Candidate, ContextItem, Offer, ScoredItem, SectionId};

    #[test]
    fn forms_below_or_on_a_line_between_others_are_not_on_the_hull() {
        let item = ContextItem::new("text", 1).unwrap();
        for (forms, expected) in [
            (&[(40, 10.0), (30, 9.0), (20, 7.0), (10, 4.0)][..], &[3, 2, 1, 0][..]),
            (&[(40, 10.0), (30, 8.0), (20, 7.0), (10, 4.0)], &[3, 2, 0]),
            (&[(40, 10.0), (30, 8.5), (20, 7.0), (10, 4.0)], &[3, 2, 0]),
            (&[(20, 8.0), (10, 4.0)], &[0]),
            (&[(20, 8.0), (10, 8.0)], &[1]),
            (&[(20, 8.0), (20, 4.0)], &[0]),
            (&[(20, 0.0), (10, -1.0)], &[]),
        ] {
            let candidate = Candidate::from(ScoredItem { item: &item, score: 1.0 });
            let (tokens, value) = forms[0];
            let offer = |(tokens, value): &(i64, f64)| Offer {
                tokens: *tokens,
                value: *value,
                section: SectionId::NONE,
            };
            let offers = Offers::new([Candidate { tokens, value, ..candidate }])
                .with_forms([forms[1..].iter().map(offer)]);
            let mut hull = Vec::new();
            hull_of(&offers, 0, &mut hull);
            let levels: Vec<usize> = hull.iter().map(|(_, _, level)| level.get()).collect();
            assert_eq!(levels, expected, "{forms:?}");
        }
    }
}
