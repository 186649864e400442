//! Carries out the pool's decisions in the guaranteed order: first written, then sent. A crash
//! between two effects loses the later ones.

use super::super::clock::Time;
use super::super::disk::{Disk, Log};
use super::super::truth::Truth;
use super::{Batch, Coordinator, Reply};
use buildpool_pool::{Change, ClientRef, DesiredState, Effect, Input, JobRecord, Session, Submit};
use buildpool_protocol::ids::{AttemptId, JobId, Lease};
use buildpool_protocol::limits::REPORT_EVERY;
use buildpool_protocol::worker_link::{Desired, ToWorker};
use std::time::Duration;

impl Coordinator {
    /// Returns the recorded job that a submit repeats.
    fn known(disk: &Disk, changes: &[Change], submit: &Submit) -> Option<JobId> {
        let is_known = |id: &JobId| {
            let is_written =
                changes.iter().any(|change| matches!(change, Change::Done { job, .. } if job == id));
            is_written || disk.jobs.contains_key(id) || disk.done.contains_key(id)
        };
        let by_id = Some(submit.job).filter(|id| is_known(id));
        by_id.or_else(|| {
            let text = submit.client_request_id.as_ref()?;
            let of_submitter = |record: &JobRecord| {
                record.client_request_id.as_ref() == Some(text) && record.submitter == submit.submitter.name
            };
            disk.jobs.values().find(|record| of_submitter(record)).map(|record| record.job)
        })
    }

    pub(super) fn work(&mut self, now: Time, truth: &mut Truth) {
        let Some(running) = &mut self.running else { return };
        if let Some(batch) = &running.batch {
            if batch.done_at > now || self.full_until > now {
                return;
            }
            let batch = running.batch.take().unwrap_or_default();
            return self.commit(batch, now, truth);
        }
        let Some(mut batch) = self.take_batch(now, truth) else { return };
        let slow = if self.slow_until > now { truth.dice.millis(1_000, 8_000) } else { Duration::ZERO };
        batch.done_at = now + truth.dice.millis(1, 15) + slow;
        if let Some(running) = &mut self.running {
            running.batch = Some(batch);
        }
    }

    /// Passes inputs to the pool. Returns its decisions if they need a record. Others are carried out here.
    pub(super) fn take_batch(&mut self, now: Time, truth: &mut Truth) -> Option<Batch> {
        let running = self.running.as_ref()?;
        let is_due = running.pool.next_deadline().is_some_and(|at| running.clock.when(at) <= now);
        if running.inbox.is_empty() && !is_due {
            return None;
        }
        let mut batch = Batch::default();
        let most = 1 + truth.dice.index(8);
        for taken in 0..most {
            let running = self.running.as_mut()?;
            let input = match running.inbox.pop_front() {
                Some(input) => input,
                None if taken == 0 => Input::Tick,
                None => break,
            };
            self.decide(input, &mut batch, now, truth);
            if self.dies_here(now, truth) {
                return None;
            }
        }
        if batch.changes.is_empty() {
            self.carry_out(batch.effects, now, truth);
            return None;
        }
        Some(batch)
    }

    pub(super) fn decide(&mut self, mut input: Input, batch: &mut Batch, now: Time, truth: &mut Truth) {
        if let Input::Submit { submit, .. } = &mut input {
            submit.known = Self::known(&truth.disk, &batch.changes, submit);
        }
        let Some(at) = self.running.as_ref().map(|running| self.now(running, now)) else { return };
        let Some(running) = &mut self.running else { return };
        running.pool.handle(at, input);
        while let Some(effect) = running.pool.poll_effect() {
            match effect {
                Effect::Persist(change) => {
                    batch.changes.append(&mut running.notes);
                    batch.changes.push(change);
                }
                Effect::Note(change) if batch.changes.is_empty() => running.notes.push(change),
                Effect::Note(change) => batch.changes.push(change),
                other => batch.effects.push(other),
            }
        }
        truth.check(running.pool.audit());
    }

    fn commit(&mut self, batch: Batch, now: Time, truth: &mut Truth) {
        if self.dies_here(now, truth) {
            return;
        }
        for change in &batch.changes {
            truth.write(change, now);
        }
        self.carry_out_written(batch, now, truth);
    }

    /// Carries out the effects of changes that are written.
    pub(super) fn carry_out_written(&mut self, mut batch: Batch, now: Time, truth: &mut Truth) {
        for change in &batch.changes {
            if let Change::Attempt { job, attempt } = change {
                let newest = AttemptId { job: *job, number: attempt.number };
                batch.effects.retain(|effect| !is_superseded(effect, newest));
            }
        }
        self.carry_out(batch.effects, now, truth);
    }

    fn carry_out(&mut self, effects: Vec<Effect>, now: Time, truth: &mut Truth) {
        for effect in effects {
            if self.dies_here(now, truth) {
                return;
            }
            self.carry_out_one(effect, now, truth);
        }
    }

