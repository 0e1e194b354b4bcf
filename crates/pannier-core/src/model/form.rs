//! The forms of an item: whole or short.
//!
//! A short form is an item that another item contains. A reader of a selection gets the item that is sent, and need not
//! handle forms.

use crate::ContextItem;

/// A form of an item: 0 is the whole, larger numbers are shorter forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The whole item.
    pub const WHOLE: Self = Self(0);
    /// Its [short form](ContextItem::short_form).
    pub const SHORT: Self = Self(1);

    /// Returns the level as a number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// The form of each item of a pool. Usually all are whole, and this is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    /// By pool index.
    levels: Vec<Level>,
}

impl Levels {
    /// Sets the form of some indices of a pool of `pool_len` items.
    pub(crate) fn set(&mut self, pool_len: usize, indices: &[u32], level: Level) {
        if self.levels.is_empty() && level == Level::WHOLE {
            return;
        }
        self.levels.resize(pool_len, Level::WHOLE);
        for index in indices {
            self.levels[*index as usize] = level;
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

    /// Returns the item that is sent for a pool index.
    pub(crate) fn sent<'i>(&self, items: &[&'i ContextItem], index: u32) -> &'i ContextItem {
        let item = items[index as usize];
        match self.is_whole(index) {
            true => item,
            false => item.short_form().unwrap_or(item),
        }
    }
}
