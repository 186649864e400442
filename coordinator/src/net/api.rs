//! The HTTP API below `/api/v1`, for programs.
//!
//! A handler makes one message of the client link, and [`call`] serves it with the code of the link. Roles, limits and
//! the audit log are therefore the same for both. The OpenAPI document comes from the handlers.

mod artifacts;
mod call;
mod document;
mod events;
mod forms;
mod jobs;
mod lines;
mod logs;
mod new_job;
mod overview;
mod parse_error;
mod pool;
mod problem;
mod quotas;
mod repeated;
mod tests;
mod webhooks;

use super::idle::Serving;
use super::router::{Authenticated, Sender, authenticate};
use crate::app_state::AppState;
use crate::auth::{Actor, Principal};
use crate::net::links::LinkPlace;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::limits::{CONTROL_MESSAGE_BYTES_MAX, JOBS_PAGE_MAX};
use problem::Problem;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Path of all requests.
pub(super) const BASE: &str = "/api/v1";

/// Path of the OpenAPI document, which needs no token.
const DOCUMENT: &str = "/api/v1/openapi.json";

/// Path of the exchange of a code for a token, which needs no token.
const SIGN_IN: &str = "/api/v1/sign-in";

/// Roles that may use the API. The code of the link refuses changes by role `read`.
const CALLERS: [Role; 3] = super::router::READERS;

fn documented() -> OpenApiRouter<Arc<AppState>> {
    let requests = OpenApiRouter::with_openapi(document::Files::openapi())
        // axum names the rest of a path in another way than OpenAPI.
        .route("/jobs/{id}/artifacts/{*path}", get(artifacts::get))
        .routes(routes!(jobs::list, jobs::submit))
        .routes(routes!(jobs::get))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::findings))
        .routes(routes!(jobs::finding))
        .routes(routes!(logs::get))
        .routes(routes!(lines::get))
        .routes(routes!(lines::search))
        .routes(routes!(artifacts::list))
        .routes(routes!(pool::build))
        .routes(routes!(pool::health))
        .routes(routes!(overview::queue))
        .routes(routes!(overview::load))
        .routes(routes!(overview::me))
        .routes(routes!(overview::create_code))
        .routes(routes!(overview::sign_in))
        .routes(routes!(pool::workers))
        .routes(routes!(pool::forget))
        .routes(routes!(pool::drain))
        .routes(routes!(pool::resume))
        .routes(routes!(pool::approve))
        .routes(routes!(pool::tokens, pool::create_token))
        .routes(routes!(pool::revoke_token))
        .routes(routes!(pool::audit))
        .routes(routes!(quotas::list))
        .routes(routes!(tests::list))
        .routes(routes!(events::get))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::delete))
        .routes(routes!(webhooks::dead_letters));
    OpenApiRouter::with_openapi(document::Api::openapi()).nest(BASE, requests)
}

pub(super) fn routes(shared: &Arc<AppState>) -> Router<Arc<AppState>> {
    let (router, _) = documented().split_for_parts();
    router
        .route(DOCUMENT, get(|| async { axum::Json(document::document()) }))
        .route("/api/{*path}", axum::routing::any(unknown))
        .method_not_allowed_fallback(not_allowed)
        .layer(DefaultBodyLimit::max(CONTROL_MESSAGE_BYTES_MAX))
        .layer(from_fn_with_state(shared.clone(), protect))
}

async fn unknown(request: Request) -> Problem {
    let text = format!("{} is not a path of this API; {BASE}/openapi.json lists them", request.uri().path());
    Problem::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, text)
}

async fn not_allowed(request: Request) -> Problem {
    let text = format!(
        "{} is not a method of {}; {BASE}/openapi.json lists the methods",
        request.method(),
        request.uri().path()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::Invalid, text)
}

/// Checks token and origin of each request, and adds the headers of each response.
async fn protect(
    State(shared): State<Arc<AppState>>,
    sender: Sender,
    mut request: Request,
    next: Next,
) -> Response {
    if problem::is_foreign(&request) {
        let text = "the request comes from a page of another origin (an Origin header was sent)";
        let problem = Problem::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, text.to_owned());
        return (problem::PROTECTION, problem).into_response();
    }
    if [DOCUMENT, SIGN_IN].contains(&request.uri().path()) {
        return (problem::PROTECTION, next.run(request).await).into_response();
    }
    match authenticate(&shared, &sender, &CALLERS) {
        Err(error) => (problem::PROTECTION, Problem::from(error)).into_response(),
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            (Extension(Authenticated), problem::PROTECTION, next.run(request).await).into_response()
        }
    }
}

/// The sender of a request. It holds one of the token's connections until the request is answered.
pub(super) struct Caller {
    shared: Arc<AppState>,
    principal: Principal,
    peer: IpAddr,
    _place: LinkPlace,
    _serving: Serving,
}

impl Caller {
    fn actor(&self) -> Actor<'_> {
        Actor { name: &self.principal.name, peer: Some(self.peer) }
    }
}

