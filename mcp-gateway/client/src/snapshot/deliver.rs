//! Sends a snapshot to a pool. Only the missing parts are sent, and an interrupted transfer is
//! resumed.

use super::error::SnapshotError;
use super::take::{Options, Snapshot, take};
use crate::{Client, ClientError, Transfer};
use buildpool_objects::pack::{self, PackFile};
use buildpool_objects::pump::{self, Channel as _, Event, Progress, PumpError};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::transfer::{Message, ObjectId, Subject};
use std::sync::Arc;
use std::time::Duration;

/// Number of attempts without progress after which a transfer fails. The link itself reconnects
/// meanwhile.
const TRIES_MAX: u32 = 10;
/// First delay between attempts; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum delay between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Reason why a snapshot could not be delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    /// An error of the link.
    #[error("the snapshot could not be sent: {0}")]
    Client(#[source] ClientError),
    /// An error during the transfer.
    #[error("the snapshot could not be sent: {0}")]
    Pump(#[source] PumpError),
    /// The snapshot could not be taken or packed.
    #[error(transparent)]
    Snapshot(SnapshotError),
}

impl<E: Into<PumpError>> From<E> for DeliverError {
    fn from(error: E) -> Self {
        Self::Pump(error.into())
    }
}

/// Takes a snapshot and delivers it to the pool, before a submit.
///
/// # Errors
/// If the snapshot can't be taken or delivered.
pub async fn take_and_deliver(client: &Client, options: Options) -> Result<Arc<Snapshot>, DeliverError> {
    let taken = pump::on_disk(move || Ok(take(&options))).await?;
    let snapshot = Arc::new(taken.map_err(DeliverError::Snapshot)?);
    deliver(client, &snapshot).await?;
    Ok(snapshot)
}

/// Makes sure that the pool has the whole snapshot. Returns the number of sent bytes; 0 if the pool
/// had it already.
///
/// # Errors
/// If the pool refuses the snapshot, is unreachable for too long, or the snapshot can't be packed
/// any more.
pub async fn deliver(client: &Client, snapshot: &Arc<Snapshot>) -> Result<u64, DeliverError> {
    let mut pause = PAUSE;
    let mut is_base_suspect = false;
    let mut gone: Vec<ObjectId> = Vec::new();
    let mut tries = 0;
    let mut progress = Progress::default();
    loop {
        let mut transfer = client.transfer().await.map_err(DeliverError::Client)?;
        let result = once(&mut transfer, snapshot, is_base_suspect, &gone, &mut progress).await;
        (tries, pause) = if progress.has_grown() { (1, PAUSE) } else { (tries + 1, pause) };
        match result {
            Ok(pack) => {
                let sent = pack.as_ref().map_or(0, |pack| pack.length);
                let snapshot = Arc::clone(snapshot);
                let done = pump::on_disk(move || Ok(snapshot.delivered(pack.as_ref()))).await?;
                return done.map(|()| sent).map_err(DeliverError::Snapshot);
            }
            // The pool lacks an object that the base should contain. Send everything.
            Err(DeliverError::Pump(PumpError::Refused(LinkError { code: ErrorCode::Invalid, .. })))
                if !is_base_suspect =>
            {
                is_base_suspect = true;
            }
            // The pool chose a base that can't be read here any more. Offer the others; each is
            // offered at most once.
            Err(DeliverError::Snapshot(SnapshotError::BaseGone { base })) if !gone.contains(&base) => {
                let (forgetful, tree) = (Arc::clone(snapshot), base.clone());
                let forgotten = pump::on_disk(move || Ok(forgetful.forget_base(&tree))).await?;
                forgotten.map_err(DeliverError::Snapshot)?;
                gone.push(base);
            }
            Err(DeliverError::Pump(error)) if error.is_worth_a_retry() && tries < TRIES_MAX => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Runs one attempt. Returns the sent pack, or `None` if the pool had the snapshot.
async fn once(
    transfer: &mut Transfer,
    snapshot: &Arc<Snapshot>,
    is_base_suspect: bool,
    gone: &[ObjectId],
    progress: &mut Progress,
) -> Result<Option<PackFile>, DeliverError> {
    let channel = transfer.channel();
    let mut bases = if is_base_suspect { Vec::new() } else { snapshot.bases() };
    bases.retain(|base| !gone.contains(base));
    let manifest = Box::new(snapshot.manifest.clone());
    pump::Channel::send_step(transfer, Message::Offer { channel, manifest: manifest.clone(), bases }).await?;
    let (base, lacks) = match pump::Channel::next(transfer).await? {
        Event::Step(Message::Done { .. }) => return Ok(None),
        Event::Step(Message::Want { .. }) if is_base_suspect => (None, None),
        Event::Step(Message::Want { base, head: true, lacks: None, .. }) => {
            // An older coordinator identifies the head by its commit alone, but one commit can
            // come with more or less history. So send all commits and tags.
            let head = snapshot.manifest.head.iter();
            (base, Some(head.flat_map(pack::commits_and_tags).map(|part| part.id).collect()))
        }
        Event::Step(Message::Want { base, lacks, .. }) => (base, lacks),
        Event::Step(Message::Failed { error, .. }) => return Err(PumpError::Refused(error).into()),
        Event::Step(_) | Event::Bytes { .. } => {
            return Err(PumpError::Misbehaved("something else than an answer to an offer").into());
        }
    };
    let (packing, on) = (Arc::clone(snapshot), base.clone());
    let packed = pump::on_disk(move || Ok(packing.pack(on.as_ref(), lacks.as_deref()))).await?;
    let (pack, file) = packed.map_err(DeliverError::Snapshot)?;
    let subject = Subject::Snapshot { manifest, base };
    let (blake3, length) = (pack.blake3.clone(), pack.length);
    pump::Channel::send_step(
        transfer,
        Message::Begin { channel: transfer.number(), subject, blake3, length },
    )
    .await?;
    pump::send_open(transfer, file, &pack.path, pack.length, progress).await?;
    Ok(Some(pack))
}
