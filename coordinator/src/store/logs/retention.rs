//! Which logs go, and when: the oldest first, never one that is used.

use super::error::LogError;
use super::layout::Place;
use super::registry::Logs;
use crate::store::disk::Operation;
use crate::store::error::StoreError;
use crate::store::limits::{PACK_BYTES_MIN, RECORD_AGE, RETAIN_ROOM_BYTES};
use crate::store::reserve::Reserve;
use buildpool_protocol::AttemptId;
use buildpool_protocol::limits::{RETENTION_AGE, RETENTION_BYTES};
use rusqlite::{Connection, TransactionBehavior, params};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How long and how much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Logs go this long after their last byte.
    pub log_age: Duration,
    /// Logs go, oldest first, beyond this many bytes on disk.
    pub log_bytes: u64,
    /// Logs go, oldest first, while the disk has less free space than this, in bytes.
    pub free_bytes: u64,
    /// Records go this long after their job's end; only the id stays known.
    pub record_age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            log_age: RETENTION_AGE,
            log_bytes: RETENTION_BYTES,
            free_bytes: RETAIN_ROOM_BYTES,
            record_age: RECORD_AGE,
        }
    }
}

/// What a pass has done and found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    /// Logs that were removed.
    pub logs_evicted: u64,
    /// Records that were removed.
    pub records_evicted: u64,
    /// Bytes on disk of the logs that are left.
    pub log_bytes: u64,
    /// Logs that are left, those beside their records not counted.
    pub logs: u64,
}

/// A log as the directory shows it.
#[derive(Clone, Copy, Default)]
struct Stored {
    bytes: u64,
    raw_bytes: u64,
    changed_ms: i64,
}

impl Logs {
    /// Whether the disk has less free space than retention keeps.
    pub fn is_short(&self, retention: &Retention) -> bool {
        self.free_bytes().is_some_and(|free| free < retention.free_bytes)
    }

    /// Removes what is kept no longer, as [`Logs::retain`] does, and fills the reserve again.
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

    /// Removes what is kept no longer, and compresses what a crash has left. On a full disk it uses the reserve. Blocks, for as long as it takes to list all
    /// logs; call it every few minutes.
    ///
    /// # Errors
    /// [`LogError`], with a part of the work done.
    pub fn retain(&self, retention: &Retention, now_ms: i64) -> Result<Retained, LogError> {
        // What the keeper still reads, as it does with the last logs after a start, would pass for a log in use.
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
            // A log goes only after a record of it, which needs space.
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
        let mut connection = self.inner.reader.writing()?;
        let records =
            prune(&mut connection, oldest_ms, now_ms.saturating_sub(milliseconds(retention.record_age)))?;
        Ok(Retained {
            logs_evicted: evicted.len() as u64 + records.logs,
            records_evicted: records.jobs,
            log_bytes: left,
            logs: (stored.len() - evicted.len()) as u64,
        })
    }

    /// Every log that has files.
    fn list(&self) -> Result<Vec<(AttemptId, Stored)>, LogError> {
        let mut logs: HashMap<AttemptId, Stored> = HashMap::new();
        let root = self.root();
        for directory in std::fs::read_dir(root).map_err(LogError::file("list", root))? {
            let directory = directory.map_err(LogError::file("list", root))?.path();
            for entry in std::fs::read_dir(&directory).map_err(LogError::file("list", &directory))? {
                let entry = entry.map_err(LogError::file("list", &directory))?;
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                // A file may go while the list is made: it was compressed.
                let (Some(attempt), Ok(metadata)) = (Place::attempt_of(name), entry.metadata()) else {
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

    /// Removes these logs as far as nobody uses them, after it is written down that they were there.
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
            let place = Place::new(self.root(), *attempt);
            // A log that can't be read goes all the same; then its length is not known.
            let recovered = super::layout::Layout::recover(&place, *attempt, &self.inner.disk, false);
            lengths.push(recovered.map_or(0, |(_, state)| state.position));
        }
        let mut connection = self.inner.reader.writing()?;
        self.inner
            .disk
            .before(Operation::Commit, self.root())
            .map_err(LogError::file("write", self.root()))?;
        write_evicted(&mut connection, chosen, &lengths)
            .map_err(StoreError::database("write what was evicted"))?;
        for attempt in chosen {
            Place::new(self.root(), *attempt).remove_all(&self.inner.disk)?;
        }
        Ok(())
    }

    /// Compresses what is left of a log of which nothing will follow.
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

fn write_evicted(connection: &mut Connection, chosen: &[AttemptId], lengths: &[u64]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (attempt, length) in chosen.iter().zip(lengths) {
        transaction
            .prepare_cached("INSERT OR IGNORE INTO evicted(job, attempt, length) VALUES(?1, ?2, ?3)")?
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

/// Jobs whose records go in one transaction, so that the runtime's own commits never wait long.
const PRUNED_AT_ONCE: u32 = 500;

/// Removes logs beside records, and records, that are older than asked for.
fn prune(connection: &mut Connection, log_ms: i64, record_ms: i64) -> Result<Pruned, StoreError> {
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

fn prune_some(connection: &mut Connection, log_ms: i64, record_ms: i64) -> rusqlite::Result<Pruned> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let old_logs = "SELECT rowid FROM logs WHERE stored_at_ms < ?1 ORDER BY stored_at_ms LIMIT ?2";
    transaction.execute(
        &format!(
            "INSERT OR IGNORE INTO evicted(job, attempt, length)
             SELECT job, attempt, length(bytes) FROM logs WHERE rowid IN ({old_logs})"
        ),
        params![log_ms, PRUNED_AT_ONCE],
    )?;
    let logs = transaction
        .execute(&format!("DELETE FROM logs WHERE rowid IN ({old_logs})"), params![log_ms, PRUNED_AT_ONCE])?;
    let mut old_jobs = transaction.prepare(
        "SELECT seq, id FROM jobs WHERE body IS NOT NULL AND finished_at_ms IS NOT NULL AND finished_at_ms < ?1
         ORDER BY finished_at_ms LIMIT ?2",
    )?;
    let jobs: Vec<(i64, [u8; 16])> = old_jobs
        .query_map(params![record_ms, PRUNED_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    drop(old_jobs);
    for (seq, id) in &jobs {
        transaction.prepare_cached("DELETE FROM specs WHERE seq = ?1")?.execute(params![seq])?;
        transaction.prepare_cached("DELETE FROM evicted WHERE job = ?1")?.execute(params![id])?;
        transaction
            .prepare_cached(
                "UPDATE jobs SET body = NULL, request = NULL, build = NULL, principal = '' WHERE seq = ?1",
            )?
            .execute(params![seq])?;
    }
    transaction.commit()?;
    Ok(Pruned { logs: logs as u64, jobs: jobs.len() as u64 })
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
