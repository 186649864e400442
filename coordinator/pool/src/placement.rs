//! Placement: selects a worker for a job, or explains the obstacle.

use crate::job::{Job, Phase};
use crate::pool::Pool;
use crate::reserve::Reserved;
use crate::roster::Worker;
use buildpool_protocol::ids::{JobId, WorkerId};
use buildpool_protocol::shown::counted;
use buildpool_protocol::spec::JobSpec;
use std::cmp::Reverse;
use std::time::Duration;

/// Time that a retried job waits for another worker than the one where it failed. It covers most
/// reasons for a busy worker, and is short compared with the time such a job has already lost.
const ELSEWHERE_WAIT: Duration = Duration::from_secs(60);

/// Jobs that hold slots, by name in the reason of a queued job.
const HOLDERS_NAMED_MAX: usize = 4;

/// Obstacle between a queued job and a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// No obstacle: this worker has room.
    None(WorkerId),
    /// It waits for a worker with a warm workspace until this time.
    Warm { until: Duration },
    /// It had an infrastructure failure on the workers with room, and waits for another worker
    /// until this time.
    Elsewhere { until: Duration },
    /// The pool is draining.
    PoolDraining,
    /// Another job of its concurrency group runs.
    Group(JobId),
    /// Its submitter has reached the quota of running jobs.
    Quota { submitter: String, running: usize },
    /// Values of these secrets were lost in a restart.
    Secrets(Vec<String>),
    /// No known worker can run it.
    Unsatisfiable(String),
    /// Suitable workers exist. Counts the reasons why they are not available.
    Workers(BlockingReasons),
}

/// Number of suitable workers that are not available, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockingReasons {
    pub(crate) absent: usize,
    pub(crate) draining: usize,
    pub(crate) quarantined: usize,
    pub(crate) unapproved: usize,
    pub(crate) busy: usize,
    pub(crate) without_resources: usize,
    pub(crate) reserved: usize,
}

impl Pool {
    pub(crate) fn obstacle(&self, job: &Job, reserved: &Reserved, now: Duration) -> Obstacle {
        let placement = self.placement(job, reserved, now);
        placement.unwrap_or_else(|| Obstacle::Workers(self.blocking(&job.record.spec, reserved)))
    }

    /// Returns the worker for a job or its obstacle, or `None` if suitable workers exist and all are full. Its cost does
    /// not grow with the workers that accept no jobs now.
    pub(crate) fn placement(&self, job: &Job, reserved: &Reserved, now: Duration) -> Option<Obstacle> {
        let spec = &*job.record.spec;
        if self.draining {
            return Some(Obstacle::PoolDraining);
        }
        let missing: Vec<_> = job.missing_secrets().map(str::to_owned).collect();
        if !missing.is_empty() {
            return Some(Obstacle::Secrets(missing));
        }
        if let Some(holder) = spec.concurrency_group.as_ref().and_then(|group| self.groups.get(group)) {
            return Some(Obstacle::Group(*holder));
        }
        let submitter = &job.record.submitter;
        let share = self.share(submitter);
        if let Some(running) = self.running_quota_reached(submitter, share) {
            return Some(Obstacle::Quota { submitter: submitter.clone(), running });
        }
        if !self.roster.is_satisfiable(spec) {
            return Some(Obstacle::Unsatisfiable(self.roster.what_is_missing(spec)));
        }
        let (worker, is_warm_free) = self.best_worker(job, reserved)?;
        // A wait must stay one when a grant to another job takes the room on this worker: nothing looks at the job then.
        let elsewhere = job.was_retried_after(worker).then(|| self.wait_elsewhere(job, now)).flatten();
        let warm = || self.warm_wait(job, spec, now).filter(|_| !is_warm_free);
        Some(match elsewhere {
            Some(until) => Obstacle::Elsewhere { until },
            None => warm().map_or(Obstacle::None(worker), |until| Obstacle::Warm { until }),
        })
    }

    /// Returns the best worker with room, and true if one with room is warm for the job's project. Jobs
    /// without a project count as warm.
    fn best_worker(&self, job: &Job, reserved: &Reserved) -> Option<(WorkerId, bool)> {
        let spec = &*job.record.spec;
        let key = spec.workspace_key();
        let is_warm = |worker: &Worker| key.as_ref().is_none_or(|key| worker.is_warm(key));
        let has_room = |&(_, worker): &(_, &Worker)| worker.has_room(spec, reserved);
        let mut is_warm_free = false;
        let with_room = self.roster.open_for(spec).filter(has_room);
        let noted = with_room.inspect(|(_, worker)| is_warm_free |= is_warm(worker));
        let (best, _) = noted.min_by_key(|&(id, worker)| {
            (
                job.was_retried_after(*id),
                job.has_failed_on(*id),
                Reverse(is_warm(worker)),
                Reverse(worker.free_slots()),
                worker.beyond_slots(),
                worker.record.name.as_str(),
            )
        })?;
        Some((*best, is_warm_free))
    }

    /// Returns the time until which the job waits for a busy worker with a warm workspace, if there
    /// is one.
    fn warm_wait(&self, job: &Job, spec: &JobSpec, now: Duration) -> Option<Duration> {
        let key = spec.workspace_key()?;
        let Phase::Queued { since, .. } = &job.phase else { return None };
        let until = since.clock + self.config.warm_wait;
        let exists = self.roster.fitting(spec).any(|(_, worker)| {
            worker.session().is_some()
                && !worker.is_draining()
                && !worker.is_quarantined()
                && worker.is_warm(&key)
        });
        (exists && now < until).then_some(until)
    }

