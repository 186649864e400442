//! The simulated coordinator: the real pool on a simulated disk. Its shell is reduced to two
//! guarantees. Changes are written before any message is sent, and a crash between two effects
//! loses the later ones.

mod candidate;
mod decide;

use super::clock::{Clock, Time, earlier};
use super::disk::{Disk, Log};
use super::network::{ConnectionId, Up};
use super::shared::SharedStore;
use super::truth::Truth;
use buildpool_pool::{Change, ClientRef, Completed, Config, Effect, Input, LiveJob, Now, Pool, Session};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::{AttemptId, JobId, Lease};
use buildpool_protocol::limits::SILENCE_MAX;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::worker_link::{FromWorker, ToWorker};
use candidate::{Candidate, Leading};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const SYNC_EVERY: Duration = Duration::from_millis(50);
const INBOX_MAX: usize = 4_096;

/// A reply to a client.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Accepted { job: JobId },
    Acknowledged,
    Refused { error: LinkError },
}

/// Number of boundaries between effects since the start of the run. It determines the next crash.
pub(crate) type Boundary = u64;

#[derive(Debug)]
struct Completing {
    lease: Lease,
    outcome: Box<Outcome>,
    execution: u64,
}

#[derive(Debug, Default)]
struct Batch {
    changes: Vec<Change>,
    effects: Vec<Effect>,
    done_at: Time,
}

#[derive(Debug)]
struct Connected {
    session: Option<Session>,
    heard_at: Time,
}

/// State that is lost when the process dies.
#[derive(Debug)]
struct Running {
    pool: Pool,
    clock: Clock,
    connections: BTreeMap<ConnectionId, Connected>,
    sessions: BTreeMap<Session, ConnectionId>,
    inbox: VecDeque<Input>,
    batch: Option<Batch>,
    /// Changes that no effect waits for. They are written with the next awaited changes, and lost
    /// if the coordinator dies first.
    notes: Vec<Change>,
    logs: BTreeMap<AttemptId, (Session, Lease)>,
    completing: BTreeMap<AttemptId, Completing>,
    sync_at: Option<Time>,
    to_acknowledge: BTreeSet<(Session, Lease)>,
    /// Set if the records are in the shared store.
    leading: Option<Leading>,
}

#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) config: Config,
    index: usize,
    /// True if it shares its records with others.
    is_shared: bool,
    candidate: Option<Candidate>,
    holders: u64,
    /// The logs in its data directory.
    logs: BTreeMap<AttemptId, Log>,
    running: Option<Running>,
    restart_at: Time,
    pub(crate) stopped_until: Time,
    pub(crate) slow_until: Time,
    pub(crate) full_until: Time,
    pub(crate) wall_offset_ms: i64,
    pub(crate) crash_at: Option<(Boundary, Duration)>,
    pub(crate) mail: Vec<(Time, ClientRef, Reply)>,
    boundaries: Boundary,
    sessions: u64,
}

impl Coordinator {
    pub(crate) fn new(config: Config, index: usize, is_shared: bool) -> Self {
        Self {
            config,
            index,
            is_shared,
            candidate: None,
            holders: 0,
            logs: BTreeMap::new(),
            running: None,
            restart_at: Time::ZERO,
            stopped_until: Time::ZERO,
            slow_until: Time::ZERO,
            full_until: Time::ZERO,
            wall_offset_ms: 1_700_000_000_000,
            crash_at: None,
            mail: Vec::new(),
            boundaries: 0,
            sessions: 0,
        }
    }

    pub(crate) fn listens(&self, now: Time) -> bool {
        self.running.is_some() && self.stopped_until <= now
    }

    pub(crate) fn boundaries(&self) -> Boundary {
        self.boundaries
    }

    pub(crate) fn live_jobs(&self, now: Time) -> Vec<LiveJob> {
        let Some(running) = &self.running else { return Vec::new() };
        let at = self.now(running, now);
        running.pool.live_ids().filter_map(|id| running.pool.live_job(at, id)).collect()
    }

