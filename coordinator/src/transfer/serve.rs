//! Serves one transfer from its first step to its last.

use super::peer::{Channel, PeerKind};
use super::programs;
use super::store::{Fetch, TransferStore};
use crate::app_state::AppState;
use crate::store::Lookup;
use crate::store::limits::RETAIN_ROOM_BYTES;
use buildpool_objects::pump::{self, Announced, Channel as _, Event, Progress, PumpError};
use buildpool_objects::{CacheError, GitError, Stop, record};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{JobId, Lease};
use buildpool_protocol::limits::{ARTIFACTS_BYTES_MAX, BASES_MAX, PATH_BYTES_MAX, TRANSFER_BYTES_MAX};
use buildpool_protocol::transfer::{Checksum, Manifest, Message, ObjectId, SnapshotName, Subject};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns true if a message from this peer opens a transfer.
pub(super) fn opens(kind: &PeerKind, message: &Message) -> bool {
    match (kind, message) {
        (
            PeerKind::Client { .. },
            Message::Offer { .. }
            | Message::FetchArtifact { .. }
            | Message::Begin { subject: Subject::Program, .. },
        ) => true,
        (
            PeerKind::Worker(_),
            Message::FetchSnapshot { .. } | Message::FetchProgram { .. } | Message::Begin { .. },
        ) => true,
        (PeerKind::Client { .. } | PeerKind::Worker(_), _) => false,
    }
}

/// Serves a transfer to its end.
///
/// # Errors
/// The error to send to the peer.
pub(super) async fn serve(
    shared: &Arc<AppState>,
    kind: PeerKind,
    channel: &mut Channel,
    opening: Message,
) -> Result<(), LinkError> {
    match (kind, opening) {
        (
            PeerKind::Client { snapshot_bytes, stored_bytes, class, .. },
            Message::Offer { manifest, bases, .. },
        ) => {
            let limits = SnapshotLimits {
                one: snapshot_bytes.unwrap_or(TRANSFER_BYTES_MAX).min(TRANSFER_BYTES_MAX),
                stored: stored_bytes.unwrap_or(u64::MAX),
            };
            let store = shared.transfers.of_class(&class);
            offer(shared, store, channel, (*manifest, bases), limits).await
        }
        (PeerKind::Client { principal, .. }, Message::FetchArtifact { job, path, .. }) => {
            let job = shared.resolve(&principal, &job)?;
            artifact_out(shared, channel, job, &path).await
        }
        (
            PeerKind::Worker(session),
            Message::FetchSnapshot { project, tree, head, trees, manifest, known, .. },
        ) => {
            let name = SnapshotName { tree, head, manifest };
            let Some(class) = shared.connections.granted_class(session, &project, &name) else {
                let text = format!("snapshot {}: no job on it is granted to this worker", name.tree);
                return Err(LinkError::new(ErrorCode::Forbidden, text));
            };
            snapshot_out(shared.transfers.of_class(&class), channel, Fetch { project, name, trees, known })
                .await
        }
        (
            PeerKind::Worker(session),
            Message::Begin { subject: Subject::Artifact { lease, path }, blake3, length, .. },
        ) => {
            let attempt = shared.connections.attempt(lease.attempt).filter(|attempt| attempt.lease == lease);
            if !attempt.is_some_and(|attempt| attempt.is_of(session)) {
                let text = format!("attempt {} is not this worker's", lease.attempt);
                return Err(LinkError::new(ErrorCode::Forbidden, text));
            }
            artifact_in(shared, channel, lease, &path, (blake3, length)).await
        }
        (
            PeerKind::Client { principal, .. },
            Message::Begin { subject: Subject::Program, blake3, length, .. },
        ) => programs::receive(shared, &principal, channel, blake3, length).await,
        (PeerKind::Worker(_), Message::FetchProgram { blake3, .. }) => {
            programs::send(shared, channel, blake3).await
        }
        (PeerKind::Client { .. } | PeerKind::Worker(_), _) => Err(unexpected()),
    }
}

