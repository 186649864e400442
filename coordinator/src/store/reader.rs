//! Reads records, concurrently with the writer.

use super::database::Database;
use super::error::StoreError;
use super::limits;
use super::passing::PassingRuns;
use super::records::{HistoryKey, JobFilter, JobRecord, PassingRun, RecordBody, WorkerRecord};
use super::sql::{self, Connection, OptionalExtension, Row, Value, params};
use buildpool_protocol::ids::{BUILD_PREFIX, BuildId};
use buildpool_protocol::limits::DURATION_MAX;
use buildpool_protocol::{AttemptId, JobId};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

/// Number of passing runs that the usual duration of a command is computed from.
const USUAL_RUNS: usize = 7;

/// Reads records. Cheap to clone. Many threads may read at once; each read sees all transactions
/// that were committed before it.
#[derive(Clone)]
pub struct Reader {
    pool: Arc<ConnectionPool>,
    /// Runs that the writer of this process keeps up to date. `None` if another process may write.
    passing: Option<PassingRuns>,
}

struct ConnectionPool {
    database: Database,
    idle: Mutex<Vec<Connection>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("database", &self.pool.database).finish()
    }
}

/// Reason why a text does not identify a job.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No job has an id with this prefix.
    #[error("no job is known by this id; `buildpool jobs` lists the known jobs")]
    Unknown,
    /// The text can't be the prefix of an id.
    #[error("a job id has hexadecimal digits and hyphens only; `buildpool jobs` lists the known jobs")]
    NotAnId,
    /// The text is the id of a build, or an incomplete one (`None`). Builds are found by the whole
    /// id only.
    #[error("{}", match .0 {
        Some(_) => "this is the id of a build, and a job's id is needed; the answer about the build (`buildpool job`, get_job) lists its jobs",
        None => "a build is known by its whole id only",
    })]
    Build(Option<BuildId>),
    /// Several jobs have this prefix. Some of them, newest first.
    #[error("the id is not complete, and several jobs begin like it: {}", .0.iter().map(JobId::to_string).collect::<Vec<_>>().join(" "))]
    Ambiguous(Vec<JobId>),
    /// The records could not be read.
    #[error("job records can't be read")]
    Store(#[source] StoreError),
}

/// Result of a lookup by job id.
#[derive(Clone, PartialEq, Debug)]
pub enum Lookup {
    /// The job.
    Found(Box<JobRecord>),
    /// The job existed, but its record has been removed.
    Evicted,
    /// No job has had this id.
    Unknown,
}

impl Reader {
    pub(super) fn new(database: Database) -> Self {
        Self { pool: Arc::new(ConnectionPool { database, idle: Mutex::new(Vec::new()) }), passing: None }
    }

    /// Returns a reader for the process with the only writer, which passes each committed run to `passing`.
    pub(super) fn beside_writer(database: Database, passing: PassingRuns) -> Self {
        Self { passing: Some(passing), ..Self::new(database) }
    }

    /// Reads the records of a data directory without a coordinator.
    pub(crate) fn in_directory(directory: &std::path::Path) -> Self {
        Self::new(Database::File(super::open::records_path(directory)))
    }

