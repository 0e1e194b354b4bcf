//! The same run with other budgets.
//!
//! Only slicing and overflow handling depend on the budget, so that is what is done again.

use std::ops::RangeInclusive;

use super::super::{Pipeline, Run};
use super::FoundBudget;
use crate::slicer::{Candidate, TargetRanges};
use crate::sum_tokens;

/// The same run with other budgets.
///
/// A budget has two sizes, and a search has one dial. If the target is what limits the run, the target is
/// turned, and the window grows only where it must. Otherwise the window is turned, and the target keeps its
/// distance from it.
pub(super) struct Budgets<'r, 'a> {
    pipeline: &'r Pipeline,
    run: &'r Run<'a>,
    candidates: &'r [Candidate<'a>],
    index: u32,
    unit: u32,
    /// Where the unit stands among the candidates. A copy that was dropped is none of them.
    position: usize,
    /// What turning the dial changes.
    dial: Dial,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dial {
    Window,
    Target,
}

/// How many steps may still be taken.
struct Patience(u64);

/// It ran out.
struct TooMany;

impl Patience {
    fn spend(&mut self, steps: u64) -> Result<(), TooMany> {
        self.0 = self.0.checked_sub(steps).ok_or(TooMany)?;
        Ok(())
    }
}

impl<'r, 'a> Budgets<'r, 'a> {
    /// How many steps a search may take that tries every budget, and one that leaps.
    pub(super) const TO_TRY_ALL: u64 = 1 << 28;
    const TO_LEAP: u64 = 1 << 31;

    /// The largest budget that is tried; above it, sums might not fit.
    const LARGEST: i64 = i64::MAX / 4;

