//! Closes the difference between what a layout planned and what it measures.
//!
//! Tokens of parts do not add up to the tokens of the whole: encodings merge across borders, and a plan charges what
//! may not be needed. So a slice by the plan may be too much, or leave room. This is the only place that renders in
//! order to decide:
//!
//! 1. Measure what was sliced. If it is too much, drop the lowest scores, or the last moves, until it fits: the number
//!    is found by galloping and then by halving.
//! 2. If it leaves room that could turn a refusal, slice again with that much more, so that the best gets it. Then let
//!    the slicer go on with what is still left. The first move that
//!    is too much then, again found by halving, is refused, and the slicer goes on without it.
//!
//! For `m` moves both end after at most `4 + 2 * log2(m)` renderings. A selection that is returned was measured.

use super::place::{MergedUnits, Overflow};
use super::{Closing, Pipeline, PreparedRun};
use crate::layout::PlacedItems;
use crate::model::Levels;
use crate::slicer::{Move, Release};
use crate::{
    ContextBudget, CountRequirementShortfall, Error, Layout, Level, Offers, OverflowStrategy,
    RenderCost, SliceBudget, Tally, Verdict,
};

/// Who competes for the budget: a prepared run, with its own scores or with others.
pub(crate) struct Contest<'c, 'a> {
    pub(crate) prepared: &'c PreparedRun<'a>,
    pub(crate) scores: &'c [f64],
    /// Units in order of score.
    pub(crate) sorted: &'c [u32],
    /// What they offer, in the same order.
    pub(crate) offers: &'c Offers<'a>,
}

impl<'c, 'a> Contest<'c, 'a> {
    pub(crate) fn of(prepared: &'c PreparedRun<'a>) -> Self {
        let PreparedRun { scores, sorted, offers, .. } = prepared;
        Self { prepared, scores, sorted, offers }
    }

    /// What is merged if these moves are made.
    fn merge(&self, moves: &[Move]) -> MergedUnits<'_> {
        let run = self.prepared;
        let scoreable = &run.classified.scoreable;
        let mut is_in = vec![false; self.sorted.len()];
        let mut levels = Levels::default();
        let mut taken = Vec::with_capacity(moves.len());
        for Move { position, level } in moves {
            let unit = self.sorted[*position as usize];
            if !std::mem::replace(&mut is_in[*position as usize], true) {
                taken.push(unit);
            }
            levels.set(run.items.len(), scoreable.members(unit), *level);
        }
        let in_order = self.sorted.iter().zip(is_in).filter(|(_, is_in)| *is_in);
        let sliced = in_order.map(|(unit, _)| *unit).collect();
        self.merged(sliced, taken, levels)
    }

    fn merged(&self, sliced: Vec<u32>, taken: Vec<u32>, levels: Levels) -> MergedUnits<'_> {
        let run = self.prepared;
        MergedUnits {
            items: &run.items,
            scores: self.scores,
            costs: &run.costs,
            pinned: &run.classified.pinned,
            pinned_tokens: run.classified.pinned_tokens,
            scoreable: &run.classified.scoreable,
            sliced,
            taken,
            levels,
        }
    }
}

/// Units that were dropped when the selection was rendered.
#[derive(Debug, Default)]
pub(crate) struct RenderDrops {
    /// Units that made the whole exceed its limit, highest rank first.
    pub(crate) over: Vec<u32>,
    /// What the whole cost with them.
    pub(crate) rendered_tokens: i64,
    /// What it may cost.
    pub(crate) target_tokens: i64,
    /// Units that would be sent before all others and cannot be, with the rule.
    pub(crate) rejected: Vec<(u32, String)>,
}

/// Up to where larger budgets decide the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certificate {
    /// The smallest larger sum of committed tokens and effective target at which something may change.
    pub(crate) fill_tokens: i64,
    /// The smallest larger limit of the whole at which something may change.
    pub(crate) limit_tokens: i64,
}

impl Certificate {
    const UNLIMITED: Self = Self { fill_tokens: i64::MAX, limit_tokens: i64::MAX };

