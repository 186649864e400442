//! Benchmarks of the pool, each with a baseline in the same run: `cargo bench -p buildpool-tests
//! --bench figures [NAME…]`.
//!
//! Names: `latency`, `command`, `many`, `stream`, `idle`, `cold`. All benchmarks use real processes
//! and sockets. The documentation quotes the ratio, because machines differ and drift. `BUILDPOOL_STREAM_GIB` sets the size
//! of the log in `stream` (1 to 60 GiB, 1 if it is not set). The disk needs four times as much free space.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod runner;

use buildpool_client::JobEvent;
use buildpool_protocol::client_link::SubmitMessage;
use buildpool_protocol::frame;
use buildpool_protocol::ids::{BootId, WorkerId};
use buildpool_protocol::report::JobResult;
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{Condition, FromWorker, Register};
use buildpool_tests::usage::{peak_memory, processor_secs, status_mib};
use buildpool_tests::{Place, Pool, PoolBuilder, number_from_env};
use futures_util::{SinkExt, StreamExt};
use runner::{connect, message, run};
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const GIB: u64 = 1 << 30;

fn main() {
    runner::run_wanted(&[
        ("latency", latency),
        ("command", command),
        ("many", many),
        ("stream", stream),
        ("idle", idle),
        ("cold", cold),
    ]);
}

/// Measures submit to result of `true` through a connected client. Baseline: fork and exec of the
/// same program.
fn latency(runtime: &tokio::runtime::Runtime) {
    let pool = Pool::start(1);
    let client = runtime.block_on(connect(&pool, pool.token()));
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..1_050 {
        let began = Instant::now();
        assert!(Command::new("/bin/true").status().expect("it runs").success());
        let spawned = began.elapsed();
        let began = Instant::now();
        let result = runtime.block_on(run(&client, &["/bin/true"]));
        let answered = began.elapsed();
        assert_eq!(result.exit_code, Some(0));
        if round >= 50 {
            floor.push(spawned);
            ours.push(answered);
        }
    }
    let (ours, floor) = (Spread::of(ours), Spread::of(floor));
    println!("latency   true by a connected client   p50 {:>9.3?}  p99 {:>9.3?}", ours.p50, ours.p99);
    println!("latency   fork and exec                p50 {:>9.3?}  p99 {:>9.3?}", floor.p50, floor.p99);
    println!(
        "latency   ratio                        p50 {:>6.1} x   p99 {:>6.1} x (of the floor's p50)",
        ours.p50.over(floor.p50),
        ours.p99.over(floor.p50)
    );
}

/// Measures `buildpool run -- true`, including its own start. Baseline: fork and exec.
fn command(_: &tokio::runtime::Runtime) {
    let pool = Pool::start(1);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..220 {
        let began = Instant::now();
        assert!(Command::new("/bin/true").status().expect("it runs").success());
        let spawned = began.elapsed();
        let mut command = pool.command(&["run", "--no-snapshot", "--", "/bin/true"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        assert!(command.status().expect("it runs").success());
        let answered = began.elapsed();
        if round >= 20 {
            floor.push(spawned);
            ours.push(answered);
        }
    }
    let (ours, floor) = (Spread::of(ours), Spread::of(floor));
    println!(
        "command   buildpool run -- true        p50 {:>9.3?}  p99 {:>9.3?}  {:.1} x fork and exec",
        ours.p50,
        ours.p99,
        ours.p50.over(floor.p50)
    );
}

/// Measures 10,000 jobs on one worker with two slots. Baseline: two loops that spawn the same
/// number of processes.
fn many(runtime: &tokio::runtime::Runtime) {
    const JOBS: u32 = 10_000;
    let pool = Pool::start(1);
    let client = runtime.block_on(connect(&pool, pool.token()));
    let floor = two_loops(JOBS);
    let before = processor_secs(&pool);
    let began = Instant::now();
    runtime.block_on(async {
        let mut open = futures_util::stream::FuturesUnordered::new();
        for _ in 0..JOBS {
            if open.len() >= 200 {
                let result: Option<JobResult> = open.next().await;
                assert_eq!(result.and_then(|result| result.exit_code), Some(0));
            }
            open.push(run(&client, &["/bin/true"]));
        }
        while let Some(result) = open.next().await {
            assert_eq!(result.exit_code, Some(0));
        }
    });
    let took = began.elapsed();
    let floor = floor.min(two_loops(JOBS));
    let each = |took: Duration| took.as_secs_f64() * 1e6 / f64::from(JOBS);
    println!(
        "many      {JOBS} jobs, two slots       {:>6.0} us a job, {:.1} CPU-s in the pool",
        each(took),
        processor_secs(&pool) - before
    );
    println!(
        "many      two loops that spawn         {:>6.0} us a job; ratio {:.1} x",
        each(floor),
        took.over(floor)
    );
}

fn two_loops(jobs: u32) -> Duration {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..jobs / 2 {
                    assert!(Command::new("/bin/true").status().expect("it runs").success());
                }
            });
        }
    });
    began.elapsed()
}

