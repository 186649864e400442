//! The webhooks and their deliveries, in `webhooks.db`.

use super::plan::QUEUED_MAX;
use super::sign::Secret;
use crate::store::sql::{self, Connection, OptionalExtension, Row, params};
use crate::store::{
    Database, Disk, EventKind, Server, StoreError, WEBHOOKS, locked, make_directory, now_ms, setup_lock,
};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::watch;
use uuid::Uuid;

/// Name of the database in the data directory.
pub(crate) const WEBHOOKS_FILE: &str = "webhooks.db";
/// Limit on webhooks. Each has a task and a connection at a time.
const WEBHOOKS_MAX: usize = 64;
/// Limit on the dead letters of one webhook. The oldest are removed first.
const DEAD_LETTERS_MAX: usize = 1_000;
/// Maximum length of a stored reason of a failure, in bytes.
const REASON_BYTES_MAX: usize = 500;

/// Id of a webhook.
pub(crate) type WebhookId = Uuid;

/// A webhook to create.
pub(crate) struct NewWebhook {
    pub(crate) name: String,
    pub(crate) url: String,
    /// Kinds of events; all if empty.
    pub(crate) kinds: Vec<EventKind>,
    /// Name of the token that creates it.
    pub(crate) created_by: String,
    /// Id of the newest event, which is not sent.
    pub(crate) after: u64,
}

/// A webhook.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) id: WebhookId,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) secret: Secret,
    pub(crate) kinds: Vec<EventKind>,
    pub(crate) created_by: String,
    pub(crate) created_at_ms: i64,
    /// Deliveries that wait.
    pub(crate) queued: u64,
    pub(crate) dead_letters: u64,
    /// Why nothing is sent any more.
    pub(crate) disabled: Option<String>,
}

impl Webhook {
    /// Returns true if events of this kind are sent.
    pub(super) fn selects(&self, kind: EventKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// A delivery that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Delivery {
    /// Id of the event.
    pub(super) event: u64,
    pub(super) body: String,
    /// Failed attempts.
    pub(super) attempts: u32,
    /// Time at which it was queued, in milliseconds since 1970.
    pub(super) first_ms: i64,
    /// Time of the next attempt, in milliseconds since 1970.
    pub(super) next_ms: i64,
}

/// A delivery that failed for a day.
pub(crate) struct DeadLetter {
    pub(crate) event: u64,
    pub(crate) body: String,
    pub(crate) attempts: u32,
    pub(crate) queued_at_ms: i64,
    pub(crate) reason: String,
}

/// Why a webhook can't be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    /// There are [`WEBHOOKS_MAX`] webhooks.
    #[error("the pool has {WEBHOOKS_MAX} webhooks, and no more are valid; delete one")]
    TooMany,
    /// The system has no random bytes.
    #[error("no secret can be made: {0}")]
    Random(getrandom::Error),
    #[error("webhooks can't be written")]
    Store(StoreError),
}

impl From<StoreError> for WebhookError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The webhooks of a data directory.
#[derive(Debug)]
pub(crate) struct Webhooks {
    connection: Mutex<Connection>,
    changes: watch::Sender<u64>,
}

