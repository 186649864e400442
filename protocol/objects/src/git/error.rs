//! Errors of git commands.

use super::OLDEST;
use crate::extent::Excess;
use crate::limits::GIT_MEMORY_KIB_MAX;
use buildpool_protocol::transfer::ObjectId;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Error of a git command.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git cannot be started.
    #[error("`{}` can't be started; git {OLDEST} or newer is needed", .program.display())]
    Missing {
        /// The program that was tried.
        program: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The version of git is too old.
    #[error("this machine's git is {found}; {OLDEST} or newer is needed")]
    TooOld {
        /// The version as git prints it.
        found: String,
    },
    /// git exited with an error.
    #[error("`git {command}` failed ({status}): {}", .message.trim())]
    Failed {
        /// The command without its data.
        command: String,
        /// The exit status.
        status: ExitStatus,
        /// The standard error of git.
        message: String,
    },
    /// The command exceeded its time limit and was killed.
    #[error("`git {command}` was ended after {} seconds", .after.as_secs())]
    TimedOut {
        /// The command without its data.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The command exceeded its processor time limit.
    #[error(
        "`git {command}` was ended after {} seconds of processor time, which is its limit",
        .after.as_secs()
    )]
    OutOfTime {
        /// The command without its data.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The command exceeded its memory limit.
    #[error(
        "`git {command}` needs more than the {} MiB of memory that it may have",
        GIT_MEMORY_KIB_MAX >> 10
    )]
    OutOfMemory {
        /// The command without its data.
        command: String,
    },
    /// The operation was cancelled, so the command was killed.
    #[error("`git {command}` was ended, because the operation was cancelled")]
    Stopped {
        /// The command without its data.
        command: String,
    },
    /// An object is missing.
    #[error("the object {id} is not there")]
    Absent {
        /// Its id.
        id: ObjectId,
    },
    /// A limit on snapshots is exceeded.
    #[error("{0}")]
    Excess(Excess),
    /// The output exceeds the limit.
    #[error("`git {command}` wrote more than {limit} bytes")]
    TooMuchOutput {
        /// The command without its data.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The output is invalid.
    #[error("`git {command}` returned an unexpected answer: {problem}")]
    Unexpected {
        /// The command without its data.
        command: String,
        /// The problem.
        problem: String,
    },
    /// A file or pipe of the command failed.
    #[error("{operation}")]
    Io {
        /// The operation and the file.
        operation: String,
        /// The system error.
        source: io::Error,
    },
}

impl GitError {
    /// Returns a function that maps an I/O error to [`GitError::Io`]. `operation` is a phrase such
    /// as `writing FILE`.
    pub fn io(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.into();
        move |source| Self::Io { operation, source }
    }
}
