//! Failures of git.

use super::OLDEST;
use crate::extent::Excess;
use crate::limits::GIT_MEMORY_KIB_MAX;
use buildpool_protocol::transfer::ObjectId;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why git did not do it.
#[derive(Debug)]
pub enum GitError {
    /// There is no git.
    Missing {
        /// What was tried.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is there and too old.
    TooOld {
        /// As it calls itself.
        found: String,
    },
    /// It ended badly.
    Failed {
        /// The command without its data.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The standard error of git.
        message: String,
    },
    /// It took too long and was ended.
    TimedOut {
        /// The command without its data.
        command: String,
        /// The limit.
        after: Duration,
    },
    /// It used more processor time than it may.
    OutOfTime {
        /// The command without its data.
        command: String,
        /// The limit.
        after: Duration,
    },
    /// It needed more memory than it may have.
    OutOfMemory {
        /// The command without its data.
        command: String,
    },
    /// Nobody waits for it any more, so it was ended.
    Stopped {
        /// The command without its data.
        command: String,
    },
    /// An object is not there.
    Absent {
        /// Which.
        id: ObjectId,
    },
    /// A limit on snapshots is exceeded.
    Excess(Excess),
    /// It wrote more than can be held.
    TooMuchOutput {
        /// The command without its data.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// It wrote what it never should.
    Unexpected {
        /// The command without its data.
        command: String,
        /// What was wrong.
        what: String,
    },
    /// A file or pipe beside it failed.
    Io {
        /// Which, and what was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl GitError {
    /// A failure of a file, with what was tried.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, .. } => {
                write!(f, "`{}` can't be started; git {OLDEST} or newer is needed", program.display())
            }
            Self::TooOld { found } => {
                write!(f, "this machine's git is {found}; {OLDEST} or newer is needed")
            }
            Self::Failed { command, status, message } => {
                write!(f, "`git {command}` failed ({status}): {}", message.trim())
            }
            Self::TimedOut { command, after } => {
                write!(f, "`git {command}` was ended after {} seconds", after.as_secs())
            }
            Self::OutOfTime { command, after } => write!(
                f,
                "`git {command}` was ended after {} seconds of processor time, which is its limit",
                after.as_secs()
            ),
            Self::OutOfMemory { command } => write!(
                f,
                "`git {command}` needs more than the {} MiB of memory that it may have",
                GIT_MEMORY_KIB_MAX >> 10
            ),
            Self::Stopped { command } => {
                write!(f, "`git {command}` was ended, because the operation was cancelled")
            }
            Self::Absent { id } => write!(f, "the object {id} is not there"),
            Self::Excess(excess) => excess.fmt(f),
            Self::TooMuchOutput { command, limit } => {
                write!(f, "`git {command}` wrote more than {limit} bytes")
            }
            Self::Unexpected { command, what } => write!(f, "`git {command}` answered oddly: {what}"),
            Self::Io { what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for GitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Missing { source, .. } | Self::Io { source, .. } => Some(source),
            Self::TooOld { .. }
            | Self::Failed { .. }
            | Self::TimedOut { .. }
            | Self::OutOfTime { .. }
            | Self::OutOfMemory { .. }
            | Self::Stopped { .. }
            | Self::Absent { .. }
            | Self::Excess(_)
            | Self::TooMuchOutput { .. }
            | Self::Unexpected { .. } => None,
        }
    }
}
