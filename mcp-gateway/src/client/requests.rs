//! What is open on a link: which answer belongs to whom, and what is said again after an interruption. No I/O.

use super::error::{ClientError, Misbehaviour};
use super::reader::{LogReader, Output};
use super::transfer::{TransferEvent, TransferEvents};
use buildpool_protocol::LinkError;
use buildpool_protocol::client_link::{Cursor, FromClient, Progress, SubmitMessage, ToClient, View};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::transfer;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Requests that one client may have open.
pub(super) const OPEN_MAX: usize = 1024;
/// Events that wait for one consumer. The window bounds output long before; beyond this, progress is dropped.
pub(super) const EVENTS_MAX: usize = 1 << 17;
/// How long the coordinator is asked to wait at a time when a submit can't be repeated.
const POLL_FOR: Duration = Duration::from_secs(60);

/// Something that happened to a submitted or followed job.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// The job is on disk.
    Accepted {
        /// Another one than was submitted, if it was the same as an earlier one.
        job: JobId,
        /// Whether it was.
        reattached: bool,
    },
    /// How it goes.
    Progress(Progress),
    /// An attempt begins; what came before belongs to an earlier one.
    Attempt(u32),
    /// What it wrote.
    Output(Output),
    /// The log has ended here.
    End(Cursor),
    /// The job goes on, its output does not come any more.
    OutputLost(LinkError),
    /// The job is done. The last event.
    Complete(Box<JobResult>),
    /// It could not be. The last event.
    Failed(ClientError),
}

pub(super) type Reply = oneshot::Sender<Result<ToClient, ClientError>>;
pub(super) type Events = mpsc::Sender<JobEvent>;

/// A request with one answer.
pub(super) struct Call {
    pub(super) message: FromClient,
    /// Must not be said twice.
    pub(super) once: bool,
    pub(super) asked: Instant,
    pub(super) reply: Reply,
}

/// What a channel was opened for.
pub(super) enum Opening {
    Submit(Box<SubmitMessage>),
    Follow { job: String, cursor: Option<Cursor>, attempt: Option<u32>, to_end: bool, tail: Option<u64> },
}

struct Channel {
    opening: Opening,
    events: Events,
    reader: LogReader,
    /// As which job, once it is known.
    accepted: Option<JobId>,
    /// The log's end was said.
    ended: bool,
    /// The number under which output comes, when it is not the channel's own.
    follow: Option<u32>,
    /// A follow that is to be said again once the consumer has caught up.
    deferred: Option<FromClient>,
    /// A result that came before the end of the log that is followed beside it.
    held: Option<Box<JobResult>>,
}

/// All open requests of a client, by number, and what is to be sent.
#[derive(Default)]
pub(super) struct Requests {
    calls: HashMap<u32, Call>,
    channels: HashMap<u32, Channel>,
    /// From the number of a resumed follow to its channel.
    aliases: HashMap<u32, u32>,
    transfers: HashMap<u32, TransferEvents>,
    /// To be sent, in order.
    pub(super) outbox: VecDeque<Outgoing>,
    last_alias: u32,
}

/// A message or a frame that is to be sent.
pub(super) enum Outgoing {
    Control(FromClient),
    /// Bytes of a transfer, their header included.
    Frame(Bytes),
}

impl From<FromClient> for Outgoing {
    fn from(message: FromClient) -> Self {
        Self::Control(message)
    }
}

