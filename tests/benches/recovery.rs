//! Benchmarks of recovery time and of the cost of durability: `cargo bench -p buildpool-tests
//! --bench recovery [NAME…]`.
//!
//! Names: `restart`, `herd`, `durability`. All benchmarks use real processes and sockets.
//! `durability` compares a pool in the directory of temporary files with one in `/dev/shm`, where a
//! sync is free. It prints both file systems.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use buildpool_client::{Client, Endpoint, JobEvent, Target, new_job_id};
use buildpool_protocol::client_link::SubmitMessage;
use buildpool_protocol::frame;
use buildpool_protocol::ids::{BootId, WorkerId};
use buildpool_protocol::spec::{Command as JobCommand, JobSpec, Source};
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{Condition, FromWorker, Register};
use buildpool_tests::{Pool, PoolBuilder};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

type Bench = fn(&tokio::runtime::Runtime);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if wanted.first().is_some_and(|name| name == PART) {
        return durability_part(&runtime);
    }
    let benches: [(&str, Bench); 3] = [("restart", restart), ("herd", herd), ("durability", durability)];
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench(&runtime);
        }
    }
}

/// Measures a coordinator that is killed with SIGKILL and restarted immediately. One time is until
/// the end of the first new job. The other is until each reader of a running job has received
/// output written after the kill.
fn restart(runtime: &tokio::runtime::Runtime) {
    const ROUNDS: usize = 10;
    const READERS: usize = 4;
    let mut pool = PoolBuilder::default().worker(&["--slots", "5"]).worker(&["--slots", "5"]).start();
    let client = runtime.block_on(connect(&pool));
    // Each line is the time at which it was written.
    let text = "while :; do date +%s%N; sleep 0.02; done";
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(runtime.block_on(client.submit(message(text, true))).expect("submitted"));
    }
    let (mut started, mut dispatched, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        runtime.block_on(async {
            for reader in &mut readers {
                written_after(reader, now_ns()).await;
            }
        });
        let (began, killed_at) = (Instant::now(), now_ns());
        pool.restart_coordinator();
        started.push(began.elapsed());
        runtime.block_on(async {
            let dispatch = async {
                run(&client, "true").await;
                began.elapsed()
            };
            let streaming = async {
                let all: FuturesUnordered<_> =
                    readers.iter_mut().map(|reader| written_after(reader, killed_at)).collect();
                all.collect::<Vec<()>>().await;
                began.elapsed()
            };
            let (dispatch, streaming) = tokio::join!(dispatch, streaming);
            dispatched.push(dispatch);
            streams.push(streaming);
        });
    }
    print("restart   coordinator listens again", started);
    print("restart   next job ran and answered", dispatched);
    print("restart   all 4 jobs stream again", streams);
}

