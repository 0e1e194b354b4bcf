//! Lists documentation snippets, and fetches them with their dependencies.

use std::borrow::Cow;
use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_snippets::{
    ContextFormat, GetOptions, GetResponse, ListFormat, ListOptions, Scope, SessionId,
    SnippetBundle, SnippetCatalog, SnippetList, SnippetType, SnippetsError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pool::DEFAULT_TOKENIZER;
use super::values::{list, non_negative};
use super::{Answer, Control, Count, Group, Request, Sends, Tokens};
use crate::{Failure, Shelf};

request! {
    /// The folders of snippets.
    pub struct SnippetOptions {
        /// Folder with snippets; repeatable [default: docs]
        #[arg(long = "root", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        #[serde(default, alias = "docs", deserialize_with = "list")]
        pub snippets: Vec<String>,

        /// Model, encoding or file:PATH [default: the index's]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,

        /// Other name for a path in references, e.g. @~/handbook=docs; repeatable
        #[arg(long = "alias", value_name = "PREFIX=PATH", hide_short_help = true)]
        #[serde(default, deserialize_with = "list")]
        pub aliases: Vec<String>,
    }
}

request! {
    /// List snippets with id, scope, type, tokens and description.
    pub struct SnippetListRequest {
        /// Folders and tokenizer.
        #[group(flatten)]
        pub source: SnippetOptions,

        /// Types: principle, concept, policy, procedure, design, spec, or others
        #[arg(long = "type", alias = "areas", value_name = "TYPE", value_delimiter = ',')]
        #[serde(default, alias = "type", deserialize_with = "list")]
        pub areas: Vec<String>,

        /// Scopes: global, domain, project
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
        #[serde(default, alias = "scope", deserialize_with = "list")]
        #[schema(with = "Vec<ScopeSchema>")]
        pub scopes: Vec<String>,

        /// Only snippets that baseline.md files list
        #[arg(long, alias = "baseline-only")]
        #[serde(default, alias = "baseline_only")]
        pub baseline: bool,

        /// Rank by relevance to this text
        #[arg(long, value_name = "TEXT")]
        pub query: Option<String>,

        /// Maximum number of snippets
        #[arg(long, value_name = "N")]
        pub limit: Option<Count>,

        /// Token budget of the list, e.g. 500 or 2k
        #[arg(long, short, alias = "max-tokens", value_name = "N")]
        pub budget: Option<Tokens>,

        /// Output format: text or json
        #[arg(long, short, value_name = "F", value_enum, hide_possible_values = true)]
        pub format: Option<SnippetFormat>,
    }
}

request! {
    /// Print snippets with the snippets that they require.
    pub struct SnippetGetRequest {
        /// Ids of snippets
        #[arg(value_name = "ID", required = true)]
        #[serde(alias = "snippet_ids", deserialize_with = "list")]
        pub ids: Vec<String>,

        /// Folders and tokenizer.
        #[group(flatten)]
        pub source: SnippetOptions,

        /// Token budget, e.g. 4000 or 8k; nothing is truncated
        #[arg(long, short, alias = "max-tokens", value_name = "N")]
        pub budget: Option<Tokens>,

        /// Tokens kept free for the model's output [default: 0]
        #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
        pub reserve: Option<Tokens>,

        /// Session; what it received is not printed again
        #[arg(long, value_name = "ID")]
        pub session: Option<String>,

        /// Print it again
        #[arg(long, requires = "session")]
        #[serde(default)]
        pub resend: bool,

        /// Output format: text or json
        ///
        /// The budget limits the output in this format. A request in JSON has the format json unless it names another.
        #[arg(long, short, value_name = "F", value_enum, default_value = "text", hide_default_value = true,
            hide_possible_values = true)]
        pub format: Option<SnippetFormat>,
    }
}

/// The format of snippets that the budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SnippetFormat {
    /// Text for people and models
    Text,
    /// One line of JSON
    Json,
    /// Text in columns, for a terminal
    #[cfg_attr(feature = "clap", value(skip))]
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[serde(skip)]
    Columns,
}

impl From<SnippetFormat> for ContextFormat {
    fn from(format: SnippetFormat) -> Self {
        match format {
            SnippetFormat::Text | SnippetFormat::Columns => Self::Text,
            SnippetFormat::Json => Self::Json,
        }
    }
}

/// Snippets, or the current list for a session that received snippets which no longer exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SnippetGetAnswer {
    /// The requested snippets and their dependencies.
    Snippets(Box<SnippetBundle<'static>>),
    /// The current list.
    List(SnippetList<'static>),
}

impl Answer for SnippetGetAnswer {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Snippets(bundle) => bundle.render(ContextFormat::Text).into(),
            Self::List(list) => list.text().into(),
        }
    }

    fn details(&self) -> Value {
        let mut details = serde_json::to_value(self).unwrap_or_default();
        let snippets = details["snippets"].as_array_mut().into_iter().flatten();
        for snippet in snippets.filter_map(Value::as_object_mut) {
            snippet.retain(|key, _| key != "text" && key != "description");
        }
        details
    }
}

impl Answer for SnippetList<'static> {
    fn text(&self) -> Cow<'_, str> {
        SnippetList::text(self).into()
    }
}

