//! Tests of role `read`: it can read everything and change nothing.

use buildpool_tests::{Finished, Pool, PoolBuilder, STRANGER, wait_until};

fn with(pool: &Pool, token: &str, arguments: &[&str]) -> Finished {
    pool.command(arguments).env("BUILDPOOL_TOKEN", token).output().unwrap().into()
}

fn token(pool: &Pool, role: &str) -> String {
    // The token has the submitter's name, so that only the role decides.
    pool.buildpool(&["token", "create", "--role", role, "--name", "admin"]).expect(0).out().trim().to_owned()
}

#[test]
fn a_reader_sees_everything_and_changes_nothing() {
    let pool = Pool::start(1);
    let reader = token(&pool, "read");
    let run = ["run", "--no-snapshot", "--detach", "--", "sh", "-c", "echo shown; exec sleep 600"];
    let job = pool.buildpool(&run).expect(0).out().trim().to_owned();
    pool.wait_for_state(&job, "running");
    wait_until("the line is stored", || with(&pool, &reader, &["logs", &job]).expect(0).out() == "shown\n");
    for reads in [&["jobs"][..], &["job", &job], &["workers"]] {
        with(&pool, &reader, reads).expect(0);
    }
    for path in ["/metrics", "/v1/page/pool", &format!("/v1/page/jobs/{job}")] {
        assert!(pool.get(path, Some(&reader)).0.contains("200"), "{path}");
    }
    let submits = [&["run", "--no-snapshot", "--", "true"][..], &["run", "--", "true"]];
    for submit in submits {
        let refused = with(&pool, &reader, submit).expect(125);
        assert!(refused.err().contains("has role read"), "{refused}");
    }
    for change in [
        &["cancel", &job][..],
        &["retry", &job],
        &["drain", "w0"],
        &["resume", "w0"],
        &["workers", "forget", "w0"],
        &["token", "list"],
        &["token", "create", "--role", "admin", "--name", "x"],
        &["audit"],
    ] {
        let refused = with(&pool, &reader, change).expect(1);
        assert!(refused.err().contains("has role read"), "{change:?}: {refused}");
    }
    assert_eq!(pool.buildpool(&["jobs", "--json"]).expect(0).json().as_array().map(Vec::len), Some(1));
    assert_eq!(pool.job(&job)["state"], "running");
    let worker = ["worker", "--coordinator", pool.url(), "--name", "w1", "--data-dir", "w1"];
    let refused = with(&pool, &reader, &worker);
    assert!(refused.code() != 0 && refused.err().contains("has role read"), "{refused}");
}

#[test]
fn workers_are_listed_in_the_natural_order_of_their_names() {
    let pool = PoolBuilder::default()
        .worker(&["--name", "w10"])
        .worker(&["--name", "w2"])
        .worker(&["--name", "w1"])
        .start();
    let listed = pool.buildpool(&["workers", "--json"]).expect(0).json();
    let names: Vec<_> =
        listed.as_array().unwrap().iter().filter_map(|worker| worker["name"].as_str()).collect();
    assert_eq!(names, ["w1", "w2", "w10"]);
}

#[test]
fn a_worker_uses_the_token_that_was_written_into_its_token_file() {
    let mut pool = Pool::start(0);
    let (file, config) = (pool.place().file("worker.token"), pool.place().file("worker.toml"));
    std::fs::write(&file, STRANGER).unwrap();
    std::fs::write(&config, "token_file = \"worker.token\"\n").unwrap();
    pool.add_worker(vec!["--config".into(), config.to_str().unwrap().into()]);
    wait_until("the worker is refused", || pool.log_text("w0").contains("does not know this token"));
    std::fs::write(&file, pool.worker_token()).unwrap();
    pool.wait_for_workers();
}
