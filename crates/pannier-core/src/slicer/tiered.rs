//! Fills the budget tier by tier, and sends titles where texts do not fit.
//!
//! A tier is one or more kinds with a cap, and gets the budget that the tiers before it left: open tasks come before
//! conventions, those before old decisions. If a tier does not fit, its best candidates are taken whole and the others
//! in their short form, so that at least their titles are sent.
//!
//! Whole candidates may fill only a part of a share, or the first long text would leave no budget for titles. Budget
//! that titles do not need is returned: a candidate is shortened only if its whole does not fit the remaining budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Candidate, Release, Slicer, SlicerProperties, Tally, Verdict, percentage};
use crate::{ContextKind, Error, ExclusionReason, Level, sum_tokens};

const NAME: &str = "TieredSlice";

/// Kinds that are filled together.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// The kinds. Each gets a part of their common share, in proportion to the cost of its candidates.
    pub kinds: Vec<ContextKind>,
    /// The maximum share of the whole budget, in percent. Never more than the remaining budget.
    pub cap_percent: f64,
    /// The minimum part of the share for each kind, in percent, if the kind can use it.
    pub floor_percent: f64,
    /// Whether candidates with a score of 0 or less are excluded, also their titles, unless the whole tier fits.
    pub drop_zero_score: bool,
}

impl Tier {
    /// A tier of these kinds, which may use all of the remaining budget.
    pub fn new(kinds: impl IntoIterator<Item = ContextKind>) -> Self {
        Self {
            kinds: kinds.into_iter().collect(),
            cap_percent: 100.0,
            floor_percent: 0.0,
            drop_zero_score: false,
        }
    }
}

/// Takes candidates tier by tier, whole where they fit and in a shorter [form](crate::ContextItem::forms) where they do
/// not.
///
/// Kinds of no tier are one more tier, the last. If everything fits, everything is taken, regardless of caps.
///
/// ```
/// use pannier_core::ContextKind;
/// use pannier_core::slice::{Tier, TieredSlice};
///
/// let tasks = Tier { cap_percent: 40.0, ..Tier::new([ContextKind::new("task")?]) };
/// let slicer = TieredSlice::new([tasks, Tier::new([ContextKind::MEMORY])])?;
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TieredSlice {
    tiers: Vec<Tier>,
    full_text_percent: f64,
}

impl TieredSlice {
    /// The default part of a share that whole candidates may fill before titles, in percent.
    pub const FULL_TEXT_PERCENT: f64 = 80.0;

    /// Fills these tiers, the first one first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if a tier has no kind, a kind is in two tiers, or a number is not a percentage.
    pub fn new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, Error> {
        let slicer =
            Self { tiers: tiers.into_iter().collect(), full_text_percent: Self::FULL_TEXT_PERCENT };
        let mut kinds = BTreeSet::new();
        for (number, tier) in slicer.tiers.iter().enumerate() {
            if tier.kinds.is_empty() {
                let number = number + 1;
                return Err(invalid(format!("tier {number} has no kinds; name at least one")));
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
                if !kinds.insert(kind) {
                    return Err(invalid(format!("kind '{kind}' is named twice; name it once")));
                }
            }
        }
        Ok(slicer)
    }

    /// Sets the part of a share that whole candidates may fill before titles, in percent, where not everything fits.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if it is not from 0 to 100.
    pub fn with_full_text_percent(mut self, percent: f64) -> Result<Self, Error> {
        self.full_text_percent = check_percent("whole", percent)?;
        Ok(self)
    }

