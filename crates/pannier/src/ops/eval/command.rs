//! Foreign commands as policies: a request on standard input, a request on standard output.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pannier_chat::replay::{BlockReader, ReplayMessage, ReplayPolicy, request_json};

use crate::Failure;
use crate::ops::Control;

/// The maximum size of a command's output.
const MAX_OUTPUT_BYTES: u64 = 1 << 28;

/// The maximum length of a reason that a command prints.
const MAX_REASON_CHARS: usize = 200;

/// The time between two checks whether the run was stopped.
const POLL: Duration = Duration::from_millis(50);

/// A command that fits requests. It lives as long as a session.
pub(super) struct ForeignCommand<'r> {
    template: &'r str,
    budget: i64,
    timeout: Duration,
    control: &'r Control<'r>,
    folder: TemporaryFolder,
    has_previous: bool,
}

impl<'r> ForeignCommand<'r> {
    /// Creates a command. In the template, `{budget}`, `{state}` and `{prev}` are placeholders.
    pub(super) fn new(
        template: &'r str,
        budget: i64,
        timeout: Duration,
        control: &'r Control<'r>,
    ) -> Result<Self, Failure> {
        let folder = TemporaryFolder::new()
            .map_err(|error| Failure::Read { name: "the temporary folder".to_owned(), error })?;
        Ok(Self { template, budget, timeout, control, folder, has_previous: false })
    }

    fn command_line(&self) -> String {
        let previous = match self.has_previous {
            true => quote(&self.folder.0.join("previous.json")),
            false => "/dev/null".to_owned(),
        };
        self.template
            .replace("{budget}", &self.budget.to_string())
            .replace("{state}", &quote(&self.folder.0.join("state")))
            .replace("{prev}", &previous)
    }

    /// Runs the command and returns its output.
    fn call(&self, request: String) -> Result<Vec<u8>, String> {
        let mut child = spawn(&self.command_line()).map_err(|error| error.to_string())?;
        let result = self.wait(&mut child, request);
        if result.is_err() {
            kill(&mut child);
        }
        result
    }

    fn wait(&self, child: &mut Child, request: String) -> Result<Vec<u8>, String> {
        let deadline = Instant::now() + self.timeout;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read its input closes it; then its exit code matters.
            thread::spawn(move || stdin.write_all(request.as_bytes()));
        }
        let output = child.stdout.take().map(read_all);
        let errors = child.stderr.take().map(read_all);
        let receive = |bytes: Option<Receiver<Vec<u8>>>| match bytes {
            Some(bytes) => self.receive(&bytes, deadline),
            None => Ok(Vec::new()),
        };
        let (output, errors) = (receive(output)?, receive(errors)?);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => self.check(deadline)?,
                Err(error) => return Err(error.to_string()),
            }
            thread::sleep(Duration::from_millis(1));
        };
        if status.success() {
            return Ok(output);
        }
        let reason: String =
            String::from_utf8_lossy(&errors).trim().chars().take(MAX_REASON_CHARS).collect();
        Err(if reason.is_empty() { status.to_string() } else { reason })
    }

    fn receive(&self, bytes: &Receiver<Vec<u8>>, deadline: Instant) -> Result<Vec<u8>, String> {
        loop {
            match bytes.recv_timeout(POLL) {
                Ok(bytes) => return Ok(bytes),
                Err(RecvTimeoutError::Timeout) => self.check(deadline)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
            }
        }
    }

    fn check(&self, deadline: Instant) -> Result<(), String> {
        if self.control.is_stopped() {
            return Err("stopped".to_owned());
        }
        match Instant::now() < deadline {
            true => Ok(()),
            false => Err(format!("no answer within {} s", self.timeout.as_secs())),
        }
    }
}

impl ReplayPolicy for ForeignCommand<'_> {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        let output = self.call(request_json(history))?;
        let text = String::from_utf8(output).map_err(|_| "the output is not UTF-8".to_owned())?;
        let messages = reader
            .read_request(&text)
            .map_err(|error| format!("the output is not a request: {error}"))?;
        let previous = self.folder.0.join("previous.json");
        fs::write(previous, text).map_err(|error| error.to_string())?;
        self.has_previous = true;
        Ok(messages)
    }
}

fn spawn(line: &str) -> io::Result<Child> {
    #[cfg(unix)]
    let mut command = {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("sh");
        // A group of its own, so that its children can be ended with it.
        command.arg("-c").arg(line).process_group(0);
        command
    };
    #[cfg(not(unix))]
    let mut command = {
        let mut command = Command::new("cmd");
        command.arg("/C").arg(line);
        command
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Ends a command. If that fails, it has ended already.
fn kill(child: &mut Child) {
    #[cfg(unix)]
    {
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads a stream to its end on a thread, because a full pipe would block the command.
fn read_all(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if stream.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).is_ok() {
            // Nobody listens after a timeout.
            let _ = sender.send(bytes);
        }
    });
    receiver
}

/// Quotes a path for the shell.
fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// A folder that is removed with its contents.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pannier-eval-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A leftover folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
