//! An open log: the state that its writers and readers share, and its files.

use super::error::LogError;
use super::layout::{Layout, LogFiles, RawSegment};
use super::read::Progress;
use super::recent::{RecentChunks, RecentTotal};
use super::unstored::Unstored;
use crate::store::disk::Disk;
use crate::store::limits::SEGMENT_BYTES;
use buildpool_protocol::AttemptId;
use buildpool_protocol::output::LogState;
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
    /// Held only briefly. It may be locked while `appender` is.
    recent: Mutex<RecentChunks>,
    pub(super) progress: watch::Sender<Progress>,
    /// Length of an ended log by its record. 0 if the record does not have it yet.
    declared: AtomicU64,
    /// Held while segments are compressed or removed.
    packing: Mutex<()>,
    /// Ticket of the newest writer.
    pub(super) newest_writer: AtomicU64,
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
    pub(super) fn received(&self) -> LogState {
        self.unstored.as_ref().map_or(self.state, Unstored::state)
    }
}

impl OpenLog {
    pub(super) fn new(attempt: AttemptId, place: LogFiles, disk: Disk, recent: RecentTotal) -> Self {
        Self {
            attempt,
            place,
            disk,
            layout: Mutex::new(Layout::default()),
            appender: Mutex::new(Appender::default()),
            recent: Mutex::new(RecentChunks::new(recent)),
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

    pub(super) fn recent(&self) -> MutexGuard<'_, RecentChunks> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub(super) fn spill_held(&self, appender: &Appender) -> Result<(), LogError> {
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
