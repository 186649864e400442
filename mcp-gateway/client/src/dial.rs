//! Opens one connection: TCP, TLS for `wss` URLs, WebSocket, `register`.

use super::endpoint::Endpoint;
use super::error::{ClientError, Misbehaviour};
use buildpool_dial::{DialError, PoolUrl, Socket, Transport};
use buildpool_protocol::client_link::{FromClient, PATH, Role, ToClient};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::frame::{decode_control, encode_control};
use buildpool_protocol::version::VersionRange;
use buildpool_trust::client_config;
use futures_util::{SinkExt, StreamExt};
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// Maximum time from the first packet to `registered`.
const DIAL_WITHIN: Duration = Duration::from_secs(15);
/// Information about the coordinator, from its registration reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolInfo {
    /// The dialled URL.
    pub url: PoolUrl,
    /// The agreed protocol version.
    pub protocol: u16,
    /// Version of its software.
    pub version: String,
    /// Whether jobs may run in place.
    pub local: bool,
    /// Role of the token.
    pub role: Role,
    /// Whether it takes standard input for jobs.
    pub stdin: bool,
    /// The fingerprint that verified the coordinator. `None` if certificate authorities verified
    /// it, or if the connection is plain.
    pub certificate: Option<[u8; 32]>,
}

/// Opens a connection and registers.
///
/// # Errors
/// The error of the failed step: a token over a plain connection, unreachable, untrusted, not a
/// pool, unauthorized, no common protocol version.
pub(super) async fn dial(endpoint: &Endpoint, client: &str) -> Result<(Socket, PoolInfo), ClientError> {
    endpoint.check()?;
    let late = || unreachable(&endpoint.url, io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    tokio::time::timeout(DIAL_WITHIN, dial_patiently(endpoint, client)).await.unwrap_or_else(|_| Err(late()))
}

async fn dial_patiently(endpoint: &Endpoint, client: &str) -> Result<(Socket, PoolInfo), ClientError> {
    let mut socket = open(endpoint).await?;
    let register = FromClient::Register { protocol: VersionRange::ours(), client: client.to_owned() };
    socket
        .send(Message::text(encode_control(&register)))
        .await
        .map_err(|error| unreachable(&endpoint.url, into_io(error)))?;
    let info = registered(endpoint, &mut socket).await?;
    Ok((socket, info))
}

/// Opens a connection for HTTP requests.
///
/// # Errors
/// As [`dial`], without those of the registration.
pub(super) async fn connect(endpoint: &Endpoint) -> Result<Transport, ClientError> {
    endpoint.check()?;
    let tls = tls(endpoint)?;
    let late = || unreachable(&endpoint.url, io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    let connected = tokio::time::timeout(DIAL_WITHIN, buildpool_dial::connect(&endpoint.url, tls)).await;
    connected.map_err(|_| late())?.map_err(|error| from_dial(endpoint, error))
}

/// Returns the TLS settings for an endpoint, or `None` if its URL is plain.
pub(super) fn tls(endpoint: &Endpoint) -> Result<Option<Arc<ClientConfig>>, ClientError> {
    if !endpoint.url.is_secure() {
        return Ok(None);
    }
    let settings = client_config(&endpoint.trust())
        .map_err(|error| ClientError::Authorities { path: error.path, source: Arc::new(error.source) })?;
    Ok(Some(Arc::new(settings)))
}

async fn open(endpoint: &Endpoint) -> Result<Socket, ClientError> {
    let tls = tls(endpoint)?;
    let authorization = endpoint.token.as_ref().map(|token| {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .expect("a token has visible ASCII characters only");
        value.set_sensitive(true);
        value
    });
    buildpool_dial::open(&endpoint.url, PATH, tls, authorization)
        .await
        .map_err(|error| from_dial(endpoint, error))
}

async fn registered(endpoint: &Endpoint, socket: &mut Socket) -> Result<PoolInfo, ClientError> {
    let url = &endpoint.url;
    loop {
        let message = match socket.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(unreachable(url, into_io(error))),
            None => return Err(unreachable(url, io::ErrorKind::UnexpectedEof.into())),
        };
        let text = match message {
            Message::Text(text) => text,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return Err(unreachable(url, io::ErrorKind::ConnectionAborted.into())),
            Message::Binary(_) | Message::Frame(_) => {
                return Err(ClientError::Misbehaved(Misbehaviour::NoRegistration));
            }
        };
        return match decode_control(&text) {
            Ok(ToClient::Registered { protocol, version, local, role, stdin }) => {
                let certificate = endpoint.fingerprint();
                Ok(PoolInfo { url: url.clone(), protocol, version, local, role, stdin, certificate })
            }
            Ok(ToClient::Error { error, .. }) => Err(match error.code {
                ErrorCode::Unauthorized => unauthorized(endpoint),
                ErrorCode::VersionMismatch => {
                    ClientError::VersionMismatch { url: url.clone(), said: error.message }
                }
                _ => ClientError::Refused(error),
            }),
            Ok(_) | Err(_) => Err(ClientError::Misbehaved(Misbehaviour::NoRegistration)),
        };
    }
}

pub(super) fn from_dial(endpoint: &Endpoint, error: DialError) -> ClientError {
    let url = endpoint.url.clone();
    match error {
        DialError::Io(error) => unreachable(&url, error),
        DialError::Tls(source) | DialError::Name(source) => {
            ClientError::Untrusted { url, source: Arc::new(source) }
        }
        DialError::NoHttp => ClientError::NoHttp { url },
        DialError::Refused { status: StatusCode::UNAUTHORIZED, .. } => unauthorized(endpoint),
        DialError::Refused { status: StatusCode::FORBIDDEN, error: Some(error) } => {
            ClientError::Refused(error)
        }
        DialError::Refused { status, .. } if is_on_its_way(status) => {
            unreachable(&url, io::Error::other(format!("HTTP status {}", status.as_u16())))
        }
        DialError::Refused { status, .. } => ClientError::NotAPool { url, status: Some(status.as_u16()) },
        DialError::WebSocket(error) => match *error {
            WsError::Io(error) => unreachable(&url, error),
            WsError::ConnectionClosed
            | WsError::AlreadyClosed
            | WsError::Protocol(ProtocolError::HandshakeIncomplete) => {
                unreachable(&url, io::ErrorKind::ConnectionAborted.into())
            }
            _ => ClientError::NotAPool { url, status: None },
        },
    }
}

/// Returns true for statuses that a proxy sends while the coordinator restarts.
pub(super) fn is_on_its_way(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    )
}

pub(super) fn unauthorized(endpoint: &Endpoint) -> ClientError {
    ClientError::Unauthorized { url: endpoint.url.clone(), with_token: endpoint.token.is_some() }
}

pub(super) fn unreachable(url: &PoolUrl, source: io::Error) -> ClientError {
    ClientError::Unreachable { url: url.clone(), source: Arc::new(source) }
}

pub(super) fn into_io(error: WsError) -> io::Error {
    match error {
        WsError::Io(error) => error,
        WsError::ConnectionClosed | WsError::AlreadyClosed => io::ErrorKind::ConnectionAborted.into(),
        other => io::Error::other(other),
    }
}
