//! Scores by what sort of thing an item is.

use super::{Pool, Scorer, check_weight, score_independently};
use crate::model::KindMap;
use crate::{ContextItem, ContextKind, Error};

const NAME: &str = "KindScorer";

/// A fixed score for each kind; kinds without one score 0.
///
/// The default prefers what is hardest to get back: system prompts 1.0, memories 0.8, tool outputs
/// 0.6, documents 0.4, messages 0.2. Weights may exceed 1, and are not clamped.
///
/// ```
/// use pannier_core::{ContextItem, ContextKind};
/// use pannier_core::score::{KindScorer, Pool};
///
/// let document = ContextItem::builder("The manual", 40).kind(ContextKind::DOCUMENT).build()?;
/// let message = ContextItem::new("Hello", 1)?;
/// let pool = Pool::new([&document, &message]);
/// assert_eq!(pool.scores(&KindScorer::default())?, [0.4, 0.2]);
/// let documents_only = KindScorer::new([(ContextKind::DOCUMENT, 1.0)])?;
/// assert_eq!(pool.scores(&documents_only)?, [1.0, 0.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KindScorer {
    /// In the order they were given.
    weights: Vec<(ContextKind, f64)>,
    by_kind: KindMap<f64>,
}

impl KindScorer {
    /// A scorer with these weights.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScorer`] if a weight is negative or not finite, or a kind appears twice.
    pub fn new(weights: impl IntoIterator<Item = (ContextKind, f64)>) -> Result<Self, Error> {
        let (weights, mut by_kind): (Vec<_>, _) = (weights.into_iter().collect(), KindMap::new());
        for (kind, weight) in &weights {
            check_weight(NAME, kind.as_str(), *weight)?;
            if !by_kind.insert(kind, *weight) {
                let problem = format!("the kind '{kind}' has two weights; give it one");
                return Err(Error::InvalidScorer { scorer: NAME, problem });
            }
        }
        Ok(Self { weights, by_kind })
    }

    /// The weights, in the order they were given.
    pub fn weights(&self) -> &[(ContextKind, f64)] {
        &self.weights
    }
}

impl Default for KindScorer {
    fn default() -> Self {
        let weights = [
            (ContextKind::SYSTEM_PROMPT, 1.0),
            (ContextKind::MEMORY, 0.8),
            (ContextKind::TOOL_OUTPUT, 0.6),
            (ContextKind::DOCUMENT, 0.4),
            (ContextKind::MESSAGE, 0.2),
        ];
        let mut by_kind = KindMap::new();
        weights.iter().for_each(|(kind, weight)| _ = by_kind.insert(kind, *weight));
        Self { weights: weights.into(), by_kind }
    }
}

impl Scorer for KindScorer {
    fn name(&self) -> &str {
        "kind"
    }

    fn max_score(&self) -> f64 {
        self.weights.iter().map(|(_, weight)| *weight).fold(0.0, f64::max)
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let weight = |item: &ContextItem| self.by_kind.get(item.kind()).unwrap_or_default();
        score_independently(pool, scores, weight);
        Ok(())
    }
}
