//! Errors of the record store, and their messages.

use super::objects::ObjectError;
use super::sql;
use buildpool_protocol::JobId;
use std::io;
use std::path::PathBuf;

/// Reason why a record could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another coordinator runs on this directory.
    #[error("another coordinator{} runs on {}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), directory.display())]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// Process id of the other coordinator, if its lock file contains one.
        pid: Option<u32>,
    },
    /// A newer version of the software wrote the directory.
    #[error("{} has format {found}, and this version supports formats up to {known}: run the newer version, or restore a backup that was made before the upgrade", path.display())]
    Newer {
        /// Path of the database.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this build can read.
        known: u32,
    },
    /// The database is damaged.
    #[error("{} is damaged: {detail}", path.display())]
    Corrupt {
        /// Path of the database.
        path: PathBuf,
        /// First problem that the check found.
        detail: String,
    },
    /// A file or directory could not be used.
    #[error("can't {doing} {}", path.display())]
    File {
        /// The attempted operation, as in "can't … PATH".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A database operation failed.
    #[error("can't {doing}")]
    Database {
        /// The attempted operation, as in "can't …".
        doing: &'static str,
        /// Error of the database.
        source: sql::Error,
    },
    /// The shared objects can't be used.
    #[error("the objects of `store.objects` can't be used")]
    Objects(#[source] Box<ObjectError>),
    /// One side of a migration can't be used.
    #[error("the {side} of the migration can't be used: {reason}")]
    Unusable {
        /// `source` or `target`.
        side: &'static str,
        /// The reason, and the next step.
        reason: &'static str,
    },
    /// A copied table differs from its source.
    #[error("the copy of table `{table}` differs from its source; remove the target and migrate again")]
    Differs {
        /// The table.
        table: String,
    },
    /// A migration into this store is not complete.
    #[error("a migration into this store is not complete; run `buildpool coordinator migrate` again")]
    Migrating,
    /// A record does not parse.
    #[error("the record of job {job} does not parse")]
    Record {
        /// The job of the record.
        job: JobId,
        /// Error of the parser.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// Returns true if the disk is full. A retry can succeed when there is room.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::File { source, .. } => is_full(source),
            Self::Database { source, .. } => source.is_disk_full(),
            Self::InUse { .. }
            | Self::Newer { .. }
            | Self::Corrupt { .. }
            | Self::Objects(_)
            | Self::Unusable { .. }
            | Self::Differs { .. }
            | Self::Migrating
            | Self::Record { .. } => false,
        }
    }

    /// Returns true if a PostgreSQL server did not answer. A retry can succeed, perhaps on another coordinator.
    pub fn is_server_away(&self) -> bool {
        matches!(self, Self::Database { source, .. } if source.is_server_away())
    }

    /// Returns true if another coordinator is the leader, so that no later write of this one can succeed.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Database { source: sql::Error::Fenced | sql::Error::Rewound, .. })
    }

    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    pub(crate) fn database<E: Into<sql::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Database { doing, source: source.into() }
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
