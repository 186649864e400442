//! Requests with one answer, each as a type with the type of its answer.

use buildpool_protocol::client_link::{
    AuditEntry, FromClient, JobCursor, JobQuery, JobSummary, LogAnswer, LogQuery, Role, ToClient,
    TokenCreated, TokenSummary, View, WorkerSummary,
};
use buildpool_protocol::ids::{JobId, TokenId};
use buildpool_protocol::report::{Finding, JobResult};
use buildpool_protocol::spec::Restriction;
use buildpool_protocol::upgrade::UpgradeOrder;
use std::time::Duration;

/// A request with one answer. [`crate::Client::call`] sends it.
pub trait Request {
    /// The content of the answer.
    type Answer: Answer;
    /// `type` of the message.
    const NAME: &'static str;
    /// True if a repetition has no further effect and returns the same answer. Then the client
    /// sends the request again after a reconnect. Otherwise the call fails with
    /// [`crate::ClientError::Interrupted`].
    const IDEMPOTENT: bool;

    /// Returns the message with this request number.
    fn into_message(self, request: u32) -> FromClient;
}

/// The content of an answer.
pub trait Answer: Sized {
    /// Returns the content, or `None` if the message is another one.
    fn from_message(message: ToClient) -> Option<Self>;
}

/// A page of the list of workers.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkersPage {
    /// Sorted by name.
    pub workers: Vec<WorkerSummary>,
    /// True if the list continues after this page.
    pub more: bool,
}

/// A page of the list of jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct JobsPage {
    /// The newest first. Fewer than requested if the coordinator stopped its search.
    pub jobs: Vec<JobSummary>,
    /// Where the list continues, if it does.
    pub next_cursor: Option<JobCursor>,
}

/// The tokens after a revocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevokedTokens {
    /// All tokens, in the order of their creation.
    pub tokens: Vec<TokenSummary>,
    /// The tokens that the request revoked. Empty if the coordinator is of an earlier version.
    pub revoked: Vec<TokenId>,
}

macro_rules! answers {
    ($($answer:ty: $pattern:pat => $content:expr;)*) => {$(
        impl Answer for $answer {
            fn from_message(message: ToClient) -> Option<Self> {
                match message {
                    $pattern => Some($content),
                    _ => None,
                }
            }
        }
    )*};
}

answers! {
    JobResult: ToClient::Job { result, .. } => *result;
    JobsPage: ToClient::Jobs { jobs, next_cursor, .. } => JobsPage { jobs, next_cursor };
    LogAnswer: ToClient::Logs { logs, .. } => *logs;
    Finding: ToClient::Finding { finding, .. } => *finding;
    String: ToClient::Explain { text, .. } => text;
    JobId: ToClient::Accepted { job, .. } => job;
    WorkersPage: ToClient::Workers { workers, more, .. } => WorkersPage { workers, more };
    TokenCreated: ToClient::Token { created, .. } => created;
    Vec<TokenSummary>: ToClient::Tokens { tokens, .. } => tokens;
    RevokedTokens: ToClient::Tokens { tokens, revoked, .. } => RevokedTokens { tokens, revoked };
    Vec<AuditEntry>: ToClient::Audit { entries, .. } => entries;
}

/// Defines a struct for each request. Its fields are those of the message without its number.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $name:ident ($variant:ident, $text:literal, idempotent: $idempotent:literal) -> $answer:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Request for $name {
            type Answer = $answer;
            const NAME: &'static str = $text;
            const IDEMPOTENT: bool = $idempotent;

            fn into_message(self, request: u32) -> FromClient {
                let Self { $($field),* } = self;
                FromClient::$variant { request, $($field),* }
            }
        }
    )*};
}

