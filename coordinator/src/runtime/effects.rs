//! Carries out effects: sends messages to connections, answers clients, opens and closes logs.

use super::Runtime;
use super::records::Ended;
use crate::attempt::LiveAttempt;
use crate::connections::{Reply, Welcome, WorkerOut};
use crate::recent_jobs::FinishedJob;
use crate::spans;
use crate::test_history::TestRun;
use buildpool_pool::Effect;
use buildpool_protocol::ids::{AttemptId, JobId, Lease};
use buildpool_protocol::limits::{LOG_BYTES_MAX, LOG_BYTES_MIN};
use buildpool_protocol::worker_link::ToWorker;
use std::sync::Arc;

/// One log may take a quarter of the free space: one large log must leave room for the others.
const LOG_SHARES: u64 = 4;

/// The longest log of one attempt on a disk with so much free space, in bytes.
const fn log_share(free: u64) -> u64 {
    let share = free / LOG_SHARES;
    if share < LOG_BYTES_MIN { LOG_BYTES_MIN } else { share }
}

impl Runtime {
    pub(super) fn perform(&mut self, effect: Effect) {
        let connections = &self.components.connections;
        match effect {
            Effect::Persist(_) | Effect::Note(_) => {}
            Effect::Acknowledged { client, .. } | Effect::Refused { client, .. }
                if self.notified.remove(&client) => {}
            Effect::Accepted { client, job, reattached } => {
                connections.to_client(client, Reply::Accepted { request: client.request, job, reattached });
            }
            Effect::Acknowledged { client, job } => {
                connections.to_client(client, Reply::Acknowledged { request: client.request, job });
            }
            Effect::Refused { client, error } => {
                connections.to_client(client, Reply::Refused { request: client.request, error });
            }
            Effect::Welcome { session, lost_after, desired } => {
                connections.to_worker(session, WorkerOut::Welcome(Welcome { lost_after, desired }));
            }
            Effect::SendDesired { session, desired } => {
                connections.to_worker(session, WorkerOut::Desired { desired })
            }
            // The grant was superseded while the disk refused records, so no worker receives it.
            Effect::OpenLog { lease, .. } if self.is_superseded(lease) => {}
            Effect::Grant { grant, .. } if self.is_superseded(grant.lease) => {}
            Effect::OpenLog { session, lease } => {
                self.close_older(lease);
                if let Some(job) = self.mirror.job(lease.attempt.job) {
                    let attempt =
                        connections.attempt_or(lease.attempt, || LiveAttempt::new(lease, job.spec.clone()));
                    attempt.belongs_to(session);
                }
            }
            Effect::Grant { session, mut grant } => {
                let room = self.components.logs.free_bytes().map_or(LOG_BYTES_MAX, log_share);
                grant.spec.log_bytes_max = Some(grant.spec.log_bytes_max.unwrap_or(LOG_BYTES_MAX).min(room));
                let AttemptId { job, number } = grant.lease.attempt;
                let attempts = self.mirror.job(job).map(|job| job.attempts.as_slice()).unwrap_or_default();
                let worker = attempts.last().map(|attempt| attempt.worker_name.as_str());
                grant.spec.trace = spans::trace_of_attempt(&grant.spec, grant.lease.attempt);
                let trace = grant.spec.trace.as_deref();
                tracing::info!(%job, attempt = number, worker, trace, "job granted");
                connections.to_worker(session, WorkerOut::Message(Box::new(ToWorker::Grant(grant))));
            }
            Effect::Send { session, message } => connections.to_worker(session, WorkerOut::Message(message)),
            Effect::Close { session, error } => connections.to_worker(session, WorkerOut::Close(error)),
            Effect::Changed { job } => connections.changed(job),
            Effect::Done { job, .. } => self.done(job),
            Effect::CutDigest { lease } => {
                if let Some(attempt) = connections.attempt(lease.attempt) {
                    attempt.cut_digest();
                }
            }
            Effect::Abandon(lost) => self.abandon(lost.lease.attempt),
        }
    }

    fn done(&mut self, job: JobId) {
        let Some(Ended { record, digest, tests }) = self.mirror.take_ended(job) else { return };
        self.components.metrics.job_done(&record);
        spans::send(&record);
        let counts = record.done.as_ref().and_then(|done| done.attempt);
        if let Some(done) = &record.done {
            let worker = record.attempts.last().map(|attempt| attempt.worker_name.as_str());
            let trace = record.spec.trace.as_deref();
            tracing::info!(%job, attempt = counts, worker, trace, verdict = %done.verdict, submitter = %record.submitter, "job done");
        }
        if record.spec.stdin.is_some() {
            self.components.inputs.finish(job);
        }
        for attempt in &record.attempts {
            let id = AttemptId { job, number: attempt.number };
            if counts == Some(attempt.number) {
                self.components.connections.remove_attempt(id);
            } else {
                self.abandon(id);
            }
        }
        if let Some(run) = TestRun::from_record(&record, tests)
            && !self.components.tests.record(run)
        {
            self.components.metrics.tests_dropped.inc();
        }
        let finished = Arc::new(FinishedJob { record: Arc::new(record), digest });
        self.components.finished.push(finished.clone());
        self.components.connections.done(job, finished);
    }

    /// Returns true if the job has a newer attempt.
    fn is_superseded(&self, lease: Lease) -> bool {
        let AttemptId { job, number } = lease.attempt;
        let newest = self.mirror.job(job).and_then(|job| job.attempts.last());
        newest.is_some_and(|newest| newest.number > number)
    }

    /// Closes the logs of older attempts. After a newer grant, no more output arrives for them.
    fn close_older(&self, lease: Lease) {
        let AttemptId { job, number } = lease.attempt;
        let older = self.mirror.job(job).map(|job| job.attempts.len()).unwrap_or_default();
        for number in (1..number).rev().take(older) {
            self.abandon(AttemptId { job, number });
        }
    }

    fn abandon(&self, attempt: AttemptId) {
        if let Some(live) = self.components.connections.remove_attempt(attempt)
            && let Err(error) = live.abandon(&self.components.logs)
        {
            tracing::warn!(%attempt, error = &error as &dyn std::error::Error, "the rest of a lost attempt's log can't be written");
        }
    }
}
