//! Finds the best choice among forms, with headings, and proves that it is.
//!
//! Every candidate is a *class* of options, its forms, of which at most one is taken. Classes belong to sections, whose
//! headings are paid once. This is a multiple-choice knapsack with setup costs, and hard in general. Most of it is
//! decided by a bound:
//!
//! 1. At a price of `λ` per token, every class and every section can be decided by itself. What that leaves, plus the
//!    price of the whole budget, is an upper bound on any choice (Lagrangian relaxation):
//!    `λ·capacity + Σ sections max(0, Σ classes max(0, value - λ·tokens) - λ·heading)`. Bisection finds the `λ` at which it
//!    is smallest.
//! 2. What is decided at that price, with the rest filled up, is a choice, and so a lower bound. An option or a heading is
//!    struck if no choice with it can be better: the bound with it is below. Usually a few dozen options of thousands
//!    remain.
//! 3. For those, a list of states, tokens and value, grows by one class after the other. A state is dropped if another
//!    one has no more tokens and no less value, or if its bound is below. If more than [`MAX_STATES`] remain, the choice to
//!    start from is the answer, or the marginal fill if that is better. The distance to the bound is its gap.
//!
//! Values are integers, and prices fractions with a common denominator, so that bounds are proofs.

use std::cmp::Reverse;
use std::ops::Range;

use super::{FillOrder, FillSlice, Slicer, SlicerProperties, Tally};
use crate::{Error, Headings, Level, SectionId};

/// How many states are kept.
const MAX_STATES: usize = 1 << 17;

/// How many states are tried, for each that may be kept: about 50 ms.
const STEPS_PER_STATE: u64 = 16;

/// The integer value of a score of 1.
const SCALE: f64 = 10_000.0;

/// The largest value, so that no product overflows.
const MAX_VALUE: i64 = 1 << 40;

/// Prices are fractions with the denominator `2^SHIFT`.
const SHIFT: u32 = 20;

/// Takes the choice of candidates and forms with the highest sum of values, with headings and separators.
///
/// [`Selection::gap`](crate::Selection::gap) is 0 if the choice is proven to be the best. Otherwise no choice is better
/// by more than the gap. There is no gap if headings are sent at every change of section, or forms of one candidate are in
/// several sections with headings: then the choice is that of [`FillOrder::Marginal`], or one that charges a heading too
/// often.
///
/// Values are scores to four decimal places. Remaining tokens go to candidates without a value.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_core::slice::BestSlice;
///
/// let item = |content: &str, tokens, hint| {
///     ContextItem::builder(content, tokens).future_relevance_hint(hint).build()
/// };
/// // The first has the highest score per token, but the others have more together.
/// let items = [item("one", 60, 0.7)?, item("two", 50, 0.5)?, item("three", 50, 0.5)?];
/// let pipeline = Pipeline::builder(ReflexiveScorer).slicer(BestSlice).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(selection.indices().collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(selection.gap(), Some(0.0));
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BestSlice;

impl BestSlice {
    /// Slices with at most `max_states` states.
    fn slice_with(tally: &mut Tally<'_, '_>, max_states: usize) -> Result<(), Error> {
        let target = tally.budget().target_tokens;
        if target <= 0 {
            return Ok(());
        }
        let marginal = FillSlice::new(FillOrder::Marginal);
        let offers = tally.offers();
        let sections = (0..offers.section_count() as u32).map(SectionId::new);
        if offers.headings() == Headings::AtEveryChange
            && sections.into_iter().any(|section| offers.heading(section) > 0)
        {
            return marginal.slice(tally);
        }
        let is_first = tally.moves().len() == offers.kept().len();
        let problem = Problem::new(tally);
        let price = problem.best_price();
        let mut filled = tally.clone();
        for choice in problem.fitting_choices(&price) {
            filled.take(choice.position as usize, choice.level);
        }
        marginal.slice(&mut filled)?;
        let mut solution = problem.solve(&price, problem.value_of(&filled), max_states);
        if solution.bound > solution.value {
            let mut other = tally.clone();
            marginal.slice(&mut other)?;
            let value = problem.value_of(&other);
            if value > solution.value {
                (filled, solution.value) = (other, value.min(solution.bound));
            }
        }
        if let Some(choices) = &solution.choices {
            for choice in choices {
                tally.take(choice.position as usize, choice.level);
            }
            // The remaining tokens, for what has no value.
            marginal.slice(tally)?;
        } else {
            *tally = filled;
        }
        tally.spend(solution.steps);
        let grows_by = match solution.is_stable {
            true => problem.next_capacity.saturating_sub(problem.capacity),
            // Any larger target may have a better choice.
            false => 1,
        };
        tally.changes_at(target.saturating_add(grows_by));
        let gap = (solution.bound - solution.value) as f64 / SCALE;
        tally.set_gap((is_first && problem.is_exact).then_some(gap));
        Ok(())
    }
}

