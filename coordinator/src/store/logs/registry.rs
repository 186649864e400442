//! Registry of all logs of a data directory.

use super::append::LogWriter;
use super::error::LogError;
use super::keep::Keeper;
use super::layout::LogFiles;
use super::open_log::OpenLog;
use super::read::LogReader;
use super::recent::RecentTotal;
use crate::store::disk::Disk;
use crate::store::limits::{READ_BYTES_MAX, RING_LOG_BYTES_MAX};
use crate::store::objects::Objects;
use crate::store::reader::{Lookup, Reader};
use crate::store::ring::{CompletedLog, Ring};
use buildpool_protocol::{AttemptId, JobId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// All logs of a data directory. Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    pub(super) inner: Arc<LogRegistry>,
}

pub(super) struct LogRegistry {
    pub(super) root: PathBuf,
    pub(super) objects: Option<Objects>,
    pub(super) disk: Disk,
    pub(super) reader: Reader,
    registry: Mutex<Registry>,
    ring: Ring,
    recent: RecentTotal,
    pub(super) keeper: Keeper,
}

#[derive(Default)]
struct Registry {
    open: HashMap<AttemptId, Weak<OpenLog>>,
    /// Logs that are being removed. They can't be opened.
    evicting: HashSet<AttemptId>,
    /// Number of entries at which those of closed logs are removed.
    sweep_at: usize,
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("root", &self.inner.root).finish()
    }
}

