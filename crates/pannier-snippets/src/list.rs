//! The first phase: what there is.
//!
//! A listing comes from the indexes alone. The files themselves are only read to count their tokens, and only if another
//! counter than that of the index is asked. Nothing is expanded here, so snippets stand by scope and then by id, where
//! people find them; with a query, the best first.

use std::collections::BTreeSet;

use pannier_core::{ContextItem, LexicalScorer, Pool, Scorer, TokenCounter};
use serde::Serialize;

use crate::catalog::Snippet;
use crate::id::push_one_line;
use crate::kind::{Scope, SnippetType};
use crate::text::BodyReader;
use crate::{SnippetCatalog, SnippetsError, Warning, scan};

/// Why nothing is listed.
const NOTHING_THERE: &str =
    "There is no snippet: no file has front matter with an id, a description, a type and a scope.";
const NOTHING_MEANT: &str = "There is no snippet of these types and scopes.";

const NO_BASELINE: &str = "No file baseline.md refers to a snippet of these types and scopes.";

/// Why everything is listed as if nothing had been looked for.
const NOTHING_FOUND: &str = "No snippet has a word of the query in its id or description; all are listed in their usual order.";

/// The columns of a text are as wide as the longest names.
const MAX_SCOPE_CHARS: usize = "project".len();
const MAX_TYPE_CHARS: usize = "procedure".len();

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Only snippets of one of these types; of all, if there are none.
    pub areas: Vec<SnippetType>,
    /// Only snippets of one of these scopes; of all, if there are none.
    pub scopes: Vec<Scope>,
    /// Only snippets that a manifest refers to.
    pub baseline_only: bool,
    /// Puts what has to do with this first.
    pub query: Option<String>,
    /// Lists so many of them at most.
    pub limit: Option<usize>,
}

/// The answer of the first phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnippetList<'c> {
    /// Which phase it is of: 1.
    pub phase: u8,
    /// Why it is the answer, if something else was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What counted the tokens.
    pub tokenizer: String,
    /// The snippets, in their order.
    pub snippets: Vec<SnippetSummary<'c>>,
    /// What is left out.
    pub warnings: Vec<Warning>,
}