impl Slicer for BestSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        Self::slice_with(tally, MAX_STATES)
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::UNORDERED
    }
}

/// A form of a candidate, or the step from the form that is taken to a longer one.
#[derive(Clone, Copy, Debug)]
struct Choice {
    tokens: i64,
    value: i64,
    position: u32,
    level: Level,
}

/// Candidates that share a heading, each as a range of choices.
#[derive(Clone, Debug, Default)]
struct Section {
    heading: i64,
    classes: Vec<Range<u32>>,
}

/// The candidates that may still be taken.
#[derive(Debug)]
struct Problem {
    capacity: i64,
    /// The smallest larger capacity with more choices.
    next_capacity: i64,
    /// The choices of all classes. Of a class, no two have the same level.
    choices: Vec<Choice>,
    /// The first one has no heading.
    sections: Vec<Section>,
    /// Whether every choice costs what the problem charges for it.
    is_exact: bool,
    /// The largest value of a choice, so that the sum of all does not overflow.
    max_value: i64,
    /// The value of the candidates that are taken already.
    taken_value: i64,
}

/// The best choice, as far as it is known.
#[derive(Debug)]
struct Solution {
    /// The choices to take; `None` if those to compare with are not worse.
    choices: Option<Vec<Choice>>,
    value: i64,
    /// No choice has a higher value.
    bound: i64,
    /// Whether the solution is that of every larger capacity without more choices, too.
    is_stable: bool,
    steps: u64,
}

/// The price of a token.
struct Price {
    /// The price with the smallest bound.
    best: i64,
    bound: i128,
    /// The smallest price at which the choices fit.
    fitting: i64,
    steps: u64,
}

/// The bound at a price, and the tokens of the choice that attains it.
struct Relaxed {
    bound: i128,
    tokens: i128,
}

