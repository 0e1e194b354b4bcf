//! A connection that is given up if nobody takes what is written to it.
//!
//! There are few places for connections. A client that sends requests and never reads would keep its place for good, and
//! some of them all of the places.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail if they wait for so long.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// When the present wait is over.
    end: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        let end = Box::pin(tokio::time::sleep(patience));
        Self { stream, patience, end, is_waiting: false }
    }

    /// Passes on what became of a write, unless it has waited for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.end.as_mut().reset(Instant::now() + self.patience);
        }
        self.end.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_reader_that_never_reads_is_given_up_and_a_slow_one_is_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (client, server) = tokio::io::duplex(8);
            let mut server = Patient::new(server, Duration::from_millis(50));
            let error = server.write_all(&[0; 100]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(client);

            let (mut client, server) = tokio::io::duplex(8);
            let mut server = Patient::new(server, Duration::from_secs(60));
            let reading = tokio::spawn(async move {
                let mut bytes = [0; 1];
                for _ in 0..100 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    client.read_exact(&mut bytes).await.unwrap();
                }
            });
            server.write_all(&[0; 100]).await.unwrap();
            reading.await.unwrap();
        });
    }
}
