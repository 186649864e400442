//! State, verdict and cause of a job.

use serde::{Deserialize, Serialize};
use std::fmt;

/// State of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for a worker.
    #[default]
    Queued,
    /// Granted. The workspace is being prepared.
    Preparing,
    /// The process runs.
    Running,
    /// The process has ended. Log, evidence and result are still being transferred.
    Sealing,
    /// Finished.
    Done,
}

impl JobState {
    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Sealing => "sealing",
            Self::Done => "done",
        }
    }
}

/// The verdict of a job for its submitter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It exited with 0 and no evidence contradicts the success.
    Passed,
    /// It exited with another code, or its tests failed.
    Failed,
    /// It, or the process it tested, crashed.
    Crashed,
    /// It exceeded its time limit.
    TimedOut,
    /// A user cancelled it.
    Cancelled,
    /// Its worker is lost. The command is not at fault.
    Lost,
    /// It was never run: no worker could run it, or its workspace could not be prepared.
    Rejected,
    /// The evidence is contradictory.
    Inconclusive,
}

impl Verdict {
    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Rejected => "rejected",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Source of a cause, the most reliable first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownFrom {
    /// An action of the pool.
    Pool,
    /// The wait status of the process.
    WaitStatus,
    /// A crash report.
    CrashReport,
    /// A test report or result bundle.
    Report,
    /// A line of the log.
    Marker,
    /// An exit code of 128+n: a guess.
    ShellConvention,
}

/// Cause of the end of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cause {
    /// One sentence for users.
    pub text: String,
    /// Source of the cause.
    pub known_from: KnownFrom,
}

/// Reason and position of a waiting job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Waiting {
    /// One sentence.
    pub reason: String,
    /// Number of jobs ahead in the queue, plus one.
    pub position: Option<u64>,
    /// RFC 3339.
    pub since: String,
    /// Estimate from history in seconds, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_secs: Option<f64>,
}
