//! Sends a log to a reader from a position on, as it grows and across attempts.

use super::request_context::RequestContext;
use super::websocket::Message;
use crate::app_state::internal_log;
use crate::logtext::MissingAttempt;
use crate::store::{LogError, LogReader, each_chunk};
use buildpool_protocol::client_link::{Cursor, ToClient};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::frame::{BinaryHeader, BinaryKind};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::limits::FOLLOW_WINDOW_BYTES;
use buildpool_protocol::output::Stream;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use tokio::sync::watch;

/// Log bytes in one frame.
const FRAME_BYTES: usize = 256 << 10;

/// Start position of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FollowStart {
    /// The start of the newest attempt.
    Newest,
    /// The start of this attempt.
    Attempt(u32),
    /// This cursor.
    Cursor(Cursor),
    /// The start of about this many last lines, of this attempt or of the newest one.
    Tail(Option<u32>, u64),
}

impl FollowStart {
    pub(crate) fn new(cursor: Option<Cursor>, attempt: Option<u32>, tail: Option<u64>) -> Self {
        match (cursor, attempt, tail) {
            (Some(cursor), _, _) => Self::Cursor(cursor),
            (None, attempt, Some(lines)) => Self::Tail(attempt, lines),
            (None, Some(attempt), None) => Self::Attempt(attempt),
            (None, None, None) => Self::Newest,
        }
    }

    fn attempt(self) -> Option<u32> {
        match self {
            Self::Newest => None,
            Self::Attempt(attempt) => Some(attempt),
            Self::Cursor(cursor) => Some(cursor.attempt),
            Self::Tail(attempt, _) => attempt,
        }
    }
}

/// A reader's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) request: u32,
    pub(crate) job: JobId,
    pub(crate) from: FollowStart,
    pub(crate) to_end: bool,
    /// Parts of the log without output of this stream are skipped.
    pub(crate) only: Option<Stream>,
}

/// Reason why following ended early.
enum Stop {
    /// The reader has disconnected or cancelled.
    Reader,
    /// The request can't be served.
    Refused(LinkError),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        Self::Refused(internal_log(&error))
    }
}

pub(crate) async fn follow(context: RequestContext, plan: Plan, window: watch::Receiver<Option<u64>>) {
    let mut follower = ClientFollower { context, plan, window: Window::new(window) };
    match follower.run().await {
        Ok(cursor) => follower.context.send_in_order(&ToClient::End { request: plan.request, cursor }).await,
        Err(Stop::Reader) => {}
        Err(Stop::Refused(error)) => follower.context.send_error(plan.request, error).await,
    }
}

struct ClientFollower {
    context: RequestContext,
    plan: Plan,
    window: Window,
}

/// Flow control: the amount of data that is on its way to the reader.
struct Window {
    taken: watch::Receiver<Option<u64>>,
    /// Position and length of each skipped part that the reader has not passed yet.
    left_out: VecDeque<(u64, u64)>,
    /// Total of these lengths.
    left_out_bytes: u64,
}

impl Window {
    fn new(taken: watch::Receiver<Option<u64>>) -> Self {
        Self { taken, left_out: VecDeque::new(), left_out_bytes: 0 }
    }

    /// Resets the window for another log.
    fn restart(&mut self) {
        self.left_out.clear();
        self.left_out_bytes = 0;
    }

    fn leave_out(&mut self, from: u64, to: u64) {
        let bytes = to - from;
        self.left_out_bytes += bytes;
        match self.left_out.back_mut() {
            Some((at, before)) if *at + *before == from => *before += bytes,
            _ => self.left_out.push_back((from, bytes)),
        }
    }

    /// Waits until the reader has taken enough of the data before this position.
    async fn wait(&mut self, begun_at: u64, position: u64) -> Result<(), Stop> {
        loop {
            let taken = self.taken.borrow_and_update().unwrap_or(begun_at);
            while let Some((_, bytes)) = self.left_out.front().filter(|(at, _)| *at < taken) {
                self.left_out_bytes -= bytes;
                self.left_out.pop_front();
            }
            if position.saturating_sub(taken).saturating_sub(self.left_out_bytes) < FOLLOW_WINDOW_BYTES {
                return Ok(());
            }
            self.changed().await?;
        }
    }

    fn is_closed(&self) -> bool {
        self.taken.has_changed().is_err()
    }

    async fn changed(&mut self) -> Result<(), Stop> {
        self.taken.changed().await.map_err(|_| Stop::Reader)
    }
}

