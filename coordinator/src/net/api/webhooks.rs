//! Management of webhooks, for admins.

use super::document::Refused;
use super::forms::Name;
use super::problem::Problem;
use super::{Caller, JsonBody, Path, require_admin};
use crate::app_state::{internal, rfc3339};
use crate::auth::Note;
use crate::store::EventKind;
use crate::webhooks::{NewWebhook, Target, Webhook, WebhookError, WebhookId};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::spec::check_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Id of a webhook.
#[derive(ToSchema)]
#[schema(value_type = String, format = "uuid")]
pub(super) struct WebhookText(#[expect(dead_code, reason = "only its schema is used")] String);

/// A webhook to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookRequest {
    /// Name for lists and the audit log.
    #[schema(value_type = Name)]
    name: String,
    /// URL that receives the events: `https://HOST/PATH` with a public address.
    #[schema(pattern = "^https://.+$")]
    url: String,
    /// Kinds of the events; all if empty.
    #[serde(default)]
    kinds: Vec<EventKind>,
}

/// A webhook.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhookSummary {
    #[schema(value_type = WebhookText)]
    id: WebhookId,
    name: String,
    /// The URL without its path, which may contain a secret of the receiver.
    url: String,
    /// Kinds of the events; all if empty.
    kinds: Vec<EventKind>,
    created_at: String,
    created_by: String,
    /// Deliveries that wait.
    queued: u64,
    /// Deliveries that failed for 24 hours.
    dead_letters: u64,
    /// Why nothing is sent any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled: Option<String>,
    /// Secret of the signatures. Only the answer to the creation has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// All webhooks.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhookList {
    webhooks: Vec<WebhookSummary>,
}

/// A delivery that failed for 24 hours.
#[derive(Serialize, ToSchema)]
pub(super) struct DeadLetterSummary {
    /// Id of the event.
    event: u64,
    /// The payload.
    payload: Value,
    /// Number of attempts.
    attempts: u32,
    queued_at: String,
    /// Why the last attempt failed.
    reason: String,
}

/// Dead letters of a webhook, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct DeadLetters {
    dead_letters: Vec<DeadLetterSummary>,
}

fn summary(webhook: Webhook) -> WebhookSummary {
    // A stored URL was valid when it was stored, under the rules of that time.
    let url = Target::parse(&webhook.url, true).map_or_else(|_| String::new(), |target| target.shown());
    WebhookSummary {
        id: webhook.id,
        name: webhook.name,
        url,
        kinds: webhook.kinds,
        created_at: rfc3339(webhook.created_at_ms),
        created_by: webhook.created_by,
        queued: webhook.queued,
        dead_letters: webhook.dead_letters,
        disabled: webhook.disabled,
        secret: None,
    }
}

/// Webhooks send facts about all jobs and tokens to other machines, so only admins manage them.
const WEBHOOKS: &str = "webhooks";

fn note(caller: &Caller, action: &'static str, subject: String, detail: String) {
    let (actor, peer) = (caller.principal.name.clone(), Some(caller.peer));
    if let Err(error) = caller.shared.tokens.audit_all(&[Note { actor, peer, action, subject, detail }]) {
        tracing::warn!(error = &error as &dyn std::error::Error, "the audit log can't be written");
    }
}

/// Lists the webhooks, without their secrets.
#[utoipa::path(get, path = "/webhooks", tag = "webhooks", operation_id = "list_webhooks",
    responses((status = 200, body = WebhookList), Refused))]
pub(super) async fn list(caller: Caller) -> Result<Json<WebhookList>, Problem> {
    require_admin(&caller, WEBHOOKS)?;
    let webhooks = caller.shared.webhooks.list().map_err(internal)?;
    Ok(Json(WebhookList { webhooks: webhooks.into_iter().map(summary).collect() }))
}

