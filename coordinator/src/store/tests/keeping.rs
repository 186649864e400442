//! Tests of retention, backups and checks.

use super::support::{Produced, done, first, granted, job, read_all, scratch};
use crate::store::records::BodyRef;
use crate::store::{
    Depth, JobRecord, LogError, Lookup, Record, Remark, Retention, Store, Weight, backup, check,
};
use buildpool_protocol::outcome::{Ending, Outcome};
use buildpool_protocol::report::Verdict;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs a job with a log of this many bytes.
fn run(store: &Store, bytes: usize) -> (JobRecord, Produced) {
    let job = granted(job(crate::store::now_ms()));
    let log = Produced::lines(first(&job), bytes, 20_000);
    let mut sending = store.logs().open(log.attempt).unwrap();
    for pair in log.edges.windows(2) {
        sending.append(pair[0] as u64, &log.bytes[pair[0]..pair[1]]).unwrap();
    }
    let sealed = sending.seal(&log.seals(), log.length()).unwrap();
    let mut over = done(job, Verdict::Passed, log.length());
    over.done.as_mut().unwrap().outcome = Some(Box::new(Outcome {
        ending: Ending::Exited { code: 0 },
        acted: None,
        started_at_ms: None,
        finished_at_ms: 0,
        duration: Duration::ZERO,
        seals: log.seals(),
        log_length: log.length(),
        usage: Default::default(),
        survivors: Vec::new(),
        leaked: Vec::new(),
        gaps: Vec::new(),
        evidence: Default::default(),
        artifacts: Vec::new(),
        root: None,
        setup: None,
    }));
    let mut batch = vec![Record::Job(Box::new(over.clone()))];
    batch.extend(sealed.inline.map(|bytes| Record::Log { attempt: log.attempt, bytes }));
    store.writer().unwrap().commit(&batch).unwrap();
    drop(sending);
    store.logs().settle();
    (over, log)
}

/// Reopens the data directory, without the state in memory.
fn again(store: Store, directory: &Path) -> Store {
    drop(store);
    let store = Store::open(directory).unwrap();
    store.logs().settle();
    store
}

const KEEP_ALL: Retention = Retention {
    free_bytes: 0,
    log_age: Duration::from_secs(3600),
    log_bytes: u64::MAX,
    record_age: Duration::from_secs(7200),
    record_bytes: u64::MAX,
};

#[test]
fn the_oldest_records_of_a_submitter_go_beyond_their_size() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let runs: Vec<_> = (0..4).map(|_| run(&store, 100)).collect();
    let now = crate::store::now_ms();
    assert_eq!(store.logs().retain(&KEEP_ALL, now).unwrap().records_evicted, 0);
    let size = |job: &JobRecord| {
        (serde_json::to_string(&BodyRef::from(job)).unwrap().len()
            + serde_json::to_string(&job.spec).unwrap().len()) as u64
    };
    let of_two = runs.iter().map(|(job, _)| size(job)).max().unwrap() * 5 / 2;
    let retention = Retention { record_bytes: of_two, ..KEEP_ALL };
    assert_eq!(store.logs().retain(&retention, now).unwrap().records_evicted, 2);
    let is_kept = |job: &JobRecord| matches!(store.reader().job(job.job).unwrap(), Lookup::Found(_));
    assert_eq!(runs.iter().map(|(job, _)| is_kept(job)).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(store.logs().retain(&retention, now).unwrap().records_evicted, 0);
}

#[test]
fn logs_go_with_age_and_are_remembered() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let runs = [run(&store, 100), run(&store, 100_000)];
    let now = crate::store::now_ms();
    assert_eq!(store.logs().retain(&KEEP_ALL, now).unwrap().logs_evicted, 0);
    let later = store.logs().retain(&KEEP_ALL, now + 3_700_000).unwrap();
    assert_eq!((later.logs_evicted, later.logs, later.log_bytes), (2, 0, 0));
    let store = again(store, directory.path());
    for (job, log) in &runs {
        let evicted = store.logs().reader(log.attempt).unwrap_err();
        assert!(matches!(evicted, LogError::Evicted { oldest } if oldest == log.length()), "{evicted:?}");
        assert!(matches!(store.reader().job(job.job).unwrap(), Lookup::Found(_)));
    }
    let unknown = store.logs().reader(first(&job(1))).unwrap_err();
    assert!(matches!(unknown, LogError::Unknown), "{unknown:?}");

    assert_eq!(store.logs().retain(&KEEP_ALL, now + 7_300_000).unwrap().records_evicted, 2);
    for (job, log) in &runs {
        assert_eq!(store.reader().job(job.job).unwrap(), Lookup::Evicted);
        assert_eq!(store.reader().resolve_prefix(&job.job.to_string()).unwrap(), job.job);
        assert!(matches!(store.logs().reader(log.attempt), Err(LogError::Evicted { .. })));
    }
}

