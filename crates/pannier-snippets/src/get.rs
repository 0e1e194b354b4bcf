//! The second phase: whole texts, with everything that they require.
//!
//! What is required comes from the indexes, what is sent from the files. Nothing is cut to fit a budget: what is printed is
//! counted as it is printed, and if it is too much, the answer is an error that says what to leave out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pannier_core::TokenCounter;
use serde::Serialize;

use crate::error::UnknownId;
use crate::front_matter::split;
use crate::graph::Closure;
use crate::kind::{Scope, SnippetType};
use crate::list::{ListOptions, Listing};
use crate::root::LONGEST_FILE;
use crate::text::Texts;
use crate::{Catalogue, SnippetId, SnippetsError, Warning, budget, close};

/// For so many unknown ids, others that look like them are looked for.
const MOST_EXPLAINED: usize = 20;

/// So many ids of a chain are told.
const LONGEST_CHAIN: usize = 8;

/// How to fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetOptions {
    /// How many tokens the answer may have as it is printed.
    pub budget: Option<usize>,
    /// How it is printed.
    pub format: ContextFormat,
    /// The ids that the session has already.
    pub delivered: BTreeSet<String>,
    /// Sends these again.
    pub resend: bool,
}

/// How a context is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextFormat {
    /// For people and models.
    #[default]
    Text,
    /// One line of JSON.
    Json,
}

/// What is answered to a request for snippets.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'c> {
    /// The snippets.
    Snippets(Box<Fetched>),
    /// The session has snippets that are no longer there; what there is now.
    Discovery {
        /// The ids that are gone.
        gone: Vec<String>,
        /// The first phase, with a message.
        listing: Listing<'c>,
    },
}

/// Snippets, as they are printed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fetched {
    /// What is printed.
    pub context: Context,
    /// As it is printed.
    pub text: String,
    /// How many tokens that has.
    pub tokens: usize,
}

/// The answer of the second phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Context {
    /// Which phase it is of: 2.
    pub phase: u8,
    /// The ids that were asked for, in the order they were.
    pub requested: Vec<String>,
    /// What else is in, and why.
    pub added: Vec<Added>,
    /// What the session has already, and is not sent again.
    pub delivered: Vec<String>,
    /// What is sent, in its order.
    pub snippets: Vec<SentSnippet>,
    /// What is wrong with it.
    pub warnings: Vec<Warning>,
}

/// A snippet that was not asked for, but is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Added {
    /// The snippet.
    pub id: String,
    /// How it came in: from one that was asked for to the one that requires it. Of a long chain, the first and the last
    /// seven.
    pub chain: Vec<String>,
    /// How many are left out behind the first.
    #[serde(skip_serializing_if = "is_none")]
    pub chain_omitted: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// A snippet that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SentSnippet {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub description: String,
    /// What sort of thing it is.
    #[serde(rename = "type")]
    pub kind: SnippetType,
    /// How far it reaches.
    pub scope: Scope,
    /// Its file, below its root.
    pub path: String,
    /// How many tokens its text has.
    pub tokens: usize,
    /// Everything behind its front matter, byte for byte.
    pub text: Arc<str>,
}