/// Reads until output arrives that was written after `moment`, in nanoseconds since 1970.
async fn written_after(reader: &mut buildpool_client::JobEvents, moment: u128) {
    loop {
        match reader.next().await.expect("the job runs") {
            JobEvent::Output(output) => {
                let text: Vec<u8> = output.chunks.iter().flat_map(|chunk| chunk.data().to_vec()).collect();
                let text = String::from_utf8_lossy(&text);
                let last = text.lines().filter_map(|line| line.parse::<u128>().ok()).max();
                if last.is_some_and(|last| last > moment) {
                    return;
                }
            }
            JobEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos()
}

/// Measures 500 worker connections that break when the coordinator is killed. Each retries every 50
/// ms.
fn herd(runtime: &tokio::runtime::Runtime) {
    const WORKERS: u32 = 500;
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("a limit");
    let _raised =
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit.1, limit.1);
    let mut pool = Pool::start(1);
    let client = runtime.block_on(connect(&pool));
    let before: Vec<_> = (0..50).map(|_| timed(runtime, &client)).collect();
    let (says, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..WORKERS {
        let (url, token) = (pool.url().to_owned(), pool.worker_token().to_owned());
        let says = says.clone();
        let work = async move {
            let (worker, boot) = (uuid::Uuid::now_v7(), uuid::Uuid::now_v7());
            loop {
                if let Some(mut socket) = register(&url, &token, number, worker, boot).await {
                    let _over = says.send(Instant::now());
                    // Keeps the connection open until it breaks.
                    while let Some(Ok(_)) = socket.next().await {}
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        workers.spawn_on(work, runtime.handle());
    }
    let mut all = || {
        runtime.block_on(async {
            let mut times = Vec::new();
            while times.len() < WORKERS as usize {
                times.push(heard.recv().await.expect("they go on"));
            }
            times
        })
    };
    all();
    pool.kill_coordinator();
    let began = Instant::now();
    pool.start_coordinator_again();
    let listens = began.elapsed();
    let meanwhile = timed(runtime, &client);
    let back = all().into_iter().map(|at| at.duration_since(began)).collect();
    let after: Vec<_> = (0..50).map(|_| timed(runtime, &client)).collect();
    println!("herd      coordinator listens again        {listens:>9.3?}");
    print("herd      one of 500 is registered", back);
    println!("herd      a job submitted in the rush      {meanwhile:>9.3?}");
    print("herd      a job before, 1 worker", before);
    print("herd      a job after, 501 workers", after);
}

async fn register(
    url: &str,
    token: &str,
    number: u32,
    worker: uuid::Uuid,
    boot: uuid::Uuid,
) -> Option<impl futures_util::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin>
{
    let mut request = format!("{url}/v1/worker").into_client_request().expect("a request");
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().expect("a header"));
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.ok()?;
    let register = Register {
        protocol: VersionRange::ours(),
        worker: WorkerId::from_uuid(worker),
        boot: BootId::from_uuid(boot),
        earlier: Vec::new(),
        name: format!("herd-{number}"),
        version: "0".into(),
        slots: 1,
        labels: BTreeMap::new(),
        resources: BTreeMap::new(),
        accepts: Vec::new(),
        held: Vec::new(),
        // The workers accept no jobs: only the coordinator is measured.
        condition: Condition { draining: true, ..Condition::default() },
    };
    let text = frame::encode_control(&FromWorker::Register(Box::new(register)));
    socket.send(Message::text(text)).await.ok()?;
    socket.next().await?.ok()?;
    Some(socket)
}

/// Argument that makes this process measure one pool and print plain numbers.
const PART: &str = "durability-part";

/// Measures dispatch and streaming with syncs to a disk. Baseline: the same where syncs are free.
fn durability(_: &tokio::runtime::Runtime) {
    let disk = std::env::temp_dir();
    let memory = std::path::PathBuf::from("/dev/shm");
    if !memory.is_dir() {
        return println!("durability needs /dev/shm to compare with");
    }
    let mut best = [[f64::INFINITY, 0.0]; 2];
    // Alternate, so that background load affects both.
    for _ in 0..3 {
        for (place, best) in [&disk, &memory].into_iter().zip(&mut best) {
            let [each_us, mib] = part_in(place);
            *best = [best[0].min(each_us), best[1].max(mib)];
        }
    }
    for (place, [each_us, mib]) in [&disk, &memory].into_iter().zip(best) {
        let kind = file_system(place);
        println!("durability {:<16} {kind:<10} {each_us:>7.0} us a job   {mib:>7.0} MiB/s", place.display());
    }
    let [[disk_us, disk_mib], [memory_us, memory_mib]] = best;
    println!(
        "durability ratio                       {:>7.2} x          {:>7.2} x",
        disk_us / memory_us,
        memory_mib / disk_mib
    );
}

fn part_in(place: &std::path::Path) -> [f64; 2] {
    let own = std::env::current_exe().expect("its own file");
    let output = Command::new(own).arg(PART).env("TMPDIR", place).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    [next(), next()]
}

fn file_system(place: &std::path::Path) -> String {
    let said = Command::new("stat").args(["-f", "-c", "%T"]).arg(place).output();
    said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

fn durability_part(runtime: &tokio::runtime::Runtime) {
    const JOBS: u32 = 1_000;
    const MIB: u32 = 256;
    let pool = Pool::start(1);
    let client = runtime.block_on(connect(&pool));
    let began = Instant::now();
    runtime.block_on(async {
        let mut open = FuturesUnordered::new();
        for _ in 0..JOBS {
            if open.len() >= 50 {
                open.next().await;
            }
            open.push(run(&client, "exit 0"));
        }
        while open.next().await.is_some() {}
    });
    let each_us = began.elapsed().as_secs_f64() * 1e6 / f64::from(JOBS);
    let began = Instant::now();
    runtime.block_on(run(&client, &format!("head -c {MIB}M /dev/zero | tr '\\0' '\\n'")));
    println!("{each_us} {}", f64::from(MIB) / began.elapsed().as_secs_f64());
}

fn timed(runtime: &tokio::runtime::Runtime, client: &Client) -> Duration {
    let began = Instant::now();
    runtime.block_on(run(client, "true"));
    began.elapsed()
}

async fn connect(pool: &Pool) -> Client {
    let url = pool.url().parse().expect("a URL");
    let endpoint = Endpoint::new(url, Some(pool.token().parse().expect("a token")));
    Client::connect(Target::Named(endpoint), "recovery").await.expect("connected")
}

fn message(text: &str, follow: bool) -> SubmitMessage {
    SubmitMessage {
        job: new_job_id(),
        spec: JobSpec::new(JobCommand::Shell(text.to_owned()), Source::Empty),
        client_request_id: None,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot: None,
        wait: true,
        follow,
        progress: false,
    }
}

async fn run(client: &Client, text: &str) {
    let mut events = client.submit(message(text, false)).await.expect("submitted");
    loop {
        match events.next().await.expect("an end") {
            JobEvent::Complete(result) => return assert_eq!(result.exit_code, Some(0)),
            JobEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

fn print(name: &str, mut series: Vec<Duration>) {
    series.sort_unstable();
    let at = |hundredths: usize| series[(series.len() - 1) * hundredths / 100];
    println!("{name:<40} p50 {:>9.3?}  p99 {:>9.3?}  most {:>9.3?}", at(50), at(99), at(100));
}
