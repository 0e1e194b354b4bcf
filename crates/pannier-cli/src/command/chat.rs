//! `pannier chat`: fits a chat into a budget, and recalls what was cut.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use pannier::Failure;
use pannier::ops::{
    Answer, ChatAnswer, ChatRequest, OpenChat, ProviderName, RECALL_FOLDER, RecallRequest,
    TranscriptJson,
};
use pannier_chat::{
    BlockPosition, Cut, Fitted, RecallStore, RecallStoreOptions, Repair, ReusedPrefix,
    TrimmedTranscript,
};
use pannier_core::report::{ExclusionVariant, SelectionReport};
use pannier_core::{ContextItem, Explanation};
use serde::Serialize;

use super::pack::RecordArguments;
use super::{explanation, table_view};
use crate::config;
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};
use crate::run::{Format, interruptible, run, with_output};

/// The maximum size of a transcript.
const MAX_TRANSCRIPT_BYTES: u64 = 1 << 30;

/// Fit a chat into a token budget
///
/// Reads a request, a list of messages or a session log. Prints the request with shorter blocks, so that it fits and the
/// prompt cache still hits. Every cut block keeps a recall id, and the task stays whole. With --once, whole messages of a
/// single request are dropped instead, the oldest first. The system prompt and the tools are always kept, and the provider
/// accepts the output.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  pannier chat request.json --budget 100k > sent.json"
)]
pub(crate) struct Chat {
    #[command(subcommand)]
    command: Option<ChatCommand>,

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

    /// Store cut blocks for `chat recall` [default: .pannier/recall]
    ///
    /// At most 256 MB and 30 days since a request named them; see --store-bytes and --store-days.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = RECALL_FOLDER,
        value_hint = ValueHint::DirPath, help_heading = "Advanced", hide_short_help = true)]
    store: Option<PathBuf>,

    /// Maximum bytes of the store [default: 268435456]
    #[arg(
        long,
        value_name = "N",
        requires = "store",
        help_heading = "Advanced",
        hide_short_help = true
    )]
    store_bytes: Option<u64>,

    /// Days after which stored blocks are removed [default: 30]
    #[arg(
        long,
        value_name = "N",
        requires = "store",
        help_heading = "Advanced",
        hide_short_help = true
    )]
    store_days: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum ChatCommand {
    Recall(Recall),
}

/// Print a cut block by its recall id
///
/// Prints the whole content: a text, the output of a tool, the arguments of a call, or omitted messages as JSON. Texts are
/// exact; arguments that are an object are equal JSON, and the parts of an output are joined by line breaks. The content
/// comes from the history, or from the store if the history is gone.
#[derive(Args, Debug)]
struct Recall {
    #[command(flatten)]
    request: RecallRequest,

    /// File with the history; `-` is standard input [default: the store]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    session: Option<PathBuf>,
}

impl Recall {
    fn run(&self) -> Result<(), CliError> {
        let mut request = self.request.clone();
        request.session = self.session.as_deref().map(read).transpose()?;
        let answer = run(request, &config::shelf()?)?;
        output::print(&answer.content)
    }
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

/// The JSON report of a request of a session.
#[derive(Serialize)]
struct SessionReport<'r> {
    tokenizer: &'r str,
    exactness: &'static str,
    tokens: i64,
    is_batch: bool,
    last_unchanged: Option<BlockPosition>,
    cuts: &'r [Cut],
    repairs: &'r [Repair],
}