    /// None if the item does not compete: then no budget helps.
    pub(super) fn new(
        pipeline: &'r Pipeline,
        run: &'r Run<'a>,
        candidates: &'r [Candidate<'a>],
        index: u32,
    ) -> Option<Self> {
        let unit = run.classified.scoreable.unit_of(index)?;
        let position = run.sorted.iter().position(|other| *other == unit)?;
        let is_target = run.budget.target_tokens() < run.budget.input_tokens();
        let dial = if is_target { Dial::Target } else { Dial::Window };
        Some(Self { pipeline, run, candidates, index, unit, position, dial })
    }

    /// The window and the target where the dial stands here.
    fn sizes(&self, tokens: i64) -> (i64, i64) {
        let (window, target) = (self.run.budget.max_tokens(), self.run.budget.target_tokens());
        match self.dial {
            Dial::Window => (tokens, tokens.saturating_sub(window - target).max(0)),
            Dial::Target => {
                (tokens.saturating_add(self.run.budget.output_reserve()).max(window), tokens)
            }
        }
    }

    /// Where the dial stands now.
    pub(super) fn present(&self) -> i64 {
        match self.dial {
            Dial::Window => self.run.budget.max_tokens(),
            Dial::Target => self.run.budget.target_tokens(),
        }
    }

    /// What the slicer may spend where the dial stands here. Never falls as it is turned up.
    fn effective_target(&self, tokens: i64) -> i64 {
        let (window, target) = self.sizes(tokens);
        let committed_tokens = self.run.committed_tokens();
        self.run.budget.effective_at(window, target, committed_tokens).target_tokens
    }

    /// The lowest stand that leaves the slicer as much as this.
    fn lowest_with(&self, target: i64) -> Option<i64> {
        let (mut low, mut high) = (self.bottom(), Self::LARGEST);
        if self.effective_target(high) < target {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.effective_target(middle) >= target { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    pub(super) fn is_in(&self, tokens: i64) -> bool {
        let (window, target) = self.sizes(tokens);
        let Ok(budget) = self.run.budget.with_sizes(window, target) else {
            return false;
        };
        let (run, candidates) = (self.run, self.candidates);
        let selected = self.pipeline.select(run, &run.sorted, candidates, &run.scores, &budget);
        selected.is_ok_and(|units| units.contains(&self.unit))
    }

    /// What it takes to try one.
    fn effort(&self, tokens: i64) -> u64 {
        let target = self.effective_target(tokens);
        let rendering = self.pipeline.rendering().map_or(0, |rendering| rendering.effort(target));
        self.pipeline.slicer.effort(self.candidates.len(), target).saturating_add(rendering)
    }

    /// The first of these stands with which the item is in.
    ///
    /// Where counts are guaranteed, overflow handling has a say, and where tiers are, the whole budget has: each stand is
    /// tried by itself. Otherwise
    /// the slicer answers for all of them: what it takes is what is selected, unless the rendering has a say,
    /// and then it is tried where the slicer takes it.
    fn first_in(
        &self,
        mut stands: RangeInclusive<i64>,
        patience: &mut Patience,
    ) -> Result<Option<i64>, TooMany> {
        let slicer = &self.pipeline.slicer;
        if slicer.properties().commits_counts || slicer.properties().takes_tiers {
            let count = (stands.end() - stands.start() + 1) as u64;
            patience.spend(self.effort(*stands.end()).saturating_mul(count))?;
            return Ok(stands.find(|tokens| self.is_in(*tokens)));
        }
        let targets = self.effective_target(*stands.start())..=self.effective_target(*stands.end());
        patience.spend(slicer.sweep_effort(self.candidates.len(), &targets))?;
        let swept =
            slicer.sweep(self.candidates, targets, &[self.position]).map_err(|_| TooMany)?;
        let ranges = swept.first().map_or(&[][..], TargetRanges::ranges);
        for targets in ranges {
            let Some(lowest) = self.lowest_with(*targets.start()) else {
                break;
            };
            let lowest = lowest.max(*stands.start());
            if self.pipeline.rendering().is_none() {
                return Ok(Some(lowest));
            }
            for tokens in lowest..=*stands.end() {
                if self.effective_target(tokens) > *targets.end() {
                    break;
                }
                patience.spend(self.effort(tokens))?;
                if self.is_in(tokens) {
                    return Ok(Some(tokens));
                }
            }
        }
        Ok(None)
    }

    /// The first of these stands with which the item is in.
    fn try_all(&self, stands: RangeInclusive<i64>) -> Result<Option<i64>, TooMany> {
        let mut patience = Patience(Self::TO_TRY_ALL);
        let (mut from, last) = stands.into_inner();
        // Windows that grow, so that what is near is found at once.
        let mut window = (from / 16).max(256);
        while from <= last {
            let to = last.min(from.saturating_add(window - 1));
            if let Some(tokens) = self.first_in(from..=to, &mut patience)? {
                return Ok(Some(tokens));
            }
            let Some(next) = to.checked_add(1) else {
                break;
            };
            from = next;
            window = window.saturating_mul(2);
        }
        Ok(None)
    }

    /// The lowest stand that makes a valid budget. A window must hold the item; a target need not, if
    /// overflow is accepted.
    fn bottom(&self) -> i64 {
        let tokens = self.run.items[self.index as usize].tokens();
        match self.dial {
            Dial::Window => {
                let pinned_tokens = self.run.classified.pinned_tokens;
                tokens.max(pinned_tokens.saturating_add(self.run.budget.output_reserve()))
            }
            Dial::Target => 0,
        }
    }

    /// For an item that is in: the smallest budget from its own tokens on.
    pub(super) fn search_down(&self, present: i64) -> FoundBudget {
        match self.try_all(self.bottom()..=present) {
            Ok(found) => self.found(found.unwrap_or(present), true),
            Err(TooMany) => self.halve(self.bottom(), present, &mut Patience(Self::TO_LEAP)),
        }
    }

    /// For an item that is out: the smallest budget above the present one.
    ///
    /// With room for everything, most slicers take everything. Those that round up or deal in shares need
    /// more, some of them without end, so the search goes on for a while and then leaps.
    pub(super) fn search_up(&self, present: i64) -> Option<FoundBudget> {
        if self.effective_target(Self::LARGEST) <= self.effective_target(present) {
            return None;
        }
        let all = sum_tokens(self.candidates.iter().map(|candidate| candidate.tokens));
        let everything = self.lowest_with(all).unwrap_or(Self::LARGEST).max(present);
        let near = everything.saturating_mul(4).saturating_add(1_024).min(Self::LARGEST);
        if let Ok(Some(tokens)) = self.try_all(present.saturating_add(1)..=near) {
            return Some(self.found(tokens, true));
        }
        let far = everything.saturating_mul(1 << 20).clamp(near, Self::LARGEST);
        let (mut out, mut step, mut patience) = (present, 1_i64, Patience(Self::TO_LEAP));
        while out < far && patience.spend(self.effort(out.saturating_add(step))).is_ok() {
            let tokens = far.min(out.saturating_add(step));
            if self.is_in(tokens) {
                return Some(self.halve(out + 1, tokens, &mut patience));
            }
            out = tokens;
            step = step.saturating_mul(2);
        }
        // Out of patience, there is still the largest question, whose answer is the simplest; and from there
        // down, a while longer.
        let plenty =
            [everything, near, far].into_iter().find(|tokens| *tokens > out && self.is_in(*tokens));
        plenty.map(|tokens| self.halve(out + 1, tokens, &mut Patience(Self::TO_LEAP)))
    }

    /// For an item that is out: the smallest budget below the present one, if there is one and it can be
    /// found in time.
    pub(super) fn search_below(&self, present: i64) -> Option<FoundBudget> {
        let found = self.try_all(self.bottom()..=present.saturating_sub(1)).ok().flatten();
        found.map(|tokens| self.found(tokens, true))
    }

    /// A budget between these with which the item is in, if it is in with the last; and with one less it is
    /// not, unless patience ends before that is known.
    fn halve(&self, mut low: i64, mut high: i64, patience: &mut Patience) -> FoundBudget {
        while low < high {
            let middle = low + (high - low) / 2;
            if patience.spend(self.effort(middle)).is_err() {
                break;
            }
            if self.is_in(middle) { high = middle } else { low = middle + 1 }
        }
        self.found(high, false)
    }

    fn found(&self, tokens: i64, is_proven: bool) -> FoundBudget {
        let (max_tokens, target_tokens) = self.sizes(tokens);
        FoundBudget { max_tokens, target_tokens, is_proven }
    }
}
