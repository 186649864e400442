//! Simulated workers: they speak the protocol over real sockets, and end each job at once without a process.

use buildpool_protocol::frame;
use buildpool_protocol::ids::{BootId, WorkerId};
use buildpool_protocol::limits::REPORT_EVERY;
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{Condition, FromWorker, Register, ToWorker};
use buildpool_tests::Pool;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Workers that one token may have.
pub(crate) const WORKERS_OF_TOKEN: usize = 1_000;

/// Makes the tokens of so many workers: worker N uses token N / 1,000.
pub(crate) fn worker_tokens(pool: &Pool, workers: usize) -> Vec<String> {
    let config = pool.place().home().join("c0.toml");
    let token = |number: usize| {
        let name = format!("simulated-{number}");
        let words = ["token", "create", "--role", "worker", "--name", &name, "--json", "--config"];
        let words: Vec<&str> = words.into_iter().chain(config.to_str()).collect();
        pool.buildpool(&words).expect(0).json()["token"].as_str().expect("a token").to_owned()
    };
    (0..workers.div_ceil(WORKERS_OF_TOKEN)).map(token).collect()
}

/// A worker without processes.
pub(crate) struct Simulated {
    url: String,
    token: String,
    register: Register,
    socket: Option<WebSocketStream<MaybeTlsStream<TcpStream>>>,
}

impl Simulated {
    pub(crate) fn new(url: &str, token: &str, number: usize) -> Self {
        let register = Register {
            protocol: VersionRange::ours(),
            worker: WorkerId::from_uuid(uuid::Uuid::now_v7()),
            boot: BootId::from_uuid(uuid::Uuid::now_v7()),
            earlier: Vec::new(),
            name: format!("simulated-{number}"),
            version: "0".into(),
            slots: 10,
            labels: BTreeMap::from([("os".into(), "linux".into())]),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            held: Vec::new(),
            condition: Condition::default(),
        };
        Self { url: url.to_owned(), token: token.to_owned(), register, socket: None }
    }

    /// Connects and registers.
    pub(crate) async fn connect(&mut self) {
        let mut request = format!("{}/v1/worker", self.url).into_client_request().expect("a request");
        let token = format!("Bearer {}", self.token).parse().expect("a header");
        request.headers_mut().insert("authorization", token);
        let (socket, _) = tokio_tungstenite::connect_async(request).await.expect("connected");
        self.socket = Some(socket);
        self.send(&FromWorker::Register(Box::new(self.register.clone()))).await;
        while !matches!(self.receive().await, ToWorker::Registered { .. }) {}
    }

    /// Reports, and waits for the answer.
    pub(crate) async fn report(&mut self) {
        self.send(&FromWorker::Report { held: Vec::new(), condition: Condition::default() }).await;
        while !matches!(self.receive().await, ToWorker::Desired { .. }) {}
    }

    /// Takes jobs and ends them, and reports, until its task is aborted. A silent worker loses its connection.
    pub(crate) async fn work(mut self) {
        self.connect().await;
        let mut reports = tokio::time::interval(REPORT_EVERY);
        loop {
            tokio::select! {
                message = self.receive() => if let ToWorker::Grant(grant) = message {
                    let outcome = Box::new(passed());
                    self.send(&FromWorker::Complete { lease: grant.lease, outcome }).await;
                },
                _ = reports.tick() => {
                    self.send(&FromWorker::Report { held: Vec::new(), condition: Condition::default() }).await;
                }
            }
        }
    }

    async fn send(&mut self, message: &FromWorker) {
        let socket = self.socket.as_mut().expect("it is connected");
        socket.send(Message::text(frame::encode_control(message))).await.expect("sent");
    }

    async fn receive(&mut self) -> ToWorker {
        let socket = self.socket.as_mut().expect("it is connected");
        loop {
            match socket.next().await.expect("a connection").expect("a message") {
                Message::Text(text) => {
                    return frame::decode_control(&text).expect("a message of the protocol");
                }
                _ => continue,
            }
        }
    }
}

/// The outcome of a process that passed and printed nothing.
fn passed() -> Outcome {
    let empty = json!({ "length": 0, "blake3": blake3::hash(b"").to_hex().to_string() });
    let outcome = json!({
        "ending": { "exited": { "code": 0 } },
        "started_at_ms": 1,
        "finished_at_ms": 2,
        "duration": 1,
        "seals": [empty, empty],
        "log_length": 0,
    });
    serde_json::from_value(outcome).expect("an outcome")
}
