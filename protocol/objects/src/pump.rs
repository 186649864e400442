//! Moving one whole file over a channel, whichever link the channel is on. The steps are those of
//! [`buildpool_protocol::transfer`].

use crate::flow::{BeyondEnd, Sender};
use crate::incoming::{Incoming, IncomingError, Received};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::transfer::{Checksum, Message};
use bytes::Bytes;
use futures_util::FutureExt;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The connection is gone, and every channel on it: begin again on another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted;

/// What comes in on a channel.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A step of the other side's.
    Step(Message),
    /// Bytes.
    Bytes {
        /// Where they belong.
        position: u64,
        /// Some of them.
        bytes: Bytes,
    },
}

/// One transfer on one connection.
pub trait Channel: Send {
    /// The number that every step of it carries.
    fn number(&self) -> u32;
    /// Sends a step.
    fn say(&mut self, step: Message) -> impl Future<Output = Result<(), Interrupted>> + Send;
    /// Sends bytes; waits while the link is busy.
    fn send(&mut self, position: u64, bytes: &[u8]) -> impl Future<Output = Result<(), Interrupted>> + Send;
    /// What comes next. Dropping the future before it is ready loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Event, Interrupted>> + Send;
}

/// Why a file did not get through.
#[derive(Debug)]
pub enum PumpError {
    /// The connection went.
    Interrupted,
    /// The other side can't or won't.
    Refused(LinkError),
    /// The other side said what it never should.
    Misbehaved(&'static str),
    /// What came is not what was announced, or the disk refused it.
    Incoming(IncomingError),
    /// What is to be sent can't be read.
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// This process is ending.
    Ended,
}

impl PumpError {
    /// Whether beginning again may help.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Refused(error) => error.code.is_worth_a_retry(),
            // Somebody else receives the same bytes; or what lay here from before was spoilt, and is gone now.
            Self::Incoming(error) => matches!(error, IncomingError::Busy | IncomingError::Mismatch { .. }),
            Self::Misbehaved(_) | Self::Read { .. } | Self::Ended => false,
        }
    }

    /// What the other side is told, if it is to be told anything.
    pub fn for_the_other_side(&self) -> Option<LinkError> {
        let code = match self {
            Self::Interrupted | Self::Refused(_) | Self::Ended => return None,
            Self::Misbehaved(_) => ErrorCode::Malformed,
            Self::Incoming(IncomingError::TooLarge { .. }) => ErrorCode::TooLarge,
            Self::Incoming(IncomingError::BeyondEnd { .. }) => ErrorCode::Malformed,
            Self::Incoming(_) => ErrorCode::Unavailable,
            Self::Read { .. } => ErrorCode::Internal,
        };
        Some(LinkError::new(code, self.to_string()))
    }
}

impl fmt::Display for PumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("the connection was cut"),
            Self::Refused(error) => error.fmt(f),
            Self::Misbehaved(what) => write!(f, "the other side misbehaved: {what}"),
            Self::Incoming(error) => error.fmt(f),
            Self::Read { path, .. } => write!(f, "reading {}", path.display()),
            Self::Ended => f.write_str("this process is ending"),
        }
    }
}

impl std::error::Error for PumpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Incoming(error) => std::error::Error::source(error),
            Self::Read { source, .. } => Some(source),
            Self::Interrupted | Self::Refused(_) | Self::Misbehaved(_) | Self::Ended => None,
        }
    }
}

impl From<Interrupted> for PumpError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<BeyondEnd> for PumpError {
    fn from(_: BeyondEnd) -> Self {
        Self::Misbehaved("it took more than there is")
    }
}

/// A file that was announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Of all its bytes.
    pub blake3: Checksum,
    /// How many.
    pub length: u64,
    /// The most that may be taken.
    pub limit: u64,
}

