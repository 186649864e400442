//! Background thread of the store.
//!
//! It compresses full segments, and writes a short log to a file if it stays open. It also fills
//! the ring, and moves the write-ahead log into the database.

use super::error::LogError;
use super::layout::RawSegment;
use super::open_log::OpenLog;
use super::pack::Growth;
use super::registry::Logs;
use crate::priority::{Niceness, give_way};
use crate::store::database;
use crate::store::limits::{BLOCK_BYTES_MAX, INLINE_FOR, PACK_BYTES_MIN};
use buildpool_protocol::AttemptId;
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

enum Task {
    Spill(Arc<OpenLog>, Instant),
    Pack(Arc<OpenLog>),
    Finished(Arc<OpenLog>, Logs),
    Warm(Vec<AttemptId>, Logs),
    Checkpoint,
    Answer(Sender<()>),
    Stop,
}

/// Sends tasks to the background thread. The queue needs no limit of its own: it contains each log
/// at most once for each kind of task.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    tasks: Sender<Task>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Keeper {
    pub(super) fn start(checkpointed: Option<PathBuf>) -> std::io::Result<Self> {
        let (tasks, queue) = channel();
        let thread = std::thread::Builder::new().name("store-keeper".into()).spawn(move || {
            give_way(Niceness::Housekeeping);
            run(&queue, checkpointed.as_deref());
        })?;
        Ok(Self { tasks, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// Ends the thread after the queued tasks.
    pub(super) fn stop(&self) {
        self.send(Task::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the store's keeper ended by a panic");
        }
    }

    pub(super) fn spill_later(&self, shared: &Arc<OpenLog>) {
        self.send(Task::Spill(Arc::clone(shared), Instant::now() + INLINE_FOR));
    }

    pub(super) fn pack(&self, shared: &Arc<OpenLog>) {
        if !shared.queued.swap(true, Ordering::AcqRel) {
            self.send(Task::Pack(Arc::clone(shared)));
        }
    }

    pub(super) fn finished(&self, shared: &Arc<OpenLog>, logs: &Logs) {
        self.send(Task::Finished(Arc::clone(shared), logs.clone()));
    }

    pub(super) fn warm(&self, attempts: Vec<AttemptId>, logs: &Logs) {
        self.send(Task::Warm(attempts, logs.clone()));
    }

    pub(super) fn checkpoint(&self) {
        self.send(Task::Checkpoint);
    }

    /// Waits until all earlier tasks are done, or the store is closed.
    pub(super) fn settle(&self) {
        let (asker, answer) = channel();
        self.send(Task::Answer(asker));
        // A stopped thread sends no answer. Then there is nothing left to wait for.
        let _stopped = answer.recv();
    }

    fn send(&self, task: Task) {
        // The thread has ended only if the store is closed. The next start does the remaining work.
        drop(self.tasks.send(task));
    }
}

fn run(queue: &Receiver<Task>, checkpointed: Option<&Path>) {
    let mut young: VecDeque<(Instant, Arc<OpenLog>)> = VecDeque::new();
    loop {
        let task = match young.front() {
            Some((due, _)) => match queue.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(task) => task,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((_, shared)) = young.pop_front() {
                        spill(&shared);
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            },
            None => match queue.recv() {
                Ok(task) => task,
                Err(_) => break,
            },
        };
        match task {
            Task::Spill(shared, due) => young.push_back((due, shared)),
            Task::Pack(shared) => pack(&shared),
            Task::Finished(shared, logs) => {
                logs.remember(&shared);
                pack(&shared);
            }
            Task::Warm(attempts, logs) => logs.fill_ring(&attempts),
            Task::Checkpoint => checkpointed.into_iter().for_each(checkpoint),
            Task::Answer(asker) => drop(asker.send(())),
            Task::Stop => break,
        }
    }
    for (_, shared) in young {
        spill(&shared);
    }
}

fn spill(shared: &OpenLog) {
    if let Err(error) = shared.spill() {
        tracing::warn!(attempt = %shared.attempt, error = &error as &dyn std::error::Error, "a log stays in memory");
    }
}

fn checkpoint(path: &Path) {
    let moved = database::open_reader(path).and_then(|connection| database::checkpoint(&connection));
    if let Err(error) = moved {
        tracing::warn!(error = &error as &dyn std::error::Error, "the write-ahead log was not moved");
    }
}

fn pack(shared: &OpenLog) {
    shared.queued.store(false, Ordering::Release);
    if let Err(error) = pack_segments(shared) {
        // Uncompressed segments stay as they are and remain readable.
        tracing::warn!(attempt = %shared.attempt, error = &error as &dyn std::error::Error, "a log was not compressed");
    }
}

/// Compresses the segments that are complete.
pub(super) fn pack_segments(shared: &OpenLog) -> Result<(), LogError> {
    let _packing = shared.packing();
    loop {
        let (raw, growth) = {
            let layout = shared.layout();
            let Some(raw) = layout.raws.front().cloned() else { return Ok(()) };
            let worthwhile = layout.pack.is_some() || raw.end - raw.start.position >= PACK_BYTES_MIN;
            if !(raw.full || shared.ended() && worthwhile) {
                return Ok(());
            }
            (raw, layout.pack.as_ref().map(super::pack::Pack::growth))
        };
        pack_segment(shared, &raw, growth)?;
    }
}

fn pack_segment(shared: &OpenLog, raw: &RawSegment, growth: Option<Growth>) -> Result<(), LogError> {
    let disk = &shared.disk;
    let is_new = growth.is_none();
    let mut growth = match growth {
        Some(growth) => growth,
        None => Growth::create(&shared.place.pack(), disk)?,
    };
    let length = raw.end - raw.start.position;
    let mut chunks = vec![0; BLOCK_BYTES_MAX.min(usize::try_from(length).unwrap_or(usize::MAX))];
    let mut taken = 0;
    while taken < length {
        let rest = usize::try_from(length - taken).unwrap_or(usize::MAX);
        chunks.truncate(rest);
        raw.file.read_exact_at(&mut chunks, taken).map_err(LogError::file("read", &raw.path))?;
        taken += growth.append_first(&chunks, disk)? as u64;
    }
    growth.sync(disk)?;
    if is_new {
        let directory = &shared.place.directory;
        disk.sync_directory(directory).map_err(LogError::file("sync", directory))?;
    }
    let mut layout = shared.layout();
    match &mut layout.pack {
        Some(pack) => pack.take(growth),
        None => layout.pack = Some(growth.into_pack()),
    }
    layout.raws.pop_front();
    shared.directory_dirty.store(true, Ordering::Release);
    // Remove the file while the layout is locked. A concurrent seal then either finds the segment
    // and syncs it, or finds it removed and syncs the directory.
    disk.remove(&raw.path).map_err(LogError::file("remove", &raw.path))
}
