//! Opens a data directory. It checks that no other coordinator uses it, that the format is
//! supported, and that the database is intact.

use super::database::{self, Database};
use super::disk::Disk;
use super::error::StoreError;
use super::logs::Logs;
use super::migrate::{BEGUN, MIGRATING};
use super::objects::{Objects, ObjectsUrl};
use super::passing::PassingRuns;
use super::reader::Reader;
use super::reserve::{RESERVE_BYTES, Reserve};
use super::sql::server::Server;
use super::sql::{self, Connection, Kind, OptionalExtension, params};
use super::writer::Writer;
use buildpool_protocol::limits::RING_JOBS;
use buildpool_protocol::{AttemptId, JobId};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// Settings of a bucket, as environment variables.
type Environment = Vec<(String, String)>;

/// A coordinator's data directory, locked by this process.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    disk: Disk,
    database: Database,
    reader: Reader,
    passing: PassingRuns,
    logs: Logs,
    objects: Option<Objects>,
    start: u64,
    /// Shared with the writers, to count them.
    open: Arc<()>,
    /// Unlocks when it is dropped, also while a child that another thread starts still has a copy of
    /// the descriptor: the lock belongs to the open file, and a child has its copies until `exec`.
    _lock: Flock<File>,
}

impl Store {
    /// Opens the data directory, and creates it if it is missing.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another coordinator runs on it, [`StoreError::Newer`] if a newer
    /// version wrote it, [`StoreError::Corrupt`] if the database is damaged.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_on(directory, Disk::default())
    }

    /// Opens the data directory on a disk that may have a hook.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(directory: &Path, disk: Disk) -> Result<Self, StoreError> {
        Self::open_at(directory, disk, None)
    }

    /// Opens the data directory of one of several coordinators. The records are on a PostgreSQL server, and sealed logs
    /// are copied to `objects`. Both are shared by the coordinators. `environment` has the settings of the bucket.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_shared(
        directory: &Path,
        server: &Server,
        objects: &ObjectsUrl,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, StoreError> {
        let environment = environment.collect();
        Self::open_at(directory, Disk::default(), Some((server, objects, environment)))
    }

    /// Ends each call that waits for the PostgreSQL server or the bucket, and each later one, with an error. A coordinator
    /// that does not lead any more needs no answer.
    pub(crate) fn close_shared(&self) {
        if let Database::Server(server) = &self.database {
            server.close();
        }
        if let Some(objects) = &self.objects {
            objects.close();
        }
    }

    fn open_at(
        directory: &Path,
        disk: Disk,
        shared: Option<(&Server, &ObjectsUrl, Environment)>,
    ) -> Result<Self, StoreError> {
        make_directory(directory)?;
        let lock = lock(directory)?;
        let reserve = Reserve::in_directory(directory);
        if disk.free_bytes(directory).is_some_and(|free| free < RESERVE_BYTES) {
            // Counting this start writes to the database. The next retention pass fills the reserve
            // again.
            reserve.release();
        }
        let path = records_path(directory);
        let server = shared.as_ref().map(|(server, ..)| Server::clone(server));
        let database = server.map_or_else(|| Database::File(path.clone()), Database::Server);
        let connection = database.open_newest(&disk, &database::RECORDS)?;
        let start = begin(&connection, &path)?;
        let root = directory.join("logs");
        if !root.is_dir() {
            make_directory(&root)?;
            disk.sync_directory(directory).map_err(StoreError::file("sync", directory))?;
        }
        let passing = PassingRuns::default();
        let reader = Reader::beside_writer(database.clone(), passing.clone());
        let checkpointed = shared.is_none().then_some(path);
        let objects = shared.map(|(_, url, environment)| {
            Objects::open(url, directory, (reader.clone(), start), environment.into_iter())
        });
        let objects = objects.transpose().map_err(|error| StoreError::Objects(Box::new(error)))?;
        let logs = Logs::new(root.clone(), objects.clone(), checkpointed, disk.clone(), reader.clone())
            .map_err(StoreError::file("start the keeper of", root))?;
        logs.warm_ring(last_completed(&connection)?);
        Ok(Self {
            directory: directory.to_owned(),
            disk,
            database,
            reader,
            passing,
            logs,
            objects,
            start,
            open: Arc::new(()),
            _lock: lock,
        })
    }

    /// Returns a writer of records. The runtime should have the only one.
    ///
    /// # Errors
    /// If the database can't be opened again.
    pub fn writer(&self) -> Result<Writer, StoreError> {
        let path = records_path(&self.directory);
        let connection = self.database.open(&self.disk)?;
        let shared = (self.logs.clone(), self.passing.clone());
        Ok(Writer::new(connection, path, self.disk.clone(), shared, Arc::clone(&self.open)))
    }

    /// Returns a reader of records. Cheap to clone.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Returns the logs. Cheap to clone.
    pub fn logs(&self) -> Logs {
        self.logs.clone()
    }

    /// Returns the objects that several coordinators share. `None` if this coordinator shares nothing.
    pub(crate) fn objects(&self) -> Option<Objects> {
        self.objects.clone()
    }

    /// Returns the path of the data directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the number of this start, which is larger than that of each earlier start. This also
    /// holds after an old backup was restored, unless the clock was set back.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the base of this start's epochs. Each epoch that this start grants is above it, and
    /// above all epochs of earlier starts.
    pub fn epoch_base(&self) -> u64 {
        self.start << 24
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.logs.close();
        if Arc::strong_count(&self.open) > 1 {
            return;
        }
        let Database::File(path) = &self.database else { return };
        let marked = database::open(path, &self.disk).map(Connection::from).and_then(|connection| {
            connection
                .execute(SET_META, params!["clean", 1_i64])
                .map_err(StoreError::database("write that all is well"))
        });
        if let Err(error) = marked {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the next start will check the database"
            );
        }
    }
}

