use super::{Branch, SharedRuns, Table, TestRun, Writer};
use crate::store::{ObjectsUrl, Server, Store, TestRuns};
use buildpool_digest::TestResult;
use buildpool_protocol::evidence::TestStatus;
use buildpool_test_postgres::Postgres;
use std::cell::RefCell;
use std::sync::mpsc::sync_channel;

struct Home {
    directory: tempfile::TempDir,
    database: String,
}

impl Home {
    fn new(postgres: &Postgres) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), database: postgres.database() }
    }

    fn rows(&self) -> TestRuns {
        let server = Server::new(self.database.parse().unwrap()).unwrap();
        let objects = ObjectsUrl::Directory(self.directory.path().join("objects"));
        let store = Store::open_shared(self.directory.path(), &server, &objects, std::iter::empty()).unwrap();
        TestRuns::new(store.reader())
    }

    /// Returns the writer of one of several coordinators.
    fn writer<B: Fn() + 'static>(
        &self,
        name: &str,
        at_branch: B,
    ) -> Writer<impl Fn(&buildpool_protocol::spec::JobSpec) -> Option<String>> {
        let table = Table::open(&self.directory.path().join(name)).unwrap();
        let shared = SharedRuns { place: "here".into(), rows: self.rows() };
        let branch = move |_: &buildpool_protocol::spec::JobSpec| {
            at_branch();
            None
        };
        Writer { table, shared, branch, is_copied: false, unpruned: (0, 0) }
    }
}

fn run(job: u8) -> TestRun {
    TestRun {
        job: [job; 16],
        at_ms: i64::from(job),
        project: "p".into(),
        command: "make test".into(),
        submitter: "ada".into(),
        worker: "w0".into(),
        branch: Branch::Known(None),
        tree: None,
        passed: true,
        all_passed: true,
        results: vec![TestResult {
            name: "a".into(),
            status: TestStatus::Passed,
            flaky: false,
            duration_secs: None,
        }],
    }
}

/// The jobs of the only test's results, in their order.
fn jobs(table: &Table) -> Vec<u8> {
    let (tests, _) = table.list(&super::HistoryQuery { limit: 10, ..Default::default() }).unwrap();
    tests.iter().flat_map(|test| &test.points).map(|point| point.job[0]).collect()
}

#[test]
fn runs_that_end_while_earlier_ones_are_copied_follow_them() {
    let Some(postgres) = Postgres::shared() else { return };
    let home = Home::new(postgres);
    let mut earlier = home.writer("earlier", || {});
    earlier.is_copied = true;
    (1..=5).for_each(|job| earlier.take(&run(job)));
    // More runs than the queue holds end while the first rows are copied: each is put into the queue when the one before
    // it is taken out.
    let (queue, runs) = sync_channel(1);
    let spec = std::sync::Arc::new(buildpool_protocol::spec::JobSpec::new(
        buildpool_protocol::spec::Command::Shell("true".into()),
        buildpool_protocol::spec::Source::Empty,
    ));
    let next = RefCell::new(7..=9_u8);
    let of = move |job| TestRun { branch: Branch::Of(spec.clone()), ..run(job) };
    queue.try_send(of(6)).unwrap();
    let mut new = home.writer("new", move || {
        let job = next.borrow_mut().next();
        job.into_iter().for_each(|job| queue.try_send(of(job)).unwrap());
    });
    new.copy(&runs).unwrap();
    new.is_copied = true;
    assert_eq!(jobs(&new.table), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    new.take(&run(10));
    assert_eq!(jobs(&new.table), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn a_restored_backup_leaves_no_gap() {
    let Some(postgres) = Postgres::shared() else { return };
    let home = Home::new(postgres);
    let name = home.database.rsplit('/').next().unwrap();
    let (_queue, none) = sync_channel(1);
    let mut one = home.writer("one", || {});
    one.is_copied = true;
    (1..=4).for_each(|job| one.take(&run(job)));
    let mut two = home.writer("two", || {});
    two.copy(&none).unwrap();
    assert_eq!(jobs(&two.table), [1, 2, 3, 4]);
    // A backup from before the rows 3 and 4 is restored. Other runs get their numbers, and more.
    assert!(postgres.psql(
        name,
        "DELETE FROM test_runs WHERE seq > 2; SELECT setval(pg_get_serial_sequence('test_runs', 'seq'), 2)"
    ));
    (5..=8).for_each(|job| one.take(&run(job)));
    assert_eq!(
        one.shared.rows.after(0).unwrap().iter().map(|row| row.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    two.copy(&none).unwrap();
    assert_eq!(jobs(&two.table), [1, 2, 3, 4, 5, 6, 7, 8]);
    // The last row is the one that was copied last, so nothing is copied again.
    assert_eq!(two.shared.copied(&two.table).unwrap(), 6);
}

#[test]
fn a_run_that_the_table_refuses_is_copied_later() {
    let Some(postgres) = Postgres::shared() else { return };
    let home = Home::new(postgres);
    let (_queue, none) = sync_channel(1);
    let mut writer = home.writer("one", || {});
    writer.is_copied = true;
    writer.take(&run(1));
    let database = home.directory.path().join("one").join(super::TESTS_FILE);
    let other = rusqlite::Connection::open(database).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'full'); END";
    other.execute_batch(refuse).unwrap();
    writer.take(&run(2));
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    assert!(!writer.is_copied);
    writer.copy(&none).unwrap();
    assert_eq!(jobs(&writer.table), [1, 2]);
}
