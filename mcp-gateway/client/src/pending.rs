//! Open requests of a link: maps answers to requests, and resends requests after an interruption.
//! No I/O.

use super::channel::{Channel, ChannelState, EventSender, JobEvent, Opening};
use super::error::ClientError;
use super::stdin::{Feed, Piece};
use super::transfer::{TransferEvent, TransferEvents};
use buildpool_protocol::client_link::{FromClient, Progress, ToClient, check_length};
use buildpool_protocol::frame::encoded_length;
use buildpool_protocol::limits::CONTROL_MESSAGE_BYTES_MAX;
use buildpool_protocol::transfer;
use buildpool_protocol::{ErrorCode, LinkError};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// Limit on the open requests of one client.
pub(super) const OPEN_MAX: usize = 1024;
/// Capacity of one consumer's event queue. The window limits output long before that; when half of
/// it is used, progress is dropped.
pub(super) const EVENTS_MAX: usize = 1 << 17;
pub(super) type Reply = oneshot::Sender<Result<ToClient, ClientError>>;

/// A request with one answer.
pub(super) struct Call {
    pub(super) message: FromClient,
    /// `type` of the message.
    pub(super) name: &'static str,
    /// May be sent twice.
    pub(super) idempotent: bool,
    pub(super) asked: Instant,
    /// Receives progress until the answer.
    pub(super) progress: Option<watch::Sender<Progress>>,
    pub(super) reply: Reply,
}

/// All open requests of a client by number, and the messages to send.
#[derive(Default)]
pub(super) struct Pending {
    calls: HashMap<u32, Call>,
    channels: HashMap<u32, Channel>,
    /// Maps the number of a resumed follow to its channel.
    aliases: HashMap<u32, u32>,
    transfers: HashMap<u32, TransferEvents>,
    /// Messages to send, in order.
    pub(super) outbox: VecDeque<Outgoing>,
    last_alias: u32,
}

/// A message or a frame to send.
pub(super) enum Outgoing {
    Control(FromClient),
    /// Bytes of a transfer, with their header.
    Frame(Bytes),
}

impl From<FromClient> for Outgoing {
    fn from(message: FromClient) -> Self {
        Self::Control(message)
    }
}

