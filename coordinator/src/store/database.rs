//! Opens databases: pragmas, format version, migrations and integrity checks.

use super::disk::Disk;
use super::error::StoreError;
use super::limits;
use super::sql;
use super::sql::server::Server;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A kind of database: its application id and its migrations.
pub(crate) struct Format {
    /// Name of the format on a PostgreSQL server, where all tables are in one database.
    pub(crate) name: &'static str,
    /// SQLite's `application_id`, which identifies the kind of database.
    pub(crate) application_id: i32,
    /// Statements that migrate format `n` to `n + 1`. Entries are only added, never changed.
    pub(crate) migrations: &'static [&'static str],
}

impl Format {
    /// Returns the newest format that this build supports.
    pub(crate) fn newest(&self) -> u32 {
        u32::try_from(self.migrations.len()).expect("there are fewer than 2^32 migrations")
    }
}

/// Format of the job records.
pub(crate) const RECORDS: Format = Format {
    name: "records",
    application_id: 0x6270_6c31,
    migrations: &[RECORDS_1, RECORDS_2, RECORDS_3, RECORDS_4, RECORDS_5],
};

const RECORDS_1: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs(
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    created_at_ms INTEGER NOT NULL,
    finished_at_ms INTEGER,
    principal TEXT NOT NULL,
    request TEXT,
    build BLOB,
    body TEXT
);
CREATE INDEX jobs_created ON jobs(created_at_ms);
CREATE INDEX jobs_live ON jobs(seq) WHERE finished_at_ms IS NULL;
CREATE INDEX jobs_finished ON jobs(finished_at_ms) WHERE body IS NOT NULL AND finished_at_ms IS NOT NULL;
CREATE INDEX jobs_request ON jobs(principal, request) WHERE request IS NOT NULL;
CREATE INDEX jobs_build ON jobs(build) WHERE build IS NOT NULL;
CREATE TABLE specs(seq INTEGER PRIMARY KEY, spec TEXT NOT NULL);
CREATE TABLE logs(
    job BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    stored_at_ms INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY(job, attempt)
);
CREATE TABLE evicted(
    job BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY(job, attempt)
) WITHOUT ROWID;
CREATE TABLE workers(id BLOB PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE passing(seq INTEGER PRIMARY KEY, key BLOB NOT NULL, body TEXT NOT NULL);
CREATE INDEX passing_key ON passing(key, seq);
";

/// Adds the table of jobs that an equal submit attaches to.
const RECORDS_2: &str = "
CREATE TABLE attachable(job BLOB PRIMARY KEY) WITHOUT ROWID;
";

/// Adds the events, and the addresses from which each token was used. `AUTOINCREMENT` makes sure that no id is used twice.
const RECORDS_3: &str = "
CREATE TABLE events(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    submitter TEXT,
    at_ms INTEGER NOT NULL,
    facts TEXT NOT NULL
);
CREATE TABLE addresses(
    token BLOB NOT NULL,
    address TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    PRIMARY KEY(token, address)
) WITHOUT ROWID;
";

/// Adds the objects that several coordinators share ([`super::objects`]).
const RECORDS_4: &str = "
CREATE TABLE objects(
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    item TEXT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    blake3 TEXT NOT NULL,
    stored_at_ms INTEGER NOT NULL,
    PRIMARY KEY(kind, owner, item)
) WITHOUT ROWID;
";

/// Adds the results of tests that several coordinators share ([`super::test_runs`]).
const RECORDS_5: &str = "
CREATE TABLE test_runs(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job BLOB NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL,
    body BLOB NOT NULL
);
";

/// Format of the tokens and the audit log ([`crate::auth`]).
pub(crate) const AUTH: Format =
    Format { name: "auth", application_id: 0x6270_6c32, migrations: &[AUTH_1, AUTH_2, AUTH_3, AUTH_4] };

const AUTH_1: &str = "
CREATE TABLE tokens(
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    hash BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    revoked_at_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE audit(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);
";

/// Adds whether a revocation ends the jobs that were submitted with the token.
const AUTH_2: &str = "
ALTER TABLE tokens ADD COLUMN ends_jobs INTEGER NOT NULL DEFAULT 0;
";

/// Restrictions of tokens, as JSON.
const AUTH_3: &str = "ALTER TABLE tokens ADD COLUMN restriction TEXT;";

/// Adds the address of the peer to the audit log, and an index for the limits of each action.
const AUTH_4: &str = "
ALTER TABLE audit ADD COLUMN peer TEXT;
CREATE INDEX audit_action ON audit(action, seq);
";

/// Format of the webhooks ([`crate::webhooks`]).
pub(crate) const WEBHOOKS: Format =
    Format { name: "webhooks", application_id: 0x6270_6c33, migrations: &[WEBHOOKS_1] };

const WEBHOOKS_1: &str = "
CREATE TABLE webhooks(
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    secret BLOB NOT NULL,
    kinds TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    position INTEGER NOT NULL,
    disabled TEXT
) WITHOUT ROWID;
CREATE TABLE deliveries(
    webhook BLOB NOT NULL,
    event INTEGER NOT NULL,
    body TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    next_ms INTEGER NOT NULL,
    reason TEXT,
    dead INTEGER NOT NULL,
    PRIMARY KEY(webhook, event)
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries(webhook, dead, next_ms, event);
";

/// Format of the history of tests ([`crate::test_history`]).
pub(crate) const TESTS: Format =
    Format { name: "tests", application_id: 0x6270_6c34, migrations: &[TESTS_1, TESTS_2, TESTS_3] };

const TESTS_1: &str = "
CREATE TABLE tests(
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    command TEXT NOT NULL,
    name TEXT NOT NULL,
    submitter TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    doubtful INTEGER NOT NULL DEFAULT 0,
    flaky INTEGER NOT NULL DEFAULT 0,
    failing_ms INTEGER NOT NULL DEFAULT 0,
    slow_ms INTEGER NOT NULL DEFAULT 0,
    past_run INTEGER NOT NULL DEFAULT 0,
    UNIQUE(project, command, name)
);
CREATE INDEX tests_seen ON tests(seen_ms, id);
CREATE INDEX tests_slow ON tests(slow_ms, id) WHERE slow_ms > 0;
CREATE INDEX tests_flaky ON tests(flaky, id) WHERE flaky > 0;
CREATE INDEX tests_failing ON tests(failing_ms, id) WHERE failing_ms > 0;
CREATE INDEX tests_submitter ON tests(submitter, seen_ms);
CREATE TABLE runs(
    id INTEGER PRIMARY KEY,
    job BLOB NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL,
    submitter TEXT NOT NULL,
    worker TEXT NOT NULL,
    branch TEXT,
    tree TEXT
);
CREATE TABLE results(
    test INTEGER NOT NULL,
    run INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    duration_ms INTEGER,
    PRIMARY KEY(test, run)
) WITHOUT ROWID;
";

/// Adds the last copied row of each place with shared results.
const TESTS_2: &str = "
CREATE TABLE copied(place TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
";

/// Adds the job of the last copied row. Without it, all rows are copied again.
const TESTS_3: &str = "
ALTER TABLE copied ADD COLUMN job BLOB;
";

/// Where a database is.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    /// A file of SQLite.
    File(PathBuf),
    /// A PostgreSQL server.
    Server(Server),
}

impl Database {
    /// Opens the database for writing, and creates it if it is missing.
    pub(crate) fn open(&self, disk: &Disk) -> Result<sql::Connection, StoreError> {
        match self {
            Self::File(path) => open(path, disk).map(Into::into),
            Self::Server(server) => Ok(sql::Connection::Server(Box::new(server.session()))),
        }
    }

    /// Opens the database for writing, and migrates it to the newest format.
    ///
    /// # Errors
    /// As [`migrate`].
    pub(crate) fn open_newest(&self, disk: &Disk, format: &Format) -> Result<sql::Connection, StoreError> {
        match self {
            Self::File(path) => {
                let mut connection = open(path, disk)?;
                migrate(&mut connection, path, format)?;
                Ok(connection.into())
            }
            Self::Server(server) => {
                server.migrate(format.name, format)?;
                self.open(disk)
            }
        }
    }

    /// Opens the existing database for reading.
    pub(crate) fn open_reader(&self) -> Result<sql::Connection, StoreError> {
        match self {
            Self::File(path) => open_reader(path).map(Into::into),
            Self::Server(_) => self.open(&Disk::default()),
        }
    }
}

/// Opens a database for writing, and creates it if it is missing.
pub(crate) fn open(path: &Path, disk: &Disk) -> Result<Connection, StoreError> {
    disk.before(super::disk::Operation::Create, path).map_err(StoreError::file("make", path))?;
    // Create the file here with mode 0600. SQLite gives its side files the same permissions.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(StoreError::file("make", path))?;
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Opens an existing database for reading.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    // Not `SQLITE_OPEN_READ_ONLY`: a reader of a write-ahead log needs the index file, and may have
    // to create it.
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(StoreError::database("set up the database"))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(StoreError::database("open the database"))?;
    let set_up = || -> rusqlite::Result<()> {
        connection.busy_timeout(limits::BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without it, each new value of a `LIMIT` or of an indexed column parses and plans the statement again.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "wal_autocheckpoint", limits::CHECKPOINT_PAGES)
    };
    set_up().map_err(StoreError::database("set up the database"))?;
    Ok(connection)
}

/// Returns the format of a database, or 0 if it is empty.
pub(crate) fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(StoreError::database("read the database's format"))
}

/// Migrates a database to the newest format, in one transaction.
///
/// # Errors
/// [`StoreError::Newer`] if a newer version wrote it, [`StoreError::Corrupt`] if it belongs to
/// another program.
pub(crate) fn migrate(connection: &mut Connection, path: &Path, format: &Format) -> Result<(), StoreError> {
    let doing = "bring the database to the newest format";
    let known = format.newest();
    if version(connection)? == known {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(StoreError::database(doing))?;
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    let application: i32 = transaction
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(StoreError::database(doing))?;
    if found > 0 && application != format.application_id {
        return Err(StoreError::Corrupt {
            path: path.to_owned(),
            detail: "it is a database of another program".into(),
        });
    }
    for migration in format.migrations.iter().skip(found as usize) {
        transaction.execute_batch(migration).map_err(StoreError::database(doing))?;
    }
    transaction
        .pragma_update(None, "application_id", format.application_id)
        .map_err(StoreError::database(doing))?;
    transaction.pragma_update(None, "user_version", known).map_err(StoreError::database(doing))?;
    transaction.commit().map_err(StoreError::database(doing))
}

/// Runs SQLite's `quick_check`.
///
/// # Errors
/// [`StoreError::Corrupt`] with the first problem found.
pub(crate) fn quick_check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    ask(connection, path, "quick_check")
}

/// Runs SQLite's `integrity_check`, which also checks every index.
pub(crate) fn full_check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    ask(connection, path, "integrity_check")
}

fn ask(connection: &Connection, path: &Path, pragma: &str) -> Result<(), StoreError> {
    let answer: String = connection
        .pragma_query_value(None, pragma, |row| row.get(0))
        .map_err(StoreError::database("check the database"))?;
    if answer == "ok" { Ok(()) } else { Err(StoreError::Corrupt { path: path.to_owned(), detail: answer }) }
}

/// Moves the write-ahead log into the database, as far as possible without waiting for readers and
/// writers.
pub(crate) fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    let doing = "move the write-ahead log into the database";
    connection.pragma_update(None, "query_only", false).map_err(StoreError::database(doing))?;
    connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        .map_err(StoreError::database(doing))
}

#[cfg(test)]
mod tests {
    use super::open;
    use crate::store::disk::Disk;
    use rusqlite::StatementStatus::RePrepare;

    #[test]
    fn a_prepared_statement_is_planned_once_for_all_values() {
        let directory = tempfile::tempdir().unwrap();
        let connection = open(&directory.path().join("test.db"), &Disk::default()).unwrap();
        connection.execute_batch("CREATE TABLE numbers(number INTEGER PRIMARY KEY)").unwrap();
        let sql = "SELECT number FROM numbers WHERE number > ?1 ORDER BY number LIMIT ?2";
        let mut statement = connection.prepare(sql).unwrap();
        for limit in 1..5 {
            assert!(statement.query([7, limit]).unwrap().next().unwrap().is_none());
        }
        assert_eq!(statement.get_status(RePrepare), 0);
    }
}
