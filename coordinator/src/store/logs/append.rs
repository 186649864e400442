//! The writer of a log: drops known chunks, requests a rewind if there is a hole, and writes the rest
//! unchanged.

use super::error::{LogError, SealError};
use super::layout::Layout;
use super::open_log::{Appender, OpenLog};
use super::read::{LogReader, Progress};
use super::registry::Logs;
use super::unstored::Shortened;
use crate::store::limits::{INLINE_BYTES_MAX, READ_BYTES_MAX};
use buildpool_protocol::AttemptId;
use buildpool_protocol::limits::LOG_BYTES_MAX;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, LogState, Stream};
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Appends chunks to the log of one attempt. Only the newest writer of a log may append.
#[derive(Debug)]
pub struct LogWriter {
    pub(super) shared: Arc<OpenLog>,
    ticket: u64,
    logs: Logs,
}

/// Result of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appended {
    /// All chunks are stored, up to this position.
    Stored {
        /// New end position of the log.
        position: u64,
    },
    /// The chunks begin after the end. The sender must continue from here.
    Rewind {
        /// End position of the log.
        position: u64,
    },
}

/// A complete log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// The attempt.
    pub attempt: AttemptId,
    /// State at the end of the log.
    pub state: LogState,
    /// The whole log if it has no file. Commit it together with the end of its job, as
    /// [`crate::store::Record::Log`], and keep the writer until that commit is done.
    pub inline: Option<Bytes>,
    /// The unstored parts. `None` if the whole log is stored.
    pub shortened: Option<Shortened>,
}

impl LogWriter {
    pub(super) fn new(shared: Arc<OpenLog>, logs: Logs) -> Self {
        let ticket = shared.newest_writer.fetch_add(1, Ordering::AcqRel) + 1;
        Self { shared, ticket, logs }
    }

    /// Returns the attempt of the log.
    pub fn attempt(&self) -> AttemptId {
        self.shared.attempt
    }

    /// Returns true if all of the log is in memory. Then neither reading nor sealing waits for the
    /// disk.
    pub fn is_in_memory(&self) -> bool {
        !self.shared.layout().has_files()
    }

    /// Returns the state at the end of the log, which the next chunk must match.
    pub fn state(&self) -> LogState {
        self.shared.appender().received()
    }

    /// Appends the content of an output frame: whole chunks, the first of which begins at
    /// `position`.
    ///
    /// Known chunks are dropped. When this returns, the bytes survive a crash of this process,
    /// except those of a short log that is still in memory. Only [`LogWriter::seal`] protects them
    /// against power loss.
    ///
    /// # Errors
    /// [`LogError`]; [`LogError::is_senders_fault`] is true if the sender caused it. After an error
    /// no part of the content counts as stored, and the same content may be sent again.
    pub fn append(&mut self, position: u64, content: &[u8]) -> Result<Appended, LogError> {
        self.store(position, content, None)
    }

