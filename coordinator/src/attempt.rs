//! A live attempt in the coordinator: its growing log, and the digest that follows the log.

use crate::app_state::wall_ms;
use crate::digesting::{self, Amounts, DigestFollower, Following};
use crate::store::{Appended, LogError, LogWriter, Logs, SealError, Sealed};
use buildpool_digest::{Digester, Live};
use buildpool_pool::Session;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::spec::JobSpec;
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

pub(crate) struct LiveAttempt {
    pub(crate) lease: Lease,
    pub(crate) spec: Arc<JobSpec>,
    /// The only connection that may write; 0 means no connection.
    session: AtomicU64,
    log: Mutex<LogTasks>,
    follow: Arc<Following>,
    /// Length of the log by its worker's last report.
    declared: AtomicU64,
    completing: AtomicBool,
    /// Number of times that its worker declared another log than it sent.
    mismatches: AtomicU32,
    /// A connection with refused output, until the coordinator requests that output again; 0 means
    /// no connection.
    resend_session: AtomicU64,
    /// Whether the worker has reported the end of the command and its processes.
    ended: AtomicBool,
    refusals: Mutex<Refusals>,
    /// Time of its last output.
    output_at: Mutex<Option<Instant>>,
}

/// Refusals of the disk for one log.
#[derive(Default)]
struct Refusals {
    /// Since the last output that the disk accepted.
    output: Option<Refusal>,
    /// Since the first refusal of the seal: a seal that fails repeatedly must end too.
    seal: Option<Refusal>,
}

/// Start and reason of the refusals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    since: Instant,
    /// Milliseconds since 1970.
    pub(crate) since_ms: i64,
    /// The error of the system, or the message about the coordinator's reserve.
    pub(crate) reason: String,
}

impl Refusal {
    fn note(noted: &mut Option<Self>, reason: String) -> Duration {
        match noted {
            Some(refusal) => refusal.reason = reason,
            None => *noted = Some(Self { since: Instant::now(), since_ms: wall_ms(), reason }),
        }
        noted.as_ref().map_or(Duration::ZERO, |refusal| refusal.since.elapsed())
    }
}

#[derive(Default)]
struct LogTasks {
    writer: Option<LogWriter>,
    digest: DigestTask,
}

/// The one task that digests the log.
#[derive(Default)]
enum DigestTask {
    #[default]
    NotBegun,
    Follows(JoinHandle<Result<Digester, LogError>>),
    /// The completion of the attempt waits for its result, so a second one must not begin.
    Awaited,
}

impl LogTasks {
    /// Ends the digest of a log that begins again.
    fn abort_digest(&mut self) {
        if let DigestTask::Follows(task) = &self.digest {
            task.abort();
            self.digest = DigestTask::NotBegun;
        }
    }
}

impl LiveAttempt {
    pub(crate) fn new(lease: Lease, spec: Arc<JobSpec>) -> Self {
        Self {
            lease,
            spec,
            session: AtomicU64::new(0),
            log: Mutex::default(),
            follow: Arc::default(),
            declared: AtomicU64::new(0),
            completing: AtomicBool::new(false),
            mismatches: AtomicU32::new(0),
            resend_session: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            refusals: Mutex::default(),
            output_at: Mutex::default(),
        }
    }

