//! Views of the current state.

use crate::effect::{AttemptRecord, JobRecord, WorkerRecord};
use crate::estimate::{CLASSES_COMPARED_MAX, ComparisonBudget};
use crate::input::Now;
use crate::job::{Granted, Job, Phase};
use crate::pool::Pool;
use crate::queue::Class;
use buildpool_protocol::ids::{JobId, WorkerId};
use buildpool_protocol::report::JobState;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::upgrade::UpgradeState;
use buildpool_protocol::worker_link::HeldState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A live job.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveJob {
    /// The submitted job.
    pub record: Arc<JobRecord>,
    /// All attempts, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// Its state.
    pub state: JobState,
    /// False while its worker cannot be reached.
    pub connected: bool,
    /// Set while it waits.
    pub waiting: Option<WaitInfo>,
    /// True if it was cancelled.
    pub cancelling: bool,
}

/// Reason and position of a waiting job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitInfo {
    /// One sentence.
    pub reason: String,
    /// Number of jobs ahead that could run on the same workers, plus one. Set only if requested.
    pub position: Option<u64>,
    /// Milliseconds since 1970.
    pub since_ms: i64,
    /// Estimated remaining wait, if there is enough history.
    pub estimate: Option<Duration>,
}

impl WaitInfo {
    /// A wait for something other than jobs.
    pub const fn new(reason: String, since_ms: i64) -> Self {
        Self { reason, position: None, since_ms, estimate: None }
    }
}

/// A worker.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkerView {
    /// Its record.
    pub record: Arc<WorkerRecord>,
    /// True while it is connected.
    pub connected: bool,
    /// True if it accepts no more jobs.
    pub draining: bool,
    /// Reason why it accepts no jobs although it is connected.
    pub quarantined: Option<String>,
    /// Free disk space that it reported last, in bytes.
    pub disk_free_bytes: Option<u64>,
    /// Size of that disk, in bytes.
    pub disk_total_bytes: Option<u64>,
    /// Target of the programs that may replace its own.
    pub upgrade_target: Option<String>,
    /// The upgrade that it carries out, or that failed last.
    pub upgrade: Option<UpgradeState>,
    /// Slots that are not free.
    pub busy: u32,
    /// Jobs granted to it. Some of them may wait there for a slot.
    pub jobs: Vec<JobId>,
}

/// Number of live jobs by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// All live jobs.
    pub live: usize,
    /// Queued jobs.
    pub queued: usize,
    /// Jobs with a workspace in preparation.
    pub preparing: usize,
    /// Jobs with a running command.
    pub running: usize,
    /// Jobs with a log or result in transfer.
    pub sealing: usize,
}

/// Jobs that wait for a worker with a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelQueue {
    /// Number of the jobs.
    pub jobs: usize,
    /// Start of the longest wait, in milliseconds since 1970.
    pub since_ms: i64,
}

/// Name in `Pool::queues` for jobs that request no label.
const NO_LABEL: &str = "none";
/// Name in [`Pool::queues`] for labels that no known worker offers.
const OTHER_LABELS: &str = "other";
/// Maximum number of different labels that [`Pool::queues`] looks at.
const QUEUES_MAX: usize = 200;

/// Returns the state of a job from the state of its attempt.
fn state(held: HeldState) -> JobState {
    match held {
        HeldState::Preparing => JobState::Preparing,
        HeldState::Running | HeldState::Ending => JobState::Running,
        HeldState::Ended => JobState::Sealing,
    }
}

/// Different requirements in a list whose jobs have their own reason.
const REASONS_MAX: usize = 20;
/// Reason of the other waiting jobs of a list.
const REASON_OF_OTHERS: &str = "it waits for a worker; `buildpool job ID` gives the reason";
/// Jobs of a list that have a position and an estimate.
const PLACED_MAX: usize = 20;

fn state_of(job: &Job) -> JobState {
    job.granted().map_or(JobState::Queued, |granted| state(granted.state))
}

impl Pool {
    /// Returns a live job, or `None` if it is unknown or done.
    pub fn live_job(&self, now: Now, id: JobId) -> Option<LiveJob> {
        self.jobs.get(&id).map(|job| self.view(now, job, Some(&mut ComparisonBudget::for_one_answer())))
    }

