use crate::model::Levels;
use crate::{ContextItem, Sent, sum_tokens};

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

    /// Returns the items as they are sent.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &'p ContextItem> + Clone {
        self.sent().map(|sent| sent.item())
    }

    /// Returns the items, each with the form that is sent.
    pub fn sent(&self) -> impl ExactSizeIterator<Item = Sent<'p>> + Clone {
        let (pool, levels) = (self.pool, self.levels);
        self.indices.iter().map(move |index| levels.sent(pool, *index))
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
