//! Benchmarks for operators of a pool: `cargo bench -p buildpool-tests --bench operating [fair]
//! [revoke]`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod runner;

use buildpool_client::{Client, JobEvent};
use buildpool_protocol::client_link::{Role, SubmitMessage};
use buildpool_tests::Pool;
use runner::{connect, message, run};
use std::time::{Duration, Instant};

fn main() {
    runner::run_wanted(&[("fair", fair), ("revoke", revoke)]);
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
