//! Tests of access control over HTTP.

use buildpool_tests::mcp::{LEGACY, Listening, Reply, meta};
use buildpool_tests::{Place, Pool, PoolBuilder, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn token(pool: &Pool, role: &str, name: &str) -> Value {
    pool.buildpool(&["token", "create", "--role", role, "--name", name, "--json"]).expect(0).json()
}

fn initialize() -> String {
    let hello = json!({
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string()
}

fn tool_names(reply: &Reply) -> Vec<String> {
    let tools = reply.message()["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_holders_of_tokens_are_let_in_and_are_told_what_is_missing() {
    let pool = Pool::start(0);
    let gateway = Listening::start(&mut pool.command(&["mcp", "--http", "127.0.0.1:0"]));
    let submit = token(&pool, "submit", "agent");
    let bearer = |token: &Value| format!("Bearer {}", token["token"].as_str().unwrap());
    let post = |authorization: &str| {
        gateway.http("POST", "/mcp", &[("authorization", authorization)], &initialize())
    };

    for (reply, error) in [
        (gateway.http("POST", "/mcp", &[], &initialize()), None),
        (gateway.http("GET", "/mcp", &[], ""), None),
        (gateway.http("DELETE", "/mcp", &[], ""), None),
        (post("Basic YTpi"), None),
        (post("Bearer bad"), Some("error=\"invalid_token\"")),
        (post("Bearer bp_"), Some("error=\"invalid_token\"")),
        (post("Bearer bp_0_wrong"), Some("error=\"invalid_token\"")),
    ] {
        assert_eq!(reply.status, 401, "{reply:?}");
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer ") && challenge.contains("scope=\"submit\""), "{challenge}");
        assert_eq!(challenge.contains("error="), error.is_some(), "{challenge}");
        assert!(challenge.contains(error.unwrap_or_default()), "{challenge}");
        let url = challenge.split("resource_metadata=\"").nth(1).and_then(|rest| rest.split('"').next());
        let path = url.unwrap().strip_prefix(&format!("http://{}", gateway.address)).unwrap();
        let metadata = gateway.http("GET", path, &[], "").message();
        assert_eq!(metadata["resource"], format!("http://{}/mcp", gateway.address));
        assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
    }
    let refused = post(&bearer(&token(&pool, "worker", "a-worker")));
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.header("www-authenticate").unwrap().contains("insufficient_scope"));
    let welcome = post(&bearer(&submit));
    assert_eq!(welcome.status, 200, "{welcome:?}");

    // The gateway checks the token again as soon as the coordinator revokes it.
    let revoked = submit["id"].as_str().unwrap();
    pool.buildpool(&["token", "revoke", revoked]).expect(0);
    wait_until("a revoked token is refused", || post(&bearer(&submit)).status == 401);
}

#[test]
fn who_was_refused_asks_again_on_the_same_connection() {
    let pool = Pool::start(0);
    let gateway = Listening::start(&mut pool.command(&["mcp", "--http", "127.0.0.1:0"]));
    let body = initialize();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        gateway.address,
        body.len()
    );
    // The result of the race depends on which part of the connection is polled first, so try
    // several times.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(gateway.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // Long enough for an answer that does not wait for the body.
        stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let _ = stream.peek(&mut [0]);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The connection may be closed already. Then there is no further answer below.
        let _ = stream.write_all(format!("{body}{head}{body}").as_bytes());
        let (mut answered, mut buffer) = (String::new(), [0; 4096]);
        let refusals = |answered: &str| answered.matches("HTTP/1.1 401").count();
        while refusals(&answered) < 2 {
            match stream.read(&mut buffer) {
                Ok(length @ 1..) => answered.push_str(std::str::from_utf8(&buffer[..length]).unwrap()),
                _ => break,
            }
        }
        // On a very slow machine the body arrives too late. Then the answer announces the end of
        // the connection.
        let is_said = refusals(&answered) == 1 && answered.contains("connection: close");
        assert!(refusals(&answered) == 2 || is_said, "{answered}");
    }
}

