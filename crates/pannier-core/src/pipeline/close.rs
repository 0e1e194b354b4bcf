//! Closes the difference between a layout's plan and its measure.
//!
//! Tokens of components do not add up to the tokens of the whole: encodings merge across borders, and a plan charges
//! what may not be needed. So a slice by the plan may exceed the limit, or leave budget unused. Only this module
//! renders in order to decide:
//!
//! 1. Measure the slice. If it exceeds the limit, drop the lowest scores, or the last moves, until it fits. Galloping
//!    and then bisection find their number.
//! 2. If budget remains that could turn a refusal, slice again with that much more, so that the best candidates get it.
//!    Then let the slicer go on. The first move that exceeds the limit, found by bisection, is blocked, and the slicer
//!    goes on without it.
//!
//! For `m` moves both end after at most `4 + 2 * log2(m)` renderings. Every selection that is returned was measured.

use super::place::{MergedUnits, Overflow};
use super::units::Units;
use super::{Closing, Pipeline, PreparedRun};
use crate::layout::PlacedItems;
use crate::model::Levels;
use crate::slicer::{Move, Release};
use crate::{
    ContextBudget, ContextItem, Error, Layout, Level, Offers, OverflowStrategy, RenderCost,
    SliceBudget, Tally, Verdict,
};

/// The candidates of a prepared run, with its own scores or with others.
pub(crate) struct Contest<'c, 'a> {
    pub(crate) prepared: &'c PreparedRun<'a>,
    pub(crate) scores: &'c [f64],
    /// Units in order of score.
    pub(crate) sorted: &'c [u32],
    /// Their offers, in the same order.
    pub(crate) offers: &'c Offers<'a>,
    /// What counts as selected.
    pub(crate) counts: Counts,
}

/// The forms in which an item counts as selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Only the whole item.
    Whole,
    /// Any form.
    AnyForm,
}

impl Counts {
    /// An item counts if it is sent whole. Without forms, it is whole in its group, also if others there are not.
    pub(crate) fn whole(item: &ContextItem) -> Self {
        if item.forms().is_empty() { Self::AnyForm } else { Self::Whole }
    }
}

impl<'c, 'a> Contest<'c, 'a> {
    pub(crate) fn of(prepared: &'c PreparedRun<'a>, counts: Counts) -> Self {
        let PreparedRun { scores, sorted, offers, .. } = prepared;
        Self { prepared, scores, sorted, offers, counts }
    }

    pub(super) fn scoreable(&self) -> &'c Units {
        &self.prepared.classified.scoreable
    }

    /// Returns for each unit whether it is kept.
    pub(super) fn kept_units(&self) -> Vec<bool> {
        let mut is_kept = vec![false; self.scoreable().len()];
        for position in self.offers.kept() {
            is_kept[self.sorted[*position as usize] as usize] = true;
        }
        is_kept
    }

    fn unit(&self, made: &Move) -> u32 {
        self.sorted[made.position as usize]
    }

    /// Merges pinned units and the units of these moves.
    fn merge(&self, moves: &[Move]) -> MergedUnits<'_, 'a> {
        let mut is_in = vec![false; self.sorted.len()];
        let mut levels = Levels::default();
        let mut taken = Vec::with_capacity(moves.len());
        for made in moves {
            let unit = self.unit(made);
            if !std::mem::replace(&mut is_in[made.position as usize], true) {
                taken.push(unit);
            }
            if made.level != Level::WHOLE || !levels.all_whole() {
                let members = self.scoreable().members(unit);
                levels.set(&self.prepared.items, members, made.level);
            }
        }
        let mut sliced = Vec::with_capacity(taken.len());
        let in_order = self.sorted.iter().zip(is_in).filter(|(_, is_in)| *is_in);
        sliced.extend(in_order.map(|(unit, _)| *unit));
        MergedUnits { contest: self, sliced, taken, levels }
    }
}

/// Units that were dropped when the selection was rendered.
#[derive(Debug, Default)]
pub(crate) struct RenderDrops {
    /// Units that made the whole exceed its limit, highest rank first.
    pub(crate) over: Vec<u32>,
    /// The cost of the whole with them.
    pub(crate) rendered_tokens: i64,
    /// The limit of the whole.
    pub(crate) target_tokens: i64,
    /// Units that would be sent before all others and cannot be, with the rule.
    pub(crate) rejected: Vec<(u32, String)>,
}

