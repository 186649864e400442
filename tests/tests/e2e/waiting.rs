//! Tests of `wait` and `job --wait`: both end with the job and exit like `run`.

use buildpool_tests::{Place, Pool, PoolBuilder, STRANGER, wait_until};
use std::process::Stdio;

/// Submits a shell command and returns the id of its job.
fn detached(pool: &Pool, text: &str) -> String {
    let run = ["run", "--no-snapshot", "--detach", "--", "sh", "-c", text];
    pool.buildpool(&run).expect(0).out().trim().to_owned()
}

#[test]
fn a_wait_exits_as_run_would() {
    let pool = Pool::start(1);
    for (text, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        pool.buildpool(&["run", "--no-snapshot", "--", "sh", "-c", text]).expect(code);
        let id = detached(&pool, text);
        let waited = pool.buildpool(&["wait", &id, "--json"]).expect(code).json();
        assert_eq!((&waited["job_id"], &waited["state"]), (&id.as_str().into(), &"done".into()));
        pool.buildpool(&["wait", &id[..30]]).expect(code);
        pool.buildpool(&["job", &id, "--wait", "1m"]).expect(code);
        pool.buildpool(&["job", &id]).expect(0);
    }
    let slow = detached(&pool, "sleep 600");
    let early = pool.buildpool(&["wait", &slow, "--timeout", "200ms"]).expect(125);
    assert!(early.err().contains(&format!("job {slow} is ")), "{early}");
    assert!(early.err().contains("not done; the wait is over, the job goes on"), "{early}");
    pool.buildpool(&["job", &slow, "--wait", "100ms"]).expect(125);
    pool.buildpool(&["cancel", &slow]).expect(0);
    pool.buildpool(&["wait", &slow]).expect(130);
    for wrong in [&["wait"][..], &["wait", "ffffffff"], &["job", "ffffffff", "--wait", "1s"]] {
        pool.buildpool(wrong).expect(125);
    }
    pool.buildpool(&["wait", &slow, "--token", STRANGER]).expect(125);
}

#[test]
fn a_wait_for_several_jobs_exits_with_the_highest_code() {
    let pool = PoolBuilder::default().worker(&["--slots", "2"]).start();
    let (good, bad) = (detached(&pool, "exit 3"), detached(&pool, "exit 9"));
    let both = pool.buildpool(&["wait", &bad, &good, "--json"]).expect(9).json();
    let codes: Vec<_> = both.as_array().unwrap().iter().map(|job| job["exit_code"].as_i64()).collect();
    assert_eq!(codes, [Some(9), Some(3)], "{both}");
    // A wrong id is reported before the first wait.
    let slow = detached(&pool, "sleep 600");
    pool.buildpool(&["wait", &slow, "ffffffff"]).expect(125);
    pool.buildpool(&["cancel", &slow]).expect(0);

    let several = ["run", "--no-snapshot", "--detach", "--several", "--"];
    let made = pool.buildpool(&[&several[..], &["sh", "-c", "exit 4", ":::", "true"]].concat()).expect(0);
    let build = made.out().trim().to_owned();
    let waited = pool.buildpool(&["wait", &build, "--json"]).expect(4).json();
    assert_eq!(waited["build"]["status"], "failed", "{waited}");
    pool.buildpool(&["wait", &good, &build]).expect(4);
    pool.buildpool(&["job", &build, "--wait", "1m"]).expect(4);
}

#[test]
fn a_wait_outlives_a_restart_of_the_coordinator_and_the_next_call_of_a_running_job_is_a_wait() {
    let mut pool = Pool::start(1);
    let go = pool.place().file("go");
    let id = detached(&pool, &format!("while [ ! -e {} ]; do sleep 0.05; done; exit 5", go.display()));
    let running = pool.wait_for_state(&id, "running");
    let next = running["next"].as_array().unwrap();
    assert!(next.contains(&format!("buildpool wait {id}").into()), "{running}");
    // Connections of earlier commands can still be open, so the number of open connections proves nothing.
    let connections = || {
        let (_, metrics) = pool.get("/metrics", Some(pool.token()));
        let line = metrics.lines().find(|line| line.starts_with("buildpool_client_connections_total "));
        line.expect("it is a documented metric").to_owned()
    };
    let before = connections();
    let waiting = pool.command(&["wait", &id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the waiting command is connected", || connections() != before);
    pool.restart_coordinator();
    std::fs::write(&go, "").unwrap();
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!(waited.status.code(), Some(5), "{}", String::from_utf8_lossy(&waited.stderr));
}

#[test]
fn a_wait_on_the_local_pool_starts_with_any_job() {
    let place = Place::new();
    let submitted = place.buildpool(&["run", "--detach", "--", "sh", "-c", "exit 6"]).expect(0);
    let id = submitted.out().trim().to_owned();
    wait_until("the job is done", || {
        place.buildpool(&["job", &id, "--json"]).expect(0).json()["state"] == "done"
    });
    place.buildpool(&["wait", &id]).expect(6);
}
