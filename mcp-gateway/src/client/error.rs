//! Why the pool did not do as it was asked.

use super::endpoint::PoolUrl;
use crate::local::LocalError;
use buildpool_protocol::{ErrorCode, LinkError};
use buildpool_trust::Distrust;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What can go wrong between a client and its pool. None of it says anything about a job's command.
#[derive(Clone, Debug)]
pub enum ClientError {
    /// Nothing answers there, or it went away and did not come back in time.
    Unreachable {
        /// Where.
        url: PoolUrl,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// The token would leave this machine unencrypted.
    PlainBeyondLoopback {
        /// For where.
        url: PoolUrl,
    },
    /// Something answers and TLS can't be agreed with it.
    Untrusted {
        /// Where.
        url: PoolUrl,
        /// What TLS says.
        source: Arc<io::Error>,
    },
    /// The file that was to say whom to trust can't be used.
    Authorities {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: Arc<io::Error>,
    },
    /// What answers does not speak HTTP where plain HTTP was spoken to it.
    NoHttp {
        /// Where.
        url: PoolUrl,
    },
    /// Something answers that is no coordinator.
    NotAPool {
        /// Where.
        url: PoolUrl,
        /// The HTTP status, where there was one.
        status: Option<u16>,
    },
    /// The token is missing, wrong, expired or revoked.
    Unauthorized {
        /// Where.
        url: PoolUrl,
        /// Whether a token was sent at all.
        with_token: bool,
    },
    /// Client and coordinator have no protocol version in common.
    VersionMismatch {
        /// Where.
        url: PoolUrl,
        /// The coordinator's words.
        said: String,
    },
    /// The coordinator understood and said no.
    Refused(LinkError),
    /// The coordinator did what the protocol forbids.
    Misbehaved(Misbehaviour),
    /// The link was cut after a request that must not be sent twice; whether it was served is unknown.
    Interrupted {
        /// The request's name.
        request: &'static str,
    },
    /// More requests are open on this client than it takes.
    Busy {
        /// The limit.
        limit: usize,
    },
    /// The local pool could not be found or started.
    Local(Arc<LocalError>),
    /// The client was closed.
    Closed,
}

/// What a coordinator must not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misbehaviour {
    /// An answer of another kind than the request asks for.
    WrongAnswer {
        /// What was asked.
        request: &'static str,
    },
    /// Followed output that is no whole chunks.
    BadChunk,
    /// Followed output that does not go on where it stopped.
    Hole {
        /// Where it had to go on.
        expected: u64,
        /// Where it did.
        got: u64,
    },
    /// Output beyond what was acknowledged plus the window.
    WindowOverrun,
    /// A first answer that is none to `register`.
    NoRegistration,
}

impl ClientError {
    /// Whether the same call may succeed later without a change.
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

    /// The coordinator's own code, where it said no.
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
            Self::Untrusted { url, source } => match Distrust::of(source) {
                Distrust::NoTls => write!(
                    f,
                    "what answers at {url} does not speak TLS; a coordinator that was told to do without is reached by ws://"
                ),
                Distrust::AnotherCertificate => write!(
                    f,
                    "the coordinator at {url} is not trusted: it has another certificate than the one whose fingerprint \
                     the token carries; the token is of another pool, or another one answers there"
                ),
                Distrust::Unvouched => write!(
                    f,
                    "the coordinator at {url} is not trusted; its token may carry a fingerprint, or `ca_file` in \
                     config.toml (`--ca-file`) name who vouches for it"
                ),
            },
            Self::Authorities { path, .. } => {
                write!(f, "`{}` can't be used as a file of certificates (PEM)", path.display())
            }
            Self::NoHttp { url } => write!(
                f,
                "what answers at {url} does not speak plain HTTP; a coordinator that speaks TLS is reached by wss://"
            ),
            Self::NotAPool { url, status: Some(status) } => {
                write!(f, "what answers at {url} is no coordinator (HTTP status {status})")
            }
            Self::NotAPool { url, status: None } => write!(f, "what answers at {url} is no coordinator"),
            Self::Unauthorized { url, with_token: true } => {
                write!(
                    f,
                    "the coordinator at {url} does not accept the token: it is wrong, expired or revoked"
                )
            }
            Self::Unauthorized { url, with_token: false } => write!(
                f,
                "the coordinator at {url} wants a token; give one by --token, BUILDPOOL_TOKEN or the configuration"
            ),
            Self::VersionMismatch { url, said } => {
                write!(f, "no protocol version in common with the coordinator at {url}: {said}")
            }
            Self::Refused(error) => error.fmt(f),
            Self::Misbehaved(what) => write!(f, "the coordinator broke the protocol: {what}"),
            Self::Interrupted { request } => {
                write!(f, "the link was cut during `{request}`; whether it was done is unknown")
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
            // All that it says is said.
            Self::Untrusted { source, .. } if Distrust::of(source) != Distrust::Unvouched => None,
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
        }
    }
}
