//! Score explanations: the tree of scores that a score was computed from.

/// A score and the scores it was computed from.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ScoreExplanation {
    /// The name of the scorer in a policy; below a lexical scorer, the term.
    pub scorer: String,
    /// The score of the item.
    pub score: f64,
    /// Its weight in the average that it belongs to.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub weight: Option<f64>,
    /// Its weight as a share of all weights: it adds `score * share` to the average.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub share: Option<f64>,
    /// The scores it was computed from, in order.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub children: Vec<ScoreExplanation>,
}

impl ScoreExplanation {
    /// Creates an explanation without children.
    pub fn new(scorer: impl Into<String>, score: f64) -> Self {
        Self { scorer: scorer.into(), score, weight: None, share: None, children: Vec::new() }
    }

    /// Sets the scores that it was computed from.
    pub fn with_children(mut self, children: Vec<Self>) -> Self {
        self.children = children;
        self
    }

    /// Sets the weight in an average, and the sum of all weights.
    pub fn with_weight(mut self, weight: f64, all_weights: f64) -> Self {
        (self.weight, self.share) = (Some(weight), Some(weight / all_weights));
        self
    }
}
