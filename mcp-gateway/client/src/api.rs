//! The HTTP API of a coordinator, for the parts that the client link does not have: the history of tests, events, and codes that
//! sign a browser in.

use crate::dial::{Failed, connect, is_on_its_way, on_leader, unauthorized, unreachable};
use crate::endpoint::Endpoint;
use crate::error::{ClientError, Misbehaviour};
use buildpool_dial::PoolUrl;
use buildpool_protocol::error::{ErrorCode, LinkError};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HOST, LOCATION};
use hyper::{Method, Request, Response, StatusCode};
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

/// The HTTP API of a pool. Each request has its own connection to the coordinator that leads.
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
        self.json(&ApiRequest { method: Method::GET, path, accept: "application/json", last_event: None })
            .await
    }

    /// Returns a code that a browser can exchange for the endpoint's token, once and within a minute.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn sign_in_code(&self) -> Result<String, ClientError> {
        let request = ApiRequest {
            method: Method::POST,
            path: "/sign-in-codes",
            accept: "application/json",
            last_event: None,
        };
        Ok(self.json::<SignInCode>(&request).await?.code)
    }

    /// Follows the events after this one; 0 begins with the oldest stored event, and `None` with the next new one.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn events(&self, after: Option<u64>) -> Result<Events, ClientError> {
        let path = after.map_or("/events".to_owned(), |after| format!("/events?after={after}"));
        let request =
            ApiRequest { method: Method::GET, path: &path, accept: "text/event-stream", last_event: after };
        let answer = self.send(&request).await?;
        Ok(Events { body: answer.into_body(), pending: Vec::new(), api: self.clone() })
    }

    async fn json<T: DeserializeOwned>(&self, request: &ApiRequest<'_>) -> Result<T, ClientError> {
        let answer = self.send(request).await?;
        let body = body(&self.endpoint, answer).await?;
        serde_json::from_slice(&body).map_err(|_| ClientError::Misbehaved(Misbehaviour::NoJson))
    }

    async fn send(&self, request: &ApiRequest<'_>) -> Result<Response<Incoming>, ClientError> {
        on_leader(&self.endpoint, move |here| ask(here, request)).await
    }
}

/// One request. `path` follows [`BASE`].
struct ApiRequest<'a> {
    method: Method,
    path: &'a str,
    accept: &'static str,
    last_event: Option<u64>,
}

/// Answer to the request for a code.
#[derive(Deserialize)]
struct SignInCode {
    code: String,
}

/// Sends a request to one coordinator, and returns its successful answer.
async fn ask(endpoint: Endpoint, wanted: &ApiRequest<'_>) -> Result<Response<Incoming>, Failed> {
    let url = &endpoint.url;
    let stream = TokioIo::new(connect(&endpoint).await?);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|error| broken(url, error))?;
    // The connection ends with its answer.
    tokio::spawn(connection);
    let host = if url.host().contains(':') { format!("[{}]", url.host()) } else { url.host().to_owned() };
    let path = format!("{BASE}{}", wanted.path);
    let mut request = Request::builder()
        .method(&wanted.method)
        .uri(url.path(&path))
        .header(HOST, format!("{host}:{}", url.port()))
        .header(ACCEPT, wanted.accept);
    if wanted.method == Method::POST {
        request = request.header(CONTENT_LENGTH, "0");
    }
    if let Some(id) = wanted.last_event {
        request = request.header("last-event-id", id);
    }
    if let Some(token) = &endpoint.token {
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other);
    let request = request.map_err(|error| unreachable(url, error))?;
    let answer = sender.send_request(request).await.map_err(|error| broken(url, error))?;
    match answer.status() {
        status if status.is_success() => Ok(answer),
        StatusCode::TEMPORARY_REDIRECT => {
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let leader = location.and_then(|location| leader_of(location, &path));
            Err(leader.map_or_else(|| refused(url, answer.status()).into(), Failed::Redirect))
        }
        StatusCode::UNAUTHORIZED => Err(unauthorized(&endpoint).into()),
        status => {
            let problem = body(&endpoint, answer).await?;
            let problem = serde_json::from_slice::<Problem>(&problem);
            Err(Failed::Error(problem.map_or_else(
                |_| refused(url, status),
                |problem| ClientError::Refused(LinkError::new(problem.code, problem.detail)),
            )))
        }
    }
}

/// Returns the leader that a standby names for a request with this path.
fn leader_of(location: &str, path: &str) -> Option<PoolUrl> {
    let (scheme, rest) = location.strip_suffix(path)?.split_once("://")?;
    let scheme = match scheme {
        "https" => "wss",
        "http" => "ws",
        _ => return None,
    };
    format!("{scheme}://{rest}").parse().ok()
}

/// Returns the error for a status without a problem of the coordinator.
fn refused(url: &PoolUrl, status: StatusCode) -> ClientError {
    if is_on_its_way(status) {
        return unreachable(url, io::Error::other(format!("HTTP status {}", status.as_u16())));
    }
    ClientError::NotAPool { url: url.clone(), status: Some(status.as_u16()) }
}

async fn body(endpoint: &Endpoint, answer: Response<Incoming>) -> Result<Bytes, ClientError> {
    let limited = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
    let body =
        limited.collect().await.map_err(|error| unreachable(&endpoint.url, io::Error::other(error)))?;
    Ok(body.to_bytes())
}

fn broken(url: &PoolUrl, error: hyper::Error) -> ClientError {
    unreachable(url, io::Error::other(error))
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
                Some(Err(error)) => return Err(broken(&self.api.endpoint.url, error)),
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
    use super::{Event, leader_of, parse, query_value};

    #[test]
    fn a_project_is_encoded_for_a_query() {
        assert_eq!(query_value("github.com/acme/ä b&c"), "github.com%2Facme%2F%C3%A4%20b%26c");
    }

    #[test]
    fn a_standby_names_the_leader_in_the_address_of_the_same_request() {
        let leader = |location: &str| leader_of(location, "/api/v1/tests?slow").map(|url| url.to_string());
        assert_eq!(
            leader("https://b.example:7420/api/v1/tests?slow").as_deref(),
            Some("wss://b.example:7420")
        );
        assert_eq!(leader("http://[::1]:1/pool/api/v1/tests?slow").as_deref(), Some("ws://[::1]:1/pool"));
        for other in ["https://b.example/api/v1/jobs", "ftp://b/api/v1/tests?slow", "/api/v1/tests?slow"] {
            assert_eq!(leader(other), None, "{other}");
        }
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
