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
    /// The forms below the whole, candidate after candidate, each longest first.
    forms: Vec<Offer>,
    /// Where the forms of each candidate start, and where the last ones end. Empty if no candidate has forms.
    starts: Vec<u32>,
    /// The tokens of each section's heading.
    headings: Arc<[i64]>,
    headings_are: Headings,
    separator: i64,
    /// The positions of kept candidates, ascending.
    kept: Vec<u32>,
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
        let forms = |(index, scored): (usize, &ScoredItem<'a>)| {
            costs.forms(&pool, &[index as u32], index as u32, |_| scored.score).collect::<Vec<_>>()
        };
        Self::new(items.iter().enumerate().map(candidate))
            .with_forms(items.iter().enumerate().map(forms))
            .with_headings(costs.plan.sections.as_slice(), costs.plan.headings)
            .with_separator(costs.plan.separator)
    }

    /// Sets the forms of each candidate below the whole, longest first.
    #[must_use]
    pub fn with_forms<F>(mut self, forms: impl IntoIterator<Item = F>) -> Self
    where
        F: IntoIterator<Item = Offer>,
    {
        (self.forms, self.starts) = (Vec::new(), Vec::with_capacity(self.candidates.len() + 1));
        for forms in forms.into_iter().take(self.candidates.len()) {
            self.starts.push(self.forms.len() as u32);
            self.forms.extend(forms.into_iter().take(ContextItem::MAX_FORMS));
        }
        match self.forms.is_empty() {
            true => self.starts = Vec::new(),
            false => self.starts.resize(self.candidates.len() + 1, self.forms.len() as u32),
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

    /// Sets the candidates that are in at any budget: each in its last form, and its other forms compete.
    #[must_use]
    pub fn with_kept(mut self, positions: impl IntoIterator<Item = u32>) -> Self {
        self.kept = positions.into_iter().collect();
        self.kept.sort_unstable();
        self.kept.dedup();
        self.kept.retain(|position| (*position as usize) < self.candidates.len());
        self
    }

    /// Returns the positions of the candidates that are in at any budget, ascending.
    pub fn kept(&self) -> &[u32] {
        &self.kept
    }

    /// Returns the candidates, in descending order of score.
    pub fn candidates(&self) -> &[Candidate<'a>] {
        &self.candidates
    }

    /// Returns a form of a candidate, if the candidate has it.
    #[inline]
    pub fn offer(&self, position: usize, level: Level) -> Option<Offer> {
        match level.get().checked_sub(1) {
            None => {
                let Candidate { tokens, value, section, .. } = *self.candidates.get(position)?;
                Some(Offer { tokens, value, section })
            }
            Some(form) => self.forms(position).get(form).copied(),
        }
    }

    /// Returns the forms of a candidate below the whole, longest first.
    #[inline]
    pub fn forms(&self, position: usize) -> &[Offer] {
        match self.starts.get(position..position + 2) {
            Some([start, end]) => &self.forms[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Returns the number of forms of a candidate, the whole included.
    #[inline]
    pub fn levels(&self, position: usize) -> usize {
        1 + self.forms(position).len()
    }

    /// Returns whether a candidate has more than one form.
    pub fn has_forms(&self) -> bool {
        !self.starts.is_empty()
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

    /// Returns whether a candidate costs its tokens and nothing else: no forms, no headings, no separator,
    /// and nothing is kept.
    pub fn is_plain(&self) -> bool {
        self.starts.is_empty()
            && self.headings.is_empty()
            && self.separator == 0
            && self.kept.is_empty()
    }

    pub(super) fn section_count(&self) -> usize {
        self.headings.len()
    }

    /// The candidates at these positions.
    pub(super) fn subset(&self, positions: &[u32]) -> Self {
        let candidates = positions.iter().map(|position| self.candidates[*position as usize]);
        let subset = Self {
            candidates: candidates.collect(),
            forms: Vec::new(),
            starts: Vec::new(),
            headings: Arc::clone(&self.headings),
            // They are taken already.
            kept: Vec::new(),
            ..*self
        };
        if !self.has_forms() {
            return subset;
        }
        let forms = positions.iter().map(|position| self.forms(*position as usize));
        subset.with_forms(forms.map(|forms| forms.iter().copied()))
    }

    /// Inserts a candidate and its forms at a position.
    pub(crate) fn insert(
        &mut self,
        position: usize,
        candidate: Candidate<'a>,
        forms: impl IntoIterator<Item = Offer>,
        is_kept: bool,
    ) {
        let mut forms = forms.into_iter().peekable();
        if self.has_forms() || forms.peek().is_some() {
            self.starts.resize(self.candidates.len() + 1, self.forms.len() as u32);
            let (start, before) = (self.starts[position], self.forms.len());
            self.forms.splice(start as usize..start as usize, forms);
            let added = (self.forms.len() - before) as u32;
            self.starts.insert(position, start);
            self.starts[position + 1..].iter_mut().for_each(|start| *start += added);
        }
        self.candidates.insert(position, candidate);
        let kept = self.kept.partition_point(|kept| (*kept as usize) < position);
        self.kept[kept..].iter_mut().for_each(|kept| *kept += 1);
        if is_kept {
            self.kept.insert(kept, position as u32);
        }
    }

    /// Removes the candidate at a position, and returns whether it was kept.
    pub(crate) fn remove(&mut self, position: usize) -> bool {
        let (Ok(kept) | Err(kept)) = self.kept.binary_search(&(position as u32));
        let is_kept = self.kept.get(kept) == Some(&(position as u32));
        if is_kept {
            self.kept.remove(kept);
        }
        self.kept[kept..].iter_mut().for_each(|kept| *kept -= 1);
        self.candidates.remove(position);
        if self.has_forms() {
            let (start, end) = (self.starts.remove(position), self.starts[position]);
            self.forms.drain(start as usize..end as usize);
            self.starts[position..].iter_mut().for_each(|later| *later -= end - start);
            if self.forms.is_empty() {
                self.starts.clear();
            }
        }
        is_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_keep_their_forms_when_others_come_and_go() {
        let item = ContextItem::new("text", 10).unwrap();
        let candidate = Candidate::from(ScoredItem { item: &item, score: 1.0 });
        let offer = |tokens| Offer { tokens, value: 0.5, section: SectionId::NONE };
        let mut offers = Offers::new([candidate; 2]);
        assert!(offers.is_plain() && offers.levels(1) == 1);
        offers.insert(1, candidate, [offer(5), offer(2)], true);
        offers.insert(3, candidate, [offer(4)], false);
        offers.insert(0, candidate, [], false);
        assert_eq!(offers.kept(), [2]);
        assert!(!offers.remove(0) && offers.kept() == [1]);
        let tokens = |offers: &Offers<'_>| -> Vec<Vec<i64>> {
            let positions = 0..offers.candidates().len();
            let forms = positions.map(|position| offers.forms(position));
            forms.map(|forms| forms.iter().map(|offer| offer.tokens).collect()).collect()
        };
        assert_eq!(tokens(&offers), [vec![], vec![5, 2], vec![], vec![4]]);
        assert_eq!(tokens(&offers.subset(&[1, 2, 3])), [vec![5, 2], vec![], vec![4]]);
        assert!(offers.subset(&[0, 2]).is_plain());
        assert_eq!(offers.offer(1, Level::new(2)), Some(offer(2)));
        assert_eq!(offers.offer(1, Level::new(3)), None);
        assert!(offers.remove(1) && offers.kept().is_empty());
        assert_eq!(tokens(&offers), [vec![], vec![], vec![4]]);
        offers.remove(2);
        assert!(offers.is_plain());
    }
}
