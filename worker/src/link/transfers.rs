//! Transfers on the link. Each has a channel, which ends with its connection. The transfer then
//! opens another channel and starts again. It resumes at the length of the receiver's file.

use buildpool_objects::pump::{self, Event, Interrupted};
use buildpool_protocol::frame::{BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use buildpool_protocol::limits::{TRANSFER_FRAME_BYTES, TRANSFER_WINDOW_BYTES};
use buildpool_protocol::transfer::Message;
use buildpool_protocol::worker_link::FromWorker;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};

/// Size of the outgoing queue of frames and steps, sufficient to keep the link busy.
const OUTGOING_MAX: usize = 4;
/// Size of the incoming queue of one transfer: a whole window and a few steps.
const INCOMING_MAX: usize = TRANSFER_WINDOW_BYTES as usize / TRANSFER_FRAME_BYTES + 16;

/// An outgoing item.
#[derive(Debug)]
pub enum Outgoing {
    /// A step.
    Step(FromWorker),
    /// Bytes, with their header.
    Frame(Bytes),
}

/// All transfers of a worker.
#[derive(Debug)]
pub struct Transfers {
    state: Mutex<OpenTransfers>,
    /// Number of the connection that transfers may use; 0 for no connection.
    ready: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct OpenTransfers {
    connection: u64,
    link: Option<mpsc::Sender<Outgoing>>,
    channels: HashMap<u32, mpsc::Sender<Event>>,
    last_channel: u32,
}

/// One transfer on one connection.
#[derive(Debug)]
pub struct Channel {
    transfers: Arc<Transfers>,
    number: u32,
    link: mpsc::Sender<Outgoing>,
    incoming: mpsc::Receiver<Event>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self { state: Mutex::default(), ready: watch::Sender::new(0) }
    }
}

impl Transfers {
    /// Starts a connection. Returns the receiver of its outgoing items.
    pub fn connected(&self) -> mpsc::Receiver<Outgoing> {
        let (sender, receiver) = mpsc::channel(OUTGOING_MAX);
        let mut state = self.state();
        state.connection += 1;
        state.link = Some(sender);
        state.channels.clear();
        receiver
    }

    /// Permits transfers after the registration.
    pub fn registered(&self) {
        let connection = self.state().connection;
        self.ready.send_replace(connection);
    }

    /// Ends the connection and all channels.
    pub fn disconnected(&self) {
        self.ready.send_replace(0);
        let mut state = self.state();
        state.link = None;
        state.channels.clear();
    }

    /// Delivers an event to its transfer. Events of ended transfers are dropped. A transfer that
    /// receives more than it permitted is ended.
    pub fn deliver(&self, channel: u32, event: Event) {
        let mut state = self.state();
        if state.channels.get(&channel).is_some_and(|transfer| transfer.try_send(event).is_err()) {
            state.channels.remove(&channel);
        }
    }

    /// Opens a channel as soon as there is a connection.
    pub async fn open(self: &Arc<Self>) -> Channel {
        let mut ready = self.ready.subscribe();
        loop {
            if *ready.borrow_and_update() != 0
                && let Some(channel) = self.try_open()
            {
                return channel;
            }
            // The sender belongs to this value, so this returns only after a change.
            let _changed = ready.changed().await;
        }
    }

    fn try_open(self: &Arc<Self>) -> Option<Channel> {
        let mut state = self.state();
        let link = state.link.clone()?;
        let (sender, incoming) = mpsc::channel(INCOMING_MAX);
        state.last_channel = state.last_channel.wrapping_add(1);
        let number = state.last_channel;
        state.channels.insert(number, sender);
        Some(Channel { transfers: Arc::clone(self), number, link, incoming })
    }

    fn state(&self) -> MutexGuard<'_, OpenTransfers> {
        // Every change is complete by itself, so a panicked thread left no partial change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl pump::Channel for Channel {
    fn number(&self) -> u32 {
        self.number
    }

    async fn send_step(&mut self, step: Message) -> Result<(), Interrupted> {
        self.link.send(Outgoing::Step(FromWorker::Transfer(step))).await.map_err(|_| Interrupted)
    }

    async fn send(&mut self, position: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        let header = BinaryHeader { kind: BinaryKind::Transfer, channel: self.number, position };
        let mut frame = Vec::with_capacity(BINARY_HEADER_BYTES + bytes.len());
        frame.extend_from_slice(&header.encode());
        frame.extend_from_slice(bytes);
        self.link.send(Outgoing::Frame(frame.into())).await.map_err(|_| Interrupted)
    }

    async fn next(&mut self) -> Result<Event, Interrupted> {
        self.incoming.recv().await.ok_or(Interrupted)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.transfers.state().channels.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Outgoing, Transfers};
    use buildpool_objects::pump::{Channel as _, Event, Interrupted};
    use buildpool_protocol::transfer::Message;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_channel_lives_as_long_as_its_connection() {
        let transfers = Arc::new(Transfers::default());
        let opening = tokio::spawn({
            let transfers = Arc::clone(&transfers);
            async move { transfers.open().await }
        });
        let mut link = transfers.connected();
        transfers.registered();
        let mut channel = opening.await.unwrap();
        channel.send_step(Message::Done { channel: channel.number() }).await.unwrap();
        channel.send(7, b"bytes").await.unwrap();
        assert!(matches!(link.recv().await, Some(Outgoing::Step(_))));
        assert!(matches!(link.recv().await, Some(Outgoing::Frame(frame)) if frame.len() == 21));
        let step = Event::Step(Message::Taken { channel: channel.number(), offset: 3 });
        transfers.deliver(channel.number(), step.clone());
        transfers.deliver(channel.number() + 1, step.clone());
        assert_eq!(channel.next().await, Ok(step));
        transfers.disconnected();
        drop(link);
        assert_eq!(channel.next().await, Err(Interrupted));
        assert_eq!(channel.send(0, b"x").await, Err(Interrupted));
    }

    #[tokio::test]
    async fn a_transfer_that_gets_more_than_it_allowed_is_ended() {
        let transfers = Arc::new(Transfers::default());
        let _link = transfers.connected();
        transfers.registered();
        let mut channel = transfers.open().await;
        for offset in 0..1000 {
            let step = Event::Step(Message::Taken { channel: channel.number(), offset });
            transfers.deliver(channel.number(), step);
        }
        let mut count = 0;
        while channel.next().await.is_ok() {
            count += 1;
        }
        assert_eq!(count, super::INCOMING_MAX);
    }
}
