//! Simulates a crash at every step that reaches the disk, and a start on the files that it leaves.

use super::support::{Produced, done, first, granted, job, read_all, scratch};
use crate::store::{
    Disk, Hook, JobRecord, LogWriter, Lookup, Operation, Record, Retention, SealError, Store, Writer,
};
use buildpool_protocol::JobId;
use buildpool_protocol::report::Verdict;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

/// State of the disk after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// The process is killed: the kernel still writes everything.
    Kill,
    /// Power loss: unsynced bytes are cut off, unsynced files are missing, removed files are back.
    Power,
    /// Another form of power loss: unsynced bytes are zeros, files with unsynced names are missing,
    /// removed files stay removed.
    Zeros,
}

/// The data directory as a crash would leave it.
struct Model {
    directory: PathBuf,
    /// Number of synced bytes of each file.
    synced: HashMap<PathBuf, usize>,
    /// Files with synced directory entries.
    named: HashSet<PathBuf>,
    /// Removed files with directory entries that may come back.
    removed: HashMap<PathBuf, Vec<u8>>,
    /// The current operation of each thread. It is complete when the thread begins the next one.
    doing: HashMap<ThreadId, (Operation, PathBuf)>,
    steps: usize,
}

impl Model {
    fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            synced: HashMap::new(),
            named: HashSet::new(),
            removed: HashMap::new(),
            doing: HashMap::new(),
            steps: 0,
        }
    }

    fn step(&mut self, operation: Operation, path: &Path) {
        self.steps += 1;
        if let Some((operation, path)) =
            self.doing.insert(std::thread::current().id(), (operation, path.into()))
        {
            self.has_done(operation, &path);
        }
        if operation == Operation::Remove && path.exists() {
            self.removed.insert(path.to_owned(), std::fs::read(path).unwrap());
        }
    }

    fn has_done(&mut self, operation: Operation, path: &Path) {
        match operation {
            Operation::Sync => {
                let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                self.synced.insert(path.to_owned(), usize::try_from(length).unwrap());
            }
            Operation::SyncDirectory => {
                self.removed.retain(|removed, _| removed.parent() != Some(path));
                self.named.retain(|named| named.parent() != Some(path));
                self.named.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
            Operation::Create | Operation::Truncate => {
                self.synced.remove(path);
            }
            Operation::Write | Operation::Rename | Operation::Remove | Operation::Commit => {}
        }
    }

    fn image(&self, stop: Stop) -> tempfile::TempDir {
        let image = scratch();
        self.copy(&self.directory, image.path(), stop);
        if stop == Stop::Power {
            for (path, bytes) in &self.removed {
                if self.named.contains(path) {
                    let to = image.path().join(path.strip_prefix(&self.directory).unwrap());
                    std::fs::write(to, self.lasting(path, bytes.clone(), stop)).unwrap();
                }
            }
        }
        image
    }

    fn copy(&self, from: &Path, to: &Path, stop: Stop) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            let is_log = path.extension().is_some_and(|extension| extension == "raw" || extension == "pack");
            if path.is_dir() {
                self.copy(&path, &target, stop);
            } else if is_log && stop != Stop::Kill {
                if self.named.contains(&path) {
                    let bytes = std::fs::read(&path).unwrap();
                    std::fs::write(target, self.lasting(&path, bytes, stop)).unwrap();
                }
            } else if path.extension().is_none_or(|extension| extension != "db-shm") {
                std::fs::copy(&path, &target).unwrap();
            }
        }
    }

    fn lasting(&self, path: &Path, mut bytes: Vec<u8>, stop: Stop) -> Vec<u8> {
        let synced = self.synced.get(path).copied().unwrap_or(0).min(bytes.len());
        match stop {
            Stop::Kill => {}
            Stop::Power => bytes.truncate(synced),
            Stop::Zeros => bytes[synced..].fill(0),
        }
        bytes
    }
}