#[test]
fn a_wrong_token_is_a_wrong_token_over_tls_too() {
    let pool = PoolBuilder::default().listen("0.0.0.0:0").start();
    assert!(pool.url().starts_with("wss://"), "{}", pool.url());
    let submit = token(&pool, "submit", "agent");
    let right = submit["token"].as_str().unwrap();
    let (without, _) = right.rsplit_once('_').unwrap();
    let other_coordinator = format!("{without}_{}", "0".repeat(64));
    let wrong = format!("bp_{}_wrong", "0".repeat(32));
    let other_secret = format!("{wrong}_{}", right.rsplit('_').next().unwrap());
    // A gateway with its own token has the coordinator's fingerprint. Without one, only the
    // caller's token contains it.
    for own in [true, false] {
        let mut command = pool.command(&["mcp", "--http", "127.0.0.1:0"]);
        if !own {
            command.env_remove("BUILDPOOL_TOKEN");
        }
        let gateway = Listening::start(&mut command);
        let post = |token: &str| {
            let bearer = format!("Bearer {token}");
            gateway.http("POST", "/mcp", &[("authorization", &bearer)], &initialize())
        };
        for token in [&wrong, &other_secret] {
            let reply = post(token);
            assert_eq!(reply.status, 401, "{own} {token}: {reply:?}");
            let challenge = reply.header("www-authenticate").unwrap();
            assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        }
        assert_eq!(post(&other_coordinator).status, if own { 200 } else { 401 });
        assert_eq!(post(right).status, 200);
    }
}

#[test]
fn a_gateway_without_tokens_warns_that_every_local_user_can_use_it() {
    let place = Place::new();
    let warns = |auth| {
        let arguments = ["mcp", "--http", "127.0.0.1:0", "--http-auth", auth];
        let gateway = Listening::start(&mut place.command(arguments));
        gateway.before.iter().any(|line| line.contains("WARN") && line.contains("every local user"))
    };
    assert!(warns("none"));
    assert!(!warns("token"));
}

#[test]
fn a_body_that_is_no_message_is_answered_as_json_rpc_says() {
    let place = Place::new();
    let arguments = ["mcp", "--http", "127.0.0.1:0", "--http-auth", "none"];
    let gateway = Listening::start(&mut place.command(arguments));
    for (body, code, id) in [
        ("{\"jsonrpc\": \"2.0\", ", -32700, Value::Null),
        ("", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("{\"jsonrpc\": \"1.0\", \"id\": 3, \"method\": \"ping\"}", -32600, json!(3)),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"list_jobs","arguments":[1]}}"#,
            -32602,
            json!(4),
        ),
        (r#"{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":5}}"#, -32602, json!(5)),
    ] {
        let reply = gateway.http("POST", "/mcp", &[], body);
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        let message = reply.message();
        assert_eq!((&message["error"]["code"], &message["id"]), (&json!(code), &id), "{body}");
    }
    for call in [json!({"name": 5, "arguments": {}}), json!({"name": "list_jobs", "arguments": [1]})] {
        let reply = gateway.modern("/mcp", &[], "tools/call", call);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &json!(-32602)), "{reply:?}");
    }
    let text = gateway.http("POST", "/mcp", &[("content-type", "text/plain")], &initialize());
    assert_eq!(text.status, 415, "{text:?}");
    let foreign = gateway.http("POST", "/mcp", &[("origin", "https://evil.example")], "{");
    assert_eq!(foreign.status, 403, "{foreign:?}");
}

