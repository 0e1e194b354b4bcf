//! `pannier snippets`: indexes, lists, fetches and checks snippets.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use pannier::ops::{Control, SnippetFormat, SnippetGetRequest, SnippetListRequest};
use pannier::{Failure, Shelf};
use pannier_snippets::{CheckReport, GetResponse, ListFormat, Roots};

use super::inspect::FormatArguments;
use super::state;
use crate::config;
use crate::error::CliError;
use crate::output::{self, Output};
use crate::run::{self, with_notes, with_output};
use crate::table::printable;

/// The answer of `check` for roots without snippets.
const NOTHING_TO_CHECK: &str = "nothing to check: no file has front matter with an id, a type or a scope, and none is a \
                                skill or a rule\n";

/// The tokenizer of new indexes.
const INDEX_TOKENIZER: &str = "o200k";

/// List and print documentation snippets with dependencies
///
/// A snippet is a Markdown file with front matter: id, description, type, scope, and required snippets. `index` writes
/// DIR/index.yaml, `list` lists snippets, `get` prints their texts, and `check` reports problems.
#[derive(Debug, Subcommand)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
Examples:
  pannier snippets index --root docs
  pannier snippets list --type policy,concept
  pannier snippets get project/design/index --budget 4k"
)]
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

/// Returns a shelf that knows the user's home and state.
fn shelf() -> Result<Shelf, CliError> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let state = state::state_dir("snippets").ok();
    Ok(config::shelf()?.with_home(home).with_state_folder(state))
}

#[derive(Args, Debug)]
struct RootArguments {
    /// Folder with snippets; repeatable [default: docs]
    #[arg(long = "root", value_name = "DIR", value_hint = ValueHint::DirPath)]
    roots: Vec<String>,

    /// Other name for a path in references, e.g. @~/handbook=docs; repeatable
    ///
    /// `index` writes it to the index.
    #[arg(long = "alias", value_name = "PREFIX=PATH")]
    aliases: Vec<String>,
}

impl RootArguments {
    fn open(&self, shelf: &Shelf) -> Result<Roots, Failure> {
        shelf.open_roots(&self.roots, &self.aliases)
    }
}

/// Index snippets
///
/// Writes index.yaml into each root.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets index
  pannier snippets index --root docs --root ~/global/docs")]
pub(crate) struct IndexCommand {
    #[command(flatten)]
    roots: RootArguments,

    /// Model, encoding or file:PATH [default: o200k]
    #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
    tokenizer: Option<String>,
}

impl IndexCommand {
    fn run(&self) -> Result<(), CliError> {
        let shelf = shelf()?;
        let summaries = with_notes(Control::default(), |control| {
            let counter = shelf.counter(self.tokenizer.as_deref(), INDEX_TOKENIZER, control)?;
            let roots = self.roots.open(&shelf)?;
            Ok(pannier_snippets::index(&roots, &*counter)?)
        })?;
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

/// Validate snippets; exits with 1 if there are problems
///
/// Reports missing and invalid fields, duplicate ids, dangling and cyclic dependencies, unreadable files, a missing or stale
/// index, and files and lines that resemble snippets or required reads.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier snippets check --root docs")]
pub(crate) struct Check {
    #[command(flatten)]
    roots: RootArguments,

    #[command(flatten)]
    format: FormatArguments,
}

impl Check {
    fn run(&self) -> Result<(), CliError> {
        let CheckReport { problems, snippets, .. } =
            pannier_snippets::check(&self.roots.open(&shelf()?)?)?;
        let text = || match problems.is_empty() {
            true if snippets == 0 => NOTHING_TO_CHECK.to_owned(),
            true => "sound\n".to_owned(),
            false => problems.iter().map(|problem| format!("{problem}\n")).collect(),
        };
        let written = output::print_answer(self.format.format.is_json(), || &problems, text);
        CliError::check_failed(written, problems.is_empty())
    }
}

/// List snippets
///
/// Prints id, scope, type, tokens and description of each snippet.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets list --type policy,concept
  pannier snippets list --scope project --query 'roll back a deployment'
  pannier snippets list --baseline --budget 2k --format json")]
pub(crate) struct List {
    #[command(flatten)]
    request: SnippetListRequest,
}

impl List {
    fn run(&self) -> Result<(), CliError> {
        let mut request = self.request.clone();
        let is_json = request.format == Some(SnippetFormat::Json);
        let form = match io::stdout().is_terminal() {
            _ if is_json => ListFormat::Json,
            true => ListFormat::Columns,
            false => ListFormat::Lines,
        };
        if form == ListFormat::Columns {
            request.format = Some(SnippetFormat::Columns);
        }
        let list = run::run(request, &shelf()?)?;
        output::print_answer(is_json, || &list, || list.render_as(form))
    }
}

/// Print snippets with dependencies
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier snippets get project/design/index
  pannier snippets get project/design/index global/policy/names --budget 4k
  pannier snippets get project/design/index --session 6d40ae08")]
pub(crate) struct Get {
    #[command(flatten)]
    request: SnippetGetRequest,
}

impl Get {
    fn run(&self) -> Result<(), CliError> {
        let shelf = shelf()?;
        with_output(Control::default(), |control| {
            self.request.clone().deliver(&shelf, control, |response, format| {
                let mut output = Output::new();
                match response {
                    GetResponse::Snippets(bundle) => {
                        output.write(|mut writer| bundle.write(format, &mut writer))?;
                    }
                    GetResponse::Discovery { listing, .. } => {
                        output.text(&listing.render(format))?;
                    }
                }
                output.finish()
            })
        })
    }
}
