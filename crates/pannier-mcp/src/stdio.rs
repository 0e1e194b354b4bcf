//! The protocol over standard input and output: one message a line.
//!
//! Two threads read and write, because standard streams block. Lines have a bound: a longer one is skipped as it comes, never
//! held, and answered with an error, as is one that is no JSON or no message. The SDK's own transport would be silent there,
//! and a client would wait for an answer that never comes. Few requests are open at a time, from when they are read until
//! their answers are written, so a client that does not read stops being read.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage, serve_directly_with_ct};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::ServeError;
use crate::handler::Handler;

/// How many messages wait in each direction.
const WAITING: usize = 64;

/// How many requests are open at a time, and how many cancelled ones are remembered.
const MOST_OPEN: usize = 128;
const MOST_CANCELLED: usize = 1_024;

/// How often is looked whether everything is answered, once nothing more is asked.
const LOOKING: Duration = Duration::from_millis(10);

/// So much is kept of a message that is too long.
const BEGINNING: usize = 4 << 10;

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

/// The requests that wait for an answer. Two of one id could not be told apart, and neither could one that is cancelled
/// and a new one: the work on it may still end.
#[derive(Clone, Debug, Default)]
struct Pending(Arc<(Mutex<Open>, Condvar)>);

#[derive(Debug, Default)]
struct Open {
    /// Their ids, until an answer is about to be written: from then on, a client may use them again.
    ids: Vec<RequestId>,
    /// How many there are, until their answers are written.
    count: usize,
    /// The last that were cancelled.
    cancelled: VecDeque<RequestId>,
    is_closed: bool,
}

impl Pending {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in, once there are few enough others. One with an id that is in use is refused.
    fn add(&self, id: &RequestId) -> bool {
        let is_full = |open: &mut Open| open.count >= MOST_OPEN && !open.is_closed;
        let waited = self.0.1.wait_while(self.open(), is_full);
        let mut open = waited.unwrap_or_else(PoisonError::into_inner);
        let is_new = !open.ids.contains(id) && !open.cancelled.contains(id);
        if is_new {
            open.ids.push(id.clone());
            open.count += 1;
        }
        is_new
    }

    /// Frees an id. Whoever does that for one in use says later that it is answered.
    fn free(&self, id: &RequestId) -> Option<Answered> {
        let mut open = self.open();
        let place = open.ids.iter().position(|other| other == id)?;
        open.ids.swap_remove(place);
        Some(Answered(self.clone()))
    }

