//! The forms of an item: whole, or shorter ones such as a title or a stub.
//!
//! A form is an item that another item contains. A reader of a selection gets the item that is sent, and need not
//! handle forms.

use std::collections::BTreeMap;

use crate::{ContextItem, Error, FormName};

/// A shorter form of an item, which is sent where the whole item does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    pub(super) name: FormName,
    pub(super) worth: Option<f64>,
    /// The whole item with the content and the tokens of the form, and without forms of its own.
    pub(super) item: ContextItem,
}

impl Form {
    /// Returns the name of the form.
    pub fn name(&self) -> &FormName {
        &self.name
    }

    /// Returns the text.
    pub fn content(&self) -> &str {
        self.item.content()
    }

    /// Returns the caller's token count of the text.
    pub fn tokens(&self) -> i64 {
        self.item.tokens()
    }

    /// Returns the share of the item's value that the form has, from 0 to 1, if the caller gave it.
    pub fn worth(&self) -> Option<f64> {
        self.worth
    }

    /// Returns the item as it is sent in this form.
    pub fn item(&self) -> &ContextItem {
        &self.item
    }
}

/// What forms are worth, by their names: the share of an item's value that a form has, unless the form states its own.
///
/// Defaults: `head-tail` 0.6, `signature` 0.5, `title` 0.25, `stub` 0.1, any other name 0.5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormWorths(BTreeMap<FormName, f64>);

impl FormWorths {
    /// Sets the worth of the forms with a name.
    ///
    /// # Errors
    ///
    /// [`Error::WorthOutOfRange`] if it is not from 0 to 1.
    pub fn with(mut self, name: FormName, worth: f64) -> Result<Self, Error> {
        check_worth(&name, worth)?;
        self.0.insert(name, worth);
        Ok(self)
    }

    /// Returns the worth of a form.
    pub fn get(&self, form: &Form) -> f64 {
        let by_name =
            || self.0.get(&form.name).copied().unwrap_or_else(|| default_worth(&form.name));
        form.worth.unwrap_or_else(by_name)
    }

    /// Returns the share of an item's value that it has at a level.
    pub(crate) fn at(&self, item: &ContextItem, level: Level) -> f64 {
        let form = level.get().checked_sub(1).and_then(|form| item.forms().get(form));
        form.map_or(1.0, |form| self.get(form))
    }
}

fn default_worth(name: &FormName) -> f64 {
    let known = [
        (FormName::HEAD_TAIL, 0.6),
        (FormName::SIGNATURE, 0.5),
        (FormName::TITLE, 0.25),
        (FormName::STUB, 0.1),
    ];
    known.iter().find(|(known, _)| known == name).map_or(0.5, |(_, worth)| *worth)
}

pub(super) fn check_worth(name: &FormName, worth: f64) -> Result<(), Error> {
    match (0.0..=1.0).contains(&worth) {
        true => Ok(()),
        false => Err(Error::WorthOutOfRange { form: name.to_string(), worth }),
    }
}

/// A selected item, in the form that is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sent<'a> {
    /// The item's index in the pool.
    pub index: usize,
    /// The whole item.
    pub whole: &'a ContextItem,
    /// The form that is sent.
    pub level: Level,
}

impl<'a> Sent<'a> {
    /// Returns the item as it is sent.
    pub fn item(&self) -> &'a ContextItem {
        self.whole.at(self.level)
    }

    /// Returns the form that is sent, if it is not the whole item.
    pub fn form(&self) -> Option<&'a Form> {
        self.whole.forms().get(self.level.get().checked_sub(1)?)
    }

    /// Returns whether the whole item is sent.
    pub fn is_whole(&self) -> bool {
        self.level == Level::WHOLE
    }
}

/// A form of an item: 0 is the whole, larger numbers are its forms, longest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The whole item.
    pub const WHOLE: Self = Self(0);

    /// The form at position `level - 1` of [`ContextItem::forms`]; 0 is the whole.
    pub const fn new(level: u8) -> Self {
        Self(level)
    }

    /// Returns the level as a number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// The shortest of this many levels.
    pub(crate) fn last(levels: usize) -> Self {
        Self(u8::try_from(levels.saturating_sub(1)).unwrap_or(u8::MAX))
    }

    /// This level and all shorter ones of this many levels.
    pub(crate) fn up_to(self, levels: usize) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..=Self::last(levels).0).map(Self).take(levels.saturating_sub(self.get()))
    }
}

/// The form of each item of a pool. Usually all are whole, and this is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    /// By pool index.
    levels: Vec<Level>,
}

impl Levels {
    /// Sets the form of some items of a pool. An item that has fewer forms is sent in its last.
    pub(crate) fn set(&mut self, items: &[&ContextItem], indices: &[u32], level: Level) {
        if self.levels.is_empty() && level == Level::WHOLE {
            return;
        }
        self.levels.resize(items.len(), Level::WHOLE);
        for index in indices {
            self.levels[*index as usize] = items[*index as usize].clamp_level(level);
        }
    }

    /// Returns the form in which an item is sent.
    pub(crate) fn get(&self, index: u32) -> Level {
        self.levels.get(index as usize).copied().unwrap_or_default()
    }

    /// Returns whether an item is sent whole.
    pub(crate) fn is_whole(&self, index: u32) -> bool {
        self.get(index) == Level::WHOLE
    }

    /// Returns whether all items are sent whole.
    pub(crate) fn all_whole(&self) -> bool {
        self.levels.is_empty()
    }

    /// Returns what is sent for a pool index.
    pub(crate) fn sent<'i>(&self, items: &[&'i ContextItem], index: u32) -> Sent<'i> {
        Sent { index: index as usize, whole: items[index as usize], level: self.get(index) }
    }
}
