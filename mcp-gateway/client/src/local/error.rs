//! Errors of the local pool.

use crate::ClientError;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Reason why the local pool can't be used.
#[derive(Debug)]
pub enum LocalError {
    /// The user has no home directory.
    NoHome,
    /// The pool's directory can't be created or used.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The pool's directory belongs to another user.
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// A file of the pool can't be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The pool's process can't be started.
    Start {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The pool ended at its start.
    Died {
        /// Its exit status.
        status: ExitStatus,
        /// Its log file, which contains the reason.
        log: PathBuf,
        /// Last line of the log.
        last_line: String,
    },
    /// The pool was started but is not reachable.
    NotReady {
        /// Its log file.
        log: PathBuf,
        /// Error of the last connection attempt.
        source: Option<Box<ClientError>>,
    },
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHome => write!(
                f,
                "there is no home directory for the local pool; set HOME or {}, or name a coordinator",
                super::DIRECTORY_VARIABLE
            ),
            Self::Directory { path, .. } => {
                write!(f, "the local pool's directory `{}` can't be used", path.display())
            }
            Self::Foreign { path } => {
                write!(f, "the local pool's directory `{}` belongs to another user", path.display())
            }
            Self::File { path, .. } => write!(f, "the local pool's file `{}` can't be used", path.display()),
            Self::Start { program, .. } => {
                write!(f, "the local pool can't be started as `{}`", program.display())
            }
            Self::Died { status, log, last_line } => {
                write!(f, "the local pool ended at its start ({status}); its log is `{}`", log.display())?;
                if last_line.is_empty() { Ok(()) } else { write!(f, " and ends with: {last_line}") }
            }
            Self::NotReady { log, .. } => {
                write!(f, "the local pool does not answer; its log is `{}`", log.display())
            }
        }
    }
}

impl Error for LocalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::File { source, .. } | Self::Start { source, .. } => {
                Some(source)
            }
            Self::NotReady { source, .. } => source.as_deref().map(|error| error as &(dyn Error + 'static)),
            Self::NoHome | Self::Foreign { .. } | Self::Died { .. } => None,
        }
    }
}
