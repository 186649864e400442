//! Tests that take the leader away while jobs write: killed, paused, and cut off from PostgreSQL.

use buildpool_client::{Client, Endpoint, FollowQuery, LinkStatus, Target};
use buildpool_test_postgres::Postgres;
use buildpool_test_s3::S3;
use buildpool_tests::{Cluster, Direction, Flow, Proxy, Workload, signal, wait_until};
use nix::sys::signal::Signal;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
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
fn workers_and_clients_leave_a_leader_that_stays_paused() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let (cluster, mut workload) = begin(&[database.clone(), database]);
    let old = cluster.leader();
    let pid = i32::try_from(cluster.pid(old)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let token = cluster.pool.token().parse().unwrap();
    let target = Target::Named(Endpoint::new(cluster.pool.url().parse().unwrap(), Some(token)));
    let client = runtime.block_on(Client::connect(target, "test")).unwrap();
    let query = FollowQuery { job: workload.jobs()[0].id.clone(), ..FollowQuery::default() };
    let mut events = runtime.block_on(client.follow(query)).unwrap();
    // The first event shows that the leader serves the request.
    runtime.block_on(events.next()).unwrap();
    assert!(signal(pid, Signal::SIGSTOP));
    let paused = Instant::now();
    let new = cluster.leader_after(old);
    let following = async { while events.next().await.is_some() {} };
    let leaving = async {
        let mut status = client.status();
        while client.pool().url.to_string() != cluster.url(new) {
            status.changed().await.unwrap();
            if let LinkStatus::Reconnecting { error, .. } = &*status.borrow_and_update() {
                let text = format!("{error:?}");
                assert!(!text.contains("silent"), "it waited for the whole limit: {text}");
            }
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = leaving => println!("the client left after {:.2?}", paused.elapsed()),
            () = following => panic!("the job ended"),
        }
    });
    workload.submit(&cluster.pool, 1_000, Duration::ZERO, &[]);
    for worker in ["w0", "w1"] {
        wait_until("the worker leaves", || !lost(&cluster, worker).is_empty());
        println!("{worker} left after at most {:.2?}", paused.elapsed());
        assert!(lost(&cluster, worker).contains("another one leads"), "{worker}: {}", lost(&cluster, worker));
    }
    // The paused coordinator still holds its old connections.
    end(&cluster, &workload);
    assert!(signal(pid, Signal::SIGCONT));
    cluster.wait_for_standby(old);
}

/// Returns the reasons for which a worker lost a connection, from its log.
fn lost(cluster: &Cluster, worker: &str) -> String {
    let log = cluster.pool.log_text(worker);
    let is_end = |line: &&str| {
        line.contains("the coordinator gives no answer") || line.contains("nothing from the coordinator")
    };
    log.lines().filter(is_end).collect()
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
    let (cluster, mut workload) = begin(&urls);
    let old = cluster.leader();
    // Its runtime ends only when each question to PostgreSQL has failed. It listens meanwhile.
    while_it_listens(&cluster, old, || {
        set(&proxies[old], Flow::Hold);
        cluster.leader_after(old);
        workload.release();
        // The workers leave the old leader, although its tasks still wait for PostgreSQL.
        workload.submit(&cluster.pool, 1_000, Duration::ZERO, &[]).wait_for_start();
        set(&proxies[old], Flow::Pass);
        cluster.wait_for_standby(old);
    });
    assert!(!cluster.log(old).contains("panicked"), "{}", cluster.log(old));
    end(&cluster, &workload);
}

/// Acts, and checks that a coordinator refuses no connection meanwhile.
fn while_it_listens(cluster: &Cluster, index: usize, act: impl FnOnce()) {
    struct Ended<'e>(&'e AtomicBool);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let address = cluster.url(index).rsplit('/').next().unwrap();
    let has_ended = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            let mut refused = 0;
            while !has_ended.load(Ordering::Acquire) {
                match TcpStream::connect(address) {
                    // The answer, or its deadline, paces the loop.
                    Ok(_) => drop(cluster.get(index, "/healthz")),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => refused += 1,
                    Err(_) => {}
                }
            }
            refused
        });
        let ended = Ended(&has_ended);
        act();
        drop(ended);
        connecting.join().unwrap()
    });
    assert_eq!(refused, 0, "connections to {address} were refused");
}

