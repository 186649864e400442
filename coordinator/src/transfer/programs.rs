//! Programs of workers: an admin's client sends them, and workers fetch them by their checksum.

use super::TransferStore;
use super::peer::Channel;
use super::serve::{answer_for_peer, finish, send_step};
use crate::app_state::AppState;
use crate::auth::Principal;
use crate::store::limits::RETAIN_ROOM_BYTES;
use buildpool_objects::incoming::Received;
use buildpool_objects::pump::{self, Announced, Channel as _, Progress};
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::limits::{PROGRAM_BYTES_MAX, PROGRAMS_MAX};
use buildpool_protocol::transfer::{Checksum, Message, Subject};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

impl TransferStore {
    fn program_path(&self, blake3: &Checksum) -> PathBuf {
        self.programs().join(blake3.as_str())
    }

    /// Returns the length of a stored program. Blocks.
    pub(crate) fn program(&self, blake3: &Checksum) -> Option<u64> {
        fs::metadata(self.program_path(blake3)).ok().map(|metadata| metadata.len())
    }

    /// Returns true if the program is stored and its bytes are whole. Removes a damaged one, so that it is sent again. Blocks.
    fn has_program(&self, blake3: &Checksum, length: u64) -> bool {
        if self.program(blake3) != Some(length) {
            return false;
        }
        let path = self.program_path(blake3);
        let mut hasher = blake3::Hasher::new();
        let read = File::open(&path).and_then(|mut file| io::copy(&mut file, &mut hasher));
        let is_whole = read.is_ok() && hasher.finalize().to_hex().as_str() == blake3.as_str();
        if !is_whole && let Err(error) = fs::remove_file(&path) {
            tracing::warn!(%error, "a damaged program for workers can't be removed");
        }
        is_whole
    }

    /// Stores a received program, and removes the oldest ones above [`PROGRAMS_MAX`]. Blocks.
    fn keep_program(&self, blake3: &Checksum, received: Received) -> io::Result<()> {
        received.move_to(&self.program_path(blake3))?;
        File::open(self.programs())?.sync_all()?;
        let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(self.programs())? {
            let entry = entry?;
            kept.push((entry.metadata()?.modified()?, entry.path()));
        }
        kept.sort();
        let excess = kept.len().saturating_sub(PROGRAMS_MAX);
        kept.into_iter().take(excess).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

/// Receives a program from a client with role admin.
pub(super) async fn receive(
    shared: &Arc<AppState>,
    principal: &Principal,
    channel: &mut Channel,
    blake3: Checksum,
    length: u64,
) -> Result<(), LinkError> {
    if principal.role != Role::Admin {
        let (name, role) = (&principal.name, principal.role.name());
        let text = format!("sending a program for workers needs an admin token; `{name}` has role {role}");
        return Err(LinkError::new(ErrorCode::Forbidden, text));
    }
    if length == 0 || length > PROGRAM_BYTES_MAX {
        let text = format!("program: {length} bytes; valid are 1 to {PROGRAM_BYTES_MAX}");
        return Err(LinkError::new(ErrorCode::TooLarge, text));
    }
    let (store, known) = (shared.transfers.clone(), blake3.clone());
    let is_here = move || store.has_program(&known, length);
    if tokio::task::block_in_place(is_here.clone()) {
        return finish(channel).await;
    }
    let free = shared.logs.free_bytes().unwrap_or(u64::MAX);
    let most = free.saturating_sub(RETAIN_ROOM_BYTES);
    if length > most {
        let text = format!(
            "program: {length} bytes; the coordinator's disk has {free} bytes free and takes at most {most} now: free some room there"
        );
        return Err(LinkError::new(ErrorCode::Exhausted, text));
    }
    let announced = Announced { blake3: blake3.clone(), length, limit: PROGRAM_BYTES_MAX };
    let incoming = shared.transfers.incoming();
    let received = match pump::receive(channel, incoming, announced, &mut Progress::default(), is_here).await
    {
        Ok(Some(received)) => received,
        Ok(None) => return finish(channel).await,
        Err(error) => return answer_for_peer(error),
    };
    let store = shared.transfers.clone();
    match tokio::task::spawn_blocking(move || store.keep_program(&blake3, received)).await {
        Ok(Ok(())) => finish(channel).await,
        Ok(Err(error)) => {
            tracing::error!(%error, "a program for workers can't be kept");
            let text = format!("program: the coordinator's disk refuses it: {error}; free some room there");
            Err(LinkError::new(ErrorCode::Unavailable, text))
        }
        Err(_) => Err(LinkError::new(ErrorCode::Unavailable, "the coordinator is shutting down")),
    }
}

/// Sends a program to a worker.
pub(super) async fn send(
    shared: &Arc<AppState>,
    channel: &mut Channel,
    blake3: Checksum,
) -> Result<(), LinkError> {
    let path = shared.transfers.program_path(&blake3);
    let (store, known) = (shared.transfers.clone(), blake3.clone());
    let found = tokio::task::spawn_blocking(move || store.program(&known)).await;
    let Some(length) = found.ok().flatten() else {
        let text = format!(
            "program {blake3}: this coordinator does not have it; run `buildpool workers upgrade` again"
        );
        return Err(LinkError::new(ErrorCode::NotFound, text));
    };
    let number = channel.number();
    send_step(channel, Message::Begin { channel: number, subject: Subject::Program, blake3, length }).await?;
    pump::send(channel, &path, length, &mut Progress::default()).await.or_else(answer_for_peer)
}
