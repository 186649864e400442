//! Submission and cancellation of jobs.

use crate::effect::{Change, Effect, JobRecord};
use crate::input::{ClientRef, Measures, Now, Submit, Submitter};
use crate::job::{CancelRequest, Job, Phase};
use crate::lifecycle::Ended;
use crate::losses::Loss;
use crate::pool::{Pool, Timer};
use crate::roster::Worker;
use crate::share::job_bytes;
use buildpool_protocol::client_link::check_length;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{JobId, TokenId};
use buildpool_protocol::limits;
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
use buildpool_protocol::spec::{Access, JobSpec, Source, Verbosity};
use buildpool_protocol::worker_link::{Desired, HeldState, ToWorker};
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Time for a digest that must leave out the rest of its log. It then reads a mebibyte at most.
const DIGEST_CUT_WITHIN: Duration = Duration::from_secs(60);
/// Name of the pool itself, as the one that cancels a job.
const POOL: &str = "the pool";

impl Pool {
    pub(crate) fn submit(&mut self, now: Now, client: ClientRef, mut submit: Submit) {
        let measures = submit.measures().clone();
        match self.earlier_job(&submit, measures.likeness) {
            Ok(Some(job)) => return self.reattach(now, client, job, submit),
            Ok(None) => {}
            Err(error) => return self.emit(Effect::Refused { client, error }),
        }
        let refused = submit.refused.take().map_or_else(|| self.check(&submit, &measures), Err);
        if let Err(error) = refused {
            return self.emit(Effect::Refused { client, error });
        }
        let (id, spec) = (submit.job, submit.spec.clone());
        self.accept(now, client, submit, measures);
        if self.roster.is_satisfiable(&spec) {
            return self.enqueue(now, id);
        }
        match spec.wait_for_worker {
            None => {
                let missing = self.roster.what_is_missing(&spec);
                self.reject(now, id, &missing);
            }
            Some(wait) => {
                self.enqueue(now, id);
                self.timers.insert((now.clock.saturating_add(wait), Timer::GiveUp(id)));
            }
        }
    }

    /// Returns the earlier job that this submit repeats.
    fn earlier_job(&self, submit: &Submit, likeness: Likeness) -> Result<Option<JobId>, LinkError> {
        if let Some(job) = self.jobs.get(&submit.job) {
            // The operator may have changed the access meanwhile.
            let access = job.record.spec.access.clone();
            let same = JobSpec { access, ..JobSpec::clone(&submit.spec) };
            if job.record.submitter != submit.submitter.name || *job.record.spec != same {
                return Err(LinkError::new(
                    ErrorCode::Conflict,
                    format!(
                        "job id {} is in use for another job; leave the choice to your client",
                        submit.job
                    ),
                ));
            }
            return Ok(Some(submit.job));
        }
        if submit.known.is_some() {
            return Ok(submit.known);
        }
        let by_request_id = submit
            .client_request_id
            .as_ref()
            .and_then(|text| self.request_ids.get(&(submit.submitter.name.clone(), text.clone())));
        let by_equality =
            submit.attach.then(|| self.undelivered.get(&submit.submitter.name, likeness)).flatten();
        Ok(by_request_id.copied().or(by_equality))
    }

    /// Attaches to an existing job. The submit may provide secrets that were lost in a restart.
    fn reattach(&mut self, now: Now, client: ClientRef, id: JobId, submit: Submit) {
        if let Some(job) = self.jobs.get_mut(&id) {
            let record = job.record.clone();
            let mut secrets = job.secrets.clone();
            secrets.extend(submit.secrets.into_iter().filter(|(name, _)| record.spec.secrets.contains(name)));
            if let Err(error) = check_length(&record.spec, &secrets) {
                return self.emit(Effect::Refused { client, error });
            }
            let bytes = job_bytes(&record.spec, &secrets);
            let before = std::mem::replace(&mut job.bytes, bytes);
            job.secrets = secrets;
            self.resize_share(&record, before, bytes);
        }
        if self.parked.contains(&id) {
            self.enqueue(now, id);
        }
        self.emit(Effect::Accepted { client, job: id, reattached: true });
    }

