//! Estimates the start of a queued job from the usual run times of the jobs before it.
//!
//! The estimate is intentionally rough: the work ahead, divided by the suitable slots or units of a
//! resource. No decision depends on it.

use crate::job::{Job, Phase};
use crate::placement::Obstacle;
use crate::pool::Pool;
use crate::queue::Lane;
use crate::roster::Worker;
use crate::share::Share;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::JobSpec;
use std::collections::BTreeMap;
use std::time::Duration;

/// The assumed remaining time of a job that exceeds its usual run time, as this fraction of that
/// time.
const OVERDUE_PART: u32 = 4;

/// Limit on the comparisons of requirements in one answer: one for each other set, and one for each
/// worker that is looked at for it. Beyond it, all jobs count as competing, so a position is then at
/// most too large.
const COMPARED_MAX: usize = 500;
/// Limit on the classes of jobs in an estimate. With more, there is no estimate.
const CLASSES_ESTIMATED_MAX: usize = 64;
/// Limit on the classes of queued jobs that are compared for a position. With more, all jobs count as competing.
pub(crate) const CLASSES_COMPARED_MAX: usize = 256;

/// Remaining comparisons of one answer (see [`COMPARED_MAX`]).
pub(crate) struct ComparisonBudget(usize);

impl ComparisonBudget {
    pub(crate) const fn for_one_answer() -> Self {
        Self(COMPARED_MAX)
    }
}

/// Jobs of one class that are ahead of another job.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    spec: &'a JobSpec,
    pub(crate) jobs: u64,
    /// Number of them with a known run time, and the mean of these times.
    known: u64,
    mean: Duration,
}

/// A shared quantity: slots, or units of a resource.
#[derive(Clone, Copy)]
enum Quantity<'a> {
    Slots,
    Units(&'a str),
}

impl Quantity<'_> {
    fn of_worker(self, worker: &Worker) -> f64 {
        f64::from(match self {
            Self::Slots => worker.record.slots,
            Self::Units(name) => worker.record.resources.get(name).copied().unwrap_or(0),
        })
    }

    fn taken(self, resources: &BTreeMap<String, u32>) -> f64 {
        f64::from(match self {
            Self::Slots => 1,
            Self::Units(name) => resources.get(name).copied().unwrap_or(0),
        })
    }
}

