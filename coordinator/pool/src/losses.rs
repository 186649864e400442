//! Attempts that end without a result: lost with a worker, declined, drained.

use crate::effect::{Change, Effect, LostAttempt, WorkerRecord};
use crate::input::Now;
use crate::job::{Adoptable, Job, Phase};
use crate::lifecycle::Ended;
use crate::pool::{Pool, Timer};
use crate::roster::Contact;
use crate::submit::cancelled_by;
use buildpool_protocol::ids::{JobId, Lease, WorkerId};
use buildpool_protocol::limits;
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
use buildpool_protocol::shown::counted;
use buildpool_protocol::spec::OnLost;
use buildpool_protocol::worker_link::HeldState;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Number of counted losses, on any workers, after which a job fails permanently.
const LOSSES_ANYWHERE_MAX: usize = 2 * limits::LOSSES_MAX as usize;

/// Time after which an unconfirmed grant is resent on a new connection.
const GRANT_ARRIVES_WITHIN: Duration = limits::SILENCE_MAX.saturating_mul(2);

/// Accounting of an attempt without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// Not counted: drained or declined.
    Free,
    /// Counts towards the limit of losses.
    Counted {
        /// True if the attempt may still return with its worker.
        may_return: bool,
    },
    /// It never started. It counts towards the limit of losses, and `--on-lost` does not apply.
    NotStarted,
    /// Counts towards the retries of the job.
    Retried,
}

