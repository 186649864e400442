//! The machine: its state and its functions.

use crate::attachable::Attachable;
use crate::dispatch::DispatchTriggers;
use crate::effect::{Change, Effect, JobRecord, WorkerRecord};
use crate::input::{Input, Now};
use crate::job::{Job, Phase};
use crate::losses::Loss;
use crate::naming::nameless;
use crate::queue::Queue;
use crate::quota::Quotas;
use crate::reserve::Reserved;
use crate::roster::{Roster, Worker};
use crate::share::{Share, job_bytes};
use crate::submit::likeness;
use crate::{AttemptRecord, lifecycle};
use buildpool_protocol::ids::{JobId, WorkerId};
use buildpool_protocol::limits;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::HeldState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Configuration by the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Time without contact after which an attempt may be granted again.
    pub lost_after: Duration,
    /// Maximum time that a job waits for a busy worker with a warm workspace of its project.
    pub warm_wait: Duration,
    /// Maximum run time of a short job.
    pub short_job_max: Duration,
    /// Number of short jobs in a row after which a worker gets early grants.
    pub series_min: u32,
    /// Limit on queued and running jobs.
    pub live_jobs_max: usize,
    /// Limit on the specs and secrets of live jobs, in bytes.
    pub spec_bytes_max: u64,
    /// True if jobs may run in place, because coordinator, worker and clients share a machine.
    pub local: bool,
    /// Quotas of submitters.
    pub quotas: Quotas,
    /// True if new workers need approval.
    pub approve_workers: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lost_after: limits::LOST_AFTER,
            warm_wait: Duration::from_secs(5),
            short_job_max: Duration::from_millis(20),
            series_min: 8,
            live_jobs_max: limits::LIVE_JOBS_MAX,
            spec_bytes_max: limits::LIVE_SPECS_BYTES_MAX,
            local: false,
            quotas: Quotas::default(),
            approve_workers: false,
        }
    }
}

impl Config {
    /// Time without the end of a short job after which a series of short jobs is over.
    pub(crate) fn series_pause_max(&self) -> Duration {
        self.short_job_max.saturating_mul(5)
    }
}

/// A timer. When it fires, the current state decides if it still applies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A worker has been absent for `lost_after`.
    WorkerLost(WorkerId),
    /// A job has waited for a worker that has never connected.
    GiveUp(JobId),
    /// A job has waited long enough for a warm workspace, or for a repeated grant.
    Dispatch,
    /// The deadline of a drain.
    DrainEnd(WorkerId),
    /// A worker should have ended an attempt by now.
    KillUnconfirmed(JobId),
    /// A worker came back without an attempt and might still find it.
    Missing(JobId),
    /// The values of a job's secrets should be back by now.
    SecretsMissing(JobId),
    /// A queued job was cancelled just before a restart.
    CancelQueued(JobId),
    /// The limit of a cancel has passed, and its job has not ended.
    CancelOverdue(JobId),
    /// No short job of a worker's series may have ended for too long.
    SeriesPause(WorkerId),
}

/// The pool. The crate documentation describes its use.
#[derive(Debug)]
pub struct Pool {
    pub(crate) config: Config,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// Bytes of the specs and secrets of these jobs.
    pub(crate) spec_bytes: u64,
    pub(crate) queue: Queue,
    /// Queued jobs without values of their secrets. They cannot be granted and do not block other
    /// jobs.
    pub(crate) parked: BTreeSet<JobId>,
    pub(crate) roster: Roster,
    /// Concurrency groups in use, with their running job.
    pub(crate) groups: BTreeMap<String, JobId>,
    /// Live jobs by submitter and request id.
    pub(crate) request_ids: BTreeMap<(String, String), JobId>,
    pub(crate) undelivered: Attachable,
    /// Share of each submitter: running jobs and last grant. It also contains some submitters
    /// without a live job.
    pub(crate) shares: BTreeMap<String, Share>,
    /// Units reserved for jobs that are due first, as of the last dispatch.
    pub(crate) reserved: Reserved,
    pub(crate) timers: BTreeSet<(Duration, Timer)>,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) draining: bool,
    /// Changes since the last dispatch that may let a queued job run.
    pub(crate) triggers: DispatchTriggers,
    /// Queued jobs that wait for a certain worker, as of the last dispatch.
    pub(crate) waits: BTreeSet<JobId>,
    pub(crate) next_order: u64,
    pub(crate) next_epoch: u64,
    pub(crate) grants: u64,
}

