//! The audit log: each action on a job, token or worker with its actor, in the database of the tokens.

use super::rows::{Actor, Note, REFUSED, audit};
use super::{Tokens, rfc3339};
use crate::store::StoreError;
use crate::store::limits::AUDIT_DETAIL_BYTES;
use crate::store::sql::{self, Connection, params};
use buildpool_protocol::client_link::AuditEntry;

impl Tokens {
    /// Adds a line to the audit log. Beyond the limit, the oldest lines are removed.
    ///
    /// # Errors
    /// If the database can't be written.
    pub fn audit<'a>(
        &self,
        actor: impl Into<Actor<'a>>,
        action: &str,
        subject: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        audit(&self.connection(), actor.into(), action, subject, detail)
            .map_err(StoreError::database("write the audit log"))
    }

    /// Adds an audit line about a refused connection or a forbidden request.
    ///
    /// # Errors
    /// If the database can't be written.
    pub(crate) fn audit_refused(&self, actor: Actor<'_>, subject: &str, why: &str) -> Result<(), StoreError> {
        self.audit(actor, REFUSED, subject, why)
    }

    /// Adds audit lines, in one transaction.
    ///
    /// # Errors
    /// If the database can't be written.
    pub(crate) fn audit_all(&self, notes: &[Note]) -> Result<(), StoreError> {
        write_all(&self.connection(), notes).map_err(StoreError::database("write the audit log"))
    }

    /// Adds audit lines that the records of jobs repeat, without waiting for the disk. A power failure
    /// can lose the last ones.
    ///
    /// # Errors
    /// If the database can't be written.
    pub(crate) fn audit_soon(&self, notes: &[Note]) -> Result<(), StoreError> {
        let connection = self.connection();
        let write = || {
            connection.set_lazy(true)?;
            let written = write_all(&connection, notes);
            connection.set_lazy(false)?;
            written
        };
        write().map_err(StoreError::database("write the audit log"))
    }

    /// Returns the last lines of the audit log, newest first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn audit_tail(&self, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        self.audit_before(u64::MAX, limit)
    }

    /// Returns the last lines before a sequence number of the audit log, newest first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn audit_before(&self, before: u64, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let connection = self.connection();
        let read = || {
            connection
                .prepare_cached(
                    "SELECT at_ms, actor, action, subject, detail, seq, peer FROM audit WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2",
                )?
                .query_map(params![before, limit], |row| {
                    Ok(AuditEntry {
                        at: rfc3339(row.get(0)?),
                        actor: row.get(1)?,
                        action: row.get(2)?,
                        subject: row.get(3)?,
                        detail: row.get(4)?,
                        seq: row.get::<i64>(5)?.cast_unsigned(),
                        peer: row.get(6)?,
                    })
                })?
                .collect::<sql::Result<_>>()
        };
        read().map_err(StoreError::database("read the audit log"))
    }
}

fn write_all(connection: &Connection, notes: &[Note]) -> sql::Result<()> {
    let transaction = connection.transaction()?;
    for Note { actor, peer, action, subject, detail } in notes {
        let detail = &detail[..detail.floor_char_boundary(AUDIT_DETAIL_BYTES)];
        audit(&transaction, Actor { name: actor, peer: *peer }, action, subject, detail)?;
    }
    transaction.commit()
}