    fn carry_out_one(&mut self, effect: Effect, now: Time, truth: &mut Truth) {
        match effect {
            // Digests take no time here.
            Effect::Persist(_) | Effect::Note(_) | Effect::Changed { .. } | Effect::CutDigest { .. } => {}
            Effect::Accepted { client, job, .. } => {
                if !truth.disk.jobs.contains_key(&job) && !truth.is_forgotten(job) {
                    truth.fail(format!("liveness: job {job} is accepted and not on disk"));
                }
                self.reply(client, Reply::Accepted { job }, now, truth);
            }
            Effect::Acknowledged { client, .. } => self.reply(client, Reply::Acknowledged, now, truth),
            Effect::Refused { client, error } => self.reply(client, Reply::Refused { error }, now, truth),
            Effect::Welcome { session, lost_after, desired } => {
                let desired = self.desired(desired);
                let message = ToWorker::Registered {
                    protocol: 1,
                    session: session.0,
                    report_every: REPORT_EVERY,
                    lost_after,
                    desired,
                };
                self.send(session, message, now, truth);
            }
            Effect::SendDesired { session, desired } => {
                let desired = self.desired(desired);
                self.send(session, ToWorker::Desired { desired }, now, truth);
            }
            Effect::OpenLog { session, lease } => self.open_log(session, lease, truth),
            Effect::Grant { session, grant } => {
                truth.check(Self::check_grant(truth, grant.lease));
                truth.note(now, || format!("  grants {}", grant.lease.attempt));
                self.send(session, ToWorker::Grant(grant), now, truth);
            }
            Effect::Send { session, message } => self.send(session, *message, now, truth),
            Effect::Close { session, error } => {
                self.send(session, ToWorker::Refused { error }, now, truth);
                let id = self.running.as_ref().and_then(|running| running.sessions.get(&session).copied());
                if let Some(id) = id {
                    self.closed(id, now, truth);
                }
            }
            Effect::Done { job, .. } => {
                if !truth.disk.done.contains_key(&job) && !truth.is_forgotten(job) {
                    truth.fail(format!("absorbing: the end of job {job} is reported and not on disk"));
                }
            }
            Effect::Abandon(lost) => {
                if let Some(running) = &mut self.running {
                    running.logs.remove(&lost.lease.attempt);
                    running.completing.remove(&lost.lease.attempt);
                }
            }
        }
    }

    fn open_log(&mut self, session: Session, lease: Lease, truth: &mut Truth) {
        let AttemptId { job, number } = lease.attempt;
        let newest = truth.disk.attempts.get(&job).and_then(|all| all.keys().next_back().copied());
        if newest != Some(number) && !truth.is_forgotten(job) {
            truth.fail(format!("fenced: the log of {job}/{number} is opened, the newest is {newest:?}"));
        }
        if let Some(running) = &mut self.running {
            running.logs.insert(lease.attempt, (session, lease));
        }
    }

    /// Checks that a grant is on disk and is the newest.
    fn check_grant(truth: &Truth, lease: Lease) -> Result<(), String> {
        let AttemptId { job, number } = lease.attempt;
        let newest = truth.disk.attempts.get(&job).and_then(|all| all.values().next_back());
        match newest {
            Some(newest) if newest.number == number && newest.epoch == lease.epoch => Ok(()),
            _ if truth.is_forgotten(job) => Ok(()),
            _ => Err(format!("single_lease: {job}/{number} is granted, on disk is {newest:?}")),
        }
    }

    pub(super) fn desired(&self, desired: Vec<DesiredState>) -> Vec<Desired> {
        let position = |lease: Lease| self.logs.get(&lease.attempt).map_or(0, Log::length);
        desired
            .into_iter()
            .map(|state| match state {
                DesiredState::Continue(lease) => Desired::Continue { lease, position: position(lease) },
                DesiredState::Cancel { lease, by, reason } => Desired::Cancel { lease, by, reason },
                DesiredState::Fenced(lease) => Desired::Fenced { lease },
                DesiredState::Forget(lease) => Desired::Forget { lease },
            })
            .collect()
    }

    pub(super) fn send(&self, session: Session, message: ToWorker, now: Time, truth: &mut Truth) {
        let id = self.running.as_ref().and_then(|running| running.sessions.get(&session));
        if let Some(id) = id {
            truth.network.send_down(now, &mut truth.dice, *id, message);
        }
    }

    pub(super) fn reply(&mut self, client: ClientRef, reply: Reply, now: Time, truth: &mut Truth) {
        // One in ten answers is lost.
        if !truth.dice.percent(10) {
            self.mail.push((now + truth.dice.millis(0, 50), client, reply));
        }
    }
}

/// Returns true if a newer attempt supersedes this effect. Superseded effects are not sent.
fn is_superseded(effect: &Effect, newest: AttemptId) -> bool {
    let lease = match effect {
        Effect::OpenLog { lease, .. } => *lease,
        Effect::Grant { grant, .. } => grant.lease,
        _ => return false,
    };
    lease.attempt.job == newest.job && lease.attempt.number < newest.number
}
