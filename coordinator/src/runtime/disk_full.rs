//! Behaviour while the disk refuses writes: queries and workers are answered, all other requests
//! wait.

use super::{COMMANDS_MAX, Command, QueryReply, Replaced, Runtime};
use crate::connections::{Reply, WorkerOut};
use crate::net::admission;
use crate::store::StoreError;
use buildpool_pool::{ClientRef, Effect, Input, LiveJob, Now, Session, WaitInfo};
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::report::JobState;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Limit on pending records. Above it, a worker that registers waits for the disk too.
const RECORDS_WAITING_MAX: usize = 65_536;
/// Delay before a refused write is retried.
const RETRY_WRITE_AFTER: Duration = Duration::from_millis(500);
/// Time after which waiting clients receive a message that the disk refuses writes.
const NOTIFY_AFTER: Duration = Duration::from_secs(3);

impl Runtime {
    /// Retries the write until the disk or the server accepts the records.
    ///
    /// # Errors
    /// If another coordinator is the leader, or may be.
    pub(super) async fn retry_write(
        &mut self,
        error: StoreError,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<(), Replaced> {
        if error.is_fenced() || !self.leads() {
            return Err(Replaced);
        }
        tracing::error!(error = &error as &dyn std::error::Error, "records can't be written; trying again");
        let (since, mut why) = (Instant::now(), chain(&error));
        self.unwritten_since_ms = Some(self.now().wall_ms);
        self.answer_registrations(0);
        self.answer_known_submits(0);
        loop {
            self.components.connections.set_degraded(Some(why.clone()));
            self.answer_until_retry(&why, commands).await;
            match self.components.writer.commit(&self.records) {
                Ok(()) => break,
                Err(error) if error.is_fenced() || !self.leads() => return Err(Replaced),
                Err(error) => why = chain(&error),
            }
            if since.elapsed() >= NOTIFY_AFTER {
                self.notify_waiting_clients(&why);
            }
        }
        tracing::info!("records can be written again");
        self.components.connections.set_degraded(None);
        self.unwritten_since_ms = None;
        Ok(())
    }

    /// Handles commands until the next retry.
    ///
    /// Queries are answered. Workers that register or report receive an empty reply: it decides
    /// nothing, but without a reply their keepers would end the running jobs. A repeated submit is
    /// answered too, because its job is on disk. All other commands are held back in order.
    async fn answer_until_retry(&mut self, why: &str, commands: &mut mpsc::Receiver<Command>) {
        self.answer_before_write(why);
        // The system does not report when a disk has room again, so retry on a timer.
        let until = tokio::time::sleep(RETRY_WRITE_AFTER);
        tokio::pin!(until);
        loop {
            let command = tokio::select! {
                () = &mut until => return,
                command = commands.recv() => command,
            };
            // An input is answered now or held back, so its permit ends.
            let command = match command {
                Some(Command::Limited { input, .. }) => Some(Command::Input(input)),
                command => command,
            };
            let first = self.effects.len();
            match command {
                // If this is lost, an equal submit returns the same result once more.
                Some(Command::Input(Input::Delivered { .. })) => {}
                // The next report has the same content. The decision about each attempt waits for
                // the disk.
                Some(Command::Input(Input::Reported { session, .. })) => self.send_empty_reply(session),
                // Handle a registration now, so that the worker's lease time restarts before the
                // attempt counts as lost. The reply waits for the disk. Handle a closed connection
                // now too, because the worker may reconnect after a restart.
                Some(Command::Input(input @ (Input::Registered { .. } | Input::Gone { .. })))
                    if self.records.len() < RECORDS_WAITING_MAX =>
                {
                    self.handle(input);
                    self.answer_registrations(first);
                }
                Some(Command::Input(Input::Submit { client, mut submit })) => {
                    submit.refused.get_or_insert_with(|| admission::without_records(why));
                    self.handle(Input::Submit { client, submit });
                    self.answer_known_submits(first);
                }
                Some(Command::Input(input)) => self.hold_back(input),
                Some(Command::Noted { input, note }) => {
                    self.undecided.extend(input.client().map(|client| (client, note)));
                    self.hold_back(input);
                }
                Some(command @ Command::Completed(_)) => self.held_back.push_back(command),
                // A later connection from there records it.
                Some(Command::TokenUsed(_)) => {}
                Some(question) => {
                    self.handle_command(question);
                    self.answer_before_write(why);
                }
                None => return until.await,
            }
        }
    }

    /// Sends replies before the records are on disk. If the end of a job is not recorded yet, the
    /// job is reported as waiting for its record.
    fn answer_before_write(&mut self, why: &str) {
        let now = self.now();
        for answer in std::mem::take(&mut self.answers) {
            match answer {
                QueryReply::Any(give) => give(),
                QueryReply::Ended { job, reply } => drop(reply.send(self.mirror.unwritten(now, job, why))),
            }
        }
    }

    /// Returns the ended jobs that wait for a disk that refuses their records.
    pub(super) fn unwritten(&self, now: Now) -> Vec<LiveJob> {
        let Some(why) = self.components.connections.degraded() else { return Vec::new() };
        self.mirror.ended().filter_map(|job| self.mirror.unwritten(now, job, &why)).collect()
    }

    /// Adds the reason of a wait that only the owner of logs and records has: how much of a log is still to come, and whether
    /// the coordinator's disk refuses the log, or the record of the job's end.
    pub(super) fn with_delay_reason(&self, mut live: LiveJob) -> LiveJob {
        if let Some(attempt) = live.attempts.last()
            && let Some(attempt) = self
                .components
                .connections
                .attempt(AttemptId { job: live.record.job, number: attempt.number })
        {
            if let Some(refusal) = attempt.refusal() {
                let reason = format!("its log can't be stored: {}", refusal.reason);
                live.waiting = Some(WaitInfo::new(reason, refusal.since_ms));
            } else if live.state == JobState::Sealing
                && let Some(waits) = &mut live.waiting
                && let Some(amount) = attempt.amounts().text()
            {
                waits.reason = format!("{} ({amount})", waits.reason);
            }
        }
        if let Some(since_ms) = self.unwritten_since_ms
            && (live.waiting.is_none() || live.state == JobState::Sealing)
            && let Some(why) = self.components.connections.degraded()
        {
            let reason = format!(
                "it may have ended; its state follows when the coordinator can write its records ({why})"
            );
            live.waiting = Some(WaitInfo::new(reason, since_ms));
        }
        live
    }

    /// Sends an empty reply to each worker with a welcome, at index `first` or later, that waits
    /// for the disk.
    fn answer_registrations(&self, first: usize) {
        for effect in self.effects.iter().skip(first) {
            if let Effect::Welcome { session, .. } = effect {
                self.send_empty_reply(*session);
            }
        }
    }

    fn send_empty_reply(&self, session: Session) {
        self.components.connections.to_worker(session, WorkerOut::Desired { desired: Vec::new() });
    }

    /// Sends the replies, at index `first` or later, to submits that are refused or refer to a job
    /// on disk. A job that is not on disk yet is not acknowledged.
    fn answer_known_submits(&mut self, first: usize) {
        let is_unwritten = |effects: &[Effect], wanted| {
            effects.iter().any(
                |effect| matches!(effect, Effect::Accepted { job, reattached: false, .. } if *job == wanted),
            )
        };
        let (mut ahead, mut later) = (Vec::new(), Vec::new());
        for effect in self.effects.split_off(first) {
            let is_ahead = match &effect {
                Effect::Refused { .. } => true,
                Effect::Accepted { job, reattached: true, .. } => {
                    !is_unwritten(&self.effects, *job) && !is_unwritten(&later, *job)
                }
                _ => false,
            };
            if is_ahead { ahead.push(effect) } else { later.push(effect) }
        }
        self.effects.append(&mut later);
        ahead.into_iter().for_each(|effect| self.perform(effect));
    }

    fn hold_back(&mut self, input: Input) {
        match input.client() {
            Some(client) if self.held_back.len() >= COMMANDS_MAX => {
                self.undecided.remove(&client);
                let error = LinkError::new(
                    ErrorCode::Unavailable,
                    format!(
                        "the coordinator's disk takes no records now, and {COMMANDS_MAX} requests wait for it; nothing was done"
                    ),
                );
                self.components
                    .connections
                    .to_client(client, Reply::Refused { request: client.request, error });
            }
            _ => self.held_back.push_back(Command::Input(input)),
        }
    }

    /// Sends each client with a waiting request one message about the disk. The request keeps its
    /// place, so that a client need not repeat a cancel.
    fn notify_waiting_clients(&mut self, why: &str) {
        let decided = self.effects.iter().filter_map(|effect| match effect {
            Effect::Acknowledged { client, .. } => Some(*client),
            _ => None,
        });
        let held = self.held_back.iter().filter_map(|command| match command {
            Command::Input(input) => input.client(),
            _ => None,
        });
        let waiting: Vec<ClientRef> =
            decided.chain(held).filter(|client| !self.notified.contains(client)).collect();
        for client in waiting {
            let error = LinkError::new(
                ErrorCode::Unavailable,
                format!(
                    "the coordinator can't write its records ({why}): the change follows as soon as it can, unless the coordinator restarts before; check again then"
                ),
            );
            self.components.connections.to_client(client, Reply::Refused { request: client.request, error });
            self.notified.insert(client);
        }
    }
}
