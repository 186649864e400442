//! The link between a client (the command line, a gateway) and the coordinator. The client dials.
//!
//! A request carries a number that its answers repeat; numbers are the client's to choose. Followed output travels
//! beside this as binary frames ([`crate::frame::BinaryKind::Follow`]) on the channel of that number.

use crate::duration;
use crate::error::LinkError;
use crate::ids::{BuildId, JobId, TokenId};
use crate::output::Stream;
use crate::report::{Finding, JobResult, JobState, Verdict};
use crate::spec::{JobSpec, TemplateSpec, Verbosity};
use crate::version::VersionRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Path of the link on the coordinator.
pub const PATH: &str = "/v1/client";

/// What a client says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromClient {
    /// The first message of a connection.
    Register {
        /// What it speaks.
        protocol: VersionRange,
        /// Name and version of the software.
        client: String,
    },
    /// Run this.
    Submit {
        /// Repeated in the answers.
        request: u32,
        /// What, and what to send back.
        submit: Box<SubmitMessage>,
    },
    /// How is this job?
    Job {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// How much to show.
        #[serde(default)]
        view: View,
        /// Answer when the job is done, or after this long.
        #[serde(default, with = "duration")]
        wait: Duration,
    },
    /// Send the log of a job from a position on, and go on while it grows.
    Follow {
        /// Names the channel; repeated in the answers.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// From here; the start of the newest attempt if absent.
        #[serde(default)]
        cursor: Option<Cursor>,
        /// Which attempt, without a cursor.
        #[serde(default)]
        attempt: Option<u32>,
        /// Stop at the present end instead of waiting for more.
        #[serde(default)]
        to_end: bool,
        /// Begin so that about this many of the last lines come, of the stream where it is one.
        #[serde(default)]
        tail: Option<u64>,
        /// Where a stretch of the log has nothing of the one stream that is asked for, it may be left out: what comes
        /// after begins at a later position.
        #[serde(default)]
        stream: StreamChoice,
    },
    /// Output up to this position has been taken; lets more come.
    Taken {
        /// The channel.
        request: u32,
        /// Bytes of the log, chunk headers included.
        position: u64,
    },
    /// Stop sending to this channel: the log that is followed on it, else the end that is waited for. The job goes on, and
    /// its result does not count as delivered.
    Unfollow {
        /// The channel.
        request: u32,
    },
    /// A part of a log as text.
    Logs {
        /// Repeated in the answer.
        request: u32,
        /// Which part.
        query: LogQuery,
    },
    /// One finding, whole and uncompressed.
    Finding {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// As listed.
        finding: String,
    },
    /// Why this verdict.
    Explain {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
    },
    /// Which jobs are there?
    Jobs {
        /// Repeated in the answer.
        request: u32,
        /// Only those in this state.
        #[serde(default)]
        state: Option<JobState>,
        /// Only those of this build.
        #[serde(default)]
        build: Option<BuildId>,
        /// At most this many, newest first.
        limit: u32,
    },
    /// End a job.
    Cancel {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// In the asker's words.
        #[serde(default)]
        reason: String,
    },
    /// Which workers are there?
    Workers {
        /// Repeated in the answer.
        request: u32,
    },
    /// Empty a worker, or let it take jobs again.
    Drain {
        /// Repeated in the answer.
        request: u32,
        /// Its name.
        worker: String,
        /// Whether to drain.
        draining: bool,
        /// After how long what still runs is ended; never if absent.
        #[serde(default, with = "duration::option")]
        deadline: Option<Duration>,
    },
    /// Make a token.
    TokenCreate {
        /// Repeated in the answer.
        request: u32,
        /// For what.
        role: Role,
        /// For whom.
        name: String,
        /// Until when; for ever if absent.
        #[serde(default, with = "duration::option")]
        expires: Option<Duration>,
    },
    /// Which tokens are there?
    TokenList {
        /// Repeated in the answer.
        request: u32,
    },
    /// Let a token end, and the connections that were opened with it.
    TokenRevoke {
        /// Repeated in the answer.
        request: u32,
        /// Its id or its name.
        token: String,
    },
    /// Replace a token by a new one of the same name and role.
    TokenRotate {
        /// Repeated in the answer.
        request: u32,
        /// Its id or its name.
        token: String,
        /// How long the old one still counts.
        #[serde(with = "duration")]
        grace: Duration,
        /// Until when the new one counts; for ever if absent.
        #[serde(default, with = "duration::option")]
        expires: Option<Duration>,
    },
    /// Let a worker take jobs that waits for an operator's word.
    Approve {
        /// Repeated in the answer.
        request: u32,
        /// Its name.
        worker: String,
    },
    /// Who did what?
    Audit {
        /// Repeated in the answer.
        request: u32,
        /// At most this many, newest first.
        limit: u32,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

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
    /// Answers `workers`, `drain` and `approve`.
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

/// What to run and what to send back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubmitMessage {
    /// Minted by the client: sending it twice is one job.
    pub job: JobId,
    /// What.
    pub spec: JobSpec,
    /// The same text by the same principal is the same job.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// Without a request id: attach to an earlier equal submit whose answer was not delivered.
    #[serde(default)]
    pub attach: bool,
    /// Values of the secrets that the spec names.
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
    /// What the snapshot left out or noticed, to be shown with the result.
    #[serde(default)]
    pub snapshot: Option<crate::report::SnapshotInfo>,
    /// Send `complete` when the job is done.
    #[serde(default)]
    pub wait: bool,
    /// Send the output while it runs, on the channel of the request.
    #[serde(default)]
    pub follow: bool,
    /// Send `progress` while it waits and runs.
    #[serde(default)]
    pub progress: bool,
}

