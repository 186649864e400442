//! The named invariants, checkable at any moment: tests and the simulation do after each step.

use crate::job::{Job, Phase};
use crate::pool::Pool;
use std::collections::{BTreeMap, BTreeSet};

impl Pool {
    /// Checks what must always hold; says what does not.
    ///
    /// # Errors
    /// The first invariant that is broken, by its name in ARCHITECTURE.md.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_queue()?;
        self.audit_leases()?;
        self.audit_shares()
    }

    fn audit_queue(&self) -> Result<(), String> {
        let queued: BTreeSet<_> = self.queue.jobs().collect();
        let waiting: BTreeSet<_> =
            self.jobs.values().filter(|job| matches!(job.phase, Phase::Queued { .. })).map(Job::id).collect();
        if queued != waiting || queued.len() != self.queue.len() {
            return Err(format!("liveness: {} jobs wait, {} are in the queue", waiting.len(), queued.len()));
        }
        Ok(())
    }

    fn audit_leases(&self) -> Result<(), String> {
        let mut epochs = BTreeSet::new();
        for job in self.jobs.values() {
            let mut last = 0;
            for attempt in &job.attempts {
                if attempt.epoch <= last || !epochs.insert(attempt.epoch) || attempt.epoch >= self.next_epoch
                {
                    return Err(format!(
                        "single_lease: epoch {} of job {} does not grow",
                        attempt.epoch,
                        job.id()
                    ));
                }
                last = attempt.epoch;
            }
            if let Phase::Granted(granted) = &job.phase {
                let booked =
                    self.roster.get(granted.worker).is_some_and(|worker| worker.jobs.contains_key(&job.id()));
                if !booked {
                    return Err(format!("capacity: job {} is not booked on its worker", job.id()));
                }
                if job.attempts.last().is_none_or(|last| last.epoch != granted.lease.epoch) {
                    return Err(format!("single_lease: job {} runs under an old lease", job.id()));
                }
            }
        }
        for (id, worker) in self.roster.iter() {
            for job in worker.jobs.keys() {
                let granted = self.jobs.get(job).and_then(Job::granted);
                if granted.is_none_or(|granted| granted.worker != *id) {
                    return Err(format!(
                        "capacity: job {job} is booked on {} and not granted to it",
                        worker.record.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn audit_shares(&self) -> Result<(), String> {
        let mut running: BTreeMap<&str, usize> = BTreeMap::new();
        for job in self.jobs.values() {
            *running.entry(&job.record.submitter).or_default() += usize::from(job.granted().is_some());
        }
        for (submitter, share) in &self.shares {
            if running.get(submitter.as_str()).copied().unwrap_or(0) != share.running {
                return Err(format!("capacity: the share of {submitter} is miscounted"));
            }
        }
        Ok(())
    }
}
