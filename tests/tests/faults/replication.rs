//! The loss of the PostgreSQL server while jobs write: a standby server takes over, or a backup is restored.

use buildpool_test_postgres::Postgres;
use buildpool_tests::{Cluster, Workload, wait_until};
use std::time::{Duration, Instant};

const JOBS: usize = 20;

/// Returns a URL with both servers, so that coordinators find the promoted one.
fn url_of_both(primary: &Postgres, standby: &Postgres, database: &str) -> String {
    let name = database.rsplit('/').next().unwrap();
    let (one, two) = (primary.port(), standby.port());
    format!("postgres://pool@127.0.0.1:{one},127.0.0.1:{two}/{name}?target_session_attrs=read-write")
}

/// Submits a job that writes its process id and then waits, and returns its id and the process id.
fn waiting_job(cluster: &Cluster, name: &str) -> (String, u32) {
    let file = cluster.pool.place().file(name);
    let script = format!("echo $$ > {0}.new && mv {0}.new {0}; sleep 600", file.display());
    let words = ["run", "--no-snapshot", "--detach", "--", "sh", "-c", &script];
    let id = cluster.pool.buildpool(&words).expect(0).out().trim().to_owned();
    wait_until("the job runs", || file.exists());
    let pid = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    (id, pid)
}

fn has_ended(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}

#[test]
fn nothing_that_was_accepted_is_lost_with_the_primary_server() {
    let Some(mut primary) = Postgres::start() else { return };
    let database = primary.database();
    let standby = primary.standby();
    let url = url_of_both(&primary, &standby, &database);
    let cluster = Cluster::start(&[url.clone(), url], 2);
    let mut workload = Workload::new(&cluster.pool);
    workload.hold();
    for _ in 0..JOBS {
        workload.submit(&cluster.pool, 300_000, Duration::from_secs(1), &[]);
    }
    for job in &workload.jobs()[..4] {
        job.wait_for_bytes(30_000);
    }
    let lost = Instant::now();
    primary.stop();
    standby.promote();
    cluster.leader();
    println!("a coordinator leads again after {:?}", lost.elapsed());
    workload.release();
    workload.wait(&cluster.pool);
    workload.check(&cluster.pool);
    for job in workload.jobs() {
        assert_eq!(job.starts(), ["1"]);
    }
}

/// The documented bound without synchronous replication: the jobs of the commits that the standby server did not receive
/// are lost, and no others. The leader notices the loss although its lease is still valid, and starts over.
#[test]
fn a_standby_server_without_the_last_commits_costs_only_their_jobs() {
    let Some(mut primary) = Postgres::start() else { return };
    let database = primary.database();
    let standby = primary.standby();
    primary.wait_for_no_standby();
    let url = url_of_both(&primary, &standby, &database);
    let cluster = Cluster::start(&[url.clone(), url], 2);
    let mut workload = Workload::new(&cluster.pool);
    workload.hold();
    for _ in 0..3 {
        workload.submit(&cluster.pool, 100_000, Duration::from_secs(1), &[]);
    }
    for job in &workload.jobs()[..3] {
        job.wait_for_bytes(10_000);
    }
    primary.wait_until_followed();
    standby.stop_following();
    let (lost, pid) = waiting_job(&cluster, "lost");
    let old = cluster.leader();
    primary.stop();
    standby.promote();
    wait_until("the leader notices that commits are lost", || {
        // Its next transaction shows that.
        let words = ["run", "--no-snapshot", "--detach", "--", "true"];
        let _may_fail = cluster.pool.buildpool(&words);
        cluster.log(old).contains("the pool stops")
    });
    workload.release();
    workload.wait(&cluster.pool);
    workload.check(&cluster.pool);
    for job in workload.jobs() {
        assert_eq!(job.starts(), ["1"]);
    }
    assert!(!cluster.pool.buildpool(&["job", &lost]).status.success(), "its record was in a lost commit");
    wait_until("the worker has ended the lost job", || has_ended(pid));
}

/// `pg_dump` and `pg_restore` as documented, against workers with newer results than the dump.
#[test]
fn a_restored_dump_goes_on_with_workers_that_have_newer_results() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let mut cluster = Cluster::start(&[database.clone(), database.clone()], 2);
    let mut workload = Workload::new(&cluster.pool);
    let done = workload.submit(&cluster.pool, 50_000, Duration::ZERO, &[]);
    done.wait(&cluster.pool);
    workload.hold();
    let running = workload.submit(&cluster.pool, 50_000, Duration::ZERO, &[]);
    running.wait_for_bytes(20_000);
    let dump = postgres.dump(&database);
    // The dump does not have this job.
    let (unknown, pid) = waiting_job(&cluster, "unknown");
    let leader = cluster.leader();
    cluster.kill(1 - leader);
    cluster.kill(leader);
    // This result is newer than the dump, and only its worker has it.
    workload.release();
    wait_until("the job ends while no coordinator runs", || running.has_finished());
    postgres.restore(&database, &dump);
    cluster.start_again(0);
    cluster.start_again(1);
    workload.wait(&cluster.pool);
    workload.check(&cluster.pool);
    for job in workload.jobs() {
        assert_eq!(job.starts(), ["1"]);
    }
    assert!(!cluster.pool.buildpool(&["job", &unknown]).status.success(), "the dump does not have it");
    wait_until("the worker has ended the unknown job", || has_ended(pid));
}