/// Numbers from here on are given to resumed follows, those below to callers.
pub(super) const FIRST_ALIAS: u32 = 1 << 31;

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.channels.is_empty() && self.transfers.is_empty()
    }

    pub(super) fn call(&mut self, request: u32, call: Call) {
        if self.is_full() {
            let _ = call.reply.send(Err(ClientError::Busy { limit: OPEN_MAX }));
            return;
        }
        self.outbox.push_back(call.message.clone().into());
        self.calls.insert(request, call);
    }

    pub(super) fn open(&mut self, request: u32, opening: Opening, events: Events) {
        if self.is_full() {
            let _ = events.try_send(JobEvent::Failed(ClientError::Busy { limit: OPEN_MAX }));
            return;
        }
        self.outbox.push_back(opening.message(request).into());
        let start = match &opening {
            Opening::Submit(_) => None,
            Opening::Follow { cursor, .. } => *cursor,
        };
        let channel = Channel {
            opening,
            events,
            reader: LogReader::new(start),
            accepted: None,
            ended: false,
            follow: None,
            deferred: None,
            held: None,
        };
        self.channels.insert(request, channel);
    }

    fn is_full(&self) -> bool {
        self.calls.len() + self.channels.len() + self.transfers.len() >= OPEN_MAX
    }

    pub(super) fn begin_transfer(&mut self, channel: u32, events: TransferEvents) {
        if self.is_full() {
            let _ = events.try_send(TransferEvent::Failed(ClientError::Busy { limit: OPEN_MAX }));
            return;
        }
        self.transfers.insert(channel, events);
    }

    /// A step or bytes of a transfer of this link; those of a link that is gone say nothing to the next.
    pub(super) fn say_in_transfer(&mut self, channel: u32, outgoing: Outgoing) {
        if self.transfers.contains_key(&channel) {
            self.outbox.push_back(outgoing);
        }
    }

    /// The consumer is done with output up to a position of an attempt.
    pub(super) fn taken(&mut self, request: u32, attempt: u32, position: u64) {
        let Some(channel) = self.channels.get_mut(&request) else { return };
        if channel.reader.attempt() == Some(attempt) {
            channel.reader.taken(position);
            if channel.deferred.is_some() {
                if channel.reader.has_room() {
                    self.outbox.extend(channel.deferred.take().map(Outgoing::from));
                }
                return;
            }
            let request = channel.follow.unwrap_or(request);
            self.outbox.push_back(FromClient::Taken { request, position }.into());
        }
    }

    /// The consumer is gone.
    pub(super) fn close(&mut self, request: u32) {
        self.transfers.remove(&request);
        if let Some(channel) = self.channels.remove(&request)
            && channel.opening.follows()
            && !channel.ended
            && channel.deferred.is_none()
        {
            let request = channel.follow.unwrap_or(request);
            self.outbox.push_back(FromClient::Unfollow { request }.into());
        }
    }

    /// The link is new: everything that is still open is said again, from where it stands, in the order in which it
    /// was asked.
    pub(super) fn resume(&mut self, now: Instant) {
        self.aliases.clear();
        let mut said: Vec<(u32, FromClient)> =
            self.calls.iter().map(|(&request, call)| (request, call.message_at(now))).collect();
        for (&request, channel) in &mut self.channels {
            (channel.follow, channel.held, channel.deferred) = (None, None, None);
            let (Opening::Submit(submit), Some(job)) = (&channel.opening, channel.accepted) else {
                let again = channel.opening_again(request);
                said.extend(channel.now_or_later(again).map(|message| (request, message)));
                continue;
            };
            said.push((request, channel.wait_again(request, job, submit)));
            if submit.follow && !channel.ended {
                self.last_alias = self.last_alias.wrapping_add(1) % FIRST_ALIAS;
                let alias = FIRST_ALIAS + self.last_alias;
                self.aliases.insert(alias, request);
                channel.follow = Some(alias);
                let again = follow_from(alias, &job, channel.reader.cursor());
                said.extend(channel.now_or_later(again).map(|message| (request, message)));
            }
        }
        said.sort_by_key(|(request, _)| *request);
        // Steps of transfers that began after the link was gone belong to the new one.
        let transfers = std::mem::take(&mut self.outbox).into_iter().filter(|outgoing| match outgoing {
            Outgoing::Control(message) => matches!(message, FromClient::Transfer(_)),
            Outgoing::Frame(_) => true,
        });
        self.outbox = said.into_iter().map(|(_, message)| message.into()).chain(transfers).collect();
    }

    /// The link is gone. What must not be said twice ends here, and what only its owner knows how to go on with.
    pub(super) fn interrupted(&mut self) {
        self.outbox.clear();
        for (_, events) in self.transfers.drain() {
            let _ = events.try_send(TransferEvent::Interrupted);
        }
        for (_, call) in self.calls.extract_if(|_, call| call.once) {
            let request = name_of(&call.message);
            let _ = call.reply.send(Err(ClientError::Interrupted { request }));
        }
    }

    /// Calls that wait for an answer get this error instead.
    pub(super) fn fail_calls(&mut self, error: &ClientError) {
        for (_, call) in self.calls.drain() {
            let _ = call.reply.send(Err(error.clone()));
        }
    }

    /// Everything gets this error.
    pub(super) fn fail_all(&mut self, error: &ClientError) {
        self.fail_calls(error);
        for (_, channel) in self.channels.drain() {
            let _ = channel.events.try_send(JobEvent::Failed(error.clone()));
        }
        for (_, events) in self.transfers.drain() {
            let _ = events.try_send(TransferEvent::Failed(error.clone()));
        }
        self.aliases.clear();
        self.outbox.clear();
    }

    /// Takes a message. What answers nothing that is open is dropped: its asker has gone.
    ///
    /// # Errors
    /// An error that concerns the whole connection.
    pub(super) fn on_message(&mut self, message: ToClient) -> Result<(), LinkError> {
        let message = match message {
            ToClient::Transfer(step) => {
                self.on_transfer(step.channel(), TransferEvent::Step(step));
                return Ok(());
            }
            message => message,
        };
        let Some(number) = request_of(&message) else {
            return match message {
                ToClient::Error { error, .. } => Err(error),
                _ => Ok(()),
            };
        };
        if let Some(call) = self.calls.remove(&number) {
            let _ = call.reply.send(match message {
                ToClient::Error { error, .. } => Err(ClientError::Refused(error)),
                answer => Ok(answer),
            });
            return Ok(());
        }
        let request = self.aliases.get(&number).copied().unwrap_or(number);
        self.step(request, |channel, outbox| channel.on_message(request, number != request, message, outbox));
        Ok(())
    }

    /// Takes a frame of followed output.
    pub(super) fn on_output(&mut self, number: u32, position: u64, content: Bytes) {
        let request = self.aliases.get(&number).copied().unwrap_or(number);
        self.step(request, |channel, outbox| match channel.reader.take(position, content) {
            Ok(output) => channel.tell(JobEvent::Output(output)),
            Err(misbehaviour) => {
                outbox.push_back(FromClient::Unfollow { request: number }.into());
                channel.fail(ClientError::Misbehaved(misbehaviour))
            }
        });
    }

    /// Takes a step or bytes of a transfer; an owner who can't take them within the window has left.
    pub(super) fn on_transfer(&mut self, channel: u32, event: TransferEvent) {
        let is_last = matches!(
            event,
            TransferEvent::Step(transfer::Message::Done { .. } | transfer::Message::Failed { .. })
        );
        let Some(events) = self.transfers.get(&channel) else { return };
        if events.try_send(event).is_err() || is_last {
            self.transfers.remove(&channel);
        }
    }

    fn step(&mut self, request: u32, act: impl FnOnce(&mut Channel, &mut VecDeque<Outgoing>) -> Step) {
        let Some(channel) = self.channels.get_mut(&request) else { return };
        match act(channel, &mut self.outbox) {
            Step::GoOn => {}
            Step::Gone => self.close(request),
            Step::Over => {
                self.channels.remove(&request);
            }
        }
    }
}

