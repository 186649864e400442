//! The HTTP API of a coordinator: the history of tests, and events. The client link has neither.

use crate::dial::{connect, is_on_its_way, unauthorized, unreachable};
use crate::endpoint::Endpoint;
use crate::error::{ClientError, Misbehaviour};
use buildpool_protocol::error::{ErrorCode, LinkError};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io;

/// Path of all requests.
const BASE: &str = "/api/v1";
/// Limit on an answer in JSON, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Limit on one event of a stream, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// The HTTP API of a coordinator. Each request has its own connection.
#[derive(Clone, Debug)]
pub struct Api {
    endpoint: Endpoint,
}

/// A stored event of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Id; the next request continues after it.
    pub id: u64,
    /// The event as JSON. Empty if the event only moves the place of the reader.
    pub data: String,
}

/// Error of the API (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    code: ErrorCode,
    detail: String,
}

impl Api {
    /// Returns the API of a coordinator. Connects with the first request.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Returns an answer as JSON. `path` follows `/api/v1` and may have a query.
    ///
    /// # Errors
    /// [`ClientError`] of the connection, or [`ClientError::Refused`] by the coordinator.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let answer = self.send(path, "application/json", None).await?;
        let body = self.body(answer).await?;
        serde_json::from_slice(&body).map_err(|_| ClientError::Misbehaved(Misbehaviour::NoJson))
    }

    /// Follows the events after this one; 0 begins with the oldest stored event, and `None` with the next new one.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn events(&self, after: Option<u64>) -> Result<Events, ClientError> {
        let path = after.map_or("/events".to_owned(), |after| format!("/events?after={after}"));
        let answer = self.send(&path, "text/event-stream", after).await?;
        Ok(Events { body: answer.into_body(), pending: Vec::new(), api: self.clone() })
    }

    async fn send(
        &self,
        path: &str,
        accept: &str,
        last_event: Option<u64>,
    ) -> Result<Response<Incoming>, ClientError> {
        let url = &self.endpoint.url;
        let stream = TokioIo::new(connect(&self.endpoint).await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(|error| self.broken(error))?;
        // The connection ends with its answer.
        tokio::spawn(connection);
        let host = if url.host().contains(':') { format!("[{}]", url.host()) } else { url.host().to_owned() };
        let mut request = Request::get(url.path(&format!("{BASE}{path}")))
            .header(HOST, format!("{host}:{}", url.port()))
            .header(ACCEPT, accept);
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        if let Some(token) = &self.endpoint.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other);
        let request = request.map_err(|error| unreachable(url, error))?;
        let answer = sender.send_request(request).await.map_err(|error| self.broken(error))?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            StatusCode::UNAUTHORIZED => Err(unauthorized(&self.endpoint)),
            status => {
                let problem = self.body(answer).await?;
                let problem = serde_json::from_slice::<Problem>(&problem);
                Err(problem.map_or_else(
                    |_| self.refused(status),
                    |problem| ClientError::Refused(LinkError::new(problem.code, problem.detail)),
                ))
            }
        }
    }

    /// Returns the error for a status without a problem of the coordinator.
    fn refused(&self, status: StatusCode) -> ClientError {
        let url = self.endpoint.url.clone();
        if is_on_its_way(status) {
            return unreachable(&url, io::Error::other(format!("HTTP status {}", status.as_u16())));
        }
        ClientError::NotAPool { url, status: Some(status.as_u16()) }
    }

    async fn body(&self, answer: Response<Incoming>) -> Result<Bytes, ClientError> {
        let limited = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let body = limited
            .collect()
            .await
            .map_err(|error| unreachable(&self.endpoint.url, io::Error::other(error)))?;
        Ok(body.to_bytes())
    }

    fn broken(&self, error: hyper::Error) -> ClientError {
        unreachable(&self.endpoint.url, io::Error::other(error))
    }
}

/// A stream of events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    /// Bytes of an incomplete event.
    pending: Vec<u8>,
    api: Api,
}

impl Events {
    /// Returns the next event, or `None` if the coordinator ended the stream.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the connection broke.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            // An empty line ends an event.
            if let Some(end) = self.pending.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.pending.drain(..end + 2).collect();
                if let Some(event) = parse(&String::from_utf8_lossy(&text)) {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.pending.len() > EVENT_BYTES_MAX {
                return Err(ClientError::Misbehaved(Misbehaviour::NoJson));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.api.broken(error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Parses one event. Comments keep a connection open and are `None`.
fn parse(text: &str) -> Option<Event> {
    let field = |name: &str| {
        let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let values: Vec<&str> = values.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    Some(Event { id: field("id")?.parse().ok()?, data: field("data").unwrap_or_default() })
}

/// Encodes a value of a query (RFC 3986, section 2.1).
pub fn query_value(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::{Event, parse, query_value};

    #[test]
    fn a_project_is_encoded_for_a_query() {
        assert_eq!(query_value("github.com/acme/ä b&c"), "github.com%2Facme%2F%C3%A4%20b%26c");
    }

    #[test]
    fn an_event_has_an_id_and_data_and_a_comment_has_none() {
        let event = |id, data: &str| Some(Event { id, data: data.to_owned() });
        assert_eq!(parse("id: 7\nevent: job_state\ndata: {\ndata: }\n\n"), event(7, "{\n}"));
        assert_eq!(parse("id:7\n\n"), event(7, ""));
        assert_eq!(parse(":\n\n"), None);
        assert_eq!(parse("data: x\n\n"), None, "the reader could not continue after it");
    }
}
