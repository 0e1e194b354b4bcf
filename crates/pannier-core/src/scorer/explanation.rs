//! How a score came about.

/// A score and the scores it was made of.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ScoreExplanation {
    /// The scorer, by the name it has in a policy; below a scorer that looks for words, the word.
    pub scorer: String,
    /// What it gave the item.
    pub score: f64,
    /// Its weight in the average it is part of.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub weight: Option<f64>,
    /// Its weight as a share of all weights: it adds `score * share` to the average.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub share: Option<f64>,
    /// The scores it was made of, in the order they were taken.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub children: Vec<ScoreExplanation>,
}

impl ScoreExplanation {
    /// A score that is not made of others.
    pub fn new(scorer: impl Into<String>, score: f64) -> Self {
        Self { scorer: scorer.into(), score, weight: None, share: None, children: Vec::new() }
    }

    /// The same score, made of these.
    pub fn with_children(mut self, children: Vec<Self>) -> Self {
        self.children = children;
        self
    }

    /// The same score as a part of an average, with its weight among all weights.
    pub fn with_weight(mut self, weight: f64, all_weights: f64) -> Self {
        (self.weight, self.share) = (Some(weight), Some(weight / all_weights));
        self
    }
}
