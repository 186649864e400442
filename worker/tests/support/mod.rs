//! Test harness: a coordinator for one worker, controlled by the test, and the worker itself.

#![allow(dead_code, reason = "each test binary uses its part")]

use buildpool_protocol::frame::{BinaryHeader, BinaryKind, decode_control, encode_control};
use buildpool_protocol::ids::{AttemptId, JobId, Lease};
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, LogState, Stream};
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_protocol::worker_link::{Condition, Desired, FromWorker, Grant, Held, Register, ToWorker};
use buildpool_worker::{Config, Shutdown, ShutdownHandle, run};
use futures_util::{SinkExt, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

/// Timeout of a condition. Conditions need far less time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Path of the binary that serves as worker and keeper.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_worker-alone"))
}

/// Waits until a condition holds.
pub(crate) async fn until<T>(event: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited for {event} for {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// All data that the coordinator received, and its settings.
#[derive(Default)]
pub(crate) struct CoordinatorState {
    pub(crate) registers: Vec<Register>,
    pub(crate) authorizations: Vec<Option<String>>,
    pub(crate) held: Vec<Held>,
    pub(crate) condition: Condition,
    pub(crate) reports: usize,
    pub(crate) declined: Vec<(Lease, String)>,
    pub(crate) logs: BTreeMap<AttemptId, Log>,
    pub(crate) outcomes: BTreeMap<Lease, Outcome>,
    pub(crate) completes: usize,
    cancelled: BTreeMap<Lease, String>,
    fenced: BTreeSet<Lease>,
    grants: BTreeMap<Lease, Grant>,
    connection: Option<mpsc::UnboundedSender<Order>>,
    pub(crate) connections: usize,
    /// Send no acknowledgements, and no answers to reports: those acknowledge output too.
    pub(crate) sends_no_answers: bool,
    /// Store results without acknowledging them.
    pub(crate) acknowledges_no_results: bool,
    pub(crate) lost_after: Option<Duration>,
    pub(crate) report_every: Option<Duration>,
    /// The disk accepts no records: registrations and reports get an empty answer.
    pub(crate) is_full: bool,
}

/// A log as it was received.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) state: LogState,
    pub(crate) streams: [Vec<u8>; 2],
    pub(crate) order: Vec<Stream>,
    pub(crate) repeats: usize,
    pub(crate) gaps: Vec<(Stream, u64)>,
}

enum Order {
    Say(ToWorker),
    Cut,
}

/// A listening coordinator.
pub(crate) struct Coordinator {
    pub(crate) book: Arc<Mutex<CoordinatorState>>,
    pub(crate) address: String,
    task: JoinHandle<()>,
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Coordinator {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("ws://{}", listener.local_addr().expect("bound"));
        let book = Arc::new(Mutex::new(CoordinatorState::default()));
        let task = tokio::spawn(listen(listener, Arc::clone(&book)));
        Self { book, address, task }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&mut CoordinatorState) -> T) -> T {
        read(&mut self.book.lock().expect("no test fails inside"))
    }

    pub(crate) async fn registered(&self, times: usize) {
        until("the worker to register", || self.read(|book| (book.registers.len() >= times).then_some(())))
            .await;
    }

    pub(crate) fn grant(&self, spec: JobSpec) -> Lease {
        self.grant_with(spec, &[])
    }

    pub(crate) fn grant_with(&self, spec: JobSpec, secrets: &[(&str, &str)]) -> Lease {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 1 };
        let lease = Lease { attempt, epoch: 7 };
        let secrets = secrets
            .iter()
            .map(|(name, value)| {
                ((*name).to_owned(), buildpool_protocol::client_link::Secret((*value).to_owned()))
            })
            .collect();
        let grant = Grant { lease, spec, secrets };
        self.read(|book| {
            book.grants.insert(lease, grant.clone());
            book.send(ToWorker::Grant(Box::new(grant)));
        });
        lease
    }

    pub(crate) fn send(&self, message: ToWorker) {
        self.read(|book| book.send(message));
    }

    pub(crate) fn cancel(&self, lease: Lease) {
        self.read(|book| {
            book.cancelled.insert(lease, "not wanted".into());
            let (by, reason) = ("tester".to_owned(), "not wanted".to_owned());
            book.send(ToWorker::Act(Desired::Cancel { lease, by, reason }));
        });
    }

    pub(crate) fn fence(&self, lease: Lease) {
        self.read(|book| {
            book.fenced.insert(lease);
            book.send(ToWorker::Act(Desired::Fenced { lease }));
        });
    }

    pub(crate) fn cut(&self) {
        self.read(|book| {
            if let Some(connection) = book.connection.take() {
                let _ = connection.send(Order::Cut);
            }
        });
    }

    pub(crate) async fn outcome(&self, lease: Lease) -> Outcome {
        until("the outcome", || self.read(|book| book.outcomes.get(&lease).cloned())).await
    }

    pub(crate) async fn until_output(&self, lease: Lease, wanted: &str) {
        until(&format!("output {wanted:?}"), || {
            self.read(|book| {
                let log = book.logs.get(&lease.attempt)?;
                let found = log.streams.iter().any(|bytes| String::from_utf8_lossy(bytes).contains(wanted));
                found.then_some(())
            })
        })
        .await;
    }

    pub(crate) fn stdout(&self, lease: Lease) -> Vec<u8> {
        self.stream(lease, Stream::Stdout)
    }

    pub(crate) fn stream(&self, lease: Lease, stream: Stream) -> Vec<u8> {
        self.read(|book| {
            book.logs.get(&lease.attempt).map(|log| log.streams[stream.index()].clone()).unwrap_or_default()
        })
    }
}

