//! Units: items or groups that are selected or dropped as one.

use std::borrow::Cow;

use super::deduplicate::Duplicate;
use crate::{ContextItem, order, sum_tokens};

/// Units, in pool order of their first members. Without groups, each unit is one index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// The members of all units, one unit after the other, each in pool order.
    members: Vec<u32>,
    /// Where each unit ends; `None` if every unit is one item.
    ends: Option<Vec<u32>>,
    /// The tokens of each unit. Items are large, so a pass over them is as slow as a sort.
    tokens: Vec<i64>,
    has_forms: bool,
    has_kept: bool,
}

impl Units {
    pub(crate) fn reserve(&mut self, items: usize) {
        self.members.reserve(items);
        self.tokens.reserve(items);
    }

    pub(crate) fn push_item(&mut self, index: u32, item: &ContextItem) {
        self.members.push(index);
        self.tokens.push(item.tokens());
        self.note_fields(item);
        if let Some(ends) = &mut self.ends {
            ends.push(self.members.len() as u32);
        }
    }

    pub(crate) fn push_group(&mut self, members: &[u32], items: &[&ContextItem]) {
        let singles = self.members.len() as u32;
        let items = members.iter().map(|member| items[*member as usize]);
        self.tokens.push(sum_tokens(items.clone().map(ContextItem::tokens)));
        items.for_each(|item| self.note_fields(item));
        self.members.extend(members);
        let ends = self.ends.get_or_insert_with(|| (1..=singles).collect());
        ends.push(self.members.len() as u32);
    }

    /// Returns whether any unit may have several members.
    pub(crate) fn has_groups(&self) -> bool {
        self.ends.is_some()
    }

    fn note_fields(&mut self, item: &ContextItem) {
        self.has_forms |= !item.forms().is_empty();
        self.has_kept |= item.is_kept();
    }

    /// Returns whether any item is kept.
    pub(crate) fn has_kept(&self) -> bool {
        self.has_kept
    }

    /// Returns whether any item has forms.
    pub(crate) fn has_forms(&self) -> bool {
        self.has_forms
    }

    /// Returns the number of units.
    pub(crate) fn len(&self) -> usize {
        self.ends.as_ref().unwrap_or(&self.members).len()
    }

    /// Returns the number of items in all units.
    pub(crate) fn item_count(&self) -> usize {
        self.members.len()
    }

    /// Returns the pool indices of a unit's members, in pool order.
    #[inline]
    pub(crate) fn members(&self, unit: u32) -> &[u32] {
        let unit = unit as usize;
        match &self.ends {
            None => &self.members[unit..=unit],
            Some(ends) => {
                let start = if unit == 0 { 0 } else { ends[unit - 1] as usize };
                &self.members[start..ends[unit] as usize]
            }
        }
    }

    /// Returns the unit of an item, by its pool index.
    pub(crate) fn unit_of(&self, index: u32) -> Option<u32> {
        match &self.ends {
            None => self.members.binary_search(&index).ok().map(|unit| unit as u32),
            Some(ends) => {
                let position = self.members.iter().position(|member| *member == index)?;
                Some(ends.partition_point(|end| *end as usize <= position) as u32)
            }
        }
    }

    /// Returns the pool indices of all members, in pool order.
    pub(crate) fn in_pool_order(&self) -> Cow<'_, [u32]> {
        match &self.ends {
            None => self.members.as_slice().into(),
            Some(_) => {
                let mut members = self.members.clone();
                members.sort_unstable();
                members.into()
            }
        }
    }

    /// Returns the member with the highest score, the first in the pool on ties. It represents the unit in every order.
    #[inline]
    pub(crate) fn best_member(&self, unit: u32, scores: &[f64]) -> u32 {
        match *self.members(unit) {
            [only] => only,
            ref members => {
                let key = |member: &u32| order::pack_key(scores[*member as usize], 0, *member);
                members.iter().copied().min_by_key(key).unwrap_or_default()
            }
        }
    }

    /// Sorts units without those that are dropped: highest score first, ties by pool order of their best members.
    /// Both lists are ascending.
    pub(crate) fn by_score(
        &self,
        units: impl Iterator<Item = u32>,
        dropped: &[Duplicate],
        scores: &[f64],
    ) -> Vec<u32> {
        let mut dropped = dropped.iter().map(|duplicate| duplicate.unit).peekable();
        let kept = units.filter(|unit| dropped.next_if_eq(unit).is_none());
        order::sort_by_key(kept, self.len(), |unit| {
            let best = self.best_member(unit, scores);
            order::pack_key(scores[best as usize], best, unit)
        })
    }

    /// Returns the sum of the members' scores.
    #[inline]
    pub(crate) fn value(&self, unit: u32, scores: &[f64]) -> f64 {
        match *self.members(unit) {
            [only] => scores[only as usize],
            ref members => members.iter().fold(0.0, |sum, member| sum + scores[*member as usize]),
        }
    }

    /// Returns the sum of the members' tokens.
    pub(crate) fn tokens(&self, unit: u32) -> i64 {
        self.tokens[unit as usize]
    }
}
