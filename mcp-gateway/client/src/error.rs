//! Errors of requests to a pool.

use crate::local::LocalError;
use buildpool_dial::PoolUrl;
use buildpool_protocol::error::chain;
use buildpool_protocol::{ErrorCode, LinkError};
use buildpool_trust::Distrust;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An error between a client and its pool. It gives no information about a job's command.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no answer, or the connection broke and could not be restored in time.
    #[error("the coordinator at {url} can't be reached")]
    Unreachable {
        /// The dialled URL.
        url: PoolUrl,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// The token would leave this machine unencrypted.
    #[error(
        "the token would go to {url} unencrypted; give wss:// in place of ws://, or, where the network itself is encrypted, give `--insecure-plain-text` (`insecure_plain_text = true` in config.toml)"
    )]
    PlainBeyondLoopback {
        /// The URL.
        url: PoolUrl,
    },
    /// The TLS handshake failed.
    // The text has the whole chain of causes.
    #[error("{}", untrusted_text(.url, .cause))]
    Untrusted {
        /// The dialled URL.
        url: PoolUrl,
        /// Error of TLS.
        cause: Arc<io::Error>,
    },
    /// The file of trusted authorities can't be used.
    #[error("`{}` can't be used as a file of certificates (PEM)", .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// The server does not answer plain HTTP with HTTP.
    #[error("the server at {url} does not accept plain HTTP; for a coordinator with TLS use wss://")]
    NoHttp {
        /// The dialled URL.
        url: PoolUrl,
    },
    /// The server is not a coordinator.
    #[error("the server at {url} is not a coordinator{}", status_clause(*.status))]
    NotAPool {
        /// The dialled URL.
        url: PoolUrl,
        /// The HTTP status, if any.
        status: Option<u16>,
    },
    /// The token is missing, wrong, expired or revoked.
    #[error("the coordinator at {url} {}", unauthorized_clause(*.with_token))]
    Unauthorized {
        /// The dialled URL.
        url: PoolUrl,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// Client and coordinator have no protocol version in common.
    #[error("no common protocol version with the coordinator at {url}: {said}")]
    VersionMismatch {
        /// The dialled URL.
        url: PoolUrl,
        /// Message of the coordinator.
        said: String,
    },
    /// The coordinator refused the request.
    #[error("{0}")]
    Refused(LinkError),
    /// The coordinator violated the protocol.
    #[error("the coordinator broke the protocol: {0}")]
    Misbehaved(Misbehaviour),
    /// The link broke after a request that must not be sent twice. It is unknown whether the
    /// request was served.
    #[error(
        "the connection broke during `{request}`, which is sent only once; list the current state before you repeat it"
    )]
    Interrupted {
        /// Name of the request.
        request: &'static str,
    },
    /// Too many requests are open on this client.
    #[error("{limit} requests are open already, which is the limit of one client; wait for an answer")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// The local pool could not be found or started.
    #[error(transparent)]
    Local(Arc<LocalError>),
    /// The client was closed.
    #[error("this client was closed")]
    Closed,
}

/// A violation of the protocol by a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misbehaviour {
    /// The kind of the answer does not match the request.
    #[error("its answer to `{request}` has another kind")]
    WrongAnswer {
        /// Name of the request.
        request: &'static str,
    },
    /// Followed output does not consist of whole chunks.
    #[error("its followed output does not consist of whole chunks")]
    BadChunk,
    /// Followed output does not continue at the expected position.
    #[error("its followed output continued at position {got} instead of {expected}")]
    Hole {
        /// The expected position.
        expected: u64,
        /// The received position.
        got: u64,
    },
    /// Output exceeds the acknowledged position plus the window.
    #[error("it sent more output than the window allows")]
    WindowOverrun,
    /// The first answer is not an answer to `register`.
    #[error("its first message is not an answer to `register`")]
    NoRegistration,
    /// An answer of the HTTP API does not have its documented form.
    #[error("an answer of its HTTP API does not have the documented form")]
    NoJson,
}

impl ClientError {
    /// Returns true if the same call may succeed later without a change.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } | Self::Busy { .. } => true,
            Self::Refused(error) => error.code.is_worth_a_retry(),
            Self::PlainBeyondLoopback { .. }
            | Self::Untrusted { .. }
            | Self::Authorities { .. }
            | Self::NoHttp { .. }
            | Self::NotAPool { .. }
            | Self::Unauthorized { .. }
            | Self::VersionMismatch { .. }
            | Self::Misbehaved(_)
            | Self::Local(_)
            | Self::Closed => false,
        }
    }

    /// Returns the coordinator's error code, if it refused the request.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code),
            Self::Unauthorized { .. } => Some(ErrorCode::Unauthorized),
            Self::VersionMismatch { .. } => Some(ErrorCode::VersionMismatch),
            Self::Unreachable { .. }
            | Self::PlainBeyondLoopback { .. }
            | Self::Untrusted { .. }
            | Self::Authorities { .. }
            | Self::NoHttp { .. }
            | Self::NotAPool { .. }
            | Self::Misbehaved(_)
            | Self::Interrupted { .. }
            | Self::Busy { .. }
            | Self::Local(_)
            | Self::Closed => None,
        }
    }
}

fn untrusted_text(url: &PoolUrl, cause: &io::Error) -> String {
    match Distrust::from_error(cause) {
        Distrust::NoTls => {
            format!("the server at {url} does not use TLS; for a coordinator without TLS use ws://")
        }
        Distrust::AnotherCertificate => format!(
            "the coordinator at {url} is not trusted: its certificate does not have the fingerprint in the token; \
             the token belongs to another pool, or another server answers there"
        ),
        Distrust::Unvouched => format!(
            "the coordinator at {url} is not trusted; use a token with a fingerprint, or name its authority with \
             `ca_file` in config.toml (`--ca-file`): {}",
            chain(cause)
        ),
    }
}

fn status_clause(status: Option<u16>) -> String {
    status.map_or_else(String::new, |status| format!(" (HTTP status {status})"))
}

fn unauthorized_clause(with_token: bool) -> &'static str {
    if with_token {
        "does not accept the token: it is wrong, expired or revoked"
    } else {
        "needs a token; pass one with --token, BUILDPOOL_TOKEN or the configuration"
    }
}
