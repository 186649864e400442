//! The tables of the history, in `tests.db`.

use super::stats::{Flaky, Point, Stats, TestOutcome};
use super::{TestRun, outcome};
use crate::store::{Disk, StoreError, TESTS, make_directory, migrate, open_database, setup_lock};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, named_params, params};
use std::path::Path;

/// Name of the database in the data directory.
pub(crate) const TESTS_FILE: &str = "tests.db";
/// Limit on the stored results of one test. The oldest are removed first.
const RESULTS_OF_TEST_MAX: u32 = 100;
/// Limit on tests. Above it, the submitter with the most tests loses its oldest ones.
const TESTS_MAX: i64 = 50_000;
/// Limit on runs. The results of older runs are removed.
const RUNS_MAX: i64 = 20_000;
/// Limit on the used pages of the database, in bytes. Above it, the submitter whose tests have the longest texts loses its
/// oldest ones.
const BYTES_MAX: i64 = 512 << 20;
/// Bytes that a test counts as, besides its texts: its row, its part of the indexes and its results.
const TEST_BYTES: i64 = 4 << 10;
/// A submitter loses this part of its tests at a time, and at least one.
const TESTS_REMOVED_PART: i64 = 8;
/// Time that a test and a run are kept, in milliseconds.
pub(super) const AGE_MS: i64 = 90 * 24 * 60 * 60 * 1000;
/// Newest durations that the percentile of a test without failures is computed from.
const DURATIONS_READ: u32 = 30;

/// Which tests a list has.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryQuery {
    pub(crate) flaky: bool,
    pub(crate) slow: bool,
    pub(crate) failing: bool,
    pub(crate) project: Option<String>,
    pub(crate) scope: Scope,
    /// The list continues after this place.
    pub(crate) after: Option<Position>,
    pub(crate) limit: usize,
}

/// Which results count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scope {
    /// Only those of the jobs of this submitter.
    pub(crate) submitter: Option<String>,
    /// Only those of this branch.
    pub(crate) branch: Option<String>,
    /// Only those of this worker.
    pub(crate) worker: Option<String>,
}

impl Scope {
    /// Returns true if all results count.
    fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Place in a list: the value that orders it, and the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) value: i64,
    pub(crate) test: i64,
}

/// A test and its results, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) project: String,
    pub(crate) command: String,
    pub(crate) name: String,
    pub(crate) stats: Stats,
    pub(crate) points: Vec<Point>,
}

/// The database of the history.
#[derive(Debug)]
pub(crate) struct Table {
    connection: Connection,
}

/// Operations in errors.
const WRITING: &str = "write the history of tests";
const READING: &str = "read the history of tests";

