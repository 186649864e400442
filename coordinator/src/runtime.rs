//! The runtime thread. It owns the pool and the store's writer.
//!
//! Each round takes a batch of commands, passes them to the pool, and writes all required records
//! in one transaction. Only then does it carry out the other effects, in order. Submits that wait in the queue
//! share a transaction with records that follow within milliseconds. While the disk
//! refuses writes, the runtime holds the effects back and retries. No reply depends on a record
//! that is not on disk.

mod disk_full;
mod effects;
mod events;
mod handle;
mod list_query;
mod records;
mod write_timing;

pub(crate) use handle::{Command, Ending, Handle};
pub(crate) use list_query::{ListQuery, ListedJob};

use crate::attempt::LiveAttempt;
use crate::auth::{CANCEL, Note, SUBMIT, Tokens};
use crate::connections::Connections;
use crate::leader::Leadership;
use crate::metrics::Metrics;
use crate::net::request_limits::RequestPermit;
use crate::recent_jobs::RecentJobs;
use crate::stdin::Inputs;
use crate::store::{HistoryKey, Logs, Reader, Record, StoreError, Writer};
use crate::test_history::TestHistory;
use buildpool_pool::{Change, ClientRef, Effect, Input, JobRecord, LiveJob, Now, Pool};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::transfer::SnapshotName;
use records::Mirror;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use write_timing::{Step, WriteTiming};

/// Capacity of the command channel. Senders wait while it is full.
const COMMANDS_MAX: usize = 4_096;
/// Limit on the commands that share one transaction.
const BATCH_MAX: usize = 256;

/// A reply to a query.
enum QueryReply {
    /// Can be sent at any time.
    Any(Box<dyn FnOnce() + Send>),
    /// The job is no longer live. The caller then looks up the final record, so the record must be
    /// on disk first. While the disk refuses writes, the reply is a live job that waits for its
    /// record.
    Ended { job: JobId, reply: oneshot::Sender<Option<LiveJob>> },
}

/// Reason why the runtime can't start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The records can't be read.
    Store(StoreError),
    /// The thread can't be started.
    Thread(std::io::Error),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Components that the runtime uses.
pub(crate) struct Components {
    pub(crate) pool: Pool,
    pub(crate) writer: Writer,
    pub(crate) connections: Arc<Connections>,
    pub(crate) logs: Logs,
    pub(crate) finished: Arc<RecentJobs>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tokens: Tokens,
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) tests: TestHistory,
    /// `None` if no other coordinator shares the records.
    pub(crate) leadership: Option<Leadership>,
}

pub(crate) struct Runtime {
    components: Components,
    mirror: Mirror,
    started: Instant,
    records: Vec<Record>,
    effects: Vec<Effect>,
    /// Notes of requests that the pool has not decided yet: at most one for each request.
    undecided: BTreeMap<ClientRef, Note>,
    /// Notes of accepted requests that are not in the audit log yet.
    decided: Vec<Note>,
    /// Replies to queries. They are sent after all earlier records are on disk: a caller that
    /// receives "not live" must find the final record.
    answers: Vec<QueryReply>,
    /// Commands that arrived while the disk refused writes, in order. Beyond [`COMMANDS_MAX`],
    /// requests of clients are refused. The commands of workers are bounded by the attempts that
    /// the workers hold.
    held_back: VecDeque<Command>,
    /// Requests that wait for the disk and were answered with that. They get no second reply.
    notified: BTreeSet<ClientRef>,
    /// Time at which the disk began to refuse records, in milliseconds since 1970.
    unwritten_since_ms: Option<i64>,
    /// Log writers that must outlive the next commit.
    retained_attempts: Vec<Arc<LiveAttempt>>,
    /// Turns of the inputs of this round.
    permits: Vec<RequestPermit>,
    /// When the pending records are written.
    timing: WriteTiming,
}