/// Numbers from here on are for resumed follows; those below are for callers.
pub(super) const FIRST_ALIAS: u32 = 1 << 31;

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.channels.is_empty() && self.transfers.is_empty()
    }

    pub(super) fn call(&mut self, request: u32, call: Call) {
        if self.is_full() {
            let _ = call.reply.send(Err(ClientError::Busy { limit: OPEN_MAX }));
            return;
        }
        if let Err(error) = check(&call.message, call.name) {
            let _ = call.reply.send(Err(error));
            return;
        }
        self.outbox.push_back(call.message.clone().into());
        self.calls.insert(request, call);
    }

    pub(super) fn open(&mut self, request: u32, opening: Opening, events: EventSender, stdin: Option<Feed>) {
        if self.is_full() {
            let _ = events.try_send(JobEvent::Failed(ClientError::Busy { limit: OPEN_MAX }));
            return;
        }
        let mut channel = Channel::new(opening, events).reading(stdin);
        let message = channel.message(request);
        if let Err(error) = check(&message, channel.name()) {
            channel.fail(error);
            return;
        }
        self.outbox.push_back(message.into());
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

    /// Sends a step or bytes of an open transfer of this link. Those of an earlier link are
    /// dropped.
    pub(super) fn send_in_transfer(&mut self, channel: u32, outgoing: Outgoing) {
        let is_last = matches!(
            outgoing,
            Outgoing::Control(FromClient::Transfer(
                transfer::Message::Done { .. } | transfer::Message::Failed { .. }
            ))
        );
        if self.transfers.contains_key(&channel) {
            self.outbox.push_back(outgoing);
        }
        if is_last {
            self.transfers.remove(&channel);
        }
    }

    /// Records that the consumer has processed output up to a position of an attempt.
    pub(super) fn taken(&mut self, request: u32, attempt: u32, position: u64) {
        let taken =
            self.channels.get_mut(&request).and_then(|channel| channel.taken(request, attempt, position));
        self.outbox.extend(taken.map(Outgoing::from));
    }

    /// More standard input for a submitted job.
    pub(super) fn stdin(&mut self, request: u32, piece: Piece) {
        if let Some(channel) = self.channels.get_mut(&request) {
            channel.stdin(request, piece, &mut self.outbox);
        }
    }

    /// Ends a request after its consumer has been dropped.
    pub(super) fn close(&mut self, request: u32) {
        self.leave_transfer(request);
        if let Some(call) = self.calls.remove(&request) {
            // Only a wait for a job's end needs this, so that the result does not count as
            // delivered.
            let is_job = matches!(call.message, FromClient::Job { .. });
            self.outbox.extend(is_job.then_some(FromClient::Unfollow { request }.into()));
        }
        if let Some(channel) = self.channels.remove(&request) {
            self.outbox.extend(channel.left(request).map(Outgoing::from));
        }
    }

    /// Cancels an open transfer. Otherwise the other side would keep the received part locked
    /// against other senders of the same content.
    fn leave_transfer(&mut self, channel: u32) {
        if self.transfers.remove(&channel).is_some() {
            let error = LinkError::new(ErrorCode::Unavailable, "the client that began this transfer is gone");
            let last = FromClient::Transfer(transfer::Message::Failed { channel, error });
            self.outbox.push_back(last.into());
        }
    }

    /// Resends all open requests on a new link, from their current positions and in their original
    /// order.
    pub(super) fn resume(&mut self, now: Instant) {
        self.aliases.clear();
        let mut said: Vec<(u32, FromClient)> =
            self.calls.iter().map(|(&request, call)| (request, call.message_at(now))).collect();
        for (&request, channel) in &mut self.channels {
            let alias = FIRST_ALIAS + self.last_alias.wrapping_add(1) % FIRST_ALIAS;
            let (again, aliased) = channel.resume(request, alias);
            said.extend(again.into_iter().map(|message| (request, message)));
            if aliased {
                self.last_alias = alias - FIRST_ALIAS;
                self.aliases.insert(alias, request);
            }
        }
        said.sort_by_key(|(request, _)| *request);
        // Steps of transfers that began after the interruption belong to the new link.
        let transfers = std::mem::take(&mut self.outbox).into_iter().filter(|outgoing| match outgoing {
            Outgoing::Control(message) => matches!(message, FromClient::Transfer(_)),
            Outgoing::Frame(_) => true,
        });
        self.outbox = said.into_iter().map(|(_, message)| message.into()).chain(transfers).collect();
    }

    /// Handles the loss of the link. Pending that must not be sent twice fail, and transfers end,
    /// because only their owners can resume them.
    pub(super) fn interrupted(&mut self) {
        self.outbox.clear();
        for (_, events) in self.transfers.drain() {
            let _ = events.try_send(TransferEvent::Interrupted);
        }
        for (_, call) in self.calls.extract_if(|_, call| !call.idempotent) {
            let _ = call.reply.send(Err(ClientError::Interrupted { request: call.name }));
        }
    }

    /// Fails all calls that wait for an answer.
    pub(super) fn fail_calls(&mut self, error: &ClientError) {
        for (_, call) in self.calls.drain() {
            let _ = call.reply.send(Err(error.clone()));
        }
    }

    /// Fails all requests.
    pub(super) fn fail_all(&mut self, error: &ClientError) {
        self.fail_calls(error);
        for (_, mut channel) in self.channels.drain() {
            channel.fail(error.clone());
        }
        for (_, events) in self.transfers.drain() {
            let _ = events.try_send(TransferEvent::Failed(error.clone()));
        }
        self.aliases.clear();
        self.outbox.clear();
    }

    /// Handles a message. A message that matches no open request is dropped.
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
        let Some(number) = message.request() else {
            return match message {
                ToClient::Error { error, .. } => Err(error),
                _ => Ok(()),
            };
        };
        let message = match (message, self.calls.get(&number)) {
            (ToClient::Progress { progress, .. }, Some(call)) => {
                call.progress.iter().for_each(|to| drop(to.send_replace(progress.clone())));
                return Ok(());
            }
            (message, _) => message,
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

    /// Handles a frame of followed output.
    pub(super) fn on_output(&mut self, number: u32, position: u64, content: Bytes) {
        let request = self.aliases.get(&number).copied().unwrap_or(number);
        self.step(request, |channel, outbox| channel.on_output(number, position, content, outbox));
    }

    /// Handles a step or bytes of a transfer. If the owner's queue is full or closed, the transfer
    /// is cancelled.
    pub(super) fn on_transfer(&mut self, channel: u32, event: TransferEvent) {
        let is_last = matches!(
            event,
            TransferEvent::Step(transfer::Message::Done { .. } | transfer::Message::Failed { .. })
        );
        let Some(events) = self.transfers.get(&channel) else { return };
        let has_left = events.try_send(event).is_err();
        if is_last {
            self.transfers.remove(&channel);
        } else if has_left {
            self.leave_transfer(channel);
        }
    }

    fn step(
        &mut self,
        request: u32,
        act: impl FnOnce(&mut Channel, &mut VecDeque<Outgoing>) -> ChannelState,
    ) {
        let Some(channel) = self.channels.get_mut(&request) else { return };
        match act(channel, &mut self.outbox) {
            ChannelState::Open => {}
            ChannelState::Abandoned => self.close(request),
            ChannelState::Done => {
                self.channels.remove(&request);
            }
        }
    }
}

/// Refuses a message that is too long. Otherwise it would end each connection that it is sent on.
fn check(message: &FromClient, name: &str) -> Result<(), ClientError> {
    if let FromClient::Submit { submit, .. } = message {
        check_length(&submit.spec, &submit.secrets).map_err(ClientError::Refused)?;
    }
    let bytes = encoded_length(message);
    if bytes <= CONTROL_MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let text =
        format!("`{name}` takes {bytes} bytes of a message; at most {CONTROL_MESSAGE_BYTES_MAX} are valid");
    Err(ClientError::Refused(LinkError::new(ErrorCode::TooLarge, text)))
}

impl Call {
    /// Returns the message with the remaining part of its wait.
    fn message_at(&self, now: Instant) -> FromClient {
        match &self.message {
            FromClient::Job { request, job, view, wait, progress } => FromClient::Job {
                request: *request,
                job: job.clone(),
                view: view.clone(),
                wait: wait.saturating_sub(now.saturating_duration_since(self.asked)),
                progress: *progress,
            },
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pending;
    use crate::channel::{JobEvent, Opening};
    use crate::error::ClientError;
    use buildpool_protocol::ErrorCode;
    use buildpool_protocol::client_link::SubmitMessage;
    use buildpool_protocol::ids::JobId;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::collections::BTreeMap;
    use tokio::sync::mpsc;

    #[test]
    fn what_is_too_long_for_a_message_is_refused_and_not_said() {
        // As the coordinator counts it: a control character takes six bytes.
        let env: BTreeMap<_, _> = (0..9).map(|n| (format!("A{n}"), "\u{1}".repeat(100_000))).collect();
        let spec = JobSpec { env, ..JobSpec::new(Command::Shell("true".into()), Source::Empty) };
        spec.check().expect("each field is within its bounds");
        let submit = SubmitMessage {
            job: JobId::from_uuid(uuid::Uuid::from_u128(1)),
            spec,
            client_request_id: None,
            attach: false,
            secrets: BTreeMap::new(),
            snapshot: None,
            wait: true,
            follow: true,
            progress: true,
        };
        let (events, mut heard) = mpsc::channel(1);
        let mut pending = Pending::default();
        pending.open(1, Opening::Submit(Box::new(submit)), events, None);
        let Ok(JobEvent::Failed(ClientError::Refused(error))) = heard.try_recv() else {
            panic!("it is to fail at once");
        };
        assert_eq!(error.code, ErrorCode::TooLarge);
        assert!(error.message.contains("env 5400"), "{}", error.message);
        assert!(pending.is_empty() && pending.outbox.is_empty());
    }
}
