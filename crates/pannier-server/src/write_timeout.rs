//! A write timeout for connections.
//!
//! The number of connections is bounded. Without a timeout, clients that send requests and never read the responses would
//! occupy all of them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail when they make no progress for `timeout`.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// The deadline of the current write.
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, timeout: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(timeout));
        Self { stream, timeout, deadline, is_waiting: false }
    }

    /// Returns the result of a write, or an error if it is pending past the deadline.
    fn poll_with_deadline<T>(
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
            self.deadline.as_mut().reset(Instant::now() + self.timeout);
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.poll_with_deadline(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.poll_with_deadline(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.poll_with_deadline(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn writes_time_out_only_without_progress() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (client, server) = tokio::io::duplex(8);
            let mut server = WriteTimeout::new(server, Duration::from_millis(50));
            let error = server.write_all(&[0; 100]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(client);

            let (mut client, server) = tokio::io::duplex(8);
            let mut server = WriteTimeout::new(server, Duration::from_secs(60));
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