    pub(crate) fn wake(&self, now: Time, shared: &SharedStore) -> Option<Time> {
        if self.is_shared {
            return self.wake_shared(now, shared);
        }
        let Some(running) = &self.running else { return Some(self.restart_at) };
        let mut at = match &running.batch {
            Some(batch) => Some(batch.done_at.max(self.full_until)),
            None if !running.inbox.is_empty() => Some(now),
            None => running.pool.next_deadline().map(|at| running.clock.when(at)),
        };
        at = earlier(at, running.sync_at.map(|at| at.max(self.full_until)));
        earlier(at, Self::silent_at(running)).map(|at| at.max(self.stopped_until))
    }

    fn silent_at(running: &Running) -> Option<Time> {
        running.connections.values().map(|connected| connected.heard_at + SILENCE_MAX).min()
    }

    pub(crate) fn step(&mut self, now: Time, truth: &mut Truth) {
        if self.is_shared {
            return self.step_shared(now, truth);
        }
        if self.running.is_none() && self.restart_at <= now {
            self.start(now, truth);
        }
        if self.stopped_until > now || self.running.is_none() {
            return;
        }
        self.sync(now, truth);
        self.close_silent(now, truth);
        self.work(now, truth);
    }

    fn now(&self, running: &Running, now: Time) -> Now {
        let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        Now { clock: running.clock.at(now), wall_ms: millis + self.wall_offset_ms }
    }

    fn start(&mut self, now: Time, truth: &mut Truth) {
        let rate = 997_000 + truth.dice.below(6_000);
        let clock = Clock::new(now, truth.dice.seconds(0, 100_000), rate);
        let running = self.restore(&truth.disk, clock, now);
        truth.note(now, || format!("coordinator starts with {} live jobs", running.pool.live_ids().count()));
        truth.check(running.pool.audit());
        self.running = Some(running);
    }

    fn restore(&self, disk: &Disk, clock: Clock, now: Time) -> Running {
        let mut running = Running {
            pool: Pool::new(self.config.clone(), disk.epoch_base()),
            clock,
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            inbox: VecDeque::new(),
            batch: None,
            notes: Vec::new(),
            logs: BTreeMap::new(),
            completing: BTreeMap::new(),
            sync_at: None,
            to_acknowledge: BTreeSet::new(),
            leading: None,
        };
        let at = self.now(&running, now);
        for worker in disk.workers.values() {
            running.pool.restore_worker(at, worker.clone());
        }
        let mut jobs: Vec<_> = disk.jobs.values().filter(|job| !disk.done.contains_key(&job.job)).collect();
        jobs.sort_by_key(|job| job.order);
        for job in jobs {
            let attempts = disk.attempts.get(&job.job).map(|all| all.values().cloned().collect());
            let cancel = disk.cancels.get(&job.job).cloned();
            running.pool.restore_job(at, job.clone(), attempts.unwrap_or_default(), cancel);
        }
        for job in disk.attachable.iter().filter_map(|job| disk.jobs.get(job)) {
            running.pool.restore_attachable(job.job, &job.submitter, &job.spec);
        }
        running
    }

    pub(crate) fn crash(&mut self, now: Time, truth: &mut Truth, down: Duration, says_so: bool) {
        let running = self.running.take();
        if running.is_none() && self.candidate.is_none() {
            return;
        }
        self.candidate = None;
        truth.shared.forget(self.index);
        truth.counts.coordinator_crashes += 1;
        truth.note(now, || format!("coordinator {} crashes at boundary {}", self.index, self.boundaries));
        for id in running.iter().flat_map(|running| running.connections.keys()) {
            truth.network.close_coordinator(now, *id, says_so);
        }
        self.logs.values_mut().for_each(Log::crash);
        self.restart_at = now + down;
    }

    /// Called between two effects. Returns true if the coordinator crashes at this boundary.
    fn dies_here(&mut self, now: Time, truth: &mut Truth) -> bool {
        self.boundaries += 1;
        if let Some((at, down)) = self.crash_at
            && self.boundaries >= at
        {
            self.crash_at = None;
            self.crash(now, truth, down, true);
            return true;
        }
        false
    }

    // ---- connections

