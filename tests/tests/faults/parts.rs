//! Tests that kill or stop one part at a time while a job writes.

use buildpool_tests::{
    Pool, PoolBuilder, Scribe, Stopped, Workload, keeper_of, keepers_in, processes_of, signal, wait_for,
    wait_until,
};
use nix::sys::signal::Signal;
use std::time::Duration;

const BYTES: u64 = 300_000;

/// Starts a pool with one worker, and a job that has written a part of its output and is paused
/// half way.
fn begin(options: &[&str]) -> (Pool, Workload, Scribe) {
    let pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, BYTES, Duration::from_secs(2), options);
    job.wait_for_bytes(BYTES / 10);
    (pool, workload, job)
}

fn keeper(job: &Scribe) -> i32 {
    wait_for("the keeper of the job", || keeper_of(&job.id))
}

#[test]
fn a_coordinator_that_is_killed_costs_a_running_job_nothing() {
    let (mut pool, workload, job) = begin(&[]);
    pool.restart_coordinator();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
    let before = pool.job(&job.id);
    pool.restart_coordinator();
    assert_eq!(pool.job(&job.id), before, "the end is recorded once and stays");
    workload.check(&pool);
}

#[test]
fn a_job_ends_while_the_coordinator_is_away_and_its_worker_dies_too() {
    let (mut pool, workload, job) = begin(&[]);
    pool.kill_coordinator();
    workload.release();
    wait_until("the job has finished by itself", || job.has_finished() && processes_of(&job.id).is_empty());
    pool.kill_worker(0);
    pool.start_worker(0);
    pool.start_coordinator_again();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn a_worker_daemon_that_is_killed_finds_its_job_again() {
    let (mut pool, workload, job) = begin(&[]);
    let keeper = keeper(&job);
    pool.kill_worker(0);
    wait_until("the pool notices", || pool.job(&job.id)["connected"] == false);
    pool.start_worker(0);
    assert_eq!(keeper_of(&job.id), Some(keeper), "the same keeper goes on");
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn a_keeper_that_is_killed_takes_its_tree_along_and_the_job_runs_again() {
    let (pool, workload, job) = begin(&[]);
    signal(keeper(&job), Signal::SIGKILL);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1", "2"]);
}

#[test]
fn a_keeper_and_its_daemon_are_killed_together() {
    let (mut pool, workload, job) = begin(&[]);
    let keeper = keeper(&job);
    pool.kill_worker(0);
    signal(keeper, Signal::SIGKILL);
    pool.start_worker(0);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1", "2"]);
}

/// Its machine may be disconnected for long, so no other process ends the tree.
#[test]
#[cfg(target_os = "linux")]
fn a_tree_does_not_outlive_its_keeper_when_no_daemon_is_left() {
    let (mut pool, workload, job) = begin(&[]);
    let keeper = keeper(&job);
    pool.kill_worker(0);
    signal(keeper, Signal::SIGKILL);
    wait_until("the tree is gone", || processes_of(&job.id).is_empty());
    pool.start_worker(0);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1", "2"]);
}

#[test]
fn a_lost_job_is_said_to_be_the_pools_fault_when_it_must_not_run_again() {
    let (pool, _workload, job) = begin(&["--on-lost", "fail"]);
    signal(keeper(&job), Signal::SIGKILL);
    let result = job.wait(&pool);
    assert_eq!((&result["verdict"], &result["exit_code"]), (&"lost".into(), &serde_json::Value::Null));
    assert!(result["cause"]["text"].as_str().unwrap().contains("died"), "{result:#}");
    assert_eq!(job.starts(), ["1"]);
    assert_eq!(processes_of(&job.id), []);
}

#[test]
fn a_job_that_loses_its_keeper_each_time_is_given_up() {
    let pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, BYTES, Duration::from_secs(60), &[]);
    for attempt in 1..=3 {
        wait_until("the attempt starts", || job.starts().len() == attempt);
        signal(keeper(&job), Signal::SIGKILL);
    }
    let result = job.wait(&pool);
    assert_eq!(result["verdict"], "lost", "{result:#}");
    assert!(result["cause"]["text"].as_str().unwrap().contains("3 attempts lost"), "{result:#}");
    assert_eq!(job.starts(), ["1", "2", "3"]);
    assert_eq!(processes_of(&job.id), []);
}

#[test]
fn a_job_whose_daemon_and_keeper_die_before_it_began_runs_all_the_same() {
    let mut pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    let data = pool.data("w0");
    let mut workload = Workload::new(&pool);
    // A stopped keeper receives the order but does not execute it.
    let keepers = wait_for("a keeper is ready", || Some(keepers_in(&data)).filter(|found| !found.is_empty()));
    for keeper in keepers {
        assert!(signal(keeper, Signal::SIGSTOP));
    }
    let job = workload.submit(&pool, 10_000, Duration::ZERO, &[]);
    let record = data.join(format!("attempts/{}.1/attempt.json", job.id));
    wait_until("the attempt is laid out", || record.exists());
    pool.kill_worker(0);
    for keeper in keepers_in(&data) {
        signal(keeper, Signal::SIGKILL);
    }
    pool.start_worker(0);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["2"], "the first attempt never began");
}

#[test]
fn parts_that_stand_still_for_a_while_cost_nothing() {
    let (pool, mut workload, job) = begin(&[]);
    let keeper = keeper(&job);
    let coordinator = pool.coordinator_pid().cast_signed();
    let daemon = pool.worker_pid(0).cast_signed();
    let length = || pool.data("w0").join(format!("attempts/{}.1/log", job.id));
    for pid in [coordinator, daemon, keeper] {
        let stopped = Stopped::new(pid);
        // Long enough for the other parts to make progress. If the keeper is stopped, no progress
        // is expected.
        let before = std::fs::metadata(length()).map_or(0, |metadata| metadata.len());
        let deadline = std::time::Instant::now() + Duration::from_millis(500);
        wait_until("time has passed", || {
            std::time::Instant::now() > deadline
                || pid != keeper && std::fs::metadata(length()).map_or(0, |m| m.len()) > before + 50_000
        });
        drop(stopped);
    }
    workload.submit(&pool, 1_000, Duration::ZERO, &[]);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn everything_dies_at_once_and_comes_back() {
    let mut pool = Pool::start(2);
    let mut workload = Workload::new(&pool);
    workload.hold();
    for _ in 0..6 {
        workload.submit(&pool, BYTES, Duration::from_millis(700), &[]);
    }
    wait_until("four jobs run", || workload.running().len() == 4);
    let running: Vec<_> = workload.running().into_iter().cloned().collect();
    let keepers: Vec<_> = running.iter().filter_map(|job| keeper_of(&job.id)).collect();
    pool.kill_coordinator();
    pool.kill_worker(0);
    pool.kill_worker(1);
    for keeper in keepers {
        signal(keeper, Signal::SIGKILL);
    }
    for job in &running {
        for process in processes_of(&job.id) {
            signal(process.pid, Signal::SIGKILL);
        }
    }
    pool.start_worker(0);
    pool.start_worker(1);
    pool.start_coordinator_again();
    workload.wait(&pool);
    workload.check(&pool);
}
