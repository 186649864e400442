//! Jobs as they go, and what is listed: jobs, workers, tokens, the audit log.

use crate::ids::TokenId;
use crate::report::{JobState, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A live view.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Where the job stands.
    pub state: JobState,
    /// Why it waits.
    pub waiting: Option<crate::report::Waiting>,
    /// False while its worker can't be reached.
    pub connected: bool,
    /// On which worker.
    pub worker: Option<String>,
    /// Lines so far, both streams.
    pub lines: u64,
    /// Errors so far.
    pub errors: u64,
    /// Tests that ended so far.
    pub tests_done: u64,
    /// Tests in all, where the tool said so.
    pub tests_total: Option<u64>,
    /// One sentence of what it is doing.
    pub text: String,
}

/// A job in a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job.
    pub job_id: String,
    /// In one line.
    pub command: String,
    /// Where it stands.
    pub state: JobState,
    /// Null until done.
    pub verdict: Option<Verdict>,
    /// The process's own, else null.
    pub exit_code: Option<i32>,
    /// On which worker.
    pub worker: Option<String>,
    /// Who asked.
    pub submitter: String,
    /// RFC 3339.
    pub created_at: String,
    /// How long the process ran.
    pub duration_secs: Option<f64>,
    /// Why it waits.
    pub waiting: Option<crate::report::Waiting>,
}

/// A worker in a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkerSummary {
    /// Unique in the pool.
    pub name: String,
    /// Its lasting identity.
    pub worker_id: String,
    /// The name of the token that its name and identity belong to.
    #[serde(default)]
    pub token: Option<String>,
    /// Whether it is connected.
    pub connected: bool,
    /// Takes no more jobs.
    pub draining: bool,
    /// Why it takes no jobs although it is connected and not draining.
    pub quarantined: Option<String>,
    /// Jobs at a time.
    pub slots: u32,
    /// Of them in use.
    pub busy: u32,
    /// As matched by `--label`.
    pub labels: BTreeMap<String, String>,
    /// Name to how many in all.
    pub resources: BTreeMap<String, u32>,
    /// Jobs that it runs.
    pub jobs: Vec<String>,
    /// RFC 3339.
    pub last_seen: Option<String>,
    /// Of its software.
    pub version: String,
}

/// What a token allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// To be a worker.
    Worker,
    /// To submit jobs and read the pool's.
    Submit,
    /// To read metrics, the page, lists, results and logs. It changes nothing and submits nothing.
    Read,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Submit, Self::Read, Self::Admin];

    /// `worker`, `submit`, `read`, `admin`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

/// A fresh token; printed once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenCreated {
    /// The secret.
    pub token: String,
    /// For listing and revoking.
    pub id: TokenId,
    /// For what.
    pub role: Role,
    /// For whom.
    pub name: String,
}

/// A line of the audit log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuditEntry {
    /// RFC 3339.
    pub at: String,
    /// Who: a token's name, or `data directory` for one who has access to the files.
    pub actor: String,
    /// What, as in `token_create`, `cancel`, `drain`, `refused`.
    pub action: String,
    /// On what.
    pub subject: String,
    /// Anything else worth knowing; never a secret.
    pub detail: String,
    /// Its place in the log, which only grows; 0 from a coordinator that does not say it.
    #[serde(default)]
    pub seq: u64,
}

/// A token in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenSummary {
    /// For revoking.
    pub id: TokenId,
    /// For what.
    pub role: Role,
    /// For whom.
    pub name: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub expires_at: Option<String>,
    /// RFC 3339.
    pub revoked_at: Option<String>,
}
