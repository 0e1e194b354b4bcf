//! `pannier snippets`: documentation with front matter, found first and fetched second.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use pannier_core::TokenCounter;
use pannier_snippets::{
    ContextFormat, DeliveryLog, GetOptions, GetResponse, ListOptions, Roots, Scope, SessionId,
    SnippetCatalog, SnippetIndexes, SnippetList, SnippetType, SnippetsError,
};

use super::AnswerFormat;
use super::state;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::output::Output;
use crate::table::printable;

/// Find and fetch documentation with front matter, with everything that it requires
///
/// A snippet is a Markdown file that says what it is: id, description, type, scope, and what must be read before it. `index`
/// gathers that in DIR/index.yaml, `list` tells what there is, `get` prints whole texts, and `check` tells what is wrong.
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
    /// A folder with snippets; several, if the option is repeated
    #[arg(long = "root", value_name = "DIR", default_value = "docs", value_hint = ValueHint::DirPath)]
    roots: Vec<PathBuf>,
}

impl RootArguments {
    fn open(&self) -> Result<Roots, CliError> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Ok(Roots::open(&self.roots, home)?)
    }
}

/// Write the index of each root from the front matter of its files
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
        let indexed = pannier_snippets::index(&self.roots.open()?, &*counter)?;
        let mut output = Output::new();
        for index in indexed {
            let path = printable(&index.path.display().to_string());
            let count = match index.snippets {
                1 => "1 snippet".to_owned(),
                count => format!("{count} snippets"),
            };
            let unchanged = if index.is_unchanged { ", nothing has changed" } else { "" };
            output.text(&format!("{path}: {count}{unchanged}\n"))?;
            for problem in index.problems {
                tell(&format!("{problem}; the file is left out"));
            }
        }
        output.finish()
    }
}

/// Tell everything that is wrong with the snippets of the roots, and fail if anything is
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier snippets check --root docs

Told are missing and wrong fields, ids that are there twice, requirements that lead nowhere or in
a circle, files that cannot be read, an index that is missing or out of date, and what is nearly a
snippet or a required read and would go missing in silence.")]
pub(crate) struct Check {
    #[command(flatten)]
    roots: RootArguments,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Check {
    fn run(&self) -> Result<(), CliError> {
        let problems = pannier_snippets::check(&self.roots.open()?)?;
        let mut output = Output::new();
        let written = match self.format {
            AnswerFormat::Json => output.json(&problems),
            AnswerFormat::Text if problems.is_empty() => output.text("sound\n"),
            AnswerFormat::Text => {
                problems.iter().try_for_each(|problem| output.text(&format!("{problem}\n")))
            }
        };
        let written = written.and_then(|()| output.finish());
        CliError::check_failed(written, problems.is_empty())
    }
}

/// List what there is: id, scope, type, tokens and description of each snippet
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets list --areas policy,concept
  pannier snippets list --scope project --query 'roll back a deployment'
  pannier snippets list --baseline-only --format json")]
pub(crate) struct List {
    #[command(flatten)]
    roots: RootArguments,

    /// Only these types: principle, concept, policy, procedure, design, spec
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    areas: Vec<String>,

    /// Only these scopes: global, domain, project
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scope: Vec<String>,

    /// Only what baseline.md files refer to
    #[arg(long)]
    baseline_only: bool,

    /// What you look for: what has to do with it comes first
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// List at most so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// How the answer is written
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
        let mut output = Output::new();
        write_listing(&listing, self.format, &mut output)?;
        output.finish()
    }
}

/// Print whole snippets, with everything that they require
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets get project/design/index
  pannier snippets get project/design/index global/policy/names --budget 4000 --tokenizer o200k
  pannier snippets get project/design/index --session 6d40ae08")]
pub(crate) struct Get {
    /// The ids of snippets
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    roots: RootArguments,

    /// How many tokens the answer may have as it is printed; nothing is cut to fit
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// The session it is for: what it was given before is listed, and not printed again unless it has changed
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Print that again, too
    #[arg(long, requires = "session")]
    resend: bool,

    /// How the answer is written
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
        let memory = match session {
            Some(session) => {
                let deliveries = DeliveryLog::in_folder(state::folder("snippets")?);
                let delivered = deliveries.read(&session, indexes.roots())?;
                Some((session, deliveries, delivered))
            }
            None => None,
        };
        let mut options = GetOptions::default();
        options.budget = self.budget;
        options.resend = self.resend;
        options.format = match self.format {
            AnswerFormat::Text => ContextFormat::Text,
            AnswerFormat::Json => ContextFormat::Json,
        };
        let delivered = memory.as_ref().map(|(_, _, delivered)| delivered.clone());
        options.delivered = delivered.unwrap_or_default();
        let answer = catalog.get(&ids, &options, &*counter)?;
        let mut output = Output::new();
        match &answer {
            GetResponse::Snippets(context) => {
                output.write(|writer| context.write(options.format, writer))?;
            }
            GetResponse::Discovery { listing, .. } => {
                output.text(&listing.render(options.format))?;
            }
        }
        output.finish()?;
        // Only what was printed is remembered. If it cannot be, the answer is still good.
        if let Some((session, deliveries, _)) = memory
            && let Err(error) = deliveries.record(&session, indexes.roots(), &answer)
        {
            tell(&format!(
                "{error}; what was printed will be sent to the session again; let the folder be written to, or name another one by XDG_STATE_HOME"
            ));
        }
        Ok(())
    }
}

/// What counts tokens: what was asked for, or else what counted those in the indexes.
fn counter(
    asked: &TokenizerArguments,
    catalog: &SnippetCatalog<'_>,
) -> Result<Box<dyn TokenCounter>, CliError> {
    match catalog.counter().filter(|_| !asked.is_named()) {
        Some(counter) => Ok(counter),
        None => asked.counter(),
    }
}

fn write_listing(
    listing: &SnippetList<'_>,
    format: AnswerFormat,
    output: &mut Output,
) -> Result<(), CliError> {
    match format {
        AnswerFormat::Json => output.json(listing),
        AnswerFormat::Text => output.text(&listing.text()),
    }
}

fn tell(message: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr(), "warning: {}", printable(message));
}
