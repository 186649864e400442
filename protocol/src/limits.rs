//! Every bound that a peer can run into, in one place. Relations between them are checked when this compiles.

use std::time::Duration;

/// Largest control message (a JSON text frame), in bytes. A larger one ends the connection with `too_large`.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Largest binary frame, in bytes, its header included.
pub const BINARY_FRAME_BYTES_MAX: usize = 1 << 20;
/// Largest payload of one output chunk, in bytes: what a pipe gives at once.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Output that may be on the way to a reader beyond what it has acknowledged, in bytes.
pub const FOLLOW_WINDOW_BYTES: u64 = 4 << 20;
/// Output that a worker may have on the way beyond what the coordinator has acknowledged, in bytes.
pub const OUTPUT_WINDOW_BYTES: u64 = 8 << 20;

/// Longest time for a peer to say `register` after the socket is open.
pub const REGISTER_WITHIN: Duration = Duration::from_secs(10);
/// How often each side states all that it knows.
pub const REPORT_EVERY: Duration = Duration::from_secs(10);
/// A link that was silent for this long is given up; the jobs go on.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Without contact for this long an attempt may be declared lost, unless configured otherwise.
pub const LOST_AFTER: Duration = Duration::from_secs(15 * 60);
/// How much earlier than the coordinator a keeper ends its tree when it is cut off.
pub const SELF_FENCE_MARGIN: Duration = Duration::from_secs(60);
/// From SIGTERM to SIGKILL, unless the job says otherwise.
pub const GRACE: Duration = Duration::from_secs(10);
/// Longest grace that a job may ask for.
pub const GRACE_MAX: Duration = Duration::from_secs(60 * 60);
/// Longest job, unless configured otherwise.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long pipes may stay open after the command itself has exited.
pub const PIPE_DRAIN: Duration = Duration::from_secs(2);
/// The local pool ends after this long without a job or a client.
pub const LOCAL_POOL_IDLE: Duration = Duration::from_secs(30 * 60);

/// Longest command, all arguments together, in bytes.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;
/// Most arguments of a command.
pub const ARGUMENTS_MAX: usize = 16_384;
/// Largest environment of a job, names and values together, in bytes.
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;
/// Most selectors, resources, report or artifact globs of a job, each.
pub const LIST_MAX: usize = 64;
/// Longest label, resource, template, worker or token name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest regular expression of a template, in bytes.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;
/// Longest `client_request_id`, label value and cancel reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Longest duration in a message. A larger one could not be stored or added to a time.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Latest time in a message, in milliseconds since 1970: the end of the year 9999 (RFC 3339 has four
/// digits for a year). The earliest one is as far before 1970.
pub const TIME_MS_MAX: i64 = 253_402_300_799_999;
/// Longest log or stream, holes included, in bytes. A double, as JSON readers have it, holds each number up to it.
pub const LOG_LENGTH_MAX: u64 = 1 << 53;
/// Most labels, resources and warm projects of a worker, each.
pub const OFFERS_MAX: usize = 4 * LIST_MAX;
/// Labels of a worker together, in bytes.
pub const LABELS_BYTES_MAX: usize = 16 << 10;
/// Most units of one resource of a worker.
pub const UNITS_MAX: u32 = 1_000_000;
/// Most attempts that a worker reports.
pub const ATTEMPTS_HELD_MAX: usize = 10 * SLOTS_MAX as usize;
/// Longest text of an error in a message, in bytes.
pub const ERROR_BYTES_MAX: usize = 16 << 10;
/// Longest text in the evidence of an outcome, in bytes.
pub const EVIDENCE_TEXT_BYTES_MAX: usize = 16 << 10;
/// Most entries of one list in an outcome.
pub const EVIDENCE_LIST_MAX: usize = 10_000;
/// Most tests that a report counts.
pub const TESTS_COUNTED_MAX: u64 = 1_000_000_000;
/// Most names in one list of what a snapshot left out or noticed.
pub const SNAPSHOT_NOTES_MAX: usize = 10_000;
/// Most jobs that wait or run at once in a pool.
pub const LIVE_JOBS_MAX: usize = 200_000;
/// Most jobs in one answer of `jobs`.
pub const JOBS_PAGE_MAX: usize = 1_000;
/// Most jobs in one build.
pub const BUILD_JOBS_MAX: usize = 64;
/// Most slots of one worker.
pub const SLOTS_MAX: u32 = 1024;
/// Attempts lost with their worker before a job is given up as poison.
pub const LOSSES_MAX: u32 = 3;

/// Completed logs that stay in memory, by count.
pub const RING_JOBS: usize = 50;
/// Completed logs that stay in memory, in bytes over all of them.
pub const RING_BYTES_MAX: usize = 64 << 20;
/// Stored logs are removed after this long, unless configured otherwise.
pub const RETENTION_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Stored logs are removed, oldest first, beyond this many bytes, unless configured otherwise.
pub const RETENTION_BYTES: u64 = 10 << 30;
/// Largest log of one attempt, in bytes; beyond it the middle is a counted gap.
pub const LOG_BYTES_MAX: u64 = 64 << 30;
/// Least log that a quota can leave an attempt, in bytes: head, tail and what tells of the gap between them.
pub const LOG_BYTES_MIN: u64 = 4 << 20;

