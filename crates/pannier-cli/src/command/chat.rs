//! `pannier chat`: trims a transcript.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use pannier_chat::{ChatError, Repair, ReusedPrefix, Transcript, TrimmedTranscript};
use pannier_core::{ContextItem, ExclusionVariant, SelectionReport, TokenCounter};
use pannier_policy::{PolicyInputs, PolicyRegistry};
use serde::Serialize;

use super::{explanation, find_items, table_view};
use crate::arguments::{BudgetArguments, TimeArguments, TokenizerArguments};
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};

/// The maximum size of a transcript.
const MAX_TRANSCRIPT_BYTES: u64 = 1 << 30;

/// Trim a chat transcript to a token budget
///
/// Reads a list of messages or a request, and prints it with fewer messages, in the same order. A tool call and its results
/// stay together. The system prompt, the tools and the last user message are always kept. Content that the provider would
/// reject is dropped.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier chat --format openai --budget 8000 request.json
  pannier chat --format anthropic --budget 100000 --reserve 4000 --report < messages.json
  pannier chat --format openai --budget 8000 now.json --keep-prefix sent-before.json")]
pub(crate) struct Chat {
    /// Transcript: a JSON list of messages, or a request [default: standard input]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Format of the messages
    #[arg(long, short, value_enum)]
    format: Format,

    #[command(flatten)]
    budget: BudgetArguments,

    /// Preset (see `pannier policy list`), .toml or .json file; its placer is ignored
    #[arg(long, short, value_name = "NAME|FILE", default_value = "transcript", value_hint = ValueHint::FilePath)]
    policy: String,

    #[command(flatten)]
    time: TimeArguments,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Previous request, whose prefix to keep for the provider's prompt cache
    #[arg(long, value_name = "PREVIOUS", value_hint = ValueHint::FilePath)]
    keep_prefix: Option<PathBuf>,

    /// Print dropped messages and reasons on stderr, or as JSON with --report=FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    report: Option<PathBuf>,

    /// Messages to explain instead of printing the transcript; repeatable
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// OpenAI Chat Completions
    Openai,
    /// Anthropic Messages
    Anthropic,
}

impl Format {
    fn of_transcript(self) -> pannier_chat::Provider {
        match self {
            Self::Openai => pannier_chat::Provider::OpenAi,
            Self::Anthropic => pannier_chat::Provider::Anthropic,
        }
    }

    /// The default tokenizer of the provider.
    fn tokenizer(self) -> &'static str {
        match self {
            Self::Openai => "o200k",
            Self::Anthropic => "claude",
        }
    }
}

/// The JSON report of a run.
#[derive(Serialize)]
struct Report<'r> {
    tokenizer: &'r str,
    exactness: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<ReusedPrefix>,
    repairs: &'r [Repair],
    report: SelectionReport<&'r ContextItem>,
}

impl Chat {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let budget = self.budget.read()?;
        let registry = PolicyRegistry::default();
        let policy = input::read_policy(&registry, &self.policy)?;
        let file = self.file.clone().unwrap_or_else(|| "-".into());
        if file.as_os_str() == "-"
            && self.keep_prefix.as_ref().is_some_and(|path| path.as_os_str() == "-")
        {
            let problem =
                "the transcript and --keep-prefix cannot both be standard input; name a file";
            return Err(CliError::Usage(problem.to_owned()));
        }
        let text = input::read_text_or_stdin(&file, MAX_TRANSCRIPT_BYTES)?;
        let (counter, exactness) = self.counter(&text)?;
        let previous = match &self.keep_prefix {
            Some(path) => Some((path, input::read_text_or_stdin(path, MAX_TRANSCRIPT_BYTES)?)),
            None => None,
        };
        let format = self.format.of_transcript();
        let error_at = |path: &PathBuf| {
            let path = Some(path).filter(|path| path.as_os_str() != "-").cloned();
            move |error: ChatError| CliError::LibraryAt { path, failure: error.into() }
        };
        let transcript = Transcript::read(format, &text, &*counter).map_err(error_at(&file))?;
        let previous = match &previous {
            Some((path, text)) => {
                Some(Transcript::read(format, text, &*counter).map_err(error_at(path))?)
            }
            None => None,
        };

        let mut inputs = PolicyInputs::from(self.time.now);
        inputs.previous = previous.as_ref().map(Transcript::as_previous).unwrap_or_default();
        let trimmer = transcript.trimmer(&registry, &policy, inputs)?;
        let items = transcript.items();
        let explained = find_items(items, &self.explain)?;
        let trimmed = trimmer.trim(&budget).map_err(error_at(&file))?;

        let prefix = previous.as_ref().map(|previous| trimmed.reused_prefix(previous));
        self.print_report(&transcript, &trimmed, prefix, (counter.name(), exactness))?;
        let mut output = Output::new();
        if explained.is_empty() {
            output.text(&trimmed.json())?;
            output.text("\n")?;
        } else {
            let explanations = trimmer.explain_all(&budget, &explained)?;
            output.text(&explanation::texts(&explanations, self.budget.has_target()))?;
        }
        output.finish()
    }

    /// Returns the requested tokenizer, that of the request's model, or the default of the provider, and its exactness.
    fn counter(&self, text: &str) -> Result<(Box<dyn TokenCounter>, &'static str), CliError> {
        let known = match self.tokenizer.is_named() {
            true => Some(self.tokenizer.counter()?),
            false => pannier_chat::model(text)
                .and_then(|model| pannier_tokens::counter_by_name(&model).ok()),
        };
        Ok(match known {
            Some(counter) => {
                let exactness = counter.exactness().name();
                (counter, exactness)
            }
            None => (pannier_tokens::counter_by_name(self.format.tokenizer())?, "assumed"),
        })
    }

    /// Prints the report, warnings and the reused prefix.
    fn print_report(
        &self,
        transcript: &Transcript<'_>,
        trimmed: &TrimmedTranscript<'_, '_>,
        prefix: Option<ReusedPrefix>,
        (tokenizer, exactness): (&str, &'static str),
    ) -> Result<(), CliError> {
        let repairs = transcript.repairs();
        match &self.report {
            Some(path) if path.as_os_str() != "-" => {
                let report = Report {
                    tokenizer,
                    exactness,
                    prefix,
                    repairs,
                    report: trimmed.selection().report(),
                };
                output::write_json(path, &report)?;
            }
            Some(_) => {
                let styled = output::is_styled(&std::io::stderr());
                output::note(&format!("texts counted by {tokenizer} ({exactness})"));
                let text = table_view::text(trimmed.selection(), styled);
                let _ = write!(std::io::stderr(), "{text}");
                if !repairs.is_empty() {
                    output::note("\nRepaired");
                }
                for repair in repairs {
                    output::note(&format!("  message-{}: {}", repair.message, repair.problem));
                }
            }
            None => {
                let counts = trimmed.selection().exclusion_counts();
                let rejected =
                    counts.get(&ExclusionVariant::RejectedByFormat).copied().unwrap_or_default();
                if rejected + repairs.len() > 0 {
                    let repairs = repairs.len();
                    output::note(&format!(
                        "{rejected} messages cannot be sent, {repairs} parts of others are dropped or changed; \
                         --report lists them"
                    ));
                }
            }
        }
        if let Some(prefix) = prefix {
            let ReusedPrefix { messages, of_messages, tokens, of_tokens, .. } = prefix;
            output::note(&format!(
                "reusable prefix: {messages} of {of_messages} messages, {tokens} of {of_tokens} tokens"
            ));
        }
        Ok(())
    }
}
