//! Tests that the parser limits each number, text and list of a message.

use buildpool_protocol::client_link::{FromClient, ToClient};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::frame::decode_control;
use buildpool_protocol::limiter;
use buildpool_protocol::worker_link::FromWorker;
use serde_json::{Value, json};

const ID: &str = "01990000-0000-7000-8000-000000000001";

fn lease() -> Value {
    json!({"attempt": {"job": ID, "number": 1}, "epoch": 1})
}

fn complete() -> Value {
    let seal = json!({"length": 1, "blake3": "0".repeat(64)});
    json!({"type": "complete", "lease": lease(), "outcome": {
        "ending": {"exited": {"code": 0}},
        "acted": {"cancelled": {"by": "x", "reason": "y"}},
        "started_at_ms": 1, "finished_at_ms": 2, "duration": 3, "seals": [seal, seal], "log_length": 4,
        "usage": {"user_secs": 1.0, "system_secs": 1.0, "max_rss_bytes": 1},
        "survivors": [{"pid": 1, "command": "x"}],
        "leaked": [{"pid": 1, "command": "x"}],
        "gaps": [{"stream": "stdout", "offset": 1, "bytes": 1, "reason": "x"}],
        "artifacts": [{"path": "a", "bytes": 1, "blake3": "0".repeat(64)}],
        "root": "/x",
        "evidence": {
            "crash_reports": [{"process_name": "x", "file_path": "x", "top_frames": ["x"], "message": "x"}],
            "crash_report_absence": "x",
            "test_reports": [{"path": "x", "format": "junit", "passed": 1, "failed": 1, "skipped": 1,
                "expected_failures": 1, "cases": [{"name": "x", "status": "failed", "duration_secs": 1.0,
                "messages": ["x"], "location": {"file": "x"}, "runs": 1, "flaky": false}], "cases_omitted": 1,
                "unfinished": ["x"], "flaky": 1, "runs": 1,
                "passed_tests": [{"name": "x", "duration_secs": 1.0}]}],
            "issues": [{"path": "x", "severity": "ERROR", "message": "x"}],
            "memory": {"oom_killed": true, "limit_bytes": 1, "peak_bytes": 1, "source": "cgroup",
                "kills_nearby": 1},
            "notes": ["x"], "unread": "x",
        },
    }})
}

fn register() -> Value {
    json!({
        "type": "register", "protocol": {"min": 1, "max": 1}, "worker": ID, "boot": ID, "name": "w",
        "version": "1", "slots": 1, "labels": {"os": "linux"}, "resources": {"simulator": 1},
        "held": [{"lease": lease(), "state": "running", "log_length": 1, "started_at_ms": 1,
            "output_held": {"held_for": 1, "reason": "x"}}],
        "condition": {"quarantined": "x", "disk_free_bytes": 1, "disk_total_bytes": 1, "warm_projects": ["x"]},
    })
}

/// Paths of all numbers and texts of a message, except ids, tags and values that are only compared.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    const COMPARED: [&str; 10] = [
        "/type",
        "/job",
        "/epoch",
        "/worker",
        "/boot",
        "/protocol",
        "/state",
        "/stream",
        "/status",
        "/severity",
    ];
    if COMPARED.iter().any(|ending| path.ends_with(ending)) {
        return;
    }
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, inner)| leaves(inner, &format!("{path}/{key}"), found))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, inner)| leaves(inner, &format!("{path}/{at}"), found));
        }
        Value::Number(_) | Value::String(_) => found.push(path.to_owned()),
        Value::Null | Value::Bool(_) => {}
    }
}

#[test]
fn no_number_and_no_text_of_a_worker_is_without_a_limit() {
    for message in [complete(), register()] {
        let mut parsed: FromWorker = serde_json::from_value(message.clone()).expect("it is well formed");
        limiter::check(&mut parsed).expect("it is within the limits");
        let mut paths = Vec::new();
        leaves(&message, "", &mut paths);
        assert!(paths.len() > 10);
        for path in paths {
            let mut hostile = message.clone();
            let leaf = hostile.pointer_mut(&path).expect("it was found there");
            let values = match leaf {
                Value::String(_) => vec![json!("x".repeat(30_000))],
                Value::Number(number) if number.is_f64() => vec![json!(1e300), json!(-1.0)],
                _ => vec![json!(u64::MAX)],
            };
            for value in values {
                *hostile.pointer_mut(&path).expect("as before") = value.clone();
                let error = decode_control::<FromWorker>(&hostile.to_string()).expect_err(&path);
                assert!(matches!(error.code, ErrorCode::Invalid | ErrorCode::Malformed), "{path}: {error:?}");
                assert!(error.message.len() < 500, "{path}: the reason is as long as the fault");
            }
        }
    }
}

