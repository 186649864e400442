//! The client handle: one typed call for each message.

use super::channel::{JobEvent, Opening};
use super::dial::PoolInfo;
use super::error::{ClientError, Misbehaviour};
use super::link::{Command, Link, LinkStatus};
use super::pending::{self, Call, Pending};
use super::request::{
    Answer, ApproveWorker, Cancel, CreateToken, Drain, Explain, ForgetWorker, GetFinding, GetJob, ListJobs,
    ListTokens, ListWorkers, ReadAudit, ReadLogs, Request, Retry, RevokeToken, RotateToken, UpgradeWorker,
};
use super::stdin::{Feed, StdinWriter};
use super::target::Target;
use super::transfer::Transfer;
use buildpool_protocol::client_link::{
    AuditEntry, Cursor, JobQuery, JobSummary, LogAnswer, LogQuery, Progress, Role, StreamChoice,
    SubmitMessage, TokenCreated, TokenSummary, View, WorkerSummary,
};
use buildpool_protocol::ids::{BuildId, JobId};
use buildpool_protocol::limits::FOLLOW_WINDOW_BYTES;
use buildpool_protocol::report::{Finding, JobResult, JobState};
use buildpool_protocol::spec::Restriction;
use buildpool_protocol::upgrade::UpgradeOrder;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Capacity of the command channel to the task.
const COMMANDS: usize = 64;
/// Bytes after which taken output is acknowledged, so that a fast reader causes few messages.
const TAKEN_EVERY: u64 = FOLLOW_WINDOW_BYTES / 4;

/// Returns a new, unused job id. Ids sort by creation time.
pub fn new_job_id() -> JobId {
    JobId::from_uuid(uuid::Uuid::now_v7())
}

/// A connection to a pool that survives reconnects. A clone is another handle to the same
/// connection. It closes when the last handle and the last [`JobEvents`] are dropped.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    commands: mpsc::Sender<Command>,
    last_request: AtomicU32,
    status: watch::Receiver<LinkStatus>,
    info: watch::Receiver<PoolInfo>,
    task: std::sync::Mutex<Option<JoinHandle<()>>>,
}

/// Selects a log to follow and its start.
#[derive(Clone, Debug, Default)]
pub struct FollowQuery {
    /// A job id or a unique prefix of one.
    pub job: String,
    /// Start position; the start of the attempt if absent.
    pub cursor: Option<Cursor>,
    /// Attempt, if there is no cursor; the newest if absent.
    pub attempt: Option<u32>,
    /// Stop at the current end instead of waiting for more.
    pub to_end: bool,
    /// Start so that about this many last lines are sent.
    pub tail: Option<u64>,
    /// If one stream is selected, parts of the log without it may be skipped.
    pub stream: StreamChoice,
}

impl Client {
    /// Dials the pool once, and registers as `client` (name and version of the software). Later
    /// interruptions are bridged: calls wait up to 30 seconds for the coordinator, submits and
    /// followers 15 minutes.
    ///
    /// # Errors
    /// The reason why the pool can't be used; see [`ClientError`].
    pub async fn connect(target: Target, client: &str) -> Result<Self, ClientError> {
        let (socket, info) = target.dial(client).await?;
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let (status_sender, status) = watch::channel(LinkStatus::Connected);
        let (info_sender, info) = watch::channel(info);
        let link = Link {
            target,
            client: client.to_owned(),
            commands: receiver,
            status: status_sender,
            info: info_sender,
            pending: Pending::default(),
        };
        let task = std::sync::Mutex::new(Some(tokio::spawn(link.run(socket))));
        let shared = Shared { commands, last_request: AtomicU32::new(0), status, info, task };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the coordinator's information from the last registration.
    pub fn pool(&self) -> PoolInfo {
        self.shared.info.borrow().clone()
    }

    /// Returns a watch on the state of the connection.
    pub fn status(&self) -> watch::Receiver<LinkStatus> {
        self.shared.status.clone()
    }

    /// Closes the connection. Open requests of other handles end with [`ClientError::Closed`].
    pub async fn close(self) {
        let task = self.shared.task.lock().ok().and_then(|mut task| task.take());
        drop(self);
        if let Some(task) = task {
            // If other handles exist, the task continues until they are dropped.
            let _ = tokio::time::timeout(Duration::from_secs(1), task).await;
        }
    }

    /// Submits a job and returns its events: `Accepted` first, then those that `wait`, `follow` and
    /// `progress` request.
    ///
    /// # Errors
    /// [`ClientError::Closed`]; a refusal arrives as an event.
    pub async fn submit(&self, submit: SubmitMessage) -> Result<JobEvents, ClientError> {
        self.open(Opening::Submit(Box::new(submit)), None).await
    }

    /// The same for a job whose spec has standard input. The writer takes the input.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub async fn submit_with_stdin(
        &self,
        submit: SubmitMessage,
    ) -> Result<(JobEvents, StdinWriter), ClientError> {
        let (feed, room) = Feed::new();
        let events = self.open(Opening::Submit(Box::new(submit)), Some(feed)).await?;
        let writer = StdinWriter::new(self.clone(), events.request, room);
        Ok((events, writer))
    }

