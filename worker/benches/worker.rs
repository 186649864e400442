//! Benchmarks of a worker, with a baseline in the same run:
//!
//! * `true`: fork and exec alone, through a keeper, and through the complete worker over a link
//! * 1 GiB of text: a plain pipe to a WebSocket, compared with process, keeper, spool, worker and
//!   link
//!
//! `cargo bench -p buildpool-worker` runs both. `-- dispatch` or `-- stream` selects one.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a benchmark prints its figures")]

use buildpool_protocol::frame::{BINARY_HEADER_BYTES, BinaryHeader, decode_control, encode_control};
use buildpool_protocol::ids::{AttemptId, JobId, Lease};
use buildpool_protocol::output::{ChunkHeader, ChunkKind};
use buildpool_protocol::spec::{Command as JobCommand, JobSpec, OutputPolicy, Source};
use buildpool_protocol::worker_link::{Desired, FromWorker, Grant, ToWorker};
use buildpool_worker::keeper::keeper_directory::KeeperPaths;
use buildpool_worker::keeper::messages::{FromKeeper, Run, ToKeeper, encode, take};
use buildpool_worker::{Config, Shutdown, ShutdownRequest, run};
use futures_util::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

const JOBS: usize = 400;
const ROUNDS: usize = 5;
const GIBIBYTE: u64 = 1 << 30;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wish| wish == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if wants("dispatch") {
        dispatch(&runtime);
    }
    if wants("stream") {
        stream(&runtime);
    }
}

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_worker-alone"))
}

// ---- dispatch

fn dispatch(runtime: &tokio::runtime::Runtime) {
    let data = tempfile::tempdir().expect("a directory");
    let mut keeper = Keeper::start(data.path());
    let mut link = runtime.block_on(Link::open(&data.path().join("worker")));
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for _ in 0..JOBS / ROUNDS {
            times[0].push(timed(|| {
                let status = Command::new("true").stdin(Stdio::null()).status();
                assert!(status.expect("it starts").success());
            }));
            times[1].push(timed(|| keeper.run_true(data.path())));
            times[2].push(timed(|| runtime.block_on(link.run(&["true"])).1));
            times[3].push(timed(|| sync_a_file(data.path())));
        }
    }
    println!("`true`, {JOBS} times, interleaved (microseconds)      p50     p99    x fork/exec");
    let yardstick = percentile(&mut times[0], 50);
    let names =
        ["fork and exec", "through a keeper", "through the worker, over a link", "write and sync 300 bytes"];
    for (name, times) in names.iter().zip(&mut times) {
        let (middle, high) = (percentile(times, 50), percentile(times, 99));
        println!("{name:40} {middle:12.0} {high:7.0} {:14.2}", middle / yardstick);
    }
    runtime.block_on(link.close());
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_nanos() as f64 / 1_000.0
}

fn sync_a_file(directory: &Path) {
    let mut file = std::fs::File::create(directory.join("synced")).expect("a file");
    file.write_all(&[b'x'; 300]).expect("space");
    file.sync_data().expect("a disk");
}

fn lease() -> Lease {
    let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 1 };
    Lease { attempt, epoch: 1 }
}

struct Keeper {
    socket: UnixStream,
    incoming: Vec<u8>,
    _child: Child,
}

impl Keeper {
    fn start(data: &Path) -> Self {
        let (socket, theirs) = UnixStream::pair().expect("a socket");
        let places = KeeperPaths { directory: data.to_owned(), sockets: data.to_owned() };
        let child = Command::new(binary())
            .arg(buildpool_worker::keeper::SUBCOMMAND)
            .args(buildpool_worker::keeper::arguments(0, &places))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .expect("the binary");
        let mut keeper = Self { socket, incoming: Vec::new(), _child: child };
        keeper.receive(|message| matches!(message, FromKeeper::Hello { .. }));
        keeper
    }

    fn receive(&mut self, wanted: impl Fn(&FromKeeper) -> bool) {
        let mut buffer = [0; 4096];
        loop {
            while let Some(message) = take(&mut self.incoming).expect("well formed") {
                if wanted(&message) {
                    return;
                }
            }
            let length = self.socket.read(&mut buffer).expect("a keeper");
            assert!(length > 0, "the keeper is gone");
            self.incoming.extend_from_slice(&buffer[..length]);
        }
    }

