//! Which documents answer a query, within a budget.
//!
//! Three phases: every document is scored by the share of its words that are terms of the query; documents are ordered by
//! score and then by id; and each that still fits the budget is taken. Only postings are read for scores, and only
//! contents that are taken. The same selection comes from the engine, with the policy `resolve` over
//! [`DocumentIndex::pool`]; tests hold the two against each other.

use pannier_core::{ContextItem, ContextKind};
use pannier_policy::{PlacerPolicy, Policy, ReceiptSource, ScorerPolicy, SlicerPolicy};
use serde::Serialize;

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
        let terms = word_counts::terms(query);
        let matches = self.matches(&terms)?;
        let taken = self.select_within_budget(&matches, budget);
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

    /// Takes what fits: what matches by score and then by id, then the rest by id.
    fn select_within_budget(&self, matches: &[(u32, u32)], budget: u64) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        if budget == 0 {
            return taken;
        }
        let mut left = budget;
        let mut take = |document: u32, matches: u32| {
            let tokens = self.tokens(document);
            if tokens <= left {
                left -= tokens;
                taken.push((document, matches));
            }
        };
        let mut ranked: Vec<(f32, u32, u32)> = matches
            .iter()
            .map(|(document, matches)| {
                (score(*matches, self.word_count(*document)), *document, *matches)
            })
            .collect();
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().for_each(|(_, document, matches)| take(document, matches));
        let mut matching = matches.iter().map(|(document, _)| *document).peekable();
        for document in 0..self.len() {
            if matching.next_if_eq(&document).is_none() {
                take(document, 0);
            }
        }
        taken
    }

    /// The documents as items of the engine, in the order of their ids, each with its score for a query as its hint.
    ///
    /// An empty document has no content, and an item must have one: it says so in brackets.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn pool(&self, query: &str) -> Result<Vec<ContextItem>, DocsError> {
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
            let tokens = i64::try_from(self.tokens(number)).unwrap_or(i64::MAX);
            let item = ContextItem::builder(content, tokens)
                .kind(ContextKind::DOCUMENT)
                .id(&document.id)
                .future_relevance_hint(f64::from(score(matches, self.word_count(number))))
                .build();
            let problem =
                |error: pannier_core::Error| DocsError::invalid(self.folder(), error.to_string());
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

/// The policy of [`DocumentIndex::resolve`]: by the items' own scores, best first, and what does not fit is skipped.
pub fn resolve_policy() -> Policy {
    Policy::new([(ScorerPolicy::Reflexive, 1.0)])
        .with_name("resolve")
        .with_slicer(SlicerPolicy::Rank)
        .with_placer(PlacerPolicy::Rank)
        .with_deduplication(false)
}