/// Up to where larger budgets decide the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certificate {
    /// The smallest larger sum of committed tokens and effective target at which a decision may change.
    pub(crate) fill_tokens: i64,
    /// The smallest larger limit of the whole at which a decision may change.
    pub(crate) limit_tokens: i64,
}

impl Certificate {
    const UNLIMITED: Self = Self { fill_tokens: i64::MAX, limit_tokens: i64::MAX };

    /// Nothing changes below this limit.
    pub(crate) fn fits_from(limit_tokens: i64) -> Self {
        Self { limit_tokens, ..Self::UNLIMITED }
    }
}

/// A selection that was placed and measured.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Pool indices, in the order they are sent.
    pub(crate) placed: Vec<u32>,
    pub(crate) levels: Levels,
    pub(crate) cost: RenderCost,
    /// Selected units, highest score first.
    sliced: Vec<u32>,
    /// The placer's order, with units that cannot be first.
    order: Vec<u32>,
    /// Units that cannot be first and would be, with the rule.
    rejected: Vec<(u32, String)>,
}

/// The decisions that depend on the budget.
pub(crate) struct Outcome {
    pub(crate) overflow: Overflow,
    pub(crate) drops: RenderDrops,
    pub(crate) draft: Draft,
    certificate: Certificate,
}

impl Outcome {
    /// Returns whether everything that was sliced is sent.
    pub(crate) fn keeps_slice(&self) -> bool {
        let Self { overflow, drops, .. } = self;
        overflow.truncated.is_empty() && drops.over.is_empty() && drops.rejected.is_empty()
    }
}

impl Pipeline {
    /// The maximum cost of the whole: the target, or the window where overflow is accepted.
    pub(crate) fn limit(&self, budget: &ContextBudget) -> i64 {
        match self.overflow_strategy {
            OverflowStrategy::Proceed => budget.input_tokens(),
            _ => budget.target_tokens().min(budget.input_tokens()),
        }
    }

    /// Selects units. Returns those that count as selected, up to where larger budgets select the same, and an estimate of the
    /// steps that it took.
    pub(crate) fn select_units(
        &self,
        contest: &Contest<'_, '_>,
        budget: &ContextBudget,
    ) -> (Result<(Vec<u32>, Certificate), Error>, u64) {
        let run = contest.prepared;
        let committed = run.committed_tokens();
        let mut tally = Tally::new(contest.offers, budget.effective(committed));
        let sliced = self.slicer.slice(&mut tally);
        let mut steps = (16 * (contest.sorted.len() as u64 + 16)).saturating_add(tally.steps());
        if self.layout.is_some() {
            // Counters read the text several times.
            let tokens = self.limit(budget).min(run.total_tokens()).unsigned_abs();
            steps = steps.saturating_add(tokens.saturating_mul(64));
        }
        let select = || {
            sliced?;
            run.check_pinned(budget)?;
            let (mut units, levels, certificate) = match self.layout() {
                None => {
                    let (merge, _) = self.merge(contest, tally.moves(), budget)?;
                    let fill_tokens = committed.saturating_add(tally.holds_below());
                    let certificate = Certificate { fill_tokens, ..Certificate::UNLIMITED };
                    (merge.sliced, merge.levels, certificate)
                }
                Some(layout) => {
                    let outcome = self.close(layout, contest, &mut tally, budget)?;
                    let (Draft { mut sliced, levels, .. }, drops) = (outcome.draft, outcome.drops);
                    sliced.retain(|unit| drops.rejected.iter().all(|(other, _)| other != unit));
                    (sliced, levels, outcome.certificate)
                }
            };
            if contest.counts == Counts::Whole {
                let members = |unit: &u32| contest.scoreable().members(*unit).iter();
                units.retain(|unit| members(unit).all(|index| levels.is_whole(*index)));
            }
            Ok((units, certificate))
        };
        (select(), steps)
    }

    /// Merges pinned units and the units of these moves, and handles overflow.
    fn merge<'c, 'a>(
        &self,
        contest: &'c Contest<'c, 'a>,
        moves: &[Move],
        budget: &ContextBudget,
    ) -> Result<(MergedUnits<'c, 'a>, Overflow), Error> {
        let mut merge = contest.merge(moves);
        let overflow = merge.handle_overflow(budget, self.overflow_strategy)?;
        Ok((merge, overflow))
    }

