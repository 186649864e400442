//! What no part of the product knows: how jobs behave, which processes live, and whether a promise was broken.

use super::clock::Time;
use super::dice::Dice;
use super::network::Network;
use buildpool_protocol::ids::JobId;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the process of a job does.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) prepares: Duration,
    pub(crate) runs: Duration,
    pub(crate) code: i32,
    pub(crate) ignores_term: bool,
    /// From SIGTERM to its end, if it heeds that.
    pub(crate) term_takes: Duration,
    pub(crate) kill_takes: Duration,
    pub(crate) bytes_per_second: u64,
    /// It brings its machine down after a while.
    pub(crate) is_poison: bool,
}

/// Counted over a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Jobs that were accepted.
    pub jobs: u64,
    /// Processes that were started.
    pub executions: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Crashes of the coordinator among them.
    pub coordinator_crashes: u64,
    /// Moments between two effects, at each of which the coordinator could have died.
    pub boundaries: u64,
    /// Steps of the simulation.
    pub steps: u64,
    /// Attempts that counted as lost.
    pub losses: u64,
    /// Attempts that failed for infrastructure and were tried again, as the submitter allowed.
    pub retries: u64,
    /// Grants that a worker declined.
    pub declines: u64,
    /// Attempts that a worker ended because it was cut off.
    pub cut_offs: u64,
    /// Attempts that were fenced.
    pub fenced: u64,
    /// Simulated time.
    pub seconds: u64,
}

impl Counts {
    /// Adds those of another run.
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
    pub(crate) coordinator_listens: bool,
    /// No job brings its machine down.
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

    /// For whoever reads a failure; costs nothing while nobody does.
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
