//! The parts that all simulated programs share (network, records), and facts that the product code cannot access:
//! behaviour of jobs, living processes, and violated invariants.

use super::clock::Time;
use super::dice::Dice;
use super::disk::Disk;
use super::network::Network;
use super::shared::SharedStore;
use buildpool_pool::Change;
use buildpool_protocol::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Behaviour of a job's process.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) prepares: Duration,
    pub(crate) runs: Duration,
    pub(crate) code: i32,
    pub(crate) ignores_term: bool,
    /// Time from SIGTERM to its end, if it reacts to SIGTERM.
    pub(crate) term_takes: Duration,
    pub(crate) kill_takes: Duration,
    pub(crate) bytes_per_second: u64,
    /// True if it crashes its machine after some time.
    pub(crate) is_poison: bool,
}

/// Counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Accepted jobs.
    pub jobs: u64,
    /// Started processes.
    pub executions: u64,
    /// Faults that occurred.
    pub faults: u64,
    /// Crashes of the coordinator among them.
    pub coordinator_crashes: u64,
    /// Boundaries between two effects, at each of which the coordinator could crash.
    pub boundaries: u64,
    /// Steps of the simulation.
    pub steps: u64,
    /// Attempts that counted as lost, except those of cancelled jobs.
    pub losses: u64,
    /// Attempts that were retried after an infrastructure failure, as the submitter allowed.
    pub retries: u64,
    /// Grants that a worker declined.
    pub declines: u64,
    /// Grants that waited on a worker for a slot and then started.
    pub early_starts: u64,
    /// Attempts that a worker ended because it was disconnected.
    pub cut_offs: u64,
    /// Attempts that were fenced, except those of cancelled jobs.
    pub fenced: u64,
    /// Simulated time in seconds.
    pub seconds: u64,
    /// Coordinators that began to lead, if there are several.
    pub leaderships: u64,
    /// Transactions that the shared store refused, because another coordinator led.
    pub fenced_commits: u64,
    /// Promotions of a standby server that lost commits.
    pub lost_commits: u64,
}

impl Counts {
    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.executions += other.executions;
        self.faults += other.faults;
        self.coordinator_crashes += other.coordinator_crashes;
        self.boundaries += other.boundaries;
        self.steps += other.steps;
        self.losses += other.losses;
        self.retries += other.retries;
        self.declines += other.declines;
        self.early_starts += other.early_starts;
        self.cut_offs += other.cut_offs;
        self.fenced += other.fenced;
        self.seconds += other.seconds;
        self.leaderships += other.leaderships;
        self.fenced_commits += other.fenced_commits;
        self.lost_commits += other.lost_commits;
    }
}

/// State of a coordinator for its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    /// It answers nothing.
    Away,
    /// It does not lead, and names the leader that it knows.
    Standby(Option<usize>),
    /// It serves links.
    Leading,
}

#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) dice: Dice,
    pub(crate) network: Network,
    pub(crate) disk: Disk,
    /// The server with the records, if there are several coordinators.
    pub(crate) shared: SharedStore,
    pub(crate) behaviours: BTreeMap<JobId, Behaviour>,
    pub(crate) counts: Counts,
    /// Jobs with a recorded cancel. Such a job may end without its worker.
    pub(crate) cancelled: BTreeSet<JobId>,
    pub(crate) presence: Vec<Presence>,
    /// True if no job crashes its machine.
    pub(crate) is_calm: bool,
    pub(crate) trace: Option<Vec<String>>,
    violation: Option<String>,
}

impl Truth {
    pub(crate) fn new(dice: Dice, traces: bool) -> Self {
        Self {
            dice,
            network: Network::default(),
            disk: Disk::default(),
            shared: SharedStore::default(),
            behaviours: BTreeMap::new(),
            counts: Counts::default(),
            cancelled: BTreeSet::new(),
            presence: vec![Presence::Leading],
            is_calm: false,
            trace: traces.then(Vec::new),
            violation: None,
        }
    }

    pub(crate) fn fail(&mut self, event: impl Into<String>) {
        self.violation.get_or_insert(event.into());
    }

    pub(crate) fn check(&mut self, result: Result<(), String>) {
        if let Err(event) = result {
            self.fail(event);
        }
    }

    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn note(&mut self, now: Time, event: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12.3}  {}", now.as_secs_f64(), event()));
        }
    }

    /// Writes a change to the records, and counts it.
    pub(crate) fn write(&mut self, change: &Change, now: Time) {
        match change {
            Change::CancelRequested { job, .. } => drop(self.cancelled.insert(*job)),
            Change::Attempt { job, attempt } => {
                self.counts.losses += u64::from(attempt.counted && !self.cancelled.contains(job));
                self.counts.retries += u64::from(attempt.retried);
            }
            _ => {}
        }
        self.note(now, || format!("  writes {}", describe(change)));
        let written = self.disk.write(change);
        self.check(written);
    }

    /// Returns true if records of the job were lost with a primary server.
    pub(crate) fn is_forgotten(&self, job: JobId) -> bool {
        self.shared.forgotten.contains(&job)
    }

    pub(crate) fn next_execution(&mut self) -> u64 {
        self.counts.executions += 1;
        self.counts.executions
    }
}

fn describe(change: &Change) -> String {
    match change {
        Change::Submitted(record) => format!("job {}", record.job),
        Change::Attempt { job, attempt } => {
            format!("attempt {job}/{} on {}: lost {:?}", attempt.number, attempt.worker_name, attempt.lost)
        }
        Change::CancelRequested { job, .. } => format!("cancel of {job}"),
        Change::Done { job, record } => format!("end of {job}: {:?} {:?}", record.verdict, record.cause),
        Change::Attachable { job, attachable } => format!("job {job} attachable: {attachable}"),
        Change::Worker(record) => format!("worker {}", record.name),
        Change::WorkerForgotten(worker) => format!("worker {worker} is forgotten"),
    }
}
