//! Connection of one worker: passes messages to the pool and output to the store.

use super::websocket::{Message, WebSocket};
use super::{CLOSE_REASON_WITHIN, agree, stdin, worker_message};
use crate::app_state::AppState;
use crate::attempt::LiveAttempt;
use crate::auth::Principal;
use crate::completing;
use crate::connections::WorkerOut;
use crate::store::Appended;
use crate::store::limits::{JOBS_ROOM_BYTES, RECORDS_ROOM_BYTES};
use crate::transfer::{Frame, Peer};
use buildpool_pool::{DesiredState, Input, Session};
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use buildpool_protocol::frame::{self, BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::limits::{ATTEMPTS_HELD_MAX, REGISTER_WITHIN, REPORT_EVERY, SILENCE_MAX};
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader};
use buildpool_protocol::worker_link::{Desired, FromWorker, HeldState, Register, ToWorker};
use bytes::Bytes;
use futures_util::SinkExt;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Maximum bytes of output before an acknowledgement is sent.
const ACKNOWLEDGE_BYTES: u64 = 1 << 20;
/// Frames of standard input that wait to be sent. Senders wait while the queue is full.
const STDIN_MAX: usize = 4;
/// Delay before refused output is requested again from the worker.
const WRITE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Factor: while the command runs, its output waits this many times longer for the disk than after
/// its end.
const RUNNING_WAITS_MAX: u32 = 10;

pub(crate) async fn serve(mut socket: Box<WebSocket>, shared: Arc<AppState>, principal: Principal) {
    // The rare steps are boxed: an idle connection would hold the memory of the largest one.
    let register = match Box::pin(registration(&mut socket)).await {
        Ok(Some(register)) => register,
        Ok(None) => return,
        Err(error) => return Box::pin(refuse(&mut socket, error)).await,
    };
    let protocol = match agree(&shared, register.protocol, "worker") {
        Ok(protocol) => protocol,
        Err(error) => return Box::pin(refuse(&mut socket, error)).await,
    };
    let session = Session(shared.connections.number());
    tracing::info!(worker = %register.name, session = session.0, token = %principal.name, "worker connected");
    shared.metrics.worker_connections.inc();
    let name = register.name.clone();
    let mut outbox = shared.connections.add_worker(session);
    let input = Input::Registered { session, register, token: principal.name.clone() };
    Box::pin(shared.send_limited_input(&principal.name, input)).await;
    let mut connection = WorkerConnection {
        socket,
        shared: shared.clone(),
        session,
        token: principal.name.clone(),
        protocol,
        transfers: Peer::of_worker(shared.clone(), session),
        unacknowledged: HashMap::new(),
        feeds: HashMap::new(),
        stdin: None,
    };
    let end = connection.run(&mut outbox, &principal).await;
    shared.connections.remove_worker(session);
    Box::pin(shared.runtime.input(Input::Gone { session })).await;
    match end {
        Ok(()) => tracing::info!(worker = %name, session = session.0, "worker gone"),
        Err(error) => {
            tracing::warn!(worker = %name, session = session.0, error = %error.message, "worker refused");
            Box::pin(refuse(&mut connection.socket, error)).await;
        }
    }
}

async fn registration(socket: &mut WebSocket) -> Result<Option<Box<Register>>, LinkError> {
    let first = match tokio::time::timeout(REGISTER_WITHIN, socket.recv()).await {
        Ok(Some(Ok(Message::Text(text)))) => text,
        Ok(Some(Ok(_))) => {
            return Err(LinkError::new(ErrorCode::Malformed, "the first message must be `register`"));
        }
        Ok(Some(Err(_)) | None) => return Ok(None),
        Err(_) => {
            let text = format!("no `register` within {} s", REGISTER_WITHIN.as_secs());
            return Err(LinkError::new(ErrorCode::Malformed, text));
        }
    };
    match worker_message::decode(&first)? {
        FromWorker::Register(register) => Ok(Some(register)),
        FromWorker::Report { .. }
        | FromWorker::Complete { .. }
        | FromWorker::Decline { .. }
        | FromWorker::Stdin { .. }
        | FromWorker::Transfer(_) => {
            Err(LinkError::new(ErrorCode::Malformed, "the first message must be `register`"))
        }
    }
}

async fn refuse(socket: &mut WebSocket, error: LinkError) {
    let text = frame::encode_control(&ToWorker::Refused { error });
    // The worker may have disconnected. It receives the reason at its next connection attempt.
    let _gone = tokio::time::timeout(CLOSE_REASON_WITHIN, async {
        socket.send(Message::Text(text)).await?;
        socket.send(Message::Close).await
    })
    .await;
}