#[test]
fn what_a_web_page_elsewhere_could_send_is_refused() {
    let place = Place::new();
    let gateway =
        Listening::start(&mut place.command(["mcp", "--http", "127.0.0.1:0", "--http-auth", "none"]));
    let status = |method: &str, headers: &[(&str, &str)]| {
        let body = if method == "POST" { initialize() } else { String::new() };
        gateway.http(method, "/mcp", headers, &body).status
    };
    for method in ["POST", "GET", "DELETE"] {
        for header in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost.evil.example"),
            ("host", "evil.example"),
            ("host", "127.0.0.1.evil.example:80"),
        ] {
            assert_eq!(status(method, &[header]), 403, "{method} {header:?}");
        }
    }
    for header in
        [("origin", "http://localhost:5173"), ("origin", "http://127.0.0.1:1"), ("host", "localhost:1")]
    {
        assert_eq!(status("POST", &[header]), 200, "{header:?}");
    }
    // The origin is checked before the token. The answer does not even contain the place to get a
    // token.
    let pool = Pool::start(0);
    let guarded = Listening::start(&mut pool.command(&[
        "mcp",
        "--http",
        "127.0.0.1:0",
        "--http-origin",
        "https://app.example",
    ]));
    for method in ["POST", "GET", "DELETE", "OPTIONS", "PUT"] {
        for path in ["/mcp", "/.well-known/oauth-protected-resource/mcp", "/elsewhere"] {
            for header in
                [("origin", "https://evil.example"), ("host", "evil.example"), ("host", "a@localhost")]
            {
                let reply = guarded.http(method, path, &[header], "");
                assert_eq!(reply.status, 403, "{method} {path} {header:?}: {reply:?}");
                assert!(!format!("{reply:?}").contains("http://evil"), "{reply:?}");
            }
        }
    }
    // The browser of an allowed page sends the request and can read the reason of a refusal.
    let page = ("origin", "https://app.example");
    let question = [
        page,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,mcp-protocol-version"),
    ];
    let told = guarded.http("OPTIONS", "/mcp", &question, "");
    assert_eq!(told.status, 204, "{told:?}");
    assert_eq!(told.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(told.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(told.header("access-control-allow-headers").unwrap().contains("mcp-protocol-version"));
    let refused = guarded.http("POST", "/mcp", &[page], &initialize());
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (401, Some("https://app.example"))
    );
    let local = guarded.http("POST", "/mcp", &[("origin", "http://localhost:5173")], &initialize());
    assert_eq!((local.status, local.header("access-control-allow-origin")), (401, None), "{local:?}");
    let allowed =
        ["mcp", "--http", "127.0.0.1:0", "--http-auth", "none", "--http-origin", "https://app.example"];
    let more = [&allowed[..], &["--http-host", "pool.example"]].concat();
    let gateway = Listening::start(&mut place.command(more));
    let status = |header| gateway.http("POST", "/mcp", &[header], &initialize()).status;
    assert_eq!(status(("origin", "https://app.example")), 200);
    assert_eq!(status(("origin", "https://evil.example")), 403);
    assert_eq!(status(("host", "pool.example")), 200);
    assert_eq!(gateway.http("POST", "/mcp", &[], &" ".repeat(5 << 20)).status, 413);
}

#[test]
fn beyond_loopback_nobody_is_let_in_without_a_token_and_none_goes_in_the_clear() {
    let place = Place::new();
    for (arguments, word) in [
        (&["mcp", "--http", "0.0.0.0:0", "--http-auth", "none"][..], "127.0.0.1"),
        (&["mcp", "--http", "[::]:0", "--http-auth", "none"][..], "127.0.0.1"),
        (&["mcp", "--http", "0.0.0.0:0"][..], "127.0.0.1"),
        (&["mcp", "--http", "127.0.0.1:0", "--http-auth", "some"][..], "none"),
    ] {
        let refused = place.buildpool(arguments).expect(2);
        assert!(refused.err().contains(word), "{refused}");
    }
}

