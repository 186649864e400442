//! Answers of a standby: it sends links and HTTP requests to the leader.

use super::LAST_WORD_WITHIN;
use super::router::limited;
use crate::leader::Part;
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use buildpool_protocol::client_link::{self, ToClient};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame;
use buildpool_protocol::limits::REGISTER_WITHIN;
use buildpool_protocol::worker_link::{self, ToWorker};
use tokio::sync::watch;

/// Limit on the message of a peer. A standby reads none but `register`.
const REGISTER_BYTES_MAX: usize = 256 << 10;

/// The part of this coordinator.
type Known = watch::Receiver<Part>;

pub(crate) fn router(part: Known) -> Router {
    Router::new()
        .route(worker_link::PATH, get(worker))
        .route(client_link::PATH, get(client))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "standby\n" }))
        .fallback(http)
        // The router of the leader must answer the next request.
        .layer(axum::middleware::map_response(closing))
        .with_state(part)
}

async fn closing(mut response: Response) -> Response {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn leader(part: &Known) -> Result<String, LinkError> {
    match &*part.borrow() {
        Part::Standby { leader: Some(url) } => Ok(url.clone()),
        Part::Standby { leader: None } | Part::Leader | Part::Replaced => {
            let text = "no coordinator of this pool leads at this moment; try again in a few seconds";
            Err(LinkError::new(ErrorCode::Unavailable, text))
        }
    }
}

async fn worker(State(part): State<Known>, upgrade: WebSocketUpgrade) -> Response {
    limited(upgrade).max_message_size(REGISTER_BYTES_MAX).max_frame_size(REGISTER_BYTES_MAX).on_upgrade(
        move |socket| async move {
            let message = match leader(&part) {
                Ok(url) => ToWorker::Redirect { url },
                Err(error) => ToWorker::Refused { error },
            };
            answer(socket, frame::encode_control(&message)).await;
        },
    )
}

async fn client(State(part): State<Known>, upgrade: WebSocketUpgrade) -> Response {
    limited(upgrade).max_message_size(REGISTER_BYTES_MAX).max_frame_size(REGISTER_BYTES_MAX).on_upgrade(
        move |socket| async move {
            let message = match leader(&part) {
                Ok(url) => ToClient::Redirect { url },
                Err(error) => ToClient::Error { request: None, error },
            };
            answer(socket, frame::encode_control(&message)).await;
        },
    )
}

/// Sends the answer to `register`, and closes the link.
async fn answer(mut socket: WebSocket, text: String) {
    // The peer may be gone. It tries another coordinator then.
    let _register = tokio::time::timeout(REGISTER_WITHIN, socket.recv()).await;
    let _gone = tokio::time::timeout(LAST_WORD_WITHIN, async {
        socket.send(Message::Text(text.into())).await?;
        socket.send(Message::Close(None)).await
    })
    .await;
}

async fn http(State(part): State<Known>, uri: Uri) -> Response {
    match leader(&part) {
        Ok(url) => {
            // `ws` corresponds to `http`, and `wss` to `https` (RFC 6455, section 3).
            let base = url.replacen("ws", "http", 1);
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let place = format!("{}{path}", base.trim_end_matches('/'));
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message)).into_response(),
    }
}
