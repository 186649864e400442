//! Limits of the store that are not visible to clients and workers.

use buildpool_protocol::limits::BINARY_FRAME_BYTES_MAX;
use std::time::Duration;

/// Length at which a raw segment is closed and queued for compression, in bytes.
pub const SEGMENT_BYTES: u64 = 4 << 20;
/// Approximate raw bytes of a compressed block. A read from the middle of a log decompresses one
/// block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Maximum raw bytes of a block. Chunks are not split, so one may extend over [`BLOCK_BYTES`].
pub const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + (128 << 10);
/// Compression level of stored logs (zstd).
pub const COMPRESSION_LEVEL: i32 = 1;
/// Minimum length of an ended log that is compressed, in bytes.
pub const PACK_BYTES_MIN: u64 = 16 << 10;
/// Limit on the chunks of one open log that its readers share in memory, in bytes; they are its end.
pub const RECENT_LOG_BYTES_MAX: usize = 4 << 20;
/// The same over all logs.
pub const RECENT_BYTES_MAX: usize = 16 << 20;
/// Maximum length of a log without a file, in bytes. Such a log stays in memory until it is sealed,
/// and is then stored in the database. So a small job costs one commit.
pub const INLINE_BYTES_MAX: usize = 4 << 10;
/// Time after which a short log that is still open gets a file.
pub const INLINE_FOR: Duration = Duration::from_secs(1);
/// Free space below which output stays on its worker, in bytes. The rest is for records of running
/// jobs, which exist nowhere else.
pub const RECORDS_ROOM_BYTES: u64 = 4 << 20;
/// Maximum bytes of unstored output that are kept, including chunk headers; they are its end.
pub const UNSTORED_TAIL_BYTES: u64 = 64 << 10;
/// Free space below which no job is accepted, in bytes.
pub const JOBS_ROOM_BYTES: u64 = 2 * RECORDS_ROOM_BYTES;
/// Free space below which old logs are removed, in bytes. It is above [`JOBS_ROOM_BYTES`], so that
/// logs are removed before a job is refused.
pub const RETAIN_ROOM_BYTES: u64 = 2 * JOBS_ROOM_BYTES;
/// Maximum bytes that one read of a log returns.
pub const READ_BYTES_MAX: usize = BINARY_FRAME_BYTES_MAX;
/// Maximum bytes of one completed log that stay in memory; they are its end.
pub const RING_LOG_BYTES_MAX: usize = 4 << 20;
/// Number of commits after which the write-ahead log is moved into the database in the background.
pub const CHECKPOINT_COMMITS: u32 = 250;
/// Length of the write-ahead log, in pages, at which a commit itself moves it into the database.
pub const CHECKPOINT_PAGES: u32 = 16_384;
/// Time that a statement waits for another process's write.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Passing runs that are kept for one command in one project.
pub const HISTORY_RUNS: u32 = 20;
/// Finding signatures that are kept for one passing run.
pub const HISTORY_FINDINGS: usize = 400;
/// Limit on idle database connections for readers.
pub const READERS_KEPT: usize = 8;
/// Limit on the ids that the error for an ambiguous prefix lists.
pub const AMBIGUOUS_SHOWN: usize = 10;
/// Limit on stored events. A reader that was away for longer than they reach back must begin anew.
pub const EVENTS_MAX: u32 = 100_000;
/// Limit on the addresses that are known of one token. The address that was first seen longest ago is forgotten.
pub const ADDRESSES_OF_TOKEN_MAX: u32 = 64;
/// Limit on lines of the audit log.
pub const AUDIT_ROWS_MAX: u32 = 100_000;
/// Limit on lines of each kind that any client can cause. Such lines replace the oldest of their
/// own kind.
pub const AUDIT_COMMON_ROWS_MAX: u32 = 20_000;
/// Maximum length of the detail of an accepted request in the audit log, in bytes. The job's record
/// contains the whole reason of a cancel.
pub const AUDIT_DETAIL_BYTES: usize = 1024;
/// Time that a job record is kept after the job's end. After that only the id is kept.
pub const RECORD_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Limit on the records of one submitter's ended jobs, in bytes.
pub const RECORD_BYTES_OF_SUBMITTER: u64 = 256 << 20;

const _: () = assert!(BLOCK_BYTES + buildpool_protocol::limits::CHUNK_BYTES_MAX < BLOCK_BYTES_MAX);
const _: () = assert!(INLINE_BYTES_MAX < BLOCK_BYTES);
