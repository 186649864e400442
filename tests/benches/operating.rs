//! Benchmarks for operators of a pool: `cargo bench -p buildpool-tests --bench operating [NAME…]`.
//!
//! Names: `fair`, `revoke`, `soak`. `BUILDPOOL_SOAK_SECS` sets the duration of `soak` (60 s), `BUILDPOOL_SOAK_RATE` its
//! jobs a second (200).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod runner;

use buildpool_client::{Client, JobEvent};
use buildpool_protocol::client_link::{Role, SubmitMessage};
use buildpool_protocol::report::JobResult;
use buildpool_tests::usage::{processor_secs, usage};
use buildpool_tests::{Pool, number_from_env};
use futures_util::{FutureExt, StreamExt};
use runner::{connect, message, run};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

fn main() {
    runner::run_wanted(&[("fair", fair), ("revoke", revoke), ("soak", soak)]);
}

/// Measures the queue time of one job of B behind 10,000 jobs of A. Baseline: the run time of one
/// of A's jobs.
fn fair(runtime: &tokio::runtime::Runtime) {
    const JOBS: usize = 10_000;
    const EACH: Duration = Duration::from_millis(200);
    let pool = Pool::start(1);
    runtime.block_on(async {
        let admin = connect(&pool, pool.token()).await;
        let (a, b) = (bearer(&pool, &admin, "a").await, bearer(&pool, &admin, "b").await);
        for _ in 0..JOBS {
            let mut events = a.submit(SubmitMessage { wait: false, ..message(&["/bin/sleep", "0.2"]) }).await.expect("submitted");
            assert!(matches!(events.next().await, Some(JobEvent::Accepted { .. })));
        }
        let mut waits = Vec::new();
        for _ in 0..100 {
            let began = Instant::now();
            run(&b, &["/bin/true"]).await;
            waits.push(began.elapsed());
        }
        waits.sort_unstable();
        println!(
            "fair      B's job behind {JOBS} of A   p50 {:>9.3?}  p99 {:>9.3?}  longest {:>9.3?}; a slot turns over in {EACH:?}",
            waits[waits.len() / 2],
            waits[waits.len() * 99 / 100],
            waits[waits.len() - 1]
        );
    });
}

/// Measures the time from a revocation request until the client with that token, which follows a
/// job, is disconnected.
fn revoke(runtime: &tokio::runtime::Runtime) {
    let pool = Pool::start(1);
    runtime.block_on(async {
        let admin = connect(&pool, pool.token()).await;
        let mut took = Vec::new();
        for round in 0..50 {
            let name = format!("b{round}");
            let client = bearer(&pool, &admin, &name).await;
            let mut events = client.submit(message(&["/bin/sleep", "600"])).await.expect("submitted");
            let Some(JobEvent::Accepted { job, .. }) = events.next().await else {
                panic!("it was not accepted");
            };
            let began = Instant::now();
            admin.token_revoke(&name, true).await.expect("revoked");
            while !matches!(events.next().await, Some(JobEvent::Failed(_)) | None) {}
            took.push(began.elapsed());
            admin.cancel(&job.to_string(), "measured").await.expect("cancelled");
        }
        took.sort_unstable();
        println!(
            "revoke    until its bearer is cut off      p50 {:>9.3?}  longest {:>9.3?}",
            took[took.len() / 2],
            took[took.len() - 1]
        );
    });
}

/// Returns a client with its own token.
async fn bearer(pool: &Pool, admin: &Client, name: &str) -> Client {
    let created = admin.token_create(Role::Submit, name, None).await.expect("created");
    connect(pool, &created.token).await
}

/// Jobs of a soak that may be open at a time.
const SOAK_OPEN_MAX: usize = 1_000;

/// Submits jobs at a constant rate. Prints memory, open files and processor time each tenth of the run (at least 1 s, at most
/// 60 s apart).
fn soak(runtime: &tokio::runtime::Runtime) {
    let secs = number_from_env("BUILDPOOL_SOAK_SECS").unwrap_or(60);
    let rate = number_from_env("BUILDPOOL_SOAK_RATE").unwrap_or(200_u32).max(1);
    let pool = Pool::start(1);
    runtime.block_on(async {
        let client = connect(&pool, pool.token()).await;
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        // A loop that was late catches up, so that the average rate is the requested one.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let each = Duration::from_secs(secs / 10).clamp(Duration::from_secs(1), Duration::from_secs(60));
        let began = Instant::now();
        let (mut shown, mut done) = (Duration::ZERO, 0_u64);
        let mut open = futures_util::stream::FuturesUnordered::new();
        while began.elapsed() < Duration::from_secs(secs) {
            ticks.tick().await;
            open.push(run(&client, &["/bin/true"]));
            loop {
                let ended: Option<JobResult> = match open.len() {
                    SOAK_OPEN_MAX.. => open.next().await,
                    _ => open.next().now_or_never().flatten(),
                };
                let Some(result) = ended else { break };
                assert_eq!(result.exit_code, Some(0));
                done += 1;
            }
            if began.elapsed() >= shown + each {
                shown = began.elapsed();
                let (coordinator, others) = usage(&pool);
                println!(
                    "soak      {:>5} s  {done:>8} jobs, {:>3} open  coordinator {:>6.1} MiB, {:>3} descriptors  worker and keepers {:>6.1} MiB, {:>3} descriptors  {:>6.1} CPU-s",
                    shown.as_secs(),
                    open.len(),
                    coordinator.memory,
                    coordinator.descriptors,
                    others.memory,
                    others.descriptors,
                    processor_secs(&pool)
                );
            }
        }
        while let Some(result) = open.next().await {
            assert_eq!(result.exit_code, Some(0));
        }
    });
}