    /// Nothing changes below this limit.
    pub(crate) fn fits_from(limit_tokens: i64) -> Self {
        Self { limit_tokens, ..Self::UNLIMITED }
    }
}

/// The stages that depend on the budget, decided.
pub(crate) struct Outcome {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) shortfalls: Vec<CountRequirementShortfall>,
    pub(crate) overflow: Overflow,
    pub(crate) drops: RenderDrops,
    /// Pool indices, in the order they are sent.
    pub(crate) placed: Vec<u32>,
    /// Everything that overflowed, before it was placed.
    pub(crate) merged: Vec<u32>,
    pub(crate) levels: Levels,
    pub(crate) cost: RenderCost,
    pub(crate) certificate: Certificate,
}

impl Pipeline {
    /// What the whole may cost: the target, or the window where overflow is accepted.
    pub(crate) fn limit(&self, budget: &ContextBudget) -> i64 {
        match self.overflow_strategy {
            OverflowStrategy::Proceed => budget.input_tokens(),
            _ => budget.target_tokens().min(budget.input_tokens()),
        }
    }

    /// The units that are selected whole, and up to where larger budgets select the same; and about how many steps
    /// that took.
    pub(crate) fn select_units(
        &self,
        contest: &Contest<'_, '_>,
        budget: &ContextBudget,
    ) -> (Result<(Vec<u32>, Certificate), Error>, u64) {
        let run = contest.prepared;
        let committed = run.committed_tokens();
        let mut tally = Tally::new(contest.offers, budget.effective(committed));
        let sliced = self.slicer.slice(&mut tally);
        let steps = (16 * (contest.sorted.len() as u64 + 16)).saturating_add(tally.steps());
        let units = |levels: &Levels, sliced: Vec<u32>| -> Vec<u32> {
            let is_whole = |index: &u32| levels.is_whole(*index);
            let members = |unit: &u32| run.classified.scoreable.members(*unit).iter();
            sliced.into_iter().filter(|unit| members(unit).all(is_whole)).collect()
        };
        if let Err(error) = sliced.and_then(|()| run.check_pinned(budget)) {
            return (Err(error), steps);
        }
        let Some(layout) = self.layout() else {
            let fill_tokens = committed.saturating_add(tally.holds_below());
            let mut merge = contest.merge(tally.moves());
            let selected = merge.handle_overflow(budget, self.overflow_strategy).map(|_| {
                let certificate = Certificate { fill_tokens, ..Certificate::UNLIMITED };
                (units(&merge.levels, std::mem::take(&mut merge.sliced)), certificate)
            });
            return (selected, steps);
        };
        // What is counted is read several times.
        let tokens = self.limit(budget).min(run.total_tokens()).unsigned_abs();
        let rendered = tokens.saturating_mul(64);
        let outcome = self.close(layout, contest, tally, budget).map(|outcome| {
            let mut is_placed = vec![false; run.items.len()];
            outcome.placed.iter().for_each(|index| is_placed[*index as usize] = true);
            let is_in = |unit: &u32| is_placed[run.classified.scoreable.members(*unit)[0] as usize];
            let sliced = contest.sorted.iter().copied().filter(is_in).collect();
            (units(&outcome.levels, sliced), outcome.certificate)
        });
        (outcome, steps.saturating_add(rendered))
    }

    /// The order of what was merged.
    pub(crate) fn place(&self, merge: &MergedUnits<'_>) -> Result<Vec<u32>, Error> {
        match self.keep_groups_together {
            true => merge.place_units(&*self.placer),
            false => merge.place_items(&*self.placer),
        }
    }

