//! Honest jobs beside 24 hostile clients and workers, with limits on the coordinator's memory and on
//! the time that a submit takes.
//!
//! `BUILDPOOL_SOAK_SECS=1800 cargo test -p buildpool-tests --test faults soak -- --nocapture` runs
//! it for half an hour and prints the figures.

use crate::bad_peers::some_id;
use buildpool_tests::hostile::{Attacks, PEERS, SUBMITTERS, Target, WORKERS};
use buildpool_tests::usage::status_bytes;
use buildpool_tests::{Peer, Pool, PoolBuilder};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Honest jobs at a time.
const JOBS: usize = 20;
/// Honest submitters, who share the jobs.
const HONEST: usize = 4;
/// Interval at which a client that waits shows that it is alive.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Limit on the time of an honest job, from its submit to its result.
const JOB_WITHIN: Duration = Duration::from_secs(180);
/// Interval of the samples of memory.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Share of the attack after which memory must not grow any more.
const SETTLED: f64 = 0.4;
/// Limit on the growth after that, in a run of at least [`LONG_SECS`].
const GROWTH_BYTES_MAX: u64 = 64 << 20;
/// Limit on the memory of the coordinator in each run: the quotas allow 256 MiB of specs and 64 MiB
/// of recent logs.
const MEMORY_BYTES_MAX: u64 = 640 << 20;
/// Duration after which all quotas are full and each attack has begun.
const LONG_SECS: usize = 300;
/// Limit on the p99 of a submit in such a run, as a multiple of the same figure without an attack.
const SLOWER_MAX: u32 = 10;
/// A p99 below this passes: on a busy machine a few milliseconds are chance.
const FAST: Duration = Duration::from_millis(100);

/// Times of the honest submits of one phase, from the message to `accepted`.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn part(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted
            .get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// Pause between two exchanges of the yardstick.
const ECHO_EVERY: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Honest {
    is_over: AtomicBool,
    is_attacked: AtomicBool,
    quiet: Mutex<Times>,
    attacked: Mutex<Times>,
    /// The yardstick: times of exchanges between two threads that do nothing else. They show how long a
    /// processor is waited for.
    quiet_echo: Mutex<Times>,
    attacked_echo: Mutex<Times>,
    failures: Mutex<Vec<String>>,
}

/// Submits a job and waits for its end. Returns the time of the submit.
async fn run_job(peer: &mut Peer, request: u32) -> Result<Duration, String> {
    let spec =
        json!({"command": {"argv": ["sh", "-c", format!("echo {request}; sleep 0.2")]}, "source": "empty"});
    let submit = json!({"job": some_id(), "spec": spec, "wait": true});
    let begun = Instant::now();
    if !peer.send_json(&json!({"type": "submit", "request": request, "submit": submit})).await {
        return Err("the connection ended".to_owned());
    }
    let mut accepted = None;
    loop {
        let Some(answer) = peer.receive_within(PING_EVERY).await else {
            if begun.elapsed() > JOB_WITHIN || !peer.ping().await {
                return Err(format!("no answer in {:?}; accepted after {accepted:?}", begun.elapsed()));
            }
            continue;
        };
        match answer["type"].as_str() {
            Some("accepted") => accepted = Some(begun.elapsed()),
            Some("complete") => {
                let result = &answer["result"];
                let has_passed = result["verdict"] == "passed" && result["exit_code"] == 0;
                return if has_passed { accepted.ok_or_else(String::new) } else { Err(result.to_string()) };
            }
            Some("error") => return Err(answer.to_string()),
            _ => {}
        }
    }
}

/// Sends one byte over a loopback connection and back, again and again.
fn echo(honest: &Honest) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
    }
    let mut byte = [0];
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let mut byte = [0];
            while far.read_exact(&mut byte).is_ok() {
                far.write_all(&byte).unwrap();
            }
        });
        while !honest.is_over.load(Ordering::Relaxed) {
            // A pace, not a wait: without it the yardstick would use a processor itself.
            std::thread::sleep(ECHO_EVERY);
            let was_attacked = honest.is_attacked.load(Ordering::Relaxed);
            let begun = Instant::now();
            near.write_all(&byte).unwrap();
            near.read_exact(&mut byte).unwrap();
            let times = if was_attacked { &honest.attacked_echo } else { &honest.quiet_echo };
            times.lock().unwrap().0.push(begun.elapsed());
        }
        drop(near);
    });
}

/// Connects once and submits one job after the other.
async fn honest_jobs(honest: Arc<Honest>, address: std::net::SocketAddr, token: String) {
    let mut peer = Peer::dial(address, "/v1/client", Some(&token)).await.unwrap();
    peer.send_json(&json!({"type": "register", "protocol": {"min": 1, "max": 2}, "client": "honest"})).await;
    assert_eq!(peer.receive().await.unwrap()["type"], "registered");
    let mut request = 0;
    while !honest.is_over.load(Ordering::Relaxed) {
        request += 1;
        let was_attacked = honest.is_attacked.load(Ordering::Relaxed);
        match run_job(&mut peer, request).await {
            Ok(time) => {
                let times = if was_attacked { &honest.attacked } else { &honest.quiet };
                times.lock().unwrap().0.push(time);
            }
            Err(failure) => {
                honest.failures.lock().unwrap().push(failure);
                return;
            }
        }
    }
}

fn token(pool: &Pool, role: &str, name: &str, more: &[&str]) -> String {
    let words = [&["token", "create", "--role", role, "--name", name, "--json"], more].concat();
    pool.buildpool(&words).expect(0).json()["token"].as_str().unwrap().to_owned()
}

/// The process of the hostile peers. It ends with its standard input.
struct Hostile(Child);

