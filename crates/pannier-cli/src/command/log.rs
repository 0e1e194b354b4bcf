//! The log of a server or a gateway.

use clap::Args;
use pannier_server::{LogFormat, LogGuard, LogLevel};

/// The format and the level of a log on standard error.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct LogArguments {
    /// Format of the log: text or json
    #[arg(
        long,
        value_name = "F",
        default_value = "text",
        help_heading = "Log",
        hide_short_help = true
    )]
    log_format: LogFormat,

    /// Level of the log: off, error, warn, info or debug
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Log",
        hide_short_help = true
    )]
    log_level: LogLevel,
}

impl LogArguments {
    /// Starts the log. Dropping the guard writes what is left.
    pub(super) fn start(self) -> LogGuard {
        pannier_server::init_logs(self.log_format, self.log_level)
    }
}
