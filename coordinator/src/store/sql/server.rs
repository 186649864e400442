//! A PostgreSQL server.
//!
//! The caller blocks until the server answers, as it does with SQLite; a thread of its own does the network I/O. A
//! statement that gets no answer within [`ANSWER_WITHIN`] fails, and its connection is closed.

mod schema;
mod source;
mod tls;

pub use source::{SourceError, StoreUrl};

use super::{Error, Result, Value};
use crate::store::background::Background;
use crate::store::meter::{POSTGRESQL, measured};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

/// Maximum time for the answer to one statement, and for a new connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time for one statement that changes tables: it can rewrite each row of a large table.
const MIGRATED_WITHIN: Duration = Duration::from_secs(15 * 60);
/// Maximum time that the server keeps an idle transaction open, in milliseconds. A paused leader must not keep
/// its right to write, because that would block the next leader.
const IDLE_TRANSACTION_MS: u32 = 2_000;

/// The right of one leader to write: a row of the table `lease`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fence {
    /// Number of the leadership; it only grows.
    pub(crate) epoch: i64,
    /// Random id of the coordinator's start. Two leaderships never share it, even if a standby server lost an epoch.
    pub(crate) holder: String,
}

/// A PostgreSQL server that holds the records. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    url: StoreUrl,
    tls: tls::Connector,
    background: Background,
    fence: RwLock<Option<Fence>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.inner.url).finish()
    }
}

impl Server {
    /// Prepares access to a server. Connects to it later.
    ///
    /// # Errors
    /// [`SourceError`] if the certificates of the authorities can't be read, or the thread can't be started.
    pub fn new(url: StoreUrl) -> std::result::Result<Self, SourceError> {
        let tls = tls::Connector::new(url.authorities())?;
        let background = Background::new("postgres").map_err(SourceError::Thread)?;
        Ok(Self { inner: Arc::new(Inner { url, tls, background, fence: RwLock::default() }) })
    }

    /// Returns the URL, without a password.
    pub fn url(&self) -> &StoreUrl {
        &self.inner.url
    }

    /// Returns the URL of the leader, or `None` if no coordinator leads.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn leader(&self) -> Result<Option<String>> {
        let session = self.session();
        session.batch("SELECT 1")?;
        let sql = "SELECT url FROM lease WHERE expires_at >= clock_timestamp()";
        // There is no table before the first start.
        let rows = session.query(sql, &[]).unwrap_or_default();
        Ok(rows.first().and_then(|row| row.try_get(0).ok()))
    }

    /// From now on, each write of each connection requires this leadership.
    pub(crate) fn set_fence(&self, fence: Fence) {
        *self.inner.fence.write().unwrap_or_else(PoisonError::into_inner) = Some(fence);
    }

    /// Ends each statement that waits for an answer, and each later one, with [`Error::Late`].
    pub(crate) fn close(&self) {
        self.inner.background.close();
    }

    fn fence(&self) -> Option<Fence> {
        self.inner.fence.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a connection, which connects with its first statement.
    pub(crate) fn session(&self) -> Session {
        Session { server: self.clone(), link: RefCell::new(None), is_in_transaction: Cell::new(false) }
    }

    fn connect(&self) -> Result<Link> {
        let client = self.wait(async {
            let (client, connection) =
                self.inner.url.config().connect(self.inner.tls.clone()).await.map_err(Error::Server)?;
            tokio::spawn(async move {
                // Each statement that waits gets the error too.
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "the connection to PostgreSQL ended");
                }
            });
            let settings = format!(
                "SET idle_in_transaction_session_timeout = {IDLE_TRANSACTION_MS}; SET statement_timeout = {}; SET lock_timeout = {}",
                ANSWER_WITHIN.as_millis(),
                ANSWER_WITHIN.as_millis(),
            );
            client.batch_execute(&settings).await.map_err(Error::Server)?;
            Ok(client)
        })?;
        Ok(Link { client, statements: HashMap::new() })
    }

    /// Blocks until the future completes.
    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait_for(ANSWER_WITHIN, future)
    }

    fn wait_for<T>(&self, limit: Duration, future: impl Future<Output = Result<T>>) -> Result<T> {
        measured(&POSTGRESQL, || self.inner.background.wait(limit, future).unwrap_or(Err(Error::Late)))
    }
}

struct Link {
    client: Client,
    /// Prepared statements, by their text before the translation.
    statements: HashMap<String, Statement>,
}

/// A connection to a server. It connects again after an error.
pub(crate) struct Session {
    server: Server,
    link: RefCell<Option<Link>>,
    is_in_transaction: Cell<bool>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.server).finish()
    }
}

