//! Limits of this crate: time and output of git, objects and packs of a cache.

use std::time::Duration;

/// Time limit of one git command.
pub const GIT_RUN_MAX: Duration = Duration::from_secs(30 * 60);
/// Time limit of a git command of the coordinator or a worker, without the time for its content.
pub const SERVICE_RUN: Duration = Duration::from_secs(60);
/// Bytes of content that add one second to the time limit of such a command.
pub const SERVICE_BYTES_PER_SECOND: u64 = 4 << 20;
/// Limit on the output of such a command in memory, in bytes.
pub const SERVICE_OUTPUT_BYTES_MAX: usize = 512 << 20;
/// Limit on the address space of such a command, in KiB.
pub const GIT_MEMORY_KIB_MAX: u64 = 3 << 20;
/// Limit on an object that a pack contains as a delta, in bytes. git unpacks a delta in memory, and
/// creates no delta of a larger object (`core.bigFileThreshold`).
pub const DELTA_BYTES_MAX: u64 = 512 << 20;
/// Limit on a tree, commit or tag, in bytes: git reads these completely into memory.
pub const STRUCTURE_BYTES_MAX: u64 = 64 << 20;
/// Limit on the objects of one pack.
pub const PACK_OBJECTS_MAX: u64 = 6_000_000;
/// Limit on the standard error kept of a git command, in bytes.
pub const GIT_MESSAGE_BYTES_MAX: usize = 8 << 10;
/// Limit on the output of a git command in memory, in bytes.
pub const GIT_OUTPUT_BYTES_MAX: usize = 1 << 30;
/// Number of packs in an object cache that triggers a repack.
pub const PACKS_MAX: usize = 24;
/// Number of snapshots that an object cache keeps, most recently used first.
pub const SNAPSHOTS_KEPT: usize = 32;
/// First interval between checks for the end of another transfer of the same bytes. It doubles
/// after each check. A check opens one file.
pub const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum of this interval. It is short compared with a transfer.
pub const BUSY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time without progress after which another transfer of the same bytes is not waited for. It
/// equals the time limit of git for importing them.
pub const BUSY_STILL_MAX: Duration = GIT_RUN_MAX;
