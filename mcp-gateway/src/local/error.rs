//! Why there is no local pool.

use crate::client::ClientError;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// What can go wrong with the local pool.
#[derive(Debug)]
pub enum LocalError {
    /// This user has no home directory.
    NoHome,
    /// Its directory can't be made or used.
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its directory belongs to somebody else.
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// A file of it can't be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It can't be started.
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It was started and ended.
    Died {
        /// How.
        status: ExitStatus,
        /// Where it wrote why.
        log: PathBuf,
        /// The last line there.
        last_line: String,
    },
    /// It was started and can't be reached.
    NotReady {
        /// Where it writes why.
        log: PathBuf,
        /// What the last try to reach it said.
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
