//! The sender of a request, sign-in by a code, and figures about the pool.

use super::document::Refused;
use super::problem::Problem;
use super::{Caller, JsonBody};
use crate::app_state::AppState;
use crate::auth::Actor;
use crate::net::load::{self, Load};
use crate::net::queries;
use crate::net::router::{Sender, bearer};
use crate::net::sign_in::VALID;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use buildpool_protocol::client_link::{JobSummary, Role};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::spec::Reads;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// The token of a request.
#[derive(Serialize, ToSchema)]
pub(super) struct Me {
    /// Name of the token's owner.
    name: String,
    /// Role of the token.
    role: Role,
    /// Whether it reads only its own jobs.
    reads_own: bool,
}

/// A one-time code.
#[derive(Serialize, ToSchema)]
pub(super) struct SignInCode {
    /// The code.
    code: String,
    /// Seconds for which it is valid.
    valid_secs: u64,
}

/// A code to exchange.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// The code.
    code: String,
}

/// The token that a code was made with.
#[derive(Serialize, ToSchema)]
pub(super) struct SignedIn {
    /// The token.
    token: String,
}

/// Returns name and role of the token.
#[utoipa::path(get, operation_id = "get_me", path = "/me", tag = "tokens", responses((status = 200, body = Me), Refused))]
pub(super) async fn me(caller: Caller) -> Json<Me> {
    let principal = &caller.principal;
    Json(Me {
        name: principal.name.clone(),
        role: principal.role,
        reads_own: principal.only.reads == Reads::Own,
    })
}

/// The jobs that wait longest.
#[derive(Serialize, ToSchema)]
pub(super) struct Queue {
    /// In the order of their positions, at most 20.
    jobs: Vec<JobSummary>,
}

/// Lists the jobs that wait longest, with position and estimate.
#[utoipa::path(get, operation_id = "get_queue", path = "/queue", tag = "pool", responses((status = 200, body = Queue), Refused))]
pub(super) async fn queue(caller: Caller) -> Result<Json<Queue>, Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let _turn = caller.shared.request_limits.list(&caller.principal.name).await;
    Ok(Json(Queue { jobs: queries::queue(&caller.shared, &caller.principal).await }))
}

/// Returns figures about the jobs of the last 24 hours.
///
/// They are kept for at least 10 seconds. A token that reads only its own jobs gets figures about these.
#[utoipa::path(get, operation_id = "get_load", path = "/load", tag = "pool", responses((status = 200, body = Load), Refused))]
pub(super) async fn load(caller: Caller) -> Result<Json<Load>, Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let principal = &caller.principal;
    let _turn = caller.shared.request_limits.list(&principal.name).await;
    let own = (principal.only.reads == Reads::Own).then_some(principal.name.as_str());
    Ok(Json(load::load(&caller.shared, own).await?))
}

/// Makes a code that a browser can exchange for this token, once.
#[utoipa::path(post, operation_id = "create_sign_in_code", path = "/sign-in-codes", tag = "tokens",
    responses((status = 201, body = SignInCode), Refused))]
pub(super) async fn create_code(
    caller: Caller,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<SignInCode>), Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let failed = |text: String| LinkError::new(ErrorCode::Internal, text);
    let token = bearer(&headers).ok_or_else(|| failed("the token of the request is gone".to_owned()))?;
    let code = caller.shared.sign_ins.create(token.to_owned(), Instant::now());
    let code = code.map_err(|error| failed(format!("the system gives no random bytes: {error}")))?;
    Ok((StatusCode::CREATED, Json(SignInCode { code, valid_secs: VALID.as_secs() })))
}

/// Exchanges a code for the token that it was made with. The request needs no token.
#[utoipa::path(post, operation_id = "sign_in", path = "/sign-in", tag = "tokens", request_body = SignIn, security(()),
    responses((status = 200, body = SignedIn), Refused))]
pub(super) async fn sign_in(
    State(shared): State<Arc<AppState>>,
    sender: Sender,
    JsonBody(SignIn { code }): JsonBody<SignIn>,
) -> Result<Json<SignedIn>, Problem> {
    match shared.sign_ins.take(&code, Instant::now()) {
        Some(token) => Ok(Json(SignedIn { token })),
        None => {
            shared.metrics.refused.inc();
            let actor = Actor { name: "unknown", peer: Some(sender.peer) };
            shared.note_refused(actor, "a one-time code that is not valid");
            let text = format!(
                "code: it is unknown, was used, or is older than {} s; `buildpool page` makes a new one",
                VALID.as_secs()
            );
            Err(LinkError::new(ErrorCode::Unauthorized, text).into())
        }
    }
}
