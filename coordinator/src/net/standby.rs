//! Answers of a standby: it sends links and HTTP requests to the leader. With `proxy = true`, [`forward`] passes them on instead.

use super::CLOSE_REASON_WITHIN;
use super::inbound::MessageRoom;
use super::websocket::{Message, Upgrade, WebSocket};
use crate::leader::{Leadership, Part};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use buildpool_protocol::client_link::{self, ToClient};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame;
use buildpool_protocol::limits::REGISTER_WITHIN;
use buildpool_protocol::worker_link::{self, ToWorker};
use futures_util::SinkExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Reason of a coordinator that is not ready.
pub(super) const SERVER_AWAY: &str = "the PostgreSQL server of `store.url` does not answer";
/// Limit on the message of a peer. A standby reads only `register`.
const REGISTER_BYTES_MAX: usize = 256 << 10;

/// Time that a standby waits for a leader before it answers. A client gives up one of several coordinators a second later.
const LEADER_WITHIN: Duration = Duration::from_secs(3);
/// The same while the PostgreSQL server does not answer: another coordinator may reach it.
const SERVER_WITHIN: Duration = Duration::from_millis(500);

/// The state that the answers depend on.
#[derive(Clone)]
struct Known {
    leadership: Leadership,
    /// One permit for each link that waits for its answer.
    links: Arc<Semaphore>,
}

/// `links_max` limits the links that wait for their answer.
pub(crate) fn router(leadership: Leadership, links_max: usize) -> Router {
    let known = Known { leadership, links: Arc::new(Semaphore::new(links_max)) };
    Router::new()
        .route(worker_link::PATH, get(worker))
        .route(client_link::PATH, get(client))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .fallback(http)
        // The router of the leader must answer the next request.
        .layer(axum::middleware::map_response(closing))
        .with_state(known)
}

async fn closing(mut response: Response) -> Response {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn ready(State(known): State<Known>) -> Response {
    let (status, text) = readiness(&known.leadership);
    (status, format!("{text}\n")).into_response()
}

/// Returns the answer to `/readyz`.
pub(super) fn readiness(leadership: &Leadership) -> (StatusCode, &'static str) {
    match leadership.server_answers() {
        true => (StatusCode::OK, "standby"),
        false => (StatusCode::SERVICE_UNAVAILABLE, SERVER_AWAY),
    }
}

/// Returns the URL of the leader. While the leader is perhaps lost, this waits until it is known to live or another one
/// leads: a peer that dials a lost leader only loses time. When this coordinator leads, the URL is its own.
pub(super) async fn leader(leadership: &Leadership) -> Result<String, LinkError> {
    let mut part = leadership.part();
    let is_known = |part: &Part| match part {
        Part::Standby { leader, is_overdue } => leader.is_some() && !is_overdue,
        Part::Leader | Part::Replaced => true,
    };
    // After the wait, the last known leader is better than no leader.
    drop(tokio::time::timeout(answer_within(leadership), part.wait_for(is_known)).await);
    let part = part.borrow().clone();
    match part {
        Part::Standby { leader: Some(url), .. } => Ok(url),
        Part::Leader => Ok(leadership.url().to_owned()),
        Part::Standby { leader: None, .. } | Part::Replaced => {
            let text = match leadership.server_answers() {
                true => "no coordinator of this pool leads at this moment; try again in a few seconds",
                false => SERVER_AWAY,
            };
            Err(LinkError::new(ErrorCode::Unavailable, text))
        }
    }
}

fn answer_within(leadership: &Leadership) -> Duration {
    if leadership.server_fails() { SERVER_WITHIN } else { LEADER_WITHIN }
}

/// Returns the body of a refusal with status 503: a problem document (RFC 9457), which is a [`LinkError`] too.
pub(super) fn refusal(reason: &str) -> String {
    let problem = serde_json::json!({
        "title": "no leader",
        "status": 503,
        "detail": reason,
        "code": ErrorCode::Unavailable,
        "message": reason,
    });
    problem.to_string()
}

async fn worker(State(known): State<Known>, upgrade: Upgrade) -> Response {
    let Ok(place) = known.links.clone().try_acquire_owned() else { return too_many() };
    upgrade.serve(REGISTER_BYTES_MAX, MessageRoom::default(), move |socket| async move {
        let message = match leader(&known.leadership).await {
            Ok(url) => ToWorker::Redirect { url },
            Err(error) => ToWorker::Refused { error },
        };
        answer(socket, frame::encode_control(&message)).await;
        drop(place);
    })
}

async fn client(State(known): State<Known>, upgrade: Upgrade) -> Response {
    let Ok(place) = known.links.clone().try_acquire_owned() else { return too_many() };
    upgrade.serve(REGISTER_BYTES_MAX, MessageRoom::default(), move |socket| async move {
        let message = match leader(&known.leadership).await {
            Ok(url) => ToClient::Redirect { url },
            Err(error) => ToClient::Error { request: None, error },
        };
        answer(socket, frame::encode_control(&message)).await;
        drop(place);
    })
}

fn too_many() -> Response {
    let text =
        "this standby has reached its limit of connections; try again later, or try another coordinator\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// Sends the answer to `register`, and closes the link.
async fn answer(mut socket: Box<WebSocket>, text: String) {
    // The peer may be gone. It tries another coordinator then.
    let _register = tokio::time::timeout(REGISTER_WITHIN, socket.recv()).await;
    let _gone = tokio::time::timeout(CLOSE_REASON_WITHIN, async {
        socket.send(Message::Text(text)).await?;
        socket.send(Message::Close).await
    })
    .await;
}

async fn http(State(known): State<Known>, uri: Uri) -> Response {
    match leader(&known.leadership).await {
        Ok(url) => {
            // `ws` corresponds to `http`, and `wss` to `https` (RFC 6455, section 3).
            let base = url.replacen("ws", "http", 1);
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let place = format!("{}{path}", base.trim_end_matches('/'));
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response()
        }
        Err(error) => {
            let media = [(header::CONTENT_TYPE, "application/problem+json")];
            (StatusCode::SERVICE_UNAVAILABLE, media, refusal(&error.message)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEADER_WITHIN, SERVER_WITHIN, answer_within};
    use crate::leader::{Candidate, Gate};
    use crate::store::Server;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn after_a_lost_leadership_peers_do_not_wait_for_a_server_that_has_not_answered_yet() {
        // The kernel completes connections to it, and no process answers.
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let url = format!("postgres://pool@127.0.0.1:{port}/pool");
        let server = Server::new(url.parse().expect("a URL")).expect("prepared");
        let lost = Gate { has_ended: Some(Arc::default()), not_before: None };
        for (gate, expected) in [(Gate::default(), LEADER_WITHIN), (lost, SERVER_WITHIN)] {
            let url = "ws://127.0.0.1:1".to_owned();
            let leadership = Candidate::start(&server, url, Duration::from_secs(60), gate).expect("started");
            assert_eq!(answer_within(&leadership), expected);
        }
    }
}
