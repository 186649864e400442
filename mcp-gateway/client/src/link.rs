//! The task that owns the connection. It transports [`Pending`] requests over the current connection, and
//! dials again if there is no connection.

use super::channel::{EventSender, Opening};
use super::dial::{self, PoolInfo};
use super::error::ClientError;
use super::pending::{Call, Outgoing, Pending};
use super::stdin::{Feed, Piece};
use super::target::Target;
use super::transfer::{TransferEvent, TransferEvents};
use buildpool_dial::{Backoff, Peers, PoolUrl, Silence, SilenceStep, Socket, pause_for};
use buildpool_protocol::frame::{
    BINARY_HEADER_BYTES, BinaryHeader, BinaryKind, decode_control, encode_control,
};
use buildpool_protocol::limits::{LOST_AFTER, REPORT_EVERY};
use buildpool_protocol::{ErrorCode, LinkError};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// Maximum time that a call waits for an unreachable coordinator.
const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// Maximum time that submits and followers wait for it. Running jobs survive for as long.
const JOB_PATIENCE: Duration = LOST_AFTER;
/// Time after which a connection without open requests is closed. The next request opens another.
const IDLE_CLOSE: Duration = Duration::from_secs(60);
/// First and longest pause between attempts to reconnect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Interval of the messages of a connected [`Link`], and of the check whether it is idle.
const TICK: Duration = REPORT_EVERY;

/// A command from a client handle to its link.
pub(super) enum Command {
    Call { request: u32, call: Call },
    Open { request: u32, opening: Opening, events: EventSender, stdin: Option<Feed> },
    Taken { request: u32, attempt: u32, position: u64 },
    Close { request: u32 },
    Transfer { channel: u32, events: TransferEvents },
    InTransfer { channel: u32, outgoing: Outgoing },
    Stdin { request: u32, piece: Piece },
}

/// State of the connection.
#[derive(Clone, Debug)]
pub enum LinkStatus {
    /// Connected.
    Connected,
    /// The connection broke, and the client dials again.
    Reconnecting {
        /// Time of the break.
        since: Instant,
        /// Error of the last attempt.
        error: ClientError,
    },
    /// No connection is needed at the moment.
    Idle,
}

/// The owner of the connection.
pub(super) struct Link {
    pub(super) target: Target,
    pub(super) client: String,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) status: watch::Sender<LinkStatus>,
    pub(super) info: watch::Sender<PoolInfo>,
    pub(super) pending: Pending,
}

/// Reason why a connection is no longer served.
enum Ended {
    /// All handles are dropped.
    Closed,
    /// No request is open.
    Idle,
    Lost(ClientError),
}

/// Result of reading from a connection.
enum Received {
    Message(Message),
    End,
}

impl Link {
    /// Serves until all handles are dropped.
    pub(super) async fn run(mut self, socket: Socket) {
        let mut socket = Some(socket);
        loop {
            let ended = match socket.take() {
                Some(socket) => self.serve(socket).await,
                None => Ended::Idle,
            };
            socket = match ended {
                Ended::Closed => return,
                Ended::Lost(error) if !self.pending.is_empty() => {
                    self.pending.interrupted();
                    self.reconnect(error).await
                }
                // The coordinator may be restarting, so the next request waits for it as those do that were open.
                Ended::Lost(error) if !is_final(&error) => {
                    self.status.send_replace(LinkStatus::Idle);
                    let Some(command) = self.commands.recv().await else { return };
                    self.take(command);
                    self.reconnect(error).await
                }
                Ended::Lost(_) | Ended::Idle => {
                    self.status.send_replace(LinkStatus::Idle);
                    let Some(command) = self.commands.recv().await else { return };
                    self.take(command);
                    self.reconnect_at_once().await
                }
            };
        }
    }

