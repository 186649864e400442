//! Open transfers of one connection, and the routing of incoming steps and bytes to them.

use super::serve;
use crate::app_state::AppState;
use crate::auth::Principal;
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

/// Capacity of one transfer's event channel: a window of bytes and a few steps.
const EVENTS_MAX: usize = TRANSFER_WINDOW_BYTES as usize / TRANSFER_FRAME_BYTES + 16;
/// Capacity of a connection's output channel for transfers. Transfers wait while it is full.
const OUT_MAX: usize = 4;

/// An outgoing frame. Boxed to stay small: each connection allocates room for 32 of them.
#[derive(Debug)]
pub(crate) enum Frame {
    Step(Box<Message>),
    Bulk(Box<Bytes>),
}

pub(crate) type Out = mpsc::Receiver<Frame>;

/// The kind of peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PeerKind {
    /// A client. Its token allows it to submit and read.
    Client {
        /// Maximum bytes of one snapshot, from the client's quota.
        snapshot_bytes: Option<u64>,
        /// Maximum bytes of all stored snapshots of its class, from the client's quota.
        stored_bytes: Option<u64>,
        /// Trust class. Snapshots of other classes are not visible to it.
        class: String,
        /// Decides which jobs' artifacts it may read.
        principal: Box<Principal>,
    },
    /// A worker. It may transfer only for jobs that are granted to this connection.
    Worker(Session),
}

/// The transfers of one connection. When it is dropped, each transfer processes its queued events
/// and ends.
pub(crate) struct Peer {
    shared: Arc<AppState>,
    kind: PeerKind,
    out: Option<mpsc::Sender<Frame>>,
    /// The other end of `out`, unless another task sends the frames.
    frames: Option<Out>,
    channels: HashMap<u32, mpsc::Sender<Event>>,
    tasks: JoinSet<()>,
}

impl Peer {
    /// Returns also the queue of frames to send.
    pub(crate) fn new(shared: Arc<AppState>, kind: PeerKind) -> (Self, Out) {
        let (out, receiver) = mpsc::channel(OUT_MAX);
        let mut peer = Self::without_queue(shared, kind);
        peer.out = Some(out);
        (peer, receiver)
    }

    /// The frames to send come from [`Peer::next_frame`].
    pub(crate) fn of_worker(shared: Arc<AppState>, session: Session) -> Self {
        Self::without_queue(shared, PeerKind::Worker(session))
    }

    fn without_queue(shared: Arc<AppState>, kind: PeerKind) -> Self {
        Self { shared, kind, out: None, frames: None, channels: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Returns the next frame to send. Never completes before the first transfer begins.
    pub(crate) async fn next_frame(&mut self) -> Frame {
        let next = match &mut self.frames {
            Some(frames) => frames.recv().await,
            None => None,
        };
        match next {
            Some(frame) => frame,
            None => std::future::pending().await,
        }
    }

    /// Returns the sender of frames. An idle worker has no queue.
    fn out(&mut self) -> mpsc::Sender<Frame> {
        let frames = &mut self.frames;
        let out = self.out.get_or_insert_with(|| {
            let (out, receiver) = mpsc::channel(OUT_MAX);
            *frames = Some(receiver);
            out
        });
        out.clone()
    }

    /// Handles a step, which opens a transfer or belongs to an open one. Steps of an ended transfer
    /// are dropped.
    pub(crate) fn step(&mut self, message: Message) {
        while self.tasks.try_join_next().is_some() {}
        self.channels.retain(|_, channel| !channel.is_closed());
        let number = message.channel();
        if !serve::opens(&self.kind, &message) {
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
        let mut channel = Channel { number, out: self.out(), incoming };
        let (shared, kind) = (self.shared.clone(), self.kind.clone());
        if refusal.is_none() {
            self.channels.insert(number, sender);
        }
        self.tasks.spawn(async move {
            let ended = match refusal {
                Some(error) => Err(error),
                None => serve::serve(&shared, kind, &mut channel, message).await,
            };
            if let Err(error) = ended {
                // An error means that the peer has disconnected.
                let _gone =
                    pump::Channel::send_step(&mut channel, Message::Failed { channel: number, error }).await;
            }
        });
    }

    /// Passes received bytes to their transfer.
    pub(crate) fn bytes(&mut self, channel: u32, position: u64, bytes: Bytes) {
        self.deliver(channel, Event::Bytes { position, bytes });
    }

    fn deliver(&mut self, number: u32, event: Event) {
        // The channel is full, so the peer has exceeded its window. End the transfer as if the
        // connection had closed.
        if self.channels.get(&number).is_some_and(|channel| channel.try_send(event).is_err()) {
            self.channels.remove(&number);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The tasks have lost their input and output channels, so each ends without an abort.
        self.tasks.detach_all();
    }
}

/// The channel of one transfer.
pub(crate) struct Channel {
    number: u32,
    out: mpsc::Sender<Frame>,
    incoming: mpsc::Receiver<Event>,
}

impl Channel {
    /// Returns when the peer has disconnected or cancels the transfer. Call it only while there is
    /// nothing to send.
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

    async fn send_step(&mut self, step: Message) -> Result<(), Interrupted> {
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
