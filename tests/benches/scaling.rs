//! Benchmarks of several coordinators: `cargo bench -p buildpool-tests --bench scaling [NAME…]`.
//!
//! Names: `latency` (PostgreSQL against SQLite), `many` (10,000 jobs on each), `log` (a log to S3 against a directory),
//! `workers` (10 to 10,000 connected workers, or as many as the limit on open files allows). Each alternates between the compared pools, so the ratios also hold on a busy
//! machine and in a debug build. `BUILDPOOL_JOBS`, `BUILDPOOL_LOG_MIB` and `BUILDPOOL_WORKERS` make them smaller.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod runner;
mod simulated;

use buildpool_client::Client;
use buildpool_protocol::report::JobResult;
use buildpool_test_postgres::Postgres;
use buildpool_test_s3::S3;
use buildpool_tests::{Cluster, Pool, PoolBuilder};
use futures_util::StreamExt;
use runner::{connect, run};
use simulated::{Simulated, WORKERS_OF_TOKEN, worker_tokens};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

fn main() {
    runner::run_wanted(&[("latency", latency), ("many", many), ("log", log), ("workers", workers)]);
}

/// Workers that join before all connected ones report.
const JOIN_AT_ONCE: usize = 500;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Starts a pool whose coordinator uses PostgreSQL. The server syncs each commit to the disk, as SQLite does.
fn on_postgres(workers: usize) -> Option<(Postgres, Cluster)> {
    let postgres = Postgres::start_durable()?;
    let database = postgres.database();
    Some((postgres, Cluster::start(&[database], workers)))
}

/// Measures submit to result of `true` through a connected client.
fn latency(runtime: &Runtime) {
    let Some((_postgres, cluster)) = on_postgres(1) else { return };
    let local = Pool::start(1);
    let clients = [&cluster.pool, &local].map(|pool| runtime.block_on(connect(pool, pool.token())));
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..number("BUILDPOOL_ROUNDS", 550) {
        for (client, took) in clients.iter().zip(&mut took) {
            let began = Instant::now();
            let result = runtime.block_on(run(client, &["/bin/true"]));
            assert_eq!(result.exit_code, Some(0));
            if round >= 50 {
                took.push(began.elapsed());
            }
        }
    }
    let [server, file] = took.map(|mut series| {
        series.sort_unstable();
        (series[series.len() / 2], series[series.len() * 99 / 100])
    });
    println!("latency   true, PostgreSQL             p50 {:>9.3?}  p99 {:>9.3?}", server.0, server.1);
    println!("latency   true, SQLite                 p50 {:>9.3?}  p99 {:>9.3?}", file.0, file.1);
    println!(
        "latency   ratio                        p50 {:>6.2} x   p99 {:>6.2} x",
        server.0.as_secs_f64() / file.0.as_secs_f64(),
        server.1.as_secs_f64() / file.1.as_secs_f64()
    );
}

/// Measures jobs of simulated workers, which end each job at once. So the coordinator is the limit.
fn many(runtime: &Runtime) {
    let jobs = number("BUILDPOOL_JOBS", 10_000);
    let Some((_postgres, cluster)) = on_postgres(0) else { return };
    let local = PoolBuilder::default().start();
    let places = [(&cluster.pool, cluster.pid(0), "PostgreSQL"), (&local, local.coordinator_pid(), "SQLite")];
    let clients = places.map(|(pool, ..)| runtime.block_on(connect(pool, pool.token())));
    let mut workers = JoinSet::new();
    for (pool, ..) in &places {
        for number in 0..10 {
            let worker = Simulated::new(pool.url(), pool.worker_token(), number);
            workers.spawn_on(worker.work(), runtime.handle());
        }
    }
    const TURNS: usize = 10;
    let mut total = [(Duration::ZERO, 0.0), (Duration::ZERO, 0.0)];
    for _ in 0..TURNS {
        for ((client, (_, pid, _)), total) in clients.iter().zip(&places).zip(&mut total) {
            let (began, before) = (Instant::now(), processor_secs(*pid));
            runtime.block_on(run_many(client, jobs / TURNS));
            total.0 += began.elapsed();
            total.1 += processor_secs(*pid) - before;
        }
    }
    // Before the pools end: a worker fails if it loses its connection.
    runtime.block_on(workers.shutdown());
    for ((_, _, name), (took, processor)) in places.iter().zip(&total) {
        println!(
            "many      {jobs} jobs, {name:<18} {:>7.0} grants a second, {:>6.0} us of the leader's processor time a job",
            jobs as f64 / took.as_secs_f64(),
            processor * 1e6 / jobs as f64
        );
    }
    println!(
        "many      ratio                        elapsed {:.2} x, processor time {:.2} x",
        total[0].0.as_secs_f64() / total[1].0.as_secs_f64(),
        total[0].1 / total[1].1
    );
}

async fn run_many(client: &Client, jobs: usize) {
    let mut open = futures_util::stream::FuturesUnordered::new();
    for _ in 0..jobs {
        if open.len() >= 100 {
            let result: Option<JobResult> = open.next().await;
            assert_eq!(result.and_then(|result| result.exit_code), Some(0));
        }
        open.push(run(client, &["/bin/true"]));
    }
    while let Some(result) = open.next().await {
        assert_eq!(result.exit_code, Some(0));
    }
}

