//! HTTP paths and the roles that may use them.

use super::idle::RequestCount;
use super::inbound::{MESSAGE_BYTES_MAX, MessageRoom};
use super::links::LinkPlace;
use super::listen::Listener;
use super::websocket::Upgrade;
use super::{api, client_socket, page, standby, worker_conn};
use crate::app_state::{AppState, internal};
use crate::auth::{Actor, AuthError, Principal};
use crate::metrics;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::IncomingStream;
use axum::{Extension, Router};
use buildpool_protocol::client_link::{self, Role};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::{frame, worker_link};
use std::net::IpAddr;
use std::sync::Arc;

/// Roles that may read the pool. The connection refuses requests of role `read` that change
/// something.
pub(super) const READERS: [Role; 3] = [Role::Submit, Role::Read, Role::Admin];

/// Address that a connection comes from. Behind a proxy, it is the proxy's.
#[derive(Clone, Debug)]
pub(crate) struct PeerAddress {
    ip: IpAddr,
    activity: Arc<RequestCount>,
}

impl Connected<IncomingStream<'_, Listener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        let remote = stream.remote_addr();
        Self { ip: remote.address.ip().to_canonical(), activity: remote.activity.clone() }
    }
}

/// The sender of a request: its headers and its address.
pub(super) struct Sender {
    headers: HeaderMap,
    pub(super) peer: IpAddr,
    /// Requests with a valid token on the connection.
    pub(super) activity: Arc<RequestCount>,
}

impl<S: Send + Sync> FromRequestParts<S> for Sender {
    type Rejection = <ConnectInfo<PeerAddress> as FromRequestParts<S>>::Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let ConnectInfo(PeerAddress { ip, activity }) = ConnectInfo::from_request_parts(parts, state).await?;
        Ok(Self { headers: parts.headers.clone(), peer: ip, activity })
    }
}

pub(crate) fn router(shared: Arc<AppState>) -> Router {
    Router::new()
        .route(worker_link::PATH, get(worker))
        .route(client_link::PATH, get(client))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .merge(page::routes())
        .merge(api::routes(&shared))
        .layer(from_fn(refuse_browsers))
        .layer(from_fn(close_without_token))
        .with_state(shared)
}

/// Refuses links from web pages, which send an `Origin` header. Otherwise a page in a browser could
/// reach a pool on this machine. The pool's own page sends no `Origin`, because a browser
/// omits it in a same-origin GET (Fetch standard, section 3.2).
async fn refuse_browsers(request: Request, next: Next) -> Response {
    let is_link = request.uri().path().starts_with("/v1/");
    if is_link && request.headers().contains_key(header::ORIGIN) {
        let text = "links are not for browsers (an Origin header was sent)";
        return refuse(&LinkError::new(ErrorCode::Forbidden, text));
    }
    next.run(request).await
}

/// Marks the response to a request with a valid token.
#[derive(Clone, Copy)]
pub(super) struct Authenticated;

/// Closes the connection after a response to a request without a valid token. A token that the path
/// does not need is not checked, so it keeps no connection open.
async fn close_without_token(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let is_authenticated = response.extensions().get::<Authenticated>().is_some();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS && !is_authenticated {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn ready(State(shared): State<Arc<AppState>>) -> Response {
    if shared.leadership.as_ref().is_some_and(|leadership| !leadership.server_answers()) {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", standby::SERVER_AWAY)).into_response();
    }
    match shared.refuses_jobs() {
        None => "ready\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", why.message)).into_response(),
    }
}

/// Serves metrics. They reveal the use of the pool, so they need a token unless the configuration
/// sets `open_metrics`.
async fn metrics(State(shared): State<Arc<AppState>>, sender: Sender) -> Response {
    let content_type = [(header::CONTENT_TYPE, metrics::MEDIA_TYPE)];
    if shared.config.open_metrics {
        return (content_type, shared.metrics.text(&shared).await).into_response();
    }
    match authenticate(&shared, &sender, &READERS) {
        Ok(_) => {
            let text = shared.metrics.text(&shared).await;
            (Extension(Authenticated), content_type, text).into_response()
        }
        Err(error) => refuse(&error),
    }
}

