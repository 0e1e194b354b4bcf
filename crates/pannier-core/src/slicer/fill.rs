//! Fills the budget in an order, with forms, sections and shares.
//!
//! A heading costs as much as a short passage, so whether a passage fits depends on those taken before it. The tally
//! knows which headings are paid; this slicer is only the order and the limits.
//!
//! A share is a floor and a cap for a kind. A candidate fits if its kind stays below its cap, and the unmet floors of the
//! other kinds stay free. When no candidate fits any more, one floor is released and the fill goes on. So at most
//! `floors + 1` passes leave no budget that a candidate could use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::greedy::by_density;
use super::marginal::Marginal;
use super::sweep::{SweepRequest, SweepResult, sweep_fill};
use super::{
    Candidate, GreedySlice, Offers, Release, Slicer, SlicerProperties, Tally, Verdict, percentage,
};
use crate::{ContextKind, Error, ExclusionReason, Level, Passage, Search, order, sum_tokens};

const NAME: &str = "FillSlice";

/// The order in which candidates are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FillOrder {
    /// By score.
    #[default]
    Score,
    /// By value per token of the whole, as [`GreedySlice`] does.
    Density,
    /// By what one more token brings: a longer form of a candidate competes with other candidates. A section opens at
    /// the value per token of its best candidates together with the heading.
    ///
    /// Without forms and headings this is [`Density`](Self::Density). Otherwise, and without shares, the value of the
    /// selection is never below that of the best single form.
    Marginal,
    /// The sections in turns, each with its next best. A candidate of no section is a section of its own.
    Turns,
}

/// The part of the target for a kind, in percent. Tokens below the floor that the kind cannot use go to the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The kind.
    pub kind: ContextKind,
    /// The minimum, if the kind has candidates for it.
    pub floor_percent: f64,
    /// The maximum.
    pub cap_percent: f64,
}

/// Takes candidates in an order, each one if it still fits together with the heading that it needs.
///
/// By score, the best comes first at any cost: in a conversation, the last tool output matters more than ten old
/// greetings, although those have a higher value per token. A candidate that does not fit whole is skipped. After the
/// others, it is taken in its longest [form](crate::ContextItem::forms) that fits.
///
/// ```
/// use pannier_core::ContextKind;
/// use pannier_core::slice::{FillOrder, FillSlice, Share};
///
/// let kind = ContextKind::MEMORY;
/// let memories = Share { kind, floor_percent: 20.0, cap_percent: 50.0 };
/// let slicer = FillSlice::new(FillOrder::Marginal).with_max_per_section(3).with_shares([memories])?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FillSlice {
    order: FillOrder,
    length_exponent: f64,
    shortened_first: usize,
    max_per_section: Option<usize>,
    shares: Vec<Share>,
}

impl FillSlice {
    /// Takes candidates in this order, with no limit per section.
    pub fn new(order: FillOrder) -> Self {
        Self { order, ..Self::default() }
    }