#[test]
fn a_leader_that_cannot_open_the_records_goes_on_as_a_standby() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let name = database.rsplit('/').next().unwrap();
    let mut cluster = Cluster::start(std::slice::from_ref(&database), 1);
    cluster.kill(0);
    assert!(postgres.psql(name, "ALTER TABLE jobs RENAME TO jobs_away"));
    cluster.start_again(0);
    wait_until("it gives the leadership up", || cluster.log(0).contains("it gives the leadership up"));
    cluster.wait_for_standby(0);
    assert!(postgres.psql(name, "ALTER TABLE jobs_away RENAME TO jobs"));
    cluster.leader();
    assert_eq!(cluster.pool.shell("echo fine").expect(0).out(), "fine\n");
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

/// A fault of the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    Killed,
    Paused,
    /// Its connection to PostgreSQL carries no more bytes.
    CutOffFromRecords,
    /// It is killed while no coordinator reaches the bucket.
    KilledWithoutBucket,
}

const LOSSES: [Loss; 4] = [Loss::Killed, Loss::Paused, Loss::CutOffFromRecords, Loss::KilledWithoutBucket];

fn set(proxy: &Proxy, flow: Flow) {
    for direction in [Direction::Up, Direction::Down] {
        proxy.set(direction, flow);
    }
}

/// Loses the leader again and again while jobs print, and prints the time until the new leader has granted a job that was
/// submitted after the loss. `BUILDPOOL_FAILOVERS` sets the number, `BUILDPOOL_LOAD` the number of printing jobs.
#[test]
fn leaders_are_lost_again_and_again() {
    let (Some(postgres), Some(server)) = (Postgres::start(), S3::shared()) else { return };
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, load) = (number("BUILDPOOL_FAILOVERS", LOSSES.len()), number("BUILDPOOL_LOAD", 4));
    let database = postgres.database();
    let name = database.rsplit('/').next().unwrap();
    let at = |port: u16| Proxy::start(([127, 0, 0, 1], port).into());
    let (records, bucket) = ([at(postgres.port()), at(postgres.port())], at(server.port()));
    let urls = records.each_ref().map(|proxy| postgres.url_at(proxy.address().port(), name));
    let objects = format!("s3://{}/pool", server.bucket());
    let environment = S3::environment_at(bucket.address().port());
    let slots = u32::try_from(load / 2 + 2).unwrap();
    let mut cluster = Cluster::start_loaded(&urls, (&objects, environment), "", &[slots, slots]);
    let mut workload = Workload::new(&cluster.pool);
    let mut trace = Vec::new();
    for round in 0..count {
        while workload.running().len() < load {
            workload.submit(&cluster.pool, BYTES, Duration::from_secs(20), &[]).wait_for_start();
        }
        let (old, loss) = (cluster.leader(), LOSSES[round % LOSSES.len()]);
        let pid = i32::try_from(cluster.pid(old)).unwrap();
        let lost_at = Instant::now();
        match loss {
            Loss::Killed => cluster.kill(old),
            Loss::Paused => assert!(signal(pid, Signal::SIGSTOP)),
            Loss::CutOffFromRecords => set(&records[old], Flow::Hold),
            Loss::KilledWithoutBucket => {
                set(&bucket, Flow::Hold);
                cluster.kill(old);
            }
        }
        let next = workload.submit(&cluster.pool, 1_000, Duration::ZERO, &[]);
        let accepted = lost_at.elapsed();
        if loss == Loss::Paused {
            // A paused leader does not close its links, so the workers would stay with it until they miss its answers.
            signal(pid, Signal::SIGCONT);
        }
        wait_until("the new leader grants a job", || next.has_started());
        let granted = lost_at.elapsed();
        match loss {
            Loss::Killed | Loss::KilledWithoutBucket => cluster.start_again(old),
            Loss::Paused | Loss::CutOffFromRecords => {}
        }
        set(&records[old], Flow::Pass);
        set(&bucket, Flow::Pass);
        cluster.wait_for_standby(old);
        println!("{loss:?}: submit accepted after {accepted:.2?}, job granted after {granted:.2?}");
        trace.push((loss, granted));
    }
    for loss in LOSSES {
        let mut times: Vec<_> = trace.iter().filter(|(of, _)| *of == loss).map(|(_, time)| *time).collect();
        times.sort_unstable();
        println!("{loss:?}, from the loss to a grant: {times:.2?}");
    }
    let mut times: Vec<_> = trace.iter().map(|(_, time)| *time).collect();
    times.sort_unstable();
    let of = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{count} losses, {load} printing jobs: p50 {:.2?}, p99 {:.2?}, longest {:.2?}",
        of(50),
        of(99),
        of(100)
    );
    end(&cluster, &workload);
}
