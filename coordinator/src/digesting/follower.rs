//! Digests the log of a running attempt while the log grows.

use super::Following;
use crate::priority::{Niceness, give_way};
use crate::store::{LogError, LogReader};
use buildpool_digest::Digester;
use buildpool_protocol::output::{LogState, Stream};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Log bytes that the digester takes at a time.
const STEP_BYTES: usize = 256 << 10;
/// Log length above which the digest continues on a thread with lower priority, so that readers and
/// other jobs come first.
const SHORT_BYTES_MAX: u64 = 4 << 20;
/// End of a log that is digested although the digest leaves out the part before it.
const CUT_TAIL_BYTES: u64 = 1 << 20;
/// Reason for the gap in a digest that leaves out a part of a log.
const CUT: &str = "the job ended before the digest had read all of the log; `buildpool logs` has this part";

/// Passes a log to a digester until the log has ended.
pub(crate) struct DigestFollower {
    reader: LogReader,
    digester: Digester,
    follow: Arc<Following>,
    /// The part of the log that the digester has.
    taken: LogState,
}

impl DigestFollower {
    pub(crate) const fn new(reader: LogReader, digester: Digester, follow: Arc<Following>) -> Self {
        let taken = LogState { position: 0, next_sequence: 0, stream_lengths: [0; 2] };
        Self { reader, digester, follow, taken }
    }

    /// Returns the digester after it has read the whole sealed log.
    pub(crate) async fn follow(mut self) -> Result<Digester, LogError> {
        while self.taken.position <= SHORT_BYTES_MAX {
            let ended = self.reader.grown(self.taken.position).await.ended;
            let is_at_hand = self.reader.is_in_memory(self.taken.position);
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
            let ended = self.reader.grown(self.taken.position).await.ended;
            if ended && let Some(lengths) = self.follow.is_cut() {
                return self.leave_out_rest(lengths);
            }
            if self.step()? == 0 && ended {
                return Ok(());
            }
            // A cancellation point: on a long existing log, many steps run without waiting.
            tokio::task::yield_now().await;
        }
    }

    /// Digests the available bytes, up to a limit, and returns their number. Blocks.
    fn step(&mut self) -> Result<usize, LogError> {
        let chunks = self.reader.read(self.taken.position, STEP_BYTES)?;
        for (header, payload) in super::each_chunk(&chunks) {
            super::push_chunk(&mut self.digester, &header, payload);
            // The log was checked when it was written.
            let _checked = self.taken.append(&header, payload);
        }
        self.follow.has_digested(self.taken.position, self.digester.live());
        Ok(chunks.len())
    }

    /// Digests only the end of the rest of a log with these lengths of its streams. Blocks.
    fn leave_out_rest(&mut self, stream_lengths: [u64; 2]) -> Result<(), LogError> {
        let mut taken = self.taken.stream_lengths;
        let mut gap = |digester: &mut Digester, stream: Stream, until: u64| {
            let from = std::mem::replace(&mut taken[stream.index()], u64::MAX);
            if until > from {
                self.follow.leaves_out();
                digester.gap(stream, until - from, CUT);
            }
        };
        let mut position = self.reader.start_within(CUT_TAIL_BYTES)?.max(self.taken.position);
        loop {
            let chunks = self.reader.read(position, STEP_BYTES)?;
            if chunks.is_empty() {
                break;
            }
            for (header, payload) in super::each_chunk(&chunks) {
                gap(&mut self.digester, header.stream, header.offset);
                super::push_chunk(&mut self.digester, &header, payload);
            }
            position += chunks.len() as u64;
        }
        for stream in Stream::ALL {
            gap(&mut self.digester, stream, stream_lengths[stream.index()]);
        }
        self.follow.has_digested(position, self.digester.live());
        Ok(())
    }
}
