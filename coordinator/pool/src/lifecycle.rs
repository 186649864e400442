//! The lifecycle of attempts: grants and results.

use crate::effect::{AttemptRecord, Change, DoneRecord, Effect};
use crate::input::{Completed, Now, Session};
use crate::job::{Granted, Job, Phase};
use crate::losses::Loss;
use crate::pool::Pool;
use crate::roster::Worker;
use buildpool_protocol::ids::{AttemptId, BootId, JobId, Lease, WorkerId};
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, StartFailure};
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
use buildpool_protocol::spec::OnLost;
use buildpool_protocol::worker_link::{Desired, Grant, HeldState, ToWorker};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for a worker to confirm the end of an attempt, in addition to the job's grace period.
pub(crate) const KILL_CONFIRMED_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time between the grant and the result of a short job, beyond [`crate::Config::short_job_max`]. It covers the wait
/// for a slot, the layout of files and the log.
const SHORT_JOB_OVERHEAD_MAX: Duration = Duration::from_millis(300);
/// Limit on the attempts kept per job. Beyond it, the oldest attempts that do not count as losses
/// are dropped.
const ATTEMPTS_KEPT: usize = 64;
/// Limit on the retries of a job.
const RETRIES_MAX: u32 = 100;

/// End of a job before it is recorded.
pub(crate) struct Ended {
    attempt: u32,
    verdict: Verdict,
    cause: Option<Cause>,
    outcome: Option<Box<Outcome>>,
}

impl Ended {
    pub(crate) fn without_result(verdict: Verdict, cause: Cause) -> Self {
        Self { attempt: 0, verdict, cause: Some(cause), outcome: None }
    }
}

/// Meaning of an outcome for scheduling.
enum OutcomeClass {
    /// The command's own result.
    Result,
    /// Return the job to the queue as if it had not been granted.
    Requeue(String),
    /// Lost with its worker.
    Loss(String),
    /// Lost before it started.
    NotStarted(String),
    /// The workspace could not be prepared.
    NotPrepared(String),
}

fn classify(outcome: &Outcome, on_lost: OnLost) -> OutcomeClass {
    match (&outcome.acted, &outcome.ending) {
        // A command that has run and must not run twice is lost, even if the pool ended it.
        (
            Some(EndReason::Drained),
            Ending::Exited { .. } | Ending::Signaled { .. } | Ending::Unobserved { .. },
        ) if on_lost != OnLost::Rerun => OutcomeClass::Loss("its worker was drained".to_owned()),
        (Some(EndReason::Drained), _) => OutcomeClass::Requeue("its worker was drained".to_owned()),
        (Some(EndReason::CutOff), _) => OutcomeClass::Loss(
            "its worker was cut off for so long that it ended the attempt itself".to_owned(),
        ),
        (Some(EndReason::Fenced), _) => OutcomeClass::Loss("it was fenced".to_owned()),
        // It was cancelled before it started, so the missing start is not a failure.
        (Some(EndReason::Cancelled { .. }), Ending::NotStarted(_)) => OutcomeClass::Result,
        (_, Ending::Unobserved { reason }) => OutcomeClass::Loss(reason.clone()),
        // The worker lacked resources or was interrupted. Another worker, or a later time, may
        // succeed.
        (_, Ending::NotStarted(StartFailure::Resources { reason })) => {
            OutcomeClass::NotStarted(reason.clone())
        }
        (_, Ending::NotStarted(StartFailure::Workspace { reason })) => {
            OutcomeClass::NotPrepared(reason.clone())
        }
        (
            Some(
                EndReason::Timeout { .. }
                | EndReason::IdleTimeout { .. }
                | EndReason::Cancelled { .. }
                | EndReason::DiskLimit { .. }
                | EndReason::OutputLimit { .. },
            )
            | None,
            Ending::Exited { .. } | Ending::Signaled { .. } | Ending::NotStarted(_),
        ) => OutcomeClass::Result,
    }
}

impl Pool {
    pub(crate) fn grant(&mut self, now: Now, id: JobId, worker: WorkerId) {
        self.abandon_adoptable(id);
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(known) = self.roster.get(worker) else { return };
        let Some(session) = known.session() else { return };
        let attempt = AttemptRecord {
            number: job.attempts.last().map_or(1, |last| last.number + 1),
            epoch: self.next_epoch,
            worker,
            worker_name: known.record.name.clone(),
            granted_at_ms: now.wall_ms,
            started_at_ms: None,
            lost: None,
            counted: false,
            retried: false,
            lost_after: self.config.lost_after,
            boot: known.boot(),
        };
        let grant = Grant {
            lease: lease_of(id, &attempt),
            spec: self.config.quotas.of(&job.record.submitter).applied_to(&job.record.spec),
            secrets: job.secrets.clone(),
        };
        self.next_epoch += 1;
        self.dequeue(id);
        self.mark_granted(id, &attempt, HeldState::Preparing, None);
        if let Some(job) = self.jobs.get_mut(&id) {
            if let Some(granted) = job.granted_mut() {
                granted.sent_at = now.clock;
            }
            job.attempts.push(attempt.clone());
            let oldest = job
                .attempts
                .iter()
                .position(|attempt| attempt.lost.is_some() && !attempt.counted && !attempt.retried);
            if let Some(oldest) = oldest.filter(|_| job.attempts.len() > ATTEMPTS_KEPT) {
                job.attempts.remove(oldest);
            }
        }
        self.emit(Effect::Persist(Change::Attempt { job: id, attempt }));
        self.emit(Effect::OpenLog { session, lease: grant.lease });
        self.emit(Effect::Grant { session, grant: Box::new(grant) });
        self.emit(Effect::Changed { job: id });
    }

