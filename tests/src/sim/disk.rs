//! The records of the pool, and a coordinator's logs: the state that survives a crash. Each change is checked against
//! the invariants.

use buildpool_pool::{AttemptRecord, Change, DoneRecord, JobRecord, WorkerRecord};
use buildpool_protocol::ids::{AttemptId, JobId, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a log, with the execution that wrote them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// End offset and execution of each part, in order.
    parts: Vec<(u64, u64)>,
    /// Length after a crash.
    durable: u64,
}

impl Log {
    pub(crate) fn length(&self) -> u64 {
        self.parts.last().map_or(0, |(end, _)| *end)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Appends new bytes. Returns false if there is a gap before them.
    pub(crate) fn append(&mut self, from: u64, to: u64, execution: u64) -> bool {
        let length = self.length();
        if from > length {
            return false;
        }
        if to > length {
            match self.parts.last_mut() {
                Some((end, of)) if *of == execution => *end = to,
                _ => self.parts.push((to, execution)),
            }
        }
        true
    }

    pub(crate) fn sync(&mut self) {
        self.durable = self.length();
    }

    pub(crate) fn crash(&mut self) {
        let durable = self.durable;
        let mut begin = 0;
        self.parts.retain_mut(|(end, _)| {
            let keeps = begin < durable;
            begin = *end;
            *end = (*end).min(durable);
            keeps
        });
    }

    /// Returns its length and origin.
    pub(crate) fn seal(&self) -> Sealed {
        Sealed { length: self.durable, executions: self.parts.iter().map(|(_, of)| *of).collect() }
    }

    /// Returns true if all bytes come from this execution.
    pub(crate) fn is_all_of(&self, execution: u64) -> bool {
        self.parts.iter().all(|(_, of)| *of == execution)
    }
}

/// A complete log: its length, and the executions that wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sealed {
    pub(crate) length: u64,
    pub(crate) executions: BTreeSet<u64>,
}

/// The records, and the complete logs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) jobs: BTreeMap<JobId, Arc<JobRecord>>,
    pub(crate) attempts: BTreeMap<JobId, BTreeMap<u32, AttemptRecord>>,
    pub(crate) cancels: BTreeMap<JobId, (String, String)>,
    pub(crate) done: BTreeMap<JobId, Arc<DoneRecord>>,
    pub(crate) attachable: BTreeSet<JobId>,
    pub(crate) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(crate) sealed: BTreeMap<AttemptId, Sealed>,
    epoch: u64,
    /// Number of a leader's start. 0 if there is only one coordinator.
    start: u64,
}

impl Disk {
    /// Writes one change.
    ///
    /// # Errors
    /// The violated invariant.
    pub(crate) fn write(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Submitted(record) => {
                if self.jobs.insert(record.job, record.clone()).is_some() {
                    return Err(format!("absorbing: job {} is submitted twice", record.job));
                }
            }
            Change::Attempt { job, attempt } => self.write_attempt(*job, attempt)?,
            Change::CancelRequested { job, by, reason } => {
                self.check_live(*job, "received the order to end")?;
                self.cancels.insert(*job, (by.clone(), reason.clone()));
            }
            Change::Done { job, record } => self.write_done(*job, record)?,
            Change::Attachable { job, attachable: true } => {
                self.check_live(*job, "becomes attachable")?;
                self.attachable.insert(*job);
            }
            Change::Attachable { job, attachable: false } => drop(self.attachable.remove(job)),
            Change::Worker(record) => {
                self.workers.insert(record.worker, record.clone());
            }
            Change::WorkerForgotten(worker) => drop(self.workers.remove(worker)),
        }
        Ok(())
    }

    fn check_live(&self, job: JobId, what: &str) -> Result<(), String> {
        if !self.jobs.contains_key(&job) {
            return Err(format!("absorbing: job {job} {what} and was never submitted"));
        }
        if self.done.contains_key(&job) {
            return Err(format!("absorbing: job {job} {what} after its end"));
        }
        Ok(())
    }

    fn write_attempt(&mut self, job: JobId, attempt: &AttemptRecord) -> Result<(), String> {
        self.check_live(job, "changes an attempt")?;
        let attempts = self.attempts.entry(job).or_default();
        let newest = attempts.keys().next_back().copied().unwrap_or(0);
        match attempts.get(&attempt.number) {
            Some(known) if known.epoch != attempt.epoch => {
                return Err(format!("single_lease: attempt {job}/{} has two epochs", attempt.number));
            }
            Some(_) => {}
            None => {
                if attempt.number != newest + 1 || attempt.epoch <= self.epoch {
                    return Err(format!(
                        "single_lease: attempt {job}/{} with epoch {} after {newest} and {}",
                        attempt.number, attempt.epoch, self.epoch
                    ));
                }
                if let Some(before) = attempts.get(&newest).filter(|before| before.lost.is_none()) {
                    return Err(format!(
                        "single_lease: {job}/{} is granted over {}",
                        attempt.number, before.number
                    ));
                }
                self.epoch = attempt.epoch;
            }
        }
        attempts.insert(attempt.number, attempt.clone());
        Ok(())
    }

    fn write_done(&mut self, job: JobId, record: &Arc<DoneRecord>) -> Result<(), String> {
        self.check_live(job, "ends")?;
        let newest = self.attempts.get(&job).and_then(|all| all.keys().next_back().copied()).unwrap_or(0);
        if record.attempt != 0 && record.attempt != newest {
            return Err(format!(
                "fenced: attempt {} gives job {job} its end, {newest} is newer",
                record.attempt
            ));
        }
        if let Some(outcome) = &record.outcome {
            let id = AttemptId { job, number: record.attempt };
            let durable = self.sealed.get(&id).map_or(0, |sealed| sealed.length);
            if durable != outcome.log_length {
                return Err(format!(
                    "sealed_before_done: job {job} ends with {durable} of {} bytes",
                    outcome.log_length
                ));
            }
        }
        self.done.insert(job, record.clone());
        Ok(())
    }

    /// Counts the start of a leader.
    pub(crate) fn begin(&mut self, start: u64) {
        self.start = start;
    }

    /// Returns a number that is not lower than any granted epoch.
    pub(crate) fn epoch_base(&self) -> u64 {
        if self.start > 0 { self.start << 24 } else { self.epoch }
    }

    /// Returns true if the other disk has the same records of a job.
    pub(crate) fn is_equal(&self, other: &Self, job: JobId) -> bool {
        let number = |disk: &Self| disk.attempts.get(&job).map(|all| all.keys().copied().collect::<Vec<_>>());
        self.jobs.contains_key(&job) == other.jobs.contains_key(&job)
            && number(self) == number(other)
            && self.done.contains_key(&job) == other.done.contains_key(&job)
    }
}
