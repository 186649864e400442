//! While the disk refuses writes: who only asks is answered, workers are heard, and whoever wants something else learns that it
//! waits.

use super::{Answer, COMMANDS_MAX, Command, Runtime};
use crate::hub::{Reply, WorkerOut};
use crate::net::admission;
use crate::store::StoreError;
use buildpool_pool::{ClientRef, Effect, Input, LiveJob, Now, Session, Waits};
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Records that wait for the disk at which workers that register are left to wait as well, to be heard later.
const RECORDS_WAITING_MAX: usize = 65_536;
/// How long a refused write waits before it is tried again.
const WRITE_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// When the disk has refused writes for so long, whoever waits for one is told.
const TELL_AFTER: Duration = Duration::from_secs(3);

impl Runtime {
    /// Writes the records as soon as the disk takes them.
    pub(super) async fn write_again(&mut self, error: StoreError, commands: &mut mpsc::Receiver<Command>) {
        tracing::error!(error = &error as &dyn std::error::Error, "records can't be written; trying again");
        let (since, mut why) = (Instant::now(), chain(&error));
        self.unwritten_since_ms = Some(self.now().wall_ms);
        self.hear_newcomers(0);
        self.answer_repeated(0);
        loop {
            self.parts.hub.set_degraded(Some(why.clone()));
            self.wait_for_room(&why, commands).await;
            match self.parts.writer.commit(&self.records) {
                Ok(()) => break,
                Err(error) => why = chain(&error),
            }
            if since.elapsed() >= TELL_AFTER {
                self.tell_who_waits(&why);
            }
        }
        tracing::info!("records can be written again");
        self.parts.hub.set_degraded(None);
        self.unwritten_since_ms = None;
    }

    /// Waits before records are written again. Who only asks is answered meanwhile, and so are workers that register or report: that
    /// they were heard decides nothing, and without it their keepers would end what runs. Who submits a job once more is answered as
    /// well, for that job is on disk. Everything else keeps its place.
    async fn wait_for_room(&mut self, why: &str, commands: &mut mpsc::Receiver<Command>) {
        self.answer_ahead(why);
        // No disk says when it has room again.
        let until = tokio::time::sleep(WRITE_AGAIN_AFTER);
        tokio::pin!(until);
        loop {
            let command = tokio::select! {
                () = &mut until => return,
                command = commands.recv() => command,
            };
            let first = self.effects.len();
            match command {
                // At worst an equal submit gets the same end once more.
                Some(Command::Input(Input::Delivered { .. })) => {}
                // What it says is said again with the next report; what should become of each attempt waits for the disk.
                Some(Command::Input(Input::Reported { session, .. })) => self.heard(session),
                // Decided now, so that its time begins anew before anybody could take it for lost; said when it is on disk. So is that
                // a connection is gone: its worker may come back from another start.
                Some(Command::Input(input @ (Input::Registered { .. } | Input::Gone { .. })))
                    if self.records.len() < RECORDS_WAITING_MAX =>
                {
                    self.handle(input);
                    self.hear_newcomers(first);
                }
                Some(Command::Input(Input::Submit { client, mut submit })) => {
                    submit.refused.get_or_insert_with(|| admission::without_records(why));
                    self.handle(Input::Submit { client, submit });
                    self.answer_repeated(first);
                }
                Some(Command::Input(input)) => self.hold_back(input),
                Some(Command::Noted { input, note }) => {
                    self.undecided.extend(input.client().map(|client| (client, note)));
                    self.hold_back(input);
                }
                Some(command @ Command::Completed(_)) => self.held_back.push_back(command),
                Some(question) => {
                    self.take(question);
                    self.answer_ahead(why);
                }
                None => return until.await,
            }
        }
    }

    /// Answers ahead of the records. A job whose end waits for the disk is told as one that waits for that.
    fn answer_ahead(&mut self, why: &str) {
        let now = self.now();
        for answer in std::mem::take(&mut self.answers) {
            match answer {
                Answer::Any(give) => give(),
                Answer::Ended { job, reply } => drop(reply.send(self.mirror.unwritten(now, job, why))),
            }
        }
    }

    /// The jobs whose ends wait for a disk that refuses them.
    pub(super) fn unwritten(&self, now: Now) -> Vec<LiveJob> {
        let Some(why) = self.parts.hub.degraded() else { return Vec::new() };
        self.mirror.ended().filter_map(|job| self.mirror.unwritten(now, job, &why)).collect()
    }

    /// A job that runs may have ended since the disk refuses records: that is told as soon as it can be recorded.
    pub(super) fn with_doubt(&self, mut live: LiveJob) -> LiveJob {
        if let Some(since_ms) = self.unwritten_since_ms
            && live.waiting.is_none()
            && let Some(why) = self.parts.hub.degraded()
        {
            let reason = format!(
                "whether it still runs is told when that can be recorded: the coordinator can't write its records ({why})"
            );
            live.waiting = Some(Waits { reason, position: None, since_ms, estimate: None });
        }
        live
    }

    /// Tells the workers whose welcome waits for the disk, from this effect on, that they were heard.
    fn hear_newcomers(&self, first: usize) {
        for effect in self.effects.iter().skip(first) {
            if let Effect::Welcome { session, .. } = effect {
                self.heard(*session);
            }
        }
    }

    fn heard(&self, session: Session) {
        self.parts.hub.to_worker(session, WorkerOut::Desire { wishes: Vec::new() });
    }

    /// Answers submits, from this effect on, that are refused or mean a job that is on disk. A job that waits to be written is
    /// promised to nobody yet.
    fn answer_repeated(&mut self, first: usize) {
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
        ahead.into_iter().for_each(|effect| self.carry_out(effect));
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
                self.parts.hub.to_client(client, Reply::Refused { request: client.request, error });
            }
            _ => self.held_back.push_back(Command::Input(input)),
        }
    }

    /// Tells each client whose request waits for the disk that it does, once. The request keeps its place: a job that is to end
    /// should not have to be asked to a second time.
    fn tell_who_waits(&mut self, why: &str) {
        let decided = self.effects.iter().filter_map(|effect| match effect {
            Effect::Acknowledged { client, .. } => Some(*client),
            _ => None,
        });
        let held = self.held_back.iter().filter_map(|command| match command {
            Command::Input(input) => input.client(),
            _ => None,
        });
        let waiting: Vec<ClientRef> =
            decided.chain(held).filter(|client| !self.told.contains(client)).collect();
        for client in waiting {
            let error = LinkError::new(
                ErrorCode::Unavailable,
                format!(
                    "the coordinator can't write its records ({why}): this is done as soon as it can, unless it is restarted before; ask again then"
                ),
            );
            self.parts.hub.to_client(client, Reply::Refused { request: client.request, error });
            self.told.insert(client);
        }
    }
}