/// What becomes of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    GoOn,
    /// Its consumer went away.
    Gone,
    Over,
}

impl Opening {
    fn follows(&self) -> bool {
        match self {
            Self::Submit(submit) => submit.follow,
            Self::Follow { .. } => true,
        }
    }

    fn message(&self, request: u32) -> FromClient {
        match self {
            Self::Submit(submit) => FromClient::Submit { request, submit: submit.clone() },
            Self::Follow { job, cursor, attempt, to_end, tail } => FromClient::Follow {
                request,
                job: job.clone(),
                cursor: *cursor,
                attempt: *attempt,
                to_end: *to_end,
                tail: *tail,
            },
        }
    }
}

impl Call {
    /// The message with what is left of its wait.
    fn message_at(&self, now: Instant) -> FromClient {
        match &self.message {
            FromClient::Job { request, job, view, wait } => FromClient::Job {
                request: *request,
                job: job.clone(),
                view: view.clone(),
                wait: wait.saturating_sub(now.saturating_duration_since(self.asked)),
            },
            other => other.clone(),
        }
    }
}

impl Channel {
    fn opening_again(&self, request: u32) -> FromClient {
        match (&self.opening, self.reader.cursor()) {
            (Opening::Follow { job, to_end, .. }, Some(cursor)) => FromClient::Follow {
                request,
                job: job.clone(),
                cursor: Some(cursor),
                attempt: None,
                to_end: *to_end,
                tail: None,
            },
            (opening, _) => opening.message(request),
        }
    }

