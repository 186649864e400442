//! Everything stops at every step that reaches the disk, and starts again from what is there.

use super::support::{Produced, done, first, granted, job, read_all, scratch};
use crate::store::{Disk, Hook, JobRecord, Lookup, Operation, Record, Retention, SealError, Store};
use buildpool_protocol::JobId;
use buildpool_protocol::report::Verdict;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;

/// What is left of the disk's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// The process is killed: the kernel still writes everything.
    Kill,
    /// Power is lost: what was not made to last is cut off, files that were not are gone, removed ones are back.
    Power,
    /// The same, with zeros where bytes were not made to last.
    Zeros,
}

/// The data directory as a crash would leave it.
struct Model {
    directory: PathBuf,
    /// Bytes of each file that were made to last.
    synced: HashMap<PathBuf, usize>,
    /// Files whose names were made to last.
    named: HashSet<PathBuf>,
    /// Removed files whose names may come back.
    removed: HashMap<PathBuf, Vec<u8>>,
    /// What each thread is doing; it is done when the thread does the next thing.
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
        if stop != Stop::Kill {
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

/// What the outside was told.
#[derive(Default)]
struct Promises {
    accepted: HashSet<JobId>,
    done: HashSet<JobId>,
    /// Logs whose files were found like this before, and were completed then.
    completed: HashSet<blake3::Hash>,
}

/// The files of a log, their names and what is in them.
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

/// Starts a coordinator on the image: every promise holds, every log is a prefix of what was written and can be completed.
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

fn append(writer: &mut crate::store::LogWriter, log: &Produced, mut from: usize) {
    for edge in &log.edges {
        if *edge > from && (edge - from > 600_000 || *edge == log.bytes.len()) {
            writer.append(from as u64, &log.bytes[from..*edge]).unwrap();
            from = *edge;
        }
    }
}

/// A short log, one that is longer than a segment, one that is evicted; each step is followed by what would be left.
fn stops_at_every_step(stop: Stop) -> usize {
    let directory = scratch();
    let logs: Arc<Vec<(JobRecord, Produced)>> = Arc::new(
        [2_000, 4_700_000, 40_000]
            .into_iter()
            .map(|bytes| {
                let job = granted(job(1));
                let log = Produced::lines(first(&job), bytes, 60_000);
                (job, log)
            })
            .collect(),
    );
    let promises = Arc::new(Mutex::new(Promises::default()));
    let model = Arc::new(Mutex::new(Model::new(directory.path())));
    let armed: Arc<OnceLock<()>> = Arc::default();
    let hook: Arc<Hook> = {
        let (logs, promises, model, armed) = (logs.clone(), promises.clone(), model.clone(), armed.clone());
        Arc::new(move |operation, path: &Path| -> io::Result<()> {
            let mut model = model.lock().unwrap();
            model.step(operation, path);
            if armed.get().is_some() {
                let image = model.image(stop);
                starts_again(image.path(), &logs, &mut promises.lock().unwrap(), stop);
            }
            Ok(())
        })
    };
    let store = Store::open_on(directory.path(), Disk::hooked(hook)).unwrap();
    let mut writer = store.writer().unwrap();
    armed.set(()).unwrap();
    for (job, _) in logs.iter() {
        writer.commit(&[Record::Job(Box::new(job.clone()))]).unwrap();
        promises.lock().unwrap().accepted.insert(job.job);
    }
    for (job, log) in logs.iter() {
        let mut sending = store.logs().open(log.attempt).unwrap();
        append(&mut sending, log, 0);
        store.logs().settle();
        let sealed = sending.seal(&log.seals(), log.length()).unwrap();
        store.logs().settle();
        let mut batch = vec![Record::Job(Box::new(done(job.clone(), Verdict::Passed, log.length())))];
        batch.extend(sealed.inline.map(|bytes| Record::Log { attempt: log.attempt, bytes }));
        writer.commit(&batch).unwrap();
        promises.lock().unwrap().done.insert(job.job);
    }
    store.logs().retain(&Retention::default(), 0).unwrap();
    drop((writer, store));
    let steps = model.lock().unwrap().steps;
    starts_again(directory.path(), &logs, &mut promises.lock().unwrap(), Stop::Kill);
    steps
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_at_any_step() {
    assert!(stops_at_every_step(Stop::Kill) > 20);
}

#[test]
fn nothing_is_lost_when_power_is_lost_at_any_step() {
    assert!(stops_at_every_step(Stop::Power) > 20);
}

#[test]
fn nothing_is_lost_when_power_loss_leaves_zeros() {
    assert!(stops_at_every_step(Stop::Zeros) > 20);
}
