//! Attacks of one token that keeps what all parties share: descriptors, memory, and the attention of the coordinator.

use crate::bad_peers::some_id;
use buildpool_tests::usage::status_bytes;
use buildpool_tests::{Peer, Pool};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

/// Limit on the coordinator's open files in the attack on them.
const DESCRIPTORS: usize = 400;
/// Connections that send a body and do not end it.
const BODIES: usize = 100;
/// Length of such a body: almost the largest that is valid.
const BODY_BYTES: usize = (4 << 20) - 100;
/// Time for which such a connection tries to send.
const SEND_FOR: Duration = Duration::from_secs(5);
/// Limit on the growth of the coordinator's memory during it. All bodies together have 400 MiB.
const GROWTH_BYTES_MAX: u64 = 160 << 20;
/// Followers of events that one token may have.
const FOLLOWERS: usize = 64;
/// Connections that each send a long message in many frames.
const FRAGMENTED: usize = 20;
/// Length of such a message. All of them have 70 MB, and 32 MiB of one token's name are received at a time.
const FRAGMENTED_BYTES: usize = 3_500_000;
/// Deadline of an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn token(pool: &Pool, name: &str) -> String {
    let words = ["token", "create", "--role", "submit", "--name", name, "--json"];
    pool.buildpool(&words).expect(0).json()["token"].as_str().unwrap().to_owned()
}

/// Checks that a new token can connect, run a job and read its log.
fn check_others(pool: &Pool) {
    let ada = token(pool, "ada");
    let words = ["run", "--no-snapshot", "--token", &ada, "--", "echo", "fine"];
    assert_eq!(pool.buildpool(&words).expect(0).out(), "fine\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_of_waiting_jobs_take_no_descriptors() {
    let pool = Pool::start(1);
    let eve = token(&pool, "eve");
    let limit = format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}");
    let pid = pool.coordinator_pid().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    let mut peer = Peer::dial(pool.address(), "/v1/client", Some(&eve)).await.unwrap();
    peer.send_json(&json!({"type": "register", "protocol": {"min": 1, "max": 2}, "client": "eve"})).await;
    assert_eq!(peer.receive().await.unwrap()["type"], "registered");
    let spec = json!({
        "command": {"argv": ["cat"]}, "source": "empty", "stdin": {}, "wait_for_worker": 3_600_000,
        "selectors": [{"key": "nowhere"}],
    });
    for request in 1..=2 * DESCRIPTORS {
        let submit = json!({"job": some_id(), "spec": spec});
        peer.send_json(&json!({"type": "submit", "request": request, "submit": submit})).await;
        while let Some(answer) = peer.receive_within(PATIENCE).await {
            assert_ne!(answer["type"], "error", "{answer}");
            if answer["type"] == "stdin" && answer["request"] == request {
                break;
            }
        }
    }
    tokio::task::block_in_place(|| check_others(&pool));
}

/// Sends a body without its last bytes. Returns the connection.
fn send_unfinished(pool: &Pool, bearer: &str) -> JoinHandle<TcpStream> {
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: pool\r\nAuthorization: Bearer {bearer}\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    );
    let address = pool.address();
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(SEND_FOR)).unwrap();
        let body = [head.as_bytes(), &vec![b' '; BODY_BYTES - 10]].concat();
        // The coordinator need not read all of it.
        let _unread = stream.write_all(&body);
        stream
    })
}

#[test]
fn bodies_that_never_end_take_little_memory_and_delay_only_their_token() {
    let pool = Pool::start(1);
    let eve = token(&pool, "eve");
    let quiet = status_bytes(pool.coordinator_pid(), "VmRSS").unwrap();
    let senders: Vec<_> = (0..BODIES).map(|_| send_unfinished(&pool, &eve)).collect();
    let held: Vec<TcpStream> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    let grown = status_bytes(pool.coordinator_pid(), "VmRSS").unwrap().saturating_sub(quiet);
    assert!(grown < GROWTH_BYTES_MAX, "{BODIES} unfinished bodies take {grown} bytes of memory");
    let ada = format!("Authorization: Bearer {}", token(&pool, "ada"));
    let headers = [&*ada, "Content-Type: application/json"];
    let submitted = pool.request("POST", "/api/v1/jobs", &headers, r#"{"command": ["true"]}"#).expect(201);
    assert_eq!(submitted.json()["submitter"], "ada");
    drop(held);
}

#[test]
fn a_token_has_a_limit_on_followers_of_events() {
    let pool = Pool::start(1);
    let eve = token(&pool, "eve");
    let follow = |bearer: &str| {
        let mut stream = TcpStream::connect(pool.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET /api/v1/events HTTP/1.1\r\nHost: pool\r\nAuthorization: Bearer {bearer}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (String::from_utf8_lossy(&status[9..]).into_owned(), stream)
    };
    let held: Vec<_> = (0..FOLLOWERS).map(|_| follow(&eve)).collect();
    assert!(held.iter().all(|(status, _)| status == "200"));
    assert_eq!(follow(&eve).0, "429");
    assert_eq!(follow(&token(&pool, "ada")).0, "200");
    check_others(&pool);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_many_frames_do_not_wait_for_each_other() {
    let pool = Pool::start(1);
    let eve = token(&pool, "eve");
    // JSON may end with spaces.
    let text = format!("{}{}", json!({"type": "workers", "request": 9}), " ".repeat(FRAGMENTED_BYTES));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..FRAGMENTED {
        let mut peer = Peer::dial(pool.address(), "/v1/client", Some(&eve)).await.unwrap();
        let register = json!({"type": "register", "protocol": {"min": 1, "max": 2}, "client": "eve"});
        peer.send_json(&register).await;
        assert_eq!(peer.receive().await.unwrap()["type"], "registered");
        let text = text.clone();
        senders.spawn(async move {
            peer.send_in_frames(&text, FRAGMENTED_BYTES / 16).await;
            peer.receive_within(PATIENCE).await
        });
    }
    while let Some(answer) = senders.join_next().await {
        let answer = answer.unwrap().expect("the message is received");
        assert_eq!(answer["request"], 9, "{answer}");
    }
}
