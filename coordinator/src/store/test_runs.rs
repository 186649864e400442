//! Results of tests that several coordinators share: one compressed row for each job. Each coordinator copies the rows to
//! its own database `tests.db`, which has the indexes.

use super::error::StoreError;
use super::reader::Reader;
use super::sql::{self, Connection, Kind, OptionalExtension, params};

/// Limit on rows.
const ROWS_MAX: i64 = 20_000;
/// Limit on the compressed results in all rows, in bytes. The oldest rows are removed first.
const ROWS_BYTES_MAX: i64 = 512 << 20;
/// Rows that are read at a time.
const READ_ROWS: i64 = 100;

/// A row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TestRunRow {
    pub(crate) seq: i64,
    pub(crate) job: [u8; 16],
    pub(crate) at_ms: i64,
    pub(crate) body: Vec<u8>,
}

/// The shared rows.
#[derive(Debug)]
pub(crate) struct TestRuns {
    reader: Reader,
    connection: Option<Connection>,
}

const WRITING: &str = "write the results of tests";
const READING: &str = "read the results of tests";

impl TestRuns {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { reader, connection: None }
    }

    /// Adds the row of a job, unless it exists. Returns its number. Only a PostgreSQL server has rows of running pools.
    ///
    /// # Errors
    /// If the server does not answer, or another coordinator leads.
    pub(crate) fn add(&mut self, job: [u8; 16], at_ms: i64, body: &[u8]) -> Result<Option<i64>, StoreError> {
        let connection = self.connection()?;
        if connection.kind() == Kind::Sqlite {
            return Ok(None);
        }
        let add = || {
            connection
                .prepare_cached(
                    "INSERT INTO test_runs(job, at_ms, body) VALUES(?1, ?2, ?3) ON CONFLICT(job) DO NOTHING RETURNING seq",
                )?
                .query_row(params![job, at_ms, body], |row| row.get(0))
                .optional()
        };
        add().map_err(StoreError::database(WRITING))
    }

    /// Removes rows above the limits, and rows that are older than a time.
    ///
    /// # Errors
    /// As [`TestRuns::add`]
    pub(crate) fn prune(&mut self, before_ms: i64) -> Result<(), StoreError> {
        self.prune_to(before_ms, ROWS_MAX, ROWS_BYTES_MAX)
    }

    fn prune_to(&mut self, before_ms: i64, rows: i64, bytes: i64) -> Result<(), StoreError> {
        let connection = self.connection()?;
        let prune = || {
            connection.execute(
                "DELETE FROM test_runs WHERE at_ms < ?1 OR seq <= (SELECT max(seq) FROM test_runs) - ?2
                 OR seq IN (SELECT seq FROM (
                     SELECT seq, SUM(length(body)) OVER (ORDER BY seq DESC) AS bytes FROM test_runs
                 ) AS sums WHERE bytes > ?3)",
                params![before_ms, rows, bytes],
            )
        };
        prune().map(drop).map_err(StoreError::database(WRITING))
    }

    /// Returns some rows after this one, in order.
    ///
    /// # Errors
    /// If the database can't be read.
    pub(crate) fn after(&self, seq: i64) -> Result<Vec<TestRunRow>, StoreError> {
        self.reader.with(|connection| {
            let read = || -> sql::Result<Vec<TestRunRow>> {
                connection
                    .prepare_cached(
                        "SELECT seq, job, at_ms, body FROM test_runs WHERE seq > ?1 ORDER BY seq LIMIT ?2",
                    )?
                    .query_map(params![seq, READ_ROWS], |row| {
                        Ok(TestRunRow {
                            seq: row.get(0)?,
                            job: row.get(1)?,
                            at_ms: row.get(2)?,
                            body: row.get(3)?,
                        })
                    })?
                    .collect()
            };
            read().map_err(StoreError::database(READING))
        })
    }

    /// Returns the job of a row, if the row exists.
    ///
    /// # Errors
    /// If the database can't be read.
    pub(crate) fn job_of(&self, seq: i64) -> Result<Option<[u8; 16]>, StoreError> {
        self.reader.with(|connection| {
            connection
                .query_row("SELECT job FROM test_runs WHERE seq = ?1", params![seq], |row| row.get(0))
                .optional()
                .map_err(StoreError::database(READING))
        })
    }

    fn connection(&mut self) -> Result<&Connection, StoreError> {
        if self.connection.is_none() {
            self.connection = Some(self.reader.writing()?);
        }
        Ok(self.connection.as_ref().expect("it is set"))
    }
}

#[cfg(test)]
mod tests {
    use super::TestRuns;
    use crate::store::{ObjectsUrl, Server, Store};
    use buildpool_test_postgres::Postgres;

    #[test]
    fn rows_have_a_limit_in_number_and_bytes_and_the_oldest_go_first() {
        let Some(postgres) = Postgres::shared() else { return };
        let directory = tempfile::tempdir().unwrap();
        let server = Server::new(postgres.database().parse().unwrap()).unwrap();
        let objects = ObjectsUrl::Directory(directory.path().join("objects"));
        let store = Store::open_shared(directory.path(), &server, &objects, std::iter::empty()).unwrap();
        let mut runs = TestRuns::new(store.reader());
        let seqs: Vec<i64> = (1..=5_u8)
            .map(|number| runs.add([number; 16], i64::from(number), &[0; 100]).unwrap().expect("a new row"))
            .collect();
        assert_eq!(runs.add([5; 16], 5, b"again").unwrap(), None);
        assert_eq!(runs.job_of(seqs[4]).unwrap(), Some([5; 16]));
        let mut left = |before_ms, rows, bytes| {
            runs.prune_to(before_ms, rows, bytes).unwrap();
            runs.after(0).unwrap().iter().map(|row| row.job[0]).collect::<Vec<_>>()
        };
        assert_eq!(left(0, 100, 500), [1, 2, 3, 4, 5]);
        assert_eq!(left(2, 100, 500), [2, 3, 4, 5]);
        assert_eq!(left(2, 100, 399), [3, 4, 5]);
        assert_eq!(left(2, 2, 399), [4, 5]);
        assert!(left(2, 2, 99).is_empty());
        assert_eq!(runs.job_of(seqs[4]).unwrap(), None);
    }
}