requests! {
    /// The state of a job.
    GetJob(Job, "job", idempotent: true) -> JobResult {
        /// An id or a unique prefix of one.
        job: String,
        /// The parts of the result, and their limits.
        view: View,
        /// Maximum time until the answer, if the job is not done.
        wait: Duration,
        /// Whether the coordinator sends progress during the wait.
        progress: bool,
    }
    /// A part of a log as text.
    ReadLogs(Logs, "logs", idempotent: true) -> LogAnswer {
        /// The part.
        query: LogQuery,
    }
    /// A complete finding.
    GetFinding(Finding, "finding", idempotent: true) -> Finding {
        /// An id or a unique prefix of one.
        job: String,
        /// Id of the finding.
        finding: String,
    }
    /// The explanation of a verdict.
    Explain(Explain, "explain", idempotent: true) -> String {
        /// An id or a unique prefix of one.
        job: String,
    }
    /// The newest jobs.
    ListJobs(Jobs, "jobs", idempotent: true) -> JobsPage {
        /// The properties of the jobs.
        query: JobQuery,
        /// Maximum number of jobs.
        limit: u32,
    }
    /// A new job with the spec and the snapshot of an earlier one. The new id makes it idempotent.
    Retry(Retry, "retry", idempotent: true) -> JobId {
        /// An id or a unique prefix of one.
        job: String,
        /// Id of the new job.
        new: JobId,
        /// Idempotency key of the new job.
        client_request_id: Option<String>,
        /// Name of the worker that runs it.
        worker: Option<String>,
    }
    /// The end of a job.
    Cancel(Cancel, "cancel", idempotent: true) -> JobResult {
        /// An id or a unique prefix of one.
        job: String,
        /// Reason for users.
        reason: String,
    }
    /// A page of the list of workers.
    ListWorkers(Workers, "workers", idempotent: true) -> WorkersPage {
        /// Number of workers before the page.
        offset: u32,
    }
    /// A worker that takes no more jobs, or takes jobs again.
    Drain(Drain, "drain", idempotent: true) -> WorkersPage {
        /// Name of the worker.
        worker: String,
        /// True to drain, false to resume.
        draining: bool,
        /// Time after which running jobs end. Never if absent.
        deadline: Option<Duration>,
    }
    /// A new token. A second request would create a second token.
    CreateToken(TokenCreate, "token_create", idempotent: false) -> TokenCreated {
        /// Role of the token.
        role: Role,
        /// Name of the owner.
        name: String,
        /// Lifetime. Unlimited if absent.
        expires: Option<Duration>,
        /// Limits on the jobs of the token.
        only: Restriction,
    }
    /// The tokens, in the order of their creation.
    ListTokens(TokenList, "token_list", idempotent: true) -> Vec<TokenSummary> {}
    /// The end of a token.
    RevokeToken(TokenRevoke, "token_revoke", idempotent: true) -> RevokedTokens {
        /// Id or name of the token.
        token: String,
        /// Whether the jobs of the token continue.
        keep_jobs: bool,
    }
    /// A new token in place of another. A second request would replace the new token, or fail
    /// because the old one has ended, and the secret of the first answer would be lost.
    RotateToken(TokenRotate, "token_rotate", idempotent: false) -> TokenCreated {
        /// Id or name of the token.
        token: String,
        /// Time during which the old token stays valid.
        grace: Duration,
        /// Lifetime of the new token. Unlimited if absent.
        expires: Option<Duration>,
    }
    /// A waiting worker that may take jobs from now on.
    ApproveWorker(Approve, "approve", idempotent: true) -> WorkersPage {
        /// Name or id of the worker.
        worker: String,
    }
    /// The permanent removal of a worker.
    ForgetWorker(Forget, "forget", idempotent: true) -> WorkersPage {
        /// Name or id of the worker.
        worker: String,
    }
    /// The replacement of a worker's program. A repeated order has the same id.
    UpgradeWorker(Upgrade, "upgrade", idempotent: true) -> WorkersPage {
        /// Name or id of the worker.
        worker: String,
        /// The order.
        order: UpgradeOrder,
    }
    /// A page of the audit log, newest first.
    ReadAudit(Audit, "audit", idempotent: true) -> Vec<AuditEntry> {
        /// Maximum number of entries.
        limit: u32,
        /// Only entries with a sequence number below this one.
        before: Option<u64>,
    }
}