    /// The positions of candidates by tier, and within a tier by kind; the kinds of no tier at the end, as one.
    fn sections(&self, candidates: &[Candidate<'_>]) -> Vec<Vec<Vec<usize>>> {
        let mut sections: Vec<Vec<Vec<usize>>> =
            self.tiers.iter().map(|tier| vec![Vec::new(); tier.kinds.len()]).collect();
        sections.push(vec![Vec::new()]);
        let mut known = BTreeMap::new();
        for (position, candidate) in candidates.iter().enumerate() {
            let kind = candidate.item.kind();
            // Kinds compare without regard to case, spellings do not: finding the same one again is cheap.
            let (tier, section) = *known.entry(kind.as_str()).or_insert_with(|| self.find(kind));
            sections[tier][section].push(position);
        }
        sections
    }

    /// The tier of a kind, and its position in the tier.
    fn find(&self, kind: &ContextKind) -> (usize, usize) {
        let section = |tier: &Tier| tier.kinds.iter().position(|other| other == kind);
        let mut tiers = self.tiers.iter().enumerate();
        let found = tiers.find_map(|(number, tier)| Some((number, section(tier)?)));
        found.unwrap_or((self.tiers.len(), 0))
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

impl Slicer for TieredSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let budget = tally.budget();
        if budget.target_tokens <= 0 {
            return Ok(());
        }
        let mut sections = self.sections(tally.candidates());
        let is_first = tally.moves().len() == tally.offers().kept().len();
        let full_text_percent = self.full_text_percent;
        let mut fill = TierFill { tally, full_text_percent, is_first };
        let all_sections = sections.iter().flatten();
        let everything = sum_tokens(all_sections.map(|section| fill.need(section)));
        // Later, a target is raised by what a plan over-estimates, and not everything may really fit.
        let is_uncapped = everything <= budget.target_tokens && is_first;
        let mut remaining = budget.target_tokens;
        let rest = Tier::new([]);
        for (tier, sections) in self.tiers.iter().chain([&rest]).zip(&mut sections) {
            let cap = match is_uncapped {
                true => remaining,
                false => percentage(tier.cap_percent, budget.whole_tokens).min(remaining),
            };
            remaining -= fill.fill(tier, sections, cap);
        }
        // Caps and shares are rounded parts of the budget.
        tally.changes_at(budget.target_tokens.saturating_add(1));
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties {
            splits_budget_by_kind: true,
            release: Release::LastTaken,
            ..SlicerProperties::UNORDERED
        }
    }
}

struct TierFill<'t, 'o, 'a> {
    tally: &'t mut Tally<'o, 'a>,
    full_text_percent: f64,
    /// Whether nothing was taken before but what is kept.
    is_first: bool,
}