    /// Appends content as [`LogWriter::append`] does. Readers at the end of the log get the same memory.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn append_shared(&mut self, position: u64, content: &Bytes) -> Result<Appended, LogError> {
        self.store(position, content, Some(content))
    }

    fn store(&mut self, position: u64, content: &[u8], shared: Option<&Bytes>) -> Result<Appended, LogError> {
        let mut appender = self.check()?;
        if let Some(unstored) = &mut appender.unstored {
            return unstored.take(self.shared.attempt, position, content);
        }
        let end = appender.state.position;
        if position > end {
            return Ok(Appended::Rewind { position: end });
        }
        if position + content.len() as u64 <= end && position < end {
            // A full repeat. Its chunks were checked when they arrived first.
            return Ok(Appended::Stored { position: end });
        }
        let (known, state) = follow(self.shared.attempt, appender.state, position, content)?;
        if state.position > LOG_BYTES_MAX {
            return Err(LogError::TooLong { limit: LOG_BYTES_MAX });
        }
        let new = &content[known..];
        if new.is_empty() {
            return Ok(Appended::Stored { position: end });
        }
        if appender.sealed {
            return Err(LogError::Sealed);
        }
        let short = {
            let mut layout = self.shared.layout();
            let short = !layout.has_files() && layout.head.len() + new.len() <= INLINE_BYTES_MAX;
            if short {
                layout.head.extend_from_slice(new);
            }
            short
        };
        if !short {
            self.shared.write(&appender, new)?;
            if let Some(content) = shared {
                // A slice would keep all of the frame in memory, also the part that is known.
                let part = if known == 0 { content.clone() } else { Bytes::copy_from_slice(new) };
                self.shared.recent().push(end, part);
            }
        }
        if let Some(hashers) = &mut appender.hashers {
            hash(hashers, new);
        }
        appender.state = state;
        drop(appender);
        self.shared.progress.send_modify(|progress| progress.position = state.position);
        if short && end == 0 {
            self.logs.inner.keeper.spill_later(&self.shared);
        } else if self.shared.layout().raws.front().is_some_and(|raw| raw.full) {
            self.logs.inner.keeper.pack(&self.shared);
        }
        Ok(Appended::Stored { position: state.position })
    }

    /// Makes all stored chunks durable against power loss. Blocks.
    ///
    /// # Errors
    /// [`LogError::File`]. After that the log is [`LogError::Broken`] and must
    /// [`LogWriter::restart`].
    pub fn sync(&mut self) -> Result<(), LogError> {
        let mut appender = self.check()?;
        self.shared.spill_held(&appender)?;
        self.shared.sync(&mut appender)
    }

    /// Seals the log if it matches the worker's declaration.
    ///
    /// When this returns, the log is durable or contained in [`Sealed::inline`]. Sealing twice is
    /// allowed. Blocks; if an earlier process wrote a part of the log, that part is read again.
    ///
    /// # Errors
    /// [`SealError`], which determines the next request to the worker.
    pub fn seal(&mut self, seals: &[Seal; 2], log_length: u64) -> Result<Sealed, SealError> {
        let mut appender = self.check()?;
        let stored = appender.received().position;
        if stored < log_length {
            return Err(SealError::Missing { position: stored });
        }
        if stored > log_length {
            return Err(SealError::Longer { stored, declared: log_length });
        }
        if let Some(unstored) = appender.unstored.take() {
            return self.seal_shortened(appender, &unstored);
        }
        let hashers = match &appender.hashers {
            Some(hashers) => hashers.clone(),
            None => self.hash_again()?,
        };
        for stream in Stream::ALL {
            let (seal, hasher) = (&seals[stream.index()], &hashers[stream.index()]);
            let agrees = appender.state.stream_lengths[stream.index()] == seal.length
                && blake3::Hash::from_hex(&seal.blake3).is_ok_and(|declared| declared == hasher.finalize());
            if !agrees {
                return Err(SealError::Mismatch { attempt: self.shared.attempt, stream });
            }
        }
        appender.hashers = Some(hashers);
        self.shared.sync(&mut appender)?;
        Ok(self.sealed(appender, None))
    }

    pub(super) fn sealed(
        &self,
        mut appender: MutexGuard<'_, Appender>,
        shortened: Option<Shortened>,
    ) -> Sealed {
        let inline = {
            let layout = self.shared.layout();
            (!layout.head.is_empty()).then(|| Bytes::copy_from_slice(&layout.head))
        };
        appender.sealed = true;
        let state = appender.state;
        drop(appender);
        self.shared.end();
        self.finished();
        Sealed { attempt: self.shared.attempt, state, inline, shortened }
    }

    /// Closes the incomplete log of a lost attempt. Blocks briefly.
    ///
    /// # Errors
    /// [`LogError::File`] if the bytes in memory can't be written.
    pub fn abandon(&mut self) -> Result<(), LogError> {
        let mut appender = self.check()?;
        self.shared.spill_held(&appender)?;
        self.shared.sync(&mut appender)?;
        appender.sealed = true;
        drop(appender);
        self.shared.end();
        self.finished();
        Ok(())
    }

    /// Removes all stored bytes, so that the log restarts at position 0. Used if the log differs
    /// from the worker's.
    ///
    /// # Errors
    /// [`LogError::File`] if files can't be removed, [`LogError::Sealed`] if the log is complete.
    pub fn restart(&mut self) -> Result<(), LogError> {
        let shared = &self.shared;
        let _packing = shared.packing();
        let mut appender = shared.appender();
        if shared.newest_writer.load(Ordering::Acquire) != self.ticket {
            return Err(LogError::Superseded);
        }
        if appender.sealed {
            return Err(LogError::Sealed);
        }
        *shared.layout() = Layout::default();
        shared.recent().clear();
        shared.directory_dirty.store(true, Ordering::Release);
        shared.place.remove_all(&shared.disk)?;
        *appender = Appender { opened: true, hashers: Some(Default::default()), ..Appender::default() };
        drop(appender);
        shared.progress.send_replace(Progress::default());
        Ok(())
    }

    /// Returns a reader of this log.
    pub fn reader(&self) -> LogReader {
        LogReader::live(Arc::clone(&self.shared))
    }

    fn finished(&self) {
        if self.shared.layout().has_files() {
            self.logs.inner.keeper.finished(&self.shared, &self.logs);
        } else {
            self.logs.remember(&self.shared);
        }
    }

    pub(super) fn check(&self) -> Result<MutexGuard<'_, Appender>, LogError> {
        let appender = self.shared.appender();
        if self.shared.newest_writer.load(Ordering::Acquire) != self.ticket {
            return Err(LogError::Superseded);
        }
        if appender.broken {
            return Err(LogError::Broken);
        }
        Ok(appender)
    }

    pub(super) fn hash_again(&self) -> Result<[blake3::Hasher; 2], LogError> {
        let mut hashers: [blake3::Hasher; 2] = Default::default();
        let mut reader = self.reader();
        let mut position = 0;
        loop {
            let chunks = reader.read(position, READ_BYTES_MAX)?;
            if chunks.is_empty() {
                return Ok(hashers);
            }
            hash(&mut hashers, &chunks);
            position += chunks.len() as u64;
        }
    }
}