    /// A follow at once, unless the consumer has a whole window to read yet.
    fn now_or_later(&mut self, follow: FromClient) -> Option<FromClient> {
        if self.reader.has_room() {
            return Some(follow);
        }
        self.deferred = Some(follow);
        None
    }

    /// Asks once more for the end of a job that was accepted: by the same submit where it is the same job.
    fn wait_again(&self, request: u32, job: JobId, submit: &SubmitMessage) -> FromClient {
        if job == submit.job {
            let submit = Box::new(SubmitMessage { follow: false, ..submit.clone() });
            FromClient::Submit { request, submit }
        } else {
            poll(request, &job.to_string())
        }
    }

    fn on_message(
        &mut self,
        request: u32,
        is_alias: bool,
        message: ToClient,
        outbox: &mut VecDeque<Outgoing>,
    ) -> Step {
        match message {
            ToClient::Accepted { job, reattached, .. } => self.on_accepted(job, reattached),
            ToClient::Progress { progress, .. } => self.tell_if_it_reads(JobEvent::Progress(progress)),
            ToClient::Attempt { attempt, .. } => {
                self.ended = false;
                self.reader.begin(attempt);
                self.tell(JobEvent::Attempt(attempt))
            }
            ToClient::End { cursor, .. } => self.on_end(cursor),
            ToClient::Job { result, .. } if result.state != JobState::Done => {
                outbox.push_back(poll(request, &result.job_id).into());
                Step::GoOn
            }
            ToClient::Complete { result, .. } | ToClient::Job { result, .. } => self.on_complete(result),
            ToClient::Error { error, .. } if is_alias => {
                self.ended = true;
                let step = self.tell(JobEvent::OutputLost(error));
                self.release(step)
            }
            ToClient::Error { error, .. } => self.fail(ClientError::Refused(error)),
            ToClient::Registered { .. }
            | ToClient::Logs { .. }
            | ToClient::Finding { .. }
            | ToClient::Explain { .. }
            | ToClient::Jobs { .. }
            | ToClient::Workers { .. }
            | ToClient::Token { .. }
            | ToClient::Tokens { .. }
            | ToClient::Transfer(_) => {
                let request = match self.opening {
                    Opening::Submit(_) => "submit",
                    Opening::Follow { .. } => "follow",
                };
                self.fail(ClientError::Misbehaved(Misbehaviour::WrongAnswer { request }))
            }
        }
    }

