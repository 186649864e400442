//! The pool itself: health, workers, tokens, the audit log, builds.

use super::call::{REQUEST, ask, unexpected};
use super::document::Refused;
use super::forms::{BuildText, Name};
use super::problem::Problem;
use super::{Caller, JsonBody, Path, Query};
use crate::app_state::VERSION;
use crate::net::queries;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use buildpool_digest::manifest::Manifest;
use buildpool_protocol::client_link::{
    AuditEntry, FromClient, Role, ToClient, TokenCreated, TokenSummary, WorkerSummary,
};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{BuildId, TokenId};
use buildpool_protocol::spec::Restriction;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use utoipa::{IntoParams, ToSchema};

/// Default number of entries of the audit log in an answer.
const ENTRIES_LISTED: u32 = 100;

/// Limit on the wait for the report of a resumed worker, and the time between two looks at it.
const RESUMED_WITHIN: Duration = Duration::from_secs(2);
const REPORT_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Whether the pool accepts jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// Whether new jobs are accepted.
    ready: bool,
    /// Why they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Version of the coordinator.
    version: &'static str,
    /// Jobs that wait for a worker.
    queued: usize,
    /// Jobs that a worker has.
    granted: usize,
    /// Workers that are connected.
    connected_workers: usize,
}

/// All workers.
#[derive(Serialize, ToSchema)]
pub(super) struct Workers {
    workers: Vec<WorkerSummary>,
}

/// How a worker is drained.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Drain {
    /// Seconds after which its running jobs are ended. Never if absent.
    deadline_secs: Option<u32>,
}

/// All tokens.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenList {
    tokens: Vec<TokenSummary>,
}

/// A token to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// Role of the token.
    role: Role,
    /// Name of the token's owner.
    #[schema(value_type = Name)]
    name: String,
    /// Lifetime in seconds. Unlimited if absent.
    #[serde(default)]
    #[schema(minimum = 1)]
    expires_secs: Option<u32>,
    /// Where the jobs of the token may run, and on which projects; only for role `submit`.
    #[serde(default)]
    only: Restriction,
}

/// How a token is revoked.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Revoke {
    /// Lets the jobs that were submitted with the token go on.
    #[serde(default)]
    keep_jobs: bool,
}

/// A part of the audit log.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only entries with a smaller sequence number: the next part.
    #[param(minimum = 0)]
    before: Option<u64>,
}

/// A part of the audit log, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Audit {
    entries: Vec<AuditEntry>,
}

/// Returns whether the pool accepts jobs.
#[utoipa::path(get, operation_id = "get_health", path = "/health", tag = "pool", responses((status = 200, body = Health), Refused))]
pub(super) async fn health(caller: Caller) -> Json<Health> {
    let shared = &caller.shared;
    let load = shared.runtime.load().await;
    let reason = shared.refuses_jobs().map(|why| why.message);
    Json(Health {
        ready: reason.is_none(),
        reason,
        version: VERSION,
        queued: load.queued,
        granted: load.preparing + load.running + load.sealing,
        connected_workers: shared.connections.workers(),
    })
}

/// Lists the workers.
#[utoipa::path(get, operation_id = "list_workers", path = "/workers", tag = "workers", responses((status = 200, body = Workers), Refused))]
pub(super) async fn workers(caller: Caller) -> Result<Json<Workers>, Problem> {
    Ok(Json(Workers { workers: all_workers(&caller).await? }))
}

async fn all_workers(caller: &Caller) -> Result<Vec<WorkerSummary>, Problem> {
    let mut all: Vec<WorkerSummary> = Vec::new();
    loop {
        let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
        match ask(caller, FromClient::Workers { request: REQUEST, offset }).await? {
            ToClient::Workers { workers, more, .. } => {
                let is_end = !more || workers.is_empty();
                all.extend(workers);
                if is_end {
                    return Ok(all);
                }
            }
            _ => return Err(unexpected().into()),
        }
    }
}

/// Changes a worker, and returns its new state.
async fn change(caller: &Caller, message: FromClient, id: &str) -> Result<Json<WorkerSummary>, Problem> {
    ask(caller, message).await?;
    present(caller, id).await
}

/// Returns the state of a worker.
async fn present(caller: &Caller, id: &str) -> Result<Json<WorkerSummary>, Problem> {
    let mut workers = all_workers(caller).await?.into_iter();
    let found = workers.find(|worker| worker.worker_id == id || worker.name == id);
    let gone = || {
        let text = format!("worker `{}` was forgotten meanwhile", id.escape_debug());
        LinkError::new(ErrorCode::NotFound, text).into()
    };
    found.map(Json).ok_or_else(gone)
}

/// Removes a worker that is not connected. Its name can be used again.
#[utoipa::path(delete, operation_id = "forget_worker", path = "/workers/{id}", tag = "workers",
    params(("id" = String, Path, description = "Id or name of the worker")),
    responses((status = 204, description = "It is removed"), Refused))]
