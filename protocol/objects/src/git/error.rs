//! Errors of git commands.

use super::OLDEST;
use crate::extent::Excess;
use crate::limits::GIT_MEMORY_KIB_MAX;
use buildpool_protocol::transfer::ObjectId;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Error of a git command.
#[derive(Debug)]
pub enum GitError {
    /// git cannot be started.
    Missing {
        /// The program that was tried.
        program: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The version of git is too old.
    TooOld {
        /// The version as git prints it.
        found: String,
    },
    /// git exited with an error.
    Failed {
        /// The command without its data.
        command: String,
        /// The exit status.
        status: ExitStatus,
        /// The standard error of git.
        message: String,
    },
    /// The command exceeded its time limit and was killed.
    TimedOut {
        /// The command without its data.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The command exceeded its processor time limit.
    OutOfTime {
        /// The command without its data.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The command exceeded its memory limit.
    OutOfMemory {
        /// The command without its data.
        command: String,
    },
    /// The operation was cancelled, so the command was killed.
    Stopped {
        /// The command without its data.
        command: String,
    },
    /// An object is missing.
    Absent {
        /// Its id.
        id: ObjectId,
    },
    /// A limit on snapshots is exceeded.
    Excess(Excess),
    /// The output exceeds the limit.
    TooMuchOutput {
        /// The command without its data.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The output is invalid.
    Unexpected {
        /// The command without its data.
        command: String,
        /// The problem.
        what: String,
    },
    /// A file or pipe of the command failed.
    Io {
        /// The operation and the file.
        what: String,
        /// The system error.
        source: io::Error,
    },
}

impl GitError {
    /// Returns a function that maps an I/O error to [`GitError::Io`]. `what` is the failed
    /// operation.
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
            Self::Unexpected { command, what } => {
                write!(f, "`git {command}` returned an unexpected answer: {what}")
            }
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