impl TierFill<'_, '_, '_> {
    /// The cost of a section if all of it is whole. A section is the positions of one kind, in order of score.
    fn need(&self, section: &[usize]) -> i64 {
        self.cost(section, |_| Some(Level::WHOLE))
    }

    /// The cost of the forms that are taken of a section.
    fn used(&self, section: &[usize]) -> i64 {
        self.cost(section, |position| self.tally.level(position))
    }

    fn cost(&self, section: &[usize], level: impl Fn(usize) -> Option<Level>) -> i64 {
        let (offers, mut heading) = (self.tally.offers(), 0);
        let tokens = section.iter().filter_map(|position| {
            let offer = offers.offer(*position, level(*position)?)?;
            heading = heading.max(offers.heading(offer.section));
            Some(offer.tokens)
        });
        sum_tokens(tokens).saturating_add(heading)
    }

    /// Fills a tier, and returns the tokens that it uses.
    fn fill(&mut self, tier: &Tier, sections: &mut [Vec<usize>], tokens: i64) -> i64 {
        let needed = sum_tokens(sections.iter().map(|section| self.need(section)));
        if tier.drop_zero_score && (needed > tokens || !self.is_first) {
            sections.iter_mut().for_each(|section| self.drop_zero_score(section));
        }
        let needs: Vec<i64> = sections.iter().map(|section| self.need(section)).collect();
        let shares = allocate(tokens, &needs, tier.floor_percent);
        // The next section may use the tokens that one leaves, and all of them those that the last leaves.
        let mut left = tokens - sum_tokens(shares.iter().copied());
        for (section, share) in sections.iter().zip(&shares) {
            left = self.fill_section(section, left.saturating_add(*share));
        }
        for section in sections {
            left = self.take_shortest_forms(section, left);
            left = self.take_full_forms(section, left, 0);
        }
        tokens - left
    }

    /// Excludes candidates of a section that have no score and are not taken yet.
    fn drop_zero_score(&mut self, section: &mut Vec<usize>) {
        // Reports name the filter as policies did when they were first written.
        let filter_name = "drop_worthless".to_owned();
        let reason = Verdict::Excluded(Arc::new(ExclusionReason::Filtered { filter_name }));
        section.retain(|position| {
            self.tally.candidates()[*position].score > 0.0 || {
                self.tally.exclude(*position, reason.clone());
                self.tally.level(*position).is_some()
            }
        });
    }

    /// Fills a section, and returns the unused part of its share.
    fn fill_section(&mut self, section: &[usize], share: i64) -> i64 {
        let used = self.used(section);
        let mut left = share.saturating_sub(used);
        // Titles are reserved for before anything is taken; later, they are in or did not fit.
        if used == 0 || self.is_first {
            let reserved = match self.need(section) <= share {
                true => 0,
                false => share - percentage(self.full_text_percent, share),
            };
            left = self.take_full_forms(section, left, reserved);
        }
        left = self.take_shortest_forms(section, left);
        self.take_full_forms(section, left, 0)
    }

    /// Takes candidates whole that are not whole yet, best first, while `reserved` tokens stay free. One that is in and does
    /// not fit whole is raised to its longest form that fits. Returns the remaining tokens.
    fn take_full_forms(&mut self, section: &[usize], mut left: i64, reserved: i64) -> i64 {
        for &position in section {
            let level = self.tally.level(position);
            if level == Some(Level::WHOLE) {
                continue;
            }
            let cost = self.tally.cost(position, Level::WHOLE).unwrap_or(i64::MAX);
            let fits = cost <= left - reserved && left >= reserved;
            if fits && self.tally.take(position, Level::WHOLE) {
                left -= cost;
            } else if let Some(level) = level {
                left = self.raise(position, level, left - reserved) + reserved;
            } else {
                let overhead = cost - self.tally.candidates()[position].tokens;
                let available_tokens = (left - reserved - overhead).max(0);
                self.tally.exclude(position, Verdict::Left { available_tokens });
            }
        }
        left
    }

    /// Raises a candidate to its longest form below the whole that fits. Returns the remaining tokens.
    fn raise(&mut self, position: usize, current: Level, left: i64) -> i64 {
        for level in Level::new(1).up_to(current.get()) {
            if let Some(cost) = self.tally.cost(position, level)
                && (0..=left).contains(&cost)
                && self.tally.take(position, level)
            {
                return left - cost;
            }
        }
        left
    }

    /// Takes the shortest forms of candidates that are not taken yet, best first. Returns the remaining tokens.
    fn take_shortest_forms(&mut self, section: &[usize], mut left: i64) -> i64 {
        for &position in section {
            let offers = self.tally.offers();
            let level = Level::last(offers.levels(position));
            // A form that is not shorter is of no use.
            if let Some(shortest) = offers.offer(position, level)
                && shortest.tokens < self.tally.candidates()[position].tokens
                && self.tally.level(position).is_none()
                && let Some(cost) = self.tally.cost(position, level)
                && cost <= left
                && self.tally.take(position, level)
            {
                left -= cost;
            }
        }
        left
    }
}

