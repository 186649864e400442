//! Bounds of this crate's own: time and output of git, objects and packs in a cache.

use std::time::Duration;

/// Longest run of one git command.
pub const GIT_RUN_MAX: Duration = Duration::from_secs(30 * 60);
/// Longest run of a git command of the coordinator or a worker, without the time for its content.
pub const SERVICE_RUN: Duration = Duration::from_secs(60);
/// Content for which such a command gets one second more.
pub const SERVICE_BYTES_PER_SECOND: u64 = 4 << 20;
/// Largest answer of such a command that is held in memory, in bytes.
pub const SERVICE_OUTPUT_BYTES_MAX: usize = 512 << 20;
/// Memory that such a command may address, in KiB.
pub const GIT_MEMORY_KIB_MAX: u64 = 3 << 20;
/// Largest object that a pack may bring as a delta, in bytes. git makes no delta of a larger one
/// (`core.bigFileThreshold`), and unpacks a delta in memory.
pub const DELTA_BYTES_MAX: u64 = 512 << 20;
/// Largest tree, commit or tag, in bytes: git reads these whole.
pub const STRUCTURE_BYTES_MAX: u64 = 64 << 20;
/// Objects of one pack.
pub const PACK_OBJECTS_MAX: u64 = 6_000_000;
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
