//! Moves records between the SQLite databases of a data directory and a PostgreSQL server.
//!
//! The source is only read. Rows are added in the order of their keys, and rows that are there already are skipped, so an
//! interrupted copy goes on when it is called again. A mark in the target keeps coordinators away until the copy is
//! complete and has been compared with the source.

mod table;

use super::database::{AUTH, Database, Format, RECORDS, WEBHOOKS};
use super::disk::Disk;
use super::error::StoreError;
use super::sql::{self, Connection, Kind, OptionalExtension, params};
use crate::auth::TOKENS_FILE;
use crate::webhooks::WEBHOOKS_FILE;
use std::path::Path;
use table::Table;

/// Key in the table `meta` of a target: [`BEGUN`], or [`COMPLETE`] until the first coordinator starts on it.
pub(super) const MIGRATING: &str = "migrating";
/// The copy is not complete.
pub(super) const BEGUN: i64 = 1;
/// The copy is complete.
const COMPLETE: i64 = 2;
/// Tables that are not copied: their rows name the objects of one place.
const NOT_COPIED: [&str; 1] = ["objects"];

/// Name of one side in errors.
const SOURCE: &str = "source";

/// Whether a coordinator leads.
const LEADS: &str = "SELECT epoch FROM lease WHERE expires_at >= clock_timestamp()";

/// Number of rows that were compared, by table.
pub(crate) type Counts = Vec<(String, u64)>;

/// The databases of one place.
pub(crate) struct Databases([(Database, &'static Format); 3]);

impl Databases {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let file = |name: &str| Database::File(directory.join(name));
        Self([(file("records.db"), &RECORDS), (file(TOKENS_FILE), &AUTH), (file(WEBHOOKS_FILE), &WEBHOOKS)])
    }

    pub(crate) fn on_server(server: &super::Server) -> Self {
        Self([&RECORDS, &AUTH, &WEBHOOKS].map(|format| (Database::Server(server.clone()), format)))
    }

    /// Checks that the databases have the format of this version. A reader can't bring them to it.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] with the next step.
    pub(crate) fn check_format(&self) -> Result<(), StoreError> {
        if let (Database::File(path), _) = &self.0[0]
            && !path.exists()
        {
            let reason =
                "it has no file `records.db`; name the data directory of a coordinator by --from-data-dir";
            return Err(StoreError::Unusable { side: SOURCE, reason });
        }
        for (database, format) in &self.0 {
            let Database::File(path) = database else { continue };
            if path.exists()
                && super::database::version(&super::database::open_reader(path)?)? != format.newest()
            {
                let reason = "it has the format of another version; start and stop a coordinator of this version on it first";
                return Err(StoreError::Unusable { side: SOURCE, reason });
            }
        }
        Ok(())
    }

    /// Checks that no coordinator leads on the server.
    ///
    /// # Errors
    /// [`StoreError::Unusable`]
    pub(crate) fn refuse_leader(&self) -> Result<(), StoreError> {
        let connection = self.0[0].0.open(&Disk::default())?;
        let leader = connection
            .query_row(LEADS, &[], |row| row.get::<i64>(0))
            .optional()
            .map_err(StoreError::database("read the lease"))?;
        let reason = "a coordinator uses it; stop all coordinators first";
        leader.map_or(Ok(()), |_| Err(StoreError::Unusable { side: SOURCE, reason }))
    }

    /// Prepares the target: makes its tables, and marks it as incomplete.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] if it has jobs that no earlier call has copied, or a coordinator uses it.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        let connection = self.0[0].0.open_newest(&Disk::default(), &RECORDS)?;
        let failed = StoreError::database("prepare the target");
        let prepare = || -> sql::Result<Option<&str>> {
            let one = |sql: &str| connection.query_row(sql, &[], |row| row.get::<i64>(0)).optional();
            if connection.kind() == Kind::Server && one(LEADS)?.is_some() {
                return Ok(Some("a coordinator uses it; stop all coordinators first"));
            }
            let marked = connection
                .query_row("SELECT value FROM meta WHERE key = ?1", params![MIGRATING], |row| {
                    row.get::<i64>(0)
                })
                .optional()?;
            if marked.is_none() && one("SELECT seq FROM jobs LIMIT 1")?.is_some() {
                return Ok(Some("it has jobs; name an empty database or directory"));
            }
            connection.execute(super::open::SET_META, params![MIGRATING, BEGUN])?;
            Ok(None)
        };
        match prepare().map_err(failed)? {
            None => Ok(()),
            Some(reason) => Err(StoreError::Unusable { side: "target", reason }),
        }
    }

    /// Copies all rows of the source that the target lacks.
    ///
    /// # Errors
    /// [`StoreError`], with a part of the work done.
    pub(crate) fn copy_from(&self, source: &Self) -> Result<(), StoreError> {
        self.each_table(source, |table, from, to| table.copy(from, to))
    }

    /// Compares all rows with the source, and marks the migration as complete.
    ///
    /// # Errors
    /// [`StoreError::Differs`] with the table.
    pub(crate) fn finish(&self, source: &Self) -> Result<Counts, StoreError> {
        let mut counts = Counts::new();
        self.each_table(source, |table, from, to| {
            let (ours, theirs) = (table.sum(to)?, table.sum(from)?);
            if ours != theirs {
                return Ok(Err(table.name.clone()));
            }
            counts.push((table.name.clone(), ours.rows));
            Ok(Ok(()))
        })?;
        let connection = self.0[0].0.open(&Disk::default())?;
        connection
            .execute(super::open::SET_META, params![MIGRATING, COMPLETE])
            .map_err(StoreError::database("complete the target"))?;
        Ok(counts)
    }

    fn each_table<D: Into<Step>>(
        &self,
        source: &Self,
        mut act: impl FnMut(&Table, &Connection, &Connection) -> sql::Result<D>,
    ) -> Result<(), StoreError> {
        for ((from, format), (to, _)) in source.0.iter().zip(&self.0) {
            if let Database::File(path) = from
                && !path.exists()
            {
                // No token or webhook was ever made.
                continue;
            }
            let to = to.open_newest(&Disk::default(), format)?;
            let from = from.open_reader()?;
            let doing = "copy the records";
            let sqlite = [&from, &to].into_iter().find(|one| one.kind() == Kind::Sqlite);
            let sqlite = sqlite.expect("one of the two places is a data directory");
            for table in Table::all(sqlite).map_err(StoreError::database(doing))? {
                if NOT_COPIED.contains(&table.name.as_str()) {
                    continue;
                }
                let step = act(&table, &from, &to).map_err(StoreError::database(doing))?;
                step.into().0.map_err(|table| StoreError::Differs { table })?;
            }
        }
        Ok(())
    }
}

/// Result for one table: the name of the table if it differs.
struct Step(Result<(), String>);

impl From<()> for Step {
    fn from((): ()) -> Self {
        Self(Ok(()))
    }
}

impl From<Result<(), String>> for Step {
    fn from(result: Result<(), String>) -> Self {
        Self(result)
    }
}
