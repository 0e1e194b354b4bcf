use std::borrow::Cow;

use super::{PlacedItems, RenderCost};
use crate::{ContextItem, FormWorths, Level, Offer, Sent, sum_tokens};

/// The number of a section among the sections of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionId(u32);

impl SectionId {
    /// No section: nothing is charged for a heading.
    pub const NONE: Self = Self(u32::MAX);

    /// The section at this position of [`Plan::sections`].
    pub fn new(position: u32) -> Self {
        Self(position)
    }

    /// Returns the position of the section, if it is one.
    pub fn position(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

impl Default for SectionId {
    fn default() -> Self {
        Self::NONE
    }
}

/// When the heading of a section is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Headings {
    /// Once for each section.
    #[default]
    Once,
    /// Wherever the section changes, in the order in which items are taken.
    AtEveryChange,
}

/// What is sent around an item, beyond its own tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Around {
    /// Nothing.
    #[default]
    Nothing,
    /// The same number of tokens around each item, in any form.
    Each(i64),
    /// A number of tokens for each item and form: items in pool order, each whole first and then its forms.
    Forms(Vec<i64>),
}

/// What a layout charges for each item where it is sent.
///
/// Where the truth depends on what else is selected, a plan over-estimates; [`measure`](super::Layout::measure) is
/// exact.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// Tokens that are sent with any selection.
    pub fixed: i64,
    /// Tokens between two items.
    pub separator: i64,
    /// Tokens around an item.
    pub around: Around,
    /// What the heading of each section costs.
    pub sections: Vec<i64>,
    /// The section of each item and form, in the order of [`Around::Forms`]. Empty: no sections.
    pub section_of: Vec<SectionId>,
    /// When headings are sent.
    pub headings: Headings,
    /// Whether the costs add up to what is sent, so that there is nothing to close after slicing.
    pub is_exact: bool,
    /// Indices of items that cannot be sent, ascending, each with the rule that rejects it.
    pub rejected: Vec<(u32, Cow<'static, str>)>,
    /// Indices of items that cannot be sent before all others, ascending, each with the rule.
    pub not_first: Vec<(u32, Cow<'static, str>)>,
}

/// A plan, and where each item's forms are in its lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedCosts {
    pub(crate) plan: Plan,
    /// Where the entries of each item start. Empty if no item has forms: then an entry is an item.
    starts: Vec<u32>,
    pub(crate) worths: FormWorths,
}

impl PlannedCosts {
    pub(crate) fn new(plan: Plan, items: &[&ContextItem]) -> Self {
        let has_lists = matches!(plan.around, Around::Forms(_)) || !plan.section_of.is_empty();
        let mut starts = Vec::new();
        if has_lists && items.iter().any(|item| !item.forms().is_empty()) {
            let mut next = 0;
            starts.extend(items.iter().map(|item| {
                let start = next;
                next += 1 + item.forms().len() as u32;
                start
            }));
        }
        Self { plan, starts, worths: FormWorths::default() }
    }

    fn entry(&self, index: usize, level: Level) -> usize {
        match self.starts.get(index) {
            Some(start) => *start as usize + level.get(),
            None => index,
        }
    }

    /// The tokens around an item in a form. Negative numbers count as 0.
    pub(crate) fn around(&self, index: usize, level: Level) -> i64 {
        match &self.plan.around {
            Around::Nothing => 0,
            Around::Each(tokens) => (*tokens).max(0),
            Around::Forms(list) => {
                list.get(self.entry(index, level)).copied().unwrap_or_default().max(0)
            }
        }
    }

    /// The section that an item is sent in, in a form.
    pub(crate) fn section(&self, index: usize, level: Level) -> SectionId {
        if self.plan.section_of.is_empty() {
            return SectionId::NONE;
        }
        let section = self.plan.section_of.get(self.entry(index, level)).copied();
        let is_known = |section: &SectionId| (section.0 as usize) < self.plan.sections.len();
        section.filter(is_known).unwrap_or_default()
    }

    /// A form of an item with this many tokens of its own.
    pub(crate) fn offer(&self, index: usize, level: Level, tokens: i64, value: f64) -> Offer {
        let tokens = tokens.saturating_add(self.around(index, level));
        Offer { tokens, value, section: self.section(index, level) }
    }

    /// The forms below the whole of the unit with these members, longest first, and the section of its best member. At a
    /// level, each member is sent at that level or, if it has fewer forms, at its last.
    pub(crate) fn forms<'s>(
        &'s self,
        items: &'s [&ContextItem],
        members: &'s [u32],
        best: u32,
        score: impl Fn(u32) -> f64 + 's,
    ) -> impl Iterator<Item = Offer> + 's {
        let item = |index: &u32| items[*index as usize];
        let levels = members.iter().map(|index| 1 + item(index).forms().len()).max();
        Level::new(1).up_to(levels.unwrap_or(1)).map_while(move |level| {
            let mut offer = Offer { tokens: 0, value: 0.0, section: SectionId::NONE };
            for index in members {
                let level = item(index).clamp_level(level);
                let tokens = item(index).at(level).tokens();
                let value = score(*index) * self.worths.at(item(index), level);
                if tokens < 0 {
                    return None;
                }
                let member = self.offer(*index as usize, level, tokens, value);
                offer.tokens = offer.tokens.saturating_add(member.tokens);
                offer.value += member.value;
                if *index == best {
                    offer.section = member.section;
                }
            }
            Some(offer)
        })
    }

    /// Whether nothing is sent around items.
    pub(crate) fn is_free_of_frames(&self) -> bool {
        self.plan.around == Around::Nothing
    }

    /// The rule that rejects an item.
    pub(crate) fn rejection_rule(&self, index: u32) -> Option<&str> {
        rule(&self.plan.rejected, index)
    }

    /// The rule by which an item cannot be sent before all others.
    pub(crate) fn first_position_rule(&self, index: u32) -> Option<&str> {
        rule(&self.plan.not_first, index)
    }

    /// The cost of placed items by the plan.
    pub(crate) fn cost(&self, placed: &PlacedItems<'_>) -> RenderCost {
        let (mut framing, mut last) = (0_i64, SectionId::NONE);
        let mut is_open = vec![false; self.plan.sections.len()];
        for (number, Sent { index, level, .. }) in placed.sent().enumerate() {
            let section = self.section(index, level);
            let opens = match self.plan.headings {
                Headings::Once => {
                    let open = section.position().map(|position| &mut is_open[position]);
                    open.is_some_and(|open| !std::mem::replace(open, true))
                }
                Headings::AtEveryChange => section != last,
            };
            last = section;
            let heading = section.position().filter(|_| opens);
            let heading = heading.map_or(0, |position| self.plan.sections[position]);
            let separator = if number > 0 { self.plan.separator } else { 0 };
            framing =
                sum_tokens([framing, self.around(index, level), heading, separator].into_iter());
        }
        let fixed = self.plan.fixed;
        RenderCost { fixed, framing, items: placed.tokens(), ..RenderCost::default() }
    }
}

fn rule<'r>(rules: &'r [(u32, Cow<'static, str>)], index: u32) -> Option<&'r str> {
    let position = rules.binary_search_by_key(&index, |(index, _)| *index).ok()?;
    Some(&rules[position].1)
}