    /// Takes candidates by score divided by a power of their tokens, if they are taken by score. At 0, the default, their
    /// length does not matter; at 1, the score per token decides.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if the exponent is not from 0 to 1.
    pub fn with_length_exponent(mut self, exponent: f64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&exponent) {
            let problem = format!("the length exponent is {exponent}; expected 0 to 1");
            return Err(Error::InvalidSlicer { slicer: NAME, problem });
        }
        self.length_exponent = exponent;
        Ok(self)
    }

    /// Takes the first candidates in their longest form that fits before others are taken, if they do not fit whole. Default:
    /// none, so that shorter forms fill what whole candidates leave.
    #[must_use]
    pub fn with_shortened_first(mut self, candidates: usize) -> Self {
        self.shortened_first = candidates;
        self
    }

    /// Sets the maximum number of candidates of one section. If the layout has no sections, the documents of
    /// [passages](Passage) are the sections.
    #[must_use]
    pub fn with_max_per_section(mut self, candidates: usize) -> Self {
        self.max_per_section = Some(candidates);
        self
    }

    /// Sets the floor and the cap of some kinds. Where not all floors can be used, the last one is released first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a kind is named twice, a floor is above its cap or not a percentage, or the floors add
    /// up to more than 100 percent.
    pub fn with_shares(mut self, shares: impl IntoIterator<Item = Share>) -> Result<Self, Error> {
        self.shares = shares.into_iter().collect();
        let invalid = |problem: String| Error::InvalidSlicer { slicer: NAME, problem };
        let mut kinds = BTreeSet::new();
        for Share { kind, floor_percent, cap_percent } in &self.shares {
            if !kinds.insert(kind) {
                return Err(invalid(format!("kind '{kind}' has two shares; give it one")));
            }
            if !(0.0..=100.0).contains(cap_percent) || !(0.0..=*cap_percent).contains(floor_percent)
            {
                return Err(invalid(format!(
                    "kind '{kind}' has a floor of {floor_percent} and a cap of {cap_percent} percent; \
                     expected 0 <= floor <= cap <= 100"
                )));
            }
        }
        let floors: f64 = self.shares.iter().map(|share| share.floor_percent).sum();
        match floors <= 100.0 + 1e-9 {
            true => Ok(self),
            false => {
                Err(invalid(format!("the floors add up to {floors} percent; lower them to 100")))
            }
        }
    }

    /// The section of each candidate, numbered in order of appearance.
    fn sections<'a>(offers: &Offers<'a>) -> Vec<Option<usize>> {
        let candidates = offers.candidates().iter();
        if offers.section_count() > 0 {
            return candidates.map(|candidate| candidate.section.position()).collect();
        }
        let mut documents = BTreeMap::new();
        let number = |candidate: &Candidate<'a>| {
            let (document, next) = (Passage::from_item(candidate.item)?.document, documents.len());
            Some(*documents.entry(document).or_insert(next))
        };
        candidates.map(number).collect()
    }

    /// Positions in the order in which they are visited.
    fn order(&self, offers: &Offers<'_>, sections: &[Option<usize>]) -> Vec<u32> {
        let candidates = offers.candidates();
        match self.order {
            FillOrder::Density | FillOrder::Marginal => by_density(offers),
            FillOrder::Score if self.length_exponent > 0.0 => {
                let key = |candidate: &Candidate<'_>| {
                    let tokens = candidate.tokens.max(1) as f64;
                    candidate.score / libm::pow(tokens, self.length_exponent)
                };
                order::positions_by_score(candidates.iter().map(key))
            }
            FillOrder::Score => {
                let key = |position: usize| order::descending_key(candidates[position].score);
                match (1..candidates.len()).all(|position| key(position - 1) <= key(position)) {
                    true => (0..candidates.len() as u32).collect(),
                    false => order::positions_by_score(
                        candidates.iter().map(|candidate| candidate.score),
                    ),
                }
            }
            FillOrder::Turns => {
                // The number of earlier candidates of each section, and the position of its first.
                let mut seen: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
                let rounds = sections.iter().enumerate().map(|(position, section)| {
                    let Some(section) = section else {
                        return (0, position);
                    };
                    let (count, first) = seen.entry(*section).or_insert((0, position));
                    *count += 1;
                    (*count - 1, *first)
                });
                let rounds: Vec<(usize, usize)> = rounds.collect();
                let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
                order.sort_by_key(|position| rounds[*position as usize]);
                order
            }
        }
    }

    /// Returns the sections, if the order or the limits need them.
    fn needed_sections(&self, offers: &Offers<'_>) -> Vec<Option<usize>> {
        match self.order == FillOrder::Turns || self.max_per_section.is_some() {
            true => Self::sections(offers),
            false => Vec::new(),
        }
    }

    fn is_limited(&self) -> bool {
        self.max_per_section.is_some() || !self.shares.is_empty()
    }

    /// Whether candidates are taken as [`GreedySlice`] takes them.
    fn is_greedy(&self, offers: &Offers<'_>) -> bool {
        match self.order {
            _ if self.is_limited() || offers.has_forms() => false,
            FillOrder::Density => true,
            FillOrder::Marginal => offers.section_count() == 0,
            _ => false,
        }
    }
}