/// Findings of tier 1 that are shown.
pub const TIER_1_FINDINGS_MAX: usize = 15;
/// Findings that a digest keeps, all tiers.
pub const FINDINGS_MAX: usize = 400;
/// Lines before a finding.
pub const PRE_CONTEXT_LINES: usize = 5;
/// Lines after a finding.
pub const POST_CONTEXT_LINES: usize = 10;
/// Text that a log answer gives without a choice by the caller, in characters of each stream.
pub const LOG_ANSWER_CHARS: usize = 40_000;

/// Longest name of a project, in bytes.
pub const PROJECT_BYTES_MAX: usize = 512;
/// Longest name of a branch or tag, in bytes.
pub const REF_NAME_BYTES_MAX: usize = 1024;
/// Ignore patterns that travel beside a snapshot, in bytes.
pub const EXCLUDES_BYTES_MAX: usize = 64 << 10;
/// Files and directories of the commit that a snapshot is told to do without.
pub const LEFT_BEHIND_MAX: usize = 1_000;
/// Their names together, in bytes.
pub const LEFT_BEHIND_BYTES_MAX: usize = 64 << 10;
/// Commits and tags that travel beside a snapshot, for `git describe`.
pub const HISTORY_MAX: usize = 1_000;
/// Trees or commits that one side names as being there.
pub const BASES_MAX: usize = 64;
/// Most files in a snapshot; also most paths, which are files, links and directories.
pub const SNAPSHOT_FILES_MAX: u64 = 2_000_000;
/// Directories, one in another, that a snapshot may have. Deeper ones that a job leaves in a
/// workspace are removed before the next job.
pub const SNAPSHOT_DEPTH_MAX: usize = 256;
/// Paths of a snapshot together, in bytes.
pub const SNAPSHOT_NAMES_BYTES_MAX: u64 = 256 << 20;
/// Largest snapshot, in bytes of its files. A content that lies at several paths counts at each.
pub const SNAPSHOT_BYTES_MAX: u64 = 32 << 30;
/// Largest pack or artifact, in bytes.
pub const TRANSFER_BYTES_MAX: u64 = 32 << 30;
/// Bytes of one transfer that may be on the way beyond what the receiver has taken.
pub const TRANSFER_WINDOW_BYTES: u64 = 8 << 20;
/// Payload of one transfer frame, in bytes.
pub const TRANSFER_FRAME_BYTES: usize = 256 << 10;
/// Payload of the first frame of a transfer on a connection, in bytes; each one after it may have twice as many. A frame counts only whole, so
/// on a link that is cut again and again the first ones come further than large ones would.
pub const TRANSFER_FIRST_FRAME_BYTES: usize = 4 << 10;
/// Longest time for which a token is valid that ends at all: its end has to be a time that can be written.
pub const TOKEN_LASTS_MAX: Duration = DURATION_MAX;
/// Transfers of one connection at a time.
pub const TRANSFERS_MAX: usize = 16;
/// Artifacts of one attempt.
pub const ARTIFACTS_MAX: usize = 10_000;
/// Artifacts of one attempt, in bytes, unless configured otherwise.
pub const ARTIFACTS_BYTES_MAX: u64 = 4 << 30;
/// What names the artifacts of one attempt in its outcome (path, size, checksum), in bytes of its message.
pub const ARTIFACTS_NAMED_BYTES_MAX: usize = 2 << 20;
/// Longest path of a file in a snapshot or of an artifact, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;

const _: () = assert!(
    TRANSFER_FRAME_BYTES + crate::frame::BINARY_HEADER_BYTES <= BINARY_FRAME_BYTES_MAX
        && TRANSFER_FRAME_BYTES as u64 * 2 <= TRANSFER_WINDOW_BYTES
);
const _: () = assert!(
    EXCLUDES_BYTES_MAX + LEFT_BEHIND_BYTES_MAX * 2 + HISTORY_MAX * 3 * 80 < CONTROL_MESSAGE_BYTES_MAX
);
const _: () = assert!(ARTIFACTS_NAMED_BYTES_MAX * 2 <= CONTROL_MESSAGE_BYTES_MAX);
const _: () = assert!(
    CHUNK_BYTES_MAX + crate::output::CHUNK_HEADER_BYTES + crate::frame::BINARY_HEADER_BYTES
        <= BINARY_FRAME_BYTES_MAX
);
const _: () = assert!(
    BINARY_FRAME_BYTES_MAX as u64 <= FOLLOW_WINDOW_BYTES && FOLLOW_WINDOW_BYTES <= OUTPUT_WINDOW_BYTES
);
const _: () = assert!(COMMAND_BYTES_MAX + ENVIRONMENT_BYTES_MAX < CONTROL_MESSAGE_BYTES_MAX);
const _: () = assert!(REPORT_EVERY.as_secs() * 3 <= SILENCE_MAX.as_secs());
const _: () = assert!(SILENCE_MAX.as_secs() + SELF_FENCE_MARGIN.as_secs() < LOST_AFTER.as_secs());
const _: () = assert!(TIER_1_FINDINGS_MAX <= FINDINGS_MAX);