fn unexpected() -> LinkError {
    LinkError::new(ErrorCode::Malformed, "this step does not belong here")
}

/// Limits on the snapshots of a client, in bytes.
#[derive(Clone, Copy)]
struct SnapshotLimits {
    /// One transfer.
    one: u64,
    /// All stored snapshots of its class.
    stored: u64,
}

/// Receives a snapshot from a client.
async fn offer(
    shared: &Arc<AppState>,
    transfers: TransferStore,
    channel: &mut Channel,
    (manifest, bases): (Manifest, Vec<ObjectId>),
    SnapshotLimits { one: limit, stored }: SnapshotLimits,
) -> Result<(), LinkError> {
    manifest.check()?;
    if bases.len() > BASES_MAX {
        let text = format!("bases: {} given; at most {BASES_MAX} are valid", bases.len());
        return Err(LinkError::new(ErrorCode::Invalid, text));
    }
    let number = channel.number();
    let stop = Stop::default();
    let (store, offered) = (transfers.stopped_by(&stop), manifest.clone());
    let lacks = blocking(channel, &stop, move || {
        let place = (offered.project.as_str(), offered.tree.format());
        // If damaged objects were removed meanwhile, answer again: the snapshot now counts as
        // missing.
        match store.after(answer(&store, &offered, &bases), place) {
            Err(error) if error.may_be_damage() => answer(&store, &offered, &bases),
            answered => answered,
        }
    });
    let Some(MissingParts { base, ids: lacks }) = lacks.await? else {
        return share(&transfers, channel, manifest).await;
    };
    let head = lacks.is_empty();
    // A long list costs more than it saves.
    let lacks = Some(lacks).filter(|lacks| lacks.len() <= BASES_MAX);
    send_step(channel, Message::Want { channel: number, base, head, lacks }).await?;
    let (subject, blake3, length) = match channel.next().await {
        Ok(Event::Step(Message::Begin { subject, blake3, length, .. })) => (subject, blake3, length),
        Ok(Event::Step(Message::Failed { .. })) | Err(_) => return Ok(()),
        Ok(Event::Step(_) | Event::Bytes { .. }) => return Err(unexpected()),
    };
    let base = match subject {
        Subject::Snapshot { manifest: begun, base } if *begun == manifest => base,
        Subject::Snapshot { .. } | Subject::Artifact { .. } | Subject::Program => return Err(unexpected()),
    };
    has_disk_room(shared, length)?;
    if length > limit && limit < TRANSFER_BYTES_MAX {
        let text = format!(
            "snapshot: it would send {length} bytes; your quota (snapshot_bytes) is {limit}: put large new files into .gitignore or .buildpoolignore (committed files always travel with their commit)"
        );
        return Err(LinkError::new(ErrorCode::TooLarge, text));
    }
    has_class_room(&transfers, length, stored).await?;
    let announced = Announced { blake3, length, limit };
    let (store, wanted) = (transfers.clone(), manifest.clone());
    let is_here = move || store.has(&wanted.project, &record::name(&wanted));
    let incoming = transfers.incoming();
    let pack = match pump::receive(channel, incoming, announced, &mut Progress::default(), is_here).await {
        Ok(Some(pack)) => pack,
        // Another connection has sent the snapshot meanwhile.
        Ok(None) => return share(&transfers, channel, manifest).await,
        Err(error) => return answer_for_peer(error),
    };
    shared.metrics.snapshot_bytes.inc_by(length);
    let stop = Stop::default();
    let (store, accepted) = (transfers.stopped_by(&stop), manifest.clone());
    blocking(channel, &stop, move || {
        let manifest = accepted;
        let place = (manifest.project.as_str(), manifest.tree.format());
        let cache = store.cache(place.0, place.1)?;
        let accepted = store.after(cache.accept(pack.path(), &manifest, base.as_ref()), place);
        if let Err(error) = pack.remove() {
            tracing::warn!(%error, "a pack that was taken in can't be removed");
        }
        accepted
    })
    .await?;
    share(&transfers, channel, manifest).await
}