/// Measures a large log end to end with equal checksums. Baseline: a bare pipe into a
/// bare WebSocket. The measurement ends when the log is sealed in the store and complete at the
/// reader. The digest follows later and is reported separately.
fn stream(runtime: &tokio::runtime::Runtime) {
    let gib = number_from_env("BUILDPOOL_STREAM_GIB").unwrap_or(1_u64);
    assert!((1..=60).contains(&gib), "invalid BUILDPOOL_STREAM_GIB `{gib}`: must be from 1 to 60");
    let size = gib * GIB;
    let place = Place::new();
    let file = place.file("large.log");
    write_log(&file, size);
    let expected = blake3_of(&file);
    // The headers of the chunks count for the limit too.
    let config = place.file("coordinator.toml");
    std::fs::write(&config, format!("[quota]\nlog_bytes = {}\n", 2 * size)).expect("a file can be written");
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let bare = runtime.block_on(pipe_to_websocket(&file, size));
        let pool = PoolBuilder::default()
            .coordinator(&["--config", &config.to_string_lossy()])
            .worker(&["--slots", "2"])
            .start();
        let client = runtime.block_on(connect(&pool, pool.token()));
        let _warm = runtime.block_on(run(&client, &["/bin/true"]));
        let memory = peak_memory(&pool);
        let processor = processor_secs(&pool);
        let submit = SubmitMessage { follow: true, ..message(&["cat", &file.to_string_lossy()]) };
        let began = Instant::now();
        let (hash, sealed) = runtime.block_on(async {
            let mut events = client.submit(submit).await.expect("submitted");
            let mut hasher = blake3::Hasher::new();
            let (mut bytes, mut sealed) = (0_u64, None);
            while let Some(event) = events.next().await {
                match event {
                    JobEvent::Output(output) => {
                        for chunk in &output.chunks {
                            bytes += chunk.data().len() as u64;
                            hasher.update(chunk.data());
                        }
                    }
                    JobEvent::End(_) => sealed = Some(began.elapsed()),
                    JobEvent::Complete(result) => {
                        assert_eq!((result.exit_code, bytes), (Some(0), size));
                        break;
                    }
                    _ => {}
                }
            }
            (hasher.finalize(), sealed)
        });
        let verdict = began.elapsed();
        let took = sealed.expect("a log ends before its job is done");
        assert_eq!(hash, expected, "the reader has other bytes than the process wrote");
        let after = peak_memory(&pool);
        println!(
            "stream    {gib:>2} GiB end to end            {:>6.0} MB/s, verdict at {:>4.0} MB/s, {:.2} CPU-s (pool), peak memory coordinator {:+.0} MiB, worker and keepers {:+.0} MiB",
            megabytes(size, took),
            megabytes(size, verdict),
            processor_secs(&pool) - processor,
            after.0 - memory.0,
            after.1 - memory.1
        );
        println!("stream    pipe to WebSocket, bare      {:>6.0} MB/s", megabytes(size, bare));
        ratios.push(bare.over(took));
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "stream    ratio                        {:>5.0} % of the bare program (median of 3)",
        ratios[1] * 100.0
    );
}

fn megabytes(size: u64, took: Duration) -> f64 {
    size as f64 / 1e6 / took.as_secs_f64()
}

async fn pipe_to_websocket(file: &std::path::Path, size: u64) -> Duration {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a connection");
        let mut socket = tokio_tungstenite::accept_async(socket).await.expect("a handshake");
        let mut bytes = 0_u64;
        while let Some(Ok(message)) = socket.next().await {
            bytes += message.len() as u64;
            if message.is_close() {
                break;
            }
        }
        bytes
    });
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://{address}")).await.expect("connected");
    let mut child = Command::new("cat").arg(file).stdout(Stdio::piped()).spawn().expect("cat");
    let began = Instant::now();
    let mut pipe = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = pipe.read(&mut buffer).expect("read");
        if count == 0 {
            break;
        }
        socket.send(Message::binary(buffer[..count].to_vec())).await.expect("sent");
    }
    socket.close(None).await.expect("closed");
    assert!(server.await.expect("it served") >= size);
    child.wait().expect("cat ends");
    began.elapsed()
}

