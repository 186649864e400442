//! Workers come, report, and go: what they hold is compared with what was granted.

use crate::effect::{Change, Effect, Wish, WorkerRecord};
use crate::input::{ClientRef, Now, Session};
use crate::job::{Job, Phase};
use crate::lifecycle::Loss;
use crate::pool::{Pool, Timer};
use crate::roster::{Contact, Worker};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{JobId, Lease, WorkerId};
use buildpool_protocol::limits;
use buildpool_protocol::spec::check_name;
use buildpool_protocol::worker_link::{Condition, Held, HeldState, Register, ToWorker};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Pool {
    pub(crate) fn register(&mut self, now: Now, session: Session, register: Register) {
        if let Err(error) = self.admit(&register) {
            return self.emit(Effect::Close { session, error });
        }
        let id = register.worker;
        self.supersede(id);
        self.note_worker(now, &register);
        self.roster.connect(id, session, register.boot);
        let wishes = self.reconcile(now, id, session, &register.held, register.condition);
        for wish in &wishes {
            if let Wish::Continue(lease) | Wish::Cancel { lease, .. } = wish {
                self.emit(Effect::OpenLog { session, lease: *lease });
            }
        }
        self.emit(Effect::Welcome { session, lost_after: self.config.lost_after, wishes });
        if self.roster.get(id).is_some_and(|worker| worker.record.draining) {
            let deadline = self.roster.get(id).and_then(|worker| worker.drain_deadline);
            let remaining = deadline.map(|at| at.saturating_sub(now.clock));
            let message = Box::new(ToWorker::Drain { draining: true, deadline: remaining });
            self.emit(Effect::Send { session, message });
        }
    }

    /// Whether this worker may take its name and identity.
    fn admit(&self, register: &Register) -> Result<(), LinkError> {
        if let Err(error) = check_name("worker name", &register.name) {
            return Err(LinkError::new(ErrorCode::Invalid, error.to_string()));
        }
        if register.slots > limits::SLOTS_MAX || register.labels.len() > limits::LIST_MAX * 4 {
            return Err(LinkError::new(
                ErrorCode::Invalid,
                format!("at most {} slots and {} labels are valid", limits::SLOTS_MAX, limits::LIST_MAX * 4),
            ));
        }
        if let Some(worker) = self.roster.get(register.worker)
            && let Contact::Connected { boot, .. } = worker.contact
            && boot != register.boot
        {
            return Err(LinkError::new(
                ErrorCode::Conflict,
                format!(
                    "worker {} is connected already from another start of its daemon; if its disk was copied to a second machine, remove `identity.json` from the copy's data directory; if it was restarted, the old connection is given up within {} s",
                    worker.record.name,
                    limits::SILENCE_MAX.as_secs()
                ),
            ));
        }
        match self.roster.by_name(&register.name).filter(|holder| *holder != register.worker) {
            Some(holder)
                if self
                    .roster
                    .get(holder)
                    .is_some_and(|worker| worker.session().is_some() || !worker.jobs.is_empty()) =>
            {
                Err(LinkError::new(
                    ErrorCode::Conflict,
                    format!("another worker is named `{}`; give this one another --name", register.name),
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The newest connection of a worker wins.
    fn supersede(&mut self, worker: WorkerId) {
        if let Some(old) = self.roster.get(worker).and_then(Worker::session) {
            let error =
                LinkError::new(ErrorCode::Conflict, "superseded by a newer connection of the same worker");
            self.emit(Effect::Close { session: old, error });
        }
    }

    fn note_worker(&mut self, now: Now, register: &Register) {
        // A name goes over to a new identity when its old holder is absent and idle (see `admit`).
        if let Some(holder) = self.roster.by_name(&register.name).filter(|holder| *holder != register.worker)
        {
            self.roster.remove(holder);
        }
        let known = self.roster.get(register.worker);
        let record = WorkerRecord {
            worker: register.worker,
            name: register.name.clone(),
            slots: register.slots,
            labels: register.labels.clone(),
            resources: register.resources.clone(),
            draining: known.is_some_and(|worker| worker.record.draining),
            last_seen_ms: now.wall_ms,
            version: register.version.clone(),
        };
        self.emit(Effect::Persist(Change::Worker(record.clone())));
        match self.roster.get_mut(register.worker) {
            Some(worker) => {
                worker.record = record;
                worker.distrusted = None;
            }
            None => self.roster.insert(Worker {
                record,
                contact: Contact::Absent { since: now.clock },
                condition: Condition::default(),
                distrusted: None,
                declined: false,
                drain_deadline: None,
                jobs: BTreeMap::new(),
            }),
        }
    }

    pub(crate) fn report(&mut self, now: Now, session: Session, held: &[Held], condition: Condition) {
        let Some(worker) = self.roster.by_session(session) else { return };
        let wishes = self.reconcile(now, worker, session, held, condition);
        self.emit(Effect::Desire { session, wishes });
    }

    /// Compares what a worker holds with what was granted, and says what should be.
    fn reconcile(
        &mut self,
        now: Now,
        worker: WorkerId,
        session: Session,
        held: &[Held],
        condition: Condition,
    ) -> Vec<Wish> {
        if let Some(known) = self.roster.get_mut(worker) {
            known.condition = condition;
            known.declined = false;
            known.record.last_seen_ms = now.wall_ms;
        }
        let wishes = held.iter().map(|held| self.wish(now, worker, held)).collect();
        let leases: BTreeSet<Lease> = held.iter().map(|held| held.lease).collect();
        for id in self.booked(worker) {
            let Some(granted) = self.jobs.get(&id).and_then(Job::granted) else { continue };
            let (lease, confirmed) = (granted.lease, granted.confirmed);
            if leases.contains(&lease) {
                continue;
            }
            if confirmed {
                let reason = "its worker came back without it".to_owned();
                self.end_attempt(now, id, lease, &reason, Loss::Counted { may_return: false });
            } else {
                self.repeat_grant(session, id);
            }
        }
        wishes
    }

    fn booked(&self, worker: WorkerId) -> Vec<JobId> {
        self.roster.get(worker).map(|worker| worker.jobs.keys().copied().collect()).unwrap_or_default()
    }

    fn wish(&mut self, now: Now, worker: WorkerId, held: &Held) -> Wish {
        let lease = held.lease;
        let id = lease.attempt.job;
        if self.readopt(worker, lease, held.state) {
            self.persist_attempt(id, lease.attempt.number);
        }
        let is_ours = self
            .jobs
            .get(&id)
            .and_then(Job::granted)
            .is_some_and(|granted| granted.lease == lease && granted.worker == worker);
        if !is_ours {
            return if held.state == HeldState::Ended { Wish::Forget(lease) } else { Wish::Fenced(lease) };
        }
        let was_started = self.attempt_started(id, lease);
        self.note_start(id, lease.attempt.number, held.started_at_ms);
        if !was_started && held.started_at_ms.is_some() {
            self.persist_attempt(id, lease.attempt.number);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return Wish::Fenced(lease) };
        let asked = job.cancel.clone();
        let mut changed = false;
        if let Some(granted) = job.granted_mut() {
            changed = granted.state != held.state || !granted.confirmed;
            granted.confirmed = true;
            granted.state = held.state;
            if asked.is_some() && granted.ending_since.is_none() {
                granted.ending_since = Some(now.clock);
            }
        }
        if changed {
            self.emit(Effect::Changed { job: id });
        }
        match asked {
            Some(asked) if held.state != HeldState::Ended => {
                Wish::Cancel { lease, by: asked.by, reason: asked.reason }
            }
            Some(_) | None => Wish::Continue(lease),
        }
    }

    fn attempt_started(&self, id: JobId, lease: Lease) -> bool {
        self.jobs.get(&id).is_some_and(|job| {
            job.attempts
                .iter()
                .any(|attempt| attempt.number == lease.attempt.number && attempt.started_at_ms.is_some())
        })
    }

    /// An attempt that was declared lost came back before anything newer was granted.
    fn readopt(&mut self, worker: WorkerId, lease: Lease, state: HeldState) -> bool {
        let id = lease.attempt.job;
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let Phase::Queued { adoptable: Some(lost), .. } = &job.phase else { return false };
        if lost.lease != lease || lost.worker != worker {
            return false;
        }
        let Some(attempt) = job.last_attempt_mut(lease.attempt.number) else { return false };
        attempt.lost = None;
        attempt.counted = false;
        let attempt = attempt.clone();
        self.dequeue(id);
        self.mark_granted(id, &attempt, state, true);
        true
    }

    pub(crate) fn declined(&mut self, now: Now, session: Session, lease: Lease, reason: &str) {
        let Some(worker) = self.roster.by_session(session) else { return };
        if let Some(known) = self.roster.get_mut(worker) {
            known.declined = true;
        }
        let id = lease.attempt.job;
        let is_ours = self
            .jobs
            .get(&id)
            .and_then(Job::granted)
            .is_some_and(|granted| granted.lease == lease && granted.worker == worker);
        if is_ours {
            self.end_attempt(now, id, lease, reason, Loss::Free);
        }
    }

    pub(crate) fn gone(&mut self, now: Now, session: Session) {
        let Some(worker) = self.roster.disconnect(session, now.clock) else { return };
        self.timers.insert((now.clock + self.config.lost_after, Timer::WorkerLost(worker)));
        if let Some(record) = self.roster.get(worker).map(|worker| worker.record.clone()) {
            self.emit(Effect::Persist(Change::Worker(record)));
        }
        for job in self.booked(worker) {
            self.emit(Effect::Changed { job });
        }
    }

    pub(crate) fn drain(
        &mut self,
        now: Now,
        client: ClientRef,
        name: &str,
        draining: bool,
        deadline: Option<Duration>,
    ) {
        let Some(id) = self.roster.by_name(name) else {
            let names: Vec<_> =
                self.roster.iter().map(|(_, worker)| worker.record.name.clone()).take(20).collect();
            let error = LinkError::new(
                ErrorCode::NotFound,
                format!("no worker is named `{name}`; there are: {}", names.join(", ")),
            );
            return self.emit(Effect::Refused { client, error });
        };
        let at = deadline.map(|deadline| now.clock + deadline);
        let Some(worker) = self.roster.get_mut(id) else { return };
        worker.record.draining = draining;
        worker.drain_deadline = at.filter(|_| draining);
        worker.distrusted = worker.distrusted.take().filter(|_| draining);
        let (record, session) = (worker.record.clone(), worker.session());
        if let Some(at) = at.filter(|_| draining) {
            self.timers.insert((at, Timer::DrainEnd(id)));
        }
        self.emit(Effect::Persist(Change::Worker(record)));
        if let Some(session) = session {
            self.emit(Effect::Send { session, message: Box::new(ToWorker::Drain { draining, deadline }) });
        }
        self.emit(Effect::Acknowledged { client, job: None });
    }

    /// The worker ends what still runs by itself; jobs that it could not even begin go back now.
    pub(crate) fn drain_ended(&mut self, now: Now, worker: WorkerId) {
        let is_due = self.roster.get(worker).is_some_and(|worker| {
            worker.record.draining && worker.drain_deadline.is_some_and(|at| at <= now.clock)
        });
        if !is_due {
            return;
        }
        for id in self.booked(worker) {
            let Some(granted) = self.jobs.get(&id).and_then(Job::granted) else { continue };
            if !granted.confirmed {
                let lease = granted.lease;
                self.end_attempt(now, id, lease, "its worker was drained before it began", Loss::Free);
            }
        }
    }
}
