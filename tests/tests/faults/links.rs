//! Tests of interrupted, half-open and slow links, through a proxy.

use buildpool_client::{Client, Endpoint, JobEvent, Target, new_job_id};
use buildpool_protocol::client_link::{SubmitMessage, View};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_tests::{Direction, Flow, Pool, Proxy, Workload, wait_for, wait_until};
use std::time::Duration;

/// Starts a pool with workers that each connect through their own proxy.
fn proxied(workers: usize) -> (Pool, Vec<Proxy>) {
    let mut pool = Pool::start(0);
    let proxies: Vec<_> = (0..workers).map(|_| Proxy::start(pool.address())).collect();
    for proxy in &proxies {
        pool.add_worker_through(&proxy.url(), vec!["--slots".into(), "2".into()]);
    }
    pool.wait_for_workers();
    (pool, proxies)
}

#[test]
fn a_link_that_is_reset_in_the_middle_of_messages_costs_no_byte() {
    let (pool, proxies) = proxied(1);
    let mut workload = Workload::new(&pool);
    proxies[0].reset_after(60_000);
    for _ in 0..2 {
        workload.submit(&pool, 250_000, Duration::from_millis(500), &[]);
    }
    wait_until("the link was reset many times", || proxies[0].resets() >= 8);
    proxies[0].heal();
    workload.wait(&pool);
    workload.check(&pool);
    assert!(workload.jobs().iter().all(|job| job.starts() == ["1"]));
}

#[test]
fn what_the_coordinator_said_last_is_lost_and_nothing_comes_twice() {
    let (pool, proxies) = proxied(1);
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 300_000, Duration::from_secs(1), &[]);
    job.wait_for_bytes(50_000);
    proxies[0].set(Direction::Down, Flow::Hold);
    job.wait_for_bytes(250_000);
    proxies[0].half_open(Direction::Down);
    proxies[0].reset();
    proxies[0].heal();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn a_worker_that_can_not_be_reached_works_on_and_the_pool_says_so() {
    let (pool, proxies) = proxied(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, 100_000, Duration::from_secs(1), &[]);
    job.wait_for_start();
    proxies[0].refuse();
    wait_until("the pool notices", || pool.job(&job.id)["connected"] == false);
    workload.release();
    wait_until("the job ends by itself", || job.has_finished());
    assert_eq!(pool.job(&job.id)["state"], "running", "only known facts are reported");
    proxies[0].heal();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn half_open_links_are_noticed_from_either_side_and_replaced() {
    let (pool, proxies) = proxied(2);
    let mut workload = Workload::new(&pool);
    workload.hold();
    for _ in 0..4 {
        workload.submit(&pool, 200_000, Duration::from_secs(2), &[]);
    }
    wait_until("all jobs run", || workload.running().len() == 4);
    proxies[0].half_open(Direction::Up);
    proxies[1].half_open(Direction::Down);
    wait_until("both workers dial again", || proxies.iter().all(|proxy| proxy.connections() >= 2));
    workload.wait(&pool);
    workload.check(&pool);
    assert!(workload.jobs().iter().all(|job| job.starts() == ["1"]));
    let connections: u64 = proxies.iter().map(Proxy::connections).sum();
    assert!(connections <= 6, "the workers flap: {connections} connections");
}

#[test]
fn a_link_of_one_byte_at_a_time_loses_nothing() {
    let (pool, proxies) = proxied(1);
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 100_000, Duration::from_secs(1), &[]);
    job.wait_for_start();
    for direction in [Direction::Up, Direction::Down] {
        proxies[0].set(direction, Flow::Trickle(Duration::from_secs(1)));
    }
    wait_until("the job ends by itself", || job.has_finished());
    proxies[0].set(Direction::Up, Flow::Delay(Duration::from_millis(20)));
    proxies[0].set(Direction::Down, Flow::Delay(Duration::from_millis(150)));
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

/// Length of a line in bytes, with its end. It is much longer than usual, because the pool's cost
/// depends on lines and this test is about bytes.
const LINE_BYTES: usize = 2_000;
/// Several times the output window.
const LINES: usize = 14_000;

#[test]
fn a_job_is_cancelled_while_its_output_waits_on_a_slow_link() {
    let (pool, proxies) = proxied(1);
    proxies[0].set(Direction::Up, Flow::Delay(Duration::from_millis(150)));
    let line = "x".repeat(LINE_BYTES - 1);
    let text = format!("yes {line} | head -n {LINES}; exec sleep 600");
    let id = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]);
    let id = id.expect(0).out().trim().to_owned();
    wait_until("output comes", || proxies[0].bytes(Direction::Up) > 500_000);
    pool.buildpool(&["cancel", &id]).expect(0);
    wait_until("the processes are gone", || buildpool_tests::processes_of(&id).is_empty());
    proxies[0].heal();
    let job = pool.wait_for_state(&id, "done");
    assert_eq!(job["verdict"], "cancelled", "{job:#}");
    let log = pool.buildpool(&["logs", &id]).expect(0).stdout;
    let line = format!("{line}\n").into_bytes();
    assert!(
        log.len() > 500_000 && log.chunks(LINE_BYTES).all(|got| got == &line[..got.len()]),
        "whole and in order"
    );
}