/// Facts that clients have received.
#[derive(Default)]
struct Promises {
    accepted: HashSet<JobId>,
    done: HashSet<JobId>,
    /// File states that were already found and completed once.
    completed: HashSet<blake3::Hash>,
}

/// Returns a hash of the names and contents of a log's files.
fn files(image: &Path, log: &Produced) -> blake3::Hash {
    let job = log.attempt.job;
    let directory = image.join(format!("logs/{:02x}", job.as_uuid().as_bytes()[15]));
    let mut hasher = blake3::Hasher::new();
    hasher.update(job.as_uuid().as_bytes());
    if let Ok(listing) = std::fs::read_dir(directory) {
        let mut paths: Vec<PathBuf> = listing.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.to_string_lossy().contains(&job.to_string())) {
            hasher.update(path.file_name().unwrap().as_encoded_bytes()).update(&std::fs::read(path).unwrap());
        }
    }
    hasher.finalize()
}

/// Starts a coordinator on the image. Checks that every promise holds, that every log is a prefix
/// of the written bytes, and that it can be completed.
fn starts_again(image: &Path, logs: &[(JobRecord, Produced)], promises: &mut Promises, stop: Stop) {
    let store = Store::open(image).unwrap();
    for (job, log) in logs {
        match store.reader().job(job.job).unwrap() {
            Lookup::Unknown => assert!(!promises.accepted.contains(&job.job), "an accepted job is gone"),
            Lookup::Evicted => panic!("a record is gone"),
            Lookup::Found(record) if record.done.is_some() => {
                let mut reader = store.logs().reader(log.attempt).unwrap();
                assert!(
                    read_all(&mut reader, 1 << 20) == log.bytes,
                    "the log of a job that is over is not whole"
                );
            }
            Lookup::Found(record) => {
                assert!(!promises.done.contains(&record.job), "the end of a job is forgotten");
                if promises.completed.insert(files(image, log)) {
                    complete(&store, log, stop);
                }
            }
        }
    }
}

fn complete(store: &Store, log: &Produced, stop: Stop) {
    let mut writer = store.logs().open(log.attempt).unwrap();
    let position = usize::try_from(writer.state().position).unwrap();
    assert!(log.edges.contains(&position), "the log does not end with a whole chunk");
    if stop != Stop::Zeros {
        assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes[..position], "the log is no prefix");
    }
    append(&mut writer, log, position);
    match writer.seal(&log.seals(), log.length()) {
        Ok(_) => {}
        Err(SealError::Mismatch { .. }) if stop == Stop::Zeros => {
            writer.restart().unwrap();
            append(&mut writer, log, 0);
            writer.seal(&log.seals(), log.length()).unwrap();
        }
        Err(error) => panic!("{error:?}"),
    }
    assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes, "the completed log is another one");
}

fn append(writer: &mut LogWriter, log: &Produced, from: usize) {
    append_to(writer, log, from, log.bytes.len());
}

fn append_to(writer: &mut LogWriter, log: &Produced, mut from: usize, to: usize) {
    for edge in log.edges.iter().filter(|edge| **edge <= to) {
        if *edge > from && (edge - from > 600_000 || *edge == to) {
            writer.append(from as u64, &log.bytes[from..*edge]).unwrap();
            from = *edge;
        }
    }
}

/// Length of each log, and the number of bytes sent before the coordinator restarts.
///
/// In order: a short log; one of two segments, the second of two blocks; one that is compressed as
/// a whole; one that fills a segment. An earlier process wrote a part of the last one, so no later
/// sync of this process covers that part.
const LOGS: [(usize, Option<usize>); 4] =
    [(2_000, None), (5_500_000, None), (40_000, None), (4_250_000, Some(2_000_000))];

/// Runs jobs, and checks the resulting image after each step on disk. Compression happens after the
/// job's end is recorded.
struct Run {
    directory: tempfile::TempDir,
    logs: Vec<(JobRecord, Produced)>,
    promises: Mutex<Promises>,
    model: Mutex<Model>,
    stop: Stop,
    /// The flag opens when the compressor may continue and steps are checked.
    gate: (Mutex<bool>, Condvar),
    armed: AtomicBool,
}

