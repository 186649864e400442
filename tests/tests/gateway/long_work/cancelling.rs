//! Cancelled requests, waits and jobs.

use super::{running, state, touch, until};
use buildpool_tests::mcp::{Gateway, Listening, structured};
use buildpool_tests::{Place, wait_until};
use serde_json::{Value, json};

#[test]
fn a_cancelled_request_is_over_and_its_job_is_not() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let arguments = json!({"command": until(&place, "go")});
    let id = gateway.begin_call("run_command", arguments.clone());
    let job = running(&place, "/go ");
    gateway.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"},
    }));
    gateway.ask("ping", json!({}));
    let again = gateway.begin_call("run_command", arguments);
    touch(&place, "go");
    let answer = structured(gateway.response(again)["result"].take());
    assert_eq!((&answer["job_id"], &answer["verdict"]), (&json!(job), &json!("passed")));
    let rest = gateway.rest();
    assert!(rest.iter().all(|message| message["id"] != id), "a cancelled request was answered: {rest:?}");
}

#[test]
fn a_request_whose_connection_is_cut_leaves_its_job_running() {
    let place = Place::new();
    let arguments = ["mcp", "--http", "127.0.0.1:0", "--http-auth", "none"];
    let gateway = Listening::start(&mut place.command(arguments));
    let call = json!({"name": "run_command", "arguments": {"command": until(&place, "go")}});
    let connection = gateway.begin_modern("/mcp", &[], "tools/call", call);
    let job = running(&place, "/go ");
    drop(connection);
    let again = gateway.call("/mcp", "run_command", json!({"command": until(&place, "go"), "wait_secs": 0}));
    assert_eq!((&again["job_id"], &again["reattached"]), (&json!(job), &json!(true)), "{again}");
    assert_eq!(state(&place, &job), "running");
    touch(&place, "go");
    assert_eq!(gateway.call("/mcp", "get_job", json!({"job_id": job, "wait_secs": 50}))["verdict"], "passed");
}

#[test]
fn an_end_that_nobody_heard_is_not_delivered() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    // One call is answered before the end, one is cancelled. Both jobs end while no call waits.
    let (early, cut) = (json!({"command": until(&place, "early")}), json!({"command": until(&place, "cut")}));
    let mut impatient = early.clone();
    impatient["wait_secs"] = json!(0);
    let first = gateway.call("run_command", impatient)["job_id"].as_str().unwrap().to_owned();
    let id = gateway.begin_call("run_command", cut.clone());
    let second = running(&place, "/cut ");
    gateway
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    gateway.ask("ping", json!({}));
    for (job, file, arguments) in [(first, "early", early), (second, "cut", cut)] {
        touch(&place, file);
        // The list does not count as delivery of the result.
        wait_until("the job is done", || {
            let jobs = place.buildpool(&["jobs", "--json"]).json();
            jobs.as_array().unwrap().iter().any(|listed| listed["job_id"] == job && listed["state"] == "done")
        });
        let answer = gateway.call("run_command", arguments.clone());
        assert_eq!((&answer["job_id"], &answer["reattached"]), (&json!(job), &json!(true)), "{file}");
        assert_ne!(gateway.call("run_command", arguments)["job_id"], json!(job), "it is delivered now");
    }
}

#[test]
fn a_wait_that_was_cancelled_takes_no_answer() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let arguments = json!({"command": until(&place, "go"), "wait_secs": 0});
    let job = gateway.call("run_command", arguments.clone())["job_id"].clone();
    let wait = json!({
        "name": "get_job",
        "arguments": {"job_id": job, "wait_secs": 50},
        "_meta": {"progressToken": "w"},
    });
    let id = gateway.begin("tools/call", wait);
    // From here on the pool counts a waiting call.
    let is_heard = |heard: &Value| {
        heard["params"]["message"].as_str().is_some_and(|message| message.starts_with("running"))
    };
    while !is_heard(&gateway.notification()) {}
    gateway
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    gateway.ask("ping", json!({}));
    // The pool handles messages in order, so it has processed the cancellation by now.
    gateway.call("worker_status", json!({}));
    touch(&place, "go");
    wait_until("the job is done", || {
        let jobs = place.buildpool(&["jobs", "--json"]).json();
        jobs.as_array().unwrap().iter().any(|listed| listed["job_id"] == job && listed["state"] == "done")
    });
    let again = gateway.call("run_command", arguments);
    assert_eq!((&again["job_id"], &again["reattached"]), (&job, &json!(true)), "{again}");
}

#[test]
fn a_job_that_is_being_cancelled_is_told_so_and_asked_for_anew_runs_anew() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let command = format!("trap '' TERM; {}; :", until(&place, "go"));
    let arguments = json!({"command": command, "wait_secs": 0});
    let job = gateway.call("run_command", arguments.clone())["job_id"].as_str().unwrap().to_owned();
    running(&place, "trap");
    let cancelled = gateway.call("cancel_job", json!({"job_id": job}));
    assert_eq!(cancelled["verdict"], Value::Null, "{cancelled}");
    assert!(cancelled["note"].as_str().unwrap().contains("a cancel is under way"), "{cancelled}");
    let next = cancelled["next"].to_string();
    assert!(next.contains("get_job ") && !next.contains("cancel_job"), "{next}");
    let anew = gateway.call("run_command", arguments);
    assert_ne!(anew["job_id"], json!(job));
    assert_eq!(anew["reattached"], Value::Null, "{anew}");
    touch(&place, "go");
}