    fn check(&self, submit: &Submit, measures: &Measures) -> Result<(), LinkError> {
        if self.draining {
            return Err(LinkError::new(
                ErrorCode::Unavailable,
                "the coordinator is draining and takes no new jobs; try again later",
            ));
        }
        let invalid = |text: String| Err(LinkError::new(ErrorCode::Invalid, text));
        if let Some(error) = measures.invalid.clone() {
            return Err(error);
        }
        if matches!(submit.spec.source, Source::InPlace { .. }) && !self.config.local {
            return invalid("source: only the local pool runs jobs in place; give a snapshot".to_owned());
        }
        if let Some(name) = submit.spec.secrets.iter().find(|name| !submit.secrets.contains_key(*name)) {
            return invalid(format!("secret: `{name}` has no value"));
        }
        if submit.client_request_id.as_ref().is_some_and(|text| text.len() > limits::TEXT_BYTES_MAX) {
            return invalid(format!("client_request_id: longer than {} bytes", limits::TEXT_BYTES_MAX));
        }
        self.check_room(submit, measures.bytes)?;
        self.check_quota(submit)
    }

    fn accept(&mut self, now: Now, client: ClientRef, mut submit: Submit, measures: Measures) {
        let id = submit.job;
        let Measures { bytes, likeness, invalid: _ } = measures;
        submit.secrets.retain(|name, _| submit.spec.secrets.contains(name));
        let record = Arc::new(JobRecord {
            job: id,
            spec: submit.spec,
            submitter: submit.submitter.name,
            token: submit.submitter.token,
            created_at_ms: now.wall_ms,
            order: self.next_order,
            client_request_id: submit.client_request_id,
            snapshot: submit.snapshot,
            usual: submit.usual,
        });
        self.next_order += 1;
        if let Some(text) = &record.client_request_id {
            self.request_ids.insert((record.submitter.clone(), text.clone()), id);
        }
        self.enter_share(&record, bytes);
        self.emit(Effect::Persist(Change::Submitted(record.clone())));
        if submit.attach {
            self.make_attachable(&record, likeness);
        }
        self.emit(Effect::Accepted { client, job: id, reattached: false });
        self.jobs.insert(
            id,
            Job {
                record,
                phase: Phase::Queued { since: now, adoptable: None },
                attempts: Vec::new(),
                cancel: None,
                secrets: submit.secrets,
                bytes,
            },
        );
    }

    /// Makes an identical submit attach to this job, also after a restart.
    fn make_attachable(&mut self, record: &JobRecord, likeness: Likeness) {
        if let Some(surplus) = self.undelivered.surplus() {
            self.delivered(surplus);
        }
        self.undelivered.insert(&record.submitter, likeness, record.job);
        self.emit(Effect::Persist(Change::Attachable { job: record.job, attachable: true }));
    }

    /// Handles a delivered result, or one that is no longer needed. An identical submit then starts
    /// a new job.
    pub(crate) fn delivered(&mut self, id: JobId) {
        if self.undelivered.remove(id) {
            self.emit(Effect::Persist(Change::Attachable { job: id, attachable: false }));
        }
    }

    pub(crate) fn reject(&mut self, now: Now, id: JobId, missing: &str) {
        let text = format!("No worker can run this: {missing}.");
        self.finish(
            now,
            id,
            Ended::without_result(Verdict::Rejected, Cause { text, known_from: KnownFrom::Pool }),
        );
    }

