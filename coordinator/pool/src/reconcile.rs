//! Reconciliation of workers: registration, reports and disconnects. It compares the held attempts
//! with the grants.

use crate::effect::{Change, DesiredState, Effect, WorkerRecord};
use crate::input::{ClientRef, Now, Session};
use crate::job::{Granted, HeldOutput, Job, Phase};
use crate::losses::{Loss, NotHeld};
use crate::naming::labels_of;
use crate::pool::{Pool, Timer};
use crate::roster::{Contact, WORKERS_OF_TOKEN_MAX, Worker};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{JobId, Lease, WorkerId};
use buildpool_protocol::limits::{self, OFFERS_MAX};
use buildpool_protocol::outcome::OutputHeld;
use buildpool_protocol::spec::check_name;
use buildpool_protocol::worker_link::{Condition, Held, HeldState, Register, ToWorker};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Pool {
    pub(crate) fn register(&mut self, now: Now, session: Session, register: Register, token: String) {
        if let Err(error) = self.admit(now, &register, &token) {
            return self.emit(Effect::Close { session, error });
        }
        let id = register.worker;
        self.supersede(id);
        self.store_worker(now, &register, token);
        self.roster.connect(id, session, register.boot);
        self.triggers.worker(id);
        let desired = self.note_held(now, id, &register.held, register.condition);
        let again = self.note_not_held(now, id, &register.held, true);
        self.persist_lost_after(id);
        for state in &desired {
            if let DesiredState::Continue(lease) = state {
                self.emit(Effect::OpenLog { session, lease: *lease });
            }
        }
        self.emit(Effect::Welcome { session, lost_after: self.config.lost_after, desired });
        for job in again {
            self.repeat_grant(now, session, job);
        }
        self.send_drain(now, id, session);
    }

    /// Persists the `lost_after` value before it is sent to a worker. Its keepers let attempts live
    /// that long.
    fn persist_lost_after(&mut self, worker: WorkerId) {
        let lost_after = self.config.lost_after;
        for id in self.jobs_of(worker) {
            let Some(attempt) = self.jobs.get_mut(&id).and_then(|job| job.attempts.last_mut()) else {
                continue;
            };
            if attempt.lost_after < lost_after {
                attempt.lost_after = lost_after;
                let number = attempt.number;
                self.persist_attempt(id, number);
            }
        }
    }

    /// Sends a drain or resume that the operator requested while the worker was absent, or that did
    /// not reach it.
    fn send_drain(&mut self, now: Now, worker: WorkerId, session: Session) {
        let Some(worker) = self.roster.get(worker) else { return };
        let draining = worker.record.draining;
        let is_told = draining && worker.condition.draining && worker.drain_deadline.is_none();
        if is_told || !draining && !worker.record.resumed {
            return;
        }
        let deadline = worker.drain_deadline.map(|at| at.saturating_sub(now.clock));
        self.emit(Effect::Send { session, message: Box::new(ToWorker::Drain { draining, deadline }) });
    }

    /// Checks if a worker may use its name and identity.
    fn admit(&mut self, now: Now, register: &Register, token: &str) -> Result<(), LinkError> {
        if let Err(error) = check_name("worker name", &register.name) {
            return Err(LinkError::new(ErrorCode::Invalid, error.to_string()));
        }
        if register.slots == 0 {
            let text = format!("slots: 0 given; valid are 1 to {}", limits::SLOTS_MAX);
            return Err(LinkError::new(ErrorCode::Invalid, text));
        }
        let labels = register.labels.len().max(register.resources.len()).max(register.accepts.len());
        if register.slots > limits::SLOTS_MAX || labels > OFFERS_MAX {
            return Err(LinkError::new(
                ErrorCode::Invalid,
                format!(
                    "at most {} slots, {OFFERS_MAX} labels, {OFFERS_MAX} resources and {OFFERS_MAX} names in `accepts` are valid",
                    limits::SLOTS_MAX
                ),
            ));
        }
        if self.roster.get(register.worker).is_none() {
            self.require_place(token)?;
        }
        let owner = self.roster.get(register.worker).and_then(|worker| worker.record.token.as_deref());
        if let Some(owner) = owner.filter(|owner| *owner != token) {
            return Err(LinkError::new(
                ErrorCode::Forbidden,
                format!(
                    "worker id {} belongs to the token `{owner}`, and this is `{token}`; a worker that was given another token on purpose joins as a new one when `worker-id` is removed from its data directory and an admin has freed its name (`buildpool workers forget NAME`)",
                    register.worker
                ),
            ));
        }
        if let Some(worker) = self.roster.get(register.worker)
            && let Contact::Connected { boot, .. } = worker.contact
            && boot != register.boot
        {
            return Err(LinkError::new(
                ErrorCode::Conflict,
                format!(
                    "worker {} is connected already from another start of its daemon; if its disk was copied to a second machine, remove `worker-id` from the copy's data directory; if it was restarted, the old connection is given up within {} s",
                    worker.record.name,
                    limits::SILENCE_MAX.as_secs()
                ),
            ));
        }
        self.admit_name(now, register, token)
    }

    /// Makes a place for one more worker of a token's name. It may take the place of an absent one.
    fn require_place(&mut self, token: &str) -> Result<(), LinkError> {
        if self.roster.has_place(token) {
            return Ok(());
        }
        if let Some(absent) = self.roster.replaceable(token) {
            self.free_name(absent);
            return Ok(());
        }
        let (own, all) = (self.roster.of_token(token).count(), self.roster.len());
        let text = format!(
            "workers: the token `{token}` has {own} and the pool has {all}; one token may have {WORKERS_OF_TOKEN_MAX}, and no more than there are free places for others; use another token for more workers, or free names with `buildpool workers forget NAME`"
        );
        Err(LinkError::new(ErrorCode::Exhausted, text))
    }

    /// Closes the older connection of a worker: the newest one wins.
    fn supersede(&mut self, worker: WorkerId) {
        if let Some(old) = self.roster.get(worker).and_then(Worker::session) {
            let error =
                LinkError::new(ErrorCode::Conflict, "superseded by a newer connection of the same worker");
            self.emit(Effect::Close { session: old, error });
        }
    }

    fn store_worker(&mut self, now: Now, register: &Register, token: String) {
        self.take_name(&register.name, register.worker);
        let known = self.roster.get(register.worker);
        let record = WorkerRecord {
            worker: register.worker,
            name: register.name.clone(),
            slots: register.slots,
            labels: labels_of(register),
            resources: register.resources.clone(),
            accepts: register.accepts.clone(),
            draining: known.is_some_and(|worker| worker.record.draining),
            drain_until_ms: known.and_then(|worker| worker.record.drain_until_ms),
            resumed: known.is_some_and(|worker| worker.record.resumed) && register.condition.draining,
            last_seen_ms: now.wall_ms,
            version: register.version.clone(),
            approved: !self.config.approve_workers
                || known.is_some_and(|worker| worker.is_approved_as(&register.name)),
            token: Some(token),
            lost: false,
        };
        self.emit(Effect::Persist(Change::Worker(record.clone())));
        match self.roster.get(register.worker) {
            Some(_) => self.roster.set_record(record),
            None => self.roster.insert(Worker::absent(record, now.clock)),
        }
        if let Some(mut worker) = self.roster.get_mut(register.worker) {
            worker.ended_boots = register.earlier.iter().take(EARLIER_BOOTS_MAX).copied().collect();
        }
    }

    pub(crate) fn report(&mut self, now: Now, session: Session, held: &[Held], condition: Condition) {
        let Some(worker) = self.roster.by_session(session) else { return };
        let desired = self.note_held(now, worker, held, condition);
        let overdue = self.note_not_held(now, worker, held, false);
        self.emit(Effect::SendDesired { session, desired });
        if let Some(job) = overdue.first() {
            let text = format!("the grant of job {job} has not arrived on this connection; open a new one");
            self.emit(Effect::Close { session, error: LinkError::new(ErrorCode::Unavailable, text) });
        }
    }

    /// Stores a worker's condition and held attempts, and returns the desired state of each
    /// attempt.
    fn note_held(
        &mut self,
        now: Now,
        worker: WorkerId,
        held: &[Held],
        mut condition: Condition,
    ) -> Vec<DesiredState> {
        condition.warm_projects.truncate(OFFERS_MAX);
        let is_open = |job: &JobId| {
            // It may hold several attempts of a job.
            let mut of_job = held.iter().filter(|held| held.lease.attempt.job == *job).peekable();
            match of_job.peek() {
                Some(_) => of_job.any(|held| held.state != HeldState::Ended),
                None => self.jobs.contains_key(job),
            }
        };
        if let Some(mut known) = self.roster.get_mut(worker) {
            let unconfirmed = known.unconfirmed_ends.len();
            known.unconfirmed_ends.retain(is_open);
            let may_have_room = known.declined
                || known.unconfirmed_ends.len() < unconfirmed
                || grant_conditions(&known.condition) != grant_conditions(&condition);
            if may_have_room {
                self.triggers.worker(worker);
            }
            known.condition = condition;
            known.declined = false;
            Arc::make_mut(&mut known.record).last_seen_ms = now.wall_ms;
        }
        let desired: Vec<DesiredState> =
            held.iter().flat_map(|held| self.desired_states(now, worker, held)).collect();
        let foreign = desired.iter().filter(|state| matches!(state, DesiredState::Fenced(_))).count();
        if let Some(mut known) = self.roster.get_mut(worker) {
            let foreign = u32::try_from(foreign).unwrap_or(u32::MAX);
            if foreign < known.foreign_attempts {
                self.triggers.worker(worker);
            }
            known.foreign_attempts = foreign;
        }
        desired
    }

    /// Handles grants that a worker does not hold. Returns the grants to resend on a new
    /// connection.
    fn note_not_held(
        &mut self,
        now: Now,
        worker: WorkerId,
        held: &[Held],
        is_new_connection: bool,
    ) -> Vec<JobId> {
        let leases: BTreeSet<Lease> = held.iter().map(|held| held.lease).collect();
        let mut again = Vec::new();
        for id in self.jobs_of(worker) {
            let Some(granted) = self.jobs.get(&id).and_then(Job::granted) else { continue };
            if leases.contains(&granted.lease) {
                continue;
            }
            match self.not_held(now, id, is_new_connection) {
                NotHeld::Settled => {}
                NotHeld::GrantAgain => again.push(id),
            }
        }
        again
    }

    fn jobs_of(&self, worker: WorkerId) -> Vec<JobId> {
        self.roster.get(worker).map(|worker| worker.jobs.keys().copied().collect()).unwrap_or_default()
    }

    fn desired_states(&mut self, now: Now, worker: WorkerId, held: &Held) -> Vec<DesiredState> {
        let lease = held.lease;
        let id = lease.attempt.job;
        self.readopt(worker, lease, held.state);
        if !self.is_granted(id, lease, worker) {
            let is_over = held.state == HeldState::Ended;
            return vec![if is_over { DesiredState::Forget(lease) } else { DesiredState::Fenced(lease) }];
        }
        let was_started = self.attempt_started(id, lease);
        self.note_start(id, lease.attempt.number, held.started_at_ms);
        if !was_started && held.started_at_ms.is_some() {
            self.note_started(id, lease.attempt.number);
        }
        let boot = self.roster.get(worker).and_then(Worker::boot);
        let Some(job) = self.jobs.get_mut(&id) else { return vec![DesiredState::Fenced(lease)] };
        let asked = job.cancel.clone().filter(|_| held.state != HeldState::Ended);
        let mut changed = false;
        let mut is_asked_anew = false;
        if let Some(granted) = job.granted_mut() {
            let output_held = held.output_held.as_ref().map(|output| held_output(now, granted, output));
            changed = granted.state != held.state
                || !granted.confirmed
                || granted.missing_since.is_some()
                || granted.output_held != output_held;
            granted.output_held = output_held;
            granted.confirmed = true;
            granted.boot = boot;
            granted.state = held.state;
            if held.state == HeldState::Ended {
                granted.ended_since_ms.get_or_insert(now.wall_ms);
            }
            granted.missing_since = None;
            is_asked_anew = asked.is_some() && granted.ending_since.is_none();
        }
        if is_asked_anew {
            self.expect_end(now, id);
        }
        if changed {
            self.emit(Effect::Changed { job: id });
        }
        let cancel = asked.map(|asked| DesiredState::Cancel { lease, by: asked.by, reason: asked.reason });
        std::iter::once(DesiredState::Continue(lease)).chain(cancel).collect()
    }

    /// Returns true if this is the valid lease, on this worker.
    fn is_granted(&self, id: JobId, lease: Lease, worker: WorkerId) -> bool {
        let granted = self.jobs.get(&id).and_then(Job::granted);
        granted.is_some_and(|granted| granted.lease == lease && granted.worker == worker)
    }

    fn attempt_started(&self, id: JobId, lease: Lease) -> bool {
        self.jobs.get(&id).is_some_and(|job| {
            job.attempts
                .iter()
                .any(|attempt| attempt.number == lease.attempt.number && attempt.started_at_ms.is_some())
        })
    }

    /// Restores a lost attempt that came back before a newer grant.
    fn readopt(&mut self, worker: WorkerId, lease: Lease, state: HeldState) {
        let id = lease.attempt.job;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Phase::Queued { adoptable: Some(lost), .. } = &job.phase else { return };
        if lost.lease != lease || lost.worker != worker {
            return;
        }
        // While another job of its group runs, only its result is useful.
        let group = job.record.spec.concurrency_group.as_ref();
        if state != HeldState::Ended && group.is_some_and(|group| self.groups.contains_key(group)) {
            return;
        }
        let Some(attempt) = job.last_attempt_mut(lease.attempt.number) else { return };
        attempt.lost = None;
        attempt.counted = false;
        let attempt = attempt.clone();
        self.dequeue(id);
        let known = self.roster.get(worker);
        let (boot, session) = (known.and_then(Worker::boot), known.and_then(Worker::session));
        self.mark_granted(id, &attempt, state, boot);
        if let Some(session) = session {
            self.emit(Effect::OpenLog { session, lease });
        }
    }

    pub(crate) fn declined(&mut self, now: Now, session: Session, lease: Lease, reason: &str) {
        let Some(worker) = self.roster.by_session(session) else { return };
        let id = lease.attempt.job;
        // A worker cannot decline an attempt that it has confirmed.
        let is_open = self.jobs.get(&id).and_then(Job::granted).is_some_and(|granted| !granted.confirmed);
        if !is_open || !self.is_granted(id, lease, worker) {
            return;
        }
        if let Some(mut known) = self.roster.get_mut(worker) {
            known.declined = true;
            known.series.end();
        }
        self.end_attempt(now, id, lease, reason, Loss::Free);
    }

    pub(crate) fn disconnected(&mut self, now: Now, session: Session) {
        let Some(worker) = self.roster.disconnect(session, now.clock) else { return };
        self.time_loss(worker);
        // Jobs may have waited for its warm workspace.
        self.triggers.waits();
        let Some(record) = self.roster.get(worker).map(|worker| WorkerRecord::clone(&worker.record)) else {
            return;
        };
        let token = record.token.clone();
        self.emit(Effect::Persist(Change::Worker(record)));
        for job in self.jobs_of(worker) {
            self.emit(Effect::Changed { job });
        }
        let unused = token.and_then(|token| self.roster.unused(&token));
        unused.into_iter().for_each(|unused| self.free_name(unused));
    }

    pub(crate) fn drain(
        &mut self,
        now: Now,
        client: ClientRef,
        name: &str,
        draining: bool,
        deadline: Option<Duration>,
    ) {
        let Some(id) = self.named(name) else { return self.refuse_unknown_worker(client, name) };
        let at = deadline.map(|deadline| now.clock.saturating_add(deadline));
        let Some(mut worker) = self.roster.get_mut(id) else { return };
        let record = Arc::make_mut(&mut worker.record);
        record.draining = draining;
        record.resumed = !draining;
        record.drain_until_ms = deadline.filter(|_| draining).map(|deadline| {
            now.wall_ms.saturating_add(i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX))
        });
        worker.drain_deadline = at.filter(|_| draining);
        if !draining {
            // The worker immediately reports if it accepts jobs again. A worker that is shutting
            // down does not.
            worker.unconfirmed_ends.clear();
        }
        let (record, session) = (WorkerRecord::clone(&worker.record), worker.session());
        drop(worker);
        self.triggers.worker(id);
        if let Some(at) = at.filter(|_| draining) {
            self.timers.insert((at, Timer::DrainEnd(id)));
        }
        self.emit(Effect::Persist(Change::Worker(record)));
        if let Some(session) = session {
            self.emit(Effect::Send { session, message: Box::new(ToWorker::Drain { draining, deadline }) });
        }
        self.emit(Effect::Acknowledged { client, job: None });
    }

    /// Reminds a worker of a passed drain deadline. The worker ends its running attempts itself. An
    /// unconfirmed grant stays assigned to it, because it may have started. It is resolved when the
    /// worker reports, returns, or is lost.
    pub(crate) fn drain_ended(&mut self, now: Now, worker: WorkerId) {
        let Some(known) = self.roster.get(worker) else { return };
        let is_due = known.record.draining && known.drain_deadline.is_some_and(|at| at <= now.clock);
        if let Some(session) = known.session().filter(|_| is_due) {
            let message = Box::new(ToWorker::Drain { draining: true, deadline: Some(Duration::ZERO) });
            self.emit(Effect::Send { session, message });
        }
    }
}

/// Returns the parts of a condition that decide about grants.
fn grant_conditions(condition: &Condition) -> (bool, bool, &[String], bool, u32) {
    let Condition { draining, quarantined, warm_projects, stdin, early_grants, .. } = condition;
    (*draining, quarantined.is_some(), warm_projects, *stdin, *early_grants)
}

/// Limit on the remembered earlier starts of a worker's daemon, newest first.
const EARLIER_BOOTS_MAX: usize = limits::LIST_MAX;

/// Returns the blocked output with its start time. The start is computed once, because the reported
/// duration is as old as the report.
fn held_output(now: Now, granted: &Granted, held: &OutputHeld) -> HeldOutput {
    let held_ms = i64::try_from(held.held_for.as_millis()).unwrap_or(i64::MAX);
    let known = granted.output_held.as_ref().map(|known| known.since_ms);
    let reason = &held.reason[..held.reason.floor_char_boundary(limits::TEXT_BYTES_MAX)];
    HeldOutput {
        since_ms: known.unwrap_or_else(|| now.wall_ms.saturating_sub(held_ms)),
        reason: reason.to_owned(),
    }
}
