//! Opens a connection: TCP, optional TLS, and the WebSocket handshake with the token.

use super::address::{Address, AddressError, split_token};
use crate::config::Config;
use crate::limits::{CONNECT_WITHIN, READ_BUFFER_BYTES};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::frame::decode_control;
use buildpool_protocol::limits::{BINARY_FRAME_BYTES_MAX, CONTROL_MESSAGE_BYTES_MAX};
use buildpool_trust::{AuthoritiesError, Distrust, Trust, client_config, is_loopback};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, http::StatusCode};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// A client for one coordinator.
pub struct Dialler {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
}

/// Error of a configuration that permits no connection.
#[derive(Debug)]
pub enum DiallerError {
    /// The URL is invalid.
    Address(AddressError),
    /// The token would leave this machine unencrypted.
    PlainBeyondLoopback(Address),
    /// Neither a fingerprint nor a file of authorities is configured.
    NobodyTrusted,
    /// The fingerprint is not 64 hexadecimal digits.
    Fingerprint(String),
    /// The file of authorities is not usable.
    Authorities(AuthoritiesError),
    /// The token contains invalid characters.
    Token,
}

impl fmt::Display for DiallerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::PlainBeyondLoopback(address) => write!(
                f,
                "the token would go to {address} unencrypted; give wss:// in place of ws://, or, where the network itself is \
                 encrypted, say `--insecure-plain-text` (`insecure_plain_text = true` in the worker's configuration)"
            ),
            Self::NobodyTrusted => f.write_str(
                "a wss:// coordinator needs a token that carries its fingerprint, or `ca_file`, or `fingerprint`",
            ),
            Self::Fingerprint(text) => {
                write!(f, "`{text}` is no fingerprint; valid are 64 hexadecimal digits")
            }
            Self::Authorities(error) => error.fmt(f),
            Self::Token => f.write_str("the token has characters that no token has"),
        }
    }
}

impl std::error::Error for DiallerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(_)
            | Self::PlainBeyondLoopback(_)
            | Self::NobodyTrusted
            | Self::Fingerprint(_)
            | Self::Token => None,
            Self::Authorities(error) => error.source(),
        }
    }
}

/// Error of a connection attempt.
#[derive(Debug)]
pub enum ConnectError {
    /// An HTTP error status, from the coordinator or a proxy.
    Refused(StatusCode),
    /// The token is unknown, expired or revoked.
    Unknown,
    /// The token has another role, with the coordinator's message. A retry never succeeds.
    WrongRole(String),
    /// No connection within [`CONNECT_WITHIN`].
    TooSlow,
    /// TCP failed, or the transport below the TLS handshake.
    Io(io::Error),
    /// The TLS handshake failed: see [`Distrust::of`].
    Tls(io::Error),
    /// The host name cannot be in a certificate.
    Name(String),
    /// The other end does not answer plain HTTP.
    NoHttp,
    /// The other end does not support WebSocket.
    WebSocket(Box<tungstenite::Error>),
}

