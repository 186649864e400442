//! Internal limits of the worker. Limits that a peer can reach are in
//! [`buildpool_protocol::limits`].

use std::time::Duration;

/// Delay after the end of the command and its pipes before a remaining process counts as leaked. A
/// process that is just exiting is not leaked, even on a slow machine.
pub const SETTLE: Duration = Duration::from_millis(250);
/// Time from SIGTERM to SIGKILL for processes that outlived their command.
pub const LEAK_GRACE: Duration = Duration::from_secs(2);
/// Limit on the grace period of a disconnected worker: the process tree must end within the margin.
pub const CUT_OFF_GRACE_MAX: Duration = Duration::from_secs(20);
/// First pause between two rounds of ending a process tree. It doubles up to [`ROUND_PAUSE_MAX`].
pub const ROUND_PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause between two rounds of ending a process tree.
pub const ROUND_PAUSE_MAX: Duration = Duration::from_millis(200);
/// Limit on the delay of SIGTERM after a timeout in which processes print their stacks.
pub const STACKS_FOR: Duration = Duration::from_secs(3);
/// Time without output after which the stacks are complete.
pub const STACKS_QUIET: Duration = Duration::from_millis(500);
/// The same if a debugger prints some of them.
pub const DEBUGGER_QUIET: Duration = Duration::from_millis(1_500);
/// Time limit for killing a process tree before the rest is reported as survivors.
pub const KILL_FOR: Duration = Duration::from_secs(10);
/// Time limit for one round of stopping a process tree that forks faster than the process table can
/// be read.
pub const STOP_DESCENDANTS_FOR: Duration = Duration::from_millis(100);
/// Time limit for reading the process table. A job that forks without end could make it endless,
/// and a keeper has deadlines.
pub const READ_TABLE_FOR: Duration = Duration::from_secs(1);
/// Time limit for one round of stopping a process tree.
pub const STOP_FOR: Duration = Duration::from_secs(1);
/// Limit on the statuses reaped in a row: such a job always has one more.
pub const REAP_MAX: usize = 4096;
/// Limit on the passes over the process table in one round of stopping a tree that forks.
pub const STOP_PASSES_MAX: usize = 64;
/// Limit on the output on disk that the coordinator has not received. Beyond it, the job blocks on
/// its pipe or loses its middle.
pub const SPOOL_WINDOW_BYTES: u64 = 1 << 30;
/// Size of the last output kept in memory while the middle is dropped.
pub const TAIL_KEEP_BYTES: usize = 1 << 20;
/// Space reserved for gap and tail below the log limit.
pub const LOG_RESERVE_BYTES: u64 = 4 << 20;
/// Time limit for output blocked by a full disk, after which the job is ended.
pub const DISK_FULL_MAX: Duration = Duration::from_secs(10 * 60);
/// Retry interval for a write to a full disk.
pub const DISK_FULL_RETRY: Duration = Duration::from_millis(500);
/// Check interval of a worker that could not prepare a job.
pub const ROOM_LOOK_EVERY: Duration = Duration::from_secs(2);
/// Minimum interval between two measurements of the files of a job.
pub const DISK_LOOK_EVERY: Duration = Duration::from_secs(5);
/// A measurement of a job's files takes at most this part of the time: one twentieth.
pub const DISK_LOOK_PART: u32 = 20;
/// Free space below which a disk counts as full, with any configuration, in bytes.
pub const SHORT_BYTES: u64 = 16 << 20;
/// Size of the test file for a worker to accept jobs again, in bytes.
pub const ROOM_BYTES_MIN: usize = 1 << 20;
/// Limit on the directories of ended attempts that later ones use again.
pub const SPARE_DIRECTORIES_MAX: usize = 16;
/// Limit on the size of the working directory in such a directory, without its files, in bytes.
pub const SPARE_DIRECTORY_BYTES_MAX: u64 = 64 << 10;
/// Limit on the size of a record that stays in such a directory, in bytes: a block of usual file systems. After a power loss,
/// a longer record could have blocks of two attempts.
pub const SPARE_RECORD_BYTES_MAX: i64 = 4 << 10;
/// Space reserved by each keeper, so that a result can be written to a full disk, in bytes.
pub const RESERVE_BYTES: usize = 64 << 10;
/// Requested buffer size of each pipe, in bytes.
pub const PIPE_BYTES: i32 = 256 << 10;
/// Limit on a message between worker and keeper, in bytes.
pub const KEEPER_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Limit on the messages that a keeper buffers for a worker that does not read, in bytes. Beyond
/// it, progress messages are dropped.
pub const KEEPER_BACKLOG_BYTES: usize = 64 << 10;
/// Limit on a message with the records of an ended attempt, in bytes. The worker reads longer ones from the disk.
pub const ACCOUNT_BYTES_MAX: usize = KEEPER_BACKLOG_BYTES / 2;
/// Minimum interval between two progress messages of a keeper.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(5);
/// Time for which the directory of an attempt must be missing until its keeper treats it as
/// removed. Before that it may be in the middle of a rename.
pub const ATTEMPT_GONE_FOR: Duration = Duration::from_secs(10);
/// Interval at which a keeper lists the processes of its tree.
pub const OBSERVE_EVERY: Duration = Duration::from_secs(2);
/// Time after the start of a command at which its process is recorded, if a guardian watches the keeper. Shorter jobs need
/// no record.
pub const WRITE_STATE_AFTER: Duration = Duration::from_millis(100);
/// Limit on the remembered processes of a tree.
pub const SEEN_MAX: usize = 4096;
/// Limit on one poll of a keeper with a lease, because a poll does not count the time that the
/// machine sleeps.
pub const POLL_MAX: Duration = Duration::from_secs(5);
/// Time limit for a keeper's hello message.
pub const KEEPER_HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Retry interval for a running keeper that does not answer.
pub const KEEPER_RETRY: Duration = Duration::from_secs(1);
/// Log bytes in one frame on the link, chunk headers included.
pub const FRAME_LOG_BYTES: usize = 256 << 10;
/// Longest first pause before a reconnect. It doubles, with jitter, up to [`BACKOFF_MAX`].
pub const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// Longest pause before a reconnect.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Longest pause before a reconnect after a standby has named its leader: a lost leader is replaced within seconds.
pub const FAILOVER_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time limit for a connection, TLS and the WebSocket handshake included.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// The same for one of several coordinators.
pub const CONNECT_ONE_WITHIN: Duration = Duration::from_secs(4);
/// Size of the queue of control messages for the link.
pub const CONTROL_QUEUE: usize = 256;
/// Size of the event queue of the daemon.
pub const EVENT_QUEUE: usize = 1024;
/// Delay of a report after a change, which combines several changes. A job that starts and ends within it needs no
/// report, because its grant and its end have messages of their own. A person does not notice the delay.
pub const REPORT_SETTLE: Duration = Duration::from_millis(20);
/// Size of the end of a log that is searched for crash indicators, in bytes.
pub const SUSPECT_TAIL_BYTES: u64 = 16 << 20;
/// Interval between two checks for crash files, which the system writes late.
pub const EVIDENCE_POLL: Duration = Duration::from_millis(100);
/// Time that an exiting daemon waits until its last results are recorded. Otherwise they stay on
/// disk.
pub const LAST_WORDS: Duration = Duration::from_secs(5);
/// Time after which an unrecorded result is sent again on the same connection.
pub const REPEAT_AFTER: Duration = Duration::from_secs(5);
/// Time without an acknowledgement after which output is sent again.
pub const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Limit on a configuration file, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

const _: () = assert!(
    CUT_OFF_GRACE_MAX.as_secs() + KILL_FOR.as_secs()
        < buildpool_protocol::limits::SELF_FENCE_MARGIN.as_secs()
);
const _: () = assert!(
    FRAME_LOG_BYTES + buildpool_protocol::frame::BINARY_HEADER_BYTES
        <= buildpool_protocol::limits::BINARY_FRAME_BYTES_MAX
);
const _: () = assert!(
    FRAME_LOG_BYTES
        > buildpool_protocol::limits::CHUNK_BYTES_MAX + buildpool_protocol::output::CHUNK_HEADER_BYTES
);
/// Minimum interval between cleanups of workspaces, which run at the end of an attempt.
pub const TIDY_EVERY: Duration = Duration::from_secs(10 * 60);
