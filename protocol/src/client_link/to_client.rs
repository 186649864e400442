//! What the coordinator says to a client.

use super::{
    AuditEntry, Cursor, JobSummary, LogAnswer, Progress, Role, TokenCreated, TokenSummary, WorkerSummary,
};
use crate::error::LinkError;
use crate::ids::JobId;
use crate::report::{Finding, JobResult};
use serde::{Deserialize, Serialize};

/// What the coordinator says to a client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToClient {
    /// Answers `register`.
    Registered {
        /// The version that is spoken from here on.
        protocol: u16,
        /// Of the coordinator's software.
        version: String,
        /// Whether jobs may run in place: coordinator and client are on one machine.
        local: bool,
        /// What the token allows.
        role: Role,
    },
    /// Answers `submit`: the job is on disk.
    Accepted {
        /// Of the request.
        request: u32,
        /// The job; another one than asked for when an earlier request was the same.
        job: JobId,
        /// Whether it is an earlier job.
        reattached: bool,
    },
    /// How a job is: answers `job` and `cancel`, and comes unasked on a `submit` that asked for updates.
    Job {
        /// Of the request.
        request: u32,
        /// The job, at this moment.
        result: Box<JobResult>,
    },
    /// A job that was submitted with `wait` is done; nothing more comes for this request.
    Complete {
        /// Of the request.
        request: u32,
        /// The job.
        result: Box<JobResult>,
    },
    /// A live view of a job that somebody waits for, at most once a second.
    Progress {
        /// Of the request.
        request: u32,
        /// So far.
        progress: Progress,
    },
    /// The followed log is at its end: the attempt is sealed, or `to_end` was asked for.
    End {
        /// The channel.
        request: u32,
        /// Where the reader stands.
        cursor: Cursor,
    },
    /// A new attempt of a followed job began; its chunks come next, from position 0.
    Attempt {
        /// The channel.
        request: u32,
        /// Its number.
        attempt: u32,
    },
    /// Answers `logs`.
    Logs {
        /// Of the request.
        request: u32,
        /// The part.
        logs: Box<LogAnswer>,
    },
    /// Answers `finding`.
    Finding {
        /// Of the request.
        request: u32,
        /// Whole.
        finding: Box<Finding>,
    },
    /// Answers `explain`.
    Explain {
        /// Of the request.
        request: u32,
        /// Lines for a person.
        text: String,
    },
    /// Answers `jobs`.
    Jobs {
        /// Of the request.
        request: u32,
        /// Newest first.
        jobs: Vec<JobSummary>,
    },
    /// Answers `workers`, `drain`, `approve` and `forget`.
    Workers {
        /// Of the request.
        request: u32,
        /// By name.
        workers: Vec<WorkerSummary>,
    },
    /// Answers `token_create` and `token_rotate`; the only time that the token is said.
    Token {
        /// Of the request.
        request: u32,
        /// With the token.
        created: TokenCreated,
    },
    /// Answers `token_list` and `token_revoke`.
    Tokens {
        /// Of the request.
        request: u32,
        /// By creation.
        tokens: Vec<TokenSummary>,
    },
    /// Answers `audit`.
    Audit {
        /// Of the request.
        request: u32,
        /// Newest first.
        entries: Vec<AuditEntry>,
    },
    /// The request could not be served; without a number, the connection ends.
    Error {
        /// Of the request.
        request: Option<u32>,
        /// Why.
        error: LinkError,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

impl ToClient {
    /// The number of the request that this answers, where it answers one.
    pub const fn request(&self) -> Option<u32> {
        match self {
            Self::Registered { .. } | Self::Transfer(_) => None,
            Self::Error { request, .. } => *request,
            Self::Accepted { request, .. }
            | Self::Job { request, .. }
            | Self::Complete { request, .. }
            | Self::Progress { request, .. }
            | Self::End { request, .. }
            | Self::Attempt { request, .. }
            | Self::Logs { request, .. }
            | Self::Finding { request, .. }
            | Self::Explain { request, .. }
            | Self::Jobs { request, .. }
            | Self::Workers { request, .. }
            | Self::Token { request, .. }
            | Self::Tokens { request, .. }
            | Self::Audit { request, .. } => Some(*request),
        }
    }
}