struct WorkerConnection {
    socket: Box<WebSocket>,
    shared: Arc<AppState>,
    session: Session,
    /// Name of its token.
    token: String,
    protocol: u16,
    transfers: Peer,
    /// Stored but unacknowledged bytes of each attempt.
    unacknowledged: HashMap<AttemptId, u64>,
    /// How far each attempt has room for standard input. Dropping the sender ends the sending.
    feeds: HashMap<AttemptId, watch::Sender<u64>>,
    /// Queue of standard input to send, from the first job that has one.
    stdin: Option<(mpsc::Sender<stdin::StdinItem>, mpsc::Receiver<stdin::StdinItem>)>,
}

/// Messages for the worker.
type Outbox = mpsc::Receiver<Box<WorkerOut>>;

/// Returns the next item of the queue. Never completes without a queue: a job makes it.
async fn next_stdin(
    queue: &mut Option<(mpsc::Sender<stdin::StdinItem>, mpsc::Receiver<stdin::StdinItem>)>,
) -> stdin::StdinItem {
    let next = match queue {
        Some((_, items)) => items.recv().await,
        None => None,
    };
    match next {
        Some(item) => item,
        None => std::future::pending().await,
    }
}

impl WorkerConnection {
    async fn run(&mut self, outbox: &mut Outbox, principal: &Principal) -> Result<(), LinkError> {
        let shared = self.shared.clone();
        // Check the token first: a worker that accepts no messages would otherwise block this loop.
        tokio::select! {
            biased;
            error = shared.revoked(principal) => Err(error),
            end = self.work(outbox) => end,
        }
    }

    async fn work(&mut self, outbox: &mut Outbox) -> Result<(), LinkError> {
        loop {
            tokio::select! {
                biased;
                out = outbox.recv() => match out {
                    Some(out) => if !Box::pin(self.send_out(*out)).await? { return Ok(()) },
                    None => return Ok(()),
                },
                received = tokio::time::timeout(SILENCE_MAX, self.socket.recv()) => match received {
                    Ok(Some(Ok(message))) => if !Box::pin(self.take(message)).await? { return Ok(()) },
                    Ok(Some(Err(_)) | None) | Err(_) => return Ok(()),
                },
                stdin = next_stdin(&mut self.stdin) => {
                    if !Box::pin(self.send_stdin(stdin)).await { return Ok(()) }
                }
                frame = self.transfers.next_frame() => {
                    if !Box::pin(self.send_frame(frame)).await { return Ok(()) }
                }
            }
        }
    }

    async fn send_out(&mut self, out: WorkerOut) -> Result<bool, LinkError> {
        let message = match out {
            WorkerOut::Welcome(welcome) => ToWorker::Registered {
                protocol: self.protocol,
                session: self.session.0,
                report_every: REPORT_EVERY,
                lost_after: welcome.lost_after,
                desired: self.desired(welcome.desired),
            },
            WorkerOut::Desired { desired } => ToWorker::Desired { desired: self.desired(desired) },
            WorkerOut::Message(message) => *message,
            WorkerOut::Close(error) => return Err(error),
        };
        Ok(self.send(&message).await)
    }

    async fn send_frame(&mut self, frame: Frame) -> bool {
        match frame {
            Frame::Step(step) => self.send(&ToWorker::Transfer(*step)).await,
            Frame::Bulk(bytes) => self.send_bytes(*bytes).await,
        }
    }

    async fn send_bytes(&mut self, bytes: Bytes) -> bool {
        let sending = self.socket.send(Message::Binary(bytes));
        matches!(tokio::time::timeout(SILENCE_MAX, sending).await, Ok(Ok(())))
    }

    async fn send_stdin(&mut self, stdin: stdin::StdinItem) -> bool {
        match stdin {
            stdin::StdinItem::Frame(bytes) => self.send_bytes(*bytes).await,
            stdin::StdinItem::End(message) => self.send(&message).await,
        }
    }

