//! Transfers snapshots, artifacts and programs over the link. An interrupted transfer starts again on the
//! next connection and resumes at the length of the receiver's file.

use super::error::WorkspaceError;
use super::pool::{MissingSnapshot, Workspaces};
use crate::link::transfers::{Channel, Transfers};
use buildpool_objects::incoming::{IncomingError, Received, remove_stale};
use buildpool_objects::pump::{self, Announced, Channel as _, Event, Progress, PumpError};
use buildpool_objects::record;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::limits::{PROGRAM_BYTES_MAX, TRANSFER_BYTES_MAX};
use buildpool_protocol::report::ArtifactEntry;
use buildpool_protocol::transfer::{Message, Subject};
use buildpool_protocol::upgrade::UpgradeOrder;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Limit on the attempts of a transfer that the other side cannot accept for now.
const TRIES_MAX: u32 = 8;
/// First pause before a retry. It doubles.
const PAUSE: Duration = Duration::from_millis(250);

/// Time after which a part of a program that was not received to its end is removed.
const PROGRAM_STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Error of a transfer.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The transfer failed.
    #[error(transparent)]
    Pump(PumpError),
    /// The received data is not usable.
    #[error(transparent)]
    Workspace(WorkspaceError),
}

impl<E: Into<PumpError>> From<E> for TransferError {
    fn from(error: E) -> Self {
        Self::Pump(error.into())
    }
}

/// Fetches a snapshot from the coordinator and imports it. Waits for a connection without a time
/// limit.
///
/// # Errors
/// Fails if the coordinator does not have it, or the received snapshot is incomplete.
pub async fn fetch(
    transfers: &Arc<Transfers>,
    workspaces: &Workspaces,
    missing: &MissingSnapshot,
) -> Result<(), TransferError> {
    let mut retry = RetryPolicy::default();
    let mut missing = missing.clone();
    loop {
        match fetch_once(&mut transfers.open().await, workspaces, &missing, &mut retry.progress).await {
            Ok(()) => return Ok(()),
            // The known objects are missing or damaged, so request all objects.
            Err(TransferError::Workspace(WorkspaceError::Cache(_)))
                if !(missing.trees.is_empty() && missing.known.is_empty()) =>
            {
                missing.trees.clear();
                missing.known.clear();
            }
            Err(error) => retry.after(error).await?,
        }
        // Another job may have fetched it in the meantime.
        let (place, wanted) = (workspaces.clone(), missing.clone());
        if pump::on_disk(move || Ok(place.holds(&wanted))).await? {
            return Ok(());
        }
    }
}

/// Receives the program of an order into a directory, and verifies it. Waits for a connection without a time limit.
///
/// # Errors
/// Fails if the coordinator does not have it, or sends other bytes.
pub async fn fetch_program(
    transfers: &Arc<Transfers>,
    directory: &Path,
    order: &UpgradeOrder,
) -> Result<Received, TransferError> {
    remove_stale(directory, PROGRAM_STALE_AFTER, SystemTime::now());
    let mut retry = RetryPolicy::default();
    let mut was_damaged = false;
    loop {
        let mut channel = transfers.open().await;
        match fetch_program_once(&mut channel, directory, order, &mut retry.progress).await {
            Ok(received) => return Ok(received),
            Err(error) => {
                // The first time, the part of an earlier transfer may have been damaged.
                let is_damaged =
                    matches!(error, TransferError::Pump(PumpError::Incoming(IncomingError::Mismatch { .. })));
                if is_damaged && was_damaged {
                    return Err(error);
                }
                was_damaged |= is_damaged;
                retry.after(error).await?;
            }
        }
    }
}

async fn fetch_program_once(
    channel: &mut Channel,
    directory: &Path,
    order: &UpgradeOrder,
    progress: &mut Progress,
) -> Result<Received, TransferError> {
    let number = channel.number();
    channel.send_step(Message::FetchProgram { channel: number, blake3: order.blake3.clone() }).await?;
    let (blake3, length) = match channel.next().await? {
        Event::Step(Message::Begin { subject: Subject::Program, blake3, length, .. }) => (blake3, length),
        Event::Step(Message::Failed { error, .. }) => return Err(PumpError::Refused(error).into()),
        Event::Step(_) | Event::Bytes { .. } => {
            return Err(PumpError::Misbehaved("it answered a fetch with something else").into());
        }
    };
    if blake3 != order.blake3 || length != order.length {
        return Err(PumpError::Misbehaved("it sent another program than the ordered one").into());
    }
    let announced = Announced { blake3, length, limit: PROGRAM_BYTES_MAX };
    let received = pump::receive(channel, directory.to_owned(), announced, progress, || false).await?;
    let received = received.ok_or(PumpError::Misbehaved("it sent nothing"))?;
    channel.send_step(Message::Done { channel: number }).await?;
    Ok(received)
}

