//! Benchmarks of several coordinators, and of one with many peers: `cargo bench -p buildpool-tests --bench scaling [NAME…]`.
//!
//! Names: `latency` (PostgreSQL against SQLite), `many` (10,000 jobs on each), `log` (a log to S3 against a directory),
//! `workers` (10 to 10,000 connected workers, or as many as the limit on open files allows), `queue` (100 to 75,000 queued
//! jobs), `followers` (1 to 1,000 readers of one log). The first three alternate between the compared pools, so the ratios
//! also hold on a busy machine and in a debug build. The last three use one coordinator with SQLite or PostgreSQL, and print
//! one figure for each size. `BUILDPOOL_JOBS`, `BUILDPOOL_LOG_MIB`, `BUILDPOOL_WORKERS`, `BUILDPOOL_QUEUED` and
//! `BUILDPOOL_FOLLOWERS` make them smaller.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod runner;
mod simulated;

use buildpool_client::{Client, FollowQuery, JobEvent, JobEvents};
use buildpool_protocol::client_link::{StreamChoice, SubmitMessage, View};
use buildpool_protocol::report::JobResult;
use buildpool_test_postgres::Postgres;
use buildpool_test_s3::S3;
use buildpool_tests::usage::status_mib;
use buildpool_tests::{Cluster, Pool, PoolBuilder, number_from_env};
use futures_util::StreamExt;
use runner::{connect, message, run};
use simulated::{Simulated, WORKERS_OF_TOKEN, worker_tokens};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

fn main() {
    runner::run_wanted(&[
        ("latency", latency),
        ("many", many),
        ("log", log),
        ("workers", workers),
        ("queue", queue),
        ("followers", followers),
    ]);
}

/// Workers that join before all connected ones report.
const JOIN_AT_ONCE: usize = 500;

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
    for round in 0..number_from_env("BUILDPOOL_ROUNDS").unwrap_or(550) {
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
    let jobs = number_from_env("BUILDPOOL_JOBS").unwrap_or(10_000);
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
    let mib = number_from_env("BUILDPOOL_LOG_MIB").unwrap_or(1_000_usize);
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
                status_mib(*pid, "VmHWM")
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
    let most = number_from_env("BUILDPOOL_WORKERS").unwrap_or(10_000).min(links_max);
    let tokens = worker_tokens(pool, most);
    let start = status_mib(pid, "VmRSS");
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
            (status_mib(pid, "VmRSS") - start) * 1024.0 / count as f64,
            report * count as f64 / 10.0 / 1e4
        );
    }
}

/// Measures jobs of simulated workers while so many other jobs wait behind them.
fn queue(runtime: &Runtime) {
    // Enough for a processor time in milliseconds, and few beside the queue.
    const MEASURED: usize = 2_000;
    // One submitter may have half of the bytes of all live jobs, which is enough for 79,000 of these.
    const MOST: usize = 75_000;
    let most = number_from_env("BUILDPOOL_QUEUED").unwrap_or(MOST);
    let pool = PoolBuilder::default().start();
    let pid = pool.coordinator_pid();
    let client = runtime.block_on(connect(&pool, pool.token()));
    let mut counts = [100, 1_000, 10_000, MOST].map(|count| count.min(most)).to_vec();
    counts.dedup();
    // The pool rejects jobs that none of its workers could run.
    runtime.block_on(Simulated::new(pool.url(), pool.worker_token(), counts.len()).connect());
    let mut queued = 0;
    for (number, count) in counts.into_iter().enumerate() {
        // No worker is connected yet, so all of them wait.
        let began = processor_secs(pid);
        let added = count - queued;
        runtime.block_on(submit_behind(&client, added));
        let submit = (processor_secs(pid) - began) * 1e6 / added.max(1) as f64;
        let worker = Simulated::new(pool.url(), pool.worker_token(), number);
        let working = runtime.spawn(worker.work());
        let (began, before) = (Instant::now(), processor_secs(pid));
        runtime.block_on(async {
            let mut open = futures_util::stream::FuturesUnordered::new();
            for _ in 0..MEASURED {
                if open.len() >= 100 {
                    open.next().await;
                }
                open.push(run_first(&client));
            }
            while open.next().await.is_some() {}
        });
        let (took, processor) = (began.elapsed(), processor_secs(pid) - before);
        working.abort();
        // The worker also ran some of those that waited.
        queued = runtime.block_on(waiting_jobs(&client, count));
        println!(
            "queue     {count:>7} queued                {:>6.0} us of processor time a job, {:>6.0} us elapsed, {submit:>6.0} us a submit, {:.0} MiB resident",
            processor * 1e6 / MEASURED as f64,
            took.as_secs_f64() * 1e6 / MEASURED as f64,
            status_mib(pid, "VmRSS")
        );
    }
}

