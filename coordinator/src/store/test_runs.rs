//! Results of tests that several coordinators share: one compressed row for each job. Each coordinator copies the rows to
//! its own database `tests.db`, which has the indexes.

use super::error::StoreError;
use super::reader::Reader;
use super::sql::{self, Connection, Kind, OptionalExtension, params};

/// Limit on rows.
const ROWS_MAX: i64 = 20_000;
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

    /// Removes rows above the limit, and rows that are older than a time.
    ///
    /// # Errors
    /// As [`TestRuns::add`]
    pub(crate) fn prune(&mut self, before_ms: i64) -> Result<(), StoreError> {
        let connection = self.connection()?;
        let prune = || {
            connection.execute(
                "DELETE FROM test_runs WHERE at_ms < ?1 OR seq <= (SELECT max(seq) FROM test_runs) - ?2",
                params![before_ms, ROWS_MAX],
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

    /// Returns the number of the newest row. 0 without rows.
    ///
    /// # Errors
    /// If the database can't be read.
    pub(crate) fn newest(&self) -> Result<i64, StoreError> {
        self.reader.with(|connection| {
            connection
                .query_row("SELECT max(seq) FROM test_runs", params![], |row| row.get::<Option<i64>>(0))
                .map(Option::unwrap_or_default)
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