impl Request for SnippetListRequest {
    const GROUPS: &'static [Group] = &[Group::new::<SnippetOptions>("source")];
    const ADVERTISED: &'static [&'static str] = &["areas", "query"];
    type Answer = SnippetList<'static>;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<Self::Answer, Failure> {
        let types = self.areas.iter().map(|name| SnippetType::from_name(name.trim()));
        let scopes = self.scopes.iter().map(|name| Scope::from_name(name.trim()));
        let mut options = ListOptions::default();
        options.areas = types.collect::<Result<_, SnippetsError>>()?;
        options.scopes = scopes.collect::<Result<_, SnippetsError>>()?;
        options.baseline_only = self.baseline;
        options.query = self.query;
        options.limit = self.limit.map(|Count(count)| count);
        options.budget = self.budget.map(non_negative).transpose()?;
        options.format = match self.format {
            Some(SnippetFormat::Json) => ListFormat::Json,
            Some(SnippetFormat::Columns) => ListFormat::Columns,
            Some(SnippetFormat::Text) | None => ListFormat::Lines,
        };
        let indexes = shelf.snippet_roots(&self.source.snippets, &self.source.aliases)?;
        control.step("listing snippets")?;
        let catalog = indexes.catalog()?;
        let counter = self.source.counter(&catalog, shelf, control)?;
        bound(control, options.budget, &counter);
        Ok(catalog.list(&options, &*counter)?.into_owned())
    }
}

impl Request for SnippetGetRequest {
    const GROUPS: &'static [Group] = &[Group::new::<SnippetOptions>("source")];
    const ADVERTISED: &'static [&'static str] = &["ids", "budget", "session", "resend"];
    type Answer = SnippetGetAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<SnippetGetAnswer, Failure> {
        self.deliver(shelf, control, |response, _| {
            let answer = match response.clone() {
                GetResponse::Snippets(bundle) => {
                    SnippetGetAnswer::Snippets(Box::new(bundle.into_owned()))
                }
                GetResponse::Discovery { listing, .. } => {
                    SnippetGetAnswer::List(listing.into_owned())
                }
            };
            // Checked before the delivery is recorded.
            if let (Sends::Details, Some(limit)) = (control.sends(), control.limit()) {
                let texts = [answer.text().into_owned(), answer.details().to_string()];
                let tokens: usize = texts.iter().map(|text| limit.counter.count(text)).sum();
                let (smallest_budget, budget) =
                    (i64::try_from(tokens).unwrap_or(i64::MAX), limit.tokens);
                if smallest_budget > budget {
                    return Err(Failure::AnswerOverBudget { smallest_budget, budget });
                }
            }
            Ok(answer)
        })
    }
}

impl SnippetGetRequest {
    /// Fetches the snippets, passes them to `send`, and records the delivery if that succeeds.
    ///
    /// # Errors
    ///
    /// Any error of `pannier-snippets`, the shelf, the tokenizer or `send`.
    pub fn deliver<T, E: From<Failure>>(
        self,
        shelf: &Shelf,
        control: &Control<'_>,
        send: impl FnOnce(&GetResponse<'_>, ContextFormat) -> Result<T, E>,
    ) -> Result<T, E> {
        let indexes = shelf.snippet_roots(&self.source.snippets, &self.source.aliases)?;
        let session = self.session.as_deref().map(SessionId::new).transpose();
        let session = session.map_err(Failure::from)?;
        if self.resend && session.is_none() {
            let problem = "it needs a session; without one, everything is sent".to_owned();
            return Err(Failure::Request { path: "resend".to_owned(), problem }.into());
        }
        control.step("resolving dependencies")?;
        let catalog = indexes.catalog().map_err(Failure::from)?;
        let counter = self.source.counter(&catalog, shelf, control)?;
        let ids = catalog.resolve_ids(self.ids.iter().map(String::as_str));
        let ids = ids.map_err(Failure::from)?;
        let mut options = GetOptions::default();
        let reserve = self.reserve.map(non_negative).transpose()?.unwrap_or_default();
        let budget = self.budget.map(non_negative).transpose()?;
        options.budget = budget.map(|budget| budget.saturating_sub(reserve));
        bound(control, options.budget, &counter);
        options.resend = self.resend;
        let default = match control.sends() {
            Sends::Data => SnippetFormat::Json,
            Sends::Text | Sends::Details => SnippetFormat::Text,
        };
        options.format = self.format.unwrap_or(default).into();
        if let Some(session) = &session {
            let log = shelf.deliveries()?;
            options.delivered = log.read(session, indexes.roots()).map_err(Failure::from)?;
        }
        let response = catalog.get(&ids, &options, &*counter).map_err(Failure::from)?;
        let sent = send(&response, options.format)?;
        if let Some(session) = &session {
            // A cancelled call is not recorded.
            control.step("recording the delivery")?;
            let recorded = shelf.deliveries()?.record(session, indexes.roots(), &response);
            // The response is valid nevertheless.
            if let Err(error) = recorded {
                let problem = Failure::from(error).message(shelf.audience());
                control.warn(format!(
                    "{problem}; the session will get these snippets again; make the folder writable, or set XDG_STATE_HOME"
                ));
            }
        }
        Ok(sent)
    }
}

/// Records the budget, if there is one.
fn bound(control: &Control<'_>, budget: Option<usize>, counter: &Arc<dyn TokenCounter>) {
    if let Some(tokens) = budget {
        control.bound(i64::try_from(tokens).unwrap_or(i64::MAX), counter);
    }
}

impl SnippetOptions {
    /// Returns the requested counter. A tool has that of the shelf, others the one that counted the indexes.
    fn counter(
        &self,
        catalog: &SnippetCatalog<'_>,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<Arc<dyn TokenCounter>, Failure> {
        let is_indexed = self.tokenizer.is_none() && control.sends() == Sends::Data;
        match catalog.counter().filter(|_| is_indexed) {
            Some(counter) => Ok(Arc::from(counter)),
            None => shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control),
        }
    }
}

/// The schema of scopes.
#[cfg(feature = "schema")]
mod schema {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    #[schemars(inline, rename_all = "lowercase")]
    pub(super) enum ScopeSchema {
        Global,
        Domain,
        Project,
    }
}

#[cfg(feature = "schema")]
use schema::ScopeSchema;
