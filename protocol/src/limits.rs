//! All limits that a peer can reach. Relations between them are checked at compile time.

use std::time::Duration;

/// Limit on a control message (a JSON text frame), in bytes. A larger one ends the connection with
/// `too_large`.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Limit on a binary frame, in bytes, including its header.
pub const BINARY_FRAME_BYTES_MAX: usize = 1 << 20;
/// Limit on the payload of one output chunk, in bytes: the most that one read of a pipe returns.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Limit on the unacknowledged output sent to a reader, in bytes.
pub const FOLLOW_WINDOW_BYTES: u64 = 4 << 20;
/// Limit on the unacknowledged output sent by a worker, in bytes.
pub const OUTPUT_WINDOW_BYTES: u64 = 8 << 20;

/// Standard input that a client may send beyond the room of the job's keeper, in bytes.
pub const STDIN_WINDOW_BYTES: u64 = 2 << 20;
/// Standard input that a keeper holds for a command that does not read, in bytes.
pub const STDIN_KEEPER_BYTES: u64 = 1 << 20;
/// Payload of one frame of standard input, in bytes.
pub const STDIN_FRAME_BYTES: usize = 128 << 10;
/// Longest standard input of a job, in bytes. Beyond it the job reads the end of input, and the result states it.
pub const STDIN_BYTES_MAX: u64 = 4 << 30;
/// Longest standard input that is given as a text, in bytes.
pub const STDIN_TEXT_BYTES_MAX: usize = 1 << 20;

/// Time limit for `register` after the connection is open.
pub const REGISTER_WITHIN: Duration = Duration::from_secs(10);
/// Interval between full state reports of each side.
pub const REPORT_EVERY: Duration = Duration::from_secs(10);
/// A link without traffic for this long is closed. Its jobs continue.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Default time without contact after which an attempt may be declared lost.
pub const LOST_AFTER: Duration = Duration::from_secs(15 * 60);
/// Safety margin: a disconnected keeper ends its process tree this much earlier than the
/// coordinator declares the attempt lost.
pub const SELF_FENCE_MARGIN: Duration = Duration::from_secs(60);
/// Default time from SIGTERM to SIGKILL.
pub const GRACE: Duration = Duration::from_secs(10);
/// After a cancel, a job ends within its grace, the minute that its worker has to confirm the end, and this, whatever its
/// worker or the disk does. If all of its log has arrived, its digest has a minute more to end.
pub const CANCEL_MARGIN: Duration = Duration::from_secs(60);
/// Limit on the grace period of a job.
pub const GRACE_MAX: Duration = Duration::from_secs(60 * 60);
/// Default limit on the run time of a job.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Time that pipes may stay open after the command itself has exited.
pub const PIPE_DRAIN: Duration = Duration::from_secs(2);
/// Idle time, without a job or a client, after which the local pool exits.
pub const LOCAL_POOL_IDLE: Duration = Duration::from_secs(30 * 60);