/// Copies a snapshot that is here to the shared objects, and ends the transfer.
async fn share(
    transfers: &TransferStore,
    channel: &mut Channel,
    manifest: Manifest,
) -> Result<(), LinkError> {
    let stop = Stop::default();
    let store = transfers.stopped_by(&stop);
    blocking(channel, &stop, move || store.share_snapshot(&manifest)).await?;
    finish(channel).await
}

/// Refuses a snapshot that would leave the coordinator's disk without room for the jobs of others. While
/// it is unpacked, it takes its bytes twice.
fn has_disk_room(shared: &AppState, length: u64) -> Result<(), LinkError> {
    let Some(free) = shared.logs.free_bytes() else { return Ok(()) };
    let most = free.saturating_sub(RETAIN_ROOM_BYTES) / 2;
    if length <= most {
        return Ok(());
    }
    let text = format!(
        "snapshot: it would send {length} bytes; the coordinator's disk has {free} bytes free and takes at most {most} now: free some room there, or send less"
    );
    Err(LinkError::new(ErrorCode::Exhausted, text))
}

/// Checks that the class stays within its limit. Transfers at the same time don't see each other, so it may be exceeded
/// by as many snapshots as one client sends at a time.
async fn has_class_room(transfers: &TransferStore, length: u64, most: u64) -> Result<(), LinkError> {
    let store = transfers.clone();
    let stored = tokio::task::spawn_blocking(move || store.class_bytes()).await.unwrap_or_default();
    if stored.saturating_add(length) <= most {
        return Ok(());
    }
    let text = format!(
        "snapshot: it would send {length} bytes; {stored} bytes of snapshots are stored for you or your team, and the quota (stored_snapshot_bytes) is {most}: send less, or try again after the next cleaning, which removes those that are not used"
    );
    Err(LinkError::new(ErrorCode::Exhausted, text))
}

/// The parts of an offered snapshot that the coordinator lacks.
struct MissingParts {
    /// A tree from the offered bases that the coordinator has.
    base: Option<ObjectId>,
    /// Missing objects of the snapshot's head.
    ids: Vec<ObjectId>,
}

/// Returns the missing parts of an offered snapshot, or `None` if all of it is here.
fn answer(
    store: &TransferStore,
    offered: &Manifest,
    bases: &[ObjectId],
) -> Result<Option<MissingParts>, CacheError> {
    store.has(&offered.project, &record::name(offered));
    let cache = store.open_checked(&offered.project, offered.tree.format())?;
    if cache.manifest(&record::name(offered)).is_some() {
        return Ok(None);
    }
    let base = std::iter::once(&offered.tree).chain(bases).find(|base| cache.has_tree(base)).cloned();
    let ids = cache.missing_ids(offered)?;
    if ids.is_empty() && base.as_ref() == Some(&offered.tree) {
        // Only its branch or its ignore patterns are new.
        cache.adopt(offered)?;
        return Ok(None);
    }
    Ok(Some(MissingParts { base, ids }))
}

/// Sends a snapshot to a worker.
async fn snapshot_out(
    transfers: TransferStore,
    channel: &mut Channel,
    fetch: Fetch,
) -> Result<(), LinkError> {
    let stop = Stop::default();
    let store = transfers.stopped_by(&stop);
    let (outgoing, manifest, base) = blocking(channel, &stop, move || {
        let packed = store.pack(&fetch);
        store.after(packed, (&fetch.project, fetch.name.tree.format()))
    })
    .await?;
    let file = outgoing.file().map_err(|error| {
        LinkError::new(ErrorCode::Unavailable, format!("the coordinator can't read the pack: {error}"))
    })?;
    let subject = Subject::Snapshot { manifest: Box::new(manifest), base };
    let pack = &outgoing.pack;
    let (blake3, length) = (pack.blake3.clone(), pack.length);
    send_step(channel, Message::Begin { channel: channel.number(), subject, blake3, length }).await?;
    match pump::send_open(channel, file, &pack.path, length, &mut Progress::default()).await {
        Ok(()) => {
            outgoing.delivered();
            Ok(())
        }
        Err(error) => answer_for_peer(error),
    }
}

