//! Facts that the product code cannot access: behaviour of jobs, living processes, and violated
//! invariants.

use super::clock::Time;
use super::dice::Dice;
use super::network::Network;
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
    /// Attempts that a worker ended because it was disconnected.
    pub cut_offs: u64,
    /// Attempts that were fenced, except those of cancelled jobs.
    pub fenced: u64,
    /// Simulated time in seconds.
    pub seconds: u64,
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
        self.cut_offs += other.cut_offs;
        self.fenced += other.fenced;
        self.seconds += other.seconds;
    }
}

#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) dice: Dice,
    pub(crate) network: Network,
    pub(crate) behaviours: BTreeMap<JobId, Behaviour>,
    pub(crate) counts: Counts,
    /// Jobs with a recorded cancel. Such a job may end without its worker.
    pub(crate) cancelled: BTreeSet<JobId>,
    pub(crate) coordinator_listens: bool,
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
            behaviours: BTreeMap::new(),
            counts: Counts::default(),
            cancelled: BTreeSet::new(),
            coordinator_listens: true,
            is_calm: false,
            trace: traces.then(Vec::new),
            violation: None,
        }
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.violation.get_or_insert(what.into());
    }

    pub(crate) fn check(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.fail(what);
        }
    }

    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn note(&mut self, now: Time, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12.3}  {}", now.as_secs_f64(), what()));
        }
    }

    pub(crate) fn next_execution(&mut self) -> u64 {
        self.counts.executions += 1;
        self.counts.executions
    }
}