    /// Places what was sliced, where nothing is sent but items.
    pub(super) fn place_plain(
        &self,
        contest: &Contest<'_, '_>,
        verdicts: &[Verdict],
        moves: &[Move],
        budget: &ContextBudget,
    ) -> Result<Outcome, Error> {
        let run = contest.prepared;
        let mut levels = Levels::default();
        let decided = contest.sorted.iter().zip(verdicts);
        let mut sliced = Vec::with_capacity(moves.len());
        sliced.extend(decided.filter_map(|(unit, verdict)| match verdict {
            Verdict::Taken(level) => {
                if *level != Level::WHOLE {
                    let members = run.classified.scoreable.members(*unit);
                    levels.set(run.items.len(), members, *level);
                }
                Some(*unit)
            }
            _ => None,
        }));
        let taken = moves.iter().map(|made| contest.sorted[made.position as usize]).collect();
        let mut merge = contest.merged(sliced, taken, levels);
        let overflow = merge.handle_overflow(budget, self.overflow_strategy)?;
        let placed = self.place(&merge)?;
        let merged = match overflow.tokens_over_budget {
            Some(_) => merge.indices(),
            None => Vec::new(),
        };
        let items = PlacedItems::new(&run.items, &placed, &merge.levels).tokens();
        Ok(Outcome {
            verdicts: Vec::new(),
            shortfalls: Vec::new(),
            overflow,
            drops: RenderDrops::default(),
            placed,
            merged,
            levels: merge.levels,
            cost: RenderCost { items, ..RenderCost::default() },
            certificate: Certificate::UNLIMITED,
        })
    }

    /// Closes a slice for a layout.
    pub(super) fn close(
        &self,
        layout: &dyn Layout,
        contest: &Contest<'_, '_>,
        mut tally: Tally<'_, '_>,
        budget: &ContextBudget,
    ) -> Result<Outcome, Error> {
        let committed = contest.prepared.committed_tokens();
        let mut close = Close {
            pipeline: self,
            layout,
            contest,
            limit: self.limit(budget),
            // Reserved slots and the safety margin stay free.
            fill_limit: committed.saturating_add(tally.budget().target_tokens),
            renderings: 0,
            certificate: Certificate::UNLIMITED,
        };
        close.fill_changes_at(committed.saturating_add(tally.holds_below()));
        let release = self.slicer.properties().release;
        let mut is_measured = None;
        if release == Release::LastTaken && self.closing == Closing::Fill {
            is_measured = close.everything(&mut tally)?;
        }
        let mut overflow = Overflow::default();
        let mut draft = match is_measured {
            Some(draft) => draft,
            None => {
                let mut merge = contest.merge(tally.moves());
                overflow = merge.handle_overflow(budget, self.overflow_strategy)?;
                close.draft(merge, i64::MAX)?
            }
        };
        let mut merged = Vec::new();
        if overflow.tokens_over_budget.is_some() {
            merged = contest.merge(tally.moves()).indices();
        }
        let mut drops = RenderDrops { target_tokens: close.limit, ..RenderDrops::default() };
        if draft.cost.bound() > close.limit {
            drops.rendered_tokens = draft.cost.bound();
            (draft, drops.over) = close.drop_moves(draft, &tally, release)?;
        } else if self.closing == Closing::Fill
            && !contest.prepared.costs.plan.is_exact
            && overflow.truncated.is_empty()
        {
            draft = close.slice_again(draft, &mut tally)?;
            draft = close.fill(draft, &mut tally)?;
        }
        drops.rejected = draft.rejected;
        let certificate = close.certificate;
        let (verdicts, _, shortfalls) = tally.into_parts();
        let Draft { placed, levels, cost, .. } = draft;
        Ok(Outcome {
            verdicts,
            shortfalls,
            overflow,
            drops,
            placed,
            merged,
            levels,
            cost,
            certificate,
        })
    }
}

/// A selection that was placed and measured.
struct Draft {
    /// The order of everything that was merged.
    order: Vec<u32>,
    /// The units that were merged, highest score first.
    sliced: Vec<u32>,
    /// The order of what is sent.
    placed: Vec<u32>,
    levels: Levels,
    /// Units that cannot be first and would be, with the rule.
    rejected: Vec<(u32, String)>,
    cost: RenderCost,
}

struct Close<'c, 'a> {
    pipeline: &'c Pipeline,
    layout: &'c dyn Layout,
    contest: &'c Contest<'c, 'a>,
    /// What the whole may cost.
    limit: i64,
    /// Up to where a slicer may fill.
    fill_limit: i64,
    renderings: u32,
    certificate: Certificate,
}

impl Close<'_, '_> {
    /// How often a slice begins again.
    const MAX_RESLICES: usize = 4;

