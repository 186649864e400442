//! The machine itself: its state, its verbs, and the dispatch of queued jobs.

use crate::effect::{Change, Effect, JobRecord, WorkerRecord};
use crate::input::{Input, Now};
use crate::job::{Job, Phase};
use crate::placement::Obstacle;
use crate::queue::Queue;
use crate::roster::{Contact, Roster, Worker};
use crate::{AttemptRecord, lifecycle};
use buildpool_protocol::ids::{JobId, WorkerId};
use buildpool_protocol::limits;
use buildpool_protocol::worker_link::{Condition, HeldState};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What an operator may choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Without contact for this long an attempt may be granted again.
    pub lost_after: Duration,
    /// How long a job waits for a busy worker that has a warm workspace of its project.
    pub warm_wait: Duration,
    /// Most jobs that wait or run at once.
    pub live_jobs_max: usize,
    /// Jobs may run in place: coordinator, worker and clients share a machine.
    pub local: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lost_after: limits::LOST_AFTER,
            warm_wait: Duration::from_secs(5),
            live_jobs_max: limits::LIVE_JOBS_MAX,
            local: false,
        }
    }
}

/// Something that becomes due. When it comes, the state decides whether it still means anything.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A worker has been absent for `lost_after`.
    WorkerLost(WorkerId),
    /// A job has waited for a worker nobody has seen.
    GiveUp(JobId),
    /// A job has waited long enough for a warm workspace, or for a repeated grant.
    Dispatch,
    /// A drain's deadline.
    DrainEnd(WorkerId),
    /// A worker should have ended an attempt by now.
    KillUnconfirmed(JobId),
}

/// The pool: see the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Pool {
    pub(crate) config: Config,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) queue: Queue,
    pub(crate) roster: Roster,
    /// Concurrency groups in use, by the job that runs.
    pub(crate) groups: BTreeMap<String, JobId>,
    /// Live jobs by submitter and request id.
    pub(crate) request_ids: BTreeMap<(String, String), JobId>,
    /// Equal submits whose answer was not delivered, by what makes them equal.
    pub(crate) undelivered: BTreeMap<(String, String), JobId>,
    /// Running jobs by submitter, and when each was last granted something.
    pub(crate) shares: BTreeMap<String, Share>,
    pub(crate) timers: BTreeSet<(Duration, Timer)>,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) draining: bool,
    pub(crate) next_order: u64,
    pub(crate) next_epoch: u64,
    pub(crate) grants: u64,
}

/// What a submitter has of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Share {
    pub(crate) running: usize,
    pub(crate) live: usize,
    pub(crate) last_grant: u64,
}

/// What decides who is next: priority, jobs running, last served, submission; the smallest goes first.
type Rank = (Reverse<i32>, usize, u64, u64);

impl Pool {
    /// An empty pool. Epochs begin above `epoch_base`, which must be higher than any epoch ever granted from this store.
    pub fn new(config: Config, epoch_base: u64) -> Self {
        Self {
            config,
            jobs: BTreeMap::new(),
            queue: Queue::default(),
            roster: Roster::default(),
            groups: BTreeMap::new(),
            request_ids: BTreeMap::new(),
            undelivered: BTreeMap::new(),
            shares: BTreeMap::new(),
            timers: BTreeSet::new(),
            effects: VecDeque::new(),
            draining: false,
            next_order: 1,
            next_epoch: epoch_base + 1,
            grants: 0,
        }
    }

    /// A worker that the store knows; it counts as absent since now.
    pub fn restore_worker(&mut self, now: Now, record: WorkerRecord) {
        self.timers.insert((now.clock + self.config.lost_after, Timer::WorkerLost(record.worker)));
        self.roster.insert(Worker {
            record,
            contact: Contact::Absent { since: now.clock },
            condition: Condition::default(),
            distrusted: None,
            declined: false,
            drain_deadline: None,
            jobs: BTreeMap::new(),
        });
    }

    /// A job that the store has no end for. All deadlines start anew. Workers are restored first.
    pub fn restore_job(
        &mut self,
        now: Now,
        record: Arc<JobRecord>,
        attempts: Vec<AttemptRecord>,
        cancel: Option<(String, String)>,
    ) {
        self.next_order = self.next_order.max(record.order + 1);
        let id = record.job;
        if let Some(text) = &record.client_request_id {
            self.request_ids.insert((record.submitter.clone(), text.clone()), id);
        }
        self.shares.entry(record.submitter.clone()).or_default().live += 1;
        let running = attempts.last().filter(|attempt| attempt.lost.is_none()).cloned();
        let job = Job {
            record,
            phase: Phase::Queued { since: now, adoptable: None },
            attempts,
            cancel: cancel.map(|(by, reason)| crate::job::CancelAsked { by, reason }),
            secrets: BTreeMap::new(),
        };
        self.jobs.insert(id, job);
        match running {
            Some(attempt) => self.mark_granted(id, &attempt, HeldState::Preparing, true),
            None => {
                self.enqueue(id);
                self.timers.insert((now.clock + self.config.lost_after, Timer::GiveUp(id)));
            }
        }
    }

