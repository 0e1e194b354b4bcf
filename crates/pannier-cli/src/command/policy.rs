//! `pannier policy`: policies as files.

use clap::{Subcommand, ValueEnum, ValueHint};
use pannier_policy::{Policy, PolicyRegistry};

use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};
use crate::table::{Table, printable};

/// List, show and check policies
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  pannier policy list
  pannier policy show rag > mine.toml
  pannier policy check mine.toml
  pannier policy schema > policy.schema.json")]
pub(crate) enum Policies {
    /// List the presets
    List,
    /// Show a policy, to read it or to start your own from it
    Show {
        /// A preset, or a .toml or .json file
        #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
        policy: String,
        /// How it is written
        #[arg(long, short, value_enum, default_value_t)]
        format: PolicyFormat,
    },
    /// Check policies; the exit code is 1 if one of them cannot be used
    Check {
        /// Presets, or .toml or .json files
        #[arg(value_name = "NAME|FILE", required = true, value_hint = ValueHint::FilePath)]
        policies: Vec<String>,
    },
    /// Print the JSON Schema of policies, for editors
    Schema,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyFormat {
    /// TOML
    #[default]
    Toml,
    /// JSON
    Json,
}

impl Policies {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let registry = PolicyRegistry::default();
        let mut output = Output::new();
        match self {
            Self::List => {
                let mut table = Table::new(output::width(), 0, &[]);
                for (name, policy) in registry.policies() {
                    table.row([
                        name.to_owned(),
                        policy.description().unwrap_or_default().to_owned(),
                    ]);
                }
                output.text(&table.render(false))?;
            }
            Self::Show { policy, format } => {
                let policy = input::read_policy(&registry, policy)?;
                output.text(&written(&policy, *format)?)?;
            }
            Self::Check { policies } => {
                let (mut is_clean, mut unreadable, mut told) = (true, None, String::new());
                for name in policies {
                    // A decay scorer may leave the time to whoever uses the policy.
                    let now = "2000-01-01T00:00:00Z".parse().ok();
                    let checked = input::read_policy(&registry, name).and_then(|policy| {
                        let path = Some(name.into());
                        let pipeline = registry.pipeline(&policy, now);
                        pipeline
                            .map_err(|error| CliError::LibraryAt { path, failure: error.into() })
                    });
                    match checked {
                        Ok(_) => told.push_str(&format!("{name}: ok\n")),
                        Err(failure @ CliError::Io { .. }) => {
                            unreadable = unreadable.or(Some(failure));
                        }
                        Err(failure) => {
                            is_clean = false;
                            told.push_str(&format!("{failure}\n"));
                        }
                    }
                }
                let written = output.text(&printable(&told)).and_then(|()| output.finish());
                return match unreadable {
                    Some(failure) => Err(failure),
                    None => CliError::check_failed(written, is_clean),
                };
            }
            Self::Schema => {
                let schema = serde_json::to_string_pretty(&Policy::schema());
                output.text(&schema.map_err(|error| CliError::Internal(error.to_string()))?)?;
                output.text("\n")?;
            }
        }
        output.finish()
    }
}

fn written(policy: &Policy, format: PolicyFormat) -> Result<String, CliError> {
    match format {
        PolicyFormat::Toml => toml::to_string(policy).map_err(|error| error.to_string()),
        PolicyFormat::Json => serde_json::to_string_pretty(policy)
            .map(|text| text + "\n")
            .map_err(|error| error.to_string()),
    }
    .map_err(CliError::Internal)
}