    fn on_accepted(&mut self, job: JobId, reattached: bool) -> Step {
        if self.accepted.replace(job).is_some() {
            return Step::GoOn;
        }
        let step = self.tell(JobEvent::Accepted { job, reattached });
        match &self.opening {
            Opening::Submit(submit) if submit.wait || submit.follow => step,
            Opening::Submit(_) | Opening::Follow { .. } => Step::Over,
        }
    }

    fn on_end(&mut self, cursor: Cursor) -> Step {
        self.ended = true;
        let step = self.tell(JobEvent::End(cursor));
        match &self.opening {
            Opening::Follow { .. } => Step::Over,
            Opening::Submit(submit) if !submit.wait => Step::Over,
            Opening::Submit(_) => self.release(step),
        }
    }

    fn on_complete(&mut self, result: Box<JobResult>) -> Step {
        if self.follow.is_some() && !self.ended {
            self.held = Some(result);
            return Step::GoOn;
        }
        self.tell(JobEvent::Complete(result));
        self.ended = true;
        Step::Over
    }

    fn release(&mut self, step: Step) -> Step {
        match self.held.take() {
            Some(result) => {
                self.tell(JobEvent::Complete(result));
                Step::Over
            }
            None => step,
        }
    }

    fn fail(&mut self, error: ClientError) -> Step {
        self.tell(JobEvent::Failed(error));
        Step::Over
    }

    fn tell(&mut self, event: JobEvent) -> Step {
        match self.events.try_send(event) {
            Ok(()) => Step::GoOn,
            Err(mpsc::error::TrySendError::Full(_) | mpsc::error::TrySendError::Closed(_)) => Step::Gone,
        }
    }

    /// For what a slow consumer can do without.
    fn tell_if_it_reads(&mut self, event: JobEvent) -> Step {
        if self.events.capacity() < EVENTS_MAX / 2 { Step::GoOn } else { self.tell(event) }
    }
}

fn follow_from(request: u32, job: &JobId, cursor: Option<Cursor>) -> FromClient {
    FromClient::Follow { request, job: job.to_string(), cursor, attempt: None, to_end: false, tail: None }
}

fn poll(request: u32, job: &str) -> FromClient {
    FromClient::Job { request, job: job.to_owned(), view: View::default(), wait: POLL_FOR }
}

/// The number that an answer carries.
fn request_of(message: &ToClient) -> Option<u32> {
    match message {
        ToClient::Registered { .. } | ToClient::Transfer(_) => None,
        ToClient::Error { request, .. } => *request,
        ToClient::Accepted { request, .. }
        | ToClient::Job { request, .. }
        | ToClient::Complete { request, .. }
        | ToClient::Progress { request, .. }
        | ToClient::End { request, .. }
        | ToClient::Attempt { request, .. }
        | ToClient::Logs { request, .. }
        | ToClient::Finding { request, .. }
        | ToClient::Explain { request, .. }
        | ToClient::Jobs { request, .. }
        | ToClient::Workers { request, .. }
        | ToClient::Token { request, .. }
        | ToClient::Tokens { request, .. } => Some(*request),
    }
}

/// The `type` of a request, for messages to people.
pub(super) fn name_of(message: &FromClient) -> &'static str {
    match message {
        FromClient::Register { .. } => "register",
        FromClient::Submit { .. } => "submit",
        FromClient::Job { .. } => "job",
        FromClient::Follow { .. } => "follow",
        FromClient::Taken { .. } => "taken",
        FromClient::Unfollow { .. } => "unfollow",
        FromClient::Logs { .. } => "logs",
        FromClient::Finding { .. } => "finding",
        FromClient::Explain { .. } => "explain",
        FromClient::Jobs { .. } => "jobs",
        FromClient::Cancel { .. } => "cancel",
        FromClient::Workers { .. } => "workers",
        FromClient::Drain { .. } => "drain",
        FromClient::TokenCreate { .. } => "token_create",
        FromClient::TokenList { .. } => "token_list",
        FromClient::TokenRevoke { .. } => "token_revoke",
        FromClient::Transfer(_) => "transfer",
    }
}