    /// What is added to the room that is left, because the plan rounds the next move up, too.
    const ROUNDING_TOKENS: i64 = 3;

    fn fill_changes_at(&mut self, tokens: i64) {
        let next = &mut self.certificate.fill_tokens;
        *next = (*next).min(tokens);
    }

    /// The maximum number of renderings of a run with `moves` moves.
    fn max_renderings(moves: usize) -> u32 {
        4 + 2 * moves.max(1).ilog2()
    }

    /// Places what is merged, and measures it.
    fn draft(&mut self, merge: MergedUnits<'_>, up_to: i64) -> Result<Draft, Error> {
        let order = self.pipeline.place(&merge)?;
        let (placed, rejected) = self.without_first(&order, |_| true);
        let MergedUnits { levels, sliced, .. } = merge;
        let cost = self.measure(&placed, &levels, up_to)?;
        Ok(Draft { order, sliced, placed, levels, rejected, cost })
    }

    fn measure(
        &mut self,
        placed: &[u32],
        levels: &Levels,
        up_to: i64,
    ) -> Result<RenderCost, Error> {
        let run = self.contest.prepared;
        let placed = PlacedItems::new(&run.items, placed, levels);
        match self.layout.measure(&placed, up_to)? {
            Some(cost) => {
                self.renderings += 1;
                Ok(cost)
            }
            None => Ok(run.costs.cost(&placed)),
        }
    }

    /// What of an order is sent if some units stay: without those that would be first and cannot be. A pinned item is
    /// sent under any rule; then it is not the first that the others need.
    fn without_first(
        &self,
        order: &[u32],
        stays: impl Fn(u32) -> bool,
    ) -> (Vec<u32>, Vec<(u32, String)>) {
        let run = self.contest.prepared;
        let scoreable = &run.classified.scoreable;
        let mut rejected: Vec<(u32, String)> = Vec::new();
        // By pool index: whether it is of a rejected unit. Empty while there is none.
        let mut is_rejected: Vec<bool> = Vec::new();
        for &index in order {
            if !stays(index) || is_rejected.get(index as usize) == Some(&true) {
                continue;
            }
            let Some(rule) = run.costs.first_position_rule(index) else {
                break;
            };
            if let Some(unit) = scoreable.unit_of(index) {
                is_rejected.resize(run.items.len(), false);
                let members = scoreable.members(unit).iter();
                members.for_each(|member| is_rejected[*member as usize] = true);
                rejected.push((unit, rule.to_owned()));
            }
        }
        let is_sent =
            |index: &u32| stays(*index) && is_rejected.get(*index as usize) != Some(&true);
        (order.iter().copied().filter(is_sent).collect(), rejected)
    }

