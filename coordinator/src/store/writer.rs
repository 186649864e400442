//! Writes records. The writer belongs to the runtime thread.

use super::disk::{Disk, Operation};
use super::error::StoreError;
use super::events;
use super::limits;
use super::logs::Logs;
use super::open::WRITTEN;
use super::passing::PassingRuns;
use super::reader;
use super::records::{BodyRef, JobRecord, PassingRun, Record, WorkerRecord};
use super::sql::{self, Connection, Kind, OptionalExtension, Transaction, params};
use buildpool_protocol::{AttemptId, JobId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Sets the number of written records, unless the server has lost some of them.
const COUNT_WRITTEN: &str = "UPDATE meta SET value = ?2 WHERE key = ?1 AND value >= ?3";

/// Writes records, each batch in one transaction.
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    disk: Disk,
    logs: Logs,
    passing: PassingRuns,
    commits: u32,
    /// Records that this writer has committed. A PostgreSQL server has the same number in the table `meta`.
    written: usize,
    /// The answer to the last commit was lost, so it may have succeeded.
    is_in_doubt: bool,
    /// Held as long as records may be written.
    _open: Arc<()>,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        path: PathBuf,
        disk: Disk,
        (logs, passing): (Logs, PassingRuns),
        open: Arc<()>,
    ) -> Self {
        Self {
            connection,
            path,
            disk,
            logs,
            passing,
            commits: 0,
            written: 0,
            is_in_doubt: false,
            _open: open,
        }
    }

    /// Writes a batch in one transaction: all of it or nothing. When this returns, the batch is
    /// durable, also against power loss.
    ///
    /// # Errors
    /// [`StoreError::Database`] or [`StoreError::File`]; nothing has changed.
    /// [`StoreError::is_disk_full`] is true if the disk is full.
    pub fn commit(&mut self, batch: &[Record]) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let doing = "write records";
        let transaction = self.connection.transaction().map_err(StoreError::database(doing))?;
        let known = if self.is_in_doubt {
            committed(&transaction, self.written).map_err(StoreError::database(doing))?
        } else {
            0
        };
        for record in without_repeats(&batch[known..]) {
            write(&transaction, record).map_err(StoreError::database(doing))?;
        }
        let written = self.written + batch.len();
        if transaction.kind() == Kind::Server {
            let counted = transaction
                .execute(COUNT_WRITTEN, params![WRITTEN, written as i64, self.written as i64])
                .map_err(StoreError::database(doing))?;
            if counted == 0 {
                return Err(StoreError::database(doing)(sql::Error::Rewound));
            }
        }
        self.disk.before(Operation::Commit, &self.path).map_err(StoreError::file("write", &self.path))?;
        let is_in_doubt = transaction.kind() == Kind::Server;
        if let Err(error) = transaction.commit() {
            // The same batch follows, perhaps with more records at its end.
            self.is_in_doubt = is_in_doubt;
            self.passing.forget();
            return Err(StoreError::database(doing)(error));
        }
        (self.written, self.is_in_doubt) = (written, false);
        self.passing.committed(batch.iter().filter_map(|record| match record {
            Record::Passed(run) => Some(&**run),
            _ => None,
        }));
        self.commits += 1;
        if self.commits >= limits::CHECKPOINT_COMMITS {
            self.commits = 0;
            self.logs.keep_checkpoint();
        }
        Ok(())
    }

    /// Forgets the last commit of so many records, as if its answer had been lost.
    #[cfg(test)]
    pub(super) fn doubt(&mut self, records: usize) {
        self.written -= records;
        self.is_in_doubt = true;
    }

    /// Returns the unfinished jobs, in the order of their acceptance.
    ///
    /// # Errors
    /// If the database can't be read, or a record does not parse.
    pub fn live_jobs(&self) -> Result<Vec<JobRecord>, StoreError> {
        reader::live_jobs(&self.connection)
    }

    /// Returns the jobs, live or ended, that an equal submit attaches to. Removes entries without a
    /// job record.
    ///
    /// # Errors
    /// If the database can't be read or written, or a record does not parse.
    pub fn attachable_jobs(&self) -> Result<Vec<JobRecord>, StoreError> {
        self.connection
            .execute(
                "DELETE FROM attachable WHERE job NOT IN (SELECT id FROM jobs WHERE body IS NOT NULL)",
                params![],
            )
            .map_err(StoreError::database("write records"))?;
        reader::attachable_jobs(&self.connection)
    }

    /// Returns the workers as they were last seen, sorted by name.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        reader::workers(&self.connection)
    }
}