    async fn serve(&mut self, mut socket: Socket) -> Ended {
        self.status.send_replace(LinkStatus::Connected);
        // The first tick of `interval` would be due at once, and waiting for it takes up to a millisecond.
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut wire = Wire::default();
        let mut busy_at = Instant::now();
        let peers = self.target.peers(&self.url());
        let mut silence = Silence::new(Instant::now(), peers.is_some());
        let mut asking = pin!(None);
        loop {
            while let Some(step) = silence.poll(Instant::now()) {
                match step {
                    SilenceStep::Ping => wire.outbox.push_back(Message::Ping(Bytes::new())),
                    SilenceStep::Ask => asking.set(peers.as_ref().map(Peers::is_replaced)),
                    SilenceStep::GiveUp => {
                        let silent = io::Error::new(io::ErrorKind::TimedOut, "the coordinator went silent");
                        return Ended::Lost(self.lost(silent));
                    }
                    SilenceStep::Leave => {
                        let text = "the coordinator gives no answer, and another one leads";
                        return Ended::Lost(self.lost(io::Error::new(io::ErrorKind::TimedOut, text)));
                    }
                }
            }
            let answer = async {
                match asking.as_mut().as_pin_mut() {
                    Some(asking) => asking.await,
                    None => std::future::pending().await,
                }
            };
            wire.outbox.extend(self.pending.outbox.drain(..).map(|outgoing| match outgoing {
                Outgoing::Control(message) => Message::text(encode_control(&message)),
                Outgoing::Frame(frame) => Message::Binary(frame),
            }));
            tokio::select! {
                received = poll_fn(|context| wire.poll(&mut socket, context)) => {
                    silence.received(Instant::now());
                    match received {
                        Ok(Received::Message(message)) => {
                            if let Err(error) = self.receive(message) {
                                return Ended::Lost(error);
                            }
                        }
                        Ok(Received::End) => return Ended::Lost(self.lost(io::ErrorKind::ConnectionAborted.into())),
                        Err(error) => return Ended::Lost(self.lost(dial::into_io(error))),
                    }
                }
                is_replaced = answer => {
                    asking.set(None);
                    silence.answered(Instant::now(), is_replaced);
                }
                () = tokio::time::sleep_until(silence.next_deadline().into()) => {}
                command = self.commands.recv() => match command {
                    Some(command) => self.take(command),
                    None => {
                        let _ = tokio::time::timeout(TICK, socket.close(None)).await;
                        return Ended::Closed;
                    }
                },
                _ = ticks.tick() => {
                    if !self.pending.is_empty() {
                        busy_at = Instant::now();
                    } else if busy_at.elapsed() > IDLE_CLOSE {
                        let _ = tokio::time::timeout(TICK, socket.close(None)).await;
                        return Ended::Idle;
                    }
                    wire.outbox.push_back(Message::Ping(Bytes::new()));
                }
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Call { request, call } => self.pending.call(request, call),
            Command::Open { request, opening, events, stdin } => {
                self.pending.open(request, opening, events, stdin);
            }
            Command::Taken { request, attempt, position } => self.pending.taken(request, attempt, position),
            Command::Close { request } => self.pending.close(request),
            Command::Transfer { channel, events } => self.pending.begin_transfer(channel, events),
            Command::InTransfer { channel, outgoing } => self.pending.send_in_transfer(channel, outgoing),
            Command::Stdin { request, piece } => self.pending.stdin(request, piece),
        }
    }

    fn receive(&mut self, message: Message) -> Result<(), ClientError> {
        let done = match message {
            Message::Text(text) => decode_control(&text).and_then(|message| self.pending.on_message(message)),
            Message::Binary(frame) => self.receive_frame(&frame),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => Ok(()),
        };
        done.map_err(|error| match error.code {
            ErrorCode::Unauthorized => ClientError::Unauthorized { url: self.url(), with_token: true },
            _ => ClientError::Refused(error),
        })
    }

    fn receive_frame(&mut self, frame: &Bytes) -> Result<(), LinkError> {
        let (header, _) = BinaryHeader::decode(frame)?;
        match header.kind {
            BinaryKind::Follow => {
                self.pending.on_output(header.channel, header.position, frame.slice(BINARY_HEADER_BYTES..));
                Ok(())
            }
            BinaryKind::Transfer => {
                let (position, bytes) = (header.position, frame.slice(BINARY_HEADER_BYTES..));
                self.pending.on_transfer(header.channel, TransferEvent::Bytes { position, bytes });
                Ok(())
            }
            BinaryKind::Output | BinaryKind::Stdin => {
                let text = "only follow and transfer frames are expected from a coordinator";
                Err(LinkError::new(ErrorCode::Malformed, text))
            }
        }
    }

    /// Dials until a connection is open or no request needs one.
    async fn reconnect(&mut self, error: ClientError) -> Option<Socket> {
        let since = Instant::now();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        let mut error = error;
        while !is_final(&error) {
            self.status.send_replace(LinkStatus::Reconnecting { since, error: error.clone() });
            if since.elapsed() > CALL_PATIENCE {
                self.pending.fail_calls(&error);
            }
            if since.elapsed() > JOB_PATIENCE {
                break;
            }
            if self.pending.is_empty() {
                return None;
            }
            let delay = backoff.pause(random());
            match self.dial_after(delay).await? {
                Ok(socket) => return Some(socket),
                Err(failed) => error = failed,
            }
        }
        self.pending.fail_all(&error);
        None
    }

    /// Dials once after an idle period. As for the first connection, a failure is not retried.
    async fn reconnect_at_once(&mut self) -> Option<Socket> {
        match self.dial_after(Duration::ZERO).await? {
            Ok(socket) => Some(socket),
            Err(error) => {
                self.pending.fail_all(&error);
                None
            }
        }
    }

    /// Dials after a delay, and accepts commands meanwhile. Returns `None` if all handles are
    /// dropped.
    async fn dial_after(&mut self, delay: Duration) -> Option<Result<Socket, ClientError>> {
        let (target, client) = (self.target.clone(), self.client.clone());
        let dialling = async move {
            pause_for(delay).await;
            target.dial(&client).await
        };
        let mut dialling = std::pin::pin!(dialling);
        loop {
            tokio::select! {
                dialled = &mut dialling => {
                    return Some(dialled.map(|(socket, info)| {
                        self.info.send_replace(info);
                        self.pending.resume(Instant::now());
                        socket
                    }));
                }
                command = self.commands.recv() => self.take(command?),
            }
        }
    }

    fn url(&self) -> PoolUrl {
        self.info.borrow().url.clone()
    }

    fn lost(&self, error: io::Error) -> ClientError {
        dial::unreachable(&self.url(), error)
    }
}

/// Returns random bits from the system. On failure, returns a constant; that removes only the
/// jitter.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX / 2)
}

