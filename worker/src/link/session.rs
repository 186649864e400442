//! One connection: received messages go to the daemon, control messages are sent before bulk data.

use super::outbox::{Outbox, OutboxItem};
use super::transfers::{Outgoing, Transfers};
use buildpool_dial::{Peers, Silence, SilenceStep, Socket};
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
use std::pin::pin;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::warn;

/// Reason for the end of a connection.
#[derive(Debug)]
pub enum Disconnect {
    /// The other end closed it, with its reason if it sent one.
    Closed(String),
    /// No message within [`SILENCE_MAX`].
    TimedOut,
    /// The coordinator gives no answer, and another one leads.
    Replaced,
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
            Self::Replaced => f.write_str("the coordinator gives no answer, and another one leads"),
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
/// `wrap` converts each message to an event. `peers` are asked while the coordinator sends nothing.
pub async fn serve<E>(
    (socket, peers): (Socket, &Peers),
    mut control: mpsc::Receiver<FromWorker>,
    outbox: &Outbox,
    transfers: &Transfers,
    events: &mpsc::Sender<E>,
    wrap: impl FnMut(Incoming) -> E,
) -> Disconnect {
    let (mut sink, mut stream) = socket.split();
    let mut bulk = transfers.connected();
    let (pings, mut due) = mpsc::channel(1);
    let disconnect = tokio::select! {
        disconnect = read((&mut stream, pings), peers, transfers, events, wrap) => disconnect,
        disconnect = write((&mut sink, &mut due), &mut control, outbox, &mut bulk) => disconnect,
    };
    transfers.disconnected();
    if matches!(disconnect, Disconnect::Ended | Disconnect::Malformed(_)) {
        // An error is ignored: the peer may be gone.
        let _ = timeout(SILENCE_MAX / 30, sink.send(Message::Close(None))).await;
    }
    disconnect
}

/// Returns the next message of a link, or the reason of its end.
async fn next_message(
    (stream, pings): (&mut SplitStream<Socket>, &mpsc::Sender<()>),
    peers: &Peers,
) -> Result<Message, Disconnect> {
    // The time for which the daemon did not take messages is not a silence of the coordinator.
    let mut silence = Silence::new(Instant::now(), peers.has_others());
    let mut asking = pin!(None);
    loop {
        while let Some(step) = silence.poll(Instant::now()) {
            match step {
                // A ping that waits already is enough.
                SilenceStep::Ping => drop(pings.try_send(())),
                SilenceStep::Ask => asking.set(Some(peers.is_replaced())),
                SilenceStep::GiveUp => return Err(Disconnect::TimedOut),
                SilenceStep::Leave => return Err(Disconnect::Replaced),
            }
        }
        let answer = async {
            match asking.as_mut().as_pin_mut() {
                Some(asking) => asking.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = stream.next() => return match message {
                None => Err(Disconnect::Closed(String::new())),
                Some(Err(error)) => Err(Disconnect::Broken(Box::new(error))),
                Some(Ok(message)) => Ok(message),
            },
            is_replaced = answer => {
                asking.set(None);
                silence.answered(Instant::now(), is_replaced);
            }
            () = sleep_until(silence.next_deadline().into()) => {}
        }
    }
}

async fn read<E>(
    (stream, pings): (&mut SplitStream<Socket>, mpsc::Sender<()>),
    peers: &Peers,
    transfers: &Transfers,
    events: &mpsc::Sender<E>,
    mut wrap: impl FnMut(Incoming) -> E,
) -> Disconnect {
    loop {
        let message = match next_message((&mut *stream, &pings), peers).await {
            Ok(message) => message,
            Err(disconnect) => return disconnect,
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
    (sink, pings): (&mut SplitSink<Socket, Message>, &mut mpsc::Receiver<()>),
    control: &mut mpsc::Receiver<FromWorker>,
    outbox: &Outbox,
    bulk: &mut mpsc::Receiver<Outgoing>,
) -> Disconnect {
    // The last part of a log that was sent. Its memory takes the next one.
    let mut sent = Bytes::new();
    loop {
        let message = match control.try_recv() {
            Ok(message) => text(&message),
            Err(mpsc::error::TryRecvError::Disconnected) => return Disconnect::Ended,
            Err(mpsc::error::TryRecvError::Empty) => match outbox.next() {
                Some(OutboxItem::Complete(_, message)) => text(&message),
                Some(OutboxItem::Part(part)) => {
                    let attempt = part.attempt;
                    let memory = std::mem::take(&mut sent).try_into_mut().unwrap_or_default();
                    match part.read(outbox, memory) {
                        Ok(frame) => {
                            sent = frame.clone();
                            Message::Binary(frame)
                        }
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
                        // While there is bulk data, its acknowledgements show that the coordinator lives.
                        Some(()) = pings.recv() => Message::Ping(Bytes::new()),
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
