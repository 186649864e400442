//! Opens a connection: TCP, optional TLS, and the WebSocket handshake with the token.

use crate::config::Config;
use crate::limits::{CONNECT_ONE_WITHIN, CONNECT_WITHIN};
use buildpool_dial::{DialError, Peers, PoolUrl, Route, Socket, UrlError};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::worker_link::PATH;
use buildpool_trust::{AuthoritiesError, Distrust, Trust, client_config, is_loopback};
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::HeaderValue;

/// A client for the coordinators of one pool.
pub struct Dialler {
    url: PoolUrl,
    /// Whether the token may be sent unencrypted beyond this machine.
    allow_plain: bool,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
}

/// Error of a configuration that permits no connection.
#[derive(Debug, thiserror::Error)]
pub enum DiallerError {
    /// The URL is invalid.
    #[error(transparent)]
    Url(UrlError),
    /// The token would leave this machine unencrypted.
    #[error(
        "the token would go to {0} unencrypted; give wss:// in place of ws://, or, where the network itself is \
         encrypted, give `--insecure-plain-text` (`insecure_plain_text = true` in the worker's configuration)"
    )]
    PlainBeyondLoopback(PoolUrl),
    /// Neither a fingerprint nor a file of authorities is configured.
    #[error(
        "a wss:// coordinator needs a token that carries its fingerprint, or `ca_file`, or `fingerprint`"
    )]
    NobodyTrusted,
    /// The fingerprint is not 64 hexadecimal digits.
    #[error("`{0}` is not a fingerprint; valid are 64 hexadecimal digits")]
    Fingerprint(String),
    /// The file of authorities is not usable.
    #[error(transparent)]
    Authorities(AuthoritiesError),
    /// The token contains invalid characters.
    #[error("the token has characters that no token has")]
    Token,
}

/// Error of a connection attempt.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An HTTP error status, from the coordinator or a proxy.
    #[error("the coordinator answered {0}")]
    Refused(StatusCode),
    /// Another HTTP status, for example from a proxy while the coordinator restarts.
    #[error("{}", status_text(*.0, .1.as_deref()))]
    Unexpected(StatusCode, Option<String>),
    /// The token is unknown, expired or revoked.
    #[error("the coordinator does not know this token, or it has ended; give the worker a new one")]
    Unknown,
    /// The token has another role, with the coordinator's message. A retry never succeeds.
    #[error(
        "{0}; make one with `buildpool token create --role worker --name NAME` on the coordinator's machine"
    )]
    WrongRole(String),
    /// No connection within this time.
    #[error("no connection within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// TCP failed, or the transport below the TLS handshake.
    #[error("no connection: {0}")]
    Io(io::Error),
    /// The TLS handshake failed: see [`Distrust::from_error`].
    #[error("{}", tls_text(.0))]
    Tls(io::Error),
    /// The host name cannot be in a certificate.
    #[error("`{0}` can't be the name of a host in a certificate; give another URL of the coordinator")]
    Name(String),
    /// The other end does not answer plain HTTP.
    #[error("the server does not accept plain HTTP; for a coordinator with TLS use wss://")]
    NoHttp,
    /// The other end does not support WebSocket.
    #[error("no WebSocket: {0}")]
    WebSocket(Box<tungstenite::Error>),
}

impl ConnectError {
    /// Returns true if only a change of the configuration can help.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unknown)
    }
}

fn status_text(status: StatusCode, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("the server answered {status}: {reason}"),
        None => format!(
            "no WebSocket: the server answered {status}, as a proxy does while the coordinator is away"
        ),
    }
}

fn tls_text(error: &io::Error) -> String {
    match Distrust::from_error(error) {
        Distrust::NoTls => "the server does not use TLS; for a coordinator without TLS use ws://".to_owned(),
        Distrust::AnotherCertificate => {
            "the coordinator's certificate does not have the fingerprint in the token or the configuration"
                .to_owned()
        }
        Distrust::Unvouched => format!("the coordinator is not trusted: {error}"),
    }
}

impl Dialler {
    /// Creates the client for the coordinator in this configuration.
    ///
    /// # Errors
    /// See [`DiallerError`].
    pub fn new(config: &Config) -> Result<Self, DiallerError> {
        let url: PoolUrl = config.coordinator.parse().map_err(DiallerError::Url)?;
        let allow_plain = config.insecure_plain_text || config.token.is_none();
        if !allow_plain && !is_safe(&url) {
            return Err(DiallerError::PlainBeyondLoopback(url));
        }
        let said = config.token.as_deref().map(|token| split_token(token).0);
        let tls = if url.is_secure() {
            Some(Arc::new(client_config(&trust(config)?).map_err(DiallerError::Authorities)?))
        } else {
            None
        };
        let authorization = said
            .map(|said| HeaderValue::from_str(&format!("Bearer {said}")).map_err(|_| DiallerError::Token))
            .transpose()?;
        Ok(Self { url, allow_plain, tls, authorization })
    }

    /// Returns the route over the configured coordinators.
    pub fn route(&self) -> Route {
        Route::new(&self.url)
    }

