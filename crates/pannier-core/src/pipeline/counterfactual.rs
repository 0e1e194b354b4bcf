//! The same run with one thing changed: an item's score, or the budget.
//!
//! Scoring is the most expensive stage, and none of these changes touches what the other items score. So a
//! change is decided from the stage that it affects on, by the same code as any run.

use std::ops::RangeInclusive;

use super::place::Merge;
use super::slice::{self, Sliced};
use super::{FoundBudget, Pipeline, Run};
use crate::slicer::Candidate;
use crate::{ContextBudget, ExclusionReason, order, sum_tokens};

/// The same run with another score for one item.
pub(super) struct Rematch<'r, 'a> {
    pipeline: &'r Pipeline,
    run: &'r Run<'a>,
    index: u32,
    unit: u32,
    /// The best of the other units with the same content, which goes in if this one does not win.
    rival: Option<u32>,
    /// The scores of the pool, the item's own among them, which changes.
    scores: Vec<f64>,
    /// Everybody else who competes, in order; one place is filled for each match.
    keys: Vec<u128>,
    units: Vec<u32>,
    candidates: Vec<Candidate<'a>>,
}

impl<'r, 'a> Rematch<'r, 'a> {
    pub(super) fn new(
        pipeline: &'r Pipeline,
        run: &'r Run<'a>,
        candidates: &[Candidate<'a>],
        index: u32,
    ) -> Option<Self> {
        let scoreable = &run.classified.scoreable;
        let unit = scoreable.unit_of(index)?;
        let dropped = run.duplicates.binary_search_by_key(&unit, |duplicate| duplicate.unit);
        let kept = dropped.map_or(unit, |dropped| run.duplicates[dropped].kept);
        let lead = |unit: u32| scoreable.lead(unit, &run.scores);
        let strength = |unit: u32| order::key(run.scores[lead(unit) as usize], 0, unit);
        let copies = run.duplicates.iter().filter(|duplicate| duplicate.kept == kept);
        let equals = copies.map(|duplicate| duplicate.unit).chain([kept]);
        let rival = equals.filter(|other| *other != unit).min_by_key(|other| strength(*other));

        let others = run.sorted.iter().zip(candidates).filter(|(other, _)| **other != kept);
        let (units, candidates): (Vec<u32>, Vec<Candidate<'a>>) = others.unzip();
        let key = |unit: &u32| order::key(run.scores[lead(*unit) as usize], lead(*unit), *unit);
        let keys = units.iter().map(key).collect();
        let scores = run.scores.clone();
        Some(Self { pipeline, run, index, unit, rival, scores, keys, units, candidates })
    }

    /// The units that are selected if the item has this score. None if the run fails.
    fn decide(&mut self, score: f64) -> Vec<u32> {
        let (run, scoreable) = (self.run, &self.run.classified.scoreable);
        self.scores[self.index as usize] = score;
        let scores = &self.scores;
        let lead = |unit: u32| scoreable.lead(unit, scores);
        let strength = |unit: &u32| order::key(scores[lead(*unit) as usize], 0, *unit);
        let winner = self.rival.into_iter().chain([self.unit]).min_by_key(strength);
        let winner = winner.unwrap_or(self.unit);

        let lead = lead(winner);
        let key = order::key(scores[lead as usize], lead, winner);
        let place = self.keys.partition_point(|other| *other < key);
        let candidate = Candidate {
            item: &run.items[lead as usize],
            tokens: scoreable.tokens(winner, run.items),
            score: scores[lead as usize],
            value: scoreable.value(winner, scores),
        };
        self.units.insert(place, winner);
        self.candidates.insert(place, candidate);
        let selected =
            self.pipeline.select(run, &self.units, &self.candidates, scores, &run.budget);
        self.units.remove(place);
        self.candidates.remove(place);
        selected
    }

    fn is_in(&mut self, score: f64) -> bool {
        let unit = self.unit;
        self.decide(score).contains(&unit)
    }

    /// The smallest score from 0 up with which the item is in.
    ///
    /// A higher score never makes an item lose, with one exception: from the score on with which it leads
    /// its group, the group counts as its kind, which a slicer may treat otherwise. So there are two
    /// searches, below that score and from there on.
    pub(super) fn smallest_score(&mut self) -> Option<f64> {
        let scoreable = &self.run.classified.scoreable;
        let others = scoreable.members(self.unit).iter().filter(|member| **member != self.index);
        let key = |member: &u32| order::key(self.run.scores[*member as usize], 0, *member);
        let lead = others.min_by_key(|member| key(member)).copied();
        // The bits of numbers from 0 up are in the order of the numbers.
        let leads_from = lead.map_or(0, |lead| {
            // Adding zero turns -0.0 into 0.0.
            let score = self.run.scores[lead as usize] + 0.0;
            if score >= 0.0 { score.to_bits() + u64::from(self.index > lead) } else { 0 }
        });
        let below = leads_from.checked_sub(1).and_then(|last| self.smallest_within(0, last));
        below.or_else(|| self.smallest_within(leads_from, f64::MAX.to_bits())).map(f64::from_bits)
    }

    /// The same by halves, among the numbers with these bits.
    fn smallest_within(&mut self, first: u64, last: u64) -> Option<u64> {
        if first > last {
            return None;
        }
        let mut is_in = |bits| self.is_in(f64::from_bits(bits));
        if is_in(first) {
            return Some(first);
        }
        let (mut out, mut within) = (first, last);
        let one = 1.0_f64.to_bits();
        if (first..last).contains(&one) && is_in(one) {
            within = one;
        } else if !is_in(last) {
            return None;
        }
        while within - out > 1 {
            let middle = out + (within - out) / 2;
            if is_in(middle) { within = middle } else { out = middle }
        }
        Some(within)
    }

    /// The indices of the items that an item lost to.
    pub(super) fn lost_to(
        &mut self,
        reason: &ExclusionReason,
        smallest_score: Option<f64>,
    ) -> Vec<u32> {
        let run = self.run;
        let scoreable = &run.classified.scoreable;
        if matches!(reason, ExclusionReason::PinnedOverride { .. }) {
            return run.classified.pinned.in_pool_order().into_owned();
        }
        if matches!(reason, ExclusionReason::Deduplicated { .. }) {
            let own = scoreable.members(self.unit).iter();
            let kept = self.rival.into_iter().flat_map(|rival| scoreable.members(rival));
            let pairs = own.zip(kept);
            return pairs.filter(|(own, _)| **own == self.index).map(|(_, kept)| *kept).collect();
        }
        let Some(score) = smallest_score else {
            return Vec::new();
        };
        let mut stays = vec![false; run.items.len()];
        let still_in = self.decide(score);
        let members = still_in.iter().flat_map(|unit| scoreable.members(*unit));
        let pinned = run.classified.pinned.in_pool_order();
        members.chain(&*pinned).for_each(|index| stays[*index as usize] = true);
        run.placed.iter().copied().filter(|index| !stays[*index as usize]).collect()
    }

    pub(super) fn density(&self) -> Option<f64> {
        let scoreable = &self.run.classified.scoreable;
        let tokens = scoreable.tokens(self.unit, self.run.items);
        (tokens > 0).then(|| scoreable.value(self.unit, &self.run.scores) / tokens as f64)
    }
}

impl Pipeline {
    /// The units that are selected from these candidates; none if the run fails.
    fn select(
        &self,
        run: &Run<'_>,
        units: &[u32],
        candidates: &[Candidate<'_>],
        scores: &[f64],
        budget: &ContextBudget,
    ) -> Vec<u32> {
        let effective = budget.effective(run.classified.pinned_tokens);
        let Ok(Sliced { units: sliced, .. }) =
            slice::slice(candidates, units, effective, &*self.slicer)
        else {
            return Vec::new();
        };
        let mut merge = Merge {
            items: run.items,
            scores,
            pinned: &run.classified.pinned,
            pinned_tokens: run.classified.pinned_tokens,
            scoreable: &run.classified.scoreable,
            sliced,
        };
        match merge.handle_overflow(budget, self.overflow_strategy) {
            Ok(_) => merge.sliced,
            Err(_) => Vec::new(),
        }
    }
}

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
    /// How many steps a search may take that tries every budget, and one that leaps: about a second each.
    const TO_TRY_ALL: u64 = 1 << 28;
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
        let pinned_tokens = self.run.classified.pinned_tokens;
        self.run.budget.effective_at(window, target, pinned_tokens).target_tokens
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
        selected.contains(&self.unit)
    }

    /// What it takes to try one.
    fn effort(&self, tokens: i64) -> u64 {
        self.pipeline.slicer.effort(self.candidates.len(), self.effective_target(tokens))
    }

    /// The first of these stands with which the item is in.
    ///
    /// Where counts are guaranteed, overflow handling has a say, and each stand is tried by itself. Otherwise
    /// what is taken is what is selected, and the slicer answers for all of them.
    fn first_in(
        &self,
        mut stands: RangeInclusive<i64>,
        patience: &mut Patience,
    ) -> Result<Option<i64>, TooMany> {
        let slicer = &self.pipeline.slicer;
        if slicer.properties().commits_counts {
            let count = (stands.end() - stands.start() + 1) as u64;
            patience.spend(self.effort(*stands.end()).saturating_mul(count))?;
            return Ok(stands.find(|tokens| self.is_in(*tokens)));
        }
        let targets = self.effective_target(*stands.start())..=self.effective_target(*stands.end());
        patience.spend(slicer.sweep_effort(self.candidates.len(), &targets))?;
        let swept =
            slicer.sweep(self.candidates, targets, &[self.position]).map_err(|_| TooMany)?;
        let first = swept.first().and_then(|ranges| ranges.ranges().first());
        let lowest = first.and_then(|targets| self.lowest_with(*targets.start()));
        Ok(lowest.map(|lowest| lowest.max(*stands.start())))
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
            Dial::Window => tokens.max(self.run.smallest_window()),
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
        while out < far {
            let tokens = far.min(out.saturating_add(step));
            patience.spend(self.effort(tokens)).ok()?;
            if self.is_in(tokens) {
                return Some(self.halve(out + 1, tokens, &mut patience));
            }
            out = tokens;
            step = step.saturating_mul(2);
        }
        None
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