/// Creates a webhook that receives the events from now on.
///
/// Each delivery is a POST request, signed as Standard Webhooks defines. A status of 200 to 299 accepts it; 410 ends the
/// webhook; after others it is sent again for 24 hours. A receiver may get a delivery twice, with the same `webhook-id`.
#[utoipa::path(post, path = "/webhooks", tag = "webhooks", operation_id = "create_webhook", request_body = WebhookRequest,
    responses((status = 201, body = WebhookSummary), Refused))]
pub(super) async fn create(
    caller: Caller,
    JsonBody(request): JsonBody<WebhookRequest>,
) -> Result<Response, Problem> {
    require_admin(&caller, WEBHOOKS)?;
    let WebhookRequest { name, url, kinds } = request;
    check_name("name", &name).map_err(|error| Problem::invalid(error.to_string()))?;
    let shared = &caller.shared;
    let target = Target::parse(&url, shared.config.webhook_private_addresses)
        .map_err(|error| Problem::unusable(LinkError::new(ErrorCode::Invalid, error.to_string())))?;
    let after = shared.reader.event_range().map_err(internal)?.newest;
    let created_by = caller.principal.name.clone();
    let created = shared.webhooks.create(&NewWebhook { name, url, kinds, created_by, after });
    let webhook = created.map_err(|error| match error {
        WebhookError::Store(error) => internal(error),
        WebhookError::TooMany => LinkError::new(ErrorCode::Exhausted, error.to_string()),
        WebhookError::Random(_) => LinkError::new(ErrorCode::Internal, error.to_string()),
    })?;
    note(&caller, "webhook_create", webhook.name.clone(), format!("{} {}", webhook.id, target.shown()));
    let secret = Some(webhook.secret.text());
    Ok((StatusCode::CREATED, Json(WebhookSummary { secret, ..summary(webhook) })).into_response())
}

/// Deletes a webhook with its queue and its dead letters.
#[utoipa::path(delete, path = "/webhooks/{id}", tag = "webhooks", operation_id = "delete_webhook",
    params(("id" = WebhookText, Path, description = "Id of the webhook")),
    responses((status = 204, description = "It is deleted"), Refused))]
pub(super) async fn delete(caller: Caller, Path(id): Path<WebhookId>) -> Result<StatusCode, Problem> {
    require_admin(&caller, WEBHOOKS)?;
    if !caller.shared.webhooks.delete(id).map_err(internal)? {
        return Err(unknown(id).into());
    }
    note(&caller, "webhook_delete", id.to_string(), String::new());
    Ok(StatusCode::NO_CONTENT)
}

fn unknown(id: WebhookId) -> LinkError {
    LinkError::new(ErrorCode::NotFound, format!("no webhook has the id {id}; `GET webhooks` lists them"))
}

/// Lists the deliveries that failed for 24 hours.
#[utoipa::path(get, path = "/webhooks/{id}/dead_letters", tag = "webhooks", operation_id = "list_dead_letters",
    params(("id" = WebhookText, Path, description = "Id of the webhook")),
    responses((status = 200, body = DeadLetters), Refused))]
pub(super) async fn dead_letters(
    caller: Caller,
    Path(id): Path<WebhookId>,
) -> Result<Json<DeadLetters>, Problem> {
    require_admin(&caller, WEBHOOKS)?;
    let webhooks = &caller.shared.webhooks;
    if !webhooks.list().map_err(internal)?.iter().any(|webhook| webhook.id == id) {
        return Err(unknown(id).into());
    }
    let letters = webhooks.dead_letters(id).map_err(internal)?;
    let dead_letters = letters.into_iter().map(|letter| DeadLetterSummary {
        event: letter.event,
        payload: serde_json::from_str(&letter.body).unwrap_or_default(),
        attempts: letter.attempts,
        queued_at: rfc3339(letter.queued_at_ms),
        reason: letter.reason,
    });
    Ok(Json(DeadLetters { dead_letters: dead_letters.collect() }))
}
