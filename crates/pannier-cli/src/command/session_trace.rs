//! `pannier inspect session`: a recorded session, turn by turn.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use pannier::Failure;
use pannier::ops::{PolicyName, ReplayBudget};
use pannier_chat::ChatError;
use pannier_chat::replay::{BlockReader, Prices, RecordedSession, SessionTrace};

use super::inspect::FormatArguments;
use crate::config;
use crate::error::CliError;
use crate::input;
use crate::output;
use crate::run;
use crate::table::{Table, one_line};

/// The maximum size of a recorded session.
const MAX_SESSION_BYTES: u64 = 1 << 30;

const DEFAULT_TOKENIZER: &str = "o200k";

/// Show what each request of a recorded session sends
///
/// Replays the session as `pannier eval sessions` does, with a session policy. Lists for each request the tokens that are read from
/// the prompt cache, written and dropped, and where its prefix breaks. `--format json` is the file that `inspect view` shows.
#[derive(Args, Debug)]
#[command(
    name = "session",
    after_help = "\
Examples:
  pannier inspect session session.jsonl --budget 24k
  pannier inspect session session.jsonl --budget 24k -f json -o trace.json
  pannier inspect view trace.json -o session.html"
)]
pub(crate) struct TraceSession {
    /// Recorded session; `-` is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Budget: tokens, or a share of the session below 1 [default: 0.5]
    #[arg(long, short, value_name = "N|SHARE")]
    budget: Option<ReplayBudget>,

    /// Session policy, or a policy file [default: balanced]
    #[arg(
        long,
        short,
        value_name = "NAME|FILE",
        default_value = "balanced",
        hide_default_value = true
    )]
    policy: String,

    /// Price of a cached token, relative to plain input [default: 0.1]
    #[arg(long, value_name = "PRICE", help_heading = "Advanced", hide_short_help = true)]
    read_price: Option<f64>,

    /// Price of any other token, relative to plain input [default: 1.25]
    #[arg(long, value_name = "PRICE", help_heading = "Advanced", hide_short_help = true)]
    write_price: Option<f64>,

    /// Model, encoding or file:PATH [default: o200k]
    #[arg(long, short, value_name = "NAME")]
    tokenizer: Option<String>,

    #[command(flatten)]
    format: FormatArguments,
}

impl TraceSession {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let text = input::read_text_or_stdin(&self.file, MAX_SESSION_BYTES)?;
        let name = self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy();
        let at = |error: ChatError| CliError::LibraryAt {
            path: Some(self.file.clone()),
            failure: error.into(),
        };
        let shelf = config::shelf()?;
        let trace = run::with_output(run::interruptible(), |control| {
            let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
            let mut reader = BlockReader::new(&*counter);
            // Of a log that was compacted, the last history is the current one.
            let sessions = RecordedSession::read(&name, &text, &mut reader).map_err(at)?;
            let session = sessions.last().filter(|session| !session.requests.is_empty());
            let session = session.ok_or_else(|| {
                CliError::input(
                    &self.file,
                    "no message of an assistant follows another one".to_owned(),
                )
            })?;
            let policy = PolicyName::Name(self.policy.clone());
            let policy = shelf.policy(Some(&policy), "balanced", control)?;
            let Some(options) = policy.session().cloned() else {
                let problem = format!(
                    "policy '{}' is not for sessions; choose careful, balanced or thrifty",
                    self.policy
                );
                return Err(CliError::Usage(problem));
            };
            let budget = self.budget.unwrap_or(ReplayBudget::Share(0.5)).tokens(session);
            let default = Prices::default();
            let prices = Prices::new(
                self.read_price.unwrap_or(default.read),
                self.write_price.unwrap_or(default.write),
            );
            let step = || Ok::<(), Failure>(control.step("replaying the session")?);
            let policy = (self.policy.as_str(), options);
            Ok(SessionTrace::new(session, policy, budget, prices, &mut reader, step)?)
        })?;
        output::print_answer(self.format.format.is_json(), || &trace, || table(&trace))
    }
}

/// Renders a line for each turn.
fn table(trace: &SessionTrace) -> String {
    let (turns, budget) = (trace.turns.len(), trace.budget);
    let read: i64 = trace.turns.iter().map(|turn| turn.read).sum();
    let written: i64 = trace.turns.iter().map(|turn| turn.written).sum();
    let price: f64 = trace.turns.iter().map(|turn| turn.price).sum();
    let breaks = trace.turns.iter().filter(|turn| turn.prefix_break.is_some()).count();
    let mut text = format!("{turns} turns, budget {budget} tokens, policy {}\n", trace.policy);
    let share = if trace.everything_price > 0.0 { price / trace.everything_price } else { 1.0 };
    text.push_str(&format!(
        "{read} tokens read, {written} written, {breaks} breaks; price {share:.3} of sending everything\n\n"
    ));
    let mut table = Table::new(output::terminal_width(), 0, &[true, true, true, true, true, false]);
    table.row(["turn", "sent", "read", "written", "dropped", "prefix"].map(str::to_owned));
    for (turn, number) in trace.turns.iter().zip(1..) {
        let prefix = match (&turn.refusal, &turn.prefix_break) {
            (Some(refusal), _) => format!("refused: {refusal}"),
            (None, Some(broken)) => {
                let message = trace.blocks.get(broken.block).map_or(0, |block| block.message);
                format!("breaks at message {message}: {}", broken.why)
            }
            (None, None) => String::new(),
        };
        let numbers = [number, turn.tokens, turn.read, turn.written, turn.dropped];
        let cells = numbers.map(|number| number.to_string()).into_iter();
        table.row(cells.chain([one_line(&prefix)]));
    }
    text.push_str(&table.render(false));
    text
}
