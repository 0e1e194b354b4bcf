//! Selects the documents that answer a query, within a budget.
//!
//! A document's score is the share of its words that are terms of the query. Documents that match come first, by score
//! and then by id. The others follow by id and fill the rest of the budget. Each is taken if it still fits.
//!
//! The engine selects, by the policy `resolve`, from references: only posting lists are read for scores, and only the
//! documents that are taken are read at all. Documents that cannot fit after those before them are no candidates: of
//! 10,000, a few hundred remain. A pool of all documents gives the same selection, but takes five times as long there.

use std::collections::BinaryHeap;

use pannier_core::score::Pool;
use pannier_core::{ContextBudget, ContextItem, ContextKind, Error, Scorer};
use pannier_policy::{
    PlacerPolicy, Policy, PolicyRegistry, ReceiptSource, ScorerPolicy, SlicerPolicy,
};
use serde::Serialize;

use crate::search::check_length;
use crate::{DocsError, DocumentIndex, word_counts};

/// An answer: documents in order of relevance, and how they were chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Resolved {
    /// The documents, best first.
    pub documents: Vec<ResolvedDocument>,
    /// How they were chosen.
    pub selection: ResolvedSelection,
}

/// A document of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ResolvedDocument {
    /// What it is called.
    pub id: String,
    /// The hash of its bytes.
    pub version: String,
    /// Its text.
    pub content: String,
    /// The share of its words that are terms of the query.
    pub score: f32,
    /// What it costs.
    pub tokens: u64,
    /// How its score came about.
    pub why: TermFrequency,
}

/// How a score came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TermFrequency {
    /// The terms of the query, in lower case.
    pub query_terms: Vec<String>,
    /// How many words are one of them.
    pub term_matches: u32,
    /// How many words there are.
    pub total_words: u32,
}

/// How documents were chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResolvedSelection {
    /// The query as it was asked.
    pub query: String,
    /// How many tokens there were.
    pub budget: u64,
    /// How many were used.
    pub tokens_used: u64,
    /// How many documents there are.
    pub documents_considered: u64,
    /// How many were taken.
    pub documents_selected: u64,
    /// How many did not fit.
    pub documents_excluded_by_budget: u64,
}

impl DocumentIndex {
    /// The documents that answer a query within a budget.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if anything that the answer needs is not as it was built.
    pub fn resolve(&self, query: &str, budget: u64) -> Result<Resolved, DocsError> {
        check_length(query)?;
        let terms = word_counts::terms(query);
        let matches = self.matches(&terms)?;
        let ranked = self.ranked(&matches);
        let ranked = ranked.map(|found| (found, self.tokens(found.0)));
        let taken = self.select(&candidates(ranked, budget), budget)?;
        let mut documents = Vec::with_capacity(taken.len());
        for (document, term_matches) in taken {
            let found = self.document(document)?;
            let total_words = self.word_count(document);
            documents.push(ResolvedDocument {
                id: found.id,
                version: found.version,
                content: found.content,
                score: score(term_matches, total_words),
                tokens: self.tokens(document),
                why: TermFrequency { query_terms: terms.clone(), term_matches, total_words },
            });
        }
        let considered = u64::from(self.len());
        let selection = ResolvedSelection {
            query: query.to_owned(),
            budget,
            tokens_used: documents.iter().map(|document| document.tokens).sum(),
            documents_considered: considered,
            documents_selected: documents.len() as u64,
            documents_excluded_by_budget: considered - documents.len() as u64,
        };
        Ok(Resolved { documents, selection })
    }

    /// The documents in which any of these terms occur, in order, with how many of their words are one.
    fn matches(&self, terms: &[String]) -> Result<Vec<(u32, u32)>, DocsError> {
        let mut distinct: Vec<&str> = terms.iter().map(String::as_str).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut found = Vec::new();
        for term in distinct {
            found.extend(self.postings(term)?);
        }
        found.sort_unstable();
        // A document has no more words than fit its number, so neither has a part of them.
        found.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
        Ok(found)
    }

    /// Returns all documents with their matches, in the order in which the engine looks at them: those that match by score
    /// and then by id, then the others by id.
    fn ranked(&self, matches: &[(u32, u32)]) -> impl Iterator<Item = (u32, u32)> {
        let mut ranked: Vec<(f32, u32, u32)> = matches
            .iter()
            .map(|(document, matches)| {
                (score(*matches, self.word_count(*document)), *document, *matches)
            })
            .collect();
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut matching = matches.iter().map(|(document, _)| *document).peekable();
        let others = (0..self.len()).filter(move |other| matching.next_if_eq(other).is_none());
        let matching = ranked.into_iter().map(|(_, document, matches)| (document, matches));
        matching.chain(others.map(|document| (document, 0)))
    }

    /// Selects from candidates in the order of their ids, and returns those that are taken, best first.
    fn select(&self, candidates: &[(u32, u32)], budget: u64) -> Result<Vec<(u32, u32)>, DocsError> {
        // All documents together have fewer tokens than the engine can count.
        let budget = i64::try_from(budget).unwrap_or(i64::MAX);
        let reference = |(document, _): &(u32, u32)| {
            ContextItem::reference(document.to_string(), self.item_tokens(*document))
        };
        let references = candidates.iter().map(reference).collect::<Result<Vec<_>, _>>()?;
        let scores = candidates
            .iter()
            .map(|(document, matches)| f64::from(score(*matches, self.word_count(*document))));
        let pipeline = PolicyRegistry::empty()
            .pipeline(&resolve_policy(), None)?
            .into_builder()
            .scorer(TermFrequencyScorer(scores.collect()))
            .build();
        let selection = pipeline.run(&references, &ContextBudget::new(budget, budget)?)?;
        Ok(selection.indices().map(|index| candidates[index]).collect())
    }