/// Measures a log from its process until its job is done: with the log in a bucket, and in a shared directory.
/// Yardstick of the bucket: the same bytes in parts of 8 MiB, four at a time, over bare sockets.
fn log(runtime: &Runtime) {
    // A log with its headers has at most 1 GiB by default.
    let mib = number("BUILDPOOL_LOG_MIB", 1_000);
    let (Some(postgres), Some(server)) = (Postgres::start(), S3::start()) else { return };
    let objects = format!("s3://{}/pool", server.bucket());
    let bucket = Cluster::start_on_bucket(&[postgres.database()], (&objects, server.environment()), "");
    let directory = Cluster::start(&[postgres.database()], 1);
    let local = Pool::start(1);
    let places = [
        (&bucket.pool, bucket.pid(0), "S3"),
        (&directory.pool, directory.pid(0), "shared directory"),
        (&local, local.coordinator_pid(), "SQLite, data directory"),
    ];
    let clients = places.map(|(pool, ..)| runtime.block_on(connect(pool, pool.token())));
    let script =
        format!("yes 'CompileC Objects-normal/arm64/Module.o Sources/Module/File.c' | head -c {mib}M");
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    let mut bare = Vec::new();
    for round in 0..3 {
        for ((client, (_, pid, name)), took) in clients.iter().zip(&places).zip(&mut took) {
            let (began, before) = (Instant::now(), processor_secs(*pid));
            let result = runtime.block_on(run(client, &["/bin/sh", "-c", &script]));
            assert_eq!(result.exit_code, Some(0));
            let elapsed = began.elapsed();
            println!(
                "log       round {round}, {mib} MiB, {name:<22} {:>6.1} MB/s, {:.1} CPU-s in the coordinator, {:.0} MiB resident at most",
                megabytes(mib, elapsed),
                processor_secs(*pid) - before,
                status_of(*pid, "VmHWM") / 1024.0
            );
            took.push(elapsed);
        }
        bare.push(put_bare(&server, mib));
        println!(
            "log       round {round}, {mib} MiB, bare parts to S3       {:>6.1} MB/s",
            megabytes(mib, bare[round])
        );
    }
    let median = |series: &mut Vec<Duration>| {
        series.sort_unstable();
        series[series.len() / 2].as_secs_f64()
    };
    let bare = median(&mut bare);
    let [s3, shared, file] = took.each_mut().map(median);
    println!(
        "log       ratio of medians             S3 {:.2} x of the data directory, shared directory {:.2} x; the bare parts alone {:.2} x",
        s3 / file,
        shared / file,
        bare / file
    );
}

fn megabytes(mib: usize, took: Duration) -> f64 {
    mib as f64 * 1.048_576 / took.as_secs_f64()
}

/// Stores bytes in parts of 8 MiB, four at a time.
fn put_bare(server: &S3, mib: usize) -> Duration {
    let (bucket, port) = (server.bucket(), server.port());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bucket = &bucket;
            scope.spawn(move || {
                let part = vec![b'x'; 8 << 20];
                for number in (thread..mib.div_ceil(8)).step_by(4) {
                    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
                    let head = format!(
                        "PUT /{bucket}/part{number} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: AWS4-HMAC-SHA256 Credential=pool/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: {}\r\n\r\n",
                        part.len()
                    );
                    stream.write_all(head.as_bytes()).expect("sent");
                    stream.write_all(&part).expect("sent");
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).expect("an answer");
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                }
            });
        }
    });
    began.elapsed()
}

/// Measures connected workers over real sockets: memory of each, processor time of a report, and of a silent connection.
fn workers(runtime: &Runtime) {
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("a limit");
    let _raised =
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit.1, limit.1);
    let Some((_postgres, cluster)) = on_postgres(0) else { return };
    let (pool, pid) = (&cluster.pool, cluster.pid(0));
    // The coordinator uses half of its open files for links, and a token leaves as many free as it has.
    let links_max = usize::try_from(limit.1 / 2).unwrap_or(usize::MAX).saturating_sub(WORKERS_OF_TOKEN);
    let most = number("BUILDPOOL_WORKERS", 10_000).min(links_max);
    let tokens = worker_tokens(pool, most);
    let start = status_of(pid, "VmRSS");
    let mut connected: Vec<Simulated> = Vec::new();
    let mut counts = [10, 100, 1_000, 10_000].map(|count| count.min(most)).to_vec();
    counts.dedup();
    for count in counts {
        let (before, mut joining) = (connected.len(), 0.0);
        while connected.len() < count {
            let began = processor_secs(pid);
            runtime.block_on(async {
                for number in connected.len()..count.min(connected.len() + JOIN_AT_ONCE) {
                    let token = &tokens[number / WORKERS_OF_TOKEN];
                    let mut worker = Simulated::new(pool.url(), token, number);
                    worker.connect().await;
                    connected.push(worker);
                }
            });
            joining += processor_secs(pid) - began;
            // A silent worker would lose its connection before all have joined.
            runtime.block_on(report_all(&mut connected));
        }
        let joining = joining * 1e6 / (count - before) as f64;
        // At least 2,000 reports, one worker after another.
        let rounds = 2_000_usize.div_ceil(count);
        let before = processor_secs(pid);
        runtime.block_on(async {
            for _ in 0..rounds {
                report_all(&mut connected).await;
            }
        });
        let report = (processor_secs(pid) - before) * 1e6 / (rounds * count) as f64;
        println!(
            "workers   {count:>6} connected            {:>7.1} KiB each, {joining:>6.0} us to join, {report:>6.0} us a report (one each 10 s: {:.2} % of a processor in all)",
            (status_of(pid, "VmRSS") - start) / count as f64,
            report * count as f64 / 10.0 / 1e4
        );
    }
}

async fn report_all(workers: &mut [Simulated]) {
    for worker in workers {
        worker.report().await;
    }
}

/// Returns the processor seconds of all threads of a process, with the kernel's nanoseconds.
fn processor_secs(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

/// Returns a field of the status of a process, in KiB.
fn status_of(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        line.strip_prefix(field)?.strip_prefix(':')?.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    });
    kib.unwrap_or_default()
}
