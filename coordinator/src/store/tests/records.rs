use super::support::{done, granted, job, scratch};
use crate::store::{
    HistoryKey, JobFilter, JobRecord, Lookup, PassingRun, Record, ResolveError, Store, StoreError,
};
use buildpool_protocol::report::Verdict;

#[test]
fn records_are_read_back_as_they_were_written() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let mut first = job(1_000);
    first.client_request_id = Some("r1".into());
    let second = job(2_000);
    writer.commit(&[Record::Job(Box::new(first.clone())), Record::Job(Box::new(second.clone()))]).unwrap();
    assert_eq!(writer.live_jobs().unwrap(), [first.clone(), second.clone()]);

    let first = granted(first);
    writer.commit(&[Record::Job(Box::new(first.clone()))]).unwrap();
    let first = done(first, Verdict::Passed, 0);
    writer.commit(&[Record::Job(Box::new(first.clone()))]).unwrap();

    let reader = store.reader();
    assert_eq!(reader.job(first.job).unwrap(), Lookup::Found(Box::new(first.clone())));
    assert_eq!(reader.job(job(0).job).unwrap(), Lookup::Unknown);
    assert_eq!(writer.live_jobs().unwrap(), std::slice::from_ref(&second));
    assert_eq!(reader.jobs(&JobFilter::default(), 10).unwrap(), [second.clone(), first.clone()]);
    let over = JobFilter { done: Some(true), ..JobFilter::default() };
    assert_eq!(reader.jobs(&over, 10).unwrap(), std::slice::from_ref(&first));
    let of = |principal| JobFilter { principal: Some(principal), ..over };
    assert_eq!(reader.jobs(&of("token-1"), 10).unwrap(), std::slice::from_ref(&first));
    assert_eq!(reader.jobs(&of("token-2"), 10).unwrap(), []);
    assert_eq!(reader.by_client_request("token-1", "r1").unwrap(), Some(first.job));
    assert_eq!(reader.by_client_request("token-2", "r1").unwrap(), None);
}

#[test]
fn a_job_that_is_over_does_not_change() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let passed = done(granted(job(1)), Verdict::Passed, 0);
    let mut failed = passed.clone();
    failed.done.as_mut().unwrap().verdict = Verdict::Failed;
    writer.commit(&[Record::Job(Box::new(passed.clone()))]).unwrap();
    writer.commit(&[Record::Job(Box::new(failed))]).unwrap();
    assert_eq!(store.reader().job(passed.job).unwrap(), Lookup::Found(Box::new(passed)));
}

#[test]
fn what_an_equal_submit_attaches_to_outlives_the_process_until_it_is_taken_back_or_its_record_goes() {
    let directory = scratch();
    let attachable = |job: &JobRecord, attachable| Record::Attachable { job: job.job, attachable };
    let (one, two, over) = (job(1), job(2), done(granted(job(3)), Verdict::Passed, 0));
    {
        let store = Store::open(directory.path()).unwrap();
        let mut writer = store.writer().unwrap();
        for job in [&one, &two, &over] {
            let batch = [Record::Job(Box::new(job.clone())), attachable(job, true), attachable(job, true)];
            writer.commit(&batch).unwrap();
        }
        writer.commit(&[attachable(&two, false), attachable(&job(9), true)]).unwrap();
    }
    let store = Store::open(directory.path()).unwrap();
    let writer = store.writer().unwrap();
    assert_eq!(writer.attachable_jobs().unwrap(), [one, over]);
    let connection = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
    let rows: u32 = connection.query_row("SELECT count(*) FROM attachable", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2, "one without a record is forgotten");
}

#[test]
fn the_first_format_is_brought_to_the_newest_and_keeps_its_jobs() {
    let directory = scratch();
    let kept = job(1);
    {
        let store = Store::open(directory.path()).unwrap();
        store.writer().unwrap().commit(&[Record::Job(Box::new(kept.clone()))]).unwrap();
    }
    let connection = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
    connection
        .execute_batch(
            "DROP TABLE attachable; DROP TABLE events; DROP TABLE addresses; DROP TABLE objects; DROP TABLE test_runs; PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(connection);
    let store = Store::open(directory.path()).unwrap();
    let writer = store.writer().unwrap();
    assert_eq!((writer.live_jobs().unwrap(), writer.attachable_jobs().unwrap()), (vec![kept], vec![]));
}

#[test]
fn a_prefix_names_a_job_when_it_is_unique() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let mut one = job(1);
    one.job = "01980000-0000-7000-8000-000000000001".parse().unwrap();
    let mut two = job(2);
    two.job = "01980000-0000-7000-8000-0000000000f2".parse().unwrap();
    writer.commit(&[Record::Job(Box::new(one.clone())), Record::Job(Box::new(two.clone()))]).unwrap();
    let reader = store.reader();
    assert_eq!(reader.resolve_prefix(&one.job.to_string()).unwrap(), one.job);
    assert_eq!(reader.resolve_prefix("0198000000007000800000000000000").unwrap(), one.job);
    assert_eq!(reader.resolve_prefix("01980000-0000-7000-8000-0000000000F").unwrap(), two.job);
    assert!(
        matches!(reader.resolve_prefix("0198"), Err(ResolveError::Ambiguous(ids)) if ids == [two.job, one.job])
    );
    assert!(matches!(reader.resolve_prefix("0199"), Err(ResolveError::Unknown)));
    let short = reader.short_id(two.job).unwrap();
    assert_eq!(short, "019800000000700080000000000000f");
    assert_eq!(reader.resolve_prefix(&short).unwrap(), two.job);
    for text in ["", "-", "xyz", "01980000-0000-7000-8000-000000000001-0"] {
        assert!(matches!(reader.resolve_prefix(text), Err(ResolveError::NotAnId)), "{text}");
    }
    for (text, is_whole) in [(&format!("build-{}", one.job)[..], true), ("build-0198", false)] {
        let refused = reader.resolve_prefix(text);
        assert!(matches!(refused, Err(ResolveError::Build(build)) if build.is_some() == is_whole), "{text}");
    }
}

