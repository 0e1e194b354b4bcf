//! The second phase: whole texts, with everything that they require.
//!
//! What is required comes from the indexes, what is sent from the files. Nothing is cut to fit a budget: what is printed is
//! counted as it is printed, and if it is too much, the answer is an error that says what to leave out. What a session was
//! given before is read, too, because only so can it be seen whether it is still the same.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use pannier_core::TokenCounter;
use serde::Serialize;

use crate::graph::{DependencyClosure, ShortestPaths};
use crate::kind::{Scope, SnippetType};
use crate::list::{ListOptions, SnippetList};
use crate::text::{Body, BodyReader};
use crate::{SnippetCatalog, SnippetId, SnippetsError, TextHash, Warning, drop_advice};

/// So many ids of a chain are told.
const MAX_CHAIN_IDS: usize = 8;

/// A thread reads at least so many files.
const MIN_FILES_PER_THREAD: usize = 128;

/// How to fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetOptions {
    /// How many tokens the answer may have as it is printed.
    pub budget: Option<usize>,
    /// How it is printed.
    pub format: ContextFormat,
    /// The ids that the session was given already, and the hashes of the texts.
    pub delivered: BTreeMap<String, TextHash>,
    /// Sends these again, even if they are the same.
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
pub enum GetResponse<'c> {
    /// The snippets.
    Snippets(Box<SnippetBundle<'c>>),
    /// The session has snippets that are no longer there; what there is now.
    Discovery {
        /// The ids that are gone.
        gone: Vec<String>,
        /// The first phase, with a message.
        listing: SnippetList<'c>,
    },
}

/// The answer of the second phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnippetBundle<'c> {
    /// Which phase it is of: 2.
    pub phase: u8,
    /// What counted the tokens.
    pub tokenizer: String,
    /// How many tokens the texts have together, without what stands around them.
    pub text_tokens: usize,
    /// The ids that were asked for, in the order they were.
    pub requested: Vec<&'c str>,
    /// What else is in, and why; but for what the session has already.
    pub added: Vec<AddedDependency<'c>>,
    /// What the session has already, and is not sent again.
    pub delivered: Vec<&'c str>,
    /// What the session was given before, and has changed since.
    pub changed: Vec<&'c str>,
    /// What is sent, in its order.
    pub snippets: Vec<SentSnippet<'c>>,
    /// What is wrong with it.
    pub warnings: Vec<Warning>,
    /// How many tokens it has as it is printed. Only counted if there is a budget.
    #[serde(skip)]
    pub tokens: Option<usize>,
}

/// A snippet that was not asked for, but is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AddedDependency<'c> {
    /// The snippet.
    pub id: &'c str,
    /// How it came in: from one that was asked for to the one that requires it. Of a long chain, the first and the last
    /// seven.
    pub chain: Vec<&'c str>,
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
pub struct SentSnippet<'c> {
    /// Its id.
    pub id: &'c str,
    /// What it is about.
    pub description: &'c str,
    /// What sort of thing it is.
    #[serde(rename = "type")]
    pub kind: SnippetType,
    /// How far it reaches.
    pub scope: Scope,
    /// Its file, below its root.
    pub path: &'c str,
    /// How many tokens its text has.
    pub tokens: usize,
    /// Everything behind its front matter, byte for byte.
    pub text: Body,
}

