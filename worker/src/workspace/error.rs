//! Errors of workspaces.

use super::names::NameError;
use buildpool_objects::{CacheError, GitError};
use buildpool_protocol::error::chain;
use buildpool_protocol::outcome::StartFailure;
use buildpool_protocol::transfer::ObjectId;
use nix::errno::Errno;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Error of a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// git failed.
    #[error("the workspace could not be laid out: {0}")]
    Git(#[from] GitError),
    /// The project's object cache failed.
    #[error("the project's objects can't be used: {0}")]
    Cache(#[from] CacheError),
    /// The snapshot is incomplete on this worker.
    #[error("the snapshot {0} is not on this worker; submit the job again")]
    Missing(ObjectId),
    /// This disk cannot store the tree.
    #[error(transparent)]
    Names(NameError),
    /// The command's directory is not in the tree.
    #[error("the directory `{}` of the snapshot can't be used: {reason}", .path.escape_debug())]
    Directory {
        /// The directory as requested.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The spec contains an invalid value.
    #[error("the job's {field} is invalid: {reason}")]
    Invalid {
        /// Name of the field of the spec.
        field: &'static str,
        /// The value and the valid ones.
        reason: String,
    },
    /// Each possible checkout of the project exists and is in use.
    #[error(
        "all {limit} checkouts of the project on this worker are in use; submit the job again when other jobs have ended"
    )]
    TooManyCheckouts {
        /// Limit on the checkouts of a project.
        limit: u32,
    },
    /// The disk failed.
    #[error("{operation} {} failed", .path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(super) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }

    /// Returns true if the cause may be missing or unreadable objects.
    pub(super) const fn may_be_damage(&self) -> bool {
        match self {
            Self::Git(error) => error.may_be_damage(),
            Self::Cache(error) => error.may_be_damage(),
            Self::Missing(_)
            | Self::Names(_)
            | Self::Directory { .. }
            | Self::Invalid { .. }
            | Self::TooManyCheckouts { .. }
            | Self::Io { .. } => false,
        }
    }

    /// Returns true if the existing files cause the error, so that a new checkout may succeed. A
    /// full disk, a process limit and a failed git are other causes.
    pub(super) fn is_of_files(&self) -> bool {
        // A command that hangs waits for one of the files: a pipe, a device.
        if let Self::Git(GitError::TimedOut { .. } | GitError::OutOfTime { .. }) = self {
            return true;
        }
        let (Self::Io { source, .. } | Self::Git(GitError::Io { source, .. })) = self else { return false };
        let is_elsewhere = matches!(
            source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem
        );
        let is_of_process = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM];
        !is_elsewhere && !is_of_process.iter().any(|errno| source.raw_os_error() == Some(*errno as i32))
    }
}

impl From<WorkspaceError> for StartFailure {
    fn from(error: WorkspaceError) -> Self {
        if let WorkspaceError::Directory { path, reason } = error {
            return Self::Directory { path, reason };
        }
        Self::Workspace { reason: chain(&error) }
    }
}