/// Returns true if a retry of the dial can't succeed.
pub(super) fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Unauthorized { .. }
        | ClientError::VersionMismatch { .. }
        | ClientError::PlainBeyondLoopback { .. }
        | ClientError::Untrusted { .. }
        | ClientError::Authorities { .. }
        | ClientError::Local(_)
        | ClientError::Closed => true,
        ClientError::Refused(error) => !error.code.is_worth_a_retry(),
        ClientError::Unreachable { .. }
        | ClientError::NoHttp { .. }
        | ClientError::NotAPool { .. }
        | ClientError::Misbehaved(_)
        | ClientError::Interrupted { .. }
        | ClientError::Busy { .. } => false,
    }
}

/// Writes and reads concurrently, so that neither side waits for the other to read first.
#[derive(Default)]
struct Wire {
    outbox: std::collections::VecDeque<Message>,
    unflushed: bool,
}

impl Wire {
    fn poll(&mut self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<Result<Received, WsError>> {
        if let Poll::Ready(Err(error)) = self.poll_write(socket, context) {
            return Poll::Ready(Err(error));
        }
        match Pin::new(socket).poll_next(context) {
            Poll::Ready(Some(Ok(message))) => Poll::Ready(Ok(Received::Message(message))),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error)),
            Poll::Ready(None) => Poll::Ready(Ok(Received::End)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_write(&mut self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<Result<(), WsError>> {
        let mut socket = Pin::new(socket);
        while !self.outbox.is_empty() {
            std::task::ready!(socket.as_mut().poll_ready(context))?;
            if let Some(message) = self.outbox.pop_front() {
                socket.as_mut().start_send(message)?;
                self.unflushed = true;
            }
        }
        if self.unflushed {
            std::task::ready!(socket.as_mut().poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