impl Slicer for FillSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let offers = tally.offers();
        if tally.budget().target_tokens <= 0 {
            return Ok(());
        }
        if self.is_greedy(offers) {
            return GreedySlice.slice(tally);
        }
        let sections = self.needed_sections(offers);
        let has_steps = offers.has_forms() || offers.section_count() > 0;
        let marginal =
            (self.order == FillOrder::Marginal && has_steps).then(|| Marginal::new(offers));
        let order = if marginal.is_none() { self.order(offers, &sections) } else { Vec::new() };
        let mut limits = Limits::new(self, sections, tally);
        loop {
            match &marginal {
                Some(marginal) => marginal.fill(tally, &mut limits),
                None => {
                    for (rank, position) in order.iter().enumerate() {
                        let position = *position as usize;
                        let is_in = limits.take(tally, position, Level::WHOLE);
                        if !is_in && rank < self.shortened_first {
                            limits.take_longest(tally, position);
                        }
                    }
                    let shortened = if offers.has_forms() { &order[..] } else { &[] };
                    for position in shortened {
                        limits.take_longest(tally, *position as usize);
                    }
                }
            }
            if !limits.release_floor(tally) {
                return Ok(());
            }
        }
    }

    fn properties(&self) -> SlicerProperties {
        let (is_score_ordered, release) = match self.order {
            FillOrder::Score if self.length_exponent > 0.0 || self.shortened_first > 0 => {
                (false, Release::LastTaken)
            }
            FillOrder::Score | FillOrder::Density => (true, Release::LowestScore),
            FillOrder::Marginal => (false, Release::LastTaken),
            FillOrder::Turns => (false, Release::LowestScore),
        };
        let splits_budget_by_kind = !self.shares.is_empty();
        SlicerProperties {
            is_score_ordered,
            splits_budget_by_kind,
            release,
            ..SlicerProperties::UNORDERED
        }
    }

    fn sweep(&self, asked: &SweepRequest<'_, '_>, search: &mut Search<'_>) -> Option<SweepResult> {
        let offers = asked.offers;
        if !offers.is_plain() || self.is_limited() {
            return None;
        }
        Some(sweep_fill(asked, self.order(offers, &self.needed_sections(offers)), search))
    }
}

/// The limits of a fill, and how far they are used.
#[derive(Clone, Debug)]
pub(super) struct Limits<'s> {
    max_per_section: Option<usize>,
    /// The section of each candidate; empty if that is not needed.
    sections: Vec<Option<usize>>,
    counts: BTreeMap<usize, usize>,
    shares: Vec<UsedShare<'s>>,
    /// The share of each candidate; empty if there are no shares.
    share_of: Vec<Option<usize>>,
}

#[derive(Clone, Debug)]
struct UsedShare<'s> {
    share: &'s Share,
    /// The tokens that stay free for the kind, as far as it does not use them.
    reserved: i64,
    cap: i64,
    used: i64,
}

impl UsedShare<'_> {
    fn unmet(&self) -> i64 {
        self.reserved.saturating_sub(self.used).max(0)
    }
}

impl<'s> Limits<'s> {
    fn new(slicer: &'s FillSlice, sections: Vec<Option<usize>>, tally: &Tally<'_, '_>) -> Self {
        let (offers, target) = (tally.offers(), tally.budget().target_tokens);
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let taken = (0..sections.len()).filter(|position| tally.level(*position).is_some());
        for section in taken.filter_map(|position| sections[position]) {
            *counts.entry(section).or_default() += 1;
        }
        let kinds: BTreeMap<&ContextKind, usize> =
            slicer.shares.iter().zip(0..).map(|(share, number)| (&share.kind, number)).collect();
        let share_of: Vec<Option<usize>> = match kinds.is_empty() {
            true => Vec::new(),
            false => {
                let share = |candidate: &Candidate<'_>| kinds.get(candidate.item.kind()).copied();
                offers.candidates().iter().map(share).collect()
            }
        };
        let used_share = |(share, number): (&'s Share, usize)| {
            let positions = || (0..share_of.len()).filter(|p| share_of[*p] == Some(number));
            let all = sum_tokens(positions().map(|position| offers.candidates()[position].tokens));
            let used = positions().filter_map(|p| offers.offer(p, tally.level(p)?));
            UsedShare {
                share,
                reserved: percentage(share.floor_percent, target).min(all),
                cap: percentage(share.cap_percent, target),
                used: sum_tokens(used.map(|offer| offer.tokens)),
            }
        };
        let shares = slicer.shares.iter().zip(0..).map(used_share).collect();
        Self { max_per_section: slicer.max_per_section, sections, counts, shares, share_of }
    }

