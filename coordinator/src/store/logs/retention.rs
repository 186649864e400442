//! Removes old logs and records: oldest first, and never a log in use.

use super::error::LogError;
use super::excess::{EXCESS_AT_ONCE, RecordKey, excess};
use super::layout::{Layout, LogFiles};
use super::objects::{attempt_of, owner};
use super::registry::Logs;
use crate::store::disk::Operation;
use crate::store::error::StoreError;
use crate::store::limits::{PACK_BYTES_MIN, RECORD_AGE, RECORD_BYTES_OF_SUBMITTER, RETAIN_ROOM_BYTES};
use crate::store::objects::Kind;
use crate::store::reserve::Reserve;
use crate::store::sql::{self, Connection, params};
use buildpool_protocol::AttemptId;
use buildpool_protocol::limits::{RETENTION_AGE, RETENTION_BYTES};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// Limits on the age and size of kept logs and records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Maximum age of a log, from its last byte.
    pub log_age: Duration,
    /// Maximum total size of logs on disk, in bytes. The oldest logs beyond it are removed.
    pub log_bytes: u64,
    /// Minimum free space of the disk, in bytes. The oldest logs are removed while there is less.
    pub free_bytes: u64,
    /// Maximum age of a record, from the end of its job. After that only the id is kept.
    pub record_age: Duration,
    /// Maximum size of the records of one submitter's ended jobs, in bytes. The oldest beyond it are removed.
    pub record_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            log_age: RETENTION_AGE,
            log_bytes: RETENTION_BYTES,
            free_bytes: RETAIN_ROOM_BYTES,
            record_age: RECORD_AGE,
            record_bytes: RECORD_BYTES_OF_SUBMITTER,
        }
    }
}

/// Result of a retention pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    /// Number of removed logs.
    pub logs_evicted: u64,
    /// Number of removed records.
    pub records_evicted: u64,
    /// Disk space of the remaining logs, in bytes.
    pub log_bytes: u64,
    /// Number of remaining logs in files.
    pub logs: u64,
}

/// A log, as listed in the directory.
#[derive(Clone, Copy, Default)]
struct StoredLog {
    bytes: u64,
    raw_bytes: u64,
    changed_ms: i64,
}

impl Logs {
    /// Returns true if the disk has less free space than `retention.free_bytes`.
    pub fn is_short(&self, retention: &Retention) -> bool {
        self.free_bytes().is_some_and(|free| free < retention.free_bytes)
    }

    /// Removes old logs and records as [`Logs::retain`] does, and fills the reserve again.
    ///
    /// # Errors
    /// As [`Logs::retain`].
    pub fn make_room(&self, retention: &Retention, now_ms: i64) -> Result<Retained, LogError> {
        let retained = self.retain(retention, now_ms);
        self.reserve().iter().for_each(Reserve::refill);
        retained
    }

    fn reserve(&self) -> Option<Reserve> {
        self.root().parent().map(Reserve::in_directory)
    }

    /// Removes old logs and records, and compresses logs that a crash has left uncompressed.
    ///
    /// It uses the reserve if the disk is full. Blocks for the time that it takes to list all logs;
    /// call it every few minutes.
    ///
    /// # Errors
    /// [`LogError`], with a part of the work done.
    pub fn retain(&self, retention: &Retention, now_ms: i64) -> Result<Retained, LogError> {
        // A log that the background thread is reading, such as one of the last logs after a start,
        // would count as in use.
        self.settle();
        let mut stored = self.list()?;
        let live = self.inner.reader.live_ids()?;
        stored.retain(|(attempt, _)| !live.contains(&attempt.job));
        stored.sort_by_key(|(attempt, log)| (log.changed_ms, *attempt));
        let mut left: u64 = stored.iter().map(|(_, log)| log.bytes).sum();
        let oldest_ms = now_ms.saturating_sub(milliseconds(retention.log_age));
        let mut chosen: Vec<AttemptId> = Vec::new();
        let missing = self.free_bytes().map_or(0, |free| retention.free_bytes.saturating_sub(free));
        let mut excess = left.saturating_sub(retention.log_bytes).max(missing);
        for (attempt, log) in &stored {
            if log.changed_ms >= oldest_ms && excess == 0 {
                break;
            }
            chosen.push(*attempt);
            excess = excess.saturating_sub(log.bytes);
        }
        if missing > 0 && !chosen.is_empty() {
            // Before a log is removed, a record of it is written, which needs space.
            self.reserve().iter().for_each(Reserve::release);
        }
        let evicted: HashSet<AttemptId> = self.evict(chosen)?.into_iter().collect();
        for (attempt, log) in &stored {
            if evicted.contains(attempt) {
                left -= log.bytes;
            } else if log.raw_bytes >= PACK_BYTES_MIN {
                self.compress(*attempt)?;
            }
        }
        let connection = self.inner.reader.writing()?;
        let mut records =
            prune(&connection, oldest_ms, now_ms.saturating_sub(milliseconds(retention.record_age)))?;
        records.jobs += prune_excess(&connection, retention.record_bytes)?;
        Ok(Retained {
            logs_evicted: evicted.len() as u64 + records.logs,
            records_evicted: records.jobs,
            log_bytes: left,
            logs: (stored.len() - evicted.len()) as u64,
        })
    }