/// Returns how many records of the present batch an earlier attempt has committed.
fn committed(transaction: &Transaction<'_>, written: usize) -> sql::Result<usize> {
    // The lock waits for the end of the earlier attempt.
    let stored: i64 = transaction.query_row(
        "SELECT value FROM meta WHERE key = ?1 FOR UPDATE",
        params![WRITTEN],
        |row| row.get(0),
    )?;
    Ok(usize::try_from(stored).unwrap_or(0).saturating_sub(written))
}

/// The states of one job in a batch.
struct States<'a> {
    /// Index of the first one.
    first: usize,
    /// The newest one before its end.
    newest: &'a Record,
    has_ended: bool,
}

/// Returns the records of a batch without the states of a job that later ones replace. The first state of a new job and the
/// end of a job keep their places: a build has ended when all of its jobs so far are finished.
fn without_repeats(batch: &[Record]) -> impl Iterator<Item = &Record> {
    let mut jobs: HashMap<JobId, States<'_>> = HashMap::new();
    for (at, record) in batch.iter().enumerate() {
        let Record::Job(job) = record else { continue };
        let states = jobs.entry(job.job).or_insert(States { first: at, newest: record, has_ended: false });
        match job.done {
            Some(_) => states.has_ended = true,
            None => states.newest = record,
        }
    }
    batch.iter().enumerate().filter_map(move |(at, record)| {
        let Record::Job(job) = record else { return Some(record) };
        let states = jobs.get(&job.job).filter(|_| job.done.is_none());
        match states {
            None => Some(record),
            // A job with an attempt has a row, and the end replaces all of its state.
            Some(states) if states.has_ended && !job.attempts.is_empty() => None,
            Some(states) => (at == states.first).then_some(states.newest),
        }
    })
}

fn write(transaction: &Transaction<'_>, record: &Record) -> sql::Result<()> {
    match record {
        Record::Job(job) => write_job(transaction, job),
        Record::Log { attempt, bytes } => write_log(transaction, *attempt, bytes),
        Record::Attachable { job, attachable } => {
            let statement = if *attachable {
                "INSERT INTO attachable(job) VALUES(?1) ON CONFLICT DO NOTHING"
            } else {
                "DELETE FROM attachable WHERE job = ?1"
            };
            transaction.prepare_cached(statement)?.execute(params![job.as_uuid().as_bytes()]).map(drop)
        }
        Record::Worker(worker) => transaction
            .prepare_cached(
                "INSERT INTO workers(id, body) VALUES(?1, ?2) ON CONFLICT(id) DO UPDATE SET body = ?2",
            )?
            .execute(params![worker.worker.as_uuid().as_bytes(), json(worker)])
            .map(drop),
        Record::WorkerForgotten(worker) => transaction
            .prepare_cached("DELETE FROM workers WHERE id = ?1")?
            .execute(params![worker.as_uuid().as_bytes()])
            .map(drop),
        Record::Passed(run) => write_passing(transaction, run),
        Record::Event(event) => events::write(transaction, event),
        Record::TokenUse(used) => events::write_use(transaction, used),
    }
}

