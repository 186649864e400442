//! Tests of calls longer than their client's timeout, and of jobs that outlive clients, gateways
//! and pools.

mod cancelling;

use buildpool_tests::mcp::{Gateway, Listening, meta, structured};
use buildpool_tests::{Place, Pool, wait_for, wait_until};
use serde_json::{Value, json};

/// Returns a command that ends when the file exists. The file is outside of the project, because a
/// call does not attach to a job older than a changed file.
fn until(place: &Place, file: &str) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", place.home().join(file).display())
}

fn touch(place: &Place, name: &str) {
    std::fs::write(place.home().join(name), "").unwrap();
}

/// Returns the job of a command once it runs.
fn running(place: &Place, text: &str) -> String {
    wait_for("the job runs", || {
        let jobs = place.buildpool(&["jobs", "--json"]).json();
        let found = jobs.as_array()?.iter().find(|job| {
            job["state"] == "running" && job["command"].as_str().is_some_and(|command| command.contains(text))
        })?;
        Some(found["job_id"].as_str()?.to_owned())
    })
}

fn state(place: &Place, job: &str) -> Value {
    place.buildpool(&["job", job, "--json"]).json()["state"].clone()
}

#[test]
fn who_waits_no_longer_gets_the_job_and_what_to_call() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let command = until(&place, "go");
    let started = gateway.call("run_command", json!({"command": command, "wait_secs": 0}));
    assert_eq!(started["verdict"], Value::Null, "{started}");
    let id = started["job_id"].as_str().unwrap();
    let next: Vec<&str> = started["next"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // 50 seconds is the default for an unknown client.
    assert_eq!(next[0], format!("get_job {{\"job_id\":\"{id}\",\"wait_secs\":50}}"));
    // An identical call during the run attaches to the same job.
    let twin = gateway.call("run_command", json!({"command": command, "wait_secs": 0}));
    assert_eq!((&twin["job_id"], &twin["reattached"]), (&json!(id), &json!(true)));
    let waiting = gateway.begin_call("get_job", json!({"job_id": id, "wait_secs": 50}));
    touch(&place, "go");
    let ended = structured(gateway.response(waiting)["result"].take());
    assert_eq!(ended["verdict"], "passed", "{ended}");
    // The result was delivered, so the next identical call starts a new job.
    let anew = gateway.call("run_command", json!({"command": command}));
    assert_ne!(anew["job_id"], json!(id));
    assert_eq!(anew["verdict"], "passed");

    let mut claude = Gateway::connect(&mut place.command(["mcp"]), "claude-code");
    let slow = claude.call("run_command", json!({"command": until(&place, "never"), "wait_secs": 0}));
    assert!(slow["next"][0].as_str().unwrap().contains("\"wait_secs\":170"), "{slow}");
    let mut told = Gateway::connect(&mut place.command(["mcp", "--wait", "1s"]), "claude-code");
    let running = told.call("run_command", json!({"command": until(&place, "never"), "wait_secs": 600}));
    assert_eq!((&running["state"], &running["reattached"]), (&json!("running"), &json!(true)), "{running}");
    let cancelled = told.call("cancel_job", json!({"job_id": running["job_id"], "reason": "enough"}));
    assert_eq!(cancelled["verdict"], "cancelled");
}

