//! Errors of the object cache.

use crate::git::GitError;
use buildpool_protocol::transfer::ObjectId;
use std::fmt;

/// Error of a cache operation.
#[derive(Debug)]
pub enum CacheError {
    /// git or the disk failed.
    Git(GitError),
    /// The base tree of a pack is not in the cache.
    NoBase(ObjectId),
    /// The pack does not contain all required objects.
    Incomplete {
        /// Tree of the snapshot.
        tree: ObjectId,
        /// The first object that is missing or of another kind.
        object: ObjectId,
        /// Number of missing objects.
        count: usize,
    },
    /// The snapshot is not in the cache.
    Unknown(ObjectId),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git(GitError::Excess(excess)) => excess.fmt(f),
            Self::Git(_) => f.write_str("the object cache's git failed"),
            Self::NoBase(base) => write!(f, "the pack builds on the tree {base}, which is not here"),
            Self::Incomplete { tree, object, count } => {
                write!(f, "the snapshot {tree} lacks {count} objects, the first is {object}")
            }
            Self::Unknown(tree) => write!(f, "the snapshot {tree} is not here"),
        }
    }
}

impl std::error::Error for CacheError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Git(GitError::Excess(_)) => None,
            Self::Git(source) => Some(source),
            Self::NoBase(_) | Self::Incomplete { .. } | Self::Unknown(_) => None,
        }
    }
}

impl From<GitError> for CacheError {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}
