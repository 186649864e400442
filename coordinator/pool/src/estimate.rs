//! When a job that waits will roughly begin, from how long jobs like those before it usually ran.
//!
//! A rough figure on purpose: the work that goes first, shared among the slots that fit. Nothing is decided by it.

use crate::job::{Job, Phase};
use crate::placement::Obstacle;
use crate::pool::Pool;
use crate::queue::{Class, Lane};
use buildpool_protocol::ids::JobId;
use std::time::Duration;

/// A job that has run for longer than usual is taken to need this part of its time once more.
const OVERDUE_PART: u32 = 4;

/// Durations of some jobs, known of not all of them.
#[derive(Clone, Copy, Default)]
struct Work {
    jobs: u64,
    known: u64,
    time: Duration,
}

impl Work {
    fn add(&mut self, time: Option<Duration>) {
        self.jobs += 1;
        self.known += u64::from(time.is_some());
        self.time = self.time.saturating_add(time.unwrap_or_default());
    }

    fn mean(self) -> Option<Duration> {
        self.time.checked_div(u32::try_from(self.known).unwrap_or(u32::MAX))
    }
}

impl Pool {
    /// How long a job will wait from now on; none where nothing is known, or where it waits for other than jobs.
    pub(crate) fn estimate(&self, job: &Job, obstacle: &Obstacle, now: Duration) -> Option<Duration> {
        match obstacle {
            Obstacle::None(_) => Some(Duration::ZERO),
            Obstacle::Warm { until } => Some(until.saturating_sub(now)),
            Obstacle::Group(holder) => self.remaining(*holder, now),
            Obstacle::Workers(keeping) if keeping.busy + keeping.without_resources > 0 => {
                self.behind_others(job, now)
            }
            Obstacle::Workers(_)
            | Obstacle::Quota { .. }
            | Obstacle::PoolDraining
            | Obstacle::Secrets(_)
            | Obstacle::Unsatisfiable(_) => None,
        }
    }

    fn remaining(&self, id: JobId, now: Duration) -> Option<Duration> {
        let job = self.jobs.get(&id)?;
        let granted = job.granted()?;
        let usual = job.record.usual?;
        let left = usual.saturating_sub(now.saturating_sub(granted.sent_at));
        Some(left.max(usual / OVERDUE_PART))
    }

    fn behind_others(&self, job: &Job, now: Duration) -> Option<Duration> {
        let spec = &job.record.spec;
        let mut running = Work::default();
        let mut slots = 0_u64;
        for (_, worker) in self.roster.iter() {
            let takes_jobs = worker.session().is_some() && !worker.is_draining() && !worker.is_quarantined();
            if !takes_jobs || !worker.could_run(spec) {
                continue;
            }
            slots += u64::from(worker.record.slots);
            for id in worker.jobs.keys() {
                running.add(self.remaining(*id, now));
            }
        }
        let ahead = self.ahead(job);
        let mean = match (ahead.mean(), running.mean()) {
            (Some(queued), _) => queued,
            (None, running) => running.or(job.record.usual)?,
        };
        let unknown = ahead.jobs - ahead.known + running.jobs - running.known;
        let unknown = mean.saturating_mul(u32::try_from(unknown).unwrap_or(u32::MAX));
        let work = ahead.time.saturating_add(running.time).saturating_add(unknown);
        work.checked_div(u32::try_from(slots).unwrap_or(u32::MAX))
    }

    /// What goes before this job among those that compete for the same workers: of its own submitter all that stand
    /// before it, of others what fairness lets go first.
    fn ahead(&self, job: &Job) -> Work {
        let record = &job.record;
        let mut work = Work::default();
        let Phase::Queued { .. } = job.phase else { return work };
        let Some(lanes) = self.queue.lanes(&Class::of(&record.spec)) else { return work };
        let place = Lane::place(record.spec.priority, record.order);
        let own = lanes.get(&record.submitter).map_or(0, |lane| lane.before(place));
        for (submitter, lane) in lanes {
            let first = if *submitter == record.submitter {
                own
            } else {
                let equal = lane.of_priority(record.spec.priority);
                lane.above(record.spec.priority) + equal.min(own + 1)
            };
            work.jobs += first;
            // As if each of the lane were like all of the lane.
            let (known, mean) = lane.usual();
            let known = first.min(known);
            work.known += known;
            work.time += mean.saturating_mul(u32::try_from(known).unwrap_or(u32::MAX));
        }
        work
    }
}
