//! A list of undominated states that grows by one class after the other: what the bound leaves open.

use std::cmp::Reverse;

use super::problem::{Choice, Problem, SHIFT};

/// How many states are tried, for each that may be kept: about 50 ms.
const STEPS_PER_STATE: u64 = 16;

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
pub(super) struct State {
    tokens: i64,
    pub(super) value: i64,
    /// The last choice in the log.
    last: u32,
    /// A choice that is not in the log yet, or [`NO_CHOICE`].
    next: u32,
}

const NO_CHOICE: u32 = u32::MAX;

/// Finds better solutions than one that is known.
pub(super) struct StateSearch<'p> {
    problem: &'p Problem,
    price: i64,
    /// The smallest bound of a better solution.
    enough: i128,
    max_states: usize,
    /// The undominated states, by ascending tokens and value.
    pub(super) states: Vec<State>,
    /// Choices, each after the number of the previous one; 0 marks the first.
    log: Vec<(u32, u32)>,
    sections: Vec<OpenSection>,
    /// Classes of sections that are open in any better solution.
    classes: Vec<OpenClass>,
    pub(super) gave_up: bool,
    pub(super) steps: u64,
}

impl<'p> StateSearch<'p> {
    pub(super) fn new(problem: &'p Problem, price: i64, start: i64, max_states: usize) -> Self {
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

    pub(super) fn is_enough(&self, bound: i128) -> bool {
        bound >= self.enough
    }

    /// Strikes what no better solution can have, and takes what every one has. Returns whether one may exist.
    pub(super) fn reduce(&mut self, bound: i128) -> bool {
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
    pub(super) fn run(&mut self) -> bool {
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
    pub(super) fn choices_of(&self, state: &State) -> Vec<Choice> {
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
