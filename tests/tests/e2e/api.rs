//! Tests of the HTTP API, over the network. tests/conformance checks it by its OpenAPI document.

use buildpool_tests::{HttpAnswer, Pool, wait_for};
use serde_json::{Value, json};

/// An id of no job.
const UNKNOWN: &str = "01a204df-0000-7000-8000-000000000000";

fn call(pool: &Pool, method: &str, path: &str, body: &Value) -> HttpAnswer {
    let bearer = format!("Authorization: Bearer {}", pool.token());
    send(pool, method, path, &[&bearer, "Content-Type: application/json"], body)
}

fn send(pool: &Pool, method: &str, path: &str, headers: &[&str], body: &Value) -> HttpAnswer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    pool.request(method, &format!("/api/v1/{path}"), headers, &body)
}

fn get(pool: &Pool, path: &str) -> Value {
    call(pool, "GET", path, &Value::Null).expect(200).json()
}

/// Submits a job and returns its id.
fn submit(pool: &Pool, job: &Value) -> String {
    let created = call(pool, "POST", "jobs", job).expect(201);
    let id = created.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(created.header("location"), Some(format!("/api/v1/jobs/{id}").as_str()));
    id
}

#[test]
fn a_script_submits_a_job_and_reads_its_result_log_and_artifact() {
    let pool = Pool::start(1);
    let text = "echo out; echo 'a.c:1:2: error: no' >&2; printf 0123456789 >kept; exit 3";
    let id = submit(&pool, &json!({ "command": text, "artifacts": ["kept"], "env": { "A": "1" } }));
    let done = get(&pool, &format!("jobs/{id}?wait_secs=60"));
    assert_eq!(
        (&done["state"], &done["verdict"], &done["exit_code"]),
        (&json!("done"), &json!("failed"), &json!(3))
    );
    let shown = pool.buildpool(&["job", &id, "--json"]).expect(0).json();
    assert_eq!(done, shown, "the API and the command line show the same");

    let findings = get(&pool, &format!("jobs/{id}/findings"));
    let finding = &findings["tier_1_findings"][0];
    assert_eq!(finding["location"]["file"], "a.c");
    let one = get(&pool, &format!("jobs/{id}/findings/{}", finding["id"].as_str().unwrap()));
    assert_eq!(one["message"], finding["message"]);

    let logs = get(&pool, &format!("jobs/{id}/logs"));
    assert_eq!((&logs["stdout"], &logs["stderr"]), (&json!("out\n"), &json!("a.c:1:2: error: no\n")));
    let bearer = format!("Authorization: Bearer {}", pool.token());
    let path = format!("jobs/{id}/logs?stream=stdout");
    let plain = send(&pool, "GET", &path, &[&bearer, "Accept: text/plain"], &Value::Null).expect(200);
    assert_eq!(plain.body, "out\n");
    let lines = submit(&pool, &json!({"command": ["seq", "6"]}));
    get(&pool, &format!("jobs/{lines}?wait_secs=60"));
    let tail = |query: &str, accept: &str| {
        send(&pool, "GET", &format!("jobs/{lines}/logs?{query}"), &[&bearer, accept], &Value::Null)
    };
    let plain = tail("tail=2", "Accept: text/plain").expect(200);
    assert_eq!(plain.body, "5\n6\n", "exactly as many lines, though one chunk has more");
    let events = tail("tail=2", "Accept: text/event-stream").expect(200).body;
    assert!(events.contains(r#""offset":8,"text":"5\n6\n""#), "{events}");
    let refused = tail("tail=2&offset=1", "Accept: application/json").expect(422).body;
    assert!(refused.contains("tail, cursor, offset"), "{refused}");
    let events =
        send(&pool, "GET", &format!("jobs/{id}/logs"), &[&bearer, "Accept: text/event-stream"], &Value::Null);
    let events = events.expect(200).body;
    assert!(events.contains("event: output\n") && events.contains(r#""text":"out\n""#), "{events}");
    assert!(events.contains("event: end\n"), "{events}");
    // The id of an event continues after it.
    let first = events.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let last = format!("Last-Event-ID: {first}");
    let headers = [&*bearer, "Accept: text/event-stream", &*last];
    let rest = send(&pool, "GET", &format!("jobs/{id}/logs"), &headers, &Value::Null).expect(200).body;
    assert_eq!(
        rest.matches("event: output\n").count(),
        events.matches("event: output\n").count() - 1,
        "{rest}"
    );

    let artifacts = get(&pool, &format!("jobs/{id}/artifacts"));
    assert_eq!(artifacts["artifacts"][0]["path"], "kept");
    let path = format!("jobs/{id}/artifacts/kept");
    let part = send(&pool, "GET", &path, &[&bearer, "Range: bytes=2-4"], &Value::Null).expect(206);
    assert_eq!((&*part.body, part.header("content-disposition")), ("234", Some("attachment")));
    assert_eq!(call(&pool, "GET", &path, &Value::Null).expect(200).body, "0123456789");
    // An unknown unit, several ranges and a malformed one select the whole artifact (RFC 9110, 14.2).
    let ignored = ["lines=1-2", "bytes=0-1,4-5", "bytes=x", "bytes=-", "bytes=5-2", "bytes=00-3"];
    for range in ignored.map(|range| format!("Range: {range}")) {
        let whole = send(&pool, "GET", &path, &[&bearer, &range], &Value::Null).expect(200);
        assert_eq!(whole.body, "0123456789", "{range}");
    }
    let beyond = send(&pool, "GET", &path, &[&bearer, "Range: bytes=99-"], &Value::Null).expect(416);
    assert_eq!(beyond.header("content-range"), Some("bytes */10"));
    let detail = beyond.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("range: `bytes=99-`: the artifact has 10 bytes; valid is "), "{detail}");
}

#[test]
fn an_error_names_the_field_its_value_and_the_valid_values() {
    let pool = Pool::start(1);
    for (method, path, body, expected) in [
        ("GET", "jobs?limit=abc", Value::Null, "limit: `abc`: valid is a whole number from 1 to 1000"),
        ("GET", "audit?limit=abc", Value::Null, "limit: `abc`: valid is a whole number from 1 to 1000"),
        ("DELETE", "tokens/nope", Value::Null, "id: `nope`: "),
        (
            "POST",
            "jobs",
            json!({ "command": "true", "timeout_secs": -4 }),
            "timeout_secs: `-4`: valid is a whole number from 1 to 604800",
        ),
    ] {
        let refused = call(&pool, method, path, &body).expect(400).json();
        assert!(refused["detail"].as_str().unwrap().starts_with(expected), "{refused}");
    }
}

#[test]
fn a_wrong_place_in_a_log_is_refused_in_each_form() {
    let pool = Pool::start(1);
    let id = submit(&pool, &json!({ "command": "true" }));
    get(&pool, &format!("jobs/{id}?wait_secs=60"));
    let bearer = format!("Authorization: Bearer {}", pool.token());
    for accept in ["application/json", "text/plain", "text/event-stream"] {
        let headers = [&*bearer, &*format!("Accept: {accept}"), "Last-Event-ID: else"];
        let refused = send(&pool, "GET", &format!("jobs/{id}/logs"), &headers, &Value::Null).expect(400);
        assert!(refused.json()["detail"].as_str().unwrap().starts_with("last-event-id: "), "{accept}");
    }
    send(&pool, "GET", &format!("jobs/{id}/logs"), &[&bearer, "Last-Event-ID:"], &Value::Null).expect(200);
}

#[test]
fn a_list_is_not_taken_for_the_fields_of_an_object() {
    let pool = Pool::start(1);
    let refused = call(&pool, "POST", "jobs", &json!(["true"])).expect(400);
    assert!(refused.json()["detail"].as_str().unwrap().starts_with("body: it is a list"), "{}", refused.body);
}

#[test]
fn an_idempotency_key_makes_one_job_of_repeated_requests() {
    let pool = Pool::start(1);
    let bearer = format!("Authorization: Bearer {}", pool.token());
    let headers = [&*bearer, "Content-Type: application/json", "Idempotency-Key: nightly-1"];
    // JSON Schema counts 60.0 as an integer, and some clients write integers so.
    let job = json!({ "command": ["true"], "timeout_secs": 60.0 });
    let first = send(&pool, "POST", "jobs", &headers, &job).expect(201).json();
    let second = send(&pool, "POST", "jobs", &headers, &job).expect(200).json();
    assert_eq!(first["job_id"], second["job_id"]);
    let id = first["job_id"].as_str().unwrap();
    let other = |body: &Value| {
        let refused = send(&pool, "POST", "jobs", &headers, body).expect(422).json();
        refused["detail"].as_str().unwrap().to_owned()
    };
    let different = [json!({ "command": ["false"] }), json!({ "command": ["true"], "stdin": "x" })];
    for (body, field) in different.iter().zip(["command", "stdin"]) {
        let expected =
            format!("idempotency-key: `nightly-1` belongs to job {id}, which has another `{field}`");
        assert!(other(body).starts_with(&expected), "{}", other(body));
    }
    get(&pool, &format!("jobs/{id}?wait_secs=60"));
    assert!(other(&different[0]).contains("another `command`"), "also of a job that is done");
    send(&pool, "POST", "jobs", &headers, &job).expect(200);
    assert_eq!(get(&pool, "jobs")["jobs"].as_array().map(Vec::len), Some(1));
    for invalid in ["", "two\twords", "two words"] {
        let header = format!("Idempotency-Key: {invalid}");
        send(&pool, "POST", "jobs", &[&*bearer, "Content-Type: application/json", &header], &job).expect(400);
    }
    let again = [&*bearer, "Idempotency-Key: again-1"];
    let retry = format!("jobs/{id}/retry");
    let new = send(&pool, "POST", &retry, &again, &Value::Null).expect(201).json();
    assert_ne!(new["job_id"], first["job_id"]);
    let same = send(&pool, "POST", &retry, &again, &Value::Null).expect(200).json();
    assert_eq!(same["job_id"], new["job_id"]);
}

#[test]
fn a_list_is_filtered_and_goes_on_after_its_cursor() {
    let pool = Pool::start(1);
    let ids: Vec<String> =
        (0..5).map(|index| submit(&pool, &json!({ "command": ["echo", format!("job-{index}")] }))).collect();
    for id in &ids {
        get(&pool, &format!("jobs/{id}?wait_secs=60"));
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&pool, &format!("jobs?limit=2{cursor}"));
        let jobs = page["jobs"].as_array().unwrap();
        seen.extend(jobs.iter().map(|job| job["job_id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, ids, "each job once, in order");
    let of = |filter: &str| get(&pool, &format!("jobs?{filter}"))["jobs"].as_array().unwrap().len();
    assert_eq!((of("command=job-3"), of("worker=w0"), of("worker=w1")), (1, 5, 0));
    assert_eq!((of("state=queued"), of("verdict=passed"), of("submitter=nobody")), (0, 5, 0));
    assert_eq!((of("since=2020-01-01T00:00:00Z"), of("until=2020-01-01T00:00:00Z")), (5, 0));
    // All ids begin with the same digits of the time.
    let ambiguous = call(&pool, "GET", &format!("jobs/{}", &ids[0][..4]), &Value::Null).expect(409).json();
    assert_eq!(ambiguous["code"], "ambiguous");
}

#[test]
fn refused_requests_are_problem_details() {
    let pool = Pool::start(1);
    let refused = |method: &str, path: &str, headers: &[&str], body: &str, status: u16| {
        let answer = pool.request(method, &format!("/api/v1/{path}"), headers, body).expect(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path}");
        let problem = answer.json();
        assert_eq!(problem["status"], status, "{path}");
        problem["detail"].as_str().unwrap().to_owned()
    };
    let bearer = &*format!("Authorization: Bearer {}", pool.token());
    let worker = &*format!("Authorization: Bearer {}", pool.worker_token());
    let json = "Content-Type: application/json";
    assert!(refused("GET", "jobs", &[], "", 401).contains("token"));
    assert!(refused("GET", "jobs", &[worker], "", 403).contains("role worker"));
    assert!(refused("GET", "nothing", &[bearer], "", 404).contains("/api/v1/nothing"));
    assert!(refused("PUT", "jobs", &[bearer], "", 405).contains("PUT"));
    assert!(refused("GET", &format!("jobs/{UNKNOWN}"), &[bearer], "", 404).contains(UNKNOWN));
    assert!(refused("GET", "jobs?limit=x", &[bearer], "", 400).contains("limit"));
    assert!(refused("GET", "jobs?limit=0", &[bearer], "", 400).contains("1 to 1000"));
    assert!(refused("GET", "jobs?since=today", &[bearer], "", 400).contains("RFC 3339"));
    assert!(refused("GET", "jobs?colour=red", &[bearer], "", 400).contains("colour"));
    assert!(refused("POST", "jobs", &[bearer, json], "{\"command\": 3}", 400).contains("body"));
    assert!(refused("POST", "jobs", &[bearer, json], "{\"command\": \"\"}", 400).contains("is empty"));
    assert!(refused("POST", "jobs", &[bearer], "{}", 415).contains("application/json"));
    assert!(
        refused("POST", "jobs", &[bearer, json, "Origin: https://elsewhere.example"], "{}", 403)
            .contains("origin")
    );
    let missing = "{\"command\": \"true\", \"snapshot\": \"0123456789012345678901234567890123456789\"}";
    assert!(refused("POST", "jobs", &[bearer, json], missing, 422).contains("not stored"));
    let outside = "{\"command\": \"true\", \"artifacts\": [\"../key\"]}";
    assert!(refused("POST", "jobs", &[bearer, json], outside, 422).contains("leads out"));
    let nowhere = json!({ "command": "true", "labels": ["os=plan9"] });
    let rejected = call(&pool, "POST", "jobs", &nowhere).expect(201).json();
    assert_eq!(rejected["verdict"], "rejected", "{rejected}");
    assert!(rejected["cause"]["text"].as_str().unwrap().contains("os=plan9"), "{rejected}");
}

#[test]
fn a_reader_changes_nothing_and_an_admin_manages_tokens_and_workers() {
    let pool = Pool::start(1);
    let made = call(&pool, "POST", "tokens", &json!({ "role": "read", "name": "watch" })).expect(201).json();
    let reader = format!("Authorization: Bearer {}", made["token"].as_str().unwrap());
    let as_reader = |method: &str, path: &str, body: &Value| {
        send(&pool, method, path, &[&reader, "Content-Type: application/json"], body)
    };
    as_reader("GET", "workers", &Value::Null).expect(200);
    as_reader("POST", "jobs", &json!({ "command": "true" })).expect(403);
    as_reader("POST", "workers/w0/drain", &Value::Null).expect(403);
    as_reader("GET", "audit", &Value::Null).expect(403);

    assert_eq!(call(&pool, "POST", "workers/w0/drain", &Value::Null).expect(200).json()["draining"], true);
    call(&pool, "POST", "workers/w0/resume", &Value::Null).expect(200);
    // The worker may have reported that it drains, and reports again when it has the order to resume.
    wait_for("the worker accepts jobs", || {
        (get(&pool, "workers")["workers"][0]["draining"] == false).then_some(())
    });
    call(&pool, "POST", "workers/nobody/drain", &Value::Null).expect(404);
    assert_eq!(get(&pool, "health")["ready"], true);
    let audit = get(&pool, "audit");
    let actions: Vec<&str> =
        audit["entries"].as_array().unwrap().iter().filter_map(|entry| entry["action"].as_str()).collect();
    assert!(actions.contains(&"drain") && actions.contains(&"token_create"), "{actions:?}");

    call(&pool, "DELETE", &format!("tokens/{}", made["id"].as_str().unwrap()), &Value::Null).expect(204);
    as_reader("GET", "workers", &Value::Null).expect(401);
}

#[test]
fn a_build_has_one_manifest() {
    let pool = Pool::start(1);
    let several = ["run", "--no-snapshot", "--several", "--output", "json", "--", "true", ":::", "false"];
    let build = pool.buildpool(&several).expect(1).json();
    let id = build["request_id"].as_str().unwrap();
    let manifest = get(&pool, &format!("builds/{id}"));
    assert_eq!(
        (&manifest["build"]["status"], &manifest["build"]["passed_jobs_count"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(manifest["build"]["failed_jobs"][0], build["jobs"][1]["job_id"]);
}

#[test]
fn a_job_reads_its_standard_input_once_also_after_a_repeated_request_and_a_retry() {
    let pool = Pool::start(1);
    let bearer = format!("Authorization: Bearer {}", pool.token());
    let headers = [&*bearer, "Content-Type: application/json", "Idempotency-Key: input-1"];
    let text = "a line\n".repeat(20_000);
    let job = json!({ "command": "wc -c", "stdin": text });
    let first = send(&pool, "POST", "jobs", &headers, &job).expect(201).json();
    let second = send(&pool, "POST", "jobs", &headers, &job).expect(200).json();
    assert_eq!(first["job_id"], second["job_id"]);
    let inputs = pool.data("coordinator").join("stdin");
    // The input of the repeated request is removed in the background: a file and its end stay.
    wait_for("one input", || (std::fs::read_dir(&inputs).unwrap().count() == 2).then_some(()));
    let id = first["job_id"].as_str().unwrap();
    get(&pool, &format!("jobs/{id}?wait_secs=60"));
    let counted =
        |id: &str| get(&pool, &format!("jobs/{id}/logs"))["stdout"].as_str().unwrap().trim().to_owned();
    assert_eq!(counted(id), text.len().to_string());
    let retry = call(&pool, "POST", &format!("jobs/{id}/retry"), &Value::Null).expect(201).json();
    let again = retry["job_id"].as_str().unwrap();
    get(&pool, &format!("jobs/{again}?wait_secs=60"));
    assert_eq!(counted(again), text.len().to_string());

    let long = json!({ "command": "true", "stdin": "x".repeat((1 << 20) + 1) });
    call(&pool, "POST", "jobs", &long).expect(400);
    let reader =
        call(&pool, "POST", "tokens", &json!({ "role": "read", "name": "watch" })).expect(201).json();
    let reader = format!("Authorization: Bearer {}", reader["token"].as_str().unwrap());
    send(&pool, "POST", "jobs", &[&reader, "Content-Type: application/json"], &job).expect(403);
}

#[test]
fn a_drained_and_a_resumed_worker_are_answered_in_their_new_state() {
    let pool = Pool::start(1);
    for _ in 0..3 {
        assert_eq!(
            call(&pool, "POST", "workers/w0/drain", &Value::Null).expect(200).json()["draining"],
            true
        );
        assert_eq!(
            call(&pool, "POST", "workers/w0/resume", &Value::Null).expect(200).json()["draining"],
            false
        );
    }
}

#[test]
fn a_refused_one_time_code_is_counted_and_audited() {
    let pool = Pool::start(0);
    let refused = || {
        let (_, metrics) = pool.get("/metrics", Some(pool.token()));
        let line = metrics.lines().find_map(|line| line.strip_prefix("buildpool_connections_refused_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let before = refused();
    let problem =
        send(&pool, "POST", "sign-in", &["Content-Type: application/json"], &json!({"code": "guess"}));
    assert_eq!(problem.expect(401).json()["code"], "unauthorized");
    assert_eq!(refused(), before + 1);
    let audit = get(&pool, "audit").to_string();
    assert!(audit.contains("one-time code that is not valid") && !audit.contains("guess"), "{audit}");
}
