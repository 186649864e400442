//! Disks without room.

use buildpool_tests::{PoolBuilder, Workload, wait_until};
use std::time::Duration;

#[test]
fn a_worker_without_room_holds_its_job_back_and_goes_on_by_itself() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("w0", 24 << 20).start_on_disk() else { return };
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 2_000_000, Duration::from_secs(2), &[]);
    job.wait_for_bytes(200_000);
    pool.disk().unwrap().fill();
    let second = workload.submit(&pool, 1_000, Duration::ZERO, &[]);
    wait_until("the second is with the worker", || pool.job(&second.id)["state"] != "queued");
    assert_eq!(pool.job(&job.id)["state"], "running");
    pool.disk().unwrap().empty();
    job.wait(&pool);
    job.check(&pool);
    // What could not even be started is the pool's fault and said so, or it ran.
    let result = second.wait(&pool);
    if result["verdict"] != "passed" {
        assert!(matches!(result["verdict"].as_str(), Some("lost" | "rejected")), "{result:#}");
    }
}