#[test]
fn a_call_that_differs_is_no_earlier_one() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let command = format!("{}; echo A=$A; touch out.txt", until(&place, "go"));
    let with = |more: Value| {
        let mut arguments = json!({"command": command, "verbosity": "full"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let calls = [
        json!({"env": {"A": "1"}}),
        json!({"env": {"A": "2"}}),
        json!({"env": {"A": "1"}, "timeout_secs": 3599}),
        json!({"env": {"A": "1"}, "artifacts": ["out.txt"]}),
    ];
    let mut jobs = Vec::new();
    for more in &calls {
        let mut first = with(more.clone());
        first["wait_secs"] = json!(0);
        let started = gateway.call("run_command", first.clone());
        assert_eq!(started["reattached"], Value::Null, "{started}");
        let again = gateway.call("run_command", first);
        assert_eq!((&again["job_id"], &again["reattached"]), (&started["job_id"], &json!(true)), "{again}");
        jobs.push(started["job_id"].clone());
    }
    touch(&place, "go");
    for (job, more) in jobs.iter().zip(&calls) {
        let result = gateway.result("get_job", json!({"job_id": job, "wait_secs": 50, "verbosity": "full"}));
        let answer = &result["structuredContent"];
        let said = format!("A={}", more["env"]["A"].as_str().unwrap());
        assert!(answer["stdout"].as_str().is_some_and(|text| text.trim() == said), "{said}: {answer}");
        assert_eq!(answer["artifacts"].is_array(), more.get("artifacts").is_some(), "{answer}");
    }
}

#[test]
fn a_build_that_is_found_again_is_asked_for_by_its_own_name() {
    let place = Place::new();
    let mut gateway = Gateway::start(&mut place.command(["mcp"]));
    let mut ask = |method: &str, mut params: Value, tasks: bool| {
        let capabilities =
            if tasks { json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}) } else { json!({}) };
        params["_meta"] = meta("t", &capabilities);
        let id = gateway.begin(method, params);
        gateway.response(id)["result"].take()
    };
    let run = |command: &str, more: Value| {
        let mut arguments = json!({"command": command, "on": [[], []], "wait_secs": 0});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": "run_command", "arguments": arguments})
    };
    let get = |build: &Value| json!({"name": "get_job", "arguments": {"job_id": build}});
    for more in [json!({"on": [["os"], []]}), json!({"client_request_id": "r"})] {
        let call = run(&until(&place, "go"), more.clone());
        let first = structured(ask("tools/call", call.clone(), false));
        let again = structured(ask("tools/call", call.clone(), false));
        assert_eq!(
            (&again["request_id"], &again["reattached"]),
            (&first["request_id"], &json!(true)),
            "{again}"
        );
        let task = ask("tools/call", call, true);
        assert_eq!(task["taskId"], first["request_id"], "{task}");
        let found = structured(ask("tools/call", get(&first["request_id"]), false));
        assert_eq!(found["jobs"].as_array().map(Vec::len), Some(2), "{found}");
        assert_eq!(ask("tasks/get", json!({"taskId": first["request_id"]}), true)["status"], "working");
    }
    // No single build contains exactly the jobs of several calls, so the answer names the jobs.
    let mixed = run(&until(&place, "go"), json!({"on": [["os"], [], ["os", "arch"]]}));
    for tasks in [false, true] {
        let answer = structured(ask("tools/call", mixed.clone(), tasks));
        assert_eq!((&answer["request_id"], &answer["reattached"]), (&Value::Null, &json!(true)), "{answer}");
        assert!(answer["next"][0].as_str().unwrap().starts_with("get_job"), "{answer}");
    }
    touch(&place, "go");
}

#[test]
fn a_request_id_used_for_another_command_says_which_one_ran() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let first = gateway.call("run_command", json!({"command": "echo one", "client_request_id": "r"}));
    let same = gateway.call("run_command", json!({"command": "echo one", "client_request_id": "r"}));
    assert_eq!((&same["job_id"], &same["note"]), (&first["job_id"], &json!(null)), "{same}");
    let result = gateway.result("run_command", json!({"command": "echo two", "client_request_id": "r"}));
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(!text.contains("earlier equal call"), "{text}");
    let other = structured(result);
    assert_eq!((&other["job_id"], &other["reattached"]), (&first["job_id"], &json!(true)), "{other}");
    let note = other["note"].as_str().unwrap();
    assert!(note.contains("`echo one`") && note.contains("`echo two` was not run"), "{note}");
    assert!(text.contains(note), "{text}");
}

