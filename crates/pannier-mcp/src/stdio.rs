//! The protocol over standard input and output: one message per line.
//!
//! Standard streams block, so one thread reads and one writes. A line above the limit is skipped without being buffered. It is
//! answered with an error, as is a line that is not a JSON-RPC message; the SDK's transport would stay silent and its client
//! would wait forever. The number of requests in flight is bounded, which stops reading from a client that does not read.

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
use crate::in_flight::InFlightRequests;
use crate::message::{MAX_PREVIEW_BYTES, ParsedMessage, parse, preview_id};

/// The number of messages that wait in each direction.
const CHANNEL_CAPACITY: usize = 64;

/// The interval at which a closed input checks whether all requests are answered.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The time in which a client that closed its input can read the last responses.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the client on standard input until it closes the stream.
pub(crate) fn serve(handler: Arc<Handler>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .map_err(ServeError::io("start threads"))?;
    let max_bytes = handler.limits.input;
    let closed = CancellationToken::new();
    let (outgoing, to_write) = mpsc::channel(CHANNEL_CAPACITY);
    let (to_serve, incoming) = mpsc::channel(CHANNEL_CAPACITY);
    let in_flight = InFlightRequests::default();
    let (writing, is_written) = std::sync::mpsc::channel::<()>();
    {
        let closed = closed.clone();
        spawn("writer", move || {
            write(to_write, &closed);
            drop(writing);
        })?;
    }
    let reader = Reader { max_bytes, outgoing: outgoing.clone(), in_flight: in_flight.clone() };
    // The reader is not joined: it may block on input that never comes.
    spawn("reader", move || reader.run(io::stdin().lock(), &to_serve))?;
    let time = handler.limits.time;
    let transport = LineTransport { incoming, outgoing: Some(outgoing), in_flight, closed, time };
    runtime.block_on(async {
        let service = serve_directly_with_ct(handler, transport, None, CancellationToken::new());
        // Any end of the service means that the client is gone.
        let _ = service.waiting().await;
    });
    runtime.shutdown_background();
    // Let the writer finish, unless the client does not read.
    let _ = is_written.recv_timeout(DRAIN_TIMEOUT);
    Ok(())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), ServeError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(ServeError::io("start a thread"))
}

/// A line to write, and the receiver of the result.
type Line = (Vec<u8>, Option<oneshot::Sender<io::Result<()>>>);

fn write(mut lines: mpsc::Receiver<Line>, closed: &CancellationToken) {
    let mut output = io::stdout().lock();
    while let Some((line, result)) = lines.blocking_recv() {
        let written = output.write_all(&line).and_then(|()| output.flush());
        let is_closed = written.is_err();
        if let Some(result) = result {
            // The sender of the message may be gone.
            let _ = result.send(written);
        }
        if is_closed {
            closed.cancel();
            return;
        }
    }
}

struct Reader {
    max_bytes: usize,
    outgoing: mpsc::Sender<Line>,
    in_flight: InFlightRequests,
}

impl Reader {
    fn run(&self, mut input: impl BufRead, to_serve: &mpsc::Sender<ClientJsonRpcMessage>) {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = match read_line(&mut input, &mut line, self.max_bytes) {
                Ok(LineRead::End) | Err(_) => return,
                Ok(LineRead::Line) => parse(&line),
                Ok(LineRead::TooLong) => {
                    let problem =
                        format!("a message may have at most {} bytes; send less", self.max_bytes);
                    ParsedMessage::Rejected(
                        preview_id(&line),
                        ErrorData::invalid_request(problem, None),
                    )
                }
            };
            let is_served = match read {
                ParsedMessage::Ignored => true,
                ParsedMessage::Message(message) => self.dispatch(*message, to_serve),
                ParsedMessage::Rejected(id, error) => self.reject(id, error),
            };
            if !is_served {
                return;
            }
        }
    }

    /// Registers a request or a cancellation and passes the message on. Returns false if the service has ended.
    fn dispatch(
        &self,
        message: ClientJsonRpcMessage,
        to_serve: &mpsc::Sender<ClientJsonRpcMessage>,
    ) -> bool {
        match &message {
            JsonRpcMessage::Request(request) if !self.in_flight.add(&request.id) => {
                let problem =
                    "a request with this id is in flight or was cancelled; use another id";
                let error = ErrorData::invalid_request(problem, None);
                return self.reject(Some(request.id.clone()), error);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.in_flight.cancel(id);
                }
            }
            _ => {}
        }
        to_serve.blocking_send(message).is_ok()
    }

    fn reject(&self, id: Option<RequestId>, error: ErrorData) -> bool {
        let Some(line) = serialize(&ServerJsonRpcMessage::error(error, id)) else { return true };
        self.outgoing.blocking_send((line, None)).is_ok()
    }
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
enum LineRead {
    Line,
    TooLong,
    End,
}

