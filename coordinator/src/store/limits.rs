//! Bounds of the store that no peer can see.

use buildpool_protocol::limits::BINARY_FRAME_BYTES_MAX;
use std::time::Duration;

/// A raw segment is closed, and queued to be compressed, when it is at least this long, in bytes.
pub const SEGMENT_BYTES: u64 = 4 << 20;
/// A compressed block holds about this many raw bytes; a read from the middle of a log unpacks one block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Most raw bytes of a block: chunks are whole, so one may lie across [`BLOCK_BYTES`].
pub const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + (128 << 10);
/// Compression level of stored logs (zstd).
pub const COMPRESSION_LEVEL: i32 = 1;
/// A log that has ended is compressed when it has at least this many bytes.
pub const PACK_BYTES_MIN: u64 = 16 << 10;
/// A log up to this long has no file: it stays in memory until it is sealed and then lies beside its job's record, so
/// that a small job costs one commit. In bytes.
pub const INLINE_BYTES_MAX: usize = 4 << 10;
/// A log that is still short after this long gets its file nevertheless.
pub const INLINE_FOR: Duration = Duration::from_secs(1);
/// Output is left with its worker while the disk has less room than this, in bytes: the rest is for the records of what
/// runs, which nobody else has.
pub const RECORDS_ROOM_BYTES: u64 = 4 << 20;
/// No job is accepted while the disk has less room than this, in bytes.
pub const JOBS_ROOM_BYTES: u64 = 2 * RECORDS_ROOM_BYTES;
/// Old logs are removed while the disk has less free space than this, in bytes. It is above [`JOBS_ROOM_BYTES`], so that
/// logs go before a job is refused.
pub const RETAIN_ROOM_BYTES: u64 = 2 * JOBS_ROOM_BYTES;
/// Most bytes that one read of a log gives.
pub const READ_BYTES_MAX: usize = BINARY_FRAME_BYTES_MAX;
/// Of one completed log, this much of its end stays in memory, in bytes.
pub const RING_LOG_BYTES_MAX: usize = 4 << 20;
/// Commits after which the write-ahead log is moved into the database in the background.
pub const CHECKPOINT_COMMITS: u32 = 1_000;
/// Length of the write-ahead log, in pages, at which a commit moves it itself.
pub const CHECKPOINT_PAGES: u32 = 16_384;
/// How long a statement waits for another process's write.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Passing runs that are remembered of one command in one project.
pub const HISTORY_RUNS: u32 = 20;
/// Finding signatures that are remembered of one passing run.
pub const HISTORY_FINDINGS: usize = 400;
/// Idle connections for readers that are kept.
pub const READERS_KEPT: usize = 8;
/// Ids that an ambiguous prefix names in its answer.
pub const AMBIGUOUS_SHOWN: usize = 10;
/// Lines of the audit log that are kept.
pub const AUDIT_ROWS_MAX: u32 = 100_000;
/// Of these, lines of each kind that anybody can cause: they push out their own kind first.
pub const AUDIT_COMMON_ROWS_MAX: u32 = 20_000;
/// Bytes of the reason of a cancel in the audit log; the job's record has all of it.
pub const AUDIT_REASON_BYTES: usize = 256;
/// Job records are kept this long after their end; then only the id stays known.
pub const RECORD_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

const _: () = assert!(BLOCK_BYTES + buildpool_protocol::limits::CHUNK_BYTES_MAX < BLOCK_BYTES_MAX);
const _: () = assert!(INLINE_BYTES_MAX < BLOCK_BYTES);
