//! Tests of the pool's events, over the network.

use buildpool_tests::{Pool, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

/// Coordinator kills in the test of the resumption. `BUILDPOOL_KILLS` sets another number.
const KILLS: usize = 5;

/// Deadline of an event on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn api(pool: &Pool, bearer: &str, method: &str, path: &str, body: &Value) -> Value {
    let headers = [&*format!("Authorization: Bearer {bearer}"), "Content-Type: application/json"];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = pool.request(method, &format!("/api/v1/{path}"), &headers, &body);
    assert!((200..300).contains(&answer.status), "{path}: {} {}", answer.status, answer.body);
    if answer.body.is_empty() { Value::Null } else { answer.json() }
}

/// Returns the events of an answer, as JSON.
fn events(pool: &Pool, bearer: &str, query: &str) -> Vec<Value> {
    let headers = [&*format!("Authorization: Bearer {bearer}")];
    let path = format!("/api/v1/events?follow=false&{query}");
    let answer = pool.request("GET", &path, &headers, "").expect(200);
    let lines = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Follows the events after `last` until the connection ends. Returns the id to continue with.
fn follow(address: SocketAddr, bearer: &str, mut last: u64, seen: &mpsc::Sender<Value>) -> u64 {
    let Ok(mut stream) = TcpStream::connect(address) else { return last };
    let request = format!(
        "GET /api/v1/events HTTP/1.0\r\nHost: pool\r\nAuthorization: Bearer {bearer}\r\nLast-Event-ID: {last}\r\n\r\n"
    );
    if stream.write_all(request.as_bytes()).is_err() {
        return last;
    }
    let mut data = None;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(text) = line.strip_prefix("data: ") {
            data = serde_json::from_str::<Value>(text).ok();
        }
        // An empty line ends an event; a connection may break before it.
        if line.is_empty()
            && let Some(event) = data.take()
        {
            last = event["id"].as_u64().unwrap();
            if seen.send(event).is_err() {
                break;
            }
        }
    }
    last
}

#[test]
fn a_reader_that_resumes_misses_and_repeats_no_event_over_kills_of_the_coordinator() {
    let kills = std::env::var("BUILDPOOL_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut pool = Pool::start(1);
    let (address, bearer) = (pool.address(), pool.token().to_owned());
    let (seen, arrived) = mpsc::channel();
    let (restarted, starts) = mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let mut last = 0;
        for () in starts {
            last = follow(address, &bearer, last, &seen);
        }
    });
    restarted.send(()).unwrap();
    let mut all: Vec<Value> = Vec::new();
    let mut jobs = Vec::new();
    let token = pool.token().to_owned();
    for round in 0..kills {
        for number in 0..3 {
            let job = json!({ "command": ["echo", format!("{round}-{number}")] });
            jobs.push(api(&pool, &token, "POST", "jobs", &job)["job_id"].as_str().unwrap().to_owned());
        }
        // The kill comes at another moment of the jobs in each round.
        all.extend((0..=round % 7).map(|_| arrived.recv_timeout(PATIENCE).unwrap()));
        pool.restart_coordinator();
        restarted.send(()).unwrap();
    }
    let is_done = |event: &Value, job: &String| event["state"] == "done" && event["job_id"] == **job;
    while !jobs.iter().all(|job| all.iter().any(|event| is_done(event, job))) {
        all.push(arrived.recv_timeout(PATIENCE).unwrap());
    }
    let ids: Vec<u64> = all.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (1..=ids.len() as u64).collect();
    assert_eq!(ids, expected, "each event once, in order, without a gap");
    let mut states: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in all.iter().filter(|event| event["kind"] == "job_state") {
        states.entry(event["job_id"].as_str().unwrap()).or_default().push(event["state"].as_str().unwrap());
    }
    for job in &jobs {
        let of_job = &states[&**job];
        assert_eq!((of_job.first(), of_job.last()), (Some(&"queued"), Some(&"done")), "{of_job:?}");
        assert_eq!(of_job.iter().filter(|state| **state == "done").count(), 1, "{of_job:?}");
    }
    pool.kill_coordinator();
    drop(restarted);
    reader.join().unwrap();
}