impl Table {
    /// Opens the database, and creates it if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::File`], [`StoreError::Database`].
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        make_directory(directory)?;
        let _setup = setup_lock(directory)?;
        let path = directory.join(TESTS_FILE);
        let mut connection = open_database(&path, &Disk::default())?;
        migrate(&mut connection, &path, &TESTS)?;
        // A power loss may cost the newest results, and the database stays consistent.
        connection
            .pragma_update(None, "synchronous", "normal")
            .map_err(StoreError::database("set up the database"))?;
        Ok(Self { connection })
    }

    /// Writes the results of a job. Those of a job that is known already are ignored.
    pub(super) fn write(&mut self, run: &TestRun, branch: Option<&str>) -> Result<(), StoreError> {
        let mut act = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            write(&transaction, run, branch)?;
            transaction.commit()
        };
        act().map_err(StoreError::database(WRITING))
    }

    /// Removes rows above the limits and older ones than the limit of age.
    pub(super) fn prune(&mut self, now_ms: i64) -> Result<(), StoreError> {
        self.prune_to(now_ms, BYTES_MAX)
    }

    fn prune_to(&mut self, now_ms: i64, bytes_max: i64) -> Result<(), StoreError> {
        let mut act = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            prune(&transaction, now_ms)?;
            limit_bytes(&transaction, bytes_max)?;
            transaction.commit()
        };
        act().map_err(StoreError::database(WRITING))
    }

    /// Returns the number of the last row that was copied from a place, and its job.
    pub(super) fn copied(&self, place: &str) -> Result<Option<(i64, [u8; 16])>, StoreError> {
        let sql = "SELECT seq, job FROM copied WHERE place = ?1 AND job IS NOT NULL";
        self.connection
            .query_row(sql, params![place], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(StoreError::database(READING))
    }

    pub(super) fn set_copied(&self, place: &str, seq: i64, job: [u8; 16]) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO copied(place, seq, job) VALUES(?1, ?2, ?3)";
        self.connection
            .execute(sql, params![place, seq, job])
            .map(drop)
            .map_err(StoreError::database(WRITING))
    }

    pub(super) fn list(&self, wanted: &HistoryQuery) -> Result<(Vec<Test>, Option<Position>), StoreError> {
        list(&self.connection, wanted).map_err(StoreError::database(READING))
    }

    /// Returns the tests with these names that are flaky.
    pub(super) fn known_flaky(
        &self,
        project: &str,
        command: &str,
        names: &[&str],
        scope: &Scope,
    ) -> Result<Vec<(String, Flaky)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(String, Flaky)>> {
            let mut known = Vec::new();
            let mut statement = self.connection.prepare_cached(
                // The column `flaky` counts the results of all submitters.
                "SELECT id FROM tests WHERE project = ?1 AND command = ?2 AND name = ?3 AND doubtful",
            )?;
            for name in names {
                let test =
                    statement.query_row(params![project, command, name], |row| row.get(0)).optional()?;
                let Some(test) = test else { continue };
                let flaky = Stats::from_points(&points(&self.connection, test, scope)?).flaky;
                known.extend(flaky.map(|flaky| ((*name).to_owned(), flaky)));
            }
            Ok(known)
        };
        read().map_err(StoreError::database(READING))
    }
}

fn write(transaction: &Transaction<'_>, run: &TestRun, branch: Option<&str>) -> rusqlite::Result<()> {
    let added = transaction
        .prepare_cached(
            "INSERT INTO runs(job, at_ms, submitter, worker, branch, tree) VALUES(?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT(job) DO NOTHING",
        )?
        .execute(params![run.job, run.at_ms, run.submitter, run.worker, branch, run.tree])?;
    if added == 0 {
        return Ok(());
    }
    let id = transaction.last_insert_rowid();
    for result in &run.results {
        let test: i64 = transaction
            .prepare_cached(
                "INSERT INTO tests(project, command, name, submitter, seen_ms) VALUES(?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT(project, command, name) DO UPDATE SET seen_ms = ?5 RETURNING id",
            )?
            .query_row(params![run.project, run.command, result.name, run.submitter, run.at_ms], |row| {
                row.get(0)
            })?;
        let duration = result.duration_secs.map(|secs| (secs * 1000.0) as i64);
        add(transaction, test, id, outcome(result), duration)?;
    }
    if run.passed {
        settle(transaction, run, id)?;
    }
    Ok(())
}