#[test]
fn each_project_has_its_url_and_no_other_name_leads_anywhere() {
    let place = Place::new();
    let other = place.home().join("other");
    std::fs::create_dir_all(other.join(".buildpool")).unwrap();
    std::fs::write(other.join(".buildpool/config.yaml"), "templates: {mine: {include_regex: FAIL}}\n")
        .unwrap();
    let project = format!("other={}", other.display());
    let arguments = ["mcp", "--http", "127.0.0.1:0", "--http-auth", "none", "--project", &project];
    let gateway = Listening::start(&mut place.command(arguments));
    let templates = |path: &str| {
        let listed = gateway.modern(path, &[], "tools/list", json!({}));
        assert_eq!(listed.status, 200, "{listed:?}");
        listed.message()["result"]["tools"][0]["inputSchema"]["properties"]["template"].to_string()
    };
    assert!(!templates("/mcp").contains("mine"));
    assert!(templates("/mcp/p/other").contains("mine"));
    for path in ["/mcp/p/unknown", "/mcp/p/", "/mcp/p", "/mcp/p/other/x", "/mcp/x", "/", "/mcp/p/../p/other"]
    {
        let reply = gateway.modern(path, &[], "tools/list", json!({}));
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
    let arguments = json!({"command": "pwd", "verbosity": "full"});
    let where_it_ran = |path: &str| gateway.call(path, "run_command", arguments.clone())["stdout"].clone();
    let real = |path: &std::path::Path| format!("{}\n", path.canonicalize().unwrap().display());
    assert_eq!(where_it_ran("/mcp"), real(&place.work()));
    assert_eq!(where_it_ran("/mcp/p/other"), real(&other));
}

/// Returns a token of the place's pool as a header value.
fn bearer_in(place: &Place) -> String {
    let made = place.buildpool(&["token", "create", "--role", "submit", "--name", "agent", "--json"]);
    format!("Bearer {}", made.expect(0).json()["token"].as_str().unwrap())
}

#[test]
fn commands_stay_in_the_project_whoever_chose_them() {
    let place = Place::new();
    let sub = place.work().join("sub");
    std::fs::create_dir_all(place.work().join(".git")).unwrap();
    std::fs::create_dir_all(&sub).unwrap();
    std::fs::write(place.work().join("Makefile"), "test:\n\ttouch ran\nall:\n\ttouch ran\n").unwrap();
    place.buildpool(&["run", "--", "true"]).expect(0);
    let bearer = bearer_in(&place);
    let arguments = ["mcp", "--http", "127.0.0.1:0", "--directory", sub.to_str().unwrap()];
    let gateway = Listening::start(&mut place.command(arguments));
    let call = |tool: &str, arguments: Value| {
        let call = json!({"name": tool, "arguments": arguments});
        let reply = gateway.modern("/mcp", &[("authorization", &bearer)], "tools/call", call);
        reply.message()["result"].take()
    };
    for configured in [false, true] {
        if configured {
            std::fs::create_dir_all(place.work().join(".buildpool")).unwrap();
            let text = "{test: touch ran, build: touch ran}";
            std::fs::write(place.work().join(".buildpool/config.yaml"), text).unwrap();
        }
        for (tool, arguments) in
            [("run_tests", json!({})), ("build", json!({})), ("run_tests", json!({"cwd": ".."}))]
        {
            let result = call(tool, arguments);
            assert_eq!(result["isError"], true, "{configured} {tool}: {result}");
        }
        assert!(!place.file("ran").exists());
    }
    std::fs::write(sub.join("Makefile"), "test:\n\tpwd\n").unwrap();
    let ran = call("run_tests", json!({"verbosity": "full"}))["structuredContent"].take();
    assert!(ran["stdout"].as_str().is_some_and(|text| text.contains("/sub")), "{ran}");
}

#[test]
fn a_gateway_that_only_reads_offers_and_does_nothing_else() {
    let place = Place::new();
    let arguments = ["mcp", "--http", "127.0.0.1:0", "--http-auth", "none", "--read-only"];
    let gateway = Listening::start(&mut place.command(arguments));
    let listed = tool_names(&gateway.modern("/mcp", &[], "tools/list", json!({})));
    let reading =
        ["get_job", "get_job_logs", "get_finding_details", "list_jobs", "worker_status", "list_templates"];
    assert_eq!(listed, reading);
    for tool in ["run_command", "run_tests", "build", "cancel_job"] {
        let call = json!({"name": tool, "arguments": {"command": "touch ran", "job_id": "x"}});
        let error = gateway.modern("/mcp", &[], "tools/call", call).message()["error"].clone();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains("--read-only"), "{error}");
    }
    assert!(!place.file("ran").exists());
    // A job is also a task.
    let job = place.buildpool(&["run", "--detach", "--", "sleep", "600"]).expect(0).out().trim().to_owned();
    let tasks = meta("t", &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let ask =
        |method: &str| gateway.modern("/mcp", &[], method, json!({"taskId": job, "_meta": tasks})).message();
    let error = ask("tasks/cancel")["error"].clone();
    assert!(error["message"].as_str().is_some_and(|text| text.contains("--read-only")), "{error}");
    assert_eq!(ask("tasks/get")["result"]["status"], "working");
    assert_ne!(place.buildpool(&["job", &job, "--json"]).json()["state"], "done");
    place.buildpool(&["cancel", &job]).expect(0);
}

#[test]
fn a_client_without_a_session_may_ask_any_of_several_gateways() {
    let place = Place::new();
    let arguments = ["mcp", "--http", "127.0.0.1:0", "--http-auth", "none"];
    let one = Listening::start(&mut place.command(arguments));
    let two = Listening::start(&mut place.command(arguments));
    // The size limit also covers the texts other than the tools.
    let listed = one.modern("/mcp", &[], "tools/list", json!({})).message()["result"].to_string();
    assert!(listed.len() <= 8_000, "{} bytes", listed.len());
    let ran = one.call("/mcp", "run_command", json!({"command": "echo here"}));
    let seen = two.call("/mcp", "get_job", json!({"job_id": ran["job_id"]}));
    assert_eq!((&seen["job_id"], &seen["verdict"]), (&ran["job_id"], &json!("passed")));
}

#[test]
fn a_caller_has_so_many_calls_under_way_and_takes_none_from_others() {
    let pool = Pool::start(0);
    let waits = ["run", "--detach", "--no-snapshot", "--wait-for-worker", "1h", "--", "true"];
    let job = pool.buildpool(&waits).expect(0).out().trim().to_owned();
    let gateway = Listening::start(&mut pool.command(&["mcp", "--http", "127.0.0.1:0"]));
    let bearer = |name: &str| format!("Bearer {}", token(&pool, "submit", name)["token"].as_str().unwrap());
    let (one, other) = (bearer("one"), bearer("other"));
    let wait = json!({"name": "get_job", "arguments": {"job_id": job, "wait_secs": 50}});
    let begin = || gateway.begin_modern("/mcp", &[("authorization", &one)], "tools/call", wait.clone());
    let list = |bearer: &str| {
        let call = json!({"name": "list_jobs", "arguments": {}});
        gateway.modern("/mcp", &[("authorization", bearer)], "tools/call", call).message()["result"].clone()
    };
    // After the first check of a token, the gateway needs no further request.
    assert_eq!(list(&one)["structuredContent"]["jobs"][0]["job_id"], job);
    let mut connections: Vec<_> = (0..64).map(|_| begin()).collect();
    // Some of them may have been refused while the token was checked again.
    wait_until("the caller has all its calls", || {
        let has_all = list(&one)["isError"] == true;
        if !has_all {
            connections.push(begin());
        }
        has_all
    });
    assert!(list(&one)["content"][0]["text"].as_str().unwrap().contains("already serves as many calls"));
    assert_eq!(list(&other)["structuredContent"]["jobs"][0]["job_id"], job);
    drop(connections);
    wait_until("calls that are cut are over", || list(&one)["isError"] != true);
}

#[test]
fn a_session_is_its_caller_s_own() {
    let pool = Pool::start(0);
    let gateway = Listening::start(&mut pool.command(&["mcp", "--http", "127.0.0.1:0"]));
    let bearer = |name: &str| format!("Bearer {}", token(&pool, "submit", name)["token"].as_str().unwrap());
    let (one, other) = (bearer("one"), bearer("other"));
    let begun = gateway.http("POST", "/mcp", &[("authorization", &one)], &initialize());
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let ask = |bearer: &str, method: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
        let headers = [
            ("authorization", bearer),
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", LEGACY),
        ];
        gateway.http(method, "/mcp", &headers, if method == "POST" { &body } else { "" }).status
    };
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(ask(&other, method), 404, "{method}");
    }
    assert_eq!(ask(&one, "POST"), 200);
    assert!(ask(&one, "DELETE") < 300);
}
