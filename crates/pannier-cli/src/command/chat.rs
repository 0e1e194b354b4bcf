//! `pannier chat`: trims a transcript.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use pannier::Failure;
use pannier::ops::{ChatAnswer, ChatRequest, OpenChat, ProviderName, TranscriptJson};
use pannier_chat::{Repair, ReusedPrefix, TrimmedTranscript};
use pannier_core::report::{ExclusionVariant, SelectionReport};
use pannier_core::{ContextItem, Explanation};
use serde::Serialize;

use super::pack::RecordArguments;
use super::{explanation, table_view};
use crate::config;
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};
use crate::run::{Format, interruptible, with_output};

/// The maximum size of a transcript.
const MAX_TRANSCRIPT_BYTES: u64 = 1 << 30;

/// Trim a chat transcript to a token budget
///
/// Reads a list of messages, a request or a session log, and prints it with fewer messages, in the same order. The format is
/// detected. A tool call and its results stay together. The system prompt, the tools and the last user message are always kept. Content that the provider would
/// reject is dropped.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier chat request.json --budget 8k --report
  pannier chat now.json --budget 8k --previous sent.json
  pannier chat ~/.claude/projects/app/session.jsonl --budget 64k")]
pub(crate) struct Chat {
    /// Messages, a request or a session log [default: standard input]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Previous request; keep its prefix so the prompt cache still hits
    #[arg(
        long,
        alias = "keep-prefix",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Advanced",
        hide_short_help = true
    )]
    previous: Option<PathBuf>,

    #[command(flatten)]
    request: ChatRequest,

    /// Output format: text, json or table
    ///
    /// `text` is the trimmed transcript, which is JSON. `json` adds token counts, repairs and the reused prefix.
    #[arg(long, short, value_name = "F", default_value = "text", hide_default_value = true, value_parser = formats(),
        hide_possible_values = true)]
    format: ChatFormat,

    #[command(flatten)]
    records: RecordArguments,
}

/// An output format, or the name of a provider, which `--format` took formerly.
#[derive(Clone, Copy, Debug)]
enum ChatFormat {
    Output(Format),
    Provider(ProviderName),
}

fn formats() -> impl TypedValueParser<Value = ChatFormat> {
    let former = ["openai", "anthropic"].map(|name| PossibleValue::new(name).hide(true));
    let names = ["text", "json", "table"].map(PossibleValue::new);
    PossibleValuesParser::new(names.into_iter().chain(former)).map(|name| match name.as_str() {
        "json" => ChatFormat::Output(Format::Json),
        "table" => ChatFormat::Output(Format::Table),
        "openai" => ChatFormat::Provider(ProviderName::Openai),
        "anthropic" => ChatFormat::Provider(ProviderName::Anthropic),
        _ => ChatFormat::Output(Format::Text),
    })
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
        let file = self.file.clone().unwrap_or_else(|| "-".into());
        let inputs: Vec<PathBuf> =
            [Some(&file), self.previous.as_ref()].into_iter().flatten().cloned().collect();
        self.records.check(&inputs)?;
        let shelf = config::shelf()?;
        let mut request = self.request.clone();
        let format = match self.format {
            ChatFormat::Output(format) => format,
            ChatFormat::Provider(name) => {
                request.provider.get_or_insert(name);
                output::note("`--format PROVIDER` is now `--provider PROVIDER`");
                Format::Text
            }
        };
        // A missing budget is reported before the transcript is read.
        request.budget.read(&request.reserves, &shelf)?;
        if inputs.len() > 1 && inputs.iter().all(|path| is_stdin(path)) {
            let problem =
                "the transcript and --previous cannot both be standard input; name a file";
            return Err(CliError::Usage(problem.to_owned()));
        }
        request.transcript = read(&file)?;
        request.previous = self.previous.as_deref().map(read).transpose()?;
        let names = std::mem::take(&mut request.explain);
        let has_target = request.budget.target.is_some();
        let result = with_output(interruptible(), |control| {
            request.open(&shelf, control, |chat| {
                let mut output = Output::new();
                if !names.is_empty() {
                    let explanations = chat.explain(&names, control)?;
                    match format {
                        Format::Json => {
                            let explanations =
                                explanations.into_iter().map(Explanation::into_owned).collect();
                            output.json(&ChatAnswer::Explanations { explanations })?;
                        }
                        _ => output.text(&explanation::texts(&explanations, has_target))?,
                    }
                    return output.finish();
                }
                let trimmed = chat.trim()?;
                output::print_notes(&control.take_notes());
                let is_replaced = self.write_records(chat, &trimmed, &mut output)?;
                match format {
                    _ if is_replaced => {}
                    Format::Json => output.json(&chat.answer(&trimmed)?)?,
                    Format::Table => {
                        let styled = output::is_styled(&std::io::stdout());
                        output.text(&table_view::text(trimmed.selection(), styled))?;
                    }
                    _ => {
                        output.text(&trimmed.json())?;
                        output.text("\n")?;
                    }
                }
                output.finish()?;
                if format != Format::Table {
                    output::hint(&table_view::summary(trimmed.selection()));
                }
                Ok(())
            })
        });
        result.map_err(|error| self.at_file(error, file))
    }

    /// Adds the name of the file to an error about a transcript.
    fn at_file(&self, error: CliError, file: PathBuf) -> CliError {
        let at = |path: Option<PathBuf>, failure| CliError::LibraryAt {
            path: path.filter(|path| !is_stdin(path)),
            failure,
        };
        match error {
            CliError::Library(failure @ Failure::Chat(_)) => at(Some(file), failure),
            CliError::Library(Failure::Previous(error)) => {
                at(self.previous.clone(), Failure::Chat(error))
            }
            error => error,
        }
    }

    /// Writes the report and the receipt, and prints warnings and the reused prefix. Returns whether the report replaces
    /// the transcript.
    fn write_records(
        &self,
        chat: &OpenChat<'_>,
        trimmed: &TrimmedTranscript<'_, '_>,
        output: &mut Output,
    ) -> Result<bool, CliError> {
        let (repairs, (tokenizer, exactness)) = (chat.repairs(), chat.tokenizer());
        let prefix = chat.prefix(trimmed);
        let is_on_stderr = self.records.report().is_some_and(|path| path.as_os_str().is_empty());
        if is_on_stderr {
            output::note(&format!("texts counted by {tokenizer} ({exactness})"));
        }
        let report = || Report {
            tokenizer,
            exactness,
            prefix,
            repairs,
            report: trimmed.selection().report(),
        };
        let is_replaced = self.records.write_report(trimmed.selection(), report, output)?;
        match self.records.report() {
            Some(_) if is_on_stderr => {
                if !repairs.is_empty() {
                    output::note("\nRepaired");
                }
                for repair in repairs {
                    output::note(&format!("  message-{}: {}", repair.message, repair.problem));
                }
            }
            Some(_) => {}
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
        if let Some(path) = self.records.receipt() {
            output::write_json(path, &chat.receipt(trimmed))?;
        }
        Ok(is_replaced)
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a transcript; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<TranscriptJson, CliError> {
    Ok(TranscriptJson(input::read_text_or_stdin(path, MAX_TRANSCRIPT_BYTES)?))
}
