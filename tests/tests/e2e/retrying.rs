//! Tests of `retry`: a new job with the same spec and snapshot.

use buildpool_tests::{Finished, Place, Pool};

fn with(pool: &Pool, token: &str, arguments: &[&str]) -> Finished {
    pool.command(arguments).env("BUILDPOOL_TOKEN", token).output().unwrap().into()
}

fn token(pool: &Pool, role: &str, name: &str) -> String {
    pool.buildpool(&["token", "create", "--role", role, "--name", name]).expect(0).out().trim().to_owned()
}

#[test]
fn a_retry_is_a_new_job_with_the_same_spec_and_snapshot() {
    let pool = Pool::start(1);
    let (ada, eve) = (token(&pool, "submit", "ada"), token(&pool, "submit", "eve"));
    std::fs::write(pool.place().file("input"), "as it was\n").unwrap();
    let git =
        std::process::Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).output();
    assert!(git.unwrap().status.success());
    let run = ["run", "--detach", "--env", "WORD=kept", "--", "sh", "-c", "cat input; echo $WORD; exit 4"];
    let first = with(&pool, &ada, &run).expect(0).out().trim().to_owned();
    with(&pool, &ada, &["wait", &first]).expect(4);
    std::fs::write(pool.place().file("input"), "changed\n").unwrap();

    let second = with(&pool, &ada, &["retry", &first[..30]]).expect(0).out().trim().to_owned();
    assert_ne!(first, second);
    with(&pool, &ada, &["wait", &second]).expect(4);
    assert_eq!(with(&pool, &ada, &["logs", &second]).expect(0).out(), "as it was\nkept\n");
    let third = pool.buildpool(&["retry", &first, "--json"]).expect(0).json();
    assert_eq!(third["submitter"], "admin", "{third}");
    pool.buildpool(&["wait", third["job_id"].as_str().unwrap()]).expect(4);

    let refused = with(&pool, &eve, &["retry", &first]).expect(1);
    assert!(refused.err().contains("belongs to `ada`"), "{refused}");
    let unknown = pool.buildpool(&["retry", "ffffffff"]).expect(1);
    assert!(unknown.out().is_empty(), "{unknown}");
}

#[test]
fn a_job_with_secrets_is_not_retried_without_them() {
    let mut place = Place::new();
    place.set("KEY", "hidden");
    let run = ["run", "--detach", "--secret", "KEY", "--", "true"];
    let id = place.buildpool(&run).expect(0).out().trim().to_owned();
    place.buildpool(&["wait", &id]).expect(0);
    let refused = place.buildpool(&["retry", &id]).expect(1);
    assert!(refused.err().contains("uses secrets (KEY)"), "{refused}");
}

#[test]
fn a_retry_runs_on_the_worker_that_it_names() {
    let pool = Pool::start(2);
    let first = pool.buildpool(&["run", "--no-snapshot", "--output", "json", "--", "true"]).expect(0).json();
    let id = first["job_id"].as_str().unwrap();
    let other = if first["worker"] == "w0" { "w1" } else { "w0" };
    let second = pool.buildpool(&["retry", id, "--worker", other, "--json"]).expect(0).json();
    let second = second["job_id"].as_str().unwrap();
    pool.buildpool(&["wait", second]).expect(0);
    let second = pool.buildpool(&["job", second, "--json"]).expect(0).json();
    assert_eq!(
        (second["worker"].as_str(), &second["labels"][0]),
        (Some(other), &format!("name={other}").into())
    );
    // A name replaces the name of an earlier retry.
    let back = pool.buildpool(&["retry", second["job_id"].as_str().unwrap(), "--worker", "w0"]).expect(0);
    let back = back.out().trim().to_owned();
    pool.buildpool(&["wait", &back]).expect(0);
    let back = pool.buildpool(&["job", &back, "--json"]).expect(0).json();
    assert_eq!(
        (back["worker"].as_str(), back["labels"].as_array().map(Vec::len)),
        (Some("w0"), Some(1)),
        "{back}"
    );
    let unknown = pool.buildpool(&["retry", id, "--worker", "nobody"]).expect(125);
    assert!(unknown.err().contains("name=nobody"), "{unknown}");
}