    /// Resends a grant that the worker has not confirmed.
    pub(crate) fn repeat_grant(&mut self, now: Now, session: Session, id: JobId) {
        if let Some(granted) = self.jobs.get_mut(&id).and_then(Job::granted_mut) {
            granted.sent_at = now.clock;
        }
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(granted) = job.granted() else { return };
        let spec = self.config.quotas.of(&job.record.submitter).applied_to(&job.record.spec);
        let grant = Grant { lease: granted.lease, spec, secrets: job.secrets.clone() };
        self.emit(Effect::OpenLog { session, lease: grant.lease });
        self.emit(Effect::Grant { session, grant: Box::new(grant) });
    }

    /// Assigns a job to a worker. It is the only place where a lease becomes valid.
    pub(crate) fn mark_granted(
        &mut self,
        id: JobId,
        attempt: &AttemptRecord,
        state: HeldState,
        confirmed_by: Option<BootId>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let spec = job.record.spec.clone();
        job.phase = Phase::Granted(Granted {
            lease: lease_of(id, attempt),
            worker: attempt.worker,
            confirmed: confirmed_by.is_some(),
            sent_at: Duration::ZERO,
            boot: confirmed_by,
            state,
            ending_since: None,
            log_arrived: false,
            digest_cut: None,
            ended_since_ms: None,
            output_held: None,
            missing_since: None,
        });
        let submitter = job.record.submitter.clone();
        self.serve_share(&submitter);
        if let Some(group) = &spec.concurrency_group {
            self.groups.entry(group.clone()).or_insert(id);
        }
        if let Some(mut worker) = self.roster.get_mut(attempt.worker) {
            worker.jobs.insert(id, spec.resources.clone());
            worker.has_run = true;
        }
    }

    /// Removes a job from its worker. It is the only place where a lease ends.
    pub(crate) fn unmark_granted(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(granted) = job.granted() else { return };
        let worker = granted.worker;
        let record = job.record.clone();
        self.triggers.worker(worker);
        if let Some(mut worker) = self.roster.get_mut(worker) {
            worker.jobs.remove(&id);
            worker.unconfirmed_ends.remove(&id);
        }
        if let Some(group) = &record.spec.concurrency_group
            && self.groups.get(group) == Some(&id)
        {
            self.groups.remove(group);
            self.triggers.group(group);
        }
        if self.config.quotas.of(&record.submitter).running_jobs.is_some() {
            self.triggers.submitter(&record.submitter);
        }
        if let Some(share) = self.shares.get_mut(&record.submitter) {
            share.running = share.running.saturating_sub(1);
        }
    }

    pub(crate) fn completed(&mut self, now: Now, completed: Completed) {
        let lease = completed.lease;
        let id = lease.attempt.job;
        let Some(job) = self.jobs.get(&id).filter(|job| job.accepts(lease)) else {
            // The answer to the worker's next report is `Forget` or `Fenced`.
            return;
        };
        let on_lost = job.record.spec.on_lost;
        let worker = match &job.phase {
            Phase::Granted(granted) => granted.worker,
            Phase::Queued { adoptable, .. } => match adoptable {
                Some(lost) => lost.worker,
                None => return,
            },
        };
        // An attempt that did not start, or that ended with an infrastructure failure, ends the series.
        let is_result = completed.outcome.started_at_ms.is_some() && !completed.infrastructure;
        let is_short = job.granted().is_some_and(|granted| {
            is_result
                && completed.outcome.duration <= self.config.short_job_max
                && now.clock.saturating_sub(granted.sent_at)
                    <= self.config.short_job_max + SHORT_JOB_OVERHEAD_MAX
        });
        self.note_job_end(now, worker, is_short);
        self.return_adoptable(id, lease);
        self.note_start(id, lease.attempt.number, completed.outcome.started_at_ms);
        match classify(&completed.outcome, on_lost) {
            OutcomeClass::Result if completed.infrastructure && self.may_retry(id) => {
                let reason = completed
                    .cause
                    .map_or_else(|| "it failed because of the infrastructure".to_owned(), |cause| cause.text);
                self.end_attempt(now, id, lease, &reason, Loss::Retried);
            }
            OutcomeClass::Result => self.finish(
                now,
                id,
                Ended {
                    attempt: lease.attempt.number,
                    verdict: completed.verdict,
                    cause: completed.cause,
                    outcome: Some(completed.outcome),
                },
            ),
            OutcomeClass::Requeue(reason) => self.end_attempt(now, id, lease, &reason, Loss::Free),
            OutcomeClass::Loss(reason) => {
                self.end_attempt(now, id, lease, &reason, Loss::Counted { may_return: false })
            }
            OutcomeClass::NotStarted(reason) => self.end_attempt(now, id, lease, &reason, Loss::NotStarted),
            OutcomeClass::NotPrepared(reason) => self.unstartable(now, id, lease, &reason, completed.outcome),
        }
        if let Some(session) = self.roster.get(worker).and_then(Worker::session) {
            self.emit(Effect::Send { session, message: Box::new(ToWorker::Act(Desired::Forget { lease })) });
        }
    }