    fn cancel(&self, id: &RequestId) {
        if self.free(id).is_some() {
            let mut open = self.open();
            open.cancelled.push_back(id.clone());
            if open.cancelled.len() > MOST_CANCELLED {
                open.cancelled.pop_front();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.open().count == 0
    }

    /// Nobody will answer any more.
    fn close(&self) {
        self.open().is_closed = true;
        self.0.1.notify_all();
    }
}

/// What one line turned out to be.
enum Read {
    Message(Box<ClientJsonRpcMessage>),
    Nothing,
    Refused(Option<RequestId>, ErrorData),
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

/// The id of a message of which only the beginning is known, as far as that goes: most clients write it before what is
/// long.
fn beginning_id(line: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(line);
    let (mut depth, mut is_key) = (0_usize, false);
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let name = values.next()?.ok()?;
                let end = values.byte_offset();
                if depth == 1 && is_key && name == "id" {
                    let value = rest[end..].trim_start().strip_prefix(':')?;
                    return serde_json::Deserializer::from_str(value).into_iter().next()?.ok();
                }
                is_key = false;
                end
            }
            _ => {
                match first {
                    '{' | '[' => depth += 1,
                    '}' | ']' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                is_key = matches!(first, '{' | ',') || is_key && first.is_whitespace();
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    None
}

/// What a line says.
fn message(line: &[u8]) -> Read {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    if let Some((id, error)) = wrong_cursor(line) {
        return Read::Refused(id, error);
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Read::Message(Box::new(message));
    }
    // Once more, slowly, to see what it is.
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let problem = format!("the line is no JSON: {error}");
            return Read::Refused(None, ErrorData::parse_error(problem, None));
        }
    };
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    if value.is_object() && value.get("method").is_some() && value.get("id").is_none() {
        // Nobody waits for an answer to a notification.
        return Read::Nothing;
    }
    let problem = match value {
        Value::Array(_) => "messages come one a line, not in batches",
        _ => "the line is no message of JSON-RPC 2.0",
    };
    Read::Refused(id, ErrorData::invalid_request(problem, None))
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

/// Takes a request off what is open, however its answer ends.
struct Answered(Pending);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.open().count -= 1;
        self.0.0.1.notify_all();
    }
}

/// Why a request for a list is refused whose cursor is no text. The SDK takes it for one without a cursor, and a client
/// would get the first page for ever.
pub(crate) fn wrong_cursor(message: &[u8]) -> Option<(Option<RequestId>, ErrorData)> {
    // Such a request is short.
    let value: Value =
        serde_json::from_slice(Some(message).filter(|it| it.len() <= BEGINNING)?).ok()?;
    value.get("method")?.as_str().filter(|method| method.ends_with("/list"))?;
    let cursor = value.get("params")?.get("cursor")?;
    let is_wrong = !cursor.is_string() && !cursor.is_null();
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    is_wrong.then(|| (id, ErrorData::invalid_params("the cursor is no text", None)))
}

/// Why something is no message, and its id, if it has one.
pub(crate) fn refusal(bytes: &[u8]) -> (Option<RequestId>, ErrorData) {
    match message(bytes) {
        Read::Refused(id, error) => (id, error),
        Read::Message(_) | Read::Nothing => {
            (None, ErrorData::invalid_request("this is no message that is expected here", None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_open_and_ids_are_used_once() {
        let pending = Pending::default();
        let id = |number: i64| RequestId::Number(number);
        assert!(pending.add(&id(0)) && !pending.add(&id(0)));
        pending.cancel(&id(0));
        assert!(pending.is_empty() && !pending.add(&id(0)), "what was cancelled may still end");
        for number in 1..=MOST_OPEN as i64 {
            assert!(pending.add(&id(number)));
        }
        let (waiting, other) = (pending.clone(), id(9_999));
        let thread = std::thread::spawn(move || waiting.add(&other));
        let answered = pending.free(&id(1));
        assert!(answered.is_some() && pending.free(&id(1)).is_none());
        drop(answered);
        assert!(thread.join().unwrap(), "one went, and another came in");
        assert_eq!(pending.open().count, MOST_OPEN);
        pending.close();
        assert!(pending.add(&id(1)), "nobody waits at the end");
    }

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

    #[test]
    fn the_id_of_a_long_message_is_found_if_it_comes_early() {
        let id = |line: &str| beginning_id(line.as_bytes()).map(|id| id.to_string());
        assert_eq!(
            id(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x"#).as_deref(),
            Some("7")
        );
        assert_eq!(
            id(r#" { "params" : {"id":1,"a":["id",2]}, "id" : "a\"b" , "x"#).as_deref(),
            Some("a\"b")
        );
        for none in [
            "",
            "{",
            r#"{"params":{"id":1,"#,
            r#"{"a":"id":1"#,
            r#"["id",1]"#,
            r#"{"id":"#,
            r#"{"id":{}}"#,
            "}}",
            "\"",
            "\u{0}",
        ] {
            assert_eq!(id(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id() {
        let refused = |line: &str| match message(line.as_bytes()) {
            Read::Refused(id, error) => Some((id.map(|id| id.to_string()), error.code.0)),
            _ => None,
        };
        assert_eq!(refused("{"), Some((None, -32_700)));
        assert_eq!(refused(&"[".repeat(1_000)), Some((None, -32_700)));
        assert_eq!(refused("[]"), Some((None, -32_600)));
        assert_eq!(refused("3"), Some((None, -32_600)));
        assert_eq!(refused(r#"{"id":7,"method":"ping"}"#), Some((Some("7".to_owned()), -32_600)));
        let list = |cursor: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"resources/list","params":{{"cursor":{cursor}}}}}"#
            )
        };
        assert_eq!(refused(&list("5")), Some((Some("3".to_owned()), -32_602)));
        assert_eq!((refused(&list("\"x\"")), refused(&list("null"))), (None, None));
        assert!(matches!(message(b" \r"), Read::Nothing));
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(matches!(message(ping), Read::Message(_)));
    }
}
