//! Fills the budget tier by tier, and sends titles where texts do not fit.
//!
//! Some context comes before other context, whatever it scores: open tasks before conventions, those before old
//! decisions. A tier is one or more kinds with a cap, and gets what the tiers before it left. Where a tier does not fit,
//! its best candidates are taken whole and the others in their short form, so that at least their titles are known.
//!
//! Whole candidates may fill a part of a share only, or the first long text would leave no room for any title. What
//! titles do not need goes back: a candidate is shortened only if all of it does not fit what is left in the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Candidate, SliceOutcome, Slicer, SlicerProperties, Verdict};
use crate::{ContextKind, Error, ExclusionReason, SliceBudget, sum_tokens};

const NAME: &str = "TieredSlice";

/// Kinds that get their turn together.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// The kinds. Of a share that they have together, each gets a part in proportion to what its candidates cost.
    pub kinds: Vec<ContextKind>,
    /// How much of the whole budget they may use, in percent. Never more than what is left.
    pub cap_percent: f64,
    /// How much of a share each kind gets at least, in percent, if it can use it.
    pub floor_percent: f64,
    /// Whether candidates with a score of 0 or less are left out, title and all, unless the whole tier fits.
    pub drop_worthless: bool,
}

impl Tier {
    /// A tier of these kinds, which may use all that is left.
    pub fn new(kinds: impl IntoIterator<Item = ContextKind>) -> Self {
        Self {
            kinds: kinds.into_iter().collect(),
            cap_percent: 100.0,
            floor_percent: 0.0,
            drop_worthless: false,
        }
    }
}

/// Takes candidates tier by tier, whole where they fit and in their [short form](crate::ContextItem::short_form) where
/// they do not.
///
/// Kinds of no tier are one more tier, the last. If everything fits, everything is taken, whatever the caps.
///
/// ```
/// use pannier_core::{ContextKind, Tier, TieredSlice};
///
/// let tasks = Tier { cap_percent: 40.0, ..Tier::new([ContextKind::new("task")?]) };
/// let slicer = TieredSlice::new([tasks, Tier::new([ContextKind::MEMORY])])?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TieredSlice {
    tiers: Vec<Tier>,
    whole_percent: f64,
}

impl TieredSlice {
    /// How much of a share whole candidates may fill before titles, unless set.
    pub const WHOLE_PERCENT: f64 = 80.0;

    /// Fills these tiers, the first one first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a tier has no kind, a kind is in two tiers, or a number is not a percentage.
    pub fn new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, Error> {
        let slicer =
            Self { tiers: tiers.into_iter().collect(), whole_percent: Self::WHOLE_PERCENT };
        let mut kinds = BTreeMap::new();
        for (number, tier) in slicer.tiers.iter().enumerate() {
            if tier.kinds.is_empty() {
                return Err(invalid(format!(
                    "tier {} has no kinds; name at least one",
                    number + 1
                )));
            }
            check_percent("cap", tier.cap_percent)?;
            check_percent("floor", tier.floor_percent)?;
            if tier.floor_percent * tier.kinds.len() as f64 > 100.0 + 1e-9 {
                let (floor, count) = (tier.floor_percent, tier.kinds.len());
                return Err(invalid(format!(
                    "{count} kinds cannot have {floor} percent of a share each; lower the floor"
                )));
            }
            for kind in &tier.kinds {
                if kinds.insert(kind, number).is_some() {
                    return Err(invalid(format!("kind '{kind}' is named twice; name it once")));
                }
            }
        }
        Ok(slicer)
    }

    /// Sets how much of a share whole candidates may fill before titles, where not everything fits.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if it is not from 0 to 100.
    pub fn with_whole_percent(mut self, percent: f64) -> Result<Self, Error> {
        self.whole_percent = check_percent("whole", percent)?;
        Ok(self)
    }