    /// Ends the wait for a worker that has never connected.
    pub(crate) fn give_up(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.granted().is_none()) else { return };
        let spec = job.record.spec.clone();
        if !self.roster.is_satisfiable(&spec) {
            let missing = self.roster.what_is_missing(&spec);
            self.reject(now, id, &missing);
        }
    }

    /// Ends the wait for the values of its secrets, if it is over.
    pub(crate) fn give_up_secrets(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|_| self.parked.contains(&id)) else { return };
        let Phase::Queued { since, .. } = &job.phase else { return };
        let at = since.clock.saturating_add(self.config.lost_after);
        if at > now.clock {
            self.timers.insert((at, Timer::SecretsMissing(id)));
            return;
        }
        let names: Vec<_> = job.missing_secrets().collect();
        let text = format!(
            "The values of its secrets ({}) went with a restart of the coordinator and did not come back.",
            names.join(", ")
        );
        let cause = Cause { text, known_from: KnownFrom::Pool };
        self.finish(now, id, Ended::without_result(Verdict::Rejected, cause));
    }

    pub(crate) fn cancel(
        &mut self,
        now: Now,
        client: ClientRef,
        id: JobId,
        by: &Submitter,
        mut reason: String,
    ) {
        let Some(job) = self.jobs.get(&id) else {
            return self.emit(Effect::Acknowledged { client, job: Some(id) });
        };
        if job.record.submitter != by.name && !by.admin {
            let error = LinkError::new(
                ErrorCode::Forbidden,
                format!("job {id} is {}'s; only they or an admin can cancel it", job.record.submitter),
            );
            return self.emit(Effect::Refused { client, error });
        }
        reason.truncate(reason.floor_char_boundary(limits::TEXT_BYTES_MAX));
        let is_own = job.record.submitter == by.name;
        let first = self.note_cancel(id, &by.name, reason);
        if is_own {
            // Its submitter cancelled it, so an equal submit is a new job. A submitter whose job an
            // admin cancelled does not know it yet.
            self.delivered(id);
        }
        self.emit(Effect::Acknowledged { client, job: Some(id) });
        if first {
            self.limit_cancel(now, id);
            self.carry_out_cancel(now, id);
        }
    }

    /// Cancels the jobs that were submitted with these tokens.
    pub(crate) fn revoked(&mut self, now: Now, tokens: &BTreeSet<TokenId>) {
        let is_ended = |job: &&Job| job.record.token.is_some_and(|token| tokens.contains(&token));
        let jobs: Vec<JobId> = self.jobs.values().filter(is_ended).map(Job::id).collect();
        for id in jobs {
            let Some(token) = self.jobs.get(&id).and_then(|job| job.record.token) else { continue };
            let reason = format!("the token that it was submitted with ({token}) was revoked");
            if self.note_cancel(id, POOL, reason) {
                self.limit_cancel(now, id);
                self.carry_out_cancel(now, id);
            }
        }
    }

    /// Records the first cancel of a job. Returns false if there was one before.
    fn note_cancel(&mut self, id: JobId, by: &str, reason: String) -> bool {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.cancel.is_none()) else { return false };
        job.cancel = Some(CancelRequest { by: by.to_owned(), reason: reason.clone() });
        self.emit(Effect::Persist(Change::CancelRequested { job: id, by: by.to_owned(), reason }));
        true
    }

    /// Ends a job whose end was requested so long ago that neither its worker nor a disk is waited for any more. The
    /// attempt is fenced, so its worker ends the remaining processes. If all of its log has arrived, its digest first gets
    /// the time to end with what it has read.
    pub(crate) fn cancel_overdue(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(asked) = job.cancel.clone() else { return };
        let Some(granted) = job.granted_mut() else { return };
        let (lease, worker, state) = (granted.lease, granted.worker, granted.state);
        let log_arrived = granted.log_arrived;
        if log_arrived {
            let is_first = granted.digest_cut.is_none();
            let since = *granted.digest_cut.get_or_insert(now.clock);
            let until = since.saturating_add(DIGEST_CUT_WITHIN);
            if is_first {
                // Its own result should follow.
                self.timers.insert((until, Timer::CancelOverdue(id)));
                return self.emit(Effect::CutDigest { lease });
            }
            if now.clock < until {
                return;
            }
        }
        let known = self.roster.get(worker);
        let name = known.map_or("", |worker| worker.record.name.as_str());
        let reason = match (state, known.and_then(Worker::session)) {
            _ if log_arrived => "the coordinator did not digest its log in time".to_owned(),
            (HeldState::Ended, Some(_)) => format!("worker `{name}` did not send all of its log in time"),
            (HeldState::Ended, None) => {
                format!("worker `{name}`, which has the rest of its log, can't be reached")
            }
            (_, Some(_)) => format!("worker `{name}` has not confirmed that its processes ended"),
            (_, None) => format!("worker `{name}` can't be reached; it ends the processes that are left"),
        };
        let cause = cancelled_by(&asked);
        let text = format!("{} The job ended without the result of its attempt: {reason}.", cause.text);
        if let Some(attempt) = job.last_attempt_mut(lease.attempt.number) {
            attempt.lost = Some(reason);
            attempt.counted = true;
        }
        self.abandon(id, lease);
        self.finish(now, id, Ended::without_result(Verdict::Cancelled, Cause { text, ..cause }));
        if state != HeldState::Ended
            && let Some(mut worker) = self.roster.get_mut(worker)
        {
            // Until it reports without the attempt.
            worker.unconfirmed_ends.insert(id);
        }
    }

    /// Ends a queued job that was cancelled just before a restart.
    pub(crate) fn cancel_queued(&mut self, now: Now, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.granted().is_none()) {
            self.carry_out_cancel(now, id);
        }
    }

    /// Carries out a cancellation. A queued job ends immediately, a granted one is ended by its
    /// worker.
    pub(crate) fn carry_out_cancel(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(asked) = job.cancel.clone() else { return };
        match &job.phase {
            Phase::Queued { .. } => {
                self.finish(now, id, Ended::without_result(Verdict::Cancelled, cancelled_by(&asked)));
            }
            Phase::Granted(granted) => {
                let (lease, worker) = (granted.lease, granted.worker);
                if self.is_lost(now, worker) && !granted.log_arrived {
                    // The job only waited for its worker. The attempt is fenced when the worker
                    // comes back.
                    let name = self.roster.get(worker).map(|worker| worker.record.name.clone());
                    let reason = self.unreachable(worker, &name.unwrap_or_default());
                    return self.end_attempt(now, id, lease, &reason, Loss::Counted { may_return: false });
                }
                if let Some(session) = self.roster.get(worker).and_then(Worker::session) {
                    let act = Desired::Cancel { lease, by: asked.by, reason: asked.reason };
                    self.emit(Effect::Send { session, message: Box::new(ToWorker::Act(act)) });
                    self.expect_end(now, id);
                }
                self.emit(Effect::Changed { job: id });
            }
        }
    }

    /// Starts the time limit for a worker to confirm the end of an attempt.
    pub(crate) fn expect_end(&mut self, now: Now, id: JobId) {
        if let Some(granted) = self.jobs.get_mut(&id).and_then(Job::granted_mut) {
            granted.ending_since = Some(now.clock);
        }
        let at = self.kill_deadline(id, now.clock);
        self.timers.insert((at, Timer::KillUnconfirmed(id)));
    }
}