#[test]
fn progress_tells_live_findings_and_ends_with_the_answer() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let command = format!(
        "for i in 1 2 3; do echo \"src/a$i.c:3:5: error: boom $i\" >&2; done; {}; {}; exit 1",
        until(&place, "one"),
        until(&place, "two")
    );
    let call = json!({
        "name": "run_command",
        "arguments": {"command": command},
        "_meta": {"progressToken": "token-7"},
    });
    let id = gateway.begin("tools/call", call);
    let has_found =
        |heard: &Value| heard["params"]["message"].as_str().is_some_and(|message| message.contains("so far"));
    while !has_found(&gateway.notification()) {}
    touch(&place, "one");
    touch(&place, "two");
    let answer = structured(gateway.response(id)["result"].take());
    assert_eq!(answer["verdict"], "failed");
    // The ping makes earlier messages arrive first. A `list_changed` notification may arrive at any
    // time.
    let told = |gateway: &mut Gateway| -> Vec<Value> {
        gateway.ask("ping", json!({}));
        let all = gateway.notifications.iter();
        all.filter(|one| one["method"] == "notifications/progress").map(|one| one["params"].clone()).collect()
    };
    let at_the_answer = gateway.notifications.len();
    let heard = told(&mut gateway);
    let late = &gateway.notifications[at_the_answer..];
    assert!(
        late.iter().all(|one| one["method"] != "notifications/progress"),
        "progress after the answer: {late:?}"
    );
    assert!(heard.iter().all(|one| one["progressToken"] == "token-7"), "{heard:?}");
    let numbers: Vec<f64> = heard.iter().filter_map(|one| one["progress"].as_f64()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] > 0.9), "at most one a second: {numbers:?}");
    // A call without a progress token gets no notifications.
    gateway.call("run_command", json!({"command": "sleep 1.5; echo done"}));
    assert_eq!(told(&mut gateway).len(), heard.len());
}

#[test]
fn another_gateway_finds_the_job_of_one_that_died() {
    let place = Place::new();
    let arguments = json!({"command": until(&place, "go")});
    let mut first = Gateway::connect(&mut place.command(["mcp"]), "t");
    first.begin_call("run_command", arguments.clone());
    let job = running(&place, "/go ");
    drop(first);
    let mut second = Gateway::connect(&mut place.command(["mcp"]), "t");
    let again = second.begin_call("run_command", arguments);
    touch(&place, "go");
    let answer = structured(second.response(again)["result"].take());
    assert_eq!(answer["job_id"], json!(job));
    assert_eq!((&answer["reattached"], &answer["verdict"]), (&json!(true), &json!("passed")));
}

#[test]
fn a_call_outlives_the_coordinator() {
    let mut pool = Pool::start(1);
    let mut gateway = Gateway::connect(&mut pool.command(&["mcp"]), "t");
    let command = until(pool.place(), "go");
    let id = gateway.begin_call("run_command", json!({"command": command}));
    let job = running(pool.place(), "until");
    pool.restart_coordinator();
    touch(pool.place(), "go");
    let answer = structured(gateway.response(id)["result"].take());
    assert_eq!((&answer["job_id"], &answer["verdict"]), (&json!(job), &json!("passed")));
    assert_eq!(gateway.call("get_job", json!({"job_id": job}))["attempt"], 1);
}

#[test]
fn a_pool_that_goes_away_keeps_no_call_beyond_its_time() {
    let mut pool = Pool::start(1);
    let mut gateway = Gateway::connect(&mut pool.command(&["mcp"]), "t");
    let command = until(pool.place(), "go");
    let id = gateway.begin_call("run_command", json!({"command": command, "wait_secs": 8}));
    let job = running(pool.place(), "until");
    pool.kill_coordinator();
    // The pool would be waited for much longer. The answer contains the last known state of the
    // job.
    let answer = structured(gateway.response(id)["result"].take());
    assert_eq!((&answer["job_id"], &answer["verdict"]), (&json!(job), &Value::Null), "{answer}");
    assert_ne!(answer["state"], "done", "{answer}");
    assert!(answer["next"][0].as_str().unwrap().contains(&job), "{answer}");
    touch(pool.place(), "go");
}

