//! Token rows and audit lines in the database.

use super::Principal;
use super::error::AuthError;
use crate::store::limits::{AUDIT_COMMON_ROWS_MAX, AUDIT_ROWS_MAX};
use crate::store::now_ms;
use crate::store::sql::{self, Connection, params};
use buildpool_protocol::TokenId;
use buildpool_protocol::client_link::Role;
use buildpool_protocol::spec::Restriction;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use uuid::Uuid;

/// Number of audit lines after which old lines are removed.
const TRIM_EVERY: i64 = 1024;
/// Action of an accepted submit.
pub(crate) const SUBMIT: &str = "submit";
/// Action of a cancel request.
pub(crate) const CANCEL: &str = "cancel_request";
/// Action of a refused connection or a forbidden request.
pub(super) const REFUSED: &str = "refused";

/// The party that does an audited action.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// Name of its token, or a text for access through the files.
    pub name: &'a str,
    /// Address that its request came from. `None` for access through the files.
    pub peer: Option<IpAddr>,
}

impl<'a> From<&'a str> for Actor<'a> {
    fn from(name: &'a str) -> Self {
        Self { name, peer: None }
    }
}

/// A line for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) actor: String,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) action: &'static str,
    pub(crate) subject: String,
    pub(crate) detail: String,
}

#[derive(Clone, Debug)]
pub(super) struct StoredToken {
    pub(super) principal: Principal,
    pub(super) hash: [u8; 32],
    pub(super) created_at_ms: i64,
    pub(super) expires_at_ms: Option<i64>,
    pub(super) revoked_at_ms: Option<i64>,
    /// The revocation ends the jobs that were submitted with the token.
    pub(super) ends_jobs: bool,
}

impl StoredToken {
    /// Returns the lifetime from creation to expiry; `None` if the token does not expire.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let lasts = self.expires_at_ms?.saturating_sub(self.created_at_ms);
        Some(Duration::from_millis(u64::try_from(lasts).unwrap_or(0)))
    }

    pub(super) fn in_force(self, now_ms: i64) -> Result<Principal, AuthError> {
        if self.revoked_at_ms.is_some() {
            return Err(AuthError::Revoked);
        }
        if self.expires_at_ms.is_some_and(|expires| expires <= now_ms) {
            return Err(AuthError::Expired);
        }
        Ok(self.principal)
    }
}

pub(super) fn read(connection: &Connection) -> sql::Result<HashMap<TokenId, StoredToken>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, role, hash, created_at_ms, expires_at_ms, revoked_at_ms, ends_jobs, restriction FROM tokens",
    )?;
    let rows = statement.query_map(params![], |row| {
        let token = TokenId::from_uuid(Uuid::from_bytes(row.get(0)?));
        let role: String = row.get(2)?;
        let Some(role) = Role::ALL.into_iter().find(|known| known.name() == role) else {
            return Ok(None);
        };
        let only: Option<String> = row.get(8)?;
        // A restriction that can't be read must not become the absence of a restriction.
        let Ok(only) = only.map_or(Ok(Restriction::default()), |text| serde_json::from_str(&text)) else {
            return Ok(None);
        };
        let stored = StoredToken {
            principal: Principal { token, name: row.get(1)?, role, only },
            hash: row.get(3)?,
            created_at_ms: row.get(4)?,
            expires_at_ms: row.get(5)?,
            revoked_at_ms: row.get(6)?,
            ends_jobs: row.get(7)?,
        };
        Ok(Some((token, stored)))
    })?;
    rows.filter_map(Result::transpose).collect()
}

pub(super) fn audit(
    connection: &Connection,
    actor: Actor<'_>,
    action: &str,
    subject: &str,
    detail: &str,
) -> sql::Result<()> {
    let peer = actor.peer.map(|peer| peer.to_string());
    let seq: i64 = connection
        .prepare_cached(
            "INSERT INTO audit(at_ms, actor, action, subject, detail, peer) VALUES(?1, ?2, ?3, ?4, ?5, ?6) RETURNING seq",
        )?
        .query_row(params![now_ms(), actor.name, action, subject, detail, peer], |row| row.get(0))?;
    if seq % TRIM_EVERY == 0 {
        trim(connection)?;
    }
    Ok(())
}

/// Removes the oldest lines beyond the limits.
fn trim(connection: &Connection) -> sql::Result<()> {
    for action in [SUBMIT, CANCEL, REFUSED] {
        connection.execute(
            "DELETE FROM audit WHERE action = ?1 AND seq <=
             (SELECT seq FROM audit WHERE action = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
            params![action, AUDIT_COMMON_ROWS_MAX],
        )?;
    }
    connection
        .execute(
            "DELETE FROM audit WHERE seq <= (SELECT seq FROM audit ORDER BY seq DESC LIMIT 1 OFFSET ?1)",
            params![AUDIT_ROWS_MAX],
        )
        .map(drop)
}
