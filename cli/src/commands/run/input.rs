//! Standard input of `buildpool run` on its way to the jobs.

use crate::terminal;
use buildpool_client::StdinWriter;
use buildpool_protocol::limits::CHUNK_BYTES_MAX;
use bytes::Bytes;
use std::io::{self, Read};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pieces that are read ahead of the link.
const PIECES_MAX: usize = 4;
/// Limit on the input of a build in bytes. It stays in memory until the last job has it: a job may wait for another one.
const BUILD_BYTES_MAX: usize = 64 << 20;

/// Bytes, or the reason why there are no more.
type Piece = Result<Bytes, String>;

/// Sends standard input to a job until its end, or until the job needs no more.
pub(super) fn forward(writer: StdinWriter) -> JoinHandle<()> {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    // A separate thread, not one of the runtime's: a blocked read must not delay the end of this process.
    std::thread::spawn(move || read(usize::MAX, |piece| sender.blocking_send(piece).is_ok()));
    tokio::spawn(send(writer, pieces))
}

/// Sends standard input to each job of a build. Each job gets it at its own pace.
pub(super) fn forward_to_each(writers: Vec<StdinWriter>) -> Vec<JoinHandle<()>> {
    let mut senders = Vec::new();
    let mut tasks = Vec::new();
    for writer in writers {
        // No piece is empty, so this channel is never full: one job does not block another.
        let (sender, pieces) = mpsc::channel(BUILD_BYTES_MAX);
        senders.push(sender);
        tasks.push(tokio::spawn(send(writer, pieces)));
    }
    std::thread::spawn(move || {
        read(BUILD_BYTES_MAX, |piece| {
            // A job that needs no more has closed its channel.
            senders.retain(|sender| sender.blocking_send(piece.clone()).is_ok());
            !senders.is_empty()
        });
    });
    tasks
}

/// Reads standard input to its end, or as long as `give` returns true.
fn read(bytes_max: usize, mut give: impl FnMut(Piece) -> bool) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    let mut left = bytes_max;
    loop {
        let piece = match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) if length > left => Err(format!(
                "the jobs of a build take at most {bytes_max} bytes; put more into a file of the tree"
            )),
            Ok(length) => {
                left -= length;
                Ok(Bytes::copy_from_slice(&buffer[..length]))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(format!("the submitter can't read it: {error}")),
        };
        let is_last = piece.is_err();
        if !give(piece) || is_last {
            return;
        }
    }
}

async fn send(mut writer: StdinWriter, mut pieces: mpsc::Receiver<Piece>) {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Ok(bytes) => {
                if !writer.write(bytes).await {
                    return;
                }
            }
            Err(reason) => {
                terminal::warn(&format!("standard input ends for the job: {reason}"));
                return writer.finish(Some(reason)).await;
            }
        }
    }
    writer.finish(None).await;
}
