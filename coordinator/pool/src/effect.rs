//! Everything that the pool wants done, in order.

use crate::input::{ClientRef, Session};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::{BootId, JobId, Lease, WorkerId};
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::report::{Cause, SnapshotInfo, Verdict};
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Grant, ToWorker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Something to do. Effects come out in the order in which they must happen.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// On disk before any later effect.
    Persist(Change),
    /// On disk soon, and before what is persisted after it. Nothing waits for it: if the coordinator dies first, it is told
    /// again.
    Note(Change),
    /// The job is accepted.
    Accepted {
        /// Whom to answer.
        client: ClientRef,
        /// The job; an earlier one when reattached.
        job: JobId,
        /// Whether it is an earlier job.
        reattached: bool,
    },
    /// The request is done: what was asked for is under way or already so.
    Acknowledged {
        /// Whom to answer.
        client: ClientRef,
        /// The job that it was about, if any.
        job: Option<JobId>,
    },
    /// The request can't be served.
    Refused {
        /// Whom to answer.
        client: ClientRef,
        /// Why.
        error: LinkError,
    },
    /// The worker is registered; say so, with what should become of each attempt that it holds.
    Welcome {
        /// The connection.
        session: Session,
        /// After how long without contact attempts may be granted again.
        lost_after: Duration,
        /// One for each attempt; for one that is to be cancelled, `Continue` and then `Cancel`, because its log goes on.
        wishes: Vec<Wish>,
    },
    /// Answer a report.
    Desire {
        /// The connection.
        session: Session,
        /// As in [`Effect::Welcome`].
        wishes: Vec<Wish>,
    },
    /// The worker behind this session may write to the log of this attempt from now on, and no other may.
    OpenLog {
        /// The connection.
        session: Session,
        /// Which attempt.
        lease: Lease,
    },
    /// Run this.
    Grant {
        /// The connection.
        session: Session,
        /// What.
        grant: Box<Grant>,
    },
    /// Send this now.
    Send {
        /// The connection.
        session: Session,
        /// What.
        message: Box<ToWorker>,
    },
    /// End this connection.
    Close {
        /// The connection.
        session: Session,
        /// Why.
        error: LinkError,
    },
    /// Something about a live job changed that its watchers want to know.
    Changed {
        /// Which.
        job: JobId,
    },
    /// A job is over; its record is on disk.
    Done {
        /// Which.
        job: JobId,
        /// What was recorded.
        record: Arc<DoneRecord>,
    },
    /// An attempt will not be heard of again: its log ends where it is.
    Abandon(LostAttempt),
}

/// An attempt that ended without a result.
#[derive(Clone, PartialEq, Debug)]
pub struct LostAttempt {
    /// Which.
    pub lease: Lease,
    /// Why, for a person.
    pub reason: String,
}

/// What should become of an attempt that a worker holds. The owner adds how much of its log there is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Go on.
    Continue(Lease),
    /// End it: somebody asked.
    Cancel {
        /// Which.
        lease: Lease,
        /// Who asked.
        by: String,
        /// In their words.
        reason: String,
    },
    /// End it and keep what it wrote to yourself.
    Fenced(Lease),
    /// It is recorded.
    Forget(Lease),
}

/// A change of what is on disk.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A new job.
    Submitted(Arc<JobRecord>),
    /// A job was granted, or what is known of an attempt changed.
    Attempt {
        /// The job.
        job: JobId,
        /// The attempt's number is in it.
        attempt: AttemptRecord,
    },
    /// Somebody asked to end a job.
    CancelAsked {
        /// The job.
        job: JobId,
        /// Who asked.
        by: String,
        /// In their words.
        reason: String,
    },
    /// A job is over.
    Done {
        /// The job.
        job: JobId,
        /// How.
        record: Arc<DoneRecord>,
    },
    /// Whether an equal submit attaches to this job: from when it was accepted until its answer was delivered.
    Attachable {
        /// The job.
        job: JobId,
        /// From now on, or no longer.
        attachable: bool,
    },
    /// A worker is known.
    Worker(WorkerRecord),
    /// A worker is not known any more.
    WorkerForgotten(WorkerId),
}

/// What was asked for, and by whom.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: JobId,
    /// What.
    pub spec: Arc<JobSpec>,
    /// For whom.
    pub submitter: String,
    /// Milliseconds since 1970.
    pub created_at_ms: i64,
    /// Its place in the queue.
    pub order: u64,
    /// The same text by the same submitter is this job.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// Shown with the result.
    #[serde(default)]
    pub snapshot: Option<SnapshotInfo>,
    /// How long this command usually runs, as history knows; for estimates only.
    #[serde(default)]
    pub usual: Option<Duration>,
}

/// An attempt, as far as is known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// From 1.
    pub number: u32,
    /// The fence.
    pub epoch: u64,
    /// On which worker.
    pub worker: WorkerId,
    /// Its name at the time.
    pub worker_name: String,
    /// Milliseconds since 1970.
    pub granted_at_ms: i64,
    /// Milliseconds since 1970 by the worker's clock, once its process started.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// Why it ended without a result, if it did.
    #[serde(default)]
    pub lost: Option<String>,
    /// Whether that counts as a loss with its worker.
    #[serde(default)]
    pub counted: bool,
    /// Whether it failed for infrastructure and was tried again, as the submitter allowed.
    #[serde(default)]
    pub retried: bool,
    /// The longest absence that its worker was ever told it may outlive.
    #[serde(default)]
    pub lost_after: Duration,
    /// The start of its worker's daemon that it was sent to.
    #[serde(default)]
    pub boot: Option<BootId>,
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DoneRecord {
    /// The attempt whose result this is; 0 when there was none.
    pub attempt: u32,
    /// Milliseconds since 1970, by the coordinator's clock.
    pub finished_at_ms: i64,
    /// What it means.
    pub verdict: Verdict,
    /// Why.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// The worker's facts; none when no attempt gave a result.
    #[serde(default)]
    pub outcome: Option<Box<Outcome>>,
}

/// A worker that the pool has seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Its lasting identity.
    pub worker: WorkerId,
    /// Unique in the pool.
    pub name: String,
    /// Jobs at a time.
    pub slots: u32,
    /// What it offers.
    pub labels: BTreeMap<String, String>,
    /// What it has.
    pub resources: BTreeMap<String, u32>,
    /// Takes no more jobs, by an operator's word.
    pub draining: bool,
    /// When what still runs is to end, in milliseconds since 1970.
    #[serde(default)]
    pub drain_until_ms: Option<i64>,
    /// An operator let it take jobs again, and it has not come back as one that does.
    #[serde(default)]
    pub resumed: bool,
    /// Milliseconds since 1970.
    pub last_seen_ms: i64,
    /// Of its software.
    pub version: String,
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