impl Run {
    fn new(stop: Stop) -> Arc<Self> {
        let directory = scratch();
        let produced = |(bytes, _)| {
            let job = granted(job(1));
            let log = Produced::lines(first(&job), bytes, 60_000);
            (job, log)
        };
        Arc::new(Self {
            logs: LOGS.into_iter().map(produced).collect(),
            promises: Mutex::default(),
            model: Mutex::new(Model::new(directory.path())),
            directory,
            stop,
            gate: (Mutex::new(true), Condvar::new()),
            armed: AtomicBool::new(false),
        })
    }

    fn step(&self, operation: Operation, path: &Path) {
        if operation != Operation::Commit && std::thread::current().name() == Some("store-keeper") {
            let open = self.gate.0.lock().unwrap();
            drop(self.gate.1.wait_while(open, |open| !*open).unwrap());
        }
        let mut model = self.model.lock().unwrap();
        model.step(operation, path);
        if self.armed.load(Ordering::Acquire) {
            let image = model.image(self.stop);
            starts_again(image.path(), &self.logs, &mut self.promises.lock().unwrap(), self.stop);
        }
    }

    fn compressor(&self, open: bool) {
        *self.gate.0.lock().unwrap() = open;
        self.gate.1.notify_all();
    }

    fn open(self: &Arc<Self>) -> (Store, Writer) {
        let run = Arc::clone(self);
        let hook: Arc<Hook> = Arc::new(move |operation, path: &Path| {
            run.step(operation, path);
            Ok(())
        });
        let store = Store::open_on(self.directory.path(), Disk::hooked(hook)).unwrap();
        let writer = store.writer().unwrap();
        (store, writer)
    }

    fn all(self: &Arc<Self>) -> usize {
        let (mut store, mut writer) = self.open();
        self.armed.store(true, Ordering::Release);
        for (job, _) in &self.logs {
            writer.commit(&[Record::Job(Box::new(job.clone()))]).unwrap();
            self.promises.lock().unwrap().accepted.insert(job.job);
        }
        for ((job, log), (_, restart)) in self.logs.iter().zip(LOGS) {
            let mut sending = store.logs().open(log.attempt).unwrap();
            if let Some(at) = restart {
                let at = log.edges.iter().copied().find(|edge| *edge >= at).unwrap();
                sending.append(0, &log.bytes[..log.edges[5]]).unwrap();
                append_to(&mut sending, log, log.edges[5], at);
                drop((sending, writer, store));
                (store, writer) = self.open();
                sending = store.logs().open(log.attempt).unwrap();
                assert_eq!(sending.state().position, at as u64);
            }
            let from = usize::try_from(sending.state().position).unwrap();
            append(&mut sending, log, from);
            store.logs().settle();
            self.compressor(false);
            let sealed = sending.seal(&log.seals(), log.length()).unwrap();
            let mut batch = vec![Record::Job(Box::new(done(job.clone(), Verdict::Passed, log.length())))];
            batch.extend(sealed.inline.map(|bytes| Record::Log { attempt: log.attempt, bytes }));
            writer.commit(&batch).unwrap();
            self.promises.lock().unwrap().done.insert(job.job);
            self.compressor(true);
            store.logs().settle();
        }
        store.logs().retain(&Retention::default(), 0).unwrap();
        drop((writer, store));
        let steps = self.model.lock().unwrap().steps;
        let mut promises = self.promises.lock().unwrap();
        starts_again(self.directory.path(), &self.logs, &mut promises, Stop::Kill);
        steps
    }
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_at_any_step() {
    assert!(Run::new(Stop::Kill).all() > 30);
}

#[test]
fn nothing_is_lost_when_power_is_lost_at_any_step() {
    assert!(Run::new(Stop::Power).all() > 30);
}

#[test]
fn nothing_is_lost_when_power_loss_leaves_zeros() {
    assert!(Run::new(Stop::Zeros).all() > 30);
}
