//! Opens a connection: TCP, TLS if there is a TLS configuration, and the WebSocket handshake with
//! the token.

use crate::{PoolUrl, Transport};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::frame::decode_control;
use buildpool_protocol::limits::{BINARY_FRAME_BYTES_MAX, CONTROL_MESSAGE_BYTES_MAX};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, http::StatusCode};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Size of the read buffer of a connection, in bytes. A larger frame gets its own buffer.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// An open connection.
pub type Socket = WebSocketStream<Transport>;

/// Error of a connection attempt. The caller adds the URL and the next step.
#[derive(Debug)]
pub enum DialError {
    /// TCP failed, or the transport below the TLS handshake.
    Io(io::Error),
    /// The TLS handshake failed: see `Distrust::of` in the crate `buildpool-trust`.
    Tls(io::Error),
    /// The host name cannot be in a certificate.
    Name(io::Error),
    /// The server does not accept plain HTTP.
    NoHttp,
    /// An HTTP error status, from the coordinator or a proxy.
    Refused {
        /// The status.
        status: StatusCode,
        /// The coordinator's error in the body of the answer, if there is one.
        error: Option<LinkError>,
    },
    /// The WebSocket handshake failed.
    WebSocket(Box<tungstenite::Error>),
}

/// Opens a connection to a path of the coordinator. `tls` is necessary for a `wss` URL and unused
/// for another one. The token goes into a header of the handshake.
///
/// # Errors
/// See [`DialError`].
pub async fn open(
    url: &PoolUrl,
    path: &str,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
) -> Result<Socket, DialError> {
    let transport = connect(url, tls).await?;
    let mut request = url.of_path(path).into_client_request().map_err(|error| from_handshake(url, error))?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization);
    }
    let (socket, _) = client_async_with_config(request, transport, Some(settings()))
        .await
        .map_err(|error| from_handshake(url, error))?;
    Ok(socket)
}

/// Connects to the coordinator: TCP, and TLS for a `wss` URL.
///
/// # Errors
/// [`DialError::Io`], [`DialError::Tls`], [`DialError::Name`].
pub async fn connect(url: &PoolUrl, tls: Option<Arc<ClientConfig>>) -> Result<Transport, DialError> {
    let tcp = TcpStream::connect((url.host(), url.port())).await.map_err(DialError::Io)?;
    tcp.set_nodelay(true).map_err(DialError::Io)?;
    let Some(config) = tls.filter(|_| url.is_secure()) else { return Ok(Transport::Plain(tcp)) };
    let name = ServerName::try_from(url.host().to_owned())
        .map_err(|error| DialError::Name(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let stream = TlsConnector::from(config).connect(name, tcp).await;
    Ok(Transport::Tls(Box::new(stream.map_err(from_tls)?)))
}

fn from_tls(error: io::Error) -> DialError {
    if error.kind() == io::ErrorKind::InvalidData { DialError::Tls(error) } else { DialError::Io(error) }
}

fn from_handshake(url: &PoolUrl, error: tungstenite::Error) -> DialError {
    match error {
        tungstenite::Error::Http(answer) => {
            let text = answer.body().as_deref().and_then(|body| std::str::from_utf8(body).ok());
            let error = text.and_then(|text| decode_control(text).ok());
            DialError::Refused { status: answer.status(), error }
        }
        // A TLS server answers plain HTTP with an alert (RFC 8446, section 6).
        tungstenite::Error::Protocol(ProtocolError::HttparseError(_)) if !url.is_secure() => {
            DialError::NoHttp
        }
        other => DialError::WebSocket(Box::new(other)),
    }
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
