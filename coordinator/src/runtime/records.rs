//! Conversion between the pool's changes and the store's records.
//!
//! The mirror holds the whole record of each live job, because the store writes whole records.

use super::Ending;
use super::events::{self, Flags};
use crate::store::{
    AttemptEnd, AttemptEnding, AttemptRecord, CancelRecord, DoneRecord, HistoryKey, JobRecord, PassingRun,
    Record, WorkerRecord,
};
use buildpool_digest::{Digest, TestResult};
use buildpool_pool as pool;
use buildpool_pool::{Change, LiveJob, Now, WaitInfo};
use buildpool_protocol::ids::{AttemptId, JobId, WorkerId};
use buildpool_protocol::limits::LOST_AFTER;
use buildpool_protocol::outcome::{CrashType, SetupOutcome};
use buildpool_protocol::report::{JobState, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Recorded facts of a worker that its next record depends on.
#[derive(Clone, Copy)]
struct Known {
    first_seen_ms: i64,
    flags: Flags,
}

#[derive(Default)]
pub(super) struct Mirror {
    jobs: BTreeMap<JobId, JobRecord>,
    /// Attempts that have ended but that the pool has not decided on.
    endings: BTreeMap<AttemptId, EndedAttempt>,
    workers: BTreeMap<WorkerId, Known>,
    /// Jobs that have ended but were not passed to their clients yet.
    ended: BTreeMap<JobId, Ended>,
}

/// Log, digest and tests of an attempt that has ended.
struct EndedAttempt {
    /// The whole log, if it has no file.
    inline: Option<bytes::Bytes>,
    log_length: u64,
    sealed_at_ms: i64,
    digest: Arc<Digest>,
    tests: Vec<TestResult>,
}

/// A job that has ended.
pub(super) struct Ended {
    pub(super) record: JobRecord,
    pub(super) digest: Option<Arc<Digest>>,
    pub(super) tests: Vec<TestResult>,
}

impl Mirror {
    pub(super) fn restore_job(&mut self, job: JobRecord) {
        self.jobs.insert(job.job, job);
    }

    pub(super) fn restore_worker(&mut self, worker: &WorkerRecord) {
        let flags = Flags { draining: worker.draining, lost: worker.lost };
        self.workers.insert(worker.worker, Known { first_seen_ms: worker.first_seen_ms, flags });
    }

    pub(super) fn job(&self, job: JobId) -> Option<&JobRecord> {
        self.jobs.get(&job)
    }

    pub(super) fn note_ending(&mut self, ending: &mut Ending) {
        let attempt = ending.completed.lease.attempt;
        let ended = EndedAttempt {
            inline: ending.sealed.inline.clone(),
            log_length: ending.sealed.state.position,
            sealed_at_ms: ending.sealed_at_ms,
            digest: ending.digest.clone(),
            tests: std::mem::take(&mut ending.tests),
        };
        self.endings.insert(attempt, ended);
    }

    /// Drops the log and digest of an attempt that the pool did not use.
    pub(super) fn forget_ending(&mut self, attempt: AttemptId) {
        self.endings.remove(&attempt);
    }

    /// Returns the record of a job that has ended, before the record is on disk.
    pub(super) fn ending(&self, job: JobId) -> Option<&JobRecord> {
        self.ended.get(&job).map(|ended| &ended.record)
    }

    /// Returns the jobs that have ended, before their records are on disk.
    pub(super) fn ended(&self) -> impl Iterator<Item = JobId> + '_ {
        self.ended.keys().copied()
    }

    /// Returns the state of a job that has ended while the disk refuses its record, with the
    /// reason.
    pub(super) fn unwritten(&self, now: Now, job: JobId, why: &str) -> Option<LiveJob> {
        let record = self.ending(job)?;
        let reason =
            format!("it has ended; the result follows when the coordinator can write its records ({why})");
        let since_ms = record.done.as_ref().map_or(now.wall_ms, |done| done.finished_at_ms);
        Some(LiveJob {
            record: Arc::new(to_pool_job(record, 0, None)),
            attempts: record.attempts.iter().map(to_pool_attempt).collect(),
            state: JobState::Sealing,
            connected: true,
            waiting: Some(WaitInfo { reason, position: None, since_ms, estimate: None }),
            cancelling: record.cancel.is_some(),
        })
    }

    /// Removes and returns the record of a job that has just ended.
    pub(super) fn take_ended(&mut self, job: JobId) -> Option<Ended> {
        self.ended.remove(&job)
    }

    pub(super) fn apply(&mut self, now: Now, change: Change, records: &mut Vec<Record>) {
        match change {
            Change::Submitted(job) => {
                let record = JobRecord {
                    job: job.job,
                    spec: job.spec.clone(),
                    submitter: job.submitter.clone(),
                    principal: job.submitter.clone(),
                    token: job.token,
                    client_request_id: job.client_request_id.clone(),
                    created_at_ms: job.created_at_ms,
                    attempts: Vec::new(),
                    cancel: None,
                    snapshot: job.snapshot.clone(),
                    done: None,
                };
                records.push(Record::Job(Box::new(record.clone())));
                records.push(events::job(&record, JobState::Queued, record.created_at_ms));
                self.jobs.insert(job.job, record);
            }
            Change::Attempt { job, attempt } => self.attempt(now, job, attempt, records),
            Change::CancelRequested { job, by, reason } => {
                if let Some(record) = self.jobs.get_mut(&job) {
                    record.cancel = Some(CancelRecord { by, reason, at_ms: now.wall_ms });
                    records.push(Record::Job(Box::new(record.clone())));
                }
            }
            Change::Done { job, record } => self.done(job, &record, records),
            Change::Attachable { job, attachable } => records.push(Record::Attachable { job, attachable }),
            Change::Worker(worker) => {
                let known = self.workers.get(&worker.worker).copied();
                let first_seen_ms = known.map_or(now.wall_ms, |known| known.first_seen_ms);
                let record = to_store_worker(worker, first_seen_ms);
                records.extend(events::worker(known.map(|known| known.flags), &record, now.wall_ms));
                self.restore_worker(&record);
                records.push(Record::Worker(Box::new(record)));
            }
            Change::WorkerForgotten(worker) => {
                self.workers.remove(&worker);
                records.push(Record::WorkerForgotten(worker));
            }
        }
    }

    fn attempt(&mut self, now: Now, job: JobId, attempt: pool::AttemptRecord, records: &mut Vec<Record>) {
        let number = attempt.number;
        // The log and digest belong to the attempt if it was lost. Otherwise the end of the job,
        // which is still to come, uses them.
        let ending = attempt.lost.as_ref().and_then(|_| self.endings.remove(&AttemptId { job, number }));
        let Some(record) = self.jobs.get_mut(&job) else { return };
        let log_length = ending.as_ref().map_or(0, |ending| ending.log_length);
        let ended = attempt.lost.map(|reason| AttemptEnd {
            at_ms: now.wall_ms,
            how: if attempt.counted {
                AttemptEnding::Lost { reason }
            } else if attempt.retried {
                AttemptEnding::Retried { reason }
            } else {
                AttemptEnding::Declined { reason }
            },
            log_length,
        });
        let attempt = AttemptRecord {
            number,
            epoch: attempt.epoch,
            worker: attempt.worker,
            worker_name: attempt.worker_name,
            granted_at_ms: attempt.granted_at_ms,
            started_at_ms: attempt.started_at_ms,
            ended,
            lost_after_ms: Some(u64::try_from(attempt.lost_after.as_millis()).unwrap_or(u64::MAX)),
            boot: attempt.boot,
        };
        let state = match record.attempts.iter().find(|known| known.number == number) {
            Some(known) if known.ended.is_none() && attempt.ended.is_some() => Some(JobState::Queued),
            Some(known) if known.started_at_ms.is_none() && attempt.started_at_ms.is_some() => {
                Some(JobState::Running)
            }
            Some(_) => None,
            None => Some(JobState::Preparing),
        };
        match record.attempts.iter_mut().find(|known| known.number == number) {
            Some(known) => *known = attempt,
            None => record.attempts.push(attempt),
        }
        if let Some(EndedAttempt { inline: Some(bytes), .. }) = ending {
            records.push(Record::Log { attempt: AttemptId { job, number }, bytes });
        }
        records.extend(state.map(|state| events::job(record, state, now.wall_ms)));
        records.push(Record::Job(Box::new(record.clone())));
    }

    fn done(&mut self, job: JobId, done: &pool::DoneRecord, records: &mut Vec<Record>) {
        let ending = self.endings.remove(&AttemptId { job, number: done.attempt });
        let Some(mut record) = self.jobs.remove(&job) else { return };
        let (mut digest, mut tests, mut sealed_at_ms) = (None, Vec::new(), None);
        let outcome = done.outcome.as_deref();
        if let Some(ending) = ending {
            (digest, tests, sealed_at_ms) = (Some(ending.digest), ending.tests, Some(ending.sealed_at_ms));
            if let Some(attempt) = record.attempts.iter_mut().find(|attempt| attempt.number == done.attempt) {
                attempt.started_at_ms =
                    outcome.and_then(|outcome| outcome.started_at_ms).or(attempt.started_at_ms);
                attempt.ended = Some(AttemptEnd {
                    at_ms: done.finished_at_ms,
                    how: AttemptEnding::Completed,
                    log_length: ending.log_length,
                });
            }
            if let Some(bytes) = ending.inline {
                records.push(Record::Log { attempt: AttemptId { job, number: done.attempt }, bytes });
            }
        }
        // If the setup failed, the ending is its own.
        let has_run = outcome.and_then(|it| it.setup.as_ref()).is_none_or(SetupOutcome::passed);
        record.done = Some(DoneRecord {
            finished_at_ms: done.finished_at_ms,
            sealed_at_ms,
            attempt: (done.attempt > 0).then_some(done.attempt),
            verdict: done.verdict,
            exit_code: digest.as_ref().filter(|_| has_run).and_then(|digest| digest.exit_code),
            crash_type: match (&digest, done.verdict) {
                (Some(digest), _) => digest.crash_type,
                (None, Verdict::Cancelled) => CrashType::Cancelled,
                (None, _) => CrashType::None,
            },
            cause: done.cause.clone(),
            outcome: done.outcome.clone(),
            duration_ms: outcome
                .map(|outcome| u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX)),
            tests: digest.as_ref().and_then(|digest| digest.tests.clone()),
            headline: digest.as_ref().and_then(|digest| digest.findings.first()).map(|finding| {
                finding.message.lines().next().unwrap_or_default().chars().take(HEADLINE_CHARS_MAX).collect()
            }),
        });
        if outcome.is_none() {
            // The loss of the last attempt ended the job, so it did not wait again.
            records.retain(|record| !events::is_queued_again(record, job));
        }
        records.push(events::job(&record, JobState::Done, done.finished_at_ms));
        records.push(Record::Job(Box::new(record.clone())));
        if done.verdict == Verdict::Passed
            && let Some(digest) = &digest
        {
            records.push(Record::Passed(Box::new(PassingRun {
                key: HistoryKey::from_spec(&record.spec),
                job,
                finished_at_ms: done.finished_at_ms,
                duration_ms: outcome
                    .map_or(0, |outcome| u64::try_from(outcome.duration.as_millis()).unwrap_or(0)),
                tests_total: digest.tests.as_ref().map(|tests| tests.total),
                findings: digest.signatures(),
            })));
        }
        self.ended.insert(job, Ended { record, digest, tests });
    }
}

