//! The running account of a selection.
//!
//! A slicer decides which candidates get in. The tally charges them, in constant time: it knows which headings are
//! paid and which form of a candidate is in, refuses candidates that do not fit, and records every decision. So no
//! slicer can overspend by mistake, forget a candidate, or take a form that does not exist.
//!
//! The *log* lists the moves in their order, so that the engine can take the last ones back. The *certificate*
//! [`holds_below`](Tally::holds_below) is the smallest larger target at which a refused candidate would fit: below it,
//! the same slice decides the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Candidate, Offer, Offers};
use crate::{
    CountRequirementShortfall, Error, ExclusionReason, Headings, Level, Note, SectionId,
    SliceBudget,
};

/// What was decided about one candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is selected, in this form.
    Taken(Level),
    /// It did not fit the remaining budget when the slicer looked at it.
    Left {
        /// The remaining budget.
        available_tokens: i64,
    },
    /// It fits the remaining budget, but the slicer prefers a choice without it: another combination
    /// has a higher value, its tokens are rounded up to a whole bucket, or its value is 0.
    Outcompeted {
        /// The remaining budget.
        available_tokens: i64,
    },
    /// Enough others of its kind were selected.
    Capped {
        /// The maximum number of the kind.
        cap: usize,
        /// The number that was selected when the slicer looked at this one.
        count: usize,
    },
    /// Another reason.
    Excluded(Arc<ExclusionReason>),
}

impl Verdict {
    /// The whole candidate is selected.
    pub const WHOLE: Self = Self::Taken(Level::WHOLE);

    /// Returns whether it is selected, in any form.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Taken(_))
    }
}

/// A candidate that was taken, or raised to a longer form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The position of the candidate.
    pub position: u32,
    /// Its form from then on.
    pub level: Level,
}

/// The decisions of a slice, and what they cost so far.
#[derive(Clone, Debug)]
pub struct Tally<'o, 'a> {
    offers: &'o Offers<'a>,
    budget: SliceBudget,
    is_plain: bool,
    used: i64,
    verdicts: Vec<Verdict>,
    moves: Vec<Move>,
    shortfalls: Vec<CountRequirementShortfall>,
    /// The same, to find repeats: a slicer that is called again reports them again.
    reported: BTreeSet<CountRequirementShortfall>,
    notes: Vec<Note>,
    gap: Option<f64>,
    /// How many forms are taken in each section.
    open: Vec<u32>,
    last_section: SectionId,
    /// Whether a separator precedes the next candidate.
    has_taken: bool,
    holds_below: i64,
    steps: u64,
    /// Moves that are refused, also if they fit.
    blocked: Vec<Move>,
}

impl<'o, 'a> Tally<'o, 'a> {
    /// A tally in which only the [kept](Offers::with_kept) candidates are taken. Every other candidate is left, with
    /// nothing available to it.
    pub fn new(offers: &'o Offers<'a>, budget: SliceBudget) -> Self {
        let candidates = offers.candidates().len();
        let mut tally = Self {
            offers,
            budget,
            is_plain: offers.is_plain(),
            used: 0,
            verdicts: vec![Verdict::Left { available_tokens: 0 }; candidates],
            moves: Vec::with_capacity(candidates),
            shortfalls: Vec::new(),
            reported: BTreeSet::new(),
            notes: Vec::new(),
            gap: None,
            open: vec![0; offers.section_count()],
            last_section: SectionId::NONE,
            has_taken: false,
            // Nothing is taken for a target of 0.
            holds_below: if budget.target_tokens > 0 { i64::MAX } else { 1 },
            steps: 0,
            blocked: Vec::new(),
        };
        for &position in offers.kept() {
            let position = position as usize;
            tally.commit(position, Level::last(offers.levels(position)));
        }
        if tally.remaining() < 0 {
            // How an overflow is handled depends on the target.
            tally.changes_at(budget.target_tokens.saturating_add(1));
        }
        tally
    }

    /// Returns what there is to choose from.
    pub fn offers(&self) -> &'o Offers<'a> {
        self.offers
    }