/// Receives a file that was announced, into `directory`; it is whole, verified and on the disk when this returns, and it is the
/// caller's to take it away and to say `done`.
///
/// # Errors
/// See [`PumpError`]. What has come stays for the next time.
pub async fn receive<C: Channel>(
    channel: &mut C,
    directory: PathBuf,
    announced: Announced,
) -> Result<Received, PumpError> {
    let number = channel.number();
    let mut file = on_disk(move || {
        Incoming::open(&directory, &announced.blake3, announced.length, announced.limit)
            .map_err(PumpError::Incoming)
    })
    .await?;
    channel.say(Message::From { channel: number, offset: file.offset() }).await?;
    while !file.is_full() {
        match channel.next().await? {
            Event::Bytes { position, bytes } => {
                let before = file.offset();
                let (back, fits) = on_disk(move || {
                    let fits = file.write(position, &bytes).map_err(PumpError::Incoming)?;
                    Ok((file, fits))
                })
                .await?;
                file = back;
                let offset = file.offset();
                // Of a link that was cut there may be more to read, none of which should have to come again.
                let _cut_is_seen_by_the_next_read = if fits {
                    channel.say(Message::Taken { channel: number, offset }).await
                } else if before == offset {
                    channel.say(Message::From { channel: number, offset }).await
                } else {
                    Ok(())
                };
            }
            Event::Step(Message::Failed { error, .. }) => return Err(PumpError::Refused(error)),
            Event::Step(_) => return Err(PumpError::Misbehaved("a step in the middle of bytes")),
        }
    }
    on_disk(move || file.finish().map_err(PumpError::Incoming)).await
}

/// Sends a file that was announced, until the other side is done with it.
///
/// # Errors
/// See [`PumpError`].
pub async fn send<C: Channel>(channel: &mut C, path: &Path, length: u64) -> Result<(), PumpError> {
    let file = File::open(path).map_err(|source| PumpError::Read { path: path.to_owned(), source })?;
    send_open(channel, file, path, length).await
}

/// Sends a file that was announced and is open already, so that its name may go meanwhile.
///
/// # Errors
/// See [`PumpError`].
pub async fn send_open<C: Channel>(
    channel: &mut C,
    file: File,
    path: &Path,
    length: u64,
) -> Result<(), PumpError> {
    let unreadable = |source| PumpError::Read { path: path.to_owned(), source };
    let file = Arc::new(file);
    let mut sender = Sender::new(length);
    let mut may_send = false;
    loop {
        let next = if may_send { sender.next() } else { None };
        let event = match next {
            Some(_) => channel.next().now_or_never().transpose()?,
            None => Some(channel.next().await?),
        };
        match (event, next) {
            (Some(Event::Step(Message::From { offset, .. })), _) => {
                sender.from(offset)?;
                may_send = true;
            }
            (Some(Event::Step(Message::Taken { offset, .. })), _) => sender.taken(offset)?,
            (Some(Event::Step(Message::Done { .. })), _) => return Ok(()),
            (Some(Event::Step(Message::Failed { error, .. })), _) => return Err(PumpError::Refused(error)),
            (Some(Event::Step(_) | Event::Bytes { .. }), _) => {
                return Err(PumpError::Misbehaved("something else than an answer to a file"));
            }
            (None, Some((position, size))) => {
                let file = Arc::clone(&file);
                let read = on_disk(move || {
                    let mut bytes = vec![0; size];
                    Ok(file.read_exact_at(&mut bytes, position).map(|()| bytes))
                });
                channel.send(position, &read.await?.map_err(unreadable)?).await?;
                sender.sent(size);
            }
            (None, None) => {}
        }
    }
}

/// Work on the disk, beside the tasks that move bytes.
///
/// # Errors
/// Those of the work, and [`PumpError::Ended`].
pub async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PumpError> + Send + 'static,
) -> Result<T, PumpError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| PumpError::Ended)?
}

#[cfg(test)]
mod tests {
    use super::{Announced, Channel, Event, Interrupted, PumpError, receive, send};
    use crate::incoming::{Received, checksum};
    use buildpool_protocol::limits::TRANSFER_FRAME_BYTES;
    use buildpool_protocol::transfer::{Checksum, Message};
    use bytes::Bytes;
    use std::fs;
    use std::path::Path;
    use tokio::sync::mpsc;