    /// The candidates by tier, and within a tier by kind; the kinds of no tier at the end, as one.
    fn groups(&self, candidates: &[Candidate<'_>]) -> Vec<Vec<Section>> {
        let mut groups: Vec<Vec<Section>> =
            self.tiers.iter().map(|tier| vec![Section::default(); tier.kinds.len()]).collect();
        groups.push(vec![Section::default()]);
        let mut places = Places::new(&self.tiers);
        for (position, candidate) in candidates.iter().enumerate() {
            let (tier, section) = places.of(candidate.item.kind());
            groups[tier][section].positions.push(position);
        }
        groups
    }
}

/// Finds the tier of a kind, and its place in there.
struct Places<'p> {
    tiers: &'p [Tier],
    /// Those that were asked for. There are few, and to find the same spelling again takes no folding of case.
    known: Vec<(&'p str, (usize, usize))>,
}

impl<'p> Places<'p> {
    fn new(tiers: &'p [Tier]) -> Self {
        Self { tiers, known: Vec::new() }
    }

    fn of(&mut self, kind: &'p ContextKind) -> (usize, usize) {
        let spelling = kind.as_str();
        if let Some((_, place)) = self.known.iter().find(|(known, _)| *known == spelling) {
            return *place;
        }
        let mut tiers = self.tiers.iter().enumerate();
        let place = tiers.find_map(|(tier, of)| {
            of.kinds.iter().position(|other| other == kind).map(|section| (tier, section))
        });
        let place = place.unwrap_or((self.tiers.len(), 0));
        // Beyond a few, to look through them takes longer than it saves.
        if self.known.len() < 16 {
            self.known.push((spelling, place));
        }
        place
    }
}

fn invalid(problem: String) -> Error {
    Error::InvalidSlicer { slicer: NAME, problem }
}

fn check_percent(name: &str, percent: f64) -> Result<f64, Error> {
    match (0.0..=100.0).contains(&percent) {
        true => Ok(percent),
        false => Err(invalid(format!("{name} is {percent}; it must be from 0 to 100 percent"))),
    }
}

fn share(percent: f64, tokens: i64) -> i64 {
    (percent / 100.0 * tokens as f64).floor() as i64
}

impl Slicer for TieredSlice {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        let mut outcome = SliceOutcome::new(candidates.len());
        if budget.target_tokens <= 0 {
            return Ok(outcome);
        }
        let mut filling = Filling {
            candidates,
            whole_percent: self.whole_percent,
            taken: vec![Form::Out; candidates.len()],
            outcome: &mut outcome,
        };
        let mut groups = self.groups(candidates);
        let everything = sum_tokens(groups.iter().flatten().map(|section| filling.need(section)));
        let mut remaining = budget.target_tokens;
        let rest = Tier::new([]);
        for (tier, sections) in self.tiers.iter().chain([&rest]).zip(&mut groups) {
            let cap = match everything <= budget.target_tokens {
                true => remaining,
                false => share(tier.cap_percent, budget.whole_tokens).min(remaining),
            };
            remaining -= filling.fill(tier, sections, cap);
        }
        filling.tell(&groups);
        Ok(outcome)
    }

    fn keeps_shares(
        &self,
        candidates: &[Candidate<'_>],
        verdicts: &[Verdict],
        budget: SliceBudget,
    ) -> bool {
        let mut places = Places::new(&self.tiers);
        // By tier: what is taken, and the headings of its kinds.
        let mut used: Vec<(i64, Vec<i64>)> =
            self.tiers.iter().map(|tier| (0, vec![0; tier.kinds.len()])).collect();
        for (candidate, verdict) in candidates.iter().zip(verdicts) {
            let (tokens, heading_tokens) = match verdict {
                Verdict::Taken => (candidate.tokens, candidate.heading_tokens),
                Verdict::Shortened => (candidate.short_tokens.unwrap_or_default(), 0),
                _ => continue,
            };
            let (tier, section) = places.of(candidate.item.kind());
            if let Some((taken, headings)) = used.get_mut(tier) {
                *taken = taken.saturating_add(tokens);
                headings[section] = headings[section].max(heading_tokens);
            }
        }
        self.tiers.iter().zip(used).all(|(tier, (taken, headings))| {
            tier.cap_percent >= 100.0
                || sum_tokens(headings.into_iter().chain([taken]))
                    <= share(tier.cap_percent, budget.whole_tokens)
        })
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties { shares_budget: true, takes_tiers: true, ..SlicerProperties::UNORDERED }
    }
}

/// The candidates of one kind in a tier, in order of score.
#[derive(Clone, Default)]
struct Section {
    positions: Vec<usize>,
    /// Whether its heading is paid, as it is with the first whole candidate.
    is_open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Out,
    Short,
    Whole,
}

struct Filling<'f, 'a> {
    candidates: &'f [Candidate<'a>],
    whole_percent: f64,
    /// By position.
    taken: Vec<Form>,
    outcome: &'f mut SliceOutcome,
}