    /// Drops as few as possible, so that the whole costs no more than its limit. Returns what is left, and the units
    /// that are out, highest rank first.
    fn drop_moves(
        &mut self,
        draft: Draft,
        tally: &Tally<'_, '_>,
        release: Release,
    ) -> Result<(Draft, Vec<u32>), Error> {
        let run = self.contest.prepared;
        let scoreable = &run.classified.scoreable;
        // Moves in the order in which they are kept, of units that are still in.
        let mut is_in = vec![false; scoreable.len()];
        draft.sliced.iter().for_each(|unit| is_in[*unit as usize] = true);
        let unit_at = |position: u32| self.contest.sorted[position as usize];
        let mut moves: Vec<(u32, Level)> = match release {
            Release::LowestScore => {
                let level = |unit: &u32| match draft.levels.is_whole(scoreable.members(*unit)[0]) {
                    true => Level::WHOLE,
                    false => Level::SHORT,
                };
                draft.sliced.iter().map(|unit| (*unit, level(unit))).collect()
            }
            Release::LastTaken => {
                tally.moves().iter().map(|made| (unit_at(made.position), made.level)).collect()
            }
        };
        moves.retain(|(unit, _)| is_in[*unit as usize]);
        // The first move of each item's unit. Pinned items have none.
        let mut first_move = vec![u32::MAX; run.items.len()];
        let mut units = Vec::new();
        for ((unit, _), number) in moves.iter().zip(0..) {
            let members = scoreable.members(*unit);
            if first_move[members[0] as usize] == u32::MAX {
                members.iter().for_each(|member| first_move[*member as usize] = number);
                units.push(*unit);
            }
        }
        let limit = self.limit;
        let mut best = None;
        let mut smallest_total = draft.cost.bound();
        let mut next_limit = draft.cost.bound();
        let order = draft.order;
        let mut keeps = |close: &mut Self, dropped: usize| -> Result<bool, Error> {
            let kept = (moves.len() - dropped) as u32;
            let stays = |index: u32| {
                let number = first_move[index as usize];
                number == u32::MAX || number < kept
            };
            let (placed, rejected) = close.without_first(&order, stays);
            let mut levels = Levels::default();
            for (unit, level) in &moves[..kept as usize] {
                levels.set(run.items.len(), scoreable.members(*unit), *level);
            }
            // Where nothing fits, the error states what the smallest selection costs.
            let up_to = if kept == 0 { i64::MAX } else { limit };
            let cost = close.measure(&placed, &levels, up_to)?;
            let fits = cost.bound() <= limit;
            if !fits {
                next_limit = next_limit.min(cost.bound());
            }
            if kept == 0 {
                smallest_total = cost.bound();
            }
            if fits {
                best = Some((kept, placed, levels, rejected, cost));
            }
            Ok(fits)
        };
        let found = min_drops(moves.len(), |dropped| match dropped {
            0 => Ok(false),
            _ => keeps(self, dropped),
        })?;
        let next = &mut self.certificate.limit_tokens;
        *next = (*next).min(next_limit);
        let Some((kept, placed, levels, rejected, cost)) = best.filter(|_| found.is_some()) else {
            // Everything that may be dropped is dropped, and it is not enough.
            return Err(Error::RequiredTextOverBudget {
                fixed_tokens: smallest_total,
                target_tokens: limit,
            });
        };
        let is_out = |unit: &u32| first_move[scoreable.members(*unit)[0] as usize] >= kept;
        let over = units.into_iter().filter(is_out).collect();
        let sliced = draft.sliced;
        Ok((Draft { order, sliced, placed, levels, rejected, cost }, over))
    }

    /// Takes everything whole, if a slicer would and that fits as it is rendered.
    fn everything(&mut self, tally: &mut Tally<'_, '_>) -> Result<Option<Draft>, Error> {
        let offers = tally.offers();
        let is_whole = |tally: &Tally<'_, '_>| {
            tally.verdicts().iter().all(|verdict| *verdict == Verdict::WHOLE)
        };
        if is_whole(tally) {
            return Ok(None);
        }
        let mut all = Tally::new(offers, SliceBudget::new(i64::MAX));
        self.pipeline.slicer.slice(&mut all)?;
        // Together, parts may cost less than by themselves, but hardly less than half.
        if !is_whole(&all) || all.used() / 2 > self.fill_limit {
            return Ok(None);
        }
        let draft = self.draft(self.contest.merge(all.moves()), self.fill_limit)?;
        if draft.cost.bound() > self.fill_limit {
            self.fill_changes_at(draft.cost.bound());
            return Ok(None);
        }
        let mut all = all.into_parts().1;
        for Move { position, level } in all.drain(..) {
            tally.commit(position as usize, level);
        }
        Ok(Some(draft))
    }