    /// A worker has room for the standard input of an attempt.
    fn send_stdin_up_to(&mut self, lease: Lease, from: Option<u64>, until: u64) {
        let attempt = self.shared.connections.attempt(lease.attempt).filter(|attempt| attempt.lease == lease);
        let reads = |attempt: &LiveAttempt| attempt.is_of(self.session) && attempt.spec.stdin.is_some();
        if !attempt.is_some_and(|attempt| reads(&attempt)) {
            return;
        }
        let feed = self.feeds.get(&lease.attempt);
        match (from, feed) {
            (None, Some(feed)) => drop(feed.send_replace(until)),
            // The sending has to begin somewhere: the next report names the position.
            (None, None) => {}
            (Some(from), _) => {
                let (feed, room) = watch::channel(until);
                self.feeds.insert(lease.attempt, feed);
                let (out, _) = self.stdin.get_or_insert_with(|| mpsc::channel(STDIN_MAX));
                let (shared, out) = (self.shared.clone(), out.clone());
                self.shared.spawn(stdin::send(shared, lease, from, room, out));
            }
        }
        if self.feeds.len() > ATTEMPTS_HELD_MAX {
            self.feeds.retain(|_, feed| feed.receiver_count() > 0);
        }
    }

    async fn send(&mut self, message: &ToWorker) -> bool {
        let text = frame::encode_control(message);
        matches!(tokio::time::timeout(SILENCE_MAX, self.socket.send(Message::Text(text))).await, Ok(Ok(())))
    }

    /// Adds the position of the stored log to each desired state.
    fn desired(&mut self, desired: Vec<DesiredState>) -> Vec<Desired> {
        desired
            .into_iter()
            .map(|state| match state {
                DesiredState::Continue(lease) => Desired::Continue { lease, position: self.position(lease) },
                DesiredState::Cancel { lease, by, reason } => Desired::Cancel { lease, by, reason },
                DesiredState::Fenced(lease) => Desired::Fenced { lease },
                DesiredState::Forget(lease) => Desired::Forget { lease },
            })
            .collect()
    }

    fn position(&mut self, lease: Lease) -> u64 {
        let Some(attempt) = self.shared.connections.attempt(lease.attempt) else { return 0 };
        self.unacknowledged.remove(&lease.attempt);
        attempt.position(&self.shared.logs).unwrap_or_else(|error| {
            tracing::warn!(attempt = %lease.attempt, error = &error as &dyn std::error::Error, "a log can't be opened");
            0
        })
    }

    async fn take(&mut self, message: Message) -> Result<bool, LinkError> {
        match message {
            Message::Text(text) => {
                self.control(worker_message::decode(&text)?).await;
                Ok(true)
            }
            Message::Binary(bytes) => self.output(bytes).await,
            Message::Close => Ok(false),
            Message::Alive | Message::Headed(..) => Ok(true),
        }
    }

    async fn control(&mut self, message: FromWorker) {
        let session = self.session;
        match message {
            // A second registration on the same connection has no new content.
            FromWorker::Register(_) => {}
            FromWorker::Transfer(step) => self.transfers.step(step),
            FromWorker::Stdin { lease, from, until } => self.send_stdin_up_to(lease, from, until),
            FromWorker::Report { held, condition } => {
                for held in held.iter().filter(|held| held.state == HeldState::Ended) {
                    let attempt = self.shared.connections.attempt(held.lease.attempt);
                    if let Some(attempt) = attempt.filter(|attempt| attempt.lease == held.lease) {
                        attempt.note_ended(held.log_length);
                    }
                }
                let report = Input::Reported { session, held, condition };
                self.shared.send_limited_input(&self.token, report).await;
            }
            FromWorker::Decline { lease, reason } => {
                let decline = Input::Declined { session, lease, reason };
                self.shared.send_limited_input(&self.token, decline).await;
            }
            FromWorker::Complete { lease, outcome } => {
                let attempt =
                    self.shared.connections.attempt(lease.attempt).filter(|attempt| attempt.lease == lease);
                match attempt.filter(|attempt| attempt.is_of(session)) {
                    Some(attempt) if attempt.begin_completing() => {
                        let complete = completing::complete(self.shared.clone(), session, attempt, outcome);
                        self.shared.spawn(complete);
                    }
                    // The attempt is being completed already, has ended, or was granted again. The
                    // reply to the next report contains that.
                    Some(_) | None => {}
                }
            }
        }
    }