impl<'t> Catalogue<'t> {
    /// Fetches snippets, with everything that they require.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownIds`] for ids that are not there, all of them; [`SnippetsError::OverBudget`] if it is too
    /// much; and what a [listing](Catalogue::list) can fail with.
    pub fn get(
        &self,
        ids: &[SnippetId],
        options: &GetOptions,
        counter: &dyn TokenCounter,
    ) -> Result<Answer<'_>, SnippetsError> {
        let requested = self.requested(ids)?;
        let gone: Vec<String> =
            options.delivered.iter().filter(|id| self.find(id).is_none()).cloned().collect();
        if !gone.is_empty() {
            let mut listing = self.list(&ListOptions::default(), counter)?;
            listing.message = Some(gone_message(&gone));
            return Ok(Answer::Discovery { gone, listing });
        }
        let mut bodies = Bodies { texts: Texts::new(self), known: BTreeMap::new(), counter };
        let context = self.context(&requested, options, &mut bodies);
        let text = context.render(options.format);
        let tokens = counter.count(&text);
        match options.budget {
            Some(budget) if tokens > budget => {
                let over =
                    budget::over(self, &requested, options, &mut bodies, &context, tokens, budget);
                Err(SnippetsError::OverBudget(Box::new(over)))
            }
            _ => Ok(Answer::Snippets(Box::new(Fetched { context, text, tokens }))),
        }
    }

    /// The numbers of the snippets that were asked for, each once.
    fn requested(&self, ids: &[SnippetId]) -> Result<Vec<u32>, SnippetsError> {
        let mut numbers = Vec::new();
        let mut unknown: Vec<&str> = Vec::new();
        let mut seen = BTreeSet::new();
        for id in ids.iter().map(SnippetId::as_str).filter(|id| seen.insert(*id)) {
            match self.find(id) {
                Some(number) => numbers.push(number),
                None => unknown.push(id),
            }
        }
        if unknown.is_empty() {
            return Ok(numbers);
        }
        let ids = unknown.iter().enumerate().map(|(place, id)| UnknownId {
            id: (*id).to_owned(),
            close: if place < MOST_EXPLAINED { close::close(self, id) } else { Vec::new() },
        });
        Err(SnippetsError::UnknownIds { ids: ids.collect() })
    }

    /// What is sent for these snippets.
    pub(crate) fn context(
        &self,
        requested: &[u32],
        options: &GetOptions,
        bodies: &mut Bodies<'_>,
    ) -> Context {
        let closure = Closure::new(self, requested);
        let snippet = |node: u32| &self.snippets()[closure.snippets[node as usize] as usize];
        let id = |node: u32| snippet(node).id();
        let ordered = closure.order(|node| snippet(node).scope() as usize);
        let id_of = |number: &u32| self.snippets()[*number as usize].id().to_owned();
        let mut context = Context {
            phase: 2,
            requested: requested.iter().map(id_of).collect(),
            warnings: self.warnings().to_vec(),
            ..Context::default()
        };
        let dangling = closure.dangling.iter();
        context.warnings.extend(dangling.map(|(node, text)| Warning::dangling(id(*node), text)));
        for cycle in &ordered.cycles {
            let ids: Vec<&str> = cycle.iter().map(|node| id(*node)).collect();
            context.warnings.push(Warning::cycle(&ids));
        }
        for node in ordered.nodes {
            let snippet = snippet(node);
            if closure.ways[node as usize].length > 0 {
                context.added.push(added(&closure, node, id));
            }
            if !options.resend && options.delivered.contains(snippet.id()) {
                context.delivered.push(snippet.id().to_owned());
                continue;
            }
            match bodies.read(closure.snippets[node as usize], self) {
                Ok((text, tokens)) => context.snippets.push(SentSnippet {
                    id: snippet.id().to_owned(),
                    description: snippet.description().to_owned(),
                    kind: snippet.snippet_type(),
                    scope: snippet.scope(),
                    path: snippet.path().to_owned(),
                    tokens,
                    text,
                }),
                Err(problem) => {
                    let path = self.shown_path(snippet);
                    context.warnings.push(Warning::unreadable(snippet.id(), &path, &problem));
                }
            }
        }
        context
    }
}

/// Why a node is in: the way to it from one that was asked for.
fn added<'a>(closure: &Closure, node: u32, id: impl Fn(u32) -> &'a str) -> Added {
    let way = closure.way(node, LONGEST_CHAIN);
    Added {
        id: id(node).to_owned(),
        chain_omitted: closure.ways[node as usize].length - way.len(),
        chain: way.into_iter().map(|node| id(node).to_owned()).collect(),
    }
}

fn gone_message(gone: &[String]) -> String {
    let shown: Vec<&str> = gone.iter().take(10).map(String::as_str).collect();
    let more = gone.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = shown.join(", ");
    format!(
        "The index has changed: {names}{more}, which this session was given, is no longer there. Choose again from what there is now."
    )
}

/// The texts that were read, and what they cost.
pub(crate) struct Bodies<'a> {
    texts: Texts<'a>,
    known: BTreeMap<u32, Result<(Arc<str>, usize), String>>,
    pub(crate) counter: &'a dyn TokenCounter,
}

impl Bodies<'_> {
    fn read(
        &mut self,
        number: u32,
        catalogue: &Catalogue<'_>,
    ) -> Result<(Arc<str>, usize), String> {
        if let Some(known) = self.known.get(&number) {
            return known.clone();
        }
        let snippet = &catalogue.snippets()[number as usize];
        let read = match self.texts.read(snippet, LONGEST_FILE) {
            Ok(text) => {
                let body = split(&text).body;
                Ok((Arc::from(body), self.counter.count(body)))
            }
            Err(unread) => Err(unread.problem().to_owned()),
        };
        self.known.insert(number, read.clone());
        read
    }
}
