//! The commands, one file each.

mod chat;
mod compare;
mod conformance;
mod docs;
mod eval;
mod explanation;
#[cfg(feature = "server")]
mod gateway;
mod inspect;
#[cfg(feature = "server")]
mod log;
mod manual;
mod memory;
mod pack;
mod policy;
mod receipts;
#[cfg(feature = "server")]
mod serve;
#[cfg(not(feature = "server"))]
#[path = "no_server.rs"]
mod serve;
#[cfg(not(feature = "server"))]
use serve as gateway;
mod session_trace;
mod snippets;
mod specified;
mod state;
mod table_view;
#[cfg(feature = "otel")]
mod telemetry;
mod tokens;
#[cfg(feature = "inspector")]
mod view;

use clap::{Subcommand, ValueEnum};
use pannier_core::item::find_item;
use pannier_core::{ContextItem, Error};

use crate::error::CliError;

/// Declares the commands: a variant for each, and how it runs.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($command:ty),)+) => {
        /// A command.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $name($command),)+
        }

        impl Command {
            pub(crate) fn run(&self) -> Result<(), CliError> {
                match self {
                    $(Self::$name(command) => command.run(),)+
                }
            }
        }
    };
}

commands! {
    Pack(Box<pack::Pack>),
    Chat(Box<chat::Chat>),
    #[command(subcommand)]
    Docs(docs::Docs),
    Memory(Box<memory::MemoryCommand>),
    #[command(subcommand)]
    Snippets(snippets::Snippets),
    Serve(Box<serve::Serve>),
    Gateway(Box<gateway::Gateway>),
    #[command(hide = true)]
    Build(Box<specified::Build>),
    #[command(hide = true)]
    Resolve(specified::Resolve),
    #[command(hide = true)]
    Assemble(Box<specified::Assemble>),
    #[command(hide = true)]
    Agent(Box<memory::Agent>),
    #[command(hide = true)]
    Mcp(Box<serve::Mcp>),
    Inspect(Box<inspect::Inspect>),
    #[command(subcommand)]
    Policy(policy::Policies),
    Tokens(tokens::Tokens),
    #[command(hide = true)]
    Conformance(conformance::Conformance),
    #[command(subcommand)]
    Eval(eval::Eval),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// The output format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// For people
    #[default]
    Text,
    /// One line of JSON
    Json,
}

impl AnswerFormat {
    fn is_json(self) -> bool {
        self == Self::Json
    }
}

/// Returns the positions of the items with these names.
fn find_items(items: &[ContextItem], names: &[String]) -> Result<Vec<usize>, Error> {
    names.iter().map(|name| find_item(items, name)).collect()
}

/// Returns the id of an item, or its index.
fn label(index: usize, item: &ContextItem) -> String {
    item.id().map_or_else(|| format!("#{index}"), str::to_owned)
}

/// Sums the tokens of items without overflow.
fn sum_tokens<'a>(items: impl Iterator<Item = &'a ContextItem>) -> i128 {
    items.map(|item| i128::from(item.tokens())).sum()
}