    /// Records that the worker has reported the end of the command and its processes, with the length of its log.
    pub(crate) fn note_ended(&self, log_length: u64) {
        self.declared.store(log_length, Ordering::Relaxed);
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Records that its worker declared another log than it sent. Returns the number of times.
    pub(crate) fn note_mismatch(&self) -> u32 {
        self.mismatches.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Records that the disk refused output. Returns the time since the first refusal.
    pub(crate) fn output_refused(&self, reason: String) -> Duration {
        Refusal::note(&mut self.refusals().output, reason)
    }

    /// Records that the disk refused the seal. Returns the time since the first refusal.
    pub(crate) fn seal_refused(&self, reason: String) -> Duration {
        Refusal::note(&mut self.refusals().seal, reason)
    }

    /// Returns the current refusal, if any.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let refusals = self.refusals();
        refusals.seal.clone().or_else(|| refusals.output.clone())
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this connection the only one that may write.
    pub(crate) fn belongs_to(&self, session: Session) {
        self.session.store(session.0, Ordering::Release);
    }

    pub(crate) fn is_of(&self, session: Session) -> bool {
        self.session.load(Ordering::Acquire) == session.0
    }

    /// Returns the current live view of the digest.
    pub(crate) fn live(&self) -> Live {
        self.follow.live()
    }

    /// Records that the whole log of this length is stored, and only its digest is missing.
    pub(crate) fn begin_last_part(&self, log_length: u64) {
        self.follow.whole(log_length);
    }

    /// Returns how much of the log has arrived, or is digested.
    pub(crate) fn amounts(&self) -> Amounts {
        match self.follow.digested() {
            Some((bytes, of)) => Amounts::Digested { bytes, of },
            None => {
                Amounts::Arrived { bytes: self.follow.arrived(), of: self.declared.load(Ordering::Relaxed) }
            }
        }
    }

    /// Makes the digest of the sealed log leave out the part that it has not read. May wait for the log's lock.
    pub(crate) fn cut_digest(&self) {
        let lengths = self.lock().writer.as_ref().map(|writer| writer.state().stream_lengths);
        self.follow.cut(lengths.unwrap_or_default());
    }

    /// Whether the digest lacks a part of the log.
    pub(crate) fn is_digest_cut(&self) -> bool {
        self.follow.has_left_out()
    }

    /// Returns the end position of the stored log. May block on the disk.
    pub(crate) fn position(&self, logs: &Logs) -> Result<u64, LogError> {
        self.at_log(|log| Ok(self.writer(log, logs)?.state().position))
    }

    /// Appends chunks that begin at `position`, and starts the digest with the first of them.
    /// Blocks on the disk.
    pub(crate) fn append(&self, logs: &Logs, position: u64, chunks: &Bytes) -> Result<Appended, LogError> {
        let mut log = self.lock();
        let writer = self.writer(&mut log, logs)?;
        let appended = writer.append_shared(position, chunks)?;
        if writer.is_storing() {
            self.refusals().output = None;
        }
        if let Appended::Stored { position } = appended {
            self.follow.has_arrived(position);
        }
        self.begin_digesting(&mut log);
        *self.output_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(appended)
    }

    /// Returns the time since the last output that this coordinator received.
    pub(crate) fn silence(&self) -> Option<Duration> {
        self.output_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// Returns true if output is stored, not only counted because the disk refuses it.
    pub(crate) fn is_storing(&self) -> bool {
        self.lock().writer.as_ref().is_none_or(LogWriter::is_storing)
    }

    /// Stops storing the log; later output is only counted.
    pub(crate) fn stop_storing(&self, logs: &Logs, reason: String) -> Result<(), LogError> {
        self.writer(&mut self.lock(), logs)?.stop_storing(reason)
    }

    /// Stores output again. Returns the position at which the stored log ends.
    pub(crate) fn store_again(&self, logs: &Logs) -> Result<u64, LogError> {
        let mut log = self.lock();
        let writer = self.writer(&mut log, logs)?;
        writer.store_again();
        self.refusals().output = None;
        Ok(writer.state().position)
    }

    /// Removes the stored log, so that the worker sends it again from position 0.
    pub(crate) fn restart(&self, logs: &Logs) -> Result<(), LogError> {
        let mut log = self.lock();
        log.abort_digest();
        self.writer(&mut log, logs)?.restart()
    }

    /// Checks the log against the worker's declaration and makes it durable. May block on the disk.
    pub(crate) fn seal(&self, logs: &Logs, outcome: &Outcome) -> Result<Sealed, SealError> {
        let seal = |log: &mut LogTasks| {
            let sealed = self.writer(log, logs)?.seal(&outcome.seals, outcome.log_length)?;
            if sealed.state.position > 0 {
                self.begin_digesting(log);
            }
            Ok(sealed)
        };
        // An empty log has no file to sync.
        if outcome.log_length == 0 { seal(&mut self.lock()) } else { self.at_log(seal) }
    }

    /// Seals the log without storing any of it. Its gaps have the declared lengths.
    pub(crate) fn seal_unstored(
        &self,
        logs: &Logs,
        outcome: &Outcome,
        reason: &str,
    ) -> Result<Sealed, SealError> {
        let lengths = [outcome.seals[0].length, outcome.seals[1].length];
        let mut log = self.lock();
        log.abort_digest();
        let sealed = self.writer(&mut log, logs)?.seal_unstored(lengths, reason)?;
        self.begin_digesting(&mut log);
        Ok(sealed)
    }

    /// Waits until the digester has read the whole sealed log, and returns it.
    pub(crate) async fn digester(&self) -> Result<Digester, LogError> {
        let digest = std::mem::replace(&mut self.lock().digest, DigestTask::Awaited);
        match digest {
            DigestTask::NotBegun => Ok(Digester::new(digesting::options(&self.spec, self.lease.attempt.job))),
            DigestTask::Awaited => Err(LogError::Broken),
            DigestTask::Follows(task) => match task.await {
                Ok(digested) => digested,
                Err(_aborted) => Err(LogError::Broken),
            },
        }
    }

    /// Closes the log of a lost attempt.
    pub(crate) fn abandon(&self, logs: &Logs) -> Result<(), LogError> {
        let mut log = self.lock();
        log.abort_digest();
        // If the completion waits for it, the digest ends with what it has read.
        self.follow.cut([0; 2]);
        self.writer(&mut log, logs)?.abandon()
    }

    /// Returns true if the output of this connection will be requested again, so that it need not
    /// be stored now.
    pub(crate) fn is_resend_requested(&self, session: Session) -> bool {
        self.resend_session.load(Ordering::Acquire) == session.0
    }

    pub(crate) fn request_resend(&self, session: Session) {
        self.resend_session.store(session.0, Ordering::Release);
    }

    pub(crate) fn end_resend_request(&self) {
        self.resend_session.store(0, Ordering::Release);
    }

    /// Returns true for the first caller. Later callers get false, until
    /// [`LiveAttempt::completing_failed`].
    pub(crate) fn begin_completing(&self) -> bool {
        !self.completing.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn completing_failed(&self) {
        self.completing.store(false, Ordering::Release);
    }

    /// Runs `act` on the log. If it may block, moves the thread's other tasks to another thread
    /// first. For a log in memory, that move would cost more than `act` itself.
    fn at_log<T>(&self, act: impl FnOnce(&mut LogTasks) -> T) -> T {
        if let Ok(mut log) = self.log.try_lock()
            && log.writer.as_ref().is_some_and(LogWriter::is_in_memory)
        {
            return act(&mut log);
        }
        tokio::task::block_in_place(|| act(&mut self.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, LogTasks> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer<'a>(&self, log: &'a mut LogTasks, logs: &Logs) -> Result<&'a mut LogWriter, LogError> {
        match &mut log.writer {
            Some(_) => {}
            empty => *empty = Some(logs.open(self.lease.attempt)?),
        }
        log.writer.as_mut().ok_or(LogError::Unknown)
    }

    fn begin_digesting(&self, log: &mut LogTasks) {
        if matches!(log.digest, DigestTask::NotBegun)
            && let Some(writer) = &log.writer
        {
            let digester = Digester::new(digesting::options(&self.spec, self.lease.attempt.job));
            let follower = DigestFollower::new(writer.reader(), digester, self.follow.clone());
            log.digest = DigestTask::Follows(tokio::spawn(follower.follow()));
        }
    }
}