impl Session {
    pub(crate) fn begin(&self) -> Result<()> {
        let fence = self.server.fence();
        self.again_if_closed(|| self.batch("BEGIN"))?;
        self.is_in_transaction.set(true);
        let Some(fence) = fence else { return Ok(()) };
        // The lock on the row blocks the next leader until this transaction ends. It does not block a renewal.
        let holds = "SELECT 1 FROM lease WHERE epoch = ?1 AND holder = ?2 FOR KEY SHARE";
        match self.query(holds, &[Value::Integer(fence.epoch), Value::Text(&fence.holder)]) {
            Ok(rows) if !rows.is_empty() => Ok(()),
            held => {
                self.roll_back();
                held.and(Err(Error::Fenced))
            }
        }
    }

    pub(crate) fn commit(&self) -> Result<()> {
        let committed = self.batch("COMMIT");
        self.is_in_transaction.set(false);
        committed
    }

    pub(crate) fn roll_back(&self) {
        // Without a connection, the server has rolled it back.
        if self.link.borrow().is_some()
            && let Err(error) = self.batch("ROLLBACK")
        {
            tracing::debug!(%error, "a transaction ended with its connection");
        }
        self.is_in_transaction.set(false);
    }

    /// Executes statements without parameters.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        self.with(|link| {
            self.server.wait(async { link.client.batch_execute(sql).await.map_err(Error::Server) })
        })
    }

    /// Executes statements that change tables, in a transaction. They may take long.
    fn batch_slowly(&self, sql: &str) -> Result<()> {
        let limit = format!("SET LOCAL statement_timeout = {}", MIGRATED_WITHIN.as_millis());
        self.batch(&limit)?;
        self.with(|link| {
            self.server.wait_for(MIGRATED_WITHIN, async {
                link.client.batch_execute(sql).await.map_err(Error::Server)
            })
        })
    }

    /// Executes a statement, in a transaction if writes need a leadership.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        self.fenced(|| self.execute_here(sql, values))
    }

    /// Returns the rows of a statement, which is in a transaction if it writes and writes need a leadership.
    pub(crate) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        if !sql.trim_start().starts_with("SELECT") {
            return self.fenced(|| self.query_here(sql, values));
        }
        if self.is_in_transaction.get() {
            return self.query_here(sql, values);
        }
        self.again_if_closed(|| self.query_here(sql, values))
    }

    fn fenced<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_in_transaction.get() || self.server.fence().is_none() {
            return act();
        }
        self.begin()?;
        match act() {
            Ok(result) => self.commit().map(|()| result),
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    /// Acts once more if an idle connection turns out to be closed, as after a restart of the server.
    fn again_if_closed<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        match act() {
            Err(Error::Server(_)) if self.link.borrow().is_none() => act(),
            result => result,
        }
    }

    fn execute_here(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        self.with(|link| {
            let statement = self.prepared(link, sql)?;
            let executed = self.server.wait(async {
                link.client.execute(&statement, &references(values)).await.map_err(Error::Server)
            });
            Ok(usize::try_from(executed?).unwrap_or(usize::MAX))
        })
    }

    fn query_here(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        self.with(|link| {
            let statement = self.prepared(link, sql)?;
            self.server.wait(async {
                link.client.query(&statement, &references(values)).await.map_err(Error::Server)
            })
        })
    }

    fn prepared(&self, link: &mut Link, sql: &str) -> Result<Statement> {
        if let Some(statement) = link.statements.get(sql) {
            return Ok(statement.clone());
        }
        let translated = sql.replace('?', "$");
        let statement =
            self.server.wait(async { link.client.prepare(&translated).await.map_err(Error::Server) })?;
        link.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Link) -> Result<T>) -> Result<T> {
        let mut place = self.link.borrow_mut();
        if place.as_ref().is_some_and(|link| link.client.is_closed()) {
            *place = None;
        }
        if self.is_in_transaction.get() && place.is_none() {
            // The transaction ended with its connection, so a new one must not continue it.
            return Err(Error::Late);
        }
        let mut link = match place.take() {
            Some(link) => link,
            None => self.server.connect()?,
        };
        let result = act(&mut link);
        // After a missing answer, the state of the connection is unknown.
        if !result.as_ref().is_err_and(ends_connection) && !link.client.is_closed() {
            *place = Some(link);
        }
        result
    }
}

/// Returns true if the server closes the connection after this error, or has done so.
fn ends_connection(error: &Error) -> bool {
    match error {
        Error::Late => true,
        Error::Server(error) => error.as_db_error().is_none_or(|error| {
            let code = error.code().code();
            code.starts_with("57P") || code.starts_with("08") || code == "25P03"
        }),
        _ => false,
    }
}

fn references<'v>(values: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}