    pub(super) fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Takes a candidate in a form if it fits and the limits allow it. Returns whether it is in.
    pub(super) fn take(
        &mut self,
        tally: &mut Tally<'_, '_>,
        position: usize,
        level: Level,
    ) -> bool {
        let current = tally.level(position);
        if current.is_some_and(|current| current <= level) {
            return true;
        }
        let section = self.sections.get(position).copied().flatten();
        if let (Some(cap), Some(section), None) = (self.max_per_section, section, current) {
            let count = self.counts.get(&section).copied().unwrap_or_default();
            if count >= cap {
                let passage = Passage::from_item(tally.candidates()[position].item);
                let document = passage.map_or("", |passage| passage.document).to_owned();
                let reason = ExclusionReason::DocumentCapExceeded { document, cap, count };
                tally.exclude(position, Verdict::Excluded(Arc::new(reason)));
                return false;
            }
        }
        // A share counts the tokens of its candidates. Headings belong to no kind.
        let tokens = |level| tally.offers().offer(position, level).map_or(0, |offer| offer.tokens);
        let tokens = tokens(level) - current.map_or(0, tokens);
        if self.has_shares() && !self.shares_allow(tally, position, level, tokens)
            || !tally.take(position, level)
        {
            return false;
        }
        if let (Some(section), None) = (section, current) {
            *self.counts.entry(section).or_default() += 1;
        }
        if let Some(share) = self.share_of.get(position).copied().flatten() {
            self.shares[share].used = self.shares[share].used.saturating_add(tokens);
        }
        true
    }

    /// Takes a candidate in its longest form below the whole that fits.
    fn take_longest(&mut self, tally: &mut Tally<'_, '_>, position: usize) {
        let levels = match tally.level(position) {
            Some(level) => level.get(),
            None => tally.offers().levels(position),
        };
        Level::new(1).up_to(levels).any(|level| self.take(tally, position, level));
    }

    /// Whether a candidate leaves its kind below the cap, and the floors of the other kinds free.
    ///
    /// With `n` tokens more, caps and floors grow, and what the floors leave free grows by at most `n`. It may fall, but
    /// by less than a token for each floor, because floors are rounded.
    fn shares_allow(
        &self,
        tally: &mut Tally<'_, '_>,
        position: usize,
        level: Level,
        tokens: i64,
    ) -> bool {
        let target = tally.budget().target_tokens;
        let own = self.share_of[position];
        if let Some(UsedShare { share, cap, used, .. }) = own.map(|own| &self.shares[own])
            && tokens > cap.saturating_sub(*used)
        {
            let (cap, actual) = (*cap, used.saturating_add(tokens));
            let kind = share.kind.to_string();
            let reason = ExclusionReason::QuotaCapExceeded { kind, cap, actual };
            tally.exclude(position, Verdict::Excluded(Arc::new(reason)));
            // A float may err by a token above 2^40.
            let reached = (actual as f64 * 100.0 / share.cap_percent).floor();
            let reached = if target < 1 << 40 { reached as i64 - 1 } else { target };
            tally.changes_at(reached.max(target.saturating_add(1)));
            return false;
        }
        let others = self.shares.iter().enumerate().filter(|(number, _)| own != Some(*number));
        let unmet = sum_tokens(others.clone().map(|(_, share)| share.unmet()));
        let available = tally.remaining().saturating_sub(unmet);
        let cost = tally.cost(position, level).unwrap_or(i64::MAX);
        if cost > available {
            let available_tokens = available.saturating_sub(cost - tokens).max(0);
            tally.exclude(position, Verdict::Left { available_tokens });
            tally.changes_at(target.saturating_add(cost - available));
            return false;
        }
        let floors = others.filter(|(_, share)| share.share.floor_percent > 0.0).count();
        if available - cost < floors as i64 {
            tally.changes_at(target.saturating_add(1));
        }
        true
    }

    /// Releases the last floor that is not met, if there is one and budget is left.
    fn release_floor(&mut self, tally: &Tally<'_, '_>) -> bool {
        let is_unmet = |share: &&mut UsedShare<'_>| share.unmet() > 0;
        let unmet = self.shares.iter_mut().rev().find(is_unmet).filter(|_| tally.remaining() >= 0);
        unmet.map(|share| share.reserved = 0).is_some()
    }
}
