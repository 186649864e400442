//! Errors of workspaces.

use super::names::NameProblem;
use buildpool_objects::{CacheError, GitError};
use buildpool_protocol::error::chain;
use buildpool_protocol::outcome::StartFailure;
use buildpool_protocol::transfer::ObjectId;
use nix::errno::Errno;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Error of a workspace.
#[derive(Debug)]
pub enum WorkspaceError {
    /// git failed.
    Git(GitError),
    /// The project's object cache failed.
    Cache(CacheError),
    /// The snapshot is incomplete on this worker.
    Missing(ObjectId),
    /// This disk cannot store the tree.
    Names(NameProblem),
    /// The command's directory is not in the tree.
    Directory {
        /// The directory as requested.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The spec contains an invalid value.
    Malformed {
        /// The value.
        what: &'static str,
    },
    /// The disk failed.
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// Returns true if the cause may be missing or unreadable objects.
    pub(super) const fn may_be_damage(&self) -> bool {
        match self {
            Self::Git(error) => error.may_be_damage(),
            Self::Cache(error) => error.may_be_damage(),
            Self::Missing(_)
            | Self::Names(_)
            | Self::Directory { .. }
            | Self::Malformed { .. }
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

impl fmt::Display for WorkspaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git(error) => write!(f, "the workspace could not be laid out: {error}"),
            Self::Cache(error) => write!(f, "the project's objects can't be used: {error}"),
            Self::Missing(tree) => write!(f, "the snapshot {tree} is not on this worker"),
            Self::Names(problem) => problem.fmt(f),
            Self::Directory { path, reason } => write!(f, "the directory `{path}` of the snapshot: {reason}"),
            Self::Malformed { what } => write!(f, "the job's {what} is malformed"),
            Self::Io { what, path, .. } => write!(f, "{what} {}", path.display()),
        }
    }
}

impl std::error::Error for WorkspaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Git(error) => std::error::Error::source(error),
            Self::Cache(error) => std::error::Error::source(error),
            Self::Io { source, .. } => Some(source),
            Self::Missing(_) | Self::Names(_) | Self::Directory { .. } | Self::Malformed { .. } => None,
        }
    }
}

impl From<GitError> for WorkspaceError {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

impl From<CacheError> for WorkspaceError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
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
