//! Snapshots in and artifacts out, over the link. A transfer that was cut begins again on the next connection and goes on
//! where the receiver's disk ends.

use super::error::WorkspaceError;
use super::pool::{Lacking, Workspaces};
use crate::link::transfers::{Channel, Incoming, Interrupted, Transfers};
use buildpool_objects::flow::{BeyondEnd, Sender};
use buildpool_objects::incoming::{self, IncomingError};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::Lease;
use buildpool_protocol::limits::TRANSFER_BYTES_MAX;
use buildpool_protocol::report::ArtifactEntry;
use buildpool_protocol::transfer::{Checksum, Message, Subject};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often a transfer that the other side could not take just then is tried.
const TRIES_MAX: u32 = 8;
/// The first pause before it is tried again; doubles.
const PAUSE: Duration = Duration::from_millis(250);

/// Why a transfer did not come about.
#[derive(Debug)]
pub enum CarryError {
    /// The coordinator can't or won't.
    Refused(LinkError),
    /// It said what it never should.
    Misbehaved(&'static str),
    /// What came is not what was announced, or the disk refused it.
    Incoming(IncomingError),
    /// It came and is of no use.
    Workspace(WorkspaceError),
    /// What is to be sent can't be read.
    Read(PathBuf, io::Error),
    /// The work on the disk was ended.
    Ended,
}

impl fmt::Display for CarryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the coordinator does not carry it: {error}"),
            Self::Misbehaved(what) => write!(f, "the coordinator misbehaved: {what}"),
            Self::Incoming(error) => error.fmt(f),
            Self::Workspace(error) => error.fmt(f),
            Self::Read(path, _) => write!(f, "reading {}", path.display()),
            Self::Ended => f.write_str("the worker is ending"),
        }
    }
}

impl std::error::Error for CarryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Incoming(error) => std::error::Error::source(error),
            Self::Workspace(error) => std::error::Error::source(error),
            Self::Read(_, source) => Some(source),
            Self::Misbehaved(_) | Self::Ended => None,
        }
    }
}

/// How one try ended.
enum Stop {
    /// The connection went: again on the next one.
    Interrupted,
    /// The other side can't just now.
    Later(LinkError),
    /// For good.
    Failed(CarryError),
}

impl From<Interrupted> for Stop {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<CarryError> for Stop {
    fn from(error: CarryError) -> Self {
        Self::Failed(error)
    }
}

impl From<BeyondEnd> for Stop {
    fn from(_: BeyondEnd) -> Self {
        Self::Failed(CarryError::Misbehaved("it took more than there is"))
    }
}

fn refused(error: LinkError) -> Stop {
    if error.code.is_worth_a_retry() { Stop::Later(error) } else { Stop::Failed(CarryError::Refused(error)) }
}

/// Fetches a snapshot from the coordinator, and takes it in. Waits for a connection as long as it takes.
///
/// # Errors
/// When the coordinator does not have it, or what comes is not whole.
pub async fn fetch(
    transfers: &Arc<Transfers>,
    workspaces: &Workspaces,
    lacking: &Lacking,
) -> Result<(), CarryError> {
    let mut patience = Patience::default();
    loop {
        match fetch_once(transfers.open().await, workspaces, lacking).await {
            Ok(()) => return Ok(()),
            Err(stop) => patience.after(stop).await?,
        }
    }
}

/// Sends an artifact to the coordinator, from the file that has its content. Waits for a connection as long as it takes.
///
/// # Errors
/// When the coordinator refuses it.
pub async fn upload(
    transfers: &Arc<Transfers>,
    lease: Lease,
    entry: &ArtifactEntry,
    path: &Path,
) -> Result<(), CarryError> {
    let mut patience = Patience::default();
    loop {
        match upload_once(transfers.open().await, lease, entry, path).await {
            Ok(()) => return Ok(()),
            Err(stop) => patience.after(stop).await?,
        }
    }
}

/// How often a transfer was tried that the other side could not take just then.
struct Patience {
    tries: u32,
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 0, pause: PAUSE }
    }
}

impl Patience {
    /// Waits until it is time for another try, or gives up.
    async fn after(&mut self, stop: Stop) -> Result<(), CarryError> {
        match stop {
            Stop::Failed(error) => Err(error),
            Stop::Interrupted => Ok(()),
            Stop::Later(error) => {
                self.tries += 1;
                if self.tries == TRIES_MAX {
                    return Err(CarryError::Refused(error));
                }
                tokio::time::sleep(self.pause).await;
                self.pause *= 2;
                Ok(())
            }
        }
    }
}

