//! Tests that parts of adjacent versions work together, and that each can be upgraded while a job
//! runs.

use buildpool_tests::{Pool, PoolBuilder, Scribe, Workload, wait_until};
use std::time::Duration;

/// Protocol versions of builds of yesterday, today, tomorrow, and the day after.
const YESTERDAY: &str = "1";
const TODAY: &str = "1..2";
const TOMORROW: &str = "2..3";
const LATER: &str = "3..4";

fn begin() -> (Pool, Workload, Scribe) {
    let pool = PoolBuilder::default()
        .coordinator(&["--protocol", YESTERDAY])
        .worker(&["--slots", "2", "--protocol", YESTERDAY])
        .start();
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, 400_000, Duration::from_secs(2), &[]);
    job.wait_for_bytes(1_000);
    (pool, workload, job)
}

fn upgrade_worker(pool: &mut Pool, protocol: &str) {
    pool.set_worker_arguments(0, &["--slots", "2", "--protocol", protocol]);
    pool.kill_worker(0);
    pool.start_worker(0);
}

fn upgrade_coordinator(pool: &mut Pool, protocol: &str) {
    pool.set_coordinator_arguments(&["--protocol", protocol]);
    pool.restart_coordinator();
}

/// Runs a complete job.
fn works(pool: &Pool) {
    pool.wait_for_workers();
    assert_eq!(pool.shell("echo one; echo two >&2").expect(0).out(), "one\n");
}

#[test]
fn a_coordinator_and_a_worker_one_version_apart_work_together_either_way_round() {
    let (mut pool, workload, job) = begin();
    works(&pool);
    upgrade_coordinator(&mut pool, TODAY);
    works(&pool);
    upgrade_worker(&mut pool, TODAY);
    works(&pool);
    upgrade_coordinator(&mut pool, YESTERDAY);
    works(&pool);
    upgrade_coordinator(&mut pool, TOMORROW);
    works(&pool);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"], "one attempt through all of that");
}

#[test]
fn a_worker_that_is_too_new_is_refused_in_words_and_its_job_is_told_when_it_is_put_right() {
    let (mut pool, workload, job) = begin();
    upgrade_worker(&mut pool, TOMORROW);
    let reason = "this coordinator supports 1, the worker 2..3; upgrade the older one";
    wait_until("the worker gets the refusal", || pool.log_text("w0").contains(reason));
    workload.release();
    wait_until("the job ends by itself", || job.has_finished());
    assert_ne!(pool.job(&job.id)["state"], "done", "no part could report to the pool");
    upgrade_worker(&mut pool, TODAY);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn a_client_that_is_too_old_is_refused_in_words() {
    let (mut pool, workload, job) = begin();
    upgrade_coordinator(&mut pool, LATER);
    let refused = pool.buildpool(&["job", &job.id]).expect(125);
    assert!(refused.err().contains("this coordinator supports 3..4, the client 1..2;"), "{refused}");
    upgrade_coordinator(&mut pool, TODAY);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn the_last_lines_of_one_stream_come_from_a_coordinator_that_knows_of_none_too() {
    for protocol in [YESTERDAY, TODAY] {
        let pool = PoolBuilder::default().coordinator(&["--protocol", protocol]).worker(&[]).start();
        let script = "echo early >&2; seq 1 5000; echo late >&2; seq 1 300";
        let id =
            pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", script]).expect(0).out();
        pool.wait_for_state(id.trim(), "done");
        for (tail, expected) in [("1", "late\n"), ("2", "early\nlate\n"), ("9", "early\nlate\n"), ("0", "")] {
            let read = pool.buildpool(&["logs", id.trim(), "--stream", "stderr", "--tail", tail]).expect(0);
            assert_eq!((read.out().as_str(), read.err().as_str()), ("", expected), "{protocol}, {tail}");
        }
    }
}