/// Splits tokens among sections in proportion to their needs. No section gets less than its floor, unless it needs
/// less. If all needs can be met, they are.
fn allocate(tokens: i64, needs: &[i64], floor_percent: f64) -> Vec<i64> {
    if sum_tokens(needs.iter().copied()) <= tokens {
        return needs.to_vec();
    }
    let floor = percentage(floor_percent, tokens);
    let mut is_fixed = vec![false; needs.len()];
    loop {
        let sections = || needs.iter().zip(&is_fixed);
        let fixed = sum_tokens(
            sections().filter(|(_, is_fixed)| **is_fixed).map(|(need, _)| floor.min(*need)),
        );
        let left = i128::from(tokens.saturating_sub(fixed).max(0));
        let open = sections().filter(|(_, is_fixed)| !**is_fixed);
        let needed: i128 = open.map(|(need, _)| i128::from(*need)).sum();
        // A part of `left`, so it is not larger.
        let proportion = |need: i64| (left * i128::from(need) / needed.max(1)) as i64;
        let is_low =
            |(need, is_fixed): (&i64, &bool)| !is_fixed && proportion(*need) < floor.min(*need);
        match sections().position(is_low) {
            Some(low) => is_fixed[low] = true,
            None => {
                let share = |(need, is_fixed): (&i64, &bool)| match is_fixed {
                    true => floor.min(*need),
                    false => proportion(*need),
                };
                return sections().map(share).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextItem, Headings, Offer, Offers, ScoredItem, SectionId, SliceBudget};

    #[test]
    fn a_share_is_split_by_need_and_nobody_falls_below_the_floor() {
        // In proportion, where that is enough for everybody.
        assert_eq!(allocate(1_000, &[900, 600], 30.0), [600, 400]);
        // The floor, and the rest for the other.
        assert_eq!(allocate(1_000, &[9_000, 1_000], 30.0), [700, 300]);
        assert_eq!(allocate(1_000, &[1_000, 9_000], 30.0), [300, 700]);
        // A floor that is not needed goes to the others.
        assert_eq!(allocate(1_000, &[9_000, 100], 30.0), [900, 100]);
        assert_eq!(allocate(1_000, &[9_000, 0], 30.0), [1_000, 0]);
        // Three of them.
        assert_eq!(allocate(1_000, &[100, 5_000, 5_000], 30.0), [100, 450, 450]);
        assert_eq!(allocate(1_000, &[400, 9_000, 9_000], 30.0), [300, 350, 350]);
        // Everything fits.
        assert_eq!(allocate(1_000, &[400, 600], 30.0), [400, 600]);
        assert_eq!(allocate(0, &[400, 600], 30.0), [0, 0]);
        assert_eq!(
            allocate(i64::MAX - 1, &[i64::MAX, i64::MAX], 0.0),
            [i64::MAX / 2, i64::MAX / 2]
        );
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

    /// Slices candidates of one tier, each given by its forms, at several targets in turn. Returns levels and verdicts.
    fn slice(
        forms: &[&[i64]],
        heading: i64,
        kept: &[u32],
        targets: &[i64],
    ) -> (Vec<Option<usize>>, Vec<Verdict>) {
        let kind = ContextKind::MEMORY;
        let item = ContextItem::builder("text", 1).kind(kind.clone()).build().unwrap();
        let section = SectionId::new(0);
        let offer = |tokens: &i64| Offer { tokens: *tokens, value: 1.0, section };
        let candidates = forms.iter().map(|forms| Candidate {
            tokens: forms[0],
            section,
            ..Candidate::from(ScoredItem { item: &item, score: 1.0 })
        });
        let offers = Offers::new(candidates)
            .with_forms(forms.iter().map(|forms| forms[1..].iter().map(offer)))
            .with_headings([heading], Headings::Once)
            .with_kept(kept.iter().copied());
        // The cap is a part of the whole budget, which stays the same.
        let budget = SliceBudget { whole_tokens: 1_000, ..SliceBudget::new(targets[0]) };
        let mut tally = Tally::new(&offers, budget);
        let slicer = TieredSlice::new([Tier::new([kind])]).unwrap();
        slicer.slice(&mut tally).unwrap();
        for target in &targets[1..] {
            tally.raise_target(*target);
            slicer.slice(&mut tally).unwrap();
        }
        let levels = (0..forms.len()).map(|position| tally.level(position).map(Level::get));
        (levels.collect(), tally.verdicts().to_vec())
    }

    #[test]
    fn a_fifth_is_reserved_for_shorter_forms_before_anything_is_taken() {
        let levels =
            |forms: &[&[i64]], kept: &[u32], targets: &[i64]| slice(forms, 0, kept, targets).0;
        let (whole, short) = (Some(0), Some(1));
        // Not all titles before the first whole one.
        let six: [&[i64]; 6] = [&[70, 10], &[90, 10], &[90, 10], &[90, 10], &[90, 10], &[90, 10]];
        assert_eq!(levels(&six, &[], &[100]), [whole, short, short, short, None, None]);
        let kept: [&[i64]; 6] = [&[70, 10], &[40, 10], &[40, 10], &[40, 10], &[40, 10], &[40, 10]];
        assert_eq!(levels(&kept, &[0], &[70]), [short, whole, short, short, None, None]);
        // Later, titles come first, and nothing is reserved.
        let three: [&[i64]; 3] = [&[70, 10], &[40, 10], &[40, 10]];
        assert_eq!(levels(&three, &[], &[50]), [short, whole, None]);
        assert_eq!(levels(&three, &[], &[50, 120]), [whole, whole, short]);
        // A kept candidate is raised to a form that fits, and no token is counted twice.
        let raised: [&[i64]; 3] = [&[70, 30, 10], &[40, 10], &[20]];
        assert_eq!(levels(&raised, &[0], &[70]), [short, short, whole]);
    }

    #[test]
    fn a_verdict_has_the_tokens_that_the_heading_leaves() {
        let (levels, verdicts) = slice(&[&[50]], 5, &[], &[40]);
        assert_eq!(levels, [None]);
        assert_eq!(verdicts, [Verdict::Left { available_tokens: 35 }]);
    }
}