impl Runtime {
    /// Restores the state from the store and starts the thread.
    ///
    /// # Errors
    /// [`StartError::Store`] if the records can't be read, [`StartError::Thread`] if the thread
    /// can't be started.
    pub(crate) fn start(components: Components) -> Result<(Handle, std::thread::JoinHandle<()>), StartError> {
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let mut runtime = Self {
            components,
            mirror: Mirror::default(),
            started: Instant::now(),
            records: Vec::new(),
            effects: Vec::new(),
            undecided: BTreeMap::new(),
            decided: Vec::new(),
            answers: Vec::new(),
            held_back: VecDeque::new(),
            notified: BTreeSet::new(),
            unwritten_since_ms: None,
            retained_attempts: Vec::new(),
            permits: Vec::new(),
            timing: WriteTiming::default(),
        };
        runtime.restore()?;
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let executor = executor.map_err(StartError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("pool".to_owned())
            .spawn(move || executor.block_on(runtime.run(commands)))
            .map_err(StartError::Thread)?;
        Ok((Handle { commands: sender }, thread))
    }

    fn restore(&mut self) -> Result<(), StoreError> {
        let now = self.now();
        for worker in self.components.writer.workers()? {
            self.mirror.restore_worker(&worker);
            self.components.pool.restore_worker(now, records::to_pool_worker(worker));
        }
        let mut jobs = self.components.writer.live_jobs()?;
        jobs.sort_by_key(|job| (job.created_at_ms, job.job));
        for (order, job) in (1..).zip(jobs) {
            let attempts = job.attempts.iter().map(records::to_pool_attempt).collect();
            let cancel = job.cancel.clone().map(|cancel| (cancel.by, cancel.reason));
            let usual = self.components.reader.usual_duration(HistoryKey::from_spec(&job.spec))?;
            let record = Arc::new(records::to_pool_job(&job, order, usual));
            self.components.pool.restore_job(now, record, attempts, cancel);
            self.mirror.restore_job(job);
        }
        for job in self.components.writer.attachable_jobs()? {
            self.components.pool.restore_attachable(job.job, &job.submitter, &job.spec);
        }
        Ok(())
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { clock: self.started.elapsed(), wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX) }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let deadlines = [self.components.pool.next_deadline(), self.timing.next_deadline()];
            let deadline = deadlines.into_iter().flatten().min();
            let wait =
                deadline.map_or(Duration::from_secs(3600), |at| at.saturating_sub(self.started.elapsed()));
            if self.held_back.is_empty() {
                tokio::select! {
                    biased;
                    taken = commands.recv_many(&mut batch, BATCH_MAX) => if taken == 0 {
                        return self.write_notes();
                    },
                    // The pool reads no clock, so it needs a tick at its own next deadline.
                    () = tokio::time::sleep(wait) => self.handle(Input::Tick),
                }
            } else {
                let some = self.held_back.len().min(BATCH_MAX);
                batch.extend(self.held_back.drain(..some));
            }
            for command in batch.drain(..) {
                self.handle_command(command);
            }
            // Once for the whole batch: it looks at the first job of each lane.
            let now = self.now();
            self.components.pool.dispatch(now);
            self.drain(now, None);
            let step = self.timing.step(self.started.elapsed(), self.records.len());
            let is_replaced = match step {
                Step::Wait => continue,
                Step::Write => self.commit(&mut commands).await.is_err(),
                Step::Perform => false,
            };
            if is_replaced || !self.leads() {
                tracing::warn!("the pool stops: another coordinator is the leader, or may be");
                if let Some(leadership) = &self.components.leadership {
                    leadership.abandon();
                }
                return;
            }
            self.audit();
            for effect in std::mem::take(&mut self.effects) {
                self.perform(effect);
            }
            for answer in self.answers.drain(..) {
                match answer {
                    QueryReply::Any(give) => give(),
                    QueryReply::Ended { reply, .. } => drop(reply.send(None)),
                }
            }
            self.retained_attempts.clear();
            self.permits.clear();
            self.audit_submits();
        }
    }

    fn handle_command(&mut self, command: Command) {
        let now = self.now();
        let pool = &self.components.pool;
        match command {
            Command::Input(input) => self.handle(input),
            Command::Limited { input, permit } => {
                self.permits.push(permit);
                self.handle(input);
            }
            Command::Noted { input, note } => {
                self.undecided.extend(input.client().map(|client| (client, note)));
                self.handle(input);
            }
            Command::TokenUsed(used) => {
                self.records.push(Record::TokenUse(Box::new(used)));
                self.timing.note(now.clock);
            }
            Command::Completed(ending) => self.completed(*ending),
            Command::Live { job, reply } if self.mirror.ending(job).is_some() => {
                self.answers.push(QueryReply::Ended { job, reply });
            }
            Command::Live { job, reply } => {
                let live = pool.live_job(now, job).map(|live| self.with_delay_reason(live));
                self.answer(reply, live);
            }
            Command::LiveSnapshots { reply } => {
                let of = |spec: &JobSpec| SnapshotName::from_source(&spec.source).ok().flatten();
                let snapshots = pool.live_specs().filter_map(of).collect();
                self.answer(reply, snapshots);
            }
            Command::NewestLive { wanted, reply } => {
                let mut live = pool.newest_jobs(now, wanted.limit, |state, record, attempts| {
                    wanted.selects(&ListedJob::live(state, record, attempts))
                });
                live = live.into_iter().map(|live| self.with_delay_reason(live)).collect();
                let is_wanted = |live: &LiveJob| {
                    wanted.selects(&ListedJob::live(live.state, &live.record, &live.attempts))
                };
                live.extend(self.unwritten(now).into_iter().filter(is_wanted));
                self.answer(reply, live);
            }
            Command::Workers { reply } => {
                let workers = pool.workers();
                self.answer(reply, workers);
            }
            Command::Queues { reply } => {
                let queues = pool.queues();
                self.answer(reply, queues);
            }
            Command::LongestWaiting { submitter, reply } => {
                let of = |record: &JobRecord| submitter.as_ref().is_none_or(|name| *name == record.submitter);
                let waiting = pool.longest_waiting(now, of);
                self.answer(reply, waiting.into_iter().map(|live| self.with_delay_reason(live)).collect());
            }
            Command::LiveBySubmitter { reply } => {
                let live = pool.live_by_submitter();
                self.answer(reply, live);
            }
            Command::Load { reply } => {
                let load = pool.load();
                self.answer(reply, load);
            }
        }
    }

    fn answer<T: Send + 'static>(&mut self, reply: oneshot::Sender<T>, answer: T) {
        // A closed receiver means that the caller has given up.
        self.answers.push(QueryReply::Any(Box::new(move || drop(reply.send(answer)))));
    }

    fn completed(&mut self, mut ending: Ending) {
        let attempt = ending.completed.lease.attempt;
        self.mirror.note_ending(&mut ending);
        self.retained_attempts.push(ending.attempt);
        self.handle(Input::Completed(Box::new(ending.completed)));
        self.mirror.forget_ending(attempt);
    }

    fn handle(&mut self, mut input: Input) {
        let now = self.now();
        if let Input::Submit { submit, .. } = &mut input {
            // The job may have ended after the caller read the records.
            let finished = self.components.finished.get(submit.job);
            let ended =
                finished.as_ref().map(|finished| &*finished.record).or(self.mirror.ending(submit.job));
            let is_own = ended.is_some_and(|record| record.principal == submit.submitter.name);
            submit.known = submit.known.or(is_own.then_some(submit.job));
        }
        let peer = input.submitter().and_then(|submitter| submitter.peer);
        self.components.pool.take(now, input);
        self.drain(now, peer);
    }

    /// Sorts the pool's effects into records and effects to carry out. `peer` is the address of the client that sent the
    /// input.
    fn drain(&mut self, now: Now, peer: Option<IpAddr>) {
        while let Some(effect) = self.components.pool.poll_effect() {
            match effect {
                Effect::Persist(change) => {
                    self.decided.extend(Self::accepted(&change, peer));
                    self.timing.persist(now.clock, &change);
                    self.mirror.apply(now, change, &mut self.records);
                }
                Effect::Note(change) => {
                    self.mirror.apply(now, change, &mut self.records);
                    self.timing.note(now.clock);
                }
                other => {
                    self.decide(&other);
                    self.effects.push(other);
                }
            }
        }
    }

    /// Moves the note of an accepted request to the audit queue. A refused request changed nothing,
    /// so its note is dropped.
    fn decide(&mut self, effect: &Effect) {
        match effect {
            Effect::Acknowledged { client, .. } => self.decided.extend(self.undecided.remove(client)),
            Effect::Refused { client, .. } => drop(self.undecided.remove(client)),
            _ => {}
        }
    }

    /// Returns the audit line for an accepted submit or cancel.
    fn accepted(change: &Change, peer: Option<IpAddr>) -> Option<Note> {
        match change {
            Change::Submitted(record) => {
                let token = record.token.map(|token| format!("token {token}")).unwrap_or_default();
                let (actor, subject) = (record.submitter.clone(), record.job.to_string());
                Some(Note { actor, peer, action: SUBMIT, subject, detail: token })
            }
            Change::CancelRequested { job, by, reason } => {
                let (actor, subject, detail) = (by.clone(), job.to_string(), reason.clone());
                Some(Note { actor, peer, action: CANCEL, subject, detail })
            }
            _ => None,
        }
    }

    /// Writes accepted requests to the audit log, even if the client has disconnected. A failure must
    /// not prevent a cancel: the cancelled job may be the one that fills the disk.
    fn audit(&mut self) {
        self.audit_by(Tokens::audit_all, |note| note.action != SUBMIT);
    }

    /// Writes accepted submits to the audit log. Replies do not wait for it.
    fn audit_submits(&mut self) {
        self.audit_by(Tokens::audit_soon, |note| note.action == SUBMIT);
    }

    fn audit_by(
        &mut self,
        write: fn(&Tokens, &[Note]) -> Result<(), StoreError>,
        is_wanted: fn(&mut Note) -> bool,
    ) {
        let notes: Vec<Note> = self.decided.extract_if(.., is_wanted).collect();
        if !notes.is_empty()
            && let Err(error) = write(&self.components.tokens, &notes)
        {
            let count = notes.len();
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "{count} requests are not in the audit log"
            );
        }
    }

    /// Writes the last pending records at the end. A failure is only logged.
    fn write_notes(&mut self) {
        if !self.records.is_empty()
            && let Err(error) = self.components.writer.commit(&self.records)
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the last starts of jobs are not recorded"
            );
        }
    }

    /// Returns true if no other coordinator can be the leader at this moment.
    fn leads(&self) -> bool {
        self.components.leadership.as_ref().is_none_or(Leadership::holds)
    }

    /// Writes the pending records.
    ///
    /// # Errors
    /// If another coordinator is the leader. Other errors are retried here.
    async fn commit(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), Replaced> {
        if let Err(error) = self.components.writer.commit(&self.records) {
            self.retry_write(error, commands).await?;
        }
        self.records.clear();
        self.timing.written();
        self.components.connections.note_commit();
        Ok(())
    }
}

/// Another coordinator is the leader, so this one stops writing.
struct Replaced;
