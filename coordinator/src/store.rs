//! The data directory: job records in SQLite, logs in files, and the lock. A PostgreSQL server can hold the records instead,
//! and a bucket or a shared directory the bytes.
//!
//! It contains `records.db` (jobs, workers, history, short logs), `logs/` (segments and packs),
//! `lock` (held by the running coordinator) and the files of [`crate::auth`] and [`crate::tls`].
//! Only the coordinator's user can read them.

mod background;
mod backup;
mod check;
mod database;
mod disk;
mod error;
mod events;
pub mod limits;
mod logs;
pub(crate) mod meter;
mod migrate;
mod objects;
mod open;
mod passing;
mod reader;
mod records;
mod reserve;
mod ring;
pub(crate) mod sql;
mod test_runs;
mod writer;

pub(crate) use background::locked;
pub use backup::{BackedUp, BackupError, backup};
pub use check::{Depth, Remark, Weight, check};
pub(crate) use database::{AUTH, Database, RECORDS, TESTS, WEBHOOKS, migrate, open as open_database};
pub use disk::{Disk, Hook, Operation};
pub use error::StoreError;
pub(crate) use events::members;
pub use events::{Event, EventKind, EventRange, NewEvent, TokenUse, UnknownEventKind};
pub use logs::{
    Appended, LogError, LogReader, LogWriter, Logs, Progress, Retained, Retention, SealError, Sealed,
    Shortened,
};
pub(crate) use logs::{each_chunk, export_logs, import_log};
pub(crate) use migrate::Databases;
pub(crate) use objects::{Item, Key, Kind};
pub use objects::{ObjectError, Objects, ObjectsUrl, Provider, check_objects};
pub use open::Store;
pub(crate) use open::hold_directory;
pub(crate) use open::{make_directory, setup_lock};
pub use reader::{Lookup, Reader, ResolveError};
pub use records::{
    AttemptEnd, AttemptEnding, AttemptRecord, CancelRecord, DoneRecord, HistoryKey, JobFilter, JobRecord,
    PassingRun, Record, WorkerRecord,
};
pub use ring::{CompletedLog, Ring};
pub use sql::Error as DatabaseError;
pub use sql::server::{Server, SourceError, StoreUrl};
pub(crate) use test_runs::{TestRunRow, TestRuns};
pub use writer::Writer;

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970, or 0 if the clock is set before 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