#[test]
fn the_history_keeps_the_last_passing_runs_of_a_command() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    let mut writer = store.writer().unwrap();
    let job = job(1);
    let key = HistoryKey::from_spec(&job.spec);
    let run = |finished_at_ms| PassingRun {
        key,
        job: job.job,
        finished_at_ms,
        duration_ms: 3,
        tests_total: Some(12),
        findings: vec!["warning: unused".into()],
    };
    for at in 0..30 {
        writer.commit(&[Record::Passed(Box::new(run(at)))]).unwrap();
    }
    let history = store.reader().history(key).unwrap();
    assert_eq!(history.len(), 20);
    assert_eq!(history[0], run(29));
    assert_eq!(store.reader().history(HistoryKey([0; 16])).unwrap(), []);
}

#[test]
fn a_second_coordinator_on_the_same_directory_is_refused() {
    let directory = scratch();
    let store = Store::open(directory.path()).unwrap();
    match Store::open(directory.path()) {
        Err(StoreError::InUse { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    let start = store.start();
    drop(store);
    let again = Store::open(directory.path()).unwrap();
    assert!(again.start() > start);
    assert!(again.epoch_base() > start << 24);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let directory = scratch();
    drop(Store::open(directory.path()).unwrap());
    let path = directory.path().join("records.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    match Store::open(directory.path()) {
        Err(error @ StoreError::Newer { found: 999, .. }) => {
            assert!(error.to_string().contains("run the newer version"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_is_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = scratch();
    let data = directory.path().join("data");
    let store = Store::open(&data).unwrap();
    let mut writer = store.writer().unwrap();
    writer.commit(&[Record::Job(Box::new(job(1)))]).unwrap();
    drop(crate::auth::Tokens::open(&data).unwrap());
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "{:?} is open to others", entry.path());
    }
}

#[test]
fn rows_that_can_not_be_read_are_skipped_and_the_others_stay_readable() {
    let directory = scratch();
    let (live, bad_live) = (job(1), job(2));
    let (over, bad_over) =
        (done(granted(job(3)), Verdict::Passed, 0), done(granted(job(4)), Verdict::Passed, 0));
    let key = HistoryKey::from_spec(&live.spec);
    let run = |duration_ms| PassingRun {
        key,
        job: over.job,
        finished_at_ms: 1,
        duration_ms,
        tests_total: None,
        findings: Vec::new(),
    };
    {
        let store = Store::open(directory.path()).unwrap();
        let mut writer = store.writer().unwrap();
        for job in [&live, &bad_live, &over, &bad_over] {
            let attachable = Record::Attachable { job: job.job, attachable: true };
            writer.commit(&[Record::Job(Box::new(job.clone())), attachable]).unwrap();
        }
        for duration_ms in [7, u64::MAX] {
            writer.commit(&[Record::Passed(Box::new(run(duration_ms)))]).unwrap();
        }
    }
    let connection = rusqlite::Connection::open(directory.path().join("records.db")).unwrap();
    let spoil = |job: &JobRecord, body: &str| {
        let changed = connection.execute(
            "UPDATE jobs SET body = ?2 WHERE id = ?1",
            rusqlite::params![job.job.as_uuid().as_bytes(), body],
        );
        assert_eq!(changed.unwrap(), 1);
    };
    spoil(&bad_live, "{");
    spoil(&bad_over, &format!("{{\"done\":{{\"attempt\":{}}}}}", u64::MAX));
    connection.execute("INSERT INTO passing(key, body) VALUES(?1, '{}')", [key.0]).unwrap();
    connection.execute("INSERT INTO passing(key, body) VALUES(?1, x'ff')", [key.0]).unwrap();
    connection.execute("INSERT INTO workers(id, body) VALUES(x'00', 'null')", []).unwrap();
    drop(connection);

    let store = Store::open(directory.path()).unwrap();
    let writer = store.writer().unwrap();
    let reader = store.reader();
    assert_eq!(writer.live_jobs().unwrap(), std::slice::from_ref(&live));
    assert_eq!(writer.attachable_jobs().unwrap(), [live.clone(), over.clone()]);
    assert_eq!(reader.jobs(&JobFilter::default(), 10).unwrap(), [over.clone(), live]);
    assert_eq!(reader.usual_duration(key).unwrap(), Some(std::time::Duration::from_millis(7)));
    assert_eq!(reader.history(key).unwrap().len(), 2);
    assert_eq!(reader.workers().unwrap(), []);
    assert!(matches!(reader.job(bad_over.job), Err(StoreError::Record { .. })));
}