impl FromRequestParts<Arc<AppState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<AppState>) -> Result<Self, Problem> {
        let unknown = || LinkError::new(ErrorCode::Internal, "the sender of the request is not known");
        let sender = Sender::from_request_parts(parts, shared).await.map_err(|_| unknown())?;
        let principal = parts.extensions.get::<Principal>().cloned().ok_or_else(unknown)?;
        let place = shared.links.admit(&principal.name, sender.peer)?;
        let serving = sender.activity.begin();
        Ok(Self { shared: shared.clone(), principal, peer: sender.peer, _place: place, _serving: serving })
    }
}

/// Refuses a caller without role admin. `objects` is the plural of a noun.
fn require_admin(caller: &Caller, objects: &'static str) -> Result<(), Problem> {
    let Principal { name, role, .. } = &caller.principal;
    if *role == Role::Admin {
        return Ok(());
    }
    let text = format!("the token `{name}` has role {}; {objects} need admin", role.name());
    caller.shared.note_forbidden(caller.actor(), objects, &text);
    Err(LinkError::new(ErrorCode::Forbidden, text).into())
}

/// Query parameters.
pub(super) struct Query<T>(T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<AppState>> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<AppState>) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, shared).await;
        query
            .map(|query| Self(query.0))
            .map_err(|error| Problem::invalid(parse_error::of_query(&parts.uri, &error.body_text())))
    }
}

/// Parts of the path.
pub(super) struct Path<T>(T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<AppState>> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<AppState>) -> Result<Self, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, shared).await;
        path.map(|path| Self(path.0))
            .map_err(|error| Problem::invalid(parse_error::of_path(&parts.uri, &error.body_text())))
    }
}

/// Floats below this limit hold integers exactly.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Time in which a body must arrive. Without a limit, slow senders would keep many of them in memory.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Limit on the body of a request without a token: a one-time code.
const BODY_BYTES_WITHOUT_TOKEN: usize = 1 << 10;

/// A JSON body. A request without a body, or with null, is an empty object.
pub(super) struct JsonBody<T>(T);

fn beyond(limit: usize) -> String {
    format!("body: it is larger than the limit; at most {limit} bytes are valid")
}

impl<T: DeserializeOwned> FromRequest<Arc<AppState>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, shared: &Arc<AppState>) -> Result<Self, Problem> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let is_json = request.headers().get(axum::http::header::CONTENT_TYPE).is_some_and(|value| {
            value
                .to_str()
                .is_ok_and(|text| text.split(';').next().unwrap_or_default().trim() == "application/json")
        });
        let name = request.extensions().get::<Principal>().map(|principal| principal.name.clone());
        // A request without a token has no name to limit, so its body must be short.
        let _permit = match &name {
            Some(name) => Some(shared.request_limits.body(name).await),
            None => {
                DefaultBodyLimit::max(BODY_BYTES_WITHOUT_TOKEN).apply(&mut request);
                None
            }
        };
        let received = axum::body::Bytes::from_request(request, shared);
        let received = tokio::time::timeout(BODY_WITHIN, received).await.map_err(|_| {
            let text = format!("body: it did not arrive within {} s", BODY_WITHIN.as_secs());
            Problem::invalid(text)
        })?;
        let bytes = received.map_err(|error| {
            let status = error.status();
            let text = match (status, &name) {
                (StatusCode::PAYLOAD_TOO_LARGE, Some(_)) => beyond(CONTROL_MESSAGE_BYTES_MAX),
                (StatusCode::PAYLOAD_TOO_LARGE, None) => beyond(BODY_BYTES_WITHOUT_TOKEN),
                _ => format!("body: {}", error.body_text()),
            };
            Problem::new(status, ErrorCode::TooLarge, text)
        })?;
        if bytes.is_empty() {
            return serde_json::from_slice(b"{}").map(Self).map_err(|error| invalid_body(&error));
        }
        if !is_json {
            let text = "content-type: application/json is valid";
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                ErrorCode::Invalid,
                text.to_owned(),
            ));
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| invalid_body(&error))?;
        if value.is_array() {
            // serde would take the members of a list for the fields of the object.
            return Err(Problem::invalid("body: it is a list; a JSON object is valid".to_owned()));
        }
        let value = if value.is_null() { json!({}) } else { with_integers(value) };
        let read = serde_path_to_error::deserialize(&value);
        read.map(Self).map_err(|error| Problem::invalid(parse_error::of_body(&method, &uri, &value, &error)))
    }
}

/// Converts numbers such as `5.0` to integers. To JSON Schema they are integers; to serde they are not.
fn with_integers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < INTEGER_MAX => {
                json!(float as i64)
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(with_integers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, with_integers(member))).collect()
        }
        other => other,
    }
}

/// Checks the maximum length of a list.
fn listed(field: &str, limit: u32) -> Result<u32, Problem> {
    if (1..=JOBS_PAGE_MAX as u32).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::invalid(format!("{field}: {limit}; valid are 1 to {JOBS_PAGE_MAX}")))
}

fn invalid_body(error: &serde_json::Error) -> Problem {
    Problem::invalid(format!("body: {error}"))
}