pub(crate) fn cancelled_by(asked: &CancelRequest) -> Cause {
    let because = if asked.reason.is_empty() { String::new() } else { format!(": {}", asked.reason) };
    Cause { text: format!("Cancelled by {}{because}.", asked.by), known_from: KnownFrom::Pool }
}

/// Returns the key that makes two submits identical. It contains all fields that affect the run and
/// its effects. It ignores the presentation of the result, build, trace, and variables that only
/// come from the submitter's environment.
pub(crate) fn likeness(spec: &JobSpec) -> Likeness {
    let mut same = JobSpec {
        build: None,
        trace: None,
        fallback: None,
        verbosity: Verbosity::default(),
        template: None,
        access: Access::default(),
        ..spec.clone()
    };
    if matches!(spec.source, Source::InPlace { .. }) {
        same.env.retain(|name, _| spec.given_env.contains(name));
    }
    let mut hash = Hash::default();
    // Writing to a hash can't fail.
    let _ = write!(hash, "{same:?}");
    hash.0.finalize().into()
}

/// Checksum of the fields that make two submits identical. A spec can be long, so the spec itself is
/// not kept.
pub(crate) type Likeness = [u8; blake3::OUT_LEN];

#[derive(Default)]
struct Hash(blake3::Hasher);

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
