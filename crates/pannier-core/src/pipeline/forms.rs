//! Which items are sent in their short form.
//!
//! A short form is an item of its own that its item holds. So nothing that reads a selection has to know of forms:
//! what it gets is the item that is sent.

use crate::ContextItem;

/// Which items of a pool are sent in their short form. Mostly none are, and then this is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forms {
    /// By pool index.
    is_short: Vec<bool>,
}

impl Forms {
    /// Everything is sent whole.
    pub(crate) const WHOLE: &'static Self = &Self { is_short: Vec::new() };

    /// Sets for some indices of a pool of this size whether they are sent in their short form.
    pub(crate) fn set(&mut self, pool: usize, indices: &[u32], is_short: bool) {
        self.is_short.resize(pool, false);
        for index in indices {
            self.is_short[*index as usize] = is_short;
        }
    }

    /// Whether an item is sent in its short form.
    pub(crate) fn is_short(&self, index: u32) -> bool {
        self.is_short.get(index as usize).copied().unwrap_or_default()
    }

    /// Whether everything is sent whole.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_short.is_empty()
    }

    /// What is sent of an item.
    pub(crate) fn of<'i>(&self, items: &'i [ContextItem], index: u32) -> &'i ContextItem {
        let item = &items[index as usize];
        match self.is_short(index) {
            true => item.short_form().unwrap_or(item),
            false => item,
        }
    }
}