/// Sends an artifact to the coordinator, from the file with its content. Waits for a connection
/// without a time limit.
///
/// # Errors
/// Fails if the coordinator refuses it.
pub async fn upload(
    transfers: &Arc<Transfers>,
    lease: Lease,
    entry: &ArtifactEntry,
    path: &Path,
) -> Result<(), TransferError> {
    let mut retry = RetryPolicy::default();
    loop {
        match upload_once(&mut transfers.open().await, lease, entry, path, &mut retry.progress).await {
            Ok(()) => return Ok(()),
            Err(error) => retry.after(error).await?,
        }
    }
}

/// Retry state of a transfer. The number of tries is reset by progress.
struct RetryPolicy {
    tries: u32,
    pause: Duration,
    progress: Progress,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries: 0, pause: PAUSE, progress: Progress::default() }
    }
}

impl RetryPolicy {
    /// Waits until the next retry, or returns the error after the last one.
    async fn after(&mut self, error: TransferError) -> Result<(), TransferError> {
        match &error {
            // A lost connection does not count as a try, because the transfer was not refused.
            TransferError::Pump(PumpError::Interrupted) => return Ok(()),
            TransferError::Pump(pump) if pump.is_worth_a_retry() => {}
            TransferError::Pump(_) | TransferError::Workspace(_) => return Err(error),
        }
        if self.progress.has_grown() {
            *self = Self { progress: std::mem::take(&mut self.progress), ..Self::default() };
        }
        self.tries += 1;
        if self.tries == TRIES_MAX {
            return Err(error);
        }
        tokio::time::sleep(self.pause).await;
        self.pause *= 2;
        Ok(())
    }
}

async fn fetch_once(
    channel: &mut Channel,
    workspaces: &Workspaces,
    missing: &MissingSnapshot,
    progress: &mut Progress,
) -> Result<(), TransferError> {
    let number = channel.number();
    let request = Message::FetchSnapshot {
        channel: number,
        project: missing.project.clone(),
        tree: missing.name.tree.clone(),
        head: missing.name.head.clone(),
        trees: missing.trees.clone(),
        heads: Vec::new(),
        manifest: missing.name.manifest.clone(),
        known: missing.known.clone(),
    };
    channel.send_step(request).await?;
    let (subject, blake3, length) = match channel.next().await? {
        Event::Step(Message::Begin { subject, blake3, length, .. }) => (subject, blake3, length),
        Event::Step(Message::Failed { error, .. }) => return Err(PumpError::Refused(error).into()),
        Event::Step(_) | Event::Bytes { .. } => {
            return Err(PumpError::Misbehaved("it answered a fetch with something else").into());
        }
    };
    let Subject::Snapshot { manifest, base } = subject else {
        return Err(PumpError::Misbehaved("it sent an artifact for a snapshot").into());
    };
    let is_wanted = manifest.project == missing.project && record::fits(&missing.name, &manifest);
    if !is_wanted || manifest.check().is_err() {
        return Err(PumpError::Misbehaved("it sent another snapshot than the requested one").into());
    }
    let directory = workspaces.incoming(&missing.project);
    let announced = Announced { blake3, length, limit: TRANSFER_BYTES_MAX };
    let (place, wanted) = (workspaces.clone(), missing.clone());
    let received =
        pump::receive(channel, directory, announced, progress, move || place.holds(&wanted)).await?;
    // Without a pack, another job fetched it in the meantime.
    if let Some(pack) = received {
        let taker = workspaces.clone();
        // The pack stays locked until it is imported and its file removed.
        let taken = pump::on_disk(move || Ok(taker.accept(pack.path(), &manifest, base.as_ref()))).await?;
        taken.map_err(TransferError::Workspace)?;
    }
    Ok(channel.send_step(Message::Done { channel: number }).await?)
}

async fn upload_once(
    channel: &mut Channel,
    lease: Lease,
    entry: &ArtifactEntry,
    path: &Path,
    progress: &mut Progress,
) -> Result<(), TransferError> {
    let blake3 = entry.blake3.parse().map_err(|_| PumpError::Misbehaved("an artifact has no checksum"))?;
    let subject = Subject::Artifact { lease, path: entry.path.clone() };
    let begin = Message::Begin { channel: channel.number(), subject, blake3, length: entry.bytes };
    channel.send_step(begin).await?;
    Ok(pump::send(channel, path, entry.bytes, progress).await?)
}
