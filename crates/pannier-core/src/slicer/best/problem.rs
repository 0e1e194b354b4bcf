//! The problem of a multiple-choice knapsack with headings, and its bound at a price for tokens.

use std::cmp::Reverse;
use std::ops::Range;

use super::state_search::StateSearch;
use crate::slicer::Tally;
use crate::{Level, SectionId};

/// The integer value of a score of 1.
pub(super) const SCALE: f64 = 10_000.0;

/// The largest value, so that no product overflows.
const MAX_VALUE: i64 = 1 << 40;

/// Prices are fractions with the denominator `2^SHIFT`.
pub(super) const SHIFT: u32 = 20;

/// A form of a candidate, or the step from the form that is taken to a longer one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) tokens: i64,
    pub(super) value: i64,
    pub(super) position: u32,
    pub(super) level: Level,
}

/// Candidates that share a heading, each as a range of choices.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) heading: i64,
    pub(super) classes: Vec<Range<u32>>,
}

/// The candidates that may still be taken.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) capacity: i64,
    /// The smallest larger capacity with more choices.
    pub(super) next_capacity: i64,
    /// The choices of all classes. Of a class, no two have the same level.
    pub(super) choices: Vec<Choice>,
    /// The first one has no heading.
    pub(super) sections: Vec<Section>,
    /// Whether every choice costs what the problem charges for it.
    pub(super) is_exact: bool,
    /// The largest value of a choice, so that the sum of all does not overflow.
    pub(super) max_value: i64,
    /// The value of the candidates that are taken already.
    pub(super) taken_value: i64,
}

/// The best choice, as far as it is known.
#[derive(Debug)]
pub(super) struct Solution {
    /// The choices to take; `None` if those to compare with are not worse.
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) value: i64,
    /// No choice has a higher value.
    pub(super) bound: i64,
    /// Whether the solution is that of every larger capacity without more choices, too.
    pub(super) is_stable: bool,
    pub(super) steps: u64,
}

/// The price of a token.
pub(super) struct Price {
    /// The price with the smallest bound.
    pub(super) best: i64,
    pub(super) bound: i128,
    /// The smallest price at which the choices fit.
    pub(super) fitting: i64,
    pub(super) steps: u64,
}

/// The bound at a price, and the tokens of the choice that attains it.
pub(super) struct Relaxed {
    pub(super) bound: i128,
    pub(super) tokens: i128,
}

impl Problem {
    pub(super) fn new(tally: &Tally<'_, '_>) -> Self {
        let offers = tally.offers();
        let candidates = offers.candidates().len();
        let capacity = match tally.has_taken() {
            true => tally.remaining(),
            // Every choice is charged a separator, although the first one has none.
            false => tally.remaining().saturating_add(offers.separator()),
        };
        let mut problem = Self {
            capacity: capacity.max(0),
            next_capacity: i64::MAX,
            choices: Vec::with_capacity(candidates),
            sections: vec![Section::default(); offers.section_count() + 1],
            is_exact: true,
            max_value: (i64::MAX / candidates.max(1) as i64).min(MAX_VALUE),
            taken_value: 0,
        };
        problem.taken_value = problem.value_of(tally);
        for (section, id) in problem.sections[1..].iter_mut().zip(0..) {
            section.heading = tally.heading(SectionId::new(id));
        }
        for position in 0..candidates {
            problem.add_class(tally, position);
        }
        problem
    }

    fn add_class(&mut self, tally: &Tally<'_, '_>, position: usize) {
        let (offers, current) = (tally.offers(), tally.level(position));
        let current_offer = current.and_then(|level| offers.offer(position, level));
        let start = self.choices.len();
        let mut home = None;
        for level in Level::WHOLE.up_to(current.map_or(offers.levels(position), Level::get)) {
            let Some(offer) = offers.offer(position, level).filter(|offer| offer.tokens >= 0)
            else {
                continue;
            };
            // A section whose heading is free or paid needs no choice of its own.
            let section = match tally.heading(offer.section) {
                0 => 0,
                _ => offer.section.position().map_or(0, |section| section + 1),
            };
            let home = *home.get_or_insert(section);
            let (mut tokens, mut value) = (offer.tokens, self.integer(offer.value));
            match current_offer {
                Some(current) => {
                    tokens = tokens.saturating_sub(current.tokens);
                    value -= self.integer(current.value);
                }
                None => tokens = tokens.saturating_add(offers.separator()),
            }
            if section != home {
                // Charged as if no other candidate paid for it.
                tokens = tokens.saturating_add(tally.heading(offer.section));
                self.is_exact = false;
            }
            if value <= 0 || tokens < 0 || tally.is_blocked(position, level) {
                continue;
            }
            let alone = tokens.saturating_add(self.sections[home].heading);
            match alone <= self.capacity {
                true => {
                    self.choices.push(Choice { tokens, value, position: position as u32, level });
                }
                false => self.next_capacity = self.next_capacity.min(alone),
            }
        }
        if let Some(home) = home.filter(|_| self.choices.len() > start) {
            self.sections[home].classes.push(start as u32..self.choices.len() as u32);
        }
    }

    /// Returns the value of a form. A cast from a float saturates, and turns NaN into 0.
    fn integer(&self, value: f64) -> i64 {
        ((value * SCALE).floor() as i64).clamp(0, self.max_value)
    }

