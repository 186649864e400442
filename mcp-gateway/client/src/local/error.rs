//! Errors of the local pool.

use crate::ClientError;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Reason why the local pool can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The user has no home directory.
    #[error(
        "there is no home directory for the local pool; set HOME or {}, or name a coordinator",
        super::DIRECTORY_VARIABLE
    )]
    NoHome,
    /// The pool's directory can't be created or used.
    #[error("the local pool's directory `{}` can't be used", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The pool's directory belongs to another user.
    #[error("the local pool's directory `{}` belongs to another user", .path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// A file of the pool can't be read or written.
    #[error("the local pool's file `{}` can't be used", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The pool's process can't be started.
    #[error("the local pool can't be started as `{}`", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The pool ended at its start.
    #[error("the local pool ended at its start ({status}); its log is `{}`{}", .log.display(), end_of_log(.last_line))]
    Died {
        /// Its exit status.
        status: ExitStatus,
        /// Its log file, which contains the reason.
        log: PathBuf,
        /// Last line of the log.
        last_line: String,
    },
    /// The pool was started but is not reachable.
    #[error("the local pool does not answer; its log is `{}`", .log.display())]
    NotReady {
        /// Its log file.
        log: PathBuf,
        /// Error of the last connection attempt.
        source: Option<Box<ClientError>>,
    },
}

fn end_of_log(last_line: &str) -> String {
    if last_line.is_empty() { String::new() } else { format!(" and ends with: {last_line}") }
}
