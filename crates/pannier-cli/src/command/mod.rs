//! The commands, one file each.

mod assemble;
mod chat;
mod compare;
mod conformance;
mod docs;
mod eval;
mod explanation;
mod manual;
mod mcp;

mod packet;
mod policy;
mod receipts;
mod select;
mod simulate;
mod snippets;
mod state;
mod table_view;
mod tokens;

use clap::{Subcommand, ValueEnum};

use crate::error::CliError;

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Select(select::Select),
    Simulate(simulate::Simulate),
    Chat(Box<chat::Chat>),
    Build(docs::Build),
    Resolve(docs::Resolve),
    Assemble(Box<assemble::Assemble>),
    Packet(Box<packet::PacketCommand>),
    #[command(subcommand)]
    Snippets(snippets::Snippets),
    Mcp(Box<mcp::Mcp>),
    Chunks(docs::Chunks),
    Inspect(docs::Inspect),
    Verify(docs::Verify),
    Compare(compare::Compare),
    #[command(subcommand)]
    Policy(policy::Policies),
    #[command(subcommand)]
    Tokens(tokens::Tokens),
    Replay(receipts::ReplayCommand),
    Diff(receipts::Diff),
    Conformance(conformance::Conformance),
    #[command(hide = true)]
    Eval(eval::Eval),
    Completions(manual::Completions),
    Man(manual::Man),
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match self {
            Self::Select(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Chat(command) => command.run(),
            Self::Build(command) => command.run(),
            Self::Resolve(command) => command.run(),
            Self::Assemble(command) => command.run(),
            Self::Packet(command) => command.run(),
            Self::Snippets(command) => command.run(),
            Self::Mcp(command) => command.run(),
            Self::Chunks(command) => command.run(),
            Self::Inspect(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Compare(command) => command.run(),
            Self::Policy(command) => command.run(),
            Self::Tokens(command) => command.run(),
            Self::Replay(command) => command.run(),
            Self::Diff(command) => command.run(),
            Self::Conformance(command) => command.run(),
            Self::Eval(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
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

/// Returns the id of an item, or its index.
fn label(index: usize, item: &pannier_core::ContextItem) -> String {
    item.id().map_or_else(|| format!("#{index}"), str::to_owned)
}

/// Sums the tokens of items without overflow.
fn sum_tokens<'a>(items: impl Iterator<Item = &'a pannier_core::ContextItem>) -> i128 {
    items.map(|item| i128::from(item.tokens())).sum()
}
