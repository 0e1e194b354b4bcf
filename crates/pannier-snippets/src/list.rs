//! Phase 1: lists snippets.
//!
//! A list comes from the indexes alone. Files are only read if their tokens must be counted with another tokenizer than
//! that of the index. The list contains no dependencies. Its order is scope, then id; with a query, descending BM25
//! score.

use std::borrow::Cow;
use std::collections::BTreeSet;

use pannier_core::score::{Bm25Scorer, Pool};
use pannier_core::{ContextItem, TokenCounter};
use serde::Serialize;

use crate::catalog::Snippet;
use crate::id::push_one_line;
use crate::kind::{Scope, SnippetType};
use crate::text::BodyReader;
use crate::{SnippetCatalog, SnippetsError, Warning, scan};

/// Messages of empty lists.
const NO_SNIPPETS: &str =
    "No snippets: no file has front matter with an id, a description, a type and a scope.";
const NO_MATCHES: &str = "No snippet matches these types and scopes.";
const NO_BASELINE: &str = "No file baseline.md refers to a snippet of these types and scopes.";

/// The message of a list in which every score is 0.
const NO_QUERY_MATCHES: &str =
    "No id or description contains a word of the query; all snippets are listed, by scope and id.";

/// The form of a rendered list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// One line per snippet, for programs and models.
    #[default]
    Lines,
    /// One line per snippet, in columns, for people.
    Columns,
    /// One line of JSON.
    Json,
}

/// Filters and order of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Lists only these types. Default: empty, which lists all.
    pub areas: Vec<SnippetType>,
    /// Lists only these scopes. Default: empty, which lists all.
    pub scopes: Vec<Scope>,
    /// Lists only snippets that a manifest references.
    pub baseline_only: bool,
    /// Sorts by relevance to this text.
    pub query: Option<String>,
    /// The maximum number of snippets. Default: no limit.
    pub limit: Option<usize>,
    /// The maximum number of tokens of the list in its `format`. A list that is cut has a message, which alone may exceed
    /// the budget. Default: no limit.
    pub budget: Option<usize>,
    /// The form that the budget limits.
    pub format: ListFormat,
}

/// The response of phase 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnippetList<'c> {
    /// The phase: 1.
    pub phase: u8,
    /// The reason why the list is empty, unsorted or not what was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The name of the tokenizer that counted the tokens.
    pub tokenizer: String,
    /// The snippets, in order.
    pub snippets: Vec<SnippetSummary<'c>>,
    /// The problems with the indexes and files.
    pub warnings: Vec<Warning>,
}

/// A snippet in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnippetSummary<'c> {
    /// The id.
    pub id: Cow<'c, str>,
    /// The description.
    pub description: Cow<'c, str>,
    /// The type.
    #[serde(rename = "type")]
    pub kind: SnippetType,
    /// The scope.
    pub scope: Scope,
    /// The tokens of its text, without its dependencies. `None` if the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// The relevance to the query, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl SnippetCatalog<'_> {
    /// Lists the snippets that match `options`.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownType`] if no snippet has a type that the specification does not name, [`SnippetsError::Io`]
    /// if an index lacks its baseline and the root cannot be listed.
    pub fn list(
        &self,
        options: &ListOptions,
        counter: &dyn TokenCounter,
    ) -> Result<SnippetList<'_>, SnippetsError> {
        for area in &options.areas {
            let is_listed = || self.snippets().iter().any(|other| other.snippet_type() == area);
            if matches!(area, SnippetType::Other(_)) && !is_listed() {
                return Err(SnippetsError::UnknownType { name: area.name().to_owned() });
            }
        }
        let baseline = options.baseline_only.then(|| self.baseline_numbers()).transpose()?;
        let matches = |number: u32, snippet: &Snippet<'_>| {
            (options.areas.is_empty() || options.areas.contains(snippet.snippet_type()))
                && (options.scopes.is_empty() || options.scopes.contains(&snippet.scope()))
                && baseline.as_ref().is_none_or(|baseline| baseline.contains(&number))
        };
        let all = (0..).zip(self.snippets());
        let mut matching: Vec<&Snippet<'_>> = all
            .filter(|(number, snippet)| matches(*number, snippet))
            .map(|(_, snippet)| snippet)
            .collect();
        // Stable sort of a list that is sorted by id.
        matching.sort_by_key(|snippet| snippet.scope());
        let scores = options.query.as_deref().map(|query| scores(query, &matching)).transpose()?;
        let mut bodies = BodyReader::new(self.roots());
        let mut positions: Vec<usize> = (0..matching.len()).collect();
        let empty_reason = match options.baseline_only {
            _ if self.snippets().is_empty() => NO_SNIPPETS,
            true => NO_BASELINE,
            false => NO_MATCHES,
        };
        let mut message = matching.is_empty().then(|| empty_reason.to_owned());
        if let Some(scores) = &scores {
            // Stable: equal scores keep their order.
            positions.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            if !matching.is_empty() && scores.iter().all(|score| *score == 0.0) {
                message = Some(NO_QUERY_MATCHES.to_owned());
            }
        }
        positions.truncate(options.limit.unwrap_or(usize::MAX));
        let mut warnings = self.warnings().to_vec();
        let listed = positions.into_iter().map(|position| {
            let snippet = matching[position];
            let tokens = self.recorded_tokens(snippet, counter.name());
            let tokens = tokens.or_else(|| match bodies.read(snippet) {
                Ok(text) => Some(counter.count(&text)),
                Err(failure) => {
                    let path = self.display_path(snippet);
                    warnings.push(Warning::uncounted(snippet.id(), &path, failure.problem()));
                    None
                }
            });
            SnippetSummary {
                id: snippet.id().into(),
                description: snippet.description().into(),
                kind: snippet.snippet_type().clone(),
                scope: snippet.scope(),
                tokens,
                score: scores.as_ref().map(|scores| scores[position]),
            }
        });
        let snippets = listed.collect();
        let tokenizer = counter.name().to_owned();
        let list = SnippetList { phase: 1, message, tokenizer, snippets, warnings };
        Ok(match options.budget {
            Some(budget) => list.within(budget, options.format, counter),
            None => list,
        })
    }

    /// Returns the numbers of the snippets that manifests reference.
    fn baseline_numbers(&self) -> Result<BTreeSet<u32>, SnippetsError> {
        let mut numbers = BTreeSet::new();
        for (number, root) in self.roots().iter().enumerate() {
            let references: Vec<String> = match self.baseline(number) {
                Some(list) => list.texts().into_iter().map(Into::into).collect(),
                // Another tool wrote the index.
                None => scan::baseline(root)?,
            };
            numbers.extend(references.iter().filter_map(|text| self.resolve(number, text)));
        }
        Ok(numbers)
    }
}

