//! Tests of parts that shut down, and of second instances of a part.

use buildpool_tests::{Pool, PoolBuilder, Scribe, Workload, binary, processes_of, signal, wait_until};
use nix::sys::signal::Signal;
use std::process::{Child, Stdio};
use std::time::Duration;

fn terminate(pid: u32) {
    assert!(signal(pid.cast_signed(), Signal::SIGTERM));
}

fn is_draining(pool: &Pool, index: usize) -> bool {
    let name = format!("w{index}");
    let workers = pool.buildpool(&["workers", "--json"]).expect(0).json();
    workers.as_array().unwrap().iter().any(|worker| worker["name"] == *name && worker["draining"] == true)
}

#[test]
fn a_second_coordinator_on_the_same_store_is_refused() {
    let pool = Pool::start(0);
    let data = pool.data("coordinator");
    let second =
        pool.buildpool(&["coordinator", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert_ne!(second.code(), 0, "{second}");
    assert!(second.err().contains(data.to_str().unwrap()), "{second}");
    pool.buildpool(&["jobs"]).expect(0);
}

#[test]
fn a_second_worker_on_the_same_data_is_refused() {
    let pool = Pool::start(1);
    let data = pool.data("w0");
    let second = pool.buildpool(&["worker", "--data-dir", data.to_str().unwrap()]);
    assert_ne!(second.code(), 0, "{second}");
    assert!(second.err().contains("another worker runs in this data directory"), "{second}");
}

#[test]
fn a_worker_that_is_asked_to_end_lets_its_job_end_and_takes_no_other() {
    let mut pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let first = workload.submit(&pool, 100_000, Duration::from_secs(2), &[]);
    first.wait_for_start();
    terminate(pool.worker_pid(0));
    wait_until("the worker drains", || is_draining(&pool, 0));
    let second = workload.submit(&pool, 1_000, Duration::ZERO, &[]);
    workload.release();
    assert!(pool.wait_for_worker_end(0).success());
    assert!(first.has_finished());
    first.wait(&pool);
    let waiting = pool.job(&second.id);
    assert_eq!(waiting["state"], "queued", "{waiting:#}");
    assert!(!waiting["waiting"]["reason"].as_str().unwrap().is_empty(), "{waiting:#}");
    pool.start_worker(0);
    workload.wait(&pool);
    workload.check(&pool);
}

#[test]
fn a_worker_that_is_asked_twice_gives_its_job_back() {
    let mut pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, 100_000, Duration::from_secs(3), &[]);
    job.wait_for_bytes(1_000);
    terminate(pool.worker_pid(0));
    wait_until("the worker drains", || is_draining(&pool, 0));
    assert!(!processes_of(&job.id).is_empty(), "the first time costs the job nothing");
    terminate(pool.worker_pid(0));
    assert!(pool.wait_for_worker_end(0).success());
    assert_eq!(processes_of(&job.id), []);
    pool.start_worker(0);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1", "2"]);
}

#[test]
fn a_worker_that_leaves_while_artifacts_wait_for_a_coordinator_that_is_away_brings_them_when_it_is_back() {
    let mut pool = Pool::start(1);
    let (go, fetched) = (pool.place().file("go"), pool.place().file("fetched"));
    let command = format!("while [ ! -e {} ]; do sleep 0.01; done; echo made > answer", go.display());
    let words = ["run", "--no-snapshot", "--detach", "--artifact", "answer", "--", "sh", "-c", &command];
    let id = pool.buildpool(&words).expect(0).out().trim().to_owned();
    pool.wait_for_state(&id, "running");
    pool.kill_coordinator();
    std::fs::write(&go, "").unwrap();
    let attempts = pool.data("w0").join("attempts");
    let has_ended = |path: std::path::PathBuf| path.join("outcome.json").exists();
    wait_until("its end is on the worker's disk", || {
        std::fs::read_dir(&attempts).unwrap().any(|entry| has_ended(entry.unwrap().path()))
    });
    terminate(pool.worker_pid(0));
    assert!(pool.wait_for_worker_end(0).success());
    pool.start_coordinator_again();
    pool.start_worker(0);
    let result = pool.wait_for_state(&id, "done");
    assert_eq!((&result["verdict"], &result["artifacts"][0]["path"]), (&"passed".into(), &"answer".into()));
    pool.buildpool(&["artifacts", &id, "--output", fetched.to_str().unwrap()]).expect(0);
    assert_eq!(std::fs::read(fetched.join("answer")).unwrap(), b"made\n");
}

/// Restarts the worker like a service manager: SIGTERM, then SIGKILL after a time limit.
#[test]
fn a_worker_that_is_restarted_while_a_job_runs_is_back_before_the_job_is_over() {
    let mut pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, 100_000, Duration::from_secs(2), &[]);
    job.wait_for_bytes(1_000);
    terminate(pool.worker_pid(0));
    wait_until("the worker drains", || is_draining(&pool, 0));
    pool.kill_worker(0);
    pool.start_worker(0);
    pool.wait_for_workers();
    wait_until("it takes jobs again", || !is_draining(&pool, 0));
    assert!(!job.has_finished());
    workload.release();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn a_coordinator_that_is_asked_to_end_leaves_the_jobs_running() {
    let mut pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, 100_000, Duration::from_secs(2), &[]);
    job.wait_for_bytes(1_000);
    terminate(pool.coordinator_pid());
    assert!(pool.wait_for_coordinator_end().success());
    assert!(!processes_of(&job.id).is_empty());
    pool.start_coordinator_again();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

/// Replaces the running binary with one at another path, as an upgrade does.
#[test]
fn each_part_is_replaced_while_jobs_run() {
    let mut pool = PoolBuilder::default().worker(&["--slots", "2"]).start();
    let mut workload = Workload::new(&pool);
    workload.hold();
    let jobs: Vec<Scribe> =
        (0..2).map(|_| workload.submit(&pool, 200_000, Duration::from_secs(4), &[])).collect();
    jobs.iter().for_each(Scribe::wait_for_start);
    let upgraded = pool.place().file("buildpool-of-tomorrow");
    std::fs::copy(binary(), &upgraded).unwrap();
    pool.use_binary(&upgraded);
    terminate(pool.coordinator_pid());
    assert!(pool.wait_for_coordinator_end().success());
    pool.start_coordinator_again();
    pool.kill_worker(0);
    pool.start_worker(0);
    workload.release();
    let after = workload.submit(&pool, 10_000, Duration::ZERO, &[]);
    workload.wait(&pool);
    workload.check(&pool);
    for job in jobs.iter().chain([&after]) {
        assert_eq!(job.starts(), ["1"]);
    }
}

#[test]
fn a_client_that_is_killed_leaves_its_job_running_and_can_be_followed_by_another() {
    let pool = Pool::start(1);
    let workload = Workload::new(&pool);
    let (command, notes) = workload.command(0, 200_000, Duration::from_secs(2));
    let mut words = vec!["run", "--no-snapshot", "--"];
    words.extend(command.iter().map(String::as_str));
    let mut client: Child = pool.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the job starts", || notes.join("started").exists());
    client.kill().unwrap();
    client.wait().unwrap();
    let listed = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    let id = listed[0]["job_id"].as_str().unwrap().to_owned();
    let followed = pool.buildpool(&["logs", "-f", &id]).expect(0);
    let job = Scribe { id, notes };
    job.wait(&pool);
    job.check(&pool);
    assert_eq!(followed.stdout, std::fs::read(job.notes.join("1.1")).unwrap());
    assert_eq!(followed.stderr, std::fs::read(job.notes.join("1.2")).unwrap());
}