/// Limit on the command, all arguments together, in bytes.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;
/// Limit on the number of arguments of a command.
pub const ARGUMENTS_MAX: usize = 16_384;
/// Limit on the environment of a job, names and values together, in bytes.
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;
/// Limit on the selectors, resources, report globs and artifact globs of a job, each.
pub const LIST_MAX: usize = 64;
/// Limit on the name of a label, resource, template, worker or token, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Limit on a regular expression of a template, in bytes.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;
/// Limit on a `client_request_id`, label value or cancel reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Limit on a duration in a message. A larger one could not be stored or added to a time.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Latest time in a message, in milliseconds since 1970: the end of the year 9999 (RFC 3339 has
/// four digits for a year). The earliest one is as far before 1970.
pub const TIME_MS_MAX: i64 = 253_402_300_799_999;
/// Limit on a log or stream, holes included, in bytes. A double, the number type of many JSON
/// parsers, represents each integer up to it.
pub const LOG_LENGTH_MAX: u64 = 1 << 53;
/// Limit on the labels, resources and warm projects of a worker, each.
pub const OFFERS_MAX: usize = 4 * LIST_MAX;
/// Limit on all labels of a worker together, in bytes.
pub const LABELS_BYTES_MAX: usize = 16 << 10;
/// Limit on the units of one resource of a worker.
pub const UNITS_MAX: u32 = 1_000_000;
/// Limit on the attempts that a worker reports.
pub const ATTEMPTS_HELD_MAX: usize = 10 * SLOTS_MAX as usize;
/// Limit on the text of an error in a message, in bytes.
pub const ERROR_BYTES_MAX: usize = 16 << 10;
/// Limit on a text in the evidence of an outcome, in bytes.
pub const EVIDENCE_TEXT_BYTES_MAX: usize = 16 << 10;
/// Limit on the entries of one list in an outcome.
pub const EVIDENCE_LIST_MAX: usize = 10_000;
/// Limit on the tests that a report counts.
pub const TESTS_COUNTED_MAX: u64 = 1_000_000_000;
/// Limit on the names in one list of a snapshot's notes.
pub const SNAPSHOT_NOTES_MAX: usize = 10_000;
/// Limit on the queued and running jobs of a pool.
pub const LIVE_JOBS_MAX: usize = 200_000;
/// Limit on the specs and secrets of live jobs in a pool, in bytes: they are kept in memory.
pub const LIVE_SPECS_BYTES_MAX: u64 = 256 << 20;
/// Limit on the jobs in one answer of `jobs`.
pub const JOBS_PAGE_MAX: usize = 1_000;
/// Limit on the jobs in one build.
pub const BUILD_JOBS_MAX: usize = 64;
/// Limit on the slots of one worker.
pub const SLOTS_MAX: u32 = 1024;
/// Maximum number of grants that the coordinator sends to a worker beyond its slots.
pub const EARLY_GRANTS_MAX: u32 = 64;
/// Maximum time that a grant waits on a worker for a free slot. Then the worker declines it.
pub const EARLY_GRANT_WAIT_MAX: Duration = Duration::from_millis(200);
/// Number of attempts lost with their worker after which a job fails permanently.
pub const LOSSES_MAX: u32 = 3;

/// Limit on the completed logs in memory, by count.
pub const RING_JOBS: usize = 50;
/// Limit on the completed logs in memory, in bytes.
pub const RING_BYTES_MAX: usize = 64 << 20;
/// Default age after which stored logs are removed.
pub const RETENTION_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Default limit on stored logs, in bytes. The oldest are removed first.
pub const RETENTION_BYTES: u64 = 10 << 30;
/// Limit on the log of one attempt, in bytes. Beyond it, the middle becomes a counted gap.
pub const LOG_BYTES_MAX: u64 = 64 << 30;
/// Longest log of one attempt unless configured otherwise, in bytes.
pub const LOG_BYTES_DEFAULT: u64 = 1 << 30;
/// Minimum log size that a quota leaves an attempt, in bytes: head, tail and the gap record between
/// them.
pub const LOG_BYTES_MIN: u64 = 4 << 20;

/// Limit on the tier 1 findings that are shown.
pub const TIER_1_FINDINGS_MAX: usize = 15;
/// Limit on the findings of a digest, all tiers.
pub const FINDINGS_MAX: usize = 400;
/// Lines of context before a finding.
pub const PRE_CONTEXT_LINES: usize = 5;
/// Lines of context after a finding.
pub const POST_CONTEXT_LINES: usize = 10;
/// Default limit on the text of a log answer, in characters per stream.
pub const LOG_ANSWER_CHARS: usize = 40_000;

