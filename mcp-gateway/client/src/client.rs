//! The client handle: one typed call for each message about jobs.

use super::channel::Opening;
use super::dial::PoolInfo;
use super::error::{ClientError, Misbehaviour};
use super::job_events::JobEvents;
use super::link::{Command, Link, LinkStatus};
use super::pending::{self, Call, Pending};
use super::request::{
    Answer, Cancel, Explain, GetFinding, GetJob, JobsPage, ListJobs, ReadLogs, Request, Retry,
};
use super::stdin::{Feed, StdinWriter};
use super::target::Target;
use super::transfer::Transfer;
use buildpool_protocol::client_link::{
    Cursor, JobQuery, JobSummary, LogAnswer, LogQuery, Progress, StreamChoice, SubmitMessage, View,
};
use buildpool_protocol::ids::{BuildId, JobId};
use buildpool_protocol::report::{Finding, JobResult, JobState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Requests for one list of jobs.
const LIST_PAGES_MAX: usize = 50;
/// Capacity of the command channel to the task.
const COMMANDS: usize = 64;

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
        self.request_job(job, view, wait, None).await
    }

    /// Returns the state of a job as [`Client::job`] does, and sends its progress meanwhile.
    ///
    /// # Errors
    /// As [`Client::job`].
    pub async fn job_with_progress(
        &self,
        job: &str,
        view: View,
        wait: Duration,
        progress: watch::Sender<Progress>,
    ) -> Result<JobResult, ClientError> {
        self.request_job(job, view, wait, Some(progress)).await
    }

    async fn request_job(
        &self,
        job: &str,
        view: View,
        wait: Duration,
        to: Option<watch::Sender<Progress>>,
    ) -> Result<JobResult, ClientError> {
        let (job, progress) = (job.to_owned(), to.is_some());
        self.call_with_progress(GetJob { job, view, wait, progress }, to).await
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
        Ok(self.query_jobs(JobQuery { state, build, ..JobQuery::default() }, limit).await?.jobs)
    }

    /// Returns the newest jobs that match a query. The coordinator stops its search after a number of records that the
    /// token may not read; this continues it, in at most 50 requests. With fewer jobs than the limit, `next_cursor` states
    /// where the search stopped, if it is not complete.
    ///
    /// # Errors
    /// Errors of the link.
    pub async fn query_jobs(&self, mut query: JobQuery, limit: u32) -> Result<JobsPage, ClientError> {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut all = JobsPage { jobs: Vec::new(), next_cursor: query.cursor };
        for _ in 0..LIST_PAGES_MAX {
            let missing = wanted.saturating_sub(all.jobs.len());
            let limit = u32::try_from(missing).unwrap_or(u32::MAX);
            let page = self.call(ListJobs { query: query.clone(), limit }).await?;
            all.jobs.extend(page.jobs);
            all.next_cursor = page.next_cursor;
            if page.next_cursor.is_none() || all.jobs.len() >= wanted {
                break;
            }
            query.cursor = page.next_cursor;
        }
        Ok(all)
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
        self.call_with_progress(request, None).await
    }

    async fn call_with_progress<R: Request>(
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
        let mut asked = PendingRequest { client: self, request: number, is_answered: false };
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
struct PendingRequest<'a> {
    client: &'a Client,
    request: u32,
    is_answered: bool,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.client.forget(self.request);
        }
    }
}
