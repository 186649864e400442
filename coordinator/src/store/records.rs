//! What is written down of jobs, workers and passing runs. Fields are only ever added, with a default.

use buildpool_protocol::ids::BootId;
use buildpool_protocol::outcome::{CrashType, Outcome};
use buildpool_protocol::report::{Cause, SnapshotInfo, TestCounts, Verdict};
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::{AttemptId, BuildId, JobId, WorkerId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One change to what is on disk.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A job as it is now. The spec is written once; what follows is replaced.
    Job(Box<JobRecord>),
    /// The whole log of an attempt that is too short for a file, as [`super::Sealed::inline`] gave it. Belongs into
    /// the batch that ends its job.
    Log {
        /// Whose.
        attempt: AttemptId,
        /// Its chunks.
        bytes: Bytes,
    },
    /// Whether an equal submit attaches to this job.
    Attachable {
        /// Which.
        job: JobId,
        /// From now on, or no longer.
        attachable: bool,
    },
    /// A worker as it was last seen.
    Worker(Box<WorkerRecord>),
    /// A worker that is not expected back.
    WorkerForgotten(WorkerId),
    /// A job that passed, for comparison with later ones.
    Passed(Box<PassingRun>),
}

/// Everything that is known of a job, apart from its log.
#[derive(Clone, PartialEq, Debug)]
pub struct JobRecord {
    /// Its id.
    pub job: JobId,
    /// What was asked for; never changes.
    pub spec: Arc<JobSpec>,
    /// The name of who asked, for people.
    pub submitter: String,
    /// Who asked: a token's id, or `local`. A `client_request_id` counts within it.
    pub principal: String,
    /// The same text by the same principal is the same job.
    pub client_request_id: Option<String>,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub created_at_ms: i64,
    /// One for each grant, the newest last.
    pub attempts: Vec<AttemptRecord>,
    /// Somebody asked to end it.
    pub cancel: Option<CancelRecord>,
    /// The working tree that was sent along.
    pub snapshot: Option<SnapshotInfo>,
    /// How it ended; set once.
    pub done: Option<DoneRecord>,
}

/// A grant and what became of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// From 1.
    pub number: u32,
    /// The fence.
    pub epoch: u64,
    /// To whom.
    pub worker: WorkerId,
    /// Its name at the time.
    pub worker_name: String,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub granted_at_ms: i64,
    /// Milliseconds since 1970 by the worker's clock.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// What became of it.
    #[serde(default)]
    pub ended: Option<AttemptEnd>,
    /// The longest absence that its worker was ever told it may outlive, in milliseconds.
    #[serde(default)]
    pub lost_after_ms: Option<u64>,
    /// The start of its worker's daemon that it was sent to.
    #[serde(default)]
    pub boot: Option<BootId>,
}

/// When and how an attempt ended, as the coordinator sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Milliseconds since 1970 by the coordinator's clock.
    pub at_ms: i64,
    /// How.
    pub how: AttemptEnding,
    /// Length of its log as far as it is stored, chunk headers included.
    #[serde(default)]
    pub log_length: u64,
}

/// How an attempt ended, as the coordinator sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnding {
    /// Its outcome is recorded and its log is sealed.
    Completed,
    /// Its worker stayed away, or came back without it.
    Lost {
        /// One sentence.
        reason: String,
    },
    /// Its worker did not take it.
    Declined {
        /// One sentence.
        reason: String,
    },
    /// It failed for infrastructure, and the submitter allowed another attempt.
    Retried {
        /// One sentence.
        reason: String,
    },
    /// It was ended before its process started.
    Withdrawn,
}

impl AttemptEnding {
    /// Why there is no result, for a person; none where there is one.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Completed => None,
            Self::Lost { reason } | Self::Declined { reason } | Self::Retried { reason } => {
                Some(reason.clone())
            }
            Self::Withdrawn => Some("it was withdrawn".to_owned()),
        }
    }
}