impl Webhooks {
    /// Opens the webhooks of a data directory, and creates the database if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::File`], [`StoreError::Database`].
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        make_directory(directory)?;
        let _setup = setup_lock(directory)?;
        Self::open_at(&Database::File(directory.join(WEBHOOKS_FILE)))
    }

    /// Opens the webhooks on a PostgreSQL server, and creates their tables if they are missing.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Database`].
    pub(crate) fn open_on(server: &Server) -> Result<Self, StoreError> {
        Self::open_at(&Database::Server(server.clone()))
    }

    fn open_at(database: &Database) -> Result<Self, StoreError> {
        let connection = database.open_newest(&Disk::default(), &WEBHOOKS)?;
        Ok(Self { connection: Mutex::new(connection), changes: watch::channel(0).0 })
    }

    /// Returns a receiver that changes when a webhook is created, deleted or disabled.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        locked(&self.connection)
    }

    fn with<T>(&self, act: impl FnOnce(&Connection) -> sql::Result<T>) -> Result<T, StoreError> {
        let connection = self.connection();
        let transact = || -> sql::Result<T> {
            let transaction = connection.transaction()?;
            let result = act(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        transact().map_err(StoreError::database("use webhooks"))
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns the webhooks, in the order of their creation.
    pub(crate) fn list(&self) -> Result<Vec<Webhook>, StoreError> {
        let sql = "SELECT id, name, url, secret, kinds, created_by, created_at_ms, disabled,
                       (SELECT count(*) FROM deliveries WHERE webhook = w.id AND dead = 0),
                       (SELECT count(*) FROM deliveries WHERE webhook = w.id AND dead = 1)
                   FROM webhooks w ORDER BY created_at_ms, id";
        self.with(|connection| connection.prepare_cached(sql)?.query_map(params![], webhook)?.collect())
    }

    /// Creates a webhook with a new secret, and returns it.
    pub(crate) fn create(&self, new: &NewWebhook) -> Result<Webhook, WebhookError> {
        let webhook = Webhook {
            id: Uuid::now_v7(),
            name: new.name.clone(),
            url: new.url.clone(),
            secret: Secret::random().map_err(WebhookError::Random)?,
            kinds: new.kinds.clone(),
            created_by: new.created_by.clone(),
            created_at_ms: now_ms(),
            queued: 0,
            dead_letters: 0,
            disabled: None,
        };
        let kinds: Vec<&str> = webhook.kinds.iter().map(|kind| kind.name()).collect();
        let inserted = self.with(|connection| {
            connection
                .prepare_cached(
                    "INSERT INTO webhooks(id, name, url, secret, kinds, created_by, created_at_ms, position)
                     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE (SELECT count(*) FROM webhooks) < ?9",
                )?
                .execute(params![
                    webhook.id.as_bytes(),
                    webhook.name,
                    webhook.url,
                    webhook.secret.bytes(),
                    kinds.join(","),
                    webhook.created_by,
                    webhook.created_at_ms,
                    integer(new.after),
                    WEBHOOKS_MAX as i64
                ])
        })?;
        if inserted == 0 {
            return Err(WebhookError::TooMany);
        }
        self.changed();
        Ok(webhook)
    }

    /// Deletes a webhook with its queue. Returns false if no webhook has this id.
    pub(crate) fn delete(&self, id: WebhookId) -> Result<bool, StoreError> {
        let deleted = self.with(|connection| {
            connection.execute("DELETE FROM deliveries WHERE webhook = ?1", params![id.as_bytes()])?;
            connection.execute("DELETE FROM webhooks WHERE id = ?1", params![id.as_bytes()])
        })?;
        self.changed();
        Ok(deleted > 0)
    }

    /// Stops a webhook for this reason.
    pub(super) fn disable(&self, id: WebhookId, reason: &str) -> Result<(), StoreError> {
        let sql = "UPDATE webhooks SET disabled = ?2 WHERE id = ?1";
        self.with(|connection| connection.execute(sql, params![id.as_bytes(), reason]))?;
        self.changed();
        Ok(())
    }

    /// Returns the newest event that was queued or not selected, and the number of deliveries that wait.
    pub(super) fn place(&self, id: WebhookId) -> Result<(u64, usize), StoreError> {
        let sql = "SELECT position, (SELECT count(*) FROM deliveries WHERE webhook = ?1 AND dead = 0)
                   FROM webhooks WHERE id = ?1";
        let place = self.with(|connection| {
            let read = |row: &Row<'_>| Ok((number(row, 0)?, number(row, 1)? as usize));
            connection.prepare_cached(sql)?.query_row(params![id.as_bytes()], read).optional()
        })?;
        // A deleted webhook has no room for more.
        Ok(place.unwrap_or((0, QUEUED_MAX)))
    }

    /// Queues deliveries, and moves the place of the webhook.
    pub(super) fn enqueue(
        &self,
        id: WebhookId,
        position: u64,
        deliveries: &[(u64, String)],
        now_ms: i64,
    ) -> Result<(), StoreError> {
        self.with(|connection| {
            let sql = "UPDATE webhooks SET position = ?2 WHERE id = ?1";
            if connection.execute(sql, params![id.as_bytes(), integer(position)])? == 0 {
                return Ok(());
            }
            let mut insert = connection.prepare_cached(
                "INSERT INTO deliveries(webhook, event, body, attempts, first_ms, next_ms, dead)
                 VALUES(?1, ?2, ?3, 0, ?4, ?4, 0) ON CONFLICT DO NOTHING",
            )?;
            for (event, body) in deliveries {
                insert.execute(params![id.as_bytes(), integer(*event), body, now_ms])?;
            }
            Ok(())
        })
    }

    /// Returns the delivery that is due next; of several, the one with the oldest event.
    pub(super) fn next_delivery(&self, id: WebhookId) -> Result<Option<Delivery>, StoreError> {
        let sql = "SELECT event, body, attempts, first_ms, next_ms FROM deliveries
                   WHERE webhook = ?1 AND dead = 0 ORDER BY next_ms, event LIMIT 1";
        self.with(|connection| {
            let read = |row: &Row<'_>| {
                Ok(Delivery {
                    event: number(row, 0)?,
                    body: row.get(1)?,
                    attempts: row.get(2)?,
                    first_ms: row.get(3)?,
                    next_ms: row.get(4)?,
                })
            };
            connection.prepare_cached(sql)?.query_row(params![id.as_bytes()], read).optional()
        })
    }

    /// Removes a delivery that was accepted.
    pub(super) fn delivered(&self, id: WebhookId, event: u64) -> Result<(), StoreError> {
        let sql = "DELETE FROM deliveries WHERE webhook = ?1 AND event = ?2";
        self.with(|connection| {
            connection.prepare_cached(sql)?.execute(params![id.as_bytes(), integer(event)])
        })
        .map(drop)
    }

    /// Counts a failed attempt and sets the time of the next one.
    pub(super) fn retry(
        &self,
        id: WebhookId,
        event: u64,
        at_ms: i64,
        reason: &str,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE deliveries SET attempts = attempts + 1, next_ms = ?3, reason = ?4
                   WHERE webhook = ?1 AND event = ?2";
        let reason = clipped(reason);
        self.with(|connection| connection.execute(sql, params![id.as_bytes(), integer(event), at_ms, reason]))
            .map(drop)
    }

    /// Moves a delivery to the dead letters.
    pub(super) fn give_up(&self, id: WebhookId, event: u64, reason: &str) -> Result<(), StoreError> {
        self.with(|connection| {
            connection.execute(
                "UPDATE deliveries SET attempts = attempts + 1, dead = 1, reason = ?3 WHERE webhook = ?1 AND event = ?2",
                params![id.as_bytes(), integer(event), clipped(reason)],
            )?;
            connection.execute(
                "DELETE FROM deliveries WHERE webhook = ?1 AND dead = 1 AND event <=
                 (SELECT event FROM deliveries WHERE webhook = ?1 AND dead = 1 ORDER BY event DESC LIMIT 1 OFFSET ?2)",
                params![id.as_bytes(), DEAD_LETTERS_MAX as i64],
            )
        })
        .map(drop)
    }

    /// Returns the dead letters of a webhook, newest first.
    pub(crate) fn dead_letters(&self, id: WebhookId) -> Result<Vec<DeadLetter>, StoreError> {
        let sql = "SELECT event, body, attempts, first_ms, coalesce(reason, '') FROM deliveries
                   WHERE webhook = ?1 AND dead = 1 ORDER BY event DESC";
        self.with(|connection| {
            let read = |row: &Row<'_>| {
                Ok(DeadLetter {
                    event: number(row, 0)?,
                    body: row.get(1)?,
                    attempts: row.get(2)?,
                    queued_at_ms: row.get(3)?,
                    reason: row.get(4)?,
                })
            };
            connection.prepare_cached(sql)?.query_map(params![id.as_bytes()], read)?.collect()
        })
    }
}