/// Reads a line of at most `max_bytes`, without its end. Of a longer line, keeps the first [`MAX_PREVIEW_BYTES`] and skips
/// the rest.
fn read_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    max_bytes: usize,
) -> io::Result<LineRead> {
    let mut is_too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            // The last line may lack its end.
            return Ok(match (is_too_long, line.is_empty()) {
                (true, _) => LineRead::TooLong,
                (false, true) => LineRead::End,
                (false, false) => LineRead::Line,
            });
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if !is_too_long {
            line.extend_from_slice(&part[..part.len().min(max_bytes + 1 - line.len())]);
            is_too_long = line.len() > max_bytes;
            if is_too_long {
                // Only the id near the start is still needed.
                line.truncate(MAX_PREVIEW_BYTES);
                line.shrink_to_fit();
            }
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { LineRead::TooLong } else { LineRead::Line });
        }
    }
}

fn serialize(message: &TxJsonRpcMessage<RoleServer>) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(message).ok()?;
    line.push(b'\n');
    Some(line)
}

/// The transport: messages as lines.
struct LineTransport {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: Option<mpsc::Sender<Line>>,
    in_flight: InFlightRequests,
    closed: CancellationToken,
    /// The time limit of a call.
    time: Duration,
}

impl Transport<RoleServer> for LineTransport {
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
        let guard = id.and_then(|id| self.in_flight.release(&id));
        let outgoing = self.outgoing.clone();
        async move {
            let _guard = guard;
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let outgoing = outgoing.ok_or_else(closed)?;
            let line = serialize(&message).ok_or(io::ErrorKind::InvalidData)?;
            let (result, is_written) = oneshot::channel();
            outgoing.send((line, Some(result))).await.map_err(|_| closed())?;
            is_written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = tokio::select! {
            message = self.incoming.recv() => message,
            () = self.closed.cancelled() => return None,
        };
        if message.is_none() {
            // A client that closes its input after its last request still reads the responses.
            let end = Instant::now() + self.time;
            while !self.in_flight.is_empty() && Instant::now() < end && !self.closed.is_cancelled()
            {
                tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
            }
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        self.in_flight.close();
        Ok(())
    }
}

/// Entry point of the fuzzer: lines of any bytes, read in small pieces.
#[cfg(fuzzing)]
pub(crate) fn fuzz(data: &[u8]) {
    let mut input = io::BufReader::with_capacity(7, data);
    loop {
        let mut line = Vec::new();
        match read_line(&mut input, &mut line, 64) {
            Ok(LineRead::End) | Err(_) => return,
            Ok(LineRead::TooLong) => {
                assert_eq!(line.len(), 65);
                let _ = preview_id(&line);
            }
            Ok(LineRead::Line) => {
                assert!(line.len() <= 64);
                let _ = parse(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, max_bytes: usize) -> Vec<(LineRead, String)> {
        // The small buffer splits lines.
        let mut input = io::BufReader::with_capacity(3, text.as_bytes());
        let mut reads = Vec::new();
        loop {
            let mut line = Vec::new();
            match read_line(&mut input, &mut line, max_bytes).unwrap() {
                LineRead::End => return reads,
                other => reads.push((other, String::from_utf8(line).unwrap())),
            }
        }
    }

    #[test]
    fn lines_above_the_limit_are_skipped() {
        let text = "short\n\nmuch too long\nlast";
        let expected = [
            (LineRead::Line, "short"),
            (LineRead::Line, ""),
            (LineRead::TooLong, "much t"),
            (LineRead::Line, "last"),
        ];
        assert_eq!(lines(text, 5), expected.map(|(read, line)| (read, line.to_owned())));
        assert_eq!(lines("much too long", 5), [(LineRead::TooLong, "much t".to_owned())]);
        let long = "x".repeat(3 * MAX_PREVIEW_BYTES);
        assert_eq!(lines(&long, 2 * MAX_PREVIEW_BYTES)[0].1.len(), MAX_PREVIEW_BYTES);
        assert_eq!(lines("", 5), []);
    }
}