    async fn output(&mut self, bytes: Bytes) -> Result<bool, LinkError> {
        let (header, _) = BinaryHeader::decode(&bytes)?;
        let content = bytes.slice(BINARY_HEADER_BYTES..);
        if header.kind == BinaryKind::Transfer {
            self.transfers.bytes(header.channel, header.position, content);
            return Ok(true);
        }
        if header.kind != BinaryKind::Output {
            return Err(LinkError::new(
                ErrorCode::Malformed,
                "only output and transfer frames are expected from a worker",
            ));
        }
        let malformed = |error: &dyn std::fmt::Display| {
            LinkError::new(ErrorCode::Malformed, format!("output frame: {error}"))
        };
        let first = content
            .first_chunk::<CHUNK_HEADER_BYTES>()
            .ok_or_else(|| malformed(&"shorter than a chunk"))
            .and_then(|first| ChunkHeader::decode_header(first).map_err(|error| malformed(&error)))?;
        // The attempt has ended or was granted again. Drop the output; the reply to the next report
        // contains that.
        let Some(attempt) =
            self.shared.connections.attempt(first.attempt).filter(|attempt| attempt.is_of(self.session))
        else {
            return Ok(true);
        };
        if attempt.is_resend_requested(self.session) {
            return Ok(true);
        }
        let free = self.shared.logs.free_bytes().unwrap_or(u64::MAX);
        let is_storing = attempt.is_storing();
        if is_storing && free < RECORDS_ROOM_BYTES {
            let reason = format!(
                "the coordinator's disk has {free} bytes of free space; {RECORDS_ROOM_BYTES} are kept for records"
            );
            return Ok(self.refused(attempt, reason, false));
        }
        if !is_storing && !attempt.has_ended() && free >= JOBS_ROOM_BYTES {
            // The worker keeps the whole log until the job is recorded.
            let position = attempt.store_again(&self.shared.logs);
            return match position {
                Ok(position) => Ok(self.send(&ToWorker::Position { lease: attempt.lease, position }).await),
                Err(error) => Ok(self.refused(attempt, chain(&error), error.needs_restart())),
            };
        }
        let appended =
            tokio::task::block_in_place(|| attempt.append(&self.shared.logs, header.position, &content));
        match appended {
            Ok(Appended::Stored { position }) => {
                Ok(self.acknowledge(&attempt, position, content.len() as u64).await)
            }
            Ok(Appended::Rewind { position }) => {
                Ok(self.send(&ToWorker::Position { lease: attempt.lease, position }).await)
            }
            Err(error) if error.is_senders_fault() => Err(malformed(&error)),
            Err(error) => {
                let reason = format!("the coordinator's disk refused it: {}", chain(&error));
                Ok(self.refused(attempt, reason, error.needs_restart()))
            }
        }
    }

    async fn acknowledge(&mut self, attempt: &LiveAttempt, position: u64, grown: u64) -> bool {
        self.shared.metrics.log_bytes.inc_by(grown);
        let pending = self.unacknowledged.entry(attempt.lease.attempt).or_default();
        *pending += grown;
        if *pending < ACKNOWLEDGE_BYTES {
            return true;
        }
        self.unacknowledged.remove(&attempt.lease.attempt);
        self.send(&ToWorker::Position { lease: attempt.lease, position }).await
    }

    /// Handles output that the disk refused. The output is requested again later. After too many
    /// refusals it is only counted, so that the job does not wait forever. Returns true: the
    /// connection stays open.
    fn refused(&self, attempt: Arc<LiveAttempt>, reason: String, restart: bool) -> bool {
        tracing::error!(attempt = %attempt.lease.attempt, reason, "output can't be stored; its worker keeps it");
        let refused_for = attempt.output_refused(reason.clone());
        let log_wait = self.shared.config.log_wait;
        let most = if attempt.has_ended() { log_wait } else { log_wait.saturating_mul(RUNNING_WAITS_MAX) };
        if refused_for >= most {
            let stopped = tokio::task::block_in_place(|| attempt.stop_storing(&self.shared.logs, reason));
            if let Err(error) = stopped {
                tracing::error!(attempt = %attempt.lease.attempt, error = &error as &dyn std::error::Error, "a log can't be followed");
            }
        }
        self.ask_again_later(attempt, restart);
        true
    }

    /// Requests refused output again later, from the end of the stored log. The worker keeps the
    /// output, so nothing is lost. Until then, further output is dropped without a check, because
    /// the disk would refuse it too.
    fn ask_again_later(&self, attempt: Arc<LiveAttempt>, restart: bool) {
        let (shared, session) = (self.shared.clone(), self.session);
        attempt.request_resend(session);
        self.shared.spawn(async move {
            // The system does not report when a disk has room again, so retry on a timer.
            tokio::time::sleep(WRITE_AGAIN_AFTER).await;
            let position = tokio::task::block_in_place(|| {
                if restart {
                    attempt.restart(&shared.logs)?;
                }
                attempt.position(&shared.logs)
            });
            attempt.end_resend_request();
            if let Ok(position) = position {
                let message = ToWorker::Position { lease: attempt.lease, position };
                shared.connections.to_worker(session, WorkerOut::Message(Box::new(message)));
            }
        });
    }
}