fn webhook(row: &Row<'_>) -> sql::Result<Webhook> {
    let kinds: String = row.get(4)?;
    Ok(Webhook {
        id: Uuid::from_bytes(row.get(0)?),
        name: row.get(1)?,
        url: row.get(2)?,
        secret: Secret::of_bytes(row.get(3)?),
        kinds: kinds.split(',').filter_map(|kind| kind.parse().ok()).collect(),
        created_by: row.get(5)?,
        created_at_ms: row.get(6)?,
        disabled: row.get(7)?,
        queued: number(row, 8)?,
        dead_letters: number(row, 9)?,
    })
}

fn clipped(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &Row<'_>, column: usize) -> sql::Result<u64> {
    row.get::<i64>(column).map(|number| u64::try_from(number).unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{DEAD_LETTERS_MAX, NewWebhook, WEBHOOKS_MAX, WebhookError, Webhooks};
    use crate::store::Server;
    use std::path::Path;

    /// Tests the webhooks of an empty database, in a directory or on a server.
    pub(crate) fn contract(directory: &Path, server: Option<&Server>) {
        let open = || match server {
            Some(server) => Webhooks::open_on(server).unwrap(),
            None => Webhooks::open(directory).unwrap(),
        };
        keep_deliveries(&open);
        keep_limits(&open());
    }

    fn new(name: &str) -> NewWebhook {
        let (url, created_by) = ("https://example.com/".into(), "ada".into());
        NewWebhook { name: name.into(), url, kinds: Vec::new(), created_by, after: 7 }
    }

    /// Deliveries survive a restart until they are accepted or given up.
    fn keep_deliveries(open: &dyn Fn() -> Webhooks) {
        let id = {
            let webhooks = open();
            let id = webhooks.create(&new("one")).unwrap().id;
            assert_eq!(webhooks.place(id).unwrap(), (7, 0));
            let deliveries = [(8, "{}".to_owned()), (9, "{}".to_owned())];
            webhooks.enqueue(id, 10, &deliveries, 100).unwrap();
            webhooks.retry(id, 8, 200, "no").unwrap();
            id
        };
        let webhooks = open();
        assert_eq!(webhooks.place(id).unwrap(), (10, 2));
        assert_eq!(
            webhooks.next_delivery(id).unwrap().unwrap().event,
            9,
            "a failed one does not hold up others"
        );
        webhooks.delivered(id, 9).unwrap();
        let first = webhooks.next_delivery(id).unwrap().unwrap();
        assert_eq!((first.event, first.attempts, first.next_ms), (8, 1, 200));
        webhooks.give_up(id, 8, "still no").unwrap();
        assert_eq!(webhooks.next_delivery(id).unwrap(), None);
        let dead = webhooks.dead_letters(id).unwrap();
        assert_eq!((dead.len(), dead[0].event, dead[0].attempts, &*dead[0].reason), (1, 8, 2, "still no"));
        assert!(webhooks.delete(id).unwrap() && !webhooks.delete(id).unwrap());
        assert_eq!(webhooks.dead_letters(id).unwrap().len(), 0);
    }

    /// Webhooks and dead letters have limits.
    fn keep_limits(webhooks: &Webhooks) {
        let ids: Vec<_> = (0..WEBHOOKS_MAX).map(|_| webhooks.create(&new("some")).unwrap().id).collect();
        assert!(matches!(webhooks.create(&new("more")), Err(WebhookError::TooMany)));
        let many: Vec<_> = (1..=DEAD_LETTERS_MAX as u64 + 2).map(|event| (event, String::new())).collect();
        webhooks.enqueue(ids[0], 1, &many, 1).unwrap();
        for (event, _) in &many {
            webhooks.give_up(ids[0], *event, "no").unwrap();
        }
        let dead = webhooks.dead_letters(ids[0]).unwrap();
        assert_eq!((dead.len(), dead[dead.len() - 1].event), (DEAD_LETTERS_MAX, 3));
    }
}
