//! Listener, plain or with TLS. Handshakes run concurrently, so that a slow one does not delay
//! others.

use super::idle::{RequestCount, UntilLink};
use super::pending_connections::{PendingConnection, PendingConnections};
use super::sockets::OpenSockets;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio_rustls::TlsAcceptor;

/// Capacity of the queue of connections after the handshake.
const ACCEPTED_MAX: usize = 64;
/// Maximum duration of a handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Delay after a failed accept: the process may be out of descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A connection, plain or with TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// The remote end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) address: SocketAddr,
    pub(crate) activity: Arc<RequestCount>,
}

/// A connection after its handshake.
type Accepted = (Box<dyn ByteStream>, Remote);

/// Passes connections to axum. Clones share the connections: a standby stops using its clone when it becomes the leader.
#[derive(Clone)]
pub(crate) struct Listener {
    address: SocketAddr,
    accepted: Arc<Mutex<mpsc::Receiver<Accepted>>>,
    sockets: OpenSockets,
}

/// Returns the TLS settings for the next connection; `None` for plain text.
pub(crate) type Acceptor = Box<dyn Fn() -> Option<TlsAcceptor> + Send>;

impl Listener {
    /// Accepts connections. `newcomers_max` limits the connections that are not a link yet.
    pub(crate) fn start(
        socket: std::net::TcpListener,
        acceptor: Acceptor,
        newcomers_max: usize,
    ) -> io::Result<Self> {
        let listener = TcpListener::from_std(socket)?;
        let address = listener.local_addr()?;
        let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        let sockets = OpenSockets::default();
        let pending_connections = PendingConnections::new(newcomers_max);
        tokio::spawn(accept(listener, acceptor, pending_connections, sockets.clone(), sender));
        Ok(Self { address, accepted: Arc::new(Mutex::new(accepted)), sockets })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn sockets(&self) -> &OpenSockets {
        &self.sockets
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Acceptor,
    pending_connections: PendingConnections,
    sockets: OpenSockets,
    sender: mpsc::Sender<Accepted>,
) {
    loop {
        let room = pending_connections.room().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = pending_connections.admit(peer.ip(), room);
                tokio::spawn(handshake(stream, place, peer, acceptor(), sockets.clone(), sender.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection can't be accepted");
                // If descriptors or memory are exhausted, an immediate retry fails too. No event
                // reports when they are available again.
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

async fn handshake(
    stream: TcpStream,
    mut place: PendingConnection,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    sockets: OpenSockets,
    sender: mpsc::Sender<Accepted>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "the connection ended before it began");
        return;
    }
    let stream = sockets.add(stream);
    let stream: Box<dyn ByteStream> = match acceptor {
        None => Box::new(stream),
        Some(acceptor) => {
            let accepted = tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream));
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                () = &mut place => return,
            };
            match accepted {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(error)) => {
                    tracing::debug!(%peer, %error, "no TLS handshake");
                    return;
                }
                Err(_) => return,
            }
        }
    };
    let remote = Remote { address: peer, activity: Arc::default() };
    let stream = UntilLink::new(stream, Some(place), remote.activity.clone());
    // An error means that the coordinator ends.
    let _ended = sender.send((Box::new(stream), remote)).await;
}

impl axum::serve::Listener for Listener {
    type Io = Box<dyn ByteStream>;
    type Addr = Remote;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.lock().await.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Remote { address: self.address, activity: Arc::default() })
    }
}
