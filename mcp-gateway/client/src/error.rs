//! Errors of requests to a pool.

use crate::local::LocalError;
use buildpool_dial::PoolUrl;
use buildpool_protocol::{ErrorCode, LinkError};
use buildpool_trust::Distrust;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An error between a client and its pool. It gives no information about a job's command.
#[derive(Clone, Debug)]
pub enum ClientError {
    /// There is no answer, or the connection broke and could not be restored in time.
    Unreachable {
        /// The dialled URL.
        url: PoolUrl,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// The token would leave this machine unencrypted.
    PlainBeyondLoopback {
        /// The URL.
        url: PoolUrl,
    },
    /// The TLS handshake failed.
    Untrusted {
        /// The dialled URL.
        url: PoolUrl,
        /// Error of TLS.
        source: Arc<io::Error>,
    },
    /// The file of trusted authorities can't be used.
    Authorities {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// The server does not answer plain HTTP with HTTP.
    NoHttp {
        /// The dialled URL.
        url: PoolUrl,
    },
    /// The server is not a coordinator.
    NotAPool {
        /// The dialled URL.
        url: PoolUrl,
        /// The HTTP status, if any.
        status: Option<u16>,
    },
    /// The token is missing, wrong, expired or revoked.
    Unauthorized {
        /// The dialled URL.
        url: PoolUrl,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// Client and coordinator have no protocol version in common.
    VersionMismatch {
        /// The dialled URL.
        url: PoolUrl,
        /// Message of the coordinator.
        said: String,
    },
    /// The coordinator refused the request.
    Refused(LinkError),
    /// The coordinator violated the protocol.
    Misbehaved(Misbehaviour),
    /// The link broke after a request that must not be sent twice. It is unknown whether the
    /// request was served.
    Interrupted {
        /// Name of the request.
        request: &'static str,
    },
    /// Too many requests are open on this client.
    Busy {
        /// The limit.
        limit: usize,
    },
    /// The local pool could not be found or started.
    Local(Arc<LocalError>),
    /// The client was closed.
    Closed,
}

/// A violation of the protocol by a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misbehaviour {
    /// The kind of the answer does not match the request.
    WrongAnswer {
        /// Name of the request.
        request: &'static str,
    },
    /// Followed output does not consist of whole chunks.
    BadChunk,
    /// Followed output does not continue at the expected position.
    Hole {
        /// The expected position.
        expected: u64,
        /// The received position.
        got: u64,
    },
    /// Output exceeds the acknowledged position plus the window.
    WindowOverrun,
    /// The first answer is not an answer to `register`.
    NoRegistration,
    /// An answer of the HTTP API does not have its documented form.
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

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { url, .. } => write!(f, "the coordinator at {url} can't be reached"),
            Self::PlainBeyondLoopback { url } => write!(
                f,
                "the token would go to {url} unencrypted; give wss:// in place of ws://, or, where the network itself is \
                 encrypted, say `--insecure-plain-text` (`insecure_plain_text = true` in config.toml)"
            ),
            Self::Untrusted { url, source } => match Distrust::from_error(source) {
                Distrust::NoTls => {
                    write!(f, "the server at {url} does not use TLS; for a coordinator without TLS use ws://")
                }
                Distrust::AnotherCertificate => write!(
                    f,
                    "the coordinator at {url} is not trusted: its certificate does not have the fingerprint in the \
                     token; the token belongs to another pool, or another server answers there"
                ),
                Distrust::Unvouched => write!(
                    f,
                    "the coordinator at {url} is not trusted; use a token with a fingerprint, or name its authority \
                     with `ca_file` in config.toml (`--ca-file`)"
                ),
            },
            Self::Authorities { path, .. } => {
                write!(f, "`{}` can't be used as a file of certificates (PEM)", path.display())
            }
            Self::NoHttp { url } => write!(
                f,
                "the server at {url} does not accept plain HTTP; for a coordinator with TLS use wss://"
            ),
            Self::NotAPool { url, status: Some(status) } => {
                write!(f, "the server at {url} is not a coordinator (HTTP status {status})")
            }
            Self::NotAPool { url, status: None } => write!(f, "the server at {url} is not a coordinator"),
            Self::Unauthorized { url, with_token: true } => {
                write!(
                    f,
                    "the coordinator at {url} does not accept the token: it is wrong, expired or revoked"
                )
            }
            Self::Unauthorized { url, with_token: false } => write!(
                f,
                "the coordinator at {url} needs a token; pass one with --token, BUILDPOOL_TOKEN or the configuration"
            ),
            Self::VersionMismatch { url, said } => {
                write!(f, "no common protocol version with the coordinator at {url}: {said}")
            }
            Self::Refused(error) => error.fmt(f),
            Self::Misbehaved(violation) => write!(f, "the coordinator broke the protocol: {violation}"),
            Self::Interrupted { request } => {
                write!(
                    f,
                    "the connection broke during `{request}`, which is sent only once; list the current state before you \
                     repeat it"
                )
            }
            Self::Busy { limit } => {
                write!(f, "{limit} requests are open already, which is the limit of one client")
            }
            Self::Local(error) => error.fmt(f),
            Self::Closed => f.write_str("this client was closed"),
        }
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // The message contains the whole source already.
            Self::Untrusted { source, .. } if Distrust::from_error(source) != Distrust::Unvouched => None,
            Self::Unreachable { source, .. }
            | Self::Untrusted { source, .. }
            | Self::Authorities { source, .. } => Some(source.as_ref()),
            Self::Local(error) => error.source(),
            Self::PlainBeyondLoopback { .. }
            | Self::NoHttp { .. }
            | Self::NotAPool { .. }
            | Self::Unauthorized { .. }
            | Self::VersionMismatch { .. }
            | Self::Refused(_)
            | Self::Misbehaved(_)
            | Self::Interrupted { .. }
            | Self::Busy { .. }
            | Self::Closed => None,
        }
    }
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongAnswer { request } => write!(f, "an answer of another kind came to `{request}`"),
            Self::BadChunk => f.write_str("followed output came that is no whole chunks"),
            Self::Hole { expected, got } => {
                write!(f, "followed output went on at {got} instead of {expected}")
            }
            Self::WindowOverrun => f.write_str("more output came than was allowed"),
            Self::NoRegistration => f.write_str("its first message is no answer to `register`"),
            Self::NoJson => f.write_str("an answer of its HTTP API does not have the documented form"),
        }
    }
}