/// Adds one result of a test, and computes the columns that lists are ordered by.
fn add(
    transaction: &Transaction<'_>,
    test: i64,
    run: i64,
    outcome: TestOutcome,
    duration_ms: Option<i64>,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO results(test, run, outcome, duration_ms) VALUES(?1, ?2, ?3, ?4)",
        )?
        .execute(params![test, run, outcome.code(), duration_ms])?;
    transaction
        .prepare_cached(
            "DELETE FROM results WHERE test = ?1 AND run <=
             (SELECT run FROM results WHERE test = ?1 ORDER BY run DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![test, RESULTS_OF_TEST_MAX])?;
    if outcome == TestOutcome::Failed
        || outcome == TestOutcome::PassedLater
        || is_doubtful(transaction, test)?
    {
        return summarize(transaction, test);
    }
    // Most tests never fail. Only their durations change.
    let durations: Vec<i64> = transaction
        .prepare_cached(
            "SELECT duration_ms FROM results WHERE test = ?1 AND duration_ms IS NOT NULL ORDER BY run DESC LIMIT ?2",
        )?
        .query_map(params![test, DURATIONS_READ], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut sorted = durations;
    sorted.sort_unstable();
    let slow = sorted.get((sorted.len().saturating_sub(1) * 90).div_ceil(100));
    transaction
        .prepare_cached("UPDATE tests SET slow_ms = ?2 WHERE id = ?1")?
        .execute(params![test, slow.copied().unwrap_or(0)])
        .map(drop)
}

/// Returns true if a test has failed before.
fn is_doubtful(transaction: &Transaction<'_>, test: i64) -> rusqlite::Result<bool> {
    transaction
        .prepare_cached("SELECT doubtful FROM tests WHERE id = ?1")?
        .query_row(params![test], |row| row.get(0))
}

/// Computes the columns of a test that has failed.
fn summarize(connection: &Connection, test: i64) -> rusqlite::Result<()> {
    let stats = Stats::from_points(&points(connection, test, &Scope::default())?);
    connection
        .prepare_cached(
            "UPDATE tests SET doubtful = ?2, flaky = ?3, failing_ms = ?4, slow_ms = ?5 WHERE id = ?1",
        )?
        .execute(params![
            test,
            stats.failed > 0 || stats.flaky.is_some(),
            stats.flaky.map_or(0, |flaky| i64::try_from(flaky.failed).unwrap_or(i64::MAX)),
            stats.failing_since.map_or(0, |(_, at_ms)| at_ms),
            stats.p90_ms.unwrap_or(0)
        ])
        .map(drop)
}

/// Ends the failures of tests that a passed run of their command does not name. If the tool counts passed tests only and
/// the tree is the one in which a test failed, the test passed: it is flaky.
fn settle(transaction: &Transaction<'_>, run: &TestRun, id: i64) -> rusqlite::Result<()> {
    if run.results.is_empty() && run.all_passed && run.tree.is_some() {
        let tests: Vec<i64> = transaction
            .prepare_cached(
                "SELECT DISTINCT t.id FROM tests t JOIN results r ON r.test = t.id AND r.outcome = 1
                 JOIN runs u ON u.id = r.run AND u.tree = ?3
                 WHERE t.project = ?1 AND t.command = ?2 AND t.doubtful",
            )?
            .query_map(params![run.project, run.command, run.tree], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for test in tests {
            add(transaction, test, id, TestOutcome::Passed, None)?;
        }
    }
    let failing: Vec<i64> = transaction
        .prepare_cached("SELECT id FROM tests WHERE project = ?1 AND command = ?2 AND failing_ms > 0")?
        .query_map(params![run.project, run.command], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for test in failing {
        transaction
            .prepare_cached("UPDATE tests SET past_run = ?2 WHERE id = ?1")?
            .execute(params![test, id])?;
        summarize(transaction, test)?;
    }
    Ok(())
}

/// Returns the results of a test, oldest first.
fn points(connection: &Connection, test: i64, scope: &Scope) -> rusqlite::Result<Vec<Point>> {
    let point = |row: &Row<'_>| {
        Ok(Point {
            job: row.get(0)?,
            at_ms: row.get(1)?,
            outcome: TestOutcome::of_code(row.get(2)?),
            duration_ms: row.get(3)?,
            tree: row.get(4)?,
            worker: row.get(5)?,
            branch: row.get(6)?,
            is_past: row.get(7)?,
        })
    };
    connection
        .prepare_cached(
            "SELECT u.job, u.at_ms, r.outcome, r.duration_ms, u.tree, u.worker, u.branch, r.run <= t.past_run
             FROM results r JOIN runs u ON u.id = r.run JOIN tests t ON t.id = r.test
             WHERE r.test = ?1 AND (?2 IS NULL OR u.submitter = ?2) AND (?3 IS NULL OR u.branch = ?3)
               AND (?4 IS NULL OR u.worker = ?4) ORDER BY r.run",
        )?
        .query_map(params![test, scope.submitter, scope.branch, scope.worker], point)?
        .collect()
}

fn list(connection: &Connection, wanted: &HistoryQuery) -> rusqlite::Result<(Vec<Test>, Option<Position>)> {
    let is_all = wanted.scope.is_all();
    // Columns count all results. A test can pass in all and fail in those of one branch.
    let (flaky, failing, doubtful) = match is_all {
        true => (wanted.flaky, wanted.failing, false),
        false => (false, false, wanted.flaky || wanted.failing),
    };
    let column = match wanted {
        HistoryQuery { slow: true, .. } => "slow_ms",
        HistoryQuery { .. } if !is_all => "seen_ms",
        HistoryQuery { failing: true, .. } => "failing_ms",
        HistoryQuery { flaky: true, .. } => "flaky",
        HistoryQuery { .. } => "seen_ms",
    };
    let sql = format!(
        "SELECT id, project, command, name, {column} FROM tests t
         WHERE {column} > 0 AND ({column}, id) < (:value, :test)
           AND (:flaky = 0 OR flaky > 0) AND (:failing = 0 OR failing_ms > 0) AND (:doubtful = 0 OR doubtful)
           AND (:project IS NULL OR project = :project)
           AND (:all OR EXISTS (
               SELECT 1 FROM results r JOIN runs u ON u.id = r.run
               WHERE r.test = t.id AND (:submitter IS NULL OR u.submitter = :submitter)
                 AND (:branch IS NULL OR u.branch = :branch) AND (:worker IS NULL OR u.worker = :worker)))
         ORDER BY {column} DESC, id DESC LIMIT :limit"
    );
    let after = wanted.after.unwrap_or(Position { value: i64::MAX, test: i64::MAX });
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(
        named_params! {
            ":value": after.value, ":test": after.test, ":flaky": flaky, ":failing": failing, ":doubtful": doubtful,
            ":project": wanted.project, ":all": is_all, ":submitter": wanted.scope.submitter,
            ":branch": wanted.scope.branch, ":worker": wanted.scope.worker, ":limit": wanted.limit as i64,
        },
        |row| {
            let place = Position { test: row.get(0)?, value: row.get(4)? };
            Ok((place, row.get(1)?, row.get(2)?, row.get(3)?))
        },
    )?;
    let (mut tests, mut last, mut read) = (Vec::new(), None, 0);
    for row in rows {
        let (place, project, command, name) = row?;
        (last, read) = (Some(place), read + 1);
        let points = points(connection, place.test, &wanted.scope)?;
        let stats = Stats::from_points(&points);
        if (wanted.flaky && stats.flaky.is_none()) || (wanted.failing && stats.failing_since.is_none()) {
            continue;
        }
        tests.push(Test { project, command, name, stats, points });
    }
    Ok((tests, last.filter(|_| read == wanted.limit)))
}

fn prune(transaction: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<()> {
    let oldest: i64 = transaction.query_row(
        "SELECT max(ifnull(max(id), 0) - ?1, (SELECT ifnull(max(id), 0) FROM runs WHERE at_ms < ?2)) FROM runs",
        params![RUNS_MAX, now_ms - AGE_MS],
        |row| row.get(0),
    )?;
    transaction.execute("DELETE FROM runs WHERE id <= ?1", params![oldest])?;
    transaction.execute("DELETE FROM tests WHERE seen_ms < ?1", params![now_ms - AGE_MS])?;
    loop {
        let count: i64 = transaction.query_row("SELECT count(*) FROM tests", [], |row| row.get(0))?;
        if count <= TESTS_MAX {
            break;
        }
        transaction.execute(
            "DELETE FROM tests WHERE id IN (SELECT id FROM tests WHERE submitter =
                 (SELECT submitter FROM tests GROUP BY submitter ORDER BY count(*) DESC LIMIT 1)
             ORDER BY seen_ms, id LIMIT ?1)",
            params![count - TESTS_MAX],
        )?;
    }
    transaction
        .execute("DELETE FROM results WHERE run <= ?1 OR test NOT IN (SELECT id FROM tests)", params![oldest])
        .map(drop)
}

/// Removes tests until the used pages have at most so many bytes.
fn limit_bytes(transaction: &Transaction<'_>, most: i64) -> rusqlite::Result<()> {
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
    let page = number("PRAGMA page_size")?;
    loop {
        let used = (number("PRAGMA page_count")? - number("PRAGMA freelist_count")?) * page;
        if used <= most {
            return Ok(());
        }
        let removed = transaction.execute(
            "DELETE FROM tests WHERE id IN (SELECT id FROM tests WHERE submitter =
                 (SELECT submitter FROM tests GROUP BY submitter
                  ORDER BY sum(length(project) + length(command) + length(name) + ?1) DESC LIMIT 1)
             ORDER BY seen_ms, id
             LIMIT max(1, ifnull((SELECT count(*) / ?2 FROM tests GROUP BY submitter
                 ORDER BY sum(length(project) + length(command) + length(name) + ?1) DESC LIMIT 1), 1)))",
            params![TEST_BYTES, TESTS_REMOVED_PART],
        )?;
        transaction.execute("DELETE FROM results WHERE test NOT IN (SELECT id FROM tests)", [])?;
        let runs = transaction.execute("DELETE FROM runs WHERE id NOT IN (SELECT run FROM results)", [])?;
        if removed + runs == 0 {
            // The empty tables have some pages.
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Branch, TestRun};
    use super::{HistoryQuery, Table};
    use buildpool_digest::TestResult;
    use buildpool_protocol::evidence::TestStatus;

    fn run(job: u8, submitter: &str, name_bytes: usize, tests: usize) -> TestRun {
        let result = |number: usize| TestResult {
            name: format!("{submitter}-{number:03}-{}", "x".repeat(name_bytes)),
            status: TestStatus::Passed,
            flaky: false,
            duration_secs: None,
        };
        TestRun {
            job: [job; 16],
            at_ms: i64::from(job),
            project: "p".into(),
            command: "make test".into(),
            submitter: submitter.into(),
            worker: "w0".into(),
            branch: Branch::Known(None),
            tree: None,
            passed: true,
            all_passed: true,
            results: (0..tests).map(result).collect(),
        }
    }

    #[test]
    fn long_names_of_one_submitter_take_no_place_of_the_tests_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let mut table = Table::open(directory.path()).unwrap();
        table.write(&run(1, "ada", 10, 100), None).unwrap();
        table.write(&run(2, "eve", 10_000, 200), None).unwrap();
        let tests = |table: &Table, submitter: &str| {
            let all = HistoryQuery { limit: 1_000, ..HistoryQuery::default() };
            let (tests, _) = table.list(&all).unwrap();
            tests.iter().filter(|test| test.name.starts_with(submitter)).count()
        };
        table.prune_to(10, 100 << 20).unwrap();
        assert_eq!((tests(&table, "ada"), tests(&table, "eve")), (100, 200));
        table.prune_to(10, 2 << 20).unwrap();
        let left = tests(&table, "eve");
        assert!((1..150).contains(&left), "{left}");
        assert_eq!(tests(&table, "ada"), 100);
        table.prune_to(10, 0).unwrap();
        assert_eq!((tests(&table, "ada"), tests(&table, "eve")), (0, 0));
        table.write(&run(3, "ada", 10, 100), None).unwrap();
        assert_eq!(tests(&table, "ada"), 100);
    }
}
