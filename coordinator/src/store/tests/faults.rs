//! Tests on a disk that fails, is full or blocks.

use super::support::{Produced, first, granted, job, read_all, scratch};
use crate::store::{Appended, Disk, Hook, LogError, Operation, Record, SealError, Store};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

/// Errors to return: operation, suffix of the file name, kind of error.
#[derive(Default)]
struct Faults {
    rules: Mutex<Vec<(Operation, &'static str, io::ErrorKind)>>,
}

impl Faults {
    fn set(&self, operation: Operation, file: &'static str, error: io::ErrorKind) {
        self.rules.lock().unwrap().push((operation, file, error));
    }

    fn clear(&self) {
        self.rules.lock().unwrap().clear();
    }

    fn store(self: &Arc<Self>, directory: &Path) -> Store {
        let faults = Arc::clone(self);
        let hook: Arc<Hook> = Arc::new(move |operation, path: &Path| {
            let rules = faults.rules.lock().unwrap();
            let name = path.to_string_lossy();
            match rules.iter().find(|(of, file, _)| *of == operation && name.ends_with(file)) {
                Some((_, _, error)) => Err((*error).into()),
                None => Ok(()),
            }
        });
        Store::open_on(directory, Disk::hooked(hook)).unwrap()
    }
}

#[test]
fn a_full_disk_refuses_output_and_loses_none() {
    let directory = scratch();
    let faults = Arc::new(Faults::default());
    let store = faults.store(directory.path());
    let log = Produced::lines(first(&job(1)), 6_000_000, 50_000);
    let mut writer = store.logs().open(log.attempt).unwrap();
    let half = log.edges[log.edges.len() / 2];
    writer.append(0, &log.bytes[..half]).unwrap();
    faults.set(Operation::Write, ".raw", io::ErrorKind::StorageFull);
    let error = writer.append(half as u64, &log.bytes[half..]).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert_eq!(writer.state().position, half as u64);
    faults.clear();
    let stored = writer.append(half as u64, &log.bytes[half..]).unwrap();
    assert_eq!(stored, Appended::Stored { position: log.length() });
    writer.seal(&log.seals(), log.length()).unwrap();
    assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes);
}

#[test]
fn a_full_disk_refuses_records_and_changes_none() {
    let directory = scratch();
    let faults = Arc::new(Faults::default());
    let store = faults.store(directory.path());
    let mut writer = store.writer().unwrap();
    let kept = job(1);
    writer.commit(&[Record::Job(Box::new(kept.clone()))]).unwrap();
    faults.set(Operation::Commit, "records.db", io::ErrorKind::StorageFull);
    let batch = [Record::Job(Box::new(granted(kept.clone()))), Record::Job(Box::new(job(2)))];
    let error = writer.commit(&batch).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert_eq!(writer.live_jobs().unwrap(), [kept]);
    faults.clear();
    writer.commit(&batch).unwrap();
    assert_eq!(writer.live_jobs().unwrap().len(), 2);
}

#[test]
fn after_a_failed_sync_nothing_of_the_log_is_believed() {
    let directory = scratch();
    let faults = Arc::new(Faults::default());
    let store = faults.store(directory.path());
    let log = Produced::lines(first(&job(1)), 100_000, 5_000);
    let mut writer = store.logs().open(log.attempt).unwrap();
    writer.append(0, &log.bytes).unwrap();
    faults.set(Operation::Sync, ".raw", io::ErrorKind::Other);
    assert!(matches!(writer.seal(&log.seals(), log.length()), Err(SealError::Log(LogError::File { .. }))));
    faults.clear();
    // A second sync would succeed, but would prove nothing.
    assert!(matches!(writer.seal(&log.seals(), log.length()), Err(SealError::Log(LogError::Broken))));
    assert!(matches!(writer.append(0, &log.bytes), Err(LogError::Broken)));
    writer.restart().unwrap();
    writer.append(0, &log.bytes).unwrap();
    writer.seal(&log.seals(), log.length()).unwrap();
}

#[test]
fn a_log_that_cannot_be_compressed_stays_as_it_is() {
    let directory = scratch();
    let faults = Arc::new(Faults::default());
    let store = faults.store(directory.path());
    for operation in [Operation::Create, Operation::Write, Operation::Sync] {
        let log = Produced::lines(first(&job(1)), 5_000_000, 50_000);
        let mut writer = store.logs().open(log.attempt).unwrap();
        faults.set(operation, ".pack", io::ErrorKind::StorageFull);
        let half = log.edges[log.edges.len() - 3];
        writer.append(0, &log.bytes[..half]).unwrap();
        store.logs().settle();
        assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes[..half], "{operation:?}");
        faults.clear();
        writer.append(half as u64, &log.bytes[half..]).unwrap();
        writer.seal(&log.seals(), log.length()).unwrap();
        store.logs().settle();
        assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes, "{operation:?}");
    }
}

#[test]
fn output_is_taken_while_the_disk_stands_still_for_the_compressor() {
    let directory = scratch();
    let gate: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let hook: Arc<Hook> = {
        let gate = Arc::clone(&gate);
        Arc::new(move |operation, path: &Path| {
            if operation == Operation::Sync && path.extension().is_some_and(|extension| extension == "pack") {
                let open = gate.0.lock().unwrap();
                drop(gate.1.wait_while(open, |open| !*open).unwrap());
            }
            Ok(())
        })
    };
    let store = Store::open_on(directory.path(), Disk::hooked(hook)).unwrap();
    let log = Produced::lines(first(&job(1)), 12_000_000, 50_000);
    let mut writer = store.logs().open(log.attempt).unwrap();
    let mut from = 0;
    for edge in log.edges.iter().skip(1) {
        writer.append(from as u64, &log.bytes[from..*edge]).unwrap();
        from = *edge;
    }
    assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes);
    writer.seal(&log.seals(), log.length()).unwrap();
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    store.logs().settle();
    assert!(read_all(&mut writer.reader(), 1 << 20) == log.bytes);
}
