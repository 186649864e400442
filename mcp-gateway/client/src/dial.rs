//! Opens one connection: TCP, TLS for `wss` URLs, WebSocket, `register`.

use super::endpoint::Endpoint;
use super::error::{ClientError, Misbehaviour};
use super::link::{is_final, random};
use buildpool_dial::{Backoff, DialError, Peers, PoolUrl, Route, Socket, Transport, pause_for};
use buildpool_protocol::client_link::{FromClient, PATH, Role, ToClient};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::frame::{decode_control, encode_control};
use buildpool_protocol::version::VersionRange;
use buildpool_trust::client_config;
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt, StreamExt};
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// Maximum time from the first packet to `registered`.
const DIAL_WITHIN: Duration = Duration::from_secs(15);
/// First and longest pause between attempts to reach one of several coordinators.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));
/// Maximum time for one of several coordinators.
const DIAL_ONE_WITHIN: Duration = Duration::from_secs(4);

/// Time after which the next coordinator is dialled too. A stopped or lost machine does not refuse a connection.
const NEXT_AFTER: Duration = Duration::from_secs(1);

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

/// Opens a connection to the leader of the coordinators, and registers. While one coordinator does not answer, the next
/// one is dialled too.
///
/// # Errors
/// The error of the failed step: a token over a plain connection, unreachable, untrusted, not a
/// pool, unauthorized, no common protocol version.
pub(super) async fn dial(endpoint: &Endpoint, client: &str) -> Result<(Socket, PoolInfo), ClientError> {
    endpoint.check()?;
    let count = endpoint.url.coordinators().count();
    let mut attempts: FuturesUnordered<_> = (0..count)
        .map(|first| async move {
            pause_for(NEXT_AFTER * u32::try_from(first).unwrap_or(u32::MAX)).await;
            let route = Route::beginning_at(&endpoint.url, first);
            on_leader_of(endpoint, route, move |here| dial_one(here, client)).await
        })
        .collect();
    let mut known = ClientError::Closed;
    while let Some(dialled) = attempts.next().await {
        match dialled {
            Err(error) if !is_final(&error) => known = error,
            decided => return decided,
        }
    }
    Err(known)
}

/// Sends a request to one coordinator of the endpoint after another, until the leader answers.
///
/// # Errors
/// The error of the failed step, as of [`dial`].
pub(super) async fn on_leader<T, F: Future<Output = Result<T, Failed>>>(
    endpoint: &Endpoint,
    ask: impl Fn(Endpoint) -> F,
) -> Result<T, ClientError> {
    endpoint.check()?;
    on_leader_of(endpoint, Route::new(&endpoint.url), ask).await
}

async fn on_leader_of<T, F: Future<Output = Result<T, Failed>>>(
    endpoint: &Endpoint,
    mut route: Route,
    ask: impl Fn(Endpoint) -> F,
) -> Result<T, ClientError> {
    let within = if route.has_several() { DIAL_ONE_WITHIN } else { DIAL_WITHIN };
    let (since, mut backoff) = (Instant::now(), Backoff::new(PAUSES.0, PAUSES.1));
    let mut known: Option<ClientError> = None;
    loop {
        let here = Endpoint { url: route.current().clone(), ..endpoint.clone() };
        // A standby can name a coordinator that the token must not be sent to.
        here.check()?;
        let late = || unreachable(&here.url, io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        let answered = tokio::time::timeout(within, ask(here.clone())).await;
        let error = match answered.unwrap_or_else(|_| Err(Failed::Error(late()))) {
            Ok(answer) => return Ok(answer),
            Err(Failed::Redirect(leader)) if route.redirect(leader.clone()) => continue,
            Err(Failed::Redirect(leader)) => {
                unreachable(&leader, io::Error::other("the coordinators name no leader that can be dialled"))
            }
            Err(Failed::Error(error)) => error,
        };
        // An error in an answer is more useful than the error that another coordinator is unreachable.
        if known.is_none() || !matches!(error, ClientError::Unreachable { .. }) {
            known = Some(error);
        }
        if route.failed() {
            let error = known.take().unwrap_or(ClientError::Closed);
            // Several coordinators need a few seconds until one of them leads in place of a lost one.
            if !route.has_several() || is_final(&error) || since.elapsed() > DIAL_WITHIN {
                return Err(error);
            }
            tokio::time::sleep(backoff.pause(random())).await;
        }
    }
}

/// Reason why one coordinator was not used.
pub(super) enum Failed {
    /// It is a standby. The leader has this URL.
    Redirect(PoolUrl),
    Error(ClientError),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::Error(error)
    }
}