    /// Handles the arrival of a result with all of its log. The digest of a long log takes a while. Until then the
    /// attempt is not lost, whatever its worker does.
    pub(crate) fn log_arrived(&mut self, now: Now, lease: Lease) {
        let id = lease.attempt.job;
        let granted = self.jobs.get_mut(&id).and_then(Job::granted_mut);
        let Some(granted) = granted.filter(|granted| granted.lease == lease) else { return };
        granted.log_arrived = true;
        granted.state = HeldState::Ended;
        granted.ended_since_ms.get_or_insert(now.wall_ms);
        granted.missing_since = None;
        granted.output_held = None;
        let worker = granted.worker;
        self.end_confirmed(worker, id);
        self.emit(Effect::Changed { job: id });
    }

    /// Restores a lost attempt when its result arrives before a newer grant.
    fn return_adoptable(&mut self, id: JobId, lease: Lease) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Phase::Queued { adoptable, .. } = &mut job.phase {
            *adoptable = None;
            if let Some(attempt) = job.last_attempt_mut(lease.attempt.number) {
                attempt.lost = None;
                attempt.counted = false;
            }
        }
    }

    /// Returns true if the submitter allows another retry after an infrastructure failure.
    fn may_retry(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| {
            let tried = job.attempts.iter().filter(|attempt| attempt.retried).count();
            job.cancel.is_none() && tried < job.record.spec.retries.min(RETRIES_MAX) as usize
        })
    }

    fn unstartable(&mut self, now: Now, id: JobId, lease: Lease, reason: &str, outcome: Box<Outcome>) {
        if self.may_retry(id) {
            return self.end_attempt(now, id, lease, reason, Loss::Retried);
        }
        self.finish(
            now,
            id,
            Ended {
                attempt: lease.attempt.number,
                verdict: Verdict::Rejected,
                cause: Some(Cause {
                    text: format!("The worker could not start it: {reason}."),
                    known_from: KnownFrom::Pool,
                }),
                outcome: Some(outcome),
            },
        );
    }

    /// Records the start of an attempt's process.
    pub(crate) fn note_start(&mut self, id: JobId, number: u32, started_at_ms: Option<i64>) {
        let Some(attempt) = self.jobs.get_mut(&id).and_then(|job| job.last_attempt_mut(number)) else {
            return;
        };
        if attempt.started_at_ms.is_none() && started_at_ms.is_some() {
            attempt.started_at_ms = started_at_ms;
        }
    }

    /// Records the end of a job. It is the only place where a job stops being live.
    pub(crate) fn finish(&mut self, now: Now, id: JobId, ended: Ended) {
        match self.jobs.get(&id).map(|job| job.granted().is_some()) {
            Some(true) => self.unmark_granted(id),
            Some(false) => self.dequeue(id),
            None => return,
        }
        self.abandon_adoptable(id);
        let Some(job) = self.jobs.remove(&id) else { return };
        if let Some(text) = &job.record.client_request_id {
            self.request_ids.remove(&(job.record.submitter.clone(), text.clone()));
        }
        self.leave_share(&job.record, job.bytes);
        let record = Arc::new(DoneRecord {
            attempt: ended.attempt,
            finished_at_ms: now.wall_ms,
            verdict: ended.verdict,
            cause: ended.cause,
            outcome: ended.outcome,
        });
        self.emit(Effect::Persist(Change::Done { job: id, record: record.clone() }));
        self.emit(Effect::Done { job: id, record });
    }
}

pub(crate) fn lease_of(job: JobId, attempt: &AttemptRecord) -> Lease {
    Lease { attempt: AttemptId { job, number: attempt.number }, epoch: attempt.epoch }
}
