//! How large a tree is when it is laid out as files, and the limits on that. Pure.

use buildpool_protocol::limits::{
    SNAPSHOT_BYTES_MAX, SNAPSHOT_DEPTH_MAX, SNAPSHOT_FILES_MAX, SNAPSHOT_NAMES_BYTES_MAX,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The size of a tree by its paths: an object that lies at several paths counts at each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Extent {
    /// Files, links and directories.
    pub paths: u64,
    /// Their paths together, in bytes.
    pub names: u64,
    /// Contents of files and links, in bytes.
    pub bytes: u64,
    /// Directories, one in another. May be that of an earlier, deeper tree.
    pub depth: u64,
}

/// A limit that is exceeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excess {
    /// What is limited, with its unit: "bytes in its files".
    pub what: &'static str,
    /// At least so much was found.
    pub found: u64,
    /// The limit.
    pub limit: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, limit } = self;
        write!(
            f,
            "the snapshot has at least {found} {what}; at most {limit} are valid: keep large directories out by .gitignore or .buildpoolignore"
        )
    }
}

impl Excess {
    /// Fails if more was found than the limit allows.
    ///
    /// # Errors
    /// The excess.
    pub fn check(what: &'static str, found: u64, limit: u64) -> Result<(), Self> {
        if found > limit { Err(Self { what, found, limit }) } else { Ok(()) }
    }
}

impl Extent {
    /// Fails if a tree is larger than a snapshot may be.
    ///
    /// # Errors
    /// The first limit that is exceeded, with the figure.
    pub fn check(&self) -> Result<(), Excess> {
        Excess::check("paths", self.paths, SNAPSHOT_FILES_MAX)?;
        Excess::check("bytes in its paths", self.names, SNAPSHOT_NAMES_BYTES_MAX)?;
        Excess::check("directories one in another", self.depth, SNAPSHOT_DEPTH_MAX as u64)?;
        Excess::check("bytes in its files", self.bytes, SNAPSHOT_BYTES_MAX)
    }
}