async fn dial_one(endpoint: Endpoint, client: &str) -> Result<(Socket, PoolInfo), Failed> {
    let mut socket = open(&endpoint).await?;
    let register = FromClient::Register { protocol: VersionRange::ours(), client: client.to_owned() };
    socket
        .send(Message::text(encode_control(&register)))
        .await
        .map_err(|error| unreachable(&endpoint.url, into_io(error)))?;
    let info = registered(&endpoint, &mut socket).await?;
    Ok((socket, info))
}

/// Opens a connection for HTTP requests. The coordinator's certificate is verified; no token is sent.
///
/// # Errors
/// It can't be reached, or its certificate is not trusted.
pub async fn connect(endpoint: &Endpoint) -> Result<Transport, ClientError> {
    let tls = tls(endpoint)?;
    let late = || unreachable(&endpoint.url, io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    let connected = tokio::time::timeout(DIAL_WITHIN, buildpool_dial::connect(&endpoint.url, tls)).await;
    connected.map_err(|_| late())?.map_err(|error| from_dial(endpoint, error))
}

/// Returns the coordinators of the endpoint's pool, for a link to this one. `None` if the certificates of the authorities can't be
/// read any more, or if there is only one coordinator.
pub(super) fn peers(endpoint: &Endpoint, current: &PoolUrl) -> Option<Peers> {
    let peers = Peers::new(&endpoint.url, current, tls(endpoint).ok()?);
    peers.has_others().then_some(peers)
}

/// Returns the TLS settings for an endpoint, or `None` if its URL is plain.
fn tls(endpoint: &Endpoint) -> Result<Option<Arc<ClientConfig>>, ClientError> {
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

async fn registered(endpoint: &Endpoint, socket: &mut Socket) -> Result<PoolInfo, Failed> {
    let url = &endpoint.url;
    loop {
        let message = match socket.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(unreachable(url, into_io(error)).into()),
            None => return Err(unreachable(url, io::ErrorKind::UnexpectedEof.into()).into()),
        };
        let text = match message {
            Message::Text(text) => text,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return Err(unreachable(url, io::ErrorKind::ConnectionAborted.into()).into()),
            Message::Binary(_) | Message::Frame(_) => {
                return Err(ClientError::Misbehaved(Misbehaviour::NoRegistration).into());
            }
        };
        return match decode_control(&text) {
            Ok(ToClient::Registered { protocol, version, local, role, stdin }) => {
                let certificate = endpoint.fingerprint();
                Ok(PoolInfo { url: url.clone(), protocol, version, local, role, stdin, certificate })
            }
            Ok(ToClient::Redirect { url }) => match url.parse() {
                Ok(leader) => Err(Failed::Redirect(leader)),
                Err(_) => Err(ClientError::Misbehaved(Misbehaviour::NoRegistration).into()),
            },
            Ok(ToClient::Error { error, .. }) => Err(Failed::Error(match error.code {
                ErrorCode::Unauthorized => unauthorized(endpoint),
                ErrorCode::VersionMismatch => {
                    ClientError::VersionMismatch { url: url.clone(), said: error.message }
                }
                _ => ClientError::Refused(error),
            })),
            Ok(_) | Err(_) => Err(ClientError::Misbehaved(Misbehaviour::NoRegistration).into()),
        };
    }
}

fn from_dial(endpoint: &Endpoint, error: DialError) -> ClientError {
    let url = endpoint.url.clone();
    match error {
        DialError::Io(error) => unreachable(&url, error),
        DialError::Tls(source) | DialError::Name(source) => {
            ClientError::Untrusted { url, cause: Arc::new(source) }
        }
        DialError::NoHttp => ClientError::NoHttp { url },
        DialError::Refused { status: StatusCode::UNAUTHORIZED, .. } => unauthorized(endpoint),
        DialError::Refused { status: StatusCode::FORBIDDEN, error: Some(error) } => {
            ClientError::Refused(error)
        }
        DialError::Refused { status, error } if is_on_its_way(status) => {
            let reason = error.map(|error| format!(" ({})", error.message)).unwrap_or_default();
            unreachable(&url, io::Error::other(format!("HTTP status {}{reason}", status.as_u16())))
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
