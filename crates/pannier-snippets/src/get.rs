//! Phase 2: fetches whole texts with their dependencies.
//!
//! Dependencies come from the indexes, texts from the files. Nothing is truncated: the budget limits the rendered
//! response, and a response that exceeds it is an error that suggests requests to drop. Texts that a session already
//! received are read, too, to detect changes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use pannier_core::TokenCounter;
use serde::Serialize;

use crate::drop_advice::{MAX_EXACT_REQUESTS, over_budget};
use crate::graph::{DependencyClosure, ShortestPaths};
use crate::kind::{Scope, SnippetType};
use crate::list::{ListOptions, SnippetList};
use crate::text::{Body, BodyReader};
use crate::{SnippetCatalog, SnippetId, SnippetsError, TextHash, Warning};

/// The maximum number of ids in a chain of a response.
const MAX_CHAIN_IDS: usize = 8;

/// The minimum number of files per thread.
const MIN_FILES_PER_THREAD: usize = 128;

/// Options of a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetOptions {
    /// The maximum tokens of the rendered response. Default: no limit.
    pub budget: Option<usize>,
    /// The format of the rendered response. Default: text.
    pub format: ContextFormat,
    /// The ids and text hashes of the snippets that the session received.
    pub delivered: BTreeMap<String, TextHash>,
    /// Sends those again even if they are unchanged. Default: false.
    pub resend: bool,
}

/// The format of a rendered response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextFormat {
    /// Text for people and models.
    #[default]
    Text,
    /// One line of JSON.
    Json,
}

/// The response to a request for snippets.
#[derive(Clone, Debug, PartialEq)]
pub enum GetResponse<'c> {
    /// The requested snippets and their dependencies.
    Snippets(Box<SnippetBundle<'c>>),
    /// The session received snippets that no longer exist; the response is the current list.
    Discovery {
        /// The ids that no longer exist.
        gone: Vec<String>,
        /// The response of phase 1, with a message.
        listing: SnippetList<'c>,
    },
}

/// The response of phase 2.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnippetBundle<'c> {
    /// The phase: 2.
    pub phase: u8,
    /// The name of the tokenizer that counted the tokens.
    pub tokenizer: String,
    /// The sum of the tokens of the texts, without headers and warnings.
    pub text_tokens: usize,
    /// The requested ids, in request order.
    pub requested: Vec<Cow<'c, str>>,
    /// The dependencies that are sent, each with its chain.
    pub added: Vec<AddedDependency<'c>>,
    /// The ids that the session already received and that are not sent again.
    pub delivered: Vec<Cow<'c, str>>,
    /// The ids that the session received and whose text changed since.
    pub changed: Vec<Cow<'c, str>>,
    /// The snippets that are sent, in topological order.
    pub snippets: Vec<SentSnippet<'c>>,
    /// The problems with snippets of the response.
    pub warnings: Vec<Warning>,
    /// The tokens of the rendered response. Only counted if there is a budget.
    #[serde(skip)]
    pub tokens: Option<usize>,
}

/// A snippet that a requested snippet requires, directly or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AddedDependency<'c> {
    /// The id.
    pub id: Cow<'c, str>,
    /// The path from a requested snippet to the one that requires this one. Of more than eight ids, the first and the
    /// last seven.
    pub chain: Vec<Cow<'c, str>>,
    /// The number of ids omitted after the first.
    #[serde(skip_serializing_if = "is_zero")]
    pub chain_omitted: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A snippet that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SentSnippet<'c> {
    /// The id.
    pub id: Cow<'c, str>,
    /// The description.
    pub description: Cow<'c, str>,
    /// The type.
    #[serde(rename = "type")]
    pub kind: SnippetType,
    /// The scope.
    pub scope: Scope,
    /// The path of the file, relative to the root.
    pub path: Cow<'c, str>,
    /// The tokens of its text.
    pub tokens: usize,
    /// The text after the front matter, byte for byte.
    pub text: Body,
}

