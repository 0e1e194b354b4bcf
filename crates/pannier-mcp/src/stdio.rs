//! The protocol over standard input and output: one message a line.
//!
//! Two threads read and write, because standard streams block. Lines have a bound: a longer one is skipped as it comes, never
//! held, and answered with an error, as is one that is no JSON or no message. The SDK's own transport would be silent there,
//! and a client would wait for an answer that never comes. Few requests are open at a time, from when they are read until
//! their answers are written, so a client that does not read stops being read.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage, serve_directly_with_ct};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::ServeError;
use crate::handler::Handler;
use crate::message::{BEGINNING, Read, beginning_id, message};
use crate::pending::Pending;

/// How many messages wait in each direction.
const WAITING: usize = 64;

/// How often is looked whether everything is answered, once nothing more is asked.
const LOOKING: Duration = Duration::from_millis(10);

/// How long a client that is leaving may take to read its last answers.
const LEAVING: Duration = Duration::from_secs(5);

/// Serves whoever writes to standard input, until that is closed.
pub(crate) fn serve(handler: Arc<Handler>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .map_err(ServeError::io("start threads"))?;
    let most = handler.limits.input;
    let closed = CancellationToken::new();
    let (outgoing, to_write) = mpsc::channel(WAITING);
    let (to_serve, incoming) = mpsc::channel(WAITING);
    let pending = Pending::default();
    let (writing, is_written) = std::sync::mpsc::channel::<()>();
    {
        let closed = closed.clone();
        spawn("writer", move || {
            write(to_write, &closed);
            drop(writing);
        })?;
    }
    let reader = Reader { most, outgoing: outgoing.clone(), pending: pending.clone() };
    // It is not waited for: what it waits for may never come.
    spawn("reader", move || reader.run(io::stdin().lock(), &to_serve))?;
    let time = handler.limits.time;
    let transport = Lines { incoming, outgoing: Some(outgoing), pending, closed, time };
    runtime.block_on(async {
        let service = serve_directly_with_ct(handler, transport, None, CancellationToken::new());
        // However it ends, there is nobody left to serve.
        let _ = service.waiting().await;
    });
    runtime.shutdown_background();
    // What is on its way is still written, unless nobody reads it.
    let _ = is_written.recv_timeout(LEAVING);
    Ok(())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), ServeError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(ServeError::io("start a thread"))
}

/// A line to write, and whom to tell that it is written.
type Line = (Vec<u8>, Option<oneshot::Sender<io::Result<()>>>);

fn write(mut lines: mpsc::Receiver<Line>, closed: &CancellationToken) {
    let mut output = io::stdout().lock();
    while let Some((line, told)) = lines.blocking_recv() {
        let written = output.write_all(&line).and_then(|()| output.flush());
        let is_closed = written.is_err();
        if let Some(told) = told {
            // Whoever does not wait any longer need not know.
            let _ = told.send(written);
        }
        if is_closed {
            closed.cancel();
            return;
        }
    }
}

struct Reader {
    most: usize,
    outgoing: mpsc::Sender<Line>,
    pending: Pending,
}

impl Reader {
    fn run(&self, mut input: impl BufRead, to_serve: &mpsc::Sender<ClientJsonRpcMessage>) {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = match read_line(&mut input, &mut line, self.most) {
                Ok(Found::End) | Err(_) => return,
                Ok(Found::Line) => message(&line),
                Ok(Found::TooLong) => {
                    let problem = format!("a message may have {} bytes; send less", self.most);
                    Read::Refused(beginning_id(&line), ErrorData::invalid_request(problem, None))
                }
            };
            let is_served = match read {
                Read::Nothing => true,
                Read::Message(message) => self.pass(*message, to_serve),
                Read::Refused(id, error) => self.refuse(id, error),
            };
            if !is_served {
                return;
            }
        }
    }

    fn pass(
        &self,
        message: ClientJsonRpcMessage,
        to_serve: &mpsc::Sender<ClientJsonRpcMessage>,
    ) -> bool {
        match &message {
            JsonRpcMessage::Request(request) if !self.pending.add(&request.id) => {
                let problem =
                    "a request of this id waits for its answer, or was cancelled; use another one";
                let error = ErrorData::invalid_request(problem, None);
                return self.refuse(Some(request.id.clone()), error);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending.cancel(id);
                }
            }
            _ => {}
        }
        to_serve.blocking_send(message).is_ok()
    }

    fn refuse(&self, id: Option<RequestId>, error: ErrorData) -> bool {
        let Some(line) = written(&ServerJsonRpcMessage::error(error, id)) else { return true };
        self.outgoing.blocking_send((line, None)).is_ok()
    }
}