    /// Returns the value of what is taken in a tally, beyond what was taken before.
    pub(super) fn value_of(&self, tally: &Tally<'_, '_>) -> i64 {
        let offers = tally.offers();
        let taken = (0..offers.candidates().len())
            .filter_map(|position| offers.offer(position, tally.level(position)?));
        taken.map(|offer| self.integer(offer.value)).sum::<i64>() - self.taken_value
    }

    pub(super) fn class(&self, class: &Range<u32>) -> &[Choice] {
        &self.choices[class.start as usize..class.end as usize]
    }

    /// Returns the choice of a class with the highest value less the price of its tokens, if that is above 0.
    pub(super) fn best_at(&self, class: &Range<u32>, price: i64) -> (i128, i64) {
        let mut best = (0, 0);
        for choice in self.class(class) {
            let reduced = choice.reduced(price);
            if reduced > best.0 || (reduced == best.0 && choice.tokens < best.1) {
                best = (reduced, choice.tokens);
            }
        }
        best
    }

    /// Decides every class and every section by itself, at a price for tokens.
    pub(super) fn relax(&self, price: i64) -> Relaxed {
        let mut bound = i128::from(price) * i128::from(self.capacity);
        let mut tokens = 0;
        for section in &self.sections {
            let heading = i128::from(section.heading);
            let (mut gain, mut used) = (-i128::from(price) * heading, heading);
            for class in &section.classes {
                let (class_gain, class_tokens) = self.best_at(class, price);
                gain += class_gain;
                used += i128::from(class_tokens);
            }
            if gain > 0 {
                bound += gain;
                tokens += used;
            }
        }
        Relaxed { bound, tokens }
    }

    /// Returns the price with the smallest bound, by bisection.
    pub(super) fn best_price(&self) -> Price {
        let density = |choice: &Choice| (choice.value << SHIFT) / choice.tokens.max(1);
        let (mut low, mut high) = (0, self.choices.iter().map(density).max().unwrap_or(0) + 1);
        let mut tries = 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let exceeds = self.relax(middle).tokens > i128::from(self.capacity);
            if exceeds {
                low = middle;
            } else {
                high = middle;
            }
            tries += 1;
        }
        let (at_low, at_high) = (self.relax(low).bound, self.relax(high).bound);
        let (best, bound) = if at_low < at_high { (low, at_low) } else { (high, at_high) };
        let steps = u64::saturating_mul(tries, self.choices.len() as u64);
        Price { best, bound, fitting: high, steps }
    }

    /// Returns the choices that are made at the smallest price at which they fit.
    pub(super) fn fitting_choices(&self, price: &Price) -> Vec<Choice> {
        let price = price.fitting;
        let mut choices = Vec::new();
        for section in &self.sections {
            let gain = |class| self.best_at(class, price).0;
            let heading = i128::from(price) * i128::from(section.heading);
            if section.classes.iter().map(gain).sum::<i128>() > heading {
                let best = |class| {
                    let (reduced, tokens) = self.best_at(class, price);
                    let is_best = |choice: &&Choice| {
                        choice.tokens == tokens && choice.reduced(price) == reduced
                    };
                    self.class(class).iter().find(is_best).copied().filter(|_| reduced > 0)
                };
                choices.extend(section.classes.iter().filter_map(best));
            }
        }
        choices.sort_unstable_by_key(|choice| choice.position);
        choices
    }

    /// Returns the choice with the highest value if everything of value fits.
    pub(super) fn everything(&self) -> Option<Solution> {
        if self.relax(0).tokens > i128::from(self.capacity) {
            return None;
        }
        let classes = self.sections.iter().flat_map(|section| &section.classes);
        let best = |class| {
            let choices = self.class(class).iter().copied();
            choices.min_by_key(|choice| (Reverse(choice.value), choice.tokens))
        };
        let mut choices: Vec<Choice> = classes.filter_map(best).collect();
        choices.sort_unstable_by_key(|choice| choice.position);
        let value = choices.iter().map(|choice| choice.value).sum();
        let steps = self.choices.len() as u64;
        Some(Solution { choices: Some(choices), value, bound: value, is_stable: true, steps })
    }

    /// Finds a choice with a value above `start`, or proves that no such choice exists.
    pub(super) fn solve(&self, price: &Price, start: i64, max_states: usize) -> Solution {
        if let Some(everything) = self.everything() {
            return everything;
        }
        let bound = price.bound;
        let mut search = StateSearch::new(self, price.best, start, max_states);
        let is_complete = search.is_enough(bound) && search.reduce(bound) && search.run();
        let steps = price.steps.saturating_add(search.steps);
        let (mut choices, mut value) = (None, start);
        if let Some(best) = search.states.last().filter(|best| is_complete && best.value > start) {
            (choices, value) = (Some(search.choices_of(best)), best.value);
        }
        let bound = if search.gave_up { (bound >> SHIFT) as i64 } else { value };
        Solution { choices, value, bound: bound.max(value), is_stable: false, steps }
    }
}

impl Choice {
    /// Returns the value less the price of the tokens, with the denominator of prices.
    pub(super) fn reduced(&self, price: i64) -> i128 {
        (i128::from(self.value) << SHIFT) - i128::from(price) * i128::from(self.tokens)
    }
}
