//! `pannier replay` and `pannier diff`: repeats and compares selections by their receipts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use pannier::ops::{IndexOptions, QueryOptions, ReadPool, SearchPool, TranscriptJson};
use pannier_chat::{ChatError, ChatInput, Provider, Transcript};
use pannier_core::TokenCounter;
use pannier_core::item::UncountedItem;
use pannier_memory::{Folder, PacketBuilder};
use pannier_policy::{DiffEntry, PolicyInputs, PolicyRegistry, Receipt, ReceiptDiff, Replay};

use super::AnswerFormat;
use super::docs::{EmbedderArguments, QueryEmbedding};
use crate::config;
use crate::error::CliError;
use crate::input;
use crate::output;
use crate::table::{Table, one_line};

/// Re-run a receipt and compare
#[derive(Args, Debug)]
#[command(
    name = "replay",
    after_help = "\
Examples:
  pannier pack items.jsonl --budget 2k --receipt run.json
  pannier inspect replay run.json items.jsonl

Prints `identical`, or the first difference and exits with 1."
)]
pub(crate) struct ReplayCommand {
    /// Receipt
    #[arg(value_name = "RECEIPT", value_hint = ValueHint::FilePath)]
    receipt: PathBuf,

    /// Files with the items of the first run [default: standard input]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    index: IndexOptions,

    /// .context folder of the first run, for `memory`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["files", "index"])]
    context: Option<PathBuf>,

    /// Previous request of the first run, for `chat --previous`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Advanced", hide_short_help = true)]
    previous: Option<PathBuf>,

    #[command(flatten)]
    embedder: EmbedderArguments,

    #[command(flatten)]
    embedding: QueryEmbedding,
}

impl ReplayCommand {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let receipt = input::read_receipt(&self.receipt)?;
        let counter: Arc<dyn TokenCounter> =
            Arc::from(pannier_tokens::counter_by_name(&receipt.tokenizer)?);
        if let ("memory", Some(context)) = (receipt.source.kind.as_str(), &self.context) {
            return packet(&receipt, context, counter);
        }
        let has_files = !self.files.is_empty();
        let replay = match receipt.source.kind.as_str() {
            "chat" if self.files.len() == 1 => self.chat(&receipt, &self.files[0], &*counter)?,
            // With the tokenizer of the receipt.
            "items" if self.index.index.is_none() => {
                let items = UncountedItem::count(input::read_items(&self.files)?, &*counter);
                receipt.replay(&items, &PolicyRegistry::default(), &counter)?
            }
            kind @ ("documents" | "passages" | "reads") if !has_files => {
                let shelf = config::shelf()?;
                let index = self.index.open(&shelf)?;
                let (recorded, current) = (&receipt.source.version, &index.manifest().version);
                if recorded != current {
                    return source_mismatch("index", recorded, current);
                }
                match kind {
                    "documents" => {
                        let Some(index) = index.as_index() else {
                            let problem = "it is of whole documents; add the --index of a folder";
                            return Err(CliError::input(&self.receipt, problem));
                        };
                        let query = receipt.source.query.as_deref().unwrap_or_default();
                        let items = index.pool(query)?;
                        receipt.replay(&items, &PolicyRegistry::default(), &counter)?
                    }
                    "reads" => {
                        ReadPool::from_receipt(&receipt, &*index, counter)?.replay(&receipt)?
                    }
                    _ => {
                        let mut options = QueryOptions::default();
                        options.embedder.clone_from(&self.embedder.embedder);
                        options.embedder_key_env.clone_from(&self.embedder.embedder_key_env);
                        self.embedding.add_to(&mut options)?;
                        let pool = options.with_vector(&*index, &shelf, |vector| {
                            SearchPool::from_receipt(&receipt, &*index, vector, counter)
                        })?;
                        pool.replay(&receipt)?
                    }
                }
            }
            kind => {
                let hint = match kind {
                    "items" => "name its files, and nothing else",
                    "documents" | "passages" | "reads" => "add --index, and name no files",
                    "memory" => "add --context, and name no files",
                    "chat" => "name its transcript, and nothing else",
                    _ => {
                        "this version of Pannier replays items, documents, passages, memory and chats"
                    }
                };
                let problem = format!("it was made from {kind}; {hint}");
                return Err(CliError::input(&self.receipt, problem));
            }
        };
        print_replay(&receipt, &replay)
    }
}

/// Replays a packet.
fn packet(
    receipt: &Receipt,
    context: &Path,
    counter: Arc<dyn TokenCounter>,
) -> Result<(), CliError> {
    let options = PacketBuilder::options_from_receipt(receipt)?;
    let folder = Folder::find_project(context)?;
    let memory = folder.read_with(options.sources, config::user_memory().as_ref())?;
    if receipt.source.version != memory.version() {
        return source_mismatch("context folder", &receipt.source.version, memory.version());
    }
    let packer = PacketBuilder::new(&memory, options, counter)?;
    print_replay(receipt, &packer.replay(receipt)?)
}

fn print_replay(receipt: &Receipt, replay: &Replay) -> Result<(), CliError> {
    let written = output::print(&describe_replay(receipt, replay));
    CliError::check_failed(written, *replay == Replay::Identical)
}

