//! Checks of the named invariants. Tests and the simulation run them after each step.

use crate::job::{Job, Phase};
use crate::placement::Obstacle;
use crate::pool::Pool;
use crate::share::IDLE_SHARES_MAX;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::worker_link::HeldState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Pool {
    /// Checks all invariants.
    ///
    /// # Errors
    /// The first violated invariant, by its name in ARCHITECTURE.md.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_queue()?;
        self.roster.audit()?;
        self.audit_leases()?;
        self.audit_groups()?;
        self.audit_bounds()?;
        self.audit_dispatch()?;
        self.audit_shares()
    }

    fn audit_queue(&self) -> Result<(), String> {
        let queued: BTreeSet<_> = self.queue.jobs().collect();
        let waiting: BTreeSet<_> =
            self.jobs.values().filter(|job| matches!(job.phase, Phase::Queued { .. })).map(Job::id).collect();
        let known: BTreeSet<_> = queued.union(&self.parked).copied().collect();
        if known != waiting || queued.len() != self.queue.len() || !queued.is_disjoint(&self.parked) {
            return Err(format!(
                "liveness: {} jobs wait, {} are in the queue and {} parked",
                waiting.len(),
                queued.len(),
                self.parked.len()
            ));
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
                let is_assigned =
                    self.roster.get(granted.worker).is_some_and(|worker| worker.jobs.contains_key(&job.id()));
                if !is_assigned {
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

    fn audit_groups(&self) -> Result<(), String> {
        let mut running: BTreeMap<&str, JobId> = BTreeMap::new();
        for job in self.jobs.values() {
            let Some(group) = job.record.spec.concurrency_group.as_deref() else { continue };
            let Some(granted) = job.granted() else { continue };
            if !self.groups.contains_key(group) {
                return Err(format!("capacity: job {} runs and its group {group} counts as free", job.id()));
            }
            if granted.state != HeldState::Ended
                && let Some(other) = running.insert(group, job.id())
            {
                return Err(format!("capacity: jobs {other} and {} of group {group} run at once", job.id()));
            }
        }
        match self.groups.iter().find(|(_, job)| self.jobs.get(job).and_then(Job::granted).is_none()) {
            Some((group, job)) => {
                Err(format!("capacity: group {group} is held by {job}, which does not run"))
            }
            None => Ok(()),
        }
    }

    /// A job that can be granted must not wait for an unrelated input.
    fn audit_dispatch(&self) -> Result<(), String> {
        let first = self.queue.all().filter_map(|class| self.queue.heads(class).next());
        for job in first.filter_map(|head| self.jobs.get(&head.job)) {
            self.roster.audit_search(&job.record.spec)?;
        }
        if self.is_dispatch_due() {
            return Ok(());
        }
        for Reverse((_, id)) in self.candidates() {
            let Some(job) = self.jobs.get(&id) else { continue };
            // At time zero no wait for a warm workspace is over. Timers end such waits.
            if let Obstacle::None(_) = self.obstacle(job, &self.reserved, Duration::ZERO) {
                return Err(format!("liveness: job {id} can be granted and no dispatch is due"));
            }
        }
        Ok(())
    }

    fn audit_bounds(&self) -> Result<(), String> {
        // Each job and worker has at most a few timers of each kind. More would be a leak.
        let timers_max = 64 + 16 * (self.jobs.len() + self.roster.iter().count());
        if self.timers.len() > timers_max {
            return Err(format!("bounded: {} jobs and {} timers", self.jobs.len(), self.timers.len()));
        }
        let idle = self.shares.values().filter(|share| share.live == 0).count();
        if idle > IDLE_SHARES_MAX {
            return Err(format!("bounded: {idle} submitters without jobs are remembered"));
        }
        Ok(())
    }

    fn audit_shares(&self) -> Result<(), String> {
        let mut counted: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for job in self.jobs.values() {
            let (running, live) = counted.entry(&job.record.submitter).or_default();
            *running += usize::from(job.granted().is_some());
            *live += 1;
        }
        for (submitter, share) in &self.shares {
            let counted = counted.remove(submitter.as_str()).unwrap_or_default();
            if counted != (share.running, share.live) {
                return Err(format!("capacity: the share of {submitter} is miscounted"));
            }
        }
        match counted.keys().next() {
            Some(submitter) => Err(format!("capacity: {submitter} has jobs and no share")),
            None => Ok(()),
        }
    }
}