    /// Reads the records on a server.
    pub(crate) fn on_server(server: &super::Server) -> Self {
        Self::new(Database::Server(server.clone()))
    }

    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.pool.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.pool.database.open_reader()?,
        };
        let result = read(&connection);
        let mut idle = self.pool.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if idle.len() < limits::READERS_KEPT {
            idle.push(connection);
        }
        result
    }

    /// Looks up a job by its id.
    ///
    /// # Errors
    /// If the database can't be read, or the record does not parse.
    pub fn job(&self, job: JobId) -> Result<Lookup, StoreError> {
        self.with(|connection| lookup(connection, job))
    }

    /// Returns jobs, newest first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn jobs(&self, filter: &JobFilter<'_>, limit: usize) -> Result<Vec<JobRecord>, StoreError> {
        self.with(|connection| {
            let sql = format!(
                "{SELECT_JOB} WHERE j.body IS NOT NULL
                 AND (CASE WHEN j.finished_at_ms IS NULL THEN 0 ELSE 1 END = ?1 OR ?1 IS NULL)
                 AND (j.build = ?2 OR ?2 IS NULL) AND (j.created_at_ms >= ?3 OR ?3 IS NULL)
                 AND ((j.created_at_ms, j.id) < (?4, ?5) OR ?4 IS NULL)
                 AND (j.principal = ?7 OR ?7 IS NULL)
                 ORDER BY j.created_at_ms DESC, j.id DESC LIMIT ?6"
            );
            let build = filter.build.map(|build| *build.as_uuid().as_bytes());
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let after = filter.after.map(|after| (after.created_at_ms, *after.job.as_uuid().as_bytes()));
            let (after_ms, after_job) = after.unzip();
            let values: &[Value<'_>] =
                params![filter.done, build, filter.since_ms, after_ms, after_job, limit, filter.principal];
            rows(connection, &sql, values).map(readable)
        })
    }

    /// Returns the job with an id that equals this text or begins with it. Hyphens and case are
    /// ignored.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub fn resolve_prefix(&self, text: &str) -> Result<JobId, ResolveError> {
        if text.starts_with(BUILD_PREFIX) {
            return Err(ResolveError::Build(BuildId::from_request_id(text)));
        }
        let (low, high) = prefix_range(text).ok_or(ResolveError::NotAnId)?;
        let limit = limits::AMBIGUOUS_SHOWN as i64;
        let mut ids: Vec<JobId> = self
            .with(|connection| {
                let read = || {
                    connection
                        .prepare_cached(
                            "SELECT id FROM jobs WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3",
                        )?
                        .query_map(params![low, high, limit], |row| row.get(0).map(job_id))?
                        .collect::<sql::Result<_>>()
                };
                read().map_err(StoreError::database("read job records"))
            })
            .map_err(ResolveError::Store)?;
        match ids.len() {
            0 => Err(ResolveError::Unknown),
            1 => Ok(ids.remove(0)),
            _ => Err(ResolveError::Ambiguous(ids)),
        }
    }

    /// Returns the shortest unique prefix of a job's id, with at least 12 digits.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn short_id(&self, job: JobId) -> Result<String, StoreError> {
        let id = *job.as_uuid().as_bytes();
        let nearest = |connection: &Connection, sql: &str| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_row(params![id], |row| row.get(0).map(job_id)).optional()
        };
        let neighbours: [Option<JobId>; 2] = self.with(|connection| {
            let read = || -> sql::Result<_> {
                Ok([
                    nearest(connection, "SELECT id FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT 1")?,
                    nearest(connection, "SELECT id FROM jobs WHERE id > ?1 ORDER BY id LIMIT 1")?,
                ])
            };
            read().map_err(StoreError::database("read job records"))
        })?;
        let digits = job.as_uuid().simple().to_string();
        let shared = |other: &JobId| {
            let other = other.as_uuid().simple().to_string();
            digits.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
        };
        let longest = neighbours.iter().flatten().map(shared).max().unwrap_or(0);
        Ok(digits[..SHORT_ID_DIGITS_MIN.max(longest + 1).min(digits.len())].to_owned())
    }

    /// Returns the submitter of a job, also of one whose record was removed by retention.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn principal_of(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.with(|connection| {
            let read = || {
                connection
                    .prepare_cached("SELECT principal FROM jobs WHERE id = ?1")?
                    .query_row(params![job.as_uuid().as_bytes()], |row| row.get(0))
                    .optional()
            };
            read().map_err(StoreError::database("read job records"))
        })
    }

    /// Returns the newest job with this principal and request id.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn by_client_request(&self, principal: &str, request: &str) -> Result<Option<JobId>, StoreError> {
        self.with(|connection| {
            let read = || {
                connection
                    .prepare_cached(
                        "SELECT id FROM jobs WHERE principal = ?1 AND request = ?2 ORDER BY seq DESC LIMIT 1",
                    )?
                    .query_row(params![principal, request], |row| row.get(0).map(job_id))
                    .optional()
            };
            read().map_err(StoreError::database("read job records"))
        })
    }

    /// Returns the stored passing runs of a command in a project, newest first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn history(&self, key: HistoryKey) -> Result<Vec<PassingRun>, StoreError> {
        self.newest_runs(key, usize::MAX)
    }

    fn newest_runs(&self, key: HistoryKey, runs_max: usize) -> Result<Vec<PassingRun>, StoreError> {
        let seen = match self.passing.as_ref().map(|passing| passing.newest(key, runs_max)) {
            Some(Ok(runs)) => return Ok(runs),
            Some(Err(seen)) => Some(seen),
            None => None,
        };
        let mut runs: Vec<PassingRun> = self.with(|connection| {
            let read = || -> sql::Result<Vec<sql::Result<String>>> {
                let mut statement =
                    connection.prepare_cached("SELECT body FROM passing WHERE key = ?1 ORDER BY seq DESC")?;
                Ok(statement.query_map(params![key.0], |row| row.get(0))?.collect())
            };
            let rows = read().map_err(StoreError::database("read the history"))?;
            Ok(rows.into_iter().filter_map(|body| parsed("a passing run", body)).collect())
        })?;
        if let (Some(passing), Some(seen)) = (&self.passing, seen) {
            passing.read(key, &runs, seen);
        }
        runs.truncate(runs_max);
        Ok(runs)
    }

    /// Returns the median duration of a command's last passing runs, or `None` if there are no such
    /// runs.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn usual_duration(&self, key: HistoryKey) -> Result<Option<Duration>, StoreError> {
        let runs = self.newest_runs(key, USUAL_RUNS)?;
        let mut runs: Vec<Duration> = runs
            .iter()
            .map(|run| Duration::from_millis(run.duration_ms))
            .filter(|run| *run <= DURATION_MAX)
            .collect();
        runs.sort_unstable();
        Ok(runs.get(runs.len() / 2).copied())
    }

    /// Returns the workers as they were last seen, sorted by name.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        self.with(workers)
    }

    /// Returns the whole log of an attempt, if it is stored in the database instead of a file.
    pub(super) fn inline_log(&self, attempt: AttemptId) -> Result<Option<Bytes>, StoreError> {
        self.with(|connection| {
            let read = || {
                connection
                    .prepare_cached("SELECT bytes FROM logs WHERE job = ?1 AND attempt = ?2")?
                    .query_row(params![attempt.job.as_uuid().as_bytes(), attempt.number], |row| {
                        row.get::<Vec<u8>>(0)
                    })
                    .optional()
            };
            Ok(read().map_err(StoreError::database("read a log"))?.map(Bytes::from))
        })
    }

    /// Returns the length of a removed log.
    pub(super) fn evicted(&self, attempt: AttemptId) -> Result<Option<u64>, StoreError> {
        self.with(|connection| {
            let read = || {
                connection
                    .prepare_cached("SELECT length FROM evicted WHERE job = ?1 AND attempt = ?2")?
                    .query_row(params![attempt.job.as_uuid().as_bytes(), attempt.number], |row| {
                        row.get::<i64>(0)
                    })
                    .optional()
            };
            let length = read().map_err(StoreError::database("read the record of a removed log"))?;
            Ok(length.map(|length| u64::try_from(length).unwrap_or(0)))
        })
    }

    /// Opens a connection for writing. Retention uses it concurrently with the writer.
    pub(super) fn writing(&self) -> Result<Connection, StoreError> {
        self.pool.database.open(&super::disk::Disk::default())
    }

    /// Returns the ids of all jobs with a record.
    pub(super) fn all_ids(&self) -> Result<Vec<JobId>, StoreError> {
        self.with(|connection| {
            let read = || {
                connection
                    .prepare_cached("SELECT id FROM jobs WHERE body IS NOT NULL ORDER BY seq")?
                    .query_map(params![], |row| row.get(0).map(job_id))?
                    .collect::<sql::Result<_>>()
            };
            read().map_err(StoreError::database("read job records"))
        })
    }

    /// Returns the ids of unfinished jobs.
    pub(super) fn live_ids(&self) -> Result<std::collections::HashSet<JobId>, StoreError> {
        self.with(|connection| {
            let read = || {
                connection
                    .prepare_cached("SELECT id FROM jobs WHERE finished_at_ms IS NULL")?
                    .query_map(params![], |row| row.get(0).map(job_id))?
                    .collect::<sql::Result<_>>()
            };
            read().map_err(StoreError::database("read job records"))
        })
    }
}

