//! Records of jobs, workers and passing runs. Fields are only ever added, with a default.

use super::events::{NewEvent, TokenUse};
use buildpool_protocol::client_link::JobCursor;
use buildpool_protocol::ids::BootId;
use buildpool_protocol::outcome::{CrashType, Outcome};
use buildpool_protocol::report::{Cause, SnapshotInfo, TestCounts, Verdict};
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::{AttemptId, BuildId, JobId, TokenId, WorkerId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One change to the stored data.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The current state of a job. The spec is written once; the rest is replaced.
    Job(Box<JobRecord>),
    /// The whole log of an attempt without a log file, from [`super::Sealed::inline`]. Write it in
    /// the batch that ends its job.
    Log {
        /// The attempt.
        attempt: AttemptId,
        /// The chunks of the log.
        bytes: Bytes,
    },
    /// Whether an equal submit attaches to this job.
    Attachable {
        /// The job.
        job: JobId,
        /// True to allow attaching from now on, false to end it.
        attachable: bool,
    },
    /// A worker as it was last seen.
    Worker(Box<WorkerRecord>),
    /// Removes a worker that is not expected to return.
    WorkerForgotten(WorkerId),
    /// A passing run, for comparison with later runs.
    Passed(Box<PassingRun>),
    /// An event, in the transaction of the change that it describes.
    Event(Box<NewEvent>),
    /// Use of a token from an address.
    TokenUse(Box<TokenUse>),
}

/// Everything that is stored about a job, except its log.
#[derive(Clone, PartialEq, Debug)]
pub struct JobRecord {
    /// Id of the job.
    pub job: JobId,
    /// The submitted spec; it never changes.
    pub spec: Arc<JobSpec>,
    /// Display name of the submitter.
    pub submitter: String,
    /// Identity of the submitter: its name. The scope of `client_request_id`.
    pub principal: String,
    /// Token that the job was submitted with; `None` in records of earlier versions.
    pub token: Option<TokenId>,
    /// Idempotency key: the same key from the same principal means the same job.
    pub client_request_id: Option<String>,
    /// Time of acceptance, in milliseconds since 1970 by the coordinator's clock.
    pub created_at_ms: i64,
    /// One attempt for each grant, newest last.
    pub attempts: Vec<AttemptRecord>,
    /// The cancel request, if any.
    pub cancel: Option<CancelRecord>,
    /// The submitted snapshot, if any.
    pub snapshot: Option<SnapshotInfo>,
    /// How the job ended; set once.
    pub done: Option<DoneRecord>,
}

/// A grant and its result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Fencing epoch of the lease.
    pub epoch: u64,
    /// The worker that received the grant.
    pub worker: WorkerId,
    /// Name of the worker at the time of the grant.
    pub worker_name: String,
    /// Time of the grant, in milliseconds since 1970 by the coordinator's clock.
    pub granted_at_ms: i64,
    /// Start of the process, in milliseconds since 1970 by the worker's clock.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// How the attempt ended, if it has.
    #[serde(default)]
    pub ended: Option<AttemptEnd>,
    /// Longest absence limit that the worker has received for this attempt, in milliseconds.
    #[serde(default)]
    pub lost_after_ms: Option<u64>,
    /// Boot id of the worker daemon that the attempt was sent to.
    #[serde(default)]
    pub boot: Option<BootId>,
}

/// When and how an attempt ended, from the coordinator's view.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Milliseconds since 1970 by the coordinator's clock.
    pub at_ms: i64,
    /// The kind of end.
    pub how: AttemptEnding,
    /// Length of the stored log in bytes, including chunk headers.
    #[serde(default)]
    pub log_length: u64,
}

/// How an attempt ended, from the coordinator's view.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnding {
    /// Its outcome is recorded and its log is sealed.
    Completed,
    /// Its worker did not return in time, or returned without the attempt.
    Lost {
        /// The reason, in one sentence.
        reason: String,
    },
    /// The worker did not accept the attempt.
    Declined {
        /// The reason, in one sentence.
        reason: String,
    },
    /// It failed because of infrastructure, and the submitter allows another attempt.
    Retried {
        /// The reason, in one sentence.
        reason: String,
    },
    /// It was ended before its process started.
    Withdrawn,
}

