//! What was sent the last time.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The contents that were sent the last time, in their order.
///
/// A provider keeps the beginning of what was sent, and what begins in the same way again is cheaper. The
/// [stability scorer](crate::PrefixStabilityScorer) and the [stable placer](crate::PrefixStablePlacer) work towards that.
/// Nothing was sent by default.
#[derive(Clone, Debug, Default)]
pub struct PreviousPrompt {
    /// The positions of each content, from 0.
    positions: Arc<BTreeMap<String, Vec<usize>>>,
    len: usize,
}

impl PreviousPrompt {
    /// These contents, in this order.
    pub fn new(contents: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut positions: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut len = 0;
        for content in contents {
            positions.entry(content.into()).or_default().push(len);
            len += 1;
        }
        Self { positions: Arc::new(positions), len }
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place that each of these contents had, if it had one. Of equal ones, the first has the first place,
    /// and so on.
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