/// Checks chunks that begin at `position`, which is at or before the end of `state`. Returns the
/// number of known bytes, and the state after the rest.
pub(super) fn follow(
    attempt: AttemptId,
    mut state: LogState,
    position: u64,
    content: &[u8],
) -> Result<(usize, LogState), LogError> {
    let end = state.position;
    let mut at = 0;
    let mut known = 0;
    while at < content.len() {
        let here = position + at as u64;
        let malformed = |reason| LogError::Malformed { position: here, reason };
        let (header, payload) = ChunkHeader::decode(&content[at..])
            .map_err(|_| malformed("not a whole chunk of a known kind"))?;
        if header.attempt != attempt {
            return Err(malformed("it belongs to another attempt"));
        }
        let size = usize::try_from(header.size()).map_err(|_| malformed("it is too long"))?;
        match here.cmp(&end) {
            std::cmp::Ordering::Less => {
                if here + header.size() > end || header.sequence >= state.next_sequence {
                    return Err(LogError::Diverged { position: here });
                }
                known = at + size;
            }
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => {
                state.append(&header, payload).map_err(|_| LogError::Diverged { position: here })?;
            }
        }
        at += size;
    }
    Ok((known, state))
}

pub(super) fn seals(state: LogState, hashers: &[blake3::Hasher; 2]) -> [Seal; 2] {
    Stream::ALL.map(|stream| Seal {
        length: state.stream_lengths[stream.index()],
        blake3: hashers[stream.index()].finalize().to_hex().to_string(),
    })
}

pub(super) fn hash(hashers: &mut [blake3::Hasher; 2], chunks: &[u8]) {
    let _: ControlFlow<()> = super::read::each_chunk(chunks, |_, header, payload| {
        if header.kind == ChunkKind::Data {
            hashers[header.stream.index()].update(payload);
        }
        ControlFlow::Continue(())
    });
}
