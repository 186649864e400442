//! Registry of connections, watched jobs and live attempts. The runtime and the connections update
//! it; it makes no decisions.

use crate::attempt::LiveAttempt;
use crate::recent_jobs::FinishedJob;
use buildpool_pool::{ClientRef, DesiredState, Session};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::spec::{JobSpec, Source};
use buildpool_protocol::transfer::SnapshotName;
use buildpool_protocol::worker_link::ToWorker;
use dashmap::DashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Capacity of a connection's queue of control messages. State is sent again after a reconnect, so
/// a peer that lets the queue fill up can be disconnected without loss.
pub(crate) const OUTBOX_MESSAGES_MAX: usize = 1024;

/// Event of a watched job.
#[derive(Clone)]
pub(crate) enum JobEvent {
    /// The job has changed; query its state.
    Changed,
    /// The job has ended.
    Done(Arc<FinishedJob>),
}

/// A message for a worker's connection, or its end.
pub(crate) enum WorkerOut {
    Welcome(Welcome),
    Desired { desired: Vec<DesiredState> },
    Message(Box<ToWorker>),
    Close(LinkError),
}

/// Content of the reply to a worker's registration.
pub(crate) struct Welcome {
    pub(crate) lost_after: Duration,
    pub(crate) desired: Vec<DesiredState>,
}

/// Reply of the pool to one request.
#[derive(Debug)]
pub(crate) enum Reply {
    Accepted { request: u32, job: JobId, reattached: bool },
    Acknowledged { request: u32, job: Option<JobId> },
    Refused { request: u32, error: LinkError },
}

#[derive(Default)]
pub(crate) struct Connections {
    /// Boxed to stay small: each connection allocates room for 32 of them.
    workers: DashMap<Session, mpsc::Sender<Box<WorkerOut>>>,
    clients: DashMap<u64, mpsc::Sender<Reply>>,
    jobs: DashMap<JobId, watch::Sender<JobEvent>>,
    attempts: DashMap<AttemptId, Arc<LiveAttempt>>,
    numbers: AtomicU64,
    commits: watch::Sender<u64>,
    degraded: AtomicBool,
    degraded_reason: RwLock<String>,
}

impl Connections {
    /// Returns a new connection number. Numbers only grow.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add_worker(&self, session: Session) -> mpsc::Receiver<Box<WorkerOut>> {
        let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES_MAX);
        self.workers.insert(session, sender);
        receiver
    }

    pub(crate) fn remove_worker(&self, session: Session) {
        self.workers.remove(&session);
    }

    pub(crate) fn to_worker(&self, session: Session, out: WorkerOut) {
        let is_slow =
            self.workers.get(&session).is_some_and(|outbox| outbox.try_send(Box::new(out)).is_err());
        if is_slow {
            // Dropping the sender ends the connection. The worker reconnects and receives the
            // current state.
            self.workers.remove(&session);
        }
    }

    pub(crate) fn add_client(&self, connection: u64) -> mpsc::Receiver<Reply> {
        let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES_MAX);
        self.clients.insert(connection, sender);
        receiver
    }

    pub(crate) fn remove_client(&self, connection: u64) {
        self.clients.remove(&connection);
    }

    pub(crate) fn to_client(&self, client: ClientRef, reply: Reply) {
        let is_slow =
            self.clients.get(&client.connection).is_some_and(|outbox| outbox.try_send(reply).is_err());
        if is_slow {
            self.clients.remove(&client.connection);
        }
    }

    /// Returns the number of connected clients.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Returns the number of connected workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Notifies the readers of events that records were written.
    pub(crate) fn note_commit(&self) {
        self.commits.send_modify(|commits| *commits += 1);
    }

    /// Returns a receiver that changes with each commit of records.
    pub(crate) fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// Watches a job. Call it before reading the job's state, so that no event is missed.
    pub(crate) fn watch(&self, job: JobId) -> watch::Receiver<JobEvent> {
        self.jobs.entry(job).or_insert_with(|| watch::channel(JobEvent::Changed).0).subscribe()
    }

    pub(crate) fn changed(&self, job: JobId) {
        let is_unwatched = self.jobs.get(&job).is_some_and(|watch| watch.send(JobEvent::Changed).is_err());
        if is_unwatched {
            self.jobs.remove_if(&job, |_, watch| watch.receiver_count() == 0);
        }
    }

    pub(crate) fn done(&self, job: JobId, finished: Arc<FinishedJob>) {
        if let Some((_, watch)) = self.jobs.remove(&job) {
            watch.send_replace(JobEvent::Done(finished));
        }
    }

    /// Removes the watch of a job if it has no receivers.
    pub(crate) fn unwatch(&self, job: JobId) {
        self.jobs.remove_if(&job, |_, watch| watch.receiver_count() == 0);
    }

    pub(crate) fn attempt(&self, attempt: AttemptId) -> Option<Arc<LiveAttempt>> {
        self.attempts.get(&attempt).map(|live| live.clone())
    }

    /// Returns the trust class of a job with this snapshot that is granted to this connection.
    pub(crate) fn granted_class(
        &self,
        session: Session,
        project: &str,
        requested: &SnapshotName,
    ) -> Option<String> {
        let mut granted = self.attempts.iter();
        let fits =
            |attempt: &LiveAttempt| attempt.is_of(session) && runs_on(&attempt.spec, project, requested);
        granted.find(|attempt| fits(attempt)).map(|attempt| attempt.spec.access.class.clone())
    }

    pub(crate) fn attempt_or(
        &self,
        attempt: AttemptId,
        make: impl FnOnce() -> LiveAttempt,
    ) -> Arc<LiveAttempt> {
        self.attempts.entry(attempt).or_insert_with(|| Arc::new(make())).clone()
    }

    pub(crate) fn remove_attempt(&self, attempt: AttemptId) -> Option<Arc<LiveAttempt>> {
        self.attempts.remove(&attempt).map(|(_, live)| live)
    }

    /// Returns the reason why no job is accepted, while the disk refuses writes.
    pub(crate) fn degraded(&self) -> Option<String> {
        self.degraded
            .load(Ordering::Acquire)
            .then(|| self.degraded_reason.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(crate) fn set_degraded(&self, why: Option<String>) {
        self.degraded.store(why.is_some(), Ordering::Release);
        *self.degraded_reason.write().unwrap_or_else(PoisonError::into_inner) = why.unwrap_or_default();
    }
}

/// Returns true if a job runs on this snapshot. A worker of an older version does not send the
/// manifest.
fn runs_on(spec: &JobSpec, project: &str, requested: &SnapshotName) -> bool {
    let Source::Snapshot { project: own, .. } = &spec.source else { return false };
    let is_same = |name: SnapshotName| {
        (&name.tree, &name.head) == (&requested.tree, &requested.head)
            && (requested.manifest.is_none() || requested.manifest == name.manifest)
    };
    own == project && SnapshotName::from_source(&spec.source).ok().flatten().is_some_and(is_same)
}
