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

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason why a gateway can't serve.
#[derive(Debug)]
pub enum ServeError {
    /// The address is in use or does not belong to this machine.
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The gateway would accept requests without tokens from other machines.
    OpenBeyondLoopback {
        /// The requested address.
        address: SocketAddr,
    },
    /// Tokens would be sent unencrypted.
    PlainBeyondLoopback {
        /// The requested address.
        address: SocketAddr,
    },
    /// A project's directory can't be used.
    Project {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The server ended by itself.
    Serve(io::Error),
    /// Signal handlers can't be installed.
    Signals(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, .. } => write!(f, "{address} can't be listened on"),
            Self::OpenBeyondLoopback { address } => write!(
                f,
                "`--http-auth none` is for loopback only, and {address} can be reached from elsewhere; use 127.0.0.1 or \
                 `--http-auth token`"
            ),
            Self::PlainBeyondLoopback { address } => write!(
                f,
                "{address} can be reached from elsewhere and tokens would travel unencrypted; listen on 127.0.0.1 behind \
                 a proxy that speaks TLS, or say `--http-plain` where the network itself is encrypted"
            ),
            Self::Project { path, .. } => write!(f, "the project directory {} can't be used", path.display()),
            Self::Serve(_) => f.write_str("the gateway can't go on serving"),
            Self::Signals(_) => f.write_str("can't install the signal handlers"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Project { source, .. } => Some(source),
            Self::Serve(source) | Self::Signals(source) => Some(source),
            Self::OpenBeyondLoopback { .. } | Self::PlainBeyondLoopback { .. } => None,
        }
    }
}

/// Returns when the process receives SIGTERM, SIGINT or SIGHUP.
async fn asked_to_end() -> Result<(), ServeError> {
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
