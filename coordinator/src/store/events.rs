//! Events: changes in the pool, for readers outside of it.
//!
//! An event is written in the transaction of the records that it describes. So neither is lost without the other, and
//! the order of the ids is the order of the changes. Ids only grow, also after events were removed.

use super::error::StoreError;
use super::limits::{ADDRESSES_OF_TOKEN_MAX, EVENTS_MAX};
use super::reader::Reader;
use super::records::JobRecord;
use super::sql::{self, Connection, Kind, Row, Transaction, params};
use buildpool_protocol::ids::{BuildId, TokenId};
use buildpool_protocol::limits::BUILD_JOBS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A job has a new state: `queued`, `preparing`, `running` or `done`.
    JobState,
    /// No job of a build is unfinished.
    BuildDone,
    /// A worker registered for the first time, or again after it was lost.
    WorkerJoined,
    /// A worker had no contact for `lost_after_secs`.
    WorkerLost,
    /// An admin drains a worker.
    WorkerDrained,
    /// A token was used from an address that it had not used before. The first address of a token is no event.
    TokenAddress,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::JobState,
        Self::BuildDone,
        Self::WorkerJoined,
        Self::WorkerLost,
        Self::WorkerDrained,
        Self::TokenAddress,
    ];

    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobState => "job_state",
            Self::BuildDone => "build_done",
            Self::WorkerJoined => "worker_joined",
            Self::WorkerLost => "worker_lost",
            Self::WorkerDrained => "worker_drained",
            Self::TokenAddress => "token_address",
        }
    }
}

/// The text is not the name of a kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}` is not a kind of event; valid are {}", .0.escape_debug(), kind_names())]
pub struct UnknownEventKind(String);

fn kind_names() -> String {
    EventKind::ALL.map(EventKind::name).join(", ")
}

impl FromStr for EventKind {
    type Err = UnknownEventKind;

    fn from_str(text: &str) -> Result<Self, UnknownEventKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownEventKind(text.to_owned()))
    }
}

/// An event that has no id yet.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEvent {
    /// The kind.
    pub kind: EventKind,
    /// Submitter of the job or build; `None` for other events.
    pub submitter: Option<String>,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The facts, with the names of a JobResult.
    pub facts: Map<String, Value>,
}

/// A stored event.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The id; later events have greater ones.
    pub id: u64,
    /// The event.
    pub event: NewEvent,
}

/// Use of a token from an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenUse {
    /// The token.
    pub token: TokenId,
    /// Its name.
    pub name: String,
    /// The address, or the network of an IPv6 address.
    pub address: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// The ids of the stored events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventRange {
    /// The oldest stored event, or the next one if no event is stored.
    pub oldest: u64,
    /// The newest event that was ever written; 0 before the first one.
    pub newest: u64,
}

impl Reader {
    /// Returns the events after this id, oldest first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.with(|connection| {
            let read = || -> sql::Result<Vec<Event>> {
                let sql =
                    "SELECT id, kind, submitter, at_ms, facts FROM events WHERE id > ?1 ORDER BY id LIMIT ?2";
                let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), limit as i64);
                connection.prepare_cached(sql)?.query_map(params![after, limit], event)?.collect()
            };
            read().map_err(StoreError::database("read events"))
        })
    }

    /// Returns the ids of the stored events.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn event_range(&self) -> Result<EventRange, StoreError> {
        self.with(|connection| range(connection).map_err(StoreError::database("read events")))
    }
}

fn range(connection: &Connection) -> sql::Result<EventRange> {
    let newest = match connection.kind() {
        Kind::Sqlite => "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'",
        Kind::Server => "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_id_seq",
    };
    let newest = connection.query_row(newest, params![], |row| number(row, 0))?;
    let sql = "SELECT coalesce(min(id), ?1) FROM events";
    let next = i64::try_from(newest + 1).unwrap_or(i64::MAX);
    let oldest = connection.query_row(sql, params![next], |row| number(row, 0))?;
    Ok(EventRange { oldest, newest })
}

fn number(row: &Row<'_>, column: usize) -> sql::Result<u64> {
    row.get::<i64>(column).map(|number| u64::try_from(number).unwrap_or_default())
}