async fn fetch_once(mut channel: Channel, workspaces: &Workspaces, lacking: &Lacking) -> Result<(), Stop> {
    let number = channel.number();
    let request = Message::FetchSnapshot {
        channel: number,
        project: lacking.project.clone(),
        tree: lacking.tree.clone(),
        head: lacking.head.clone(),
        trees: lacking.trees.clone(),
        heads: lacking.heads.clone(),
    };
    channel.say(request).await?;
    let (subject, checksum, length) = match channel.next().await? {
        Incoming::Step(Message::Begin { subject, blake3, length, .. }) => (subject, blake3, length),
        Incoming::Step(Message::Failed { error, .. }) => return Err(refused(error)),
        Incoming::Step(_) | Incoming::Bytes { .. } => {
            return Err(CarryError::Misbehaved("it answered a fetch with something else").into());
        }
    };
    let Subject::Snapshot { manifest, base } = subject else {
        return Err(CarryError::Misbehaved("it sent an artifact for a snapshot").into());
    };
    let is_wanted = manifest.tree == lacking.tree
        && manifest.project == lacking.project
        && manifest.head.as_ref().map(|head| &head.commit) == lacking.head.as_ref();
    if !is_wanted || manifest.check().is_err() {
        return Err(CarryError::Misbehaved("it sent another snapshot than was asked for").into());
    }
    let directory = workspaces.incoming(&lacking.project);
    let pack = receive(&mut channel, directory, checksum, length).await?;
    let taker = workspaces.clone();
    on_disk(move || taker.accept(&pack, &manifest, base.as_ref()).map_err(CarryError::Workspace)).await?;
    channel.say(Message::Done { channel: number }).await?;
    Ok(())
}

/// Receives a file whole; it is verified when this returns.
async fn receive(
    channel: &mut Channel,
    directory: PathBuf,
    checksum: Checksum,
    length: u64,
) -> Result<PathBuf, Stop> {
    let number = channel.number();
    let opened = on_disk(move || {
        incoming::Incoming::open(&directory, &checksum, length, TRANSFER_BYTES_MAX)
            .map_err(CarryError::Incoming)
    });
    let mut file = match opened.await {
        // Another attempt of this worker receives the same snapshot: it will be there soon.
        Err(CarryError::Incoming(error @ IncomingError::Busy)) => {
            return Err(Stop::Later(LinkError::new(ErrorCode::Unavailable, error.to_string())));
        }
        opened => opened?,
    };
    channel.say(Message::From { channel: number, offset: file.offset() }).await?;
    while !file.is_full() {
        match channel.next().await? {
            Incoming::Bytes { position, bytes } => {
                let (back, fits) = on_disk(move || {
                    let fits = file.write(position, &bytes).map_err(CarryError::Incoming)?;
                    Ok((file, fits))
                })
                .await?;
                file = back;
                let offset = file.offset();
                let step = if fits {
                    Message::Taken { channel: number, offset }
                } else {
                    Message::From { channel: number, offset }
                };
                channel.say(step).await?;
            }
            Incoming::Step(Message::Failed { error, .. }) => return Err(refused(error)),
            Incoming::Step(_) => return Err(CarryError::Misbehaved("a step in the middle of bytes").into()),
        }
    }
    match on_disk(move || file.finish().map_err(CarryError::Incoming)).await {
        // What lay on the disk from before was spoilt; it is gone, and the next try begins at 0.
        Err(CarryError::Incoming(error @ IncomingError::Mismatch { .. })) => {
            Err(Stop::Later(LinkError::new(ErrorCode::Unavailable, error.to_string())))
        }
        finished => Ok(finished?),
    }
}

async fn upload_once(
    mut channel: Channel,
    lease: Lease,
    entry: &ArtifactEntry,
    path: &Path,
) -> Result<(), Stop> {
    let number = channel.number();
    let blake3 = entry.blake3.parse().map_err(|_| CarryError::Misbehaved("an artifact has no checksum"))?;
    let unreadable = |error| CarryError::Read(path.to_owned(), error);
    let file = Arc::new(File::open(path).map_err(unreadable)?);
    let subject = Subject::Artifact { lease, path: entry.path.clone() };
    channel.say(Message::Begin { channel: number, subject, blake3, length: entry.bytes }).await?;
    let mut sender = Sender::new(entry.bytes);
    let mut may_send = false;
    loop {
        let next = if may_send { sender.next() } else { None };
        let incoming = match next {
            Some(_) => channel.poll(),
            None => Some(channel.next().await?),
        };
        match (incoming, next) {
            (Some(Incoming::Step(Message::From { offset, .. })), _) => {
                sender.from(offset)?;
                may_send = true;
            }
            (Some(Incoming::Step(Message::Taken { offset, .. })), _) => sender.taken(offset)?,
            (Some(Incoming::Step(Message::Done { .. })), _) => return Ok(()),
            (Some(Incoming::Step(Message::Failed { error, .. })), _) => return Err(refused(error)),
            (Some(Incoming::Step(_) | Incoming::Bytes { .. }), _) => {
                return Err(CarryError::Misbehaved("it answered an artifact with something else").into());
            }
            (None, Some((position, length))) => {
                let file = Arc::clone(&file);
                let bytes = on_disk(move || {
                    let mut bytes = vec![0; length];
                    file.read_exact_at(&mut bytes, position)
                        .map(|()| bytes)
                        .map_err(|error| CarryError::Read(PathBuf::new(), error))
                });
                channel.send(position, &bytes.await?).await?;
                sender.sent(length);
            }
            (None, None) => {}
        }
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CarryError> + Send + 'static,
) -> Result<T, CarryError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| CarryError::Ended)?
}
