//! Connections that a standby passes on to the leader (`proxy = true`), byte by byte. Links and HTTP work through it.
//!
//! The first request of a connection to `/healthz` or `/readyz` is about this coordinator, so it answers that itself.

use super::listen::{ByteStream, Listener, Remote};
use super::standby::{leader, readiness, refusal};
use crate::config::Protection;
use crate::leader::{Leadership, Part};
use axum::serve::Listener as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// Maximum time to connect to the leader, with the handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for the first line of a request.
const LINE_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of bytes that are read to find the first request line.
const LINE_BYTES_MAX: usize = 64;
/// Port of a URL without one: the default of `listen`.
const PORT: u16 = 7420;

/// Media type of an answer for monitors.
const TEXT: &str = "text/plain; charset=utf-8";

/// Passes connections on.
#[derive(Clone)]
pub(crate) struct Forwarder {
    leadership: Leadership,
    connector: TlsConnector,
    /// One permit for each connection.
    places: Arc<Semaphore>,
}

impl Forwarder {
    /// The leader's certificate is verified by the system's authorities, and by those in this coordinator's own
    /// certificate file: several coordinators often have the same certificate or authority.
    ///
    /// # Errors
    /// If the certificate file can't be read.
    pub(crate) fn new(
        leadership: Leadership,
        protection: &Protection,
        connections_max: usize,
    ) -> Result<Self, rustls::pki_types::pem::Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Protection::Files { certificate, .. } = protection {
            let own: Vec<_> = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
            roots.add_parsable_certificates(own);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Self { leadership, connector, places: Arc::new(Semaphore::new(connections_max)) })
    }

    /// Passes connections on until it is dropped.
    pub(crate) async fn serve(self, mut listener: Listener) {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (stream, remote) = listener.accept().await;
            while connections.try_join_next().is_some() {}
            let Ok(place) = self.places.clone().try_acquire_owned() else {
                // Closing it is the answer: the peer tries another coordinator.
                continue;
            };
            let forwarder = self.clone();
            connections.spawn(async move {
                if let Err(error) = forwarder.pass(stream, remote).await {
                    tracing::debug!(%error, "a connection to the leader ended");
                }
                drop(place);
            });
        }
    }

    async fn pass(&self, mut stream: Box<dyn ByteStream>, remote: Remote) -> io::Result<()> {
        let begin = tokio::time::timeout(LINE_WITHIN, first_line(&mut stream)).await??;
        // The leader decides how long a connection may be idle.
        let _serving = remote.activity.begin();
        let is_for_us = |path: &str| begin.starts_with(format!("GET {path} ").as_bytes());
        if is_for_us("/healthz") {
            return answer(&mut stream, "200 OK", TEXT, "ok").await;
        }
        if is_for_us("/readyz") {
            let (status, text) = readiness(&self.leadership);
            return answer(&mut stream, &status.to_string(), TEXT, text).await;
        }
        let url = match leader(&self.leadership).await {
            Ok(url) => url,
            Err(error) => return refuse(&mut stream, &error.message).await,
        };
        let mut upstream = match tokio::time::timeout(CONNECT_WITHIN, self.connect(&url)).await {
            Ok(Ok(upstream)) => upstream,
            Ok(Err(error)) => {
                tracing::warn!(url, %error, "the leader can't be reached");
                return refuse(&mut stream, "this standby can't reach the leader; try again").await;
            }
            Err(_) => {
                tracing::warn!(url, "the leader does not answer");
                return refuse(&mut stream, "the leader does not answer this standby; try again").await;
            }
        };
        upstream.write_all(&begin).await?;
        let mut part = self.leadership.part();
        let is_other =
            |part: &Part| !matches!(part, Part::Standby { leader: Some(leader), .. } if *leader == url);
        tokio::select! {
            copied = copy_until_leader_ends(stream, upstream) => copied,
            // The peer connects again, and is passed on to the next leader.
            _changed = part.wait_for(is_other) => Ok(()),
        }
    }

    async fn connect(&self, url: &str) -> io::Result<Box<dyn ByteStream>> {
        let is_plain = url.starts_with("ws://");
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(io::Error::other)?),
            _ => (authority, PORT),
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        if is_plain {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        Ok(Box::new(self.connector.connect(name, stream).await?))
    }
}

/// Copies both directions. The connection ends with the leader's side of it: a peer that stays then would keep its place.
async fn copy_until_leader_ends(peer: impl ByteStream, leader: impl ByteStream) -> io::Result<()> {
    let (mut from_peer, mut to_peer) = tokio::io::split(peer);
    let (mut from_leader, mut to_leader) = tokio::io::split(leader);
    let up = async {
        tokio::io::copy(&mut from_peer, &mut to_leader).await?;
        to_leader.shutdown().await?;
        // The answer to the peer's last request may follow.
        std::future::pending().await
    };
    tokio::select! {
        copied = tokio::io::copy(&mut from_leader, &mut to_peer) => {
            copied?;
            to_peer.shutdown().await
        }
        failed = up => failed,
    }
}

/// Reads the start of the first request, until its path is known.
async fn first_line(stream: &mut Box<dyn ByteStream>) -> io::Result<Vec<u8>> {
    let mut begin = Vec::with_capacity(LINE_BYTES_MAX);
    while begin.len() < LINE_BYTES_MAX && !begin.contains(&b'\n') {
        if stream.read_buf(&mut begin).await? == 0 {
            break;
        }
    }
    Ok(begin)
}

/// Answers with the reason in the form that clients of the link and of the HTTP API parse.
async fn refuse(stream: &mut Box<dyn ByteStream>, reason: &str) -> io::Result<()> {
    answer(stream, "503 Service Unavailable", "application/problem+json", &refusal(reason)).await
}

async fn answer(stream: &mut Box<dyn ByteStream>, status: &str, media: &str, text: &str) -> io::Result<()> {
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