pub(super) async fn forget(caller: Caller, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    ask(&caller, FromClient::Forget { request: REQUEST, worker: id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stops giving jobs to a worker.
#[utoipa::path(post, operation_id = "drain_worker", path = "/workers/{id}/drain", tag = "workers", request_body = Option<Drain>,
    params(("id" = String, Path, description = "Id or name of the worker")),
    responses((status = 200, body = WorkerSummary), Refused))]
pub(super) async fn drain(
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(Drain { deadline_secs }): JsonBody<Drain>,
) -> Result<Json<WorkerSummary>, Problem> {
    let deadline = deadline_secs.map(|secs| Duration::from_secs(secs.into()));
    let message = FromClient::Drain { request: REQUEST, worker: id.clone(), draining: true, deadline };
    change(&caller, message, &id).await
}

/// Gives jobs to a drained worker again.
#[utoipa::path(post, operation_id = "resume_worker", path = "/workers/{id}/resume", tag = "workers",
    params(("id" = String, Path, description = "Id or name of the worker")),
    responses((status = 200, body = WorkerSummary), Refused))]
pub(super) async fn resume(caller: Caller, Path(id): Path<String>) -> Result<Json<WorkerSummary>, Problem> {
    let message = FromClient::Drain { request: REQUEST, worker: id.clone(), draining: false, deadline: None };
    let deadline = Instant::now() + RESUMED_WITHIN;
    let mut worker = change(&caller, message, &id).await?;
    // The worker decides, and reports at once. One that is shutting down goes on draining.
    while worker.draining && worker.connected && Instant::now() < deadline {
        tokio::time::sleep(REPORT_LOOK_EVERY).await;
        worker = present(&caller, &id).await?;
    }
    Ok(worker)
}

/// Lets a worker that waits for approval accept jobs.
#[utoipa::path(post, operation_id = "approve_worker", path = "/workers/{id}/approve", tag = "workers",
    params(("id" = String, Path, description = "Id or name of the worker")),
    responses((status = 200, body = WorkerSummary), Refused))]
pub(super) async fn approve(caller: Caller, Path(id): Path<String>) -> Result<Json<WorkerSummary>, Problem> {
    let message = FromClient::Approve { request: REQUEST, worker: id.clone() };
    change(&caller, message, &id).await
}

/// Lists the tokens, without their secrets.
#[utoipa::path(get, operation_id = "list_tokens", path = "/tokens", tag = "tokens", responses((status = 200, body = TokenList), Refused))]
pub(super) async fn tokens(caller: Caller) -> Result<Json<TokenList>, Problem> {
    match ask(&caller, FromClient::TokenList { request: REQUEST }).await? {
        ToClient::Tokens { tokens, .. } => Ok(Json(TokenList { tokens })),
        _ => Err(unexpected().into()),
    }
}

/// Creates a token. Only this answer has its secret.
#[utoipa::path(post, operation_id = "create_token", path = "/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, body = TokenCreated), Refused))]
pub(super) async fn create_token(
    caller: Caller,
    JsonBody(new): JsonBody<NewToken>,
) -> Result<Response, Problem> {
    let NewToken { role, name, expires_secs, only } = new;
    let expires = expires_secs.map(|secs| Duration::from_secs(secs.into()));
    let message = FromClient::TokenCreate { request: REQUEST, role, name, expires, only };
    match ask(&caller, message).await.map_err(Problem::unusable)? {
        ToClient::Token { created, .. } => Ok((StatusCode::CREATED, Json(created)).into_response()),
        _ => Err(unexpected().into()),
    }
}

/// Revokes a token. Its connections are closed and its jobs end.
#[utoipa::path(delete, operation_id = "revoke_token", path = "/tokens/{id}", tag = "tokens",
    params(("id" = TokenId, Path, description = "Id of the token"), Revoke),
    responses((status = 204, description = "It is revoked"), Refused))]
pub(super) async fn revoke_token(
    caller: Caller,
    Path(id): Path<TokenId>,
    Query(Revoke { keep_jobs }): Query<Revoke>,
) -> Result<StatusCode, Problem> {
    let message = FromClient::TokenRevoke { request: REQUEST, token: id.to_string(), keep_jobs };
    ask(&caller, message).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the audit log, newest first.
#[utoipa::path(get, operation_id = "list_audit", path = "/audit", tag = "pool", params(AuditQuery), responses((status = 200, body = Audit), Refused))]
pub(super) async fn audit(
    caller: Caller,
    Query(AuditQuery { limit, before }): Query<AuditQuery>,
) -> Result<Json<Audit>, Problem> {
    let limit = super::listed("limit", limit.unwrap_or(ENTRIES_LISTED))?;
    let message = FromClient::Audit { request: REQUEST, limit, before };
    match ask(&caller, message).await? {
        ToClient::Audit { entries, .. } => Ok(Json(Audit { entries })),
        _ => Err(unexpected().into()),
    }
}

/// Returns the manifest of a build: its status, and the findings ranked across its jobs.
#[utoipa::path(get, operation_id = "get_build", path = "/builds/{id}", tag = "jobs",
    params(("id" = BuildText, Path, description = "`build-ID`, as `request_id` of its jobs")),
    responses((status = 200, body = Manifest), Refused))]
pub(super) async fn build(caller: Caller, Path(id): Path<String>) -> Result<Json<Manifest>, Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let _turn = caller.shared.request_limits.list(&caller.principal.name).await;
    Ok(Json(queries::build(&caller.shared, &caller.principal, build_id(&id)?).await?))
}

/// Parses the id of a build.
pub(super) fn build_id(text: &str) -> Result<BuildId, LinkError> {
    BuildId::from_request_id(text).ok_or_else(|| {
        let text = format!("build: `{}` is not a build; valid is build-ID", text.escape_debug());
        LinkError::new(ErrorCode::Invalid, text)
    })
}