impl SnippetBundle<'_> {
    /// Copies the texts that the bundle borrows.
    pub fn into_owned(self) -> SnippetBundle<'static> {
        let all = |ids: Vec<Cow<'_, str>>| ids.into_iter().map(owned).collect();
        let added = self.added.into_iter().map(|added| AddedDependency {
            id: owned(added.id),
            chain: all(added.chain),
            ..added
        });
        let snippets = self.snippets.into_iter().map(|snippet| SentSnippet {
            id: owned(snippet.id),
            description: owned(snippet.description),
            path: owned(snippet.path),
            ..snippet
        });
        SnippetBundle {
            requested: all(self.requested),
            added: added.collect(),
            delivered: all(self.delivered),
            changed: all(self.changed),
            snippets: snippets.collect(),
            ..self
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    text.into_owned().into()
}

impl SnippetCatalog<'_> {
    /// Fetches snippets with all their dependencies.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownIds`] with all unknown ids, [`SnippetsError::OverBudget`] if the response exceeds the
    /// budget, [`SnippetsError::MessageOverBudget`] if the message about snippets that no longer exist exceeds it, and the
    /// errors of [`SnippetCatalog::list`].
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
        let mut bundle = self.bundle(&requested, &mut bodies);
        let Some(budget) = options.budget else {
            return Ok(GetResponse::Snippets(Box::new(bundle)));
        };
        let tokens = counter.count(&bundle.render(options.format));
        if tokens > budget {
            let sizes = (tokens, budget);
            let over =
                over_budget(self, &requested, &mut bodies, &bundle, sizes, MAX_EXACT_REQUESTS);
            return Err(SnippetsError::OverBudget(Box::new(over)));
        }
        bundle.tokens = Some(tokens);
        Ok(GetResponse::Snippets(Box::new(bundle)))
    }

    /// Lists the snippets for a session that received some that no longer exist. If the list exceeds the budget, returns
    /// the message alone, and if that exceeds it, too, only the number of those snippets.
    fn discovery(
        &self,
        gone: &[String],
        options: &GetOptions,
        counter: &dyn TokenCounter,
    ) -> Result<SnippetList<'_>, SnippetsError> {
        let mut listing = self.list(&ListOptions::default(), counter)?;
        let names = gone_names(gone);
        listing.message = Some(format!("{names} Choose again from the current list."));
        let Some(budget) = options.budget else { return Ok(listing) };
        let mut tokens = counter.count(&listing.render(options.format));
        let count = match gone.len() {
            1 => "a snippet that this session received is".to_owned(),
            count => format!("{count} snippets that this session received are"),
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

    /// Returns the numbers of the requested snippets without duplicates.
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

    /// Builds the response for these snippets.
    pub(crate) fn bundle<'c>(
        &'c self,
        requested: &[u32],
        bodies: &mut BodyStore<'_>,
    ) -> SnippetBundle<'c> {
        let closure = DependencyClosure::new(self, requested);
        let snippet = |node: u32| &self.snippets()[closure.snippets[node as usize] as usize];
        let id = |node: u32| snippet(node).id();
        let ordered = closure.order(|node| snippet(node).scope() as usize);
        let id_of = |number: &u32| Cow::from(self.snippets()[*number as usize].id());
        let mut bundle = SnippetBundle {
            phase: 2,
            tokenizer: bodies.counter.name().to_owned(),
            requested: requested.iter().map(id_of).collect(),
            warnings: self.warnings().to_vec(),
            ..SnippetBundle::default()
        };
        let dangling = closure.dangling.iter();
        bundle.warnings.extend(dangling.map(|(node, text)| Warning::dangling(id(*node), text)));
        for cycle in &ordered.cycles {
            let ids: Vec<&str> = cycle.iter().map(|node| id(*node)).collect();
            bundle.warnings.push(Warning::cycle(&ids));
        }
        bodies.read(self, closure.snippets.clone());
        for node in ordered.nodes {
            let snippet = snippet(node);
            let reading = bodies.get(closure.snippets[node as usize]);
            let was_sent = bodies.options.delivered.contains_key(snippet.id());
            let is_sent = match &reading {
                Ok(text) => bodies.is_sent(text.prior),
                Err(_) => bodies.options.resend || !was_sent,
            };
            if !is_sent {
                bundle.delivered.push(snippet.id().into());
            } else if closure.paths.length(node) != Some(0) {
                bundle.added.push(added(&closure.paths, node, id));
            }
            match reading {
                Ok(Text { body, tokens, prior, is_stale }) if is_sent => {
                    if prior == PriorDelivery::Changed {
                        bundle.changed.push(snippet.id().into());
                    }
                    if is_stale {
                        let path = self.display_path(snippet);
                        bundle.warnings.push(Warning::outdated(snippet.id(), &path));
                    }
                    bundle.text_tokens += tokens;
                    bundle.snippets.push(SentSnippet {
                        id: snippet.id().into(),
                        description: snippet.description().into(),
                        kind: snippet.snippet_type().clone(),
                        scope: snippet.scope(),
                        path: snippet.path().into(),
                        tokens,
                        text: body,
                    });
                }
                Ok(_) => {}
                Err(problem) => {
                    let path = self.display_path(snippet);
                    bundle.warnings.push(Warning::unreadable(snippet.id(), &path, &problem));
                }
            }
        }
        bundle
    }
}