/// Receives an artifact from a worker.
async fn artifact_in(
    shared: &Arc<AppState>,
    channel: &mut Channel,
    lease: Lease,
    path: &str,
    (blake3, length): (Checksum, u64),
) -> Result<(), LinkError> {
    if path.is_empty() || path.len() > PATH_BYTES_MAX {
        let text = format!("artifact: its path has {} bytes; valid are 1 to {PATH_BYTES_MAX}", path.len());
        return Err(LinkError::new(ErrorCode::Invalid, text));
    }
    let job = lease.attempt.job;
    let (store, known) = (shared.transfers.clone(), blake3.clone());
    let is_here = move || store.has_artifact(job, &known, length);
    if tokio::task::block_in_place(is_here.clone()) {
        return finish(channel).await;
    }
    let free = shared.logs.free_bytes().unwrap_or(u64::MAX);
    let most = shared.config.artifact_bytes.min(free.saturating_sub(RETAIN_ROOM_BYTES));
    if length > most {
        let text = format!(
            "artifact: {length} bytes; the coordinator takes at most {most} now (artifact_bytes, or its free disk space)"
        );
        return Err(LinkError::new(ErrorCode::Exhausted, text));
    }
    let announced = Announced { blake3: blake3.clone(), length, limit: ARTIFACTS_BYTES_MAX };
    let incoming = shared.transfers.incoming();
    let received = match pump::receive(channel, incoming, announced, &mut Progress::default(), is_here).await
    {
        Ok(Some(received)) => received,
        Ok(None) => return finish(channel).await,
        Err(error) => return answer_for_peer(error),
    };
    shared.metrics.artifact_bytes.inc_by(length);
    let store = shared.transfers.clone();
    let kept = tokio::task::spawn_blocking(move || store.keep_artifact(job, &blake3, received)).await;
    match kept {
        Ok(Ok(())) => finish(channel).await,
        Ok(Err(error)) => {
            tracing::error!(%job, %error, "an artifact can't be kept");
            Err(LinkError::new(ErrorCode::Unavailable, format!("the coordinator's disk refuses it: {error}")))
        }
        Err(_) => Err(LinkError::new(ErrorCode::Unavailable, "the coordinator is going away")),
    }
}

/// Sends an artifact to a client.
async fn artifact_out(
    shared: &Arc<AppState>,
    channel: &mut Channel,
    job: JobId,
    path: &str,
) -> Result<(), LinkError> {
    let Kept { blake3, length, file } = kept(shared, job, path)?;
    let record = shared.finished(job)?;
    let done = record.record.done.as_ref();
    let attempt = done.and_then(|done| done.attempt).unwrap_or_default();
    let attempt = buildpool_protocol::ids::AttemptId { job, number: attempt };
    let subject = Subject::Artifact { lease: Lease { attempt, epoch: 0 }, path: path.to_owned() };
    send_step(channel, Message::Begin { channel: channel.number(), subject, blake3, length }).await?;
    pump::send(channel, &file, length, &mut Progress::default()).await.or_else(answer_for_peer)
}

/// An artifact that is stored.
struct Kept {
    blake3: Checksum,
    length: u64,
    file: PathBuf,
}

