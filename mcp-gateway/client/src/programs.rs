//! Sends a program for workers to the coordinator. An interrupted transfer resumes.

use crate::{Client, ClientError, Transfer};
use buildpool_objects::incoming::checksum_of;
use buildpool_objects::pump::{self, Progress, PumpError};
use buildpool_protocol::transfer::{Checksum, Message, Subject};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of attempts without progress after which the transfer fails.
const TRIES_MAX: u32 = 10;
/// First delay between attempts; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Reason why a program could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// An error of the link.
    #[error(transparent)]
    Client(ClientError),
    /// An error during the transfer.
    #[error(transparent)]
    Pump(PumpError),
    /// The file can't be read.
    #[error("{} can't be read", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Sends a program, unless the coordinator has it. Returns its checksum and length. Needs a token with role admin.
///
/// # Errors
/// See [`SendError`].
pub async fn send(client: &Client, path: &Path) -> Result<(Checksum, u64), SendError> {
    let io = |source| SendError::Io { path: path.to_owned(), source };
    let (blake3, length) = checksum_of(path).map_err(io)?;
    let mut pause = PAUSE;
    let mut tries = 0;
    let mut progress = Progress::default();
    loop {
        let mut transfer = client.transfer().await.map_err(SendError::Client)?;
        let result = once(&mut transfer, path, (&blake3, length), &mut progress).await;
        (tries, pause) = if progress.has_grown() { (1, PAUSE) } else { (tries + 1, pause) };
        match result {
            Ok(()) => return Ok((blake3, length)),
            Err(error) if error.is_worth_a_retry() && tries < TRIES_MAX => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(SendError::Pump(error)),
        }
    }
}

async fn once(
    transfer: &mut Transfer,
    path: &Path,
    (blake3, length): (&Checksum, u64),
    progress: &mut Progress,
) -> Result<(), PumpError> {
    let (channel, subject) = (transfer.channel(), Subject::Program);
    let begin = Message::Begin { channel, subject, blake3: blake3.clone(), length };
    pump::Channel::send_step(transfer, begin).await?;
    pump::send(transfer, path, length, progress).await
}