fn source_mismatch(what: &str, recorded: &str, current: &str) -> Result<(), CliError> {
    let text = format!("the {what} has changed: its version was {recorded}, and is {current}\n");
    CliError::check_failed(output::print(&text), false)
}

impl ReplayCommand {
    /// Trims a transcript as in the first run.
    fn chat(
        &self,
        receipt: &Receipt,
        file: &Path,
        counter: &dyn TokenCounter,
    ) -> Result<Replay, CliError> {
        let at = |path: &Path| {
            let path = Some(path.to_owned());
            move |error: ChatError| CliError::LibraryAt { path, failure: error.into() }
        };
        let provider = Provider::from_receipt(receipt)?;
        let TranscriptJson(text) = super::chat::read(file)?;
        let input = ChatInput::open(&text, Some(provider), None).map_err(at(file))?;
        let mut transcript = input.read(counter).map_err(at(file))?;
        transcript.pin_as_in(receipt).map_err(at(file))?;
        let previous = self.previous.as_deref().map(super::chat::read).transpose()?;
        let previous = match (&previous, self.previous.as_deref()) {
            (Some(TranscriptJson(text)), Some(path)) => {
                Some(Transcript::read(provider, text, counter).map_err(at(path))?)
            }
            _ => None,
        };
        let replay = transcript.replay_session(receipt, previous.as_ref(), counter);
        if let Some(replay) = replay.map_err(at(file))? {
            return Ok(replay);
        }
        let mut inputs = PolicyInputs::from(receipt.reference_time);
        inputs.previous = previous.as_ref().map(Transcript::as_previous).unwrap_or_default();
        let trimmer = transcript.trimmer(&PolicyRegistry::default(), receipt.policy(), inputs)?;
        Ok(trimmer.replay(receipt, previous.as_ref())?)
    }
}

fn describe_replay(receipt: &Receipt, replay: &Replay) -> String {
    let difference = match replay {
        Replay::Identical => return "identical\n".to_owned(),
        Replay::ItemCount { recorded, found } => {
            format!("the pool differs: it had {recorded} items, and has {found}")
        }
        Replay::Item { index, name } => {
            format!("the pool differs: item {index} ({name}) has changed")
        }
        Replay::Selection { position, recorded, found } => {
            let item = |index: &Option<usize>| {
                index.map_or_else(|| "nothing".to_owned(), |index| format!("item {index}"))
            };
            let number = position + 1;
            format!(
                "the selection differs: position {number} had {}, and has {}",
                item(recorded),
                item(found)
            )
        }
        Replay::Form { index } => {
            format!("the selection differs: item {index} has another form")
        }
        Replay::Result => "the text differs, although the items are the same".to_owned(),
        _ => {
            "the report differs, although the selection is the same: a score, a reason or a count \
              has changed"
                .to_owned()
        }
    };
    let (then, now) = (&receipt.engine, env!("CARGO_PKG_VERSION"));
    let engine =
        if then == now { String::new() } else { format!(" (engine {then} then, {now} now)") };
    one_line(&format!("{difference}{engine}")) + "\n"
}

/// Compare two receipts
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier inspect diff yesterday.json today.json")]
pub(crate) struct Diff {
    /// First receipt
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath)]
    before: PathBuf,

    /// Second receipt
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath)]
    after: PathBuf,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Diff {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let (before, after) =
            (input::read_receipt(&self.before)?, input::read_receipt(&self.after)?);
        let diff = before.diff(&after);
        output::print_answer(self.format.is_json(), || &diff, || text(&diff))
    }
}

fn text(diff: &ReceiptDiff) -> String {
    let mut table = Table::new(output::terminal_width(), 0, &[false, false, true, false]);
    let mut add = |sign: &str, entries: &[DiffEntry], describe: &dyn Fn(&DiffEntry) -> String| {
        for entry in entries {
            table.row([
                sign.to_owned(),
                entry.name.clone(),
                format!("{} tokens", entry.tokens),
                describe(entry),
            ]);
        }
    };
    let number = |position: Option<usize>| position.map_or(0, |position| position + 1);
    add("+", &diff.included, &|entry| match entry.in_both_pools {
        true => format!("now in, at position {}", number(entry.position_after)),
        false => format!("new in the pool, at position {}", number(entry.position_after)),
    });
    add("-", &diff.excluded, &|entry| match entry.in_both_pools {
        true => "now out".to_owned(),
        false => "gone from the pool".to_owned(),
    });
    add("~", &diff.moved, &|entry| {
        format!(
            "moved from position {} to {}",
            number(entry.position_before),
            number(entry.position_after)
        )
    });
    let mut text = table.render(false);
    if text.is_empty() {
        text.push_str("The same contents in the same order.\n");
    }
    let (before, after) = (diff.tokens_before, diff.tokens_after);
    let (items, tokens) = (diff.unchanged_prefix_items, diff.unchanged_prefix_tokens);
    text.push_str(&format!(
        "\n{before} tokens before, {after} after; unchanged at the beginning: {items} of the items, {tokens} tokens\n"
    ));
    for (is_same, what) in [
        (diff.same_policy, "policy"),
        (diff.same_time, "reference time"),
        (diff.same_budget, "budget"),
        (diff.same_pool, "pool"),
    ] {
        if !is_same {
            text.push_str(&format!("the {what} has changed\n"));
        }
    }
    text
}