/// Limit on the name of a project, in bytes.
pub const PROJECT_BYTES_MAX: usize = 512;
/// Limit on the name of a branch or tag, in bytes.
pub const REF_NAME_BYTES_MAX: usize = 1024;
/// Limit on the ignore patterns sent with a snapshot, in bytes.
pub const EXCLUDES_BYTES_MAX: usize = 64 << 10;
/// Longest `setup` command in bytes.
pub const SETUP_COMMAND_BYTES_MAX: usize = 16 << 10;
/// Bytes of the output of a setup that a result keeps: its end.
pub const SETUP_LOG_BYTES_MAX: usize = 32 << 10;
/// Limit on the files and directories of the commit that are left out of a snapshot.
pub const LEFT_BEHIND_MAX: usize = 1_000;
/// Limit on their names together, in bytes.
pub const LEFT_BEHIND_BYTES_MAX: usize = 64 << 10;
/// Limit on the commits and tags sent with a snapshot, for `git describe`.
pub const HISTORY_MAX: usize = 1_000;
/// Limit on the trees or commits that one side lists as present.
pub const BASES_MAX: usize = 64;
/// Limit on the files of a snapshot. It also limits its paths, which are files, links and
/// directories.
pub const SNAPSHOT_FILES_MAX: u64 = 2_000_000;
/// Limit on the directory depth of a snapshot. Deeper directories that a job leaves in a workspace
/// are removed before the next job.
pub const SNAPSHOT_DEPTH_MAX: usize = 256;
/// Limit on all paths of a snapshot together, in bytes.
pub const SNAPSHOT_NAMES_BYTES_MAX: u64 = 256 << 20;
/// Limit on the files of a snapshot, in bytes. A content at several paths counts at each.
pub const SNAPSHOT_BYTES_MAX: u64 = 32 << 30;
/// Limit on a pack or artifact, in bytes.
pub const TRANSFER_BYTES_MAX: u64 = 32 << 30;
/// Bytes that one snapshot transfers at most, unless the operator sets another quota.
pub const SNAPSHOT_TRANSFER_BYTES_DEFAULT: u64 = 4 << 30;
/// Bytes of the stored snapshots of one trust class, unless the operator sets another quota.
pub const STORED_SNAPSHOT_BYTES_DEFAULT: u64 = 16 << 30;
/// Limit on the unacknowledged bytes of one transfer.
pub const TRANSFER_WINDOW_BYTES: u64 = 8 << 20;
/// Payload of one transfer frame, in bytes.
pub const TRANSFER_FRAME_BYTES: usize = 256 << 10;
/// Payload of the first frame of a transfer on a connection, in bytes. The size doubles with each
/// frame. Only complete frames count, so small first frames make progress on a link that is
/// interrupted often.
pub const TRANSFER_FIRST_FRAME_BYTES: usize = 4 << 10;
/// Limit on the lifetime of a token that expires. Its end must be a representable time.
pub const TOKEN_LASTS_MAX: Duration = DURATION_MAX;
/// Limit on a program for workers, in bytes. Programs of a release have about 20 MB, those of a debug build ten times
/// as much.
pub const PROGRAM_BYTES_MAX: u64 = 512 << 20;
/// Limit on the programs for workers that a coordinator keeps. The oldest is removed first.
pub const PROGRAMS_MAX: usize = 16;
/// Limit on the time in which the new program of a worker must register in its trial.
pub const REGISTER_TRIAL_MAX: Duration = Duration::from_secs(60 * 60);
/// Limit on the concurrent transfers of one connection.
pub const TRANSFERS_MAX: usize = 16;
/// Limit on the artifacts of one attempt.
pub const ARTIFACTS_MAX: usize = 10_000;
/// Default limit on the artifacts of one attempt, in bytes.
pub const ARTIFACTS_BYTES_MAX: u64 = 4 << 30;
/// Limit on the artifact list of one attempt in its outcome (path, size, checksum), in bytes of its
/// message.
pub const ARTIFACTS_NAMED_BYTES_MAX: usize = 2 << 20;
/// Limit on the path of a file in a snapshot or of an artifact, in bytes.
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