#[test]
fn logs_go_by_size_the_oldest_first_but_never_one_that_is_read_or_written() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let runs: Vec<_> = (0..4).map(|_| run(&store, 200_000)).collect();
    let live = granted(job(1));
    store.writer().unwrap().commit(&[Record::Job(Box::new(live.clone()))]).unwrap();
    let live_log = Produced::lines(first(&live), 200_000, 20_000);
    store.logs().open(live_log.attempt).unwrap().append(0, &live_log.bytes).unwrap();
    let store = again(store, directory.path());
    let ring_is_no_reader = store.logs().ring().size().0;
    assert_eq!(ring_is_no_reader, 4);
    let now = crate::store::now_ms();
    let all = store.logs().retain(&KEEP_ALL, now).unwrap();
    assert_eq!(all.logs, 4);

    // The reader of the oldest log must read files; a log in the ring needs no file.
    let mut reading = store.logs().open(runs[0].1.attempt).unwrap().reader();
    let two = Retention { log_bytes: all.log_bytes / 2, ..KEEP_ALL };
    let kept = store.logs().retain(&two, now).unwrap();
    assert_eq!((kept.logs_evicted, kept.logs), (1, 3), "the oldest is read, the second goes");
    assert_eq!(read_all(&mut reading, 1 << 20), runs[0].1.bytes);
    drop(reading);
    let kept = store.logs().retain(&two, now).unwrap();
    assert_eq!((kept.logs_evicted, kept.logs), (1, 2));
    for (gone, (_, log)) in [true, true, false, false].into_iter().zip(&runs) {
        assert_eq!(store.logs().reader(log.attempt).is_err(), gone);
    }
    store.logs().retain(&Retention { log_bytes: 0, ..KEEP_ALL }, now).unwrap();
    assert_eq!(store.logs().open(live_log.attempt).unwrap().state(), live_log.state);
}

#[test]
fn the_ring_is_filled_again_after_a_restart() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let runs = [run(&store, 300), run(&store, 100_000), run(&store, 5_000_000)];
    assert_eq!(store.logs().ring().size().0, 3);
    let store = again(store, directory.path());
    for (job, log) in &runs {
        let kept = store.logs().ring().get(job.job).unwrap();
        assert_eq!(kept.end(), log.length());
        let start = usize::try_from(kept.start()).unwrap();
        assert!(log.edges.contains(&start) && log.bytes.len() - start <= 4 << 20);
        assert!(*kept.chunks() == log.bytes[start..]);
        assert_eq!(start == 0, log.bytes.len() <= 4 << 20);
    }
}

#[test]
fn a_backup_is_a_data_directory_to_start_from() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let runs = [run(&store, 300), run(&store, 10_000), run(&store, 5_000_000)];
    let waiting = job(5);
    let mut writer = store.writer().unwrap();
    writer.commit(&[Record::Job(Box::new(waiting.clone()))]).unwrap();
    let tokens = crate::auth::Tokens::open(directory.path()).unwrap();
    let token =
        tokens.create(buildpool_protocol::client_link::Role::Admin, "ada", None, None, "local").unwrap();
    let copy = scratch();
    let done = backup(directory.path(), copy.path()).unwrap();
    assert_eq!((done.jobs, done.logs, done.incomplete), (4, 2, 0));
    assert!(backup(directory.path(), copy.path()).is_err(), "it is not empty");
    drop((writer, tokens));

    let restored = Store::open(copy.path()).unwrap();
    assert!(restored.epoch_base() > store.epoch_base(), "epochs go on");
    assert_eq!(restored.writer().unwrap().live_jobs().unwrap(), [waiting]);
    for (job, log) in &runs {
        assert_eq!(restored.reader().job(job.job).unwrap(), Lookup::Found(Box::new(job.clone())));
        assert!(read_all(&mut restored.logs().reader(log.attempt).unwrap(), 1 << 20) == log.bytes);
    }
    drop(restored);
    assert!(crate::auth::Tokens::open(copy.path()).unwrap().verify(&token.token).is_ok());
    assert_eq!(worst(&check(copy.path(), Depth::Full, false)), None);
}

