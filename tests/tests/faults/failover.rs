//! Tests that take the leader away while jobs write: killed, paused, and cut off from PostgreSQL.

use buildpool_test_postgres::Postgres;
use buildpool_tests::{Cluster, Direction, Flow, Proxy, Workload, signal, wait_until};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const BYTES: u64 = 300_000;
const JOBS: usize = 6;

/// Starts two coordinators, workers, and jobs that have written a part of their output and pause half way.
fn begin(databases: &[String]) -> (Cluster, Workload) {
    let cluster = Cluster::start(databases, 2);
    let mut workload = Workload::new(&cluster.pool);
    workload.hold();
    for _ in 0..JOBS {
        workload.submit(&cluster.pool, BYTES, Duration::from_secs(2), &[]);
    }
    // Four slots: the other jobs wait in the queue.
    for job in &workload.jobs()[..4] {
        job.wait_for_bytes(BYTES / 10);
    }
    (cluster, workload)
}

/// Checks that each job ran once and that its log is whole.
fn end(cluster: &Cluster, workload: &Workload) {
    workload.release();
    workload.wait(&cluster.pool);
    workload.check(&cluster.pool);
    for job in workload.jobs() {
        assert_eq!(job.starts(), ["1"]);
    }
}

#[test]
fn a_leader_that_is_killed_costs_no_job() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let (mut cluster, workload) = begin(&[database.clone(), database]);
    let old = cluster.leader();
    let killed = Instant::now();
    cluster.kill(old);
    let new = cluster.leader_after(old);
    println!("another leader after {:?}", killed.elapsed());
    cluster.start_again(old);
    cluster.wait_for_standby(old);
    let place = format!("location: {}/v1/jobs?x=1", cluster.url(new).replacen("ws", "http", 1));
    wait_until("the standby knows the leader", || {
        let answer = cluster.get(old, "/v1/jobs?x=1");
        answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 307") && answer.contains(&place))
    });
    // A client that knows the standby only is sent to the leader, on the link and by HTTP.
    let place = cluster.pool.place();
    place.buildpool(&["jobs", "--coordinator", cluster.url(old)]).expect(0);
    place.buildpool(&["tests", "--coordinator", cluster.url(old)]).expect(0);
    end(&cluster, &workload);
    // The first leader reads logs that it never received.
    cluster.kill(new);
    cluster.leader_after(new);
    workload.check(&cluster.pool);
}

#[test]
fn a_leader_that_is_paused_writes_nothing_when_it_goes_on() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let (cluster, workload) = begin(&[database.clone(), database]);
    let old = cluster.leader();
    let pid = i32::try_from(cluster.pid(old)).unwrap();
    signal(pid, Signal::SIGSTOP);
    cluster.leader_after(old);
    workload.release();
    signal(pid, Signal::SIGCONT);
    cluster.wait_for_standby(old);
    end(&cluster, &workload);
}

#[test]
fn a_leader_that_is_cut_off_from_its_records_steps_down() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let name = database.rsplit('/').next().unwrap();
    let proxies: Vec<Proxy> =
        (0..2).map(|_| Proxy::start(([127, 0, 0, 1], postgres.port()).into())).collect();
    let urls: Vec<String> =
        proxies.iter().map(|proxy| postgres.url_at(proxy.address().port(), name)).collect();
    let (cluster, workload) = begin(&urls);
    let old = cluster.leader();
    for direction in [Direction::Up, Direction::Down] {
        proxies[old].set(direction, Flow::Hold);
    }
    cluster.leader_after(old);
    workload.release();
    for direction in [Direction::Up, Direction::Down] {
        proxies[old].set(direction, Flow::Pass);
    }
    cluster.wait_for_standby(old);
    end(&cluster, &workload);
}

#[test]
fn a_leader_that_stops_hands_over_at_once() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let (cluster, workload) = begin(&[database.clone(), database]);
    let old = cluster.leader();
    signal(i32::try_from(cluster.pid(old)).unwrap(), Signal::SIGTERM);
    cluster.leader_after(old);
    end(&cluster, &workload);
}

/// Loses the leader again and again while a job for it is submitted, and prints the time until the new leader has
/// granted the job. `BUILDPOOL_FAILOVERS` sets the number.
#[test]
fn leaders_are_lost_again_and_again() {
    let Some(postgres) = Postgres::start() else { return };
    let count = std::env::var("BUILDPOOL_FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let database = postgres.database();
    let mut cluster = Cluster::start(&[database.clone(), database], 2);
    let mut workload = Workload::new(&cluster.pool);
    let mut times: Vec<Duration> = Vec::new();
    for round in 0..count {
        let running = workload.submit(&cluster.pool, BYTES, Duration::from_secs(6), &[]);
        running.wait_for_bytes(BYTES / 20);
        let old = cluster.leader();
        let pid = i32::try_from(cluster.pid(old)).unwrap();
        let lost_at = Instant::now();
        if round % 2 == 0 {
            cluster.kill(old);
        } else {
            signal(pid, Signal::SIGSTOP);
        }
        let next = workload.submit(&cluster.pool, 1_000, Duration::ZERO, &[]);
        if round % 2 == 1 {
            // A paused leader does not close its links, so the workers would stay with it for a while.
            signal(pid, Signal::SIGCONT);
        }
        wait_until("the new leader grants a job", || next.has_started());
        times.push(lost_at.elapsed());
        if round % 2 == 0 {
            cluster.start_again(old);
        }
        cluster.wait_for_standby(old);
    }
    times.sort_unstable();
    println!("from the loss to a grant: {times:?}");
    end(&cluster, &workload);
}