    /// Returns all logs that have files.
    fn list(&self) -> Result<Vec<(AttemptId, StoredLog)>, LogError> {
        let mut logs: HashMap<AttemptId, StoredLog> = HashMap::new();
        self.list_objects(&mut logs)?;
        for directory in self.directories()? {
            for entry in std::fs::read_dir(&directory).map_err(LogError::file("list", &directory))? {
                let entry = entry.map_err(LogError::file("list", &directory))?;
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                // A file may disappear during the listing because it was compressed.
                let (Some(attempt), Ok(metadata)) = (LogFiles::attempt_of(name), entry.metadata()) else {
                    continue;
                };
                let log = logs.entry(attempt).or_default();
                log.bytes += metadata.blocks() * 512;
                log.raw_bytes += if name.ends_with(".raw") { metadata.len() } else { 0 };
                log.changed_ms =
                    log.changed_ms.max(metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000);
            }
        }
        Ok(logs.into_iter().collect())
    }

    /// Returns the directories that contain logs.
    fn directories(&self) -> Result<Vec<PathBuf>, LogError> {
        let mut directories = Vec::new();
        let root = self.root();
        for directory in std::fs::read_dir(root).map_err(LogError::file("list", root))? {
            directories.push(directory.map_err(LogError::file("list", root))?.path());
        }
        Ok(directories)
    }

    /// Adds the logs that are shared with other coordinators.
    fn list_objects(&self, logs: &mut HashMap<AttemptId, StoredLog>) -> Result<(), LogError> {
        let Some(objects) = &self.inner.objects else { return Ok(()) };
        for owner in objects.owners(Kind::Log)? {
            let Some(attempt) = attempt_of(&owner.name) else { continue };
            let stored = StoredLog { bytes: owner.bytes, raw_bytes: 0, changed_ms: owner.stored_at_ms };
            logs.insert(attempt, stored);
        }
        Ok(())
    }

    /// Removes the logs that are not in use, after writing a record that they existed.
    fn evict(&self, mut chosen: Vec<AttemptId>) -> Result<Vec<AttemptId>, LogError> {
        if chosen.is_empty() {
            return Ok(chosen);
        }
        self.begin_eviction(&mut chosen);
        let result = self.remove(&chosen);
        self.end_eviction(&chosen);
        result.map(|()| chosen)
    }

    fn remove(&self, chosen: &[AttemptId]) -> Result<(), LogError> {
        let mut lengths = Vec::with_capacity(chosen.len());
        for attempt in chosen {
            // A log that can't be read is removed too; its recorded length is 0.
            let place = LogFiles::new(self.root(), *attempt);
            let recovered = Layout::recover(&place, *attempt, &self.inner.disk, false);
            let here = recovered.map_or(0, |(_, state)| state.position);
            lengths.push(here.max(self.shared_length(*attempt)?));
        }
        let connection = self.inner.reader.writing()?;
        self.inner
            .disk
            .before(Operation::Commit, self.root())
            .map_err(LogError::file("write", self.root()))?;
        write_evicted(&connection, chosen, &lengths).map_err(StoreError::database("record a removed log"))?;
        for attempt in chosen {
            LogFiles::new(self.root(), *attempt).remove_all(&self.inner.disk)?;
            if let Some(objects) = &self.inner.objects {
                objects.remove(Kind::Log, &owner(*attempt), |_| true)?;
            }
        }
        Ok(())
    }

