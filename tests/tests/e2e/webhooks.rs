//! Tests of webhooks, with a receiver on a real socket.

use buildpool_tests::{HttpAnswer, Pool, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

/// Deadline of a delivery on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A received request.
struct Received {
    headers: Vec<String>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let lines = self.headers.iter();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| *found == name)
            .map(|(_, text)| text)
            .unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Reads a request. Returns `None` if it is not complete.
fn request(stream: &mut impl BufRead) -> Option<Received> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        headers.push(line.trim().to_owned());
    }
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Received { headers, body: String::from_utf8(body).ok()? })
}

/// Starts a receiver that answers with these statuses, and with the last one from then on.
fn receiver(statuses: &'static [u16]) -> (String, mpsc::Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook/secret-path", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            // A killed coordinator may have sent a part of a request only.
            let mut stream = BufReader::new(stream.unwrap());
            let Some(request) = request(&mut stream) else { continue };
            let status = statuses[number.min(statuses.len() - 1)];
            number += 1;
            let _gone = write!(stream.get_mut(), "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (url, received)
}

fn call(pool: &Pool, bearer: &str, method: &str, path: &str, body: &Value) -> HttpAnswer {
    let headers = [&*format!("Authorization: Bearer {bearer}"), "Content-Type: application/json"];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    pool.request(method, &format!("/api/v1/{path}"), &headers, &body)
}

/// Starts a pool whose webhooks may reach this machine.
fn pool() -> Pool {
    let mut pool = Pool::start(1);
    let file = pool.data("webhooks.toml");
    std::fs::write(&file, "webhook_private_addresses = true\n").unwrap();
    pool.set_coordinator_arguments(&["--config", file.to_str().unwrap()]);
    pool.restart_coordinator();
    pool.wait_for_workers();
    pool
}

#[test]
fn a_webhook_gets_all_signed_events_also_after_a_failure_and_a_kill() {
    let mut pool = pool();
    let admin = pool.token().to_owned();
    let (url, received) = receiver(&[503, 200]);
    let hook = json!({ "name": "chat", "url": url, "kinds": ["job_state"] });
    let created = call(&pool, &admin, "POST", "webhooks", &hook).expect(201).json();
    assert!(created["secret"].as_str().unwrap().starts_with("whsec_"));
    assert!(!created["url"].as_str().unwrap().contains("secret-path"), "{created}");
    let job = call(&pool, &admin, "POST", "jobs", &json!({ "command": "false" })).expect(201).json();

    let refused = received.recv_timeout(PATIENCE).unwrap();
    let (id, first) = (refused.header("webhook-id").to_owned(), refused.json());
    assert_eq!((&first["type"], &first["data"]["state"]), (&json!("job_state"), &json!("queued")));
    assert_eq!(first["data"]["job_id"], job["job_id"]);
    assert!(refused.header("webhook-signature").starts_with("v1,"));
    assert!(refused.header("webhook-timestamp").parse::<u64>().is_ok());
    pool.restart_coordinator();

    // A delivery that the kill interrupted comes twice, with the same id.
    let mut states = BTreeMap::new();
    while states.len() < 4 {
        let delivery = received.recv_timeout(PATIENCE).unwrap();
        let state = delivery.json()["data"]["state"].as_str().unwrap().to_owned();
        states.insert(delivery.header("webhook-id").to_owned(), state);
    }
    assert_eq!(states[&id], "queued", "the refused one came again");
    let mut states: Vec<String> = states.into_values().collect();
    states.sort();
    assert_eq!(states, ["done", "preparing", "queued", "running"]);
    let listed = wait_for("an empty queue", || {
        let listed = call(&pool, &admin, "GET", "webhooks", &Value::Null).expect(200).json();
        (listed["webhooks"][0]["queued"] == 0).then_some(listed)
    });
    assert_eq!(listed["webhooks"][0]["secret"], Value::Null, "{listed}");

    let path = format!("webhooks/{}", created["id"].as_str().unwrap());
    let dead = call(&pool, &admin, "GET", &format!("{path}/dead_letters"), &Value::Null).expect(200).json();
    assert_eq!(dead["dead_letters"], json!([]));
    call(&pool, &admin, "DELETE", &path, &Value::Null).expect(204);
    call(&pool, &admin, "DELETE", &path, &Value::Null).expect(404);
    let audit = call(&pool, &admin, "GET", "audit", &Value::Null).expect(200).json().to_string();
    assert!(audit.contains("webhook_create") && audit.contains("webhook_delete"), "{audit}");
    assert!(!audit.contains("secret-path"), "{audit}");
}

#[test]
fn a_receiver_that_is_gone_ends_its_webhook() {
    let pool = pool();
    let admin = pool.token().to_owned();
    let (url, received) = receiver(&[410]);
    let hook = json!({ "name": "old", "url": url, "kinds": ["worker_drained"] });
    call(&pool, &admin, "POST", "webhooks", &hook).expect(201);
    call(&pool, &admin, "POST", "workers/w0/drain", &Value::Null).expect(200);
    assert_eq!(received.recv_timeout(PATIENCE).unwrap().json()["data"]["name"], "w0");
    let why = wait_for("the end of the webhook", || {
        let listed = call(&pool, &admin, "GET", "webhooks", &Value::Null).expect(200).json();
        listed["webhooks"][0]["disabled"].as_str().map(str::to_owned)
    });
    assert!(why.contains("410"), "{why}");
}

#[test]
fn private_addresses_are_refused_and_only_admins_manage_webhooks() {
    let pool = Pool::start(0);
    let admin = pool.token().to_owned();
    let hook = |url: &str| json!({ "name": "hook", "url": url });
    for url in ["http://example.com/x", "https://127.0.0.1/x", "https://169.254.169.254/latest", "nothing"] {
        let problem = call(&pool, &admin, "POST", "webhooks", &hook(url)).expect(422).json();
        assert!(problem["detail"].as_str().unwrap().contains("https://HOST/PATH"), "{problem}");
    }
    // A name is looked up before each delivery.
    call(&pool, &admin, "POST", "webhooks", &hook("https://localhost:1/x")).expect(201);
    let token = call(&pool, &admin, "POST", "tokens", &json!({ "role": "submit", "name": "ci" })).expect(201);
    let ci = token.json()["token"].as_str().unwrap().to_owned();
    call(&pool, &ci, "GET", "webhooks", &Value::Null).expect(403);
    call(&pool, &ci, "POST", "webhooks", &hook("https://example.com/")).expect(403);
    call(&pool, &admin, "POST", "jobs", &json!({ "command": "true" })).expect(201);
    wait_for("a refused address", || {
        pool.log_text("coordinator").contains("localhost has no public address").then_some(())
    });
}
