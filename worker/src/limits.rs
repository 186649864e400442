//! Bounds of the worker that no peer sees. Those that a peer can run into are in [`buildpool_protocol::limits`].

use std::time::Duration;

/// Between the end of the command and of its pipes, whichever came last, and the judgement that a process that is left was
/// leaked: what is just about to exit is none, however slow the machine.
pub const SETTLE: Duration = Duration::from_millis(250);
/// From SIGTERM to SIGKILL for processes that outlived their command.
pub const LEAK_GRACE: Duration = Duration::from_secs(2);
/// Longest grace when the worker is cut off: the tree must be gone within the margin.
pub const CUT_OFF_GRACE_MAX: Duration = Duration::from_secs(20);
/// First pause between two rounds of ending a tree; doubles up to [`ROUND_PAUSE_MAX`].
pub const ROUND_PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause between two rounds of ending a tree.
pub const ROUND_PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long a tree is killed again and again before its rest is reported as survivors.
pub const KILL_FOR: Duration = Duration::from_secs(10);
/// How long one round of stopping a tree follows processes that fork faster than the process table can be read.
pub const CHASE_FOR: Duration = Duration::from_millis(100);
/// Longest look at the process table: under a job that forks without end it would have none, and a keeper has deadlines to hold.
pub const LOOK_FOR: Duration = Duration::from_secs(1);
/// Longest round of stopping a tree.
pub const STOP_FOR: Duration = Duration::from_secs(1);
/// Statuses that are taken in a row: under such a job there is always one more.
pub const REAP_MAX: usize = 4096;
/// Passes over the process table in one round of stopping a tree that forks.
pub const STOP_PASSES_MAX: usize = 64;
/// Output on disk that the coordinator does not have yet, at which a job waits at its pipe or loses its middle.
pub const SPOOL_WINDOW_BYTES: u64 = 1 << 30;
/// Last output that is kept in memory while the middle is being lost.
pub const TAIL_KEEP_BYTES: usize = 1 << 20;
/// Room that stays for gap and tail below the largest log.
pub const LOG_RESERVE_BYTES: u64 = 4 << 20;
/// How long a full disk may hold a job's output before the job is ended.
pub const DISK_FULL_MAX: Duration = Duration::from_secs(10 * 60);
/// How often a write to a full disk is tried again.
pub const DISK_FULL_RETRY: Duration = Duration::from_millis(500);
/// How often a worker that could not lay out a job looks whether there is room again.
pub const ROOM_LOOK_EVERY: Duration = Duration::from_secs(2);
/// A disk with less free space is short of it, whatever the configuration, in bytes.
pub const SHORT_BYTES: u64 = 16 << 20;
/// What must fit on the disk of such a worker before it takes jobs again, in bytes.
pub const ROOM_BYTES_MIN: usize = 1 << 20;
/// Space that each keeper holds back so that a result can be written to a full disk, in bytes.
pub const RESERVE_BYTES: usize = 64 << 10;
/// Buffer that is asked for each pipe, in bytes.
pub const PIPE_BYTES: i32 = 256 << 10;
/// Largest message between worker and keeper, in bytes.
pub const KEEPER_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// What a keeper holds for a worker that does not read, in bytes; progress is left out beyond it.
pub const KEEPER_BACKLOG_BYTES: usize = 64 << 10;
/// Shortest time between two reports of progress by a keeper.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(5);
/// For how long the directory of an attempt must be gone until its keeper takes it to be removed and not on its way elsewhere.
pub const ATTEMPT_GONE_FOR: Duration = Duration::from_secs(10);
/// How often a keeper looks who is in its tree.
pub const OBSERVE_EVERY: Duration = Duration::from_secs(2);
/// Processes of a tree that are remembered.
pub const SEEN_MAX: usize = 4096;
/// Longest sleep of a keeper that holds a lease, because a poll does not count the time that a machine sleeps.
pub const POLL_MAX: Duration = Duration::from_secs(5);
/// Longest time for a keeper to say hello.
pub const KEEPER_HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How often a keeper that is alive but does not answer is tried again.
pub const KEEPER_RETRY: Duration = Duration::from_secs(1);
/// Log bytes in one frame on the link, chunk headers included.
pub const FRAME_LOG_BYTES: usize = 256 << 10;
/// First pause before a reconnect; doubles, with jitter, up to [`BACKOFF_MAX`].
pub const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// Longest pause before a reconnect.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Longest time to open a connection, TLS and the WebSocket handshake included.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Read buffer of a connection, in bytes.
pub const READ_BUFFER_BYTES: usize = 8 << 10;
/// Control messages that wait for the link.
pub const CONTROL_QUEUE: usize = 256;
/// Events that wait for the daemon.
pub const EVENT_QUEUE: usize = 1024;
/// A change is reported after this pause, so that several make one report.
pub const REPORT_SETTLE: Duration = Duration::from_millis(5);
/// How much of the end of a log is searched for words that suggest a crash, in bytes.
pub const SUSPECT_TAIL_BYTES: u64 = 16 << 20;
/// Between two looks for crash files, which the system writes late.
pub const EVIDENCE_POLL: Duration = Duration::from_millis(100);
/// How long a daemon that ends waits for its last results to be recorded; they stay on the disk otherwise.
pub const LAST_WORDS: Duration = Duration::from_secs(5);
/// A result that was not recorded for this long is told again on the same connection.
pub const REPEAT_AFTER: Duration = Duration::from_secs(5);
/// Nothing acknowledged for this long while output is on the way: it is sent again.
pub const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Longest configuration file, in bytes.
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
/// How often the space of workspaces is looked after, at the end of an attempt.
pub const TIDY_EVERY: Duration = Duration::from_secs(10 * 60);
