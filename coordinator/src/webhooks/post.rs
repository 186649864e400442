//! Sends one delivery over HTTP.

use super::address;
use super::table::{Delivery, Webhook};
use crate::app_state::{AppState, wall_ms};
use axum::http::Uri;
use buildpool_trust::{AuthoritiesError, Trust, client_config};
use rustls_pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Time for one attempt, from the lookup of the name to the status of the answer. Standard Webhooks recommends 15 to 30 s.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an answer that are read. They contain the status.
const ANSWER_BYTES_MAX: usize = 1_024;
/// Maximum length of a URL in bytes.
const URL_BYTES_MAX: usize = 2_048;
/// Milliseconds in a second.
const MS_OF_SEC: i64 = 1_000;

/// Where a webhook is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    is_tls: bool,
    /// A name, or an address without brackets.
    host: String,
    port: u16,
    path: String,
}

/// A URL that no webhook can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("url: {0}; valid is https://HOST/PATH with a public address")]
pub(crate) struct TargetError(String);

impl Target {
    /// Parses a URL. Plain HTTP and private addresses are valid only if `allows_private`.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(crate) fn parse(url: &str, allows_private: bool) -> Result<Self, TargetError> {
        let wrong = |text: &str| TargetError(text.to_owned());
        if url.len() > URL_BYTES_MAX {
            return Err(TargetError(format!("{} bytes; at most {URL_BYTES_MAX} are valid", url.len())));
        }
        let uri: Uri = url.parse().map_err(|_| wrong("is not a URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if allows_private => false,
            _ => return Err(wrong("the scheme is not https")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("contains a user name; the signature authenticates a webhook"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.parse::<IpAddr>().is_ok_and(|address| !allows_private && !address::is_public(address)) {
            return Err(TargetError(format!("{host} is a private address (webhook_private_addresses)")));
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { is_tls, host, port, path })
    }

    /// Returns the URL without its path, which may contain a secret of the receiver.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}/…", self.authority())
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// Reason why a delivery failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error(transparent)]
    Target(TargetError),
    /// The name has no address that may be used.
    #[error("{0} has no public address; `webhook_private_addresses = true` of the coordinator allows others")]
    Private(String),
    #[error(transparent)]
    Authorities(AuthoritiesError),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())]
    Timeout,
    /// The receiver answered with this status.
    #[error("the receiver answered {0}; 200 to 299 accept a delivery")]
    Status(u16),
    /// The answer is not HTTP.
    #[error("the receiver's answer is not HTTP")]
    Answer,
}

impl PostError {
    /// Returns true if the receiver accepts no more deliveries.
    pub(super) const fn is_gone(&self) -> bool {
        matches!(self, Self::Status(410))
    }
}

/// Sends a delivery. Redirects are not followed.
///
/// # Errors
/// [`PostError`] unless the receiver accepts it.
pub(super) async fn send(shared: &AppState, webhook: &Webhook, delivery: &Delivery) -> Result<(), PostError> {
    let allows_private = shared.config.webhook_private_addresses;
    let target = Target::parse(&webhook.url, allows_private).map_err(PostError::Target)?;
    let id = format!("evt_{}_{}", delivery.event, webhook.id.as_simple());
    let timestamp = wall_ms() / MS_OF_SEC;
    let signature = webhook.secret.sign(&id, timestamp, &delivery.body);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: buildpool\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\nwebhook-id: {id}\r\nwebhook-timestamp: {timestamp}\r\nwebhook-signature: {signature}\r\n\r\n",
        target.path,
        target.authority(),
        delivery.body.len()
    );
    let request = [head.as_bytes(), delivery.body.as_bytes()].concat();
    let answered = tokio::time::timeout(ATTEMPT_TIMEOUT, exchange(&target, allows_private, &request));
    match answered.await.map_err(|_| PostError::Timeout)?? {
        200..=299 => Ok(()),
        status => Err(PostError::Status(status)),
    }
}

/// Sends a request and returns the status of the answer. The checked address is the one that is used: a second lookup
/// could return another.
async fn exchange(target: &Target, allows_private: bool, request: &[u8]) -> Result<u16, PostError> {
    let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await?;
    let usable: Vec<SocketAddr> =
        found.filter(|address| allows_private || address::is_public(address.ip())).collect();
    if usable.is_empty() {
        return Err(PostError::Private(target.host.clone()));
    }
    let stream = TcpStream::connect(usable.as_slice()).await?;
    if !target.is_tls {
        return status(stream, request).await;
    }
    let settings = client_config(&Trust::of_system()).map_err(PostError::Authorities)?;
    let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
    status(TlsConnector::from(Arc::new(settings)).connect(name, stream).await?, request).await
}

async fn status(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    request: &[u8],
) -> Result<u16, PostError> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    while answer.len() < ANSWER_BYTES_MAX && !answer.contains(&b'\n') {
        let mut part = [0; ANSWER_BYTES_MAX];
        let length = stream.read(&mut part).await?;
        if length == 0 {
            break;
        }
        answer.extend_from_slice(&part[..length]);
    }
    let line = String::from_utf8_lossy(&answer);
    let mut words = line.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    words.next().filter(|_| is_http).and_then(|word| word.parse().ok()).ok_or(PostError::Answer)
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn only_public_https_is_valid_unless_private_addresses_are_allowed() {
        let target = Target::parse("https://hooks.example.com/services/secret?x=1", false).unwrap();
        assert_eq!((&*target.path, target.port), ("/services/secret?x=1", 443));
        assert_eq!(target.shown(), "https://hooks.example.com/…");
        assert_eq!(Target::parse("http://[::1]:8080/x", true).unwrap().shown(), "http://[::1]:8080/…");
        for url in [
            "http://example.com/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://169.254.169.254/latest",
            "https://ada:key@example.com/",
            "ftp://example.com/",
            "example.com",
            "",
            "https://",
        ] {
            assert!(Target::parse(url, false).is_err(), "{url}");
        }
    }
}