impl Pool {
    /// Creates an empty pool. Epochs start above `epoch_base`, which must be higher than any epoch
    /// ever granted from this store.
    pub fn new(config: Config, epoch_base: u64) -> Self {
        Self {
            config,
            jobs: BTreeMap::new(),
            spec_bytes: 0,
            queue: Queue::default(),
            parked: BTreeSet::new(),
            roster: Roster::default(),
            groups: BTreeMap::new(),
            request_ids: BTreeMap::new(),
            undelivered: Attachable::default(),
            shares: BTreeMap::new(),
            reserved: Reserved::default(),
            timers: BTreeSet::new(),
            effects: VecDeque::new(),
            draining: false,
            triggers: DispatchTriggers::default(),
            waits: BTreeSet::new(),
            next_order: 1,
            next_epoch: epoch_base + 1,
            grants: 0,
        }
    }

    /// Restores a recorded worker. It counts as absent from now on.
    pub fn restore_worker(&mut self, now: Now, record: WorkerRecord) {
        // A name that passed to another identity belongs to the newer one.
        if let Some(holder) = self.roster.by_name(&record.name) {
            let held_until = self.roster.get(holder).map(|worker| worker.record.last_seen_ms);
            if held_until.is_some_and(|seen| seen > record.last_seen_ms) {
                return;
            }
            self.roster.remove(holder);
        }
        let id = record.worker;
        let until = record.drain_until_ms.filter(|_| record.draining);
        let mut worker = Worker::absent(record, now.clock);
        worker.drain_deadline = until.map(|until| {
            let left = u64::try_from(until.saturating_sub(now.wall_ms)).unwrap_or(0);
            now.clock.saturating_add(Duration::from_millis(left))
        });
        // An earlier run of the coordinator may have given it jobs.
        worker.has_run = true;
        self.timers.extend(worker.drain_deadline.map(|at| (at, Timer::DrainEnd(id))));
        self.roster.insert(worker);
        self.time_loss(id);
    }

    /// Restores a worker that an attempt names and the store does not contain. It gets a name that
    /// no worker can have.
    fn restore_unknown_worker(&mut self, now: Now, attempt: &AttemptRecord) {
        if self.roster.get(attempt.worker).is_none() {
            self.restore_worker(
                now,
                WorkerRecord {
                    worker: attempt.worker,
                    name: nameless(&attempt.worker_name, attempt.worker),
                    slots: 0,
                    labels: BTreeMap::new(),
                    resources: BTreeMap::new(),
                    accepts: Vec::new(),
                    draining: false,
                    drain_until_ms: None,
                    resumed: false,
                    lost: false,
                    last_seen_ms: attempt.granted_at_ms,
                    version: String::new(),
                    approved: true,
                    token: None,
                },
            );
        }
    }

    /// Restores a recorded job without an end. All deadlines start again. Workers must be restored
    /// first.
    pub fn restore_job(
        &mut self,
        now: Now,
        record: Arc<JobRecord>,
        attempts: Vec<AttemptRecord>,
        cancel: Option<(String, String)>,
    ) {
        self.next_order = self.next_order.max(record.order + 1);
        let newest = attempts.iter().map(|attempt| attempt.epoch).max().unwrap_or(0);
        self.next_epoch = self.next_epoch.max(newest + 1);
        let id = record.job;
        let wait_for_worker = record.spec.wait_for_worker;
        if let Some(text) = &record.client_request_id {
            self.request_ids.insert((record.submitter.clone(), text.clone()), id);
        }
        let bytes = job_bytes(&record.spec, &BTreeMap::new());
        self.enter_share(&record, bytes);
        let running = attempts.last().filter(|attempt| attempt.lost.is_none()).cloned();
        let job = Job {
            record,
            phase: Phase::Queued { since: now, adoptable: None },
            attempts,
            cancel: cancel.map(|(by, reason)| crate::job::CancelRequest { by, reason }),
            secrets: BTreeMap::new(),
            bytes,
        };
        self.jobs.insert(id, job);
        match running {
            Some(attempt) => {
                self.restore_unknown_worker(now, &attempt);
                let has_begun = attempt.started_at_ms.is_some();
                let state = if has_begun { HeldState::Running } else { HeldState::Preparing };
                self.mark_granted(id, &attempt, state, None);
                self.time_loss(attempt.worker);
                self.settle_group(now, id);
                self.limit_cancel(now, id);
            }
            None => {
                self.enqueue(now, id);
                self.timers.insert((now.clock, Timer::CancelQueued(id)));
                if let Some(wait) = wait_for_worker {
                    self.timers.insert((now.clock.saturating_add(wait), Timer::GiveUp(id)));
                }
            }
        }
    }

