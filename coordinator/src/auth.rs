//! Tokens and roles.
//!
//! Tokens are stored in their own database, `auth.db`, which works with and without a running
//! coordinator. A change by one process is visible to others within [`REFRESH_EVERY`].
//!
//! A token is `bp_<id>_<secret>`. If the coordinator has a self-signed certificate,
//! `_<fingerprint>` follows. The id is 32 hexadecimal digits and not secret. Only a hash of the
//! secret is stored. The secret has 192 random bits, so a fast hash is as safe as a slow one.

mod audit;
mod error;
mod rows;

pub use error::AuthError;
pub use rows::Actor;
pub(crate) use rows::{CANCEL, Note, SUBMIT};

use crate::store::sql::{self, Connection, params};
use crate::store::{AUTH, Database, Disk, Server, StoreError, locked, make_directory, now_ms, setup_lock};
use buildpool_protocol::TokenId;
use buildpool_protocol::client_link::{Role, TokenCreated, TokenSummary};
use buildpool_protocol::spec::{Restriction, check_name};
use buildpool_protocol::token::{self, PREFIX, SECRET_DIGITS, TokenFormError};
use rows::{StoredToken, audit, read};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use uuid::Uuid;

/// Maximum age of the cached tokens. A revocation takes effect within this time.
pub const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// Name of the token database in the data directory.
pub const TOKENS_FILE: &str = "auth.db";
/// Name of a local pool's own tokens, and so the name of its user.
pub const LOCAL: &str = "local";
/// Name of the tokens of a local pool's worker.
pub const LOCAL_WORKER: &str = "local-worker";
const SECRET_BYTES: usize = SECRET_DIGITS / 2;

/// The authenticated owner of a token, with its role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// Id of the token.
    pub token: TokenId,
    /// Display name of the token.
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Where the jobs of the token may run, on which projects, and which jobs it may read.
    pub only: Restriction,
}

/// Effect of a revocation on the jobs that were submitted with the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobsAfter {
    /// Unfinished jobs are cancelled.
    End,
    /// The jobs continue.
    Continue,
}

/// A revoked token, if the revocation ends its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndsJobs {
    pub(crate) token: TokenId,
    /// Time of the revocation, in milliseconds since 1970.
    pub(crate) revoked_at_ms: i64,
}

impl Principal {
    /// Returns true if the principal has this role. An admin has every role.
    pub fn may(&self, role: Role) -> bool {
        self.role == Role::Admin || self.role == role
    }

    /// Checks that the principal has this role.
    ///
    /// # Errors
    /// [`AuthError::Forbidden`].
    pub fn require(&self, role: Role) -> Result<(), AuthError> {
        if self.may(role) { Ok(()) } else { Err(AuthError::Forbidden { have: self.role, need: role }) }
    }
}

/// The tokens of a data directory. Cheap to clone.
#[derive(Clone)]
pub struct Tokens {
    inner: Arc<TokenTable>,
}

struct TokenTable {
    connection: Mutex<Connection>,
    picture: RwLock<Picture>,
    /// Notifies tasks that depend on a token after this process has changed one.
    changed: Notify,
}