fn worst(remarks: &[Remark]) -> Option<&Remark> {
    remarks.first().filter(|remark| remark.weight > Weight::Note)
}

fn packs(directory: &Path) -> Vec<PathBuf> {
    let logs = std::fs::read_dir(directory.join("logs")).unwrap();
    let files = logs.flat_map(|directory| std::fs::read_dir(directory.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn a_check_finds_what_is_lost_and_what_is_damaged() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    run(&store, 3_000_000);
    let remarks = check(directory.path(), Depth::Full, false);
    assert_eq!(worst(&remarks), None, "{remarks:?}");
    assert!(remarks.iter().any(|remark| remark.text.contains("a coordinator runs here")), "{remarks:?}");
    drop(store);

    let pack = packs(directory.path()).remove(0);
    let whole = std::fs::read(&pack).unwrap();
    let mut damaged = whole.clone();
    damaged[500] ^= 1;
    std::fs::write(&pack, &damaged).unwrap();
    assert_eq!(worst(&check(directory.path(), Depth::Quick, false)), None, "a quick check reads no bytes");
    let remarks = check(directory.path(), Depth::Full, false);
    assert!(worst(&remarks).is_some_and(|remark| remark.text.contains("checksum")), "{remarks:?}");

    std::fs::write(&pack, &whole[..whole.len() - 1]).unwrap();
    let remarks = check(directory.path(), Depth::Quick, false);
    assert!(worst(&remarks).is_some_and(|remark| remark.text.contains("the rest is lost")), "{remarks:?}");

    let remarks = check(&directory.path().join("nothing"), Depth::Quick, false);
    assert_eq!(worst(&remarks).unwrap().text, "there is no such directory");
}

#[test]
fn a_damaged_database_is_refused() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    for _ in 0..50 {
        run(&store, 2_000);
    }
    drop(store);
    let path = directory.path().join("records.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE meta SET value = 0 WHERE key = 'clean'", []).unwrap();
    connection.pragma_update(None, "wal_checkpoint", "truncate").unwrap();
    drop(connection);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let error = Store::open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("damaged") || error.to_string().contains("can't"), "{error}");
    assert!(worst(&check(directory.path(), Depth::Quick, false)).is_some());
}

#[test]
fn a_log_that_lost_bytes_is_damaged_and_its_beginning_can_be_read() {
    for (left, is_settled) in [(0, false), (0, true), (40_000, false), (40_000, true)] {
        let directory = scratch();
        let job = granted(job(1));
        let log = Produced::lines(first(&job), 200_000, 1_000);
        let store = Store::open(directory.path()).unwrap();
        let mut writer = store.logs().open(log.attempt).unwrap();
        writer.append(0, &log.bytes).unwrap();
        writer.seal(&log.seals(), log.length()).unwrap();
        let record = done(job, Verdict::Passed, log.length());
        store.writer().unwrap().commit(&[Record::Job(Box::new(record))]).unwrap();
        drop((writer, store));
        // As a raw segment, so that it can be cut anywhere.
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory.path().join("logs")).unwrap() {
            files.extend(std::fs::read_dir(entry.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
        }
        for path in &files {
            std::fs::remove_file(path).unwrap();
        }
        if left > 0 {
            let name = format!("{}-{}-0.raw", log.attempt.job, log.attempt.number);
            std::fs::write(files[0].with_file_name(name), &log.bytes[..left]).unwrap();
        }
        let store = Store::open(directory.path()).unwrap();
        // The background thread reads the last logs into memory, and others may read at the same time.
        if is_settled {
            store.logs().settle();
        }
        let _other = store.logs().reader(log.attempt).unwrap();
        let mut reader = store.logs().reader(log.attempt).unwrap();
        let mut read = 0;
        let error = loop {
            match reader.read(read as u64, 10_000) {
                Ok(bytes) => {
                    assert!(!bytes.is_empty(), "the loss is reported");
                    assert_eq!(bytes, log.bytes[read..read + bytes.len()]);
                    read += bytes.len();
                }
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, LogError::Damaged { position, declared } if position == read as u64 && declared == log.length()),
            "{error:?}"
        );
        assert!(read <= left && left - read < 1_100, "{read} of {left}");
    }
}