    /// Queues the rest of an ended log for compression.
    fn compress(&self, attempt: AttemptId) -> Result<(), LogError> {
        match self.reader(attempt) {
            Ok(reader) if reader.progress().ended => {
                if let Some(shared) = reader.shared() {
                    self.inner.keeper.pack(shared);
                }
                Ok(())
            }
            Ok(_) | Err(LogError::Evicted { .. } | LogError::Unknown) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn write_evicted(connection: &Connection, chosen: &[AttemptId], lengths: &[u64]) -> sql::Result<()> {
    let transaction = connection.transaction()?;
    for (attempt, length) in chosen.iter().zip(lengths) {
        transaction
            .prepare_cached(
                "INSERT INTO evicted(job, attempt, length) VALUES(?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                attempt.job.as_uuid().as_bytes(),
                attempt.number,
                i64::try_from(*length).unwrap_or(i64::MAX)
            ])?;
    }
    transaction.commit()
}

struct Pruned {
    logs: u64,
    jobs: u64,
}

/// Limit on job records that one transaction removes. It keeps the runtime's own commits from
/// waiting long.
const PRUNED_AT_ONCE: u32 = 500;

/// Removes logs in the database, and records, that are older than the given times.
fn prune(connection: &Connection, log_ms: i64, record_ms: i64) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned { logs: 0, jobs: 0 };
    loop {
        let step =
            prune_some(connection, log_ms, record_ms).map_err(StoreError::database("remove old records"))?;
        pruned.logs += step.logs;
        pruned.jobs += step.jobs;
        if step.logs == 0 && step.jobs == 0 {
            return Ok(pruned);
        }
    }
}

fn prune_some(connection: &Connection, log_ms: i64, record_ms: i64) -> sql::Result<Pruned> {
    let transaction = connection.transaction()?;
    let old_logs = "SELECT job, attempt FROM logs WHERE stored_at_ms < ?1 ORDER BY stored_at_ms LIMIT ?2";
    transaction.execute(
        &format!(
            "INSERT INTO evicted(job, attempt, length)
             SELECT job, attempt, length(bytes) FROM logs WHERE (job, attempt) IN ({old_logs}) ON CONFLICT DO NOTHING"
        ),
        params![log_ms, PRUNED_AT_ONCE],
    )?;
    let logs = transaction.execute(
        &format!("DELETE FROM logs WHERE (job, attempt) IN ({old_logs})"),
        params![log_ms, PRUNED_AT_ONCE],
    )?;
    let mut old_jobs = transaction.prepare_cached(
        "SELECT seq, id FROM jobs WHERE body IS NOT NULL AND finished_at_ms IS NOT NULL AND finished_at_ms < ?1
         ORDER BY finished_at_ms LIMIT ?2",
    )?;
    let jobs: Vec<RecordKey> = old_jobs
        .query_map(params![record_ms, PRUNED_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<sql::Result<_>>()?;
    drop(old_jobs);
    remove_records(&transaction, &jobs)?;
    transaction.commit()?;
    Ok(Pruned { logs: logs as u64, jobs: jobs.len() as u64 })
}

/// Removes the oldest records of each submitter beyond this size. Returns their number.
fn prune_excess(connection: &Connection, most: u64) -> Result<u64, StoreError> {
    let prune = || -> sql::Result<u64> {
        let mut count = 0;
        loop {
            let found = excess(connection, most)?;
            for jobs in found.chunks(PRUNED_AT_ONCE as usize) {
                let transaction = connection.transaction()?;
                remove_records(&transaction, jobs)?;
                transaction.commit()?;
            }
            count += found.len() as u64;
            if found.len() < EXCESS_AT_ONCE {
                return Ok(count);
            }
        }
    };
    prune().map_err(StoreError::database("remove old records"))
}

fn remove_records(transaction: &Connection, jobs: &[RecordKey]) -> sql::Result<()> {
    for (seq, id) in jobs {
        transaction.prepare_cached("DELETE FROM specs WHERE seq = ?1")?.execute(params![seq])?;
        transaction.prepare_cached("DELETE FROM evicted WHERE job = ?1")?.execute(params![id])?;
        transaction
            .prepare_cached(
                "UPDATE jobs SET body = NULL, request = NULL, build = NULL, principal = '' WHERE seq = ?1",
            )?
            .execute(params![seq])?;
    }
    Ok(())
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
