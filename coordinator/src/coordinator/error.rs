//! Reasons why a coordinator ends.

use crate::runtime::StartError;
use crate::store::{SourceError, StoreError};
use crate::tls::TlsError;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Pause of a leader that could not open its records, before it competes again. Another coordinator can lead meanwhile.
const COMPETE_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Reason why a coordinator can't start or continue.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The data directory can't be used.
    #[error("the data directory can't be used")]
    Store(#[from] StoreError),
    /// The certificate can't be used.
    #[error("the TLS certificate can't be used")]
    Tls(#[from] TlsError),
    /// The thread of the pool can't be started.
    #[error("no thread can be had for the pool")]
    Thread(#[source] io::Error),
    /// The certificate file can't be read.
    #[error("the file of `tls_cert` can't be read")]
    Certificates(#[source] rustls::pki_types::pem::Error),
    /// The process may open too few files.
    #[error("the process may open too few files")]
    Descriptors(#[source] io::Error),
    /// The address can't be used for listening.
    #[error("can't listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The server ended with an error.
    #[error("serving ended")]
    Serve(#[source] io::Error),
    /// The PostgreSQL server can't be used.
    #[error("the PostgreSQL server of `store.url` can't be used")]
    Source(#[from] SourceError),
    /// The configuration names no PostgreSQL server.
    #[error("the configuration has no `store.url`")]
    NotShared,
    /// Another coordinator is the leader now. Start again in a new runtime, as a standby.
    #[error("another coordinator is the leader now")]
    Replaced,
    /// It was elected, could not open the records, and has given the leadership up. Start again as for
    /// [`CoordinatorError::Replaced`].
    #[error("this coordinator was elected and can't open the shared records; it gives the leadership up")]
    Unopened(#[source] StoreError),
}

impl CoordinatorError {
    /// Returns the pause before the coordinator competes for the leadership again, if it goes on as a standby in a new
    /// runtime. `None` if the process must end.
    pub fn starts_over(&self) -> Option<Duration> {
        match self {
            Self::Replaced => Some(Duration::ZERO),
            Self::Unopened(_) => Some(COMPETE_AGAIN_AFTER),
            Self::Store(_)
            | Self::Tls(_)
            | Self::Thread(_)
            | Self::Certificates(_)
            | Self::Descriptors(_)
            | Self::Listen { .. }
            | Self::Serve(_)
            | Self::Source(_)
            | Self::NotShared => None,
        }
    }
}

impl From<StartError> for CoordinatorError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => Self::Store(error),
            StartError::Thread(error) => Self::Thread(error),
        }
    }
}