impl Logs {
    /// `checkpointed` is the SQLite database whose write-ahead log the background thread moves.
    pub(in crate::store) fn new(
        root: PathBuf,
        objects: Option<Objects>,
        checkpointed: Option<PathBuf>,
        disk: Disk,
        reader: Reader,
    ) -> std::io::Result<Self> {
        let inner = LogRegistry {
            root,
            objects,
            disk,
            reader,
            registry: Mutex::default(),
            ring: Ring::default(),
            recent: RecentTotal::default(),
            keeper: Keeper::start(checkpointed)?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the free space on the disk in bytes, or `None` if the system does not report it.
    pub fn free_bytes(&self) -> Option<u64> {
        // The directory for logs does not exist before the first log.
        let (root, disk) = (&self.inner.root, &self.inner.disk);
        disk.free_bytes(root).or_else(|| disk.free_bytes(root.parent()?))
    }

    /// Opens the log of an attempt for appending. Earlier writers of the log are fenced. Reads the
    /// existing files; creates no file before the first bytes arrive.
    ///
    /// # Errors
    /// [`LogError::File`] if the existing files can't be read.
    pub fn open(&self, attempt: AttemptId) -> Result<LogWriter, LogError> {
        let shared = self.share(attempt)?;
        Ok(LogWriter::new(shared, self.clone()))
    }

    /// Opens the log of an attempt for reading. The log of a running attempt can be followed while
    /// it grows, also before its first byte.
    ///
    /// # Errors
    /// [`LogError::Unknown`] and [`LogError::Evicted`]; [`LogError::File`], [`LogError::Store`].
    pub fn reader(&self, attempt: AttemptId) -> Result<LogReader, LogError> {
        if let Some(log) =
            self.inner.ring.get(attempt.job).filter(|log| log.attempt() == attempt && log.start() == 0)
        {
            return Ok(LogReader::whole(log));
        }
        let open = self.registry().open.get(&attempt).and_then(Weak::upgrade);
        // One that only readers have open gets its length from the record.
        if let Some(shared) = open.filter(|shared| shared.has_writer()) {
            shared.open(true)?;
            return Ok(LogReader::live(shared));
        }
        if let Some(oldest) = self.inner.reader.evicted(attempt)? {
            return Err(LogError::Evicted { oldest });
        }
        if let Some(bytes) = self.inner.reader.inline_log(attempt)? {
            return Ok(LogReader::whole(Arc::new(CompletedLog::new(attempt, 0, bytes))));
        }
        let record = match self.inner.reader.job(attempt.job)? {
            Lookup::Found(record) => record,
            Lookup::Evicted => return Err(LogError::Evicted { oldest: 0 }),
            Lookup::Unknown => return Err(LogError::Unknown),
        };
        let known =
            record.attempts.iter().find(|known| known.number == attempt.number).ok_or(LogError::Unknown)?;
        let is_over = record.done.is_some() || known.ended.is_some();
        let length = known.ended.as_ref().map_or(0, |end| end.log_length);
        if is_over {
            self.fetch(attempt, length)?;
        }
        let shared = self.share(attempt)?;
        if is_over {
            // Retention records each removal, so missing bytes are damage.
            shared.declare(length);
            shared.end();
        }
        Ok(LogReader::live(shared))
    }

    /// Returns the ring of the last completed logs.
    pub fn ring(&self) -> &Ring {
        &self.inner.ring
    }

    /// Waits for all queued tasks and ends the background thread. The next start does work that
    /// remains.
    pub(in crate::store) fn close(&self) {
        self.inner.keeper.stop();
    }

    /// Waits until the background thread has done all tasks queued so far.
    pub(in crate::store) fn settle(&self) {
        self.inner.keeper.settle();
    }

    pub(in crate::store) fn keep_checkpoint(&self) {
        self.inner.keeper.checkpoint();
    }

    /// Reads these logs into the ring, oldest first, in the background thread.
    pub(in crate::store) fn warm_ring(&self, attempts: Vec<AttemptId>) {
        if !attempts.is_empty() {
            self.inner.keeper.warm(attempts, self);
        }
    }

    pub(super) fn fill_ring(&self, attempts: &[AttemptId]) {
        for attempt in attempts {
            if self.inner.ring.get(attempt.job).is_some() {
                continue;
            }
            match self.reader(*attempt).and_then(read_end) {
                Ok(log) => self.inner.ring.insert_oldest(log),
                Err(LogError::Evicted { .. } | LogError::Unknown) => {}
                Err(error) => {
                    tracing::warn!(%attempt, error = &error as &dyn std::error::Error, "a log can't be read");
                }
            }
        }
    }

    /// Adds a log that has just ended to the ring.
    pub(super) fn remember(&self, shared: &Arc<OpenLog>) {
        match read_end(LogReader::live(Arc::clone(shared))) {
            Ok(log) => self.inner.ring.insert(log),
            Err(error) => tracing::warn!(
                attempt = %shared.attempt,
                error = &error as &dyn std::error::Error,
                "a log can't be read"
            ),
        }
    }

    fn share(&self, attempt: AttemptId) -> Result<Arc<OpenLog>, LogError> {
        let shared = {
            let mut registry = self.registry();
            if registry.evicting.contains(&attempt) {
                return Err(LogError::Evicted { oldest: 0 });
            }
            match registry.open.get(&attempt).and_then(Weak::upgrade) {
                Some(shared) => shared,
                None => {
                    let place = LogFiles::new(&self.inner.root, attempt);
                    let (disk, recent) = (self.inner.disk.clone(), self.inner.recent.clone());
                    let shared = Arc::new(OpenLog::new(attempt, place, disk, recent));
                    registry.insert(attempt, &shared);
                    shared
                }
            }
        };
        shared.open(true)?;
        Ok(shared)
    }

    /// Keeps those of the logs that are not in use, and marks them: they can't be opened until
    /// [`Logs::end_eviction`].
    pub(super) fn begin_eviction(&self, attempts: &mut Vec<AttemptId>) {
        let mut registry = self.registry();
        attempts.retain(|attempt| registry.open.get(attempt).is_none_or(|open| open.strong_count() == 0));
        registry.evicting.extend(attempts.iter().copied());
    }

    pub(super) fn end_eviction(&self, attempts: &[AttemptId]) {
        let mut registry = self.registry();
        for attempt in attempts {
            registry.evicting.remove(attempt);
        }
        drop(registry);
        let jobs: HashSet<JobId> = attempts.iter().map(|attempt| attempt.job).collect();
        self.inner.ring.remove_jobs(&jobs);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.inner.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn root(&self) -> &Path {
        &self.inner.root
    }
}

impl Registry {
    fn insert(&mut self, attempt: AttemptId, shared: &Arc<OpenLog>) {
        if self.open.len() >= self.sweep_at {
            self.open.retain(|_, open| open.strong_count() > 0);
            self.sweep_at = (self.open.len() * 2).max(64);
        }
        self.open.insert(attempt, Arc::downgrade(shared));
    }
}

/// Reads the last [`RING_LOG_BYTES_MAX`] bytes of a log, from the start of a chunk on.
fn read_end(mut reader: LogReader) -> Result<CompletedLog, LogError> {
    let end = reader.length();
    let start = reader.start_within(RING_LOG_BYTES_MAX as u64)?;
    let mut bytes = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0));
    let mut position = start;
    loop {
        // Also at the end: a log that lost bytes is no whole log.
        let chunks = reader.read(position, READ_BYTES_MAX)?;
        if chunks.is_empty() {
            break;
        }
        position += chunks.len() as u64;
        bytes.extend_from_slice(&chunks);
    }
    Ok(CompletedLog::new(reader.attempt(), start, bytes.into()))
}
