//! Requests of admins about tokens and the audit log.

use super::require_admin;
use crate::app_state::internal;
use crate::auth::{JobsAfter, LOCAL, LOCAL_WORKER, Principal};
use crate::net::request_context::RequestContext;
use buildpool_protocol::client_link::{AuditEntry, Role, TokenCreated, TokenSummary};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::TokenId;
use buildpool_protocol::limits::{CONTROL_MESSAGE_BYTES_MAX, JOBS_PAGE_MAX, TOKEN_LASTS_MAX};
use buildpool_protocol::spec::Restriction;
use std::time::Duration;

pub(super) fn token_create(
    context: &RequestContext,
    role: (Role, &Restriction),
    name: &str,
    expires: Option<Duration>,
) -> Result<TokenCreated, LinkError> {
    require_admin(context, "making a token")?;
    lasts(expires)?;
    let shared = &context.shared;
    let fingerprint = shared.token_fingerprint();
    let created =
        shared.tokens.create_restricted(role, name, expires, fingerprint.as_deref(), context.actor());
    created.map_err(|error| LinkError::from(&error))
}

/// Checks the lifetime of a token: it must be greater than zero and at most [`TOKEN_LASTS_MAX`].
fn lasts(expires: Option<Duration>) -> Result<(), LinkError> {
    if expires.is_some_and(|expires| expires.is_zero()) {
        return Err(LinkError::new(
            ErrorCode::Invalid,
            "expires: 0 s given; give a longer time, or leave it out for a token without end",
        ));
    }
    if expires.is_some_and(|expires| expires > TOKEN_LASTS_MAX) {
        let text = format!(
            "expires: at most {} s are valid; leave it out for a token without end",
            TOKEN_LASTS_MAX.as_secs()
        );
        return Err(LinkError::new(ErrorCode::Invalid, text));
    }
    Ok(())
}

pub(super) fn token_rotate(
    context: &RequestContext,
    token: &str,
    grace: Duration,
    expires: Option<Duration>,
) -> Result<TokenCreated, LinkError> {
    require_admin(context, "rotating a token")?;
    is_not_the_pools_own(context, token)?;
    lasts(expires)?;
    let fingerprint = context.shared.token_fingerprint();
    let rotated =
        context.shared.tokens.rotate(token, grace, expires, fingerprint.as_deref(), context.actor());
    rotated.map_err(|error| LinkError::from(&error))
}

pub(super) fn audit(
    context: &RequestContext,
    before: Option<u64>,
    limit: u32,
) -> Result<Vec<AuditEntry>, LinkError> {
    require_admin(context, "reading the audit log")?;
    let (before, limit) = (before.unwrap_or(u64::MAX), limit.clamp(1, JOBS_PAGE_MAX as u32));
    let mut entries = context.shared.tokens.audit_before(before, limit).map_err(internal)?;
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += serde_json::to_vec(entry).map_or(0, |text| text.len());
        bytes <= CONTROL_MESSAGE_BYTES_MAX / 2
    });
    let count = fitting.count();
    entries.truncate(count);
    Ok(entries)
}

pub(super) fn token_list(context: &RequestContext) -> Result<Vec<TokenSummary>, LinkError> {
    require_admin(context, "listing tokens")?;
    context.shared.tokens.list().map_err(internal)
}

/// Refuses changes to the local pool's own tokens. The pool creates them at each start. If one of
/// them is revoked, the user or the worker is locked out until the next start.
fn is_not_the_pools_own(context: &RequestContext, token: &str) -> Result<(), LinkError> {
    let is_own = |principal: &Principal| matches!(&*principal.name, LOCAL | LOCAL_WORKER);
    if !context.shared.config.local || !context.shared.tokens.in_force(token).iter().any(is_own) {
        return Ok(());
    }
    let text = format!(
        "token `{token}` is the local pool's own, without which nobody reaches it; it ends with the pool's process, which \
         `buildpool doctor` names, and each start makes a new one"
    );
    Err(LinkError::new(ErrorCode::Invalid, text))
}

/// Returns all tokens, and the ids of the revoked ones.
pub(super) fn token_revoke(
    context: &RequestContext,
    token: &str,
    jobs: JobsAfter,
) -> Result<(Vec<TokenSummary>, Vec<TokenId>), LinkError> {
    require_admin(context, "revoking a token")?;
    is_not_the_pools_own(context, token)?;
    let revoked = context.shared.tokens.revoke(token, jobs, context.actor());
    let revoked = revoked.map_err(|error| LinkError::from(&error))?;
    Ok((token_list(context)?, revoked))
}
