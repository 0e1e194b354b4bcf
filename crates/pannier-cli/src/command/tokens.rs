//! `pannier tokens`: counts tokens and calibrates tokenizers.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use pannier::ops::CountRequest;
use pannier_tokens::Calibration;
use serde::{Deserialize, Serialize};

use super::inspect::FormatArguments;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::input;
use crate::output;
use crate::table::Table;
use crate::{config, run};

/// The maximum size of a text or log.
const MAX_TEXT_BYTES: u64 = 1 << 30;

/// Count tokens
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  pannier tokens README.md docs/*.md --tokenizer gpt-5
  pannier tokens list
  pannier tokens calibrate log.jsonl --tokenizer o200k"
)]
pub(crate) struct Tokens {
    #[command(subcommand)]
    command: Option<TokensCommand>,

    #[command(flatten)]
    count: Count,
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// List tokenizers
    List,
    Calibrate(Calibrate),
}

#[derive(Args, Debug)]
struct Count {
    /// Files [default: standard input]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    request: CountRequest,

    #[command(flatten)]
    format: FormatArguments,
}

/// Fit a safety factor from logged usage
///
/// Each line of the log is a JSON object with a "text" and the "tokens" that the provider reported; other fields are ignored.
#[derive(Args, Debug)]
pub(crate) struct Calibrate {
    /// Log; `-` is standard input
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    log: PathBuf,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    #[command(flatten)]
    format: FormatArguments,
}

impl Tokens {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match &self.command {
            Some(TokensCommand::List) => list(),
            Some(TokensCommand::Calibrate(command)) => command.run(),
            None => self.count.run(),
        }
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a file; `-` is standard input.
fn read(path: &Path) -> Result<String, CliError> {
    input::read_text_or_stdin(path, MAX_TEXT_BYTES)
}

fn list() -> Result<(), CliError> {
    let mut table = Table::new(output::terminal_width(), 0, &[]);
    for name in pannier_tokens::counter_names() {
        let counter = pannier_tokens::counter_by_name(name)?;
        table.row([
            name.to_owned(),
            counter.name().to_owned(),
            counter.exactness().name().to_owned(),
        ]);
    }
    table.row(["file:PATH", "a tokenizer.json", "exact"].map(str::to_owned));
    table.row(["NAME x FACTOR", "any of them times a factor", "upper bound"].map(str::to_owned));
    output::print(&table.render(false))
}

impl Count {
    fn run(&self) -> Result<(), CliError> {
        let stdin = [PathBuf::from("-")];
        let files = if self.files.is_empty() { &stdin[..] } else { &self.files };
        let mut request = self.request.clone();
        request.texts = files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let answer = run::run(request, &config::shelf()?)?;
        let text = || {
            let mut table = Table::new(output::max_line_width(), 0, &[true, false]);
            for (path, count) in files.iter().zip(&answer.counts) {
                let name = path.display().to_string();
                let name = if is_stdin(path) { "standard input".to_owned() } else { name };
                table.row([count.tokens.to_string(), name]);
            }
            if answer.counts.len() > 1 {
                table.row([answer.total.to_string(), "in all".to_owned()]);
            }
            format!("{}\n{} ({})\n", table.render(false), answer.tokenizer, answer.exactness)
        };
        output::print_answer(self.format.format.is_json(), || &answer, text)
    }
}

impl Calibrate {
    fn run(&self) -> Result<(), CliError> {
        #[derive(Deserialize)]
        struct Pair {
            text: String,
            tokens: u64,
        }

        #[derive(Serialize)]
        struct Answer<'a> {
            tokenizer: &'a str,
            pairs: usize,
            mean: f64,
            bound: f64,
            covered_share: f64,
            confidence: f64,
        }

        let counter = self.tokenizer.counter()?;
        let log = read(&self.log)?;
        let mut pairs: Vec<Pair> = Vec::new();
        for (line, number) in log.lines().zip(1..) {
            if line.trim().is_empty() {
                continue;
            }
            pairs.push(serde_json::from_str(line).map_err(|error| {
                let problem = format!("{error}; write {{\"text\": \"...\", \"tokens\": 12}}");
                CliError::input_line(&self.log, number, problem)
            })?);
        }
        let pairs = pairs.iter().map(|pair| (pair.text.as_str(), pair.tokens));
        let calibration = pannier_tokens::calibrate(&*counter, pairs)?;
        let Calibration { pairs, mean, bound, covered_share, .. } = calibration;
        let name = counter.name();
        let advice = match bound {
            bound if bound < 1.0 => format!("{name} itself is a bound for all of them.\n"),
            bound if bound > 100.0 => {
                "No bound of that size is of use: is this a log of whole requests, or of another model?\n"
                    .to_owned()
            }
            bound => format!(
                "--tokenizer '{name} x {bound}' is a bound for at least {:.1} % of such texts, with a confidence of \
                 95 %.\n",
                covered_share * 100.0
            ),
        };
        let text = || {
            format!(
                "From {pairs} logged: on average the model counts {mean:.3} times what {name} counts, at most \
                 {bound:.3} times.\n{advice}"
            )
        };
        let confidence = 0.95;
        let answer = || Answer { tokenizer: name, pairs, mean, bound, covered_share, confidence };
        output::print_answer(self.format.format.is_json(), answer, text)
    }
}
