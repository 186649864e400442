//! Errors of the object cache.

use crate::git::GitError;
use buildpool_protocol::transfer::ObjectId;

/// Error of a cache operation.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// git or the disk failed.
    #[error("{}", git_text(.0))]
    Git(#[from] GitError),
    /// The base tree of a pack is not in the cache.
    #[error("the pack builds on the tree {0}, which is not here; send a pack without a base")]
    NoBase(ObjectId),
    /// The pack does not contain all required objects.
    #[error("the snapshot {tree} lacks {count} objects, the first is {object}")]
    Incomplete {
        /// Tree of the snapshot.
        tree: ObjectId,
        /// The first object that is missing or of another kind.
        object: ObjectId,
        /// Number of missing objects.
        count: usize,
    },
    /// The snapshot is not in the cache.
    #[error("the snapshot {0} is not here")]
    Unknown(ObjectId),
}

/// A limit on snapshots is the fault of the snapshot, and every other error that of this machine.
fn git_text(error: &GitError) -> String {
    match error {
        GitError::Excess(excess) => excess.to_string(),
        _ => "the object cache's git failed".to_owned(),
    }
}
