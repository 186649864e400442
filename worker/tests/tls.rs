//! Tests which coordinator certificates a worker accepts.

mod support;

use buildpool_protocol::frame::decode_control;
use buildpool_protocol::worker_link::FromWorker;
use buildpool_worker::link::connect::{ConnectError, Dialler};
use buildpool_worker::{Config, Shutdown, run};
use futures_util::StreamExt;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl Server {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("defaults")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a key that fits");
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
            pem: made.cert.pem(),
        }
    }

    fn config(&self) -> Config {
        let port = self.listener.local_addr().expect("bound").port();
        Config::new(format!("wss://localhost:{port}"), "/nowhere")
    }

    fn token(&self) -> String {
        format!("bp_0192_secret_{}", blake3::hash(&self.certificate).to_hex())
    }

    async fn accept(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let (stream, _) = self.listener.accept().await?;
        self.acceptor.accept(stream).await
    }

    /// Connects to the server with this configuration of a worker.
    async fn dial(&self, config: &Config) -> Result<(), ConnectError> {
        let dialler = Dialler::new(config).expect("it can be dialled");
        let answer = async {
            if let Ok(stream) = self.accept().await {
                let _ = tokio_tungstenite::accept_async(stream).await;
            }
        };
        let route = dialler.route();
        tokio::join!(dialler.connect(route.current()), answer).0.map(|_| ())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fingerprint_of_the_token_decides() {
    let server = Server::start().await;
    let mut config = server.config();
    config.token = Some(server.token());
    server.dial(&config).await.expect("the certificate of the token");
    config.token = Some(format!("bp_0192_secret_{}", "0".repeat(64)));
    let error = server.dial(&config).await.expect_err("another certificate");
    assert!(matches!(error, ConnectError::Tls(_)), "{error}");
    assert!(error.to_string().contains("does not have the fingerprint"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_from_a_file_is_believed_and_nobody_else() {
    let server = Server::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let own = directory.path().join("own.pem");
    std::fs::write(&own, &server.pem).expect("a file");
    let mut config = server.config();
    config.ca_file = Some(own);
    server.dial(&config).await.expect("signed by itself, and trusted");
    let other = directory.path().join("other.pem");
    std::fs::write(&other, Server::start().await.pem).expect("a file");
    config.ca_file = Some(other.clone());
    server.dial(&config).await.expect_err("signed by someone else");
    std::fs::write(&other, "no certificate").expect("a file");
    let error = Dialler::new(&config).err().expect("nothing to trust").to_string();
    assert!(error.contains("other.pem"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_registers_over_tls_and_does_not_say_the_fingerprint() {
    let server = Server::start().await;
    let data = tempfile::tempdir().expect("a directory");
    let mut config = server.config();
    config.data_dir = data.path().into();
    config.token = Some(server.token());
    config.keeper_command = vec![support::binary().into(), "keeper".into()];
    let (_handle, shutdown) = Shutdown::new();
    let worker = tokio::spawn(run(config, shutdown));
    let stream = server.accept().await.expect("the worker");
    let mut said = None;
    #[allow(clippy::result_large_err, reason = "the library's signature")]
    let note = |request: &tokio_tungstenite::tungstenite::handshake::server::Request, response| {
        said = request.headers().get("authorization").cloned();
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, note).await.expect("a handshake");
    let first = socket.next().await.expect("a message").expect("a message");
    let text = first.into_text().expect("control");
    assert!(matches!(decode_control(text.as_str()), Ok(FromWorker::Register(_))), "{text}");
    assert_eq!(said.expect("a token").to_str().expect("text"), "Bearer bp_0192_secret");
    worker.abort();
}
