//! One connection: received messages go to the daemon, control messages are sent before bulk data.

use super::outbox::{Outbox, OutboxItem};
use super::transfers::{Outgoing, Transfers};
use buildpool_dial::Socket;
use buildpool_objects::pump::Event;
use buildpool_protocol::frame::{
    BINARY_HEADER_BYTES, BinaryHeader, BinaryKind, decode_control, encode_control,
};
use buildpool_protocol::limits::SILENCE_MAX;
use buildpool_protocol::worker_link::{FromWorker, ToWorker};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::fmt;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::warn;

/// Reason for the end of a connection.
#[derive(Debug)]
pub enum Disconnect {
    /// The other end closed it, with its reason if it sent one.
    Closed(String),
    /// No message within [`SILENCE_MAX`].
    TimedOut,
    /// The connection broke.
    Broken(Box<tungstenite::Error>),
    /// The other end sent an invalid message.
    Malformed(buildpool_protocol::LinkError),
    /// The daemon closed it.
    Ended,
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) if reason.is_empty() => f.write_str("the coordinator closed the connection"),
            Self::Closed(reason) => write!(f, "the coordinator closed the connection: {reason}"),
            Self::TimedOut => write!(f, "nothing from the coordinator for {} s", SILENCE_MAX.as_secs()),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Malformed(error) => write!(f, "from the coordinator: {error}"),
            Self::Ended => f.write_str("the worker closed the connection"),
        }
    }
}

/// Data that the daemon receives from a connection.
#[derive(Debug)]
pub enum Incoming {
    /// A control message.
    Message(ToWorker),
    /// A frame of standard input.
    Stdin {
        /// Offset of its first byte.
        position: u64,
        /// The attempt's id and the bytes.
        content: Bytes,
    },
}

/// Serves a connection until it ends. Dropping the sender of `control` closes it gracefully.
///
/// `wrap` converts each message to an event.
pub async fn serve<E>(
    socket: Socket,
    mut control: mpsc::Receiver<FromWorker>,
    outbox: &Outbox,
    transfers: &Transfers,
    events: &mpsc::Sender<E>,
    wrap: impl FnMut(Incoming) -> E,
) -> Disconnect {
    let (mut sink, mut stream) = socket.split();
    let mut bulk = transfers.connected();
    let disconnect = tokio::select! {
        disconnect = read(&mut stream, transfers, events, wrap) => disconnect,
        disconnect = write(&mut sink, &mut control, outbox, &mut bulk) => disconnect,
    };
    transfers.disconnected();
    if matches!(disconnect, Disconnect::Ended | Disconnect::Malformed(_)) {
        // An error is ignored: the peer may be gone.
        let _ = timeout(SILENCE_MAX / 30, sink.send(Message::Close(None))).await;
    }
    disconnect
}

async fn read<E>(
    stream: &mut SplitStream<Socket>,
    transfers: &Transfers,
    events: &mpsc::Sender<E>,
    mut wrap: impl FnMut(Incoming) -> E,
) -> Disconnect {
    loop {
        let message = match timeout(SILENCE_MAX, stream.next()).await {
            Err(_) => return Disconnect::TimedOut,
            Ok(None) => return Disconnect::Closed(String::new()),
            Ok(Some(Err(error))) => return Disconnect::Broken(Box::new(error)),
            Ok(Some(Ok(message))) => message,
        };
        match message {
            Message::Text(text) => match decode_control(text.as_str()) {
                Ok(ToWorker::Transfer(step)) => transfers.deliver(step.channel(), Event::Step(step)),
                Ok(message) => {
                    if matches!(message, ToWorker::Registered { .. }) {
                        transfers.registered();
                    }
                    if events.send(wrap(Incoming::Message(message))).await.is_err() {
                        return Disconnect::Ended;
                    }
                }
                Err(error) => return Disconnect::Malformed(error),
            },
            Message::Close(frame) => {
                return Disconnect::Closed(
                    frame.map(|frame| frame.reason.as_str().to_owned()).unwrap_or_default(),
                );
            }
            Message::Binary(frame) => match BinaryHeader::decode(&frame) {
                Ok((BinaryHeader { kind: BinaryKind::Transfer, channel, position }, _)) => {
                    let bytes = frame.slice(BINARY_HEADER_BYTES..);
                    transfers.deliver(channel, Event::Bytes { position, bytes });
                }
                Ok((BinaryHeader { kind: BinaryKind::Stdin, position, .. }, _)) => {
                    let content = frame.slice(BINARY_HEADER_BYTES..);
                    if events.send(wrap(Incoming::Stdin { position, content })).await.is_err() {
                        return Disconnect::Ended;
                    }
                }
                // The coordinator sends no other bulk data.
                Ok(_) => {}
                Err(error) => return Disconnect::Malformed(error),
            },
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

async fn write(
    sink: &mut SplitSink<Socket, Message>,
    control: &mut mpsc::Receiver<FromWorker>,
    outbox: &Outbox,
    bulk: &mut mpsc::Receiver<Outgoing>,
) -> Disconnect {
    loop {
        let message = match control.try_recv() {
            Ok(message) => text(&message),
            Err(mpsc::error::TryRecvError::Disconnected) => return Disconnect::Ended,
            Err(mpsc::error::TryRecvError::Empty) => match outbox.next() {
                Some(OutboxItem::Complete(_, message)) => text(&message),
                Some(OutboxItem::Part(part)) => {
                    let attempt = part.attempt;
                    match part.read(outbox) {
                        Ok(frame) => Message::Binary(frame.into()),
                        Err(error) => {
                            warn!(job = %attempt.job, attempt = attempt.number, "its log can't be read: {error}");
                            outbox.unreadable(attempt);
                            continue;
                        }
                    }
                }
                None => {
                    tokio::select! {
                        biased;
                        message = control.recv() => match message {
                            Some(message) => text(&message),
                            None => return Disconnect::Ended,
                        },
                        () = outbox.changed() => continue,
                        Some(outgoing) = bulk.recv() => match outgoing {
                            Outgoing::Step(step) => text(&step),
                            Outgoing::Frame(frame) => Message::Binary(frame),
                        },
                    }
                }
            },
        };
        if let Err(error) = sink.send(message).await {
            return Disconnect::Broken(Box::new(error));
        }
    }
}

fn text(message: &FromWorker) -> Message {
    Message::Text(encode_control(message).into())
}
