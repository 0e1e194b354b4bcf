//! `pannier snippets`: indexes, lists, fetches and checks snippets.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use pannier_core::TokenCounter;
use pannier_snippets::{
    ContextFormat, DeliveryLog, GetOptions, GetResponse, ListOptions, Roots, Scope, SessionId,
    SnippetCatalog, SnippetIndexes, SnippetType, SnippetsError,
};

use super::AnswerFormat;
use super::state;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::output::{self, Output};
use crate::table::printable;

/// List and fetch documentation snippets with their requirements
///
/// A snippet is a Markdown file with front matter: id, description, type, scope, and required snippets. `index` writes
/// DIR/index.yaml, `list` lists snippets, `get` prints their texts, and `check` reports problems.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  pannier snippets index --root docs
  pannier snippets list --areas policy,concept
  pannier snippets get project/design/index --budget 4000")]
pub(crate) enum Snippets {
    Index(IndexCommand),
    List(List),
    Get(Get),
    Check(Check),
}

impl Snippets {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match self {
            Self::Index(command) => command.run(),
            Self::List(command) => command.run(),
            Self::Get(command) => command.run(),
            Self::Check(command) => command.run(),
        }
    }
}

#[derive(Args, Debug)]
struct RootArguments {
    /// Folder with snippets; repeatable
    #[arg(long = "root", value_name = "DIR", default_value = "docs", value_hint = ValueHint::DirPath)]
    roots: Vec<PathBuf>,
}

impl RootArguments {
    fn open(&self) -> Result<Roots, CliError> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Ok(Roots::open(&self.roots, home)?)
    }
}

/// Write the index of each root
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets index
  pannier snippets index --root docs --root ~/global/docs")]
pub(crate) struct IndexCommand {
    #[command(flatten)]
    roots: RootArguments,

    #[command(flatten)]
    tokenizer: TokenizerArguments,
}

impl IndexCommand {
    fn run(&self) -> Result<(), CliError> {
        let counter = self.tokenizer.counter()?;
        let summaries = pannier_snippets::index(&self.roots.open()?, &*counter)?;
        let mut output = Output::new();
        for index in summaries {
            let path = printable(&index.path.display().to_string());
            let count = match index.snippets {
                1 => "1 snippet".to_owned(),
                count => format!("{count} snippets"),
            };
            let unchanged = if index.is_unchanged { ", nothing has changed" } else { "" };
            output.text(&format!("{path}: {count}{unchanged}\n"))?;
            for problem in index.problems {
                output::warn(&format!("{problem}; the file is skipped"));
            }
        }
        output.finish()
    }
}

/// Report all problems of snippets; exits with 1 if there are any
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier snippets check --root docs

Reports missing and invalid fields, duplicate ids, dangling and cyclic requirements, unreadable files,
a missing or stale index, and files and lines that resemble snippets or required reads.")]
pub(crate) struct Check {
    #[command(flatten)]
    roots: RootArguments,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Check {
    fn run(&self) -> Result<(), CliError> {
        let problems = pannier_snippets::check(&self.roots.open()?)?;
        let text = || match problems.is_empty() {
            true => "sound\n".to_owned(),
            false => problems.iter().map(|problem| format!("{problem}\n")).collect(),
        };
        let written = output::print_answer(self.format.is_json(), || &problems, text);
        CliError::check_failed(written, problems.is_empty())
    }
}

/// List snippets with id, scope, type, tokens and description
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets list --areas policy,concept
  pannier snippets list --scope project --query 'roll back a deployment'
  pannier snippets list --baseline-only --format json")]
pub(crate) struct List {
    #[command(flatten)]
    roots: RootArguments,

    /// Types to list: principle, concept, policy, procedure, design, spec
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    areas: Vec<String>,

    /// Scopes to list: global, domain, project
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scope: Vec<String>,

    /// List only snippets that baseline.md files refer to
    #[arg(long)]
    baseline_only: bool,

    /// Search terms; related snippets come first
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// Maximum number of snippets
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl List {
    fn run(&self) -> Result<(), CliError> {
        let types = self.areas.iter().map(|name| SnippetType::from_name(name.trim()));
        let scopes = self.scope.iter().map(|name| Scope::from_name(name.trim()));
        let mut options = ListOptions::default();
        options.areas = types.collect::<Result<_, SnippetsError>>()?;
        options.scopes = scopes.collect::<Result<_, SnippetsError>>()?;
        options.baseline_only = self.baseline_only;
        options.query.clone_from(&self.query);
        options.limit = self.limit;
        let indexes = SnippetIndexes::read(self.roots.open()?)?;
        let catalog = indexes.catalog()?;
        let counter = counter(&self.tokenizer, &catalog)?;
        let listing = catalog.list(&options, &*counter)?;
        output::print_answer(self.format.is_json(), || &listing, || listing.text())
    }
}

/// Print snippets and their requirements
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets get project/design/index
  pannier snippets get project/design/index global/policy/names --budget 4000 --tokenizer o200k
  pannier snippets get project/design/index --session 6d40ae08")]
pub(crate) struct Get {
    /// Ids of snippets
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    roots: RootArguments,

    /// Token budget of the output; nothing is truncated to fit
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Session; snippets it already received are listed, not printed again
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Print snippets again that the session already received
    #[arg(long, requires = "session")]
    resend: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Get {
    fn run(&self) -> Result<(), CliError> {
        let session = self.session.as_deref().map(SessionId::new).transpose();
        let session = session.map_err(SnippetsError::from)?;
        let indexes = SnippetIndexes::read(self.roots.open()?)?;
        let catalog = indexes.catalog()?;
        let counter = counter(&self.tokenizer, &catalog)?;
        let ids = catalog.resolve_ids(self.ids.iter().map(String::as_str))?;
        let mut options = GetOptions::default();
        (options.budget, options.resend) = (self.budget, self.resend);
        options.format = match self.format {
            AnswerFormat::Text => ContextFormat::Text,
            AnswerFormat::Json => ContextFormat::Json,
        };
        let mut deliveries = None;
        if let Some(session) = session {
            let log = DeliveryLog::in_folder(state::state_dir("snippets")?);
            options.delivered = log.read(&session, indexes.roots())?;
            deliveries = Some((session, log));
        }
        let answer = catalog.get(&ids, &options, &*counter)?;
        let mut output = Output::new();
        match &answer {
            GetResponse::Snippets(context) => {
                output.write(|mut writer| context.write(options.format, &mut writer))?;
            }
            GetResponse::Discovery { listing, .. } => {
                output.text(&listing.render(options.format))?;
            }
        }
        output.finish()?;
        // Only printed snippets are recorded. If that fails, the output is still valid.
        if let Some((session, log)) = deliveries
            && let Err(error) = log.record(&session, indexes.roots(), &answer)
        {
            output::warn(&format!(
                "{error}; the session will get these snippets again; make the folder writable, or set XDG_STATE_HOME"
            ));
        }
        Ok(())
    }
}

/// Returns the requested tokenizer, or else the one that counted the indexes.
fn counter(
    requested: &TokenizerArguments,
    catalog: &SnippetCatalog<'_>,
) -> Result<Box<dyn TokenCounter>, CliError> {
    match catalog.counter().filter(|_| !requested.is_named()) {
        Some(counter) => Ok(counter),
        None => requested.counter(),
    }
}
