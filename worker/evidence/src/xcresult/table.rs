//! Reads tables of an untrusted database. Columns are looked up first, rows and work are limited.
//! Views, virtual tables and triggers are never executed.

use crate::error::EvidenceError;
use crate::limits::{
    BUNDLE_TEXT_BYTES_MAX, DATABASE_BYTES_MAX, DATABASE_STEP_UNIT, DATABASE_STEPS_MAX,
    DATABASE_VALUE_BYTES_MAX, TABLE_ROWS_MAX,
};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::cell::Cell as StdCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A database opened for reading only.
pub(crate) struct Tables {
    connection: Connection,
    path: PathBuf,
    ordinary: HashSet<String>,
    text_left: StdCell<usize>,
}

/// Requested columns of a row, in the requested order. `None` for NULL and for missing columns.
pub(crate) struct Row {
    pub(crate) id: i64,
    cells: Vec<Option<Cell>>,
}

enum Cell {
    Integer(i64),
    Real(f64),
    Text(String),
}

impl Tables {
    /// Opens a database without a lock and without a journal.
    pub(crate) fn open(path: &Path) -> Result<Self, EvidenceError> {
        // Check the file first, so that SQLite never opens a link, a pipe or a device.
        let file = crate::files::open_regular(path)?;
        let bytes = file.metadata().map_err(|error| EvidenceError::io(path, error))?.len();
        if bytes > DATABASE_BYTES_MAX {
            return Err(EvidenceError::TooLarge { path: path.to_owned(), bytes, limit: DATABASE_BYTES_MAX });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        // SQLite refuses a link anywhere in the path. The last component was checked above.
        let absolute = std::fs::canonicalize(path).map_err(|error| EvidenceError::io(path, error))?;
        let open = |absolute: &Path| -> rusqlite::Result<Connection> {
            let mut connection = Connection::open_with_flags(uri(absolute), flags)?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, DATABASE_VALUE_BYTES_MAX)?;
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
            let mut steps = 0_u64;
            connection.progress_handler(
                DATABASE_STEP_UNIT,
                Some(move || {
                    steps += 1;
                    steps > DATABASE_STEPS_MAX
                }),
            )?;
            connection.execute_batch(
                "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA query_only=ON;",
            )?;
            Ok(connection)
        };
        let wrong = |error: rusqlite::Error| EvidenceError::malformed(path, "SQLite", error.to_string());
        let connection = open(&absolute).map_err(wrong)?;
        let ordinary = ordinary_tables(&connection).map_err(wrong)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            ordinary,
            text_left: StdCell::new(BUNDLE_TEXT_BYTES_MAX),
        })
    }

    pub(crate) fn has(&self, table: &str) -> bool {
        self.ordinary.contains(table)
    }

    /// Calls `row` for each row of a table in the order of row ids. A missing table has no rows.
    pub(crate) fn each(
        &self,
        table: &str,
        columns: &[&str],
        mut row: impl FnMut(Row),
    ) -> Result<(), EvidenceError> {
        if !self.has(table) {
            return Ok(());
        }
        self.try_each(table, columns, &mut row).map_err(|error| {
            EvidenceError::malformed(&self.path, "result bundle", format!("table {table}: {error}"))
        })
    }

    fn try_each(&self, table: &str, columns: &[&str], row: &mut dyn FnMut(Row)) -> rusqlite::Result<()> {
        let there = self.columns(table)?;
        let list: Vec<String> = columns
            .iter()
            .map(|column| if there.contains(*column) { format!("\"{column}\"") } else { "NULL".to_owned() })
            .collect();
        let select = format!(
            "SELECT rowid, {} FROM \"{table}\" ORDER BY rowid LIMIT {TABLE_ROWS_MAX}",
            list.join(", ")
        );
        let mut statement = self.connection.prepare(&select)?;
        let mut rows = statement.query([])?;
        while let Some(found) = rows.next()? {
            let mut cells = Vec::with_capacity(columns.len());
            for index in 0..columns.len() {
                cells.push(self.cell(found.get_ref(index + 1)?)?);
            }
            row(Row { id: found.get(0)?, cells });
        }
        Ok(())
    }

    fn cell(&self, value: ValueRef<'_>) -> rusqlite::Result<Option<Cell>> {
        Ok(match value {
            ValueRef::Null | ValueRef::Blob(_) => None,
            ValueRef::Integer(number) => Some(Cell::Integer(number)),
            ValueRef::Real(number) => Some(Cell::Real(number)),
            ValueRef::Text(bytes) => {
                let left =
                    self.text_left.get().checked_sub(bytes.len()).ok_or(rusqlite::Error::SqliteFailure(
                        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG),
                        Some(format!("more than {BUNDLE_TEXT_BYTES_MAX} bytes of text")),
                    ))?;
                self.text_left.set(left);
                Some(Cell::Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        })
    }

    fn columns(&self, table: &str) -> rusqlite::Result<HashSet<String>> {
        // `hidden` is 0 for ordinary columns. Computed columns would execute expressions from the
        // untrusted file.
        let mut statement =
            self.connection.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
        statement.query_map([table], |row| row.get::<_, String>(0))?.collect()
    }

    /// Returns a map from row id to one text column.
    pub(crate) fn texts(&self, table: &str, column: &str) -> Result<HashMap<i64, String>, EvidenceError> {
        let mut map = HashMap::new();
        self.each(table, &[column], |mut row| {
            if let Some(text) = row.text(0) {
                map.insert(row.id, text);
            }
        })?;
        Ok(map)
    }
}

impl Row {
    pub(crate) fn text(&mut self, at: usize) -> Option<String> {
        match self.cells.get_mut(at)?.take()? {
            Cell::Text(text) => Some(text),
            Cell::Integer(number) => Some(number.to_string()),
            Cell::Real(number) => Some(number.to_string()),
        }
    }

    pub(crate) fn integer(&self, at: usize) -> Option<i64> {
        match self.cells.get(at)?.as_ref()? {
            Cell::Integer(number) => Some(*number),
            Cell::Real(_) | Cell::Text(_) => None,
        }
    }

    pub(crate) fn real(&self, at: usize) -> Option<f64> {
        match self.cells.get(at)?.as_ref()? {
            Cell::Real(number) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "a duration in whole seconds")]
            Cell::Integer(number) => Some(*number as f64),
            Cell::Text(_) => None,
        }
    }

    /// Returns a line or column number.
    pub(crate) fn position(&self, at: usize) -> Option<u32> {
        self.integer(at).and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
    }
}

fn ordinary_tables(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' LIMIT 1000",
    )?;
    statement.query_map([], |row| row.get::<_, String>(0))?.collect()
}

/// Returns the URI of a database. `immutable` makes SQLite ignore a journal, which a hostile bundle
/// could contain.
fn uri(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    uri
}