    /// Follows the log of a job. The last event is `End`.
    ///
    /// # Errors
    /// [`ClientError::Closed`]; a refusal arrives as an event.
    pub async fn follow(&self, query: FollowQuery) -> Result<JobEvents, ClientError> {
        let FollowQuery { job, cursor, attempt, to_end, tail, stream } = query;
        self.open(Opening::Follow { job, cursor, attempt, to_end, tail, stream }, None).await
    }

    /// Returns the state of a job. With a `wait`, returns when the job is done or the time has
    /// passed.
    ///
    /// # Errors
    /// `unknown_job`, `ambiguous`, and errors of the link.
    pub async fn job(&self, job: &str, view: View, wait: Duration) -> Result<JobResult, ClientError> {
        self.job_asked(job, view, wait, None).await
    }

    /// Returns the state of a job as [`Client::job`] does, and sends its progress meanwhile.
    ///
    /// # Errors
    /// As [`Client::job`].
    pub async fn job_watched(
        &self,
        job: &str,
        view: View,
        wait: Duration,
        progress: watch::Sender<Progress>,
    ) -> Result<JobResult, ClientError> {
        self.job_asked(job, view, wait, Some(progress)).await
    }

    async fn job_asked(
        &self,
        job: &str,
        view: View,
        wait: Duration,
        to: Option<watch::Sender<Progress>>,
    ) -> Result<JobResult, ClientError> {
        let (job, progress) = (job.to_owned(), to.is_some());
        self.call_watched(GetJob { job, view, wait, progress }, to).await
    }

    /// Returns the newest jobs.
    ///
    /// # Errors
    /// Errors of the link.
    pub async fn jobs(
        &self,
        state: Option<JobState>,
        build: Option<BuildId>,
        limit: u32,
    ) -> Result<Vec<JobSummary>, ClientError> {
        self.jobs_like(JobQuery { state, build, ..JobQuery::default() }, limit).await
    }

    /// Returns the newest jobs that match a query.
    ///
    /// # Errors
    /// Errors of the link.
    pub async fn jobs_like(&self, query: JobQuery, limit: u32) -> Result<Vec<JobSummary>, ClientError> {
        self.call(ListJobs { query, limit }).await
    }

    /// Returns a part of a log as text.
    ///
    /// # Errors
    /// `unknown_job`, `evicted`, `ambiguous`, `invalid`, and errors of the link.
    pub async fn logs(&self, query: LogQuery) -> Result<LogAnswer, ClientError> {
        self.call(ReadLogs { query }).await
    }

    /// Returns one complete finding.
    ///
    /// # Errors
    /// `unknown_job`, `not_found`, and errors of the link.
    pub async fn finding(&self, job: &str, finding: &str) -> Result<Finding, ClientError> {
        self.call(GetFinding { job: job.to_owned(), finding: finding.to_owned() }).await
    }

    /// Returns an explanation of a job's verdict, as text for users.
    ///
    /// # Errors
    /// `unknown_job`, and errors of the link.
    pub async fn explain(&self, job: &str) -> Result<String, ClientError> {
        self.call(Explain { job: job.to_owned() }).await
    }

    /// Submits the spec and the snapshot of a job again, for the named worker if there is a name. Returns the id of the new
    /// job. A coordinator with a protocol before [`buildpool_protocol::version::RETRY_ON_WORKER`] ignores the name.
    ///
    /// # Errors
    /// `unknown_job`, `ambiguous`, `forbidden` for another submitter's job, `invalid` for a job
    /// with secrets, `not_found` if its snapshot was removed, and errors of the link.
    pub async fn retry(&self, job: &str, worker: Option<&str>) -> Result<JobId, ClientError> {
        let worker = worker.map(str::to_owned);
        self.call(Retry { job: job.to_owned(), new: new_job_id(), client_request_id: None, worker }).await
    }