    /// Returns the candidates, in descending order of score.
    pub fn candidates(&self) -> &'o [Candidate<'a>] {
        self.offers.candidates()
    }

    /// Returns the budget of this slice.
    pub fn budget(&self) -> SliceBudget {
        self.budget
    }

    /// Returns the remaining part of the target. Negative if more was committed.
    pub fn remaining(&self) -> i64 {
        self.budget.target_tokens.saturating_sub(self.used)
    }

    /// Returns the form in which a candidate is taken, if it is.
    pub fn level(&self, position: usize) -> Option<Level> {
        match self.verdicts[position] {
            Verdict::Taken(level) => Some(level),
            _ => None,
        }
    }

    /// Returns the verdict on each candidate.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the moves, in the order they were made.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns the requirements that could not be met.
    pub fn shortfalls(&self) -> &[CountRequirementShortfall] {
        &self.shortfalls
    }

    /// Returns the remarks on how the candidates were chosen.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns how much value the best choice has above the one that is taken, at most. `None` if that is not known.
    pub fn gap(&self) -> Option<f64> {
        self.gap
    }

    /// Returns the smallest larger target at which this slice may decide otherwise; `i64::MAX` if there is none.
    pub fn holds_below(&self) -> i64 {
        self.holds_below
    }

    /// Returns how many steps of work slicers reported with [`spend`](Self::spend).
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns what taking a candidate in a form costs now: its tokens, a heading and a separator where they are
    /// needed, less the cost of the form that is taken already. `None` if it has no such form.
    pub fn cost(&self, position: usize, level: Level) -> Option<i64> {
        let offer = self.offers.offer(position, level)?;
        Some(self.overhead(position, offer.section).saturating_add(offer.tokens))
    }

    /// What a form costs beyond its own tokens.
    fn overhead(&self, position: usize, section: SectionId) -> i64 {
        let heading = self.heading(section);
        match self.verdicts[position] {
            Verdict::Taken(level) => heading - self.offer_tokens(position, level),
            _ if self.has_taken => heading.saturating_add(self.offers.separator()),
            _ => heading,
        }
    }

    fn offer_tokens(&self, position: usize, level: Level) -> i64 {
        self.offers.offer(position, level).map_or(0, |offer| offer.tokens)
    }

    pub(super) fn opens(&self, section: SectionId) -> bool {
        section.position().is_some_and(|position| match self.offers.headings() {
            Headings::Once => self.open.get(position) == Some(&0),
            Headings::AtEveryChange => self.last_section != section,
        })
    }

    /// How many forms of a section are taken.
    fn open_mut(&mut self, section: SectionId) -> Option<&mut u32> {
        self.open.get_mut(section.position()?)
    }

    /// Takes a candidate in a form if it fits, and returns whether it is in. Otherwise records the remaining budget. A
    /// candidate that is in already, in this form or a longer one, does not change.
    ///
    /// # Panics
    ///
    /// If there is no candidate at this position.
    #[inline]
    pub fn take(&mut self, position: usize, level: Level) -> bool {
        if !self.is_plain {
            return self.take_form(position, level);
        }
        if level != Level::WHOLE {
            return false;
        }
        if self.verdicts[position].is_taken() {
            return true;
        }
        let tokens = self.offers.candidates()[position].tokens;
        let available_tokens = self.budget.target_tokens - self.used;
        if !(0..=available_tokens).contains(&tokens) {
            self.refuse(position, tokens, available_tokens);
            return false;
        }
        self.used += tokens;
        self.verdicts[position] = Verdict::WHOLE;
        self.moves.push(Move { position: position as u32, level });
        true
    }

    fn take_form(&mut self, position: usize, level: Level) -> bool {
        if self.level(position).is_some_and(|current| current <= level) {
            return true;
        }
        let Some(offer) = self.offers.offer(position, level) else {
            return false;
        };
        if self.blocked.contains(&Move { position: position as u32, level }) {
            return false;
        }
        let overhead = self.overhead(position, offer.section);
        let available_tokens = self.remaining().saturating_sub(overhead);
        if !(0..=available_tokens).contains(&offer.tokens) {
            let cost = offer.tokens.saturating_add(overhead);
            self.refuse(position, cost, available_tokens.max(0));
            return false;
        }
        self.enter(position, level, offer, overhead);
        true
    }

    #[inline]
    fn refuse(&mut self, position: usize, cost: i64, available_tokens: i64) {
        self.exclude(position, Verdict::Left { available_tokens });
        if cost >= 0 {
            self.changes_at(self.used.saturating_add(cost));
        }
    }

    /// Takes a candidate in a form at any cost, such as one that a count requires. Has no effect on a candidate
    /// that is in already in this form or a longer one, or that does not have the form.
    ///
    /// # Panics
    ///
    /// If there is no candidate at this position.
    pub fn commit(&mut self, position: usize, level: Level) {
        if self.level(position).is_none_or(|current| current > level)
            && let Some(offer) = self.offers.offer(position, level)
        {
            let overhead = self.overhead(position, offer.section);
            self.enter(position, level, offer, overhead);
        }
    }

    fn enter(&mut self, position: usize, level: Level, offer: Offer, overhead: i64) {
        let current = self.level(position).and_then(|level| self.offers.offer(position, level));
        if let Some(count) = current.and_then(|current| self.open_mut(current.section)) {
            *count -= 1;
        }
        if let Some(count) = self.open_mut(offer.section) {
            *count += 1;
        }
        (self.last_section, self.has_taken) = (offer.section, true);
        self.used = self.used.saturating_add(offer.tokens).saturating_add(overhead);
        self.verdicts[position] = Verdict::Taken(level);
        self.moves.push(Move { position: position as u32, level });
    }

    /// Excludes a candidate with a verdict. Has no effect on one that is in already, or if the verdict is to take it.
    ///
    /// # Panics
    ///
    /// If there is no candidate at this position.
    #[inline]
    pub fn exclude(&mut self, position: usize, verdict: Verdict) {
        if !self.verdicts[position].is_taken() && !verdict.is_taken() {
            self.verdicts[position] = verdict;
        }
    }

    /// Reports a requirement that could not be met.
    pub fn report_shortfall(&mut self, shortfall: CountRequirementShortfall) {
        if self.reported.insert(shortfall.clone()) {
            self.shortfalls.push(shortfall);
        }
    }

    /// Adds a remark on how the candidates were chosen.
    pub fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Sets how much value the best choice has above the one that is taken, at most; 0 if none is better.
    pub fn set_gap(&mut self, gap: Option<f64>) {
        self.gap = gap;
    }

    /// Returns whether something is taken, so that a separator precedes the next candidate.
    pub(super) fn has_taken(&self) -> bool {
        self.has_taken
    }

    /// Returns the tokens of a section's heading, or 0 if it is paid.
    pub(super) fn heading(&self, section: SectionId) -> i64 {
        if self.opens(section) { self.offers.heading(section) } else { 0 }
    }

    /// Returns whether a move is refused, also if it fits.
    pub(super) fn is_blocked(&self, position: usize, level: Level) -> bool {
        self.blocked.contains(&Move { position: position as u32, level })
    }

    /// Reports a larger target at which the decisions may be others, for slicers that compare by other means than
    /// [`take`](Self::take).
    #[inline]
    pub fn changes_at(&mut self, target: i64) {
        self.holds_below = self.holds_below.min(target);
    }

    /// Reports work beyond a look at each candidate. A search over many budgets stops when it is too much.
    pub fn spend(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// Slices the candidates at these positions, in ascending order, within a budget of their own. Those that are taken
    /// already count towards it; headings that are paid stay paid.
    ///
    /// # Errors
    ///
    /// Any error of `slice`.
    pub fn within<R>(
        &mut self,
        positions: &[u32],
        budget: SliceBudget,
        slice: impl FnOnce(&mut Tally<'_, 'a>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let offers = self.offers.subset(positions);
        let mut inner = Tally::new(&offers, budget);
        for (verdict, position) in inner.verdicts.iter_mut().zip(positions) {
            if let taken @ Verdict::Taken(level) = &self.verdicts[*position as usize] {
                let tokens = self.offer_tokens(*position as usize, *level);
                inner.used = inner.used.saturating_add(tokens);
                *verdict = taken.clone();
            }
        }
        for blocked in &self.blocked {
            if let Ok(position) = positions.binary_search(&blocked.position) {
                inner.block(Move { position: position as u32, ..*blocked });
            }
        }
        let carried = inner.used;
        inner.open.clone_from(&self.open);
        (inner.last_section, inner.has_taken) = (self.last_section, self.has_taken);
        let result = slice(&mut inner)?;
        self.used = self.used.saturating_add(inner.used - carried);
        self.open = inner.open;
        (self.last_section, self.has_taken) = (inner.last_section, inner.has_taken);
        self.spend(inner.steps);
        if inner.holds_below != i64::MAX {
            let more = inner.holds_below.saturating_sub(budget.target_tokens);
            self.changes_at(self.budget.target_tokens.saturating_add(more));
        }
        let outer = |made: Move| Move { position: positions[made.position as usize], ..made };
        self.moves.extend(inner.moves.into_iter().map(outer));
        for (verdict, position) in inner.verdicts.into_iter().zip(positions) {
            self.verdicts[*position as usize] = verdict;
        }
        inner.shortfalls.into_iter().for_each(|shortfall| self.report_shortfall(shortfall));
        inner.notes.into_iter().for_each(|note| self.note(note));
        Ok(result)
    }

    /// Visits the moves in their order and takes back those for which `verdict` returns a reason. Their cost stays
    /// charged.
    pub fn take_back(&mut self, mut verdict: impl FnMut(Move) -> Option<Verdict>) {
        let mut moves = std::mem::take(&mut self.moves);
        moves.retain(|made| {
            let verdict = verdict(*made).filter(|verdict| !verdict.is_taken());
            let is_kept = verdict.is_none();
            verdict.into_iter().for_each(|reason| self.verdicts[made.position as usize] = reason);
            is_kept
        });
        self.moves = moves;
    }

    /// Sorts the moves by a key of their position.
    pub(super) fn sort_moves(&mut self, key: impl Fn(usize) -> u64) {
        self.moves.sort_unstable_by_key(|made| (key(made.position as usize), made.position));
    }

    /// Refuses a move from now on, because the whole exceeds its limit with it.
    pub(crate) fn block(&mut self, refused: Move) {
        self.is_plain = false;
        self.blocked.push(refused);
    }

    /// Raises the target. The certificate starts anew.
    pub(crate) fn raise_target(&mut self, target_tokens: i64) {
        self.budget = self.raised_budget(target_tokens);
        self.holds_below = i64::MAX;
    }

    /// Returns an empty tally of the same offers with a larger target.
    pub(crate) fn restart(&self, target_tokens: i64) -> Self {
        Self::new(self.offers, self.raised_budget(target_tokens))
    }

    fn raised_budget(&self, target_tokens: i64) -> SliceBudget {
        let max_tokens = self.budget.max_tokens.max(target_tokens);
        SliceBudget { target_tokens, max_tokens, ..self.budget }
    }

    /// Returns the sum of the values of what is taken.
    pub(super) fn value(&self) -> f64 {
        let taken = (0..self.verdicts.len()).filter_map(|p| self.offers.offer(p, self.level(p)?));
        taken.fold(0.0, |sum, offer| sum + offer.value)
    }

    /// Returns the tokens that the moves cost.
    pub(crate) fn used(&self) -> i64 {
        self.used
    }

    /// Takes back all but the first `len` moves. The others are left, with `available_tokens`.
    pub(crate) fn truncate_moves(&mut self, len: usize, available_tokens: i64) {
        let mut moves = std::mem::take(&mut self.moves);
        for made in &moves {
            self.verdicts[made.position as usize] = Verdict::Left { available_tokens };
        }
        moves.truncate(len);
        (self.used, self.has_taken, self.last_section) = (0, false, SectionId::NONE);
        self.open.fill(0);
        for Move { position, level } in moves {
            self.commit(position as usize, level);
        }
        // Refusals were for another sum.
        self.holds_below = self.used.saturating_add(1);
    }

    /// Returns the decisions.
    pub(crate) fn into_decisions(self) -> SliceDecisions {
        let Self { verdicts, moves, shortfalls, notes, gap, .. } = self;
        SliceDecisions { verdicts, moves, shortfalls, notes, gap }
    }
}

/// The decisions of a slice.
#[derive(Debug, Default)]
pub(crate) struct SliceDecisions {
    /// The verdict on each candidate.
    pub(crate) verdicts: Vec<Verdict>,
    /// The moves, in the order they were made.
    pub(crate) moves: Vec<Move>,
    /// The requirements that could not be met.
    pub(crate) shortfalls: Vec<CountRequirementShortfall>,
    /// The remarks on how the candidates were chosen.
    pub(crate) notes: Vec<Note>,
    /// How much value the best choice has above this one, at most.
    pub(crate) gap: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, ScoredItem};

    /// Five candidates of 20 tokens with forms of 10 and 5.
    fn with_offers<R>(test: impl FnOnce(&Offers<'_>) -> R) -> R {
        let item = ContextItem::new("text", 20).unwrap();
        let candidate = Candidate::from(ScoredItem { item: &item, score: 1.0 });
        let form = |tokens| Offer { tokens, value: 0.5, section: SectionId::NONE };
        test(&Offers::new([candidate; 5]).with_forms([[form(10), form(5)]; 5]))
    }

    #[test]
    fn a_commitment_only_raises() {
        with_offers(|offers| {
            let mut tally = Tally::new(offers, SliceBudget::new(12));
            for (level, used, moves) in [(1, 10, 1), (2, 10, 1), (1, 10, 1), (0, 20, 2), (3, 20, 2)]
            {
                tally.commit(0, Level::new(level));
                assert_eq!((tally.used(), tally.moves().len()), (used, moves), "{level}");
            }
        });
    }

    #[test]
    fn a_slice_within_knows_and_changes_the_whole() {
        with_offers(|offers| {
            let mut tally = Tally::new(offers, SliceBudget::new(100));
            tally.commit(0, Level::WHOLE);
            tally.commit(3, Level::new(2));
            tally.block(Move { position: 4, level: Level::new(2) });
            let budget = SliceBudget::new(24);
            tally
                .within(&[1, 3, 4], budget, |inner| {
                    // The candidate that is taken already has five tokens.
                    assert_eq!(inner.remaining(), 19);
                    assert!(!inner.take(0, Level::WHOLE));
                    assert!(inner.take(0, Level::new(1)));
                    // Its last form would fit, but is blocked.
                    assert!(!inner.take(2, Level::new(1)) && !inner.take(2, Level::new(2)));
                    inner.spend(7);
                    inner.note(Note::LargerBuckets { bucket_size: 2, memory_limit: 1 });
                    Ok(())
                })
                .unwrap();
            let levels: Vec<_> = (0..5).map(|position| tally.level(position)).collect();
            let level = |level| Some(Level::new(level));
            assert_eq!(levels, [level(0), level(1), None, level(2), None]);
            assert_eq!((tally.used(), tally.steps(), tally.notes().len()), (35, 7, 1));
            // The whole of the first needs one token more, within and in all.
            assert_eq!(tally.holds_below(), 101);
            // Without a refusal, nothing changes at a larger target.
            let mut tally = Tally::new(offers, SliceBudget::new(100));
            tally.within(&[1], budget, |inner| Ok(inner.take(0, Level::WHOLE))).unwrap();
            assert_eq!((tally.used(), tally.holds_below()), (20, i64::MAX));
        });
    }

    #[test]
    fn a_raised_target_raises_the_ceiling() {
        with_offers(|offers| {
            let mut tally = Tally::new(offers, SliceBudget::new(50));
            tally.raise_target(70);
            assert_eq!((tally.budget().target_tokens, tally.budget().max_tokens), (70, 70));
        });
    }
}