/// Who ended a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelRecord {
    /// A token's name or `local`.
    pub by: String,
    /// In their words; may be empty.
    pub reason: String,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub at_ms: i64,
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DoneRecord {
    /// Milliseconds since 1970 by the coordinator's clock.
    pub finished_at_ms: i64,
    /// The attempt that counts; none when it never ran.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// What it means to its submitter.
    pub verdict: Verdict,
    /// The process's own.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// What kind of bad end.
    #[serde(default)]
    pub crash_type: CrashType,
    /// Why, in a sentence.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// What the worker said; none when no worker did.
    #[serde(default)]
    pub outcome: Option<Box<Outcome>>,
    /// How long the process ran.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// The tool's own counts.
    #[serde(default)]
    pub tests: Option<TestCounts>,
    /// Its only or first likely root cause, in one line.
    #[serde(default)]
    pub headline: Option<String>,
}

/// A worker as it was last seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Its lasting identity.
    pub worker: WorkerId,
    /// Unique in the pool.
    pub name: String,
    /// Of its software.
    #[serde(default)]
    pub version: String,
    /// Jobs at a time.
    #[serde(default)]
    pub slots: u32,
    /// As it registered.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// As it registered.
    #[serde(default)]
    pub resources: BTreeMap<String, u32>,
    /// Somebody drained it; it stays so over restarts.
    #[serde(default)]
    pub draining: bool,
    /// When what still runs there is to end, in milliseconds since 1970 by the coordinator's clock.
    #[serde(default)]
    pub drain_until_ms: Option<i64>,
    /// Somebody let it take jobs again, and it has not come back as one that does.
    #[serde(default)]
    pub resumed: bool,
    /// Why it takes no jobs although it is connected.
    #[serde(default)]
    pub quarantined: Option<String>,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub first_seen_ms: i64,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub last_seen_ms: i64,
    /// An operator let it take jobs, or nobody has to.
    #[serde(default = "yes")]
    pub approved: bool,
    /// The name of the token that its identity belongs to.
    #[serde(default)]
    pub token: Option<String>,
}

/// Workers that were known before approval was are approved.
const fn yes() -> bool {
    true
}

/// What is remembered of a job that passed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PassingRun {
    /// Of which command in which project.
    pub key: HistoryKey,
    /// Which job.
    pub job: JobId,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub finished_at_ms: i64,
    /// How long the process ran.
    pub duration_ms: u64,
    /// All of its tests, where it had any.
    #[serde(default)]
    pub tests_total: Option<u64>,
    /// What its findings look like without what differs from run to run, as the digest names them.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// Names the same command in the same project.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct HistoryKey(pub [u8; 16]);

impl HistoryKey {
    /// The key of what this spec asks for.
    pub fn of(spec: &JobSpec) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("buildpool 2026 history key");
        hasher.update(spec.project.as_bytes()).update(&[0]);
        for argument in spec.command.argv() {
            hasher.update(argument.as_bytes()).update(&[0]);
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(key)
    }
}

/// Which jobs to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobFilter {
    /// Only those that are over, or only those that are not.
    pub done: Option<bool>,
    /// Only those of this build.
    pub build: Option<BuildId>,
    /// Only those created before this, in milliseconds since 1970: the next page.
    pub before_ms: Option<i64>,
}

/// The part of a [`JobRecord`] that is replaced with each change, as it lies in the database.
#[derive(Serialize)]
pub(super) struct BodyRef<'a> {
    submitter: &'a str,
    attempts: &'a [AttemptRecord],
    cancel: Option<&'a CancelRecord>,
    snapshot: Option<&'a SnapshotInfo>,
    done: Option<&'a DoneRecord>,
}

impl<'a> From<&'a JobRecord> for BodyRef<'a> {
    fn from(record: &'a JobRecord) -> Self {
        Self {
            submitter: &record.submitter,
            attempts: &record.attempts,
            cancel: record.cancel.as_ref(),
            snapshot: record.snapshot.as_ref(),
            done: record.done.as_ref(),
        }
    }
}

/// [`BodyRef`] read back.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Body {
    pub(super) submitter: String,
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) cancel: Option<CancelRecord>,
    pub(super) snapshot: Option<SnapshotInfo>,
    pub(super) done: Option<DoneRecord>,
}
