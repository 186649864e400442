//! Bounds of this crate's own: time and output of git, objects and packs in a cache.

use std::time::Duration;

/// Longest run of one git command.
pub const GIT_RUN_MAX: Duration = Duration::from_secs(30 * 60);
/// What is kept of a git command's standard error, in bytes.
pub const GIT_MESSAGE_BYTES_MAX: usize = 8 << 10;
/// Largest answer of a git command that is held in memory, in bytes.
pub const GIT_OUTPUT_BYTES_MAX: usize = 1 << 30;
/// Packs in an object cache before they are made into one.
pub const PACKS_MAX: usize = 24;
/// Snapshots that an object cache remembers, most recently used first.
pub const SNAPSHOTS_KEPT: usize = 32;
