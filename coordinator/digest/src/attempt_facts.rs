//! Facts about an attempt that come from outside its log.

use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, SetupOutcome};
use buildpool_protocol::report::{GapEntry, Survivor};
use std::collections::BTreeSet;

/// Ending of an attempt, evidence from its files, and history of earlier runs.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Ending reported by the kernel. None if there is only a log.
    pub ending: Option<Ending>,
    /// Reason why the pool ended the attempt, if it did.
    pub acted: Option<EndReason>,
    /// Outcome of a setup that did not pass. The command then did not run.
    pub failed_setup: Option<SetupOutcome>,
    /// Evidence read from files: reports, crash reports, memory.
    pub evidence: Evidence,
    /// Processes that could not be terminated.
    pub survivors: Vec<Survivor>,
    /// Processes that outlived the command and were terminated.
    pub leaked: Vec<Survivor>,
    /// Gaps in the log that the digester did not receive as gaps.
    pub gaps: Vec<GapEntry>,
    /// Earlier runs of the same command and project.
    pub history: History,
    /// Directories that shown paths are relative to, if they become available only at the end. This
    /// is the workspace on the worker.
    pub roots: Vec<String>,
}

impl Facts {
    /// Facts of a log without an attempt.
    pub fn log_only() -> Self {
        Self::default()
    }

    /// Returns true if the command exited with 0.
    pub(crate) fn exited_zero(&self) -> bool {
        self.ending == Some(Ending::Exited { code: 0 })
    }

    /// Returns true if the command ended in another way than with exit code 0.
    pub(crate) fn ended_badly(&self) -> bool {
        self.ending.is_some() && !self.exited_zero()
    }

    /// Facts from the outcome that a worker reported.
    pub fn of_outcome(outcome: &Outcome, history: History) -> Self {
        Self {
            ending: Some(outcome.ending.clone()),
            acted: outcome.acted.clone(),
            failed_setup: outcome.setup.clone().filter(|setup| !setup.passed()),
            evidence: outcome.evidence.clone(),
            survivors: outcome.survivors.clone(),
            leaked: outcome.leaked.clone(),
            gaps: outcome.gaps.clone(),
            history,
            roots: outcome.root.iter().cloned().collect(),
        }
    }
}

/// Data about recent passing runs of the same command and project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// [`signatures`](crate::Digest::signatures) of their findings.
    pub passing_signatures: BTreeSet<String>,
    /// Number of tests in the last run that passed.
    pub last_good_tests: Option<u64>,
}