/// Maximum length of a job's headline in lists, in characters.
const HEADLINE_CHARS_MAX: usize = 200;

pub(super) fn to_pool_job(job: &JobRecord, order: u64, usual: Option<Duration>) -> pool::JobRecord {
    pool::JobRecord {
        job: job.job,
        spec: job.spec.clone(),
        submitter: job.submitter.clone(),
        token: job.token,
        created_at_ms: job.created_at_ms,
        order,
        client_request_id: job.client_request_id.clone(),
        snapshot: job.snapshot.clone(),
        usual,
    }
}

pub(super) fn to_pool_attempt(attempt: &AttemptRecord) -> pool::AttemptRecord {
    let how = attempt.ended.as_ref().map(|ended| &ended.how);
    let lost = how.and_then(AttemptEnding::reason);
    pool::AttemptRecord {
        number: attempt.number,
        epoch: attempt.epoch,
        worker: attempt.worker,
        worker_name: attempt.worker_name.clone(),
        granted_at_ms: attempt.granted_at_ms,
        started_at_ms: attempt.started_at_ms,
        lost,
        counted: matches!(how, Some(AttemptEnding::Lost { .. })),
        retried: matches!(how, Some(AttemptEnding::Retried { .. })),
        // An earlier version recorded no limit. Its workers received this default.
        lost_after: attempt.lost_after_ms.map_or(LOST_AFTER, Duration::from_millis),
        boot: attempt.boot,
    }
}

