//! The handshake that turns a request into a WebSocket (RFC 6455, section 4.2).

use super::WebSocket;
use crate::net::inbound::MessageRoom;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Constant of the standard that the answer to a key is computed with.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a key before its encoding.
const KEY_BYTES: usize = 16;
const VERSION: &str = "13";

/// A valid request for a WebSocket.
pub(crate) struct Upgrade {
    accept: String,
    connection: OnUpgrade,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let refuse = |status: StatusCode, text: &'static str| (status, text).into_response();
        if parts.method != Method::GET {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "a link begins with GET\n"));
        }
        let headers = &parts.headers;
        if !has_token(headers, header::CONNECTION, "upgrade")
            || !has_token(headers, header::UPGRADE, "websocket")
        {
            let text = "this path is for links; connect with the header fields `Connection: upgrade` and `Upgrade: websocket`\n";
            return Err(refuse(StatusCode::BAD_REQUEST, text));
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            let version = [(header::SEC_WEBSOCKET_VERSION, VERSION)];
            let text = "`Sec-WebSocket-Version` must be 13\n";
            return Err((StatusCode::UPGRADE_REQUIRED, version, text).into_response());
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
        if BASE64_STANDARD.decode(key).map_or(true, |key| key.len() != KEY_BYTES) {
            let text = "`Sec-WebSocket-Key` must have 16 bytes in base64\n";
            return Err(refuse(StatusCode::BAD_REQUEST, text));
        }
        let accept = accept(key);
        match parts.extensions.remove::<OnUpgrade>() {
            Some(connection) => Ok(Self { accept, connection }),
            None => {
                Err(refuse(StatusCode::BAD_REQUEST, "a link needs a connection of HTTP/1.1 of its own\n"))
            }
        }
    }
}

impl Upgrade {
    /// Returns the answer, and serves the WebSocket once it is sent. A message of more than `limit` bytes ends the connection.
    pub(crate) fn serve<F>(
        self,
        limit: usize,
        room: MessageRoom,
        serve: impl FnOnce(Box<WebSocket>) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(async move {
            match self.connection.await {
                // Boxed: a future holds each value that is passed to it twice, and the handshake must not hold the
                // memory of a whole link.
                Ok(stream) => {
                    let socket = Box::new(WebSocket::new(TokioIo::new(stream), limit, room));
                    Box::pin(serve(socket)).await;
                }
                Err(error) => tracing::debug!(%error, "a connection ended before it became a link"),
            }
        });
        let fields = [
            (header::CONNECTION, "upgrade"),
            (header::UPGRADE, "websocket"),
            (header::SEC_WEBSOCKET_ACCEPT, self.accept.as_str()),
        ];
        (StatusCode::SWITCHING_PROTOCOLS, fields, Body::empty()).into_response()
    }
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(token))
}

fn accept(key: &[u8]) -> String {
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID.as_bytes()].concat()))
}

#[cfg(test)]
mod tests {
    use super::accept;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_standard() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
