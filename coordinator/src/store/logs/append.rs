//! Appends to a log: drops known chunks, requests a rewind if there is a hole, and writes the rest
//! unchanged.

use super::error::{LogError, SealError};
use super::layout::{Layout, LogFiles, RawSegment};
use super::read::{LogReader, Progress};
use super::registry::Logs;
use super::unstored::{Shortened, Unstored};
use crate::store::disk::Disk;
use crate::store::limits::{INLINE_BYTES_MAX, READ_BYTES_MAX, SEGMENT_BYTES};
use buildpool_protocol::AttemptId;
use buildpool_protocol::limits::LOG_BYTES_MAX;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, LogState, Stream};
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// An open log, shared by its writers and readers.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) attempt: AttemptId,
    pub(super) place: LogFiles,
    pub(super) disk: Disk,
    /// Held only briefly, never during file I/O. If both locks are needed, lock `appender` first.
    layout: Mutex<Layout>,
    appender: Mutex<Appender>,
    pub(super) progress: watch::Sender<Progress>,
    /// Length of an ended log by its record. 0 if the record does not have it yet.
    declared: AtomicU64,
    /// Held while segments are compressed or removed.
    packing: Mutex<()>,
    /// Ticket of the newest writer.
    newest_writer: AtomicU64,
    /// Set when files were created or removed since the last sync of the directory.
    pub(super) directory_dirty: AtomicBool,
    /// Whether the log is queued for compression.
    pub(super) queued: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Appender {
    pub(super) opened: bool,
    pub(super) state: LogState,
    /// Hashers over the bytes of each stream. `None` if an earlier process wrote a part, which must
    /// be read again.
    pub(super) hashers: Option<[blake3::Hasher; 2]>,
    /// The unstored part of the log, if the disk refuses it.
    pub(super) unstored: Option<Unstored>,
    pub(super) sealed: bool,
    pub(super) broken: bool,
}

impl Appender {
    /// End position of the received log.
    fn received(&self) -> LogState {
        self.unstored.as_ref().map_or(self.state, Unstored::state)
    }
}

impl OpenLog {
    pub(super) fn new(attempt: AttemptId, place: LogFiles, disk: Disk) -> Self {
        Self {
            attempt,
            place,
            disk,
            layout: Mutex::new(Layout::default()),
            appender: Mutex::new(Appender::default()),
            progress: watch::Sender::new(Progress::default()),
            declared: AtomicU64::new(0),
            packing: Mutex::new(()),
            newest_writer: AtomicU64::new(0),
            directory_dirty: AtomicBool::new(false),
            queued: AtomicBool::new(false),
        }
    }

    /// Reads the state on disk, once.
    pub(super) fn open(&self, write: bool) -> Result<(), LogError> {
        let mut appender = self.appender();
        if appender.opened {
            return Ok(());
        }
        let (layout, state) = Layout::recover(&self.place, self.attempt, &self.disk, write)?;
        appender.hashers = (state.position == 0).then(Default::default);
        appender.state = state;
        appender.opened = true;
        *self.layout() = layout;
        self.progress.send_replace(Progress { position: state.position, ended: false });
        Ok(())
    }

    pub(super) fn layout(&self) -> MutexGuard<'_, Layout> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn packing(&self) -> MutexGuard<'_, ()> {
        self.packing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn ended(&self) -> bool {
        self.progress.borrow().ended
    }

    /// Returns true if this process has written to the log.
    pub(super) fn has_writer(&self) -> bool {
        self.newest_writer.load(Ordering::Relaxed) > 0
    }

    /// Notes the length of an ended log by its record. Each reader of a shorter log gets an error at its end.
    pub(super) fn declare(&self, length: u64) {
        self.declared.store(length, Ordering::Relaxed);
    }

    pub(super) fn declared(&self) -> u64 {
        self.declared.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
    }

    /// Writes a log that is only in memory to a file. Does nothing if the log is sealed or has a
    /// file.
    pub(super) fn spill(&self) -> Result<(), LogError> {
        self.spill_held(&self.appender())
    }

    fn spill_held(&self, appender: &Appender) -> Result<(), LogError> {
        if appender.sealed || appender.broken || self.layout().head.is_empty() {
            return Ok(());
        }
        self.write(appender, &[])
    }

    /// Writes bytes at the end of the log, after those in memory.
    pub(super) fn write(&self, appender: &Appender, bytes: &[u8]) -> Result<(), LogError> {
        let (head, growing) = {
            let layout = self.layout();
            (layout.head.clone(), layout.raws.back().filter(|raw| !raw.full).cloned())
        };
        let position = appender.state.position;
        let raw = match growing {
            Some(raw) => raw,
            None => self.new_segment(appender, head.is_empty())?,
        };
        let end = position + bytes.len() as u64;
        let place = position - head.len() as u64 - raw.start.position;
        if head.is_empty() {
            self.disk.write_at(&raw.file, &raw.path, bytes, place)
        } else {
            self.disk.write_at(&raw.file, &raw.path, &[&head, bytes].concat(), place)
        }
        .map_err(LogError::file("write", &raw.path))?;
        let mut layout = self.layout();
        layout.head = Vec::new();
        let full = end - raw.start.position >= SEGMENT_BYTES;
        match layout.raws.back_mut().filter(|last| last.start.position == raw.start.position) {
            Some(last) => {
                last.end = end;
                last.full = full;
            }
            None => layout.raws.push_back(RawSegment { end, full, ..raw }),
        }
        Ok(())
    }

    fn new_segment(&self, appender: &Appender, at_end: bool) -> Result<RawSegment, LogError> {
        let start = if at_end { appender.state } else { LogState::default() };
        let directory = &self.place.directory;
        if !directory.is_dir() {
            self.disk.create_directory(directory).map_err(LogError::file("make", directory))?;
            if let Some(parent) = directory.parent() {
                self.disk.sync_directory(parent).map_err(LogError::file("sync", parent))?;
            }
        }
        let path = self.place.raw(start.position);
        let file = self.disk.create(&path).map_err(LogError::file("make", &path))?;
        self.directory_dirty.store(true, Ordering::Release);
        let synced = start.position;
        Ok(RawSegment { path, file: Arc::new(file), start, end: start.position, full: false, synced })
    }

    /// Makes all raw segments and the directory durable. The sync of the directory also covers the
    /// removal of compressed segments. After a power loss, a removed segment that reappears would
    /// be used, although it may never have been complete on disk.
    pub(super) fn sync(&self, appender: &mut Appender) -> Result<(), LogError> {
        let raws: Vec<RawSegment> =
            self.layout().raws.iter().filter(|raw| raw.synced < raw.end).cloned().collect();
        for raw in raws {
            if let Err(source) = self.disk.sync(&raw.file, &raw.path) {
                // After a failed sync, the kernel may have dropped the pages. The state on disk is
                // unknown from here on.
                appender.broken = true;
                return Err(LogError::File { doing: "sync", path: raw.path, source });
            }
            let mut layout = self.layout();
            if let Some(same) = layout.raws.iter_mut().find(|same| same.start.position == raw.start.position)
            {
                same.synced = raw.end;
            }
        }
        if self.directory_dirty.swap(false, Ordering::AcqRel) {
            let directory = &self.place.directory;
            return self.disk.sync_directory(directory).map_err(|source| {
                self.directory_dirty.store(true, Ordering::Release);
                LogError::File { doing: "sync", path: directory.clone(), source }
            });
        }
        Ok(())
    }
}

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