impl Pool {
    /// Returns the estimated wait of a job from now. `None` if no run times are known, or if the
    /// job waits for something other than jobs.
    pub(crate) fn estimate(
        &self,
        job: &Job,
        ahead: &[Ahead<'_>],
        obstacle: &Obstacle,
        now: Duration,
    ) -> Option<Duration> {
        if ahead.len() > CLASSES_ESTIMATED_MAX {
            return None;
        }
        match obstacle {
            Obstacle::None(_) => Some(Duration::ZERO),
            Obstacle::Warm { until } | Obstacle::Elsewhere { until } => Some(until.saturating_sub(now)),
            Obstacle::Group(holder) => self.behind_group(job, ahead, *holder, now),
            Obstacle::Workers(blocking)
                if blocking.busy + blocking.without_resources + blocking.reserved > 0 =>
            {
                self.behind_others(job, ahead, now)
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

    /// Estimates the wait behind a concurrency group, with its jobs one after the other.
    fn behind_group(&self, job: &Job, ahead: &[Ahead<'_>], holder: JobId, now: Duration) -> Option<Duration> {
        let group = &job.record.spec.concurrency_group;
        let of_group = ahead.iter().filter(|part| part.spec.concurrency_group == *group);
        let mut time = self.remaining(holder, now)?;
        for part in of_group {
            let each = if part.known > 0 { Some(part.mean) } else { job.record.usual };
            time = time.saturating_add(each?.saturating_mul(u32::try_from(part.jobs).unwrap_or(u32::MAX)));
        }
        Some(time)
    }

    /// Returns the longest of the waits for a slot and for units of each resource.
    fn behind_others(&self, job: &Job, ahead: &[Ahead<'_>], now: Duration) -> Option<Duration> {
        let units = job.record.spec.resources.keys().map(|name| Quantity::Units(name));
        let waits =
            [Quantity::Slots].into_iter().chain(units).map(|counted| self.part(job, ahead, counted, now));
        let longest = waits.collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
        Duration::try_from_secs_f64(longest).ok()
    }

    /// Returns the work ahead in seconds, per slot or unit of the suitable workers.
    fn part(&self, job: &Job, ahead: &[Ahead<'_>], counted: Quantity<'_>, now: Duration) -> Option<f64> {
        let spec = &*job.record.spec;
        let capacity: f64 = self.in_service(spec).map(|worker| counted.of_worker(worker)).sum();
        // Pairs of units and seconds, for running and queued jobs.
        let running = self.in_service(spec).flat_map(|worker| &worker.jobs);
        let running = running.filter(|(_, taken)| counted.taken(taken) > 0.0);
        let running: Vec<(f64, Option<f64>)> = running
            .map(|(id, taken)| Some((counted.taken(taken), Some(self.remaining(*id, now)?.as_secs_f64()))))
            .collect::<Option<_>>()?;
        let queued = ahead.iter().map(|part| {
            let all: f64 = self.in_service(part.spec).map(|worker| counted.of_worker(worker)).sum();
            let here = self.in_service(part.spec).filter(|worker| worker.could_run(spec));
            let here: f64 = here.map(|worker| counted.of_worker(worker)).sum();
            // Jobs that could also run on other workers count only in part.
            let part_here = if all > 0.0 { here / all } else { 1.0 };
            let mean = (part.known > 0).then_some(part.mean.as_secs_f64());
            (counted.taken(&part.spec.resources) * part.jobs as f64 * part_here, mean)
        });
        let lots: Vec<(f64, Option<f64>)> = queued.chain(running).collect();
        // The end of each running job must be known. An unknown run time of a queued job is replaced
        // with the time of another job.
        let usual = job.record.usual.map(|usual| usual.as_secs_f64());
        let mean = lots.iter().find_map(|(_, secs)| *secs).or(usual);
        let mut work = 0.0;
        for (units, secs) in lots.into_iter().filter(|(units, _)| *units > 0.0) {
            work += units * secs.or(mean)?;
        }
        (capacity > 0.0).then_some(work / capacity)
    }

    /// Returns the jobs ahead of this job that compete for the same workers. All earlier jobs of
    /// the same submitter count. Of other submitters, the jobs count that fair sharing grants
    /// first.
    pub(crate) fn ahead(&self, job: &Job, budget: &mut ComparisonBudget) -> Vec<Ahead<'_>> {
        let record = &job.record;
        let Phase::Queued { .. } = job.phase else { return Vec::new() };
        let place = Lane::place(record.spec.priority, record.order);
        let competing: Vec<_> = self
            .queue
            .lanes()
            .filter_map(|lanes| {
                let (_, head) = lanes.values().next()?.first()?;
                let spec = &*self.jobs.get(&head)?.record.spec;
                self.compete(spec, &record.spec, budget).then_some((spec, lanes))
            })
            .collect();
        let own_lanes = competing.iter().filter_map(|(_, lanes)| lanes.get(&record.submitter));
        let own: u64 = own_lanes.map(|lane| lane.before(place)).sum();
        // Number of competing jobs of each other submitter.
        let mut rivals: BTreeMap<&str, u64> = BTreeMap::new();
        for (submitter, lane) in competing.iter().flat_map(|(_, lanes)| *lanes) {
            *rivals.entry(submitter.as_str()).or_default() += lane.len();
        }
        let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
        let mut ahead = Vec::new();
        for (spec, lanes) in competing {
            for (submitter, lane) in lanes {
                let jobs = match rivals.get(submitter.as_str()) {
                    Some(rival) if *submitter != record.submitter => {
                        let first = self.goes_first(&record.submitter, own, submitter, *rival);
                        // Split the number over the lanes, so that the parts add up.
                        let before = counted.entry(submitter.as_str()).or_default();
                        let of_lane =
                            part_of(first, *before + lane.len(), *rival) - part_of(first, *before, *rival);
                        *before += lane.len();
                        of_lane
                    }
                    _ => lane.before(place),
                };
                let (known, mean) = lane.usual();
                if jobs > 0 {
                    ahead.push(Ahead { spec, jobs, known, mean });
                }
            }
        }
        ahead
    }

    /// Returns a number of jobs ahead of this one that is at most too large: all jobs count as competing. Its cost does not
    /// grow with the number of queued jobs of other submitters.
    pub(crate) fn at_most_ahead(&self, job: &Job) -> u64 {
        let record = &job.record;
        let place = Lane::place(record.spec.priority, record.order);
        let own: u64 = self.queue.lanes_of(&record.submitter).map(|lane| lane.before(place)).sum();
        let others =
            self.shares.iter().filter(|(name, share)| share.queued() > 0 && **name != record.submitter);
        let before = |(name, share): (&String, &Share)| {
            self.goes_first(&record.submitter, own, name, share.queued() as u64)
        };
        own + others.map(before).sum::<u64>()
    }

    /// Returns the number of a rival's jobs that are granted before a job. That job has `own`
    /// earlier jobs of its own submitter. The submitter with fewer running jobs catches up first,
    /// then they alternate.
    fn goes_first(&self, submitter: &str, own: u64, other: &str, rival: u64) -> u64 {
        let (mine, theirs) = (self.share(submitter), self.share(other));
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let lead = (count(theirs.running) - count(mine.running)) / 2;
        let is_due = theirs.order() < mine.order();
        let first = i64::try_from(own).unwrap_or(i64::MAX) - lead + i64::from(lead == 0 && is_due);
        u64::try_from(first).unwrap_or(0).min(rival)
    }

    /// Returns the workers that get new jobs and could run this one.
    fn in_service<'a>(&'a self, spec: &'a JobSpec) -> impl Iterator<Item = &'a Worker> {
        self.roster.fitting(spec).map(|(_, worker)| worker).filter(|worker| worker.is_in_service())
    }

    /// Returns true if some worker could run both.
    fn compete(&self, one: &JobSpec, other: &JobSpec, budget: &mut ComparisonBudget) -> bool {
        if one.selectors == other.selectors {
            return true;
        }
        if budget.0 == 0 {
            return true;
        }
        budget.0 -= 1;
        let count = |spec| self.roster.candidates(spec);
        let (rare, common) = if count(one) <= count(other) { (one, other) } else { (other, one) };
        for (_, worker) in self.roster.fitting(rare) {
            if budget.0 == 0 || worker.could_run(common) {
                return true;
            }
            budget.0 -= 1;
        }
        false
    }
}

/// Returns `whole` multiplied by `part` / `all`.
fn part_of(whole: u64, part: u64, all: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part);
    u64::try_from(product.checked_div(u128::from(all)).unwrap_or(0)).unwrap_or(u64::MAX)
}