async fn worker(State(shared): State<Arc<AppState>>, sender: Sender, upgrade: Upgrade) -> Response {
    let (principal, place, room) = match admit_link(&shared, &sender, &[Role::Worker, Role::Admin]) {
        Ok(admitted) => admitted,
        Err(error) => return refuse(&error),
    };
    upgrade.serve(MESSAGE_BYTES_MAX, room, move |socket| async move {
        worker_conn::serve(socket, shared, principal).await;
        drop(place);
    })
}

async fn client(State(shared): State<Arc<AppState>>, sender: Sender, upgrade: Upgrade) -> Response {
    let (principal, place, room) = match admit_link(&shared, &sender, &READERS) {
        Ok(admitted) => admitted,
        Err(error) => return refuse(&error),
    };
    let peer = sender.peer;
    upgrade.serve(MESSAGE_BYTES_MAX, room, move |socket| async move {
        client_socket::serve(socket, shared, principal, peer).await;
        drop(place);
    })
}

/// Checks the token and the limits of a connection that becomes a link. Returns its room for messages too.
fn admit_link(
    shared: &AppState,
    sender: &Sender,
    roles: &[Role],
) -> Result<(Principal, LinkPlace, MessageRoom), LinkError> {
    let principal = authenticate(shared, sender, roles)?;
    let place = shared.links.admit(&principal.name, sender.peer)?;
    let room = shared.inbound_bytes.of(&principal.name);
    Ok((principal, place, room))
}

/// Returns the token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::trim)
}

/// Returns the principal of a request's token.
///
/// # Errors
/// `unauthorized` without a valid token, `forbidden` for a token of another role.
pub(super) fn authenticate(
    shared: &AppState,
    Sender { headers, peer, .. }: &Sender,
    roles: &[Role],
) -> Result<Principal, LinkError> {
    let bearer = bearer(headers);
    let refused = |actor: &str, why: &str| {
        shared.metrics.refused.inc();
        shared.note_refused(Actor { name: actor, peer: Some(*peer) }, why);
    };
    let Some(bearer) = bearer else {
        refused("nobody", "no token");
        let text = "no token was given; make one with `buildpool token create` on the coordinator's machine and pass it by --token or BUILDPOOL_TOKEN";
        return Err(LinkError::new(ErrorCode::Unauthorized, text));
    };
    let principal = shared.tokens.verify(bearer).map_err(|error| match error {
        // It is not known whether the token is valid, so its holder must try again.
        AuthError::Store(error) => internal(error),
        error => {
            refused("unknown", &error.to_string());
            LinkError::new(ErrorCode::Unauthorized, error.to_string())
        }
    })?;
    if !roles.contains(&principal.role) {
        refused(&principal.name, "its role does not allow it");
        let wanted: Vec<_> = roles.iter().map(|role| role.name()).collect();
        let text = format!(
            "the token `{}` has role {}; this needs {}",
            principal.name,
            principal.role.name(),
            wanted.join(" or ")
        );
        return Err(LinkError::new(ErrorCode::Forbidden, text));
    }
    shared.note_use(&principal, *peer);
    Ok(principal)
}

pub(super) fn refuse(error: &LinkError) -> Response {
    let body = frame::encode_control(error);
    (status(error.code), [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Returns the HTTP status of an error (RFC 9110).
pub(super) const fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::UnknownJob | ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::Evicted => StatusCode::GONE,
        ErrorCode::Conflict | ErrorCode::Ambiguous => StatusCode::CONFLICT,
        ErrorCode::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::VersionMismatch
        | ErrorCode::Malformed
        | ErrorCode::TooLarge
        | ErrorCode::Invalid
        | ErrorCode::Unsatisfiable => StatusCode::BAD_REQUEST,
    }
}