/// Returns a client in this process that connects through a proxy, and its runtime.
fn client(pool: &Pool, proxy: &Proxy) -> (tokio::runtime::Runtime, Client) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let token = pool.token();
    let endpoint = Endpoint::new(proxy.url().parse().unwrap(), Some(token.parse().unwrap()));
    let client = runtime.block_on(Client::connect(Target::Named(endpoint), "test")).unwrap();
    (runtime, client)
}

#[test]
fn an_answer_that_is_lost_after_its_commit_is_asked_for_again_and_nothing_happens_twice() {
    let pool = Pool::start(1);
    let proxy = Proxy::start(pool.address());
    let (runtime, client) = client(&pool, &proxy);
    let submit = |text: &str| SubmitMessage {
        job: new_job_id(),
        spec: JobSpec::new(Command::Shell(text.to_owned()), Source::Empty),
        client_request_id: None,
        attach: false,
        secrets: Default::default(),
        snapshot: None,
        wait: true,
        follow: true,
        progress: false,
    };
    let listed = || pool.buildpool(&["jobs", "--json"]).expect(0).json().as_array().unwrap().len();
    let starts = pool.place().file("starts");
    let message = submit(&format!("echo x >> {}; echo done", starts.display()));
    proxy.set(Direction::Down, Flow::Hold);
    let mut events = runtime.block_on(client.submit(message.clone())).unwrap();
    wait_until("the job is there", || listed() == 1);
    let id = message.job.to_string();
    pool.wait_for_state(&id, "done");
    proxy.half_open(Direction::Down);
    proxy.heal();
    proxy.reset();
    let result = runtime.block_on(async {
        let mut output = Vec::new();
        loop {
            match events.next().await.unwrap() {
                JobEvent::Output(part) => {
                    part.chunks.iter().for_each(|chunk| output.extend_from_slice(chunk.data()))
                }
                JobEvent::Complete(result) => return (result, output),
                JobEvent::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
    });
    assert_eq!((result.0.verdict, &result.1[..]), (Some(Verdict::Passed), &b"done\n"[..]));
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "x\n");
    assert_eq!(listed(), 1);

    let message = submit("exec sleep 600");
    let id = message.job.to_string();
    let mut waiting = runtime.block_on(client.submit(message)).unwrap();
    pool.wait_for_state(&id, "running");
    proxy.set(Direction::Down, Flow::Hold);
    let asking = client.clone();
    let asked = id.clone();
    let cancelled = runtime.spawn(async move { asking.cancel(&asked, "twice").await });
    pool.wait_for_state(&id, "done");
    proxy.half_open(Direction::Down);
    proxy.heal();
    proxy.reset();
    runtime.block_on(cancelled).unwrap().unwrap();
    let last = runtime.block_on(async {
        let mut last = None;
        while let Some(event) = waiting.next().await {
            last = Some(event);
        }
        last
    });
    assert!(matches!(last, Some(JobEvent::Complete(result)) if result.verdict == Some(Verdict::Cancelled)));
    let asked = runtime.block_on(client.job(&id, View::default(), Duration::ZERO)).unwrap();
    assert_eq!(asked.verdict, Some(Verdict::Cancelled));
}

#[test]
fn an_equal_request_finds_its_job_again_after_a_restart_of_the_coordinator() {
    let mut pool = Pool::start(1);
    let proxy = Proxy::start(pool.address());
    let (runtime, client) = client(&pool, &proxy);
    let starts = pool.place().file("starts");
    let text = format!("echo x >> {}; exec sleep 600", starts.display());
    let submit = |client: &Client| {
        let message = SubmitMessage {
            job: new_job_id(),
            spec: JobSpec::new(Command::Shell(text.clone()), Source::Empty),
            client_request_id: None,
            attach: true,
            secrets: Default::default(),
            snapshot: None,
            wait: true,
            follow: false,
            progress: false,
        };
        runtime.block_on(async {
            let mut events = client.submit(message).await.unwrap();
            loop {
                match events.next().await.unwrap() {
                    JobEvent::Accepted { job, reattached } => return (job, reattached),
                    JobEvent::Failed(error) => panic!("{error}"),
                    _ => {}
                }
            }
        })
    };
    let (job, is_old) = submit(&client);
    assert!(!is_old);
    wait_until("it runs", || std::fs::read_to_string(&starts).is_ok_and(|text| text == "x\n"));
    pool.restart_coordinator();
    assert_eq!(submit(&client), (job, true), "a live job");
    pool.buildpool(&["cancel", &job.to_string()]).expect(0);
    pool.wait_for_workers();
    pool.wait_for_state(&job.to_string(), "done");
    // The final result was delivered. It is recorded after it was sent, so identical requests may
    // find the old job for a moment.
    let newer = wait_for("a run of its own", || Some(submit(&client)).filter(|(_, is_old)| !is_old)).0;
    pool.restart_coordinator();
    assert_eq!(submit(&client), (newer, true), "and not the one with a delivered answer");
}