impl Pool {
    /// Ends an attempt without a result. The job returns to its queue position, or ends.
    ///
    /// An attempt that may return is recorded as lost only when the job ends or is granted again. A
    /// coordinator that restarts in between therefore waits for it again, and accepts it when it
    /// returns.
    pub(crate) fn end_attempt(&mut self, now: Now, id: JobId, lease: Lease, reason: &str, loss: Loss) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let worker = job.granted().map(|granted| granted.worker);
        let number = lease.attempt.number;
        if let Some(attempt) = job.last_attempt_mut(number) {
            attempt.lost = Some(reason.to_owned());
            attempt.counted = matches!(loss, Loss::Counted { .. } | Loss::NotStarted);
            attempt.retried = loss == Loss::Retried;
        }
        let ended = self.end_after_loss(id, loss, reason);
        let may_return = ended.is_none() && loss == Loss::Counted { may_return: true };
        let adoptable = worker.filter(|_| may_return).map(|worker| Adoptable { lease, worker });
        if adoptable.is_none() {
            self.abandon(id, lease);
        }
        if let Some(ended) = ended {
            return self.finish(now, id, ended);
        }
        self.unmark_granted(id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.phase = Phase::Queued { since: now, adoptable };
        }
        self.enqueue(now, id);
        self.emit(Effect::Changed { job: id });
    }

    /// Records that an attempt is void.
    pub(crate) fn abandon(&mut self, id: JobId, lease: Lease) {
        self.persist_attempt(id, lease.attempt.number);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let attempt = job.last_attempt_mut(lease.attempt.number);
        let reason = attempt.and_then(|attempt| attempt.lost.clone()).unwrap_or_default();
        self.emit(Effect::Abandon(LostAttempt { lease, reason }));
    }

    /// Gives up an attempt that might have returned.
    pub(crate) fn abandon_adoptable(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Phase::Queued { adoptable, .. } = &mut job.phase
            && let Some(lost) = adoptable.take()
        {
            self.abandon(id, lost.lease);
        }
    }

    /// Returns the end of a job after a loss, or `None` if it is queued again.
    fn end_after_loss(&self, id: JobId, loss: Loss, reason: &str) -> Option<Ended> {
        let job = self.jobs.get(&id)?;
        if let Some(asked) = &job.cancel {
            let mut cause = cancelled_by(asked);
            // The attempt may have left processes on a worker that can't be reached.
            if matches!(loss, Loss::Counted { .. }) {
                cause.text += &format!(" The job ended without the result of its attempt: {reason}.");
            }
            return Some(Ended::without_result(Verdict::Cancelled, cause));
        }
        match loss {
            Loss::Free | Loss::Retried => return None,
            Loss::Counted { .. } | Loss::NotStarted => {}
        }
        let lost = |text: String| {
            Some(Ended::without_result(Verdict::Lost, Cause { text, known_from: KnownFrom::Pool }))
        };
        if job.record.spec.on_lost != OnLost::Rerun && loss != Loss::NotStarted {
            return lost(format!(
                "The attempt was lost: {reason}. The job was submitted with --on-lost {}.",
                on_lost_name(job.record.spec.on_lost)
            ));
        }
        let losses = job.losses().count();
        let workers: BTreeSet<_> = job.losses().map(|attempt| attempt.worker).collect();
        if self.is_poison(job, losses, workers.len()) {
            // An attempt that never started cannot have crashed a worker.
            let hint = if loss == Loss::NotStarted { "" } else { " The job itself may end its workers." };
            return lost(format!(
                "Given up: {} lost on {}, the last one because {reason}.{hint}",
                counted(losses as u64, "attempt"),
                counted(workers.len() as u64, "worker")
            ));
        }
        None
    }

    /// Returns true after three losses on two workers, or on the only suitable worker, or after
    /// twice as many on any workers.
    fn is_poison(&self, job: &Job, losses: usize, workers: usize) -> bool {
        let fitting = self.roster.fitting(&job.record.spec).count();
        losses >= LOSSES_ANYWHERE_MAX
            || losses >= limits::LOSSES_MAX as usize && (workers >= 2 || fitting < 2)
    }

    /// Sets the timer for the loss of an absent worker. There is only one per worker, even if it
    /// reconnects often.
    pub(crate) fn time_loss(&mut self, worker: WorkerId) {
        let lost_after = self.lost_after(worker);
        if let Some(mut known) = self.roster.get_mut(worker)
            && let Contact::Absent { since } = known.contact
            && !known.is_loss_timed
            && (!known.record.lost || !known.jobs.is_empty())
        {
            known.is_loss_timed = true;
            self.timers.insert((since.saturating_add(lost_after), Timer::WorkerLost(worker)));
        }
    }

    /// Handles a worker that may have been absent for `lost_after`.
    pub(crate) fn worker_lost(&mut self, now: Now, worker: WorkerId) {
        if let Some(mut known) = self.roster.get_mut(worker) {
            known.is_loss_timed = false;
        }
        if !self.is_lost(now, worker) {
            return self.time_loss(worker);
        }
        let Some(known) = self.roster.get(worker) else { return };
        let reason = self.unreachable(worker, &known.record.name);
        let jobs: Vec<JobId> = known.jobs.keys().copied().collect();
        for id in jobs {
            let Some(job) = self.jobs.get(&id) else { continue };
            let Some(granted) = job.granted() else { continue };
            let lease = granted.lease;
            // Its result is stored: the worker has nothing more to send.
            if granted.log_arrived {
                continue;
            }
            // A cancelled job does not need to wait.
            if job.record.spec.on_lost == OnLost::Wait && job.cancel.is_none() {
                continue;
            }
            self.end_attempt(now, id, lease, &reason, Loss::Counted { may_return: true });
        }
        self.roster.remove_if_nameless(worker);
        self.note_loss(worker);
    }

    /// Records that a worker is lost.
    fn note_loss(&mut self, worker: WorkerId) {
        let Some(mut known) = self.roster.get_mut(worker).filter(|known| known.record.slots > 0) else {
            return;
        };
        if !std::mem::replace(&mut Arc::make_mut(&mut known.record).lost, true) {
            let record = WorkerRecord::clone(&known.record);
            drop(known);
            self.emit(Effect::Persist(Change::Worker(record)));
        }
    }

    /// Returns true if a worker has been absent for `lost_after`.
    pub(crate) fn is_lost(&self, now: Now, worker: WorkerId) -> bool {
        self.roster.get(worker).is_some_and(|known| match known.contact {
            Contact::Connected { .. } => false,
            Contact::Absent { since } => since.saturating_add(self.lost_after(worker)) <= now.clock,
        })
    }

    /// Returns the absence after which a worker's attempts may be granted again. It is the
    /// configured value, or a longer value sent to the worker earlier, because its keepers use that
    /// value.
    fn lost_after(&self, worker: WorkerId) -> Duration {
        let held = self.roster.get(worker).into_iter().flat_map(|known| known.jobs.keys());
        let attempts = held.filter_map(|id| self.jobs.get(id)?.attempts.last());
        attempts.map(|attempt| attempt.lost_after).fold(self.config.lost_after, Duration::max)
    }

    pub(crate) fn unreachable(&self, worker: WorkerId, name: &str) -> String {
        format!("worker {name} could not be reached for {} s", self.lost_after(worker).as_secs())
    }

    /// Handles a worker that is connected but does not hold a granted attempt.
    ///
    /// Three cases, depending on the daemon start that received the grant:
    ///
    /// - The same start. A grant that it never received is granted again under the same lease, in
    ///   the answer to the registration. Messages sent before do not outlive their connection. A
    ///   started attempt is lost.
    /// - A later start on the same running machine. Its disk has each attempt that ever started there,
    ///   until the coordinator has the result. So the attempt is over, and the job may run again under
    ///   a new lease. It counts as a loss if it had started or the worker was preparing it. A started
    ///   one had its result before the coordinator's records were set back to a backup.
    /// - Any other start. The attempt may run on the machine that this disk was copied from. That
    ///   machine ends it before `lost_after` has passed, so the pool waits for that time.
    pub(crate) fn not_held(&mut self, now: Now, id: JobId, is_new_connection: bool) -> NotHeld {
        let Some(job) = self.jobs.get(&id) else { return NotHeld::Settled };
        let Some(granted) = job.granted().filter(|granted| !granted.log_arrived) else {
            return NotHeld::Settled;
        };
        let (lease, worker) = (granted.lease, granted.worker);
        let held_by = granted.boot.or_else(|| job.attempts.last().and_then(|attempt| attempt.boot));
        let Some(known) = self.roster.get(worker) else { return NotHeld::Settled };
        let is_same_daemon = held_by.is_some() && held_by == known.boot();
        let is_covered = held_by.is_some_and(|boot| known.covers_boot(boot));
        if is_same_daemon && !job.has_begun() && !granted.confirmed {
            if !is_new_connection {
                let is_overdue = granted.sent_at.saturating_add(GRANT_ARRIVES_WITHIN) <= now.clock;
                return if is_overdue { NotHeld::GrantAgain } else { NotHeld::Settled };
            }
            if job.cancel.is_none() && job.missing_secrets().next().is_none() {
                return NotHeld::GrantAgain;
            }
            self.end_attempt(now, id, lease, "its worker never received it", Loss::Free);
        } else if is_same_daemon || is_covered {
            // A start would have been recorded on disk: the machine kept running, so the disk is
            // complete.
            let (loss, reason) = if job.has_begun() {
                (Loss::Counted { may_return: false }, "its worker came back without it")
            } else if granted.confirmed && !is_same_daemon {
                // The preparation may have crashed its daemon.
                (Loss::NotStarted, "its worker was interrupted while its files were laid out")
            } else {
                (Loss::Free, "its worker came back without it")
            };
            self.end_attempt(now, id, lease, reason, loss);
        } else if granted.missing_since.is_none() {
            let lost_after = self.lost_after(worker);
            self.timers.insert((now.clock.saturating_add(lost_after), Timer::Missing(id)));
            if let Some(granted) = self.jobs.get_mut(&id).and_then(Job::granted_mut) {
                granted.missing_since = Some(now.clock);
            }
            self.emit(Effect::Changed { job: id });
        }
        NotHeld::Settled
    }

    /// Handles a worker that came back without an attempt and has not found it for `lost_after`.
    pub(crate) fn missing_for_long(&mut self, now: Now, id: JobId) {
        let Some(granted) = self.jobs.get(&id).and_then(Job::granted) else { return };
        let (lease, lost_after) = (granted.lease, self.lost_after(granted.worker));
        let Some(since) = granted.missing_since else { return };
        let at = since.saturating_add(lost_after);
        if at > now.clock {
            self.timers.insert((at, Timer::Missing(id)));
            return;
        }
        self.end_attempt(
            now,
            id,
            lease,
            "its worker came back without it",
            Loss::Counted { may_return: true },
        );
    }

    /// Handles a worker that has not confirmed the ordered end of an attempt. It gets no more jobs.
    pub(crate) fn kill_unconfirmed(&mut self, now: Now, id: JobId) {
        let Some(granted) = self.jobs.get(&id).and_then(Job::granted) else { return };
        let Some(since) = granted.ending_since else { return };
        if granted.state == HeldState::Ended {
            // It confirmed the end. Only the rest of the log is to come.
            return;
        }
        let (worker, is_missing) = (granted.worker, granted.missing_since.is_some());
        if self.kill_deadline(id, since) > now.clock {
            return;
        }
        let Some(mut known) = self.roster.get_mut(worker) else { return };
        if known.session().is_some() && !is_missing {
            known.unconfirmed_ends.insert(id);
        } else if let Some(granted) = self.jobs.get_mut(&id).and_then(Job::granted_mut) {
            // The worker was not reachable. The time limit starts when it is back.
            granted.ending_since = None;
        }
    }

    /// Handles a worker's confirmation that an attempt has ended.
    pub(crate) fn end_confirmed(&mut self, worker: WorkerId, id: JobId) {
        let Some(mut known) = self.roster.get_mut(worker) else { return };
        if known.unconfirmed_ends.remove(&id) {
            drop(known);
            self.triggers.worker(worker);
        }
    }
}

/// Action for a grant that its worker does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotHeld {
    /// No (further) action.
    Settled,
    /// Resend it on a new connection.
    GrantAgain,
}

fn on_lost_name(on_lost: OnLost) -> &'static str {
    match on_lost {
        OnLost::Rerun => "rerun",
        OnLost::Wait => "wait",
        OnLost::Fail => "fail",
    }
}