    /// Returns the time until which the job waits for a worker where it has not failed, if a
    /// suitable one exists.
    fn wait_elsewhere(&self, job: &Job, now: Duration) -> Option<Duration> {
        let Phase::Queued { since, .. } = &job.phase else { return None };
        let until = since.clock + ELSEWHERE_WAIT;
        let mut fitting = self.roster.fitting(&job.record.spec);
        let exists = fitting.any(|(id, worker)| worker.is_in_service() && !job.has_failed_on(*id));
        (exists && now < until).then_some(until)
    }

    /// Returns one sentence for the submitter of a job that waits.
    pub(crate) fn reason(&self, spec: &JobSpec, obstacle: &Obstacle) -> String {
        match obstacle {
            Obstacle::Group(holder) if !self.may_know(spec, *holder) => {
                "a job of the same concurrency group is running".to_owned()
            }
            obstacle => obstacle.sentence(),
        }
    }

    /// Returns false if the submitter's token reads its own jobs only, and this one has another submitter.
    fn may_know(&self, spec: &JobSpec, other: JobId) -> bool {
        spec.access.only_submitter().is_none_or(|own| {
            let other = self.jobs.get(&other);
            other.is_some_and(|other| other.record.spec.access.names.first().is_some_and(|name| name == own))
        })
    }

    /// Names the jobs that hold the slots a queued job waits for: ` (running there: …)`. Empty if it
    /// does not wait for slots or resources.
    pub(crate) fn holders(&self, spec: &JobSpec, obstacle: &Obstacle) -> String {
        let Obstacle::Workers(blocking) = obstacle else { return String::new() };
        if blocking.busy + blocking.without_resources == 0 {
            return String::new();
        }
        let fitting = self.roster.fitting(spec).filter(|(_, worker)| worker.is_in_service());
        let held: Vec<(JobId, &str)> = fitting
            .flat_map(|(_, worker)| worker.jobs.keys().map(|job| (*job, worker.record.name.as_str())))
            .collect();
        let all = held.len();
        let held: Vec<(JobId, &str)> =
            held.into_iter().filter(|(holder, _)| self.may_know(spec, *holder)).collect();
        let of_others = all - held.len();
        let more = held.len().saturating_sub(HOLDERS_NAMED_MAX);
        let mut named: Vec<String> =
            held.iter().take(HOLDERS_NAMED_MAX).map(|(job, worker)| format!("{job} on `{worker}`")).collect();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        if of_others > 0 {
            named.push(format!("{of_others} of others"));
        }
        if named.is_empty() { String::new() } else { format!(" (jobs there: {})", named.join(", ")) }
    }

    fn blocking(&self, spec: &JobSpec, reserved: &Reserved) -> BlockingReasons {
        let mut blocking = BlockingReasons::default();
        for (_, worker) in self.roster.fitting(spec) {
            let count = if worker.session().is_none() {
                &mut blocking.absent
            } else if worker.is_draining() {
                &mut blocking.draining
            } else if worker.is_quarantined() {
                &mut blocking.quarantined
            } else if !worker.record.approved {
                &mut blocking.unapproved
            } else if worker.free_slots() == 0 || worker.declined {
                &mut blocking.busy
            } else if worker.shortage(spec, &Reserved::default()) == 0 && worker.shortage(spec, reserved) > 0
            {
                &mut blocking.reserved
            } else {
                &mut blocking.without_resources
            };
            *count += 1;
        }
        blocking
    }
}

impl Obstacle {
    /// Returns one sentence for the client that waits.
    fn sentence(&self) -> String {
        match self {
            Self::None(_) => "about to be granted".to_owned(),
            Self::Warm { .. } => {
                "a worker with a warm workspace of this project is busy; another one is taken shortly"
                    .to_owned()
            }
            Self::Elsewhere { .. } => {
                "it failed for the machine's sake where there is room; the other workers that fit are awaited for a while"
                    .to_owned()
            }
            Self::PoolDraining => "the coordinator is draining and grants nothing".to_owned(),
            Self::Group(holder) => format!("job {holder} of the same concurrency group is running"),
            Self::Quota { submitter, running } => {
                let running = counted(*running as u64, "job");
                format!("`{submitter}` has {running} running already, which is the quota (running_jobs)")
            }
            Self::Secrets(names) => format!(
                "the values of its secrets ({}) were lost when the coordinator restarted; they are never stored; a `run` that still waits gives them again, without one the job ends after a while and is to be submitted again",
                names.join(", ")
            ),
            Self::Unsatisfiable(missing) => format!("{missing}; waiting for one to join"),
            Self::Workers(blocking) => blocking.sentence(),
        }
    }
}

impl BlockingReasons {
    fn sentence(self) -> String {
        let parts: Vec<String> = [
            (self.busy, "busy"),
            (self.without_resources, "short of a counted resource"),
            (self.reserved, "keeping a counted resource for a job that goes first"),
            (self.draining, "draining"),
            (self.quarantined, "quarantined"),
            (self.unapproved, "waiting for an operator's approval"),
            (self.absent, "not connected"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        let total = self.busy
            + self.without_resources
            + self.reserved
            + self.draining
            + self.quarantined
            + self.unapproved
            + self.absent;
        match total {
            1 => format!("the one worker that fits is {}", parts.join(", ").trim_start_matches("1 ")),
            _ => format!("of {total} workers that fit: {}", parts.join(", ")),
        }
    }
}