/// Submits jobs that run after all others, and waits until they are accepted.
async fn submit_behind(client: &Client, jobs: usize) {
    let submit = async || {
        let mut submit = SubmitMessage { wait: false, ..message(&["/bin/true"]) };
        submit.spec.priority = -1;
        let mut events = client.submit(submit).await.expect("submitted");
        match events.next().await {
            Some(JobEvent::Accepted { .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    let mut open = futures_util::stream::FuturesUnordered::new();
    for _ in 0..jobs {
        if open.len() >= 200 {
            open.next().await;
        }
        open.push(submit());
    }
    while open.next().await.is_some() {}
}

/// Runs a job before those of [`submit_behind`].
async fn run_first(client: &Client) {
    let mut submit = message(&["/bin/true"]);
    submit.spec.priority = 1;
    let mut events = client.submit(submit).await.expect("submitted");
    loop {
        match events.next().await.expect("an end") {
            JobEvent::Complete(result) => return assert_eq!(result.exit_code, Some(0)),
            JobEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Returns the number of waiting jobs, at most this many.
async fn waiting_jobs(client: &Client, most: usize) -> usize {
    let mut submit = SubmitMessage { wait: false, ..message(&["/bin/true"]) };
    submit.spec.priority = -2;
    let job = submit.job.to_string();
    let _events = client.submit(submit).await.expect("submitted");
    // The last one in the queue has the number of those before it.
    let last = client.job(&job, View::default(), Duration::ZERO).await.expect("a job");
    let position = last.waiting.and_then(|waiting| waiting.position).unwrap_or(0);
    usize::try_from(position).unwrap_or(usize::MAX).min(most)
}

/// Measures one log with 1 to 1,000 readers that follow it while it grows. Each size sends about as many bytes.
fn followers(runtime: &Runtime) {
    const BYTES: usize = 4 << 20;
    let most = number_from_env("BUILDPOOL_FOLLOWERS").unwrap_or(1_000_usize);
    let pool = Pool::start(1);
    let pid = pool.coordinator_pid();
    let mut counts = [1, 10, 100, 1_000].map(|count| count.min(most)).to_vec();
    counts.dedup();
    let line = "CompileC Objects-normal/arm64/Module.o Sources/Module/File.c\n";
    let text = line.repeat(BYTES / line.len());
    let clients: Vec<Client> = runtime.block_on(async {
        let mut clients = Vec::new();
        // One after another: the coordinator limits the connections that have not shown their token yet.
        for _ in 0..most {
            clients.push(connect(&pool, pool.token()).await);
        }
        clients
    });
    for count in counts {
        let rounds = most.div_ceil(count).min(100);
        let (mut took, mut processor) = (Duration::ZERO, 0.0);
        for _ in 0..rounds {
            let pipe = pool.place().file("followed");
            nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
            let (bytes, elapsed, used) = runtime.block_on(async {
                let submit = message(&["cat", &pipe.to_string_lossy()]);
                let job = submit.job.to_string();
                let mut running = clients[0].submit(submit).await.expect("submitted");
                // The command reads from now on.
                let mut log = tokio::fs::OpenOptions::new().write(true).open(&pipe).await.expect("a reader");
                let begun: Vec<_> =
                    clients[..count].iter().map(|client| begin_follow(client, &job)).collect();
                tokio::io::AsyncWriteExt::write_all(&mut log, b"begin\n").await.expect("written");
                let begun = futures_util::future::join_all(begun).await;
                let (began, before) = (Instant::now(), processor_secs(pid));
                tokio::io::AsyncWriteExt::write_all(&mut log, text.as_bytes()).await.expect("written");
                tokio::io::AsyncWriteExt::shutdown(&mut log).await.expect("written");
                drop(log);
                let read = futures_util::future::join_all(begun.into_iter().map(read_rest)).await;
                let result = (read.iter().sum::<usize>(), began.elapsed(), processor_secs(pid) - before);
                while running.next().await.is_some() {}
                result
            });
            assert_eq!(bytes, count * text.len());
            std::fs::remove_file(&pipe).expect("removed");
            took += elapsed;
            processor += used;
        }
        let mebibytes = (rounds * count * text.len()) as f64 / f64::from(1 << 20);
        println!(
            "followers {count:>7} of one log            {:>7.1} ms of processor time a MiB and reader, {:>6.0} MB/s to all, {:.0} MiB resident",
            processor * 1e3 / mebibytes,
            mebibytes * 1.048_576 / took.as_secs_f64(),
            status_mib(pid, "VmRSS")
        );
    }
}

/// Follows a log, and waits for its first bytes.
async fn begin_follow(client: &Client, job: &str) -> JobEvents {
    let query = FollowQuery {
        job: job.to_owned(),
        cursor: None,
        attempt: None,
        to_end: false,
        tail: None,
        stream: StreamChoice::Both,
    };
    let mut events = client.follow(query).await.expect("followed");
    while !matches!(events.next().await.expect("a log"), JobEvent::Output(_)) {}
    events
}

/// Reads a log to its end, and returns its bytes.
async fn read_rest(mut events: JobEvents) -> usize {
    let mut bytes = 0;
    while let Some(event) = events.next().await {
        match event {
            JobEvent::Output(output) => {
                bytes += output.chunks.iter().map(|chunk| chunk.data().len()).sum::<usize>();
            }
            JobEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    bytes
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