/// Cached state of the tokens.
struct Picture {
    tokens: HashMap<TokenId, StoredToken>,
    /// SQLite's `data_version`, which changes when another process commits.
    version: Option<i64>,
    checked: Instant,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    /// Opens the tokens of a data directory, and creates both if they are missing. Works while a
    /// coordinator runs.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::File`], [`StoreError::Database`].
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        make_directory(directory)?;
        let _setup = setup_lock(directory)?;
        Self::open_at(&Database::File(directory.join(TOKENS_FILE)))
    }

    /// Opens the tokens on a PostgreSQL server, and creates their tables if they are missing.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Database`].
    pub fn open_on(server: &Server) -> Result<Self, StoreError> {
        Self::open_at(&Database::Server(server.clone()))
    }

    fn open_at(database: &Database) -> Result<Self, StoreError> {
        let connection = database.open_newest(&Disk::default(), &AUTH)?;
        let picture = Picture { tokens: HashMap::new(), version: None, checked: Instant::now() };
        let tokens = Self {
            inner: Arc::new(TokenTable {
                connection: Mutex::new(connection),
                picture: RwLock::new(picture),
                changed: Notify::new(),
            }),
        };
        tokens.refresh()?;
        Ok(tokens)
    }

    /// Creates a token. Several tokens may have the same name. To replace a token without a gap,
    /// create one with the same name, distribute it, and revoke the old one by its id.
    ///
    /// # Errors
    /// [`AuthError::Name`], [`AuthError::Store`], [`AuthError::Random`].
    pub fn create<'a>(
        &self,
        role: Role,
        name: &str,
        expires: Option<Duration>,
        fingerprint: Option<&str>,
        by: impl Into<Actor<'a>>,
    ) -> Result<TokenCreated, AuthError> {
        self.create_with((role, &Restriction::default()), name, expires, fingerprint, by.into(), |_| Ok(()))
    }

    /// Creates a token of role `submit` whose jobs have these limits.
    ///
    /// # Errors
    /// As [`Tokens::create`], and [`AuthError::Restriction`] for another role or a wrong name.
    pub fn create_restricted<'a>(
        &self,
        (role, only): (Role, &Restriction),
        name: &str,
        expires: Option<Duration>,
        fingerprint: Option<&str>,
        by: impl Into<Actor<'a>>,
    ) -> Result<TokenCreated, AuthError> {
        if role != Role::Submit && !only.is_none() {
            let text = format!(
                "only_worker, only_label, only_project, reads: a token of role `{}` can't be restricted; role submit can",
                role.name()
            );
            return Err(AuthError::Restriction(text));
        }
        only.check().map_err(|error| AuthError::Restriction(error.to_string()))?;
        self.create_with((role, only), name, expires, fingerprint, by.into(), |_| Ok(()))
    }

    /// Creates a token and applies `also`, in one transaction.
    fn create_with(
        &self,
        (role, only): (Role, &Restriction),
        name: &str,
        expires: Option<Duration>,
        fingerprint: Option<&str>,
        by: Actor<'_>,
        also: impl FnOnce(&Connection) -> sql::Result<()>,
    ) -> Result<TokenCreated, AuthError> {
        check_name("name", name).map_err(AuthError::Name)?;
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(AuthError::Random)?;
        let id = TokenId::from_uuid(Uuid::now_v7());
        let created_at_ms = now_ms();
        let expires_at_ms = expires
            .map(|after| created_at_ms.saturating_add(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)));
        let secret = hex(&secret);
        let restriction = (!only.is_none()).then(|| serde_json::to_string(only)).transpose();
        let restriction = restriction.map_err(|error| AuthError::Restriction(error.to_string()))?;
        self.change("write a token", |connection| {
            connection.execute(
                "INSERT INTO tokens(id, name, role, hash, created_at_ms, expires_at_ms, restriction) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    id.as_uuid().as_bytes(),
                    name,
                    role.name(),
                    hash(id, &secret),
                    created_at_ms,
                    expires_at_ms,
                    restriction
                ],
            )?;
            audit(connection, by, "token_create", name, &format!("{} {id}", role.name()))?;
            also(connection)
        })?;
        let suffix = fingerprint.map(|fingerprint| format!("_{fingerprint}")).unwrap_or_default();
        let token = format!("{PREFIX}{}_{secret}{suffix}", id.as_uuid().as_simple());
        Ok(TokenCreated { token, id, role, name: name.to_owned() })
    }

    /// Returns all tokens, in the order of their creation.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn list(&self) -> Result<Vec<TokenSummary>, StoreError> {
        self.refresh()?;
        let picture = self.inner.picture.read().unwrap_or_else(PoisonError::into_inner);
        let mut tokens: Vec<&StoredToken> = picture.tokens.values().collect();
        tokens.sort_by_key(|token| (token.created_at_ms, token.principal.token));
        Ok(tokens
            .into_iter()
            .map(|token| TokenSummary {
                id: token.principal.token,
                role: token.principal.role,
                name: token.principal.name.clone(),
                created_at: rfc3339(token.created_at_ms),
                expires_at: token.expires_at_ms.map(rfc3339),
                revoked_at: token.revoked_at_ms.map(rfc3339),
                only: token.principal.only.clone(),
            })
            .collect())
    }

    /// Revokes the token with this id, or all tokens with this name. Returns their ids.
    ///
    /// # Errors
    /// [`AuthError::NoSuchToken`] if there is no unrevoked one; [`AuthError::Store`].
    pub fn revoke<'a>(
        &self,
        id_or_name: &str,
        jobs: JobsAfter,
        by: impl Into<Actor<'a>>,
    ) -> Result<Vec<TokenId>, AuthError> {
        self.refresh()?;
        let wanted: Option<TokenId> = id_or_name.parse().ok();
        let ids: Vec<TokenId> = {
            let picture = self.inner.picture.read().unwrap_or_else(PoisonError::into_inner);
            let fits = |token: &&StoredToken| {
                token.revoked_at_ms.is_none()
                    && (token.principal.name == id_or_name || Some(token.principal.token) == wanted)
            };
            picture.tokens.values().filter(fits).map(|token| token.principal.token).collect()
        };
        if ids.is_empty() {
            return Err(AuthError::NoSuchToken { token: id_or_name.to_owned() });
        }
        let (now, by) = (now_ms(), by.into());
        self.change("revoke a token", |connection| {
            for id in &ids {
                connection.execute(
                    "UPDATE tokens SET revoked_at_ms = ?2, ends_jobs = ?3 WHERE id = ?1",
                    params![id.as_uuid().as_bytes(), now, jobs == JobsAfter::End],
                )?;
                audit(connection, by, "token_revoke", id_or_name, &id.to_string())?;
            }
            Ok(())
        })?;
        Ok(ids)
    }

    /// Returns the revoked tokens for which jobs end.
    ///
    /// # Errors
    /// [`StoreError`] if the tokens can't be read.
    pub(crate) fn ending_jobs(&self) -> Result<Vec<EndsJobs>, StoreError> {
        self.refresh_if_old()?;
        let picture = self.inner.picture.read().unwrap_or_else(PoisonError::into_inner);
        let ending = picture.tokens.values().filter(|token| token.ends_jobs);
        Ok(ending
            .filter_map(|token| {
                Some(EndsJobs { token: token.principal.token, revoked_at_ms: token.revoked_at_ms? })
            })
            .collect())
    }

    /// Creates a token with the name and role of the token with this id, or of all tokens with this
    /// name. The old tokens expire after `grace`. The new one has their longest lifetime, unless
    /// `expires` is given.
    ///
    /// # Errors
    /// [`AuthError::NoSuchToken`], [`AuthError::SeveralRoles`], and as [`Tokens::create`].
    pub fn rotate<'a>(
        &self,
        id_or_name: &str,
        grace: Duration,
        expires: Option<Duration>,
        fingerprint: Option<&str>,
        by: impl Into<Actor<'a>>,
    ) -> Result<TokenCreated, AuthError> {
        let by = by.into();
        self.refresh()?;
        let old = self.in_force(id_or_name);
        let Some(first) = old.first().cloned() else {
            return Err(AuthError::NoSuchToken { token: id_or_name.to_owned() });
        };
        if old.iter().any(|principal| principal.role != first.role) {
            return Err(AuthError::SeveralRoles { token: id_or_name.to_owned() });
        }
        if old.iter().any(|principal| principal.only != first.only) {
            return Err(AuthError::SeveralRestrictions { token: id_or_name.to_owned() });
        }
        let lifetimes = old.iter().map(|principal| self.stored(principal.token)?.lifetime());
        let longest = lifetimes.collect::<Option<Vec<Duration>>>().and_then(|all| all.into_iter().max());
        let expires = expires.or(longest);
        let until = now_ms().saturating_add(i64::try_from(grace.as_millis()).unwrap_or(i64::MAX));
        self.create_with((first.role, &first.only), &first.name, expires, fingerprint, by, |connection| {
            for principal in &old {
                connection.execute(
                    "UPDATE tokens SET expires_at_ms = ?2 WHERE id = ?1 AND (expires_at_ms IS NULL OR expires_at_ms > ?2)",
                    params![principal.token.as_uuid().as_bytes(), until],
                )?;
                let detail = format!("{} counts for {} s more", principal.token, grace.as_secs());
                audit(connection, by, "token_rotate", &first.name, &detail)?;
            }
            Ok(())
        })
    }

    /// Returns the principals of the valid tokens with this id or name.
    pub(crate) fn in_force(&self, id_or_name: &str) -> Vec<Principal> {
        let wanted: Option<TokenId> = id_or_name.parse().ok();
        let now = now_ms();
        let picture = self.inner.picture.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |token: &&StoredToken| {
            token.principal.name == id_or_name || Some(token.principal.token) == wanted
        };
        let fitting = picture.tokens.values().filter(fits);
        fitting.filter_map(|token| token.clone().in_force(now).ok()).collect()
    }

    /// Authenticates a bearer token. Reads the cache, and every [`REFRESH_EVERY`] the database.
    ///
    /// # Errors
    /// [`AuthError`]. Expiry and revocation are reported only if the secret is correct.
    pub fn verify(&self, bearer: &str) -> Result<Principal, AuthError> {
        let (id, secret) = parse(bearer)?;
        self.refresh_if_old()?;
        let known = match self.stored(id) {
            Some(stored) => Some(stored),
            // Another process may have created it a moment ago.
            None => {
                self.refresh()?;
                self.stored(id)
            }
        };
        let expected = known.as_ref().map_or([0; 32], |stored| stored.hash);
        let agrees: bool = expected.ct_eq(&hash(id, secret)).into();
        match known {
            Some(stored) if agrees => stored.in_force(now_ms()),
            _ => Err(AuthError::Unknown),
        }
    }

    /// Checks that an authenticated token is still valid. For connections that stay open.
    ///
    /// # Errors
    /// As [`Tokens::verify`].
    pub fn check(&self, token: TokenId) -> Result<Principal, AuthError> {
        self.refresh_if_old()?;
        self.stored(token).ok_or(AuthError::Unknown)?.in_force(now_ms())
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        locked(&self.inner.connection)
    }

    fn stored(&self, id: TokenId) -> Option<StoredToken> {
        self.inner.picture.read().unwrap_or_else(PoisonError::into_inner).tokens.get(&id).cloned()
    }

    fn change(
        &self,
        doing: &'static str,
        write: impl FnOnce(&Connection) -> sql::Result<()>,
    ) -> Result<(), StoreError> {
        {
            let connection = self.connection();
            let transaction = connection.transaction().map_err(StoreError::database(doing))?;
            write(&transaction).map_err(StoreError::database(doing))?;
            transaction.commit().map_err(StoreError::database(doing))?;
            // SQLite's `data_version` changes only for commits of other connections, so force a
            // refresh.
            self.inner.picture.write().unwrap_or_else(PoisonError::into_inner).version = None;
        }
        let refreshed = self.refresh();
        self.inner.changed.notify_waiters();
        refreshed
    }

    /// Returns a future that completes when this process changes a token after this call. Changes
    /// by other processes need polling.
    pub fn changed(&self) -> Notified<'_> {
        self.inner.changed.notified()
    }

    fn refresh_if_old(&self) -> Result<(), StoreError> {
        let age = self.inner.picture.read().unwrap_or_else(PoisonError::into_inner).checked.elapsed();
        if age >= REFRESH_EVERY { self.refresh() } else { Ok(()) }
    }

    /// Reads the tokens again if the database has changed.
    fn refresh(&self) -> Result<(), StoreError> {
        let connection = self.connection();
        let checked = Instant::now();
        let doing = "read tokens";
        let version = connection.data_version().map_err(StoreError::database(doing))?;
        let known = self.inner.picture.read().unwrap_or_else(PoisonError::into_inner).version;
        let same = version.is_some() && version == known;
        let tokens = if same { None } else { Some(read(&connection).map_err(StoreError::database(doing))?) };
        let mut picture = self.inner.picture.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(tokens) = tokens {
            picture.tokens = tokens;
            picture.version = version;
        }
        picture.checked = checked;
        Ok(())
    }
}

/// Returns the certificate fingerprint in a token, if it has one.
pub fn fingerprint_of(token: &str) -> Option<&str> {
    token::parse(token).ok()?.fingerprint
}

fn parse(bearer: &str) -> Result<(TokenId, &str), AuthError> {
    match token::parse(bearer) {
        Ok(parts) => Ok((parts.id, parts.secret)),
        Err(TokenFormError::Empty) => Err(AuthError::Missing),
        Err(error) => Err(AuthError::Malformed(error)),
    }
}

fn hash(id: TokenId, secret: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("buildpool 2026 token secret at rest");
    hasher.update(id.as_uuid().as_bytes()).update(secret.as_bytes());
    *hasher.finalize().as_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::from("?"), |time| time.to_string())
}

#[cfg(test)]
mod tests;
