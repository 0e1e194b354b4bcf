//! The previous prompt of a conversation, for components that keep its prefix stable.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The contents of the previous prompt, in order. Empty by default.
///
/// A provider caches the prefix of a prompt, and a prompt with the same prefix costs less. The
/// [`PrefixStabilityScorer`](crate::PrefixStabilityScorer) and the [`PrefixStablePlacer`](crate::PrefixStablePlacer) keep
/// the prefix.
#[derive(Clone, Debug, Default)]
pub struct PreviousPrompt {
    /// The positions of each content, from 0.
    positions: Arc<BTreeMap<String, Vec<usize>>>,
    len: usize,
}

impl PreviousPrompt {
    /// Creates a prompt of these contents, in this order.
    pub fn new(contents: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut positions: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut len = 0;
        for content in contents {
            positions.entry(content.into()).or_default().push(len);
            len += 1;
        }
        Self { positions: Arc::new(positions), len }
    }

    /// Returns the number of contents.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no contents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the previous position of each content, if it had one. The first of several equal contents gets the first
    /// position, the second the second, and so on.
    pub fn positions<'c>(
        &self,
        contents: impl IntoIterator<Item = &'c str>,
    ) -> impl Iterator<Item = Option<usize>> {
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        contents.into_iter().map(move |content| {
            let (key, positions) = self.positions.get_key_value(content)?;
            let next = used.entry(key).or_default();
            *next += 1;
            positions.get(*next - 1).copied()
        })
    }
}