    /// Returns the ids of all live jobs, oldest first.
    pub fn live_ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// Returns the specs of all live jobs.
    pub fn live_specs(&self) -> impl Iterator<Item = &JobSpec> {
        self.jobs.values().map(|job| &*job.record.spec)
    }

    /// Returns all live jobs, newest first, without position and estimate.
    pub fn live_jobs(&self, now: Now) -> Vec<LiveJob> {
        self.jobs.values().rev().map(|job| self.view(now, job, None)).collect()
    }

    /// Returns the newest `limit` live jobs that match, newest first.
    ///
    /// The first 20 have position and estimate. After them, jobs with the same requirements have the reason of
    /// the first of them, for some different requirements: one list must not take the time of a search through
    /// all workers for each job.
    pub fn newest_jobs(
        &self,
        now: Now,
        limit: usize,
        wanted: impl Fn(JobState, &JobRecord, &[AttemptRecord]) -> bool,
    ) -> Vec<LiveJob> {
        let mut reasons: BTreeMap<Class, String> = BTreeMap::new();
        let mut budget = ComparisonBudget::for_one_answer();
        let newest_first = self.jobs.values().rev();
        let picked = newest_first.filter(|job| wanted(state_of(job), &job.record, &job.attempts)).take(limit);
        let viewed = picked.enumerate().map(|(index, job)| match &job.phase {
            Phase::Queued { since, .. } if index >= PLACED_MAX => {
                let class = Class::from_spec(&job.record.spec);
                let reason = if reasons.len() >= REASONS_MAX && !reasons.contains_key(&class) {
                    REASON_OF_OTHERS.to_owned()
                } else {
                    let reason = || {
                        let spec = &job.record.spec;
                        self.reason(spec, &self.obstacle(job, &self.reserved, now.clock))
                    };
                    reasons.entry(class).or_insert_with(reason).clone()
                };
                LiveJob {
                    record: job.record.clone(),
                    attempts: job.attempts.clone(),
                    state: JobState::Queued,
                    connected: true,
                    waiting: Some(WaitInfo::new(reason, since.wall_ms)),
                    cancelling: job.cancel.is_some(),
                }
            }
            _ => self.view(now, job, (index < PLACED_MAX).then_some(&mut budget)),
        });
        viewed.collect()
    }

    /// Returns the oldest waiting jobs that match, at most 20, each with position and estimate. A list of the newest jobs
    /// has those that wait longest at its end, without a position.
    pub fn longest_waiting(&self, now: Now, wanted: impl Fn(&JobRecord) -> bool) -> Vec<LiveJob> {
        let mut budget = ComparisonBudget::for_one_answer();
        let waits = |job: &&Job| matches!(job.phase, Phase::Queued { .. }) && wanted(&job.record);
        let oldest = self.jobs.values().filter(waits).take(PLACED_MAX);
        oldest.map(|job| self.view(now, job, Some(&mut budget))).collect()
    }

    /// Returns all known workers, sorted by identity.
    pub fn workers(&self) -> Vec<WorkerView> {
        self.roster
            .iter()
            .map(|(_, worker)| WorkerView {
                record: Arc::clone(&worker.record),
                connected: worker.session().is_some(),
                draining: worker.is_draining(),
                quarantined: worker.quarantine(),
                disk_free_bytes: worker.condition.disk_free_bytes,
                disk_total_bytes: worker.condition.disk_total_bytes,
                upgrade_target: worker.condition.upgrade_target.clone(),
                upgrade: worker.condition.upgrade.clone(),
                busy: worker.record.slots - worker.free_slots(),
                jobs: worker.jobs.keys().copied().collect(),
            })
            .collect()
    }

