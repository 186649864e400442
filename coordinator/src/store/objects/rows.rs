//! Rows of the table `objects`.

use super::{Key, Kind};
use crate::store::error::StoreError;
use crate::store::sql::{self, Connection, OptionalExtension, params};
use std::collections::HashSet;

/// An object of an owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    /// Name among the objects of its owner.
    pub(crate) item: String,
    /// Name in the bucket.
    pub(super) name: String,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// Checksum, in hexadecimal.
    pub(crate) blake3: String,
    /// Time at which it was stored or last confirmed ([`super::Objects::confirm`]), in milliseconds since 1970.
    pub(crate) stored_at_ms: i64,
}

impl Item {
    pub(super) fn new(item: &str, name: String, bytes: u64, blake3: String) -> Self {
        Self { item: item.to_owned(), name, bytes, blake3, stored_at_ms: crate::store::now_ms() }
    }
}

/// An owner and the sum of its objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) name: String,
    /// Sum of the lengths in bytes.
    pub(crate) bytes: u64,
    /// Time of the newest object, in milliseconds since 1970.
    pub(crate) stored_at_ms: i64,
}

fn failed<E: Into<sql::Error>>(error: E) -> StoreError {
    StoreError::database("use the list of objects")(error)
}

fn bytes(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Writes a row. Returns the name that it replaces.
pub(super) fn put(
    connection: &Connection,
    Key { kind, owner, item: key }: Key<'_>,
    item: &Item,
) -> Result<Option<String>, StoreError> {
    let write = || -> sql::Result<Option<String>> {
        let transaction = connection.transaction()?;
        let replaced: Option<String> = transaction
            .query_row(
                "SELECT name FROM objects WHERE kind = ?1 AND owner = ?2 AND item = ?3",
                params![kind.name(), owner, key],
                |row| row.get(0),
            )
            .optional()?;
        transaction.execute(
            "INSERT INTO objects(kind, owner, item, name, bytes, blake3, stored_at_ms)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT(kind, owner, item) DO UPDATE SET name = excluded.name, bytes = excluded.bytes,
                 blake3 = excluded.blake3, stored_at_ms = excluded.stored_at_ms",
            params![
                kind.name(),
                owner,
                key,
                item.name,
                i64::try_from(item.bytes).unwrap_or(i64::MAX),
                item.blake3,
                item.stored_at_ms
            ],
        )?;
        transaction.commit()?;
        Ok(replaced.filter(|name| *name != item.name))
    };
    write().map_err(failed)
}

pub(super) fn items(connection: &Connection, kind: Kind, owner: &str) -> Result<Vec<Item>, StoreError> {
    let read = || {
        connection
            .prepare_cached(
                "SELECT item, name, bytes, blake3, stored_at_ms FROM objects WHERE kind = ?1 AND owner = ?2
                 ORDER BY item",
            )?
            .query_map(params![kind.name(), owner], |row| {
                Ok(Item {
                    item: row.get(0)?,
                    name: row.get(1)?,
                    bytes: bytes(row.get(2)?),
                    blake3: row.get(3)?,
                    stored_at_ms: row.get(4)?,
                })
            })?
            .collect::<sql::Result<Vec<Item>>>()
    };
    read().map_err(failed)
}

pub(super) fn owners(connection: &Connection, kind: Kind) -> Result<Vec<Owner>, StoreError> {
    let read = || {
        connection
            .prepare_cached(
                "SELECT owner, CAST(SUM(bytes) AS BIGINT), MAX(stored_at_ms) FROM objects WHERE kind = ?1
                 GROUP BY owner ORDER BY owner",
            )?
            .query_map(params![kind.name()], |row| {
                Ok(Owner { name: row.get(0)?, bytes: bytes(row.get(1)?), stored_at_ms: row.get(2)? })
            })?
            .collect::<sql::Result<Vec<Owner>>>()
    };
    read().map_err(failed)
}

/// Sets the time of an object, unless it has been replaced.
pub(super) fn confirm(
    connection: &Connection,
    (kind, owner): (Kind, &str),
    item: &Item,
    now_ms: i64,
) -> Result<(), StoreError> {
    let write = || -> sql::Result<()> {
        let transaction = connection.transaction()?;
        transaction.execute(
            "UPDATE objects SET stored_at_ms = ?1 WHERE kind = ?2 AND owner = ?3 AND item = ?4 AND name = ?5",
            params![now_ms, kind.name(), owner, item.item, item.name],
        )?;
        transaction.commit()
    };
    write().map_err(failed)
}

/// Removes the rows of these objects, unless they have been replaced.
pub(super) fn remove(
    connection: &Connection,
    (kind, owner): (Kind, &str),
    items: &[Item],
) -> Result<(), StoreError> {
    let write = || -> sql::Result<()> {
        let transaction = connection.transaction()?;
        for item in items {
            transaction.execute(
                "DELETE FROM objects WHERE kind = ?1 AND owner = ?2 AND item = ?3 AND name = ?4",
                params![kind.name(), owner, item.item, item.name],
            )?;
        }
        transaction.commit()
    };
    if items.is_empty() { Ok(()) } else { write().map_err(failed) }
}

/// Keeps those of the names that no row has.
pub(super) fn retain_unnamed(connection: &Connection, names: &mut HashSet<String>) -> Result<(), StoreError> {
    let mut read = || -> sql::Result<()> {
        let mut statement = connection.prepare_cached("SELECT name FROM objects")?;
        for name in statement.query_map(params![], |row| row.get::<String>(0))? {
            names.remove(&name?);
        }
        Ok(())
    };
    read().map_err(failed)
}
