//! One SQL interface over two databases: SQLite in a file, or a PostgreSQL server.
//!
//! All statements of this crate are written once, in the SQL that both databases accept. Parameters are written as `?1`;
//! [`server`] translates them. Code with a statement that must differ calls [`Connection::kind`]. The interface has the names of
//! `rusqlite`, as far as this crate uses it.

pub(crate) mod server;
mod value;

pub(crate) use value::{Column, Raw, ToValue, Value};

use buildpool_protocol::error::chain;
use rusqlite::types::ValueRef;
use std::ops::Deref;

/// Result of a database operation.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Reason why a database operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite returned an error.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    /// The PostgreSQL server returned an error, or the connection to it failed.
    // The text has the whole chain of causes.
    #[error("{}", server_text(.0))]
    Server(tokio_postgres::Error),
    /// The PostgreSQL server did not answer in time.
    #[error("the PostgreSQL server did not answer in time")]
    Late,
    /// Another coordinator is the leader now, so this one may not write.
    #[error("another coordinator is the leader now")]
    Fenced,
    /// The server has lost commits of this leader: it is a standby server that did not receive them.
    #[error(
        "the PostgreSQL server lost the last commits of this leader, so it is a standby server that did not receive them"
    )]
    Rewound,
    /// The statement returned no row.
    #[error("the statement returned no row")]
    NoRow,
    /// A column has another type than expected.
    #[error("column {index} has an unexpected type")]
    Column {
        /// Index of the column, from 0.
        index: usize,
    },
    /// A stored value does not parse.
    #[error("the value of column {index} does not parse")]
    Value {
        /// Index of the column, from 0.
        index: usize,
        /// Error of the parser.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Returns true if the disk of the database is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            Self::Server(error) => error.code() == Some(&tokio_postgres::error::SqlState::DISK_FULL),
            Self::Late
            | Self::Fenced
            | Self::Rewound
            | Self::NoRow
            | Self::Column { .. }
            | Self::Value { .. } => false,
        }
    }
}

impl Error {
    /// Returns true if the server did not answer, or ended the connection.
    pub(crate) fn is_server_away(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Server(error) => {
                error.as_db_error().is_none_or(|error| error.code().code().starts_with("57P"))
            }
            _ => false,
        }
    }
}

fn server_text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} (SQLSTATE {})", error.message(), error.code().code()),
        None => chain(error),
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Self::NoRow,
            other => Self::Sqlite(other),
        }
    }
}

/// Turns the absence of a row into `None`.
pub(crate) trait OptionalExtension<T> {
    /// Returns `None` if the statement returned no row.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Kind of the database, for statements that differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sqlite,
    Server,
}

/// A connection to a database.
#[derive(Debug)]
pub(crate) enum Connection {
    Sqlite(Box<rusqlite::Connection>),
    Server(Box<server::Session>),
}

impl From<rusqlite::Connection> for Connection {
    fn from(connection: rusqlite::Connection) -> Self {
        Self::Sqlite(Box::new(connection))
    }
}

impl Connection {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Sqlite(_) => Kind::Sqlite,
            Self::Server(_) => Kind::Server,
        }
    }

    /// Prepares a statement, or takes it from the cache of the connection.
    pub(crate) fn prepare_cached<'c>(&'c self, sql: &'c str) -> Result<Statement<'c>> {
        Ok(match self {
            Self::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            Self::Server(session) => Statement::Server { session, sql },
        })
    }

    /// Executes a statement, and returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        self.prepare_cached(sql)?.execute(values)
    }

    /// Returns the first row.
    ///
    /// # Errors
    /// [`Error::NoRow`] if there is no row.
    pub(crate) fn query_row<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(values, read)
    }

    /// Begins a transaction. It holds the write lock of SQLite, or the leader's right to write on a server.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another coordinator is the leader.
    pub(crate) fn transaction(&self) -> Result<Transaction<'_>> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch("BEGIN IMMEDIATE")?,
            Self::Server(session) => session.begin()?,
        }
        Ok(Transaction { connection: self, is_open: true })
    }

    /// Sets whether commits return before the changes are durable. A power failure can then lose the last ones.
    pub(crate) fn set_lazy(&self, lazy: bool) -> Result<()> {
        match self {
            Self::Sqlite(connection) => {
                Ok(connection.pragma_update(None, "synchronous", if lazy { "normal" } else { "full" })?)
            }
            Self::Server(session) => session.batch(if lazy {
                "SET synchronous_commit = off"
            } else {
                "SET synchronous_commit = on"
            }),
        }
    }

    /// Returns a number that changes when another process changes a SQLite database. `None` on a server.
    pub(crate) fn data_version(&self) -> Result<Option<i64>> {
        match self {
            Self::Sqlite(connection) => {
                Ok(Some(connection.pragma_query_value(None, "data_version", |row| row.get(0))?))
            }
            Self::Server(_) => Ok(None),
        }
    }

    /// Returns the SQLite connection.
    ///
    /// # Panics
    /// If it is a connection to a server.
    #[cfg(test)]
    pub(crate) fn sqlite(&self) -> &rusqlite::Connection {
        match self {
            Self::Sqlite(connection) => connection,
            Self::Server(_) => panic!("a connection to a server"),
        }
    }
}

