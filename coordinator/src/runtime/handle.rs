//! Commands for the runtime thread, and the handle that sends them from any task.

use super::ListQuery;
use crate::attempt::LiveAttempt;
use crate::auth::Note;
use crate::net::request_limits::RequestPermit;
use crate::store::{Sealed, TokenUse};
use buildpool_digest::{Digest, TestResult};
use buildpool_pool::{Completed, Input, LabelQueue, LiveJob, LiveJobs, Load, WorkerView};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::transfer::SnapshotName;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// A command for the runtime.
pub(crate) enum Command {
    /// Passes an input to the pool.
    Input(Input),
    /// Passes an input to the pool. Its permit ends when its records are on disk.
    Limited { input: Input, permit: RequestPermit },
    /// Passes an input to the pool, and writes the note to the audit log if the pool accepts it.
    Noted { input: Input, note: Note },
    /// Records the use of a token from an address.
    TokenUsed(TokenUse),
    /// Completes an attempt with a sealed and digested log.
    Completed(Box<Ending>),
    /// Returns the state of one live job.
    Live { job: JobId, reply: oneshot::Sender<Option<LiveJob>> },
    /// Returns the snapshots that live jobs need.
    LiveSnapshots { reply: oneshot::Sender<Vec<SnapshotName>> },
    /// Returns the states of some live jobs, with queue positions and estimated waits.
    NewestLive { wanted: ListQuery, reply: oneshot::Sender<Vec<LiveJob>> },
    /// Returns all workers.
    Workers { reply: oneshot::Sender<Vec<WorkerView>> },
    /// Returns the numbers of waiting and of granted jobs.
    Load { reply: oneshot::Sender<Load> },
    /// Returns the waiting jobs by label.
    Queues { reply: oneshot::Sender<BTreeMap<String, LabelQueue>> },
    /// Returns the jobs that wait longest: all of them, or those of one submitter.
    LongestWaiting { submitter: Option<String>, reply: oneshot::Sender<Vec<LiveJob>> },
    /// Returns the live jobs by submitter.
    LiveBySubmitter { reply: oneshot::Sender<BTreeMap<String, LiveJobs>> },
}

/// Results of an ended attempt that the records need.
pub(crate) struct Ending {
    pub(crate) completed: Completed,
    pub(crate) sealed: Sealed,
    /// When its log was sealed, in milliseconds since 1970.
    pub(crate) sealed_at_ms: i64,
    pub(crate) digest: Arc<Digest>,
    /// Results of its tests, for the history.
    pub(crate) tests: Vec<TestResult>,
    /// Keeps the log's writer alive until the records are on disk.
    pub(crate) attempt: Arc<LiveAttempt>,
}

/// Sends commands to the runtime from any task. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
}

impl Handle {
    /// Sends a command, and waits while the channel is full. A command is lost only if the
    /// coordinator ends.
    pub(crate) async fn send(&self, command: Command) {
        // An error means that the runtime has ended. There is nothing left to report to.
        let _ended = self.commands.send(command).await;
    }

    pub(crate) async fn input(&self, input: Input) {
        self.send(Command::Input(input)).await;
    }

    /// Sends an input without waiting. The input is dropped if the channel is full, so use it only
    /// for inputs that are cheap to lose.
    pub(crate) fn offer(&self, input: Input) {
        let _full = self.commands.try_send(Command::Input(input));
    }

    /// Records the use of a token without waiting. Returns false if the channel is full.
    pub(crate) fn token_used(&self, used: TokenUse) -> bool {
        self.commands.try_send(Command::TokenUsed(used)).is_ok()
    }

    pub(crate) async fn live(&self, job: JobId) -> Option<LiveJob> {
        self.ask(|reply| Command::Live { job, reply }).await.flatten()
    }

    /// Returns the snapshots that live jobs need.
    pub(crate) async fn live_snapshots(&self) -> Vec<SnapshotName> {
        self.ask(|reply| Command::LiveSnapshots { reply }).await.unwrap_or_default()
    }

    /// Returns the newest live jobs that match the filter, with positions and estimates.
    pub(crate) async fn newest_live(&self, wanted: ListQuery) -> Vec<LiveJob> {
        self.ask(|reply| Command::NewestLive { wanted, reply }).await.unwrap_or_default()
    }

    pub(crate) async fn workers(&self) -> Vec<WorkerView> {
        self.ask(|reply| Command::Workers { reply }).await.unwrap_or_default()
    }

    pub(crate) async fn load(&self) -> Load {
        self.ask(|reply| Command::Load { reply }).await.unwrap_or_default()
    }

    pub(crate) async fn queues(&self) -> BTreeMap<String, LabelQueue> {
        self.ask(|reply| Command::Queues { reply }).await.unwrap_or_default()
    }

    pub(crate) async fn longest_waiting(&self, submitter: Option<String>) -> Vec<LiveJob> {
        self.ask(|reply| Command::LongestWaiting { submitter, reply }).await.unwrap_or_default()
    }

    pub(crate) async fn live_by_submitter(&self) -> BTreeMap<String, LiveJobs> {
        self.ask(|reply| Command::LiveBySubmitter { reply }).await.unwrap_or_default()
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await;
        answer.await.ok()
    }
}
