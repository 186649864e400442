//! Transfers one whole file over a channel of any link. The steps are those of
//! [`buildpool_protocol::transfer`].

use crate::flow::{BeyondEnd, Sender};
use crate::incoming::{Incoming, IncomingError, Received};
use crate::limits::{BUSY_PAUSE, BUSY_PAUSE_MAX, BUSY_STILL_MAX};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::transfer::{Checksum, Message};
use bytes::Bytes;
use futures_util::FutureExt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Error: the connection and all its channels are closed. Retry on a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted;

/// An event received on a channel.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A step from the other side.
    Step(Message),
    /// Bytes of the file.
    Bytes {
        /// Offset of the bytes.
        position: u64,
        /// The bytes.
        bytes: Bytes,
    },
}

/// One transfer on one connection.
pub trait Channel: Send {
    /// Returns the channel number. Every step contains it.
    fn number(&self) -> u32;
    /// Sends a step.
    fn send_step(&mut self, step: Message) -> impl Future<Output = Result<(), Interrupted>> + Send;
    /// Sends bytes. Waits while the link is busy.
    fn send(&mut self, position: u64, bytes: &[u8]) -> impl Future<Output = Result<(), Interrupted>> + Send;
    /// Receives the next event. The future is cancel-safe.
    fn next(&mut self) -> impl Future<Output = Result<Event, Interrupted>> + Send;
}

/// Error of a file transfer.
#[derive(Debug, thiserror::Error)]
pub enum PumpError {
    /// The connection was lost.
    #[error("the connection was cut")]
    Interrupted,
    /// The other side refused the transfer.
    #[error(transparent)]
    Refused(LinkError),
    /// The other side violated the protocol.
    #[error("the other side misbehaved: {0}")]
    Misbehaved(&'static str),
    /// The received bytes are not the announced file, or the disk failed.
    #[error(transparent)]
    Incoming(IncomingError),
    /// The file to send cannot be read.
    #[error("reading {}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// This process is shutting down.
    #[error("this process is ending")]
    Ended,
}

impl PumpError {
    /// Returns true if a retry may succeed.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Refused(error) => error.code.is_worth_a_retry(),
            // Another connection receives the same bytes, or a damaged partial file was found and
            // removed.
            Self::Incoming(error) => matches!(error, IncomingError::Busy | IncomingError::Mismatch { .. }),
            Self::Misbehaved(_) | Self::Read { .. } | Self::Ended => false,
        }
    }

    /// Returns the error to send to the other side, if any.
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

/// An announced file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Checksum of the file.
    pub blake3: Checksum,
    /// Length in bytes.
    pub length: u64,
    /// Limit in bytes.
    pub limit: u64,
}

/// Progress of one file on the receiver's disk, over all attempts.
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

    /// Returns true if the file has grown beyond its maximum since the last call. Such an attempt
    /// was useful, even if it failed.
    pub fn has_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }
}

/// Receives an announced file into `directory`. On return the file is complete, verified and on
/// disk. The caller must move it and send `done`. If another connection receives the same bytes,
/// this function waits for it. It returns `None` if `is_here` then returns true, and the caller
/// only sends `done`.
///
/// # Errors
/// See [`PumpError`]. The bytes received so far are kept for the next attempt.
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
    channel.send_step(Message::From { channel: number, offset: file.offset() }).await?;
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
                // After an interruption there may be more bytes to read. They should not be sent
                // again.
                let _cut_is_seen_by_the_next_read = if fits {
                    channel.send_step(Message::Taken { channel: number, offset }).await
                } else if before == offset {
                    channel.send_step(Message::From { channel: number, offset }).await
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

/// Opens a file after the other connection that receives it has finished or stopped. There is no
/// time limit while the other connection makes progress.
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
                    PumpError::Misbehaved("it sent before it received a start position")
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

/// Sends an announced file and waits until the other side has confirmed it.
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

/// Sends an announced file that is already open, so that it may be unlinked during the transfer.
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

/// Runs disk work on a blocking thread, so that it does not block the tasks that transfer bytes.
///
/// # Errors
/// Errors of the work, and [`PumpError::Ended`].
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

    /// One end of an in-memory link that closes after `cut_after` bytes.
    struct End {
        out: mpsc::Sender<Event>,
        incoming: mpsc::Receiver<Event>,
        cut_after: usize,
    }

    impl Channel for End {
        fn number(&self) -> u32 {
            1
        }

        async fn send_step(&mut self, step: Message) -> Result<(), Interrupted> {
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
                Ok(_) => receiving.send_step(Message::Done { channel: 1 }).await.unwrap(),
                Err(error) => {
                    if let Some(error) = error.for_the_other_side() {
                        receiving.send_step(Message::Failed { channel: 1, error }).await.unwrap();
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
        // One byte more than is missing would be truncated.
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

    /// A channel that receives no event, and reports each wait for one.
    struct Silent(mpsc::Sender<()>);

    impl Channel for Silent {
        fn number(&self) -> u32 {
            1
        }

        async fn send_step(&mut self, _: Message) -> Result<(), Interrupted> {
            Ok(())
        }

        async fn send(&mut self, _: u64, _: &[u8]) -> Result<(), Interrupted> {
            Ok(())
        }

        async fn next(&mut self) -> Result<Event, Interrupted> {
            // At the end the receiver is dropped.
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
        // Far more often than a transfer is retried.
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