impl AttemptEnding {
    /// Returns the reason why there is no result, as text for users, or `None` if there is a
    /// result.
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

/// A cancel request of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelRecord {
    /// Name of the token that cancelled it, or `local`.
    pub by: String,
    /// Reason given by the caller; may be empty.
    pub reason: String,
    /// Time of the request, in milliseconds since 1970 by the coordinator's clock.
    pub at_ms: i64,
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DoneRecord {
    /// Milliseconds since 1970 by the coordinator's clock.
    pub finished_at_ms: i64,
    /// When the log of the attempt that counts was sealed, by the same clock.
    #[serde(default)]
    pub sealed_at_ms: Option<i64>,
    /// Number of the attempt that counts; `None` if the job never ran.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// Verdict of the job.
    pub verdict: Verdict,
    /// Exit code of the process.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Type of the crash, if any.
    #[serde(default)]
    pub crash_type: CrashType,
    /// The cause, in one sentence.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// Outcome that the worker reported, if any.
    #[serde(default)]
    pub outcome: Option<Box<Outcome>>,
    /// Run time of the process, in milliseconds.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// Test counts reported by the tool.
    #[serde(default)]
    pub tests: Option<TestCounts>,
    /// The first likely root cause, in one line.
    #[serde(default)]
    pub headline: Option<String>,
}

/// A worker as it was last seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Permanent id of the worker.
    pub worker: WorkerId,
    /// Name, unique in the pool.
    pub name: String,
    /// Version of the worker's software.
    #[serde(default)]
    pub version: String,
    /// Number of jobs that it runs at once.
    #[serde(default)]
    pub slots: u32,
    /// Labels from its last registration.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Resources from its last registration.
    #[serde(default)]
    pub resources: BTreeMap<String, u32>,
    /// Submitters and teams from which the worker accepts jobs; all if empty.
    #[serde(default)]
    pub accepts: Vec<String>,
    /// An operator drained the worker. The flag survives restarts.
    #[serde(default)]
    pub draining: bool,
    /// Time at which jobs that still run there are ended, in milliseconds since 1970 by the
    /// coordinator's clock.
    #[serde(default)]
    pub drain_until_ms: Option<i64>,
    /// An operator resumed the worker, and it has not yet registered as accepting jobs.
    #[serde(default)]
    pub resumed: bool,
    /// Reason why a connected worker receives no jobs.
    #[serde(default)]
    pub quarantined: Option<String>,
    /// Time of the first registration, in milliseconds since 1970 by the coordinator's clock.
    pub first_seen_ms: i64,
    /// Time of the last contact, in milliseconds since 1970 by the coordinator's clock.
    pub last_seen_ms: i64,
    /// An operator approved the worker, or the pool requires no approval.
    #[serde(default = "yes")]
    pub approved: bool,
    /// Name of the token that the worker's identity is bound to.
    #[serde(default)]
    pub token: Option<String>,
    /// It had no contact for `lost_after`, and has not registered since then.
    #[serde(default)]
    pub lost: bool,
}

/// Default of `approved`: a record without the field is older than approvals.
const fn yes() -> bool {
    true
}

/// Data that is kept about a passing run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PassingRun {
    /// Key of the command and project.
    pub key: HistoryKey,
    /// The job.
    pub job: JobId,
    /// End of the job, in milliseconds since 1970 by the coordinator's clock.
    pub finished_at_ms: i64,
    /// Run time of the process, in milliseconds.
    pub duration_ms: u64,
    /// Total number of tests, if the run had tests.
    #[serde(default)]
    pub tests_total: Option<u64>,
    /// Signatures of its findings, without parts that differ from run to run.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// Key of a command in a project.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct HistoryKey(pub [u8; 16]);

impl HistoryKey {
    /// Returns the key of this spec's command and project.
    pub fn from_spec(spec: &JobSpec) -> Self {
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

/// Filter for a list of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobFilter<'a> {
    /// Only ended jobs (true) or only unfinished ones (false).
    pub done: Option<bool>,
    /// Only jobs of this [`JobRecord::principal`].
    pub principal: Option<&'a str>,
    /// Only jobs of this build.
    pub build: Option<BuildId>,
    /// Only jobs created at this time or later, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Only jobs after this place in the list. Used for the next page.
    pub after: Option<JobCursor>,
}

/// The part of a [`JobRecord`] that each change replaces, as stored in the database.
#[derive(Serialize)]
pub(super) struct BodyRef<'a> {
    submitter: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<TokenId>,
    attempts: &'a [AttemptRecord],
    cancel: Option<&'a CancelRecord>,
    snapshot: Option<&'a SnapshotInfo>,
    done: Option<&'a DoneRecord>,
}

impl<'a> From<&'a JobRecord> for BodyRef<'a> {
    fn from(record: &'a JobRecord) -> Self {
        Self {
            submitter: &record.submitter,
            token: record.token,
            attempts: &record.attempts,
            cancel: record.cancel.as_ref(),
            snapshot: record.snapshot.as_ref(),
            done: record.done.as_ref(),
        }
    }
}

/// Owned form of [`BodyRef`], for reading.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct RecordBody {
    pub(super) submitter: String,
    #[serde(default)]
    pub(super) token: Option<TokenId>,
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) cancel: Option<CancelRecord>,
    pub(super) snapshot: Option<SnapshotInfo>,
    pub(super) done: Option<DoneRecord>,
}
