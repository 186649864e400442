//! What can be asked about the present.

use crate::effect::{AttemptRecord, JobRecord, WorkerRecord};
use crate::input::Now;
use crate::job::{Job, Phase};
use crate::pool::Pool;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::JobState;
use buildpool_protocol::worker_link::HeldState;
use std::sync::Arc;

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
    /// Why it waits, its place, and since when (milliseconds since 1970).
    pub waiting: Option<(String, u64, i64)>,
    /// Somebody asked to end it.
    pub cancelling: bool,
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

impl Pool {
    /// A live job; none when it is unknown or done.
    pub fn live_job(&self, now: Now, id: JobId) -> Option<LiveJob> {
        self.jobs.get(&id).map(|job| self.view(now, job))
    }

    /// Ids of all live jobs, oldest first.
    pub fn live_ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
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

    /// How many jobs wait, and how many are granted.
    pub fn load(&self) -> (usize, usize) {
        let waiting = self.queue.len() + self.parked.len();
        (waiting, self.jobs.len() - waiting)
    }

    fn view(&self, now: Now, job: &Job) -> LiveJob {
        let (state, connected, waiting) = match &job.phase {
            Phase::Queued { since, .. } => {
                let reason = self.obstacle(job, now.clock).sentence();
                let position = self.queue.ahead_of(job.record.spec.priority, job.record.order) + 1;
                (JobState::Queued, true, Some((reason, position, since.wall_ms)))
            }
            Phase::Granted(granted) => {
                let state = match granted.state {
                    HeldState::Preparing => JobState::Preparing,
                    HeldState::Running | HeldState::Ending => JobState::Running,
                    HeldState::Ended => JobState::Sealing,
                };
                let connected = granted.missing_since.is_none()
                    && self.roster.get(granted.worker).is_some_and(|worker| worker.session().is_some());
                (state, connected, None)
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