/// A transaction. It is rolled back if it is dropped before [`Transaction::commit`].
#[derive(Debug)]
pub(crate) struct Transaction<'c> {
    connection: &'c Connection,
    is_open: bool,
}

impl Transaction<'_> {
    pub(crate) fn commit(mut self) -> Result<()> {
        match self.connection {
            Connection::Sqlite(connection) => connection.execute_batch("COMMIT")?,
            Connection::Server(session) => session.commit()?,
        }
        self.is_open = false;
        Ok(())
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        match self.connection {
            // SQLite rolls back by itself after some errors.
            Connection::Sqlite(connection) if self.is_open && !connection.is_autocommit() => {
                if let Err(error) = connection.execute_batch("ROLLBACK") {
                    tracing::warn!(%error, "a transaction was not rolled back");
                }
            }
            Connection::Server(session) if self.is_open => session.roll_back(),
            Connection::Sqlite(_) | Connection::Server(_) => {}
        }
    }
}

/// A prepared statement.
pub(crate) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Server { session: &'c server::Session, sql: &'c str },
}

impl Statement<'_> {
    /// Executes the statement, and returns the number of changed rows.
    pub(crate) fn execute(&mut self, values: &[Value<'_>]) -> Result<usize> {
        match self {
            Self::Sqlite(statement) => Ok(statement.execute(rusqlite::params_from_iter(values))?),
            Self::Server { session, sql } => session.execute(sql, values),
        }
    }

    /// Returns the first row.
    ///
    /// # Errors
    /// [`Error::NoRow`] if there is no row.
    pub(crate) fn query_row<T>(
        &mut self,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Sqlite(statement) => {
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                read(&Row::Sqlite(rows.next()?.ok_or(Error::NoRow)?))
            }
            Self::Server { session, sql } => {
                let rows = session.query(sql, values)?;
                read(&Row::Server(rows.first().ok_or(Error::NoRow)?))
            }
        }
    }

    /// Returns all rows. An error of `read` affects its row only.
    pub(crate) fn query_map<T>(
        &mut self,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<std::vec::IntoIter<Result<T>>> {
        let mut results = Vec::new();
        match self {
            Self::Sqlite(statement) => {
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    results.push(read(&Row::Sqlite(row)));
                }
            }
            Self::Server { session, sql } => {
                results.extend(session.query(sql, values)?.iter().map(|row| read(&Row::Server(row))));
            }
        }
        Ok(results.into_iter())
    }
}

/// A row of a result.
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Server(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// Returns a column.
    ///
    /// # Errors
    /// [`Error::Column`] if it has another type.
    pub(crate) fn get<T: Column>(&self, index: usize) -> Result<T> {
        let raw = match self {
            Self::Sqlite(row) => match row.get_ref(index)? {
                ValueRef::Null => Some(Raw::Null),
                ValueRef::Integer(number) => Some(Raw::Integer(number)),
                ValueRef::Text(text) => std::str::from_utf8(text).ok().map(Raw::Text),
                ValueRef::Blob(bytes) => Some(Raw::Blob(bytes)),
                ValueRef::Real(_) => None,
            },
            Self::Server(row) => Some(row.try_get(index).map_err(Error::Server)?),
        };
        raw.and_then(T::from_raw).ok_or(Error::Column { index })
    }
}

/// The values of a statement's parameters.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::sql::ToValue::to_value(&$value)),*] as &[$crate::store::sql::Value<'_>]
    };
}

pub(crate) use params;