impl CoordinatorState {
    pub(crate) fn send(&mut self, message: ToWorker) {
        if let Some(connection) = &self.connection {
            let _ = connection.send(Order::Say(message));
        }
    }

    fn desired(&mut self, held: &[Held]) -> Vec<Desired> {
        held.iter()
            .map(|held| {
                let lease = held.lease;
                if self.fenced.contains(&lease) {
                    Desired::Fenced { lease }
                } else if self.outcomes.contains_key(&lease) && !self.acknowledges_no_results {
                    Desired::Forget { lease }
                } else if let Some(reason) = self.cancelled.get(&lease) {
                    Desired::Cancel { lease, by: "tester".into(), reason: reason.clone() }
                } else {
                    let position = self.logs.get(&lease.attempt).map_or(0, |log| log.state.position);
                    Desired::Continue { lease, position }
                }
            })
            .collect()
    }

    /// Answers a registration with the desired state of each attempt in the worker's last message.
    pub(crate) fn welcome(&mut self) {
        let held = self.held.clone();
        let desired = self.desired(&held);
        self.send(ToWorker::Registered {
            protocol: 1,
            session: 1,
            report_every: self.report_every.unwrap_or(Duration::from_secs(10)),
            lost_after: self.lost_after.unwrap_or(Duration::from_secs(900)),
            desired,
        });
    }

    fn receive(&mut self, message: FromWorker) {
        match message {
            FromWorker::Register(register) => {
                self.held.clone_from(&register.held);
                self.condition = register.condition.clone();
                self.registers.push(*register);
                if self.is_full {
                    return self.send(ToWorker::Desired { desired: Vec::new() });
                }
                self.welcome();
                let grants: Vec<_> = self
                    .grants
                    .values()
                    .filter(|grant| !self.outcomes.contains_key(&grant.lease))
                    .cloned()
                    .collect();
                for grant in grants {
                    self.send(ToWorker::Grant(Box::new(grant)));
                }
            }
            FromWorker::Report { held, condition } => {
                self.reports += 1;
                let desired = if self.is_full { Vec::new() } else { self.desired(&held) };
                self.held = held;
                self.condition = condition;
                if !self.sends_no_answers {
                    self.send(ToWorker::Desired { desired });
                }
            }
            FromWorker::Stdin { .. } => {}
            FromWorker::Complete { lease, outcome } => {
                self.completes += 1;
                let log = self.logs.entry(lease.attempt).or_default();
                assert_eq!(log.state.position, outcome.log_length, "complete comes after all of the log");
                for stream in Stream::ALL {
                    let seal = &outcome.seals[stream.index()];
                    assert_eq!(log.state.stream_lengths[stream.index()], seal.length);
                    let hash = blake3::hash(&log.streams[stream.index()]).to_hex();
                    assert_eq!(seal.blake3, hash.as_str(), "the seal of {stream}");
                }
                self.outcomes.insert(lease, *outcome);
                if !self.acknowledges_no_results {
                    self.send(ToWorker::Act(Desired::Forget { lease }));
                }
            }
            FromWorker::Decline { lease, reason } => self.declined.push((lease, reason)),
            FromWorker::Transfer(_) => {}
        }
    }

