//! Reranking: a slower model scores the best hits of a search again.
//!
//! A reranker reads the query together with each passage, so it judges better than a retriever and costs more. Only the first
//! [`MAX_RERANKED`] hits are scored; the others follow them. Scores are recorded, so that a search can be repeated without the
//! model.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DocsError, EmbedderError, Hit};

/// The number of hits that are scored again.
pub const MAX_RERANKED: usize = 50;

/// The score of the best hit.
const SCALE: u64 = 1 << 32;

/// Scores passages for a query.
pub trait Reranker: fmt::Debug + Send + Sync {
    /// Returns the name of the model.
    fn model(&self) -> &str;

    /// Computes a finite score for each text, in order. Higher is better; any range is allowed.
    ///
    /// # Errors
    ///
    /// An error of the implementation, if it cannot score a text.
    fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, EmbedderError>;
}

/// The scores of a reranker for the first hits of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Reranking {
    /// The name of the model.
    pub model: String,
    /// A score for each of the first hits, in their order before reranking.
    pub scores: Vec<f64>,
}

/// The score of a hit by a reranker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankerScore {
    /// The name of the model.
    pub model: String,
    /// The rank among the reranked hits, from 1.
    pub rank: u32,
    /// The rank before, from 1.
    pub previous_rank: u32,
    /// The score.
    pub score: f64,
}

impl Reranking {
    /// Asks a reranker for the scores of the first hits.
    pub(crate) fn ask(
        reranker: &dyn Reranker,
        query: &str,
        hits: &[Hit],
    ) -> Result<Self, DocsError> {
        let texts: Vec<String> = hits.iter().take(MAX_RERANKED).map(text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let scores = match texts.is_empty() {
            true => Vec::new(),
            false => reranker.rerank(query, &texts).map_err(DocsError::Reranker)?,
        };
        if scores.len() != texts.len() || !scores.iter().all(|score| score.is_finite()) {
            let problem =
                format!("{} did not return a finite score for each passage", reranker.model());
            return Err(DocsError::Reranker(problem.into()));
        }
        Ok(Self { model: reranker.model().to_owned(), scores })
    }

    /// Orders hits by these scores, ties by their previous order, and replaces their fused scores.
    pub(crate) fn apply(&self, hits: &mut Vec<Hit>) -> Result<(), DocsError> {
        if self.scores.len() != hits.len().min(MAX_RERANKED)
            || !self.scores.iter().all(|score| score.is_finite())
        {
            let problem = "its reranker scores do not belong to the passages of the search";
            return Err(DocsError::Receipt { problem: problem.to_owned() });
        }
        let rest = hits.split_off(self.scores.len());
        let shares = shares(&self.scores);
        let mut scored: Vec<(Hit, f64, f64, u32)> = hits
            .drain(..)
            .zip(self.scores.iter().zip(shares))
            .zip(1..)
            .map(|((hit, (score, share)), rank)| (hit, *score, share, rank))
            .collect();
        scored.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.3.cmp(&other.3)));
        for ((mut hit, score, share, previous_rank), rank) in scored.into_iter().zip(1..) {
            let model = self.model.clone();
            hit.score = (share * SCALE as f64) as u64;
            hit.reranker = Some(RerankerScore { model, rank, previous_rank, score });
            hits.push(hit);
        }
        // The others keep their proportions, below the last one that was scored.
        let last = hits.last().map_or(0, |hit| u128::from(hit.score));
        let best = rest.iter().map(|hit| hit.score).max().unwrap_or_default().max(1);
        hits.extend(rest.into_iter().map(|mut hit| {
            hit.score = (u128::from(hit.score) * last / u128::from(best)) as u64;
            hit
        }));
        Ok(())
    }
}

/// Returns the text of a hit for a reranker: its headings and its own text.
fn text(hit: &Hit) -> String {
    match hit.heading_path.is_empty() {
        true => hit.text.clone(),
        false => format!("{}\n\n{}", hit.heading_path, hit.text),
    }
}

/// Maps scores to shares of the best. Scores from 0 to 1 keep their proportions; others, such as logits, are mapped linearly
/// from the lowest to the highest.
fn shares(scores: &[f64]) -> Vec<f64> {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let lowest = if lowest >= 0.0 && highest <= 1.0 { 0.0 } else { lowest };
    // Halves, so that the difference of finite numbers is finite.
    let range = highest / 2.0 - lowest / 2.0;
    let share = |score: &f64| if range > 0.0 { (score / 2.0 - lowest / 2.0) / range } else { 1.0 };
    scores.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_proportions_or_are_linear() {
        assert_eq!(shares(&[0.5, 0.25, 0.0]), [1.0, 0.5, 0.0]);
        assert_eq!(shares(&[-3.0, 1.0, -1.0]), [0.0, 1.0, 0.5]);
        assert_eq!(shares(&[0.0, 0.0]), [1.0, 1.0]);
        assert_eq!(shares(&[f64::MAX, f64::MIN]), [1.0, 0.0]);
        assert_eq!(shares(&[-2.0]), [1.0]);
        assert!(shares(&[]).is_empty());
    }
}
