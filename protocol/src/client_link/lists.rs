//! Progress of jobs, and list entries for jobs, workers, tokens and the audit log.

use crate::ids::TokenId;
use crate::report::{JobState, Verdict};
use crate::spec::Restriction;
use crate::upgrade::UpgradeState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Live progress of a job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// State of the job.
    pub state: JobState,
    /// Reason why the job waits.
    pub waiting: Option<crate::report::Waiting>,
    /// False while its worker cannot be reached.
    pub connected: bool,
    /// Name of its worker.
    pub worker: Option<String>,
    /// Lines so far, both streams.
    pub lines: u64,
    /// Errors so far.
    pub errors: u64,
    /// Tests that ended so far.
    pub tests_done: u64,
    /// Total number of tests, if the tool reports it.
    pub tests_total: Option<u64>,
    /// One sentence about the current activity.
    pub text: String,
    /// The test that runs, if the log shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_test: Option<String>,
    /// Seconds since the last output of the command, or since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_secs: Option<u64>,
}

/// A job in a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// Id of the job.
    pub job_id: String,
    /// The command in one line.
    pub command: String,
    /// State of the job.
    pub state: JobState,
    /// Null until done.
    pub verdict: Option<Verdict>,
    /// Exit code of the process itself, else null.
    pub exit_code: Option<i32>,
    /// Name of its worker.
    pub worker: Option<String>,
    /// Name of the submitter.
    pub submitter: String,
    /// RFC 3339.
    pub created_at: String,
    /// Run time of the process.
    pub duration_secs: Option<f64>,
    /// Reason why the job waits.
    pub waiting: Option<crate::report::Waiting>,
    /// Root or name of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Start of the process (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// The build that it belongs to: `build-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The first likely cause of its failure, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
    /// The requested labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// A worker in a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerSummary {
    /// Name, unique in the pool.
    pub name: String,
    /// Permanent identity of the worker.
    pub worker_id: String,
    /// Name of the token that owns the worker's name and identity.
    #[serde(default)]
    pub token: Option<String>,
    /// True while the worker is connected.
    pub connected: bool,
    /// True if it accepts no more jobs.
    pub draining: bool,
    /// Reason why it accepts no jobs although it is connected and not draining.
    pub quarantined: Option<String>,
    /// Number of concurrent jobs.
    pub slots: u32,
    /// Number of slots in use.
    pub busy: u32,
    /// Labels, as matched by `--label`.
    pub labels: BTreeMap<String, String>,
    /// Total units of each resource.
    pub resources: BTreeMap<String, u32>,
    /// The submitters and teams whose jobs it takes; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// Jobs that it runs.
    pub jobs: Vec<String>,
    /// RFC 3339.
    pub last_seen: Option<String>,
    /// Version of its software.
    pub version: String,
    /// Free space of its disk for spools and workspaces, in bytes, as it reported last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Size of that disk, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_total_bytes: Option<u64>,
    /// Target of the programs that may replace its own. Absent if it accepts no programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_target: Option<String>,
    /// The upgrade that it carries out, or that failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeState>,
}

/// Permissions of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May connect as a worker.
    Worker,
    /// May submit jobs and read the pool's jobs.
    Submit,
    /// May read metrics, the page, lists, results and logs. It may not change or submit anything.
    Read,
    /// All permissions.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Submit, Self::Read, Self::Admin];

    /// Returns the name: `worker`, `submit`, `read`, `admin`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

/// A new token. It is shown only once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenCreated {
    /// The secret.
    pub token: String,
    /// Id for listing and revoking.
    pub id: TokenId,
    /// Role of the token.
    pub role: Role,
    /// Name of the token's owner.
    pub name: String,
}

/// A line of the audit log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// RFC 3339.
    pub at: String,
    /// Name of the token used, or `data directory` for access through the files.
    pub actor: String,
    /// The action, for example `token_create`, `cancel`, `drain`, `refused`.
    pub action: String,
    /// The object of the action.
    pub subject: String,
    /// Other useful details, never a secret.
    pub detail: String,
    /// Sequence number in the log. It only grows. 0 if the coordinator does not send it.
    #[serde(default)]
    pub seq: u64,
    /// Address that the request came from. Absent for access through the files, and for the pool's
    /// own actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

/// A token in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenSummary {
    /// Id for revoking.
    pub id: TokenId,
    /// Role of the token.
    pub role: Role,
    /// Name of the token's owner.
    pub name: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub expires_at: Option<String>,
    /// RFC 3339.
    pub revoked_at: Option<String>,
    /// Where its jobs may run, on which projects, and which jobs it may read.
    #[serde(default, skip_serializing_if = "Restriction::is_none")]
    pub only: Restriction,
}