    pub(crate) fn receive(&mut self, id: ConnectionId, message: Up, now: Time, truth: &mut Truth) {
        let is_refused = self.is_refused(now);
        let Some(running) = &mut self.running else { return };
        let connected = running.connections.entry(id).or_insert(Connected { session: None, heard_at: now });
        connected.heard_at = now;
        let session = connected.session;
        match (message, session) {
            (Up::Message(message), None) => {
                if let FromWorker::Register(register) = *message {
                    self.sessions += 1;
                    let session = Session(self.sessions);
                    connected.session = Some(session);
                    running.sessions.insert(session, id);
                    let input = Input::Registered { session, register, token: "workers".to_owned() };
                    if is_refused {
                        self.decide_while_full(input, now, truth);
                    } else {
                        running.inbox.push_back(input);
                    }
                }
            }
            (Up::Message(message), Some(session)) => match *message {
                // While the disk refuses records, a report gets only an empty answer.
                FromWorker::Report { .. } if is_refused => {
                    let heard = ToWorker::Desired { desired: Vec::new() };
                    truth.network.send_down(now, &mut truth.dice, id, heard);
                }
                FromWorker::Report { held, condition } => {
                    running.inbox.push_back(Input::Reported { session, held, condition });
                }
                FromWorker::Decline { lease, reason } => {
                    running.inbox.push_back(Input::Declined { session, lease, reason });
                }
                FromWorker::Register(_)
                | FromWorker::Complete { .. }
                | FromWorker::Stdin { .. }
                | FromWorker::Transfer(_) => {}
            },
            (Up::Output { lease, from, to, execution }, Some(session)) => {
                self.append(session, lease, (from, to), execution, now, truth);
            }
            (Up::Complete { lease, outcome, execution }, Some(session)) => {
                if running.logs.get(&lease.attempt) == Some(&(session, lease)) {
                    let completing = Completing { lease, outcome, execution };
                    running.completing.insert(lease.attempt, completing);
                    running.sync_at.get_or_insert(now + SYNC_EVERY);
                }
            }
            (Up::Output { .. } | Up::Complete { .. }, None) => {}
        }
        if running_inbox_is_full(&self.running) {
            truth.fail("bounded: the coordinator's inbox is full");
        }
    }

    fn append(
        &mut self,
        session: Session,
        lease: Lease,
        (from, to): (u64, u64),
        execution: u64,
        now: Time,
        truth: &mut Truth,
    ) {
        let Some(running) = &mut self.running else { return };
        if running.logs.get(&lease.attempt) != Some(&(session, lease)) {
            return;
        }
        let log = self.logs.entry(lease.attempt).or_default();
        if log.append(from, to, execution) {
            running.to_acknowledge.insert((session, lease));
            running.sync_at.get_or_insert(now + SYNC_EVERY);
        } else if let Some(id) = running.sessions.get(&session) {
            let position = log.length();
            truth.network.send_down(now, &mut truth.dice, *id, ToWorker::Position { lease, position });
        }
    }

    /// Syncs the log: bytes become durable and are acknowledged, and completed attempts go to the
    /// pool.
    fn sync(&mut self, now: Time, truth: &mut Truth) {
        let Some(running) = &mut self.running else { return };
        if running.sync_at.is_none_or(|at| at > now) || self.full_until > now {
            return;
        }
        running.sync_at = None;
        self.logs.values_mut().for_each(Log::sync);
        for (session, lease) in std::mem::take(&mut running.to_acknowledge) {
            let position = self.logs.get(&lease.attempt).map_or(0, Log::length);
            if let Some(id) = running.sessions.get(&session) {
                truth.network.send_down(now, &mut truth.dice, *id, ToWorker::Position { lease, position });
            }
        }
        let logs = &mut self.logs;
        let is_whole = |id: &AttemptId, completing: &Completing| {
            logs.get(id).map_or(0, Log::durable) == completing.outcome.log_length
        };
        let whole: Vec<_> =
            running.completing.iter().filter(|(id, it)| is_whole(id, it)).map(|(id, _)| *id).collect();
        for id in whole {
            let Some(Completing { lease, outcome, execution }) = running.completing.remove(&id) else {
                continue;
            };
            if logs.get(&id).is_some_and(|log| !log.is_all_of(execution)) {
                if truth.is_forgotten(id.job) {
                    // Its checksum differs from the worker's, so all of it is sent again.
                    logs.remove(&id);
                    let session = running.logs.get(&id).map(|(session, _)| *session);
                    if let Some(id) = session.and_then(|session| running.sessions.get(&session)) {
                        let again = ToWorker::Position { lease, position: 0 };
                        truth.network.send_down(now, &mut truth.dice, *id, again);
                    }
                    continue;
                }
                truth.fail(format!("prefix: the log of {id} has bytes of more than one execution"));
            }
            if outcome.acted == Some(EndReason::CutOff) {
                truth.counts.cut_offs += 1;
            }
            let verdict = verdict(&outcome);
            // Treat every failure as an infrastructure failure, so that jobs with retries use them.
            let infrastructure = verdict == Verdict::Failed;
            let completed = Completed { lease, outcome, verdict, cause: None, infrastructure };
            let sealed = logs.entry(id).or_default().seal();
            if let Some(leading) = &mut running.leading {
                leading.publish(sealed, completed);
                continue;
            }
            truth.disk.sealed.insert(id, sealed);
            running.inbox.push_back(Input::LogArrived { lease });
            running.inbox.push_back(Input::Completed(Box::new(completed)));
        }
    }