    /// Restores a job, live or done, that an identical submit attaches to because its result was
    /// not delivered.
    pub fn restore_attachable(&mut self, job: JobId, submitter: &str, spec: &JobSpec) {
        self.undelivered.insert(submitter, likeness(spec), job);
    }

    /// Resolves a group with two granted attempts: the newer grant stays valid. It was granted
    /// while the older attempt counted as lost and might have returned.
    fn settle_group(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(group) = job.record.spec.concurrency_group.clone() else { return };
        let Some(holder) = self.groups.get(&group).copied().filter(|holder| *holder != id) else { return };
        let lease = |id| self.jobs.get(&id).and_then(Job::granted).map(|granted| granted.lease);
        let (Some(one), Some(other)) = (lease(holder), lease(id)) else { return };
        let (older, newer) = if one.epoch < other.epoch { (one, id) } else { (other, holder) };
        let reason = "its worker could not be reached before the coordinator restarted";
        self.end_attempt(now, older.attempt.job, older, reason, Loss::Counted { may_return: true });
        self.groups.insert(group, newer);
    }

    /// Handles one input, after all timers that are due, and grants jobs. Drain
    /// [`Pool::poll_effect`] before the next call.
    ///
    /// # States of a job
    ///
    /// | state | entered by | left by |
    /// |---|---|---|
    /// | queued | `Submit`; the loss of an attempt that may run again | a grant; its end |
    /// | queued, parked | as queued, while values of its secrets are missing | a `Submit` that repeats it with the values; its end |
    /// | queued, adoptable | the loss of an attempt whose worker may come back | a grant; the worker's `Registered` or `Reported` with this lease (granted again); `Completed` with this lease |
    /// | granted | a grant | `Completed`; the loss of the attempt; `Declined` (queued again) |
    /// | granted, log arrived | `LogArrived` | `Completed`; the end of a cancelled job whose digest does not end |
    /// | granted, ending | `Cancel`, `Revoked`, a deadline of a drain | as granted; `KillUnconfirmed` if the worker does not confirm |
    /// | done, not in the pool | the last attempt's result or loss; a cancel of a queued job; `GiveUp` | |
    ///
    /// # Inputs
    ///
    /// Each input is valid in each state. An input that does not fit the state changes nothing:
    /// a `Completed` or `Declined` with an old lease is ignored, a report of an attempt by an old lease is
    /// answered with [`DesiredState::Fenced`](crate::DesiredState::Fenced) or [`DesiredState::Forget`](crate::DesiredState::Forget), a message
    /// of a session that a newer one replaced is ignored, and a client's request is answered with
    /// [`Effect::Refused`]. `Tick` changes nothing except by the timers.
    ///
    /// # Order of effects
    ///
    /// | event | effects |
    /// |---|---|
    /// | submit | `Persist(Submitted)`, `Persist(Attachable)` where an equal submit may attach, `Accepted`; a repeated submit gives only `Accepted` |
    /// | cancel | `Persist(CancelRequested)`, `Acknowledged`, then `Send` to the worker and `Changed`, or the end of a queued job |
    /// | grant | `Persist(Attempt)`, `OpenLog`, `Grant`, `Changed` |
    /// | registration | `Close` of the older session, `Persist(Worker)`, `OpenLog` of each attempt that goes on, `Welcome`, repeated grants |
    /// | loss of an attempt | `Persist(Attempt)` and `Abandon` unless it may return, then `Changed`, or the end of the job |
    /// | result of an attempt | the end of the job, then `Send(Forget)` to its worker |
    /// | end of a job | `Persist(Done)`, `Done` |
    ///
    /// Grants of the room that became free follow, from [`Pool::dispatch`].
    ///
    /// # Deadline
    ///
    /// Each call may change [`Pool::next_deadline`], in both directions: it is the earliest timer. Timers are
    /// not removed when their reason ends; one that fires without a reason does nothing.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.take(now, input);
        self.dispatch(now);
    }

    /// As [`Pool::handle`], but grants no job before [`Pool::dispatch`].
    pub fn take(&mut self, now: Now, input: Input) {
        self.tick(now);
        match input {
            Input::Submit { client, submit } => self.submit(now, client, *submit),
            Input::Cancel { client, job, by, reason } => self.cancel(now, client, job, &by, reason),
            Input::Delivered { job } => self.delivered(job),
            Input::Revoked { tokens } => self.revoked(now, &tokens),
            Input::Registered { session, register, token } => self.register(now, session, *register, token),
            Input::Approve { client, worker } => self.approve(client, &worker),
            Input::Forget { client, worker } => self.forget(now, client, &worker),
            Input::Upgrade { client, worker, order } => self.upgrade(client, &worker, order),
            Input::Reported { session, held, condition } => self.report(now, session, &held, condition),
            Input::Declined { session, lease, reason } => self.declined(now, session, lease, &reason),
            Input::Gone { session } => self.disconnected(now, session),
            Input::LogArrived { lease } => self.log_arrived(now, lease),
            Input::Completed(completed) => self.completed(now, *completed),
            Input::Drain { client, worker, draining, deadline } => {
                self.drain(now, client, &worker, draining, deadline);
            }
            Input::DrainPool { draining } => {
                self.draining = draining;
                self.triggers.any();
            }
            Input::Tick => {}
        }
    }

    /// Returns the next effect, or `None` when this input is handled.
    #[must_use = "an effect that is not carried out is a promise that is not kept"]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the latest time of the next [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn persist_attempt(&mut self, job: JobId, number: u32) {
        if let Some(change) = self.change_of(job, number) {
            self.emit(Effect::Persist(change));
        }
    }

    /// Records the start of an attempt without waiting for the disk. Its worker repeats the fact
    /// with each report, so it cannot be lost.
    pub(crate) fn note_started(&mut self, job: JobId, number: u32) {
        if let Some(change) = self.change_of(job, number) {
            self.emit(Effect::Note(change));
        }
    }

    fn change_of(&mut self, job: JobId, number: u32) -> Option<Change> {
        let attempt = self.jobs.get_mut(&job)?.last_attempt_mut(number)?.clone();
        Some(Change::Attempt { job, attempt })
    }

    fn tick(&mut self, now: Now) {
        while let Some((at, _)) = self.timers.first() {
            if *at > now.clock {
                break;
            }
            let Some((_, timer)) = self.timers.pop_first() else { break };
            self.triggers.waits();
            match timer {
                Timer::WorkerLost(worker) => self.worker_lost(now, worker),
                Timer::GiveUp(job) => self.give_up(now, job),
                Timer::Dispatch => {}
                Timer::DrainEnd(worker) => self.drain_ended(now, worker),
                Timer::KillUnconfirmed(job) => self.kill_unconfirmed(now, job),
                Timer::Missing(job) => self.missing_for_long(now, job),
                Timer::SecretsMissing(job) => self.give_up_secrets(now, job),
                Timer::CancelQueued(job) => self.cancel_queued(now, job),
                Timer::CancelOverdue(job) => self.cancel_overdue(now, job),
                Timer::SeriesPause(worker) => self.series_pause(now, worker),
            }
        }
    }

    /// Puts a job at its position in the queue. A job without values of its secrets is parked until
    /// they arrive.
    pub(crate) fn enqueue(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.missing_secrets().next().is_some() {
            self.parked.insert(id);
            self.timers.insert((now.clock.saturating_add(self.config.lost_after), Timer::SecretsMissing(id)));
            return;
        }
        self.parked.remove(&id);
        let class = self.queue.insert(&job.record, self.roster.rarest(&job.record.spec));
        self.triggers.lane(class, &job.record.submitter);
    }

    pub(crate) fn dequeue(&mut self, id: JobId) {
        self.parked.remove(&id);
        self.waits.remove(&id);
        if let Some(job) = self.jobs.get(&id) {
            if let Some(class) = self.queue.remove(&job.record) {
                self.triggers.lane(class, &job.record.submitter);
            }
            if !job.record.spec.resources.is_empty() {
                // Units may have been reserved for it.
                self.triggers.resources();
            }
        }
    }

    /// Starts the limit within which a cancelled job must end.
    pub(crate) fn limit_cancel(&mut self, now: Now, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.cancel.is_some()) {
            let at = self.kill_deadline(id, now.clock).saturating_add(limits::CANCEL_MARGIN);
            self.timers.insert((at, Timer::CancelOverdue(id)));
        }
    }

    pub(crate) fn kill_deadline(&self, job: JobId, now: Duration) -> Duration {
        let grace = self.jobs.get(&job).and_then(|job| job.record.spec.grace).unwrap_or(limits::GRACE);
        now.saturating_add(grace).saturating_add(lifecycle::KILL_CONFIRMED_WITHIN)
    }
}
