//! Counts the tokens of packets for the engine.
//!
//! A packet prints its own token count, so its text depends on its length. The printed count is the smallest one that is
//! true once it is inserted.

use std::sync::Arc;

use pannier_core::layout::{PlacedItems, Plan, RenderCost, SectionId};
use pannier_core::score::Pool;
use pannier_core::{Error, Layout, TokenCounter};

use super::frame::{NOTE_HEADINGS, PacketFill, PacketFrame, section_end};
use super::{PacketFormat, SECTIONS, SELECTABLE_SECTIONS};
use crate::{PacketPolicy, Section};

/// The reason for excluding all entries if the frame uses up the budget. Receipts hash it.
const NO_ROOM_MESSAGE: &str =
    "the constitution, the files to read and the instruction leave no room for anything else";

/// Renders packets and counts their tokens.
#[derive(Debug, Clone)]
pub(crate) struct PacketLayout {
    frame: PacketFrame,
    counter: Arc<dyn TokenCounter>,
    fill: PacketFill,
    /// An upper bound of the frame's tokens.
    fixed: i64,
    /// The tokens of each section's heading, and of the headings of notes.
    headings: Vec<i64>,
    /// The character limit, and the tokens that stand for it.
    characters: Option<(usize, usize)>,
}

impl PacketLayout {
    pub(crate) fn new(
        frame: PacketFrame,
        counter: Arc<dyn TokenCounter>,
        fill: PacketFill,
    ) -> Self {
        let count = |text: &str| i64::try_from(counter.count(text)).unwrap_or(i64::MAX);
        let is_markdown = frame.rendered.format == PacketFormat::Markdown;
        let has_note_headings = is_markdown && frame.rendered.policy == PacketPolicy::Memory;
        let headings = SELECTABLE_SECTIONS.map(|(section, heading)| match section {
            _ if is_markdown => count(&format!("{heading}{}", section_end(section))),
            // Only these are left out of JSON if they are empty.
            Section::Instructions => count(",\"instructions\":[]"),
            _ => 0,
        });
        let note_headings = NOTE_HEADINGS.iter().filter(|_| has_note_headings);
        let note_headings = note_headings.map(|heading| count(&format!("{heading}\n")));
        let headings = headings.into_iter().chain(note_headings).collect();
        let mut rendering = Self { frame, counter, fill, fixed: 0, headings, characters: None };
        // With the widest token count.
        let (mut text, position) =
            rendering.frame.text([].into_iter(), fill, fill == PacketFill::Entries);
        let number = rendering.frame.budget.max(rendering.frame_tokens());
        write_number(&mut text, position, &mut 1, number);
        let fixed = rendering.counter.count(&text);
        rendering.fixed = i64::try_from(fixed).unwrap_or(i64::MAX);
        rendering
    }

    /// Returns an upper bound of the frame's tokens: its count with the widest number in it.
    pub(crate) fn fixed(&self) -> i64 {
        self.fixed
    }

    /// Sets the character limit of the packet, and the tokens that a text of that length is charged.
    pub(crate) fn with_character_limit(mut self, characters: usize, tokens: usize) -> Self {
        self.characters = Some((characters, tokens));
        self
    }

    /// The tokens that the characters of a text are charged.
    fn scaled_characters(&self, text: &str) -> Option<i64> {
        let (max_characters, tokens) = self.characters?;
        let scaled = text.chars().count() as u128 * tokens as u128;
        i64::try_from(scaled.div_ceil(max_characters.max(1) as u128)).ok()
    }

    /// Renders a packet and returns it with its token count.
    pub(crate) fn text(&self, placed: &PlacedItems<'_>) -> (String, usize) {
        self.insert_token_count(placed.sent().map(|sent| (sent.index, sent.level.get())))
    }

    /// Returns whether a packet without entries shows a file to read or a rule.
    pub(crate) fn frame_shows_anything(&self) -> bool {
        self.frame.shows_anything()
    }

    /// Counts the tokens of a packet without entries.
    pub(crate) fn frame_tokens(&self) -> usize {
        self.insert_token_count([].into_iter()).1
    }

    /// Counts the tokens of a packet with all entries whole.
    pub(crate) fn whole_tokens(&self) -> usize {
        self.insert_token_count(self.everything()).1
    }

