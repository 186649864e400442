//! What is known of an attempt beside its log.

use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::outcome::{Acted, Ending, Outcome, SetupOutcome};
use buildpool_protocol::report::{GapEntry, Survivor};
use std::collections::BTreeSet;

/// How the attempt ended, what files said, and what earlier runs looked like.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The kernel's word; none when there is only a log.
    pub ending: Option<Ending>,
    /// Why the pool ended it, if it did.
    pub acted: Option<Acted>,
    /// How the setup ended, if it did not pass: then the command did not run.
    pub failed_setup: Option<SetupOutcome>,
    /// What files said.
    pub evidence: Evidence,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
    /// Processes that outlived the command and were ended.
    pub leaked: Vec<Survivor>,
    /// Holes in the log that were not given to the digester as such.
    pub gaps: Vec<GapEntry>,
    /// Earlier runs of the same command and project.
    pub history: History,
    /// Directories that paths are shown relative to, where they became known with the end: the workspace on its worker.
    pub roots: Vec<String>,
}

impl Facts {
    /// A log alone.
    pub fn log_only() -> Self {
        Self::default()
    }

    /// What a worker said about an attempt.
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

/// What recent passing runs of the same command and project looked like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// [`signatures`](crate::Digest::signatures) of their findings.
    pub passing_signatures: BTreeSet<String>,
    /// Tests in the last run that passed.
    pub last_good_tests: Option<u64>,
}