pub(super) fn to_pool_worker(worker: WorkerRecord) -> pool::WorkerRecord {
    pool::WorkerRecord {
        worker: worker.worker,
        name: worker.name,
        slots: worker.slots,
        labels: worker.labels,
        resources: worker.resources,
        accepts: worker.accepts,
        draining: worker.draining,
        drain_until_ms: worker.drain_until_ms,
        resumed: worker.resumed,
        last_seen_ms: worker.last_seen_ms,
        version: worker.version,
        approved: worker.approved,
        token: worker.token,
        lost: worker.lost,
    }
}

fn to_store_worker(worker: pool::WorkerRecord, first_seen_ms: i64) -> WorkerRecord {
    WorkerRecord {
        worker: worker.worker,
        name: worker.name,
        version: worker.version,
        slots: worker.slots,
        labels: worker.labels,
        resources: worker.resources,
        accepts: worker.accepts,
        draining: worker.draining,
        drain_until_ms: worker.drain_until_ms,
        resumed: worker.resumed,
        quarantined: None,
        first_seen_ms,
        last_seen_ms: worker.last_seen_ms,
        approved: worker.approved,
        token: worker.token,
        lost: worker.lost,
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, EndedAttempt, Mirror, Now, Record, pool};
    use buildpool_digest::{Digester, Facts, Options};
    use buildpool_protocol::ids::{AttemptId, JobId, WorkerId};
    use buildpool_protocol::report::Verdict;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::sync::Arc;
    use std::time::Duration;

    const NOW: Now = Now { clock: Duration::ZERO, wall_ms: 7 };

    fn granted(lost: Option<&str>) -> pool::AttemptRecord {
        pool::AttemptRecord {
            number: 1,
            epoch: 1,
            worker: WorkerId::from_uuid(uuid::Uuid::nil()),
            worker_name: "mini".into(),
            granted_at_ms: 1,
            started_at_ms: None,
            lost: lost.map(str::to_owned),
            counted: lost.is_some(),
            retried: false,
            lost_after: Duration::ZERO,
            boot: None,
        }
    }

    /// Returns a mirror with a job of one attempt. The log and digest of the attempt have arrived.
    fn ended() -> (Mirror, JobId) {
        let mut mirror = Mirror::default();
        let job = JobId::from_uuid(uuid::Uuid::now_v7());
        let record = pool::JobRecord {
            job,
            spec: Arc::new(JobSpec::new(Command::Shell("true".into()), Source::Empty)),
            submitter: "ada".into(),
            token: None,
            created_at_ms: 1,
            order: 1,
            client_request_id: None,
            snapshot: None,
            usual: None,
        };
        let mut records = Vec::new();
        mirror.apply(NOW, Change::Submitted(Arc::new(record)), &mut records);
        mirror.apply(NOW, Change::Attempt { job, attempt: granted(None) }, &mut records);
        let digest = Arc::new(Digester::new(Options::default()).finish(&Facts::default()));
        let log = bytes::Bytes::from_static(b"log");
        mirror.endings.insert(
            AttemptId { job, number: 1 },
            EndedAttempt { inline: Some(log), log_length: 3, sealed_at_ms: 8, digest, tests: Vec::new() },
        );
        (mirror, job)
    }

    fn has_log(records: &[Record]) -> bool {
        records.iter().any(|record| matches!(record, Record::Log { bytes, .. } if **bytes == *b"log"))
    }

    #[test]
    fn an_attempt_that_is_written_once_more_before_its_job_ends_takes_nothing_from_that_end() {
        let (mut mirror, job) = ended();
        let mut records = Vec::new();
        mirror.apply(NOW, Change::Attempt { job, attempt: granted(None) }, &mut records);
        let done = pool::DoneRecord {
            attempt: 1,
            finished_at_ms: 9,
            verdict: Verdict::Passed,
            cause: None,
            outcome: None,
        };
        mirror.apply(NOW, Change::Done { job, record: Arc::new(done) }, &mut records);
        assert!(has_log(&records), "{records:?}");
        assert!(mirror.take_ended(job).is_some_and(|ended| ended.digest.is_some()));
    }

    #[test]
    fn the_log_of_a_lost_attempt_is_written_with_its_loss_and_what_nobody_takes_is_let_go() {
        let (mut mirror, job) = ended();
        let mut records = Vec::new();
        mirror.apply(NOW, Change::Attempt { job, attempt: granted(Some("it was lost")) }, &mut records);
        assert!(has_log(&records), "{records:?}");
        let (mut mirror, job) = ended();
        mirror.forget_ending(AttemptId { job, number: 1 });
        assert!(mirror.endings.is_empty());
    }
}