#[test]
fn events_are_filtered_by_kind_and_by_what_a_token_may_read() {
    let pool = Pool::start(1);
    let admin = pool.token().to_owned();
    let created = |role: &str, name: &str, only: Value| {
        let token =
            api(&pool, &admin, "POST", "tokens", &json!({ "role": role, "name": name, "only": only }));
        token["token"].as_str().unwrap().to_owned()
    };
    let watch = created("read", "watch", json!({}));
    let own = created("submit", "own", json!({ "reads": "own" }));
    // A job that ends at once may be done before its worker reports that it runs.
    let directory = tempfile::tempdir().unwrap();
    let may_end = directory.path().join("may-end");
    let command = format!("until test -e {}; do sleep 0.01; done; false", may_end.display());
    let job = api(&pool, &admin, "POST", "jobs", &json!({ "command": command }));
    let job = job["job_id"].as_str().unwrap();
    wait_for("the event that the job runs", || {
        events(&pool, &watch, "after=0").iter().any(|event| event["state"] == "running").then_some(())
    });
    std::fs::write(&may_end, "").unwrap();
    api(&pool, &admin, "GET", &format!("jobs/{job}?wait_secs=60"), &Value::Null);
    api(&pool, &admin, "POST", "workers/w0/drain", &Value::Null);

    let all = events(&pool, &watch, "after=0");
    let kinds = |events: &[Value]| -> Vec<String> {
        let name = |event: &Value| match event["state"].as_str() {
            Some(state) => state.to_owned(),
            None => event["kind"].as_str().unwrap().to_owned(),
        };
        events.iter().map(name).collect()
    };
    assert_eq!(kinds(&all), ["worker_joined", "queued", "preparing", "running", "done", "worker_drained"]);
    let done = &all[4];
    assert_eq!(
        (&done["job_id"], &done["verdict"], &done["exit_code"], &done["worker"]),
        (&json!(job), &json!("failed"), &json!(1), &json!("w0"))
    );
    assert_eq!(kinds(&events(&pool, &watch, "after=0&kinds=worker_joined,worker_drained")).len(), 2);
    assert_eq!(kinds(&events(&pool, &watch, "after=4")), ["done", "worker_drained"]);
    assert_eq!(kinds(&events(&pool, &own, "after=0")), ["worker_joined", "worker_drained"]);
    assert_eq!(events(&pool, &watch, ""), [] as [Value; 0], "without a place, only new events are sent");

    let bearer = format!("Authorization: Bearer {watch}");
    let refused = |query: &str, status: u16| {
        let answer = pool.request("GET", &format!("/api/v1/events?{query}"), &[&bearer], "").expect(status);
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    assert!(refused("kinds=job", 400).contains("job_state, build_done"));
    assert!(refused("after=9999", 404).contains("9999"));
}

#[test]
fn the_end_of_a_build_is_one_event() {
    let pool = Pool::start(1);
    let several = ["run", "--no-snapshot", "--several", "--output", "json", "--", "true", ":::", "false"];
    let build = pool.buildpool(&several).expect(1).json();
    let admin = pool.token().to_owned();
    let found = wait_for("the event of the build", || {
        events(&pool, &admin, "after=0&kinds=build_done").into_iter().last()
    });
    assert_eq!((&found["request_id"], &found["status"]), (&build["request_id"], &json!("failed")));
    assert_eq!((&found["jobs"], &found["passed_jobs_count"]), (&json!(2), &json!(1)));
}

#[test]
fn the_command_prints_each_event_once_over_a_kill_of_the_coordinator() {
    let mut pool = Pool::start(1);
    let mut command = pool.command(&["events", "--json", "--after", "0"]);
    let mut program = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (seen, arrived) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let events = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        events.take_while(|event| seen.send(event.clone()).is_ok()).count()
    });
    let token = pool.token().to_owned();
    let mut printed: Vec<Value> = Vec::new();
    for round in 0..2 {
        let job = json!({ "command": ["echo", format!("{round}")] });
        let id = api(&pool, &token, "POST", "jobs", &job)["job_id"].as_str().unwrap().to_owned();
        loop {
            let event = arrived.recv_timeout(PATIENCE).unwrap();
            let is_end = event["job_id"] == *id && event["state"] == "done";
            printed.push(event);
            if is_end {
                break;
            }
        }
        pool.restart_coordinator();
        pool.wait_for_workers();
    }
    program.kill().unwrap();
    program.wait().unwrap();
    drop(arrived);
    reader.join().unwrap();
    let stored = events(&pool, &token, "after=0");
    assert_eq!(printed, stored[..printed.len()], "each event once, in order");
    let wrong =
        pool.command(&["events", "--token", "bp_00000000000000000000000000000000_none"]).output().unwrap();
    assert!(!wrong.status.success(), "{wrong:?}");
}