/// Returns the BM25 scores of ids and descriptions, from 0 to 1.
fn scores(query: &str, snippets: &[&Snippet<'_>]) -> Result<Vec<f64>, SnippetsError> {
    let items: Result<Vec<ContextItem>, _> = snippets
        .iter()
        .map(|snippet| ContextItem::new(format!("{}\n{}", snippet.id(), snippet.description()), 1))
        .collect();
    let items = items?;
    Ok(Pool::new(&items).scores(&Bm25Scorer::new(query))?)
}

impl SnippetList<'_> {
    /// Copies the texts that the list borrows.
    pub fn into_owned(self) -> SnippetList<'static> {
        let Self { phase, message, tokenizer, snippets, warnings } = self;
        let owned = |snippet: SnippetSummary<'_>| SnippetSummary {
            id: snippet.id.into_owned().into(),
            description: snippet.description.into_owned().into(),
            ..snippet
        };
        let snippets = snippets.into_iter().map(owned).collect();
        SnippetList { phase, message, tokenizer, snippets, warnings }
    }

    /// Keeps as many of the first snippets as fit a budget.
    fn within(mut self, budget: usize, format: ListFormat, counter: &dyn TokenCounter) -> Self {
        let fits = |list: &Self| counter.count_up_to(&list.render_as(format), budget).is_some();
        if fits(&self) {
            return self;
        }
        let all = std::mem::take(&mut self.snippets);
        let (total, before) = (all.len(), self.message.take());
        let (mut count, mut limit) = (0, total);
        let cut = |list: &mut Self, count: usize| {
            let note = format!(
                "{count} of {total} snippets fit the budget; raise it, or filter by type, scope or query."
            );
            let message = [before.as_deref(), Some(&note)].into_iter().flatten();
            list.message = Some(message.collect::<Vec<_>>().join(" "));
            list.snippets = all[..count].to_vec();
        };
        // The first snippet that does not fit is in count + 1..=limit.
        while count + 1 < limit {
            let middle = count.midpoint(limit);
            cut(&mut self, middle);
            match fits(&self) {
                true => count = middle,
                false => limit = middle,
            }
        }
        cut(&mut self, count);
        self
    }

    /// Returns the list in a form, with a final newline.
    pub fn render_as(&self, format: ListFormat) -> String {
        match format {
            ListFormat::Lines => self.lines(&[0; 4]),
            ListFormat::Columns => {
                let mut widths = [0; 4];
                for snippet in &self.snippets {
                    for (width, cell) in widths.iter_mut().zip(snippet.cells()) {
                        *width = (*width).max(cell.chars().count());
                    }
                }
                self.lines(&widths)
            }
            // Strings, numbers and lists always serialize.
            ListFormat::Json => serde_json::to_string(self).unwrap_or_default() + "\n",
        }
    }

    /// Returns one line per snippet: id, scope, type, tokens and description.
    pub fn text(&self) -> String {
        self.render_as(ListFormat::Lines)
    }

    fn lines(&self, widths: &[usize; 4]) -> String {
        let mut text = String::new();
        if let Some(message) = &self.message {
            text.push_str(message);
            text.push_str("\n\n");
        }
        for warning in &self.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        for snippet in &self.snippets {
            for (number, (cell, width)) in snippet.cells().iter().zip(widths).enumerate() {
                let padding = width.saturating_sub(cell.chars().count());
                // Numbers are aligned to the right.
                let (before, after) = if number == 3 { (padding, 0) } else { (0, padding) };
                text.extend(std::iter::repeat_n(' ', before));
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', after + 2));
            }
            push_one_line(&mut text, &snippet.description);
            text.push('\n');
        }
        text
    }
}

impl SnippetSummary<'_> {
    /// Returns id, scope, type and tokens.
    fn cells(&self) -> [Cow<'_, str>; 4] {
        let tokens = self.tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
        [(&*self.id).into(), self.scope.name().into(), self.kind.name().into(), tokens.into()]
    }
}
