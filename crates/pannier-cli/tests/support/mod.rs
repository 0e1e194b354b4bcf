//! A server process that listens over HTTP.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

pub(crate) struct HttpServer {
    child: Child,
    pub(crate) address: String,
    /// Reads standard error to its end.
    log: Option<JoinHandle<String>>,
}

impl HttpServer {
    /// Runs a command that serves, and waits until it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{first}");
            if let Some(url) = line.trim().strip_prefix("listening at http://") {
                break url.strip_suffix("/mcp").unwrap_or(url).to_owned();
            }
            first.push_str(&line);
        };
        let log = std::thread::spawn(move || {
            let mut text = first;
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Self { child, address, log: Some(log) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, and returns the exit code and the log.
    #[cfg(unix)]
    pub(crate) fn terminate(mut self) -> (Option<i32>, String) {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(kill.unwrap().success());
        let code = self.child.wait().unwrap().code();
        (code, self.log.take().unwrap().join().unwrap())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
