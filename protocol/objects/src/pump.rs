//! Moving one whole file over a channel, whichever link the channel is on. The steps are those of
//! [`buildpool_protocol::transfer`].

use crate::flow::{BeyondEnd, Sender};
use crate::incoming::{Incoming, IncomingError, Received};
use crate::limits::{BUSY_PAUSE, BUSY_PAUSE_MAX, BUSY_STILL_MAX};
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
use std::time::Duration;

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

/// How far the bytes of one file have come on the receiver's disk, over all tries to bring it there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    furthest: u64,
    has_grown: bool,
}

impl Progress {
    fn at(&mut self, offset: u64) {
        self.has_grown |= offset > self.furthest;
        self.furthest = self.furthest.max(offset);
    }

    /// Whether they came further than ever since this was asked last: then the try was worth it, however it ended.
    pub fn has_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }
}

/// Receives a file that was announced, into `directory`; it is whole, verified and on the disk when this returns, and it is the
/// caller's to take it away and to say `done`. While another connection receives the same bytes, this waits for it; none when
/// `is_here` says afterwards that they have come, and nothing is to be done but to say `done`.
///
/// # Errors
/// See [`PumpError`]. What has come stays for the next time.
pub async fn receive<C: Channel>(
    channel: &mut C,
    directory: PathBuf,
    announced: Announced,
    progress: &mut Progress,
    is_here: impl FnOnce() -> bool + Send + 'static,
) -> Result<Option<Received>, PumpError> {
    let number = channel.number();
    let mut file = match open(directory.clone(), announced.clone()).await {
        Err(PumpError::Incoming(IncomingError::Busy)) => {
            let file = open_after_others(channel, directory, announced).await?;
            let after = move || {
                if is_here() {
                    file.discard();
                    return Ok(None);
                }
                Ok(Some(file))
            };
            let Some(file) = on_disk(after).await? else { return Ok(None) };
            file
        }
        file => file?,
    };
    progress.at(file.offset());
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
                progress.at(offset);
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
    on_disk(move || file.finish().map(Some).map_err(PumpError::Incoming)).await
}

async fn open(directory: PathBuf, announced: Announced) -> Result<Incoming, PumpError> {
    let Announced { blake3, length, limit } = announced;
    on_disk(move || Incoming::open(&directory, &blake3, length, limit).map_err(PumpError::Incoming)).await
}

/// Opens a file as soon as the other connection that receives it is done or gone, however slow that one is.
async fn open_after_others<C: Channel>(
    channel: &mut C,
    directory: PathBuf,
    announced: Announced,
) -> Result<Incoming, PumpError> {
    let path = Incoming::path_in(&directory, &announced.blake3);
    let (mut lies_there, mut still, mut pause) = (0, Duration::ZERO, BUSY_PAUSE);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            event = channel.next() => return Err(match event? {
                Event::Step(Message::Failed { error, .. }) => PumpError::Refused(error),
                Event::Step(_) | Event::Bytes { .. } => {
                    PumpError::Misbehaved("it did not wait until it was told from where to send")
                }
            }),
        }
        match open(directory.clone(), announced.clone()).await {
            Err(PumpError::Incoming(IncomingError::Busy)) if still < BUSY_STILL_MAX => {}
            opened => return opened,
        }
        let of = path.clone();
        let length = on_disk(move || Ok(std::fs::metadata(of).map_or(0, |metadata| metadata.len()))).await?;
        still = if length == lies_there { still + pause } else { Duration::ZERO };
        lies_there = length;
        pause = (pause * 2).min(BUSY_PAUSE_MAX);
    }
}

/// Sends a file that was announced, until the other side is done with it.
///
/// # Errors
/// See [`PumpError`].
pub async fn send<C: Channel>(
    channel: &mut C,
    path: &Path,
    length: u64,
    progress: &mut Progress,
) -> Result<(), PumpError> {
    let file = File::open(path).map_err(|source| PumpError::Read { path: path.to_owned(), source })?;
    send_open(channel, file, path, length, progress).await
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
    progress: &mut Progress,
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
                progress.at(offset);
                may_send = true;
            }
            (Some(Event::Step(Message::Taken { offset, .. })), _) => {
                sender.taken(offset)?;
                progress.at(offset);
            }
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
    use super::{Announced, Channel, Event, Interrupted, Progress, PumpError, receive, send};
    use crate::incoming::{Incoming, Received, checksum};
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
            let received = receive(&mut receiving, into, announced, &mut Progress::default(), || false).await;
            let received = received.map(Option::unwrap);
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
        let sent = send(&mut sending, path, length, &mut Progress::default()).await;
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

    /// A channel on which nothing comes, and which says that it is waited on.
    struct Silent(mpsc::Sender<()>);

    impl Channel for Silent {
        fn number(&self) -> u32 {
            1
        }

        async fn say(&mut self, _: Message) -> Result<(), Interrupted> {
            Ok(())
        }

        async fn send(&mut self, _: u64, _: &[u8]) -> Result<(), Interrupted> {
            Ok(())
        }

        async fn next(&mut self) -> Result<Event, Interrupted> {
            // Nobody listens to it any more at the end.
            self.0.send(()).await.ok();
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_another_connection_receives_are_waited_for_and_not_sent_again() {
        let directory = tempfile::tempdir().unwrap();
        let sum = checksum(&blake3::hash(b"content"));
        let mut first = Incoming::open(directory.path(), &sum, 7, 100).unwrap();
        let (waits, mut waiting) = mpsc::channel(1);
        let (into, announced) =
            (directory.path().to_owned(), Announced { blake3: sum.clone(), length: 7, limit: 100 });
        let second = tokio::spawn(async move {
            let mut channel = Silent(waits);
            receive(&mut channel, into, announced, &mut Progress::default(), || true).await
        });
        // Far more often than a transfer is tried.
        for _ in 0..200 {
            waiting.recv().await.unwrap();
        }
        first.write(0, b"content").unwrap();
        first.finish().unwrap().move_to(&directory.path().join("taken")).unwrap();
        while waiting.recv().await.is_some() {}
        assert!(matches!(second.await.unwrap(), Ok(None)));
        assert!(!Incoming::path_in(directory.path(), &sum).exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_stands_still_for_good_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let sum = checksum(&blake3::hash(b"content"));
        let _first = Incoming::open(directory.path(), &sum, 7, 100).unwrap();
        let announced = Announced { blake3: sum, length: 7, limit: 100 };
        let mut channel = Silent(mpsc::channel(1 << 20).0);
        let into = directory.path().to_owned();
        let received = receive(&mut channel, into, announced, &mut Progress::default(), || true).await;
        assert!(received.unwrap_err().is_worth_a_retry());
    }

    #[test]
    fn only_what_comes_further_than_ever_counts_as_progress() {
        let mut progress = Progress::default();
        progress.at(0);
        assert!(!progress.has_grown());
        progress.at(5);
        progress.at(3);
        assert!(progress.has_grown() && !progress.has_grown());
        progress.at(5);
        assert!(!progress.has_grown());
        progress.at(6);
        assert!(progress.has_grown());
    }
}
