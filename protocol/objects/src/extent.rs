//! The size of a tree as files on disk, and its limits. Pure.

use buildpool_protocol::limits::{
    SNAPSHOT_BYTES_MAX, SNAPSHOT_DEPTH_MAX, SNAPSHOT_FILES_MAX, SNAPSHOT_NAMES_BYTES_MAX,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The size of a tree. An object at several paths is counted at each path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Extent {
    /// Number of files, links and directories.
    pub paths: u64,
    /// Total length of all paths, in bytes.
    pub names: u64,
    /// Total content of files and links, in bytes.
    pub bytes: u64,
    /// Nesting depth of directories. It may come from an earlier, deeper tree.
    pub depth: u64,
}

/// An exceeded limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excess {
    /// The limited quantity with its unit: "bytes in its files".
    pub unit: &'static str,
    /// The amount found, as a lower bound.
    pub found: u64,
    /// The limit.
    pub limit: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, found, limit } = self;
        write!(
            f,
            "the snapshot has at least {found} {unit}; at most {limit} are valid: put large directories into .gitignore or .buildpoolignore"
        )
    }
}

impl Excess {
    /// Fails if `found` is greater than `limit`.
    ///
    /// # Errors
    /// The exceeded limit.
    pub fn check(unit: &'static str, found: u64, limit: u64) -> Result<(), Self> {
        if found > limit { Err(Self { unit, found, limit }) } else { Ok(()) }
    }
}

impl Extent {
    /// Fails if a tree exceeds the limits of a snapshot.
    ///
    /// # Errors
    /// The first exceeded limit, with the amount.
    pub fn check(&self) -> Result<(), Excess> {
        Excess::check("paths", self.paths, SNAPSHOT_FILES_MAX)?;
        Excess::check("bytes in its paths", self.names, SNAPSHOT_NAMES_BYTES_MAX)?;
        Excess::check("directories one in another", self.depth, SNAPSHOT_DEPTH_MAX as u64)?;
        Excess::check("bytes in its files", self.bytes, SNAPSHOT_BYTES_MAX)
    }
}