impl Filling<'_, '_> {
    /// What a section costs, all of it.
    fn need(&self, section: &Section) -> i64 {
        let candidates = section.positions.iter().map(|position| &self.candidates[*position]);
        let heading = candidates.clone().map(|candidate| candidate.heading_tokens).max();
        sum_tokens(candidates.map(|candidate| candidate.tokens).chain(heading))
    }

    /// Fills a tier, and says what it used.
    fn fill(&mut self, tier: &Tier, sections: &mut [Section], tokens: i64) -> i64 {
        if sum_tokens(sections.iter().map(|section| self.need(section))) > tokens
            && tier.drop_worthless
        {
            let filter_name = "drop_worthless".to_owned();
            let worthless = Arc::new(ExclusionReason::Filtered { filter_name });
            for section in &mut *sections {
                section.positions.retain(|position| {
                    let is_worth = self.candidates[*position].score > 0.0;
                    if !is_worth {
                        let verdict = Verdict::Excluded(Arc::clone(&worthless));
                        self.outcome.leave(*position, verdict);
                    }
                    is_worth
                });
            }
        }
        let needs: Vec<i64> = sections.iter().map(|section| self.need(section)).collect();
        let shares = split(tokens, &needs, tier.floor_percent);
        // What one section does not use, the next may; and what the last does not, all of them.
        let mut left = tokens - sum_tokens(shares.iter().copied());
        for (section, share) in sections.iter_mut().zip(&shares) {
            left = self.fill_section(section, left.saturating_add(*share));
        }
        for section in sections.iter_mut() {
            left = self.shorten(section, left);
            left = self.complete(section, left, 0);
        }
        tokens - left
    }

    /// Fills a section, and says what is left of its share.
    fn fill_section(&mut self, section: &mut Section, share: i64) -> i64 {
        let reserved = match self.need(section) <= share {
            true => 0,
            false => share - self::share(self.whole_percent, share),
        };
        let left = self.complete(section, share, reserved);
        let left = self.shorten(section, left);
        self.complete(section, left, 0)
    }

    /// Takes what is not whole yet, best first, as long as so much stays reserved. What is left is returned.
    fn complete(&mut self, section: &mut Section, mut left: i64, reserved: i64) -> i64 {
        for &position in &section.positions {
            let candidate = &self.candidates[position];
            let short_tokens = match self.taken[position] {
                Form::Whole => continue,
                Form::Short => candidate.short_tokens.unwrap_or_default(),
                Form::Out => 0,
            };
            let heading_tokens = if section.is_open { 0 } else { candidate.heading_tokens };
            let cost = candidate.tokens.saturating_add(heading_tokens) - short_tokens;
            if cost <= left - reserved && left >= reserved {
                left -= cost;
                section.is_open = true;
                self.taken[position] = Form::Whole;
            } else if self.taken[position] == Form::Out {
                let available_tokens = (left - reserved - heading_tokens).max(0);
                self.outcome.leave(position, Verdict::Left { available_tokens });
            }
        }
        left
    }

    /// Takes the short forms of what is not taken yet, best first. What is left is returned.
    fn shorten(&mut self, section: &Section, mut left: i64) -> i64 {
        for &position in &section.positions {
            let short_tokens = self.candidates[position].short_tokens;
            // One that is not shorter is no use.
            if let (Form::Out, Some(tokens)) = (self.taken[position], short_tokens)
                && tokens < self.candidates[position].tokens
                && tokens <= left
            {
                left -= tokens;
                self.taken[position] = Form::Short;
            }
        }
        left
    }