impl Problem {
    fn new(tally: &Tally<'_, '_>) -> Self {
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
    fn value_of(&self, tally: &Tally<'_, '_>) -> i64 {
        let offers = tally.offers();
        let taken = (0..offers.candidates().len())
            .filter_map(|position| offers.offer(position, tally.level(position)?));
        taken.map(|offer| self.integer(offer.value)).sum::<i64>() - self.taken_value
    }

    fn class(&self, class: &Range<u32>) -> &[Choice] {
        &self.choices[class.start as usize..class.end as usize]
    }

    /// Returns the choice of a class with the highest value less the price of its tokens, if that is above 0.
    fn best_at(&self, class: &Range<u32>, price: i64) -> (i128, i64) {
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
    fn relax(&self, price: i64) -> Relaxed {
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
    fn best_price(&self) -> Price {
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
    fn fitting_choices(&self, price: &Price) -> Vec<Choice> {
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
    fn everything(&self) -> Option<Solution> {
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
    fn solve(&self, price: &Price, start: i64, max_states: usize) -> Solution {
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
    fn reduced(&self, price: i64) -> i128 {
        (i128::from(self.value) << SHIFT) - i128::from(price) * i128::from(self.tokens)
    }
}

/// A class of which some choices could be part of a better solution.
#[derive(Debug)]
struct OpenClass {
    /// Positions among the choices of the problem.
    choices: Vec<u32>,
    /// Whether a better solution could do without it.
    can_skip: bool,
    /// The highest reduced value.
    best: i128,
    /// How much the worst decision loses.
    spread: i128,
}

/// A section that a better solution could have or not.
#[derive(Debug)]
struct OpenSection {
    heading: i64,
    classes: Vec<OpenClass>,
}

/// Decisions about the classes so far.
#[derive(Clone, Copy, Debug)]
struct State {
    tokens: i64,
    value: i64,
    /// The last choice in the log.
    last: u32,
    /// A choice that is not in the log yet, or [`NO_CHOICE`].
    next: u32,
}

const NO_CHOICE: u32 = u32::MAX;

/// Finds better solutions than one that is known.
struct StateSearch<'p> {
    problem: &'p Problem,
    price: i64,
    /// The smallest bound of a better solution.
    enough: i128,
    max_states: usize,
    /// The undominated states, by ascending tokens and value.
    states: Vec<State>,
    /// Choices, each after the number of the previous one; 0 marks the first.
    log: Vec<(u32, u32)>,
    sections: Vec<OpenSection>,
    /// Classes of sections that are open in any better solution.
    classes: Vec<OpenClass>,
    gave_up: bool,
    steps: u64,
}

impl<'p> StateSearch<'p> {
    fn new(problem: &'p Problem, price: i64, start: i64, max_states: usize) -> Self {
        let first = State { tokens: 0, value: 0, last: 0, next: NO_CHOICE };
        Self {
            problem,
            price,
            enough: (i128::from(start) + 1) << SHIFT,
            max_states,
            states: vec![first],
            log: Vec::new(),
            sections: Vec::new(),
            classes: Vec::new(),
            gave_up: false,
            steps: 0,
        }
    }

    fn is_enough(&self, bound: i128) -> bool {
        bound >= self.enough
    }

    /// Strikes what no better solution can have, and takes what every one has. Returns whether one may exist.
    fn reduce(&mut self, bound: i128) -> bool {
        let problem = self.problem;
        for section in &problem.sections {
            let gains: Vec<i128> =
                section.classes.iter().map(|class| problem.best_at(class, self.price).0).collect();
            let heading = i128::from(self.price) * i128::from(section.heading);
            let gain = gains.iter().sum::<i128>() - heading;
            let closed = bound - gain.max(0);
            let open = closed + gain;
            let can_close = section.heading > 0 && self.is_enough(closed);
            let mut can_open = self.is_enough(open);
            let mut classes = Vec::new();
            for (class, gain) in section.classes.iter().zip(gains) {
                if !can_open {
                    break;
                }
                let rest = open - gain;
                let can_skip = self.is_enough(rest);
                let reduced = |choice: &u32| problem.choices[*choice as usize].reduced(self.price);
                let is_open = |choice: &u32| self.is_enough(rest + reduced(choice));
                let choices: Vec<u32> = class.clone().filter(is_open).collect();
                can_open &= can_skip || !choices.is_empty();
                if !choices.is_empty() {
                    let reduced: Vec<i128> = choices.iter().map(reduced).collect();
                    classes.push(OpenClass::new(choices, &reduced, can_skip));
                }
            }
            match (can_open, can_close) {
                (true, true) => {
                    self.sections.push(OpenSection { heading: section.heading, classes });
                }
                (true, false) => {
                    self.states[0].tokens += section.heading;
                    self.classes.append(&mut classes);
                }
                (false, true) => {}
                (false, false) => return false,
            }
        }
        true
    }

    /// Decides one class after the other. Returns whether it came to an end.
    fn run(&mut self) -> bool {
        let mut sections = std::mem::take(&mut self.sections);
        let mut classes = std::mem::take(&mut self.classes);
        // Classes with one clear choice first, while there are few states.
        let by_spread = |class: &OpenClass| (Reverse(class.spread), class.choices[0]);
        classes.sort_unstable_by_key(by_spread);
        let free: i128 = classes.iter().map(|class| class.best).sum();
        let best = |section: &OpenSection| section.best(self.price);
        let mut rest = free + sections.iter().map(best).sum::<i128>();
        let decided = classes.iter().take_while(|class| class.is_decided()).count();
        let undecided = classes.split_off(decided);
        for class in &classes {
            rest -= class.best;
            self.decide(class, rest);
        }
        for section in &mut sections {
            rest -= section.best(self.price);
            section.classes.sort_unstable_by_key(by_spread);
            let mut within: i128 = section.classes.iter().map(|class| class.best).sum();
            let closed = self.states.clone();
            self.states.iter_mut().for_each(|state| state.tokens += section.heading);
            for class in &section.classes {
                within -= class.best;
                self.decide(class, rest + within);
            }
            self.states.extend(closed);
            self.prune(rest);
        }
        for class in &undecided {
            rest -= class.best;
            self.decide(class, rest);
        }
        self.prune(0);
        !self.gave_up
    }

    /// Adds a class to all states. `rest` is the highest reduced value of the classes that follow.
    fn decide(&mut self, class: &OpenClass, rest: i128) {
        if self.gave_up {
            return;
        }
        let states = std::mem::take(&mut self.states);
        let capacity = self.problem.capacity;
        for &next in &class.choices {
            let choice = self.problem.choices[next as usize];
            let with = states.iter().filter(|state| state.tokens <= capacity - choice.tokens);
            self.states.extend(with.map(|state| State {
                tokens: state.tokens + choice.tokens,
                value: state.value + choice.value,
                next,
                ..*state
            }));
            if self.states.len() > 4 * self.max_states {
                self.prune(rest);
            }
        }
        if class.can_skip {
            self.states.extend(states);
        }
        self.prune(rest);
        for state in &mut self.states {
            if state.next != NO_CHOICE {
                self.log.push((state.last, std::mem::replace(&mut state.next, NO_CHOICE)));
                state.last = self.log.len() as u32;
            }
        }
    }

    /// Drops states that others dominate, and those that cannot become better than the start.
    fn prune(&mut self, rest: i128) {
        self.steps = self.steps.saturating_add(self.states.len() as u64);
        let (price, capacity, enough) = (self.price, self.problem.capacity, self.enough);
        self.states.retain(|state| {
            let free = i128::from(price) * i128::from(capacity - state.tokens);
            state.tokens <= capacity && (i128::from(state.value) << SHIFT) + free + rest >= enough
        });
        self.states.sort_by_key(|state| (state.tokens, Reverse(state.value)));
        let mut highest = i64::MIN;
        self.states.retain(|state| {
            let is_higher = state.value > highest;
            highest = highest.max(state.value);
            is_higher
        });
        let max_steps = STEPS_PER_STATE * self.max_states as u64;
        if self.states.len() > self.max_states || self.steps > max_steps {
            self.gave_up = true;
            self.states.clear();
        }
    }

    /// Returns the choices of a state, by position.
    fn choices_of(&self, state: &State) -> Vec<Choice> {
        let (mut choices, mut last) = (Vec::new(), state.last);
        while let Some((before, choice)) = last.checked_sub(1).map(|last| self.log[last as usize]) {
            choices.push(self.problem.choices[choice as usize]);
            last = before;
        }
        choices.sort_unstable_by_key(|choice| choice.position);
        choices
    }
}

impl OpenClass {
    fn new(choices: Vec<u32>, reduced: &[i128], can_skip: bool) -> Self {
        let reduced = reduced.iter().copied().chain(can_skip.then_some(0));
        let (low, best) = reduced
            .fold((i128::MAX, i128::MIN), |(low, best), value| (value.min(low), value.max(best)));
        let is_decided = choices.len() == 1 && !can_skip;
        let spread = if is_decided { i128::MAX } else { best - low };
        Self { choices, can_skip, best, spread }
    }

    fn is_decided(&self) -> bool {
        self.spread == i128::MAX
    }
}

impl OpenSection {
    /// The highest reduced value, open or closed.
    fn best(&self, price: i64) -> i128 {
        let classes: i128 = self.classes.iter().map(|class| class.best).sum();
        (classes - i128::from(price) * i128::from(self.heading)).max(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slicer::Move;
    use crate::{Candidate, ContextItem, Offer, Offers, ScoredItem, SliceBudget};

    /// Forms as tokens and value on the integer scale, and the section of each candidate.
    type Pool = Vec<(Vec<(i64, i64)>, u32)>;

    fn pools(candidates: usize, forms: usize) -> impl Strategy<Value = Pool> {
        let form = (0_i64..25, prop_oneof![0_i64..12, 0_i64..1_000]);
        let candidate =
            (prop::collection::vec(form, 1..=forms), 0_u32..4).prop_map(|(mut forms, section)| {
                forms.sort_unstable_by_key(|(tokens, _)| Reverse(*tokens));
                forms.dedup_by_key(|(tokens, _)| *tokens);
                (forms, section)
            });
        prop::collection::vec(candidate, 0..=candidates)
    }

    /// Section 3 has no heading.
    fn section(section: u32) -> SectionId {
        if section < 3 { SectionId::new(section) } else { SectionId::NONE }
    }

    fn offers<'a>(
        pool: &Pool,
        headings: [i64; 3],
        separator: i64,
        item: &'a ContextItem,
    ) -> Offers<'a> {
        let offer = |(tokens, value): &(i64, i64), of: u32| Offer {
            tokens: *tokens,
            value: (*value as f64 + 0.5) / SCALE,
            section: section(of),
        };
        let candidates = pool.iter().map(|(forms, of)| {
            let Offer { tokens, value, section } = offer(&forms[0], *of);
            let candidate = Candidate::from(ScoredItem { item, score: value });
            Candidate { tokens, value, section, ..candidate }
        });
        let forms = pool
            .iter()
            .map(|(forms, of)| forms[1..].iter().map(|form| offer(form, *of)).collect::<Vec<_>>());
        Offers::new(candidates)
            .with_forms(forms)
            .with_headings(headings.to_vec(), Headings::Once)
            .with_separator(separator)
    }

    /// The highest value of all combinations.
    fn brute_force(pool: &Pool, headings: [i64; 3], separator: i64, target: i64) -> i64 {
        fn search(
            pool: &[(Vec<(i64, i64)>, u32)],
            headings: [i64; 3],
            separator: i64,
            remaining: i64,
        ) -> i64 {
            let Some(((forms, of), rest)) = pool.split_first() else { return 0 };
            let mut best = search(rest, headings, separator, remaining);
            for (tokens, value) in forms {
                let mut paid = headings;
                let heading = paid.get_mut(*of as usize).map_or(0, std::mem::take);
                let remaining = remaining - tokens - heading - separator;
                if remaining >= 0 {
                    best = best.max(value + search(rest, paid, separator, remaining));
                }
            }
            best
        }
        search(pool, headings, separator, target + separator)
    }

    /// The dynamic program over all capacities, section after section.
    fn textbook(pool: &Pool, headings: [i64; 3], separator: i64, target: i64) -> i64 {
        let capacity = (target + separator) as usize;
        let add = |best: &[i64], forms: &[(i64, i64)]| {
            let mut with = best.to_vec();
            for (tokens, value) in forms {
                let weight = (tokens + separator) as usize;
                for room in weight..=capacity {
                    with[room] = with[room].max(best[room - weight] + value);
                }
            }
            with
        };
        let mut best = vec![0; capacity + 1];
        for of in 0..4 {
            let heading = headings.get(of as usize).map_or(0, |heading| *heading as usize);
            let mut open = vec![i64::MIN / 2; capacity + 1];
            if let Some(rest) = capacity.checked_sub(heading) {
                open[heading..].copy_from_slice(&best[..=rest]);
            }
            for (forms, _) in pool.iter().filter(|(_, section)| *section == of) {
                open = add(&open, forms);
            }
            best.iter_mut().zip(open).for_each(|(best, open)| *best = open.max(*best));
        }
        best[capacity]
    }

    fn best(offers: &Offers<'_>, target: i64) -> (i64, Option<f64>) {
        let mut tally = Tally::new(offers, SliceBudget::new(target));
        BestSlice.slice(&mut tally).unwrap();
        assert!(tally.remaining() >= 0);
        let nothing = Problem::new(&Tally::new(offers, SliceBudget::new(target)));
        (nothing.value_of(&tally), tally.gap())
    }

    proptest! {
        #[test]
        fn the_choice_is_the_best_of_all(
            pool in pools(8, 3),
            headings in [0_i64..15, 0_i64..15, 0_i64..15],
            separator in 0_i64..3,
            target in 1_i64..90,
        ) {
            let item = ContextItem::new("text", 1).unwrap();
            let (value, gap) = best(&offers(&pool, headings, separator, &item), target);
            prop_assert_eq!(value, brute_force(&pool, headings, separator, target));
            prop_assert_eq!(gap, Some(0.0));
        }

        #[test]
        fn the_choice_is_the_textbooks(
            pool in pools(60, 4),
            headings in [0_i64..40, 0_i64..40, 0_i64..40],
            separator in 0_i64..3,
            target in 1_i64..600,
        ) {
            let item = ContextItem::new("text", 1).unwrap();
            let (value, gap) = best(&offers(&pool, headings, separator, &item), target);
            prop_assert_eq!(value, textbook(&pool, headings, separator, target));
            prop_assert_eq!(gap, Some(0.0));
        }

        /// With few states, and from any start that is not better than the best.
        #[test]
        fn a_gap_is_an_upper_bound(
            pool in pools(40, 4),
            headings in [0_i64..40, 0_i64..40, 0_i64..40],
            target in 1_i64..400,
            start in 0.0..=1.0,
            max_states in 1_usize..40,
        ) {
            let item = ContextItem::new("text", 1).unwrap();
            let offers = offers(&pool, headings, 1, &item);
            let problem = Problem::new(&Tally::new(&offers, SliceBudget::new(target)));
            let expected = textbook(&pool, headings, 1, target);
            let start = (expected as f64 * start) as i64;
            let solution = problem.solve(&problem.best_price(), start, max_states);
            prop_assert!(solution.value >= start && solution.value <= expected);
            prop_assert!(solution.bound >= expected, "{} < {}", solution.bound, expected);
            if let Some(choices) = solution.choices {
                let value: i64 = choices.iter().map(|choice| choice.value).sum();
                prop_assert_eq!(value, solution.value);
            }
        }

        #[test]
        fn few_states_take_no_less_than_the_marginal_fill(
            pool in pools(40, 4),
            headings in [0_i64..40, 0_i64..40, 0_i64..40],
            target in 1_i64..400,
            max_states in 1_usize..10,
        ) {
            let item = ContextItem::new("text", 1).unwrap();
            let offers = offers(&pool, headings, 1, &item);
            let mut tally = Tally::new(&offers, SliceBudget::new(target));
            let (problem, mut marginal) = (Problem::new(&tally), tally.clone());
            BestSlice::slice_with(&mut tally, max_states).unwrap();
            FillSlice::new(FillOrder::Marginal).slice(&mut marginal).unwrap();
            let value = problem.value_of(&tally);
            prop_assert!(value >= problem.value_of(&marginal));
            let (expected, bound) =
                (textbook(&pool, headings, 1, target), (problem.best_price().bound >> SHIFT) as i64);
            let with_gap = value + (tally.gap().unwrap() * SCALE).round() as i64;
            prop_assert!((expected..=bound.max(expected)).contains(&with_gap), "{with_gap}");
        }

        /// The bound has one minimum, so it is enough to compare with the prices next to it.
        #[test]
        fn no_price_has_a_smaller_bound(
            pool in pools(20, 4),
            headings in [0_i64..40, 0_i64..40, 0_i64..40],
            target in 1_i64..300,
            other in 0_i64..1 << 30,
        ) {
            let item = ContextItem::new("text", 1).unwrap();
            let offers = offers(&pool, headings, 1, &item);
            let problem = Problem::new(&Tally::new(&offers, SliceBudget::new(target)));
            let capacity = i128::from(problem.capacity);
            // The bound at a price, and the fewest tokens of a choice that attains it.
            let relax = |price: i64| {
                let price = i128::from(price);
                let (mut bound, mut tokens) = (price * capacity, 0);
                for section in &problem.sections {
                    let best = section.classes.iter().filter_map(|class| {
                        let reduced = |choice: &Choice| {
                            let tokens = i128::from(choice.tokens);
                            ((i128::from(choice.value) << SHIFT) - price * tokens, -tokens)
                        };
                        problem.class(class).iter().map(reduced).chain([(0, 0)]).max()
                    });
                    let heading = i128::from(section.heading);
                    let (gain, saved) = best.fold((-price * heading, -heading), |sum, best| {
                        (sum.0 + best.0, sum.1 + best.1)
                    });
                    if gain > 0 {
                        (bound, tokens) = (bound + gain, tokens - saved);
                    }
                }
                (bound, tokens)
            };
            let price = problem.best_price();
            let next = [price.best - 1, price.best, price.best + 1, price.fitting, other, 0];
            for other in next.into_iter().filter(|price| *price >= 0) {
                let Relaxed { bound, tokens } = problem.relax(other);
                prop_assert_eq!((bound, tokens), relax(other));
                prop_assert!(price.bound <= bound, "{} at {}", bound, other);
            }
            prop_assert_eq!(price.bound, relax(price.best).0);
            let (bound, tokens) = relax(price.fitting);
            prop_assert!(tokens <= capacity);
            prop_assert!(price.fitting == 1 || relax(price.fitting - 1).1 > capacity);
            // The choices attain the bound.
            let choices = problem.fitting_choices(&price);
            let gains: i128 = choices.iter().map(|choice| choice.reduced(price.fitting)).sum();
            let mut used: i128 = choices.iter().map(|choice| i128::from(choice.tokens)).sum();
            let opens = |section: &&Section| {
                let of = |choice: &Choice| offers.candidates()[choice.position as usize].section;
                let first = section.classes.first().map(|class| of(&problem.class(class)[0]));
                choices.iter().any(|choice| Some(of(choice)) == first)
            };
            let headings = problem.sections[1..].iter().filter(opens);
            let headings: i128 = headings.map(|section| i128::from(section.heading)).sum();
            used += headings;
            let price = i128::from(price.fitting);
            prop_assert_eq!((price * (capacity - headings) + gains, used), (bound, tokens));
        }

        /// Decisions hold below the target that the tally certifies.
        #[test]
        fn a_certificate_holds(
            pool in pools(8, 3),
            headings in [0_i64..15, 0_i64..15, 0_i64..15],
            target in 1_i64..60,
        ) {
            let item = ContextItem::new("text", 1).unwrap();
            let offers = offers(&pool, headings, 1, &item);
            let slice = |target| {
                let mut tally = Tally::new(&offers, SliceBudget::new(target));
                BestSlice.slice(&mut tally).unwrap();
                let levels: Vec<_> = (0..pool.len()).map(|position| tally.level(position)).collect();
                (levels, tally.holds_below())
            };
            let (levels, holds_below) = slice(target);
            prop_assert!(holds_below > target);
            for larger in target..holds_below.min(target + 100) {
                prop_assert_eq!(&slice(larger).0, &levels);
            }
        }

        /// A slice that goes on takes the best of what is left, and proves nothing about the whole.
        #[test]
        fn going_on_takes_the_best_of_the_rest(
            pool in pools(6, 3),
            headings in [0_i64..15, 0_i64..15, 0_i64..15],
            taken in any::<prop::sample::Index>(),
            blocked in any::<prop::sample::Index>(),
            target in 1_i64..90,
        ) {
            if pool.is_empty() {
                return Ok(());
            }
            let item = ContextItem::new("text", 1).unwrap();
            let offers = offers(&pool, headings, 1, &item);
            let position = taken.index(pool.len());
            let mut tally = Tally::new(&offers, SliceBudget::new(target));
            tally.commit(position, Level::last(offers.levels(position)));
            if tally.remaining() < 0 {
                return Ok(());
            }
            let blocked = blocked.index(pool.len());
            tally.block(Move { position: blocked as u32, level: Level::WHOLE });
            let problem = Problem::new(&tally);
            BestSlice.slice(&mut tally).unwrap();
            prop_assert_eq!(tally.gap(), None);
            prop_assert!(tally.remaining() >= 0);
            // The others with their forms, and the longer forms of the one that is taken.
            let (tokens, value) = *pool[position].0.last().unwrap();
            let mut rest = pool.clone();
            rest[blocked].0.remove(0);
            let mut paid = headings;
            let heading = paid.get_mut(pool[position].1 as usize).map_or(0, std::mem::take);
            rest[position].1 = 3;
            let forms = rest[position].0.iter().map(|(t, v)| (t - tokens - 1, v - value));
            rest[position].0 = forms.filter(|(_, value)| *value > 0).collect();
            let remaining = target - tokens - heading;
            let expected = brute_force(&rest, paid, 1, remaining - 1);
            prop_assert_eq!(problem.value_of(&tally), expected);
        }
    }

    #[test]
    fn the_marginal_fill_is_the_answer_if_no_known_choice_is_better() {
        let item = ContextItem::new("text", 1).unwrap();
        let pool = vec![(vec![(23, 29), (7, 14)], 0), (vec![(19, 32), (5, 16)], 2)];
        let offers = offers(&pool, [2, 6, 4], 1, &item);
        let mut tally = Tally::new(&offers, SliceBudget::new(26));
        let problem = Problem::new(&tally);
        BestSlice::slice_with(&mut tally, 1).unwrap();
        // Both short forms have 30.
        assert_eq!((problem.value_of(&tally), tally.gap()), (32, Some(0.0006)));
    }

    #[test]
    fn the_choice_of_everything_holds_for_all_larger_targets() {
        let item = ContextItem::new("text", 1).unwrap();
        let pool = vec![(vec![(10, 5)], 0), (vec![(8, 4)], 1)];
        let offers = offers(&pool, [4, 4, 4], 0, &item);
        for (target, holds_below) in [(25, 26), (26, i64::MAX)] {
            let mut tally = Tally::new(&offers, SliceBudget::new(target));
            BestSlice.slice(&mut tally).unwrap();
            assert_eq!(tally.holds_below(), holds_below);
        }
    }

    #[test]
    fn bounds_strike_most_states() {
        let item = ContextItem::new("text", 1).unwrap();
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) % limit) as i64
        };
        let pool: Pool = (0..300)
            .map(|_| {
                let (tokens, value) = (20 + below(80), 100 + below(900));
                (vec![(tokens, value), (tokens / 3, value / 2)], below(4) as u32)
            })
            .collect();
        let slice = |headings, target, max_states| {
            let offers = offers(&pool, headings, 1, &item);
            let mut tally = Tally::new(&offers, SliceBudget::new(target));
            BestSlice::slice_with(&mut tally, max_states).unwrap();
            (tally.steps(), tally.gap().unwrap())
        };
        let (low, high) = ([90, 60, 30], [900, 600, 300]);
        // Each has 16,800 to find the price.
        for (headings, target, max_steps) in [
            (low, 1_000, 41_000),
            (low, 2_000, 17_300),
            (low, 3_000, 17_000),
            (low, 5_000, 31_000),
            (low, 6_000, 52_000),
            (high, 2_000, 18_800),
            (high, 3_000, 19_100),
            (high, 5_000, 25_300),
        ] {
            let (steps, gap) = slice(headings, target, 2_500);
            assert!((16_800..=max_steps).contains(&steps), "{steps} at {target}");
            assert_eq!(gap, 0.0);
        }
        assert_eq!(slice(low, 1_000, 400).1, 0.0099);
    }

    #[test]
    fn headings_at_every_change_and_forms_in_several_sections_have_no_gap() {
        let item = ContextItem::new("text", 1).unwrap();
        let pool = vec![(vec![(10, 5), (3, 2)], 0), (vec![(8, 4)], 1)];
        let at_every_change =
            offers(&pool, [4, 4, 4], 0, &item).with_headings([4, 4], Headings::AtEveryChange);
        assert_eq!(best(&at_every_change, 14), (5, None));
        let without_tokens = at_every_change.with_headings([0, 0], Headings::AtEveryChange);
        assert_eq!(best(&without_tokens, 14), (6, Some(0.0)));
        let stub = Offer { tokens: 3, value: 2.0 / SCALE, section: SectionId::new(1) };
        let in_both = offers(&pool, [4, 4, 4], 0, &item).with_forms([vec![stub], Vec::new()]);
        assert_eq!(best(&in_both, 14), (5, None));
        let without_tokens = in_both.with_headings([0, 0], Headings::Once);
        assert_eq!(best(&without_tokens, 14), (6, Some(0.0)));
        assert_eq!(best(&offers(&pool, [4, 4, 4], 0, &item), 14), (5, Some(0.0)));
    }
}
