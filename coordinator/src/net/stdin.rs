//! Standard input on its way: from the client's connection to the disk, and from there to the worker's connection.

use super::request_context::RequestContext;
use crate::app_state::AppState;
use crate::stdin::{Input, InputProgress, SenderGuard};
use crate::store::limits::RECORDS_ROOM_BYTES;
use buildpool_protocol::client_link::ToClient;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{JobId, Lease};
use buildpool_protocol::limits::{STDIN_FRAME_BYTES, STDIN_WINDOW_BYTES};
use buildpool_protocol::stdin::{StdinEnd, frame_to_worker};
use buildpool_protocol::worker_link::ToWorker;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Frames of one client that wait for the disk; the connection waits when it is full.
pub(crate) const STDIN_EVENTS_MAX: usize = 64;
/// Bytes that share one flush to the disk.
const FLUSH_BYTES: usize = 1 << 20;
/// Step in which the client receives permission to send more, in bytes.
const ROOM_STEP_BYTES: u64 = STDIN_WINDOW_BYTES / 8;
/// Delay before a retry on a disk that refused bytes. No event reports free space.
const RETRY_WRITE_AFTER: Duration = Duration::from_secs(1);

/// A part of the standard input from a client, or its end.
pub(crate) enum StdinEvent {
    Bytes { position: u64, bytes: Bytes },
    End(StdinEnd),
}

/// Stores the client's input, and sends the client the position up to which it may send.
pub(crate) async fn store(
    context: RequestContext,
    request: u32,
    job: JobId,
    mut events: mpsc::Receiver<StdinEvent>,
) {
    let input = match context.shared.input(job).await {
        Ok(Some(input)) => input,
        Ok(None) => {
            return context.send(ToClient::Stdin { request, position: 0, until: 0, ended: true }).await;
        }
        Err(error) => {
            tracing::error!(%job, %error, "the input of a job can't be stored");
            let text = format!("the coordinator can't store the standard input: {error}; see its log");
            return context.send_error(request, LinkError::new(ErrorCode::Internal, text)).await;
        }
    };
    let _sender_guard = SenderGuard::new(context.shared.inputs.clone(), input.clone());
    let mut progress = input.progress();
    loop {
        let position = on_disk(&context.shared, || input.sync()).await;
        let now = progress.borrow_and_update().clone();
        let (until, ended) = (now.until(), now.is_complete());
        if !context.try_send(ToClient::Stdin { request, position, until, ended }).await || ended {
            return;
        }
        if !wait_for_change(&mut progress, &mut events, until, &context.shared, &input).await {
            return;
        }
    }
}

/// Waits until bytes were stored, or the client needs a message. Returns false after the connection has ended.
async fn wait_for_change(
    progress: &mut watch::Receiver<InputProgress>,
    events: &mut mpsc::Receiver<StdinEvent>,
    announced_until: u64,
    shared: &AppState,
    input: &Input,
) -> bool {
    let is_relevant = |progress: &InputProgress| {
        progress.is_complete() || progress.until() >= announced_until + ROOM_STEP_BYTES
    };
    let mut next = tokio::select! {
        changed = progress.wait_for(is_relevant) => return changed.is_ok(),
        first = events.recv() => first,
    };
    let is_open = next.is_some();
    let mut bytes_taken = 0;
    while let Some(one) = next {
        bytes_taken += take(shared, input, one).await;
        next = if bytes_taken < FLUSH_BYTES { events.try_recv().ok() } else { None };
    }
    is_open
}

async fn take(shared: &AppState, input: &Input, event: StdinEvent) -> usize {
    match event {
        StdinEvent::Bytes { position, bytes } => {
            on_disk(shared, || input.append(position, &bytes)).await;
            bytes.len()
        }
        StdinEvent::End(end) => {
            on_disk(shared, || input.end(end.clone())).await;
            0
        }
    }
}

/// Repeats an operation until the disk accepts it. The client waits meanwhile.
async fn on_disk<T>(shared: &AppState, act: impl Fn() -> io::Result<T>) -> T {
    loop {
        let has_room = shared.logs.free_bytes().is_none_or(|free| free >= RECORDS_ROOM_BYTES);
        match has_room.then(|| tokio::task::block_in_place(&act)) {
            Some(Ok(done)) => return done,
            Some(Err(error)) => tracing::error!(%error, "standard input can't be stored; trying again"),
            None => tracing::error!("standard input waits: the disk has no room for it"),
        }
        tokio::time::sleep(RETRY_WRITE_AFTER).await;
    }
}

/// An item for a worker. Boxed to stay small: each connection of a worker allocates room for 32 of them.
pub(crate) enum StdinItem {
    Frame(Box<Bytes>),
    End(Box<ToWorker>),
}

/// Sends the input of an attempt from a position on, as far as the worker has room, to its end.
pub(crate) async fn send(
    shared: Arc<AppState>,
    lease: Lease,
    from: u64,
    mut until: watch::Receiver<u64>,
    out: mpsc::Sender<StdinItem>,
) {
    let input = match shared.input(lease.attempt.job).await {
        Ok(Some(input)) => input,
        Ok(None) => return,
        // The worker requests it again with its next report.
        Err(error) => return tracing::error!(attempt = %lease.attempt, %error, "an input can't be opened"),
    };
    let mut progress = input.progress();
    let mut at = from;
    loop {
        let room = *until.borrow_and_update();
        input.want(room);
        let InputProgress { stored, end, is_over, .. } = progress.borrow_and_update().clone();
        while at < stored.min(room) {
            let length = usize::try_from(stored.min(room) - at).unwrap_or(usize::MAX).min(STDIN_FRAME_BYTES);
            let bytes = match tokio::task::block_in_place(|| input.read(at, length)) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return,
                Err(error) => {
                    return tracing::error!(attempt = %lease.attempt, %error, "an input can't be read");
                }
            };
            let frame = frame_to_worker(lease.attempt, at, &bytes);
            if out.send(StdinItem::Frame(Box::new(frame.into()))).await.is_err() {
                return;
            }
            at += length as u64;
        }
        if is_over {
            return;
        }
        if let Some(end) = end.filter(|end| end.seal.length == at) {
            // A connection that is gone gets nothing more.
            let _gone = out.send(StdinItem::End(Box::new(ToWorker::StdinEnd { lease, end }))).await;
            return;
        }
        let changed = tokio::select! {
            changed = progress.changed() => changed,
            changed = until.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
