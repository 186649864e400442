//! Tests of role `read`, which can read everything and change nothing, and of submit tokens that read
//! only their own jobs.

use buildpool_tests::{Finished, Peer, Pool, PoolBuilder, STRANGER, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

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
    for path in ["/metrics", "/api/v1/jobs", &format!("/api/v1/jobs/{job}/lines")] {
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

fn submit_token(pool: &Pool, name: &str, reads: &str) -> String {
    let words = ["token", "create", "--role", "submit", "--name", name, "--reads", reads];
    pool.buildpool(&words).expect(0).out().trim().to_owned()
}

#[test]
fn a_token_that_reads_own_jobs_finds_no_trace_of_others() {
    let pool = Pool::start(1);
    let (ada, eve) = (submit_token(&pool, "ada", "own"), submit_token(&pool, "eve", "all"));
    let script = "echo made > made.txt; echo 'src/main.c:3:1: error: no such thing' >&2; exit 1";
    let run = |token: &str| -> String {
        let words =
            ["run", "--no-snapshot", "--artifact", "made.txt", "--output", "json", "--", "sh", "-c", script];
        with(&pool, token, &words).expect(1).json()["job_id"].as_str().unwrap().to_owned()
    };
    let (own, other) = (run(&ada), run(&eve));
    let busy = ["run", "--no-snapshot", "--detach", "--", "sleep", "600"];
    let running = with(&pool, &eve, &busy).expect(0).out().trim().to_owned();
    pool.wait_for_state(&running, "running");
    let prefix = &other[..other.len() - 1];
    let target = pool.place().file("out");
    let target = target.to_str().unwrap();
    for reads in [
        &["job", &other][..],
        &["job", prefix],
        &["job", "--explain", &other],
        &["logs", &other],
        &["logs", "--tail", "1", &other],
        &["cancel", &running],
        &["retry", &other],
        &["wait", &other],
        &["artifacts", &other, "-o", target],
        &["job", &running],
    ] {
        let refused = with(&pool, &ada, reads);
        assert!(refused.code() != 0 && refused.out().is_empty(), "{reads:?}: {refused}");
        assert!(refused.err().contains("reads its own jobs only"), "{reads:?}: {refused}");
        assert!(!refused.err().contains("eve"), "{reads:?}: {refused}");
    }
    assert_eq!(pool.job(&running)["state"], "running");
    for path in ["", "/lines", "/matches?grep=x", "/logs"].map(|part| format!("/api/v1/jobs/{other}{part}")) {
        assert!(pool.get(&path, Some(&ada)).0.contains("404"), "{path}");
        assert!(pool.get(&path, Some(&eve)).0.contains("200"), "{path}");
    }
    let (_, page) = pool.get("/api/v1/jobs", Some(&ada));
    for listed in [
        page,
        with(&pool, &ada, &["jobs", "--json"]).expect(0).out(),
        with(&pool, &ada, &["workers", "--json"]).expect(0).out(),
    ] {
        assert!(!listed.contains(&other) && !listed.contains(&running), "{listed}");
    }
    let listed = with(&pool, &ada, &["jobs", "--json"]).expect(0).json();
    assert_eq!((listed[0]["job_id"].as_str(), listed.as_array().map(Vec::len)), (Some(&*own), Some(1)));
    assert_eq!(with(&pool, &ada, &["workers", "--json"]).expect(0).json()[0]["busy"], 1);
    let refused = with(&pool, &ada, &["jobs", "--submitter", "eve"]).expect(1);
    assert!(refused.err().contains("valid is `ada`"), "{refused}");
    // All of it works for its own job, and for the other's job with a token that reads all.
    for (token, job) in [(&ada, &own), (&eve, &own), (&eve, &other)] {
        assert_eq!(with(&pool, token, &["job", "--json", job]).expect(0).json()["job_id"], **job);
        assert!(with(&pool, token, &["logs", job]).expect(0).err().contains("no such thing"));
        with(&pool, token, &["artifacts", job]).expect(0);
    }
    let tokens = pool.buildpool(&["token", "rotate", "ada"]).expect(0).out();
    assert!(with(&pool, tokens.trim(), &["job", &other]).err().contains("reads its own jobs only"));
    assert!(pool.buildpool(&["token", "list"]).expect(0).out().contains("reads own"));
    let words = ["token", "create", "--role", "read", "--name", "r", "--reads", "own"];
    assert!(pool.buildpool(&words).expect(1).err().contains("`read` can't be restricted"));
}

/// Sends one request and returns the answer.
async fn ask(peer: &mut Peer, request: Value) -> Value {
    peer.send_json(&request).await;
    peer.receive().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_counts_as_delivered_to_the_token_that_submitted_it() {
    let pool = Pool::start(1);
    let tokens = [submit_token(&pool, "ada", "all"), submit_token(&pool, "ada", "all")];
    let mut peers = Vec::new();
    for token in &tokens {
        let mut peer = Peer::dial(pool.address(), "/v1/client", Some(token)).await.unwrap();
        let register = json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "test"});
        assert_eq!(ask(&mut peer, register).await["type"], "registered");
        peers.push(peer);
    }
    let submit = |number: u32| {
        let job = format!("00000000-0000-7000-8000-{number:012}");
        let spec = json!({"command": {"shell": "true"}, "source": "empty"});
        json!({"type": "submit", "request": number, "submit": {"job": job, "spec": spec, "attach": true}})
    };
    let first = ask(&mut peers[0], submit(1)).await["job"].clone();
    let job = json!({"type": "job", "request": 9, "job": first, "wait": 60_000});
    let twin = ask(&mut peers[1], job.clone()).await;
    assert_eq!(twin["result"]["state"], "done", "{twin}");
    let again = ask(&mut peers[0], submit(2)).await;
    assert_eq!((&again["job"], &again["reattached"]), (&first, &json!(true)), "not delivered: {again}");
    let own = ask(&mut peers[0], job).await;
    assert_eq!(own["result"]["state"], "done", "{own}");
    // The delivery is recorded after the answer was sent.
    let anew = async {
        let mut number = 3;
        while ask(&mut peers[0], submit(number)).await["job"] == first {
            number += 1;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), anew).await.expect("a new job after the delivery");
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

/// Returns the paths of members that are null, zero or empty. A job may have them in the fields that it always has, and
/// every count of its tests.
fn void_members(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| {
                let is_void = [Value::Null, json!(0), json!(""), json!([]), json!({})].contains(member);
                let is_kept = ["verdict", "exit_code"].contains(&name.as_str());
                let path = format!("{path}.{name}");
                if is_void && !is_kept { vec![path] } else { void_members(member, &path) }
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(|item| void_members(item, path)).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn json_has_no_empty_members_and_texts_have_short_ids() {
    let pool = Pool::start(1);
    let passed = pool.buildpool(&["run", "--no-snapshot", "--output", "json", "--", "true"]).expect(0).json();
    let run = ["run", "--no-snapshot", "--detach", "--", "sleep", "600"];
    let running = pool.buildpool(&run).expect(0).out().trim().to_owned();
    pool.wait_for_state(&running, "running");
    let passed = passed["job_id"].as_str().unwrap();
    for answer in
        [&["jobs"][..], &["workers"], &["token", "list"], &["logs", passed], &["job", passed], &["audit"]]
    {
        let words: Vec<&str> = answer.iter().copied().chain(["--json"]).collect();
        let answer = pool.buildpool(&words).expect(0).json();
        assert_eq!(void_members(&answer, ""), [""; 0], "{words:?}: {answer}");
    }
    let jobs = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    let members = |job: &Value, names: &[&str]| names.iter().filter(|name| job.get(**name).is_some()).count();
    assert_eq!(members(&jobs[0], &["verdict"]), 1, "{jobs}");
    assert_eq!(members(&jobs[0], &["success", "exit_code"]), 0, "{jobs}");
    assert_eq!((&jobs[1]["success"], &jobs[1]["exit_code"]), (&json!(true), &json!(0)), "{jobs}");
    let listed = pool.buildpool(&["jobs"]).expect(0).out();
    let short = running.replace('-', "")[..12].to_owned();
    assert!(!listed.contains(&running) && listed.contains(&short), "{listed}");
    let cancelled = pool.buildpool(&["cancel", &running]).expect(0).out();
    assert!(!cancelled.contains(&running) && cancelled.contains(&short), "{cancelled}");
}