    fn item_tokens(&self, document: u32) -> i64 {
        i64::try_from(self.tokens(document)).unwrap_or(i64::MAX)
    }

    /// The documents as items of the engine, in the order of their ids, each with its score for a query as its hint.
    ///
    /// An empty document has no content, and an item must have one: it says so in brackets.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn pool(&self, query: &str) -> Result<Vec<ContextItem>, DocsError> {
        check_length(query)?;
        let matches = self.matches(&word_counts::terms(query))?;
        let mut matching = matches.iter().peekable();
        let mut items = Vec::with_capacity(self.len() as usize);
        for number in 0..self.len() {
            let matches = matching
                .next_if(|(document, _)| *document == number)
                .map_or(0, |(_, count)| *count);
            let document = self.document(number)?;
            let content = match document.content.is_empty() {
                true => "[empty]".to_owned(),
                false => document.content,
            };
            let item = ContextItem::builder(content, self.item_tokens(number))
                .kind(ContextKind::DOCUMENT)
                .id(&document.id)
                .future_relevance_hint(f64::from(score(matches, self.word_count(number))))
                .build();
            let problem = |error: Error| DocsError::invalid(self.folder(), error.to_string());
            items.push(item.map_err(problem)?);
        }
        Ok(items)
    }
}

impl DocumentIndex {
    /// Where a pool for a query comes from, as receipts tell it.
    pub fn receipt_source(&self, query: &str) -> ReceiptSource {
        ReceiptSource {
            kind: "documents".to_owned(),
            version: self.manifest().version.clone(),
            query: Some(query.to_owned()),
            options: None,
        }
    }
}

fn score(matches: u32, words: u32) -> f32 {
    if words == 0 { 0.0 } else { matches as f32 / words as f32 }
}

/// Returns those of ranked documents that may fit after all before them, in order of their numbers.
///
/// Let `r` be the tokens that remain after some documents. Those that were not taken did not fit, so they are larger
/// than `r`. All up to `r` were taken, and together with `r` they do not exceed the budget. The largest such `r` is the
/// limit for the next document.
fn candidates(ranked: impl Iterator<Item = ((u32, u32), u64)>, budget: u64) -> Vec<(u32, u32)> {
    let mut candidates = Vec::new();
    let mut limit = budget;
    // The tokens of the candidates, without those that are known to exceed `r`.
    let (mut sizes, mut total) = (BinaryHeap::new(), 0);
    for (candidate, tokens) in ranked {
        if tokens > limit {
            continue;
        }
        candidates.push(candidate);
        sizes.push(tokens);
        total += tokens;
        while total > budget - limit
            && let Some(largest) = sizes.peek()
        {
            match budget.checked_sub(total).filter(|left| left >= largest) {
                Some(left) => limit = left,
                None => {
                    limit = largest - 1;
                    total -= largest;
                    sizes.pop();
                }
            }
        }
    }
    candidates.sort_unstable();
    candidates
}

/// Gives each item of a pool the score at its position.
struct TermFrequencyScorer(Vec<f64>);

impl Scorer for TermFrequencyScorer {
    fn score(&self, _: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        scores.copy_from_slice(&self.0);
        Ok(())
    }
}

/// The policy of [`DocumentIndex::resolve`]: by the items' own scores, best first, and what does not fit is skipped.
pub fn resolve_policy() -> Policy {
    Policy::new([(ScorerPolicy::Reflexive, 1.0)])
        .with_name("resolve")
        .with_slicer(SlicerPolicy::Rank)
        .with_placer(PlacerPolicy::Rank)
        .with_deduplication(false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes each document that still fits, in this order.
    fn fill(ranked: &[((u32, u32), u64)], budget: u64) -> Vec<(u32, u32)> {
        let mut remaining = budget;
        let mut taken = Vec::new();
        for (document, tokens) in ranked {
            if let Some(left) = remaining.checked_sub(*tokens) {
                remaining = left;
                taken.push(*document);
            }
        }
        taken
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

        #[test]
        fn candidates_give_the_selection_of_all_documents(
            tokens in prop::collection::vec(0..30_u64, 0..80),
            budget in prop_oneof![0..200_u64, Just(u64::MAX)],
        ) {
            let rank = |(document, tokens)| ((document, document % 3), tokens);
            let mut ranked: Vec<((u32, u32), u64)> = (0..).zip(tokens).map(rank).collect();
            ranked.sort_by_key(|((document, matches), _)| (std::cmp::Reverse(*matches), *document));
            let expected = fill(&ranked, budget);
            let found = candidates(ranked.iter().copied(), budget);
            prop_assert!(found.is_sorted());
            ranked.retain(|(document, _)| found.contains(document));
            prop_assert_eq!(ranked.len(), found.len());
            prop_assert_eq!(fill(&ranked, budget), expected);
        }
    }

    #[test]
    fn few_of_many_documents_are_candidates() {
        let tokens =
            (0..10_000).map(|document| ((document, 0), u64::from(50 + document * 7_919 % 900)));
        let found = candidates(tokens, 4_000);
        assert!((5..400).contains(&found.len()), "{}", found.len());
    }
}
