//! Bringing a snapshot to a pool: only what it lacks, going on after a cut.

use super::error::SnapshotError;
use super::take::{Options, Snapshot, take};
use crate::client::{Client, ClientError, Transfer};
use buildpool_objects::pack::{self, PackFile};
use buildpool_objects::pump::{self, Channel as _, Event, Progress, PumpError};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::transfer::{Message, ObjectId, Subject};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often a transfer is begun without coming further before it is given up; the link itself is dialled again and again meanwhile.
const TRIES_MAX: u32 = 10;
/// The first pause between two tries; doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why a snapshot is not at the pool.
#[derive(Debug)]
pub enum DeliverError {
    /// The link.
    Client(ClientError),
    /// On its way.
    Pump(PumpError),
    /// It could not be packed.
    Snapshot(SnapshotError),
}

impl fmt::Display for DeliverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "the snapshot could not be sent: {error}"),
            Self::Pump(error) => write!(f, "the snapshot could not be sent: {error}"),
            Self::Snapshot(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DeliverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => std::error::Error::source(error),
            Self::Pump(error) => std::error::Error::source(error),
            Self::Snapshot(error) => std::error::Error::source(error),
        }
    }
}

impl<E: Into<PumpError>> From<E> for DeliverError {
    fn from(error: E) -> Self {
        Self::Pump(error.into())
    }
}

/// Takes a snapshot and sees that the pool has it whole: what comes before a submit.
///
/// # Errors
/// When it can't be taken or delivered.
pub async fn take_and_deliver(client: &Client, options: Options) -> Result<Arc<Snapshot>, DeliverError> {
    let taken = pump::on_disk(move || Ok(take(&options))).await?;
    let snapshot = Arc::new(taken.map_err(DeliverError::Snapshot)?);
    deliver(client, &snapshot).await?;
    Ok(snapshot)
}

/// Sees that the pool has a snapshot whole. Gives the bytes that had to be sent; 0 when it was there.
///
/// # Errors
/// When the pool refuses it, can't be reached for long, or the snapshot can't be packed any more.
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
            // What we took for common was not, or is not any more: everything, then.
            Err(DeliverError::Pump(PumpError::Refused(LinkError { code: ErrorCode::Invalid, .. })))
                if !is_base_suspect =>
            {
                is_base_suspect = true;
            }
            // It chose one that can't be read here any more: another one, then. Each is offered once at most.
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

/// Gives the pack that had to be sent; none when the snapshot was there.
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
    pump::Channel::say(transfer, Message::Offer { channel, manifest: manifest.clone(), bases }).await?;
    let (base, lacks) = match pump::Channel::next(transfer).await? {
        Event::Step(Message::Done { .. }) => return Ok(None),
        Event::Step(Message::Want { .. }) if is_base_suspect => (None, None),
        Event::Step(Message::Want { base, head: true, lacks: None, .. }) => {
            // It counts commits by their ids alone, of which there can be more and less history.
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
    pump::Channel::say(transfer, Message::Begin { channel: transfer.number(), subject, blake3, length })
        .await?;
    pump::send_open(transfer, file, &pack.path, pack.length, progress).await?;
    Ok(Some(pack))
}
