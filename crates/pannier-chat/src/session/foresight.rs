//! The results that an agent will use, for the reference policy of the replay.

use std::collections::BTreeMap;

/// When the agent uses each result of a recorded history.
#[derive(Debug, Default)]
pub(crate) struct Foresight {
    /// The numbers of messages before each use, ascending, by the message and the part of a result.
    uses: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Foresight {
    /// Adds a use after `messages` messages. Uses are added in their order.
    pub(crate) fn add(&mut self, message: usize, part: usize, messages: usize) {
        self.uses.entry((message, part)).or_default().push(messages);
    }

    /// Returns the number of messages before the next use of a result after `messages` messages.
    pub(super) fn next_use(&self, message: usize, part: usize, messages: usize) -> Option<usize> {
        let uses = self.uses.get(&(message, part))?;
        uses.get(uses.partition_point(|other| *other < messages)).copied()
    }
}
