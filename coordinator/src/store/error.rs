//! What can go wrong with records, and how it is said.

use buildpool_protocol::JobId;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A record could not be stored or read.
#[derive(Debug)]
pub enum StoreError {
    /// Another coordinator runs on this directory.
    InUse {
        /// Which directory.
        directory: PathBuf,
        /// The other process, as far as it said.
        pid: Option<u32>,
    },
    /// The directory was written by a newer version of the software.
    Newer {
        /// Which database.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that this build can read.
        known: u32,
    },
    /// The database contradicts itself.
    Corrupt {
        /// Which database.
        path: PathBuf,
        /// What the check said first.
        detail: String,
    },
    /// A file or directory could not be used.
    File {
        /// What was tried, as in "can't … PATH".
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The database could not do it.
    Database {
        /// What was tried, as in "can't …".
        doing: &'static str,
        /// Its reason.
        source: rusqlite::Error,
    },
    /// A record does not parse.
    Record {
        /// Whose.
        job: JobId,
        /// Why.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// Whether the disk is full: it may work later, when there is room.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::File { source, .. } => is_full(source),
            Self::Database { source, .. } => {
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            Self::InUse { .. } | Self::Newer { .. } | Self::Corrupt { .. } | Self::Record { .. } => false,
        }
    }

    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    pub(crate) const fn database(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Database { doing, source }
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { directory, pid: Some(pid) } => {
                write!(f, "another coordinator (process {pid}) runs on {}", directory.display())
            }
            Self::InUse { directory, pid: None } => {
                write!(f, "another coordinator runs on {}", directory.display())
            }
            Self::Newer { path, found, known } => write!(
                f,
                "{} has format {found}, and this version knows formats up to {known}: run the newer version, or \
                 restore a backup that was made before the upgrade",
                path.display()
            ),
            Self::Corrupt { path, detail } => write!(f, "{} is damaged: {detail}", path.display()),
            Self::File { doing, path, .. } => write!(f, "can't {doing} {}", path.display()),
            Self::Database { doing, .. } => write!(f, "can't {doing}"),
            Self::Record { job, .. } => write!(f, "the record of job {job} does not parse"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Database { source, .. } => Some(source),
            Self::Record { source, .. } => Some(source),
            Self::InUse { .. } | Self::Newer { .. } | Self::Corrupt { .. } => None,
        }
    }
}