/// Measures the memory of an idle worker connection.
fn idle(runtime: &tokio::runtime::Runtime) {
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("a limit");
    let _raised =
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit.1, limit.1);
    let count = 10_000_u32.min(u32::try_from(limit.1).unwrap_or(u32::MAX) / 4 - 200);
    let pool = PoolBuilder::default().start();
    let tokens: Vec<String> =
        (0..=count / WORKERS_OF_TOKEN).map(|number| worker_token(&pool, number)).collect();
    let before = status_mib(pool.coordinator_pid(), "VmRSS");
    let held = runtime.block_on(async {
        let mut held = Vec::new();
        for number in 0..count {
            held.push(register(&pool, &tokens[(number / WORKERS_OF_TOKEN) as usize], number).await);
        }
        held
    });
    let after = status_mib(pool.coordinator_pid(), "VmRSS");
    println!(
        "idle      {count} worker connections    {:>6.1} KiB each in the coordinator",
        (after - before) * 1024.0 / f64::from(count)
    );
    drop(held);
}

/// Workers that one token may have.
const WORKERS_OF_TOKEN: u32 = 1_000;

fn worker_token(pool: &Pool, number: u32) -> String {
    let name = format!("idle-{number}");
    let created = pool.buildpool(&["token", "create", "--role", "worker", "--name", &name, "--json"]);
    created.expect(0).json()["token"].as_str().expect("a token").to_owned()
}

async fn register(pool: &Pool, token: &str, number: u32) -> impl Sized + use<> {
    let mut request = format!("{}/v1/worker", pool.url()).into_client_request().expect("a request");
    let token = format!("Bearer {token}").parse().expect("a header");
    request.headers_mut().insert("authorization", token);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("connected");
    let register = Register {
        protocol: VersionRange::ours(),
        worker: WorkerId::from_uuid(uuid::Uuid::now_v7()),
        boot: BootId::from_uuid(uuid::Uuid::now_v7()),
        earlier: Vec::new(),
        name: format!("idle-{number}"),
        version: "0".into(),
        slots: 2,
        labels: BTreeMap::from([("os".into(), "linux".into())]),
        resources: BTreeMap::new(),
        accepts: Vec::new(),
        held: Vec::new(),
        condition: Condition::default(),
    };
    let text = frame::encode_control(&FromWorker::Register(Box::new(register)));
    socket.send(Message::text(text)).await.expect("sent");
    socket.next().await.expect("an answer").expect("whole");
    socket
}

/// Measures the first answer of the local pool, started from nothing.
fn cold(_: &tokio::runtime::Runtime) {
    let mut took = Vec::new();
    for _ in 0..5 {
        let place = Place::new();
        let began = Instant::now();
        place.buildpool(&["run", "--", "/bin/true"]).expect(0);
        took.push(began.elapsed());
    }
    let spread = Spread::of(took);
    println!("cold      local pool, first answer     p50 {:>9.3?}", spread.p50);
}

/// Writes deterministic lines that look like a build log.
fn write_log(path: &std::path::Path, bytes: u64) {
    use std::io::Write;
    let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).expect("a file"));
    let (mut written, mut number) = (0_u64, 0_u64);
    while written < bytes {
        let line = format!(
            "[{number:>7}/900000] CompileC Objects-normal/arm64/Module{}.o Sources/Module{}/File{}.c normal arm64 c com.apple.compilers.llvm.clang\n",
            number % 977,
            number % 31,
            number.wrapping_mul(2_654_435_761) % 100_003
        );
        let line = &line.as_bytes()[..line.len().min(usize::try_from(bytes - written).unwrap_or(usize::MAX))];
        file.write_all(line).expect("written");
        written += line.len() as u64;
        number += 1;
    }
    file.flush().expect("written");
}

fn blake3_of(path: &std::path::Path) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path).expect("the file")).expect("read");
    hasher.finalize()
}

/// Median and 99th percentile of a series.
struct Spread {
    p50: Duration,
    p99: Duration,
}

impl Spread {
    fn of(mut series: Vec<Duration>) -> Self {
        series.sort_unstable();
        Self { p50: series[series.len() / 2], p99: series[series.len() * 99 / 100] }
    }
}

trait Over {
    fn over(self, other: Self) -> f64;
}

impl Over for Duration {
    fn over(self, other: Self) -> f64 {
        self.as_secs_f64() / other.as_secs_f64()
    }
}