/// What was found where a line should be.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Line,
    TooLong,
    End,
}

/// Reads a line, without its end, of at most so many bytes. Of a longer one, the beginning is read and the rest skipped.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<Found> {
    let mut is_too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            // A last line without an end is one, too.
            return Ok(match (is_too_long, line.is_empty()) {
                (true, _) => Found::TooLong,
                (false, true) => Found::End,
                (false, false) => Found::Line,
            });
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if !is_too_long {
            line.extend_from_slice(&part[..part.len().min(most + 1 - line.len())]);
            is_too_long = line.len() > most;
            if is_too_long {
                // It is of no use but for the id that it begins with.
                line.truncate(BEGINNING);
                line.shrink_to_fit();
            }
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { Found::TooLong } else { Found::Line });
        }
    }
}

fn written(message: &TxJsonRpcMessage<RoleServer>) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(message).ok()?;
    line.push(b'\n');
    Some(line)
}

/// Messages by lines.
struct Lines {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: Option<mpsc::Sender<Line>>,
    pending: Pending,
    closed: CancellationToken,
    /// How long a call may take.
    time: Duration,
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let answered = id.and_then(|id| self.pending.free(&id));
        let outgoing = self.outgoing.clone();
        async move {
            let _answered = answered;
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let outgoing = outgoing.ok_or_else(closed)?;
            let line = written(&message).ok_or(io::ErrorKind::InvalidData)?;
            let (told, is_written) = oneshot::channel();
            outgoing.send((line, Some(told))).await.map_err(|_| closed())?;
            is_written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = tokio::select! {
            message = self.incoming.recv() => message,
            () = self.closed.cancelled() => return None,
        };
        if message.is_none() {
            // Who has asked and closed the pipe behind that still wants answers.
            let end = Instant::now() + self.time;
            while !self.pending.is_empty() && Instant::now() < end && !self.closed.is_cancelled() {
                tokio::time::sleep(LOOKING).await;
            }
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        self.pending.close();
        Ok(())
    }
}

/// Lines of any bytes, in pieces of any size.
#[cfg(fuzzing)]
pub(crate) fn fuzz(data: &[u8]) {
    let mut input = io::BufReader::with_capacity(7, data);
    loop {
        let mut line = Vec::new();
        match read_line(&mut input, &mut line, 64) {
            Ok(Found::End) | Err(_) => return,
            Ok(Found::TooLong) => {
                assert_eq!(line.len(), 65);
                let _ = beginning_id(&line);
            }
            Ok(Found::Line) => {
                assert!(line.len() <= 64);
                let _ = message(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, most: usize) -> Vec<(Found, String)> {
        // A small buffer, so that lines come in pieces.
        let mut input = io::BufReader::with_capacity(3, text.as_bytes());
        let mut found = Vec::new();
        loop {
            let mut line = Vec::new();
            match read_line(&mut input, &mut line, most).unwrap() {
                Found::End => return found,
                other => found.push((other, String::from_utf8(line).unwrap())),
            }
        }
    }

    #[test]
    fn long_lines_are_skipped_and_others_are_not() {
        let text = "short\n\nmuch too long\nlast";
        let expected = [
            (Found::Line, "short"),
            (Found::Line, ""),
            (Found::TooLong, "much t"),
            (Found::Line, "last"),
        ];
        assert_eq!(lines(text, 5), expected.map(|(found, line)| (found, line.to_owned())));
        assert_eq!(lines("much too long", 5), [(Found::TooLong, "much t".to_owned())]);
        let long = "x".repeat(3 * BEGINNING);
        assert_eq!(lines(&long, 2 * BEGINNING)[0].1.len(), BEGINNING);
        assert_eq!(lines("", 5), []);
    }
}