fn event(row: &Row<'_>) -> sql::Result<Event> {
    let kind: String = row.get(1)?;
    let facts: String = row.get(4)?;
    let broken =
        |index, source: Box<dyn std::error::Error + Send + Sync>| sql::Error::Value { index, source };
    let event = NewEvent {
        kind: kind.parse().map_err(|error: UnknownEventKind| broken(1, error.into()))?,
        submitter: row.get(2)?,
        at_ms: row.get(3)?,
        facts: serde_json::from_str(&facts).map_err(|error| broken(4, error.into()))?,
    };
    Ok(Event { id: number(row, 0)?, event })
}

/// Writes an event, and removes the oldest one above [`EVENTS_MAX`].
pub(super) fn write(transaction: &Transaction<'_>, event: &NewEvent) -> sql::Result<()> {
    let facts = super::writer::json(&event.facts);
    let id: i64 = transaction
        .prepare_cached(
            "INSERT INTO events(kind, submitter, at_ms, facts) VALUES(?1, ?2, ?3, ?4) RETURNING id",
        )?
        .query_row(params![event.kind.name(), event.submitter, event.at_ms, facts], |row| row.get(0))?;
    transaction
        .prepare_cached("DELETE FROM events WHERE id <= ?1")?
        .execute(params![id - i64::from(EVENTS_MAX)])
        .map(drop)
}

/// Writes the event of a build if this job was its last unfinished one.
pub(super) fn write_build(transaction: &Transaction<'_>, job: &JobRecord, build: BuildId) -> sql::Result<()> {
    let (jobs, unfinished, passed): (u64, u64, u64) = transaction
        .prepare_cached(
            "SELECT count(*), count(*) - count(finished_at_ms), count(CASE WHEN verdict = 'passed' THEN 1 END) FROM (
                 SELECT finished_at_ms, json_extract(body, '$.done.verdict') AS verdict
                 FROM jobs WHERE build = ?1 LIMIT ?2
             ) AS jobs_of_build",
        )?
        .query_row(params![build.as_uuid().as_bytes(), BUILD_JOBS_MAX as i64], |row| {
            Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?))
        })?;
    if unfinished > 0 {
        return Ok(());
    }
    let status = if passed == jobs { "passed" } else { "failed" };
    let facts = json!({
        "request_id": build.request_id(),
        "status": status,
        "jobs": jobs,
        "passed_jobs_count": passed,
    });
    let at_ms = job.done.as_ref().map_or(0, |done| done.finished_at_ms);
    let submitter = Some(job.submitter.clone());
    write(transaction, &NewEvent { kind: EventKind::BuildDone, submitter, at_ms, facts: members(facts) })
}

/// Records the use of a token. Writes an event if the token has used other addresses only.
pub(super) fn write_use(transaction: &Transaction<'_>, used: &TokenUse) -> sql::Result<()> {
    let token = used.token.as_uuid().as_bytes();
    let known: u64 = transaction
        .prepare_cached("SELECT count(*) FROM addresses WHERE token = ?1")?
        .query_row(params![token], |row| number(row, 0))?;
    let added = transaction
        .prepare_cached(
            "INSERT INTO addresses(token, address, seen_ms) VALUES(?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![token, used.address, used.at_ms])?;
    transaction
        .prepare_cached(
            "DELETE FROM addresses WHERE token = ?1 AND address NOT IN
             (SELECT address FROM addresses WHERE token = ?1 ORDER BY seen_ms DESC, address LIMIT ?2)",
        )?
        .execute(params![token, ADDRESSES_OF_TOKEN_MAX])?;
    if added == 0 || known == 0 {
        return Ok(());
    }
    let facts = json!({ "token": used.token, "name": used.name, "address": used.address });
    let (kind, at_ms) = (EventKind::TokenAddress, used.at_ms);
    write(transaction, &NewEvent { kind, submitter: None, at_ms, facts: members(facts) })
}

/// Returns the members of an object, without those that are null.
pub(crate) fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members.into_iter().filter(|(_, member)| !member.is_null()).collect(),
        _ => Map::new(),
    }
}
