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

/// The part of this coordinator.
type Known = watch::Receiver<Part>;

pub(crate) fn router(part: Known) -> Router {
    Router::new()
        .route(worker_link::PATH, get(worker))
        .route(client_link::PATH, get(client))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "standby\n" }))
        .fallback(http)
        .with_state(part)
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
    limited(upgrade).on_upgrade(move |socket| async move {
        let message = match leader(&part) {
            Ok(url) => ToWorker::Redirect { url },
            Err(error) => ToWorker::Refused { error },
        };
        answer(socket, frame::encode_control(&message)).await;
    })
}

async fn client(State(part): State<Known>, upgrade: WebSocketUpgrade) -> Response {
    limited(upgrade).on_upgrade(move |socket| async move {
        let message = match leader(&part) {
            Ok(url) => ToClient::Redirect { url },
            Err(error) => ToClient::Error { request: None, error },
        };
        answer(socket, frame::encode_control(&message)).await;
    })
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
    let close = (header::CONNECTION, HeaderValue::from_static("close"));
    match leader(&part) {
        Ok(url) => {
            // `ws` corresponds to `http`, and `wss` to `https` (RFC 6455, section 3).
            let base = url.replacen("ws", "http", 1);
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let place = format!("{}{path}", base.trim_end_matches('/'));
            (StatusCode::TEMPORARY_REDIRECT, [close], [(header::LOCATION, place)]).into_response()
        }
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, [close], format!("{}\n", error.message)).into_response()
        }
    }
}
