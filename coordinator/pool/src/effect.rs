//! Effects: all actions that the pool requests, in order.

use crate::input::{ClientRef, Session};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::{BootId, JobId, Lease, TokenId, WorkerId};
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::report::{Cause, SnapshotInfo, Verdict};
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Grant, ToWorker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// An action for the owner. Effects must be carried out in their order.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Write this change to disk before any later effect.
    Persist(Change),
    /// Write this change to disk soon, and before any later `Persist`. No effect waits for it. If
    /// the coordinator dies first, the worker reports it again.
    Note(Change),
    /// The job is accepted.
    Accepted {
        /// The client to answer.
        client: ClientRef,
        /// The job; an earlier one when reattached.
        job: JobId,
        /// True if it is an earlier job.
        reattached: bool,
    },
    /// The request succeeded, or its result already holds.
    Acknowledged {
        /// The client to answer.
        client: ClientRef,
        /// The job of the request, if any.
        job: Option<JobId>,
    },
    /// The request is refused.
    Refused {
        /// The client to answer.
        client: ClientRef,
        /// The reason.
        error: LinkError,
    },
    /// Answers a registration, with the desired state of each held attempt.
    Welcome {
        /// The worker's session.
        session: Session,
        /// Time without contact after which attempts may be granted again.
        lost_after: Duration,
        /// One per attempt. A cancelled attempt has `Continue` and then `Cancel`, because its log
        /// continues.
        desired: Vec<DesiredState>,
    },
    /// Answers a report.
    SendDesired {
        /// The worker's session.
        session: Session,
        /// As in [`Effect::Welcome`].
        desired: Vec<DesiredState>,
    },
    /// Only this session may write to the log of this attempt from now on.
    OpenLog {
        /// The worker's session.
        session: Session,
        /// Lease of the attempt.
        lease: Lease,
    },
    /// Grants an attempt to a worker.
    Grant {
        /// The worker's session.
        session: Session,
        /// The grant.
        grant: Box<Grant>,
    },
    /// Sends a message immediately.
    Send {
        /// The worker's session.
        session: Session,
        /// The message.
        message: Box<ToWorker>,
    },
    /// Closes a connection.
    Close {
        /// The worker's session.
        session: Session,
        /// The reason.
        error: LinkError,
    },
    /// A live job changed. Its watchers should be notified.
    Changed {
        /// The job.
        job: JobId,
    },
    /// A job is done, and its record is on disk.
    Done {
        /// The job.
        job: JobId,
        /// The record.
        record: Arc<DoneRecord>,
    },
    /// The job of this attempt must end now: the digest leaves out the part of the log that it has not read.
    CutDigest {
        /// Lease of the attempt.
        lease: Lease,
    },
    /// An attempt will not continue: its log ends at its current length.
    Abandon(LostAttempt),
}

/// An attempt that ended without a result.
#[derive(Clone, PartialEq, Debug)]
pub struct LostAttempt {
    /// Lease of the attempt.
    pub lease: Lease,
    /// The reason, for users.
    pub reason: String,
}

/// Desired state of an attempt that a worker holds. The owner adds the stored length of its log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DesiredState {
    /// Continue.
    Continue(Lease),
    /// End it, because a user cancelled it.
    Cancel {
        /// Lease of the attempt.
        lease: Lease,
        /// Name of the user.
        by: String,
        /// Reason given by the user.
        reason: String,
    },
    /// End it and do not send its output.
    Fenced(Lease),
    /// The result is recorded. The worker may delete the attempt.
    Forget(Lease),
}

/// A change of the records on disk.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A new job.
    Submitted(Arc<JobRecord>),
    /// A job was granted, or the facts of an attempt changed.
    Attempt {
        /// The job.
        job: JobId,
        /// The attempt with its number.
        attempt: AttemptRecord,
    },
    /// A user cancelled a job.
    CancelRequested {
        /// The job.
        job: JobId,
        /// Name of the user.
        by: String,
        /// Reason given by the user.
        reason: String,
    },
    /// A job is done.
    Done {
        /// The job.
        job: JobId,
        /// Its end.
        record: Arc<DoneRecord>,
    },
    /// Sets if an identical submit attaches to this job. That is the case from its acceptance until
    /// its result is delivered.
    Attachable {
        /// The job.
        job: JobId,
        /// True if submits attach from now on.
        attachable: bool,
    },
    /// A new or changed worker.
    Worker(WorkerRecord),
    /// A worker was removed.
    WorkerForgotten(WorkerId),
}

/// A submitted job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobRecord {
    /// Id of the job.
    pub job: JobId,
    /// Its spec.
    pub spec: Arc<JobSpec>,
    /// Name of the submitter.
    pub submitter: String,
    /// Token that it was submitted with; `None` in records of earlier versions.
    pub token: Option<TokenId>,
    /// Time of submission, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// Its position in the queue.
    pub order: u64,
    /// Idempotency key: the same text from the same submitter refers to this job.
    pub client_request_id: Option<String>,
    /// Notes about the snapshot, shown with the result.
    pub snapshot: Option<SnapshotInfo>,
    /// Usual run time of this command from history. Used only for estimates.
    pub usual: Option<Duration>,
}

/// The known facts of an attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptRecord {
    /// Number, from 1.
    pub number: u32,
    /// The fencing epoch.
    pub epoch: u64,
    /// The worker.
    pub worker: WorkerId,
    /// Name of the worker at the time of the grant.
    pub worker_name: String,
    /// Time of the grant, in milliseconds since 1970.
    pub granted_at_ms: i64,
    /// Start of its process, in milliseconds since 1970 by the worker's clock.
    pub started_at_ms: Option<i64>,
    /// Reason if it ended without a result.
    pub lost: Option<String>,
    /// True if it counts as lost with its worker.
    pub counted: bool,
    /// True if it was retried after an infrastructure failure, as the submitter allowed.
    pub retried: bool,
    /// The longest `lost_after` ever sent to its worker for this attempt.
    pub lost_after: Duration,
    /// Start of the worker's daemon that received the grant.
    pub boot: Option<BootId>,
}

/// End of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct DoneRecord {
    /// The attempt of this result; 0 without one.
    pub attempt: u32,
    /// Milliseconds since 1970, by the coordinator's clock.
    pub finished_at_ms: i64,
    /// The verdict.
    pub verdict: Verdict,
    /// The cause.
    pub cause: Option<Cause>,
    /// The worker's facts. `None` if no attempt gave a result.
    pub outcome: Option<Box<Outcome>>,
}

/// A known worker.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkerRecord {
    /// Its permanent identity.
    pub worker: WorkerId,
    /// Name, unique in the pool.
    pub name: String,
    /// Number of concurrent jobs.
    pub slots: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Units of its resources.
    pub resources: BTreeMap<String, u32>,
    /// Submitters and teams whose jobs it takes; all if empty.
    pub accepts: Vec<String>,
    /// True if an operator drains it.
    pub draining: bool,
    /// Time when its running jobs are ended, in milliseconds since 1970.
    pub drain_until_ms: Option<i64>,
    /// True if an operator resumed it, and it has not yet reported that it accepts jobs.
    pub resumed: bool,
    /// Last contact, in milliseconds since 1970.
    pub last_seen_ms: i64,
    /// Version of its software.
    pub version: String,
    /// True if an operator approved it, or no approval is required.
    pub approved: bool,
    /// Name of the token that owns its identity.
    pub token: Option<String>,
    /// True if it had no contact for `lost_after`, and has not registered since then.
    pub lost: bool,
}