    /// Returns the coordinators of the pool, for a link to this one.
    pub fn peers(&self, current: &PoolUrl) -> Peers {
        Peers::new(&self.url, current, self.tls.clone())
    }

    /// Returns the leader that a standby names, or `None` if its URL is invalid or the token must not be sent there.
    pub fn leader(&self, url: &str) -> Option<PoolUrl> {
        url.parse().ok().filter(|url| self.allow_plain || is_safe(url))
    }

    /// Opens a connection to a coordinator of the route.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, url: &PoolUrl) -> Result<Socket, ConnectError> {
        // A stopped machine refuses no connection, so another coordinator is tried soon.
        let within = if self.route().has_several() { CONNECT_ONE_WITHIN } else { CONNECT_WITHIN };
        timeout(within, self.open(url)).await.unwrap_or(Err(ConnectError::TooSlow(within)))
    }

    async fn open(&self, url: &PoolUrl) -> Result<Socket, ConnectError> {
        let (tls, authorization) = (self.tls.clone(), self.authorization.clone());
        let socket = buildpool_dial::open(url, PATH, tls, authorization).await;
        socket.map_err(|error| match error {
            DialError::Io(error) => ConnectError::Io(error),
            DialError::Tls(error) => ConnectError::Tls(error),
            DialError::Name(_) => ConnectError::Name(url.host().to_owned()),
            DialError::NoHttp => ConnectError::NoHttp,
            DialError::Refused { status, error } => refused(status, error),
            DialError::WebSocket(error) => ConnectError::WebSocket(error),
        })
    }
}

/// Returns true if the token stays encrypted or on this machine.
fn is_safe(url: &PoolUrl) -> bool {
    url.is_secure() || url.coordinators().all(|url| is_loopback(url.host()))
}

/// Converts a refusal. The coordinator sends a reason. A proxy may refuse for temporary reasons.
fn refused(status: StatusCode, error: Option<LinkError>) -> ConnectError {
    match (status, error) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(error))
            if error.code == ErrorCode::Forbidden =>
        {
            ConnectError::WrongRole(error.message)
        }
        (StatusCode::UNAUTHORIZED, _) => ConnectError::Unknown,
        (StatusCode::FORBIDDEN, _) => ConnectError::Refused(status),
        (_, error) => ConnectError::Unexpected(status, error.map(|error| error.message)),
    }
}

/// Splits a token: the part sent to the coordinator, and the BLAKE3 of its certificate.
fn split_token(token: &str) -> (&str, Option<&str>) {
    match token.rsplit_once('_') {
        Some((sent, pin))
            if pin.len() == 64
                && pin.bytes().all(|byte| byte.is_ascii_hexdigit())
                && sent.matches('_').count() >= 2 =>
        {
            (sent, Some(pin))
        }
        _ => (token, None),
    }
}

/// Returns the method to verify the coordinator with TLS.
///
/// # Errors
/// Fails if the configuration contains no method, or an invalid fingerprint.
pub fn trust(config: &Config) -> Result<Trust, DiallerError> {
    let parse = |pin: &str| Trust::fingerprint(pin).ok_or_else(|| DiallerError::Fingerprint(pin.to_owned()));
    let of_token = config.token.as_deref().and_then(|token| split_token(token).1).map(parse);
    let authorities = || config.ca_file.clone().map(|path| Ok(Trust::Authorities(path)));
    let named = config.fingerprint.as_deref().map(parse).or_else(authorities);
    let chosen = if config.trust_before_token { named.or(of_token) } else { of_token.or(named) };
    chosen.ok_or(DiallerError::NobodyTrusted)?
}

#[cfg(test)]
mod tests {
    use super::{Config, Dialler, DiallerError, Trust, split_token, trust};

    #[test]
    fn a_fingerprint_is_the_last_part_of_a_token_and_is_not_sent() {
        let pin = "0123456789abcdef".repeat(4);
        let sent = "bp_0192_s3cret";
        assert_eq!(split_token(sent), (sent, None));
        assert_eq!(split_token(&format!("{sent}_{pin}")), (sent, Some(pin.as_str())));
        let secret_like_a_pin = format!("bp_0192_{pin}");
        assert_eq!(split_token(&secret_like_a_pin), (secret_like_a_pin.as_str(), None));
    }

    #[test]
    fn the_command_line_s_trust_counts_before_the_token_s_and_the_configuration_s_after_it() {
        let mut config = Config::new("wss://192.0.2.2:1", "/nowhere");
        config.token = Some(format!("bp_1_secret_{}", "ab".repeat(32)));
        config.ca_file = Some("/ca.pem".into());
        assert_eq!(trust(&config).unwrap(), Trust::Fingerprint([0xab; 32]));
        config.trust_before_token = true;
        assert_eq!(trust(&config).unwrap(), Trust::Authorities("/ca.pem".into()));
        (config.ca_file, config.fingerprint) = (None, Some("cd".repeat(32)));
        assert_eq!(trust(&config).unwrap(), Trust::Fingerprint([0xcd; 32]));
    }

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
