//! A channel for the steps and bytes of one transfer. Its owner interprets the steps; see
//! [`buildpool_protocol::transfer`].

use super::client::Client;
use super::error::ClientError;
use super::link::Command;
use super::pending::Outgoing;
use buildpool_objects::pump::{self, Event, Interrupted};
use buildpool_protocol::client_link::FromClient;
use buildpool_protocol::frame::{BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use buildpool_protocol::transfer::Message;
use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

pub(super) type TransferEvents = mpsc::Sender<TransferEvent>;

/// An event on a transfer's channel.
#[derive(Clone, Debug)]
pub enum TransferEvent {
    /// A step of the coordinator.
    Step(Message),
    /// Received bytes.
    Bytes {
        /// Their position.
        position: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The link broke. The last event. Open another channel and start again: the transfer resumes
    /// after the bytes that the receiver has on disk.
    Interrupted,
    /// The pool is not reachable any more. The last event.
    Failed(ClientError),
}

/// One transfer. Dropping it cancels the transfer.
#[derive(Debug)]
pub struct Transfer {
    client: Client,
    channel: u32,
    receiver: mpsc::Receiver<TransferEvent>,
}

impl Transfer {
    pub(super) fn new(client: Client, channel: u32, receiver: mpsc::Receiver<TransferEvent>) -> Self {
        Self { client, channel, receiver }
    }

    /// Returns the channel number that each step contains.
    pub fn channel(&self) -> u32 {
        self.channel
    }

    /// Sends a step. After an interruption the step is dropped.
    ///
    /// # Errors
    /// [`ClientError::Closed`].
    pub async fn send_step(&self, step: Message) -> Result<(), ClientError> {
        self.send(Outgoing::Control(FromClient::Transfer(step))).await
    }

    /// Queues bytes for sending. The caller must respect the window
    /// ([`buildpool_protocol::limits::TRANSFER_WINDOW_BYTES`]).
    ///
    /// # Errors
    /// [`ClientError::Closed`].
    pub async fn send_bytes(&self, position: u64, bytes: &[u8]) -> Result<(), ClientError> {
        let header = BinaryHeader { kind: BinaryKind::Transfer, channel: self.channel, position };
        let mut frame = BytesMut::with_capacity(BINARY_HEADER_BYTES + bytes.len());
        frame.extend_from_slice(&header.encode());
        frame.extend_from_slice(bytes);
        self.send(Outgoing::Frame(frame.freeze())).await
    }

    /// Returns the next event, or `None` after the last one.
    pub async fn next(&mut self) -> Option<TransferEvent> {
        self.receiver.recv().await
    }

    async fn send(&self, outgoing: Outgoing) -> Result<(), ClientError> {
        self.client.send(Command::InTransfer { channel: self.channel, outgoing }).await
    }
}

impl pump::Channel for Transfer {
    fn number(&self) -> u32 {
        self.channel
    }

    async fn send_step(&mut self, step: Message) -> Result<(), Interrupted> {
        Self::send_step(self, step).await.map_err(|_| Interrupted)
    }

    async fn send(&mut self, position: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        self.send_bytes(position, bytes).await.map_err(|_| Interrupted)
    }

    async fn next(&mut self) -> Result<Event, Interrupted> {
        match Self::next(self).await {
            Some(TransferEvent::Step(step)) => Ok(Event::Step(step)),
            Some(TransferEvent::Bytes { position, bytes }) => Ok(Event::Bytes { position, bytes }),
            Some(TransferEvent::Interrupted | TransferEvent::Failed(_)) | None => Err(Interrupted),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.client.forget(self.channel);
    }
}