    fn run_true(&mut self, data: &Path) {
        let lease = lease();
        let directory = data.join(lease.attempt.job.to_string());
        std::fs::create_dir(&directory).expect("a directory");
        let run = Run {
            lease,
            attempt_directory: directory.clone(),
            argv: vec!["true".into()],
            directory: data.to_owned(),
            setup: None,
            environment: std::env::vars().collect(),
            secrets: BTreeMap::new(),
            timeout: None,
            idle_timeout: None,
            grace: Duration::from_secs(10),
            cut_off_after: Some(Duration::from_secs(840)),
            cut_off_grace: Duration::from_secs(10),
            contact_age: Duration::ZERO,
            output_policy: OutputPolicy::Block,
            log_bytes_max: None,
            core_bytes_max: None,
            stdin: false,
            processes_max: None,
            memory_bytes_max: None,
            group: None,
            jobs_reach_socket: true,
            hands_variables_inside: false,
        };
        let bytes = encode(&ToKeeper::Run(Box::new(run))).expect("small");
        self.socket.write_all(&bytes).expect("a keeper");
        self.receive(|message| matches!(message, FromKeeper::Ended { .. }));
    }
}

// ---- the coordinator's end of a link

struct Link {
    socket: WebSocketStream<TcpStream>,
    worker: tokio::task::JoinHandle<buildpool_worker::WorkerExit>,
    shutdown: buildpool_worker::ShutdownHandle,
}

impl Link {
    async fn open(data: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut config = Config::new(format!("ws://{address}"), data);
        config.slots = 2;
        config.keeper_command = vec![binary().into(), "keeper".into()];
        let (handle, shutdown) = Shutdown::new();
        let worker = tokio::spawn(async move { run(config, shutdown).await.expect("a worker") });
        let (stream, _) = listener.accept().await.expect("the worker");
        stream.set_nodelay(true).expect("a socket");
        let mut socket = tokio_tungstenite::accept_async(stream).await.expect("a handshake");
        socket.next().await.expect("register").expect("register");
        let welcome = ToWorker::Registered {
            protocol: 1,
            session: 1,
            report_every: Duration::from_secs(10),
            lost_after: Duration::from_secs(900),
            desired: Vec::new(),
        };
        socket.send(Message::Text(encode_control(&welcome).into())).await.expect("a link");
        Self { socket, worker, shutdown: handle }
    }

    async fn send(&mut self, message: &ToWorker) {
        self.socket.send(Message::Text(encode_control(message).into())).await.expect("a link");
    }

    /// Runs a command. Returns the size of its output in bytes, and the duration.
    async fn run(&mut self, argv: &[&str]) -> (u64, Duration) {
        let lease = lease();
        let command = JobCommand::Argv(argv.iter().map(|argument| (*argument).to_owned()).collect());
        let mut spec = JobSpec::new(command, Source::InPlace { directory: "/".into() });
        spec.env = std::env::vars().collect();
        let began = Instant::now();
        self.send(&ToWorker::Grant(Box::new(Grant { lease, spec, secrets: BTreeMap::new() }))).await;
        let mut bytes = 0;
        let mut unacknowledged = 0;
        loop {
            match self.socket.next().await.expect("a link").expect("a message") {
                Message::Binary(frame) => {
                    let (header, content) = BinaryHeader::decode(&frame).expect("a frame");
                    bytes += payload_bytes(content);
                    unacknowledged += content.len();
                    if unacknowledged > 1 << 20 {
                        unacknowledged = 0;
                        let position = header.position + content.len() as u64;
                        self.send(&ToWorker::Position { lease, position }).await;
                    }
                }
                Message::Text(text) => match decode_control(text.as_str()).expect("a message") {
                    FromWorker::Complete { lease, .. } => {
                        let took = began.elapsed();
                        self.send(&ToWorker::Act(Desired::Forget { lease })).await;
                        return (bytes, took);
                    }
                    FromWorker::Report { .. } => {
                        self.send(&ToWorker::Desired { desired: Vec::new() }).await;
                    }
                    FromWorker::Register(_)
                    | FromWorker::Decline { .. }
                    | FromWorker::Stdin { .. }
                    | FromWorker::Transfer(_) => {
                        panic!("not now: {text}")
                    }
                },
                _ => {}
            }
        }
    }

