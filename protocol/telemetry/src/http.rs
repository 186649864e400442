//! HTTP requests to the receiver. Each batch has its own connection: there is at most one in a few seconds.

use async_trait::async_trait;
use buildpool_trust::{Trust, client_config};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Limit on the body of an answer, in bytes. A receiver answers with a few bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A client with the certificate authorities of the system.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) timeout: Duration,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        tokio::time::timeout(self.timeout, send(request)).await?
    }
}

async fn send(mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri().clone();
    let authority = uri.authority().ok_or("the endpoint has no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_tls = uri.scheme_str() == Some("https");
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    request.headers_mut().insert(HOST, authority.as_str().parse()?);
    // A request to the server itself has only the path.
    *request.uri_mut() = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    if !is_tls {
        return exchange(stream, request).await;
    }
    let settings = client_config(&Trust::of_system())?;
    let name = ServerName::try_from(host)?;
    exchange(TlsConnector::from(Arc::new(settings)).connect(name, stream).await?, request).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with its answer.
    tokio::spawn(connection);
    let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}