    fn take(&mut self, frame: &[u8]) {
        let (header, mut content) = BinaryHeader::decode(frame).expect("a well-formed frame");
        assert_eq!(header.kind, BinaryKind::Output);
        let mut position = header.position;
        let mut moved = None;
        while !content.is_empty() {
            let (chunk, payload) = ChunkHeader::decode(content).expect("whole chunks only");
            let log = self.logs.entry(chunk.attempt).or_default();
            if position >= log.state.position {
                assert_eq!(position, log.state.position, "no hole");
                log.state.append(&chunk, payload).expect("the next chunk");
                match chunk.kind {
                    ChunkKind::Data => log.streams[chunk.stream.index()].extend_from_slice(payload),
                    ChunkKind::Gap => log.gaps.push((chunk.stream, chunk.offset)),
                }
                log.order.push(chunk.stream);
            } else {
                log.repeats += 1;
            }
            position += chunk.size();
            content = &content[chunk.size() as usize..];
            moved = Some((chunk.attempt, log.state.position));
        }
        let Some((attempt, position)) = moved.filter(|_| !self.sends_no_answers) else { return };
        if let Some(held) = self.grants.keys().find(|lease| lease.attempt == attempt).copied() {
            self.send(ToWorker::Position { lease: held, position });
        }
    }
}

async fn listen(listener: TcpListener, book: Arc<Mutex<CoordinatorState>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (sender, receiver) = mpsc::unbounded_channel();
        {
            let mut book = book.lock().expect("no test fails inside");
            book.connection = Some(sender);
            book.connections += 1;
        }
        tokio::spawn(serve(stream, receiver, Arc::clone(&book)));
    }
}

async fn serve(
    stream: TcpStream,
    mut orders: mpsc::UnboundedReceiver<Order>,
    book: Arc<Mutex<CoordinatorState>>,
) {
    stream.set_nodelay(true).expect("a socket");
    let mut authorization = None;
    #[allow(clippy::result_large_err, reason = "the library's signature")]
    let note = |request: &Request, response: Response| {
        let header = request.headers().get("authorization");
        authorization = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, note).await else { return };
    book.lock().expect("no test fails inside").authorizations.push(authorization);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Say(message)) => {
                    if socket.send(Message::Text(encode_control(&message).into())).await.is_err() {
                        return;
                    }
                }
                Some(Order::Cut) | None => return,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let message = decode_control(text.as_str()).expect("a well-formed message");
                    book.lock().expect("no test fails inside").receive(message);
                }
                Some(Ok(Message::Binary(frame))) => book.lock().expect("no test fails inside").take(&frame),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

/// A worker in this process, with separate keeper processes.
pub(crate) struct Worker {
    pub(crate) config: Config,
    pub(crate) shutdown: ShutdownHandle,
    pub(crate) task: JoinHandle<Result<buildpool_worker::WorkerExit, buildpool_worker::WorkerError>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn config(coordinator: &Coordinator, data: &Path) -> Config {
    let mut config = Config::new(coordinator.address.clone(), data);
    config.name = "tested".into();
    config.slots = 4;
    config.token = Some("bp_1_token".into());
    config.keeper_command = vec![binary().into(), OsString::from("keeper")];
    config
}

impl Worker {
    pub(crate) fn start(config: Config) -> Self {
        let (handle, shutdown) = Shutdown::new();
        let task = tokio::spawn(run(config.clone(), shutdown));
        Self { config, shutdown: handle, task }
    }
}

/// A daemon in a separate process, so that it can be killed.
pub(crate) struct Daemon(std::process::Child);

impl Daemon {
    pub(crate) fn start(coordinator: &Coordinator, data: &Path) -> Self {
        let file = data.join("worker.toml");
        let text = format!(
            "coordinator = \"{}\"\nname = \"tested\"\nslots = 4\ndata_dir = \"{}\"\n",
            coordinator.address,
            data.display()
        );
        std::fs::write(&file, text).expect("a file");
        let child = std::process::Command::new(binary()).arg(file).stdin(std::process::Stdio::null()).spawn();
        let child = child.expect("the binary");
        Self(child)
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was ours");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A coordinator with a worker that has registered.
pub(crate) async fn pool() -> (Coordinator, Worker, tempfile::TempDir) {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let worker = Worker::start(config(&coordinator, data.path()));
    coordinator.registered(1).await;
    (coordinator, worker, data)
}

/// A shell command in an empty directory.
pub(crate) fn shell(text: &str) -> JobSpec {
    JobSpec::new(Command::Shell(text.into()), Source::Empty)
}

pub(crate) fn argv(arguments: &[&str]) -> JobSpec {
    JobSpec::new(Command::Argv(arguments.iter().map(|text| (*text).to_owned()).collect()), Source::Empty)
}

/// Processes whose environment contains the ids of this attempt.
pub(crate) fn processes_of(lease: Lease) -> Vec<buildpool_worker::platform::Process> {
    let job = lease.attempt.job.to_string();
    buildpool_worker::platform::processes()
        .expect("a process table")
        .into_iter()
        .filter(|process| !process.zombie)
        .filter(|process| {
            buildpool_worker::platform::variables(process.pid, &["BUILDPOOL_JOB_ID"])
                .is_some_and(|found| found.get("BUILDPOOL_JOB_ID") == Some(&job))
        })
        .collect()
}