    pub(crate) fn closed(&mut self, id: ConnectionId, now: Time, truth: &mut Truth) {
        truth.network.close_coordinator(now, id, true);
        let Some(running) = &mut self.running else { return };
        if let Some(Connected { session: Some(session), .. }) = running.connections.remove(&id) {
            running.sessions.remove(&session);
            if self.is_refused(now) {
                self.decide_while_full(Input::Gone { session }, now, truth);
            } else if let Some(running) = &mut self.running {
                running.inbox.push_back(Input::Gone { session });
            }
        }
    }

    /// Returns true if records wait for a full disk.
    fn is_refused(&self, now: Time) -> bool {
        let batch = self.running.as_ref().and_then(|running| running.batch.as_ref());
        let leading = self.running.as_ref().and_then(|running| running.leading.as_ref());
        match leading {
            Some(leading) => batch.is_some() && leading.is_refused(),
            None => self.full_until > now && batch.is_some_and(|batch| batch.done_at <= now),
        }
    }

    /// Handles connects and disconnects of workers while the disk is full. Effects are sent after
    /// the records are on disk. A new worker gets only an empty answer.
    fn decide_while_full(&mut self, input: Input, now: Time, truth: &mut Truth) {
        let Some(mut batch) = self.running.as_mut().and_then(|running| running.batch.take()) else { return };
        let first = batch.effects.len();
        self.decide(input, &mut batch, now, truth);
        for effect in batch.effects.iter().skip(first) {
            if let Effect::Welcome { session, .. } = effect {
                self.send(*session, ToWorker::Desired { desired: Vec::new() }, now, truth);
            }
        }
        if let Some(running) = &mut self.running {
            running.batch = Some(batch);
        }
    }

    fn close_silent(&mut self, now: Time, truth: &mut Truth) {
        let Some(running) = &self.running else { return };
        let silent =
            running.connections.iter().filter(|(_, connected)| connected.heard_at + SILENCE_MAX <= now);
        let silent: Vec<_> = silent.map(|(id, _)| *id).collect();
        for id in silent {
            truth.note(now, || format!("coordinator gives up {id:?}"));
            self.closed(id, now, truth);
        }
    }

    // ---- clients

    pub(crate) fn ask(&mut self, input: Input) {
        if let Some(running) = &mut self.running {
            running.inbox.push_back(input);
        }
    }
}

fn running_inbox_is_full(running: &Option<Running>) -> bool {
    running.as_ref().is_some_and(|running| running.inbox.len() > INBOX_MAX)
}

/// Replaces the digest.
fn verdict(outcome: &Outcome) -> Verdict {
    match (&outcome.acted, &outcome.ending) {
        (Some(EndReason::Cancelled { .. }), _) => Verdict::Cancelled,
        (Some(EndReason::Timeout { .. } | EndReason::IdleTimeout { .. }), _) => Verdict::TimedOut,
        (_, Ending::Exited { code: 0 }) => Verdict::Passed,
        (_, Ending::Signaled { .. }) => Verdict::Crashed,
        (_, Ending::Exited { .. } | Ending::NotStarted(_) | Ending::Unobserved { .. }) => Verdict::Failed,
    }
}
