use crate::model::Levels;
use crate::{ContextItem, Level, sum_tokens};

/// Items of a pool in the order they are sent.
#[derive(Clone, Copy, Debug)]
pub struct PlacedItems<'p> {
    pool: &'p [&'p ContextItem],
    indices: &'p [u32],
    levels: &'p Levels,
}

impl<'p> PlacedItems<'p> {
    pub(crate) fn new(pool: &'p [&'p ContextItem], indices: &'p [u32], levels: &'p Levels) -> Self {
        Self { pool, indices, levels }
    }

    /// Returns the items, or their short forms where those are sent.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &'p ContextItem> + Clone {
        let (pool, levels) = (self.pool, self.levels);
        self.indices.iter().map(move |index| levels.sent(pool, *index))
    }

    pub(super) fn levels(&self) -> impl ExactSizeIterator<Item = Level> + Clone {
        let levels = self.levels;
        self.indices.iter().map(move |index| levels.get(*index))
    }

    /// Returns for each of them whether its short form is sent.
    pub fn shortened(&self) -> impl ExactSizeIterator<Item = bool> + Clone {
        self.levels().map(|level| level != Level::WHOLE)
    }

    /// Returns their indices in the pool.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.indices.iter().map(|index| *index as usize)
    }

    /// Returns the sum of the token counts that the items carry.
    pub fn tokens(&self) -> i64 {
        sum_tokens(self.items().map(ContextItem::tokens))
    }
}