    /// Tells what was taken: tier by tier, and within a tier what is whole before what is short.
    fn tell(self, groups: &[Vec<Section>]) {
        for sections in groups {
            let positions = || sections.iter().flat_map(|section| &section.positions).copied();
            for position in positions().filter(|position| self.taken[*position] == Form::Whole) {
                self.outcome.take(position);
            }
            for position in positions().filter(|position| self.taken[*position] == Form::Short) {
                self.outcome.shorten(position);
            }
        }
    }
}

/// Splits tokens among sections in proportion to what they need. None gets less than its floor, unless it needs less;
/// and if all needs can be met, they are.
fn split(tokens: i64, needs: &[i64], floor_percent: f64) -> Vec<i64> {
    if sum_tokens(needs.iter().copied()) <= tokens {
        return needs.to_vec();
    }
    let floor = share(floor_percent, tokens);
    let mut shares: Vec<Option<i64>> = vec![None; needs.len()];
    loop {
        let given = sum_tokens(shares.iter().flatten().copied());
        let left = i128::from(tokens.saturating_sub(given).max(0));
        let open = shares.iter().zip(needs).filter(|(share, _)| share.is_none());
        let needed: i128 = open.map(|(_, need)| i128::from(*need)).sum();
        let proportion = |need: i64| match needed {
            0 => 0,
            // A part of `left`, so it is not larger.
            needed => (left * i128::from(need) / needed) as i64,
        };
        let low = shares
            .iter()
            .zip(needs)
            .position(|(share, need)| share.is_none() && proportion(*need) < floor.min(*need));
        match low {
            Some(low) => shares[low] = Some(floor.min(needs[low])),
            None => {
                let shares = shares.iter().zip(needs);
                return shares.map(|(share, need)| share.unwrap_or(proportion(*need))).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_split_by_need_and_nobody_falls_below_the_floor() {
        // In proportion, where that is enough for everybody.
        assert_eq!(split(1_000, &[900, 600], 30.0), [600, 400]);
        // The floor, and the rest for the other.
        assert_eq!(split(1_000, &[9_000, 1_000], 30.0), [700, 300]);
        assert_eq!(split(1_000, &[1_000, 9_000], 30.0), [300, 700]);
        // A floor that is not needed goes to the others.
        assert_eq!(split(1_000, &[9_000, 100], 30.0), [900, 100]);
        assert_eq!(split(1_000, &[9_000, 0], 30.0), [1_000, 0]);
        // Three of them.
        assert_eq!(split(1_000, &[100, 5_000, 5_000], 30.0), [100, 450, 450]);
        assert_eq!(split(1_000, &[400, 9_000, 9_000], 30.0), [300, 350, 350]);
        // Everything fits.
        assert_eq!(split(1_000, &[400, 600], 30.0), [400, 600]);
        assert_eq!(split(0, &[400, 600], 30.0), [0, 0]);
        assert_eq!(split(i64::MAX - 1, &[i64::MAX, i64::MAX], 0.0), [i64::MAX / 2, i64::MAX / 2]);
    }

    #[test]
    fn impossible_tiers_are_refused() {
        let kind = |name: &str| ContextKind::new(name).unwrap();
        let problem = |tiers: Vec<Tier>| TieredSlice::new(tiers).unwrap_err().to_string();
        assert!(problem(vec![Tier::new([])]).contains("tier 1 has no kinds"));
        let twice = vec![Tier::new([kind("a")]), Tier::new([kind("b"), kind("A")])];
        assert!(problem(twice).contains("named twice"));
        let floor = Tier { floor_percent: 51.0, ..Tier::new([kind("a"), kind("b")]) };
        assert!(problem(vec![floor]).contains("lower the floor"));
        for cap_percent in [-1.0, 100.5, f64::NAN] {
            let tier = Tier { cap_percent, ..Tier::new([kind("a")]) };
            assert!(problem(vec![tier]).contains("from 0 to 100 percent"), "{cap_percent}");
        }
    }
}