impl Hostile {
    fn start(pool: &Pool) -> Self {
        let target = Target {
            address: pool.address(),
            submitters: (0..SUBMITTERS)
                .map(|n| token(pool, "submit", &format!("hostile-{n}"), &[]))
                .collect(),
            workers: (0..WORKERS).map(|n| token(pool, "worker", &format!("bad-worker-{n}"), &[])).collect(),
        };
        let mut command = Command::new("nice");
        command.args(["-n", "10", env!("CARGO_BIN_EXE_hostile")]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = serde_json::to_string(&target).unwrap();
        writeln!(process.stdin.as_mut().unwrap(), "{line}").unwrap();
        Self(process)
    }

    /// Ends the attack and returns the number of attacks by kind.
    fn end(mut self) -> Attacks {
        drop(self.0.stdin.take());
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }
}

fn soak_secs() -> u64 {
    std::env::var("BUILDPOOL_SOAK_SECS").map_or(20, |secs| secs.parse().unwrap())
}

/// Samples the memory for this long.
async fn sample(pool: &Pool, time: Duration, is_printed: bool) -> Vec<u64> {
    let (begun, mut samples) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        tokio::time::sleep(SAMPLE_EVERY).await;
        samples.push(status_bytes(pool.coordinator_pid(), "VmRSS").unwrap());
        if is_printed && samples.len().is_multiple_of(60) {
            eprintln!("{:>5} s: {} MiB", begun.elapsed().as_secs(), samples[samples.len() - 1] >> 20);
        }
    }
    samples
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_jobs_pass_beside_hostile_peers_and_memory_stays_flat() {
    let secs = soak_secs();
    let mut builder = PoolBuilder::default();
    for _ in 0..2 {
        builder = builder.worker(&["--slots", "10"]);
    }
    let pool = builder.start();
    let honest = Arc::<Honest>::default();
    let yardstick = std::thread::spawn({
        let honest = honest.clone();
        move || echo(&honest)
    });
    let only = ["--only-worker", "w0", "--only-worker", "w1"];
    let tokens: Vec<String> =
        (0..HONEST).map(|n| token(&pool, "submit", &format!("honest-{n}"), &only)).collect();
    let mut jobs = tokio::task::JoinSet::new();
    for number in 0..JOBS {
        jobs.spawn(honest_jobs(honest.clone(), pool.address(), tokens[number % HONEST].clone()));
    }
    let quiet = sample(&pool, Duration::from_secs((secs / 4).min(60)), false).await;
    let hostile = tokio::task::block_in_place(|| Hostile::start(&pool));
    honest.is_attacked.store(true, Ordering::Relaxed);
    let attacked = sample(&pool, Duration::from_secs(secs), secs > 60).await;
    honest.is_over.store(true, Ordering::Relaxed);
    let attacks = tokio::task::block_in_place(|| hostile.end());
    while jobs.join_next().await.is_some() {}
    yardstick.join().unwrap();
    report(&pool, &honest, (&quiet, &attacked), &attacks);
}

/// Prints the figures and checks them.
fn report(pool: &Pool, honest: &Honest, (quiet, attacked): (&[u64], &[u64]), attacks: &Attacks) {
    let (calm, busy) = (honest.quiet.lock().unwrap(), honest.attacked.lock().unwrap());
    let failures = honest.failures.lock().unwrap();
    let settled = attacked[(attacked.len() as f64 * SETTLED) as usize];
    let last = attacked[attacked.len() - 1];
    eprintln!("{PEERS} hostile peers, {} s: {attacks:?}", attacked.len());
    for (name, times) in [("quiet", &calm), ("attacked", &busy)] {
        eprintln!("submit {name}: p50 {:?}, longest {:?}", times.part(50), times.part(100));
    }
    let echoes = [honest.quiet_echo.lock().unwrap().part(99), honest.attacked_echo.lock().unwrap().part(99)];
    eprintln!(
        "yardstick: p99 of an exchange between two idle threads {:?} quiet, {:?} attacked, ratio {:.1}",
        echoes[0],
        echoes[1],
        echoes[1].as_secs_f64() / echoes[0].as_secs_f64()
    );
    let (quiet_p99, busy_p99) = (calm.part(99), busy.part(99));
    let ratio = busy_p99.as_secs_f64() / quiet_p99.as_secs_f64();
    eprintln!(
        "soak: {} s, {} honest jobs passed, {} failed; p99 of a submit {:.1} ms quiet, {:.1} ms attacked, ratio {ratio:.1}; memory {} MiB quiet, {} MiB settled, {} MiB at the end, {} MiB peak",
        attacked.len(),
        calm.0.len() + busy.0.len(),
        failures.len(),
        quiet_p99.as_secs_f64() * 1e3,
        busy_p99.as_secs_f64() * 1e3,
        quiet.last().copied().unwrap_or_default() >> 20,
        settled >> 20,
        last >> 20,
        status_bytes(pool.coordinator_pid(), "VmHWM").unwrap() >> 20,
    );
    assert!(failures.is_empty(), "{} honest jobs failed, the first with: {}", failures.len(), failures[0]);
    assert!(attacks.values().sum::<u64>() > 1_000, "the attack did not begin: {attacks:?}");
    assert!(last < MEMORY_BYTES_MAX, "the coordinator has {last} bytes of memory");
    if attacked.len() >= LONG_SECS {
        assert!(attacks.values().all(|count| *count > 0), "an attack did not begin: {attacks:?}");
        assert!(last < settled + GROWTH_BYTES_MAX, "memory grows: from {settled} to {last} bytes");
        let limit = (quiet_p99 * SLOWER_MAX).max(FAST);
        assert!(busy_p99 < limit, "the p99 of a submit is {busy_p99:?}, the limit {limit:?}");
    }
    assert_eq!(pool.buildpool(&["jobs", "--limit", "1"]).code(), 0);
}