/// Returns the chain from a requested snippet to a dependency.
pub(crate) fn added<'c>(
    paths: &ShortestPaths,
    node: u32,
    id: impl Fn(u32) -> &'c str,
) -> AddedDependency<'c> {
    let path = paths.to(node, MAX_CHAIN_IDS);
    AddedDependency {
        id: id(node).into(),
        chain_omitted: paths.length(node).unwrap_or_default().saturating_sub(path.len()),
        chain: path.into_iter().map(|node| id(node).into()).collect(),
    }
}

/// Returns a sentence with the first ten ids that no longer exist.
fn gone_names(gone: &[String]) -> String {
    let shown: Vec<&str> = gone.iter().take(10).map(String::as_str).collect();
    let more = gone.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = shown.join(", ");
    let verb = if gone.len() == 1 { "exists" } else { "exist" };
    format!("The index has changed: {names}{more}, which this session received, no longer {verb}.")
}

/// A cache of texts and token counts, by snippet number.
pub(crate) struct BodyStore<'a> {
    known: Vec<Option<Reading>>,
    pub(crate) options: &'a GetOptions,
    pub(crate) counter: &'a dyn TokenCounter,
}

/// A text, or the reason why it cannot be read.
type Reading = Result<Text, String>;

#[derive(Clone, Debug)]
struct Text {
    body: Body,
    /// 0 unless it is sent.
    tokens: usize,
    prior: PriorDelivery,
    /// Whether the front matter differs from the index.
    is_stale: bool,
}

/// Whether a session already received a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorDelivery {
    None,
    Unchanged,
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

    fn is_sent(&self, prior: PriorDelivery) -> bool {
        prior != PriorDelivery::Unchanged || self.options.resend
    }

    /// Reads and counts snippets that are not cached, on several threads if there are many. The result does not depend on
    /// the number of threads.
    fn read(&mut self, catalog: &SnippetCatalog<'_>, mut numbers: Vec<u32>) {
        numbers.retain(|number| self.known[*number as usize].is_none());
        // In id order, consecutive files are usually in the same folder, whose path the reader caches.
        numbers.sort_unstable();
        let this = &*self;
        let read = |numbers: &[u32]| {
            let mut reader = BodyReader::new(catalog.roots());
            let read = numbers.iter().map(|number| {
                let snippet = &catalog.snippets()[*number as usize];
                let body = reader.read(snippet).map_err(|failure| failure.problem().to_owned())?;
                let prior = match this.options.delivered.get(snippet.id()) {
                    None => PriorDelivery::None,
                    Some(hash) if *hash == TextHash::of(&body) => PriorDelivery::Unchanged,
                    Some(_) => PriorDelivery::Changed,
                };
                let tokens = if this.is_sent(prior) { this.counter.count(&body) } else { 0 };
                let is_stale = catalog.is_stale(snippet, body.file());
                Ok(Text { body, tokens, prior, is_stale })
            });
            read.collect::<Vec<Reading>>()
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let share = numbers.len().div_ceil(cores).max(MIN_FILES_PER_THREAD);
        let readings: Vec<Reading> = std::thread::scope(|scope| {
            let mut shares = numbers.chunks(share);
            // The first share runs on this thread.
            let first = shares.next().unwrap_or_default();
            let others: Vec<_> = shares.map(|share| (share, scope.spawn(|| read(share)))).collect();
            let mut readings = read(first);
            for (share, other) in others {
                // If a counter panicked, read the share here, so that it panics here.
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
