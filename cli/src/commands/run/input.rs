//! Standard input of `buildpool run` on its way to the job.

use crate::terminal;
use buildpool_gateway::client::StdinWriter;
use buildpool_protocol::limits::CHUNK_BYTES_MAX;
use bytes::Bytes;
use std::io::{self, Read};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pieces that are read ahead of the link.
const PIECES_MAX: usize = 4;

/// Sends standard input to a job until its end, or until the job needs no more.
pub(super) fn forward(writer: StdinWriter) -> JoinHandle<()> {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    // A separate thread, not one of the runtime's: a blocked read must not delay the end of this process.
    std::thread::spawn(move || read(&sender));
    tokio::spawn(send(writer, pieces))
}

fn read(pieces: &mpsc::Sender<io::Result<Bytes>>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    loop {
        let piece = match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => Ok(Bytes::copy_from_slice(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = piece.is_err();
        if pieces.blocking_send(piece).is_err() || is_last {
            return;
        }
    }
}

async fn send(mut writer: StdinWriter, mut pieces: mpsc::Receiver<io::Result<Bytes>>) {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Ok(bytes) => {
                if !writer.write(bytes).await {
                    return;
                }
            }
            Err(error) => {
                let reason = format!("the submitter can't read it: {error}");
                terminal::warn(&format!("standard input ends for the job: {reason}"));
                return writer.finish(Some(reason)).await;
            }
        }
    }
    writer.finish(None).await;
}