impl SnippetCatalog<'_> {
    /// Fetches snippets, with everything that they require.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownIds`] for ids that are not there, all of them; [`SnippetsError::OverBudget`] if it is too
    /// much; [`SnippetsError::MessageOverBudget`] if the session has snippets that are gone, and not even that can be said;
    /// and what a [listing](SnippetCatalog::list) can fail with.
    pub fn get(
        &self,
        ids: &[SnippetId],
        options: &GetOptions,
        counter: &dyn TokenCounter,
    ) -> Result<GetResponse<'_>, SnippetsError> {
        let requested = self.requested(ids)?;
        let delivered = options.delivered.keys();
        let gone: Vec<String> = delivered.filter(|id| self.find(id).is_none()).cloned().collect();
        if !gone.is_empty() {
            let listing = self.discovery(&gone, options, counter)?;
            return Ok(GetResponse::Discovery { gone, listing });
        }
        let mut bodies = BodyStore::new(self, options, counter);
        let mut context = self.context(&requested, &mut bodies);
        let Some(budget) = options.budget else {
            return Ok(GetResponse::Snippets(Box::new(context)));
        };
        let tokens = counter.count(&context.render(options.format));
        if tokens > budget {
            let over =
                drop_advice::over_budget(self, &requested, &mut bodies, &context, tokens, budget);
            return Err(SnippetsError::OverBudget(Box::new(over)));
        }
        context.tokens = Some(tokens);
        Ok(GetResponse::Snippets(Box::new(context)))
    }

    /// The first phase for a session that has snippets which are gone. A budget bounds it, too: if the list is too much,
    /// only the message is left, and if that is, only how many are gone.
    fn discovery(
        &self,
        gone: &[String],
        options: &GetOptions,
        counter: &dyn TokenCounter,
    ) -> Result<SnippetList<'_>, SnippetsError> {
        let mut listing = self.list(&ListOptions::default(), counter)?;
        let names = gone_names(gone);
        listing.message = Some(format!("{names} Choose again from what there is now."));
        let Some(budget) = options.budget else { return Ok(listing) };
        let mut tokens = counter.count(&listing.render(options.format));
        let count = match gone.len() {
            1 => "a snippet that this session was given is".to_owned(),
            count => format!("{count} snippets that this session was given are"),
        };
        for message in [
            format!(
                "{names} With the list of what there is now, this would have {tokens} tokens, above the budget of {budget}; list the snippets again and choose from them."
            ),
            format!(
                "The index has changed: {count} gone; list the snippets again and choose from them."
            ),
        ] {
            if tokens <= budget {
                return Ok(listing);
            }
            listing.snippets.clear();
            listing.warnings.clear();
            listing.message = Some(message);
            tokens = counter.count(&listing.render(options.format));
        }
        match tokens <= budget {
            true => Ok(listing),
            false => Err(SnippetsError::MessageOverBudget { tokens, budget }),
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
        Err(self.unknown(unknown.into_iter()))
    }

    /// What is sent for these snippets.
    pub(crate) fn context<'c>(
        &'c self,
        requested: &[u32],
        bodies: &mut BodyStore<'_>,
    ) -> SnippetBundle<'c> {
        let closure = DependencyClosure::new(self, requested);
        let snippet = |node: u32| &self.snippets()[closure.snippets[node as usize] as usize];
        let id = |node: u32| snippet(node).id();
        let ordered = closure.order(|node| snippet(node).scope() as usize);
        let id_of = |number: &u32| self.snippets()[*number as usize].id();
        let mut context = SnippetBundle {
            phase: 2,
            tokenizer: bodies.counter.name().to_owned(),
            requested: requested.iter().map(id_of).collect(),
            warnings: self.warnings().to_vec(),
            ..SnippetBundle::default()
        };
        let dangling = closure.dangling.iter();
        context.warnings.extend(dangling.map(|(node, text)| Warning::dangling(id(*node), text)));
        for cycle in &ordered.cycles {
            let ids: Vec<&str> = cycle.iter().map(|node| id(*node)).collect();
            context.warnings.push(Warning::cycle(&ids));
        }
        bodies.read(self, closure.snippets.clone());
        for node in ordered.nodes {
            let snippet = snippet(node);
            let reading = bodies.get(closure.snippets[node as usize]);
            let was_sent = bodies.options.delivered.contains_key(snippet.id());
            let is_sent = match &reading {
                Ok(text) => bodies.is_sent(text.before),
                Err(_) => bodies.options.resend || !was_sent,
            };
            if !is_sent {
                context.delivered.push(snippet.id());
            } else if closure.ways.length(node) != Some(0) {
                context.added.push(added(&closure.ways, node, id));
            }
            match reading {
                Ok(Text { body, tokens, before, is_stale }) if is_sent => {
                    if before == PriorDelivery::Changed {
                        context.changed.push(snippet.id());
                    }
                    if is_stale {
                        let path = self.display_path(snippet);
                        context.warnings.push(Warning::outdated(snippet.id(), &path));
                    }
                    context.text_tokens += tokens;
                    context.snippets.push(SentSnippet {
                        id: snippet.id(),
                        description: snippet.description(),
                        kind: snippet.snippet_type(),
                        scope: snippet.scope(),
                        path: snippet.path(),
                        tokens,
                        text: body,
                    });
                }
                Ok(_) => {}
                Err(problem) => {
                    let path = self.display_path(snippet);
                    context.warnings.push(Warning::unreadable(snippet.id(), &path, &problem));
                }
            }
        }
        context
    }
}

