//! What can go wrong with a log, and how it is said.

use crate::store::error::{StoreError, is_full};
use buildpool_protocol::AttemptId;
use buildpool_protocol::output::Stream;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A log could not be written or read.
#[derive(Debug)]
pub enum LogError {
    /// A file could not be used.
    File {
        /// What was tried, as in "can't … PATH".
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What was sent is no sequence of chunks of this attempt. The sender's fault.
    Malformed {
        /// Where in the log.
        position: u64,
        /// What was wrong.
        reason: &'static str,
    },
    /// What was sent does not fit what is stored although it begins where it may: one of the two is wrong. Start again
    /// from position 0 ([`super::LogWriter::restart`]).
    Diverged {
        /// Where in the log.
        position: u64,
    },
    /// The log is over the limit.
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// Nothing may follow: the log is sealed.
    Sealed,
    /// A newer writer has taken over, as after a reconnect.
    Superseded,
    /// An earlier failure left it unknown what of the log is on disk: it must start again from position 0
    /// ([`super::LogWriter::restart`]).
    Broken,
    /// The log was there and is not kept any more.
    Evicted {
        /// The oldest position that can be read: its end.
        oldest: u64,
    },
    /// No such attempt.
    Unknown,
    /// No chunk begins at this position.
    NotAPosition {
        /// As asked for.
        position: u64,
    },
    /// Stored bytes do not agree with their checksum.
    Corrupt {
        /// Where in the log.
        position: u64,
        /// In which file.
        path: PathBuf,
    },
    /// Records could not be read.
    Store(StoreError),
}

impl LogError {
    /// Whether the disk is full: it may work later, when there is room.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::File { source, .. } => is_full(source),
            Self::Store(error) => error.is_disk_full(),
            _ => false,
        }
    }

    /// Whether the log must begin again at position 0 ([`super::LogWriter::restart`]).
    pub const fn needs_restart(&self) -> bool {
        matches!(self, Self::Diverged { .. } | Self::Broken)
    }

    /// Whether the sender, not this machine, is at fault. [`LogError::Diverged`] does not tell.
    pub const fn is_senders_fault(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::TooLong { .. } | Self::Sealed)
    }

    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { doing, path, .. } => write!(f, "can't {doing} {}", path.display()),
            Self::Malformed { position, reason } => write!(f, "log chunk at position {position}: {reason}"),
            Self::Diverged { position } => {
                write!(f, "what was sent at position {position} of the log does not fit what is stored")
            }
            Self::TooLong { limit } => write!(f, "the log is over the limit of {limit} bytes"),
            Self::Sealed => f.write_str("the log is sealed: nothing may follow"),
            Self::Superseded => f.write_str("a newer connection writes this log"),
            Self::Broken => {
                f.write_str("the log must start again from position 0 after a failure of the disk")
            }
            Self::Evicted { oldest } => {
                write!(f, "the log is not kept any more; the oldest available position is {oldest}")
            }
            Self::Unknown => f.write_str("there is no such attempt"),
            Self::NotAPosition { position } => {
                write!(f, "no chunk of the log begins at position {position}; use a cursor as it was given")
            }
            Self::Corrupt { position, path } => write!(
                f,
                "the stored log is damaged at position {position}: {} does not agree with its checksum",
                path.display()
            ),
            Self::Store(_) => f.write_str("records can't be read"),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a log cannot be sealed.
#[derive(Debug)]
pub enum SealError {
    /// Not all of it is here: the rest must be sent from this position.
    Missing {
        /// Where the stored log ends.
        position: u64,
    },
    /// The stored log is longer than declared.
    Longer {
        /// Where the stored log ends.
        stored: u64,
        /// Where it should.
        declared: u64,
    },
    /// A stream has another length or checksum than declared: all of the log must be sent again
    /// ([`super::LogWriter::restart`]).
    Mismatch {
        /// Of which attempt.
        attempt: AttemptId,
        /// Which stream.
        stream: Stream,
    },
    /// The log could not be read or made to last.
    Log(LogError),
}

impl From<LogError> for SealError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { position } => write!(f, "the log is complete only up to position {position}"),
            Self::Longer { stored, declared } => {
                write!(f, "the log has {stored} bytes and was declared to have {declared}")
            }
            Self::Mismatch { attempt, stream } => {
                write!(
                    f,
                    "{stream} of attempt {attempt} is stored with another length or checksum than declared"
                )
            }
            Self::Log(_) => f.write_str("the log can't be sealed"),
        }
    }
}

impl std::error::Error for SealError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error),
            Self::Missing { .. } | Self::Longer { .. } | Self::Mismatch { .. } => None,
        }
    }
}
