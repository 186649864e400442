//! Why a workspace could not be laid out or collected from.

use super::names::NameProblem;
use buildpool_objects::{CacheError, GitError};
use buildpool_protocol::outcome::StartFailure;
use buildpool_protocol::transfer::ObjectId;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a workspace could not be laid out.
#[derive(Debug)]
pub enum WorkspaceError {
    /// git.
    Git(GitError),
    /// The project's objects.
    Cache(CacheError),
    /// The snapshot is not here whole, so nothing runs on it.
    Missing(ObjectId),
    /// This disk can't hold the tree.
    Names(NameProblem),
    /// The command's directory is not in the tree.
    Directory {
        /// As it was asked for.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The spec names what can't be one.
    Malformed {
        /// What.
        what: &'static str,
    },
    /// The disk.
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
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
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            reason.push_str(": ");
            reason.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::Workspace { reason }
    }
}