const SELECT_JOB: &str = "SELECT j.id, s.spec, j.principal, j.request, j.created_at_ms, j.body
                          FROM jobs j JOIN specs s ON s.seq = j.seq";

fn job_id(bytes: [u8; 16]) -> JobId {
    JobId::from_uuid(Uuid::from_bytes(bytes))
}

pub(super) fn live_jobs(connection: &Connection) -> Result<Vec<JobRecord>, StoreError> {
    rows(connection, &format!("{SELECT_JOB} WHERE j.finished_at_ms IS NULL ORDER BY j.seq"), params![])
        .map(readable)
}

pub(super) fn attachable_jobs(connection: &Connection) -> Result<Vec<JobRecord>, StoreError> {
    let wanted = "j.body IS NOT NULL AND j.id IN (SELECT job FROM attachable)";
    rows(connection, &format!("{SELECT_JOB} WHERE {wanted} ORDER BY j.seq"), params![]).map(readable)
}

pub(super) fn workers(connection: &Connection) -> Result<Vec<WorkerRecord>, StoreError> {
    let read = || -> sql::Result<Vec<sql::Result<String>>> {
        let mut statement = connection.prepare_cached("SELECT body FROM workers")?;
        Ok(statement.query_map(params![], |row| row.get(0))?.collect())
    };
    let rows = read().map_err(StoreError::database("read worker records"))?;
    // A worker registers again when it reconnects, so skip a record that does not parse.
    let mut workers: Vec<WorkerRecord> =
        rows.into_iter().filter_map(|body| parsed("a worker", body)).collect();
    workers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(workers)
}