/// Why a node is in: the way to it from one that was asked for.
pub(crate) fn added<'c>(
    ways: &ShortestPaths,
    node: u32,
    id: impl Fn(u32) -> &'c str,
) -> AddedDependency<'c> {
    let way = ways.to(node, MAX_CHAIN_IDS);
    AddedDependency {
        id: id(node),
        chain_omitted: ways.length(node).unwrap_or_default().saturating_sub(way.len()),
        chain: way.into_iter().map(id).collect(),
    }
}

fn gone_names(gone: &[String]) -> String {
    let shown: Vec<&str> = gone.iter().take(10).map(String::as_str).collect();
    let more = gone.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = shown.join(", ");
    let are = if gone.len() == 1 { "is" } else { "are" };
    format!(
        "The index has changed: {names}{more}, which this session was given, {are} no longer there."
    )
}

/// The texts that were read, by the numbers of their snippets, and what they cost.
pub(crate) struct BodyStore<'a> {
    known: Vec<Option<Reading>>,
    pub(crate) options: &'a GetOptions,
    pub(crate) counter: &'a dyn TokenCounter,
}

/// A text, or why there is none.
type Reading = Result<Text, String>;

#[derive(Clone, Debug)]
struct Text {
    body: Body,
    /// Counted only if it is sent.
    tokens: usize,
    before: PriorDelivery,
    /// Whether its file says something else about it than the index.
    is_stale: bool,
}

/// What a session was given before of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorDelivery {
    Nothing,
    TheSame,
    Changed,
}

impl<'a> BodyStore<'a> {
    pub(crate) fn new(
        catalog: &SnippetCatalog<'_>,
        options: &'a GetOptions,
        counter: &'a dyn TokenCounter,
    ) -> Self {
        Self { known: vec![None; catalog.snippets().len()], options, counter }
    }

    fn is_sent(&self, before: PriorDelivery) -> bool {
        before != PriorDelivery::TheSame || self.options.resend
    }

    /// RequiredReads and counts these, as far as they are not known, on all cores if they are many. What is read does not depend
    /// on how many there are.
    fn read(&mut self, catalog: &SnippetCatalog<'_>, mut numbers: Vec<u32>) {
        numbers.retain(|number| self.known[*number as usize].is_none());
        // One after the other in the order of their ids, files are mostly in the folder of the last one.
        numbers.sort_unstable();
        let this = &*self;
        let read = |numbers: &[u32]| {
            let mut texts = BodyReader::new(catalog.roots());
            let read = numbers.iter().map(|number| {
                let snippet = &catalog.snippets()[*number as usize];
                let body = texts.read(snippet).map_err(|unread| unread.problem().to_owned())?;
                let before = match this.options.delivered.get(snippet.id()) {
                    None => PriorDelivery::Nothing,
                    Some(hash) if *hash == TextHash::of(&body) => PriorDelivery::TheSame,
                    Some(_) => PriorDelivery::Changed,
                };
                let tokens = if this.is_sent(before) { this.counter.count(&body) } else { 0 };
                let is_stale = catalog.is_stale(snippet, body.file());
                Ok(Text { body, tokens, before, is_stale })
            });
            read.collect::<Vec<Reading>>()
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let share = numbers.len().div_ceil(cores).max(MIN_FILES_PER_THREAD);
        let readings: Vec<Reading> = std::thread::scope(|scope| {
            let mut shares = numbers.chunks(share);
            // The first is for this thread.
            let first = shares.next().unwrap_or_default();
            let others: Vec<_> = shares.map(|share| (share, scope.spawn(|| read(share)))).collect();
            let mut readings = read(first);
            for (share, other) in others {
                // A counter that stops a thread would have stopped this one, too.
                readings.extend(other.join().unwrap_or_else(|_| read(share)));
            }
            readings
        });
        for (number, reading) in numbers.into_iter().zip(readings) {
            self.known[number as usize] = Some(reading);
        }
    }

    fn get(&self, number: u32) -> Reading {
        self.known[number as usize].clone().unwrap_or_else(|| Err("it was not read".to_owned()))
    }
}