    fn place(&self, merge: &MergedUnits<'_, '_>) -> Result<Vec<u32>, Error> {
        merge.place(&*self.placer, self.keep_groups_together)
    }

    /// Places a slice for which nothing is sent but items.
    pub(super) fn place_plain(
        &self,
        contest: &Contest<'_, '_>,
        moves: &[Move],
        budget: &ContextBudget,
    ) -> Result<Outcome, Error> {
        let (merge, overflow) = self.merge(contest, moves, budget)?;
        let placed = self.place(&merge)?;
        let levels = merge.levels;
        let items = PlacedItems::new(&contest.prepared.items, &placed, &levels).tokens();
        let cost = RenderCost { items, ..RenderCost::default() };
        let draft = Draft { placed, levels, cost, ..Draft::default() };
        let (drops, certificate) = (RenderDrops::default(), Certificate::UNLIMITED);
        Ok(Outcome { overflow, drops, draft, certificate })
    }

    /// Closes a slice for a layout.
    pub(super) fn close(
        &self,
        layout: &dyn Layout,
        contest: &Contest<'_, '_>,
        tally: &mut Tally<'_, '_>,
        budget: &ContextBudget,
    ) -> Result<Outcome, Error> {
        let committed = contest.prepared.committed_tokens();
        let fill_tokens = committed.saturating_add(tally.holds_below());
        let mut close = Close {
            pipeline: self,
            layout,
            contest,
            limit: self.limit(budget),
            // Reserved slots and the safety margin stay free.
            fill_limit: committed.saturating_add(tally.budget().target_tokens),
            renderings: 0,
            certificate: Certificate { fill_tokens, ..Certificate::UNLIMITED },
        };
        let mut drops = RenderDrops { target_tokens: close.limit, ..RenderDrops::default() };
        let release = self.slicer.properties().release;
        let can_fill = self.closing == Closing::Fill;
        if can_fill
            && release == Release::LastTaken
            && let Some(mut draft) = close.everything(tally)?
        {
            drops.rejected = std::mem::take(&mut draft.rejected);
            let (overflow, certificate) = (Overflow::default(), close.certificate);
            return Ok(Outcome { overflow, drops, draft, certificate });
        }
        let (merge, overflow) = self.merge(contest, tally.moves(), budget)?;
        let order = self.place(&merge)?;
        let mut draft = close.measure(merge, order, i64::MAX)?;
        let is_exact = contest.prepared.costs.plan.is_exact || close.renderings == 0;
        if draft.cost.bound() > close.limit {
            drops.rendered_tokens = draft.cost.bound();
            (draft, drops.over) = close.drop_moves(&draft, tally, release)?;
        } else if can_fill && !is_exact && overflow.truncated.is_empty() {
            draft = close.slice_again(draft, tally)?;
            draft = close.fill(draft, tally)?;
        }
        drops.rejected = std::mem::take(&mut draft.rejected);
        Ok(Outcome { overflow, drops, draft, certificate: close.certificate })
    }
}

struct Close<'c, 'a> {
    pipeline: &'c Pipeline,
    layout: &'c dyn Layout,
    contest: &'c Contest<'c, 'a>,
    /// The maximum cost of the whole.
    limit: i64,
    /// The cost up to which a slicer may fill.
    fill_limit: i64,
    renderings: u32,
    certificate: Certificate,
}

impl Close<'_, '_> {
    /// How often a slice may begin again.
    const MAX_RESLICES: usize = 4;

    /// Tokens beyond the remaining budget that a slicer may plan with, because plans round up.
    const ROUNDING_TOKENS: i64 = 3;

    fn can_render(&self, moves: usize) -> bool {
        self.renderings < 4 + 2 * moves.max(1).ilog2()
    }

    fn fill_changes_at(&mut self, tokens: i64) {
        self.certificate.fill_tokens = self.certificate.fill_tokens.min(tokens);
    }

    fn spare(&self, draft: &Draft) -> i64 {
        self.fill_limit.saturating_sub(draft.cost.bound())
    }

