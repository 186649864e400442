//! Errors of logs, and their messages.

use crate::store::error::{StoreError, is_full};
use crate::store::objects::ObjectError;
use buildpool_protocol::AttemptId;
use buildpool_protocol::output::Stream;
use std::io;
use std::path::PathBuf;

/// Reason why a log could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file could not be used.
    #[error("can't {doing} {}", .path.display())]
    File {
        /// The attempted operation, as in "can't … PATH".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The received bytes are not a valid sequence of chunks of this attempt. This is an error of
    /// the sender.
    #[error("log chunk at position {position}: {reason}")]
    Malformed {
        /// Position in the log.
        position: u64,
        /// Description of the error.
        reason: &'static str,
    },
    /// The received chunks do not match the stored ones, although they begin at a valid position.
    /// One of the two is wrong. Restart at position 0 ([`super::LogWriter::restart`]).
    #[error("the bytes sent at position {position} of the log differ from the stored ones")]
    Diverged {
        /// Position in the log.
        position: u64,
    },
    /// The log exceeds the limit.
    #[error("the log is over the limit of {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The log is sealed and accepts no more chunks.
    #[error("the log is sealed: nothing may follow")]
    Sealed,
    /// A newer writer has replaced this one, for example after a reconnect.
    #[error("a newer connection writes this log")]
    Superseded,
    /// After an earlier failure, it is unknown which part of the log is on disk. The log must
    /// restart at position 0 ([`super::LogWriter::restart`]).
    #[error("the log must start again from position 0 after a failure of the disk")]
    Broken,
    /// The log existed and has been removed.
    #[error("the log is not kept any more; the oldest available position is {oldest}")]
    Evicted {
        /// The oldest position that can be read, which is the log's end.
        oldest: u64,
    },
    /// The attempt does not exist.
    #[error("there is no such attempt")]
    Unknown,
    /// No chunk begins at this position.
    #[error("no chunk of the log begins at position {position}; use a cursor as it was given")]
    NotAPosition {
        /// The requested position.
        position: u64,
    },
    /// A part of the stored log is missing, and retention did not remove it.
    #[error(
        "the stored log is damaged: {position} of {declared} bytes can be read; `buildpool doctor --full` on the coordinator checks all logs"
    )]
    Damaged {
        /// End of the readable part.
        position: u64,
        /// Length of the log by its record.
        declared: u64,
    },
    /// Stored bytes do not match their checksum.
    #[error(
        "the stored log is damaged at position {position}: {} does not agree with its checksum",
        .path.display()
    )]
    Corrupt {
        /// Position in the log.
        position: u64,
        /// The file.
        path: PathBuf,
    },
    /// The log could not be copied to or from the shared objects.
    #[error("the log can't be copied to or from `store.objects`")]
    Objects(#[from] ObjectError),
    /// Records could not be read.
    #[error("records can't be read")]
    Store(#[from] StoreError),
}

impl LogError {
    /// Returns true if the disk is full. A retry can succeed when there is room.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::File { source, .. } => is_full(source),
            Self::Store(error) => error.is_disk_full(),
            _ => false,
        }
    }

    /// Returns true if the log must restart at position 0 ([`super::LogWriter::restart`]).
    pub const fn needs_restart(&self) -> bool {
        matches!(self, Self::Diverged { .. } | Self::Broken)
    }

    /// Returns the position at which the stored log is damaged.
    pub const fn damaged_at(&self) -> Option<u64> {
        match self {
            Self::Damaged { position, .. } | Self::Corrupt { position, .. } => Some(*position),
            _ => None,
        }
    }

    /// Returns true if the sender, not this machine, caused the error. For [`LogError::Diverged`]
    /// the cause is unknown, so this is false.
    pub const fn is_senders_fault(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::TooLong { .. } | Self::Sealed)
    }

    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

/// Reason why a log can't be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The log is incomplete. The worker must send the rest from this position.
    #[error("the log is complete only up to position {position}")]
    Missing {
        /// End position of the stored log.
        position: u64,
    },
    /// The stored log is longer than declared.
    #[error("the log has {stored} bytes and was declared to have {declared}")]
    Longer {
        /// End position of the stored log.
        stored: u64,
        /// Declared end position.
        declared: u64,
    },
    /// The length or checksum of a stream differs from the declared one. The worker must send the
    /// whole log again ([`super::LogWriter::restart`]).
    #[error("{stream} of attempt {attempt} is stored with another length or checksum than declared")]
    Mismatch {
        /// The attempt.
        attempt: AttemptId,
        /// The stream.
        stream: Stream,
    },
    /// The log could not be read or made durable.
    #[error("the log can't be sealed")]
    Log(#[from] LogError),
}