    /// Cancels a job. A finished job does not change.
    ///
    /// # Errors
    /// `unknown_job`, and errors of the link.
    pub async fn cancel(&self, job: &str, reason: &str) -> Result<JobResult, ClientError> {
        self.call(Cancel { job: job.to_owned(), reason: reason.to_owned() }).await
    }

    /// Returns the workers, sorted by name.
    ///
    /// # Errors
    /// Errors of the link.
    pub async fn workers(&self) -> Result<Vec<WorkerSummary>, ClientError> {
        let mut all: Vec<WorkerSummary> = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let page = self.call(ListWorkers { offset }).await?;
            // An answer without progress would repeat for ever.
            let is_last = !page.more || page.workers.is_empty();
            all.extend(page.workers);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Drains a worker, or resumes it.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, and errors of the link.
    pub async fn drain(
        &self,
        worker: &str,
        draining: bool,
        deadline: Option<Duration>,
    ) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(Drain { worker: worker.to_owned(), draining, deadline }).await?.workers)
    }

    /// Creates a token. The request is sent at most once: after [`ClientError::Interrupted`], check
    /// the list.
    ///
    /// # Errors
    /// `forbidden`, `conflict`, `invalid`, and errors of the link.
    pub async fn token_create(
        &self,
        role: Role,
        name: &str,
        expires: Option<Duration>,
    ) -> Result<TokenCreated, ClientError> {
        self.token_create_restricted(role, name, expires, Restriction::default()).await
    }

    /// As [`Client::token_create`], with limits on where the jobs of the token may run.
    ///
    /// # Errors
    /// As [`Client::token_create`].
    pub async fn token_create_restricted(
        &self,
        role: Role,
        name: &str,
        expires: Option<Duration>,
        only: Restriction,
    ) -> Result<TokenCreated, ClientError> {
        self.call(CreateToken { role, name: name.to_owned(), expires, only }).await
    }

    /// Returns the tokens, in the order of their creation.
    ///
    /// # Errors
    /// `forbidden`, and errors of the link.
    pub async fn tokens(&self) -> Result<Vec<TokenSummary>, ClientError> {
        self.call(ListTokens {}).await
    }

    /// Revokes a token and returns the remaining tokens. The jobs that were submitted with it end,
    /// unless `keep_jobs`.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, and errors of the link.
    pub async fn token_revoke(&self, token: &str, keep_jobs: bool) -> Result<Vec<TokenSummary>, ClientError> {
        self.call(RevokeToken { token: token.to_owned(), keep_jobs }).await
    }

    /// Rotates a token: replaces it by a new one with the same name and role. The request is sent
    /// at most once: after [`ClientError::Interrupted`], check the list.
    ///
    /// # Errors
    /// `not_found`, `ambiguous`, `forbidden`, and errors of the link.
    pub async fn token_rotate(
        &self,
        token: &str,
        grace: Duration,
        expires: Option<Duration>,
    ) -> Result<TokenCreated, ClientError> {
        self.call(RotateToken { token: token.to_owned(), grace, expires }).await
    }

    /// Approves a worker that waits for an operator's approval.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, and errors of the link.
    pub async fn approve(&self, worker: &str) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(ApproveWorker { worker: worker.to_owned() }).await?.workers)
    }

    /// Frees the name of a worker that will not return.
    ///
    /// # Errors
    /// `not_found`, `conflict` while the worker may return to jobs, `forbidden`, and errors of the
    /// link.
    pub async fn forget_worker(&self, worker: &str) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(ForgetWorker { worker: worker.to_owned() }).await?.workers)
    }

    /// Passes an order to replace its program to a drained worker. The program was sent by [`crate::programs::send`].
    ///
    /// # Errors
    /// `not_found`, `conflict` for a worker that is not drained, `forbidden`, and errors of the link.
    pub async fn upgrade(
        &self,
        worker: &str,
        order: UpgradeOrder,
    ) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(UpgradeWorker { worker: worker.to_owned(), order }).await?.workers)
    }

    /// Returns the last lines of the audit log, newest first. Reads as many pages as necessary.
    ///
    /// # Errors
    /// `forbidden`, and errors of the link.
    pub async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, ClientError> {
        let mut entries: Vec<AuditEntry> = Vec::new();
        loop {
            let left = limit.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            let before = entries.last().map(|entry| entry.seq);
            // A coordinator that sends no sequence numbers has no further page.
            if left == 0 || before == Some(0) {
                return Ok(entries);
            }
            let page = self.call(ReadAudit { limit: left, before }).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }

    /// Opens a channel for a transfer. The caller handles its steps.
    ///
    /// # Errors
    /// [`ClientError::Closed`].
    pub async fn transfer(&self) -> Result<Transfer, ClientError> {
        let channel = self.next_request();
        let (events, receiver) = mpsc::channel(pending::EVENTS_MAX);
        self.send(Command::Transfer { channel, events }).await?;
        Ok(Transfer::new(self.clone(), channel, receiver))
    }

    /// Sends a request and returns its answer. After a reconnect, an idempotent request is sent
    /// again; another one fails with [`ClientError::Interrupted`].
    ///
    /// # Errors
    /// The refusal of the coordinator, and errors of the link.
    pub async fn call<R: Request>(&self, request: R) -> Result<R::Answer, ClientError> {
        self.call_watched(request, None).await
    }

    async fn call_watched<R: Request>(
        &self,
        request: R,
        progress: Option<watch::Sender<Progress>>,
    ) -> Result<R::Answer, ClientError> {
        let number = self.next_request();
        let (reply, answer) = oneshot::channel();
        let call = Call {
            message: request.into_message(number),
            name: R::NAME,
            idempotent: R::IDEMPOTENT,
            asked: Instant::now(),
            progress,
            reply,
        };
        self.send(Command::Call { request: number, call }).await?;
        let mut asked = Asked { client: self, request: number, is_answered: false };
        let answer = answer.await;
        asked.is_answered = true;
        let message = answer.map_err(|_| ClientError::Closed)??;
        let wrong = || ClientError::Misbehaved(Misbehaviour::WrongAnswer { request: R::NAME });
        R::Answer::from_message(message).ok_or_else(wrong)
    }

    async fn open(&self, opening: Opening, stdin: Option<Feed>) -> Result<JobEvents, ClientError> {
        let request = self.next_request();
        let (events, receiver) = mpsc::channel(pending::EVENTS_MAX);
        self.send(Command::Open { request, opening, events, stdin }).await?;
        Ok(JobEvents { client: self.clone(), request, receiver, shown: None, acknowledged: 0 })
    }

    fn next_request(&self) -> u32 {
        self.shared.last_request.fetch_add(1, Ordering::Relaxed).wrapping_add(1) % pending::FIRST_ALIAS
    }

    /// Ends a request without a receiver. If the command channel is full, the task detects the
    /// closed receiver at the next event.
    pub(super) fn forget(&self, request: u32) {
        let _ = self.shared.commands.try_send(Command::Close { request });
    }

    pub(super) async fn send(&self, command: Command) -> Result<(), ClientError> {
        self.shared.commands.send(command).await.map_err(|_| ClientError::Closed)
    }
}