    /// Counts the characters of a packet without entries.
    pub(crate) fn frame_characters(&self) -> usize {
        self.insert_token_count([].into_iter()).0.chars().count()
    }

    /// Returns the tokens of a packet with this number of characters, by the ratio in a packet with all entries whole.
    pub(crate) fn tokens_for_characters(&self, characters: usize) -> usize {
        let (text, tokens) = self.insert_token_count(self.everything());
        let all_characters = text.chars().count().max(1) as u128;
        usize::try_from(characters as u128 * tokens as u128 / all_characters).unwrap_or(usize::MAX)
    }

    /// Returns whether a packet with all entries whole is within `limit`.
    pub(crate) fn whole_fits(&self, limit: usize) -> bool {
        !self.clearly_exceeds(self.everything(), limit) && self.whole_tokens() <= limit
    }

    fn everything(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        (0..self.frame.rendered.entries.len()).map(|index| (index, 0))
    }

    /// Returns whether the first entries alone exceed `limit`. This avoids rendering packets that are far too long.
    fn clearly_exceeds(
        &self,
        placed: impl Iterator<Item = (usize, usize)> + Clone,
        limit: usize,
    ) -> bool {
        let mut tokens = 0_usize;
        let last = placed.clone().position(|(index, level)| {
            tokens = tokens.saturating_add(self.frame.rendered.form(index, level).tokens);
            // Adjacent texts may share tokens, so their sum overestimates.
            tokens / 2 > limit
        });
        last.is_some_and(|last| {
            let (text, _) = self.frame.text(placed.take(last + 1), self.fill, false);
            self.counter.count_up_to(&text, limit).is_none()
        })
    }

    /// Renders a packet and inserts the smallest token count that is then true.
    fn insert_token_count(&self, placed: impl Iterator<Item = (usize, usize)>) -> (String, usize) {
        let (mut text, position) = self.frame.text(placed, self.fill, false);
        // Ascending: a longer number never shortens the text, so the first fixed point is the smallest.
        let (mut number, mut max, mut digits) = (0, 0, 1);
        for _ in 0..16 {
            let count = self.counter.count(&text);
            if count == number {
                return (text, number);
            }
            max = max.max(count);
            number = count;
            write_number(&mut text, position, &mut digits, number);
        }
        // An encoding may cycle between counts; the largest of them is an upper bound.
        write_number(&mut text, position, &mut digits, max);
        (text, max)
    }
}

/// Replaces the number of `digits` digits at `position`.
fn write_number(text: &mut String, position: usize, digits: &mut usize, number: usize) {
    let number = number.to_string();
    text.replace_range(position..position + *digits, &number);
    *digits = number.len();
}

impl Layout for PacketLayout {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.fixed = self.fixed;
        plan.sections = self.headings.clone();
        for (item, entry) in pool.items().iter().zip(&self.frame.rendered.entries) {
            // Short forms are notes, whose common heading is part of the frame.
            let notes = match self.headings.len() > SECTIONS {
                true => SectionId::new((SECTIONS + entry.section) as u32),
                false => SectionId::NONE,
            };
            plan.section_of.push(match entry.is_on_demand {
                true => notes,
                false => SectionId::new(entry.section as u32),
            });
            plan.section_of.extend(item.forms().iter().map(|_| notes));
        }
        if self.fill != PacketFill::Entries {
            let indices = 0..pool.len() as u32;
            plan.rejected = indices.map(|index| (index, NO_ROOM_MESSAGE.into())).collect();
        }
        Ok(plan)
    }

    fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        if placed.indices().len() == 0 {
            return Ok(Some(RenderCost { fixed: self.fixed, ..RenderCost::default() }));
        }
        let entries = placed.sent().map(|sent| (sent.index, sent.level.get()));
        let limit = usize::try_from(up_to).unwrap_or_default();
        if up_to < i64::MAX && self.clearly_exceeds(entries.clone(), limit) {
            let total = up_to.max(0).saturating_add(1);
            return Ok(Some(RenderCost { items: total, ..RenderCost::default() }));
        }
        let (text, tokens) = self.insert_token_count(entries);
        let total = i64::try_from(tokens).unwrap_or(i64::MAX);
        let mut cost = RenderCost::from_total(total, self.fixed, 0, placed.tokens());
        cost.other_limit_tokens = self.scaled_characters(&text);
        Ok(Some(cost))
    }
}