impl ClientFollower {
    /// Sends attempt after attempt until the job has ended and its last log is sent.
    async fn run(&mut self) -> Result<Cursor, Stop> {
        let job = self.plan.job;
        let fixed = self.plan.from.attempt().is_some();
        let mut watch = self.context.shared.connections.watch(job);
        let mut sent: Option<Cursor> = None;
        loop {
            let (newest, is_over) = self.newest_attempt().await?;
            let wanted = match (sent, self.plan.from.attempt()) {
                (None, Some(attempt)) => Some(attempt),
                (None, None) => newest,
                (Some(sent), _) => {
                    newest.filter(|newest| *newest > sent.attempt && !(fixed && self.plan.to_end))
                }
            };
            match wanted {
                Some(attempt) => {
                    if sent.is_some() {
                        self.context
                            .send_in_order(&ToClient::Attempt { request: self.plan.request, attempt })
                            .await;
                    }
                    let from = if sent.is_none() { self.plan.from } else { FollowStart::Attempt(attempt) };
                    sent = Some(self.send(attempt, from, newest).await?);
                    if self.plan.to_end {
                        break;
                    }
                }
                None if is_over || self.plan.to_end => break,
                // The watch ends with the job, and then there is no waiting.
                None => tokio::select! {
                    changed = watch.changed() => if changed.is_err() { watch = self.context.shared.connections.watch(job) },
                    changed = self.window.changed() => changed?,
                },
            }
        }
        drop(watch);
        self.context.shared.connections.unwatch(job);
        Ok(sent.unwrap_or_default())
    }

    /// Returns the number of the newest attempt, and whether the job has ended.
    async fn newest_attempt(&self) -> Result<(Option<u32>, bool), Stop> {
        let shared = &self.context.shared;
        if let Some(live) = shared.runtime.live(self.plan.job).await {
            return Ok((live.attempts.last().map(|attempt| attempt.number), false));
        }
        let finished = shared.finished(self.plan.job).map_err(Stop::Refused)?;
        Ok((finished.record.attempts.last().map(|attempt| attempt.number), true))
    }

    /// Sends one attempt's log until the log has ended.
    async fn send(&mut self, number: u32, from: FollowStart, newest: Option<u32>) -> Result<Cursor, Stop> {
        let attempt = AttemptId { job: self.plan.job, number };
        let reader = tokio::task::block_in_place(|| self.context.shared.logs.reader(attempt));
        let missing = MissingAttempt { job: attempt.job, number, newest };
        let mut reader = reader.map_err(|error| Stop::Refused(missing.of_query(&error)))?;
        let mut position = match from {
            FollowStart::Newest | FollowStart::Attempt(_) => 0,
            FollowStart::Cursor(cursor) => cursor.position,
            FollowStart::Tail(_, lines) => {
                tokio::task::block_in_place(|| reader.tail(lines, self.plan.only))?
            }
        };
        let begun_at = position;
        self.window.restart();
        loop {
            if position >= reader.progress().position {
                // Fails if the log should go on here.
                let is_at_end = reader.read(position, FRAME_BYTES)?.is_empty();
                let progress = reader.progress();
                if is_at_end && position >= progress.position {
                    if progress.ended || self.plan.to_end {
                        return Ok(Cursor { attempt: number, position, within: 0 });
                    }
                    self.grown(&mut reader, position).await?;
                }
                continue;
            }
            self.window.wait(begun_at, position).await?;
            let place = self.context.bulk_place().await.ok_or(Stop::Reader)?;
            let chunks = if reader.is_in_memory(position) {
                reader.read(position, FRAME_BYTES)?
            } else {
                tokio::task::block_in_place(|| reader.read(position, FRAME_BYTES))?
            };
            if chunks.is_empty() {
                continue;
            }
            if let Some(only) = self.plan.only.filter(|only| !has_any_of(&chunks, *only)) {
                drop(place);
                let next = reader.next_of(position + chunks.len() as u64, only);
                self.window.leave_out(position, next);
                position = next;
                // No frame is sent here, so a disconnected reader must be detected explicitly.
                if self.window.is_closed() {
                    return Err(Stop::Reader);
                }
                tokio::task::yield_now().await;
                continue;
            }
            let header = BinaryHeader { kind: BinaryKind::Follow, channel: self.plan.request, position };
            position += chunks.len() as u64;
            place.send(Message::Headed(header.encode(), chunks));
        }
    }

    async fn grown(&mut self, reader: &mut LogReader, position: u64) -> Result<(), Stop> {
        loop {
            tokio::select! {
                _ = reader.grown(position) => return Ok(()),
                changed = self.window.changed() => changed?,
            }
        }
    }
}

fn has_any_of(chunks: &[u8], stream: Stream) -> bool {
    each_chunk(chunks, |_, header, _| {
        if header.stream == stream { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .is_break()
}
