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
/// The first pause between looks whether another connection is done with receiving the same bytes; a look opens one file. Doubles.
pub const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// The longest of these pauses: nothing beside what is waited for.
pub const BUSY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long bytes that another connection receives may not have grown before they are not waited for any more: as long as git may
/// take for taking them in.
pub const BUSY_STILL_MAX: Duration = GIT_RUN_MAX;
