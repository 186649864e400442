//! The transfers of one connection: which are open, and where what comes in goes.

use super::serve;
use crate::shared::Shared;
use buildpool_objects::pump::{self, Event, Interrupted};
use buildpool_pool::Session;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame::{BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use buildpool_protocol::limits::{TRANSFER_FRAME_BYTES, TRANSFER_WINDOW_BYTES, TRANSFERS_MAX};
use buildpool_protocol::transfer::Message;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What waits for one transfer: a window of bytes and a few steps.
const EVENTS_MAX: usize = TRANSFER_WINDOW_BYTES as usize / TRANSFER_FRAME_BYTES + 16;
/// What waits to be sent for all transfers of a connection; they wait when it is full.
const OUT_MAX: usize = 4;

/// Something to be sent. As small as can be: each connection holds room for 32 of them at all times.
#[derive(Debug)]
pub(crate) enum Frame {
    Step(Box<Message>),
    Bulk(Box<Bytes>),
}

pub(crate) type Out = mpsc::Receiver<Frame>;

/// On whose behalf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// It submits and reads: its token allows both.
    Client {
        /// Most bytes of one snapshot, by its quota.
        snapshot_bytes: Option<u64>,
    },
    /// It runs what it was granted on this connection.
    Worker(Session),
}

/// The transfers of one connection; when it ends they take in what had arrived, and end.
pub(crate) struct Peer {
    shared: Arc<Shared>,
    who: Who,
    out: mpsc::Sender<Frame>,
    channels: HashMap<u32, mpsc::Sender<Event>>,
    tasks: JoinSet<()>,
}

impl Peer {
    pub(crate) fn new(shared: Arc<Shared>, who: Who) -> (Self, Out) {
        let (out, receiver) = mpsc::channel(OUT_MAX);
        (Self { shared, who, out, channels: HashMap::new(), tasks: JoinSet::new() }, receiver)
    }

    /// Takes a step: it opens a transfer or belongs to one. One that is over hears nothing.
    pub(crate) fn step(&mut self, message: Message) {
        while self.tasks.try_join_next().is_some() {}
        self.channels.retain(|_, channel| !channel.is_closed());
        let number = message.channel();
        if !serve::opens(self.who, &message) {
            return self.deliver(number, Event::Step(message));
        }
        let refusal = if self.channels.contains_key(&number) {
            Some(LinkError::new(ErrorCode::Conflict, format!("channel {number} is in use")))
        } else if self.channels.len() >= TRANSFERS_MAX {
            let text =
                format!("{TRANSFERS_MAX} transfers of this connection are under way; wait for one to end");
            Some(LinkError::new(ErrorCode::Exhausted, text))
        } else {
            None
        };
        let (sender, incoming) = mpsc::channel(EVENTS_MAX);
        let mut channel = Channel { number, out: self.out.clone(), incoming };
        let (shared, who) = (self.shared.clone(), self.who);
        if refusal.is_none() {
            self.channels.insert(number, sender);
        }
        self.tasks.spawn(async move {
            let ended = match refusal {
                Some(error) => Err(error),
                None => serve::serve(&shared, who, &mut channel, message).await,
            };
            if let Err(error) = ended {
                // A peer that is gone does not hear it.
                let _gone =
                    pump::Channel::say(&mut channel, Message::Failed { channel: number, error }).await;
            }
        });
    }

    /// Takes bytes.
    pub(crate) fn bytes(&mut self, channel: u32, position: u64, bytes: Bytes) {
        self.deliver(channel, Event::Bytes { position, bytes });
    }

    fn deliver(&mut self, number: u32, event: Event) {
        // Full: it sends more than it was allowed to. Its transfer ends as if the connection had.
        if self.channels.get(&number).is_some_and(|channel| channel.try_send(event).is_err()) {
            self.channels.remove(&number);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Without senders and a way out, each ends by itself.
        self.tasks.detach_all();
    }
}

/// One transfer.
pub(crate) struct Channel {
    number: u32,
    out: mpsc::Sender<Frame>,
    incoming: mpsc::Receiver<Event>,
}

impl Channel {
    /// Returns when the other side is gone or gives the transfer up. For times when it has nothing else
    /// to send.
    pub(super) async fn given_up(&mut self) {
        loop {
            tokio::select! {
                () = self.out.closed() => return,
                event = self.incoming.recv() => match event {
                    None | Some(Event::Step(Message::Failed { .. })) => return,
                    Some(Event::Step(_) | Event::Bytes { .. }) => {}
                },
            }
        }
    }
}

impl pump::Channel for Channel {
    fn number(&self) -> u32 {
        self.number
    }

    async fn say(&mut self, step: Message) -> Result<(), Interrupted> {
        self.out.send(Frame::Step(Box::new(step))).await.map_err(|_| Interrupted)
    }

    async fn send(&mut self, position: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        let header = BinaryHeader { kind: BinaryKind::Transfer, channel: self.number, position };
        let mut frame = Vec::with_capacity(BINARY_HEADER_BYTES + bytes.len());
        frame.extend_from_slice(&header.encode());
        frame.extend_from_slice(bytes);
        self.out.send(Frame::Bulk(Box::new(frame.into()))).await.map_err(|_| Interrupted)
    }

    async fn next(&mut self) -> Result<Event, Interrupted> {
        self.incoming.recv().await.ok_or(Interrupted)
    }
}
