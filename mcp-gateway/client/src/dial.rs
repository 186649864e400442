//! Opens one connection: TCP, TLS for `wss` URLs, WebSocket, `register`.

use super::endpoint::{Endpoint, PoolUrl};
use super::error::{ClientError, Misbehaviour};
use buildpool_protocol::client_link::{FromClient, PATH, Role, ToClient};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame::{decode_control, encode_control};
use buildpool_protocol::limits::{BINARY_FRAME_BYTES_MAX, CONTROL_MESSAGE_BYTES_MAX};
use buildpool_protocol::version::VersionRange;
use buildpool_trust::client_config;
use futures_util::{SinkExt, StreamExt};
use rustls_pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// Maximum time from the first packet to `registered`.
const DIAL_WITHIN: Duration = Duration::from_secs(15);
/// Size of the read buffer. A larger frame gets its own buffer.
const READ_BUFFER_BYTES: usize = 16 << 10;

pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

pub(super) type Socket = WebSocketStream<Box<dyn Transport>>;

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
    let transport = open(endpoint).await?;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(CONTROL_MESSAGE_BYTES_MAX))
        .max_frame_size(Some(CONTROL_MESSAGE_BYTES_MAX.max(BINARY_FRAME_BYTES_MAX)));
    let (mut socket, _) =
        tokio_tungstenite::client_async_with_config(request(endpoint)?, transport, Some(config))
            .await
            .map_err(|error| of_handshake(endpoint, error))?;
    let register = FromClient::Register { protocol: VersionRange::ours(), client: client.to_owned() };
    socket
        .send(Message::text(encode_control(&register)))
        .await
        .map_err(|error| unreachable(&endpoint.url, into_io(error)))?;
    let info = registered(endpoint, &mut socket).await?;
    Ok((socket, info))
}

async fn open(endpoint: &Endpoint) -> Result<Box<dyn Transport>, ClientError> {
    let url = &endpoint.url;
    let stream =
        TcpStream::connect((url.host(), url.port())).await.map_err(|error| unreachable(url, error))?;
    stream.set_nodelay(true).map_err(|error| unreachable(url, error))?;
    if !url.is_secure() {
        return Ok(Box::new(stream));
    }
    let settings = client_config(&endpoint.trust())
        .map_err(|error| ClientError::Authorities { path: error.path, source: Arc::new(error.source) })?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(settings));
    let untrusted = |source| ClientError::Untrusted { url: url.clone(), source: Arc::new(source) };
    let name = ServerName::try_from(url.host().to_owned())
        .map_err(|error| untrusted(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let stream = connector.connect(name, stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => untrusted(error),
        _ => unreachable(url, error),
    })?;
    Ok(Box::new(stream))
}

fn request(endpoint: &Endpoint) -> Result<Request, ClientError> {
    let not_a_pool = |_| ClientError::NotAPool { url: endpoint.url.clone(), status: None };
    let mut request = endpoint.url.of_path(PATH).into_client_request().map_err(not_a_pool)?;
    if let Some(token) = &endpoint.token {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .expect("a token has visible ASCII characters only");
        value.set_sensitive(true);
        request.headers_mut().insert("authorization", value);
    }
    Ok(request)
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

fn of_handshake(endpoint: &Endpoint, error: WsError) -> ClientError {
    let url = endpoint.url.clone();
    match error {
        WsError::Http(response) => match response.status() {
            StatusCode::UNAUTHORIZED => unauthorized(endpoint),
            StatusCode::FORBIDDEN => match said(response.body().as_deref()) {
                Some(error) => ClientError::Refused(error),
                None => ClientError::NotAPool { url, status: Some(403) },
            },
            status if is_on_its_way(status) => {
                unreachable(&url, io::Error::other(format!("HTTP status {}", status.as_u16())))
            }
            status => ClientError::NotAPool { url, status: Some(status.as_u16()) },
        },
        WsError::Io(error) => unreachable(&url, error),
        WsError::ConnectionClosed
        | WsError::AlreadyClosed
        | WsError::Protocol(ProtocolError::HandshakeIncomplete) => {
            unreachable(&url, io::ErrorKind::ConnectionAborted.into())
        }
        // A TLS server answers plain HTTP with an alert (RFC 8446, section 6).
        WsError::Protocol(ProtocolError::HttparseError(_)) if !url.is_secure() => ClientError::NoHttp { url },
        WsError::Tls(_)
        | WsError::Capacity(_)
        | WsError::Protocol(_)
        | WsError::WriteBufferFull(_)
        | WsError::Utf8(_)
        | WsError::AttackAttempt
        | WsError::Url(_)
        | WsError::HttpFormat(_) => ClientError::NotAPool { url, status: None },
    }
}

/// Parses the coordinator's error in the body of an HTTP response.
fn said(body: Option<&[u8]>) -> Option<LinkError> {
    decode_control(std::str::from_utf8(body?).ok()?).ok()
}

/// Returns true for statuses that a proxy sends while the coordinator restarts.
fn is_on_its_way(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    )
}

fn unauthorized(endpoint: &Endpoint) -> ClientError {
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
