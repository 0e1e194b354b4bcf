//! The candidates of a slice, with the costs of their forms.

use std::sync::Arc;

use crate::layout::PlannedCosts;
use crate::{ContextItem, Headings, Level, Plan, ScoredItem, SectionId};

/// An item, or a group of items as one, that may be taken.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The item; of a group, its best member.
    pub item: &'a ContextItem,
    /// The tokens of the whole, with the text that the layout sends around it.
    pub tokens: i64,
    /// Its score, which decides its position in the order.
    pub score: f64,
    /// Its score; of a group, the sum of its members' scores.
    pub value: f64,
    /// The section that the whole is sent in.
    pub section: SectionId,
}

impl<'a> From<ScoredItem<'a>> for Candidate<'a> {
    fn from(ScoredItem { item, score }: ScoredItem<'a>) -> Self {
        Self { item, tokens: item.tokens(), score, value: score, section: SectionId::NONE }
    }
}

/// One form of a candidate, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Its tokens, with the text that the layout sends around it.
    pub tokens: i64,
    /// Its value.
    pub value: f64,
    /// The section that it is sent in.
    pub section: SectionId,
}

/// Candidates in order of score, with their forms and the tokens of headings and separators.
#[derive(Clone, Debug, Default)]
pub struct Offers<'a> {
    candidates: Vec<Candidate<'a>>,
    /// The short form of each candidate. Empty if no candidate has one.
    short_forms: Vec<Option<Offer>>,
    /// The tokens of each section's heading.
    headings: Arc<[i64]>,
    headings_are: Headings,
    separator: i64,
}

impl<'a> Offers<'a> {
    /// Offers of whole candidates, without headings or separators. Candidates come in descending order of score.
    pub fn new(candidates: impl IntoIterator<Item = Candidate<'a>>) -> Self {
        Self { candidates: candidates.into_iter().collect(), ..Self::default() }
    }

    /// Offers of scored items at the costs of a plan, for slicers that are used without a pipeline. Items come in
    /// descending order of score.
    pub fn planned(items: &[ScoredItem<'a>], plan: Plan) -> Self {
        let pool: Vec<&ContextItem> = items.iter().map(|scored| scored.item).collect();
        let costs = PlannedCosts::new(plan, &pool);
        let candidate = |(index, scored): (usize, &ScoredItem<'a>)| {
            let ScoredItem { item, score } = *scored;
            let Offer { tokens, value, section } =
                costs.offer(index, Level::WHOLE, item.tokens(), score);
            Candidate { item, tokens, score, value, section }
        };
        let short_form = |(index, scored): (usize, &ScoredItem<'a>)| {
            let tokens = scored.item.short_form()?.tokens();
            (tokens >= 0).then(|| costs.offer(index, Level::SHORT, tokens, scored.score))
        };
        Self::new(items.iter().enumerate().map(candidate))
            .with_short_forms(items.iter().enumerate().map(short_form))
            .with_headings(costs.plan.sections.as_slice(), costs.plan.headings)
            .with_separator(costs.plan.separator)
    }

    /// Sets the short form of each candidate.
    #[must_use]
    pub fn with_short_forms(
        mut self,
        short_forms: impl IntoIterator<Item = Option<Offer>>,
    ) -> Self {
        self.short_forms = short_forms.into_iter().collect();
        self.short_forms.resize(self.candidates.len(), None);
        if self.short_forms.iter().all(Option::is_none) {
            self.short_forms.clear();
        }
        self
    }

    /// Sets the tokens of each section's heading, and when headings are sent.
    #[must_use]
    pub fn with_headings(mut self, tokens: impl Into<Arc<[i64]>>, headings: Headings) -> Self {
        (self.headings, self.headings_are) = (tokens.into(), headings);
        self
    }

    /// Sets the tokens between two items.
    #[must_use]
    pub fn with_separator(mut self, tokens: i64) -> Self {
        self.separator = tokens.max(0);
        self
    }

    /// Returns the candidates, in descending order of score.
    pub fn candidates(&self) -> &[Candidate<'a>] {
        &self.candidates
    }

    /// Returns a form of a candidate, if the candidate has it.
    pub fn offer(&self, position: usize, level: Level) -> Option<Offer> {
        if level == Level::WHOLE {
            let Candidate { tokens, value, section, .. } = *self.candidates.get(position)?;
            return Some(Offer { tokens, value, section });
        }
        self.short_forms.get(position).copied().flatten().filter(|_| level == Level::SHORT)
    }

    /// Returns the tokens of a section's heading.
    pub fn heading(&self, section: SectionId) -> i64 {
        section.position().and_then(|section| self.headings.get(section)).copied().unwrap_or(0)
    }

    /// Returns when headings are sent.
    pub fn headings(&self) -> Headings {
        self.headings_are
    }

    /// Returns the tokens between two items.
    pub fn separator(&self) -> i64 {
        self.separator
    }

    /// Returns whether a candidate costs its tokens and nothing else: no forms, no headings, no separator.
    pub fn is_plain(&self) -> bool {
        self.short_forms.is_empty() && self.headings.is_empty() && self.separator == 0
    }

    pub(super) fn section_count(&self) -> usize {
        self.headings.len()
    }

    /// The candidates at these positions.
    pub(super) fn subset(&self, positions: &[u32]) -> Self {
        let candidates = positions.iter().map(|position| self.candidates[*position as usize]);
        let short_forms = positions.iter().filter_map(|p| self.short_forms.get(*p as usize));
        Self {
            candidates: candidates.collect(),
            short_forms: short_forms.copied().collect(),
            headings: Arc::clone(&self.headings),
            ..*self
        }
    }

    /// Inserts a candidate at a position.
    pub(crate) fn insert(
        &mut self,
        position: usize,
        candidate: Candidate<'a>,
        short_form: Option<Offer>,
    ) {
        if short_form.is_some() || !self.short_forms.is_empty() {
            self.short_forms.resize(self.candidates.len(), None);
            self.short_forms.insert(position, short_form);
        }
        self.candidates.insert(position, candidate);
    }

    /// Removes the candidate at a position.
    pub(crate) fn remove(&mut self, position: usize) {
        self.candidates.remove(position);
        if !self.short_forms.is_empty() {
            self.short_forms.remove(position);
        }
    }
}
