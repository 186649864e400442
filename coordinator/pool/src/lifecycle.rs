//! From a grant to an end: granting, results, losses.

use crate::effect::{AttemptRecord, Change, DoneRecord, Effect, LostAttempt};
use crate::input::{Completed, Now, Session};
use crate::job::{Adoptable, Granted, Job, Phase};
use crate::pool::Pool;
use crate::submit::cancelled_by;
use buildpool_protocol::ids::{AttemptId, JobId, Lease, WorkerId};
use buildpool_protocol::limits;
use buildpool_protocol::outcome::{Acted, Ending, Outcome, StartFailure};
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
use buildpool_protocol::spec::OnLost;
use buildpool_protocol::worker_link::{Desired, Grant, HeldState, ToWorker};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Beyond the job's own grace, a worker has this long to say that an attempt is ended.
pub(crate) const KILL_CONFIRMED_WITHIN: Duration = Duration::from_secs(60);

/// How a job ended, before it is recorded.
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

/// What an outcome means to the pool, before what it means to the submitter.
enum Meaning {
    /// The command's own end.
    Result,
    /// Give it back to the queue, as if it had not been granted.
    Return(String),
    /// Lost with its worker.
    Loss(String),
    /// The pool could not even start it.
    Unstartable(String),
}

fn meaning(outcome: &Outcome) -> Meaning {
    match (&outcome.acted, &outcome.ending) {
        (Some(Acted::Drained), _) => Meaning::Return("its worker was drained".to_owned()),
        (Some(Acted::CutOff), _) => {
            Meaning::Loss("its worker was cut off for so long that it ended the attempt itself".to_owned())
        }
        (Some(Acted::Fenced), _) => Meaning::Loss("it was fenced".to_owned()),
        (_, Ending::Unobserved { reason }) => Meaning::Loss(reason.clone()),
        (_, Ending::NotStarted(StartFailure::Workspace { reason } | StartFailure::Resources { reason })) => {
            Meaning::Unstartable(reason.clone())
        }
        (
            Some(
                Acted::Timeout { .. }
                | Acted::IdleTimeout { .. }
                | Acted::Cancelled { .. }
                | Acted::OutputLimit { .. },
            )
            | None,
            Ending::Exited { .. } | Ending::Signaled { .. } | Ending::NotStarted(_),
        ) => Meaning::Result,
    }
}