#[test]
fn labels_together_have_a_limit_too() {
    let mut message = register();
    let labels: serde_json::Map<_, _> =
        (0..60).map(|number| (format!("l{number}"), json!("x".repeat(1_000)))).collect();
    message["labels"] = labels.into();
    let error = decode_control::<FromWorker>(&message.to_string()).expect_err("60 kB of labels");
    assert!(error.message.contains("60") && error.message.contains("16384"), "{}", error.message);
}

#[test]
fn a_clients_field_over_its_limit_is_an_answer_to_its_request() {
    let long = "x".repeat(100_000);
    let spec = json!({"command": {"argv": ["x"]}, "source": "empty"});
    let with = |field: &str, value: Value| {
        let mut spec = spec.clone();
        spec[field] = value;
        json!({"type": "submit", "request": 7, "submit": {"job": ID, "spec": spec}})
    };
    for message in [
        json!({"type": "job", "request": 7, "job": long}),
        json!({"type": "cancel", "request": 7, "job": ID, "reason": long}),
        json!({"type": "logs", "request": 7, "query": {"job": ID, "grep": long}}),
        json!({"type": "drain", "request": 7, "worker": long, "draining": true}),
        json!({"type": "token_create", "request": 7, "role": "submit", "name": long}),
        with("project", json!(long)),
        with("selectors", json!([{"key": "os", "value": long}])),
        with("resources", json!({"gpu": u32::MAX})),
        with("reports", json!([long])),
        with("template", json!({"name": "x", "on_success": {"name": "y", "include_regex": long}})),
        with("source", json!({"snapshot": {"id": long, "project": "p", "directory": "", "head": null}})),
        with("source", json!({"in_place": {"directory": long}})),
    ] {
        match *FromClient::decode(&message.to_string()).expect_err("it is over a limit") {
            ToClient::Error { request: Some(7), error } => assert_eq!(error.code, ErrorCode::Invalid),
            other => panic!("{other:?}"),
        }
    }
    let far = json!({"type": "job", "request": 7, "job": ID, "wait": u64::MAX}).to_string();
    let refused = FromClient::decode(&far).expect_err("it is over a limit");
    assert!(matches!(*refused, ToClient::Error { request: None, .. }));
}

#[test]
fn failures_beyond_the_limit_of_a_list_count_as_unread() {
    let shortened = |path: &str, entries: usize, last: Value| {
        let mut message = complete();
        let evidence = message.pointer_mut("/outcome/evidence").expect("evidence");
        *evidence = json!({"crash_reports": [], "test_reports": [], "issues": [], "notes": []});
        let list = evidence.pointer_mut(path).and_then(Value::as_array_mut).expect("a list");
        let harmless = match path {
            "/issues" => json!({"path": "x", "severity": "WARNING", "message": "x"}),
            _ => json!({"path": "x", "format": "junit", "passed": 1, "failed": 0, "skipped": 0,
                "expected_failures": 0, "cases": [], "cases_omitted": 0, "unfinished": []}),
        };
        list.resize(entries - 1, harmless.clone());
        list.push(if last.is_null() { harmless } else { last });
        let mut message: FromWorker = serde_json::from_value(message).expect("a message");
        limiter::shorten(&mut message).expect("it has no long names");
        limiter::check(&mut message).expect("it fits");
        let FromWorker::Complete { outcome, .. } = message else { panic!("another message") };
        outcome.evidence.unread
    };
    let error = json!({"path": "x", "severity": "ERROR", "message": "x"});
    let failed = json!({"path": "x", "format": "junit", "passed": 1, "failed": 1, "skipped": 0,
        "expected_failures": 0, "cases": [], "cases_omitted": 0, "unfinished": []});
    for (path, last) in [("/issues", error), ("/test_reports", failed)] {
        assert_eq!(shortened(path, 10_000, last.clone()), None, "all of them are there");
        assert_eq!(shortened(path, 10_001, Value::Null), None, "{path}: nothing that matters is missing");
        let unread = shortened(path, 10_001, last).expect("a failure is missing");
        assert!(unread.contains("of 10001") && unread.contains("first 10000"), "{path}: {unread}");
    }
}