/// A pending request. If it is dropped before its answer, it notifies the task, so that an
/// unreceived answer does not count as delivered.
struct Asked<'a> {
    client: &'a Client,
    request: u32,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.client.forget(self.request);
        }
    }
}

/// The events of one submitted or followed job. A call of `next` acknowledges the previous output
/// and lets more arrive. A reader that stops calling it stops only its own output.
#[derive(Debug)]
pub struct JobEvents {
    client: Client,
    request: u32,
    receiver: mpsc::Receiver<JobEvent>,
    /// Attempt and end position of the last returned output.
    shown: Option<(u32, u64)>,
    /// Position up to which output was acknowledged.
    acknowledged: u64,
}

impl JobEvents {
    /// Returns the next event, or `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<JobEvent> {
        self.acknowledge().await;
        let event = self.receiver.recv().await?;
        match &event {
            JobEvent::Output(output) => {
                if self.shown.is_none_or(|(attempt, _)| attempt != output.attempt) {
                    self.acknowledged = output.from;
                }
                self.shown = Some((output.attempt, output.to));
            }
            JobEvent::Accepted { .. }
            | JobEvent::Progress(_)
            | JobEvent::Attempt(_)
            | JobEvent::End(_)
            | JobEvent::OutputLost(_)
            | JobEvent::Complete(_)
            | JobEvent::Failed(_) => {}
        }
        Some(event)
    }

    async fn acknowledge(&mut self) {
        let Some((attempt, position)) = self.shown else { return };
        if position.saturating_sub(self.acknowledged) < TAKEN_EVERY {
            return;
        }
        let command = Command::Taken { request: self.request, attempt, position };
        if self.client.send(command).await.is_ok() {
            self.acknowledged = position;
        }
    }
}

impl Drop for JobEvents {
    fn drop(&mut self) {
        self.client.forget(self.request);
    }
}