/// A snippet of a listing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnippetSummary<'c> {
    /// What to ask for it by.
    pub id: &'c str,
    /// What it is about.
    pub description: &'c str,
    /// What sort of thing it is.
    #[serde(rename = "type")]
    pub kind: SnippetType,
    /// How far it reaches.
    pub scope: Scope,
    /// How many tokens its text has, without what it requires. Unknown if the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// How well it answers the query, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl SnippetCatalog<'_> {
    /// Lists snippets.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Io`] if an index does not say what the manifests refer to, and a root cannot be looked into.
    pub fn list(
        &self,
        options: &ListOptions,
        counter: &dyn TokenCounter,
    ) -> Result<SnippetList<'_>, SnippetsError> {
        let baseline = options.baseline_only.then(|| self.baseline_numbers()).transpose()?;
        let is_meant = |number: u32, snippet: &Snippet<'_>| {
            (options.areas.is_empty() || options.areas.contains(&snippet.snippet_type()))
                && (options.scopes.is_empty() || options.scopes.contains(&snippet.scope()))
                && baseline.as_ref().is_none_or(|baseline| baseline.contains(&number))
        };
        let all = (0..).zip(self.snippets());
        let mut meant: Vec<&Snippet<'_>> = all
            .filter(|(number, snippet)| is_meant(*number, snippet))
            .map(|(_, snippet)| snippet)
            .collect();
        // Stable: they are in the order of their ids.
        meant.sort_by_key(|snippet| snippet.scope());
        let scores = options.query.as_deref().map(|query| scores(query, &meant)).transpose()?;
        let mut texts = BodyReader::new(self.roots());
        let mut places: Vec<usize> = (0..meant.len()).collect();
        let nothing = match options.baseline_only {
            _ if self.snippets().is_empty() => NOTHING_THERE,
            true => NO_BASELINE,
            false => NOTHING_MEANT,
        };
        let mut message = meant.is_empty().then(|| nothing.to_owned());
        if let Some(scores) = &scores {
            // Stable again: equal scores keep their order.
            places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            if !meant.is_empty() && scores.iter().all(|score| *score == 0.0) {
                message = Some(NOTHING_FOUND.to_owned());
            }
        }
        places.truncate(options.limit.unwrap_or(usize::MAX));
        let mut warnings = self.warnings().to_vec();
        let listed = places.into_iter().map(|place| {
            let snippet = meant[place];
            let tokens = self.recorded_tokens(snippet, counter.name());
            let tokens = tokens.or_else(|| match texts.read(snippet) {
                Ok(text) => Some(counter.count(&text)),
                Err(unread) => {
                    let path = self.display_path(snippet);
                    warnings.push(Warning::uncounted(snippet.id(), &path, unread.problem()));
                    None
                }
            });
            SnippetSummary {
                id: snippet.id(),
                description: snippet.description(),
                kind: snippet.snippet_type(),
                scope: snippet.scope(),
                tokens,
                score: scores.as_ref().map(|scores| scores[place]),
            }
        });
        let snippets = listed.collect();
        let tokenizer = counter.name().to_owned();
        Ok(SnippetList { phase: 1, message, tokenizer, snippets, warnings })
    }

    /// The snippets that manifests refer to.
    fn baseline_numbers(&self) -> Result<BTreeSet<u32>, SnippetsError> {
        let mut numbers = BTreeSet::new();
        for (place, root) in self.roots().iter().enumerate() {
            let references: Vec<String> = match self.baseline(place) {
                Some(list) => list.texts().into_iter().map(Into::into).collect(),
                // An index that somebody else wrote.
                None => scan::baseline(root)?,
            };
            numbers.extend(references.iter().filter_map(|text| self.resolve(place, text)));
        }
        Ok(numbers)
    }
}

fn scores(query: &str, snippets: &[&Snippet<'_>]) -> Result<Vec<f64>, SnippetsError> {
    let items: Result<Vec<ContextItem>, _> = snippets
        .iter()
        .map(|snippet| ContextItem::new(format!("{}\n{}", snippet.id(), snippet.description()), 1))
        .collect();
    let items = items?;
    Ok(LexicalScorer::new(query).scores(&Pool::new(&items)))
}

impl SnippetList<'_> {
    /// A line for each snippet, in columns.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(message) = &self.message {
            text.push_str(message);
            text.push_str("\n\n");
        }
        for warning in &self.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        let width = self.snippets.iter().map(|snippet| snippet.id.len()).max().unwrap_or(0);
        let digits = |tokens: Option<usize>| tokens.map_or(1, |tokens| tokens.to_string().len());
        let digits = self.snippets.iter().map(|snippet| digits(snippet.tokens)).max().unwrap_or(0);
        text.reserve(
            self.snippets.iter().map(|snippet| snippet.description.len() + width + 40).sum(),
        );
        for SnippetSummary { id, description, kind, scope, tokens, .. } in &self.snippets {
            let tokens = tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
            let (scope, kind) = (scope.name(), kind.name());
            text.push_str(id);
            blanks(&mut text, width - id.len() + 2);
            text.push_str(scope);
            blanks(&mut text, MAX_SCOPE_CHARS - scope.len() + 2);
            text.push_str(kind);
            blanks(&mut text, MAX_TYPE_CHARS - kind.len() + 2 + digits - tokens.len());
            text.push_str(&tokens);
            blanks(&mut text, 2);
            push_one_line(&mut text, description);
            text.push('\n');
        }
        text
    }
}

fn blanks(text: &mut String, count: usize) {
    text.extend(std::iter::repeat_n(' ', count));
}