/// Finds an artifact of a job.
fn kept(shared: &AppState, job: JobId, path: &str) -> Result<Kept, LinkError> {
    let (blake3, length) = listed(shared, job, path)?;
    let found = tokio::task::block_in_place(|| shared.transfers.artifact_file(job, &blake3));
    let found = found.map_err(|error| {
        tracing::error!(%job, %error, "an artifact can't be read");
        let text = format!("artifact `{path}` of job {job} can't be read now: {error}; try again later");
        LinkError::new(ErrorCode::Unavailable, text)
    })?;
    let Some(file) = found else {
        let text = format!("artifact `{path}` of job {job} was here; it was removed by retention");
        return Err(LinkError::new(ErrorCode::Evicted, text));
    };
    Ok(Kept { blake3, length, file })
}

/// Returns the file with the bytes of an artifact.
///
/// # Errors
/// `unknown_job`, `not_found` for an artifact that the job does not have, `evicted` for one that retention removed.
pub(crate) fn artifact_file(shared: &AppState, job: JobId, path: &str) -> Result<PathBuf, LinkError> {
    kept(shared, job, path).map(|kept| kept.file)
}

/// Returns the checksum and length of an artifact in a job's result.
fn listed(shared: &AppState, job: JobId, path: &str) -> Result<(Checksum, u64), LinkError> {
    let finished = match shared.reader.job(job).map_err(crate::app_state::internal)? {
        Lookup::Found(record) if record.done.is_none() => {
            let text = format!("job {job} is not over yet; its artifacts come with its end");
            return Err(LinkError::new(ErrorCode::NotFound, text));
        }
        Lookup::Found(_) | Lookup::Evicted | Lookup::Unknown => shared.finished(job)?,
    };
    let outcome = finished.record.done.as_ref().and_then(|done| done.outcome.as_ref());
    let entries = outcome.map(|outcome| outcome.artifacts.as_slice()).unwrap_or_default();
    let entry = entries.iter().find(|entry| entry.path == path);
    let found = entry.and_then(|entry| Some((entry.blake3.parse().ok()?, entry.bytes)));
    found.ok_or_else(|| {
        let text = format!("job {job} has no artifact `{path}`; `buildpool artifacts {job}` lists them");
        LinkError::new(ErrorCode::NotFound, text)
    })
}

pub(super) async fn send_step(channel: &mut Channel, step: Message) -> Result<(), LinkError> {
    // An error means that the peer has disconnected, which ends its transfers.
    let _gone = channel.send_step(step).await;
    Ok(())
}

pub(super) async fn finish(channel: &mut Channel) -> Result<(), LinkError> {
    let number = channel.number();
    send_step(channel, Message::Done { channel: number }).await
}

/// Converts an error of the transfer into the error for the peer. Errors that the peer caused or
/// has already received need no answer.
pub(super) fn answer_for_peer(error: PumpError) -> Result<(), LinkError> {
    match error.for_the_other_side() {
        Some(answer) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a transfer failed");
            Err(answer)
        }
        None => Ok(()),
    }
}

/// Runs blocking work, and stops it if the peer disconnects or cancels.
async fn blocking<T: Send + 'static>(
    channel: &mut Channel,
    stop: &Stop,
    work: impl FnOnce() -> Result<T, CacheError> + Send + 'static,
) -> Result<T, LinkError> {
    let going = || LinkError::new(ErrorCode::Unavailable, "the coordinator is going away");
    let mut work = tokio::task::spawn_blocking(work);
    let done = tokio::select! {
        done = &mut work => done,
        () = channel.given_up() => {
            stop.stop();
            work.await
        }
    };
    let done = done.map_err(|_| going())?;
    done.map_err(|error| {
        let code = match &error {
            CacheError::Unknown(_) => ErrorCode::NotFound,
            CacheError::NoBase(_) | CacheError::Incomplete { .. } => ErrorCode::Invalid,
            CacheError::Git(GitError::Excess(_)) => ErrorCode::TooLarge,
            CacheError::Git(_) => ErrorCode::Internal,
        };
        tracing::warn!(error = &error as &dyn std::error::Error, "a snapshot can't be served");
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        LinkError::new(code, format!("{error}{cause}"))
    })
}
