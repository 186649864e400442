//! The loss of the PostgreSQL server while jobs write. A standby server with synchronous replication takes over.

use buildpool_test_postgres::Postgres;
use buildpool_tests::{Cluster, Workload};
use std::time::{Duration, Instant};

const JOBS: usize = 20;

#[test]
fn nothing_that_was_accepted_is_lost_with_the_primary_server() {
    let Some(mut primary) = Postgres::start() else { return };
    let database = primary.database();
    let standby = primary.standby();
    let name = database.rsplit('/').next().unwrap();
    let (one, two) = (primary.port(), standby.port());
    let url =
        format!("postgres://pool@127.0.0.1:{one},127.0.0.1:{two}/{name}?target_session_attrs=read-write");
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
