//! Digests the log of a running attempt while the log grows.

use crate::priority::{Niceness, give_way};
use crate::store::{LogError, LogReader};
use buildpool_digest::{Digester, Live};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Log bytes that the digester takes at a time.
const STEP_BYTES: usize = 256 << 10;
/// Log length above which the digest continues on a thread with lower priority, so that readers and
/// other jobs come first.
const SHORT_BYTES_MAX: u64 = 4 << 20;
/// Passes a log to a digester until the log has ended.
pub(crate) struct DigestFollower {
    reader: LogReader,
    digester: Digester,
    live: Arc<Mutex<Live>>,
    position: u64,
}

impl DigestFollower {
    pub(crate) const fn new(reader: LogReader, digester: Digester, live: Arc<Mutex<Live>>) -> Self {
        Self { reader, digester, live, position: 0 }
    }

    /// Returns the digester after it has read the whole sealed log.
    pub(crate) async fn follow(mut self) -> Result<Digester, LogError> {
        while self.position <= SHORT_BYTES_MAX {
            let ended = self.reader.grown(self.position).await.ended;
            let is_at_hand = self.reader.is_in_memory();
            let taken = if is_at_hand { self.step() } else { tokio::task::block_in_place(|| self.step()) }?;
            if taken == 0 && ended {
                return Ok(self.digester);
            }
        }
        let (mut digested, result) = oneshot::channel();
        let runtime = Handle::current();
        let rest = move || {
            give_way(Niceness::Answer);
            runtime.block_on(async {
                // The receiver is dropped if the log restarts or its worker is lost. Then the
                // digest is not needed.
                let end = tokio::select! {
                    end = self.take_rest() => end,
                    () = digested.closed() => return,
                };
                // An error means the same: the receiver is gone.
                let _ = digested.send(end.map(|()| self.digester));
            });
        };
        let thread = std::thread::Builder::new().name("digest".into()).spawn(rest);
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread for a long log's digest");
        }
        result.await.unwrap_or(Err(LogError::Broken))
    }

    async fn take_rest(&mut self) -> Result<(), LogError> {
        loop {
            let ended = self.reader.grown(self.position).await.ended;
            if self.step()? == 0 && ended {
                return Ok(());
            }
            // A cancellation point: on a long existing log, many steps run without waiting.
            tokio::task::yield_now().await;
        }
    }

    /// Digests the available bytes, up to a limit, and returns their number. Blocks.
    fn step(&mut self) -> Result<usize, LogError> {
        let chunks = self.reader.read(self.position, STEP_BYTES)?;
        super::push(&mut self.digester, &chunks);
        self.position += chunks.len() as u64;
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = self.digester.live();
        Ok(chunks.len())
    }
}