    /// Returns the waiting jobs by the labels that they request. A job counts for each of its labels. Only labels that a
    /// known worker offers have an entry of their own, so submitters can't create entries.
    pub fn queues(&self) -> BTreeMap<String, LabelQueue> {
        let mut queues: BTreeMap<String, LabelQueue> = BTreeMap::new();
        // A look at all workers for each job would take too long.
        let mut offered: BTreeMap<String, bool> = BTreeMap::new();
        for job in self.jobs.values() {
            let Phase::Queued { since, .. } = &job.phase else { continue };
            let mut names: BTreeSet<String> = BTreeSet::new();
            for selector in &job.record.spec.selectors {
                let name = selector.to_string();
                let is_offered = match offered.get(&name) {
                    Some(is_offered) => *is_offered,
                    None if offered.len() >= QUEUES_MAX => false,
                    None => {
                        let is_offered = self.roster.is_offered(selector);
                        offered.insert(name.clone(), is_offered);
                        is_offered
                    }
                };
                names.insert(if is_offered { name } else { OTHER_LABELS.to_owned() });
            }
            if names.is_empty() {
                names.insert(NO_LABEL.to_owned());
            }
            for name in names {
                let first = LabelQueue { jobs: 0, since_ms: since.wall_ms };
                let queue = queues.entry(name).or_insert(first);
                queue.jobs += 1;
                queue.since_ms = queue.since_ms.min(since.wall_ms);
            }
        }
        queues
    }

    /// Returns the number of live jobs in each state.
    pub fn load(&self) -> Load {
        let queued = self.queue.len() + self.parked.len();
        let mut load = Load { live: self.jobs.len(), queued, ..Load::default() };
        let granted = self.roster.iter().flat_map(|(_, worker)| worker.jobs.keys());
        for granted in granted.filter_map(|id| self.jobs.get(id)?.granted()) {
            match state(granted.state) {
                JobState::Preparing => load.preparing += 1,
                JobState::Running => load.running += 1,
                JobState::Sealing => load.sealing += 1,
                // Granted jobs have neither state.
                JobState::Queued | JobState::Done => {}
            }
        }
        load
    }

    /// Why a job is not done although its command has ended.
    fn sealing(&self, now: Now, granted: &Granted, connected: bool) -> WaitInfo {
        let name = self.roster.get(granted.worker).map_or("", |worker| &worker.record.name);
        let reason = if granted.log_arrived {
            "the coordinator digests its log".to_owned()
        } else if connected {
            format!("worker `{name}` collects its reports and artifacts and sends the rest of its log")
        } else {
            format!("worker `{name}`, which has the rest of its log, can't be reached")
        };
        WaitInfo::new(reason, granted.ended_since_ms.unwrap_or(now.wall_ms))
    }

    fn held_back_by_disk(&self, worker: WorkerId, reason: &str) -> String {
        let name = self.roster.get(worker).map_or("", |worker| &worker.record.name);
        format!("the disk of worker `{name}` refuses its output ({reason}); it goes on when there is room")
    }

    /// Returns the state of a job; with `budget`, also its position and estimate.
    fn view(&self, now: Now, job: &Job, budget: Option<&mut ComparisonBudget>) -> LiveJob {
        let (state, connected, waiting) = match &job.phase {
            Phase::Queued { since, .. } => {
                let obstacle = self.obstacle(job, &self.reserved, now.clock);
                let holders = budget.is_some().then(|| self.holders(&job.record.spec, &obstacle));
                let (ahead, estimate) = match budget {
                    None => (None, None),
                    Some(_) if self.queue.classes() > CLASSES_COMPARED_MAX => {
                        (Some(self.at_most_ahead(job)), None)
                    }
                    Some(budget) => {
                        let ahead = self.ahead(job, budget);
                        let jobs = ahead.iter().map(|part| part.jobs).sum::<u64>();
                        (Some(jobs), self.estimate(job, &ahead, &obstacle, now.clock))
                    }
                };
                let waits = WaitInfo {
                    reason: self.reason(&job.record.spec, &obstacle) + &holders.unwrap_or_default(),
                    position: ahead.map(|jobs| jobs + 1),
                    since_ms: since.wall_ms,
                    estimate,
                };
                (JobState::Queued, true, Some(waits))
            }
            Phase::Granted(granted) => {
                let state = state(granted.state);
                let connected = granted.missing_since.is_none()
                    && self.roster.get(granted.worker).is_some_and(|worker| worker.session().is_some());
                let waits = match state {
                    JobState::Sealing => Some(self.sealing(now, granted, connected)),
                    _ => granted.output_held.as_ref().filter(|_| state == JobState::Running).map(|held| {
                        WaitInfo::new(self.held_back_by_disk(granted.worker, &held.reason), held.since_ms)
                    }),
                };
                (state, connected, waits)
            }
        };
        LiveJob {
            record: job.record.clone(),
            attempts: job.attempts.clone(),
            state,
            connected,
            waiting,
            cancelling: job.cancel.is_some(),
        }
    }
}
