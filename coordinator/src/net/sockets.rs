//! The open sockets of a coordinator that may have to close all of them at once.

use nix::sys::socket::{Shutdown, shutdown};
use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// All open sockets of one run. Clones share them.
#[derive(Clone, Default, Debug)]
pub(crate) struct OpenSockets(Arc<Mutex<Descriptors>>);

#[derive(Default, Debug)]
struct Descriptors {
    open: HashSet<RawFd>,
    /// True after [`OpenSockets::shut_down`].
    are_shut: bool,
}

impl OpenSockets {
    /// Adds a socket until it is dropped.
    pub(super) fn add(&self, stream: TcpStream) -> OpenSocket {
        let descriptor = stream.as_raw_fd();
        let mut descriptors = self.lock();
        descriptors.open.insert(descriptor);
        if descriptors.are_shut {
            close(descriptor);
        }
        OpenSocket { stream, sockets: self.clone() }
    }

    /// Ends all connections, and each later one at its start. A peer sees it at once, even if the task of its connection
    /// waits for a database that does not answer.
    pub(crate) fn shut_down(&self) {
        let mut descriptors = self.lock();
        descriptors.are_shut = true;
        for descriptor in &descriptors.open {
            close(*descriptor);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Descriptors> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number is removed under the lock before the socket is closed, so it can't belong to another file here.
fn close(descriptor: RawFd) {
    // The peer may have ended the connection already.
    let _not_connected = shutdown(descriptor, Shutdown::Both);
}

/// A socket of [`OpenSockets`].
#[derive(Debug)]
pub(super) struct OpenSocket {
    stream: TcpStream,
    sockets: OpenSockets,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.sockets.lock().open.remove(&self.stream.as_raw_fd());
    }
}

impl AsyncRead for OpenSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for OpenSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::OpenSockets;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    /// Returns both ends of a connection.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let peer = TcpStream::connect(listener.local_addr().expect("it is bound")).await;
        let (stream, _) = listener.accept().await.expect("a peer connects");
        (stream, peer.expect("the listener accepts"))
    }

    #[tokio::test]
    async fn a_peer_reads_the_end_of_each_open_and_each_later_connection() {
        let sockets = OpenSockets::default();
        let (stream, mut early) = connected().await;
        let held = sockets.add(stream);
        let (stream, mut dropped) = connected().await;
        drop(sockets.add(stream));
        assert_eq!(dropped.read(&mut [0]).await.expect("it is readable"), 0);
        assert_eq!(sockets.lock().open.len(), 1);
        sockets.shut_down();
        assert_eq!(early.read(&mut [0]).await.expect("it is readable"), 0);
        let (stream, mut late) = connected().await;
        let other = sockets.add(stream);
        assert_eq!(late.read(&mut [0]).await.expect("it is readable"), 0);
        drop((held, other));
        assert!(sockets.lock().open.is_empty());
    }
}
