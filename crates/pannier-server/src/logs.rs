//! Logs on standard error, as text or JSON.
//!
//! A thread of its own writes the lines. So a reader that does not read, such as a full pipe, stops the log and not the
//! server: lines above the limit are dropped.

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

/// The number of lines that wait to be written.
const MAX_WAITING_LINES: usize = 4_096;

/// The time for the last lines when the server ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The form of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object on each line.
    Json,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("write text or json"),
        }
    }
}

/// The least important events that a log has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Faults of the server.
    Error,
    /// Problems that need attention.
    Warn,
    /// Every request.
    #[default]
    Info,
    /// Connections, too.
    Debug,
}

impl FromStr for LogLevel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err("write off, error, warn, info or debug"),
        }
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

/// Waits for the last lines of the log when it is dropped.
#[derive(Debug)]
pub struct LogGuard {
    lines: Option<SyncSender<Vec<u8>>>,
    written: Receiver<()>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        // An empty line is the last one.
        if let Some(lines) = self.lines.take() {
            let _ = lines.try_send(Vec::new());
        }
        let _ = self.written.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Sends the server's log to standard error, for this process. Only the first call has an effect.
///
/// Events of other libraries are left out: some contain messages of clients.
pub fn init_logs(format: LogFormat, level: LogLevel) -> LogGuard {
    let (lines, waiting) = sync_channel::<Vec<u8>>(MAX_WAITING_LINES);
    let (writing, written) = sync_channel(0);
    let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        for line in waiting {
            if line.is_empty() || io::stderr().lock().write_all(&line).is_err() {
                break;
            }
        }
        drop(writing);
    });
    // Without a thread, lines are dropped.
    drop(thread);
    let writer = LineWriter(lines.clone());
    let own =
        Targets::new().with_target("pannier_server", level).with_target("pannier_gateway", level);
    let layer = fmt::layer().with_writer(writer).with_target(false).with_ansi(false);
    let subscriber = tracing_subscriber::registry();
    // An error means that another log is set.
    let _ = match format {
        LogFormat::Text => {
            tracing::subscriber::set_global_default(subscriber.with(layer.with_filter(own)))
        }
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_filter(own);
            tracing::subscriber::set_global_default(subscriber.with(layer))
        }
    };
    LogGuard { lines: Some(lines), written }
}

/// Writes each line into a channel.
#[derive(Clone, Debug)]
struct LineWriter(SyncSender<Vec<u8>>);

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full channel drops the line.
        let _ = self.0.try_send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LineWriter {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}