    /// One end of a link in memory that is cut after so many bytes.
    struct End {
        out: mpsc::Sender<Event>,
        incoming: mpsc::Receiver<Event>,
        cut_after: usize,
    }

    impl Channel for End {
        fn number(&self) -> u32 {
            1
        }

        async fn say(&mut self, step: Message) -> Result<(), Interrupted> {
            self.out.send(Event::Step(step)).await.map_err(|_| Interrupted)
        }

        async fn send(&mut self, position: u64, bytes: &[u8]) -> Result<(), Interrupted> {
            let part = &bytes[..bytes.len().min(self.cut_after)];
            self.cut_after -= part.len();
            let event = Event::Bytes { position, bytes: Bytes::copy_from_slice(part) };
            self.out.send(event).await.map_err(|_| Interrupted)?;
            if self.cut_after == 0 { Err(Interrupted) } else { Ok(()) }
        }

        async fn next(&mut self) -> Result<Event, Interrupted> {
            self.incoming.recv().await.ok_or(Interrupted)
        }
    }

    async fn once(
        path: &Path,
        into: &Path,
        blake3: &Checksum,
        length: u64,
        cut_after: usize,
    ) -> (Result<(), PumpError>, Result<Received, PumpError>) {
        let (left, left_in) = mpsc::channel(64);
        let (right, right_in) = mpsc::channel(64);
        let mut sending = End { out: left, incoming: right_in, cut_after };
        let mut receiving = End { out: right, incoming: left_in, cut_after: usize::MAX };
        let announced = Announced { blake3: blake3.clone(), length, limit: u64::MAX };
        let into = into.to_owned();
        let received = tokio::spawn(async move {
            let received = receive(&mut receiving, into, announced).await;
            match &received {
                Ok(_) => receiving.say(Message::Done { channel: 1 }).await.unwrap(),
                Err(error) => {
                    if let Some(error) = error.for_the_other_side() {
                        receiving.say(Message::Failed { channel: 1, error }).await.unwrap();
                    }
                }
            }
            received
        });
        let sent = send(&mut sending, path, length).await;
        drop(sending);
        (sent, received.await.unwrap())
    }

    #[tokio::test]
    async fn a_file_gets_through_however_often_it_is_cut_and_no_byte_goes_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..TRANSFER_FRAME_BYTES * 3 + 77).map(|n| (n * 7 % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let sum = checksum(&blake3::hash(&content));
        let into = directory.path().join("in");
        let mut passed = 0;
        let cuts = [1, 1000, TRANSFER_FRAME_BYTES, TRANSFER_FRAME_BYTES + 5, 3];
        for cut in cuts {
            let (sent, received) = once(&path, &into, &sum, content.len() as u64, cut).await;
            assert!(matches!(sent, Err(PumpError::Interrupted)), "{sent:?}");
            assert!(matches!(received, Err(PumpError::Interrupted)), "{received:?}");
            let lies_there = fs::metadata(into.join(format!("{sum}.part"))).unwrap().len() as usize;
            assert!(passed < lies_there && lies_there <= passed + cut, "{passed}, {cut} more, {lies_there}");
            passed = lies_there;
        }
        // One byte more than is missing would be cut.
        let rest = content.len() - passed + 1;
        let (sent, received) = once(&path, &into, &sum, content.len() as u64, rest).await;
        sent.unwrap();
        assert_eq!(fs::read(received.unwrap().path()).unwrap(), content);
    }

    #[tokio::test]
    async fn a_file_that_is_not_what_was_announced_is_refused_on_both_sides() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "wrong").unwrap();
        let sum = checksum(&blake3::hash(b"right"));
        let (sent, received) = once(&path, &directory.path().join("in"), &sum, 5, usize::MAX).await;
        assert!(
            matches!(&sent, Err(PumpError::Refused(error)) if error.message.contains("checksum")),
            "{sent:?}"
        );
        assert!(received.unwrap_err().is_worth_a_retry());
    }
}