impl ConnectError {
    /// Returns true if only a change of the configuration can help.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unknown)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str(
                "the coordinator does not know this token, or it has ended; give the worker a new one",
            ),
            Self::WrongRole(said) => write!(
                f,
                "{said}; make one with `buildpool token create --role worker --name NAME` on the coordinator's machine"
            ),
            Self::Refused(status) => write!(f, "the coordinator answered {status}"),
            Self::TooSlow => write!(f, "no connection within {} s", CONNECT_WITHIN.as_secs()),
            Self::Io(error) => write!(f, "no connection: {error}"),
            Self::Tls(error) => match Distrust::of(error) {
                Distrust::NoTls => f.write_str(
                    "the server does not use TLS; for a coordinator without TLS use ws://",
                ),
                Distrust::AnotherCertificate => f.write_str(
                    "the coordinator's certificate does not have the fingerprint in the token or the configuration",
                ),
                Distrust::Unvouched => write!(f, "the coordinator is not trusted: {error}"),
            },
            Self::Name(host) => write!(f, "`{host}` is no name that a certificate could have"),
            Self::NoHttp => f.write_str(
                "the server does not accept plain HTTP; for a coordinator with TLS use wss://",
            ),
            Self::WebSocket(error) => write!(f, "no WebSocket: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// An open connection.
pub type Socket = WebSocketStream<Transport>;

impl Dialler {
    /// Creates the client for the coordinator in this configuration.
    ///
    /// # Errors
    /// See [`DiallerError`].
    pub fn new(config: &Config) -> Result<Self, DiallerError> {
        let address = Address::parse(&config.coordinator).map_err(DiallerError::Address)?;
        let is_safe = address.is_tls || config.token.is_none() || is_loopback(&address.host);
        if !is_safe && !config.insecure_plain_text {
            return Err(DiallerError::PlainBeyondLoopback(address));
        }
        let said = config.token.as_deref().map(|token| split_token(token).0);
        let tls = if address.is_tls {
            Some(Arc::new(client_config(&trust(config)?).map_err(DiallerError::Authorities)?))
        } else {
            None
        };
        let authorization = said
            .map(|said| HeaderValue::from_str(&format!("Bearer {said}")).map_err(|_| DiallerError::Token))
            .transpose()?;
        Ok(Self { address, tls, authorization })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self) -> Result<Socket, ConnectError> {
        timeout(CONNECT_WITHIN, self.open()).await.unwrap_or(Err(ConnectError::TooSlow))
    }

    async fn open(&self) -> Result<Socket, ConnectError> {
        let tcp = TcpStream::connect((self.address.host.as_str(), self.address.port))
            .await
            .map_err(ConnectError::Io)?;
        tcp.set_nodelay(true).map_err(ConnectError::Io)?;
        let transport = match &self.tls {
            None => Transport::Plain(tcp),
            Some(config) => {
                let name = ServerName::try_from(self.address.host.clone())
                    .map_err(|_| ConnectError::Name(self.address.host.clone()))?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, tcp).await;
                Transport::Tls(Box::new(stream.map_err(of_handshake)?))
            }
        };
        let mut request = self.address.link_url().into_client_request().map_err(not_websocket)?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let (socket, _) = client_async_with_config(request, transport, Some(settings())).await.map_err(
            |error| match error {
                tungstenite::Error::Http(answer)
                    if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) =>
                {
                    refused(answer.status(), answer.body().as_deref())
                }
                // A TLS server answers like this: its first bytes are an alert (RFC 8446, section
                // 6).
                tungstenite::Error::Protocol(ProtocolError::HttparseError(_)) if self.tls.is_none() => {
                    ConnectError::NoHttp
                }
                other => not_websocket(other),
            },
        )?;
        Ok(socket)
    }
}

fn of_handshake(error: io::Error) -> ConnectError {
    if error.kind() == io::ErrorKind::InvalidData {
        ConnectError::Tls(error)
    } else {
        ConnectError::Io(error)
    }
}

/// Converts a refusal. The coordinator sends a reason. A proxy may refuse for temporary reasons.
fn refused(status: StatusCode, body: Option<&[u8]>) -> ConnectError {
    let text = body.and_then(|body| std::str::from_utf8(body).ok());
    let said = text.and_then(|text| decode_control::<LinkError>(text).ok());
    match said.filter(|said| said.code == ErrorCode::Forbidden) {
        Some(said) => ConnectError::WrongRole(said.message),
        None if status == StatusCode::UNAUTHORIZED => ConnectError::Unknown,
        None => ConnectError::Refused(status),
    }
}

/// Returns the method to verify the coordinator with TLS.
///
/// # Errors
/// Fails if the configuration contains no method, or an invalid fingerprint.
pub fn trust(config: &Config) -> Result<Trust, DiallerError> {
    let pin = config.token.as_deref().and_then(|token| split_token(token).1);
    pin.or(config.fingerprint.as_deref())
        .map(|pin| Trust::fingerprint(pin).ok_or_else(|| DiallerError::Fingerprint(pin.to_owned())))
        .or_else(|| config.ca_file.clone().map(|path| Ok(Trust::Authorities(path))))
        .ok_or(DiallerError::NobodyTrusted)?
}

fn not_websocket(error: tungstenite::Error) -> ConnectError {
    ConnectError::WebSocket(Box::new(error))
}

fn settings() -> WebSocketConfig {
    let message_bytes_max = CONTROL_MESSAGE_BYTES_MAX.max(BINARY_FRAME_BYTES_MAX);
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * message_bytes_max)
        .max_message_size(Some(message_bytes_max))
        .max_frame_size(Some(message_bytes_max))
}

/// TCP, with or without TLS.
pub enum Transport {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Dialler, DiallerError};

    #[test]
    fn a_token_leaves_this_machine_unencrypted_only_where_that_was_said() {
        let mut config = Config::new("ws://192.0.2.2:1", "/nowhere");
        config.token = Some("bp_1_secret".to_owned());
        let error = Dialler::new(&config).err().expect("the token would be seen");
        assert!(matches!(error, DiallerError::PlainBeyondLoopback(_)), "{error:?}");
        assert!(error.to_string().contains("ws://192.0.2.2:1 unencrypted; give wss://"), "{error}");
        config.insecure_plain_text = true;
        assert!(Dialler::new(&config).is_ok());
        for url in ["ws://127.0.0.1:1", "ws://localhost:1", "ws://[::1]:1"] {
            config = Config { coordinator: url.to_owned(), insecure_plain_text: false, ..config };
            assert!(Dialler::new(&config).is_ok(), "{url}");
        }
    }
}