#[test]
fn a_pool_that_says_nothing_is_not_waited_for_in_silence() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut place = Place::new();
    place.set("BUILDPOOL_URL", format!("ws://{}", listener.local_addr().unwrap()));
    place.set("BUILDPOOL_TOKEN", "bp_x_y");
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let artifact = json!({"uri": "buildpool://jobs/01a2/artifacts/x"});
    // The maximum number of calls: cancelled calls free their slots.
    for _ in 0..256 {
        let id = gateway.begin("resources/read", artifact.clone());
        gateway.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
        );
    }
    gateway.ask("ping", json!({}));
    let read = gateway.begin("resources/read", artifact);
    for (tool, arguments) in
        [("run_command", json!({"command": "true", "wait_secs": 1})), ("get_job", json!({"job_id": "01a2"}))]
    {
        let call = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}});
        let id = gateway.begin("tools/call", call);
        let is_told = |heard: &Value| {
            heard["params"]["progressToken"] == tool
                && heard["params"]["message"].as_str().is_some_and(|text| text.contains("the pool"))
        };
        while !is_told(&gateway.notification()) {}
        let result = gateway.response(id)["result"].take();
        assert_eq!(result["isError"], true, "{result}");
        // The gateway does not know if such a job exists.
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(!text.contains("01a2") && !text.contains("goes on, get_job"), "{text}");
    }
    let error = gateway.response(read)["error"].take();
    assert!(error["message"].as_str().is_some_and(|text| text.contains("did not answer in time")), "{error}");
}

#[test]
fn a_caller_whose_connection_to_the_pool_is_another_one_finds_its_job() {
    let place = Place::new();
    place.buildpool(&["run", "--", "true"]).expect(0);
    // Two tokens of one name: one caller over two connections to the pool.
    let bearer = || {
        let made = place.buildpool(&["token", "create", "--role", "submit", "--name", "agent", "--json"]);
        format!("Bearer {}", made.expect(0).json()["token"].as_str().unwrap())
    };
    let gateway = Listening::start(&mut place.command(["mcp", "--http", "127.0.0.1:0"]));
    let call = |bearer: &str| {
        // Files that the job itself writes do not prevent an attach if the caller has seen
        // their earlier state.
        let command = format!("touch made; {}", until(&place, "go"));
        let call = json!({"name": "run_command", "arguments": {"command": command, "wait_secs": 0}});
        let reply = gateway.modern("/mcp", &[("authorization", bearer)], "tools/call", call);
        reply.message()["result"]["structuredContent"].take()
    };
    let first = call(&bearer());
    wait_until("the job has written", || place.file("made").exists());
    let again = call(&bearer());
    touch(&place, "go");
    assert!(first["job_id"].is_string(), "{first}");
    assert_eq!((&again["job_id"], &again["reattached"]), (&first["job_id"], &json!(true)), "{again}");
}

#[test]
fn who_waits_for_a_job_hears_what_it_finds() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let error = "echo 'src/a.c:3:5: error: boom' >&2; sleep 0.2";
    let command = format!("until [ -e {} ]; do {error}; done; exit 1", place.home().join("go").display());
    let job = gateway.call("run_command", json!({"command": command, "wait_secs": 0, "verbosity": "full"}))["job_id"].clone();
    let call = json!({
        "name": "get_job",
        "arguments": {"job_id": job, "wait_secs": 50},
        "_meta": {"progressToken": 1},
    });
    let id = gateway.begin("tools/call", call);
    let has_found =
        |heard: &Value| heard["params"]["message"].as_str().is_some_and(|message| message.contains("so far"));
    while !has_found(&gateway.notification()) {}
    touch(&place, "go");
    let answer = structured(gateway.response(id)["result"].take());
    // The answer has the verbosity that its submitter requested.
    assert!(answer["filtered_output"].as_str().is_some_and(|text| text.contains("boom")), "{answer}");
    assert!(answer["usage"].is_object(), "{answer}");
}