    /// Measures merged units in an order. Drops the units that would be first and cannot be. A pinned item is sent
    /// under any rule; the next item is then checked as the first.
    fn measure(
        &mut self,
        merge: MergedUnits<'_, '_>,
        order: Vec<u32>,
        up_to: i64,
    ) -> Result<Draft, Error> {
        let (run, scoreable) = (self.contest.prepared, self.contest.scoreable());
        let mut rejected = Vec::new();
        let mut is_rejected = vec![false; run.items.len()];
        for &index in &order {
            if is_rejected[index as usize] {
                continue;
            }
            let Some(rule) = run.costs.first_position_rule(index) else {
                break;
            };
            if let Some(unit) = scoreable.unit_of(index) {
                let members = scoreable.members(unit).iter();
                members.for_each(|member| is_rejected[*member as usize] = true);
                rejected.push((unit, rule.to_owned()));
            }
        }
        let is_sent = |index: &u32| !is_rejected[*index as usize];
        let placed: Vec<u32> = order.iter().copied().filter(is_sent).collect();
        let items = PlacedItems::new(&run.items, &placed, &merge.levels);
        let measured = self.layout.measure(&items, up_to)?;
        self.renderings += u32::from(measured.is_some());
        let cost = measured.unwrap_or_else(|| run.costs.cost(&items));
        let MergedUnits { levels, sliced, .. } = merge;
        Ok(Draft { placed, levels, cost, sliced, order, rejected })
    }

    /// Places and measures the units of these moves. Returns `None` if they exceed the fill limit.
    fn try_moves(&mut self, moves: &[Move]) -> Result<Option<Draft>, Error> {
        let merge = self.contest.merge(moves);
        let order = self.pipeline.place(&merge)?;
        let draft = self.measure(merge, order, self.fill_limit)?;
        let tokens = draft.cost.bound();
        if tokens > self.fill_limit {
            self.fill_changes_at(tokens);
            return Ok(None);
        }
        Ok(Some(draft))
    }

    /// Drops as few moves as possible, so that the whole fits its limit. Returns the rest in its order, and the dropped
    /// units, highest rank first.
    fn drop_moves(
        &mut self,
        full: &Draft,
        tally: &Tally<'_, '_>,
        release: Release,
    ) -> Result<(Draft, Vec<u32>), Error> {
        let (contest, scoreable) = (self.contest, self.contest.scoreable());
        let flags = |units: &[u32]| {
            let mut flags = vec![false; scoreable.len()];
            units.iter().for_each(|unit| flags[*unit as usize] = true);
            flags
        };
        let kept = contest.offers.kept().len();
        let mut moves: Vec<Move> = match release {
            Release::LowestScore => {
                let levels = (0..contest.sorted.len()).map(|position| tally.level(position));
                let taken = levels
                    .zip(0..)
                    .filter_map(|(level, position)| level.map(|level| Move { position, level }));
                // The last forms of kept candidates are the first moves, and are never dropped.
                let is_raised = |made: &Move| !tally.moves()[..kept].contains(made);
                tally.moves()[..kept].iter().copied().chain(taken.filter(is_raised)).collect()
            }
            Release::LastTaken => tally.moves().to_vec(),
        };
        // Without units that overflow handling truncated.
        let is_in = flags(&full.sliced);
        moves.retain(|made| is_in[contest.unit(made) as usize]);
        let droppable = moves.len() - kept;
        let (limit, mut smallest_tokens) = (self.limit, full.cost.bound());
        self.certificate.limit_tokens = smallest_tokens;
        let mut rest = None;
        let mut fits = |dropped: usize| -> Result<bool, Error> {
            let kept = &moves[..moves.len() - dropped];
            let merge = contest.merge(kept);
            let is_in = flags(&merge.sliced);
            let stays =
                |index: &u32| scoreable.unit_of(*index).is_none_or(|unit| is_in[unit as usize]);
            let order = full.order.iter().copied().filter(stays).collect();
            // If not even the smallest selection fits, the error states its cost.
            let up_to = if dropped == droppable { i64::MAX } else { limit };
            let draft = self.measure(merge, order, up_to)?;
            let fits = draft.cost.bound() <= limit;
            match fits {
                true => rest = Some(draft),
                false => {
                    smallest_tokens = draft.cost.bound();
                    let next = &mut self.certificate.limit_tokens;
                    *next = smallest_tokens.min(*next);
                }
            }
            Ok(fits)
        };
        let mut too_few = 0;
        while too_few < droppable {
            let dropped = (2 * too_few + 1).min(droppable);
            if fits(dropped)? {
                first_false(too_few, dropped, |dropped| fits(dropped).map(|fits| !fits))?;
                break;
            }
            too_few = dropped;
        }
        let Some(rest) = rest else {
            let (fixed_tokens, target_tokens) = (smallest_tokens, limit);
            return Err(Error::RequiredTextOverBudget { fixed_tokens, target_tokens });
        };
        let mut is_reported = flags(&rest.sliced);
        let mut over: Vec<u32> = moves.iter().map(|made| contest.unit(made)).collect();
        over.retain(|unit| !std::mem::replace(&mut is_reported[*unit as usize], true));
        Ok((rest, over))
    }