pub(super) fn records_path(directory: &Path) -> PathBuf {
    directory.join("records.db")
}

pub(crate) fn make_directory(directory: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(StoreError::file("make the directory", directory))
}

/// Locks the first-time setup of files that two processes must not create at once. Blocks while
/// another process holds the lock.
pub(crate) fn setup_lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("setup.lock");
    let failed = |source| StoreError::File { doing: "lock", path: path.clone(), source };
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Locks a data directory, as a coordinator does, until the result is dropped.
///
/// # Errors
/// [`StoreError::InUse`] if a coordinator runs on it.
pub(crate) fn hold_directory(directory: &Path) -> Result<Flock<File>, StoreError> {
    lock(directory)
}

fn lock(directory: &Path) -> Result<Flock<File>, StoreError> {
    let path = directory.join("lock");
    let failed = |source| StoreError::File { doing: "lock", path: path.clone(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            // The other process may not have written its process id yet. Then the message omits it.
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(StoreError::InUse { directory: directory.to_owned(), pid });
        }
        Err((_, errno)) => return Err(failed(errno.into())),
    };
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    match write(&mut file) {
        // The process id is used in messages only; a full disk must not prevent a start.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Ok(file),
        result => result.map(|()| file).map_err(failed),
    }
}

/// Key in the table `meta`: records that the present leader has committed.
pub(super) const WRITTEN: &str = "written";
/// Sets a number in the table `meta`.
pub(super) const SET_META: &str =
    "INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value";

/// Checks a SQLite database unless it was closed cleanly, and counts this start.
fn begin(connection: &Connection, path: &Path) -> Result<u64, StoreError> {
    let doing = "count this start";
    let value = |key: &str| -> Result<i64, StoreError> {
        connection
            .query_row("SELECT value FROM meta WHERE key = ?1", params![key], |row| row.get(0))
            .optional()
            .map(Option::unwrap_or_default)
            .map_err(StoreError::database(doing))
    };
    if let Connection::Sqlite(connection) = connection
        && value("clean")? == 0
    {
        database::quick_check(connection, path)?;
    }
    if value(MIGRATING)? == BEGUN {
        return Err(StoreError::Migrating);
    }
    let start = (value("start")? + 1).max(super::now_ms() / 1000);
    let write = || {
        let transaction = connection.transaction()?;
        transaction.execute(SET_META, params!["clean", 0_i64])?;
        transaction.execute(SET_META, params!["start", start])?;
        transaction.execute("DELETE FROM meta WHERE key = ?1", params![MIGRATING])?;
        if connection.kind() == Kind::Server {
            transaction.execute(SET_META, params![WRITTEN, 0_i64])?;
        }
        transaction.commit()
    };
    write().map_err(StoreError::database(doing))?;
    Ok(u64::try_from(start).expect("it is at least 1"))
}

/// Returns the final attempts of the last completed jobs, newest first.
fn last_completed(connection: &Connection) -> Result<Vec<AttemptId>, StoreError> {
    // A row with an invalid attempt number is skipped: the rows are used only to fill the ring.
    let valid = match connection.kind() {
        Kind::Sqlite => "json_valid(body)",
        // A file can be damaged, but a row on a server is as it was written.
        Kind::Server => "true",
    };
    let sql = format!(
        "SELECT id, CAST(json_extract(body, '$.done.attempt') AS BIGINT) FROM jobs
         WHERE body IS NOT NULL AND {valid} AND finished_at_ms IS NOT NULL
         ORDER BY finished_at_ms DESC LIMIT ?1"
    );
    let read = || {
        connection
            .prepare_cached(&sql)?
            .query_map(params![RING_JOBS as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<sql::Result<Vec<([u8; 16], Option<i64>)>>>()
    };
    let rows = read().map_err(StoreError::database("read job records"))?;
    let attempt = |(id, number): ([u8; 16], Option<i64>)| {
        let number = u32::try_from(number?).ok()?;
        Some(AttemptId { job: JobId::from_uuid(Uuid::from_bytes(id)), number })
    };
    Ok(rows.into_iter().filter_map(attempt).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::support::scratch;

    #[test]
    fn a_closed_store_is_free_although_a_child_still_has_the_descriptor() {
        let directory = scratch();
        let store = Store::open(directory.path()).unwrap();
        // As `fork` leaves it in a child that has not called `exec` yet.
        let copy = store._lock.try_clone().unwrap();
        assert!(matches!(Store::open(directory.path()), Err(StoreError::InUse { .. })));
        drop(store);
        Store::open(directory.path()).unwrap();
        drop(copy);
    }
}
