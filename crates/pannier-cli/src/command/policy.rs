//! `pannier policy`: lists, shows and checks policies.

use clap::{Subcommand, ValueHint};
use pannier_policy::{Policy, PolicyRegistry};

use crate::error::CliError;
use crate::input;
use crate::output;
use crate::run::{Format, formats};
use crate::table::{Table, printable};

/// List, print and validate policies
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  pannier policy list
  pannier policy show rag > mine.toml
  pannier policy check mine.toml
  pannier policy schema > policy.schema.json")]
pub(crate) enum Policies {
    /// List presets
    List,
    /// Print a policy
    Show {
        /// Preset, .toml or .json file
        #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
        policy: String,
        /// Output format: toml or json
        #[arg(long, short, value_name = "F", default_value = "toml", hide_default_value = true,
            value_parser = formats(&[Format::Toml, Format::Json]), hide_possible_values = true)]
        format: Format,
    },
    /// Validate policies; exits with 1 if one is invalid
    Check {
        /// Presets, .toml or .json files
        #[arg(value_name = "NAME|FILE", required = true, value_hint = ValueHint::FilePath)]
        policies: Vec<String>,
    },
    /// Print the JSON Schema of policies
    Schema,
}

impl Policies {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let registry = PolicyRegistry::default();
        output::print(&match self {
            Self::List => {
                let mut table = Table::new(output::terminal_width(), 0, &[]);
                for (name, policy) in registry.policies() {
                    table.row([
                        name.to_owned(),
                        policy.description().unwrap_or_default().to_owned(),
                    ]);
                }
                table.render(false)
            }
            Self::Show { policy, format } => {
                serialize(&input::read_policy(&registry, policy)?, *format)?
            }
            Self::Check { policies } => {
                let (mut is_clean, mut read_error, mut report) = (true, None, String::new());
                for name in policies {
                    // A policy may leave the reference time to --now; any time will do here.
                    let now = "2000-01-01T00:00:00Z".parse().ok();
                    let checked = input::read_policy(&registry, name).and_then(|policy| {
                        let path = Some(name.into());
                        let pipeline = registry.pipeline(&policy, now);
                        pipeline
                            .map_err(|error| CliError::LibraryAt { path, failure: error.into() })
                    });
                    match checked {
                        Ok(_) => report.push_str(&format!("{name}: ok\n")),
                        Err(error @ CliError::Io { .. }) => {
                            read_error = read_error.or(Some(error));
                        }
                        Err(error) => {
                            is_clean = false;
                            report.push_str(&format!("{error}\n"));
                        }
                    }
                }
                let written = output::print(&printable(&report));
                return match read_error {
                    Some(error) => Err(error),
                    None => CliError::check_failed(written, is_clean),
                };
            }
            #[cfg(not(feature = "schema"))]
            Self::Schema => {
                let problem = "this command was compiled without the schema; compile it with `--features schema`";
                return Err(CliError::Usage(problem.to_owned()));
            }
            #[cfg(feature = "schema")]
            Self::Schema => {
                let schema = serde_json::to_string_pretty(&Policy::schema());
                schema.map_err(|error| CliError::Internal(error.to_string()))? + "\n"
            }
        })
    }
}

fn serialize(policy: &Policy, format: Format) -> Result<String, CliError> {
    match format {
        Format::Json => serde_json::to_string_pretty(policy)
            .map(|text| text + "\n")
            .map_err(|error| error.to_string()),
        _ => toml::to_string(policy).map_err(|error| error.to_string()),
    }
    .map_err(CliError::Internal)
}