/// The value of a secret. Shows itself to serializers only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How much of a result to show.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// What the job asked for if absent.
    pub verbosity: Option<Verbosity>,
    /// What the job asked for if absent.
    pub template: Option<TemplateSpec>,
    /// Fewer characters of text than the verbosity gives, for a client that takes no more.
    pub characters_max: Option<usize>,
}

/// A place in the log of a job, between two chunks; `attempt:position` as text, with `:bytes` for a place inside the
/// following chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor {
    /// Which attempt's log.
    pub attempt: u32,
    /// Bytes of the log, chunk headers included.
    pub position: u64,
    /// Bytes of the next chunk's payload that were taken too.
    pub within: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.attempt, self.position)?;
        if self.within > 0 {
            write!(f, ":{}", self.within)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let mut parts = text.split(':');
        let mut number = |default: Option<u64>| match parts.next() {
            Some(part) => part.parse::<u64>().map_err(|_| CursorError),
            None => default.ok_or(CursorError),
        };
        let attempt = u32::try_from(number(None)?).map_err(|_| CursorError)?;
        let position = number(None)?;
        let within = u32::try_from(number(Some(0))?).map_err(|_| CursorError)?;
        if parts.next().is_some() {
            return Err(CursorError);
        }
        Ok(Self { attempt, position, within })
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is no cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorError;

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cursor has the form ATTEMPT:POSITION, as an earlier answer gave it")
    }
}

impl std::error::Error for CursorError {}

/// Which streams of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamChoice {
    /// Only stdout.
    Stdout,
    /// Only stderr.
    Stderr,
    /// Both, apart.
    #[default]
    Both,
    /// Both, as one text in true order.
    Interleaved,
}

impl StreamChoice {
    /// Whether this stream is asked for.
    pub const fn wants(self, stream: Stream) -> bool {
        match (self, stream) {
            (Self::Stdout, Stream::Stdout) | (Self::Stderr, Stream::Stderr) => true,
            (Self::Stdout, Stream::Stderr) | (Self::Stderr, Stream::Stdout) => false,
            (Self::Both | Self::Interleaved, _) => true,
        }
    }

    /// The stream, where it is a single one.
    pub const fn only(self) -> Option<Stream> {
        match self {
            Self::Stdout => Some(Stream::Stdout),
            Self::Stderr => Some(Stream::Stderr),
            Self::Both | Self::Interleaved => None,
        }
    }
}

/// A part of a log as text.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    /// An id or a unique prefix of one.
    pub job: String,
    /// The newest if absent.
    pub attempt: Option<u32>,
    /// Which streams.
    pub stream: StreamChoice,
    /// The last lines.
    pub tail: Option<u64>,
    /// From where an earlier answer ended.
    pub cursor: Option<Cursor>,
    /// First line, from 0.
    pub offset: Option<u64>,
    /// Lines from there.
    pub limit: Option<u64>,
    /// Only lines that match this pattern.
    pub grep: Option<String>,
    /// Lines around each match.
    pub context: u32,
    /// Fewer characters than the limit of an answer.
    pub characters_max: Option<usize>,
}

/// A part of a log.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LogAnswer {
    /// The job, so that the caller can verify.
    pub job_id: String,
    /// The attempt.
    pub attempt: u32,
    /// Its state: a running job's log goes on.
    pub state: JobState,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<String>,
    /// For what comes after this part.
    pub next_cursor: Option<Cursor>,
    /// What was left out.
    pub omitted: Vec<crate::report::Omission>,
}

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
    /// Everything.
    Admin,
}

impl Role {
    /// `worker`, `submit`, `admin`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Submit => "submit",
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