impl Chat {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        if let Some(ChatCommand::Recall(recall)) = &self.command {
            return recall.run();
        }
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
        request.once |= matches!(format, Format::Table);
        let names = std::mem::take(&mut request.explain);
        let has_target = request.budget.target.is_some();
        let result = with_output(interruptible(), |control| {
            request.open(&shelf, control, |chat| {
                let mut output = Output::new();
                let fitted = chat.fit()?;
                if let Some(fitted) = fitted.as_ref().filter(|_| !names.is_empty()) {
                    let messages = chat.explain_fitted(&names, fitted)?;
                    let answer = ChatAnswer::Messages { messages };
                    match format {
                        Format::Json => output.json(&answer)?,
                        _ => output.text(&answer.text())?,
                    }
                    return output.finish();
                }
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
                if let Some(fitted) = fitted {
                    output::print_notes(&control.take_notes());
                    return self.write_fitted(chat, &fitted, format, output);
                }
                let trimmed = chat.trim()?;
                output::print_notes(&control.take_notes());
                let is_replaced = self.write_records(chat, &trimmed, &mut output)?;
                match format {
                    _ if is_replaced => {}
                    Format::Json => output.json(&chat.answer(&trimmed)?)?,
                    Format::Table => {
                        let styled = output::is_styled(&std::io::stdout());
                        let all = self.records.shows_all();
                        output.text(&table_view::text(trimmed.selection(), styled, all))?;
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

    /// Prints a request of a session and what was cut, and stores the cut blocks.
    fn write_fitted(
        &self,
        chat: &OpenChat<'_>,
        fitted: &Fitted<'_, '_>,
        format: Format,
        mut output: Output,
    ) -> Result<(), CliError> {
        let (repairs, (tokenizer, exactness)) = (chat.session_repairs(), chat.tokenizer());
        let summary = summary(chat, fitted);
        let report = SessionReport {
            tokenizer,
            exactness,
            tokens: fitted.tokens(),
            is_batch: fitted.is_batch(),
            last_unchanged: fitted.last_unchanged(),
            cuts: fitted.cuts(),
            repairs: &repairs,
        };
        let path = self.records.report();
        match path {
            Some(path) if path.as_os_str().is_empty() => {
                output::note(&format!("{summary}; texts counted by {tokenizer} ({exactness})"));
                for cut in fitted.cuts() {
                    let Cut { id, message, form, reason, tokens_before, tokens_after, .. } = cut;
                    output::note(&format!(
                        "  {id}  message-{message}  {form}  {tokens_before} -> {tokens_after} tokens: {reason}"
                    ));
                }
                for Repair { message, problem, .. } in &repairs {
                    output::note(&format!("  message-{message}: {problem}"));
                }
            }
            Some(path) if is_stdin(path) => output.json(&report)?,
            Some(path) => output::write_json(path, &report)?,
            None if repairs.is_empty() => {}
            None => output::note(&format!(
                "{} messages or parts of them cannot be sent; --report lists them",
                repairs.len()
            )),
        }
        if let Some(path) = self.records.receipt() {
            output::write_json(path, &chat.fitted_receipt(fitted))?;
        }
        if let Some(folder) = &self.store {
            let mut options = RecallStoreOptions::default();
            options.max_bytes = self.store_bytes.unwrap_or(options.max_bytes);
            if let Some(days) = self.store_days {
                options.max_age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
            }
            let store = RecallStore::in_folder(folder, options);
            store.add(fitted, SystemTime::now()).map_err(Failure::from)?;
        }
        match format {
            _ if path.is_some_and(|path| is_stdin(path)) => {}
            Format::Json => output.json(&chat.fitted_answer(fitted)?)?,
            _ => {
                // An unchanged request is the file itself, with the line break at its end.
                let json = chat.fitted_json(fitted);
                output.text(&json)?;
                if !json.ends_with('\n') {
                    output.text("\n")?;
                }
            }
        }
        output.finish()?;
        if path.is_none() {
            output::hint(&summary);
        }
        Ok(())
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
            output::write_json(path, &chat.receipt(trimmed)?)?;
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

/// Returns the tokens of a request of a session, and what was cut.
fn summary(chat: &OpenChat<'_>, fitted: &Fitted<'_, '_>) -> String {
    let cut: i64 = fitted.cuts().iter().map(|cut| cut.tokens_before - cut.tokens_after).sum();
    let (tokens, budget, blocks) = (fitted.tokens(), chat.budget_tokens(), fitted.cuts().len());
    let unchanged = match fitted.last_unchanged() {
        Some(position) => format!("; unchanged up to block {}", position.block),
        None => String::new(),
    };
    let batch = if fitted.is_batch() { "; new cuts" } else { "" };
    format!("{tokens} of {budget} tokens; {blocks} blocks cut by {cut} tokens{batch}{unchanged}")
}
