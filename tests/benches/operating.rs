//! Figures for whoever runs a pool: `cargo bench -p buildpool-tests --bench operating [fair] [revoke]`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use buildpool_gateway::client::{AccessToken, Client, Endpoint, JobEvent, Target, new_job_id};
use buildpool_protocol::client_link::{Role, SubmitMessage};
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_tests::Pool;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

type Bench = fn(&tokio::runtime::Runtime);

fn main() {
    let benches: [(&str, Bench); 2] = [("fair", fair), ("revoke", revoke)];
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench(&runtime);
        }
    }
}

/// What B waits for one job behind 10,000 of A's, beside how long a slot is taken by one of those.
fn fair(runtime: &tokio::runtime::Runtime) {
    const JOBS: usize = 10_000;
    const EACH: Duration = Duration::from_millis(200);
    let pool = Pool::start(1);
    runtime.block_on(async {
        let admin = connect(&pool, pool.token()).await;
        let (a, b) = (bearer(&pool, &admin, "a").await, bearer(&pool, &admin, "b").await);
        for _ in 0..JOBS {
            let mut events = a.submit(message("/bin/sleep 0.2", false)).await.expect("submitted");
            assert!(matches!(events.next().await, Some(JobEvent::Accepted { .. })));
        }
        let mut waits = Vec::new();
        for _ in 0..100 {
            let began = Instant::now();
            let mut events = b.submit(message("/bin/true", true)).await.expect("submitted");
            loop {
                match events.next().await.expect("an end") {
                    JobEvent::Complete(_) => break,
                    JobEvent::Failed(error) => panic!("{error}"),
                    _ => {}
                }
            }
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

/// From asking for a revocation to the moment when its bearer, who follows a job, knows.
fn revoke(runtime: &tokio::runtime::Runtime) {
    let pool = Pool::start(1);
    runtime.block_on(async {
        let admin = connect(&pool, pool.token()).await;
        let mut took = Vec::new();
        for round in 0..50 {
            let name = format!("b{round}");
            let client = bearer(&pool, &admin, &name).await;
            let mut events = client.submit(message("/bin/sleep 600", true)).await.expect("submitted");
            let Some(JobEvent::Accepted { job, .. }) = events.next().await else {
                panic!("it was not accepted");
            };
            let began = Instant::now();
            admin.token_revoke(&name).await.expect("revoked");
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

async fn connect(pool: &Pool, token: &str) -> Client {
    let token: AccessToken = token.parse().expect("a token");
    let endpoint = Endpoint::new(pool.url().parse().expect("a URL"), Some(token));
    Client::connect(Target::Named(endpoint), "operating").await.expect("connected")
}

/// A client with a token of its own.
async fn bearer(pool: &Pool, admin: &Client, name: &str) -> Client {
    let created = admin.token_create(Role::Submit, name, None).await.expect("created");
    connect(pool, &created.token).await
}

fn message(command: &str, wait: bool) -> SubmitMessage {
    let argv = command.split(' ').map(str::to_owned).collect();
    SubmitMessage {
        job: new_job_id(),
        spec: JobSpec::new(Command::Argv(argv), Source::Empty),
        client_request_id: None,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot: None,
        wait,
        follow: false,
        progress: false,
    }
}