    /// Takes everything whole, if the slicer would and the rendered text fits.
    fn everything(&mut self, tally: &mut Tally<'_, '_>) -> Result<Option<Draft>, Error> {
        let is_whole = |tally: &Tally<'_, '_>| {
            tally.verdicts().iter().all(|verdict| *verdict == Verdict::WHOLE)
        };
        if is_whole(tally) {
            return Ok(None);
        }
        let mut all = Tally::new(tally.offers(), SliceBudget::new(i64::MAX));
        self.pipeline.slicer.slice(&mut all)?;
        // Items may cost less together than alone, but hardly less than half.
        if !is_whole(&all) || all.used() / 2 > self.fill_limit {
            return Ok(None);
        }
        let draft = self.try_moves(all.moves())?;
        Ok(draft.inspect(|_| *tally = all))
    }

    /// Slices from the start with as much more as the plan over-estimated, while that fits and uses more: the best
    /// candidates get the remaining budget first.
    fn slice_again(&mut self, mut draft: Draft, tally: &mut Tally<'_, '_>) -> Result<Draft, Error> {
        let mut spare = self.spare(&draft);
        for _ in 0..Self::MAX_RESLICES {
            if tally.holds_below() == i64::MAX {
                break;
            }
            // A limit of one token more raises the target and the spare tokens: another slice is known for this
            // limit only.
            self.fill_changes_at(self.fill_limit.saturating_add(1));
            let target_tokens = tally.budget().target_tokens.saturating_add(spare);
            if target_tokens < tally.holds_below() || !self.can_render(tally.moves().len()) {
                break;
            }
            let mut again = tally.restart(target_tokens);
            self.pipeline.slicer.slice(&mut again)?;
            match self.try_moves(again.moves())? {
                None => spare /= 2,
                Some(next) if next.cost.bound() > draft.cost.bound() => {
                    (draft, *tally) = (next, again);
                    spare = self.spare(&draft);
                }
                Some(_) => break,
            }
        }
        Ok(draft)
    }

    /// Lets the slicer go on while remaining budget could turn a refusal. A move that exceeds the limit is blocked, and
    /// the slicer goes on without it.
    fn fill(&mut self, mut draft: Draft, tally: &mut Tally<'_, '_>) -> Result<Draft, Error> {
        // Moves that fit by the plan are tried first: those rarely exceed the limit.
        let mut rounding = 0;
        loop {
            let spare = self.spare(&draft);
            let target_tokens = tally.used().saturating_add(spare).saturating_add(rounding);
            let before = tally.moves().len();
            if spare > 0 && tally.holds_below() <= target_tokens {
                tally.raise_target(target_tokens);
                self.pipeline.slicer.slice(tally)?;
            }
            let moves = tally.moves();
            if moves.len() == before {
                if spare <= 0 || rounding > 0 {
                    return Ok(draft);
                }
                rounding = Self::ROUNDING_TOKENS;
                continue;
            }
            let mut fits = |len: usize| -> Result<bool, Error> {
                let next = match self.can_render(moves.len()) {
                    true => self.try_moves(&moves[..len])?,
                    false => None,
                };
                let fits = next.is_some();
                draft = next.unwrap_or_else(|| std::mem::take(&mut draft));
                Ok(fits)
            };
            if fits(moves.len())? {
                continue;
            }
            let kept = first_false(before, moves.len(), fits)? - 1;
            let (refused, is_last) = (moves[kept], !self.can_render(moves.len()));
            tally.truncate_moves(kept, spare);
            if is_last {
                return Ok(draft);
            }
            tally.block(refused);
        }
    }
}

/// Bisects to the first number at which `is_low` is false, if it is true at `low` and false at `high`.
fn first_false(
    mut low: usize,
    mut high: usize,
    mut is_low: impl FnMut(usize) -> Result<bool, Error>,
) -> Result<usize, Error> {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_low(middle)? { low = middle } else { high = middle }
    }
    Ok(high)
}