fn lookup(connection: &Connection, job: JobId) -> Result<Lookup, StoreError> {
    let id = job.as_uuid().as_bytes();
    let sql = format!("{SELECT_JOB} WHERE j.id = ?1 AND j.body IS NOT NULL");
    if let Some(record) = rows(connection, &sql, params![id])?.pop() {
        return Ok(Lookup::Found(Box::new(record?)));
    }
    let known = connection
        .query_row("SELECT 1 FROM jobs WHERE id = ?1", params![id], |_| Ok(()))
        .optional()
        .map_err(StoreError::database("read job records"))?;
    Ok(if known.is_some() { Lookup::Evicted } else { Lookup::Unknown })
}

/// Returns the rows that can be read. A row that can't be read stays on disk, and must not make the
/// others unreadable.
fn readable(rows: Vec<Result<JobRecord, StoreError>>) -> Vec<JobRecord> {
    let logged = |row: Result<JobRecord, StoreError>| {
        row.inspect_err(|error| {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "skipping a job record that can't be read"
            );
        })
        .ok()
    };
    rows.into_iter().filter_map(logged).collect()
}

/// Parses the record in a row. On an error, logs a warning and returns `None`.
fn parsed<T: DeserializeOwned>(record: &str, body: sql::Result<String>) -> Option<T> {
    let skipped = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, "skipping the record of {record}: it can't be read");
    };
    let body = body.inspect_err(|error| skipped(error)).ok()?;
    serde_json::from_str(&body).inspect_err(|error| skipped(error)).ok()
}

fn rows(
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Vec<Result<JobRecord, StoreError>>, StoreError> {
    let doing = "read job records";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::database(doing))?;
    let rows = statement.query_map(values, |row| Ok(record(row))).map_err(StoreError::database(doing))?;
    rows.map(|row| row.map_err(StoreError::database(doing))).collect()
}

fn record(row: &Row<'_>) -> Result<JobRecord, StoreError> {
    let columns = || -> sql::Result<_> {
        Ok((
            job_id(row.get(0)?),
            row.get::<String>(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get::<String>(5)?,
        ))
    };
    let (job, spec, principal, client_request_id, created_at_ms, body) =
        columns().map_err(StoreError::database("read job records"))?;
    let broken = |source| StoreError::Record { job, source };
    let body: RecordBody = serde_json::from_str(&body).map_err(broken)?;
    Ok(JobRecord {
        job,
        spec: Arc::new(serde_json::from_str(&spec).map_err(broken)?),
        submitter: body.submitter,
        token: body.token,
        principal,
        client_request_id,
        created_at_ms,
        attempts: body.attempts,
        cancel: body.cancel,
        snapshot: body.snapshot,
        done: body.done,
    })
}

/// Minimum digits of a short id: the timestamp of a UUIDv7, in milliseconds, has this many.
const SHORT_ID_DIGITS_MIN: usize = 12;

/// Returns the first and the last id that begin with these hexadecimal digits.
fn prefix_range(text: &str) -> Option<([u8; 16], [u8; 16])> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    if digits.is_empty() || digits.len() > 32 {
        return None;
    }
    let fill = |rest: u8| {
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digit = |at: usize| digits.get(at).copied().unwrap_or(rest);
            *byte = digit(index * 2) << 4 | digit(index * 2 + 1);
        }
        bytes
    };
    Some((fill(0), fill(0xf)))
}
