//! Tests of the gateway process: it writes only protocol messages, ends with its client, and leaves
//! no processes behind.

use buildpool_tests::mcp::{Gateway, MODERN, meta};
use buildpool_tests::{Place, signal, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::process::Stdio;

fn initialize() -> Value {
    json!({"protocolVersion": "2099-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
}

fn discover() -> Value {
    json!({"_meta": meta("t", &json!({}))})
}

fn running_job(place: &Place, text: &str) -> String {
    wait_for("the job runs", || {
        let jobs = place.buildpool(&["jobs", "--json"]).json();
        let found = jobs.as_array()?.iter().find(|job| {
            job["state"] == "running" && job["command"].as_str().is_some_and(|command| command.contains(text))
        })?;
        Some(found["job_id"].as_str()?.to_owned())
    })
}

#[test]
fn it_ends_well_whenever_its_client_goes() {
    let place = Place::new();
    let start = || Gateway::start(&mut place.command(["mcp"]));

    let mut silent = start();
    let mut probed = start();
    let id = probed.begin("server/discover", discover());
    let found = probed.response(id);
    assert!(found["result"]["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)), "{found}");
    let mut both = start();
    let id = both.begin("server/discover", discover());
    both.response(id);
    // An unknown revision is answered with the newest one that has a handshake.
    assert_eq!(both.ask("initialize", initialize())["protocolVersion"], "2025-11-25");
    let mut future = start();
    let mut asked = discover();
    asked["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let id = future.begin("server/discover", asked);
    let error = future.response(id)["error"].clone();
    assert_eq!(error["code"], -32022, "{error}");
    assert!(error["data"]["supported"].is_array(), "{error}");
    let mut noisy = start();
    noisy.send(&json!("no message"));
    noisy.send(&json!({}));
    for server in [&mut silent, &mut probed, &mut both, &mut future, &mut noisy] {
        server.close_input();
        assert_eq!(server.end().code(), Some(0));
        let rest = server.rest();
        assert!(rest.iter().all(|message| message["jsonrpc"] == "2.0"), "{rest:?}");
    }
    let mut told = start();
    told.ask("initialize", initialize());
    assert!(signal(told.pid(), Signal::SIGTERM));
    assert_eq!(told.end().code(), Some(0));
}

#[test]
fn a_broken_line_is_answered_and_the_connection_goes_on() {
    let place = Place::new();
    let mut gateway = Gateway::start(&mut place.command(["mcp"]));
    gateway.send_text("{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\"");
    let answer = gateway.response(Value::Null);
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    gateway.ask("initialize", initialize());
    gateway.send_text("no JSON at all");
    assert_eq!(gateway.response(Value::Null)["error"]["code"], -32700);
    gateway.send_text("[]");
    assert_eq!(gateway.response(Value::Null)["error"]["code"], -32600);
    assert!(gateway.ask("tools/list", json!({}))["tools"].is_array());
}

#[test]
fn what_is_not_declared_is_no_method() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    for method in
        ["resources/subscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel"]
    {
        let params = json!({
            "uri": "x:y", "name": "x", "level": "info",
            "ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"},
        });
        let id = gateway.begin(method, params);
        assert_eq!(gateway.response(id)["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn its_jobs_go_on_without_it() {
    let place = Place::new();
    for (how, text) in ["end of input", "SIGTERM", "SIGKILL"].into_iter().zip(["one", "two", "three"]) {
        let command = format!("until [ -e go-{text} ]; do sleep 0.05; done; echo {text} > done-{text}");
        let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
        gateway.begin_call("run_command", json!({"command": command}));
        let job = running_job(&place, &format!("go-{text}"));
        let code = match how {
            "end of input" => {
                gateway.close_input();
                gateway.end().code()
            }
            "SIGTERM" => {
                signal(gateway.pid(), Signal::SIGTERM);
                gateway.end().code()
            }
            _ => {
                signal(gateway.pid(), Signal::SIGKILL);
                gateway.end();
                Some(0)
            }
        };
        assert_eq!(code, Some(0), "{how}");
        std::fs::write(place.file(format!("go-{text}")), "").unwrap();
        wait_until("the job outlives its gateway", || place.file(format!("done-{text}")).exists());
        let ended = place.buildpool(&["job", &job, "--wait", "30s", "--json"]).json();
        assert_eq!(ended["verdict"], "passed", "{how}");
    }
}

#[test]
fn a_gateway_whose_client_was_killed_is_gone_too() {
    let place = Place::new();
    // The client holds the gateway's input and is killed.
    let mut client = std::process::Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn().unwrap();
    let input = client.stdout.take().unwrap();
    let mut gateway =
        place.command(["mcp"]).stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    let ended = wait_for("the gateway ends", || gateway.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}