    async fn close(self) {
        self.shutdown.request(ShutdownRequest::Exit);
        self.worker.await.expect("no panic");
    }
}

fn payload_bytes(mut content: &[u8]) -> u64 {
    let mut bytes = 0;
    while !content.is_empty() {
        let (header, payload) = ChunkHeader::decode(content).expect("whole chunks");
        if header.kind == ChunkKind::Data {
            bytes += payload.len() as u64;
        }
        content = &content[usize::try_from(header.size()).expect("small")..];
    }
    bytes
}

// ---- 1 GiB of output

fn stream(runtime: &tokio::runtime::Runtime) {
    let data = tempfile::tempdir().expect("a directory");
    let text = data.path().join("text");
    let line = "   Compiling some-crate v1.2.3 (/home/someone/project/crates/some-crate)\n";
    let block = line.repeat((64 << 20) / line.len() + 1);
    std::fs::write(&text, &block.as_bytes()[..64 << 20]).expect("space");
    let script = format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat {}; done", text.display());
    let mut link = runtime.block_on(Link::open(&data.path().join("worker")));
    println!("a gibibyte of text, {ROUNDS} rounds, interleaved      MB/s (median)   CPU-s in keeper");
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    let mut processor = Vec::new();
    for _ in 0..ROUNDS {
        bare.push(runtime.block_on(bare_pipe(&script)));
        let before = keeper_seconds();
        let (bytes, took) = runtime.block_on(link.run(&["sh", "-c", &script]));
        assert_eq!(bytes, GIBIBYTE);
        whole.push(took);
        processor.push(keeper_seconds() - before);
    }
    let rate = |times: &mut Vec<Duration>| GIBIBYTE as f64 / percentile(times, 50);
    let (bare, whole) = (rate(&mut bare), rate(&mut whole));
    processor.sort_by(f64::total_cmp);
    println!("{:40} {bare:16.0}", "a bare pipe to a WebSocket");
    println!("{:40} {whole:16.0} {:12.2}", "through the worker", processor[ROUNDS / 2]);
    println!("{:40} {:15.0}%", "part of the bare pipe", whole / bare * 100.0);
    runtime.block_on(link.close());
}

/// CPU seconds of all keepers below this process, from `/proc`. Returns 0 on other systems.
fn keeper_seconds() -> f64 {
    let own = i32::try_from(std::process::id()).expect("pids fit");
    let table = buildpool_worker::platform::processes().expect("a table");
    let ticks: u64 = table
        .iter()
        .filter(|process| process.parent == own && process.name.starts_with("worker-alone"))
        .filter_map(|process| std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok())
        .filter_map(|stat| {
            let fields: Vec<u64> = stat
                .rsplit(')')
                .next()?
                .split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|n| n.parse().ok())
                .collect();
            Some(fields.iter().sum::<u64>())
        })
        .sum();
    ticks as f64 / 100.0
}

/// Minimum work as the baseline: read a pipe, send it as binary messages, receive them.
async fn bare_pipe(script: &str) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let receiver = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("the sender");
        let mut socket = tokio_tungstenite::accept_async(stream).await.expect("a handshake");
        let mut bytes = 0;
        while bytes < GIBIBYTE {
            let message = socket.next().await.expect("a link").expect("a message");
            bytes += (message.len() - BINARY_HEADER_BYTES) as u64;
        }
    });
    let stream = TcpStream::connect(address).await.expect("the receiver");
    let (socket, _) =
        tokio_tungstenite::client_async(format!("ws://{address}"), stream).await.expect("a handshake");
    let began = Instant::now();
    let script = script.to_owned();
    let (mut sink, _) = socket.split();
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdout.take().expect("it is piped");
    loop {
        let mut buffer = vec![0; BINARY_HEADER_BYTES + (64 << 10)];
        let length = tokio::io::AsyncReadExt::read(&mut pipe, &mut buffer[BINARY_HEADER_BYTES..]).await;
        let length = length.expect("a pipe");
        if length == 0 {
            break;
        }
        buffer.truncate(BINARY_HEADER_BYTES + length);
        sink.send(Message::Binary(buffer.into())).await.expect("a link");
    }
    receiver.await.expect("all of it");
    child.wait().await.expect("it ends");
    began.elapsed()
}