#[test]
fn a_task_is_the_job_and_outlives_the_gateway() {
    let place = Place::new();
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let ask = |gateway: &mut Gateway, capabilities: &Value, method: &str, mut params: Value| {
        params["_meta"] = meta("t", capabilities);
        let id = gateway.begin(method, params);
        gateway.response(id)
    };
    let run = |command: &str| json!({"name": "run_command", "arguments": {"command": command, "verbosity": "full"}});
    let mut gateway = Gateway::start(&mut place.command(["mcp"]));
    let created =
        ask(&mut gateway, &tasks, "tools/call", run(&format!("{}; exit 4", until(&place, "go"))))["result"]
            .take();
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    let id = created["taskId"].as_str().unwrap().to_owned();
    assert_eq!(state(&place, &id), "running");
    drop(gateway);

    let mut gateway = Gateway::start(&mut place.command(["mcp"]));
    let get = |gateway: &mut Gateway| ask(gateway, &tasks, "tasks/get", json!({"taskId": &id}));
    assert_eq!(get(&mut gateway)["result"]["status"], "working");
    touch(&place, "go");
    // A failed build is a completed task.
    let done = wait_for("the task is done", || {
        Some(get(&mut gateway)["result"].take()).filter(|task| task["status"] == "completed")
    });
    let answer = structured(done["result"].clone());
    assert_eq!((&answer["job_id"], &answer["exit_code"]), (&json!(id), &json!(4)));
    assert!(answer["usage"].is_object(), "as much as the call asked for: {answer}");
    // A prefix of the id names the same task, and the answer contains the whole id. A long command
    // is truncated to a line.
    let part = ask(&mut gateway, &tasks, "tasks/get", json!({"taskId": &id[..30]}))["result"].take();
    assert_eq!(part["taskId"], json!(id), "{part}");
    let long = run(&format!("true {}; {}", "x".repeat(9_000), until(&place, "later")));
    let long = ask(&mut gateway, &tasks, "tools/call", long)["result"].take();
    assert!(long["statusMessage"].as_str().unwrap().len() < 220, "{long}");
    // The result also notes a request id that belongs to another command.
    let with_id = |command: &str| {
        let mut call = run(&format!("{command}; {}", until(&place, "later")));
        call["arguments"]["client_request_id"] = json!("r");
        call
    };
    ask(&mut gateway, &tasks, "tools/call", with_id("true"));
    let other = ask(&mut gateway, &tasks, "tools/call", with_id("echo two"))["result"]["taskId"].take();
    touch(&place, "later");
    let done = wait_for("the task is done", || {
        let task = ask(&mut gateway, &tasks, "tasks/get", json!({"taskId": other}));
        Some(task["result"].clone()).filter(|task| task["status"] == "completed")
    });
    let note = structured(done["result"].clone())["note"].take();
    assert!(note.as_str().is_some_and(|note| note.contains("echo two")), "{note}");
    // A client without support for tasks gets no task and may not request one.
    let without = ask(&mut gateway, &json!({}), "tasks/get", json!({"taskId": &id}));
    assert_eq!(without["error"]["code"], -32021, "{without}");
    let unknown = ask(&mut gateway, &tasks, "tasks/get", json!({"taskId": "nothing"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let created = ask(&mut gateway, &tasks, "tools/call", run(&until(&place, "never")))["result"].take();
    let id = created["taskId"].as_str().unwrap();
    ask(&mut gateway, &tasks, "tasks/cancel", json!({"taskId": id}));
    wait_until("the task is cancelled", || {
        ask(&mut gateway, &tasks, "tasks/get", json!({"taskId": id}))["result"]["status"] == "cancelled"
    });
    // The older revision has a different method with this name.
    let mut older = Gateway::connect(&mut place.command(["mcp"]), "t");
    let id = older.begin("tasks/get", json!({"taskId": "x"}));
    assert!(older.response(id).get("error").is_some());
}

#[test]
fn what_a_running_job_writes_makes_an_equal_call_no_other_one_and_what_others_change_does() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    std::fs::write(place.file("source"), "old").unwrap();
    let arguments =
        json!({"command": format!("echo x > written.log; {}", until(&place, "go")), "wait_secs": 0});
    let job = gateway.call("run_command", arguments.clone())["job_id"].clone();
    wait_until("it has written", || place.file("written.log").exists());
    let again = gateway.call("run_command", arguments.clone());
    assert_eq!((&again["job_id"], &again["reattached"]), (&job, &json!(true)), "{again}");
    let note = again["note"].as_str().unwrap();
    assert!(note.contains("written.log") && note.contains("call again when it is over"), "{note}");
    std::fs::write(place.file("source"), "new").unwrap();
    let other = gateway.call("run_command", arguments);
    assert_ne!(other["job_id"], job, "{other}");
    touch(&place, "go");
}