    /// Takes one input. Drain [`Pool::poll_effect`] before the next.
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Submit { client, submit } => self.submit(now, client, *submit),
            Input::Cancel { client, job, by, reason } => self.cancel(now, client, job, &by, reason),
            Input::Delivered { job } => self.undelivered.retain(|_, undelivered| *undelivered != job),
            Input::Registered { session, register } => self.register(now, session, *register),
            Input::Reported { session, held, condition } => self.report(now, session, &held, condition),
            Input::Declined { session, lease, reason } => self.declined(now, session, lease, &reason),
            Input::Gone { session } => self.gone(now, session),
            Input::Completed(completed) => self.completed(now, *completed),
            Input::Drain { client, worker, draining, deadline } => {
                self.drain(now, client, &worker, draining, deadline);
            }
            Input::DrainPool { draining } => self.draining = draining,
            Input::Tick => self.tick(now),
        }
        self.dispatch(now);
    }

    /// The next thing to do; none when this input is dealt with.
    #[must_use = "an effect that is not carried out is a promise that is not kept"]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to come back with [`Input::Tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn persist_attempt(&mut self, job: JobId, number: u32) {
        let attempt = self.jobs.get_mut(&job).and_then(|job| job.last_attempt_mut(number).cloned());
        if let Some(attempt) = attempt {
            self.emit(Effect::Persist(Change::Attempt { job, attempt }));
        }
    }

    fn tick(&mut self, now: Now) {
        while let Some((at, _)) = self.timers.first() {
            if *at > now.clock {
                break;
            }
            let Some((_, timer)) = self.timers.pop_first() else { break };
            match timer {
                Timer::WorkerLost(worker) => self.worker_lost(now, worker),
                Timer::GiveUp(job) => self.give_up(now, job),
                Timer::Dispatch => {}
                Timer::DrainEnd(worker) => self.drain_ended(now, worker),
                Timer::KillUnconfirmed(job) => self.kill_unconfirmed(now, job),
            }
        }
    }

    /// Grants queued jobs until none fits.
    fn dispatch(&mut self, now: Now) {
        while let Some((job, worker)) = self.next_grant(now) {
            self.grant(now, job, worker);
        }
    }

    /// The next job to grant and its worker: by priority, then to whoever has the least running, then who was
    /// served longest ago, then by submission. So a submitter with one job waits for one turnover at most, whatever
    /// another one has queued.
    fn next_grant(&mut self, now: Now) -> Option<(JobId, WorkerId)> {
        let mut heads = self.candidates();
        let mut wake: Option<Duration> = None;
        let mut next = None;
        while let Some(Reverse((_, id))) = heads.pop() {
            let Some(job) = self.jobs.get(&id) else { continue };
            match self.obstacle(job, now.clock) {
                Obstacle::None(worker) => {
                    next = Some((id, worker));
                    break;
                }
                Obstacle::Warm { until } => wake = Some(wake.map_or(until, |wake| wake.min(until))),
                Obstacle::PoolDraining
                | Obstacle::Group(_)
                | Obstacle::Secrets(_)
                | Obstacle::Unsatisfiable(_)
                | Obstacle::Workers(_) => {}
            }
        }
        if let Some(at) = wake {
            self.timers.insert((at, Timer::Dispatch));
        }
        next
    }

    /// The heads of all lanes that a worker has room for, the first of them on top.
    fn candidates(&self) -> BinaryHeap<Reverse<(Rank, JobId)>> {
        let is_closed = self.draining || !self.roster.iter().any(|(_, worker)| worker.is_open());
        if self.queue.len() == 0 || is_closed {
            return BinaryHeap::new();
        }
        let mut candidates = Vec::new();
        for lanes in self.queue.heads() {
            let mut lanes = lanes.peekable();
            // All jobs of a class have the same wishes: what keeps one of them keeps all.
            let has_room = lanes.peek().and_then(|head| self.jobs.get(&head.job)).is_some_and(|job| {
                let spec = &job.record.spec;
                let is_free =
                    spec.concurrency_group.as_ref().is_none_or(|group| !self.groups.contains_key(group));
                is_free && self.roster.iter().any(|(_, worker)| worker.has_room(spec))
            });
            if has_room {
                candidates.extend(lanes.map(|head| {
                    let share = self.shares.get(head.submitter).copied().unwrap_or_default();
                    Reverse(((head.place.0, share.running, share.last_grant, head.place.1), head.job))
                }));
            }
        }
        BinaryHeap::from(candidates)
    }

    pub(crate) fn enqueue(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get(&id) {
            let record = &job.record;
            self.queue.insert(&record.spec, &record.submitter, record.order, id);
        }
    }

    pub(crate) fn dequeue(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get(&id) {
            let record = job.record.clone();
            self.queue.remove(&record.spec, &record.submitter, record.order);
        }
    }

    pub(crate) fn kill_deadline(&self, job: JobId, now: Duration) -> Duration {
        let grace = self.jobs.get(&job).and_then(|job| job.record.spec.grace).unwrap_or(limits::GRACE);
        now + grace + lifecycle::KILL_CONFIRMED_WITHIN
    }
}