    /// Slices from the start with as much more as the plan over-estimated, as long as that fits and uses more: what is
    /// best gets the room first.
    fn slice_again<'o, 'a>(
        &mut self,
        mut draft: Draft,
        tally: &mut Tally<'o, 'a>,
    ) -> Result<Draft, Error> {
        let mut spare = self.fill_limit.saturating_sub(draft.cost.bound());
        for _ in 0..Self::MAX_RESLICES {
            let mut budget = tally.budget();
            let missing = tally.holds_below().saturating_sub(budget.target_tokens);
            if tally.holds_below() == i64::MAX {
                break;
            }
            // With a token more to fill, both the target and the spare room have one more, and so on: what another slice
            // decides is known for this limit only.
            self.fill_changes_at(self.fill_limit.saturating_add(1));
            let max_renderings = Self::max_renderings(tally.moves().len());
            if spare < missing || self.renderings >= max_renderings {
                break;
            }
            budget.target_tokens = budget.target_tokens.saturating_add(spare);
            budget.max_tokens = budget.max_tokens.max(budget.target_tokens);
            let mut again = Tally::new(tally.offers(), budget);
            self.pipeline.slicer.slice(&mut again)?;
            let next = self.draft(self.contest.merge(again.moves()), self.fill_limit)?;
            let tokens = next.cost.bound();
            if tokens > self.fill_limit {
                spare /= 2;
            } else if tokens > draft.cost.bound() {
                (draft, *tally) = (next, again);
                spare = self.fill_limit.saturating_sub(draft.cost.bound());
            } else {
                break;
            }
        }
        Ok(draft)
    }

    /// Lets the slicer go on while there is room that could turn a refusal. A move that is too much is refused, and the
    /// slicer goes on without it.
    fn fill(&mut self, mut draft: Draft, tally: &mut Tally<'_, '_>) -> Result<Draft, Error> {
        // Moves that fit by the plan are tried first: those are rarely too much.
        let mut rounding = 0;
        loop {
            let spare = self.fill_limit.saturating_sub(draft.cost.bound());
            let room = spare.saturating_add(rounding);
            let missing = tally.holds_below().saturating_sub(tally.used().saturating_add(room));
            if spare <= 0 || missing > 0 || tally.holds_below() == i64::MAX {
                self.fill_changes_at(self.fill_limit.saturating_add(missing.max(1)));
                if spare > 0 && rounding == 0 && missing <= Self::ROUNDING_TOKENS {
                    rounding = Self::ROUNDING_TOKENS;
                    continue;
                }
                return Ok(draft);
            }
            let before = tally.moves().len();
            tally.raise_target(room);
            self.pipeline.slicer.slice(tally)?;
            let more = tally.holds_below().saturating_sub(tally.budget().target_tokens);
            self.fill_changes_at(self.fill_limit.saturating_add(more));
            let after = tally.moves().len();
            if after == before {
                if rounding == 0 {
                    rounding = Self::ROUNDING_TOKENS;
                    continue;
                }
                return Ok(draft);
            }
            let (mut fits, mut too_much) = (before, after + 1);
            // The whole first, then by halving.
            let mut tried = after;
            while self.renderings < Self::max_renderings(after) {
                let merge = self.contest.merge(&tally.moves()[..tried]);
                let next = self.draft(merge, self.fill_limit)?;
                if next.cost.bound() <= self.fill_limit {
                    (draft, fits) = (next, tried);
                } else {
                    self.fill_changes_at(next.cost.bound());
                    too_much = tried;
                }
                if too_much - fits == 1 || fits == after {
                    break;
                }
                tried = fits + (too_much - fits) / 2;
            }
            if fits == after {
                continue;
            }
            let refused = tally.moves()[fits];
            tally.truncate_moves(fits, spare);
            if self.renderings >= Self::max_renderings(after) {
                // A larger budget may stop elsewhere.
                self.fill_changes_at(self.fill_limit.saturating_add(1));
                return Ok(draft);
            }
            tally.block(refused);
        }
    }
}

/// The smallest number of drops after which the rest fits, if there is one: found by galloping and then by halving.
/// The number that is returned was tried last among those that fit.
fn min_drops(
    max: usize,
    mut fits: impl FnMut(usize) -> Result<bool, Error>,
) -> Result<Option<usize>, Error> {
    if fits(0)? {
        return Ok(Some(0));
    }
    let (mut over, mut step) = (0, 1);
    let mut enough = loop {
        if over == max {
            return Ok(None);
        }
        let dropped = (over + step).min(max);
        if fits(dropped)? {
            break dropped;
        }
        over = dropped;
        step *= 2;
    };
    while enough - over > 1 {
        let middle = over + (enough - over) / 2;
        if fits(middle)? { enough = middle } else { over = middle }
    }
    Ok(Some(enough))
}