impl Pool {
    pub(crate) fn grant(&mut self, now: Now, id: JobId, worker: WorkerId) {
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
        };
        let grant = Grant {
            lease: lease_of(id, &attempt),
            spec: (*job.record.spec).clone(),
            secrets: job.secrets.clone(),
        };
        self.next_epoch += 1;
        self.dequeue(id);
        self.mark_granted(id, &attempt, HeldState::Preparing, false);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.attempts.push(attempt.clone());
        }
        self.emit(Effect::Persist(Change::Attempt { job: id, attempt }));
        self.emit(Effect::OpenLog { session, lease: grant.lease });
        self.emit(Effect::Grant { session, grant: Box::new(grant) });
        self.emit(Effect::Changed { job: id });
    }

    /// Sends a grant again that the worker has not confirmed.
    pub(crate) fn repeat_grant(&mut self, session: Session, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(granted) = job.granted() else { return };
        let grant =
            Grant { lease: granted.lease, spec: (*job.record.spec).clone(), secrets: job.secrets.clone() };
        self.emit(Effect::OpenLog { session, lease: grant.lease });
        self.emit(Effect::Grant { session, grant: Box::new(grant) });
    }

    /// Books the job on its worker. The one place where a lease begins to hold.
    pub(crate) fn mark_granted(
        &mut self,
        id: JobId,
        attempt: &AttemptRecord,
        state: HeldState,
        confirmed: bool,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let spec = job.record.spec.clone();
        job.phase = Phase::Granted(Granted {
            lease: lease_of(id, attempt),
            worker: attempt.worker,
            confirmed,
            state,
            ending_since: None,
        });
        let submitter = job.record.submitter.clone();
        self.grants += 1;
        let share = self.shares.entry(submitter).or_default();
        share.running += 1;
        share.last_grant = self.grants;
        if let Some(group) = &spec.concurrency_group {
            self.groups.insert(group.clone(), id);
        }
        if let Some(worker) = self.roster.get_mut(attempt.worker) {
            worker.jobs.insert(id, spec.resources.clone());
        }
    }

    /// Takes the job off its worker's books. The one place where a lease ends.
    fn unmark_granted(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(granted) = job.granted() else { return };
        let worker = granted.worker;
        let record = job.record.clone();
        if let Some(worker) = self.roster.get_mut(worker) {
            worker.jobs.remove(&id);
        }
        if let Some(group) = &record.spec.concurrency_group
            && self.groups.get(group) == Some(&id)
        {
            self.groups.remove(group);
        }
        if let Some(share) = self.shares.get_mut(&record.submitter) {
            share.running = share.running.saturating_sub(1);
        }
    }

    pub(crate) fn completed(&mut self, now: Now, completed: Completed) {
        let lease = completed.lease;
        let id = lease.attempt.job;
        let Some(job) = self.jobs.get(&id).filter(|job| job.accepts(lease)) else {
            return self.forget(lease, None);
        };
        let worker = match &job.phase {
            Phase::Granted(granted) => granted.worker,
            Phase::Queued { adoptable, .. } => match adoptable {
                Some(lost) => lost.worker,
                None => return,
            },
        };
        if job.granted().is_none() {
            self.dequeue(id);
        }
        self.note_start(id, lease.attempt.number, completed.outcome.started_at_ms);
        match meaning(&completed.outcome) {
            Meaning::Result => self.finish(
                now,
                id,
                Ended {
                    attempt: lease.attempt.number,
                    verdict: completed.verdict,
                    cause: completed.cause,
                    outcome: Some(completed.outcome),
                },
            ),
            Meaning::Return(reason) => self.end_attempt(now, id, lease, &reason, Loss::Free),
            Meaning::Loss(reason) => {
                self.end_attempt(now, id, lease, &reason, Loss::Counted { may_return: false })
            }
            Meaning::Unstartable(reason) => self.unstartable(now, id, lease, &reason, completed.outcome),
        }
        self.forget(lease, Some(worker));
    }

    /// Tells the worker that it may delete what it has of an attempt.
    fn forget(&mut self, lease: Lease, worker: Option<WorkerId>) {
        let worker = worker.or_else(|| {
            self.roster
                .iter()
                .find(|(_, worker)| worker.jobs.contains_key(&lease.attempt.job))
                .map(|(id, _)| *id)
        });
        if let Some(session) =
            worker.and_then(|worker| self.roster.get(worker)).and_then(|worker| worker.session())
        {
            self.emit(Effect::Send { session, message: Box::new(ToWorker::Act(Desired::Forget { lease })) });
        }
    }

    fn unstartable(&mut self, now: Now, id: JobId, lease: Lease, reason: &str, outcome: Box<Outcome>) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.cancel.is_none() && job.losses().count() < job.record.spec.retries as usize {
            return self.end_attempt(now, id, lease, reason, Loss::Counted { may_return: false });
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

    /// Records when the process of an attempt started, once it is known.
    pub(crate) fn note_start(&mut self, id: JobId, number: u32, started_at_ms: Option<i64>) {
        let Some(attempt) = self.jobs.get_mut(&id).and_then(|job| job.last_attempt_mut(number)) else {
            return;
        };
        if attempt.started_at_ms.is_none() && started_at_ms.is_some() {
            attempt.started_at_ms = started_at_ms;
        }
    }

    /// An attempt is over without a result: the job goes back to its place in the queue, or ends.
    pub(crate) fn end_attempt(&mut self, now: Now, id: JobId, lease: Lease, reason: &str, loss: Loss) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let worker = job.granted().map(|granted| granted.worker);
        let number = lease.attempt.number;
        if let Some(attempt) = job.last_attempt_mut(number) {
            attempt.lost = Some(reason.to_owned());
            attempt.counted = loss != Loss::Free;
        }
        self.persist_attempt(id, number);
        let may_return = loss == Loss::Counted { may_return: true };
        if !may_return {
            self.emit(Effect::Abandon(LostAttempt { lease, reason: reason.to_owned() }));
        }
        if let Some(ended) = self.end_after_loss(id, loss, reason) {
            return self.finish(now, id, ended);
        }
        self.unmark_granted(id);
        let adoptable = worker.filter(|_| may_return).map(|worker| Adoptable { lease, worker });
        if let Some(job) = self.jobs.get_mut(&id) {
            job.phase = Phase::Queued { since: now, adoptable };
        }
        self.enqueue(id);
        self.emit(Effect::Changed { job: id });
    }

    /// The end of a job that lost an attempt; none when it is queued again.
    fn end_after_loss(&self, id: JobId, loss: Loss, reason: &str) -> Option<Ended> {
        let job = self.jobs.get(&id)?;
        if let Some(asked) = &job.cancel {
            return Some(Ended::without_result(Verdict::Cancelled, cancelled_by(asked)));
        }
        if loss == Loss::Free {
            return None;
        }
        let lost = |text: String| {
            Some(Ended::without_result(Verdict::Lost, Cause { text, known_from: KnownFrom::Pool }))
        };
        if job.record.spec.on_lost != OnLost::Rerun {
            return lost(format!(
                "The attempt was lost: {reason}. The job was submitted with --on-lost {}.",
                on_lost_name(job.record.spec.on_lost)
            ));
        }
        let losses = job.losses().count();
        let workers: BTreeSet<_> = job.losses().map(|attempt| attempt.worker).collect();
        if self.is_poison(job, losses, workers.len()) {
            return lost(format!(
                "Given up after {losses} attempts were lost on {} worker(s), the last one because {reason}. The job itself may be what ends its workers.",
                workers.len()
            ));
        }
        None
    }

    /// Three losses on two workers, or on the only one that fits.
    fn is_poison(&self, job: &Job, losses: usize, workers: usize) -> bool {
        let fitting = self.roster.iter().filter(|(_, worker)| worker.could_run(&job.record.spec)).count();
        losses >= limits::LOSSES_MAX as usize && (workers >= 2 || fitting < 2)
    }

    /// Records the end of a job. The one place where a job stops being live.
    pub(crate) fn finish(&mut self, now: Now, id: JobId, ended: Ended) {
        match self.jobs.get(&id).map(|job| job.granted().is_some()) {
            Some(true) => self.unmark_granted(id),
            Some(false) => self.dequeue(id),
            None => return,
        }
        let Some(job) = self.jobs.remove(&id) else { return };
        if let Some(text) = &job.record.client_request_id {
            self.request_ids.remove(&(job.record.submitter.clone(), text.clone()));
        }
        if let Some(share) = self.shares.get_mut(&job.record.submitter) {
            share.live = share.live.saturating_sub(1);
            if share.live == 0 {
                self.shares.remove(&job.record.submitter);
            }
        }
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

    /// A worker has stayed away for `lost_after`.
    pub(crate) fn worker_lost(&mut self, now: Now, worker: WorkerId) {
        let Some(known) = self.roster.get(worker) else { return };
        let crate::roster::Contact::Absent { since } = known.contact else { return };
        if since + self.config.lost_after > now.clock {
            return;
        }
        let name = known.record.name.clone();
        let reason = format!("worker {name} could not be reached for {} s", self.config.lost_after.as_secs());
        let jobs: Vec<JobId> = known.jobs.keys().copied().collect();
        for id in jobs {
            let Some(job) = self.jobs.get(&id) else { continue };
            let Some(granted) = job.granted() else { continue };
            let lease = granted.lease;
            // A job that is being cancelled has nothing to wait for.
            if job.record.spec.on_lost == OnLost::Wait && job.cancel.is_none() {
                continue;
            }
            self.end_attempt(now, id, lease, &reason, Loss::Counted { may_return: true });
        }
    }

    /// A worker was asked to end an attempt and has not said that it did: nothing more is sent to it.
    pub(crate) fn kill_unconfirmed(&mut self, now: Now, id: JobId) {
        let Some(granted) = self.jobs.get(&id).and_then(Job::granted) else { return };
        let Some(since) = granted.ending_since else { return };
        let worker = granted.worker;
        let due = self.kill_deadline(id, since);
        if due > now.clock {
            return;
        }
        if let Some(worker) = self.roster.get_mut(worker)
            && worker.session().is_some()
        {
            worker.distrusted = Some(format!("it was asked to end job {id} and has not confirmed it"));
        }
    }
}

/// How an attempt without a result counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// Not at all: drained or declined.
    Free,
    /// Towards the limit of losses.
    Counted {
        /// The attempt may still turn up with its worker.
        may_return: bool,
    },
}

pub(crate) fn lease_of(job: JobId, attempt: &AttemptRecord) -> Lease {
    Lease { attempt: AttemptId { job, number: attempt.number }, epoch: attempt.epoch }
}

fn on_lost_name(on_lost: OnLost) -> &'static str {
    match on_lost {
        OnLost::Rerun => "rerun",
        OnLost::Wait => "wait",
        OnLost::Fail => "fail",
    }
}
