//! Messages from the coordinator to a client.

use super::{
    AuditEntry, Cursor, JobCursor, JobSummary, LogAnswer, Progress, Role, TokenCreated, TokenSummary,
    WorkerSummary,
};
use crate::error::LinkError;
use crate::ids::{JobId, TokenId};
use crate::report::{Finding, JobResult};
use serde::{Deserialize, Serialize};

/// A message from the coordinator to a client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToClient {
    /// Answers `register`.
    Registered {
        /// The negotiated protocol version.
        protocol: u16,
        /// Version of the coordinator's software.
        version: String,
        /// True if jobs may run in place, because coordinator and client are on one machine.
        local: bool,
        /// Role of the token.
        role: Role,
        /// Whether it takes standard input for jobs.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stdin: bool,
    },
    /// Answers `register` on a standby: another coordinator is the leader. The link closes.
    Redirect {
        /// URL of the leader, as `wss://HOST:PORT`.
        url: String,
    },
    /// Answers `submit`: the job is stored on disk.
    Accepted {
        /// Number of the request.
        request: u32,
        /// Id of the job. It differs from the requested id if an earlier request was the same.
        job: JobId,
        /// True if it is an earlier job.
        reattached: bool,
    },
    /// State of a job. Answers `job` and `cancel`, and is also sent for a `submit` that requested
    /// updates.
    Job {
        /// Number of the request.
        request: u32,
        /// The current result.
        result: Box<JobResult>,
    },
    /// A job submitted with `wait` is done. It is the last message for this request.
    Complete {
        /// Number of the request.
        request: u32,
        /// The final result.
        result: Box<JobResult>,
    },
    /// Progress of a job that a client waits for, at most once per second.
    Progress {
        /// Number of the request.
        request: u32,
        /// The progress so far.
        progress: Progress,
    },
    /// End of the followed log: the attempt is sealed, or `to_end` was requested.
    End {
        /// The channel.
        request: u32,
        /// Position of the reader.
        cursor: Cursor,
    },
    /// How much of a job's standard input the coordinator has. The first one after `accepted` names the position to
    /// send from.
    Stdin {
        /// Of the submit.
        request: u32,
        /// Bytes that are stored: the client need not keep them.
        position: u64,
        /// The client may send up to here.
        until: u64,
        /// The input has ended, or nothing reads it any more.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
    /// A new attempt of a followed job started. Its chunks follow, from position 0.
    Attempt {
        /// The channel.
        request: u32,
        /// Number of the attempt.
        attempt: u32,
    },
    /// Answers `logs`.
    Logs {
        /// Number of the request.
        request: u32,
        /// The requested part.
        logs: Box<LogAnswer>,
    },
    /// Answers `finding`.
    Finding {
        /// Number of the request.
        request: u32,
        /// The complete finding.
        finding: Box<Finding>,
    },
    /// Answers `explain`.
    Explain {
        /// Number of the request.
        request: u32,
        /// Explanation for a user, in lines.
        text: String,
    },
    /// Answers `jobs`.
    Jobs {
        /// Number of the request.
        request: u32,
        /// Newest first.
        jobs: Vec<JobSummary>,
        /// The list continues after this position. Absent at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_cursor: Option<JobCursor>,
    },
    /// Answers `workers`, `drain`, `approve`, `forget` and `upgrade`.
    Workers {
        /// Number of the request.
        request: u32,
        /// Sorted by name.
        workers: Vec<WorkerSummary>,
        /// Whether more follow: ask again with the offset of the next one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// Answers `token_create` and `token_rotate`. It is the only message that contains the token.
    Token {
        /// Number of the request.
        request: u32,
        /// The new token.
        created: TokenCreated,
    },
    /// Answers `token_list` and `token_revoke`.
    Tokens {
        /// Number of the request.
        request: u32,
        /// Sorted by creation time.
        tokens: Vec<TokenSummary>,
        /// The tokens that `token_revoke` revoked. An earlier coordinator does not send them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        revoked: Vec<TokenId>,
    },
    /// Answers `audit`.
    Audit {
        /// Number of the request.
        request: u32,
        /// Newest first.
        entries: Vec<AuditEntry>,
    },
    /// The request failed. Without a request number, the connection ends.
    Error {
        /// Number of the request.
        request: Option<u32>,
        /// The error.
        error: LinkError,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

impl ToClient {
    /// Returns the number of the request that this message answers, if any.
    pub const fn request(&self) -> Option<u32> {
        match self {
            Self::Registered { .. } | Self::Redirect { .. } | Self::Transfer(_) => None,
            Self::Error { request, .. } => *request,
            Self::Accepted { request, .. }
            | Self::Job { request, .. }
            | Self::Complete { request, .. }
            | Self::Progress { request, .. }
            | Self::End { request, .. }
            | Self::Stdin { request, .. }
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
