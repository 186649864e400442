//! Transports of MCP messages: standard input and output, or HTTP.

mod access;
mod http;
mod line_transport;
mod message;
mod origins;
mod request_body;
mod stdio;

pub use http::{HttpServer, serve_http};
pub use stdio::serve_stdio;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason why a gateway can't serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use or does not belong to this machine.
    #[error("{address} can't be listened on")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The gateway would accept requests without tokens from other machines.
    #[error(
        "`--http-auth none` is for loopback only, and {address} can be reached from elsewhere; use 127.0.0.1 or \
         `--http-auth token`"
    )]
    OpenBeyondLoopback {
        /// The requested address.
        address: SocketAddr,
    },
    /// Tokens would be sent unencrypted.
    #[error(
        "{address} can be reached from elsewhere and tokens would travel unencrypted; listen on 127.0.0.1 behind \
         a proxy that speaks TLS, or say `--http-plain` where the network itself is encrypted"
    )]
    PlainBeyondLoopback {
        /// The requested address.
        address: SocketAddr,
    },
    /// A project's directory can't be used.
    #[error("the project directory {} can't be used", .path.display())]
    Project {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The server ended by itself.
    #[error("the gateway can't go on serving")]
    Serve(#[source] io::Error),
    /// Signal handlers can't be installed.
    #[error("can't install the signal handlers")]
    Signals(#[source] io::Error),
}

/// Returns when the process receives SIGTERM, SIGINT or SIGHUP.
async fn shutdown_signal() -> Result<(), ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