fn write_job(transaction: &Transaction<'_>, job: &JobRecord) -> sql::Result<()> {
    let id = job.job.as_uuid().as_bytes();
    let body = json(&BodyRef::from(job));
    let finished_at_ms = job.done.as_ref().map(|done| done.finished_at_ms);
    // An ended job is not updated: terminal states never change.
    let changed = transaction
        .prepare_cached(
            "UPDATE jobs SET body = ?2, finished_at_ms = ?3 WHERE id = ?1 AND finished_at_ms IS NULL",
        )?
        .execute(params![id, body, finished_at_ms])?;
    if changed > 0 {
        return match job.spec.build.filter(|_| job.done.is_some()) {
            Some(build) => events::write_build(transaction, job, build),
            None => Ok(()),
        };
    }
    let inserted: Option<i64> = transaction
        .prepare_cached(
            "INSERT INTO jobs(id, created_at_ms, finished_at_ms, principal, request, build, body)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(id) DO NOTHING RETURNING seq",
        )?
        .query_row(
            params![
                id,
                job.created_at_ms,
                finished_at_ms,
                job.principal,
                job.client_request_id,
                job.spec.build.as_ref().map(|build| build.as_uuid().as_bytes()),
                body
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(seq) = inserted else {
        tracing::warn!(job = %job.job, "a change of a job that is over was not recorded");
        return Ok(());
    };
    transaction
        .prepare_cached("INSERT INTO specs(seq, spec) VALUES(?1, ?2)")?
        .execute(params![seq, json(&job.spec)])
        .map(drop)
}

fn write_log(transaction: &Transaction<'_>, attempt: AttemptId, bytes: &[u8]) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO logs(job, attempt, stored_at_ms, bytes) VALUES(?1, ?2, ?3, ?4)
             ON CONFLICT(job, attempt) DO UPDATE SET stored_at_ms = excluded.stored_at_ms, bytes = excluded.bytes",
        )?
        .execute(params![attempt.job.as_uuid().as_bytes(), attempt.number, super::now_ms(), bytes])
        .map(drop)
}

fn write_passing(transaction: &Transaction<'_>, run: &PassingRun) -> sql::Result<()> {
    let body = if run.findings.len() > limits::HISTORY_FINDINGS {
        let mut shorter = run.clone();
        shorter.findings.truncate(limits::HISTORY_FINDINGS);
        json(&shorter)
    } else {
        json(run)
    };
    transaction
        .prepare_cached("INSERT INTO passing(key, body) VALUES(?1, ?2)")?
        .execute(params![run.key.0, body])?;
    transaction
        .prepare_cached(
            "DELETE FROM passing WHERE key = ?1 AND seq <=
             (SELECT seq FROM passing WHERE key = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![run.key.0, limits::HISTORY_RUNS])
        .map(drop)
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("records serialize: string keys, no fallible serializers")
}

#[cfg(test)]
mod tests {
    use super::without_repeats;
    use crate::store::tests::support::{done, granted, job};
    use crate::store::{Record, Store, WorkerRecord};
    use buildpool_protocol::WorkerId;
    use buildpool_protocol::report::Verdict;
    use std::collections::BTreeMap;
    use uuid::Uuid;

    fn worker(number: u128, label: &str) -> Record {
        Record::Worker(Box::new(WorkerRecord {
            worker: WorkerId::from_uuid(Uuid::from_u128(number)),
            name: format!("mini-{number}"),
            version: String::new(),
            slots: 1,
            labels: BTreeMap::from([("os".to_owned(), label.to_owned())]),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            draining: false,
            drain_until_ms: None,
            resumed: false,
            quarantined: None,
            first_seen_ms: 1,
            last_seen_ms: 2,
            approved: true,
            token: None,
            lost: false,
        }))
    }

    #[test]
    fn each_job_of_a_batch_is_written_once_before_its_end_and_once_at_it() {
        let job_record = |job| Record::Job(Box::new(job));
        let (one, other) = (job(1), job(2));
        let ended = done(granted(one.clone()), Verdict::Passed, 0);
        let states = [job_record(one.clone()), job_record(granted(one.clone())), job_record(ended.clone())];
        let kept = |batch: &[Record]| without_repeats(batch).cloned().collect::<Vec<_>>();
        // A new job needs a row before its end. The end replaces a state that is stored already.
        assert_eq!(kept(&states), states[1..]);
        assert_eq!(kept(&states[1..]), [states[2].clone()]);
        assert_eq!(kept(&states[..2]), [states[1].clone()]);
        // The other job stays before the end of the first one.
        let batch = [
            job_record(one.clone()),
            job_record(other.clone()),
            worker(1, "linux"),
            job_record(ended),
            job_record(granted(other.clone())),
        ];
        let expected = [batch[0].clone(), job_record(granted(other)), batch[2].clone(), batch[3].clone()];
        assert_eq!(kept(&batch), expected);
    }

    #[test]
    fn a_database_without_room_says_so_and_goes_on_when_there_is_some() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let mut writer = store.writer().unwrap();
        writer.commit(&[worker(1, "linux")]).unwrap();
        let pages: u32 =
            writer.connection.sqlite().pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let limit = |writer: &super::Writer, pages: u32| {
            writer
                .connection
                .sqlite()
                .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .unwrap();
        };
        limit(&writer, pages);
        let batch = [worker(1, "macos"), worker(2, &"x".repeat(100_000))];
        let error = writer.commit(&batch).unwrap_err();
        assert!(error.is_disk_full(), "{error:?}");
        assert_eq!(writer.workers().unwrap()[0].labels["os"], "linux", "all or nothing");
        limit(&writer, pages + 1000);
        writer.commit(&batch).unwrap();
        assert_eq!(store.reader().workers().unwrap().len(), 2);
        writer.commit(&[Record::WorkerForgotten(WorkerId::from_uuid(Uuid::from_u128(2)))]).unwrap();
        assert_eq!(store.reader().workers().unwrap()[0].labels["os"], "macos");
    }
}
