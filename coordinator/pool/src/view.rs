//! What can be asked about the present.

use crate::effect::{AttemptRecord, JobRecord, WorkerRecord};
use crate::input::Now;
use crate::job::{Job, Phase};
use crate::pool::Pool;
use buildpool_protocol::ids::{JobId, WorkerId};
use buildpool_protocol::report::JobState;
use buildpool_protocol::worker_link::HeldState;
use std::sync::Arc;
use std::time::Duration;

/// A live job, as it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveJob {
    /// What was asked for.
    pub record: Arc<JobRecord>,
    /// All attempts, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// Where it stands.
    pub state: JobState,
    /// False while its worker can't be reached.
    pub connected: bool,
    /// While it waits.
    pub waiting: Option<Waits>,
    /// Somebody asked to end it.
    pub cancelling: bool,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// One sentence.
    pub reason: String,
    /// Jobs that go first among those that could run on the same workers, plus one; where it was asked for.
    pub position: Option<u64>,
    /// Milliseconds since 1970.
    pub since_ms: i64,
    /// How long it will roughly go on, where history knows enough.
    pub estimate: Option<Duration>,
}

/// A worker, as it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkerView {
    /// What it is.
    pub record: WorkerRecord,
    /// Whether it is connected.
    pub connected: bool,
    /// Takes no more jobs.
    pub draining: bool,
    /// Why it takes none although it is connected.
    pub quarantined: Option<String>,
    /// Jobs granted to it.
    pub jobs: Vec<JobId>,
}

/// Live jobs by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// All of them.
    pub live: usize,
    /// They wait.
    pub queued: usize,
    /// Their files are laid out.
    pub preparing: usize,
    /// Their commands run.
    pub running: usize,
    /// Their logs are on the way.
    pub sealing: usize,
}

/// The state of a job whose worker holds it like this.
fn state(held: HeldState) -> JobState {
    match held {
        HeldState::Preparing => JobState::Preparing,
        HeldState::Running | HeldState::Ending => JobState::Running,
        HeldState::Ended => JobState::Sealing,
    }
}

impl Pool {
    /// A live job; none when it is unknown or done.
    pub fn live_job(&self, now: Now, id: JobId) -> Option<LiveJob> {
        self.jobs.get(&id).map(|job| self.view(now, job, true))
    }

    /// Ids of all live jobs, oldest first.
    pub fn live_ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// All live jobs, the newest first, without position and estimate.
    pub fn live_jobs(&self, now: Now) -> Vec<LiveJob> {
        self.jobs.values().rev().map(|job| self.view(now, job, false)).collect()
    }

    /// The newest so many live jobs that are wanted, the newest first.
    pub fn newest_jobs(&self, now: Now, limit: usize, wanted: impl Fn(&LiveJob) -> bool) -> Vec<LiveJob> {
        let newest_first = self.jobs.values().rev();
        let wanted = newest_first.filter(|job| wanted(&self.view(now, job, false)));
        wanted.take(limit).map(|job| self.view(now, job, true)).collect()
    }

    /// All workers that the pool knows, by identity.
    pub fn workers(&self) -> Vec<WorkerView> {
        self.roster
            .iter()
            .map(|(_, worker)| WorkerView {
                record: worker.record.clone(),
                connected: worker.session().is_some(),
                draining: worker.is_draining(),
                quarantined: worker.quarantine(),
                jobs: worker.jobs.keys().copied().collect(),
            })
            .collect()
    }

    /// How many live jobs are in each state.
    pub fn load(&self) -> Load {
        let queued = self.queue.len() + self.parked.len();
        let mut load = Load { live: self.jobs.len(), queued, ..Load::default() };
        let granted = self.roster.iter().flat_map(|(_, worker)| worker.jobs.keys());
        for granted in granted.filter_map(|id| self.jobs.get(id)?.granted()) {
            match state(granted.state) {
                JobState::Preparing => load.preparing += 1,
                JobState::Running => load.running += 1,
                JobState::Sealing => load.sealing += 1,
                // Neither is granted.
                JobState::Queued | JobState::Done => {}
            }
        }
        load
    }

    fn held_back_by_disk(&self, worker: WorkerId, reason: &str) -> String {
        let name = self.roster.get(worker).map_or("", |worker| &worker.record.name);
        format!("the disk of worker `{name}` refuses its output ({reason}); it goes on when there is room")
    }

    fn view(&self, now: Now, job: &Job, is_placed: bool) -> LiveJob {
        let (state, connected, waiting) = match &job.phase {
            Phase::Queued { since, .. } => {
                let obstacle = self.obstacle(job, &self.reserved, now.clock);
                let ahead = is_placed.then(|| self.ahead(job));
                let waits = Waits {
                    reason: obstacle.sentence(),
                    position: ahead.as_ref().map(|ahead| ahead.iter().map(|part| part.jobs).sum::<u64>() + 1),
                    since_ms: since.wall_ms,
                    estimate: ahead.and_then(|ahead| self.estimate(job, &ahead, &obstacle, now.clock)),
                };
                (JobState::Queued, true, Some(waits))
            }
            Phase::Granted(granted) => {
                let state = state(granted.state);
                let connected = granted.missing_since.is_none()
                    && self.roster.get(granted.worker).is_some_and(|worker| worker.session().is_some());
                let waits = granted.output_held.as_ref().filter(|_| state == JobState::Running);
                let waits = waits.map(|held| Waits {
                    reason: self.held_back_by_disk(granted.worker, &held.reason),
                    position: None,
                    since_ms: held.since_ms,
                    estimate: None,
                });
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
